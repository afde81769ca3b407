/* Reads rows of the embedding matrix, and adds to their gradients.
 *
 * Backward pass: tokens are divided into buckets by their lowest bits, and a block adds
 * up the gradients of the tokens of one bucket for one slab of columns. So each element
 * of the gradient is written by only one block.
 *
 * The block reads all tokens, a tile at a time, and lists the positions of its bucket
 * (the hits), in order. It sorts up to EMBED_THREADS hits by token, divides them evenly
 * among its warps, and each warp sums the runs of equal tokens in its part. A frequent
 * token of natural text fills a tenth of a batch, so a run may extend over several
 * warps. The warp in which the run begins then adds the sums of the next warps, in
 * order. So the order of additions depends only on the tokens. */
#include "modules/cuda/ops_cuda.cuh"

enum { EMBED_THREADS = 256, EMBED_WARPS = EMBED_THREADS / WARP_SIZE, BALLOTS = 8 };
enum { WARP_TILE = BALLOTS * WARP_SIZE, TILE = EMBED_WARPS * WARP_TILE };
/* For each bucket and slab all tokens are read again. With 256 buckets and 16384
 * tokens, this takes a tenth of the time of all instructions, and a block has 64
 * hits. */
enum { MAX_BUCKETS = 256, BUCKET_HITS = 16, SLAB = 256, RUN_LOADS = 4 };

template <int V>
static __global__ void __launch_bounds__(EMBED_THREADS)
    embed_forward_kernel(act *out, const int32_t *tokens, const float *w, int N, int C)
{
    const int columns = C / V;
    const size_t i = (size_t)blockIdx.x * EMBED_THREADS + threadIdx.x;
    if (i >= (size_t)N * (size_t)columns)
        return;
    const size_t n = i / (size_t)columns, c = i % (size_t)columns * V;
    float x[V];
    load_floats<V>(x, w + (size_t)tokens[n] * (size_t)C + c);
    store_acts<V>(out + n * (size_t)C + c, x);
}

/* The positions of the bucket's tokens, in order. The number of hits of each warp is
 * kept for this tile and the previous one, so that a tile costs only one barrier. */
struct hit_list {
    int n[2][EMBED_WARPS];
    int position[EMBED_THREADS + TILE];
};

/* Up to EMBED_THREADS hits, sorted by token and then by position. */
struct sorted_hits {
    int32_t token[EMBED_THREADS], unsorted[EMBED_THREADS];
    int position[EMBED_THREADS];
};

/* Appends the hits of a tile to the `n` hits of the list; returns how many were added.
 * The list is complete after the next barrier. */
static __device__ int list_hits(hit_list *hits, int n, const int32_t *tokens, int mask,
                                int start, int N, int turn)
{
    const int lane = (int)threadIdx.x % WARP_SIZE, w = (int)threadIdx.x / WARP_SIZE;
    const int own = start + w * WARP_TILE + lane;
    unsigned found[BALLOTS];
    int count = 0, at = n, all = 0;
    for (int k = 0; k < BALLOTS; k++) {
        const int i = own + k * WARP_SIZE;
        found[k] =
            __ballot_sync(0xffffffffu, i < N && (tokens[i] & mask) == (int)blockIdx.x);
        count += __popc(found[k]);
    }
    if (lane == 0)
        hits->n[turn][w] = count;
    __syncthreads();
    for (int v = 0; v < EMBED_WARPS; v++) {
        at += v < w ? hits->n[turn][v] : 0;
        all += hits->n[turn][v];
    }
    for (int k = 0; k < BALLOTS; k++) {
        if (found[k] >> lane & 1u)
            hits->position[at + __popc(found[k] & ((1u << lane) - 1u))] =
                own + k * WARP_SIZE;
        at += __popc(found[k]);
    }
    return all;
}

/* Sorts n hits, at most EMBED_THREADS. Each thread counts the hits that come before its
 * own; this number is the place of its hit. */
static __device__ void sort_hits(sorted_hits *s, const int *position,
                                 const int32_t *tokens, int n)
{
    const int i = (int)threadIdx.x;
    const int32_t token = i < n ? tokens[position[i]] : 0;
    s->unsorted[i] = token;
    __syncthreads();
    if (i < n) {
        int rank = 0;
        for (int j = 0; j < n; j++)
            rank += s->unsorted[j] < token + (j < i ? 1 : 0) ? 1 : 0;
        s->token[rank] = token;
        s->position[rank] = position[i];
    }
    __syncthreads();
}

/* Returns the end of the run of equal tokens that begins at i, at most `end`. */
static __device__ int run_end(const int32_t *token, int i, int end)
{
    const int32_t first = token[i];
    while (i < end && token[i] == first)
        i++;
    return i;
}

/* Sums V columns of the gradients at n positions. RUN_LOADS positions are loaded at
 * once, because each load takes long. If fewer are left, the last one is loaded several
 * times, but added only once. */
