/* Uploads: pieces of blobs that no record names yet. */
#include "outer/staging.h"
#include "outer/messages.h"

enum { EXPIRE_MS = 120000 };

static staging_blob *find(const staging *s, const pl_hash *hash)
{
    for (staging_blob *b = s->first; b; b = b->next)
        if (pl_hash_equal(&b->hash, hash))
            return b;
    return NULL;
}

static size_t n_pieces(uint64_t bytes)
{
    return bytes == 0 ? 1 : (size_t)((bytes + PL_WIRE_DATA_MAX - 1) / PL_WIRE_DATA_MAX);
}

static bool all_pieces(const staging_blob *b)
{
    for (size_t i = 0; i < n_pieces(b->bytes); i++)
        if (!b->pieces[i])
            return false;
    return true;
}

pl_status staging_read(const pl_message *m, staging_piece *out)
{
    pl_reader r;
    pl_reader_open(&r, "PUT_BLOB", m->body.data, m->body.len);
    out->hash = pl_get_hash(&r, PL_TAG_BLOB, 0);
    out->total = pl_get_u64(&r, PL_TAG_TOTAL, 0);
    out->offset = pl_get_u64(&r, PL_TAG_OFFSET, 0);
    out->data = &m->data;
    PL_RETURN_IF(pl_reader_status(&r));
    uint64_t left = out->total - out->offset;
    uint64_t want = left < PL_WIRE_DATA_MAX ? left : PL_WIRE_DATA_MAX;
    if (out->offset > out->total || (out->total > 0 && left == 0) ||
        out->offset % PL_WIRE_DATA_MAX != 0 || m->data.len != want)
        return pl_fail(PL_ERR_PROTO,
                       "a piece of %zu bytes at %llu does not fit a blob of %llu",
                       m->data.len, (unsigned long long)out->offset,
                       (unsigned long long)out->total);
    return PL_OK;
}

static pl_status open_blob(staging *s, const staging_piece *p, staging_blob **out)
{
    void *data = NULL;
    if (p->total > s->limit)
        return pl_fail(PL_ERR_CONFIG,
                       "a blob of %llu bytes is more than %s takes (%llu); raise %s",
                       (unsigned long long)p->total, s->keeper,
                       (unsigned long long)s->limit, s->key);
    if (p->total > s->limit - s->bytes)
        return pl_fail(PL_ERR_BUSY,
                       "%s holds %llu bytes of uploads and takes at most %llu; send "
                       "this one later or raise %s",
                       s->keeper, (unsigned long long)s->bytes,
                       (unsigned long long)s->limit, s->key);
    PL_RETURN_IF(
        pl_try_alloc_bare(p->total ? (size_t)p->total : 1, "an upload", &data));
    staging_blob *b = pl_alloc(sizeof *b);
    b->hash = p->hash;
    b->data = data;
    b->bytes = p->total;
    b->pieces = pl_alloc(n_pieces(p->total));
    b->next = s->first;
    s->first = b;
    s->bytes += p->total;
    *out = b;
    return PL_OK;
}

pl_status staging_put(staging *s, const staging_piece *p)
{
    staging_blob *b = find(s, &p->hash);
    if (!b)
        PL_RETURN_IF(open_blob(s, p, &b));
    if (b->bytes != p->total)
        return pl_fail(PL_ERR_PROTO, "two sizes were given for one blob: %llu and %llu",
                       (unsigned long long)b->bytes, (unsigned long long)p->total);
    b->touched_ms = pl_now_ms();
    size_t piece = (size_t)(p->offset / PL_WIRE_DATA_MAX);
    if (b->pieces[piece])
        return PL_OK;
    if (p->data->len > 0)
        memcpy(b->data + p->offset, p->data->data, p->data->len);
    b->pieces[piece] = true;
    b->complete = all_pieces(b);
    return PL_OK;
}

bool staging_has(const staging *s, const pl_hash *hash)
{
    return find(s, hash) != NULL;
}

staging_blob *staging_find(const staging *s, const pl_hash *hash)
{
    staging_blob *b = find(s, hash);
    return b && b->complete ? b : NULL;
}

static void unlink_blob(staging *s, const staging_blob *victim)
{
    staging_blob **at = &s->first;
    while (*at != victim)
        at = &(*at)->next;
    *at = victim->next;
}

staging_blob *staging_take(staging *s, const pl_hash *hash)
{
    staging_blob *b = staging_find(s, hash);
    if (b)
        unlink_blob(s, b);
    return b;
}

void staging_free(staging *s, staging_blob *b)
{
    if (!b)
        return;
    s->bytes -= b->bytes;
    pl_free_aligned(b->data);
    pl_free(b->pieces);
    pl_free(b);
}

void staging_drop(staging *s, const pl_hash *hash)
{
    staging_blob *b = find(s, hash);
    if (!b)
        return;
    unlink_blob(s, b);
    staging_free(s, b);
}

void staging_expire(staging *s, bool all)
{
    int64_t now = pl_now_ms();
    staging_blob *b = s->first;
    while (b) {
        staging_blob *next = b->next;
        if (all || now - b->touched_ms > EXPIRE_MS)
            staging_drop(s, &b->hash);
        b = next;
    }
}
