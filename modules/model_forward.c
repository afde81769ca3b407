/* The forward pass. With x_0 = E[token] and blocks b = 0, 1, ..:
 *
 *   a_b     = x_b + Wo attention(rope(Wqkv norm(x_b)))     with QK norm: rope(norm(..))
 *   x_{b+1} = a_b + Wdown (silu(Wgate norm(a_b)) * Wup norm(a_b))
 *   out     = norm(x_B), where B is the number of blocks
 *
 * x_b is the buffer `in` of block b, a_b its `mid`; the sums are computed inside the
 * norms that read them (model_internal.h). */
#include "modules/model_internal.h"

/* Returns the address of row `first` of a buffer with `width` acts per row. */
static pl_act *acts_from(const pl_model *m, pl_act *acts, int first, int width)
{
    return acts ? model_act_at(m, acts, (size_t)first * (size_t)width) : NULL;
}

/* Computes the norm at the entry of `block` (n_blocks: the final norm). The stream
 * there is the previous block's feed-forward output plus its `mid`. */
static void norm_stream(pl_model *m, int block, const float *weight, pl_act *out,
                        float *rstd, model_rows r)
{
    const int C = m->shape->width;
    const block_acts *before = block > 0 ? &m->acts.blocks[block - 1] : NULL;
    m->ops->rmsnorm_forward(
        m->be, acts_from(m, out, r.first, C), rstd + r.first,
        acts_from(m, before ? before->out : m->acts.embed, r.first, C),
        acts_from(m, before ? before->mid : NULL, r.first, C), weight, r.n, C,
        (float)m->shape->norm_eps);
}

void model_forward_embed(pl_model *m, model_rows r)
{
    const int C = m->shape->width;
    m->ops->embed_forward(m->be, acts_from(m, m->acts.embed, r.first, C),
                          m->acts.tokens + r.first, r.path->embed, r.n, C);
}

/* Computes the projections q, k, v of a block before rope, and the QK norm of q and
 * k. */
static void project_qkv(pl_model *m, int block, model_rows r)
{
    const pl_shape *s = m->shape;
    const block_acts *a = &m->acts.blocks[block];
    const block_weights *w = &r.path->blocks[block];
    const int width = (s->n_heads + 2 * s->n_kv_heads) * s->head_size;
    const int normed = (s->n_heads + s->n_kv_heads) * s->head_size;
    pl_act *qkv = acts_from(m, a->qkv, r.first, width);
    m->ops->matmul_forward(m->be, qkv, acts_from(m, a->attn_norm, r.first, s->width),
                           w->matrices[WEIGHT_QKV], r.n, width, s->width);
    if (s->qk_norm)
        m->ops->head_norm_forward(
            m->be, qkv, acts_from(m, a->qk, r.first, normed),
            a->qk_rstd ? a->qk_rstd + r.first * (s->n_heads + s->n_kv_heads) : NULL,
            w->head_norm, r.n, s->n_heads, s->n_kv_heads, s->head_size,
            (float)s->norm_eps);
}

void model_forward_qkv(pl_model *m, int block, model_rows r)
{
    const block_acts *a = &m->acts.blocks[block];
    norm_stream(m, block, r.path->blocks[block].attn_norm, a->attn_norm, a->attn_rstd,
                r);
    project_qkv(m, block, r);
}

/* Rotates q and k, so that keys contain their position from here on; then computes
 * attention. */
static void forward_attention(pl_model *m, int block, int B, int T)
{
    const pl_shape *s = m->shape;
    const block_acts *a = &m->acts.blocks[block];
    m->ops->rope(m->be, a->qkv, m->acts.texts, B, T, s->n_heads, s->n_kv_heads,
                 s->head_size, s->rope_theta, 0, 1);
    m->ops->attention_forward(m->be, a->attn, a->lse, a->qkv, m->acts.texts, B, T,
                              s->n_heads, s->n_kv_heads, s->head_size);
}

/* Computes the product with Wo, then the feed-forward layer without its last
 * product. */
static void forward_middle(pl_model *m, int block, model_rows r)
{
    const pl_shape *s = m->shape;
    const block_acts *a = &m->acts.blocks[block];
    const block_weights *w = &r.path->blocks[block];
    const int C = s->width, F = s->ffn, queries = s->n_heads * s->head_size;
    pl_act *mid = acts_from(m, a->mid, r.first, C);
    pl_act *norm = acts_from(m, a->ffn_norm, r.first, C);
    pl_act *gate_up = acts_from(m, a->gate_up, r.first, 2 * F);
    m->ops->matmul_forward(m->be, mid, acts_from(m, a->attn, r.first, queries),
                           w->matrices[WEIGHT_O], r.n, C, queries);
    m->ops->rmsnorm_forward(m->be, norm, a->ffn_rstd + r.first, mid,
                            acts_from(m, a->in, r.first, C), w->ffn_norm, r.n, C,
                            (float)s->norm_eps);
    m->ops->matmul_forward(m->be, gate_up, norm, w->matrices[WEIGHT_GATE_UP], r.n,
                           2 * F, C);
    m->ops->swiglu_forward(m->be, acts_from(m, a->ffn, r.first, F), gate_up, r.n, F);
}

/* Computes everything after attention. The block's output is not yet added to the
 * stream; the next norm does that. */
void model_forward_rest(pl_model *m, int block, model_rows r)
{
    const pl_shape *s = m->shape;
    const block_acts *a = &m->acts.blocks[block];
    forward_middle(m, block, r);
    m->ops->matmul_forward(m->be, acts_from(m, a->out, r.first, s->width),
                           acts_from(m, a->ffn, r.first, s->ffn),
                           r.path->blocks[block].matrices[WEIGHT_DOWN], r.n, s->width,
                           s->ffn);
}

/* Recomputes a block. The forward pass has already added the residual to `in`, so the
 * first norm is computed without a residual now. */
void model_forward_again(pl_model *m, int block, int B, int T)
{
    const block_acts *a = &m->acts.blocks[block];
    const model_rows rows = {m->path, 0, B * T};
    m->ops->rmsnorm_forward(m->be, a->attn_norm, a->attn_rstd, a->in, NULL,
                            m->path->blocks[block].attn_norm, B * T, m->shape->width,
                            (float)m->shape->norm_eps);
    project_qkv(m, block, rows);
    forward_attention(m, block, B, T);
    forward_middle(m, block, rows);
}

void model_forward_norm(pl_model *m, model_rows r)
{
    norm_stream(m, m->shape->n_blocks, r.path->norm, m->acts.norm, m->acts.rstd, r);
}

void model_forward(pl_model *m, int B, int T)
{
    const model_rows rows = {m->path, 0, B * T};
    model_forward_embed(m, rows);
    for (int b = 0; b < m->shape->n_blocks; b++) {
        model_forward_qkv(m, b, rows);
        forward_attention(m, b, B, T);
        model_forward_rest(m, b, rows);
    }
    model_forward_norm(m, rows);
}
