/* The backward pass: the operations of the forward pass in reverse order.
 *
 * For y = W x a product gives dx = W^T dy and dW += dy x^T. d_stream, the gradient of
 * the residual stream, reaches each sublayer's output unchanged (the derivative of a
 * sum), and each norm adds the gradient that went through its sublayer.
 *
 * All blocks use the same buffers for gradients of activations, one for each width,
 * because such a gradient is needed only until the next operation has read it. */
#include "modules/model_internal.h"

/* d_stream is d loss / d x_{b+1} on entry and d loss / d a_b on return (names:
 * model_forward.c). */
static void backward_ffn(pl_model *m, int block, int N)
{
    const block_acts *a = &m->acts.blocks[block];
    const block_params *at = &m->at.blocks[block];
    const model_acts *d = &m->acts;
    int C = m->shape->width, F = m->shape->ffn;
    m->ops->matmul_dx(m->be, d->d_ffn, d->d_stream, model_weight(m, block, WEIGHT_DOWN),
                      N, C, F, false);
    m->ops->matmul_dw(m->be, m->grads + at->down, d->d_stream, a->ffn, N, C, F);
    m->ops->swiglu_backward(m->be, d->d_gate_up, d->d_ffn, a->gate_up, N, F);
    m->ops->matmul_dx(m->be, d->d_norm, d->d_gate_up,
                      model_weight(m, block, WEIGHT_GATE_UP), N, 2 * F, C, false);
    m->ops->matmul_dw(m->be, m->grads + at->gate_up, d->d_gate_up, a->ffn_norm, N,
                      2 * F, C);
    m->ops->rmsnorm_backward(m->be, d->d_stream, m->grads + at->ffn_norm, d->d_norm,
                             a->mid, m->params + at->ffn_norm, a->ffn_rstd, N, C);
}

/* d_stream is d loss / d a_b on entry and d loss / d x_b on return. Rope is a rotation,
 * so its transpose is its inverse. */
static void backward_attention(pl_model *m, int block, int B, int T)
{
    const pl_shape *s = m->shape;
    const block_acts *a = &m->acts.blocks[block];
    const block_params *at = &m->at.blocks[block];
    const model_acts *d = &m->acts;
    int N = B * T, C = s->width, H = s->n_heads, G = s->n_kv_heads, D = s->head_size;
    int qkv = (H + 2 * G) * D;
    m->ops->matmul_dx(m->be, d->d_attn, d->d_stream, model_weight(m, block, WEIGHT_O),
                      N, C, H * D, false);
    m->ops->matmul_dw(m->be, m->grads + at->o, d->d_stream, a->attn, N, C, H * D);
    m->ops->attention_backward(m->be, d->d_qkv, d->d_attn, a->qkv, a->attn, a->lse,
                               d->texts, B, T, H, G, D);
    m->ops->rope(m->be, d->d_qkv, d->texts, B, T, H, G, D, s->rope_theta, 0, -1);
    if (s->qk_norm)
        m->ops->head_norm_backward(m->be, d->d_qkv, m->grads + at->head_norm, a->qk,
                                   m->params + at->head_norm, a->qk_rstd, N, H, G, D);
    m->ops->matmul_dx(m->be, d->d_norm, d->d_qkv, model_weight(m, block, WEIGHT_QKV), N,
                      qkv, C, false);
    m->ops->matmul_dw(m->be, m->grads + at->qkv, d->d_qkv, a->attn_norm, N, qkv, C);
    m->ops->rmsnorm_backward(m->be, d->d_stream, m->grads + at->attn_norm, d->d_norm,
                             a->in, m->params + at->attn_norm, a->attn_rstd, N, C);
}

void model_backward(pl_model *m, int B, int T)
{
    /* Computes the first d_stream. If the head is tied, the classifier adds to the
     * gradient of the embedding matrix, to which embed_backward adds at the end. */
    int N = B * T;
    const model_acts *d = &m->acts;
    int C = m->shape->width;
    size_t stream = (size_t)N * (size_t)C * pl_type_bytes(m->be->act);
    m->ops->classifier(m->be, d->loss, d->d_norm, m->grads + m->at.classifier, d->norm,
                       m->path->classifier, d->targets, &d->numbers->loss_scale, N,
                       m->shape->vocab, C);
    m->ops->fill_zero(m->be, d->d_stream, stream);
    m->ops->rmsnorm_backward(m->be, d->d_stream, m->grads + m->at.norm, d->d_norm,
                             d->blocks[m->shape->n_blocks - 1].out,
                             m->params + m->at.norm, d->rstd, N, C);
    int last = m->shape->n_blocks - 1;
    for (int b = last; b >= 0; b--) {
        if (m->options.recompute && b < last)
            model_forward_again(m, b, B, T);
        backward_ffn(m, b, B * T);
        backward_attention(m, b, B, T);
    }
    m->ops->embed_backward(m->be, m->grads + m->at.embed, m->acts.d_stream,
                           m->acts.tokens, B * T, m->shape->width);
}
