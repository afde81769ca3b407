/* The forward pass, in plain order. With x_0 = E[token] and blocks b = 0, 1, ..:
 *
 *   a_b     = x_b + Wo attention(rope(Wqkv norm(x_b)))     with QK norm: rope(norm(..))
 *   x_{b+1} = a_b + Wdown (silu(Wgate norm(a_b)) * Wup norm(a_b))
 *   out     = norm(x_B), B the number of blocks
 *
 * x_b is the buffer `in` of block b, a_b its `mid`; the sums are computed inside the
 * norms that read them (model_internal.h). */
#include "modules/model_internal.h"

/* Computes the norm at the entry of `block` (n_blocks: the final norm). The stream
 * there is the previous block's feed-forward output plus its `mid`. */
static void norm_stream(pl_model *m, int block, size_t weight, pl_act *out, float *rstd,
                        int N)
{
    const block_acts *before = block > 0 ? &m->acts.blocks[block - 1] : NULL;
    pl_act *stream = before ? before->out : m->acts.embed;
    m->ops->rmsnorm_forward(m->be, out, rstd, stream, before ? before->mid : NULL,
                            m->params + weight, N, m->shape->width,
                            (float)m->shape->norm_eps);
}

void model_forward_embed(pl_model *m, int N)
{
    m->ops->embed_forward(m->be, m->acts.embed, m->acts.tokens, m->params + m->at.embed,
                          N, m->shape->width);
}

/* Computes the projections q, k, v of a block, without positions, and their QK norm. */
static void project_qkv(pl_model *m, int block, int N)
{
    const pl_shape *s = m->shape;
    const block_acts *a = &m->acts.blocks[block];
    int qkv = (s->n_heads + 2 * s->n_kv_heads) * s->head_size;
    m->ops->matmul_forward(m->be, a->qkv, a->attn_norm,
                           model_weight(m, block, WEIGHT_QKV), N, qkv, s->width);
    if (s->qk_norm)
        m->ops->head_norm_forward(
            m->be, a->qkv, a->qk, a->qk_rstd, m->params + m->at.blocks[block].head_norm,
            N, s->n_heads, s->n_kv_heads, s->head_size, (float)s->norm_eps);
}

void model_forward_qkv(pl_model *m, int block, int N)
{
    const block_acts *a = &m->acts.blocks[block];
    norm_stream(m, block, m->at.blocks[block].attn_norm, a->attn_norm, a->attn_rstd, N);
    project_qkv(m, block, N);
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

/* Computes Wo, then the feed-forward layer up to its last product. */
static void forward_middle(pl_model *m, int block, int N)
{
    const pl_shape *s = m->shape;
    const block_acts *a = &m->acts.blocks[block];
    int C = s->width, F = s->ffn;
    m->ops->matmul_forward(m->be, a->mid, a->attn, model_weight(m, block, WEIGHT_O), N,
                           C, s->n_heads * s->head_size);
    m->ops->rmsnorm_forward(m->be, a->ffn_norm, a->ffn_rstd, a->mid, a->in,
                            m->params + m->at.blocks[block].ffn_norm, N, C,
                            (float)s->norm_eps);
    m->ops->matmul_forward(m->be, a->gate_up, a->ffn_norm,
                           model_weight(m, block, WEIGHT_GATE_UP), N, 2 * F, C);
    m->ops->swiglu_forward(m->be, a->ffn, a->gate_up, N, F);
}

/* Computes everything after attention. The block's output is not yet added to the
 * stream; the next norm does that. */
void model_forward_rest(pl_model *m, int block, int N)
{
    const block_acts *a = &m->acts.blocks[block];
    forward_middle(m, block, N);
    m->ops->matmul_forward(m->be, a->out, a->ffn, model_weight(m, block, WEIGHT_DOWN),
                           N, m->shape->width, m->shape->ffn);
}

/* Recomputes a block. The block's first norm has already added the residual to `in`, so
 * it is computed without a residual now. */
void model_forward_again(pl_model *m, int block, int B, int T)
{
    const block_acts *a = &m->acts.blocks[block];
    m->ops->rmsnorm_forward(m->be, a->attn_norm, a->attn_rstd, a->in, NULL,
                            m->params + m->at.blocks[block].attn_norm, B * T,
                            m->shape->width, (float)m->shape->norm_eps);
    project_qkv(m, block, B * T);
    forward_attention(m, block, B, T);
    forward_middle(m, block, B * T);
}

void model_forward_norm(pl_model *m, int N)
{
    norm_stream(m, m->shape->n_blocks, m->at.norm, m->acts.norm, m->acts.rstd, N);
}

void model_forward(pl_model *m, int B, int T)
{
    model_forward_embed(m, B * T);
    for (int b = 0; b < m->shape->n_blocks; b++) {
        model_forward_qkv(m, b, B * T);
        forward_attention(m, b, B, T);
        model_forward_rest(m, b, B * T);
    }
    model_forward_norm(m, B * T);
}
