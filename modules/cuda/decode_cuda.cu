/* Decoding: appends rows of several sequences to the caches of their keys and values,
 * and computes attention to the caches. Appending uses one thread for each pair of
 * elements of q and k, which is rotated, and for each pair of elements of v.
 *
 * Attention: the positions of a sequence are divided into stretches of KEYS positions.
 * A block computes one stretch for all query heads that share a kv head; these heads
 * are the rows of a tile, so that keys and values are read only once. Every warp
 * computes all scores, but only some columns of the weighted values. A second kernel
 * adds up the results of the stretches of each row and head, in order. The grid is
 * always large enough for the longest possible sequence, so that a step can be captured
 * in a graph; blocks after a sequence's end return at once. */
#include "modules/cuda/attention.cuh"
#include "modules/cuda/warp.cuh"
#include <math.h>

/* HEADS: most query heads per block; ROWS_AT_ONCE: most rows per launch, so that the
 * results of their stretches fit into scratch; BATCH: number of stretches whose results
 * a thread loads at once. */
enum {
    KEYS = CUDA_DECODE_KEYS,
    HEADS = 16,
    ROWS_AT_ONCE = CUDA_DECODE_ROWS,
    BATCH = 8
};

/* The dimensions that appending needs, and the table of angles. */
struct append_plan {
    size_t S, H, G, half; /* half: D/2 */
    const float *cosines, *sines;
};

/* Rotates a pair of q or k. A pair of k is also written to its place in the cache. */
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

/* Each thread handles one pair of elements, d and d + half, of one of the H+2G heads of
 * a row. */
static __global__ void __launch_bounds__(ATTENTION_THREADS)
    decode_append_kernel(act *qkv, act *keys, act *values, const int32_t *slot,
                         const int32_t *pos, append_plan p, size_t n_pairs)
{
    const size_t i = (size_t)blockIdx.x * ATTENTION_THREADS + threadIdx.x;
    wait_for_earlier();
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
    PL_LAUNCH_EARLY(self, decode_append_kernel, blocks_for(n, ATTENTION_THREADS),
                    ATTENTION_THREADS, 0, cuda_acts(qkv), cuda_acts(keys),
                    cuda_acts(values), slot, pos, plan, n);
}

/* ---- attention ---- */

/* The results of stretches: the largest score, the sum of exp(score - largest), and the
 * weighted values. The results of stretch i of row n and head h are at index (n H + h)
 * n_stretches + i. */
struct decode_parts {
    float *largest, *sum, *values; /* `values` has D floats per stretch */
    int n_stretches;
};

/* The rows of a step, and the places of their sequences in the caches. */
struct decode_rows {
    const act *qkv, *keys, *values;
    const int32_t *slot, *pos;
    size_t S;
};

/* Replaces scores [HEADS, KEYS] by exp(score - largest), and by 0 from key n on. Each
 * lane gets the largest score and the sum for each of its two rows. `unit` is scale *
 * log2 e. */
static __device__ void weigh_scores(float s[KEYS / 8][4], float largest[2],
                                    float sum[2], int n, float unit)
{
    const int p = (int)threadIdx.x % WARP_SIZE % 4;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float top = -INFINITY, all = 0.0f;
#pragma unroll
        for (int k = 0; k < KEYS / 8; k++)
#pragma unroll
            for (int i = 2 * half; i < 2 * half + 2; i++) {
                if (k * 8 + 2 * p + i % 2 >= n)
                    s[k][i] = -INFINITY;
                top = fmaxf(top, s[k][i]);
            }
        top = row_max(top);
#pragma unroll
        for (int k = 0; k < KEYS / 8; k++)
#pragma unroll
            for (int i = 2 * half; i < 2 * half + 2; i++) {
                s[k][i] = exp2_fast((s[k][i] - top) * unit);
                all += s[k][i];
            }
        largest[half] = top;
        sum[half] = row_sum(all);
    }
}

/* Multiplies weights [HEADS, KEYS] by columns first .. first+15 of a tile of values.
 * For each h below `heads`, stores these columns of row h of the result at index `at` +
 * h * n_stretches of parts.values. */
