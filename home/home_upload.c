/* Receives uploads. A submission that names a complete upload moves it into the store;
 * other uploads expire. */
#include "home/home_internal.h"

/* A worker uploads under a lease, and not more than its task needs. */
pl_status home_put_blob(home *h, const pl_peer *peer, const pl_message *m,
                        pl_message *answer)
{
    staging_piece piece;
    pl_reader r;
    home_lease under;
    PL_RETURN_IF(staging_read(m, &piece));
    pl_reader_open(&r, "PUT_BLOB", m->body.data, m->body.len);
    if (peer->role == PL_AS_WORKER || pl_field_count(&r, PL_TAG_LEASE) > 0) {
        PL_RETURN_IF(home_get_lease(h, peer, &r, &under));
        h->uploads.share = home_upload_share(&under);
    }
    answer->type = PL_MSG_PUT_STATE;
    pl_put_u64(&answer->body, PL_TAG_OFFSET, piece.offset);
    return pl_store_has_blob(h->store, &piece.hash) ? PL_OK
                                                    : staging_put(&h->uploads, &piece);
}

pl_status home_adopt_blob(home *h, const pl_hash *hash)
{
    pl_status status = PL_OK;
    void *bytes = NULL;
    pl_hash stored;
    uint64_t size = 0;
    PL_TRY(home_write(h));
    staging_blob *b = staging_find(&h->uploads, hash);
    if (b) {
        /* The bytes are hashed only here. If they do not match their name, no record
         * names them, and the commit drops them. */
        PL_TRY(pl_txn_put_blob(h->txn, b->data, b->bytes, &stored));
        staging_drop(&h->uploads, hash);
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
