/* Frees or counts the data of old versions, in all parts of a store (garbage.h).
 *
 * The caller opens all parts for writing before this file reads the tags and the paths.
 * So no process can name a version before the data of the last part are freed. */
#include "history/garbage.h"
#include "history/roots.h"
#include <string.h>

pl_status pl_garbage_collect(const pl_garbage *g, pl_writers *writers,
                             pl_gc_report *out)
{
    pl_keep_rule rule = {.store = writers ? pl_writers_view(writers) : g->store,
                         .keep = g->keep,
                         .grace_ms = g->grace_ms,
                         .now_ms = pl_wall_ms()};
    char name[PL_PATH_MAX];
    pl_store *part = NULL;
    pl_gc_report one;
    pl_status status = PL_OK;
    int n = 0;
    memset(out, 0, sizeof *out);
    PL_CHECK(pl_store_homes(g->folder, &n));
    if (writers)
        PL_TRY(pl_store_clear_copy(g->folder));
    /* the roots cover all parts: a task may begin with versions in other parts */
    PL_TRY(pl_roots_create(rule.store, &rule.roots));
    PL_TRY(pl_failpoint("gc.roots.after"));
    for (int i = 0; i < n; i++) {
        if (!writers)
            PL_TRY(pl_store_open(pl_store_home(g->folder, i, n, name), PL_STORE_READ,
                                 &part));
        PL_TRY(pl_store_collect(writers ? pl_writers_part(writers, i) : part,
                                pl_keep_rule_stays, &rule, writers != NULL, &one));
        pl_store_close(&part);
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
    pl_store_close(&part);
    return status;
}
