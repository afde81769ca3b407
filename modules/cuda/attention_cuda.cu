/* Causal attention, forward, as in FlashAttention-2 (arXiv:2307.08691).
 *
 * Each warp of a block has 16 queries of one head. The block goes through the keys KEYS
 * at a time, from the start of the first query's text to the last query. For each query
 * the kernel keeps the largest score m, the sum l of exp(score - m) and the weighted
 * sum o of values. When m grows, l and o are multiplied by exp(m_old - m_new). At the
 * end out = o / l and lse = m + log l. The next keys and values are copied while the
 * current ones are used. Groups of warps (group_tiles) multiply the weights by values
 * while they compute the next scores. */
#include "modules/cuda/attention.cuh"
#include <math.h>

/* The state of two rows: [0] is for row g of the warp's 16, [1] for row g + 8. */
struct row_state {
    float m[2], l[2];
};

bool attention_can(pl_backend *be, int B, int D)
{
    enum { SEQUENCES_MAX = 65535 }; /* the third size of a grid, for every device */
    if (D > HEAD_MAX || D % 2 != 0)
        cuda_note_failure(
            cuda_self(be),
            pl_fail(PL_ERR_UNSUPPORTED,
                    "the heads have %d elements; the cuda backend needs an "
                    "even number of at most %d",
                    D, HEAD_MAX));
    else if (B > SEQUENCES_MAX)
        cuda_note_failure(
            cuda_self(be),
            pl_fail(PL_ERR_UNSUPPORTED,
                    "a pass has %d sequences; the cuda backend computes at "
                    "most %d at once: set train.micro_batch",
                    B, SEQUENCES_MAX));
    else
        return true;
    return false;
}

attention_shape attention_describe(const int32_t *texts, int T, int H, int G, int D)
{
    return attention_shape{
        T,    H, G, D, (size_t)(H + 2 * G) * (size_t)D, (float)(1.0 / sqrt((double)D)),
        texts};
}

/* Sets scores to -inf if the key comes after the query or before the query's text.
 * first_row, first_key and begin are positions. */
template <int N>
static __device__ void mask_scores(float (&s)[N][4], int first_row, int first_key,
                                   const int begin[2])
{
    const int lane = (int)threadIdx.x % WARP_SIZE, g = lane / 4, p = lane % 4;
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int key = first_key + n * 8 + 2 * p + i % 2;
            if (key > first_row + g + i / 2 * 8 || key < begin[i / 2])
                s[n][i] = -INFINITY;
        }
}

/* Updates m and l, and replaces scores by exp(score - m). `shrink` gets the factors by
 * which o must be multiplied. `unit` is scale * log2 e, because exponentials are
 * computed as powers of two. */
template <int N>
static __device__ void take_scores(float (&s)[N][4], row_state *row, float shrink[2],
                                   float unit)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float top = row->m[half];
#pragma unroll
        for (int n = 0; n < N; n++)
            top = fmaxf(top, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
        top = row_max(top);
        /* If a row has seen no key so far, all its weights are 0. */
        const float base = top == -INFINITY ? 0.0f : top;
        const float shift = -base * unit;
        float sum = 0.0f;
        shrink[half] = exp2_fast((row->m[half] - base) * unit);
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int i = 2 * half; i < 2 * half + 2; i++) {
                s[n][i] = exp2_fast(fmaf(s[n][i], unit, shift));
                sum += s[n][i];
            }
        row->m[half] = top;
        row->l[half] = row->l[half] * shrink[half] + sum;
    }
}

template <int N> static __device__ void shrink_rows(float (&o)[N][4], const float by[2])
{
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            o[n][i] *= by[i / 2];
}

/* Starts the copy of the keys and values of one stage, as one group. */
template <class P>
static __device__ void ask_keys(act *stage, const act *keys, const act *values,
                                const attention_shape &s, int first)
{
    load_tile<P, P::KEYS>(stage, keys, s.stride, first, s.T, s.D);
    load_tile<P, P::KEYS>(stage + P::acts(P::KEYS), values, s.stride, first, s.T, s.D);
    copy_commit();
}

