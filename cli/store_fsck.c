/* pathloom store fsck: checks a store and names everything that is damaged. */
#include "cli/store_print.h"

pl_status store_fsck(store_call *call)
{
    pl_findings found = {NULL, 0, 0};
    pl_audit_report report;
    pl_status status = pl_store_audit_firmly(
        call->folder, &call->store, !call->values[STORE_OPT_QUICK], &found, &report);
    PL_TRY(status);
    row r = row_begin(call->json);
    for (size_t i = 0; i < found.n; i++)
        row_say(&r, "%s\n", found.sentences[i]);
    row_count(&r, NULL, pl_store_sequence(call->store), "%s commits, ");
    row_count(&r, "records", report.n_rows, "%s records");
    row_count(&r, "versions", report.n_versions, ", %s versions");
    row_count(&r, "blobs", report.n_blobs, ", %s blobs");
    row_count(&r, "chunks", report.n_chunks, ", %s chunks");
    row_bytes(&r, "bytes", report.bytes,
              call->values[STORE_OPT_QUICK] ? NULL : ", %s read");
    row_count(&r, "commits", pl_store_sequence(call->store), NULL);
    row_flag(&r, NULL, found.n == 0, ": no accidental damage");
    row_count(&r, "covered_from", report.covered_from,
              found.n == 0 && report.covered_from > 0
                  ? "; the commits from %s on left exactly these rows"
                  : NULL);
    row_flag(&r, NULL, report.covered_from == 0,
             "; the newest commit has no sum of rows, so rows that were changed on "
             "purpose would not be found");
    row_break(&r);
    row_hash(&r, "log_hash", &report.log_hash, "log hash %h");
    if (call->json) {
        pl_json *list = pl_json_array();
        for (size_t i = 0; i < found.n; i++)
            pl_json_push(list, pl_json_make_text(found.sentences[i]));
        pl_json_set(r.json, "damage", list);
    }
    row_finish(&r);
    if (found.n > 0)
        status = pl_fail(PL_ERR_DAMAGED,
                         "found %llu damaged things in %s; restore the store from a "
                         "backup (`pathloom store restore`)",
                         (unsigned long long)found.n_all, call->folder);
done:
    pl_findings_clear(&found);
    return status;
}
