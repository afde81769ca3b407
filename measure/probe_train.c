/* Takes training steps on random tokens that are drawn once. */
#include "measure/probe_internal.h"

struct probe_train {
    pl_topology *topology;
    pl_model *model;
    int32_t *tokens;
    int batch, context;
    int64_t step;
};

uint64_t probe_train_params(const probe_train *train)
{
    return (uint64_t)pl_topology_path_params(train->topology);
}

typedef struct filling {
    const pl_topology *topology;
    float *params;
} filling;

static pl_status fill_tensor(void *context, size_t item, int thread)
{
    const filling *f = context;
    const pl_tensor *tensor = pl_topology_tensor(f->topology, (int)item);
    (void)thread;
    pl_tensor_init(tensor, 1, f->params + tensor->offset);
    return PL_OK;
}

/* Uses all processors: one would need over a minute for a billion parameters. */
pl_status pl_probe_params(const pl_topology *topology, float *params)
{
    filling f = {topology, params};
    return pl_parallel(pl_cpu_count(), (size_t)pl_topology_n_tensors(topology),
                       fill_tensor, &f);
}

pl_status probe_train_create(pl_backend *be, const pl_probe_options *options,
                             probe_train **out)
{
    pl_status status = PL_OK;
    probe_train *t = pl_alloc(sizeof *t);
    float *params = NULL;
    const pl_shape *shape = options->shape;
    const pl_topology_spec spec = {.n_levels = 1, .experts = {1}, .replicas = 1};
    const pl_model_options model = {.batch = options->batch,
                                    .context = shape->context,
                                    .training = true,
                                    .muon = options->muon,
                                    .muon_rows = options->muon_rows};
    const int N = options->batch * shape->context;
    t->batch = options->batch;
    t->context = shape->context;
    t->tokens = pl_alloc((size_t)N * sizeof *t->tokens);
    for (int n = 0; n < N; n++)
        t->tokens[n] =
            (int32_t)(pl_random_u32(1, 2, (uint64_t)n) % (uint32_t)shape->vocab);
    PL_TRY(pl_topology_create(shape, &spec, &t->topology));
    PL_TRY(pl_model_create(be, t->topology, &model, &t->model));
    PL_TRY(pl_try_alloc(pl_topology_path_params(t->topology) * sizeof *params,
                        "parameters", (void **)&params));
    PL_TRY(pl_probe_params(t->topology, params));
    PL_TRY(pl_model_load(t->model, params));
done:
    pl_free(params);
    if (status != PL_OK)
        probe_train_destroy(&t);
    *out = t;
    return status;
}

void probe_train_destroy(probe_train **train)
{
    probe_train *t = *train;
    if (!t)
        return;
    pl_model_destroy(&t->model);
    pl_topology_destroy(&t->topology);
    pl_free_all(t->tokens, t);
    *train = NULL;
}

pl_status probe_train_step(probe_train *t)
{
    const pl_adamw adam = {1e-4f, 0.9f, 0.95f, 1e-8f, 0.1f, ++t->step};
    pl_step_result result;
    return pl_model_train_step(t->model, t->tokens, t->tokens, t->batch, t->context,
                               &adam, 1.0f, &result);
}
