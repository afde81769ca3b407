/* The backward pass: the operations of the forward pass in reverse order.
 *
 * For y = W x a product gives dx = W^T dy and dW = dy x^T, or dW += dy x^T in the later
 * passes of a step. d_stream, the gradient of the residual stream, reaches each
 * sublayer's output unchanged (the derivative of a sum), and each norm adds the
 * gradient that went through its sublayer.
 *
 * All blocks use the same buffers for gradients of activations, one for each width,
 * because such a gradient is needed only until the next operation has read it. */
#include "modules/model_internal.h"

void model_backward(pl_model *m, int B, int T, bool accumulate)
{
    pl_backend *be = m->be;
    const pl_ops *ops = m->ops;
    const pl_shape *s = m->shape;
    const model_acts *d = &m->acts;
    const int N = B * T, C = s->width, F = s->ffn;
    const int H = s->n_heads, G = s->n_kv_heads, D = s->head_size;
    const int qkv = (H + 2 * G) * D, last = s->n_blocks - 1;

    /* Computes the first d_stream. If the head is tied, the classifier adds to the
     * gradient of the embedding matrix, to which embed_backward adds at the end. */
    ops->classifier(be, d->loss, d->d_norm, m->grads + m->at.classifier, d->norm,
                    m->path->classifier, d->targets, &d->numbers->loss_scale, N,
                    s->vocab, C, accumulate);
    ops->rmsnorm_backward(be, d->d_stream, m->grads + m->at.norm, d->d_norm,
                          d->blocks[last].out, m->params + m->at.norm, d->rstd, N, C,
                          false);

    for (int b = last; b >= 0; b--) {
        const block_acts *a = &d->blocks[b];
        const block_params *at = &m->at.blocks[b];
        pl_weight *const *w = m->path->blocks[b].matrices;
        if (m->options.recompute && b < last)
            model_forward_again(m, b, B, T);

        /* d_stream is d loss / d x_{b+1} and becomes d loss / d a_b (names:
         * model_forward.c). */
        ops->matmul_dx(be, d->d_ffn, d->d_stream, w[WEIGHT_DOWN], N, C, F, false);
        ops->matmul_dw(be, m->grads + at->matrices[WEIGHT_DOWN], d->d_stream, a->ffn, N,
                       C, F, accumulate);
        ops->swiglu_backward(be, d->d_gate_up, d->d_ffn, a->gate_up, N, F);
        ops->matmul_dx(be, d->d_norm, d->d_gate_up, w[WEIGHT_GATE_UP], N, 2 * F, C,
                       false);
        ops->matmul_dw(be, m->grads + at->matrices[WEIGHT_GATE_UP], d->d_gate_up,
                       a->ffn_norm, N, 2 * F, C, accumulate);
        ops->rmsnorm_backward(be, d->d_stream, m->grads + at->ffn_norm, d->d_norm,
                              a->mid, m->params + at->ffn_norm, a->ffn_rstd, N, C,
                              true);

        /* Then it becomes d loss / d x_b. */
        ops->matmul_dx(be, d->d_attn, d->d_stream, w[WEIGHT_O], N, C, H * D, false);
        ops->matmul_dw(be, m->grads + at->matrices[WEIGHT_O], d->d_stream, a->attn, N,
                       C, H * D, accumulate);
        ops->attention_backward(be, d->d_qkv, d->d_attn, a->qkv, a->attn, a->lse,
                                d->texts, B, T, H, G, D, s->rope_theta);
        if (s->qk_norm)
            ops->head_norm_backward(be, d->d_qkv, m->grads + at->head_norm, a->qk,
                                    m->params + at->head_norm, a->qk_rstd, N, H, G, D);
        ops->matmul_dx(be, d->d_norm, d->d_qkv, w[WEIGHT_QKV], N, qkv, C, false);
        ops->matmul_dw(be, m->grads + at->matrices[WEIGHT_QKV], d->d_qkv, a->attn_norm,
                       N, qkv, C, accumulate);
        ops->rmsnorm_backward(be, d->d_stream, m->grads + at->attn_norm, d->d_norm,
                              a->in, m->params + at->attn_norm, a->attn_rstd, N, C,
                              true);
    }
    ops->embed_backward(be, m->grads + m->at.embed, d->d_stream, d->tokens, N, C);
}
