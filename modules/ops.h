/* The operations that a backend can do. Each operation is declared once, here.
 *
 * Notation: capital letters are extents, row-major. `pl_act *` is a buffer of
 * activations in the backend's own type (`backend->act`: float or bf16), opaque to
 * callers. `float *` is fp32 in the backend's memory. A weight `w` is passed as `const
 * pl_weight *`: the backend's compute copy of an fp32 matrix, its master.
 * `weights_refresh` makes this copy (a packed or cast matrix), so that an operation
 * need not convert weights; a backend may also use the master itself.
 *
 * Gradients of parameters accumulate (+=), those of weights only if the caller asks for
 * it: the first pass of a step overwrites them, so nobody has to clear them. Gradients
 * of activations overwrite, unless the operation's comment says otherwise. No operation
 * allocates. All are deterministic for a given thread count. Numbers that change from
 * one training step to the next (pl_step_numbers) lie in memory of the backend, so that
 * a backend can record a step and repeat it. Errors: the model checks sizes. An
 * operation returns nothing; a device failure is reported by `sync`. */
#pragma once
#include "modules/shape.h"
PL_C_BEGIN

typedef struct pl_backend pl_backend;
typedef struct pl_act pl_act;       /* an opaque type, which is never defined */
typedef struct pl_weight pl_weight; /* the backend's private handle of one matrix */

typedef struct pl_adamw {
    float lr, beta1, beta2, eps, weight_decay;
    int64_t step; /* 1 for the first step; needed for bias correction */
} pl_adamw;

typedef struct pl_step_numbers {
    pl_adamw adam;
    float mass1, mass2; /* 1 - beta1^step, 1 - beta2^step */
    float clip;         /* largest norm of the gradient; 0: no limit */
    float loss_scale;   /* 1 / counted targets */
} pl_step_numbers;

/* A run: consecutive parameters that the optimizer treats in the same way. AdamW
 * updates them, all with weight decay or all without; or they are matrices of one size
 * that Muon updates. */
typedef struct pl_update_run {
    size_t offset, n;
    size_t second; /* AdamW: index of the second moment of the first parameter */
    bool decay;
    int rows, cols; /* size of each matrix if Muon updates them; 0 for AdamW */
    /* index in the plan's list of the weight that contains the run, or -1: a run does
     * not extend over the end of a weight */
    int weight;
} pl_update_run;
/* Returns the number of matrices in a run that Muon updates. */
static inline int pl_update_run_matrices(const pl_update_run *run)
{
    return (int)(run->n / ((size_t)run->rows * (size_t)run->cols));
}

/* Returns where the second moments begin, in floats: at a whole line, so that they are
 * aligned for every number of parameters. */
static inline size_t pl_second_moments(size_t n_params)
{
    return (n_params + 15) / 16 * 16;
}

/* The memory that the optimizer works on. Vectors lie in memory of the backend, lists
 * in that of the host. Vectors and lists are borrowed while the update exists. */
typedef struct pl_update_plan {
    /* moments are m [n_params], then, from pl_second_moments on, v of those parameters
     * that AdamW updates */
    float *params, *grads, *moments;
    size_t n_params;
    const pl_update_run *runs; /* the runs cover all parameters that train */
    int n_runs;
    pl_weight *const *weights; /* the weights whose masters are in params */
    double *squares;           /* [1] sum of the squares of all gradients */
} pl_update_plan;

/* the optimizer of one model: it is made once and applied in every step */
typedef struct pl_update pl_update;
typedef struct pl_routine pl_routine; /* a recorded sequence of operations */

/* ---- memory (device memory of the backend) ---- */
typedef pl_status pl_op_alloc(pl_backend *be, size_t bytes, const char *what,
                              void **out); /* the memory is zeroed */
typedef void pl_op_release(pl_backend *be, void *memory);
typedef void pl_op_upload(pl_backend *be, void *device, const void *host, size_t bytes);
typedef void pl_op_download(pl_backend *be, void *host, const void *device,
                            size_t bytes);
