/* folder: modules; label: unit */
/* Tests a whole model on every production backend. Its gradients must agree with the
 * reference, it must learn, equal trainings must give equal bytes, and decoding must
 * agree with a full forward pass. */
#include "tests/support/shape.h"
#include "tests/support/pairs.h"

/* Every test is run twice: without QK norm and with it. */
static bool with_qk_norm;

static void for_each_model(void (*check)(const pair *p))
{
    for (int i = 0; i < 2; i++) {
        with_qk_norm = i;
        print_message("with%s QK norm\n", i ? "" : "out");
        for_each_backend(check);
    }
}

#define MODEL_TEST(name)                                                               \
    static void name##_of(const pair *p);                                              \
    PL_TEST(name)                                                                      \
    {                                                                                  \
        for_each_model(name##_of);                                                     \
    }                                                                                  \
    static void name##_of(const pair *p)

enum { MODEL_B = 3, MODEL_T = 37, MODEL_N = MODEL_B * MODEL_T };

static pl_topology *topology_with(int ffn, bool tied)
{
    const pl_shape shape = SHAPE(257, 96, 4, 2, 32, ffn, 3, 48, .tied = tied,
                                 .rope_theta = 10000.0, .qk_norm = with_qk_norm);
    return one_path(&shape);
}

static pl_topology *model_topology(void)
{
    return topology_with(200, true);
}

static pl_model *new_model(const pl_topology *t, pl_backend *be, bool recompute)
{
    const pl_model_options options = {
        .batch = MODEL_B, .context = 48, .training = true, .recompute = recompute};
    return fresh_model(t, be, &options);
}

static void model_batch(int32_t tokens[MODEL_N], int32_t targets[MODEL_N])
{
    for (int n = 0; n < MODEL_N; n++) {
        tokens[n] = (int32_t)(pl_random_u32(5, 5, (uint64_t)n) % 257);
        targets[n] = n % 9 == 0 ? -1 : (tokens[n] * 3 + 1) % 257;
    }
}

/* Returns the loss, and writes the gradients. */
static double model_gradients(const pl_topology *t, pl_backend *be, float *grads)
{
    int32_t tokens[MODEL_N], targets[MODEL_N];
    pl_step_result result;
    OWNED(pl_model_destroy) pl_model *model = new_model(t, be, false);
    model_batch(tokens, targets);
    assert_ok(pl_model_gradients(model, tokens, targets, MODEL_B, MODEL_T, &result));
    assert_ok(pl_model_save_grads(model, grads));
    return result.loss;
}

MODEL_TEST(gradients_of_a_model_agree_with_ref)
{
    /* Loss and gradients of the reference backend, without QK norm and with it. They
     * are computed for the first pair and kept for all. */
    static double losses[2], *wanted[2];
    OWNED(pl_topology_destroy) pl_topology *t = model_topology();
    size_t n = pl_topology_path_params(t);
    OWNED(free_memory) float *got = calloc(n, sizeof *got);
    double *want = wanted[with_qk_norm];
    if (!want) {
        want = wanted[with_qk_norm] = naive_zeros(n);
        losses[with_qk_norm] = model_gradients(t, p->be[0], got);
        for (size_t i = 0; i < n; i++)
            want[i] = (double)got[i];
    }
    const double loss = model_gradients(t, p->be[1], got);
    /* The errors of bf16 add up over the blocks, so the limit is a hundred times that
     * of one operation. */
    double error = naive_error(got, want, n), limit = 100.0 * p->tolerance;
    assert_true(fabs(loss - losses[with_qk_norm]) <= sqrt(p->tolerance));
    if (!(error <= limit))
        fail_msg("%s: gradients differ by %g, more than %g", p->label, error, limit);
}

/* Trains two models in the same way, except that the second one recomputes activations.
 * Both must end with the same bytes. An emulated device trains only three steps: it
 * makes a graph for the second, and the third runs this graph again. */
MODEL_TEST(training_twice_gives_the_same_bytes_also_by_recomputing)
{
    int32_t tokens[MODEL_N], targets[MODEL_N];
    OWNED(pl_topology_destroy) pl_topology *t = model_topology();
    size_t n = pl_topology_path_params(t);
    const int n_steps = strstr(p->be[1]->device, "emulated") ? 3 : 4;
    float *end[2];
    model_batch(tokens, targets);
    for (int round = 0; round < 2; round++) {
        OWNED(pl_model_destroy) pl_model *model = new_model(t, p->be[1], round == 1);
        pl_step_result result;
        pl_adamw adam = {.lr = 1e-3f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f};
        for (adam.step = 1; adam.step <= n_steps; adam.step++)
            assert_ok(pl_model_train_step(model, tokens, targets, MODEL_B, MODEL_T,
                                          &adam, 1.0f, &result));
        end[round] = calloc(n, sizeof(float));
        assert_ok(pl_model_save(model, end[round]));
    }
    if (memcmp(end[0], end[1], n * sizeof(float)) != 0)
        fail_msg("%s: two equal trainings end in different bytes", p->label);
    free(end[0]), free(end[1]);
}

MODEL_TEST(training_learns_a_batch_by_heart)
{
    if (strcmp(p->be[1]->name, "ref") == 0 || strstr(p->be[1]->device, "emulated"))
        return; /* these backends are slow; test_model.c tests ref */
    int32_t tokens[MODEL_N], targets[MODEL_N];
    OWNED(pl_topology_destroy) pl_topology *t = model_topology();
    OWNED(pl_model_destroy) pl_model *model = new_model(t, p->be[1], false);
    pl_step_result result = {0};
    pl_adamw adam = {.lr = 3e-3f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f};
    model_batch(tokens, targets);
    for (adam.step = 1; adam.step <= 60; adam.step++)
        assert_ok(pl_model_train_step(model, tokens, targets, MODEL_B, MODEL_T, &adam,
                                      1.0f, &result));
    if (!(result.loss < 0.1))
        fail_msg("%s: after 60 steps the loss is still %g", p->label, result.loss);
}

/* Compares the losses of texts that share rows with their losses in a row of their own.
 * The texts have 1, 2, 3 .. tokens; a text that reaches the end of a row is cut there.
 * The losses must agree. */
MODEL_TEST(texts_of_a_row_do_not_see_each_other)
{
    int32_t tokens[MODEL_N], targets[MODEL_N];
    float packed[MODEL_N], alone[MODEL_T], before[MODEL_N], after[MODEL_N];
    int32_t plain[MODEL_N];
    OWNED(pl_topology_destroy) pl_topology *t = model_topology();
    OWNED(pl_model_destroy) pl_model *model = new_model(t, p->be[1], false);
    double worst = 0.0;
    model_batch(tokens, targets);
    memcpy(plain, tokens, sizeof plain);
    assert_ok(pl_model_losses(model, plain, targets, MODEL_B, MODEL_T, before));
    for (int n = 0, text = 1; n < MODEL_N; n += text++)
        tokens[n] |= PL_TEXT_BEGINS;
    assert_ok(pl_model_losses(model, tokens, targets, MODEL_B, MODEL_T, packed));
    for (int at = 0, end; at < MODEL_N; at = end) {
        for (end = at + 1; end % MODEL_T != 0 && tokens[end] < PL_TEXT_BEGINS;)
            end++;
        assert_ok(
            pl_model_losses(model, tokens + at, targets + at, 1, end - at, alone));
        for (int i = at; i < end; i++)
            worst = fmax(worst, fabs((double)packed[i] - (double)alone[i - at]));
    }
    const bool exact = strncmp(p->label, "ref ", 4) == 0;
    if (!(worst <= (exact ? 0.0 : 1e-5 + 3.0 * sqrt(p->tolerance))))
        fail_msg("%s: a loss in a shared row differs by %g", p->label, worst);
    /* The marks that begin texts in one batch must not be used for later batches. */
    assert_ok(pl_model_losses(model, plain, targets, MODEL_B, MODEL_T, after));
    assert_memory_equal(after, before, sizeof before);
}

MODEL_TEST(decoding_equals_a_full_forward_pass)
{
    int32_t tokens[MODEL_N], targets[MODEL_N];
    float logits[257], losses[MODEL_T];
    OWNED(pl_topology_destroy) pl_topology *t = model_topology();
    OWNED(pl_model_destroy) pl_model *model = new_model(t, p->be[1], false);
    OWNED(pl_decoder_destroy) pl_decoder *decoder;
    double worst = 0.0;
    model_batch(tokens, targets);
    assert_ok(pl_model_losses(model, tokens, targets, 1, MODEL_T, losses));
    assert_ok(pl_decoder_create(model, 1, &decoder));
    for (int at = 0; at < MODEL_T; at++) {
        double total = 0.0;
        /* first a prompt of 5 tokens and one of 16, then single tokens */
        int n = at == 0 ? 5 : at == 5 ? 16 : 1;
        assert_ok(pl_decoder_prefill(decoder, 0, tokens + at, n, logits));
        at += n - 1;
        for (int v = 0; v < 257; v++)
            total += exp((double)logits[v]);
        if (targets[at] >= 0)
            worst = fmax(worst, fabs(log(total) - (double)logits[targets[at]] -
                                     (double)losses[at]));
    }
    if (!(worst <= 1e-5 + 3.0 * sqrt(p->tolerance)))
        fail_msg("%s: the loss of a decoded token differs by %g", p->label, worst);
}

/* Shows that a model for inference has the losses of a model for training, also after a
 * second load. If the backend makes copies of the weights in another type, the model
 * for inference keeps no fp32 weights. The four kinds of models differ in two points:
 * whether the embedding is the largest matrix, and whether it is tied to the head. */
MODEL_TEST(inference_gives_the_losses_of_a_model_with_masters)
{
    int32_t tokens[MODEL_N], targets[MODEL_N];
    float losses[2][MODEL_N];
    model_batch(tokens, targets);
    for (int kind = 0; kind < 4; kind++) {
        OWNED(pl_topology_destroy)
        pl_topology *t = topology_with(kind % 2 ? 120 : 200, kind / 2 == 0);
        size_t n = pl_topology_path_params(t);
        OWNED(free_memory) float *params = calloc(n, sizeof *params);
        const pl_model_options options = {.batch = MODEL_B, .context = 48};
        pl_model *of[2] = {new_model(t, p->be[1], false),
                           fresh_model(t, p->be[1], &options)};
        const float *normals = kept_normals(9, (uint64_t)kind, n);
        for (size_t i = 0; i < n; i++)
            params[i] = 0.1f * normals[i];
        for (int side = 0; side < 2; side++) {
            assert_ok(pl_model_load(of[side], params));
            assert_ok(pl_model_losses(of[side], tokens, targets, MODEL_B, MODEL_T,
                                      losses[side]));
            pl_model_destroy(&of[side]);
        }
        if (memcmp(losses[0], losses[1], sizeof losses[0]) != 0)
            fail_msg("%s: inference changes the losses of kind %d", p->label, kind);
    }
}

MODEL_TEST(inference_keeps_copies_or_masters_but_not_both)
{
    const bool lean = p->be[1]->act == PL_BF16;
    OWNED(pl_topology_destroy) pl_topology *t = model_topology();
    const uint64_t n = pl_topology_path_params(t);
    OWNED(free_memory) float *params = calloc(n, sizeof *params);
    pl_model_plan plan;
    OWNED(pl_model_destroy) pl_model *model = fresh_reader(t, p->be[1]);
    const pl_model_options options = {.batch = 1, .context = 48};
    assert_int_equal(pl_model_save(model, params), PL_ERR_ARG);
    pl_model_plan_on(p->be[1], t, &options, &plan);
    if (!lean)
        assert_int_equal(plan.params_bytes, 4 * n);
    else
        assert_true(plan.params_bytes < 4 * n); /* the bf16 copies need 2 n bytes */
}

/* ---- sums for the host ---- */

static float *normals_there(pl_backend *be, size_t n)
{
    float *host = pl_alloc(n * sizeof *host), *there = new_buffer(be, n * sizeof *host);
    for (size_t i = 0; i < n; i++) /* representable in bf16 */
        host[i] = pl_bf16_to_float(pl_bf16_from_float(pl_random_normal(8, 1, i)));
    be->ops->upload(be, there, host, n * sizeof *host);
    assert_ok(be->ops->sync(be));
    free(host);
    return there;
}

/* All backends sum in double and in the same order, so the bytes are equal. */
MODEL_TEST(means_of_rows_are_those_of_ref)
{
    enum { B = 3, T = 11 };
    static const int32_t lengths[B] = {11, 1, 6};
    float means[2][B * 133];
    for (int C = 8; C <= 133; C += 125) {
        const size_t n = (size_t)(B * T * C), bytes = (size_t)(B * C) * sizeof(float);
        for (int side = 0; side < 2; side++) {
            pl_backend *be = p->be[side];
            float *values = normals_there(be, n), *out = new_buffer(be, bytes);
            pl_act *x = new_buffer(be, n * sizeof(float));
            int32_t *there = new_buffer(be, sizeof lengths);
            be->ops->act_from_float(be, x, values, n);
            be->ops->upload(be, there, lengths, sizeof lengths);
            be->ops->mean_rows(be, out, x, there, B, T, C);
            be->ops->download(be, means[side], out, bytes);
            assert_ok(be->ops->sync(be));
            void *const all[] = {values, out, x, there};
            for (int i = 0; i < 4; i++)
                be->ops->release(be, all[i]);
        }
        assert_memory_equal(means[0], means[1], bytes);
    }
}

/* A sum that is posted is that of its own time, although it is collected after later
 * operations. */
MODEL_TEST(sums_of_losses_are_those_of_ref)
{
    for (int N = 1; N <= 700; N += 699) {
        double sums[2][2];
        for (int side = 0; side < 2; side++) {
            pl_backend *be = p->be[side];
            float *loss = normals_there(be, (size_t)N);
            double *sum = new_buffer(be, sizeof *sum);
            for (int more = 0; more < 2; more++) {
                be->ops->sum_losses(be, sum, loss, N, more == 1);
                be->ops->post(be, more, sum, sizeof *sum);
            }
            for (int more = 0; more < 2; more++)
                assert_ok(be->ops->collect(be, more, &sums[side][more], sizeof *sum));
            be->ops->release(be, sum);
            be->ops->release(be, loss);
        }
        for (int more = 0; more < 2; more++)
            assert_true(fabs(sums[1][more] - sums[0][more]) < 1e-10);
        assert_true(fabs(sums[0][1] - 2.0 * sums[0][0]) < 1e-10);
    }
}
