/* The operations of the cpu backend; modules/ops.h has their equations. Those in
 * OP() exist once per instruction set. */
#ifndef PL_MODULES_CPU_OPS_CPU_H
#define PL_MODULES_CPU_OPS_CPU_H
#include "modules/cpu/state.h"

/* backend_cpu.c */
pl_status cpu_alloc(pl_backend *be, size_t bytes, const char *what, void **out);
void cpu_release(pl_backend *be, void *memory);
void cpu_upload(pl_backend *be, void *device, const void *host, size_t bytes);
void cpu_download(pl_backend *be, void *host, const void *device, size_t bytes);
void cpu_fill_zero(pl_backend *be, void *device, size_t bytes);
pl_status cpu_sync(pl_backend *be);

/* matmul_cpu.c */
pl_status cpu_weight_create(pl_backend *be, const float *master, int O, int I,
                            pl_weight **out);
void cpu_weight_destroy(pl_backend *be, pl_weight **weight);
void cpu_weights_refresh(pl_backend *be, pl_weight *const *weights, int n);
void cpu_matmul_forward(pl_backend *be, pl_act *out, const pl_act *x,
                        const pl_weight *w, int N, int O, int I);
void cpu_matmul_dx(pl_backend *be, pl_act *dx, const pl_act *dout, const pl_weight *w,
                   int N, int O, int I, bool accumulate);
void cpu_matmul_dw(pl_backend *be, float *dw, const pl_act *dout, const pl_act *x,
                   int N, int O, int I);
void cpu_logits(pl_backend *be, float *out, const pl_act *x, const pl_weight *w, int N,
                int V, int C);

#ifdef CPU_ISA
/* bytes_cpu.c: out [N,O] = x w^T for a weight in bytes */
void OP(multiply_bytes)(pl_backend *be, pl_act *out, pl_type out_type, const pl_act *x,
                        const pl_weight *w, int N);
/* attention_cpu.c: attention_decode in blocks, for rows of one sequence whose cache
 * begins at element `at`, from position `first` on. Returns false if the rows must be
 * computed one by one. */
bool OP(attention_after)(pl_backend *be, pl_act *out, const pl_act *qkv,
                         const pl_act *keys, const pl_act *values, size_t at, int first,
                         int N, int H, int G, int D);
void OP(act_to_float)(pl_backend *be, float *out, const pl_act *in, size_t n);
void OP(act_from_float)(pl_backend *be, pl_act *out, const float *in, size_t n);
void OP(embed_forward)(pl_backend *be, pl_act *out, const int32_t *tokens,
                       const float *w, int N, int C);
void OP(embed_backward)(pl_backend *be, float *dw, const pl_act *dout,
                        const int32_t *tokens, int N, int C);
void OP(rmsnorm_forward)(pl_backend *be, pl_act *out, float *rstd, pl_act *x,
                         const pl_act *residual, const float *w, int N, int C,
                         float eps);
void OP(rmsnorm_backward)(pl_backend *be, pl_act *dx, float *dw, const pl_act *dout,
                          const pl_act *x, const float *w, const float *rstd, int N,
                          int C);
void OP(rope)(pl_backend *be, pl_act *qkv, const int32_t *texts, int B, int T, int H,
              int G, int D, double theta, int start, int sign);
void OP(attention_forward)(pl_backend *be, pl_act *out, float *lse, const pl_act *qkv,
                           const int32_t *texts, int B, int T, int H, int G, int D);
void OP(attention_backward)(pl_backend *be, pl_act *dqkv, const pl_act *dout,
                            const pl_act *qkv, const pl_act *out, const float *lse,
                            const int32_t *texts, int B, int T, int H, int G, int D);
void OP(decode_append)(pl_backend *be, pl_act *qkv, pl_act *keys, pl_act *values,
                       const int32_t *slot, const int32_t *pos, int N, int S, int H,
                       int G, int D, double theta);
void OP(attention_decode)(pl_backend *be, pl_act *out, const pl_act *qkv,
                          const pl_act *keys, const pl_act *values, const int32_t *slot,
                          const int32_t *pos, int N, int S, int H, int G, int D);
void OP(swiglu_forward)(pl_backend *be, pl_act *out, const pl_act *gu, int N, int F);
void OP(swiglu_backward)(pl_backend *be, pl_act *dgu, const pl_act *dout,
                         const pl_act *gu, int N, int F);
void OP(classifier)(pl_backend *be, float *loss, pl_act *dx, float *dw, const pl_act *x,
                    const pl_weight *w, const int32_t *targets, const float *scale,
                    int N, int V, int C);
void OP(matmul_forward)(pl_backend *be, pl_act *out, const pl_act *x,
                        const pl_weight *w, int N, int O, int I);
void OP(matmul_dw)(pl_backend *be, float *dw, const pl_act *dout, const pl_act *x,
                   int N, int O, int I);
void OP(logits)(pl_backend *be, float *out, const pl_act *x, const pl_weight *w, int N,
                int V, int C);
void OP(sum_squares)(pl_backend *be, double *out, const float *g, size_t n);
void OP(adamw)(pl_backend *be, float *p, float *m, float *v, float *g, size_t n,
               float grad_scale, const pl_adamw *adam);
#endif
#endif