typedef void pl_op_fill_zero(pl_backend *be, void *device, size_t bytes);
typedef pl_status pl_op_sync(pl_backend *be);
/* Converts acts to fp32 and back (device to device). */
typedef void pl_op_act_to_float(pl_backend *be, float *out, const pl_act *in, size_t n);
typedef void pl_op_act_from_float(pl_backend *be, pl_act *out, const float *in,
                                  size_t n);

/* ---- weights: [O,I] matrices ---- */
/* A new weight has no values until weights_refresh. A weight with a compute copy reads
 * its master only during weights_refresh. */
typedef pl_status pl_op_weight_create(pl_backend *be, const float *master, int O, int I,
                                      pl_weight **out);
typedef void pl_op_weight_destroy(pl_backend *be, pl_weight **weight);
typedef void pl_op_weights_refresh(pl_backend *be, pl_weight *const *weights,
                                   int n); /* call it after the masters have changed */

/* out[n,c] = w[token[n],c] from the fp32 master; dw[token[n],c] += dout[n,c],
 * in order of n (deterministic). Tokens are checked by the model. */
typedef void pl_op_embed_forward(pl_backend *be, pl_act *out, const int32_t *tokens,
                                 const float *w, int N, int C);
typedef void pl_op_embed_backward(pl_backend *be, float *dw, const pl_act *dout,
                                  const int32_t *tokens, int N, int C);

/* RMSNorm over the last axis (arXiv:1910.07467, eq. 4), with an optional
 * residual first: if `residual` is given, x += residual (in place), then
 *   out[n,c] = x[n,c] * rstd[n] * w[c],  rstd[n] = 1/sqrt(mean_c x^2 + eps) */
typedef void pl_op_rmsnorm_forward(pl_backend *be, pl_act *out, float *rstd, pl_act *x,
                                   const pl_act *residual, const float *w, int N, int C,
                                   float eps);
/* dx[n,c] = d loss / d x; with `accumulate`, it is added to dx, the gradient of the
 * residual stream. Adds sum_n dout * x * rstd to dw[c]. */
typedef void pl_op_rmsnorm_backward(pl_backend *be, pl_act *dx, float *dw,
                                    const pl_act *dout, const pl_act *x, const float *w,
                                    const float *rstd, int N, int C, bool accumulate);

/* RMSNorm of each query and each key head (QK norm), in place on the q and k parts of
 * qkv [N,(H+2G)*D], before rope. w [2,D] has the gains of queries, then those of keys:
 *   qkv[n,h,d] = x[n,h,d] * rstd[n,h] * w[h < H ? 0 : 1, d],  h < H + G
 * where x is the old content of qkv. The backward pass needs x, which is copied to
 * `before` [N,(H+G)*D], and rstd [N,H+G]; for inference both are NULL. */
typedef void pl_op_head_norm_forward(pl_backend *be, pl_act *qkv, pl_act *before,
                                     float *rstd, const float *w, int N, int H, int G,
                                     int D, float eps);
/* Replaces d loss / d qkv by d loss / d x in the q and k parts of dqkv, and leaves the
 * v part unchanged. dw[0 or 1,d] += sum over rows and heads of dqkv * x * rstd. */
typedef void pl_op_head_norm_backward(pl_backend *be, pl_act *dqkv, float *dw,
                                      const pl_act *before, const float *w,
                                      const float *rstd, int N, int H, int G, int D);

/* out[n,o] = sum_i x[n,i] w[o,i] */
typedef void pl_op_matmul_forward(pl_backend *be, pl_act *out, const pl_act *x,
                                  const pl_weight *w, int N, int O, int I);
/* dx[n,i] = sum_o dout[n,o] w[o,i]; with `accumulate`, the sum is added to dx. */
typedef void pl_op_matmul_dx(pl_backend *be, pl_act *dx, const pl_act *dout,
                             const pl_weight *w, int N, int O, int I, bool accumulate);
