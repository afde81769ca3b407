/* pathloom store pack: compresses old versions now (otherwise a home does this while it
 * is idle), and returns the free space to the disk. */
#include "cli/store_print.h"

enum { PACK_BYTES = 64 << 20 };

pl_status store_pack(store_call *call)
{
    /* bytes of all chunks: uncompressed, and as stored before and now */
    uint64_t chunk_bytes = 0, stored_before = 0, stored = 0;
    pl_store_stats before, after;
    pl_store *store = NULL;
    pl_status status = PL_OK;
    int n = 0;
    PL_CHECK(pl_store_homes(call->folder, &n));
    for (int i = 0; i < n; i++) {
        store_call part = *call;
        pl_store_home(call->folder, i, n, part.folder);
        PL_TRY(store_open_to_write(&part, &store));
        PL_TRY(pl_store_count(store, &before));
        for (bool more = true; more;)
            PL_TRY(pl_store_recode(store, PACK_BYTES, &more));
        PL_TRY(pl_store_compact(store));
        PL_TRY(pl_store_count(store, &after));
        pl_store_close(&store);
        chunk_bytes += after.chunk_bytes;
        stored_before += before.stored_bytes;
        stored += after.stored_bytes;
    }
    row r = row_begin(call->json);
    row_bytes(&r, "chunk_bytes", chunk_bytes, "chunks of %s");
    row_bytes(&r, "stored_bytes_before", stored_before, " took %s");
    row_bytes(&r, "stored_bytes", stored, " and take %s");
    row_real(&r, NULL, chunk_bytes ? 100 * (double)stored / (double)chunk_bytes : 100,
             ", %.1f %%");
    row_finish(&r);
done:
    pl_store_close(&store);
    return status;
}
