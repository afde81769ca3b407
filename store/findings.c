/* Collects the faults that audits of a store find. If an audit finds faults while a
 * writer runs, the audit is repeated to confirm the faults. */
#include "store/findings.h"
#include "store/store.h"

#include <string.h>

void pl_findings_add(void *findings, const char *sentence)
{
    pl_findings *f = findings;
    f->n_all++;
    if (f->n == PL_FINDINGS_MAX)
        return;
    f->sentences = pl_grow(f->sentences, (f->n + 1) * sizeof *f->sentences);
    f->sentences[f->n++] = pl_strdup(sentence);
}

void pl_findings_clear(pl_findings *f)
{
    for (size_t i = 0; i < f->n; i++)
        pl_free(f->sentences[i]);
    pl_free(f->sentences);
    memset(f, 0, sizeof *f);
}

/* Removes the sentences that are not in `other`. */
static void keep_common(pl_findings *f, const pl_findings *other)
{
    size_t n = 0;
    for (size_t i = 0; i < f->n; i++) {
        size_t same = 0;
        while (same < other->n && strcmp(other->sentences[same], f->sentences[i]) != 0)
            same++;
        if (same < other->n)
            f->sentences[n++] = f->sentences[i];
        else
            pl_free(f->sentences[i]);
    }
    f->n = n;
    f->n_all = n;
}

bool pl_store_has_writer(const char *folder)
{
    char path[PL_PATH_MAX];
    int n = 0;
    if (pl_store_homes(folder, &n) != PL_OK)
        n = 1;
    for (int i = 0; i < n; i++)
        if (pl_folder_is_locked(pl_store_home(folder, i, n, path)))
            return true;
    return false;
}

/* The largest number of audits that pl_store_audit_firmly makes. While a writer runs, a
 * reader may see some rows of a commit before the others. So only faults that every
 * audit finds are reported. */
enum { LOOKS = 3 };

pl_status pl_store_audit_firmly(const char *folder, pl_store **store, bool bytes,
                                pl_findings *out, pl_audit_report *report)
{
    PL_CHECK(pl_store_audit(*store, bytes, pl_findings_add, out, report));
    for (int i = 1; i < LOOKS && out->n > 0 && pl_store_has_writer(folder); i++) {
        pl_findings again = {NULL, 0, 0};
        pl_store_close(store);
        PL_CHECK(pl_store_open(folder, PL_STORE_READ, store));
        pl_status status =
            pl_store_audit(*store, bytes, pl_findings_add, &again, report);
        if (status == PL_OK)
            keep_common(out, &again);
        pl_findings_clear(&again);
        PL_CHECK(status);
    }
    return PL_OK;
}