template <class P>
static __device__ void attend(act *out, float *lse, const act *qkv,
                              const attention_shape &s)
{
    constexpr int KEYS = P::KEYS, STAGE = 2 * P::acts(KEYS);
    /* the last queries come first: they see the most keys and take the most time */
    const int first = (int)(gridDim.x - 1 - blockIdx.x) * P::ROWS;
    const int h = (int)blockIdx.y, b = (int)blockIdx.z, warp = warp_of_block();
    const size_t row0 = (size_t)b * (size_t)s.T;
    const act *q = qkv + row0 * s.stride + (size_t)h * (size_t)s.D;
    const act *k =
        qkv + row0 * s.stride + (size_t)(s.H + h / (s.H / s.G)) * (size_t)s.D;
    const act *v = k + (size_t)s.G * (size_t)s.D;
    act *queries = static_cast<act *>(dynamic_shared());
    act *stages = queries + P::acts(P::ROWS);
    row_state row = {{-INFINITY, -INFINITY}, {0.0f, 0.0f}};
    float o[P::HD / 8][4], scores[KEYS / 8][4], shrink[2];
    unsigned weights[KEYS / 16][4];
    clear_rows(o);
    const int end = min(first + (int)P::ROWS, s.T), my_row = first + warp * 16;
    const int lane = (int)threadIdx.x % WARP_SIZE;
    const int start = text_begin(s, b, first) / KEYS * KEYS;
    const int begin[2] = {text_begin(s, b, my_row + lane / 4),
                          text_begin(s, b, my_row + lane / 4 + 8)};
    int stage = 0;
    /* Waits for the keys and values from `key` on, and starts the copy of the next
     * ones. */
    const auto take_stage = [&](int key) {
        act *here = stages + stage * STAGE;
        stage = stage + 1 < STAGES ? stage + 1 : 0;
        copy_wait<0>();
        P::publish();
        __syncthreads();
        if (key + KEYS < end)
            ask_keys<P>(stages + stage * STAGE, k, v, s, key + KEYS);
        return here;
    };
    const auto weigh = [&](int key) {
        if (key + KEYS - 1 > my_row || key < begin[0] || key < begin[1])
            mask_scores(scores, my_row, key, begin);
        take_scores(scores, &row, shrink, s.scale * log2_e);
    };
    load_tile<P, P::ROWS>(queries, q, s.stride, first, s.T, s.D);
    ask_keys<P>(stages, k, v, s, start);
    const act *here = take_stage(start);
    P::begin();
    P::template multiply_rows<KEYS / 8>(scores, queries, warp * 16, here);
    P::commit();
    P::template wait<0>();
    P::use(scores);
    weigh(start);
    pack_weights(weights, scores);
    for (int key = start + KEYS; key < end; key += KEYS) {
        const act *values = here + P::acts(KEYS), *next = take_stage(key);
        if (key >= group_end<P>(my_row))
            continue; /* only later queries of the block see these keys */
        here = next;
        P::begin();
        P::template multiply_rows<KEYS / 8>(scores, queries, warp * 16, here);
        P::commit();
        P::template multiply_weights<KEYS / 8>(o, weights, values);
        P::commit();
        P::template wait<1>();
        P::use(scores);
        weigh(key);
        P::template wait<0>();
        P::use(o);
        shrink_rows(o, shrink);
        pack_weights(weights, scores);
    }
    P::begin();
    P::template multiply_weights<KEYS / 8>(o, weights, here + P::acts(KEYS));
    P::commit();
    P::template wait<0>();
    P::use(o);
    const float l[2] = {row_sum(row.l[0]), row_sum(row.l[1])};
    const float inverse[2] = {1.0f / l[0], 1.0f / l[1]};
    const size_t width = (size_t)s.H * (size_t)s.D;
    store_rows(out + row0 * width + (size_t)h * (size_t)s.D, width, o, inverse, my_row,
               s.T, s.D);
    for (int half = 0; half < 2; half++) {
        const int t = my_row + lane / 4 + half * 8;
        if (lane % 4 == 0 && t < s.T)
            lse[((size_t)b * (size_t)s.H + (size_t)h) * (size_t)s.T + (size_t)t] =
                row.m[half] * s.scale + logf(l[half]);
    }
}

template <class P>
static __global__ void __launch_bounds__(P::THREADS, 1)
    attention_forward_kernel(act *out, float *lse, const act *qkv, attention_shape s)
{
    if constexpr (P::EXISTS)
        attend<P>(out, lse, qkv, s);
    else
        __trap(); /* the driver compiled this kernel for the wrong device */
}

void cuda_attention_forward(pl_backend *be, pl_act *out, float *lse, const pl_act *qkv,
                            const int32_t *texts, int B, int T, int H, int G, int D)
{
    const attention_shape s = attention_describe(texts, T, H, G, D);
    if (!attention_can(be, B, D))
        return;
    attention_choose(be, D, [&](auto tiles) {
        typedef typename decltype(tiles)::forward P;
        const size_t shared =
            (size_t)P::acts(P::ROWS + STAGES * 2 * P::KEYS) * sizeof(act);
        const dim3 grid(blocks_for((size_t)T, P::ROWS), (unsigned)H, (unsigned)B);
        if (attention_allow_shared(be, attention_forward_kernel<P>, shared))
            PL_LAUNCH((attention_forward_kernel<P>), grid, P::THREADS, shared,
                      cuda_stream(be), cuda_acts(out), lse, cuda_acts(qkv), s);
    });
}
