/* The list of faults that an audit of a store has found, one sentence per fault. */
#pragma once
#include "base/base.h"

/* most sentences that are kept; `n_all` counts all */
enum { PL_FINDINGS_MAX = 1000 };
typedef struct pl_findings {
    char **sentences; /* [n] owned; pl_findings_clear frees them */
    size_t n;
    uint64_t n_all;
} pl_findings;

/* Adds a copy of the sentence. `findings` points to a pl_findings; its type is void so
 * that pl_store_audit can call this function as its callback. */
void pl_findings_add(void *findings, const char *sentence);
void pl_findings_clear(pl_findings *findings);
