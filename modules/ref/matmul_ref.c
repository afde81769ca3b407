/* Matrix products with weights [O,I], and the two loops of which they consist.
 *
 *   out = x W^T      dx = dout W      dW += dout^T x
 *
 * Every inner loop runs along a row of W, so that memory is read in order. */
#include "modules/ref/ref.h"

enum { LANES = 16 };

PL_CHECKS_RANGES float ref_dot(const float *restrict a, const float *restrict b, int n)
{
    pl_check_range(a, (size_t)n * sizeof *a);
    pl_check_range(b, (size_t)n * sizeof *b);
    float lane[LANES] = {0};
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += a[i + l] * b[i + l];
    for (int l = 0; i < n; i++, l++)
        lane[l] += a[i] * b[i];
    /* adds the lanes as a tree: lane l + half is added to lane l */
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

PL_CHECKS_RANGES void ref_axpy(float *restrict y, float a, const float *restrict x,
                               int n)
{
    pl_check_range(y, (size_t)n * sizeof *y);
    pl_check_range(x, (size_t)n * sizeof *x);
    for (int i = 0; i < n; i++)
        y[i] += a * x[i];
}

void ref_matmul_forward(pl_backend *be, pl_act *out, const pl_act *x,
                        const pl_weight *w, int N, int O, int I)
{
    (void)be;
    float *y = ref_floats(out);
    const float *row = ref_view(x), *matrix = ref_master(w);
    for (int n = 0; n < N; n++, y += O, row += I)
        for (int o = 0; o < O; o++)
            y[o] = ref_dot(row, matrix + (size_t)o * (size_t)I, I);
}

void ref_matmul_dx(pl_backend *be, pl_act *dx, const pl_act *dout, const pl_weight *w,
                   int N, int O, int I, bool accumulate)
{
    (void)be;
    float *to = ref_floats(dx);
    const float *dy = ref_view(dout), *matrix = ref_master(w);
    for (int n = 0; n < N; n++, to += I, dy += O) {
        if (!accumulate)
            memset(to, 0, (size_t)I * sizeof *to);
        for (int o = 0; o < O; o++)
            ref_axpy(to, dy[o], matrix + (size_t)o * (size_t)I, I);
    }
}

void ref_matmul_dw(pl_backend *be, float *dw, const pl_act *dout, const pl_act *x,
                   int N, int O, int I, bool accumulate)
{
    (void)be;
    const float *dy = ref_view(dout), *row = ref_view(x);
    if (!accumulate)
        memset(dw, 0, (size_t)O * (size_t)I * sizeof *dw);
    for (int n = 0; n < N; n++, dy += O, row += I)
        for (int o = 0; o < O; o++)
            ref_axpy(dw + (size_t)o * (size_t)I, dy[o], row, I);
}
