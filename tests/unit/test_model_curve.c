/* folder: modules; label: unit */
/* Tests the accuracy of every production backend. Over a whole training, its losses
 * must stay near those of the reference backend. On one batch, the gradient of each
 * tensor must be near that of the reference backend. */
#include "tests/support/shape.h"
#include "tests/support/pairs.h"

enum { V = 64, B = 4, T = 24, N = B * T, STEPS = 200 };
enum { STEPS_FEW = 10 }; /* on an emulated device 200 steps take minutes */

static pl_topology *curve_topology(void)
{
    const pl_shape shape =
        SHAPE(V, 64, 2, 2, 32, 96, 2, T, .tied = true, .rope_theta = 10000.0);
    return one_path(&shape);
}

static pl_model *curve_model(const pl_topology *t, pl_backend *be)
{
    const pl_model_options options = {.batch = B, .context = T, .training = true};
    return fresh_model(t, be, &options);
}

/* Makes texts from which a model can learn: in three of four cases the previous token
 * determines the next one. */
static void curve_batch(int step, int32_t tokens[N], int32_t targets[N])
{
    for (int b = 0; b < B; b++) {
        int32_t token = (int32_t)(pl_random_u32(9, (uint64_t)step, (uint64_t)b) % V);
        for (int t = 0; t < T; t++) {
            const uint32_t dice =
                pl_random_u32(10, (uint64_t)step, (uint64_t)(b * T + t));
            const int32_t next = dice % 4 ? (token * 5 + 3) % V : (int32_t)(dice % V);
            tokens[b * T + t] = token;
            targets[b * T + t] = token = next;
        }
    }
}

static void train(const pl_topology *t, pl_backend *be, int n, double *losses)
{
    int32_t tokens[N], targets[N];
    OWNED(pl_model_destroy) pl_model *model = curve_model(t, be);
    pl_adamw adam = {
        .lr = 1e-3f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .weight_decay = 0.1f};
    for (int step = 0; step < n; step++) {
        pl_step_result result;
        curve_batch(step, tokens, targets);
        adam.step = step + 1;
        assert_ok(
            pl_model_train_step(model, tokens, targets, B, T, &adam, 1.0f, &result));
        losses[step] = result.loss;
    }
}

PAIR_TEST(the_loss_stays_within_half_a_percent_of_ref_for_200_steps)
{
    /* The losses of the reference backend, computed for the first pair and kept for
     * all. */
    static double want[STEPS];
    double got[STEPS];
    OWNED(pl_topology_destroy) pl_topology *t = curve_topology();
    const bool few =
        strstr(p->be[1]->device, "emulated") || strcmp(p->be[1]->name, "ref") == 0;
    const int n = few ? STEPS_FEW : STEPS;
    if (want[0] == 0.0) {
        train(t, p->be[0], STEPS, want);
        assert_true(want[STEPS - 1] < 0.8 * want[0]);
    }
    train(t, p->be[1], n, got);
    for (int step = 0; step < n; step++)
        if (!(fabs(got[step] - want[step]) <= 0.005 * want[step]))
            fail_msg("%s: loss %g at step %d, the reference has %g", p->label,
                     got[step], step, want[step]);
    print_message("%s: loss %.5f after %d steps, the reference has %.5f\n", p->label,
                  got[n - 1], n, want[n - 1]);
}

static void gradients(const pl_topology *t, pl_backend *be, float *out)
{
    int32_t tokens[N], targets[N];
    pl_step_result result;
    OWNED(pl_model_destroy) pl_model *model = curve_model(t, be);
    curve_batch(0, tokens, targets);
    assert_ok(pl_model_gradients(model, tokens, targets, B, T, &result));
    assert_ok(pl_model_save_grads(model, out));
}

PAIR_TEST(the_gradient_of_each_tensor_is_that_of_ref_to_1e_4)
{
    /* The gradients of the reference backend, computed for the first pair and kept for
     * all. */
    static double *want;
    OWNED(pl_topology_destroy) pl_topology *t = curve_topology();
    const size_t n = pl_topology_path_params(t);
    OWNED(free_memory) float *got = calloc(n, sizeof *got);
    const double limit = p->tolerance > 1e-4 ? p->tolerance : 1e-4;
    if (!want) {
        want = naive_zeros(n);
        gradients(t, p->be[0], got);
        for (size_t i = 0; i < n; i++)
            want[i] = (double)got[i];
    }
    gradients(t, p->be[1], got);
    for (int i = 0; i < pl_topology_n_tensors(t); i++) {
        const pl_tensor *tensor = pl_topology_tensor(t, i);
        const size_t size = (size_t)tensor->rows * (size_t)tensor->cols;
        const double error =
            naive_error(got + tensor->offset, want + tensor->offset, size);
        if (!(error <= limit))
            fail_msg("%s: the gradient of %s differs by %g", p->label, tensor->name,
                     error);
    }
}
