/* A prefix model: one tiny language model per path, made of counts. The prefix model
 * finds the path whose documents are most similar to a text. SmallTalk (Filippova et
 * al. 2024, arXiv:2410.03529) routes by small transformers. Here the probability of
 * token b after token a is a ratio of counts:
 *
 *   p_path(b | a) = (c_path(a,b) + K c(a,b) / P) / (c_path(a) + K c(a) / P)
 *
 * c_path counts a token or a pair in the documents of the path, c is the sum of c_path
 * over all P paths, and K is SMOOTHING. A path with few occurrences of `a` has almost
 * the same probabilities as all paths together. So paths differ only where they have
 * enough counts. If the pair (a, b) is rare, the model uses the probability of b
 * without regard to a, smoothed in the same way.
 *
 * Only frequent pairs have counts. On text of nine domains and 16 paths, a model with
 * counts of 16,000 pairs finds the path of a document as often as a model with counts
 * of all 330,000 pairs, and is less confident when it is wrong. A pair is identified by
 * its bucket, a hash of 22 bits. A rare pair with the bucket of a frequent pair is
 * treated as the frequent pair. This happens to at most one of 64 rare pairs, because
 * at most one of 64 buckets has counts.
 *
 * Counts are whole numbers, so they depend neither on the order of documents nor on the
 * number of threads. */
#include "router/prefix_lm.h"
#include <math.h>

enum { ROWS_AN_ITEM = 1024, COUNTS_MOST = 1 << 16 };
static const double SMOOTHING = 2.0; /* K */

static uint32_t bucket_of(int32_t a, int32_t b)
{
    uint64_t x = ((uint64_t)(uint32_t)a << 32 | (uint32_t)b) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    return (uint32_t)(x >> 32) & (PREFIX_LM_BUCKETS - 1);
}

static int32_t known_token(int32_t token, int vocab)
{
    return token >= 0 && token < vocab ? token : 0;
}

static uint32_t most_rows(int n_paths)
{
    int most = PL_PREFIX_LM_CELLS_MAX / n_paths;
    return (uint32_t)(most < PREFIX_LM_ROWS_MOST ? most : PREFIX_LM_ROWS_MOST);
}

uint64_t pl_prefix_lm_bytes(int vocab, int n_paths)
{
    uint64_t rows = most_rows(n_paths), P = (uint64_t)n_paths;
    return (2 * rows * P + 3 * (uint64_t)vocab * P + rows) * sizeof(uint32_t);
}

/* ---- frequent pairs ---- */
pl_status survey_begin(int vocab, pair_survey *out)
{
    out->vocab = vocab;
    return pl_try_alloc(PREFIX_LM_BUCKETS * sizeof *out->counts, "the counts of pairs",
                        (void **)&out->counts);
}

void survey_add(pair_survey *survey, const int32_t *tokens, int n)
{
    for (int t = 1; t < n; ++t)
        ++survey->counts[bucket_of(known_token(tokens[t - 1], survey->vocab),
                                   known_token(tokens[t], survey->vocab))];
}

pl_status survey_end(pair_survey *survey, int n_paths, pl_prefix_lm **out)
{
    const uint32_t most = most_rows(n_paths);
    uint32_t *buckets = pl_alloc(((size_t)most + 1) * sizeof *buckets);
    /* the smallest count `least` >= 2 such that at most `most` buckets have a count of
     * `least` or more; with[c]: number of buckets with the count c */
    uint32_t *with = pl_alloc(COUNTS_MOST * sizeof *with), n = 0, least = COUNTS_MOST;
    for (size_t b = 0; b < PREFIX_LM_BUCKETS; ++b)
        ++with[survey->counts[b] < COUNTS_MOST ? survey->counts[b] : COUNTS_MOST - 1];
    while (least > 2 && n + with[least - 1] <= most)
        n += with[--least];
    pl_free(with);
    n = 0;
    for (uint32_t b = 0; b < PREFIX_LM_BUCKETS; ++b)
        if (survey->counts[b] >= least && n < most)
            buckets[n++] = b;
    pl_status status = prefix_lm_create(survey->vocab, n_paths, buckets, n, out);
    pl_free(buckets);
    return status;
}

void survey_clear(pair_survey *survey)
{
    pl_free(survey->counts);
    survey->counts = NULL;
}

/* ---- the model ---- */
pl_status prefix_lm_create(int vocab, int n_paths, const uint32_t *buckets,
                           uint32_t n_rows, pl_prefix_lm **out)
{
    size_t rows = (size_t)vocab * (size_t)n_paths;
    size_t cells = (size_t)n_rows * (size_t)n_paths;
    uint32_t *memory = NULL;
    *out = NULL;
    if (rows > PL_PREFIX_LM_CELLS_MAX)
        return pl_fail(
            PL_ERR_CONFIG,
            "the prefix model needs one count per token of the vocabulary (%d) and "
            "path (%d), but may have at most %d counts; use a smaller data.vocab or "
            "fewer paths",
            vocab, n_paths, (int)PL_PREFIX_LM_CELLS_MAX);
    PL_CHECK(pl_try_alloc((2 * cells + 3 * rows + n_rows) * sizeof(float),
                          "the counts of a prefix model", (void **)&memory));
    pl_prefix_lm *lm = pl_alloc(sizeof *lm);
    *lm = (pl_prefix_lm){.vocab = vocab,
                         .n_paths = n_paths,
                         .n_rows = n_rows,
                         .buckets = memory,
                         .tokens = memory + n_rows,
                         .pairs = memory + n_rows + rows};
    lm->pair_terms = (float *)(lm->pairs + cells);
    lm->before_terms = lm->pair_terms + cells;
    lm->alone_terms = lm->before_terms + rows;
    memcpy(lm->buckets, buckets, n_rows * sizeof *buckets);
    *out = lm;
    return PL_OK;
}

