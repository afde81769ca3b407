/* folder: modules; label: unit */
/* Tests the model of one path on the reference backend: losses and gradients, which are
 * compared with those of a model in double; training; planned memory; and errors. */
#include "modules/model_internal.h"
#include "tests/support/pairs.h"
#include "tests/support/rig.h"

/* ---- the model in double ---- */

typedef struct double_model {
    const rig *rig;
    double *params;
    const int32_t *tokens, *targets;
    int B, T;
    double *loss;   /* [B*T]: output, the loss of each token; may be NULL */
    double *hidden; /* [B*T,C]: output, the input of the final norm; or NULL */
} double_model;

static const double *tensor_of(const double_model *m, int block, const char *name)
{
    char full[PL_NAME_MAX];
    if (block < 0)
        snprintf(full, sizeof full, "%s.weight", name);
    else
        snprintf(full, sizeof full, "model.layers.%d.%.30s.weight", block, name);
    for (int i = 0; i < pl_topology_n_tensors(m->rig->topology); i++) {
        const pl_tensor *x = pl_topology_tensor(m->rig->topology, i);
        if (strcmp(x->name, full) == 0)
            return m->params + x->offset;
    }
    fail_msg("no tensor %s", full);
    return NULL;
}

/* qkv[n] = (Wq x[n], Wk x[n], Wv x[n]), computed by three separate products. */
static void double_qkv(const double_model *m, int block, double *qkv, const double *x,
                       int N)
{
    const pl_shape *s = &m->rig->shape;
    static const char *const names[] = {"self_attn.q_proj", "self_attn.k_proj",
                                        "self_attn.v_proj"};
    int q = s->n_heads * s->head_size, kv = s->n_kv_heads * s->head_size;
    OWNED(free_memory) double *part = naive_zeros((size_t)(N * (q + kv)));
    for (int i = 0, at = 0; i < 3; i++) {
        int width = i == 0 ? q : kv;
        naive_matmul(part, x, tensor_of(m, block, names[i]), N, width, s->width);
        for (int n = 0; n < N; n++)
            memcpy(qkv + n * (q + 2 * kv) + at, part + n * width,
                   (size_t)width * sizeof *part);
        at += width;
    }
}

static void double_attention(const double_model *m, int block, double *x, int N)
{
    const pl_shape *s = &m->rig->shape;
    int C = s->width, H = s->n_heads, G = s->n_kv_heads, D = s->head_size;
    OWNED(free_memory) double *normed = naive_zeros((size_t)(N * C));
    OWNED(free_memory) double *qkv = naive_zeros((size_t)(N * (H + 2 * G) * D));
    OWNED(free_memory) double *mixed = naive_zeros((size_t)(N * H * D));
    naive_rmsnorm(normed, x, tensor_of(m, block, "input_layernorm"), N, C, s->norm_eps);
    double_qkv(m, block, qkv, normed, N);
    if (s->qk_norm)
        naive_head_norm(qkv, tensor_of(m, block, "self_attn.q_norm"), N, H, G, D,
                        s->norm_eps);
    naive_rope(qkv, m->B, m->T, H, G, D, s->rope_theta, 0);
    naive_attention(mixed, qkv, m->B, m->T, H, G, D);
    naive_matmul(normed, mixed, tensor_of(m, block, "self_attn.o_proj"), N, C, H * D);
    for (int i = 0; i < N * C; i++)
        x[i] += normed[i];
}

static void double_ffn(const double_model *m, int block, double *x, int N)
{
    const pl_shape *s = &m->rig->shape;
    int C = s->width, F = s->ffn;
    OWNED(free_memory)
    double *normed = naive_zeros((size_t)(N * C)), *up = naive_zeros((size_t)(N * F));
    OWNED(free_memory) double *gate = naive_zeros((size_t)(N * F));
    naive_rmsnorm(normed, x, tensor_of(m, block, "post_attention_layernorm"), N, C,
                  s->norm_eps);
    naive_matmul(gate, normed, tensor_of(m, block, "mlp.gate_proj"), N, F, C);
    naive_matmul(up, normed, tensor_of(m, block, "mlp.up_proj"), N, F, C);
    for (int i = 0; i < N * F; i++)
        gate[i] = gate[i] / (1.0 + exp(-gate[i])) * up[i];
    naive_matmul(normed, gate, tensor_of(m, block, "mlp.down_proj"), N, C, F);
    for (int i = 0; i < N * C; i++)
        x[i] += normed[i];
}

