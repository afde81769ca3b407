/* Defines the functions of naive.h. */
#include "tests/support/naive.h"

double *naive_zeros(size_t n)
{
    return pl_alloc(n * sizeof(double));
}

double *naive_randoms(size_t n, uint64_t stream, double scale)
{
    double *x = naive_zeros(n);
    for (size_t i = 0; i < n; i++)
        x[i] = (double)(float)(scale * (double)pl_random_normal(7, stream, i));
    return x;
}

float *naive_floats(const double *x, size_t n)
{
    float *y = pl_alloc(n * sizeof *y);
    for (size_t i = 0; i < n; i++)
        y[i] = (float)x[i];
    return y;
}

void naive_rmsnorm(double *out, const double *x, const double *w, int N, int C,
                   double eps)
{
    for (int n = 0; n < N; n++) {
        double squares = 0.0;
        for (int c = 0; c < C; c++)
            squares += x[n * C + c] * x[n * C + c];
        for (int c = 0; c < C; c++)
            out[n * C + c] = x[n * C + c] / sqrt(squares / C + eps) * w[c];
    }
}

void naive_head_norm(double *qkv, const double *w, int N, int H, int G, int D,
                     double eps)
{
    for (int n = 0; n < N; n++) {
        double *row = qkv + (size_t)n * (size_t)(H + 2 * G) * (size_t)D;
        for (int h = 0; h < H + G; h++)
            naive_rmsnorm(row + h * D, row + h * D, h < H ? w : w + D, 1, D, eps);
    }
}

/* Central differences spend most of their time here. */
PL_CHECKS_RANGES void naive_matmul(double *out, const double *x, const double *w, int N,
                                   int O, int I)
{
    pl_check_range(out, (size_t)(N * O) * sizeof *out);
    pl_check_range(x, (size_t)(N * I) * sizeof *x);
    pl_check_range(w, (size_t)(O * I) * sizeof *w);
    for (int n = 0; n < N; n++)
        for (int o = 0; o < O; o++) {
            double sum = 0.0;
            for (int i = 0; i < I; i++)
                sum += x[n * I + i] * w[o * I + i];
            out[n * O + o] = sum;
        }
}

void naive_rope(double *qkv, int B, int T, int H, int G, int D, double theta, int start)
{
    double *x = naive_zeros((size_t)D);
    for (int n = 0; n < B * T; n++)
        for (int h = 0; h < H + G; h++) {
            double *head =
                qkv + ((size_t)n * (size_t)(H + 2 * G) + (size_t)h) * (size_t)D;
            memcpy(x, head, (size_t)D * sizeof *x);
            for (int d = 0; d < D; d++) {
                double angle = (start + n % T) / pow(theta, 2.0 * (d % (D / 2)) / D);
                double half = d < D / 2 ? -x[d + D / 2] : x[d - D / 2];
                head[d] = x[d] * cos(angle) + half * sin(angle);
            }
        }
    free(x);
}

void naive_attention(double *out, const double *qkv, int B, int T, int H, int G, int D)
{
    int W = (H + 2 * G) * D;
    double *p = naive_zeros((size_t)T);
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++)
            for (int t = 0; t < T; t++) {
                const double *rows = qkv + (size_t)b * (size_t)T * (size_t)W;
                const double *q = rows + t * W + h * D;
                double *o = out + ((b * T + t) * H + h) * D, total = 0.0;
                int g = h * G / H;
                for (int s = 0; s <= t; s++) {
                    p[s] = 0.0;
                    for (int d = 0; d < D; d++)
                        p[s] += q[d] * rows[s * W + (H + g) * D + d] / sqrt(D);
                    total += p[s] = exp(p[s]);
                }
                for (int d = 0; d < D; d++) {
                    o[d] = 0.0;
                    for (int s = 0; s <= t; s++)
                        o[d] += p[s] / total * rows[s * W + (H + G + g) * D + d];
                }
            }
    free(p);
}

void naive_swiglu(double *out, const double *gu, int N, int F)
{
    for (int n = 0; n < N; n++)
        for (int f = 0; f < F; f++) {
            double gate = gu[n * 2 * F + f];
            out[n * F + f] = gate / (1.0 + exp(-gate)) * gu[n * 2 * F + F + f];
        }
}

void naive_losses(double *loss, const double *x, const double *w,
                  const int32_t *targets, int N, int V, int C)
{
    double *logits = naive_zeros((size_t)N * (size_t)V);
    naive_matmul(logits, x, w, N, V, C);
    for (int n = 0; n < N; n++) {
        double total = 0.0;
        for (int v = 0; v < V; v++)
            total += exp(logits[n * V + v]);
        loss[n] = targets[n] < 0 ? 0.0 : log(total) - logits[n * V + targets[n]];
    }
    free(logits);
}

double naive_slope(naive_scalar f, void *context, double *x)
{
    double at = *x, h = 1e-5 * (1.0 + fabs(at));
    *x = at + h;
    double up = f(context);
    *x = at - h;
    double down = f(context);
    *x = at;
    return (up - down) / (2.0 * h);
}

double naive_error(const float *got, const double *want, size_t n)
{
    double wrong = 0.0, all = 0.0;
    for (size_t i = 0; i < n; i++) {
        wrong += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        all += want[i] * want[i];
    }
    return all > 0.0 ? wrong / all : wrong;
}
