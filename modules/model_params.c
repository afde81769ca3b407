/* Places, loads and saves the parameters of a model.
 *
 * A model for training keeps all parameters of a path in one block, in the layout of
 * the topology. A model for inference keeps modules (module.c): those that
 * pl_model_load makes, or those of a path that the caller owns. */
#include "modules/model_internal.h"

/* Fused tensors begin at their first part: q_proj for qkv, gate_proj for gate_up,
 * q_norm for the gains of QK norm (topology.c keeps the parts adjacent). A tied head
 * has no matrix and uses that of the embedding. */
void model_place_tensors(const pl_topology *t, param_places *out)
{
    static const struct {
        const char *suffix;
        size_t field;
    } places[] = {
        {".input_layernorm.weight", offsetof(block_params, attn_norm)},
        {".post_attention_layernorm.weight", offsetof(block_params, ffn_norm)},
        {".q_norm.weight", offsetof(block_params, head_norm)},
        {".q_proj.weight", offsetof(block_params, matrices[WEIGHT_QKV])},
        {".o_proj.weight", offsetof(block_params, matrices[WEIGHT_O])},
        {".gate_proj.weight", offsetof(block_params, matrices[WEIGHT_GATE_UP])},
        {".down_proj.weight", offsetof(block_params, matrices[WEIGHT_DOWN])},
    };
    const pl_shape *s = pl_topology_shape(t);
    out->blocks = pl_alloc((size_t)s->n_blocks * sizeof *out->blocks);
    for (int i = 0; i < pl_topology_n_tensors(t); i++) {
        const pl_tensor *tensor = pl_topology_tensor(t, i);
        if (tensor->block >= 0) {
            uint8_t *block = (uint8_t *)&out->blocks[tensor->block];
            for (size_t k = 0; k < sizeof places / sizeof places[0]; k++)
                if (pl_ends_with(tensor->name, places[k].suffix))
                    memcpy(block + places[k].field, &tensor->offset,
                           sizeof tensor->offset);
        } else if (strcmp(tensor->name, "model.embed_tokens.weight") == 0) {
            out->embed = tensor->offset;
            if (s->tied)
                out->classifier = tensor->offset;
        } else if (strcmp(tensor->name, "model.norm.weight") == 0) {
            out->norm = tensor->offset;
        } else {
            out->classifier = tensor->offset;
        }
    }
}

/* Returns the index of the weight that contains the tensor, or -1. model_create_weights
 * makes the four weights of each block, then the classifier. */
static int find_weight(const pl_model *m, const pl_tensor *tensor)
{
    if (tensor->block < 0)
        return tensor->offset == m->at.classifier
                   ? WEIGHTS_PER_BLOCK * m->shape->n_blocks
                   : -1;
    for (int i = 0; i < WEIGHTS_PER_BLOCK; i++) {
        const size_t from = m->at.blocks[tensor->block].matrices[i];
        const matrix_size size = model_weight_size(m->shape, i);
        if (tensor->offset >= from &&
            tensor->offset - from < (size_t)size.O * (size_t)size.I)
            return WEIGHTS_PER_BLOCK * tensor->block + i;
    }
    return -1;
}

/* Tensors come in the order of their offsets, without gaps, so that neighbours in the
 * same weight that the optimizer treats in the same way are one run. Muon updates each
 * matrix of a block separately: q_proj, not the fused qkv. But matrices of equal size
 * in the same weight are one run, so that a GPU updates them in the same launches. */
void model_place_params(pl_model *m)
{
    m->n_params = pl_topology_path_params(m->topology);
    model_place_tensors(m->topology, &m->at);
    m->runs = pl_alloc(model_most_runs(m->topology, &m->options) * sizeof *m->runs);
    for (int i = 0; i < pl_topology_n_tensors(m->topology); i++) {
        const pl_tensor *tensor = pl_topology_tensor(m->topology, i);
        const size_t cols = (size_t)tensor->cols;
        pl_update_run *last = m->n_runs > 0 ? &m->runs[m->n_runs - 1] : NULL;
        pl_update_run run = {.offset = tensor->offset,
                             .n = (size_t)tensor->rows * cols,
                             .second = m->n_second,
                             .decay = tensor->decay,
                             .weight = find_weight(m, tensor)};
        int rest = 0;
        if (m->options.muon && tensor->block >= 0 && tensor->decay) {
            /* Muon may divide the tensor into several matrices: a run has those of full
             * size, and another run has the rest of the rows. */
            run.rows = model_muon_rows(&m->options, tensor);
            run.cols = tensor->cols;
            rest = tensor->rows % run.rows;
            run.n -= (size_t)rest * cols;
        } else
            m->n_second += run.n;
        if (last && last->rows == run.rows && last->cols == run.cols &&
            last->decay == run.decay && last->weight == run.weight)
            last->n += run.n;
        else
            m->runs[m->n_runs++] = run;
        if (rest > 0) {
            run.offset += run.n;
            run.rows = rest;
            run.n = (size_t)rest * cols;
            m->runs[m->n_runs++] = run;
        }
    }
}

