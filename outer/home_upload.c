/* Uploads: pieces of blobs that no record names yet, in memory. A submission that
 * names a complete one moves it into the store; others expire. */
#include "outer/home_parts.h"

enum { EXPIRE_MS = 120000 };

static home_upload *find_upload(home *h, const pl_hash *hash)
{
    for (home_upload *u = h->uploads; u; u = u->next)
        if (pl_hash_equal(&u->hash, hash))
            return u;
    return NULL;
}

static size_t n_pieces(uint64_t bytes)
{
    return bytes == 0 ? 1 : (size_t)((bytes + PL_WIRE_DATA_MAX - 1) / PL_WIRE_DATA_MAX);
}

static void free_upload(home *h, home_upload *u)
{
    h->staged_bytes -= u->bytes;
    pl_free_aligned(u->data);
    pl_free(u->pieces);
    pl_free(u);
}

static pl_status new_upload(home *h, const pl_hash *hash, uint64_t bytes,
                            home_upload **out)
{
    void *data = NULL;
    if (bytes > h->options->staging_bytes)
        return pl_fail(PL_ERR_CONFIG,
                       "a blob of %llu bytes is more than the home takes (%llu); raise "
                       "store.staging",
                       (unsigned long long)bytes,
                       (unsigned long long)h->options->staging_bytes);
    if (bytes > h->options->staging_bytes - h->staged_bytes)
        return pl_fail(PL_ERR_BUSY,
                       "the home holds %llu bytes of uploads and takes at most %llu; "
                       "send this one later or raise store.staging",
                       (unsigned long long)h->staged_bytes,
                       (unsigned long long)h->options->staging_bytes);
    PL_RETURN_IF(pl_try_alloc(bytes ? (size_t)bytes : 1, "an upload", &data));
    home_upload *u = pl_alloc(sizeof *u);
    u->hash = *hash;
    u->data = data;
    u->bytes = bytes;
    u->pieces = pl_alloc(n_pieces(bytes));
    u->next = h->uploads;
    h->uploads = u;
    h->staged_bytes += bytes;
    *out = u;
    return PL_OK;
}

static void unlink_upload(home *h, home_upload *victim)
{
    for (home_upload **at = &h->uploads; *at; at = &(*at)->next)
        if (*at == victim) {
            *at = victim->next;
            free_upload(h, victim);
            return;
        }
}

static bool all_pieces(const home_upload *u)
{
    for (size_t i = 0; i < n_pieces(u->bytes); i++)
        if (!u->pieces[i])
            return false;
    return true;
}

static pl_status check_piece(const pl_message *m, uint64_t total, uint64_t offset)
{
    uint64_t left = total - offset;
    uint64_t want = left < PL_WIRE_DATA_MAX ? left : PL_WIRE_DATA_MAX;
    if (offset > total || (total > 0 && offset == total) ||
        offset % PL_WIRE_DATA_MAX != 0 || m->data.len != want)
        return pl_fail(
            PL_ERR_PROTO, "a piece of %zu bytes at %llu does not fit a blob of %llu",
            m->data.len, (unsigned long long)offset, (unsigned long long)total);
    return PL_OK;
}

pl_status home_put_blob(home *h, pl_reader *r, const pl_message *m, pl_message *answer)
{
    pl_hash hash = pl_get_hash(r, PL_TAG_BLOB, 0);
    uint64_t total = pl_get_u64(r, PL_TAG_TOTAL, 0);
    uint64_t offset = pl_get_u64(r, PL_TAG_OFFSET, 0);
    PL_RETURN_IF(pl_reader_status(r));
    PL_RETURN_IF(check_piece(m, total, offset));
    answer->type = PL_MSG_PUT_STATE;
    pl_put_u64(&answer->body, PL_TAG_OFFSET, offset);
    if (pl_store_has_blob(h->store, &hash))
        return PL_OK;
    home_upload *u = find_upload(h, &hash);
    if (!u)
        PL_RETURN_IF(new_upload(h, &hash, total, &u));
    if (u->bytes != total)
        return pl_fail(PL_ERR_PROTO, "two sizes were given for one blob: %llu and %llu",
                       (unsigned long long)u->bytes, (unsigned long long)total);
    u->touched_ms = pl_now_ms();
    size_t piece = (size_t)(offset / PL_WIRE_DATA_MAX);
    if (u->pieces[piece])
        return PL_OK;
    if (m->data.len > 0)
        memcpy(u->data + offset, m->data.data, m->data.len);
    u->pieces[piece] = true;
    u->complete = all_pieces(u);
    return PL_OK;
}

home_upload *home_staged(home *h, const pl_hash *hash)
{
    home_upload *u = find_upload(h, hash);
    return u && u->complete ? u : NULL;
}

pl_status home_adopt_blob(home *h, const pl_hash *hash)
{
    pl_status status = PL_OK;
    void *bytes = NULL;
    pl_hash stored;
    uint64_t size = 0;
    PL_TRY(home_write(h));
    home_upload *u = home_staged(h, hash);
    if (u) {
        /* Hashed once, here: bytes that are not what their name says are in no record,
         * and the commit drops them. */
        PL_TRY(pl_txn_put_blob(h->txn, u->data, u->bytes, &stored));
        unlink_upload(h, u);
        if (!pl_hash_equal(&stored, hash))
            PL_TRY(pl_fail(PL_ERR_DAMAGED,
                           "an upload arrived with another hash than its name"));
        goto done;
    }
    PL_TRY(pl_store_blob_bytes(h->store, hash, &size));
    PL_TRY(pl_try_alloc(size ? (size_t)size : 1, "a blob", &bytes));
    PL_TRY(pl_store_read_blob(h->store, hash, 0, (size_t)size, bytes));
    PL_TRY(pl_txn_put_blob(h->txn, bytes, size, &stored));
done:
    pl_free_aligned(bytes);
    return status;
}

void home_drop_upload(home *h, const pl_hash *hash)
{
    home_upload *u = find_upload(h, hash);
    if (u)
        unlink_upload(h, u);
}

void home_expire_uploads(home *h, bool all)
{
    int64_t now = pl_now_ms();
    home_upload *u = h->uploads;
    while (u) {
        home_upload *next = u->next;
        if (all || now - u->touched_ms > EXPIRE_MS)
            unlink_upload(h, u);
        u = next;
    }
}
