/* Causal attention, backward. Scores are recomputed from q and k, and p from lse:
 *
 *   p = exp(score - lse)       dp = dout v^T       ds = p (dp - delta) / sqrt(D)
 *   dv = p^T dout              dk = ds^T q         dq = ds k
 *
 * with delta[t] = dout[t].out[t]. There are two kernels, so that each sum is computed
 * by one block in one order. A block of the first kernel has 64 keys of one kv head. It
 * goes through all queries that see these keys, in all query heads that read this kv
 * head. A block of the second kernel has 64 queries and goes through their keys. Both
 * kernels compute the scores. So there are seven products, while a single kernel with
 * atomic additions would need five; but the result has the same bytes every time. */
#include "modules/cuda/attention.cuh"
#include "modules/cuda/warp.cuh"

/* STEP: number of queries (or keys) that are processed at a time. Meanwhile the next
 * ones are copied into the other one of the HALVES of a buffer. */
enum { STEP = 32, HALVES = 2 };

static const float log2_e = 1.4426950408889634f;

struct backward_inputs {
    const act *dout, *qkv;
    const float *lse, *delta; /* [B,H,T] */
};

/* ---- delta ---- */

/* Computes delta; there is one warp for each row and head. */
static __global__ void __launch_bounds__(ATTENTION_THREADS)
    attention_delta_kernel(float *delta, const act *dout, const act *out, size_t n_rows,
                           attention_shape s)
{
    const int lane = (int)threadIdx.x % WARP_SIZE;
    const size_t i = (size_t)blockIdx.x * ATTENTION_WARPS + threadIdx.x / WARP_SIZE;
    if (i >= n_rows * (size_t)s.H)
        return; /* all lanes of the warp return */
    const size_t n = i / (size_t)s.H, h = i % (size_t)s.H, T = (size_t)s.T;
    float sum = 0.0f;
    for (int d = lane; d < s.D; d += WARP_SIZE) {
        const size_t at = i * (size_t)s.D + (size_t)d;
        sum = fmaf(__bfloat162float(dout[at]), __bfloat162float(out[at]), sum);
    }
    sum = warp_sum(sum);
    if (lane == 0)
        delta[(n / T * (size_t)s.H + h) * T + n % T] = sum;
}

/* ---- keys and values ---- */

/* For STEP queries: lse, delta, and where the query's text begins. Queries after T have
 * values that give p = 0. */
struct query_numbers {
    float lse[STEP], delta[STEP];
    int begin[STEP];
};

/* Loads the numbers of queries from lse and delta of one head of sequence b. */
static __device__ void load_numbers(query_numbers *to, const float *lse,
                                    const float *delta, int first, int b,
                                    const attention_shape &s)
{
    const int i = (int)threadIdx.x;
    if (i >= STEP)
        return;
    to->lse[i] = first + i < s.T ? lse[first + i] * log2_e : 0.0f;
    to->delta[i] = first + i < s.T ? delta[first + i] : 0.0f;
    to->begin[i] = text_begin(s, b, first + i);
}

/* Returns the end of the queries that see any of the keys first .. first +
 * ATTENTION_ROWS - 1. A text that begins after these keys sees none of them. */
static __device__ int last_query(const attention_shape &s, int b, int first)
{
    const int last_key = min(first + (int)ATTENTION_ROWS, s.T) - 1;
    int end = first;
    while (end < s.T && text_begin(s, b, end) <= last_key)
        end += STEP;
    return min(end, s.T);
}

/* Replaces transposed scores [16 keys, STEP queries] by p, and dp by ds. */
static __device__ void weigh_keys(float s[STEP / 8][4], float dp[STEP / 8][4],
                                  const query_numbers *of, attention_shape shape,
                                  int first_key, int first_query)
{
    const int lane = (int)threadIdx.x % WARP_SIZE, g = lane / 4, p = lane % 4;
    const float unit = shape.scale * log2_e;
#pragma unroll
    for (int n = 0; n < STEP / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int column = n * 8 + 2 * p + i % 2, query = first_query + column;
            const int key = first_key + g + i / 2 * 8;
            const bool seen =
                key <= query && key >= of->begin[column] && query < shape.T;
            const float weight =
                seen ? exp2_fast(fmaf(s[n][i], unit, -of->lse[column])) : 0.0f;
            s[n][i] = weight;
            dp[n][i] = weight * (dp[n][i] - of->delta[column]) * shape.scale;
        }
}

/* Starts the copy of STEP rows of two tensors into the halves of `to`, as one group. */
template <int HD>
static __device__ void ask_rows(act *to, const act *a, size_t a_stride, const act *b,
                                size_t b_stride, int first, attention_shape s)
{
    load_tile<HD, STEP>(to, a, a_stride, first, s.T, s.D);
    load_tile<HD, STEP>(to + STEP * tile_of<HD>::STRIDE, b, b_stride, first, s.T, s.D);
    copy_commit();
}

