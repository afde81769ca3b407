/* Trains a model: takes a batch, computes gradients, and makes one optimizer step.
 *
 * The loss is the mean over the n counted targets. So the classifier, which computes
 * the first gradient, multiplies it by 1/n. The forward pass, the backward pass and the
 * update of a step are one routine (pl_op_perform). The numbers of a step
 * (pl_step_numbers) are in the backend's memory, so that the backend may record the
 * routine and repeat it. Only the losses of the tokens and the gradient's sum of
 * squares are downloaded. */
#include "modules/model_internal.h"
#include <math.h>

static pl_status check_ids(const char *what, const int32_t *ids, int32_t min, int V,
                           int N, int T)
{
    for (int n = 0; n < N; n++)
        if (ids[n] < min || ids[n] >= V)
            return pl_fail(
                PL_ERR_DATA,
                "%s %d at sequence %d, position %d is outside the vocabulary of %d; "
                "check that the data was made with this model's tokenizer",
                what, (int)ids[n], n / T, n % T, V);
    return PL_OK;
}

/* Checks and uploads tokens. Tokens come from files and users; after this check no
 * operation needs to check whether an index is outside the embedding. A negative target
 * does not count. */
pl_status model_take_batch(pl_model *m, const int32_t *tokens, const int32_t *targets,
                           int B, int T)
{
    if (B < 1 || T < 1 || B > m->options.batch || T > m->options.context)
        return pl_fail(
            PL_ERR_ARG,
            "a batch of %d sequences of %d tokens is not possible; this model takes 1 "
            "to %d sequences of 1 to %d tokens",
            B, T, m->options.batch, m->options.context);
    int N = B * T, V = m->shape->vocab;
    size_t bytes = (size_t)N * sizeof(int32_t);
    int32_t *ids = m->host_ids, *texts = m->host_ids + N;
    bool several = false; /* whether there is more than one text in a row */
    for (int n = 0; n < N; n++) {
        /* Without targets, the tokens may be numbers from a user, so marks are not
         * allowed. */
        const bool marked = targets && tokens[n] >= 0 && tokens[n] & PL_TEXT_BEGINS;
        const int t = n % T;
        several |= marked && t > 0;
        ids[n] = marked ? tokens[n] & ~PL_TEXT_BEGINS : tokens[n];
        texts[n] = marked || t == 0 ? t : texts[n - 1];
    }
    PL_CHECK(check_ids("token", ids, 0, V, N, T));
    m->ops->upload(m->be, m->acts.tokens, ids, bytes);
    if (several || m->n_texts > 0) /* otherwise acts.texts is zero already */
        m->ops->upload(m->be, m->acts.texts, texts, bytes);
    if (several && N > m->n_texts)
        m->n_texts = N;
    else if (!several && N >= m->n_texts)
        m->n_texts = 0;
    if (!targets)
        return PL_OK;
    PL_CHECK(check_ids("target", targets, INT32_MIN, V, N, T));
    m->ops->upload(m->be, m->acts.targets, targets, bytes);
    return PL_OK;
}

/* Waits for the device and adds the losses of the last pass to `sum`. */
static pl_status add_losses(pl_model *m, int N, double *sum)
{
    m->ops->download(m->be, m->host_rows, m->acts.loss, (size_t)N * sizeof(float));
    PL_CHECK(m->ops->sync(m->be));
    /* rows without a target are exactly zero */
    for (int n = 0; n < N; n++)
        *sum += (double)m->host_rows[n];
    return PL_OK;
}

/* Computes the mean loss and gradient norm of a step; `sum` has the losses of its
 * earlier passes. */
static pl_status measure_step(pl_model *m, int N, double sum, pl_step_result *out)
{
    double squares = 0.0;
    m->ops->download(m->be, &squares, m->acts.squares, sizeof squares);
    PL_CHECK(add_losses(m, N, &sum));
    out->loss = sum / (double)out->n_tokens;
    out->grad_norm = sqrt(squares);
    if (!isfinite(out->loss) || !isfinite(out->grad_norm))
        return pl_fail(PL_ERR_NUMERIC,
                       "the loss is %g and the gradient norm %g, but both must be "
                       "finite; lower the learning rate or look for damaged data",
                       out->loss, out->grad_norm);
    return PL_OK;
}

/* Returns 1 - beta^step, the sum of the weights in a moving average after `step`
 * steps. */
