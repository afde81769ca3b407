/* SwiGLU (Shazeer 2020, arXiv:2002.05202): out = silu(gate) * up.
 *
 *   silu(g) = g sigma(g)    silu'(g) = sigma(g) (1 + g (1 - sigma(g))) */
#include "modules/ref/ref.h"
#include <math.h>

static float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

void ref_swiglu_forward(pl_backend *be, pl_act *out, const pl_act *gu, int N, int F)
{
    (void)be;
    float *y = ref_floats(out);
    const float *gate = ref_view(gu);
    for (int n = 0; n < N; n++, y += F, gate += 2 * F)
        for (int f = 0; f < F; f++)
            y[f] = gate[f] * sigmoid(gate[f]) * gate[F + f];
}

void ref_swiglu_backward(pl_backend *be, pl_act *dgu, const pl_act *dout,
                         const pl_act *gu, int N, int F)
{
    (void)be;
    float *dgate = ref_floats(dgu);
    const float *gate = ref_view(gu), *dy = ref_view(dout);
    for (int n = 0; n < N; n++, dgate += 2 * F, gate += 2 * F, dy += F)
        for (int f = 0; f < F; f++) {
            float g = gate[f], up = gate[F + f], s = sigmoid(g);
            dgate[f] = dy[f] * up * s * (1.0f + g * (1.0f - s));
            dgate[F + f] = dy[f] * g * s;
        }
}