/* Returns the mean loss of the targets that are not -1. */
static double double_loss(void *context)
{
    const double_model *m = context;
    const pl_shape *s = &m->rig->shape;
    int N = m->B * m->T, C = s->width, n_targets = 0;
    double *x = naive_zeros((size_t)(N * C)), *normed = naive_zeros((size_t)(N * C));
    double *loss = naive_zeros((size_t)N), sum = 0.0;
    const double *embed = tensor_of(m, -1, "model.embed_tokens");
    for (int n = 0; n < N; n++)
        memcpy(x + n * C, embed + m->tokens[n] * C, (size_t)C * sizeof *x);
    for (int b = 0; b < s->n_blocks; b++) {
        double_attention(m, b, x, N);
        double_ffn(m, b, x, N);
    }
    naive_rmsnorm(normed, x, tensor_of(m, -1, "model.norm"), N, C, s->norm_eps);
    naive_losses(loss, normed, s->tied ? embed : tensor_of(m, -1, "lm_head"),
                 m->targets, N, s->vocab, C);
    for (int n = 0; n < N; n++) {
        n_targets += m->targets[n] >= 0;
        sum += loss[n];
    }
    if (m->loss)
        memcpy(m->loss, loss, (size_t)N * sizeof *loss);
    if (m->hidden)
        memcpy(m->hidden, x, (size_t)(N * C) * sizeof *x);
    free(x), free(normed), free(loss);
    return sum / n_targets;
}

static double_model double_of(const rig *r, const int32_t *tokens,
                              const int32_t *targets, int B, int T)
{
    double_model m = {.rig = r, .tokens = tokens, .targets = targets, .B = B, .T = T};
    m.params = naive_zeros(r->n);
    for (size_t i = 0; i < r->n; i++)
        m.params[i] = (double)r->params[i];
    return m;
}

/* ---- forward and backward ---- */

PL_TEST(losses_equal_those_of_the_model_in_double)
{
    for (int i = 0; i < 2 * N_SHAPES; i++) {
        pl_shape shape = shape_case(i / 2);
        OWNED(close_rig) rig r = open_rig(&shape, 3, i % 2 == 0);
        double_model m = double_of(&r, tokens_2x5, targets_2x5, B2, T5);
        double want[B2 * T5];
        float got[B2 * T5];
        m.loss = want;
        double_loss(&m);
        assert_ok(pl_model_losses(r.model, tokens_2x5, targets_2x5, B2, T5, got));
        assert_true(naive_error(got, want, B2 * T5) < 1e-11);
        assert_true(got[3] == 0.0f && got[5] == 0.0f);
        free(m.params);
    }
}

/* Compares each tensor separately, so that errors in small gradients are noticed. */
static void expect_gradients(const rig *r, double_model *m, const float *got)
{
    for (int i = 0; i < pl_topology_n_tensors(r->topology); i++) {
        const pl_tensor *x = pl_topology_tensor(r->topology, i);
        size_t n = (size_t)x->rows * (size_t)x->cols;
        OWNED(free_memory) double *want = naive_zeros(n);
        for (size_t k = 0; k < n; k++)
            want[k] = naive_slope(double_loss, m, &m->params[x->offset + k]);
        double error = naive_error(got + x->offset, want, n);
        if (!(error < 1e-9))
            fail_msg("gradient of %s is wrong by %g", x->name, error);
    }
}

/* marked_2x5 has two rows: one with texts of 3 and 2 tokens, and one with texts of 1, 1
 * and 3 tokens. alone_5x5 has the same texts, but one text per row. */
enum { MARK = PL_TEXT_BEGINS, N_TEXTS = 5 };
static const int32_t marked_2x5[] = {1, 7, 12, MARK, 7, 3, 3 | MARK, 9 | MARK, 11, 2};
static const int32_t alone_5x5[] = {1, 7, 12, 0, 0, 0, 7, 0, 0,  0, 3, 0, 0,
                                    0, 0, 3,  0, 0, 0, 0, 9, 11, 2, 0, 0};
static const int32_t alone_targets_5x5[] = {7,  12, 0,  -1, -1, -1, 7, -1, -1,
                                            -1, -1, -1, -1, -1, -1, 9, -1, -1,
                                            -1, -1, 11, 2,  5,  -1, -1};

