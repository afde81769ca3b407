/* pathloom store pack: compresses old versions now (otherwise a home does this while it
 * is idle), and returns the free space to the disk. */
#include "cli/store_call.h"
#include "cli/store_print.h"

enum { PACK_BYTES = 64 << 20 };

/* Bytes of all chunks: uncompressed; before, after: as stored. */
typedef struct packed {
    uint64_t chunk_bytes, before, after;
} packed;

pl_status store_pack(store_call *call)
{
    packed sum = {0, 0, 0};
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
        sum.chunk_bytes += after.chunk_bytes;
        sum.before += before.stored_bytes;
        sum.after += after.stored_bytes;
    }
    row r = row_begin(call->json);
    row_bytes(&r, "chunk_bytes", sum.chunk_bytes, "chunks of %s");
    row_bytes(&r, "stored_bytes_before", sum.before, " took %s");
    row_bytes(&r, "stored_bytes", sum.after, " and take %s");
    row_real(&r, NULL,
             sum.chunk_bytes ? 100 * (double)sum.after / (double)sum.chunk_bytes : 100,
             ", %.1f %%");
    row_finish(&r);
done:
    pl_store_close(&store);
    return status;
}
