/* Rotary position embedding (arXiv:2104.09864), rotate-half convention:
 *
 *   a' = a cos - b sin,  b' = b cos + a sin,   a = x[i], b = x[i + D/2],
 *   angle = position * theta^(-2i/D)
 *
 * cos and sin come from the backend's table (cpu_rope_table), which is computed in
 * double precision. */
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

/* Rotates the q and k heads of one row by the angles of a position. */
static void rotate_row(pl_backend *be, pl_act *qkv, size_t row, int position, int heads,
                       int half, int sign)
{
    const cpu_state *self = cpu_self(be);
    const size_t angle = (size_t)position * (size_t)half;
    const float *cosine = self->rope_cos + angle, *sine = self->rope_sin + angle;
    for (int h = 0; h < heads; h++) {
        const size_t at = row + (size_t)h * 2 * (size_t)half;
        if (be->act == PL_BF16)
            rotate_head(qkv, at, cosine, sine, half, (float)sign, PL_BF16);
        else
            rotate_head(qkv, at, cosine, sine, half, (float)sign, PL_F32);
    }
}

void OP(rope)(pl_backend *be, pl_act *qkv, const int32_t *texts, int B, int T, int H,
              int G, int D, double theta, int start, int sign)
{
    const int n_rows = B * T;
    const size_t stride = (size_t)(H + 2 * G) * (size_t)D;
    if (!cpu_rope_table(cpu_self(be), D, theta, start + T))
        return;
#pragma omp parallel for schedule(static) num_threads(cpu_threads(be->n_threads))
    for (int n = 0; n < n_rows; n++) {
        const int begin = texts != NULL ? texts[n] : 0;
        rotate_row(be, qkv, (size_t)n * stride, start + n % T - begin, H + G, D / 2,
                   sign);
    }
}

void OP(decode_append)(pl_backend *be, pl_act *qkv, pl_act *keys, pl_act *values,
                       const int32_t *slot, const int32_t *pos, int N, int S, int H,
                       int G, int D, double theta)
{
    const pl_type type = be->act;
    const size_t kv = (size_t)G * (size_t)D, q = (size_t)H * (size_t)D;
    if (!cpu_rope_table(cpu_self(be), D, theta, S))
        return;
    for (int n = 0; n < N; n++) {
        const size_t row = (size_t)n * (q + 2 * kv), bytes = kv * pl_type_bytes(type);
        const size_t place = ((size_t)slot[n] * (size_t)S + (size_t)pos[n]) * kv;
        rotate_row(be, qkv, row, pos[n], H + G, D / 2, 1);
        memcpy(act_at(keys, place, type), act_in(qkv, row + q, type), bytes);
        memcpy(act_at(values, place, type), act_in(qkv, row + q + kv, type), bytes);
    }
}
