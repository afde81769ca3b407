/* Training: a batch in, gradients, one AdamW step.
 *
 * The loss is the mean over counted targets, so its gradient is scaled by 1/n where it
 * begins, in the classifier. Clipping scales all gradients by min(1, clip / norm); the
 * optimizer applies that factor while it reads them.
 */
#include "modules/model_inside.h"
#include <math.h>

static pl_status check_extent(const pl_model *m, int B, int T)
{
    if (B < 1 || T < 1 || B > m->options.batch || T > m->options.context)
        return pl_fail(
            PL_ERR_ARG,
            "a batch of %d x %d tokens does not fit a model made for %d x %d", B, T,
            m->options.batch, m->options.context);
    return PL_OK;
}

static pl_status check_ids(const char *what, const int32_t *ids, int32_t min, int V,
                           int N, int T)
{
    for (int n = 0; n < N; n++)
        if (ids[n] < min || ids[n] >= V)
            return pl_fail(
                PL_ERR_DATA,
                "%s %d at sequence %d, position %d is outside the vocabulary "
                "of %d; was it made with another tokenizer?",
                what, (int)ids[n], n / T, n % T, V);
    return PL_OK;
}

/* Tokens come from files and from users: an index outside the embedding is found here,
 * so that no operation has to check. Any negative target means "not counted". */
pl_status model_take_batch(pl_model *m, const int32_t *tokens, const int32_t *targets,
                           int B, int T, int64_t *n_targets)
{
    *n_targets = 0;
    PL_RETURN_IF(check_extent(m, B, T));
    int N = B * T, V = m->shape->vocab;
    size_t bytes = (size_t)N * sizeof(int32_t);
    PL_RETURN_IF(check_ids("token", tokens, 0, V, N, T));
    m->ops->upload(m->be, m->acts.tokens, tokens, bytes);
    if (!targets)
        return PL_OK;
    PL_RETURN_IF(check_ids("target", targets, INT32_MIN, V, N, T));
    m->ops->upload(m->be, m->acts.targets, targets, bytes);
    for (int n = 0; n < N; n++)
        *n_targets += targets[n] >= 0;
    return PL_OK;
}

/* Mean loss and gradient norm of the pass just made; waits for the device. */
static pl_status measure(pl_model *m, int N, pl_step_result *out)
{
    double squares = 0.0, sum = 0.0;
    m->ops->sum_squares(m->be, m->acts.squares, m->grads, m->n_params);
    m->ops->download(m->be, &squares, m->acts.squares, sizeof squares);
    m->ops->download(m->be, m->host_rows, m->acts.loss, (size_t)N * sizeof(float));
    PL_RETURN_IF(m->ops->sync(m->be));
    /* rows without a target are exactly zero */
    for (int n = 0; n < N; n++)
        sum += (double)m->host_rows[n];
    out->loss = sum / (double)out->n_tokens;
    out->grad_norm = sqrt(squares);
    if (!isfinite(out->loss) || !isfinite(out->grad_norm))
        return pl_fail(PL_ERR_NUMERIC,
                       "loss %g with gradient norm %g; lower the learning rate or look "
                       "for damaged data",
                       out->loss, out->grad_norm);
    return PL_OK;
}

pl_status pl_model_gradients(pl_model *m, const int32_t *tokens, const int32_t *targets,
                             int B, int T, pl_step_result *out)
{
    *out = (pl_step_result){0};
    if (!m->options.training)
        return pl_fail(PL_ERR_ARG, "a model made for inference cannot train");
    PL_RETURN_IF(model_take_batch(m, tokens, targets, B, T, &out->n_tokens));
    if (out->n_tokens == 0)
        return pl_fail(PL_ERR_DATA, "none of the %d targets of the batch counts",
                       B * T);
    model_forward(m, B, T);
    model_backward(m, B, T, 1.0f / (float)out->n_tokens);
    pl_status status = measure(m, B * T, out);
    if (status != PL_OK)
        pl_model_zero_gradients(m);
    return status;
}

/* Norm weights are not decayed: the runs say which stretches are matrices. */
static void update(pl_model *m, const pl_adamw *adam, float grad_scale)
{
    for (int i = 0; i < m->n_runs; i++) {
        size_t at = m->runs[i].offset;
        pl_adamw run = *adam;
        if (!m->runs[i].decay)
            run.weight_decay = 0.0f;
        m->ops->adamw(m->be, m->params + at, m->moments + at,
                      m->moments + m->n_params + at, m->grads + at, m->runs[i].n,
                      grad_scale, &run);
    }
    m->ops->weights_refresh(m->be, m->weights, m->n_weights);
}

pl_status pl_model_train_step(pl_model *m, const int32_t *tokens,
                              const int32_t *targets, int B, int T,
                              const pl_adamw *adam, float clip, pl_step_result *out)
{
    *out = (pl_step_result){0};
    if (adam->step < 1)
        return pl_fail(PL_ERR_ARG, "AdamW step %lld; steps count from 1",
                       (long long)adam->step);
    PL_RETURN_IF(pl_model_gradients(m, tokens, targets, B, T, out));
    bool clipped = clip > 0.0f && out->grad_norm > (double)clip;
    update(m, adam, clipped ? (float)((double)clip / out->grad_norm) : 1.0f);
    return m->ops->sync(m->be);
}
