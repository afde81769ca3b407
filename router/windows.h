/* Private to router: the windows of a document that determine its path. */
#pragma once
#include "corpus/corpus.h"

/* Returns how many windows of T tokens a document has: its number of tokens / T,
 * rounded up, but at least 1, and at most `most` (0 counts as 1). */
static inline size_t windows_of(const pl_token_doc *doc, size_t T, int most)
{
    size_t full = (doc->n_tokens + T - 1) / T, n = most > 1 ? (size_t)most : 1;
    return full < 1 ? 1 : full < n ? full : n;
}

/* Copies window w of k windows to `out`, which has room for T tokens. The first window
 * starts where the document starts, the last window ends where the document ends, and
 * the windows between are evenly spaced. Returns the window's length: T, or less if the
 * document is shorter. */
static inline size_t windows_copy(const pl_tokens *tokens, const pl_token_doc *doc,
                                  size_t T, size_t w, size_t k, int32_t *out)
{
    size_t length = doc->n_tokens;
    uint64_t at = k > 1 ? w * (uint64_t)(length - T) / (k - 1) : 0;
    length = length < T ? length : T;
    pl_tokens_copy(tokens, doc->first + at, length, out);
    return length;
}
