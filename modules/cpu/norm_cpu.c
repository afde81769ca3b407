/* RMSNorm (arXiv:1910.07467, eq. 4) of the residual stream, with the residual addition
 * before it; and RMSNorm of each query and key head (QK norm). */
#include "modules/cpu/ops_cpu.h"
#include "modules/cpu/simd.h"

/* Adds the residual, if there is one, to the row and returns the sum of the row's
 * squares. The squares are those of the stored, rounded x, so that the forward and the
 * backward pass use the same x. */
ALWAYS_INLINE float add_residual(pl_act *x, const pl_act *residual, size_t row, int C,
                                 const pl_type type)
{
    vfloat squares = {0};
    for (int c = 0; c < C; c += LANES) {
        const int left = v_left(c, C);
        const size_t at = row + (size_t)c;
        vfloat v = v_load_act(x, at, left, type);
        if (residual != NULL) {
            v += v_load_act(residual, at, left, type);
            if (type == PL_BF16)
                v = v_from_half(v_to_half(v));
            v_store_act(x, at, v, left, type);
        }
        squares += v * v;
    }
    return v_sum(squares);
}

ALWAYS_INLINE void forward_row(pl_act *out, float *rstd, pl_act *x,
                               const pl_act *residual, const float *w, int n, int C,
                               float eps, const pl_type type)
{
    const size_t row = (size_t)n * (size_t)C;
    const float squares = add_residual(x, residual, row, C, type);
    const float r = 1.0f / sqrtf(squares / (float)C + eps);
    rstd[n] = r;
    for (int c = 0; c < C; c += LANES) {
        const int left = v_left(c, C);
        const vfloat v = v_load_act(x, row + (size_t)c, left, type);
        v_store_act(out, row + (size_t)c, v * r * v_load_n(w + c, left), left, type);
    }
}

void OP(rmsnorm_forward)(pl_backend *be, pl_act *out, float *rstd, pl_act *x,
                         const pl_act *residual, const float *w, int N, int C,
                         float eps)
{
#pragma omp parallel for schedule(static)                                              \
    num_threads(cpu_team(be, 2 * (size_t)N * (size_t)C * pl_type_bytes(be->act)))
    for (int n = 0; n < N; n++) {
        if (be->act == PL_BF16)
            forward_row(out, rstd, x, residual, w, n, C, eps, PL_BF16);
        else
            forward_row(out, rstd, x, residual, w, n, C, eps, PL_F32);
    }
}

/* Computes, with y = x rstd: d loss / d x = rstd (w dout - y mean(w dout y)). */
ALWAYS_INLINE void backward_row(pl_act *dx, float *dw, const pl_act *dout,
                                const pl_act *x, const float *w, float rstd, size_t row,
                                int C, bool accumulate, const pl_type type)
{
    vfloat product = {0};
    for (int c = 0; c < C; c += LANES) {
        const int left = v_left(c, C);
        const vfloat grad = v_load_act(dout, row + (size_t)c, left, type);
        const vfloat gx = grad * v_load_act(x, row + (size_t)c, left, type);
        product += gx * v_load_n(w + c, left);
        v_store_n(dw + c, v_load_n(dw + c, left) + gx * rstd, left);
    }
    const float mean = v_sum(product) * rstd * rstd / (float)C;
    for (int c = 0; c < C; c += LANES) {
        const int left = v_left(c, C);
        const size_t at = row + (size_t)c;
        const vfloat grad = v_load_act(dout, at, left, type) * v_load_n(w + c, left);
        const vfloat change = (grad - v_load_act(x, at, left, type) * mean) * rstd;
        const vfloat old = accumulate ? v_load_act(dx, at, left, type) : (vfloat){0};
        v_store_act(dx, at, old + change, left, type);
    }
}

/* Number of rows of a group. For dw, each group of rows is summed separately, and the
 * sums of the groups are added in order. So the result does not depend on the number of
 * threads. */
enum { GROUP = 64 };

void OP(rmsnorm_backward)(pl_backend *be, pl_act *dx, float *dw, const pl_act *dout,
                          const pl_act *x, const float *w, const float *rstd, int N,
                          int C, bool accumulate)
{
    const int n_groups = (N + GROUP - 1) / GROUP;
    const size_t stride = cpu_lines((size_t)C * sizeof(float)) / sizeof(float);
    float *parts = cpu_scratch(cpu_self(be), (size_t)n_groups * stride * sizeof(float));
    if (parts == NULL)
        return;
#pragma omp parallel for schedule(static) num_threads(cpu_threads(be->n_threads))
    for (int i = 0; i < n_groups; i++) {
        float *part = parts + (size_t)i * stride;
        memset(part, 0, (size_t)C * sizeof *part);
        for (int n = i * GROUP; n < N && n < (i + 1) * GROUP; n++) {
            const size_t row = (size_t)n * (size_t)C;
            if (be->act == PL_BF16)
                backward_row(dx, part, dout, x, w, rstd[n], row, C, accumulate,
                             PL_BF16);
            else
                backward_row(dx, part, dout, x, w, rstd[n], row, C, accumulate, PL_F32);
        }
    }
    for (int i = 0; i < n_groups; i++)
        for (int c = 0; c < C; c++)
            dw[c] += parts[(size_t)i * stride + (size_t)c];
}

