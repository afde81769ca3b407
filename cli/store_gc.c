/* pathloom store gc: frees the data of old versions (history/garbage.h). Without
 * --delete, the command only counts what it would free. */
#include "cli/store_call.h"
#include "cli/store_print.h"

static void print_report(const store_call *call, const pl_garbage *p,
                         const pl_gc_report *g, bool run)
{
    char bytes[16];
    row r = row_begin(call->json);
    row_flag(&r, "done", run, NULL);
    row_say(&r, "%s", run ? "freed" : "would free");
    row_count(&r, "versions", g->n_versions, " the data of %s versions");
    row_count(&r, NULL, g->n_chunks, ": %s chunks");
    row_bytes(&r, NULL, g->bytes, ", %s");
    row_count(&r, "kept", g->n_kept, "; %s versions stay");
    row_count(&r, "collected_before", g->n_gone, ", %s were freed before");
    row_count(&r, "blobs", g->n_blobs, NULL);
    row_count(&r, "chunks", g->n_chunks, NULL);
    row_bytes(&r, "bytes", g->bytes, NULL);
    row_count(&r, "garbage", g->n_garbage, NULL);
    row_bytes(&r, "garbage_bytes", g->garbage_bytes, NULL);
    if (g->n_garbage > 0)
        row_say(&r, "\n%s %llu unused objects of the storage engine, %s",
                run ? "dropped" : "would drop", (unsigned long long)g->n_garbage,
                pl_human_bytes((double)g->garbage_bytes, bytes));
    if (!run && g->n_versions + g->n_garbage > 0)
        row_say(&r, "\nnothing was changed; give --delete to free the data");
    if (g->n_versions == 0)
        row_say(&r,
                "\nversions stay if they are younger than --grace (%lld s), among the "
                "newest --keep (%lld) of their module, tagged, or needed by a path",
                (long long)p->grace_ms / 1000, (long long)p->keep);
    row_finish(&r);
}

pl_status store_gc(store_call *call)
{
    int64_t grace = 0;
    int n_parts = 0;
    bool run = call->values[STORE_OPT_DELETE];
    pl_garbage garbage = {.folder = call->folder};
    pl_gc_report report;
    PL_CHECK(store_option_int(call, STORE_OPT_KEEP, 3, 1, &garbage.keep));
    PL_CHECK(store_option_int(call, STORE_OPT_GRACE, 3600, 0, &grace));
    garbage.grace_ms = grace * 1000;
    PL_CHECK(pl_store_parts(call->folder, &n_parts));
    PL_CHECK(store_refuse_part(call->folder));
    if (run && n_parts == 0) {
        pl_store_close(&call->store);
        PL_CHECK(store_open_to_write(call, &call->store));
    }
    garbage.store = call->store;
    PL_CHECK(pl_garbage_collect(&garbage, run, &report));
    print_report(call, &garbage, &report, run);
    return PL_OK;
}