template <int HD>
static __device__ void weigh_columns(decode_parts parts, size_t at,
                                     const float w[KEYS / 8][4], const act *tile,
                                     int first, int heads, int D)
{
    const int lane = (int)threadIdx.x % WARP_SIZE, g = lane / 4, p = lane % 4;
    float o[2][4];
    clear_rows<2>(o);
#pragma unroll
    for (int k = 0; k < KEYS / 8; k += 2) {
        unsigned left[4], right[4];
        pack_a(left, w[k], w[k + 1]);
        load_b_transposed(right, tile, warp_tiles<HD>::STRIDE, k * 8, first);
        mma_16x8x16(o[0], left, right);
        mma_16x8x16(o[1], left, right + 2);
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int head = g + i / 2 % 2 * 8, d = first + i / 4 * 8 + 2 * p + i % 2;
        const size_t part = at + (size_t)head * (size_t)parts.n_stretches;
        if (head < heads && d < D)
            parts.values[part * (size_t)D + (size_t)d] = o[i / 4][i % 4];
    }
}

/* Computes the results of the stretches. The grid is [stretches, kv heads times tiles
 * of HEADS query heads, rows]. */
template <int HD>
static __global__ void __launch_bounds__(ATTENTION_THREADS)
    decode_stretch_kernel(decode_parts parts, decode_rows rows, attention_shape s)
{
    const int n_tiles = (s.H / s.G + HEADS - 1) / HEADS;
    const int kv = (int)blockIdx.y / n_tiles, tile = (int)blockIdx.y % n_tiles;
    const int heads = min(s.H / s.G - tile * HEADS, (int)HEADS);
    const int h = kv * (s.H / s.G) + tile * HEADS, first = (int)blockIdx.x * KEYS;
    const size_t n = blockIdx.z, D = (size_t)s.D, width = (size_t)s.G * D;
    wait_for_earlier();
    const int end = rows.pos[n] + 1, warp = (int)threadIdx.x / WARP_SIZE;
    if (first >= end)
        return; /* all threads of the block return */
    act *queries = static_cast<act *>(dynamic_shared());
    act *keys = queries + HEADS * warp_tiles<HD>::STRIDE;
    act *values = keys + KEYS * warp_tiles<HD>::STRIDE;
    const size_t cache = (size_t)rows.slot[n] * rows.S * width + (size_t)kv * D;
    load_tile<warp_tiles<HD>, HEADS>(queries, rows.qkv + n * s.stride + (size_t)h * D,
                                     D, 0, heads, s.D);
    load_tile<warp_tiles<HD>, KEYS>(keys, rows.keys + cache, width, first, end, s.D);
    load_tile<warp_tiles<HD>, KEYS>(values, rows.values + cache, width, first, end,
                                    s.D);
    copy_commit();
    copy_wait<0>();
    __syncthreads();
    float scores[KEYS / 8][4], largest[2], sum[2];
    warp_tiles<HD>::template multiply_rows<KEYS / 8>(scores, queries, 0, keys);
    weigh_scores(scores, largest, sum, end - first, s.scale * log2_e);
    const size_t at =
        (n * (size_t)s.H + (size_t)h) * (size_t)parts.n_stretches + (size_t)blockIdx.x;
    for (int column = warp * 16; column < s.D; column += ATTENTION_WARPS * 16)
        weigh_columns<HD>(parts, at, scores, values, column, heads, s.D);
    for (int half = 0; half < 2; half++) {
        const int head = (int)threadIdx.x / 4 + half * 8;
        const size_t part = at + (size_t)head * (size_t)parts.n_stretches;
        if (threadIdx.x % 4 == 0 && threadIdx.x < WARP_SIZE && head < heads) {
            parts.largest[part] = largest[half];
            parts.sum[part] = sum[half];
        }
    }
}

/* Loads the first n of BATCH numbers, which lie `stride` floats apart from `from` on;
 * the others become `end`. */
static __device__ void load_batch(float out[BATCH], const float *from, size_t stride,
                                  int n, float end)
{
#pragma unroll
    for (int i = 0; i < BATCH; i++)
        out[i] = i < n ? from[(size_t)i * stride] : end;
}

/* Adds up the results of the stretches. The grid is [H, rows], with one thread per
 * element of a head. A thread loads the results of BATCH stretches at once. */
