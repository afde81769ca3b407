/* Causal attention, backward. Scores are recomputed from q and k, and p from lse:
 *
 *   p = exp(score - lse)       dp = dout v^T       ds = p (dp - delta) / sqrt(D)
 *   dv = p^T dout              dk = ds^T q         dq = ds k
 *
 * with delta[t] = dout[t].out[t]. Then dq and dk go back through rope.
 *
 * The keys of a kv head are dealt to `ranges` blocks, ROWS at a time in turn. For its
 * keys, a block goes through all queries that see them, in all query heads that read
 * this kv head, STEP at a time. dk and dv stay in registers. ds goes through shared
 * memory, so that dq can be summed over all ROWS keys; the sums of dq lie in memory,
 * one set for each range. There the same thread adds to the same elements every time,
 * and a last kernel adds the ranges up in order. So the result always has the same
 * bytes, without atomic additions. */
#include "modules/cuda/attention.cuh"
#include "modules/cuda/plan_cuda.h"
#include "modules/cuda/warp.cuh"

/* The tiles of queries: one is copied while the other is multiplied. */
enum { QUERY_STAGES = 2 };

struct backward_inputs {
    const act *dout, *qkv;
    const float *lse, *delta;     /* [B,H,T] */
    const float *cosines, *sines; /* [T,D/2] */
    float4 *sums;                 /* dq of each range, as fragments: place_sums */
    int ranges, steps;            /* ranges of keys, steps of queries */
};

/* ---- delta ---- */

/* Returns the sum of the products of W elements of dout and out. */
template <int W> static __device__ float delta_of(const act *dout, const act *out)
{
    float a[W], b[W], sum = 0.0f;
    load_acts<W>(a, dout);
    load_acts<W>(b, out);
    for (int i = 0; i < W; i++)
        sum = fmaf(a[i], b[i], sum);
    return sum;
}

/* Computes delta. Each row and head has `lanes` lanes of a warp, a power of two, and a
 * lane reads W elements at a time. */
template <int W>
static __global__ void __launch_bounds__(ATTENTION_THREADS)
    attention_delta_kernel(float *delta, const act *dout, const act *out, size_t n,
                           int lanes, attention_shape s)
{
    const size_t thread = (size_t)blockIdx.x * ATTENTION_THREADS + threadIdx.x;
    const size_t i = thread / (size_t)lanes, at = i < n ? i * (size_t)s.D : 0;
    const int lane = (int)(thread % (size_t)lanes);
    float sum = 0.0f;
    for (int d = lane * W; d < s.D; d += lanes * W)
        sum += delta_of<W>(dout + at + d, out + at + d);
    for (int other = lanes / 2; other > 0; other /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, other);
    const size_t row = i / (size_t)s.H, h = i % (size_t)s.H, T = (size_t)s.T;
    if (lane == 0 && i < n)
        delta[(row / T * (size_t)s.H + h) * T + row % T] = sum;
}

template <int W>
static void compute_delta(pl_backend *be, float *delta, const act *dout, const act *out,
                          size_t n, const attention_shape &s)
{
    int lanes = 1;
    while (lanes < WARP_SIZE && lanes * W < s.D)
        lanes *= 2;
    PL_LAUNCH((attention_delta_kernel<W>),
              blocks_for(n * (size_t)lanes, ATTENTION_THREADS), ATTENTION_THREADS, 0,
              cuda_stream(be), delta, dout, out, n, lanes, s);
}

/* ---- keys and values ---- */

/* For STEP queries: lse, delta, and where the query's text begins, which never
 * decreases. Queries from T on have values that give p = 0. */
template <int STEP> struct query_numbers {
    alignas(8) float lse[STEP]; /* read in pairs, like delta, as float2 */
    alignas(8) float delta[STEP];
    int begin[STEP];
};