/* Compares the gradients of a batch of 2 x 5 tokens with those of the model in double
 * on [B,5]. */
static void check_gradients(const int32_t *tokens, const int32_t *double_tokens,
                            const int32_t *double_targets, int B)
{
    for (int i = 0; i < N_SHAPES; i++) {
        pl_shape shape = shape_case(i);
        OWNED(close_rig) rig r = open_rig(&shape, 2, true);
        double_model m = double_of(&r, double_tokens, double_targets, B, T5);
        pl_step_result result;
        assert_ok(pl_model_gradients(r.model, tokens, targets_2x5, B2, T5, &result));
        assert_true(fabs(result.loss - double_loss(&m)) < 1e-5);
        assert_int_equal(result.n_tokens, 8);
        float *grads = copy_grads(&r);
        expect_gradients(&r, &m, grads);
        double squares = 0.0;
        for (size_t k = 0; k < r.n; k++)
            squares += (double)grads[k] * (double)grads[k];
        assert_true(fabs(result.grad_norm - sqrt(squares)) < 1e-9);
        free(grads), free(m.params);
    }
}

PL_TEST(gradients_of_every_tensor_match_differences)
{
    check_gradients(tokens_2x5, tokens_2x5, targets_2x5, B2);
}

PL_TEST(gradients_of_several_texts_in_a_row_match_differences)
{
    check_gradients(marked_2x5, alone_5x5, alone_targets_5x5, N_TEXTS);
}

PL_TEST(gradients_accumulate_until_they_are_zeroed)
{
    OWNED(close_rig) rig r = open_rig(&tiny, 2, true);
    pl_step_result once, twice;
    assert_ok(pl_model_gradients(r.model, tokens_2x5, targets_2x5, B2, T5, &once));
    assert_ok(pl_model_gradients(r.model, tokens_2x5, targets_2x5, B2, T5, &twice));
    assert_true(fabs(twice.grad_norm - 2.0 * once.grad_norm) < 1e-5 * once.grad_norm);
    pl_model_zero_gradients(r.model);
    OWNED(free_memory) float *grads = copy_grads(&r);
    for (size_t i = 0; i < r.n; i++)
        assert_true(grads[i] == 0.0f);
}

PL_TEST(a_later_token_cannot_change_an_earlier_loss)
{
    OWNED(close_rig) rig r = open_rig(&tiny, 1, false);
    int32_t tokens[8] = {1, 2, 3, 4, 5, 6, 7, 8}, targets[8] = {2, 3, 4, 5, 6, 7, 8, 9};
    float before[8], after[8];
    assert_ok(pl_model_losses(r.model, tokens, targets, 1, 8, before));
    for (int changed = 1; changed < 8; changed++) {
        int32_t kept = tokens[changed];
        tokens[changed] = 12;
        assert_ok(pl_model_losses(r.model, tokens, targets, 1, 8, after));
        tokens[changed] = kept;
        assert_memory_equal(after, before, (size_t)changed * sizeof *before);
        assert_true(after[changed] != before[changed]);
    }
}

PL_TEST(sequences_of_a_batch_do_not_see_each_other)
{
    OWNED(close_rig) rig r = open_rig(&tiny, 2, false);
    float both[B2 * T5], alone[T5];
    assert_ok(pl_model_losses(r.model, tokens_2x5, targets_2x5, B2, T5, both));
    for (int b = 0; b < B2; b++) {
        assert_ok(pl_model_losses(r.model, tokens_2x5 + b * T5, targets_2x5 + b * T5, 1,
                                  T5, alone));
        assert_memory_equal(both + b * T5, alone, sizeof alone);
    }
}

PL_TEST(features_are_means_of_the_last_hidden_state)
{
    OWNED(close_rig) rig r = open_rig(&tiny, 2, false);
    int C = tiny.width;
    const int32_t lengths[] = {T5, 2};
    double_model m = double_of(&r, tokens_2x5, targets_2x5, B2, T5);
    double *want = naive_zeros((size_t)(B2 * C));
    float *got = calloc((size_t)(B2 * C), sizeof *got);
    m.hidden = naive_zeros((size_t)(B2 * T5 * C));
    double_loss(&m);
    for (int b = 0; b < B2; b++)
        for (int t = 0; t < lengths[b]; t++)
            for (int c = 0; c < C; c++)
                want[b * C + c] += m.hidden[(b * T5 + t) * C + c] / lengths[b];
    assert_ok(pl_model_features(r.model, tokens_2x5, lengths, B2, T5, got));
    assert_true(naive_error(got, want, (size_t)(B2 * C)) < 1e-11);
    const int32_t none[] = {T5, 0}, beyond[] = {T5 + 1, 1};
    assert_int_equal(pl_model_features(r.model, tokens_2x5, none, B2, T5, got),
                     PL_ERR_ARG);
    assert_int_equal(pl_model_features(r.model, tokens_2x5, beyond, B2, T5, got),
                     PL_ERR_ARG);
    free(want), free(got), free(m.params), free(m.hidden);
}