/* dw[o,i] = sum_n dout[n,o] x[n,i], fp32; with `accumulate`, the sum is added to dw. */
typedef void pl_op_matmul_dw(pl_backend *be, float *dw, const pl_act *dout,
                             const pl_act *x, int N, int O, int I, bool accumulate);

/* A row of T tokens may hold several texts, one after the other. texts[b,t], the place
 * in row b at which the text of token t begins, is at most t and never decreases along
 * a row. With `texts` NULL each row is one text.
 *
 * Rotary position embedding, Llama (rotate-half) convention, in place on the q and k
 * parts of qkv [B,T,(H+2G)*D] (G = kv heads). `sign` -1 computes the inverse rotation,
 * for the backward pass. The position of token t is start + t - texts[b,t]. */
typedef void pl_op_rope(pl_backend *be, pl_act *qkv, const int32_t *texts, int B, int T,
                        int H, int G, int D, double theta, int start, int sign);

/* Causal attention within each text, scale 1/sqrt(D). qkv [B,T,(H+2G)*D] after
 * rope:
 *   out [B,T,H*D], lse [B,H,T] = log sum exp of the scaled scores (fp32)
 *
 * The backward pass gives the gradient of qkv as it was before rope with `theta` and
 * start 0: the gradients of q and k are rotated back. */
typedef void pl_op_attention_forward(pl_backend *be, pl_act *out, float *lse,
                                     const pl_act *qkv, const int32_t *texts, int B,
                                     int T, int H, int G, int D);
typedef void pl_op_attention_backward(pl_backend *be, pl_act *dqkv, const pl_act *dout,
                                      const pl_act *qkv, const pl_act *out,
                                      const float *lse, const int32_t *texts, int B,
                                      int T, int H, int G, int D, double theta);
/* In the next two operations the rows belong to several sequences, and each sequence
 * has a cache. Row n of qkv [N,(H+2G)*D] is position pos[n] < S of sequence slot[n]; no
 * two rows have the same sequence and position. The caches are keys and values, both
 * [slots,S,G*D].
 *
 * decode_append rotates q and k by their positions, as `rope` does, and copies k and v
 * to their places in the caches. attention_decode computes the attention of each q to
 * positions 0..pos[n] of its sequence: out [N,H*D]. */
typedef void pl_op_decode_append(pl_backend *be, pl_act *qkv, pl_act *keys,
                                 pl_act *values, const int32_t *slot,
                                 const int32_t *pos, int N, int S, int H, int G, int D,
                                 double theta);
typedef void pl_op_attention_decode(pl_backend *be, pl_act *out, const pl_act *qkv,
                                    const pl_act *keys, const pl_act *values,
                                    const int32_t *slot, const int32_t *pos, int N,
                                    int S, int H, int G, int D);

/* Changes the order of rows of activations, in place: row n gets the old row order[n].
 * order [N] is a permutation of 0 .. N-1, in memory of the backend; `scratch` has room
 * for [N,C]. */
typedef void pl_op_permute_rows(pl_backend *be, pl_act *x, pl_act *scratch,
                                const int32_t *order, int N, int C);

/* gu [N,2F] = gate | up:  out[n,f] = silu(gate) * up */
typedef void pl_op_swiglu_forward(pl_backend *be, pl_act *out, const pl_act *gu, int N,
                                  int F);
typedef void pl_op_swiglu_backward(pl_backend *be, pl_act *dgu, const pl_act *dout,
                                   const pl_act *gu, int N, int F);

/* The last linear layer with cross-entropy, for some rows at a time: the logits [N,V]
 * are never in memory as a whole.
 *   loss[n] = logsumexp_v(x w^T) - logit[target]; 0 where target < 0
 * If `dx` is given, the operation also computes the gradients of *scale * sum loss:
 * that of x overwrites dx, and that of w (fp32) overwrites dw or, with `accumulate`, is
 * added to it. `scale` points into memory of the backend; without dx it may be NULL. */