/* Loads the numbers of queries from lse and delta of one head of sequence b. */
template <int STEP>
static __device__ void load_numbers(query_numbers<STEP> *to, const float *lse,
                                    const float *delta, int first, int b,
                                    const attention_shape &s)
{
    const int i = (int)threadIdx.x;
    if (i >= STEP)
        return;
    to->lse[i] = first + i < s.T ? lse[first + i] * log2_e : INFINITY;
    to->delta[i] = first + i < s.T ? delta[first + i] : 0.0f;
    to->begin[i] = text_begin(s, b, min(first + i, s.T - 1));
}

/* Returns the end of the queries that see any of n keys from `first` on. A text that
 * begins after these keys sees none of them. */
static __device__ int last_query(const attention_shape &s, int b, int first, int n)
{
    const int last_key = min(first + n, s.T) - 1;
    int low = last_key + 1, high = s.T;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (text_begin(s, b, middle) <= last_key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Replaces transposed scores [16 keys, STEP queries] by p, and dp by ds without its
 * factor 1/sqrt(D). With SOME, a key may come after a query or before its text. */
template <bool SOME, int STEP>
static __device__ void weigh_keys(float (&s)[STEP / 8][4], float (&dp)[STEP / 8][4],
                                  const query_numbers<STEP> *of, float unit,
                                  int first_key, int first_query)
{
    const int lane = in_loop((int)threadIdx.x) % WARP_SIZE, g = lane / 4, p = lane % 4;
#pragma unroll
    for (int n = 0; n < STEP / 8; n++) {
        const int column = n * 8 + 2 * p;
        const float2 lse = *reinterpret_cast<const float2 *>(of->lse + column);
        const float2 delta = *reinterpret_cast<const float2 *>(of->delta + column);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int query = first_query + column + i % 2;
            const int key = first_key + g + i / 2 * 8;
            const bool seen =
                !SOME || (key <= query && key >= of->begin[column + i % 2]);
            const float power = fmaf(s[n][i], unit, i % 2 ? -lse.y : -lse.x);
            const float weight = exp2_fast(seen ? power : -INFINITY);
            s[n][i] = weight;
            dp[n][i] = weight * (dp[n][i] - (i % 2 ? delta.y : delta.x));
        }
    }
}

/* Starts the copy of STEP rows of two tensors into the halves of `to`, as one group. */
template <class P>
static __device__ void ask_rows(act *to, const act *a, size_t a_stride, const act *b,
                                size_t b_stride, int first, const attention_shape &s)
{
    load_tile<P, P::STEP>(to, a, a_stride, first, s.T, s.D);
    load_tile<P, P::STEP>(to + P::acts(P::STEP), b, b_stride, first, s.T, s.D);
    copy_commit();
}

/* The tiles of a block: its own rows of two tensors, the stages, and ds. */
template <class P> struct backward_tiles {
    act *a, *b, *stages, *slopes;
    __device__ backward_tiles()
        : a(static_cast<act *>(dynamic_shared())), b(a + P::acts(P::ROWS)),
          stages(b + P::acts(P::ROWS)), slopes(stage(QUERY_STAGES))
    {
    }
    __device__ act *stage(int i) const
    {
        return stages + i * 2 * P::acts(P::STEP);
    }
    static constexpr size_t bytes()
    {
        return (size_t)(P::acts(2 * P::ROWS + QUERY_STAGES * 2 * P::STEP) + P::SLOPES) *
               sizeof(act);
    }
};

/* Rotates a pair of elements back by an angle, an index into rope's tables. */
static __device__ void turn_back(float &low, float &high, const backward_inputs &in,
                                 int angle)
{
    const float cosine = in.cosines[angle], sine = in.sines[angle], x = low;
    low = x * cosine + high * sine;
    high = high * cosine - x * sine;
}

/* Rotates this warp's rows back by the angles of their positions if D fills the tile:
 * then both elements of each pair are in one lane. The launcher rotates other heads. */
template <int N>
static __device__ void rotate_back(float (&c)[N][4], const backward_inputs &in,
                                   const attention_shape &s, int b, int first)
{
    const int lane = (int)threadIdx.x % WARP_SIZE, g = lane / 4, p = lane % 4;
    if (s.D != N * 8)
        return;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int t = min(first + g + half * 8, s.T - 1);
        const int angle = (t - text_begin(s, b, t)) * N * 4 + 2 * p;
#pragma unroll
        for (int n = 0; n < N / 2; n++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                turn_back(c[n][2 * half + i], c[n + N / 2][2 * half + i], in,
                          angle + n * 8 + i);
    }
}

/* A step of sum_keys: a query head, the first of its STEP queries, and the stage that
 * has their tiles. */
struct query_step {
    int head, query, stage;
};

/* Returns where this thread's fragments of dq of a step begin, for one range of keys.
 * They lie P::THREADS apart. */
template <class P>
static __device__ float4 *place_sums(const backward_inputs &in,
                                     const attention_shape &s, int range, int head,
                                     int query)
{
    const size_t row = ((size_t)range * gridDim.z + blockIdx.z) * (size_t)s.H;
    const size_t step =
        (row + (size_t)head) * (size_t)in.steps + (size_t)(query / P::STEP);
    return in.sums + step * P::PARTS * P::THREADS + threadIdx.x;
}

/* Writes this warp's ds [16 keys, STEP queries] into the tile of ds. */
template <class P, int N>
static __device__ void store_slopes(act *tile, const unsigned (&slopes)[N][4], int row)
{
    const int lane = in_loop((int)threadIdx.x) % WARP_SIZE, g = lane / 4, p = lane % 4;
#pragma unroll
    for (int k = 0; k < N; k++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            *reinterpret_cast<unsigned *>(P::slope_at(
                tile, row + g + i % 2 * 8, k * 16 + i / 2 * 8 + 2 * p)) = slopes[k][i];
}

/* Multiplies the tile of ds by this block's keys, and adds the product to dq of the
 * step. With `fresh` there is nothing yet to add to. The same thread adds to the same
 * elements for all keys of a range, so the order is always the same. */
template <class P>
static __device__ void sum_queries(const backward_tiles<P> &tiles,
                                   const backward_inputs &in, const attention_shape &s,
                                   const query_step &here, bool fresh)
{
    float dq[P::PARTS][4];
    float4 old[P::PARTS];
    clear_rows(dq);
    P::publish();
    __syncthreads();
    P::multiply_slopes(dq, tiles.slopes, tiles.a);
    float4 *sums = place_sums<P>(in, s, (int)blockIdx.x, here.head, here.query);
#pragma unroll
    for (int n = 0; n < P::PARTS; n++)
        old[n] = fresh ? make_float4(0.0f, 0.0f, 0.0f, 0.0f) : sums[n * P::THREADS];
    P::template wait<0>();
    P::use(dq);
#pragma unroll
    for (int n = 0; n < P::PARTS; n++)
        sums[n * P::THREADS] = make_float4(old[n].x + dq[n][0], old[n].y + dq[n][1],
                                           old[n].z + dq[n][2], old[n].w + dq[n][3]);
}

/* Computes dk and dv of the keys first .. first + ROWS - 1 of a kv head, and adds the
 * parts of dq that come from these keys. */
template <class P>
static __device__ void sum_keys(act *dqkv, const backward_inputs &in,
                                const attention_shape &s, int first)
{
    constexpr int STEP = P::STEP;
    __shared__ query_numbers<STEP> numbers[QUERY_STAGES];
    const backward_tiles<P> tiles;
    const int kv = in_loop((int)blockIdx.y), b = (int)blockIdx.z;
    const int warp = warp_of_block();
    const int my_key = first + warp * 16, group = s.H / s.G;
    const int end = last_query(s, b, first, P::ROWS), last = (kv + 1) * group;
    const size_t D = (size_t)s.D, T = (size_t)s.T, width = (size_t)s.H * D;
    const act *rows = in.qkv + (size_t)b * T * s.stride;
    const act *k = rows + (size_t)(s.H + kv) * D, *v = k + (size_t)s.G * D;
    float dk[P::HD / 8][4], dv[P::HD / 8][4], p[STEP / 8][4], ds[STEP / 8][4];
    unsigned weights[STEP / 16][4], slopes[STEP / 16][4];
    clear_rows(dk);
    clear_rows(dv);
    load_tile<P, P::ROWS>(tiles.a, k, s.stride, first, s.T, s.D);
    load_tile<P, P::ROWS>(tiles.b, v, s.stride, first, s.T, s.D);
    query_step next = {kv * group, first, 0}, here;
    const auto ask = [&]() {
        const size_t row = ((size_t)b * (size_t)s.H + (size_t)next.head) * T;
        ask_rows<P>(tiles.stage(next.stage), rows + (size_t)next.head * D, s.stride,
                    in.dout + (size_t)b * T * width + (size_t)next.head * D, width,
                    next.query, s);
        load_numbers(&numbers[next.stage], in.lse + row, in.delta + row, next.query, b,
                     s);
    };
    /* Waits for the queries at `next`, which become `here`. Then starts the copy of
     * those that follow: first of the same head, then of the next head of the group. */
    const auto take_stage = [&]() {
        copy_wait<0>();
        P::publish();
        __syncthreads();
        here = next;
        next.stage = 1 - next.stage;
        next.query += STEP;
        if (next.query >= end) {
            next.query = first;
            next.head++;
        }
        if (next.head < last)
            ask();
    };
    ask();
    while (next.head < last) {
        take_stage();
        const act *queries = tiles.stage(here.stage), *dout = queries + P::acts(STEP);
        const query_numbers<STEP> *of = &numbers[here.stage];
        P::begin();
        P::template multiply_rows<STEP / 8>(p, tiles.a, warp * 16, queries);
        P::template multiply_rows<STEP / 8>(ds, tiles.b, warp * 16, dout);
        P::commit();
        P::template wait<0>();
        P::use(p);
        P::use(ds);
        if (here.query < my_key + 15 || of->begin[STEP - 1] > my_key)
            weigh_keys<true, STEP>(p, ds, of, s.scale * log2_e, my_key, here.query);
        else
            weigh_keys<false, STEP>(p, ds, of, s.scale * log2_e, my_key, here.query);
        pack_weights(weights, p);
        pack_weights(slopes, ds);
        store_slopes<P>(tiles.slopes, slopes, warp * 16);
        P::begin();
        P::template multiply_weights<STEP / 8>(dv, weights, dout);
        P::template multiply_weights<STEP / 8>(dk, slopes, queries);
        P::commit();
        sum_queries<P>(tiles, in, s, here,
                       first / P::ROWS - in.ranges < of->begin[0] / P::ROWS);
        P::use(dk);
        P::use(dv);
    }
    const float one[2] = {1.0f, 1.0f}, scale[2] = {s.scale, s.scale};
    act *to = dqkv + (size_t)b * T * s.stride + (size_t)(s.H + kv) * D;
    store_rows(to + (size_t)s.G * D, s.stride, dv, one, my_key, s.T, s.D);
    rotate_back(dk, in, s, b, my_key);
    store_rows(to, s.stride, dk, scale, my_key, s.T, s.D);
    __syncthreads(); /* the next keys replace these tiles */
}

template <class P>
static __global__ void __launch_bounds__(P::THREADS, 1)
    attention_backward_kernel(act *dqkv, backward_inputs in, attention_shape s)
{
    if constexpr (P::EXISTS)
        for (int first = (int)blockIdx.x * P::ROWS; first < s.T;
             first += in.ranges * P::ROWS)
            sum_keys<P>(dqkv, in, s, first);
    else
        __trap();
}

/* ---- queries ---- */

/* Adds the ranges of keys up, in order, and writes dq of a step. */
template <class P>
static __global__ void __launch_bounds__(P::THREADS)
    attention_dq_kernel(act *dqkv, backward_inputs in, attention_shape s)
{
    __shared__ float rows[P::STEP][P::HD + 1];
    const int first = (int)blockIdx.x * P::STEP, h = (int)blockIdx.y;
    const int b = (int)blockIdx.z, warp = warp_of_block(), half = s.D / 2;
    const int low = text_begin(s, b, first) / P::ROWS, own = first / P::ROWS;
    for (int n = 0; n < P::PARTS; n++) {
        float sum[4] = {};
        for (int range = 0; range < in.ranges; range++) {
            const int earliest =
                low + (range + in.ranges - low % in.ranges) % in.ranges;
            if (earliest > own)
                continue; /* no key of this range is seen */
            const float4 part = place_sums<P>(in, s, range, h, first)[n * P::THREADS];
            sum[0] += part.x, sum[1] += part.y, sum[2] += part.z, sum[3] += part.w;
        }
        for (int i = 0; i < 4; i++)
            rows[P::slope_query(warp, n, i)][P::slope_column(warp, n, i)] =
                sum[i] * s.scale;
    }
    __syncthreads();
    act *to = dqkv + (size_t)b * (size_t)s.T * s.stride + (size_t)(h * s.D);
    for (int i = (int)threadIdx.x; i < P::STEP * half; i += P::THREADS) {
        const int row = i / half, column = i % half, t = first + row;
        if (t >= s.T)
            break;
        float x = rows[row][column], y = rows[row][column + half];
        if (s.D == P::HD)
            turn_back(x, y, in, (t - text_begin(s, b, t)) * half + column);
        act *at = to + (size_t)t * s.stride + column;
        at[0] = __float2bfloat16_rn(x);
        at[half] = __float2bfloat16_rn(y);
    }
}

/* ---- both ---- */

void cuda_attention_backward(pl_backend *be, pl_act *dqkv, const pl_act *dout,
                             const pl_act *qkv, const pl_act *out, const float *lse,
                             const int32_t *texts, int B, int T, int H, int G, int D,
                             double theta)
{
    cuda_state *self = cuda_self(be);
    const attention_shape s = attention_describe(texts, T, H, G, D);
    const size_t n = (size_t)B * (size_t)T * (size_t)H;
    if (!attention_can(be, B, D) || !cuda_rope_table(self, T, D, theta))
        return;
    char *scratch = static_cast<char *>(
        cuda_scratch(self, cuda_attention_bytes((size_t)B, (size_t)T, (size_t)H,
                                                (size_t)G, (size_t)D)));
    if (!scratch)
        return;
    float *delta = reinterpret_cast<float *>(scratch);
    if (acts_width(D) == ACTS_WIDE)
        compute_delta<ACTS_WIDE>(be, delta, cuda_acts(dout), cuda_acts(out), n, s);
    else
        compute_delta<1>(be, delta, cuda_acts(dout), cuda_acts(out), n, s);
    const float *sines = self->rope + (size_t)self->rope_positions * (size_t)(D / 2);
    float4 *sums = reinterpret_cast<float4 *>(scratch + cuda_lines(n * sizeof(float)));
    const size_t ranges = cuda_attention_ranges((size_t)B, (size_t)T, (size_t)G);
    backward_inputs in = {
        cuda_acts(dout), cuda_acts(qkv), lse,         delta, self->rope,
        sines,           sums,           (int)ranges, 0};
    attention_choose(be, D, [&](auto tiles) {
        typedef decltype(tiles) P;
        const size_t shared = backward_tiles<P>::bytes();
        in.steps = (int)blocks_for((size_t)T, P::STEP);
        if (!attention_allow_shared(be, attention_backward_kernel<P>, shared))
            return;
        PL_LAUNCH((attention_backward_kernel<P>),
                  dim3((unsigned)ranges, (unsigned)G, (unsigned)B), P::THREADS, shared,
                  cuda_stream(be), cuda_acts(dqkv), in, s);
        PL_LAUNCH((attention_dq_kernel<P>),
                  dim3((unsigned)in.steps, (unsigned)H, (unsigned)B), P::THREADS, 0,
                  cuda_stream(be), cuda_acts(dqkv), in, s);
        if (D != P::HD)
            cuda_rope(be, dqkv, texts, B, T, H, G, D, theta, 0, -1);
    });
}
