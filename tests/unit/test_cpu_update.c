/* folder: modules; label: unit */
/* Tests what the cpu backend does in one pass over memory instead of two: AdamW that
 * writes compute copies, and a classifier whose gradient is written once. */
#include "modules/cpu/cpu.h"
#include "modules/modules.h"
#include <math.h>

#include "tests/support/suite.h"

static pl_backend *open_with(const char *precision, int n_threads)
{
    const pl_backend_options options = {
        .name = "cpu", .n_threads = n_threads, .precision = precision};
    pl_backend *be;
    const pl_status status = cpu_backend_create(&options, "auto", &be);
    assert_true(status == PL_OK || status == PL_ERR_UNSUPPORTED);
    return be;
}

static uint64_t stream; /* random stream of the newest array; each has its own */

static float *floats(size_t n, float scale)
{
    float *x = pl_alloc((n + 1) * sizeof *x);
    stream++;
    for (size_t i = 0; i < n; i++) {
        x[i] = scale * pl_random_normal(7, stream, i);
        x[i] = pl_bf16_to_float(pl_bf16_from_float(x[i]));
    }
    return x;
}

/* Returns n activations of the backend `be` with these values. */
static pl_act *acts(pl_backend *be, const float *values, size_t n)
{
    pl_act *out = pl_alloc((n + 1) * sizeof(float));
    be->ops->act_from_float(be, out, values, n);
    return out;
}

/* For part of a weight, the operation also writes the copy that products read, and
 * leaves the gradient to the next step. */
static void check_adamw_copy(pl_backend *be)
{
    enum { O = 40, I = 36, FIRST = 5 * I, LEFT = 3 * I + 1, N = 6 };
    const pl_adamw adam = {1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, 3};
    float *p = floats(O * I, 1), *m = floats(O * I, 1), *g = floats(O * I, 1),
          *v = floats(O * I, 1), *kept = floats(O * I, 1), *x = floats(N * O, 1);
    pl_act *xs = acts(be, x, N * I), *out[2];
    pl_weight *weight, *again;
    for (int i = 0; i < O * I; i++)
        v[i] = fabsf(v[i]);
    memcpy(kept, g, O * I * sizeof *g);
    assert_ok(be->ops->weight_create(be, p, O, I, &weight));
    be->ops->weights_refresh(be, &weight, 1);
    be->ops->adamw(be, p + FIRST, m + FIRST, v + FIRST, g + FIRST, O * I - FIRST - LEFT,
                   0.5f, &adam, weight);
    assert_memory_equal(g, kept, O * I * sizeof *g);
    assert_ok(be->ops->weight_create(be, p, O, I, &again));
    be->ops->weights_refresh(be, &again, 1);
    for (int i = 0; i < 2; i++) {
        out[i] = acts(be, x, N * O);
        be->ops->matmul_forward(be, out[i], xs, i ? again : weight, N, O, I);
    }
    assert_memory_equal(out[0], out[1], N * O * pl_type_bytes(be->act));
    be->ops->weight_destroy(be, &weight);
    be->ops->weight_destroy(be, &again);
    for (int i = 0; i < 2; i++)
        pl_free(out[i]);
    float *all[] = {p, m, g, v, kept, x};
    for (int i = 0; i < 6; i++)
        pl_free(all[i]);
    pl_free(xs);
}

PL_TEST(adamw_writes_the_copy_of_a_weight)
{
    for (int i = 0; i < 4; i++) {
        OWNED(cpu_backend_destroy)
        pl_backend *be = open_with(i % 2 ? "bf16" : "f32", 1 + i / 2);
        if (be)
            check_adamw_copy(be);
    }
}

/* The library's products are computed for as many rows as before; our own are computed
 * for more rows at once, with the same sums. */
PL_TEST(a_classifiers_gradient_has_the_sums_of_its_chunks)
{
    enum { N = 700, CHUNK = 256, V = 70, C = 100 };
    const float scale = 0.125f;
    OWNED(cpu_backend_destroy) pl_backend *be = open_with("bf16", 2);
    if (be == NULL)
        skip();
    float *x = floats(N * C, 1), *w = floats(V * C, 0.3f), loss[N];
    float *dw[2] = {floats(V * C, 1), pl_alloc(V * C * sizeof(float))};
    int32_t targets[N];
    pl_weight *weight;
    pl_act *xs = acts(be, x, N * C), *dx = acts(be, x, N * C);
    for (int n = 0; n < N; n++)
        targets[n] = n % V;
    memcpy(dw[1], dw[0], V * C * sizeof(float));
    assert_ok(be->ops->weight_create(be, w, V, C, &weight));
    be->ops->weights_refresh(be, &weight, 1);
    for (int added = 0; added < 2; added++) {
        be->ops->classifier(be, loss, dx, dw[0], xs, weight, targets, &scale, N, V, C,
                            added == 1);
        for (int n = 0; n < N; n += CHUNK) {
            const int rows = N - n < CHUNK ? N - n : CHUNK;
            const size_t at = (size_t)(n * C) * pl_type_bytes(be->act);
            be->ops->classifier(be, loss, dx, dw[1],
                                (const pl_act *)(const void *)((const char *)xs + at),
                                weight, targets + n, &scale, rows, V, C,
                                added == 1 || n > 0);
        }
        assert_memory_equal(dw[0], dw[1], V * C * sizeof(float));
    }
    be->ops->weight_destroy(be, &weight);
    pl_free(x), pl_free(w), pl_free(dw[0]), pl_free(dw[1]), pl_free(xs), pl_free(dx);
}
