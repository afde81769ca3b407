/* The product with the last matrix: with cross-entropy for losses and training, or as
 * logits for sampling.
 *
 *   logit[v] = x.w[v]     loss = logsumexp_v logit - logit[target]
 *   dlogit[v] = scale (exp(logit[v] - lse) - [v = target])
 *
 * The logits of a row are computed twice, so that they need not be kept. */
#include "modules/ref/ref.h"
#include <math.h>

static const float *class_row(const float *w, int v, int C)
{
    return w + (size_t)v * (size_t)C;
}

void ref_classifier(pl_backend *be, float *loss, pl_act *dx, float *dw, const pl_act *x,
                    const pl_weight *w, const int32_t *targets, const float *scale,
                    int N, int V, int C, bool accumulate)
{
    (void)be;
    const float *matrix = ref_master(w), *row = ref_view(x);
    float *to = ref_floats(dx);
    if (to)
        memset(to, 0, (size_t)N * (size_t)C * sizeof *to);
    if (to && !accumulate)
        memset(dw, 0, (size_t)V * (size_t)C * sizeof *dw);
    for (int n = 0; n < N; n++, row += C) {
        loss[n] = 0.0f;
        if (targets[n] < 0)
            continue;
        /* logsumexp in one pass: the sum is relative to the largest logit so far */
        double largest = (double)ref_dot(row, matrix, C), sum = 1.0;
        for (int v = 1; v < V; v++) {
            double logit = (double)ref_dot(row, class_row(matrix, v, C), C);
            if (logit > largest) {
                sum = sum * exp(largest - logit) + 1.0;
                largest = logit;
            } else {
                sum += exp(logit - largest);
            }
        }
        const double lse = largest + log(sum);
        loss[n] =
            (float)(lse - (double)ref_dot(row, class_row(matrix, targets[n], C), C));
        for (int v = 0; to && v < V; v++) {
            const float *weights = class_row(matrix, v, C);
            double p = exp((double)ref_dot(row, weights, C) - lse);
            float dlogit = *scale * (float)(p - (v == targets[n] ? 1.0 : 0.0));
            ref_axpy(to + (size_t)n * (size_t)C, dlogit, weights, C);
            ref_axpy(dw + (size_t)v * (size_t)C, dlogit, row, C);
        }
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