/* ---- training ---- */

PL_TEST(training_on_a_repeated_batch_learns_it_by_heart)
{
    pl_shape shape = tiny;
    shape.width = 24;
    OWNED(close_rig) rig r = open_rig(&shape, 2, true);
    load_initial(&r, 1);
    pl_step_result result = {0};
    pl_adamw adam = adam_default;
    adam.weight_decay = 0.0f;
    for (adam.step = 1; adam.step <= 200; adam.step++) {
        assert_ok(pl_model_train_step(r.model, tokens_2x5, targets_2x5, B2, T5, &adam,
                                      1.0f, &result));
        if (adam.step == 1)
            assert_true(fabs(result.loss - log(13.0)) < 0.1);
    }
    assert_true(result.loss < 0.02);
}

/* A model with room for one or two sequences divides a batch of three. Its step must
 * have the loss, gradient norm and parameters of an undivided step, up to rounding. */
PL_TEST(a_step_in_passes_is_a_step)
{
    enum { B3 = 3 };
    const int32_t tokens[] = {1, 7, 12, 0, 7, 3, 3, 9, 11, 2, 4, 4, 8, 1, 0};
    const int32_t targets[] = {7, 12, 0, -1, 7, -1, -1, -1, -1, 5, 4, 8, 1, 0, 6};
    OWNED(close_rig) rig whole = open_rig(&tiny, B3, true);
    pl_step_result want, got;
    assert_ok(pl_model_train_step(whole.model, tokens, targets, B3, T5, &adam_default,
                                  0.5f, &want));
    OWNED(free_memory) float *params = copy_params(&whole);
    for (int batch = 1; batch <= 2; batch++) {
        OWNED(close_rig) rig parts = open_rig(&tiny, batch, true);
        assert_ok(pl_model_train_step(parts.model, tokens, targets, B3, T5,
                                      &adam_default, 0.5f, &got));
        OWNED(free_memory) float *other = copy_params(&parts);
        assert_int_equal(got.n_tokens, want.n_tokens);
        assert_true(fabs(got.loss - want.loss) < 1e-6);
        assert_true(fabs(got.grad_norm - want.grad_norm) < 1e-5 * want.grad_norm);
        for (size_t i = 0; i < whole.n; i++)
            assert_true(fabsf(other[i] - params[i]) < 1e-4f);
        /* The last part of the batch fails. No gradients of other parts may remain. */
        int32_t damaged[B3 * T5];
        memcpy(damaged, tokens, sizeof damaged);
        damaged[B3 * T5 - 1] = 1000;
        assert_int_equal(pl_model_train_step(parts.model, damaged, targets, B3, T5,
                                             &adam_default, 0.5f, &got),
                         PL_ERR_DATA);
        OWNED(free_memory) float *grads = pl_alloc(whole.n * sizeof *grads);
        assert_ok(pl_model_save_grads(parts.model, grads));
        for (size_t i = 0; i < whole.n; i++)
            assert_true(grads[i] == 0.0f);
    }
}

PL_TEST(two_trainings_from_one_seed_end_in_the_same_bytes)
{
    float *end[2];
    size_t n = 0;
    for (int i = 0; i < 2; i++) {
        OWNED(close_rig)
        rig r = open_rig(&tiny, 2 + i, true); /* room for one more row has no effect */
        load_initial(&r, 9);
        train_some(&r, 5);
        end[i] = copy_params(&r);
        n = r.n;
    }
    assert_memory_equal(end[0], end[1], n * sizeof(float));
    free(end[0]), free(end[1]);
}

