/* Frees or counts the data of old versions, in all parts of a store (garbage.h). */
#include "history/garbage.h"
#include "history/roots.h"
#include <string.h>

/* Collects the garbage of each part of a store. p->roots covers all parts, because a
 * path in one part may begin its task with versions in other parts. */
static pl_status collect_parts(const char *folder, int n_parts, pl_keep_rule *p,
                               bool run, pl_gc_report *sum)
{
    memset(sum, 0, sizeof *sum);
    if (run)
        PL_CHECK(pl_store_clear_copy(folder));
    for (int i = 0; i < n_parts; i++) {
        char name[PL_PATH_MAX];
        pl_store *part = NULL;
        pl_gc_report one;
        PL_CHECK(pl_store_open(pl_store_part(folder, i, name),
                               run ? PL_STORE_WRITE : PL_STORE_READ, &part));
        pl_status status = pl_store_collect(part, pl_keep_rule_stays, p, run, &one);
        pl_store_close(&part);
        PL_CHECK(status);
        sum->n_versions += one.n_versions;
        sum->n_kept += one.n_kept;
        sum->n_gone += one.n_gone;
        sum->n_blobs += one.n_blobs;
        sum->n_chunks += one.n_chunks;
        sum->bytes += one.bytes;
        sum->n_garbage += one.n_garbage;
        sum->garbage_bytes += one.garbage_bytes;
    }
    return PL_OK;
}

pl_status pl_garbage_collect(const pl_garbage *g, bool run, pl_gc_report *out)
{
    pl_keep_rule p = {.store = g->store,
                      .keep = g->keep,
                      .grace_ms = g->grace_ms,
                      .now_ms = pl_wall_ms()};
    int n_parts = 0;
    PL_CHECK(pl_store_parts(g->folder, &n_parts));
    PL_CHECK(pl_roots_create(p.store, &p.roots));
    pl_status status =
        n_parts > 0 ? collect_parts(g->folder, n_parts, &p, run, out)
                    : pl_store_collect(p.store, pl_keep_rule_stays, &p, run, out);
    pl_roots_destroy(&p.roots);
    return status;
}