/* ---- QK norm ---- */
/* Where a head begins in qkv and in `before`, its index in rstd, and where its gains
 * begin in w. */
typedef struct head_place {
    size_t qkv, before, head;
    int gain;
} head_place;

static inline head_place place_head(int n, int h, int H, int G, int D)
{
    const size_t head = (size_t)n * (size_t)(H + G) + (size_t)h;
    return (head_place){.qkv =
                            ((size_t)n * (size_t)(H + 2 * G) + (size_t)h) * (size_t)D,
                        .before = head * (size_t)D,
                        .head = head,
                        .gain = h < H ? 0 : D};
}

void OP(head_norm_forward)(pl_backend *be, pl_act *qkv, pl_act *before, float *rstd,
                           const float *w, int N, int H, int G, int D, float eps)
{
    const pl_type type = be->act;
    const size_t bytes = (size_t)D * pl_type_bytes(type);
#pragma omp parallel for schedule(static)                                              \
    num_threads(cpu_team(be, 2 * (size_t)N * (size_t)(H + G) * bytes))
    for (int n = 0; n < N; n++)
        for (int h = 0; h < H + G; h++) {
            const head_place at = place_head(n, h, H, G, D);
            pl_act *x = act_at(qkv, at.qkv, type);
            float kept;
            float *r = rstd != NULL ? rstd + at.head : &kept;
            if (before != NULL)
                memcpy(act_at(before, at.before, type), x, bytes);
            if (type == PL_BF16)
                forward_row(x, r, x, NULL, w + at.gain, 0, D, eps, PL_BF16);
            else
                forward_row(x, r, x, NULL, w + at.gain, 0, D, eps, PL_F32);
        }
}

/* Replaces the gradient of a head's output in dx by the gradient of its input, and adds
 * the head's part to dw. */
ALWAYS_INLINE void backward_head(pl_act *dx, float *dw, const pl_act *x, const float *w,
                                 float rstd, int D, const pl_type type)
{
    vfloat product = {0};
    for (int d = 0; d < D; d += LANES) {
        const int left = v_left(d, D);
        const vfloat grad = v_load_act(dx, (size_t)d, left, type);
        const vfloat gx = grad * v_load_act(x, (size_t)d, left, type);
        product += gx * v_load_n(w + d, left);
        v_store_n(dw + d, v_load_n(dw + d, left) + gx * rstd, left);
    }
    const float mean = v_sum(product) * rstd * rstd / (float)D;
    for (int d = 0; d < D; d += LANES) {
        const int left = v_left(d, D);
        const vfloat grad = v_load_act(dx, (size_t)d, left, type);
        const vfloat scaled = grad * v_load_n(w + d, left);
        const vfloat change = scaled - v_load_act(x, (size_t)d, left, type) * mean;
        v_store_act(dx, (size_t)d, change * rstd, left, type);
    }
}

void OP(head_norm_backward)(pl_backend *be, pl_act *dqkv, float *dw,
                            const pl_act *before, const float *w, const float *rstd,
                            int N, int H, int G, int D)
{
    const pl_type type = be->act;
    const int n_groups = (N + GROUP - 1) / GROUP;
    const size_t stride = cpu_lines(2 * (size_t)D * sizeof(float)) / sizeof(float);
    float *parts = cpu_scratch(cpu_self(be), (size_t)n_groups * stride * sizeof(float));
    if (parts == NULL)
        return;
#pragma omp parallel for schedule(static) num_threads(cpu_threads(be->n_threads))
    for (int i = 0; i < n_groups; i++) {
        float *part = parts + (size_t)i * stride;
        memset(part, 0, 2 * (size_t)D * sizeof *part);
        for (int n = i * GROUP; n < N && n < (i + 1) * GROUP; n++)
            for (int h = 0; h < H + G; h++) {
                const head_place at = place_head(n, h, H, G, D);
                pl_act *dx = act_at(dqkv, at.qkv, type);
                const pl_act *x = act_in(before, at.before, type);
                if (type == PL_BF16)
                    backward_head(dx, part + at.gain, x, w + at.gain, rstd[at.head], D,
                                  PL_BF16);
                else
                    backward_head(dx, part + at.gain, x, w + at.gain, rstd[at.head], D,
                                  PL_F32);
            }
    }
    for (int i = 0; i < n_groups; i++)
        for (int d = 0; d < 2 * D; d++)
            dw[d] += parts[(size_t)i * stride + (size_t)d];
}