PL_TEST(saved_parameters_and_moments_continue_to_the_same_bytes)
{
    OWNED(close_rig) rig a = open_rig(&tiny, 2, true), b = open_rig(&tiny, 2, true);
    OWNED(free_memory) float *m = calloc(a.n, sizeof *m), *v = calloc(a.n, sizeof *v);
    pl_step_result result;
    pl_adamw adam = adam_default;
    train_some(&a, 3);
    OWNED(free_memory) float *middle = copy_params(&a);
    assert_ok(pl_model_save_moments(a.model, m, v));
    assert_ok(pl_model_load(b.model, middle));
    assert_ok(pl_model_load_moments(b.model, m, v));
    adam.step = 4;
    pl_model *const models[] = {a.model, b.model};
    for (int i = 0; i < 2; i++)
        assert_ok(pl_model_train_step(models[i], tokens_2x5, targets_2x5, B2, T5, &adam,
                                      1.0f, &result));
    OWNED(free_memory) float *end_a = copy_params(&a), *end_b = copy_params(&b);
    assert_memory_equal(end_a, end_b, a.n * sizeof *end_a);
    assert_memory_not_equal(end_a, middle, a.n * sizeof *end_a);
    assert_ok(pl_model_load_moments(a.model, NULL, NULL));
    assert_ok(pl_model_save_moments(a.model, m, v));
    for (size_t i = 0; i < a.n; i++)
        assert_true(m[i] == 0.0f && v[i] == 0.0f);
}

/* With beta1 = 0 and a large eps, a step is lr * g / eps, so it shows a clipped g. */
PL_TEST(clipping_scales_the_gradient_to_the_given_norm)
{
    const float clips[] = {0.0f, 0.05f, 1e6f};
    double moved[3];
    pl_step_result result;
    for (int i = 0; i < 3; i++) {
        OWNED(close_rig) rig r = open_rig(&tiny, 2, true);
        pl_adamw adam = {.lr = 1.0f, .beta2 = 0.95f, .eps = 1e3f, .step = 1};
        assert_ok(pl_model_train_step(r.model, tokens_2x5, targets_2x5, B2, T5, &adam,
                                      clips[i], &result));
        OWNED(free_memory) float *after = copy_params(&r);
        moved[i] = 0.0;
        for (size_t k = 0; k < r.n; k++)
            moved[i] += pow((double)after[k] - (double)r.params[k], 2.0);
        moved[i] = sqrt(moved[i]) * 1e3;
    }
    assert_true(result.grad_norm > 0.5);
    assert_true(fabs(moved[0] / result.grad_norm - 1.0) < 1e-2);
    assert_true(fabs(moved[1] / 0.05 - 1.0) < 1e-2);
    assert_true(fabs(moved[2] / moved[0] - 1.0) < 1e-9);
}

PL_TEST(weight_decay_shrinks_matrices_and_leaves_norms)
{
    OWNED(close_rig) rig r = open_rig(&tiny, 2, true);
    /* With a very large eps, only the weight decay changes parameters. */
    pl_adamw adam = {.lr = 0.5f,
                     .beta1 = 0.9f,
                     .beta2 = 0.95f,
                     .eps = 1e30f,
                     .weight_decay = 0.5f,
                     .step = 1};
    pl_step_result result;
    assert_ok(pl_model_train_step(r.model, tokens_2x5, targets_2x5, B2, T5, &adam, 0.0f,
                                  &result));
    OWNED(free_memory) float *after = copy_params(&r);
    for (int i = 0; i < pl_topology_n_tensors(r.topology); i++) {
        const pl_tensor *x = pl_topology_tensor(r.topology, i);
        for (size_t k = 0; k < (size_t)x->rows * (size_t)x->cols; k++) {
            double want = (double)r.params[x->offset + k] * (x->decay ? 0.75 : 1.0);
            assert_true(fabs((double)after[x->offset + k] - want) < 1e-6);
        }
    }
}

PL_TEST(a_value_that_is_not_finite_stops_the_step_and_changes_nothing)
{
    OWNED(close_rig) rig r = open_rig(&tiny, 2, true);
    r.params[pl_topology_tensor(r.topology, 3)->offset] = NAN;
    assert_ok(pl_model_load(r.model, r.params));
    pl_step_result result;
    assert_int_equal(pl_model_train_step(r.model, tokens_2x5, targets_2x5, B2, T5,
                                         &adam_default, 1.0f, &result),
                     PL_ERR_NUMERIC);
    OWNED(free_memory) float *after = copy_params(&r), *grads = copy_grads(&r);
    assert_memory_equal(after, r.params, r.n * sizeof *after);
    for (size_t i = 0; i < r.n; i++)
        assert_true(grads[i] == 0.0f);
    load_randoms(&r, 0, 0.3f); /* after the error the model must still work */
    train_some(&r, 1);
}