typedef void pl_op_classifier(pl_backend *be, float *loss, pl_act *dx, float *dw,
                              const pl_act *x, const pl_weight *w,
                              const int32_t *targets, const float *scale, int N, int V,
                              int C, bool accumulate);
/* logits [N,V] fp32, for sampling */
typedef void pl_op_logits(pl_backend *be, float *out, const pl_act *x,
                          const pl_weight *w, int N, int V, int C);

/* ---- optimizer, on fp32 blocks ---- */
/* *out = sum_i g[i]^2 in a fixed order; the sums of chunks are added in double. `out`
 * is memory of the backend, like all pointers of operations except those of upload and
 * download. */
typedef void pl_op_sum_squares(pl_backend *be, double *out, const float *g, size_t n);
/* AdamW (arXiv:1711.05101): g is scaled by grad_scale first (clipping);
 *   m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2
 *   p -= lr * ( (m/(1-b1^t)) / (sqrt(v/(1-b2^t)) + eps) + wd * p )
 * If `w` is NULL, g is then set to zero. Otherwise p is part of the master of w: the
 * compute copy of this part is written, too, and g stays as it is. */
typedef void pl_op_adamw(pl_backend *be, float *p, float *m, float *v, float *g,
                         size_t n, float grad_scale, const pl_adamw *adam,
                         const pl_weight *w);
/* Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon) on each of n
 * matrices [n,O,I], with the scale of arXiv:2502.16982, so that AdamW's learning rate
 * and weight decay can be used. mu is PL_MUON_MOMENTUM. g is scaled by grad_scale; then
 *   m = mu m + (1-mu) g;  u = mu m + (1-mu) g                    (Nesterov)
 *   X = u / (|u| + 1e-7), |u| the Frobenius norm, and PL_MUON_ITERATIONS times
 *   X = a X + X (b S + c S S), S = X^T X                         (Newton-Schulz)
 *   p -= lr * (0.2 sqrt(max(O,I)) X + wd * p)
 * and g is set to zero. The iteration brings the singular values of X near 1. For O < I
 * the iteration works on the transpose of X. `work` has pl_muon_work_floats floats, on
 * a GPU n times as many; its contents do not matter before or after the call. The order
 * of all sums depends on O and I alone, on a GPU also on n, but not on the number of
 * threads. */
typedef void pl_op_muon(pl_backend *be, float *p, float *m, float *g, float *work,
                        int n, int O, int I, float grad_scale, const pl_adamw *adam);
#define PL_MUON_MOMENTUM 0.95f
#define PL_MUON_SCALE    0.2f
#define PL_MUON_TINY     1e-7f
/* a, b and c in the equation of muon */
#define PL_MUON_QUINTIC                                                                \
    {                                                                                  \
        3.4445f, -4.7750f, 2.0315f                                                     \
    }
enum { PL_MUON_ITERATIONS = 5 };
/* Returns how many floats of working memory muon needs for one matrix: two matrices of
 * the size of X and three of the size of S, with sides rounded up to whole tiles. */
size_t pl_muon_work_floats(int O, int I);
/* Returns the most floats that muon needs for one of the runs; 0 if AdamW updates all
 * of them. `together`: for all matrices of the run at once. */
size_t pl_update_work_floats(const pl_update_run *runs, int n_runs, bool together);

/* ---- a whole step ---- */
/* The optimizer for a whole path: computes squares = sum g^2, scales gradients down to
 * the norm `clip` if their norm is larger, applies muon to the runs that are matrices
 * and adamw to the others (with weight decay if the run has it), refreshes compute
 * copies, and zeroes the gradients of parameters outside of weights. The next step must
 * overwrite the gradients of weights. If squares or a value of loss[N] is not finite,
 * squares becomes NaN or infinite, and no parameter or moment changes. */
typedef pl_status pl_op_update_create(pl_backend *be, const pl_update_plan *plan,
                                      pl_update **out);
typedef void pl_op_update_destroy(pl_backend *be, pl_update **update);
typedef void pl_op_update_apply(pl_backend *be, pl_update *update, const float *loss,
                                int N, const pl_step_numbers *numbers);
