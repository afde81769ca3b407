/* Computes how likely a token was, from the logits at its position. */
#include "serve/serve.h"
#include <math.h>

pl_status pl_score_token(const float *logits, int vocab, int32_t token, int n_top,
                         pl_token_score *out)
{
    double highest = -INFINITY, sum = 0.0;
    *out = (pl_token_score){.token = token};
    for (int v = 0; v < vocab; ++v) {
        const double logit = (double)logits[v];
        highest = logit > highest ? logit : highest;
        /* Inserts the token into the list of the likeliest tokens so far, which is in
         * falling order. If logits are equal, the token with the lower number comes
         * first. */
        int at = out->n_top;
        if (at == n_top && !(n_top > 0 && logit > out->top[at - 1].logprob))
            continue;
        if (at < n_top)
            out->n_top++;
        else
            at--;
        for (; at > 0 && logit > out->top[at - 1].logprob; --at)
            out->top[at] = out->top[at - 1];
        out->top[at] = (pl_token_rank){v, logit};
    }
    for (int v = 0; v < vocab; ++v)
        sum += exp((double)logits[v] - highest);
    if (!isfinite(highest) || !isfinite(sum))
        return pl_fail(PL_ERR_NUMERIC,
                       "the logits of %d tokens have no finite sum, so no token has a "
                       "probability",
                       vocab);
    const double norm = highest + log(sum);
    out->logprob = (double)logits[token] - norm;
    for (int i = 0; i < out->n_top; ++i)
        out->top[i].logprob -= norm;
    return PL_OK;
}