/* ---- refusals and plans ---- */

PL_TEST(tokens_and_targets_outside_the_vocabulary_are_refused)
{
    OWNED(close_rig) rig r = open_rig(&tiny, 2, true);
    int32_t tokens[B2 * T5], targets[B2 * T5];
    float losses[B2 * T5];
    const int32_t wrong_tokens[] = {-1, 13, INT32_MIN, INT32_MAX};
    for (int i = 0; i < 4; i++) {
        memcpy(tokens, tokens_2x5, sizeof tokens);
        memcpy(targets, targets_2x5, sizeof targets);
        tokens[7] = wrong_tokens[i];
        assert_fails(pl_model_losses(r.model, tokens, targets, B2, T5, losses),
                     PL_ERR_DATA, "sequence 1, position 2");
    }
    targets[9] = 13;
    assert_int_equal(pl_model_losses(r.model, tokens_2x5, targets, B2, T5, losses),
                     PL_ERR_DATA);
}

PL_TEST(a_batch_without_targets_is_refused)
{
    OWNED(close_rig) rig r = open_rig(&tiny, 2, true);
    const int32_t none[] = {-1, -1, -1, -1};
    pl_step_result result;
    assert_int_equal(pl_model_train_step(r.model, tokens_2x5, none, 1, 4, &adam_default,
                                         1.0f, &result),
                     PL_ERR_DATA);
}

