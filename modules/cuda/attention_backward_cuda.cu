/* Causal attention, backward. Scores are recomputed from q and k, and p from lse:
 *
 *   p = exp(score - lse)       dp = dout v^T       ds = p (dp - delta) / sqrt(D)
 *   dv = p^T dout              dk = ds^T q         dq = ds k
 *
 * with delta[t] = dout[t].out[t]. Then dq and dk go back through rope. There are two
 * kernels, so that each sum is computed by one block in one order. A block of the first
 * kernel has ROWS keys of one kv head. It goes through all queries that see these keys,
 * in all query heads that read this kv head. A block of the second kernel has ROWS
 * queries and goes through their keys. Both kernels compute the scores. So there are
 * seven products. A single kernel with atomic additions would need only five, but its
 * result would not always have the same bytes. */
#include "modules/cuda/attention.cuh"
#include "modules/cuda/warp.cuh"

struct backward_inputs {
    const act *dout, *qkv;
    const float *lse, *delta;     /* [B,H,T] */
    const float *cosines, *sines; /* [T,D/2] */
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
    const int lane = (int)threadIdx.x % WARP_SIZE, g = lane / 4, p = lane % 4;
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

/* The tiles of a block: its own rows of two tensors, then the stages. */
template <class P> struct backward_tiles {
    act *a, *b, *stages;
    __device__ backward_tiles()
        : a(static_cast<act *>(dynamic_shared())), b(a + P::acts(P::ROWS)),
          stages(b + P::acts(P::ROWS))
    {
    }
    __device__ act *stage(int i) const
    {
        return stages + i * 2 * P::acts(P::STEP);
    }
    static constexpr size_t bytes()
    {
        return (size_t)P::acts(2 * P::ROWS + STAGES * 2 * P::STEP) * sizeof(act);
    }
};

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
            for (int i = 0; i < 2; i++) {
                float &low = c[n][2 * half + i], &high = c[n + N / 2][2 * half + i];
                const float cosine = in.cosines[angle + n * 8 + i];
                const float sine = in.sines[angle + n * 8 + i], x = low;
                low = x * cosine + high * sine;
                high = high * cosine - x * sine;
            }
    }
}

/* A step of sum_keys: a query head, the first of its STEP queries, and the stage that
 * has their tiles. */
struct query_step {
    int head, query, stage;
};

template <class P>
static __device__ void sum_keys(act *dqkv, const backward_inputs &in,
                                const attention_shape &s)
{
    constexpr int STEP = P::STEP;
    __shared__ query_numbers<STEP> numbers[STAGES];
    const backward_tiles<P> tiles;
    const int first = (int)blockIdx.x * P::ROWS, kv = (int)blockIdx.y;
    const int b = (int)blockIdx.z, warp = warp_of_block();
    const int my_key = first + warp * 16, group = s.H / s.G;
    const int end = last_query(s, b, first, P::ROWS);
    const size_t D = (size_t)s.D, T = (size_t)s.T, width = (size_t)s.H * D;
    const act *rows = in.qkv + (size_t)b * T * s.stride;
    const act *k = rows + (size_t)(s.H + kv) * D, *v = k + (size_t)s.G * D;
    float dk[P::HD / 8][4], dv[P::HD / 8][4], p[STEP / 8][4], ds[STEP / 8][4];
    unsigned weights[STEP / 16][4], slopes[STEP / 16][4];
    clear_rows(dk);
    clear_rows(dv);
    load_tile<P, P::ROWS>(tiles.a, k, s.stride, first, s.T, s.D);
    load_tile<P, P::ROWS>(tiles.b, v, s.stride, first, s.T, s.D);
    query_step next = {kv * group, first, 0}, here = next, before;
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
        before = here;
        here = next;
        next.stage = next.stage + 1 < STAGES ? next.stage + 1 : 0;
        next.query += STEP;
        if (next.query >= end) {
            next.query = first;
            next.head++;
        }
        if (next.head < (kv + 1) * group)
            ask();
    };
    const auto multiply = [&]() {
        const act *queries = tiles.stage(here.stage);
        P::template multiply_rows<STEP / 8>(p, tiles.a, warp * 16, queries);
        P::template multiply_rows<STEP / 8>(ds, tiles.b, warp * 16,
                                            queries + P::acts(STEP));
        P::commit();
    };
    const auto sum = [&](int stage) {
        const act *queries = tiles.stage(stage);
        P::template multiply_weights<STEP / 8>(dv, weights, queries + P::acts(STEP));
        P::template multiply_weights<STEP / 8>(dk, slopes, queries);
        P::commit();
    };
    const auto weigh = [&]() {
        const query_numbers<STEP> *of = &numbers[here.stage];
        if (here.query < my_key + 15 || of->begin[STEP - 1] > my_key)
            weigh_keys<true, STEP>(p, ds, of, s.scale * log2_e, my_key, here.query);
        else
            weigh_keys<false, STEP>(p, ds, of, s.scale * log2_e, my_key, here.query);
    };
    ask();
    take_stage();
    P::begin();
    multiply();
    P::template wait<0>();
    P::use(p);
    P::use(ds);
    weigh();
    pack_weights(weights, p);
    pack_weights(slopes, ds);
    while (next.head < (kv + 1) * group) {
        take_stage();
        P::begin();
        multiply();
        sum(before.stage);
        P::template wait<1>();
        P::use(p);
        P::use(ds);
        weigh();
        P::template wait<0>();
        P::use(dk);
        P::use(dv);
        pack_weights(weights, p);
        pack_weights(slopes, ds);
    }
    P::begin();
    sum(here.stage);
    P::template wait<0>();
    P::use(dk);
    P::use(dv);
    const float one[2] = {1.0f, 1.0f}, scale[2] = {s.scale, s.scale};
    act *to = dqkv + (size_t)b * T * s.stride + (size_t)(s.H + kv) * D;
    rotate_back(dk, in, s, b, my_key);
    store_rows(to, s.stride, dk, scale, my_key, s.T, s.D);
    store_rows(to + (size_t)s.G * D, s.stride, dv, one, my_key, s.T, s.D);
}

