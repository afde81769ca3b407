/* pathloom store fsck: checks a store and names everything that is damaged. */
#include "cli/store_call.h"
#include "cli/store_print.h"

/* While a writer runs, a reader may see parts of a commit early. So only damage that
 * repeated checks agree on is reported. */
enum { LOOKS = 3, TOLD_MAX = 1000 };

typedef struct findings {
    char **sentences;
    size_t n;
} findings;

static void note_finding(void *context, const char *sentence)
{
    findings *f = context;
    if (f->n == TOLD_MAX)
        return;
    f->sentences = pl_grow(f->sentences, (f->n + 1) * sizeof *f->sentences);
    f->sentences[f->n++] = pl_strdup(sentence);
}

static void clear_findings(findings *f)
{
    for (size_t i = 0; i < f->n; i++)
        pl_free(f->sentences[i]);
    pl_free(f->sentences);
    memset(f, 0, sizeof *f);
}

static bool has_finding(const findings *f, const char *sentence)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->sentences[i], sentence) == 0)
            return true;
    return false;
}

/* Keeps the findings that are in both lists. */
static void agree(findings *f, const findings *other)
{
    size_t n = 0;
    for (size_t i = 0; i < f->n; i++)
        if (has_finding(other, f->sentences[i]))
            f->sentences[n++] = f->sentences[i];
        else
            pl_free(f->sentences[i]);
    f->n = n;
}

static bool has_writer(const store_call *call)
{
    int lock = -1;
    if (pl_lock_folder(call->folder, &lock) != PL_OK)
        return true;
    pl_unlock_folder(&lock);
    return false;
}

static pl_status look_for_damage(store_call *call, findings *out,
                                 pl_audit_report *report)
{
    bool bytes = !call->values[STORE_OPT_QUICK];
    PL_CHECK(pl_store_audit(call->store, bytes, note_finding, out, report));
    for (int i = 1; i < LOOKS && out->n > 0 && has_writer(call); i++) {
        findings again = {NULL, 0};
        pl_store_close(&call->store);
        PL_CHECK(pl_store_open(call->folder, PL_STORE_READ, &call->store));
        pl_status status =
            pl_store_audit(call->store, bytes, note_finding, &again, report);
        if (status == PL_OK)
            agree(out, &again);
        clear_findings(&again);
        PL_CHECK(status);
    }
    return PL_OK;
}

static void print_findings(const store_call *call, const findings *f,
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
    row_flag(&r, NULL, f->n == 0, ": all as it should be");
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
    findings found = {NULL, 0};
    pl_audit_report report;
    pl_status status = look_for_damage(call, &found, &report);
    if (status == PL_OK) {
        print_findings(call, &found, &report);
        if (found.n > 0)
            status = pl_fail(PL_ERR_DAMAGED,
                             "%zu things in %s are damaged; restore the store from a "
                             "copy (`pathloom store restore`)",
                             found.n, call->folder);
    }
    clear_findings(&found);
    return status;
}