/* ---- the path of a training model ---- */
pl_status model_create_weights(pl_model *m)
{
    const pl_shape *s = m->shape;
    m->weights =
        pl_alloc((WEIGHTS_PER_BLOCK * (size_t)s->n_blocks + 1) * sizeof(pl_weight *));
    m->own = model_new_path(s->n_blocks);
    m->path = m->own;
    for (int b = 0; b < s->n_blocks; b++) {
        const block_params *at = &m->at.blocks[b];
        block_weights *w = &m->own->blocks[b];
        *w = (block_weights){.attn_norm = m->params + at->attn_norm,
                             .ffn_norm = m->params + at->ffn_norm,
                             .head_norm = m->params + at->head_norm};
        for (int i = 0; i < WEIGHTS_PER_BLOCK; i++) {
            const matrix_size size = model_weight_size(s, i);
            PL_CHECK(m->ops->weight_create(m->be, m->params + at->matrices[i], size.O,
                                           size.I, &w->matrices[i]));
            m->weights[m->n_weights++] = w->matrices[i];
        }
    }
    m->own->embed = m->params + m->at.embed;
    m->own->norm = m->params + m->at.norm;
    PL_CHECK(m->ops->weight_create(m->be, m->params + m->at.classifier, s->vocab,
                                   s->width, &m->own->classifier));
    m->weights[m->n_weights++] = m->own->classifier;
    return PL_OK;
}

/* ---- the modules of a model for inference ---- */
void model_drop_own_path(pl_model *m)
{
    m->path = NULL;
    pl_path_destroy(&m->own);
    for (int slot = 0; m->own_modules && slot < pl_topology_n_slots(m->topology);
         slot++)
        pl_module_destroy(&m->own_modules[slot]);
}

pl_status pl_model_use(pl_model *m, const pl_path *path)
{
    if (m->options.training)
        return pl_fail(PL_ERR_ARG,
                       "a model for training cannot use modules: it has its own "
                       "parameters");
    model_drop_own_path(m);
    m->path = path;
    return PL_OK;
}

/* ---- in and out ---- */
pl_status pl_model_load(pl_model *m, const float *params)
{
    pl_status status = PL_OK;
    if (m->options.training) {
        m->n_ended = m->n_begun;
        m->ops->upload(m->be, m->params, params, m->n_params * sizeof *params);
        m->ops->weights_refresh(m->be, m->weights, m->n_weights);
        return m->ops->sync(m->be);
    }
    const int n_slots = pl_topology_n_slots(m->topology);
    model_drop_own_path(m);
    if (!m->own_modules)
        m->own_modules = pl_alloc((size_t)n_slots * sizeof(pl_module *));
    for (int slot = 0; slot < n_slots; slot++) {
        const size_t at = pl_topology_slot(m->topology, slot)->offset;
        PL_TRY(pl_module_create(m->be, m->topology, slot, params + at,
                                &m->own_modules[slot]));
    }
    PL_TRY(pl_path_create(m->topology, m->own_modules, &m->own));
    m->path = m->own;
    return PL_OK;
done:
    model_drop_own_path(m);
    return model_fail_with_plan(m, status);
}

pl_status pl_model_save(pl_model *m, float *params)
{
    if (!m->options.training)
        return pl_fail(PL_ERR_ARG,
                       "a model made for inference keeps no parameters to save");
    m->ops->download(m->be, params, m->params, m->n_params * sizeof *params);
    return m->ops->sync(m->be);
}
