/* RMSNorm (Zhang & Sennrich 2019, arXiv:1910.07467, eq. 4) after a residual sum.
 *
 * With r = 1/sqrt(mean_c x^2 + eps) and y = x r w, the derivative of r is
 * dr/dx[c] = -r^3 x[c] / C, hence
 *
 *   dx[c] = r (w[c] dy[c] - x[c] r^2 mean_k(dy[k] w[k] x[k]))
 */
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

static void norm_row_backward(float *dx, float *dw, const float *dy, const float *x,
                              const float *w, float r, int C)
{
    double sum = 0.0;
    for (int c = 0; c < C; c++)
        sum += (double)dy[c] * (double)w[c] * (double)x[c];
    float slope = (float)(sum / C) * r * r;
    for (int c = 0; c < C; c++) {
        dx[c] += r * (w[c] * dy[c] - x[c] * slope);
        dw[c] += dy[c] * x[c] * r;
    }
}

void ref_rmsnorm_backward(pl_backend *be, pl_act *dx, float *dw, const pl_act *dout,
                          const pl_act *x, const float *w, const float *rstd, int N,
                          int C)
{
    (void)be;
    for (int n = 0; n < N; n++) {
        size_t row = (size_t)n * (size_t)C;
        norm_row_backward(ref_floats(dx) + row, dw, ref_view(dout) + row,
                          ref_view(x) + row, w, rstd[n], C);
    }
}
