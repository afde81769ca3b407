/* Rows of several sequences, each with a cache of keys and values.
 *
 * Appending: a thread for each pair of elements that turns and each element of v.
 *
 * Attention: a block for each head of each sequence; its warps take the positions in
 * turn, each keeping the largest score, the sum of exponentials and the weighted
 * values; at the end the first warp merges them, in order.
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

/* Extents of appending, and the table of angles. */
struct append_plan {
    size_t S, H, G, half; /* half: D/2 */
    const float *cosines, *sines;
};

/* A pair of q or k turns; those of k also go to their place in the cache. */
static __device__ void append_pair(act *low, act *cached, size_t half, float c, float s)
{
    const float a = __bfloat162float(low[0]), b = __bfloat162float(low[half]);
    const act x = __float2bfloat16_rn(a * c - b * s);
    const act y = __float2bfloat16_rn(b * c + a * s);
    low[0] = x;
    low[half] = y;
    if (cached != nullptr) {
        cached[0] = x;
        cached[half] = y;
    }
}

/* A thread for pair `at % half` of head `at / half`, of H+2G heads a row. */
static __global__ void __launch_bounds__(ATTENTION_THREADS)
    decode_append_kernel(act *qkv, act *keys, act *values, const int32_t *slot,
                         const int32_t *pos, append_plan p, size_t n_pairs)
{
    const size_t i = (size_t)blockIdx.x * ATTENTION_THREADS + threadIdx.x;
    if (i >= n_pairs)
        return;
    const size_t heads = p.H + 2 * p.G, D = 2 * p.half;
    const size_t n = i / (heads * p.half), at = i % (heads * p.half);
    const size_t head = at / p.half, d = at % p.half, t = (size_t)pos[n];
    const size_t place = ((size_t)slot[n] * p.S + t) * p.G * D + d;
    act *low = qkv + (n * heads + head) * D + d;
    if (head < p.H + p.G) {
        const float c = p.cosines[t * p.half + d], s = p.sines[t * p.half + d];
        append_pair(low, head < p.H ? nullptr : keys + place + (head - p.H) * D, p.half,
                    c, s);
        return;
    }
    act *value = values + place + (head - p.H - p.G) * D;
    value[0] = low[0];
    value[p.half] = low[p.half];
}

void cuda_decode_append(pl_backend *be, pl_act *qkv, pl_act *keys, pl_act *values,
                        const int32_t *slot, const int32_t *pos, int N, int S, int H,
                        int G, int D, double theta)
{
    cuda_state *self = cuda_self(be);
    if (!cuda_rope_table(self, S, D, theta))
        return;
    const size_t half = (size_t)D / 2;
    const append_plan plan = {
        (size_t)S, (size_t)H,  (size_t)G,
        half,      self->rope, self->rope + (size_t)self->rope_positions * half};
    const size_t n = (size_t)N * (size_t)(H + 2 * G) * half;
    PL_LAUNCH(decode_append_kernel, blocks_for(n, ATTENTION_THREADS), ATTENTION_THREADS,
              0, self->stream, cuda_acts(qkv), cuda_acts(keys), cuda_acts(values), slot,
              pos, plan, n);
}

/* grid [H, N] */
static __global__ void __launch_bounds__(ATTENTION_THREADS)
    attention_decode_kernel(act *out, const act *qkv, const act *keys,
                            const act *values, const int32_t *slot, const int32_t *pos,
                            int S, attention_shape s)
{
    __shared__ decode_part parts[ATTENTION_WARPS];
    const int lane = (int)threadIdx.x % WARP_SIZE, warp = (int)threadIdx.x / WARP_SIZE;
    const size_t h = blockIdx.x, b = blockIdx.y, D = (size_t)s.D, row = (size_t)s.G * D;
    const size_t at = (b * (size_t)s.H + h) * D;
    const size_t q = b * ((size_t)s.H * D + 2 * row) + h * D;
    const size_t cache =
        (size_t)slot[b] * (size_t)S * row + h / (size_t)(s.H / s.G) * D;
    float query[SLICES] = {0.0f}, o[SLICES] = {0.0f}, m = -INFINITY, l = 0.0f;
    const int n = pos[b] + 1, n_warps = min(n, (int)ATTENTION_WARPS);
    for (int i = 0, d = lane; d < s.D; i++, d += WARP_SIZE)
        query[i] = __bfloat162float(qkv[q + (size_t)d]);
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

void cuda_attention_decode(pl_backend *be, pl_act *out, const pl_act *qkv,
                           const pl_act *keys, const pl_act *values,
                           const int32_t *slot, const int32_t *pos, int N, int S, int H,
                           int G, int D)
{
    if (!attention_can(be, D))
        return;
    PL_LAUNCH(attention_decode_kernel, dim3((unsigned)H, (unsigned)N),
              ATTENTION_THREADS, 0, cuda_stream(be), cuda_acts(out), cuda_acts(qkv),
              cuda_acts(keys), cuda_acts(values), slot, pos, S,
              attention_describe(S, H, G, D));
}