static __global__ void __launch_bounds__(HEAD_MAX)
    decode_merge_kernel(act *out, decode_parts parts, const int32_t *pos, int H, int D,
                        float unit)
{
    const size_t row = (size_t)blockIdx.y * (size_t)H + blockIdx.x;
    const size_t width = (size_t)D, d = min((size_t)threadIdx.x, width - 1);
    wait_for_earlier();
    const int n = pos[blockIdx.y] / KEYS + 1;
    float largest[BATCH], sums[BATCH], values[BATCH];
    float top = -INFINITY, sum = 0.0f, value = 0.0f;
    for (int i = 0; i < n; i += BATCH) {
        const size_t at = row * (size_t)parts.n_stretches + (size_t)i;
        load_batch(largest, parts.largest + at, 1, n - i, -INFINITY);
        for (int k = 0; k < BATCH; k++)
            top = fmaxf(top, largest[k]);
    }
    for (int i = 0; i < n; i += BATCH) {
        const size_t at = row * (size_t)parts.n_stretches + (size_t)i;
        load_batch(largest, parts.largest + at, 1, n - i, -INFINITY);
        load_batch(sums, parts.sum + at, 1, n - i, 0.0f);
        load_batch(values, parts.values + at * width + d, width, n - i, 0.0f);
        __syncwarp(); /* keeps the compiler from moving the loads to their uses */
        for (int k = 0; k < BATCH; k++) {
            const float weight = exp2_fast((largest[k] - top) * unit);
            sum = fmaf(sums[k], weight, sum);
            value = fmaf(values[k], weight, value);
        }
    }
    if (threadIdx.x < (unsigned)D)
        out[row * width + d] = __float2bfloat16_rn(value / sum);
}

/* Decodes at most ROWS_AT_ONCE rows. */
template <int HD>
static void decode(pl_backend *be, act *out, decode_parts parts, decode_rows rows,
                   int n, attention_shape s)
{
    const size_t shared = (size_t)warp_tiles<HD>::acts(HEADS + 2 * KEYS) * sizeof(act);
    const unsigned tiles = blocks_for((size_t)(s.H / s.G), HEADS);
    if (!attention_allow_shared(be, decode_stretch_kernel<HD>, shared))
        return;
    PL_LAUNCH_EARLY(
        cuda_self(be), (decode_stretch_kernel<HD>),
        dim3((unsigned)parts.n_stretches, (unsigned)s.G * tiles, (unsigned)n),
        ATTENTION_THREADS, shared, parts, rows, s);
    PL_LAUNCH_EARLY(cuda_self(be), decode_merge_kernel,
                    dim3((unsigned)s.H, (unsigned)n), HEAD_MAX, 0, out, parts, rows.pos,
                    s.H, s.D, s.scale * log2_e);
}

void cuda_attention_decode(pl_backend *be, pl_act *out, const pl_act *qkv,
                           const pl_act *keys, const pl_act *values,
                           const int32_t *slot, const int32_t *pos, int N, int S, int H,
                           int G, int D)
{
    const attention_shape s = attention_describe(NULL, S, H, G, D);
    const size_t width = (size_t)H * (size_t)D;
    if (!attention_can(be, 1, D))
        return;
    /* The parts of up to ROWS_AT_ONCE rows lie in scratch. */
    decode_parts parts;
    parts.n_stretches = (int)blocks_for((size_t)S, KEYS);
    const size_t n_parts = cuda_decode_parts((size_t)N, (size_t)H, (size_t)S);
    const size_t line = cuda_lines(n_parts * sizeof(float));
    uint8_t *scratch = static_cast<uint8_t *>(
        cuda_scratch(cuda_self(be), cuda_decode_bytes(n_parts, (size_t)D)));
    if (!scratch)
        return;
    parts.largest = reinterpret_cast<float *>(scratch);
    parts.sum = reinterpret_cast<float *>(scratch + line);
    parts.values = reinterpret_cast<float *>(scratch + 2 * line);
    for (int n = 0; n < N; n += ROWS_AT_ONCE) {
        const size_t at = (size_t)n;
        const decode_rows rows = {cuda_acts(qkv) + at * s.stride,
                                  cuda_acts(keys),
                                  cuda_acts(values),
                                  slot + n,
                                  pos + n,
                                  (size_t)S};
        attention_choose_warps(D, [&](auto tiles) {
            decode<decltype(tiles)::HD>(be, cuda_acts(out) + at * width, parts, rows,
                                        min(N - n, (int)ROWS_AT_ONCE), s);
        });
    }
}
