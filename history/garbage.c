/* Frees or counts the data of old versions, in all parts of a store (garbage.h). */
#include "history/garbage.h"
#include "history/roots.h"
#include <string.h>

pl_status pl_garbage_collect(const pl_garbage *g, bool run, pl_gc_report *out)
{
    pl_keep_rule rule = {.store = g->store,
                         .keep = g->keep,
                         .grace_ms = g->grace_ms,
                         .now_ms = pl_wall_ms()};
    pl_status status = PL_OK;
    int n_parts = 0;
    PL_CHECK(pl_store_parts(g->folder, &n_parts));
    /* the roots cover all parts, because a path in one part may begin its task with
     * versions in other parts */
    PL_CHECK(pl_roots_create(g->store, &rule.roots));
    if (n_parts == 0) {
        status = pl_store_collect(g->store, pl_keep_rule_stays, &rule, run, out);
        goto done;
    }
    memset(out, 0, sizeof *out);
    if (run)
        PL_TRY(pl_store_clear_copy(g->folder));
    for (int i = 0; i < n_parts; i++) {
        char name[PL_PATH_MAX];
        pl_store *part = NULL;
        pl_gc_report one;
        PL_TRY(pl_store_open(pl_store_part(g->folder, i, name),
                             run ? PL_STORE_WRITE : PL_STORE_READ, &part));
        status = pl_store_collect(part, pl_keep_rule_stays, &rule, run, &one);
        pl_store_close(&part);
        if (status != PL_OK)
            goto done;
        out->n_versions += one.n_versions;
        out->n_kept += one.n_kept;
        out->n_gone += one.n_gone;
        out->n_blobs += one.n_blobs;
        out->n_chunks += one.n_chunks;
        out->bytes += one.bytes;
        out->n_garbage += one.n_garbage;
        out->garbage_bytes += one.garbage_bytes;
    }
done:
    pl_roots_destroy(&rule.roots);
    return status;
}
