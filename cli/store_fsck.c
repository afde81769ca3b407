/* pathloom store fsck: checks a store and names everything that is damaged. */
#include "cli/store_call.h"
#include "cli/store_print.h"

static void print_findings(const store_call *call, const pl_findings *f,
                           const pl_audit_report *a)
{
    row r = row_begin(call->json);
    for (size_t i = 0; i < f->n; i++)
        row_say(&r, "%s\n", f->sentences[i]);
    row_count(&r, NULL, pl_store_sequence(call->store), "%s commits, ");
    row_count(&r, "records", a->n_rows, "%s records");
    row_count(&r, "versions", a->n_versions, ", %s versions");
    row_count(&r, "blobs", a->n_blobs, ", %s blobs");
    row_count(&r, "chunks", a->n_chunks, ", %s chunks");
    row_bytes(&r, "bytes", a->bytes,
              call->values[STORE_OPT_QUICK] ? NULL : ", %s read");
    row_count(&r, "commits", pl_store_sequence(call->store), NULL);
    row_flag(&r, NULL, f->n == 0, ": nothing is damaged");
    if (call->json) {
        pl_json *list = pl_json_array();
        for (size_t i = 0; i < f->n; i++)
            pl_json_push(list, pl_json_make_text(f->sentences[i]));
        pl_json_set(r.json, "damage", list);
    }
    row_finish(&r);
}

pl_status store_fsck(store_call *call)
{
    pl_findings found = {NULL, 0, 0};
    pl_audit_report report;
    pl_status status = pl_store_audit_firmly(
        call->folder, &call->store, !call->values[STORE_OPT_QUICK], &found, &report);
    if (status == PL_OK) {
        print_findings(call, &found, &report);
        if (found.n > 0)
            status =
                pl_fail(PL_ERR_DAMAGED,
                        "found %llu damaged things in %s; restore the store from a "
                        "backup (`pathloom store restore`)",
                        (unsigned long long)found.n_all, call->folder);
    }
    pl_findings_clear(&found);
    return status;
}