template <class P>
static __global__ void __launch_bounds__(P::THREADS)
    attention_keys_kernel(act *dqkv, backward_inputs in, attention_shape s)
{
    if constexpr (P::EXISTS)
        sum_keys<P>(dqkv, in, s);
    else
        __trap();
}

/* ---- queries ---- */

/* The numbers of a lane's two rows of queries. */
struct row_numbers {
    float lse[2], delta[2];
    int begin[2];
};

/* Computes ds, without its factor 1/sqrt(D), from scores [16 queries, STEP keys] and
 * dp, and stores it in dp. With SOME, a key may come after a query or before its
 * text. */
template <bool SOME, int N>
static __device__ void weigh_queries(const float (&s)[N][4], float (&dp)[N][4],
                                     const row_numbers &row, float unit,
                                     int first_query, int first_key)
{
    const int lane = (int)threadIdx.x % WARP_SIZE, g = lane / 4, p = lane % 4;
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int key = first_key + n * 8 + 2 * p + i % 2;
            const bool seen = !SOME || (key <= first_query + g + i / 2 * 8 &&
                                        key >= row.begin[i / 2]);
            const float power = fmaf(s[n][i], unit, -row.lse[i / 2]);
            const float weight = exp2_fast(seen ? power : -INFINITY);
            dp[n][i] = weight * (dp[n][i] - row.delta[i / 2]);
        }
}

