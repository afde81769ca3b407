/* Places, loads and saves the parameters of a model.
 *
 * Training keeps a path's whole block, in the layout of the topology. Inference on a
 * backend that multiplies by compute copies keeps only the parameters that are read
 * directly, which are the embedding and the norms. So serving in int8 takes little more
 * than one byte per parameter. */
#include "modules/model_internal.h"
#include <string.h>

/* ---- places of parameters ---- */
/* Fused tensors begin at their first part: q_proj for qkv, gate_proj for gate_up,
 * q_norm for the gains of QK norm (topology.c keeps the parts adjacent). */
static void note_tensor(pl_model *m, const pl_tensor *tensor)
{
    static const struct {
        const char *suffix;
        size_t field;
    } places[] = {
        {".input_layernorm.weight", offsetof(block_params, attn_norm)},
        {".post_attention_layernorm.weight", offsetof(block_params, ffn_norm)},
        {".q_norm.weight", offsetof(block_params, head_norm)},
        {".q_proj.weight", offsetof(block_params, qkv)},
        {".o_proj.weight", offsetof(block_params, o)},
        {".gate_proj.weight", offsetof(block_params, gate_up)},
        {".down_proj.weight", offsetof(block_params, down)},
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (pl_ends_with(tensor->name, places[i].suffix)) {
            uint8_t *block = (uint8_t *)&m->whole.blocks[tensor->block];
            memcpy(block + places[i].field, &tensor->offset, sizeof tensor->offset);
        }
}

/* Notes a tensor outside of blocks. A head without a matrix of its own uses the
 * embedding. */
static void note_outer_tensor(pl_model *m, const pl_tensor *tensor)
{
    if (strcmp(tensor->name, "model.embed_tokens.weight") == 0) {
        m->whole.embed = tensor->offset;
        if (m->shape->tied)
            m->whole.classifier = tensor->offset;
    } else if (strcmp(tensor->name, "model.norm.weight") == 0) {
        m->whole.norm = tensor->offset;
    } else {
        m->whole.classifier = tensor->offset;
    }
}

/* Adds one run for each of the matrices into which Muon divides the tensor. */
static void cut_matrix(pl_model *m, const pl_update_run *whole, const pl_tensor *tensor)
{
    const int rows = model_muon_rows(&m->options, tensor);
    for (int row = 0; row < tensor->rows; row += rows) {
        pl_update_run run = *whole;
        run.rows = tensor->rows - row < rows ? tensor->rows - row : rows;
        run.cols = tensor->cols;
        run.n = (size_t)run.rows * (size_t)run.cols;
        run.offset += (size_t)row * (size_t)run.cols;
        m->runs[m->n_runs++] = run;
    }
}

/* Adds a tensor to the runs; tensors come in the order of their offsets, without gaps.
 * Muon steps each matrix of a block by itself: q_proj, not the fused qkv. */
static void extend_runs(pl_model *m, const pl_tensor *tensor)
{
    const bool muon = m->options.muon && tensor->block >= 0 && tensor->decay;
    pl_update_run *last = m->n_runs > 0 ? &m->runs[m->n_runs - 1] : NULL;
    pl_update_run run = {.offset = tensor->offset,
                         .n = (size_t)tensor->rows * (size_t)tensor->cols,
                         .second = m->n_second,
                         .decay = tensor->decay};
    if (muon) {
        cut_matrix(m, &run, tensor);
        return;
    }
    m->n_second += run.n;
    if (last && last->rows == 0 && last->decay == run.decay)
        last->n += run.n;
    else
        m->runs[m->n_runs++] = run;
}

/* ---- parameters that inference keeps ---- */
/* The size of the embedding or of the largest matrix, whichever is larger: each matrix
 * lies in the embedding's place while its copy is made. */
static size_t largest_matrix(const pl_shape *s)
{
    size_t most = (size_t)s->vocab * (size_t)s->width;
    for (int i = 0; i < WEIGHTS_PER_BLOCK; i++) {
        const matrix_size e = model_weight_size(s, i);
        const size_t n = (size_t)e.O * (size_t)e.I;
        most = n > most ? n : most;
    }
    return most;
}

/* The gains of a block's QK norm: those of queries, then those of keys. */
static size_t head_gains(const pl_shape *s)
{
    return s->qk_norm ? 2 * (size_t)s->head_size : 0;
}

size_t model_lean_floats(const pl_shape *s)
{
    const size_t n_norms = 2 * (size_t)s->n_blocks + 1;
    return model_whole_lines(largest_matrix(s)) +
           n_norms * model_whole_lines((size_t)s->width) +
           (size_t)s->n_blocks * model_whole_lines(head_gains(s));
}

/* Places the parameters of a lean model. Every matrix is uploaded to the embedding's
 * place, which gets the embedding last. */
static void place_lean(pl_model *m)
{
    const size_t norm = model_whole_lines((size_t)m->shape->width);
    size_t at = model_whole_lines(largest_matrix(m->shape));
    for (int b = 0; b < m->shape->n_blocks; b++) {
        m->at.blocks[b] = (block_params){
            .attn_norm = at, .ffn_norm = at + norm, .head_norm = at + 2 * norm};
        at += 2 * norm + model_whole_lines(head_gains(m->shape));
    }
    m->at.norm = at;
    m->n_kept = at + norm;
}

void model_place_params(pl_model *m)
{
    const size_t bytes = (size_t)m->shape->n_blocks * sizeof *m->at.blocks;
    m->n_params = pl_topology_path_params(m->topology);
    m->n_kept = m->n_params;
    m->lean = !m->options.training && model_has_copies(m->be);
    int n = pl_topology_n_tensors(m->topology);
    m->whole.blocks = pl_alloc((size_t)m->shape->n_blocks * sizeof *m->whole.blocks);
    m->runs = pl_alloc(model_most_runs(m->topology, &m->options) * sizeof *m->runs);
    for (int i = 0; i < n; i++) {
        const pl_tensor *tensor = pl_topology_tensor(m->topology, i);
        if (tensor->block >= 0)
            note_tensor(m, tensor);
        else
            note_outer_tensor(m, tensor);
        extend_runs(m, tensor);
    }
    m->at = m->whole;
    m->at.blocks = pl_alloc(bytes);
    if (m->lean) {
        m->at.embed = m->at.classifier = 0;
        place_lean(m);
    } else {
        memcpy(m->at.blocks, m->whole.blocks, bytes);
    }
}

/* ---- loading and saving parameters ---- */
static void upload_gains(pl_model *m, size_t to, const float *from, size_t n)
{
    m->ops->upload(m->be, m->params + to, from, n * sizeof *from);
}

/* Uploads a matrix to the embedding's place and makes its copy from there. */
static void upload_matrix(pl_model *m, pl_weight *weight, const float *from, int O,
                          int I)
{
    m->ops->upload(m->be, m->params, from, (size_t)O * (size_t)I * sizeof *from);
    m->ops->weights_refresh(m->be, &weight, 1);
}

static void load_lean(pl_model *m, const float *params)
{
    const pl_shape *s = m->shape;
    const size_t embed = (size_t)s->vocab * (size_t)s->width, C = (size_t)s->width;
    for (int b = 0; b < s->n_blocks; b++) {
        const block_params *from = &m->whole.blocks[b], *to = &m->at.blocks[b];
        upload_gains(m, to->attn_norm, params + from->attn_norm, C);
        upload_gains(m, to->ffn_norm, params + from->ffn_norm, C);
        if (s->qk_norm)
            upload_gains(m, to->head_norm, params + from->head_norm, head_gains(s));
        for (int i = 0; i < WEIGHTS_PER_BLOCK; i++) {
            const matrix_size e = model_weight_size(s, i);
            upload_matrix(m, model_weight(m, b, i),
                          params + model_weight_at(&m->whole, b, i), e.O, e.I);
        }
    }
    upload_gains(m, m->at.norm, params + m->whole.norm, C);
    upload_matrix(m, model_classifier(m), params + m->whole.classifier, s->vocab,
                  s->width);
    m->ops->upload(m->be, m->params + m->at.embed, params + m->whole.embed,
                   embed * sizeof *params);
}

pl_status pl_model_load(pl_model *m, const float *params)
{
    if (m->lean) {
        load_lean(m, params);
    } else {
        m->ops->upload(m->be, m->params, params, m->n_params * sizeof *params);
        m->ops->weights_refresh(m->be, m->weights, m->n_weights);
    }
    return m->ops->sync(m->be);
}

pl_status pl_model_save(pl_model *m, float *params)
{
    if (m->lean)
        return pl_fail(PL_ERR_ARG,
                       "a model made for inference keeps no parameters to save");
    m->ops->download(m->be, params, m->params, m->n_params * sizeof *params);
    return m->ops->sync(m->be);
}
