/* The product with the last matrix: with cross-entropy for losses and training, or as
 * logits for sampling.
 *
 *   logit[v] = x.w[v]     loss = logsumexp_v logit - logit[target]
 *   dlogit[v] = scale (exp(logit[v] - lse) - [v = target])
 *
 * The logits of a row are computed twice, so that they need not be kept. */
#include "modules/ref/ref.h"
#include <math.h>
#include <string.h>

static const float *class_row(const float *w, int v, int C)
{
    return w + (size_t)v * (size_t)C;
}

static double log_sum_logits(const float *x, const float *w, int V, int C)
{
    double largest = (double)ref_dot(x, w, C), sum = 1.0;
    for (int v = 1; v < V; v++) {
        double logit = (double)ref_dot(x, class_row(w, v, C), C);
        if (logit > largest) {
            sum = sum * exp(largest - logit) + 1.0;
            largest = logit;
        } else {
            sum += exp(logit - largest);
        }
    }
    return largest + log(sum);
}

static void class_row_backward(float *dx, float *dw, const float *x, const float *w,
                               int target, double lse, float scale, int V, int C)
{
    for (int v = 0; v < V; v++) {
        const float *weights = class_row(w, v, C);
        double p = exp((double)ref_dot(x, weights, C) - lse);
        float dlogit = scale * (float)(p - (v == target ? 1.0 : 0.0));
        ref_axpy(dx, dlogit, weights, C);
        ref_axpy(dw + (size_t)v * (size_t)C, dlogit, x, C);
    }
}

void ref_classifier(pl_backend *be, float *loss, pl_act *dx, float *dw, const pl_act *x,
                    const pl_weight *w, const int32_t *targets, const float *scale,
                    int N, int V, int C)
{
    (void)be;
    const float *matrix = ref_master(w), *row = ref_view(x);
    float *to = ref_floats(dx);
    if (to)
        memset(to, 0, (size_t)N * (size_t)C * sizeof *to);
    for (int n = 0; n < N; n++, row += C) {
        loss[n] = 0.0f;
        if (targets[n] < 0)
            continue;
        double lse = log_sum_logits(row, matrix, V, C);
        double logit = (double)ref_dot(row, class_row(matrix, targets[n], C), C);
        loss[n] = (float)(lse - logit);
        if (to)
            class_row_backward(to + (size_t)n * (size_t)C, dw, row, matrix, targets[n],
                               lse, *scale, V, C);
    }
}

void ref_logits(pl_backend *be, float *out, const pl_act *x, const pl_weight *w, int N,
                int V, int C)
{
    const float *matrix = ref_master(w), *row = ref_view(x);
    (void)be;
    for (int n = 0; n < N; n++, row += C, out += V)
        for (int v = 0; v < V; v++)
            out[v] = ref_dot(row, class_row(matrix, v, C), C);
}
