/* RMSNorm (Zhang & Sennrich 2019, arXiv:1910.07467, eq. 4) of the residual stream, with
 * the residual addition before it; and RMSNorm of each query and key head (QK norm).
 *
 * With r = 1/sqrt(mean_c x^2 + eps) and y = x r w, the derivative of r is dr/dx[c] =
 * -r^3 x[c] / C. So the gradient of x is
 *
 *   dx[c] = r (w[c] dy[c] - x[c] r^2 mean_k(dy[k] w[k] x[k])) */
#include "modules/ref/ref.h"
#include <math.h>

void ref_rmsnorm_forward(pl_backend *be, pl_act *out, float *rstd, pl_act *x,
                         const pl_act *residual, const float *w, int N, int C,
                         float eps)
{
    (void)be;
    float *y = ref_floats(out), *row = ref_floats(x);
    const float *add = ref_view(residual);
    for (int n = 0; n < N; n++, y += C, row += C) {
        if (add)
            ref_axpy(row, 1.0f, add + (size_t)n * (size_t)C, C);
        double squares = 0.0;
        for (int c = 0; c < C; c++)
            squares += (double)row[c] * (double)row[c];
        rstd[n] = (float)(1.0 / sqrt(squares / C + (double)eps));
        for (int c = 0; c < C; c++)
            y[c] = row[c] * rstd[n] * w[c];
    }
}

void ref_rmsnorm_backward(pl_backend *be, pl_act *dx, float *dw, const pl_act *dout,
                          const pl_act *x, const float *w, const float *rstd, int N,
                          int C, bool accumulate)
{
    (void)be;
    float *to = ref_floats(dx);
    const float *dy = ref_view(dout), *row = ref_view(x);
    for (int n = 0; n < N; n++, to += C, dy += C, row += C) {
        double sum = 0.0;
        for (int c = 0; c < C; c++)
            sum += (double)dy[c] * (double)w[c] * (double)row[c];
        const float r = rstd[n], slope = (float)(sum / C) * r * r;
        for (int c = 0; c < C; c++) {
            to[c] = (accumulate ? to[c] : 0.0f) + r * (w[c] * dy[c] - row[c] * slope);
            dw[c] += dy[c] * row[c] * r;
        }
    }
}

void ref_head_norm_forward(pl_backend *be, pl_act *qkv, pl_act *before, float *rstd,
                           const float *w, int N, int H, int G, int D, float eps)
{
    const size_t stride = (size_t)(H + 2 * G) * (size_t)D;
    for (int n = 0; n < N; n++)
        for (int h = 0; h < H + G; h++) {
            float *x = ref_floats(qkv) + (size_t)n * stride + (size_t)h * (size_t)D;
            const size_t head = (size_t)n * (size_t)(H + G) + (size_t)h;
            float kept;
            if (before)
                memcpy(ref_floats(before) + head * (size_t)D, x, (size_t)D * sizeof *x);
            ref_rmsnorm_forward(be, (pl_act *)x, rstd ? rstd + head : &kept,
                                (pl_act *)x, NULL, h < H ? w : w + D, 1, D, eps);
        }
}

void ref_head_norm_backward(pl_backend *be, pl_act *dqkv, float *dw,
                            const pl_act *before, const float *w, const float *rstd,
                            int N, int H, int G, int D)
{
    (void)be;
    const size_t stride = (size_t)(H + 2 * G) * (size_t)D;
    for (int n = 0; n < N; n++)
        for (int h = 0; h < H + G; h++) {
            float *dx = ref_floats(dqkv) + (size_t)n * stride + (size_t)h * (size_t)D;
            const size_t head = (size_t)n * (size_t)(H + G) + (size_t)h;
            const float *x = ref_view(before) + head * (size_t)D;
            const int which = h < H ? 0 : D;
            double sum = 0.0;
            for (int d = 0; d < D; d++)
                sum += (double)dx[d] * (double)w[which + d] * (double)x[d];
            const float r = rstd[head], slope = (float)(sum / D) * r * r;
            for (int d = 0; d < D; d++) {
                dw[which + d] += dx[d] * x[d] * r;
                dx[d] = r * (w[which + d] * dx[d] - x[d] * slope);
            }
        }
}
