/* Trains a model: takes a batch, computes gradients, and makes one optimizer step.
 *
 * The loss is the mean over the n counted targets. So the classifier, which computes
 * the first gradient, multiplies it by 1/n. The forward pass, the backward pass and the
 * update of a step are one routine (pl_op_perform); so is each earlier pass of a step
 * in several passes. The numbers of a step (pl_step_numbers) are in the backend's
 * memory, so that the backend may record a routine and repeat it. A pass needs one
 * upload (model_take_batch) and one call that runs the routine. Only two sums are
 * downloaded: those of the losses and of the squared gradients. The host may begin the
 * next step before it asks for these sums. */
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
        return pl_fail(PL_ERR_ARG,
                       "a batch of %d sequences of %d tokens is not possible; this "
                       "model takes 1 to %d sequences of 1 to %d tokens",
                       B, T, m->options.batch, m->options.context);
    const int N = B * T, V = m->shape->vocab;
    int32_t *ids = model_host_input(m, m->acts.tokens);
    int32_t *texts = model_host_input(m, m->acts.texts);
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
    /* until there are several texts in a row, all of acts.texts is zero */
    m->has_texts |= several;
    PL_CHECK(check_ids("token", ids, 0, V, N, T));
    const void *end = m->has_texts ? texts + N : ids + N;
    if (targets) {
        PL_CHECK(check_ids("target", targets, INT32_MIN, V, N, T));
        int32_t *counted = model_host_input(m, m->acts.targets);
        memcpy(counted, targets, (size_t)N * sizeof *targets);
        end = counted + N;
    }
    m->ops->upload(m->be, m->act_block, m->host_inputs,
                   (size_t)((const uint8_t *)end - m->host_inputs));
    return PL_OK;
}

/* Computes the mean loss and gradient norm of a step from the sums that were
 * downloaded. */
static pl_status measure_step(const double sums[N_SUMS], pl_step_result *out)
{
    out->loss = sums[SUM_LOSSES] / (double)out->n_tokens;
    out->grad_norm = sqrt(sums[SUM_SQUARES]);
    if (!isfinite(out->loss) || !isfinite(out->grad_norm))
        return pl_fail(PL_ERR_NUMERIC,
                       "the loss is %g and the gradient norm %g, but both must be "
                       "finite; lower the learning rate or look for damaged data",
                       out->loss, out->grad_norm);
    return PL_OK;
}

/* Computes the numbers that all passes of a step use. */
static pl_status begin_step(const pl_model *m, const int32_t *targets, int B, int T,
                            const pl_adamw *adam, float clip, int64_t *n_tokens)
{
    if (!m->options.training)
        return pl_fail(PL_ERR_ARG, "a model made for inference cannot train");
    if (B < 1 || T < 1)
        return pl_fail(
            PL_ERR_ARG,
            "a step cannot have %d sequences of %d tokens; give at least 1 of each", B,
            T);
    int64_t counted = 0;
    for (int64_t i = 0; i < (int64_t)B * T; i++)
        counted += targets[i] >= 0;
    *n_tokens = counted;
    if (counted == 0)
        return pl_fail(PL_ERR_DATA,
                       "all %d targets of the batch are excluded from the loss", B * T);
    /* mass = 1 - beta^step: the sum of the weights of all gradients in a moment */
    const double beta1 = (double)adam->beta1, beta2 = (double)adam->beta2;
    const double step = (double)adam->step;
    pl_step_numbers *numbers = model_host_input(m, m->acts.numbers);
    *numbers = (pl_step_numbers){.adam = *adam,
                                 .mass1 = (float)(1.0 - pow(beta1, step)),
                                 .mass2 = (float)(1.0 - pow(beta2, step)),
                                 .clip = clip,
                                 .loss_scale = 1.0f / (float)counted};
    return PL_OK;
}

/* One pass: a batch that fits into the model. */
typedef struct step_pass {
    pl_model *m;
    int B, T;
    bool more;       /* whether the sum of the losses continues an earlier pass */
    bool accumulate; /* whether there are gradients to which this pass adds its own */
} step_pass;

static void work_gradients(void *context)
{
    const step_pass *pass = context;
    pl_model *m = pass->m;
    model_forward(m, pass->B, pass->T);
    model_backward(m, pass->B, pass->T, pass->accumulate);
    m->ops->sum_losses(m->be, m->acts.sums + SUM_LOSSES, m->acts.loss,
                       pass->B * pass->T, pass->more);
}

