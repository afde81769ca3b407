/* Rotary position embedding (arXiv:2104.09864), rotate-half convention:
 *
 *   a' = a cos - b sin,  b' = b cos + a sin,   a = x[i], b = x[i + D/2],
 *   angle = position * theta^(-2i/D)
 *
 * cos and sin come from a table in the backend, filled in double precision. */
#include "modules/cpu/ops_cpu.h"
#include "modules/cpu/simd.h"

ALWAYS_INLINE void rotate_head(pl_act *x, size_t at, const float *cosine,
                               const float *sine, int half, float sign,
                               const pl_type type)
{
    for (int i = 0; i < half; i += LANES) {
        const int left = v_left(i, half);
        const size_t first = at + (size_t)i, second = first + (size_t)half;
        const vfloat c = v_load_n(cosine + i, left);
        const vfloat s = v_load_n(sine + i, left) * sign;
        const vfloat a = v_load_act(x, first, left, type);
        const vfloat b = v_load_act(x, second, left, type);
        v_store_act(x, first, a * c - b * s, left, type);
        v_store_act(x, second, b * c + a * s, left, type);
    }
}

void OP(rope)(pl_backend *be, pl_act *qkv, int B, int T, int H, int G, int D,
              double theta, int start, int sign)
{
    cpu_state *self = cpu_self(be);
    const int half = D / 2, n_rows = B * T, n_rotated = H + G;
    const size_t stride = (size_t)(H + 2 * G) * (size_t)D;
    if (!cpu_rope_table(self, D, theta, start + T))
        return;
#pragma omp parallel for schedule(static) num_threads(be->n_threads)
    for (int n = 0; n < n_rows; n++) {
        const size_t angle = (size_t)(start + n % T) * (size_t)half;
        const float *cosine = self->rope_cos + angle, *sine = self->rope_sin + angle;
        for (int h = 0; h < n_rotated; h++) {
            const size_t at = (size_t)n * stride + (size_t)h * (size_t)D;
            if (be->act == PL_BF16)
                rotate_head(qkv, at, cosine, sine, half, (float)sign, PL_BF16);
            else
                rotate_head(qkv, at, cosine, sine, half, (float)sign, PL_F32);
        }
    }
}