static float mass(float beta, int64_t step)
{
    return (float)(1.0 - pow((double)beta, (double)step));
}

/* Computes the numbers that all passes of a step use. */
static pl_status begin_step(const pl_model *m, const int32_t *targets, int B, int T,
                            pl_step_numbers *numbers, int64_t *n_tokens)
{
    if (!m->options.training)
        return pl_fail(PL_ERR_ARG, "a model made for inference cannot train");
    if (B < 1 || T < 1)
        return pl_fail(PL_ERR_ARG,
                       "a step cannot have %d sequences of %d tokens; give at least 1 "
                       "of each",
                       B, T);
    int64_t n = (int64_t)B * T;
    int64_t counted = 0;
    for (int64_t i = 0; i < n; i++)
        counted += targets[i] >= 0;
    *n_tokens = counted;
    if (*n_tokens == 0)
        return pl_fail(PL_ERR_DATA,
                       "all %d targets of the batch are excluded from the loss", B * T);
    numbers->mass1 = mass(numbers->adam.beta1, numbers->adam.step);
    numbers->mass2 = mass(numbers->adam.beta2, numbers->adam.step);
    numbers->loss_scale = 1.0f / (float)*n_tokens;
    return PL_OK;
}

/* Uploads the sequences of one pass and the step's numbers to the device. */
static pl_status take_pass(pl_model *m, const int32_t *tokens, const int32_t *targets,
                           int B, int T, const pl_step_numbers *numbers)
{
    PL_CHECK(model_take_batch(m, tokens, targets, B, T));
    m->ops->upload(m->be, m->acts.numbers, numbers, sizeof *numbers);
    return PL_OK;
}

pl_status pl_model_gradients(pl_model *m, const int32_t *tokens, const int32_t *targets,
                             int B, int T, pl_step_result *out)
{
    pl_step_numbers numbers = {0};
    *out = (pl_step_result){0};
    PL_CHECK(begin_step(m, targets, B, T, &numbers, &out->n_tokens));
    PL_CHECK(take_pass(m, tokens, targets, B, T, &numbers));
    model_forward(m, B, T);
    model_backward(m, B, T);
    m->ops->sum_squares(m->be, m->acts.squares, m->grads, m->n_params);
    pl_status status = measure_step(m, B * T, 0.0, out);
    if (status != PL_OK)
        pl_model_zero_gradients(m);
    return status;
}

typedef struct step_extent {
    pl_model *m;
    int B, T;
} step_extent;

static void work_train_step(void *context)
{
    const step_extent *step = context;
    pl_model *m = step->m;
    model_forward(m, step->B, step->T);
    model_backward(m, step->B, step->T);
    model_drop_frozen(m);
    m->ops->update_apply(m->be, m->update, m->acts.loss, step->B * step->T,
                         m->acts.numbers);
}

pl_status pl_model_train_step(pl_model *m, const int32_t *tokens,
                              const int32_t *targets, int B, int T,
                              const pl_adamw *adam, float clip, pl_step_result *out)
{
    pl_status status = PL_OK;
    pl_step_numbers numbers = {.adam = *adam, .clip = clip};
    double sum = 0.0;
    *out = (pl_step_result){0};
    if (adam->step < 1)
        return pl_fail(PL_ERR_ARG, "the optimizer's step is %lld; steps count from 1",
                       (long long)adam->step);
    PL_CHECK(begin_step(m, targets, B, T, &numbers, &out->n_tokens));
    /* All passes but the last only add to the gradients and to `sum`. */
    const int batch = m->options.batch, before = (B - 1) / batch * batch;
    for (int first = 0; first < before; first += batch) {
        const size_t at = (size_t)first * (size_t)T;
        PL_TRY(take_pass(m, tokens + at, targets + at, batch, T, &numbers));
        model_forward(m, batch, T);
        model_backward(m, batch, T);
        PL_TRY(add_losses(m, batch * T, &sum));
    }
    const size_t at = (size_t)before * (size_t)T;
    step_extent step = {m, B - before, T};
    const uint64_t shape = (uint64_t)(uint32_t)step.B << 32 | (uint32_t)T;
    PL_TRY(take_pass(m, tokens + at, targets + at, step.B, T, &numbers));
    m->ops->perform(m->be, &m->routine, shape, work_train_step, &step);
    return measure_step(m, step.B * T, sum, out);
done:
    /* discards the gradients of the passes that ended before the error */
    pl_model_zero_gradients(m);
    return status;
}