template <int V>
static __device__ void sum_run(float sum[V], const act *column, const int *position,
                               int n, int C)
{
    for (int k = 0; k < V; k++)
        sum[k] = 0.0f;
    for (int start = 0; start < n; start += RUN_LOADS) {
        float x[RUN_LOADS][V];
        for (int i = 0; i < RUN_LOADS; i++)
            load_acts<V>(x[i],
                         column + (size_t)position[min(start + i, n - 1)] * (size_t)C);
        for (int i = 0; i < RUN_LOADS; i++)
            for (int k = 0; k < V; k++)
                sum[k] += start + i < n ? x[i][k] : 0.0f;
    }
}

/* Adds n sorted hits to dw. A warp first sums the end of a run that began in an earlier
 * warp, into its row of `shares`; after the barrier, it adds the runs that begin in its
 * part to dw. */
template <int V>
static __device__ void add_hits(float *dw, const act *dout, const sorted_hits *s, int n,
                                float (*shares)[SLAB], int C)
{
    const int w = (int)threadIdx.x / WARP_SIZE, lane = (int)threadIdx.x % WARP_SIZE;
    const int slab = (int)blockIdx.y * SLAB, stop = min(C, slab + (int)SLAB);
    const int each = (n + EMBED_WARPS - 1) / EMBED_WARPS, first = slab + lane * V;
    const int from = min(n, w * each), to = min(n, from + each);
    int i = from;
    if (from > 0 && from < to && s->token[from - 1] == s->token[from]) {
        i = run_end(s->token, from, to);
        for (int c = first; c < stop; c += WARP_SIZE * V) {
            float sum[V];
            sum_run<V>(sum, dout + c, s->position + from, i - from, C);
            for (int k = 0; k < V; k++)
                shares[w][c - slab + k] = sum[k];
        }
    }
    __syncthreads();
    for (int end; i < to; i = end) {
        const int32_t token = s->token[i];
        float *row = dw + (size_t)token * (size_t)C;
        end = run_end(s->token, i, to);
        for (int c = first; c < stop; c += WARP_SIZE * V) {
            float all[V], sum[V];
            load_floats<V>(all, row + c);
            sum_run<V>(sum, dout + c, s->position + i, end - i, C);
            for (int v = w + 1, at = end; at == v * each && at < n; v++, at += each) {
                if (s->token[at] != token)
                    break;
                for (int k = 0; k < V; k++)
                    sum[k] += shares[v][c - slab + k];
            }
            for (int k = 0; k < V; k++)
                all[k] += sum[k];
            store_floats<V>(row + c, all);
        }
    }
}

/* Five blocks fit on a multiprocessor (48 registers per thread). */
template <int V>
static __global__ void __launch_bounds__(EMBED_THREADS, 5)
    embed_backward_kernel(float *dw, const act *dout, const int32_t *tokens, int mask,
                          int N, int C)
{
    __shared__ hit_list hits;
    __shared__ sorted_hits sorted;
    __shared__ float shares[EMBED_WARPS][SLAB];
    int n = 0;
    for (int start = 0, turn = 0; start < N; start += TILE, turn ^= 1) {
        n += list_hits(&hits, n, tokens, mask, start, N, turn);
        if (n < EMBED_THREADS && start + TILE < N)
            continue;
        __syncthreads();
        for (int i = 0; i < n; i += EMBED_THREADS) {
            const int some = min((int)EMBED_THREADS, n - i);
            sort_hits(&sorted, hits.position + i, tokens, some);
            add_hits<V>(dw, dout, &sorted, some, shares, C);
        }
        n = 0;
    }
}

void cuda_embed_forward(pl_backend *be, pl_act *out, const int32_t *tokens,
                        const float *w, int N, int C)
{
    const size_t n = (size_t)N * (size_t)C;
    if (acts_width(C) == ACTS_WIDE)
        PL_LAUNCH((embed_forward_kernel<ACTS_WIDE>),
                  blocks_for(n / ACTS_WIDE, EMBED_THREADS), EMBED_THREADS, 0,
                  cuda_stream(be), cuda_acts(out), tokens, w, N, C);
    else
        PL_LAUNCH((embed_forward_kernel<1>), blocks_for(n, EMBED_THREADS),
                  EMBED_THREADS, 0, cuda_stream(be), cuda_acts(out), tokens, w, N, C);
}

void cuda_embed_backward(pl_backend *be, float *dw, const pl_act *dout,
                         const int32_t *tokens, int N, int C)
{
    unsigned buckets = 1;
    while (buckets < MAX_BUCKETS && (size_t)buckets * BUCKET_HITS < (size_t)N)
        buckets *= 2;
    const dim3 grid(buckets, blocks_for((size_t)C, SLAB));
    const int mask = (int)buckets - 1;
    if (acts_width(C) == ACTS_WIDE)
        PL_LAUNCH((embed_backward_kernel<ACTS_WIDE>), grid, EMBED_THREADS, 0,
                  cuda_stream(be), dw, cuda_acts(dout), tokens, mask, N, C);
    else
        PL_LAUNCH((embed_backward_kernel<1>), grid, EMBED_THREADS, 0, cuda_stream(be),
                  dw, cuda_acts(dout), tokens, mask, N, C);
}