PL_TEST(batches_beyond_the_plan_are_refused)
{
    OWNED(close_rig) rig r = open_rig(&tiny, 2, false);
    const int32_t tokens[24] = {0};
    float losses[24];
    const int wrong[][2] = {{3, 4}, {2, 9}, {0, 4}, {1, 0}, {-1, 2}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(
            pl_model_losses(r.model, tokens, tokens, wrong[i][0], wrong[i][1], losses),
            PL_ERR_ARG);
}

PL_TEST(a_model_for_inference_has_nothing_of_training)
{
    OWNED(close_rig) rig r = open_rig(&tiny, 2, false);
    pl_step_result result;
    assert_int_equal(pl_model_train_step(r.model, tokens_2x5, targets_2x5, B2, T5,
                                         &adam_default, 1.0f, &result),
                     PL_ERR_ARG);
    assert_int_equal(pl_model_save_grads(r.model, r.params), PL_ERR_ARG);
    assert_int_equal(pl_model_load_moments(r.model, NULL, NULL), PL_ERR_ARG);
}

PL_TEST(inference_plans_no_activations_for_each_block)
{
    pl_model_plan plan[2][2]; /* indices: training, deep */
    for (int training = 0; training < 2; training++)
        for (int deep = 0; deep < 2; deep++) {
            pl_shape shape = tiny;
            pl_model_options options = {
                .batch = 2, .context = 8, .training = training == 1};
            shape.n_blocks = deep ? 20 : 2;
            OWNED(pl_topology_destroy) pl_topology *t = one_path(&shape);
            pl_model_plan_bytes(t, &options, PL_F32, &plan[training][deep]);
            assert_int_equal(plan[training][deep].params_bytes,
                             4 * pl_topology_path_params(t));
        }
    pl_model_plan small;
    pl_shape shape = tiny;
    pl_model_options again = {
        .batch = 2, .context = 8, .training = true, .recompute = true};
    shape.n_blocks = 20;
    OWNED(pl_topology_destroy) pl_topology *deep = one_path(&shape);
    pl_model_plan_bytes(deep, &again, PL_F32, &small);
    assert_true(3 * small.acts_bytes < plan[1][1].acts_bytes);
    assert_int_equal(plan[0][0].acts_bytes, plan[0][1].acts_bytes);
    assert_true(plan[1][1].acts_bytes > 5 * plan[1][0].acts_bytes);
    assert_int_equal(plan[0][0].grads_bytes + plan[0][0].moments_bytes, 0);
    assert_int_equal(plan[1][0].grads_bytes, plan[1][0].params_bytes);
    assert_int_equal(plan[1][0].moments_bytes, 2 * plan[1][0].params_bytes);
}

/* Checks that all pointers in `views` are multiples of 256. `views` is a model_acts or
 * a block_acts: all members of these structures are pointers. */
static void expect_aligned(const void *views, size_t bytes)
{
    uintptr_t at[(sizeof(model_acts) + sizeof(block_acts)) / sizeof(uintptr_t)];
    memcpy(at, views, bytes);
    for (size_t i = 0; i < bytes / sizeof at[0]; i++)
        assert_int_equal(at[i] % 256, 0);
}

PL_TEST(every_view_of_activations_begins_at_256_bytes)
{
    for (int kind = 0; kind < 6; kind++) {
        const pl_model_options options = {.batch = 3,
                                          .context = 7,
                                          .training = kind % 3 > 0,
                                          .recompute = kind % 3 > 1};
        block_acts blocks[8] = {{0}};
        model_acts acts = {.blocks = blocks};
        static _Alignas(256) uint8_t base[1 << 20];
        assert_true(tiny.n_blocks <= 8);
        assert_true(model_layout(&tiny, &options, kind < 3 ? PL_F32 : PL_BF16, base,
                                 &acts) <= sizeof base);
        acts.blocks = NULL;
        expect_aligned(&acts, sizeof acts);
        for (int b = 0; b < tiny.n_blocks; b++)
            expect_aligned(&blocks[b], sizeof blocks[b]);
    }
}

PL_TEST(models_that_cannot_be_are_refused)
{
    OWNED(pl_topology_destroy) pl_topology *t;
    pl_model *model;
    pl_topology_spec spec = {.n_levels = 1, .experts = {1}, .replicas = 1};
    assert_ok(pl_topology_create(&tiny, &spec, &t));
    const pl_model_options wrong[] = {{.batch = 0, .context = 8},
                                      {.batch = 1, .context = 0},
                                      {.batch = 1, .context = 9},
                                      {.batch = INT32_MAX, .context = 8}};
    for (size_t i = 0; i < 4; i++) {
        assert_int_not_equal(pl_model_create(be, t, &wrong[i], &model), PL_OK);
        assert_null(model);
    }
}

/* ---- failing allocations ---- */

/* An `alloc` that fails when allocs_left is 0. Each call lowers allocs_left by 1. */
static int allocs_left;
static pl_status failing_alloc(pl_backend *backend, size_t bytes, const char *what,
                               void **out)
{
    *out = NULL;
    if (allocs_left-- == 0)
        return pl_fail(PL_ERR_NOMEM, "no memory for %s", what);
    return be->ops->alloc(backend, bytes, what, out);
}

PL_TEST(any_failing_allocation_is_reported_with_the_plan)
{
    pl_ops ops = *be->ops;
    ops.alloc = failing_alloc;
    pl_backend poor = *be;
    poor.ops = &ops;
    OWNED(pl_topology_destroy) pl_topology *t;
    pl_topology_spec spec = {.n_levels = 1, .experts = {1}, .replicas = 1};
    pl_model_options options = {.batch = 1, .context = 8, .training = true};
    assert_ok(pl_topology_create(&tiny, &spec, &t));
    int n_failed = 0;
    for (pl_model *model = NULL; !model; n_failed++) {
        allocs_left = n_failed;
        if (pl_model_create(&poor, t, &options, &model) == PL_OK) {
            pl_model_destroy(&model);
            break;
        }
        assert_null(model);
        assert_said("for moments");
    }
    assert_int_equal(n_failed, 4); /* parameters, gradients, moments, activations */
}

PL_TEST(a_steady_step_allocates_nothing_on_the_device)
{
    pl_ops ops = *be->ops;
    ops.alloc = failing_alloc;
    pl_backend counted = *be;
    counted.ops = &ops;
    allocs_left = 100;
    OWNED(pl_topology_destroy) pl_topology *t;
    OWNED(pl_model_destroy) pl_model *model;
    pl_step_result result;
    pl_topology_spec spec = {.n_levels = 1, .experts = {1}, .replicas = 1};
    pl_model_options options = {.batch = 2, .context = 8, .training = true};
    assert_ok(pl_topology_create(&tiny, &spec, &t));
    assert_ok(pl_model_create(&counted, t, &options, &model));
    allocs_left = 0;
    assert_ok(pl_model_train_step(model, tokens_2x5, targets_2x5, B2, T5, &adam_default,
                                  1.0f, &result));
    assert_int_equal(allocs_left, 0);
}

PL_SUITE(open_backend, close_backend)