void pl_prefix_lm_destroy(pl_prefix_lm **lm)
{
    if (*lm)
        pl_free((*lm)->buckets);
    pl_free(*lm);
    *lm = NULL;
}

int pl_prefix_lm_n_paths(const pl_prefix_lm *lm)
{
    return lm->n_paths;
}

/* Returns the row of a pair of tokens, or n_rows if the pair has no row. */
static uint32_t pair_row(const pl_prefix_lm *lm, int32_t a, int32_t b)
{
    uint32_t bucket = bucket_of(a, b), low = 0, end = lm->n_rows;
    while (low < end) {
        uint32_t middle = low + (end - low) / 2;
        if (lm->buckets[middle] < bucket)
            low = middle + 1;
        else
            end = middle;
    }
    return low < lm->n_rows && lm->buckets[low] == bucket ? low : lm->n_rows;
}

void prefix_lm_add(pl_prefix_lm *lm, int path, const int32_t *tokens, int n)
{
    size_t P = (size_t)lm->n_paths, p = (size_t)path;
    for (int t = 0; t < n; ++t) {
        int32_t b = known_token(tokens[t], lm->vocab);
        ++lm->tokens[(size_t)b * P + p];
        if (t == 0)
            continue;
        uint32_t row = pair_row(lm, known_token(tokens[t - 1], lm->vocab), b);
        if (row < lm->n_rows)
            ++lm->pairs[row * P + p];
    }
}

/* ---- logarithms of counts ---- */
/* Computes terms[p] = log(counts[p] + K * sum of counts / P) for all P paths. If the
 * sum is 0, uses 1 as the sum, so that every logarithm is finite. */
static void fill_terms(const uint32_t *counts, size_t P, float *terms)
{
    uint64_t sum = 0;
    for (size_t p = 0; p < P; ++p)
        sum += counts[p];
    const double shared = SMOOTHING / (double)P * fmax((double)sum, 1.0);
    for (size_t p = 0; p < P; ++p)
        terms[p] = (float)log((double)counts[p] + shared);
}

static pl_status fill_pair_terms(void *context, size_t item, int thread)
{
    pl_prefix_lm *lm = context;
    size_t P = (size_t)lm->n_paths, first = item * ROWS_AN_ITEM;
    (void)thread;
    for (size_t r = first; r < lm->n_rows && r < first + ROWS_AN_ITEM; ++r)
        fill_terms(lm->pairs + r * P, P, lm->pair_terms + r * P);
    return PL_OK;
}

pl_status prefix_lm_finish(pl_prefix_lm *lm, int n_threads)
{
    size_t P = (size_t)lm->n_paths, V = (size_t)lm->vocab;
    double *seen = pl_alloc(P * sizeof *seen), all = 0.0;
    for (size_t v = 0; v < V; ++v)
        for (size_t p = 0; p < P; ++p)
            seen[p] += lm->tokens[v * P + p];
    for (size_t p = 0; p < P; ++p)
        all += seen[p];
    for (size_t v = 0; v < V; ++v) {
        float *before = lm->before_terms + v * P, *alone = lm->alone_terms + v * P;
        fill_terms(lm->tokens + v * P, P, before);
        for (size_t p = 0; p < P; ++p)
            alone[p] = before[p] -
                       (float)log(seen[p] + SMOOTHING / (double)P * fmax(all, 1.0));
    }
    pl_free(seen);
    return pl_parallel(n_threads, (lm->n_rows + ROWS_AN_ITEM - 1) / ROWS_AN_ITEM,
                       fill_pair_terms, lm);
}

/* The terms [n_paths] of one token: `before` of the previous token, `alone` of this
 * token, `pair` of the pair of the two. `pair` is NULL if the pair is rare. */
typedef struct token_terms {
    const float *before, *alone, *pair;
} token_terms;

static token_terms find_terms(const pl_prefix_lm *lm, int32_t before, int32_t token)
{
    const size_t P = (size_t)lm->n_paths;
    const int32_t a = known_token(before, lm->vocab);
    const int32_t b = known_token(token, lm->vocab);
    const uint32_t row = pair_row(lm, a, b);
    return (token_terms){lm->before_terms + (size_t)a * P,
                         lm->alone_terms + (size_t)b * P,
                         row < lm->n_rows ? lm->pair_terms + row * P : NULL};
}

static float path_loss(const token_terms *x, size_t p)
{
    return x->pair ? x->before[p] - x->pair[p] : -x->alone[p];
}

void pl_prefix_lm_nats(const pl_prefix_lm *lm, const int32_t *tokens, int n,
                       double *nats)
{
    memset(nats, 0, (size_t)lm->n_paths * sizeof *nats);
    for (int t = 1; t < n; ++t) {
        const token_terms x = find_terms(lm, tokens[t - 1], tokens[t]);
        for (int p = 0; p < lm->n_paths; ++p)
            nats[p] += (double)path_loss(&x, (size_t)p);
    }
}

void pl_prefix_lm_losses(const pl_prefix_lm *lm, const int *paths, int n_paths,
                         const int32_t *tokens, int n, float *losses, size_t stride)
{
    for (int t = 1; t < n; ++t) {
        const token_terms x = find_terms(lm, tokens[t - 1], tokens[t]);
        for (int i = 0; i < n_paths; ++i)
            losses[(size_t)i * stride + (size_t)t - 1] =
                path_loss(&x, (size_t)(paths ? paths[i] : i));
    }
}
