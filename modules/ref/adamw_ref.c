/* AdamW (Loshchilov & Hutter, arXiv:1711.05101) and the gradient norm for clipping.
 *
 *   m = b1 m + (1 - b1) g            v = b2 v + (1 - b2) g^2
 *   p -= lr ((m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps) + wd p) */
#include "modules/ref/ref.h"
#include <math.h>

void ref_sum_squares(pl_backend *be, double *out, const float *g, size_t n)
{
    (void)be;
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += (double)g[i] * (double)g[i];
    *out = sum;
}

void ref_adamw(pl_backend *be, float *p, float *m, float *v, float *g, size_t n,
               float grad_scale, const pl_adamw *adam, const pl_weight *w)
{
    (void)be;
    float b1 = adam->beta1, b2 = adam->beta2;
    /* mass = 1 - beta^step: the sum of the weights of all gradients in a moment */
    float mass1 = (float)(1.0 - pow((double)b1, (double)adam->step));
    float mass2 = (float)(1.0 - pow((double)b2, (double)adam->step));
    for (size_t i = 0; i < n; i++) {
        float gradient = g[i] * grad_scale;
        m[i] = b1 * m[i] + (1.0f - b1) * gradient;
        v[i] = b2 * v[i] + (1.0f - b2) * gradient * gradient;
        float step = (m[i] / mass1) / (sqrtf(v[i] / mass2) + adam->eps);
        p[i] -= adam->lr * (step + adam->weight_decay * p[i]);
        if (!w) /* weights have no copies here */
            g[i] = 0.0f;
    }
}
