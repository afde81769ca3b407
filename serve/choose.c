/* Chooses a token in these steps:
 *
 * - softmax at a temperature
 * - drop tokens whose probability is below min_p times the highest probability
 * - keep the top_k likeliest tokens (Fan et al. 2018, arXiv:1805.04833)
 * - keep the nucleus: the smallest set of likeliest tokens that has at least the share
 *   top_p of the remaining probability (Holtzman et al. 2019, arXiv:1904.09751)
 * - draw one of these tokens with one keyed random number
 *
 * The likeliest tokens are taken from a heap, so the vocabulary need not be sorted: to
 * find m tokens in a vocabulary of V tokens costs about V + m log V steps. */
#include "serve/serve.h"
#include <math.h>

struct pl_chooser {
    int vocab;
    int32_t *heap;  /* [vocab] tokens as a heap, the likeliest on top */
    double *weight; /* [vocab] unnormalised weight of the token with rank i */
    int32_t *token; /* [vocab] the token with rank i */
};

pl_choice pl_choice_defaults(void)
{
    return (pl_choice){.temperature = 0.8, .top_k = 40, .top_p = 0.95, .seed = 0};
}

pl_status pl_chooser_create(int vocab, pl_chooser **out)
{
    *out = NULL;
    if (vocab < 1)
        return pl_fail(PL_ERR_ARG, "the vocabulary has %d tokens; it needs 1 or more",
                       vocab);
    size_t n = (size_t)vocab;
    void *memory = NULL;
    PL_CHECK(pl_try_alloc(n * (sizeof(double) + 2 * sizeof(int32_t)), "choosing tokens",
                          &memory));
    pl_chooser *chooser = pl_alloc(sizeof *chooser);
    chooser->vocab = vocab;
    chooser->weight = memory;
    chooser->heap = (int32_t *)(chooser->weight + n);
    chooser->token = chooser->heap + n;
    *out = chooser;
    return PL_OK;
}

void pl_chooser_destroy(pl_chooser **chooser)
{
    if (!*chooser)
        return;
    pl_free_all((*chooser)->weight, *chooser);
    *chooser = NULL;
}

/* ---- the heap ---- */
static bool ranks_before(const float *logits, int32_t a, int32_t b)
{
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
}

static void sift_down(int32_t *heap, int n, int top, const float *logits)
{
    int32_t token = heap[top];
    for (int child = 2 * top + 1; child < n; child = 2 * top + 1) {
        if (child + 1 < n && ranks_before(logits, heap[child + 1], heap[child]))
            ++child;
        if (!ranks_before(logits, heap[child], token))
            break;
        heap[top] = heap[child];
        top = child;
    }
    heap[top] = token;
}

/* ---- the choice ---- */
static double sum_weights(const double *weight, int n)
{
    double sum = 0.0;
    for (int i = 0; i < n; ++i)
        sum += weight[i];
    return sum;
}

/* Ranks tokens, the likeliest first, until `most` are ranked, their weights sum to
 * `share`, or the next weight is below min_p. Returns how many were ranked. */
static int rank_tokens(pl_chooser *chooser, const float *logits, float highest,
                       const pl_choice *choice, int most, double share)
{
    double sum = 0.0;
    int n = 0;
    for (int v = 0; v < chooser->vocab; ++v)
        chooser->heap[v] = v;
    for (int top = chooser->vocab / 2 - 1; top >= 0; --top)
        sift_down(chooser->heap, chooser->vocab, top, logits);
    while (n < most && sum < share) {
        const int rest = chooser->vocab - n - 1;
        int32_t token = chooser->heap[0];
        chooser->heap[0] = chooser->heap[rest];
        sift_down(chooser->heap, rest, 0, logits);
        double weight =
            exp(((double)logits[token] - (double)highest) / choice->temperature);
        if (weight < choice->min_p)
            break;
        chooser->token[n] = token;
        chooser->weight[n] = weight;
        sum += chooser->weight[n++];
    }
    return n;
}

pl_status pl_choose_token(pl_chooser *chooser, const float *logits,
                          const pl_choice *choice, uint64_t index, int32_t *token)
{
    *token = 0;
    if (!(choice->temperature >= 0.0 && choice->temperature <= 100.0))
        return pl_fail(PL_ERR_USAGE,
                       "temperature is %g; give 0 (always the likeliest token) to 100",
                       choice->temperature);
    if (choice->top_k < 0)
        return pl_fail(PL_ERR_USAGE, "top_k is %d; give 0 (keep all tokens) or more",
                       choice->top_k);
    if (!(choice->top_p > 0.0 && choice->top_p <= 1.0))
        return pl_fail(PL_ERR_USAGE, "top_p is %g; give more than 0 and at most 1",
                       choice->top_p);
    if (!(choice->min_p >= 0.0 && choice->min_p <= 1.0))
        return pl_fail(PL_ERR_USAGE, "min_p is %g; give 0 (no limit) to 1",
                       choice->min_p);
    /* Finds the likeliest token; if several logits are equal, the first of them. */
    int vocab = chooser->vocab;
    int best = 0;
    for (int v = 0; v < vocab; ++v) {
        if (isnan(logits[v]) || logits[v] == INFINITY)
            return pl_fail(PL_ERR_NUMERIC,
                           "the logit of token %d is %f, so no token can be chosen", v,
                           (double)logits[v]);
        if (logits[v] > logits[best])
            best = v;
    }
    if (logits[best] == -INFINITY)
        return pl_fail(PL_ERR_NUMERIC,
                       "all %d logits are -infinity, so no token can be chosen", vocab);
    *token = best;
    if (choice->temperature == 0.0)
        return PL_OK;
    const float highest = logits[best];
    const double *weight = chooser->weight;
    const bool cut = choice->top_k > 0 && choice->top_k < vocab;
    int n = vocab;
    if (cut || choice->min_p > 0) {
        n = rank_tokens(chooser, logits, highest, choice, cut ? choice->top_k : vocab,
                        INFINITY);
        /* Finds the smallest number of ranked tokens whose weights reach top_p of the
         * sum of the n weights. */
        double enough = choice->top_p * sum_weights(weight, n), reached = 0.0;
        for (int i = 0; i < n; ++i) {
            reached += weight[i];
            if (reached >= enough) {
                n = i + 1;
                break;
            }
        }
    } else {
        /* Every token is a candidate, so no ranking is needed: tokens stay in the order
         * of their numbers. */
        for (int32_t v = 0; v < vocab; ++v) {
            chooser->token[v] = v;
            chooser->weight[v] =
                exp(((double)logits[v] - (double)highest) / choice->temperature);
        }
        if (choice->top_p < 1.0)
            n = rank_tokens(chooser, logits, highest, choice, vocab,
                            choice->top_p * sum_weights(weight, vocab));
    }
    double u = pl_random_uniform(choice->seed, pl_stream("choose", 0, 0), index);
    /* draws the candidate at which the running sum of weights passes u * (sum of
     * weights); never a candidate with weight 0 */
    double target = u * sum_weights(weight, n), sum = 0.0;
    *token = chooser->token[0];
    for (int i = 0; i < n && !(sum > target); ++i) {
        if (weight[i] > 0.0)
            *token = chooser->token[i];
        sum += weight[i];
    }
    return PL_OK;
}
