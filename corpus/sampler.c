/* Chooses the rows that a step trains on: a pure function of (tokens, options, sample).
 *
 *   k     = sample * n_replicas + replica
 *   epoch = k / n_rows
 *   row   = permutation of all rows [k mod n_rows], keyed by seed, stream and epoch
 *
 * The sampler has no state, and samples may be requested in any order: a worker that
 * was restarted, or a different worker, gets the same bytes for sample i. All n
 * replicas use the same permutation, and each replica takes every n-th place of it. So
 * within an epoch the replicas together use each row exactly once.
 *
 * Rows are numbered in the order of documents (packing.h). A window never crosses the
 * end of a document, so no target is predicted from another document. */
#include "corpus/packing.h"
#include "modules/modules.h"
#include <assert.h>

struct pl_sampler {
    const pl_tokens *tokens;
    pl_sampler_options options;
    packing rows;
    uint32_t n_docs;
};

pl_status pl_sampler_create(const pl_tokens *tokens, const pl_sampler_options *options,
                            pl_sampler **out)
{
    *out = NULL;
    pl_sampler *sampler = pl_alloc(sizeof *sampler);
    pl_status status = PL_OK;
    sampler->tokens = tokens;
    sampler->options = *options;
    sampler->n_docs = pl_tokens_n_docs(tokens);
    PL_TRY(packing_make(tokens, NULL, sampler->n_docs, options, &sampler->rows));
    if (pl_sampler_rows(sampler) == 0)
        PL_TRY(pl_fail(
            PL_ERR_DATA,
            "none of the %u documents (%llu tokens) has a target after a prefix of %d "
            "tokens; give longer documents, or lower router.prefix",
            (unsigned)sampler->n_docs, (unsigned long long)pl_tokens_count(tokens),
            options->skip_prefix));
    *out = sampler;
    sampler = NULL;
done:
    pl_sampler_destroy(&sampler);
    return status;
}

void pl_sampler_destroy(pl_sampler **sampler)
{
    if (!*sampler)
        return;
    packing_clear(&(*sampler)->rows);
    pl_free(*sampler);
    *sampler = NULL;
}

uint64_t pl_sampler_rows(const pl_sampler *sampler)
{
    return sampler->rows.first_row[sampler->n_docs];
}

pl_status pl_sampler_count_rows(const pl_tokens *tokens, const uint32_t *docs,
                                uint32_t n, const pl_sampler_options *options,
                                uint64_t *out)
{
    packing rows;
    *out = 0;
    PL_CHECK(packing_make(tokens, docs, n, options, &rows));
    *out = rows.first_row[n];
    packing_clear(&rows);
    return PL_OK;
}

/* Returns the number of tokens at the document's start that do not count as targets. */
static uint64_t uncounted(const pl_sampler *sampler, uint32_t doc)
{
    return pl_tokens_is_blank(sampler->tokens, doc)
               ? UINT64_MAX
               : (uint64_t)sampler->options.skip_prefix;
}

/* Window number `within` of a document. */
typedef struct doc_window {
    uint32_t doc;
    uint64_t within;
} doc_window;

/* Returns the first window of a sample's row. */
static doc_window first_window(const pl_sampler *sampler, uint64_t sample)
{
    const pl_sampler_options *o = &sampler->options;
    const uint64_t *first = sampler->rows.first_row;
    /* the row is one place of a permutation */
    const uint64_t n_rows = pl_sampler_rows(sampler);
    const uint64_t k = sample * (uint64_t)o->n_replicas + (uint64_t)o->replica;
    const uint64_t stream = pl_stream("sampler", o->stream, k / n_rows);
    const uint64_t row = pl_permute(o->seed, stream, n_rows, k % n_rows);
    /* It belongs to the last document whose first row is not after it. A document
     * without rows has the same first row as the next document, so it is never found.
     * The loop keeps first[low] <= row < first[high]. */
    uint32_t low = 0, high = sampler->n_docs;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (first[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    const uint32_t n_tokens = pl_tokens_doc(sampler->tokens, low)->n_tokens;
    return (doc_window){low, row - first[low] +
                                 packing_skipped(n_tokens, o->context, o->skip_prefix)};
}

/* Goes to the next window of the row. A row that has room left begins with a short
 * window, which the short windows of other documents follow. */
static bool next_window(const pl_sampler *sampler, doc_window *w)
{
    const uint64_t T = (uint64_t)sampler->options.context;
    const uint64_t n = pl_tokens_doc(sampler->tokens, w->doc)->n_tokens - 1;
    const uint32_t *next = sampler->rows.next;
    if (!next || n - w->within * T >= T || next[w->doc] == PACKING_END)
        return false;
    w->doc = next[w->doc];
    w->within = (pl_tokens_doc(sampler->tokens, w->doc)->n_tokens - 1) / T;
    return true;
}

uint64_t pl_sampler_count(const pl_sampler *sampler, uint64_t first_sample, uint64_t n,
                          const uint32_t *part_of, uint64_t *counts)
{
    const uint64_t T = (uint64_t)sampler->options.context;
    uint64_t counted = 0;
    for (uint64_t i = 0; i < n; i++) {
        doc_window w = first_window(sampler, first_sample + i);
        do {
            /* how many targets pl_sampler_fill counts in this window */
            const uint64_t at = w.within * T, prefix = uncounted(sampler, w.doc);
            const uint64_t left =
                pl_tokens_doc(sampler->tokens, w.doc)->n_tokens - 1 - at;
            const uint64_t n_targets = left < T ? left : T;
            const uint64_t skipped = prefix > at + 1 ? prefix - at - 1 : 0;
            const uint64_t in_window = skipped < n_targets ? n_targets - skipped : 0;
            counts[part_of ? part_of[w.doc] : w.doc] += in_window;
            counted += in_window;
        } while (next_window(sampler, &w));
    }
    return counted;
}

int64_t pl_sampler_fill(const pl_sampler *sampler, uint64_t first_sample, int B,
                        int32_t *tokens, int32_t *targets)
{
    const uint64_t T = (uint64_t)sampler->options.context;
    int64_t counted = 0;
    for (int b = 0; b < B; b++, tokens += T, targets += T) {
        doc_window w = first_window(sampler, first_sample + (uint64_t)b);
        uint64_t used = 0; /* tokens of the row that are filled */
        do {
            /* The target of each input token is the token after it. The tokens of the
             * prefix are inputs, too, but they do not count as targets. */
            const uint64_t at = w.within * T, prefix = uncounted(sampler, w.doc);
            const pl_token_doc *doc = pl_tokens_doc(sampler->tokens, w.doc);
            const uint64_t left = doc->n_tokens - 1 - at, n = left < T ? left : T;
            assert(used + n <= T);
            pl_tokens_copy(sampler->tokens, doc->first + at, (size_t)n, tokens + used);
            pl_tokens_copy(sampler->tokens, doc->first + at + 1, (size_t)n,
                           targets + used);
            for (uint64_t t = 0; t < n; t++) {
                if (at + 1 + t < prefix)
                    targets[used + t] = -1;
                else
                    counted++;
            }
            if (used > 0)
                tokens[used] |= PL_TEXT_BEGINS;
            used += n;
        } while (next_window(sampler, &w));
        for (uint64_t t = used; t < T; t++) {
            tokens[t] = 0;
            targets[t] = -1;
        }
    }
    return counted;
}
