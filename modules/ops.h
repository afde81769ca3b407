/* Operations: what a backend can do. Each is declared once, here.
 *
 * Notation: capital letters are extents, row-major. `pl_act *` is a buffer of
 * activations in the backend's own type (`backend->act`: float or bf16), opaque
 * to callers. `float *` is fp32 in the backend's memory. Weights `w` come as
 * `const pl_weight *`: the backend's compute copy of an fp32 master matrix, made by
 * `weights_refresh` (packed, cast, or the master itself), so that nothing is
 * converted per call.
 *
 * Parameters' gradients accumulate (+=), activations' gradients overwrite
 * unless the operation says otherwise. No operation allocates. All are
 * deterministic for a given thread count. Errors: sizes are checked by the model;
 * an operation returns nothing and a device failure surfaces at `sync`.
 */
#ifndef PL_MODULES_OPS_H
#define PL_MODULES_OPS_H
#include "modules/shape.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_backend pl_backend;
typedef struct pl_act pl_act;       /* never defined: a typed void */
typedef struct pl_weight pl_weight; /* one backend-private handle per matrix */

typedef struct pl_adamw {
    float lr, beta1, beta2, eps, weight_decay;
    int64_t step; /* 1 for the first: bias correction */
} pl_adamw;

typedef struct pl_ops {
    /* ---- memory (device memory of the backend) ---- */
    pl_status (*alloc)(pl_backend *be, size_t bytes, const char *what,
                       void **out); /* zeroed */
    void (*release)(pl_backend *be, void *memory);
    void (*upload)(pl_backend *be, void *device, const void *host, size_t bytes);
    void (*download)(pl_backend *be, void *host, const void *device, size_t bytes);
    void (*fill_zero)(pl_backend *be, void *device, size_t bytes);
    pl_status (*sync)(pl_backend *be);
    /* acts <-> fp32 (device to device) */
    void (*act_to_float)(pl_backend *be, float *out, const pl_act *in, size_t n);
    void (*act_from_float)(pl_backend *be, pl_act *out, const float *in, size_t n);

    /* ---- weights: [O,I] matrices ---- */
    pl_status (*weight_create)(pl_backend *be, const float *master, int O, int I,
                               pl_weight **out);
    void (*weight_destroy)(pl_backend *be, pl_weight **weight);
    void (*weights_refresh)(pl_backend *be, pl_weight *const *weights,
                            int n); /* after masters change */

    /* out[n,c] = w[token[n],c] from the fp32 master; dw[token[n],c] += dout[n,c],
     * in order of n (deterministic). Tokens are checked by the model. */
    void (*embed_forward)(pl_backend *be, pl_act *out, const int32_t *tokens,
                          const float *w, int N, int C);
    void (*embed_backward)(pl_backend *be, float *dw, const pl_act *dout,
                           const int32_t *tokens, int N, int C);

    /* RMSNorm over the last axis (arXiv:1910.07467, eq. 4), with an optional
     * residual first: if `residual` is given, x += residual (in place), then
     *   out[n,c] = x[n,c] * rstd[n] * w[c],  rstd[n] = 1/sqrt(mean_c x^2 + eps) */
    void (*rmsnorm_forward)(pl_backend *be, pl_act *out, float *rstd, pl_act *x,
                            const pl_act *residual, const float *w, int N, int C,
                            float eps);
    /* dx[n,c] += d loss / d x (accumulates: dx is the residual stream's gradient);
     * dw[c] += sum_n dout * x * rstd. */
    void (*rmsnorm_backward)(pl_backend *be, pl_act *dx, float *dw, const pl_act *dout,
                             const pl_act *x, const float *w, const float *rstd, int N,
                             int C);

    /* out[n,o] = sum_i x[n,i] w[o,i] */
    void (*matmul_forward)(pl_backend *be, pl_act *out, const pl_act *x,
                           const pl_weight *w, int N, int O, int I);
    /* dx[n,i] = sum_o dout[n,o] w[o,i]; dx += when `accumulate` */
    void (*matmul_dx)(pl_backend *be, pl_act *dx, const pl_act *dout,
                      const pl_weight *w, int N, int O, int I, bool accumulate);
    /* dw[o,i] += sum_n dout[n,o] x[n,i], fp32 */
    void (*matmul_dw)(pl_backend *be, float *dw, const pl_act *dout, const pl_act *x,
                      int N, int O, int I);

    /* Rotary position embedding, Llama (rotate-half) convention, in place on the q
     * and k parts of qkv [B,T,(H+2G)*D] (G = kv heads); `sign` -1 is the inverse
     * (backward). Position of row t is start + t. */
    void (*rope)(pl_backend *be, pl_act *qkv, int B, int T, int H, int G, int D,
                 double theta, int start, int sign);

    /* Causal attention, scale 1/sqrt(D). qkv [B,T,(H+2G)*D] after rope:
     *   out [B,T,H*D], lse [B,H,T] = log sum exp of the scaled scores (fp32) */
    void (*attention_forward)(pl_backend *be, pl_act *out, float *lse,
                              const pl_act *qkv, int B, int T, int H, int G, int D);
    void (*attention_backward)(pl_backend *be, pl_act *dqkv, const pl_act *dout,
                               const pl_act *qkv, const pl_act *out, const float *lse,
                               int B, int T, int H, int G, int D);
    /* One query row per sequence against a cache: q [B,H*D] at position pos[b],
     * keys/values [B,S,G*D] fp32-or-act as `act`, rows 0..pos[b] valid. out [B,H*D]. */
    void (*attention_decode)(pl_backend *be, pl_act *out, const pl_act *q,
                             const pl_act *keys, const pl_act *values,
                             const int32_t *pos, int B, int S, int H, int G, int D);

    /* gu [N,2F] = gate | up:  out[n,f] = silu(gate) * up */
    void (*swiglu_forward)(pl_backend *be, pl_act *out, const pl_act *gu, int N, int F);
    void (*swiglu_backward)(pl_backend *be, pl_act *dgu, const pl_act *dout,
                            const pl_act *gu, int N, int F);

    /* Linear + cross-entropy, in row chunks: the [N,V] logits never exist whole.
     *   loss[n] = logsumexp_v(x w^T) - logit[target]; 0 where target < 0
     * When `dx` is given also d(scale * sum loss): dx overwritten, dw += (fp32). */
    void (*classifier)(pl_backend *be, float *loss, pl_act *dx, float *dw,
                       const pl_act *x, const pl_weight *w, const int32_t *targets,
                       float scale, int N, int V, int C);
    /* logits [N,V] fp32, for sampling */
    void (*logits)(pl_backend *be, float *out, const pl_act *x, const pl_weight *w,
                   int N, int V, int C);

    /* ---- optimizer, on fp32 blocks ---- */
    /* *out = sum_i g[i]^2 in a fixed order, double accumulation over chunks; `out`
     * is memory of the backend, as every pointer here but those of upload and
     * download */
    void (*sum_squares)(pl_backend *be, double *out, const float *g, size_t n);
    /* AdamW (arXiv:1711.05101): g is scaled by grad_scale first (clipping);
     *   m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2
     *   p -= lr * ( (m/(1-b1^t)) / (sqrt(v/(1-b2^t)) + eps) + wd * p )
     * then g is set to zero. */
    void (*adamw)(pl_backend *be, float *p, float *m, float *v, float *g, size_t n,
                  float grad_scale, const pl_adamw *adam);
} pl_ops;

#ifdef __cplusplus
}
#endif
#endif
