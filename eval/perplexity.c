/* Scores each document with the path to which it was routed, adds scores, and computes
 * standard errors and perplexity. */
#include "eval/eval.h"
#include <math.h>

static void score_add(pl_score *sum, const pl_score *score)
{
    sum->nats += score->nats;
    sum->n_targets += score->n_targets;
    sum->first_nats += score->first_nats;
    sum->n_first += score->n_first;
}

pl_score pl_score_sum(const pl_score *scores, size_t n)
{
    pl_score sum = {0};
    for (size_t i = 0; i < n; ++i)
        score_add(&sum, &scores[i]);
    return sum;
}

double pl_perplexity(const pl_score *score)
{
    return score->n_targets > 0 ? exp(score->nats / (double)score->n_targets) : NAN;
}

double pl_score_error(const pl_score *scores, const pl_score *than, size_t n)
{
    pl_score sum = {0};
    double squares = 0.0;
    for (size_t i = 0; i < n; ++i) {
        sum.nats += scores[i].nats - (than ? than[i].nats : 0.0);
        sum.n_targets += scores[i].n_targets;
    }
    if (n < 2 || sum.n_targets == 0)
        return NAN;
    double targets = (double)sum.n_targets, mean = sum.nats / targets;
    for (size_t i = 0; i < n; ++i) {
        double nats = scores[i].nats - (than ? than[i].nats : 0.0);
        double off = nats - mean * (double)scores[i].n_targets;
        squares += off * off;
    }
    return sqrt(squares * (double)n / (double)(n - 1)) / targets;
}

void pl_score_by_domain(const pl_tokens *tokens, const uint32_t *docs,
                        const pl_score *scores, size_t n, pl_score *by_domain)
{
    memset(by_domain, 0, pl_tokens_n_domains(tokens) * sizeof *by_domain);
    for (size_t i = 0; i < n; ++i)
        score_add(&by_domain[pl_tokens_doc(tokens, docs[i])->domain], &scores[i]);
}

/* ---- counted targets, and choice of documents ---- */
uint64_t pl_counted_targets(const pl_tokens *tokens, uint32_t doc, int prefix)
{
    /* the first token is only context */
    uint64_t first = prefix > 1 ? (uint64_t)prefix : 1;
    uint64_t n_tokens = pl_tokens_doc(tokens, doc)->n_tokens;
    return n_tokens > first ? n_tokens - first : 0;
}

/* Decodes the whole document, and also only the tokens before the first counted token.
 * The difference in length is the number of bytes that the counted tokens represent. */
pl_status pl_counted_bytes(const pl_tokens *tokens, uint32_t doc, int prefix,
                           const pl_tokenizer *tokenizer, uint64_t *bytes, bool *lost)
{
    const pl_token_doc *d = pl_tokens_doc(tokens, doc);
    size_t first = prefix > 1 ? (size_t)prefix : 1, n = d->n_tokens;
    pl_buf all = {0}, before = {0};
    int32_t *ids = NULL;
    pl_status status = PL_OK;
    *bytes = 0;
    if (n <= first)
        return PL_OK;
    PL_TRY(pl_try_alloc(n * sizeof *ids, "a document's tokens", (void **)&ids));
    pl_tokens_copy(tokens, d->first, n, ids);
    PL_TRY(pl_tokenizer_decode(tokenizer, ids, n, &all));
    PL_TRY(pl_tokenizer_decode(tokenizer, ids, first, &before));
    *bytes = all.len - before.len;
    for (size_t i = first; i < n; i++)
        *lost = *lost || ids[i] == PL_TOKEN_UNK;
done:
    pl_free(ids);
    pl_buf_destroy(&all);
    pl_buf_destroy(&before);
    return status;
}

/* Adds up the counted targets of `picks` evenly spaced documents out of n. */
static uint64_t strided_targets(const pl_tokens *tokens, int prefix,
                                const uint32_t *docs, size_t n, size_t picks)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < picks; ++i)
        sum += pl_counted_targets(tokens, docs[i * n / picks], prefix);
    return sum;
}

size_t pl_pick_documents(const pl_tokens *tokens, int prefix, uint64_t max_targets,
                         uint32_t *docs, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; ++i)
        if (pl_counted_targets(tokens, docs[i], prefix) > 0)
            docs[kept++] = docs[i];
    uint64_t all = strided_targets(tokens, prefix, docs, kept, kept);
    if (max_targets == 0 || all <= max_targets)
        return kept;
    size_t picks = (size_t)((double)kept * ((double)max_targets / (double)all)) + 1;
    while (picks > 1 &&
           strided_targets(tokens, prefix, docs, kept, picks) > max_targets)
        --picks;
    for (size_t i = 0; i < picks; ++i)
        docs[i] = docs[i * kept / picks];
    return picks;
}

/* ---- scoring with the path of each document ---- */
pl_status pl_check_paths(const int *path_of, size_t n, int n_paths)
{
    for (size_t i = 0; i < n; ++i)
        if (path_of[i] < 0 || path_of[i] >= n_paths)
            return pl_fail(PL_ERR_ARG,
                           "a document is routed to path %d, but paths have numbers "
                           "from 0 to below %d",
                           path_of[i], n_paths);
    return PL_OK;
}

pl_status pl_score_routed(pl_scorer *scorer, const pl_tokens *tokens,
                          const uint32_t *docs, const int *path_of, size_t n,
                          pl_path_params_fn params, void *context, pl_score *scores)
{
    const pl_topology *topology = pl_scorer_settings(scorer)->topology;
    int n_paths = pl_topology_n_paths(topology);
    void *block = NULL;
    /* [n] each: the scores of a path's documents, and their places in the list */
    pl_score *own = NULL;
    pl_status status;
    memset(scores, 0, n * sizeof *scores);
    PL_CHECK(pl_check_paths(path_of, n, n_paths));
    PL_TRY(pl_try_alloc(pl_topology_path_params(topology) * sizeof(float),
                        "a path's parameters", &block));
    PL_TRY(pl_try_alloc(n * (sizeof *own + sizeof(size_t) + sizeof *docs),
                        "routed documents", (void **)&own));
    size_t *place = (size_t *)(own + n);
    uint32_t *own_docs = (uint32_t *)(place + n);
    for (int path = 0; path < n_paths; ++path) {
        size_t n_own = 0;
        for (size_t i = 0; i < n; ++i)
            if (path_of[i] == path) {
                own_docs[n_own] = docs[i];
                place[n_own++] = i;
            }
        if (n_own == 0)
            continue;
        PL_TRY(params(context, path, block));
        PL_TRY(pl_scorer_load(scorer, block));
        PL_TRY(pl_score_documents(scorer, tokens, own_docs, n_own, own));
        for (size_t i = 0; i < n_own; ++i)
            scores[place[i]] = own[i];
    }
done:
    pl_free_all(own, block);
    return status;
}
