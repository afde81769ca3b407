/* Rotary position embedding (Su et al. 2021, arXiv:2104.09864) in Llama's pairing:
 * element i of a head turns with element i + D/2, by the angle
 *
 *   angle = position * theta^(-2 i / D)
 */
#include "modules/ref/ref.h"
#include <math.h>

static void turn_heads(float *heads, int n_heads, int D, int i, double angle)
{
    float c = (float)cos(angle), s = (float)sin(angle);
    for (int h = 0; h < n_heads; h++, heads += D) {
        float low = heads[i], high = heads[i + D / 2];
        heads[i] = low * c - high * s;
        heads[i + D / 2] = high * c + low * s;
    }
}

void ref_rope(pl_backend *be, pl_act *qkv, int B, int T, int H, int G, int D,
              double theta, int start, int sign)
{
    (void)be;
    size_t stride = (size_t)(H + 2 * G) * (size_t)D;
    for (int i = 0; i < D / 2; i++) {
        double frequency = pow(theta, -2.0 * i / D);
        for (int b = 0; b < B; b++)
            for (int t = 0; t < T; t++) {
                /* q and k lie side by side: one run of H + G heads */
                float *row =
                    ref_floats(qkv) + ((size_t)b * (size_t)T + (size_t)t) * stride;
                turn_heads(row, H + G, D, i, sign * (start + t) * frequency);
            }
    }
}
