/* The reference backend: the specification of every operation in plain loops.
 *
 * One thread, fp32 storage, no intrinsics. Sums that decide accuracy (norms,
 * softmax denominators) run in double. A pl_act is a float here and a pl_weight
 * is the fp32 master itself, so nothing is cast, packed or refreshed.
 *
 * The equations stand in modules/ops.h; each file here is one of them.
 */
#ifndef PL_MODULES_REF_REF_H
#define PL_MODULES_REF_REF_H
#include "modules/backend.h"
#ifdef __cplusplus
extern "C" {
#endif

PL_MUST_CHECK pl_status ref_backend_create(const pl_backend_options *options,
                                           pl_backend **out);
void ref_backend_destroy(pl_backend **backend);

static inline float *ref_floats(pl_act *acts)
{
    return (float *)acts;
}
static inline const float *ref_view(const pl_act *acts)
{
    return (const float *)acts;
}
/* The master matrix behind a weight handle. */
const float *ref_master(const pl_weight *weight);

/* sum_i a[i] b[i] in sixteen interleaved partial sums, so that compilers may
 * vectorise it and the error grows with n/16. */
float ref_dot(const float *a, const float *b, int n);
/* y[i] += a x[i]; x and y do not overlap. */
void ref_axpy(float *y, float a, const float *x, int n);

void ref_embed_forward(pl_backend *be, pl_act *out, const int32_t *tokens,
                       const float *w, int N, int C);
void ref_embed_backward(pl_backend *be, float *dw, const pl_act *dout,
                        const int32_t *tokens, int N, int C);
void ref_rmsnorm_forward(pl_backend *be, pl_act *out, float *rstd, pl_act *x,
                         const pl_act *residual, const float *w, int N, int C,
                         float eps);
void ref_rmsnorm_backward(pl_backend *be, pl_act *dx, float *dw, const pl_act *dout,
                          const pl_act *x, const float *w, const float *rstd, int N,
                          int C);
void ref_matmul_forward(pl_backend *be, pl_act *out, const pl_act *x,
                        const pl_weight *w, int N, int O, int I);
void ref_matmul_dx(pl_backend *be, pl_act *dx, const pl_act *dout, const pl_weight *w,
                   int N, int O, int I, bool accumulate);
void ref_matmul_dw(pl_backend *be, float *dw, const pl_act *dout, const pl_act *x,
                   int N, int O, int I);
/* Where in row b the text of token t begins. */
static inline int ref_text_begin(const int32_t *texts, int b, int T, int t)
{
    return texts ? texts[(size_t)b * (size_t)T + (size_t)t] : 0;
}
void ref_rope(pl_backend *be, pl_act *qkv, const int32_t *texts, int B, int T, int H,
              int G, int D, double theta, int start, int sign);
void ref_attention_forward(pl_backend *be, pl_act *out, float *lse, const pl_act *qkv,
                           const int32_t *texts, int B, int T, int H, int G, int D);
void ref_attention_backward(pl_backend *be, pl_act *dqkv, const pl_act *dout,
                            const pl_act *qkv, const pl_act *out, const float *lse,
                            const int32_t *texts, int B, int T, int H, int G, int D);
void ref_decode_append(pl_backend *be, pl_act *qkv, pl_act *keys, pl_act *values,
                       const int32_t *slot, const int32_t *pos, int N, int S, int H,
                       int G, int D, double theta);
void ref_attention_decode(pl_backend *be, pl_act *out, const pl_act *qkv,
                          const pl_act *keys, const pl_act *values, const int32_t *slot,
                          const int32_t *pos, int N, int S, int H, int G, int D);
void ref_swiglu_forward(pl_backend *be, pl_act *out, const pl_act *gu, int N, int F);
void ref_swiglu_backward(pl_backend *be, pl_act *dgu, const pl_act *dout,
                         const pl_act *gu, int N, int F);
void ref_classifier(pl_backend *be, float *loss, pl_act *dx, float *dw, const pl_act *x,
                    const pl_weight *w, const int32_t *targets, const float *scale,
                    int N, int V, int C);
void ref_logits(pl_backend *be, float *out, const pl_act *x, const pl_weight *w, int N,
                int V, int C);
void ref_sum_squares(pl_backend *be, double *out, const float *g, size_t n);
void ref_adamw(pl_backend *be, float *p, float *m, float *v, float *g, size_t n,
               float grad_scale, const pl_adamw *adam);

#ifdef __cplusplus
}
#endif
#endif
