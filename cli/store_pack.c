/* pathloom store pack: compresses old versions now (otherwise a home does this while it
 * is idle), and returns the free space to the disk. */
#include "cli/store_call.h"
#include "cli/store_print.h"

enum { PACK_BYTES = 64 << 20 };

/* Bytes of all chunks. chunk_bytes: without compression; before, after: as stored
 * before and after packing. */
typedef struct packed {
    uint64_t chunk_bytes, before, after;
} packed;

static void print_packed(const store_call *call, const packed *p)
{
    row r = row_begin(call->json);
    row_bytes(&r, "chunk_bytes", p->chunk_bytes, "chunks of %s");
    row_bytes(&r, "stored_bytes_before", p->before, " took %s");
    row_bytes(&r, "stored_bytes", p->after, " and take %s");
    row_real(&r, NULL,
             p->chunk_bytes ? 100 * (double)p->after / (double)p->chunk_bytes : 100,
             ", %.1f %%");
    row_finish(&r);
}

static pl_status pack_part(store_call *call, packed *sum)
{
    pl_store_stats before, after;
    pl_store *store = NULL;
    bool more = true;
    pl_status status = PL_OK;
    PL_CHECK(store_open_to_write(call, &store));
    PL_TRY(pl_store_count(store, &before));
    while (more)
        PL_TRY(pl_store_recode(store, PACK_BYTES, &more));
    PL_TRY(pl_store_compact(store));
    PL_TRY(pl_store_count(store, &after));
    sum->chunk_bytes += after.chunk_bytes;
    sum->before += before.stored_bytes;
    sum->after += after.stored_bytes;
done:
    pl_store_close(&store);
    return status;
}

pl_status store_pack(store_call *call)
{
    packed sum = {0, 0, 0};
    int n = 0;
    PL_CHECK(pl_store_homes(call->folder, &n));
    for (int i = 0; i < n; i++) {
        store_call part = *call;
        pl_store_home(call->folder, i, n, part.folder);
        PL_CHECK(pack_part(&part, &sum));
    }
    print_packed(call, &sum);
    return PL_OK;
}
