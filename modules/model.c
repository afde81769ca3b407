/* Creates and destroys a model's memory, and loads and saves moments and gradients,
 * which only a model for training has.
 *
 * Training has four blocks on the device: parameters, gradients, moments (m, then v),
 * activations. The first three have the layout of the topology. So loading and saving
 * are one copy, the norm of the gradient is one sum, and AdamW works on a few long
 * runs. With Muon, v omits the matrices that Muon updates. Inference has only
 * activations; its parameters are in modules (module.h). */
#include "modules/model_internal.h"
#include <limits.h>

pl_status model_fail_with_plan(const pl_model *m, pl_status status)
{
    pl_model_plan plan;
    char text[5][16];
    pl_model_plan_on(m->be, m->topology, &m->options, &plan);
    return pl_fail_in(
        status,
        "the model needs %s for parameters, %s for gradients, %s for moments, %s for "
        "activations (%d sequences of %d tokens) and %s of scratch memory",
        pl_human_bytes((double)plan.params_bytes, text[0]),
        pl_human_bytes((double)plan.grads_bytes, text[1]),
        pl_human_bytes((double)plan.moments_bytes, text[2]),
        pl_human_bytes((double)plan.acts_bytes, text[3]), m->options.batch,
        m->options.context, pl_human_bytes((double)plan.scratch_bytes, text[4]));
}

pl_status model_alloc_floats(pl_backend *be, size_t n, const char *what, float **out)
{
    return be->ops->alloc(be, n * sizeof(float), what, (void **)out);
}

pl_status model_create_update(pl_model *m)
{
    const pl_update_plan plan = {.params = m->params,
                                 .grads = m->grads,
                                 .moments = m->moments,
                                 .n_params = m->n_params,
                                 .runs = m->n_trained > 0 ? m->trained : m->runs,
                                 .n_runs = m->n_trained > 0 ? m->n_trained : m->n_runs,
                                 .weights = m->weights,
                                 .squares = m->acts.sums};
    return m->options.training ? m->ops->update_create(m->be, &plan, &m->update)
                               : PL_OK;
}

pl_status pl_model_create(pl_backend *backend, const pl_topology *topology,
                          const pl_model_options *options, pl_model **out)
{
    pl_status status = PL_OK;
    const pl_shape *shape = pl_topology_shape(topology);
    *out = NULL;
    if (backend->decode_only && options->training)
        return pl_fail(
            PL_ERR_UNSUPPORTED,
            "precision int8 can only decode, not train; choose precision bf16 or f32");
    if (options->batch < 1 || options->context < 1)
        return pl_fail(PL_ERR_ARG,
                       "a model for %d sequences of %d tokens is not possible; give at "
                       "least 1 of each",
                       options->batch, options->context);
    if (options->context > shape->context)
        return pl_fail(PL_ERR_CONFIG,
                       "sequences of %d tokens exceed the model's context %d",
                       options->context, shape->context);
    if ((int64_t)options->batch * options->context > INT_MAX / 2)
        return pl_fail(
            PL_ERR_CONFIG,
            "%d sequences of %d tokens are too many for one call; reduce the batch",
            options->batch, options->context);

    const size_t n_slots = (size_t)pl_topology_n_slots(topology);
    pl_model *m = pl_alloc(sizeof *m);
    m->be = backend;
    m->ops = backend->ops;
    m->topology = topology;
    m->shape = shape;
    m->options = *options;
    model_place_params(m);
    m->frozen = pl_alloc(n_slots * sizeof *m->frozen);
    m->trained = pl_alloc(((size_t)m->n_runs + n_slots) * sizeof *m->trained);
    if (options->training) {
        PL_TRY(model_alloc_floats(backend, m->n_params, "parameters", &m->params));
        PL_TRY(model_alloc_floats(backend, m->n_params, "gradients", &m->grads));
        PL_TRY(model_alloc_floats(backend, pl_second_moments(m->n_params) + m->n_second,
                                  "moments", &m->moments));
    }
    /* The layout is computed twice: to count the bytes, then to place the buffers. */
    const size_t bytes = model_layout(shape, options, backend->act, NULL, &m->acts);
    PL_TRY(m->ops->alloc(backend, bytes, "activations", &m->act_block));
    m->acts.blocks = pl_alloc((size_t)shape->n_blocks * sizeof *m->acts.blocks);
    model_layout(shape, options, backend->act, m->act_block, &m->acts);
    /* `embed` follows the inputs */
    PL_TRY(pl_try_alloc((size_t)((uint8_t *)m->acts.embed - (uint8_t *)m->act_block),
                        "a batch", (void **)&m->host_inputs));
    if (options->training)
        PL_TRY(model_create_weights(m));
    PL_TRY(model_create_update(m));
    *out = m;
    return PL_OK;
done:
    status = model_fail_with_plan(m, status);
    pl_model_destroy(&m);
    return status;
}

void model_drop_routines(pl_model *m)
{
    for (int i = 0; i < N_ROUTINES; i++)
        m->ops->routine_destroy(m->be, &m->routines[i]);
}

/* The model may have been created only partly. */
void pl_model_destroy(pl_model **model)
{
    pl_model *m = *model;
    if (!m)
        return;
    model_drop_routines(m);
    m->ops->update_destroy(m->be, &m->update);
    for (int i = 0; i < m->n_weights; i++)
        m->ops->weight_destroy(m->be, &m->weights[i]);
    model_drop_own_path(m);
    void *const blocks[] = {m->act_block, m->moments, m->grads, m->params};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (blocks[i])
            m->ops->release(m->be, blocks[i]);
    pl_free(m->host_inputs);
    pl_free_all(m->weights, m->own_modules, m->acts.blocks, m->runs, m->trained,
                m->frozen, m->at.blocks, m);
    *model = NULL;
}

/* ---- moments and gradients in and out ---- */

static pl_status check_training(const pl_model *m, const char *what)
{
    if (!m->options.training)
        return pl_fail(PL_ERR_ARG, "a model made for inference has no %s", what);
    return PL_OK;
}

pl_status pl_model_load_moments(pl_model *m, const float *first, const float *second)
{
    PL_CHECK(check_training(m, "moments"));
    size_t bytes = m->n_params * sizeof *first, rest = m->n_second * sizeof *second;
    const size_t at = pl_second_moments(m->n_params);
    m->ops->fill_zero(m->be, m->moments, at * sizeof *first + rest);
    if (first)
        m->ops->upload(m->be, m->moments, first, bytes);
    if (second)
        m->ops->upload(m->be, m->moments + at, second, rest);
    return m->ops->sync(m->be);
}

pl_status pl_model_save_moments(pl_model *m, float *first, float *second)
{
    PL_CHECK(check_training(m, "moments"));
    m->ops->download(m->be, first, m->moments, m->n_params * sizeof *first);
    m->ops->download(m->be, second, m->moments + pl_second_moments(m->n_params),
                     m->n_second * sizeof *second);
    return m->ops->sync(m->be);
}

pl_status pl_model_save_grads(pl_model *m, float *grads)
{
    PL_CHECK(check_training(m, "gradients"));
    if (m->has_gradients)
        m->ops->download(m->be, grads, m->grads, m->n_params * sizeof(float));
    else
        memset(grads, 0, m->n_params * sizeof *grads);
    return m->ops->sync(m->be);
}

void pl_model_zero_gradients(pl_model *m)
{
    if (m->grads)
        m->ops->fill_zero(m->be, m->grads, m->n_params * sizeof(float));
    m->has_gradients = false;
}