template <int HD>
static __global__ void __launch_bounds__(ATTENTION_THREADS)
    attention_keys_kernel(act *dqkv, backward_inputs in, attention_shape s)
{
    constexpr int STRIDE = tile_of<HD>::STRIDE, TILE = STEP * STRIDE;
    __shared__ query_numbers numbers[HALVES];
    const int first = (int)blockIdx.x * ATTENTION_ROWS, kv = (int)blockIdx.y;
    const int b = (int)blockIdx.z, warp = (int)threadIdx.x / WARP_SIZE;
    const int my_key = first + warp * 16, group = s.H / s.G;
    const int end = last_query(s, b, first);
    const size_t D = (size_t)s.D, T = (size_t)s.T, width = (size_t)s.H * D;
    const act *rows = in.qkv + (size_t)b * T * s.stride;
    act *keys = static_cast<act *>(dynamic_shared());
    act *values = keys + ATTENTION_ROWS * STRIDE;
    act *stages = values + ATTENTION_ROWS * STRIDE;
    float dk[HD / 8][4], dv[HD / 8][4];
    clear_rows<HD / 8>(dk);
    clear_rows<HD / 8>(dv);
    load_tile<HD, ATTENTION_ROWS>(keys, rows + (size_t)(s.H + kv) * D, s.stride, first,
                                  s.T, s.D);
    load_tile<HD, ATTENTION_ROWS>(values, rows + (size_t)(s.H + s.G + kv) * D, s.stride,
                                  first, s.T, s.D);
    for (int h = kv * group; h < (kv + 1) * group; h++) {
        const size_t row = ((size_t)b * (size_t)s.H + (size_t)h) * T;
        const act *dout = in.dout + (size_t)b * T * width + (size_t)h * D;
        const act *q = rows + (size_t)h * D;
        ask_rows<HD>(stages, q, s.stride, dout, width, first, s);
        load_numbers(&numbers[0], in.lse + row, in.delta + row, first, b, s);
        for (int query = first, half = 0; query < end; query += STEP, half ^= 1) {
            const act *queries = stages + half * 2 * TILE, *douts = queries + TILE;
            const int next = query + STEP;
            if (next < end) {
                ask_rows<HD>(stages + (half ^ 1) * 2 * TILE, q, s.stride, dout, width,
                             next, s);
                load_numbers(&numbers[half ^ 1], in.lse + row, in.delta + row, next, b,
                             s);
            } else {
                /* commits an empty group, because copy_wait leaves one under way */
                copy_commit();
            }
            copy_wait<1>();
            __syncthreads();
            float p[STEP / 8][4], ds[STEP / 8][4];
            clear_rows<STEP / 8>(p);
            clear_rows<STEP / 8>(ds);
            multiply_rows<HD, STEP / 8>(p, keys, warp * 16, queries);
            multiply_rows<HD, STEP / 8>(ds, values, warp * 16, douts);
            weigh_keys(p, ds, &numbers[half], s, my_key, query);
            multiply_weights<HD, STEP / 8>(dv, p, douts);
            multiply_weights<HD, STEP / 8>(dk, ds, queries);
            __syncthreads();
        }
    }
    copy_wait<0>();
    const float one[2] = {1.0f, 1.0f};
    act *to = dqkv + (size_t)b * T * s.stride;
    store_rows<HD>(to + (size_t)(s.H + kv) * D, s.stride, dk, one, my_key, s.T, s.D);
    store_rows<HD>(to + (size_t)(s.H + s.G + kv) * D, s.stride, dv, one, my_key, s.T,
                   s.D);
}

/* ---- queries ---- */

/* Computes ds from scores [16 queries, STEP keys] and dp, and stores it in dp. */
static __device__ void weigh_queries(float s[STEP / 8][4], float dp[STEP / 8][4],
                                     const float lse[2], const float delta[2],
                                     const int begin[2], attention_shape shape,
                                     int first_query, int first_key)
{
    const int lane = (int)threadIdx.x % WARP_SIZE, g = lane / 4, p = lane % 4;
    const float unit = shape.scale * log2_e;
#pragma unroll
    for (int n = 0; n < STEP / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int key = first_key + n * 8 + 2 * p + i % 2;
            const bool seen = key <= first_query + g + i / 2 * 8 && key >= begin[i / 2];
            const float weight =
                seen ? exp2_fast(fmaf(s[n][i], unit, -lse[i / 2])) : 0.0f;
            dp[n][i] = weight * (dp[n][i] - delta[i / 2]) * shape.scale;
        }
}

