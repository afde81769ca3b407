/* Defines the functions of rig.h. */
#include "tests/support/rig.h"
#include "tests/support/pairs.h"

pl_backend *be;

int open_backend(void **state)
{
    (void)state;
    pl_backend_options options = {.name = "ref", .n_threads = 1, .precision = "f32"};
    return pl_backend_open(&options, &be) == PL_OK ? 0 : -1;
}

int close_backend(void **state)
{
    (void)state;
    pl_backend_close(&be);
    return 0;
}

void load_randoms(rig *r, uint64_t stream, float scale)
{
    for (int i = 0; i < pl_topology_n_tensors(r->topology); i++) {
        const pl_tensor *x = pl_topology_tensor(r->topology, i);
        size_t n = (size_t)x->rows * (size_t)x->cols;
        for (size_t k = 0; k < n; k++) {
            float value = scale * pl_random_normal(3, stream + (uint64_t)i, k);
            r->params[x->offset + k] = x->decay ? value : 1.0f + value;
        }
    }
    assert_ok(pl_model_load(r->model, r->params));
}

rig open_rig(const pl_shape *shape, int batch, bool training)
{
    rig r = {.shape = *shape, .topology = one_path(shape)};
    pl_model_options options = {
        .batch = batch, .context = shape->context, .training = training};
    r.n = pl_topology_path_params(r.topology);
    r.params = pl_alloc(r.n * sizeof *r.params);
    assert_ok(pl_model_create(be, r.topology, &options, &r.model));
    load_randoms(&r, 0, 0.3f);
    return r;
}

void close_rig(rig *r)
{
    pl_model_destroy(&r->model);
    assert_null(r->model);
    pl_topology_destroy(&r->topology);
    free(r->params);
}

pl_shape shape_case(int i)
{
    pl_shape shape = tiny;
    shape.tied = i != 1;
    shape.qk_norm = i == 3;
    shape.n_kv_heads = i == 2 ? shape.n_heads : i == 1 ? 1 : 2;
    return shape;
}

void load_initial(rig *r, uint64_t seed)
{
    init_path(r->topology, seed, r->params);
    assert_ok(pl_model_load(r->model, r->params));
}

float *copy_params(const rig *r)
{
    float *x = malloc(r->n * sizeof *x);
    assert_non_null(x);
    assert_ok(pl_model_save(r->model, x));
    return x;
}

float *copy_grads(const rig *r)
{
    float *x = malloc(r->n * sizeof *x);
    assert_non_null(x);
    assert_ok(pl_model_save_grads(r->model, x));
    return x;
}

void train_some(const rig *r, int n_steps)
{
    pl_step_result result;
    pl_adamw adam = adam_default;
    for (adam.step = 1; adam.step <= n_steps; adam.step++)
        assert_ok(pl_model_train_step(r->model, tokens_2x5, targets_2x5, B2, T5, &adam,
                                      1.0f, &result));
}
