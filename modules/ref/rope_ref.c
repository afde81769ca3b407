/* Rotary position embedding (Su et al. 2021, arXiv:2104.09864) in Llama's pairing:
 * element i of a head turns with element i + D/2, by the angle
 *
 *   angle = position * theta^(-2 i / D) */
#include "modules/ref/ref.h"
#include <math.h>

void ref_rope(pl_backend *be, pl_act *qkv, const int32_t *texts, int B, int T, int H,
              int G, int D, double theta, int start, int sign)
{
    (void)be;
    size_t stride = (size_t)(H + 2 * G) * (size_t)D;
    for (int i = 0; i < D / 2; i++) {
        double frequency = pow(theta, -2.0 * i / D);
        for (int b = 0; b < B; b++)
            for (int t = 0; t < T; t++) {
                /* q and k are adjacent, so they are treated as H + G heads in a row */
                float *row =
                    ref_floats(qkv) + ((size_t)b * (size_t)T + (size_t)t) * stride;
                float *heads = row;
                int n_heads = H + G;
                int position = start + t - ref_text_begin(texts, b, T, t);
                double angle = sign * position * frequency;
                float c = (float)cos(angle), s = (float)sin(angle);
                for (int h = 0; h < n_heads; h++, heads += D) {
                    float low = heads[i], high = heads[i + D / 2];
                    heads[i] = low * c - high * s;
                    heads[i + D / 2] = high * c + low * s;
                }
            }
    }
}

void ref_decode_append(pl_backend *be, pl_act *qkv, pl_act *keys, pl_act *values,
                       const int32_t *slot, const int32_t *pos, int N, int S, int H,
                       int G, int D, double theta)
{
    size_t kv = (size_t)G * (size_t)D, q = (size_t)H * (size_t)D;
    float *row = ref_floats(qkv);
    for (int n = 0; n < N; n++, row += q + 2 * kv) {
        size_t place = ((size_t)slot[n] * (size_t)S + (size_t)pos[n]) * kv;
        ref_rope(be, (pl_act *)row, NULL, 1, 1, H, G, D, theta, pos[n], 1);
        memcpy(ref_floats(keys) + place, row + q, kv * sizeof *row);
        memcpy(ref_floats(values) + place, row + q + kv, kv * sizeof *row);
    }
}