static void work_train_step(void *context)
{
    const step_pass *pass = context;
    pl_model *m = pass->m;
    work_gradients(context);
    model_drop_frozen(m);
    m->ops->update_apply(m->be, m->update, m->acts.loss, pass->B * pass->T,
                         m->acts.numbers);
}

pl_status pl_model_gradients(pl_model *m, const int32_t *tokens, const int32_t *targets,
                             int B, int T, pl_step_result *out)
{
    const pl_adamw none = {0};
    double sums[N_SUMS];
    step_pass pass = {.m = m, .B = B, .T = T, .accumulate = m->has_gradients};
    pl_status status = PL_OK;
    *out = (pl_step_result){0};
    PL_CHECK(begin_step(m, targets, B, T, &none, 0.0f, &out->n_tokens));
    PL_CHECK(model_take_batch(m, tokens, targets, B, T));
    work_gradients(&pass);
    m->has_gradients = true;
    m->ops->sum_squares(m->be, m->acts.sums + SUM_SQUARES, m->grads, m->n_params);
    m->ops->download(m->be, sums, m->acts.sums, sizeof sums);
    PL_TRY(m->ops->sync(m->be));
    PL_TRY(measure_step(sums, out));
    return PL_OK;
done:
    pl_model_zero_gradients(m);
    return status;
}

pl_status pl_model_step_begin(pl_model *m, const int32_t *tokens,
                              const int32_t *targets, int B, int T,
                              const pl_adamw *adam, float clip)
{
    pl_status status = PL_OK;
    int64_t n_tokens;
    if (adam->step < 1)
        return pl_fail(PL_ERR_ARG, "the optimizer's step is %lld; steps count from 1",
                       (long long)adam->step);
    if (m->n_begun - m->n_ended >= STEPS_BEGUN)
        return pl_fail(PL_ERR_ARG, "two steps have begun; end one before the next");
    PL_CHECK(begin_step(m, targets, B, T, adam, clip, &n_tokens));
    const int batch = m->options.batch;
    for (int first = 0; first < B; first += batch) {
        const size_t at = (size_t)first * (size_t)T;
        const bool is_last = B - first <= batch;
        step_pass pass = {m, is_last ? B - first : batch, T, first > 0,
                          m->has_gradients};
        pl_routine **routine = &m->routines[is_last     ? ROUTINE_LAST
                                            : first > 0 ? ROUTINE_NEXT
                                                        : ROUTINE_FIRST];
        PL_TRY(model_take_batch(m, tokens + at, targets + at, pass.B, T));
        /* differs for passes with different operations or arguments */
        const uint64_t shape = (uint64_t)pass.accumulate << 63 |
                               (uint64_t)(uint32_t)pass.B << 32 |
                               (uint64_t)pass.more << 31 | (uint32_t)pass.T;
        m->ops->perform(m->be, routine, shape,
                        is_last ? work_train_step : work_gradients, &pass);
        m->has_gradients = !is_last;
    }
    const int number = (int)(m->n_begun % STEPS_BEGUN);
    m->ops->post(m->be, number, m->acts.sums, N_SUMS * sizeof(double));
    m->begun_tokens[number] = n_tokens;
    m->n_begun++;
    return PL_OK;
done:
    /* discards the gradients of the passes that ended before the error */
    pl_model_zero_gradients(m);
    return status;
}

pl_status pl_model_step_end(pl_model *m, pl_step_result *out)
{
    double sums[N_SUMS];
    const int number = (int)(m->n_ended % STEPS_BEGUN);
    *out = (pl_step_result){0};
    if (m->n_ended == m->n_begun)
        return pl_fail(PL_ERR_ARG, "no step has begun");
    out->n_tokens = m->begun_tokens[number];
    m->n_ended++;
    PL_CHECK(m->ops->collect(m->be, number, sums, sizeof sums));
    return measure_step(sums, out);
}

pl_status pl_model_train_step(pl_model *m, const int32_t *tokens,
                              const int32_t *targets, int B, int T,
                              const pl_adamw *adam, float clip, pl_step_result *out)
{
    *out = (pl_step_result){0};
    m->n_ended = m->n_begun; /* forgets a step that was begun and never ended */
    PL_CHECK(pl_model_step_begin(m, tokens, targets, B, T, adam, clip));
    return pl_model_step_end(m, out);
}
