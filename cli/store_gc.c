/* pathloom store gc: frees the data of old versions (history/garbage.h). Without
 * --delete, the command only counts what it would free. */
#include "cli/store_print.h"

pl_status store_gc(store_call *call)
{
    int64_t grace = 0;
    const bool run = call->values[STORE_OPT_DELETE] != NULL;
    pl_writers *writers = NULL;
    pl_garbage garbage = {.folder = call->folder, .store = call->store};
    pl_gc_report report;
    PL_CHECK(store_option_int(call, STORE_OPT_KEEP, 3, 1, &garbage.keep));
    PL_CHECK(store_option_int(call, STORE_OPT_GRACE, 3600, 0, &grace));
    garbage.grace_ms = grace * 1000;
    PL_CHECK(store_refuse_part(call->folder));
    if (run)
        PL_CHECK(store_open_writers(call, &writers));
    pl_status status = pl_garbage_collect(&garbage, writers, &report);
    pl_writers_close(&writers);
    PL_CHECK(status);
    char bytes[16];
    row r = row_begin(call->json);
    row_flag(&r, "done", run, NULL);
    row_say(&r, "%s", run ? "freed" : "would free");
    row_count(&r, "versions", report.n_versions, " the data of %s versions");
    row_count(&r, NULL, report.n_chunks, ": %s chunks");
    row_bytes(&r, NULL, report.bytes, ", %s");
    row_count(&r, "kept", report.n_kept, "; %s versions stay");
    row_count(&r, "collected_before", report.n_gone, ", %s were freed before");
    row_count(&r, "blobs", report.n_blobs, NULL);
    row_count(&r, "chunks", report.n_chunks, NULL);
    row_bytes(&r, "bytes", report.bytes, NULL);
    row_count(&r, "garbage", report.n_garbage, NULL);
    row_bytes(&r, "garbage_bytes", report.garbage_bytes, NULL);
    if (report.n_garbage > 0)
        row_say(&r, "\n%s %llu unused objects of the storage engine, %s",
                run ? "dropped" : "would drop", (unsigned long long)report.n_garbage,
                pl_human_bytes((double)report.garbage_bytes, bytes));
    if (!run && report.n_versions + report.n_garbage > 0)
        row_say(&r, "\nnothing was changed; give --delete to free the data");
    if (report.n_versions == 0)
        row_say(&r,
                "\nversions stay if they are younger than --grace (%lld s), among the "
                "newest --keep (%lld) of their module, tagged, or needed by a path",
                (long long)garbage.grace_ms / 1000, (long long)garbage.keep);
    row_finish(&r);
    return PL_OK;
}
