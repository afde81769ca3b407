/* Private to corpus: how the windows of documents are laid into the rows of batches.
 *
 * A document is cut into windows of T targets from its start. A full window is a row of
 * its own. The last window of a document may be short; packed, several short windows
 * share a row. No document is cut more often than without packing, so every target is
 * predicted from the same tokens; only padding disappears. */
#ifndef PL_CORPUS_PACKING_H
#define PL_CORPUS_PACKING_H
#include "corpus/corpus.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { PACKING_END = UINT32_MAX };

/* Document d owns the rows first_row[d] .. first_row[d+1]: its full windows, and then
 * the row of its short window, unless that travels in the row of another document.
 * Behind the short window of d in its row lies that of next[d], then that of
 * next[next[d]], up to PACKING_END. */
typedef struct packing {
    uint64_t *first_row; /* [n_docs + 1] */
    uint32_t *next;      /* [n_docs], or NULL: nothing is packed */
} packing;

/* Windows at the start of a document that are left out because all their targets lie in
 * the prefix. */
uint64_t packing_skipped(uint32_t n_tokens, int context, int skip_prefix);
/* Targets of the last window if that is short, else 0. */
uint32_t packing_tail(uint32_t n_tokens, int context, int skip_prefix);
/* Of documents docs[0..n-1], or, where docs is NULL, of the first n of the file. A pure
 * function of their lengths, context, skip_prefix and pack. */
PL_MUST_CHECK pl_status packing_make(const pl_tokens *tokens, const uint32_t *docs,
                                     uint32_t n, const pl_sampler_options *options,
                                     packing *out);
void packing_clear(packing *p);

#ifdef __cplusplus
}
#endif
#endif
