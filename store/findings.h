/* What an audit of a store has found: one sentence per damaged thing. */
#ifndef PL_STORE_FINDINGS_H
#define PL_STORE_FINDINGS_H
#include "base/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/* No more sentences than this are kept; `n_all` counts further. */
enum { PL_FINDINGS_MAX = 1000 };
typedef struct pl_findings {
    char **sentences; /* [n] owned; pl_findings_clear frees them */
    size_t n;
    uint64_t n_all;
} pl_findings;

/* Adds a copy of the sentence. `findings` is a pl_findings, so that pl_store_audit can
 * call this function. */
void pl_findings_add(void *findings, const char *sentence);
void pl_findings_clear(pl_findings *findings);
/* Leaves only the sentences that `other` has, too. */
void pl_findings_agree(pl_findings *findings, const pl_findings *other);

#ifdef __cplusplus
}
#endif
#endif