/* Executes the operations that `work` calls. Calls with the same routine and `shape`
 * must call the same operations of this backend with equal arguments. A backend may
 * record the operations at an early call and repeat them later without calling `work`.
 * *routine is NULL at first; the caller destroys it with routine_destroy. */
typedef void pl_op_perform(pl_backend *be, pl_routine **routine, uint64_t shape,
                           void (*work)(void *context), void *context);
typedef void pl_op_routine_destroy(pl_backend *be, pl_routine **routine);
/* *sum = the sum of loss[N] in double; with `accumulate`, it is added to *sum. */
typedef void pl_op_sum_losses(pl_backend *be, double *sum, const float *loss, int N,
                              bool accumulate);
/* out[b,c] = mean over t < lengths[b] of x[b,t,c], summed in double in order of t; x
 * has B*T rows, and 1 <= lengths[b] <= T. */
typedef void pl_op_mean_rows(pl_backend *be, float *out, const pl_act *x,
                             const int32_t *lengths, int B, int T, int C);
/* `post` copies up to PL_POST_BYTES to the host after all operations before it, and
 * does not wait; `collect` waits for the last copy with this number (below PL_POSTS).
 * Like sync, it reports failures. Operations that were called later may still run. */
enum { PL_POSTS = 2, PL_POST_BYTES = 16 };
typedef void pl_op_post(pl_backend *be, int number, const void *device, size_t bytes);
typedef pl_status pl_op_collect(pl_backend *be, int number, void *host, size_t bytes);

/* The operations, in one list for each kind. The declarations and the table of a
 * backend are generated from these lists. sync and matmul_dx are in the list of weights
 * because the cpu backend compiles them once, like the others of that list, and not
 * once per instruction set. */
/* clang-format off */
#define PL_OPS_OF_MEMORY(X) \
    X(alloc) X(release) X(upload) X(download) X(fill_zero)
#define PL_OPS_OF_CASTS(X) X(act_to_float) X(act_from_float)
#define PL_OPS_OF_WEIGHTS(X) \
    X(weight_create) X(weight_destroy) X(weights_refresh) X(matmul_dx) X(sync)
#define PL_OPS_OF_MODELS(X) \
    X(embed_forward) X(embed_backward) X(rmsnorm_forward) X(rmsnorm_backward) \
    X(head_norm_forward) X(head_norm_backward) \
    X(matmul_forward) X(matmul_dw) X(rope) X(attention_forward) \
    X(attention_backward) X(decode_append) X(attention_decode) X(swiglu_forward) \
    X(swiglu_backward) X(classifier) X(logits) X(sum_squares) X(adamw) X(muon)
#define PL_OPS_OF_STEPS(X) \
    X(update_create) X(update_destroy) X(update_apply) X(perform) X(routine_destroy) \
    X(permute_rows) X(sum_losses) X(mean_rows) X(post) X(collect)
/* clang-format on */

/* A backend's table. No entry of the table is optional. */
typedef struct pl_ops {
#define PL_OPS_SLOT(op) pl_op_##op *op;
    PL_OPS_OF_MEMORY(PL_OPS_SLOT)
    PL_OPS_OF_CASTS(PL_OPS_SLOT)
    PL_OPS_OF_WEIGHTS(PL_OPS_SLOT)
    PL_OPS_OF_MODELS(PL_OPS_SLOT)
    PL_OPS_OF_STEPS(PL_OPS_SLOT)
#undef PL_OPS_SLOT
} pl_ops;

/* Versions of these operations for backends that work in the host's memory.
 * pl_host_update_apply and pl_host_perform call one operation after the other. */
#define PL_OPS_DECLARE(op) pl_op_##op pl_host_##op;
PL_OPS_OF_MEMORY(PL_OPS_DECLARE)
PL_OPS_OF_STEPS(PL_OPS_DECLARE)
#undef PL_OPS_DECLARE

PL_C_END
