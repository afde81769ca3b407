/* Chooses the windows that a step trains on: a pure function of (tokens, options,
 * sample).
 *
 *   k      = sample * n_replicas + replica
 *   epoch  = k / n_windows
 *   window = permutation(seed, stream(stream, epoch))[k mod n_windows]
 *
 * There is no state and no order of calls: a restarted worker, or another one, that
 * asks for sample i gets the same bytes. Replicas take every n-th place of one
 * permutation, so that within an epoch no two of them see the same window, and all
 * together see each once.
 *
 * Windows are numbered through the documents: document d owns the numbers
 * first_window[d] .. first_window[d+1]. A window never crosses a document's end, so no
 * target is predicted from another text. */
#include "corpus/corpus.h"
#include <assert.h>

struct pl_sampler {
    const pl_tokens *tokens;
    pl_sampler_options options;
    uint64_t *first_window; /* [n_docs + 1]: documents' windows, counted through */
    uint32_t n_docs;
};

/* Windows of n_tokens that are left out because every target lies in the prefix:
 * window w ends with target (w+1)*T (or the last token). */
static uint64_t skipped_windows(uint64_t n_tokens, uint64_t T, uint64_t prefix)
{
    uint64_t n_windows = (n_tokens - 1 + T - 1) / T;
    if (n_tokens - 1 < prefix)
        return n_windows;
    return prefix <= T ? 0 : (prefix + T - 1) / T - 1;
}

uint64_t pl_document_windows(uint32_t n_tokens, int context, int skip_prefix)
{
    uint64_t T = (uint64_t)context;
    return ((uint64_t)n_tokens - 1 + T - 1) / T -
           skipped_windows(n_tokens, T, (uint64_t)skip_prefix);
}

static pl_status check_sampler_options(const pl_sampler_options *options)
{
    if (options->context < 1 || options->n_replicas < 1 || options->replica < 0 ||
        options->replica >= options->n_replicas || options->skip_prefix < 0)
        return pl_fail(PL_ERR_ARG,
                       "a sampler needs context >= 1, 0 <= replica < n_replicas and "
                       "skip_prefix >= 0, not %d, %d of %d, %d",
                       options->context, options->replica, options->n_replicas,
                       options->skip_prefix);
    return PL_OK;
}

pl_status pl_sampler_create(const pl_tokens *tokens, const pl_sampler_options *options,
                            pl_sampler **out)
{
    *out = NULL;
    PL_CHECK(check_sampler_options(options));
    pl_sampler *sampler = pl_alloc(sizeof *sampler);
    void *windows = NULL;
    sampler->tokens = tokens;
    sampler->options = *options;
    sampler->n_docs = pl_tokens_n_docs(tokens);
    pl_status status = PL_OK;
    PL_TRY(pl_try_alloc(((size_t)sampler->n_docs + 1) * sizeof(uint64_t),
                        "the sampler's document index", &windows));
    sampler->first_window = windows;
    uint64_t next = 0;
    for (uint32_t i = 0; i < sampler->n_docs; i++) {
        sampler->first_window[i] = next;
        next +=
            pl_document_windows(pl_tokens_doc(sampler->tokens, i)->n_tokens,
                                sampler->options.context, sampler->options.skip_prefix);
    }
    sampler->first_window[sampler->n_docs] = next;
    if (pl_sampler_windows(sampler) == 0) {
        status =
            pl_fail(PL_ERR_DATA,
                    "none of the %u documents (%llu tokens) has a target after a "
                    "prefix of %d tokens",
                    (unsigned)sampler->n_docs,
                    (unsigned long long)pl_tokens_count(tokens), options->skip_prefix);
        goto done;
    }
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
    pl_free_aligned((*sampler)->first_window);
    pl_free(*sampler);
    *sampler = NULL;
}

uint64_t pl_sampler_windows(const pl_sampler *sampler)
{
    return sampler->first_window[sampler->n_docs];
}

/* The document that owns a window: the last one whose first window is not beyond
 * it. Documents without windows share their successor's start and are passed by. */
static uint32_t document_of(const pl_sampler *sampler, uint64_t window)
{
    uint32_t low = 0, high = sampler->n_docs; /* first[low] <= window < first[high] */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (sampler->first_window[middle] <= window)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Targets of one row: the document's tokens at+1 .. at+n; returns the counted. The
 * tokens of the prefix stay as inputs, only their loss is left out. */
static int64_t fill_window_row(const pl_sampler *sampler, uint64_t window,
                               int32_t *tokens, int32_t *targets)
{
    uint64_t T = (uint64_t)sampler->options.context;
    uint64_t prefix = (uint64_t)sampler->options.skip_prefix;
    uint32_t number = document_of(sampler, window);
    const pl_token_doc *doc = pl_tokens_doc(sampler->tokens, number);
    uint64_t within = window - sampler->first_window[number] +
                      skipped_windows(doc->n_tokens, T, prefix);
    uint64_t at = within * T;
    uint64_t n = doc->n_tokens - 1 - at < T ? doc->n_tokens - 1 - at : T;
    int64_t counted = 0;
    pl_tokens_copy(sampler->tokens, doc->first + at, (size_t)n, tokens);
    pl_tokens_copy(sampler->tokens, doc->first + at + 1, (size_t)n, targets);
    for (uint64_t t = 0; t < T; t++) {
        if (t >= n)
            tokens[t] = 0;
        if (t >= n || at + 1 + t < prefix)
            targets[t] = -1;
        else
            counted++;
    }
    return counted;
}

int64_t pl_sampler_fill(const pl_sampler *sampler, uint64_t first_sample, int B,
                        int32_t *tokens, int32_t *targets)
{
    size_t T = (size_t)sampler->options.context;
    int64_t counted = 0;
    for (int b = 0; b < B; b++) {
        /* O(1) seek: the permutation is evaluated at one place, never laid out. */
        uint64_t sample = first_sample + (uint64_t)b;
        const pl_sampler_options *options = &sampler->options;
        uint64_t n_windows = pl_sampler_windows(sampler);
        uint64_t k =
            sample * (uint64_t)options->n_replicas + (uint64_t)options->replica;
        uint64_t stream = pl_stream("sampler", options->stream, k / n_windows);
        uint64_t window = pl_permute(options->seed, stream, n_windows, k % n_windows);
        counted += fill_window_row(sampler, window, tokens + (size_t)b * T,
                                   targets + (size_t)b * T);
    }
    return counted;
}
