/* Receives uploads. A submission that names a complete upload moves it into the store.
 * Uploads that no message names expire. */
#include "home/home_internal.h"

/* Sets the limits for an upload under this lease. A key that the job itself made has no
 * limit per key, because any number of workers may use it. */
static void limit_upload(home *h, const home_lease *under)
{
    bool own = false;
    (void)pl_gate_role(&under->lease.key, &own);
    h->uploads.share = home_upload_share(under);
    if (!own)
        h->uploads.holder = under->lease.key;
}

/* Receives a piece of an upload. A worker must upload under a lease, and may upload at
 * most what the lease's task needs. */
pl_status home_put_blob(home *h, const pl_peer *peer, pl_message *m, pl_message *answer)
{
    staging_piece piece;
    home_lease under;
    PL_CHECK(staging_read(m, &piece));
    if (peer->role == PL_AS_WORKER || piece.lease.at) {
        PL_CHECK(home_open_lease(h, peer, piece.lease, &under));
        limit_upload(h, &under);
    }
    PL_SAY(answer, PUT_STATE, put_state, .offset = piece.offset);
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
        /* pl_txn_put_blob computes the hash of the upload for the first time. If it
         * differs from the hash that the sender gave, no record names the bytes, so the
         * commit drops them. */
        PL_TRY(pl_txn_put_blob(h->txn, b->data, b->bytes, &stored));
        staging_drop(&h->uploads, hash);
        if (!pl_hash_equal(&stored, hash))
            PL_TRY(pl_fail(PL_ERR_DAMAGED,
                           "the bytes of an upload do not match the hash that the "
                           "sender gave; send the upload again"));
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