template <class P>
static __device__ void sum_queries(act *dqkv, const backward_inputs &in,
                                   const attention_shape &s)
{
    constexpr int STEP = P::STEP;
    const backward_tiles<P> tiles;
    const int first = (int)(gridDim.x - 1 - blockIdx.x) * P::ROWS;
    const int h = (int)blockIdx.y, b = (int)blockIdx.z, kv = h / (s.H / s.G);
    const int warp = warp_of_block(), lane = (int)threadIdx.x % WARP_SIZE;
    const int my_row = first + warp * 16, end = min(first + (int)P::ROWS, s.T);
    const size_t D = (size_t)s.D, T = (size_t)s.T, width = (size_t)s.H * D;
    const act *rows = in.qkv + (size_t)b * T * s.stride;
    const size_t row = ((size_t)b * (size_t)s.H + (size_t)h) * T;
    const act *k = rows + (size_t)(s.H + kv) * D, *v = k + (size_t)s.G * D;
    const int start = text_begin(s, b, first) / STEP * STEP;
    float dq[P::HD / 8][4], p[STEP / 8][4], ds[STEP / 8][4];
    unsigned slopes[STEP / 16][4];
    row_numbers of;
    clear_rows(dq);
    load_tile<P, P::ROWS>(tiles.a, rows + (size_t)h * D, s.stride, first, s.T, s.D);
    load_tile<P, P::ROWS>(tiles.b, in.dout + (size_t)b * T * width + (size_t)h * D,
                          width, first, s.T, s.D);
    for (int half = 0; half < 2; half++) {
        const int t = my_row + lane / 4 + half * 8;
        of.lse[half] = t < s.T ? in.lse[row + (size_t)t] * log2_e : INFINITY;
        of.delta[half] = t < s.T ? in.delta[row + (size_t)t] : 0.0f;
        of.begin[half] = text_begin(s, b, t);
    }
    ask_rows<P>(tiles.stage(0), k, s.stride, v, s.stride, start, s);
    for (int key = start, stage = 0; key < end; key += STEP) {
        const act *keys = tiles.stage(stage), *values = keys + P::acts(STEP);
        stage = stage + 1 < STAGES ? stage + 1 : 0;
        copy_wait<0>();
        P::publish();
        __syncthreads();
        if (key + STEP < end)
            ask_rows<P>(tiles.stage(stage), k, s.stride, v, s.stride, key + STEP, s);
        if (key >= group_end<P>(my_row))
            continue; /* only later queries of the block see these keys */
        P::begin();
        P::template multiply_rows<STEP / 8>(p, tiles.a, warp * 16, keys);
        P::template multiply_rows<STEP / 8>(ds, tiles.b, warp * 16, values);
        P::commit();
        P::template wait<0>();
        P::use(p);
        P::use(ds);
        if (key + STEP - 1 > my_row || key < of.begin[0] || key < of.begin[1])
            weigh_queries<true>(p, ds, of, s.scale * log2_e, my_row, key);
        else
            weigh_queries<false>(p, ds, of, s.scale * log2_e, my_row, key);
        pack_weights(slopes, ds);
        P::begin();
        P::template multiply_weights<STEP / 8>(dq, slopes, keys);
        P::commit();
        P::template wait<0>();
        P::use(dq);
    }
    const float scale[2] = {s.scale, s.scale};
    rotate_back(dq, in, s, b, my_row);
    store_rows(dqkv + (size_t)b * T * s.stride + (size_t)h * D, s.stride, dq, scale,
               my_row, s.T, s.D);
}

template <class P>
static __global__ void __launch_bounds__(P::THREADS, P::BLOCKS)
    attention_queries_kernel(act *dqkv, backward_inputs in, attention_shape s)
{
    if constexpr (P::EXISTS)
        sum_queries<P>(dqkv, in, s);
    else
        __trap();
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
    float *delta = static_cast<float *>(cuda_scratch(self, n * sizeof(float)));
    if (!delta)
        return;
    if (acts_width(D) == ACTS_WIDE)
        compute_delta<ACTS_WIDE>(be, delta, cuda_acts(dout), cuda_acts(out), n, s);
    else
        compute_delta<1>(be, delta, cuda_acts(dout), cuda_acts(out), n, s);
    const float *sines = self->rope + (size_t)self->rope_positions * (size_t)(D / 2);
    const backward_inputs in = {cuda_acts(dout), cuda_acts(qkv), lse,
                                delta,           self->rope,     sines};
    attention_choose(be, D, [&](auto tiles) {
        typedef decltype(tiles) P;
        const size_t shared = backward_tiles<P>::bytes();
        const unsigned blocks = blocks_for((size_t)T, P::ROWS);
        if (!attention_allow_shared(be, attention_keys_kernel<P>, shared) ||
            !attention_allow_shared(be, attention_queries_kernel<P>, shared))
            return;
        PL_LAUNCH((attention_keys_kernel<P>), dim3(blocks, (unsigned)G, (unsigned)B),
                  P::THREADS, shared, cuda_stream(be), cuda_acts(dqkv), in, s);
        PL_LAUNCH((attention_queries_kernel<P>), dim3(blocks, (unsigned)H, (unsigned)B),
                  P::THREADS, shared, cuda_stream(be), cuda_acts(dqkv), in, s);
        if (D != P::HD)
            cuda_rope(be, dqkv, texts, B, T, H, G, D, theta, 0, -1);
    });
}
