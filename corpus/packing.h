/* Private to corpus: how the windows of documents are arranged in the rows of batches.
 *
 * A document is cut into windows of T = `context` targets, from its start. A full
 * window fills a row. The last window of a document may be short; with packing, several
 * short windows share a row. Packing does not change the windows, so every target is
 * predicted from the same tokens as without packing; there is only less padding. */
#pragma once
#include "corpus/corpus.h"
PL_C_BEGIN

enum { PACKING_END = UINT32_MAX };

/* Document d has the rows first_row[d] .. first_row[d+1] - 1: one row for each full
 * window, and then the row that its short window begins, unless this window is in a row
 * of a different document. In a row, the short window of d is followed by the short
 * windows of next[d], next[next[d]], and so on until PACKING_END. */
typedef struct packing {
    uint64_t *first_row; /* [n_docs + 1] */
    /* [n_docs] the next document in the same row; NULL if windows are not packed */
    uint32_t *next;
} packing;

/* Returns how many windows of a document have all their targets in the prefix. */
uint64_t packing_skipped(uint32_t n_tokens, int context, int skip_prefix);
/* Checks the options (ERR_ARG). Arranges documents docs[0..n-1], or, if docs is NULL,
 * the first n of the file. The result depends only on their lengths, context,
 * skip_prefix and pack. */
pl_status packing_make(const pl_tokens *tokens, const uint32_t *docs, uint32_t n,
                       const pl_sampler_options *options, packing *out);
void packing_clear(packing *p);

PL_C_END