template <int HD>
static __global__ void __launch_bounds__(ATTENTION_THREADS)
    attention_queries_kernel(act *dqkv, backward_inputs in, attention_shape s)
{
    constexpr int STRIDE = tile_of<HD>::STRIDE, TILE = STEP * STRIDE;
    const int first = (int)(gridDim.x - 1 - blockIdx.x) * ATTENTION_ROWS;
    const int h = (int)blockIdx.y, b = (int)blockIdx.z, kv = h / (s.H / s.G);
    const int warp = (int)threadIdx.x / WARP_SIZE, lane = (int)threadIdx.x % WARP_SIZE;
    const int my_row = first + warp * 16, end = min(first + ATTENTION_ROWS, s.T);
    const size_t D = (size_t)s.D, T = (size_t)s.T, width = (size_t)s.H * D;
    const act *rows = in.qkv + (size_t)b * T * s.stride;
    const size_t row = ((size_t)b * (size_t)s.H + (size_t)h) * T;
    act *queries = static_cast<act *>(dynamic_shared());
    act *douts = queries + ATTENTION_ROWS * STRIDE;
    act *stages = douts + ATTENTION_ROWS * STRIDE;
    const act *k = rows + (size_t)(s.H + kv) * D, *v = k + (size_t)s.G * D;
    const int start = text_begin(s, b, first) / STEP * STEP;
    float dq[HD / 8][4], lse[2], delta[2];
    int begin[2];
    clear_rows<HD / 8>(dq);
    load_tile<HD, ATTENTION_ROWS>(queries, rows + (size_t)h * D, s.stride, first, s.T,
                                  s.D);
    load_tile<HD, ATTENTION_ROWS>(
        douts, in.dout + (size_t)b * T * width + (size_t)h * D, width, first, s.T, s.D);
    for (int half = 0; half < 2; half++) {
        const int t = my_row + lane / 4 + half * 8;
        lse[half] = t < s.T ? in.lse[row + (size_t)t] * log2_e : 0.0f;
        delta[half] = t < s.T ? in.delta[row + (size_t)t] : 0.0f;
        begin[half] = text_begin(s, b, t);
    }
    ask_rows<HD>(stages, k, s.stride, v, s.stride, start, s);
    for (int key = start, half = 0; key < end; key += STEP, half ^= 1) {
        const act *keys = stages + half * 2 * TILE, *values = keys + TILE;
        if (key + STEP < end)
            ask_rows<HD>(stages + (half ^ 1) * 2 * TILE, k, s.stride, v, s.stride,
                         key + STEP, s);
        else
            /* commits an empty group, because copy_wait leaves one under way */
            copy_commit();
        copy_wait<1>();
        __syncthreads();
        float p[STEP / 8][4], ds[STEP / 8][4];
        clear_rows<STEP / 8>(p);
        clear_rows<STEP / 8>(ds);
        multiply_rows<HD, STEP / 8>(p, queries, warp * 16, keys);
        multiply_rows<HD, STEP / 8>(ds, douts, warp * 16, values);
        weigh_queries(p, ds, lse, delta, begin, s, my_row, key);
        multiply_weights<HD, STEP / 8>(dq, ds, keys);
        __syncthreads();
    }
    copy_wait<0>();
    const float one[2] = {1.0f, 1.0f};
    store_rows<HD>(dqkv + (size_t)b * T * s.stride + (size_t)h * D, s.stride, dq, one,
                   my_row, s.T, s.D);
}

/* ---- both ---- */

template <int HD>
static void backward(pl_backend *be, act *dqkv, const backward_inputs *in, int B,
                     attention_shape s)
{
    const size_t shared = tile_of<HD>::bytes(2 * ATTENTION_ROWS + 2 * HALVES * STEP);
    const unsigned tiles = blocks_for((size_t)s.T, ATTENTION_ROWS);
    if (!attention_allow_shared(be, attention_keys_kernel<HD>, shared) ||
        !attention_allow_shared(be, attention_queries_kernel<HD>, shared))
        return;
    PL_LAUNCH((attention_keys_kernel<HD>), dim3(tiles, (unsigned)s.G, (unsigned)B),
              ATTENTION_THREADS, shared, cuda_stream(be), dqkv, *in, s);
    PL_LAUNCH((attention_queries_kernel<HD>), dim3(tiles, (unsigned)s.H, (unsigned)B),
              ATTENTION_THREADS, shared, cuda_stream(be), dqkv, *in, s);
}

void cuda_attention_backward(pl_backend *be, pl_act *dqkv, const pl_act *dout,
                             const pl_act *qkv, const pl_act *out, const float *lse,
                             const int32_t *texts, int B, int T, int H, int G, int D)
{
    const attention_shape s = attention_describe(texts, T, H, G, D);
    const size_t n_rows = (size_t)B * (size_t)T, n = n_rows * (size_t)H;
    if (!attention_can(be, D))
        return;
    float *delta = static_cast<float *>(cuda_scratch(cuda_self(be), n * sizeof(float)));
    if (!delta)
        return;
    PL_LAUNCH(attention_delta_kernel, blocks_for(n, ATTENTION_WARPS), ATTENTION_THREADS,
              0, cuda_stream(be), delta, cuda_acts(dout), cuda_acts(out), n_rows, s);
    const backward_inputs in = {cuda_acts(dout), cuda_acts(qkv), lse, delta};
    if (D <= 32)
        backward<32>(be, cuda_acts(dqkv), &in, B, s);
    else if (D <= 64)
        backward<64>(be, cuda_acts(dqkv), &in, B, s);
    else if (D <= 96)
        backward<96>(be, cuda_acts(dqkv), &in, B, s);
    else
        backward<128>(be, cuda_acts(dqkv), &in, B, s);
}
