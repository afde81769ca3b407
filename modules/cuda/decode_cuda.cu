/* Attention of one query row per sequence against a cache of keys and values.
 *
 * A block for each head of each sequence; its warps take the positions in turn, each
 * keeping the largest score, the sum of exponentials and the weighted values; at the
 * end the first warp merges them, in order.
 */
#include "modules/cuda/attention.cuh"
#include "modules/cuda/warp.cuh"
#include <math.h>

enum { SLICES = HEAD_MAX / WARP_SIZE }; /* elements of a head that a lane holds */

struct decode_part {
    float m, l, o[HEAD_MAX];
};

/* Position `key` joins what this warp has seen. */
static __device__ void take_position(float *m, float *l, float o[SLICES],
                                     const float q[SLICES], const act *key,
                                     const act *value, int D, float scale)
{
    const int lane = (int)threadIdx.x % WARP_SIZE;
    float dot = 0.0f;
    for (int i = 0, d = lane; d < D; i++, d += WARP_SIZE)
        dot = fmaf(q[i], __bfloat162float(key[d]), dot);
    const float score = warp_sum(dot) * scale, top = fmaxf(*m, score);
    const float shrink = expf(*m - top), weight = expf(score - top);
    *l = *l * shrink + weight;
    *m = top;
    for (int i = 0, d = lane; d < D; i++, d += WARP_SIZE)
        o[i] = o[i] * shrink + weight * __bfloat162float(value[d]);
}

static __device__ void merge_parts(act *out, const decode_part *parts, int n, int D)
{
    float top = parts[0].m, l = 0.0f;
    for (int w = 1; w < n; w++)
        top = fmaxf(top, parts[w].m);
    for (int w = 0; w < n; w++)
        l += parts[w].l * expf(parts[w].m - top);
    for (int d = (int)threadIdx.x; d < D; d += WARP_SIZE) {
        float sum = 0.0f;
        for (int w = 0; w < n; w++)
            sum += parts[w].o[d] * expf(parts[w].m - top);
        out[d] = __float2bfloat16_rn(sum / l);
    }
}

/* grid [H, B] */
static __global__ void __launch_bounds__(ATTENTION_THREADS)
    attention_decode_kernel(act *out, const act *q, const act *keys, const act *values,
                            const int32_t *pos, int S, attention_shape s)
{
    __shared__ decode_part parts[ATTENTION_WARPS];
    const int lane = (int)threadIdx.x % WARP_SIZE, warp = (int)threadIdx.x / WARP_SIZE;
    const size_t h = blockIdx.x, b = blockIdx.y, D = (size_t)s.D, row = (size_t)s.G * D;
    const size_t at = (b * (size_t)s.H + h) * D;
    const size_t cache = b * (size_t)S * row + h / (size_t)(s.H / s.G) * D;
    float query[SLICES] = {0.0f}, o[SLICES] = {0.0f}, m = -INFINITY, l = 0.0f;
    const int n = pos[b] + 1, n_warps = min(n, (int)ATTENTION_WARPS);
    for (int i = 0, d = lane; d < s.D; i++, d += WARP_SIZE)
        query[i] = __bfloat162float(q[at + (size_t)d]);
    for (int t = warp; t < n; t += ATTENTION_WARPS)
        take_position(&m, &l, o, query, keys + cache + (size_t)t * row,
                      values + cache + (size_t)t * row, s.D, s.scale);
    if (lane == 0) {
        parts[warp].m = m;
        parts[warp].l = l;
    }
    for (int i = 0, d = lane; d < s.D; i++, d += WARP_SIZE)
        parts[warp].o[d] = o[i];
    __syncthreads();
    if (warp == 0)
        merge_parts(out + at, parts, n_warps, s.D);
}

void cuda_attention_decode(pl_backend *be, pl_act *out, const pl_act *q,
                           const pl_act *keys, const pl_act *values, const int32_t *pos,
                           int B, int S, int H, int G, int D)
{
    if (!attention_can(be, D))
        return;
    PL_LAUNCH(attention_decode_kernel, dim3((unsigned)H, (unsigned)B),
              ATTENTION_THREADS, 0, cuda_stream(be), cuda_acts(out), cuda_acts(q),
              cuda_acts(keys), cuda_acts(values), pos, S,
              attention_describe(S, H, G, D));
}
