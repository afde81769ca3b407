/* Finds the path under which a text is likeliest.
 *
 * A path that was trained on one kind of text predicts the first tokens of such a text
 * better than the other paths do. So each path reads the first tokens, and the path
 * that predicts them best writes the answer. This method needs no further training, and
 * costs one short forward pass per path. For a longer prompt path_chooser.c adds the
 * router's losses of the later tokens. */
#include "serve/serve.h"
#include <math.h>

pl_status pl_likelihood_nats(pl_model *model, const int32_t *tokens, int n,
                             double *nats)
{
    *nats = 0.0;
    if (n < 2)
        return pl_fail(PL_ERR_ARG,
                       "a text of %d tokens has no token that a model could predict; "
                       "give 2 tokens or more",
                       n);
    const size_t n_targets = (size_t)n - 1;
    float *losses = pl_alloc(n_targets * sizeof *losses);
    pl_status status =
        pl_model_losses(model, tokens, tokens + 1, 1, (int)n_targets, losses);
    for (size_t t = 0; status == PL_OK && t < n_targets; ++t)
        *nats += (double)losses[t];
    pl_free(losses);
    return status;
}

pl_status pl_likelihood_choose(const double *nats, int n_paths, int *path,
                               double *margin_nats)
{
    double best = INFINITY, second = INFINITY;
    *path = -1;
    *margin_nats = INFINITY;
    for (int i = 0; i < n_paths; ++i) {
        if (nats[i] < best) { /* false if nats[i] is NaN */
            second = best;
            best = nats[i];
            *path = i;
        } else if (nats[i] < second) {
            second = nats[i];
        }
    }
    if (*path < 0 || !isfinite(best))
        return pl_fail(PL_ERR_NUMERIC,
                       "none of the %d paths gives the prompt a finite likelihood, so "
                       "no path can be chosen; name a path",
                       n_paths);
    *margin_nats = second - best;
    return PL_OK;
}

bool pl_answers_by_likelihood(const char *rule, int prefix, int n_paths)
{
    if (n_paths < 2 || prefix < 2) /* only one path, or no token to compare */
        return false;
    if (strcmp(rule, "auto") == 0)
        return n_paths <= PL_LIKELIHOOD_PATHS_MAX;
    return strcmp(rule, "likelihood") == 0;
}
