/* Reads rows of the embedding matrix, and adds to their gradients.
 *
 * The backward pass has one block per position of the batch. The block of a token's
 * first position adds up the gradients of all positions of this token (the hits); the
 * blocks of its later positions end at once. So only one block writes to a row.
 *
 * The block searches TILE tokens at a time and lists the hits in shared memory, in
 * order. If a tile has few hits, they are added one after another, as in the reference,
 * and each thread has some columns. A tile may have many hits, because some tokens of
 * natural text fill a tenth of a batch. Then warp w adds up every WARPS-th hit,
 * starting with the w-th, and the sums of the warps are added in order. So the order of
 * additions depends only on the tokens. */
#include "modules/cuda/ops_cuda.cuh"

enum { THREADS = 512, WARPS = THREADS / WARP_SIZE, BALLOTS = 4 };
enum { WARP_TILE = BALLOTS * WARP_SIZE, TILE = WARPS * WARP_TILE };

template <int V>
static __global__ void __launch_bounds__(THREADS)
    embed_forward_kernel(act *out, const int32_t *tokens, const float *w, int N, int C)
{
    const int columns = C / V;
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= (size_t)N * (size_t)columns)
        return;
    const size_t n = i / (size_t)columns, c = i % (size_t)columns * V;
    float x[V];
    load_floats<V>(x, w + (size_t)tokens[n] * (size_t)C + c);
    store_acts<V>(out + n * (size_t)C + c, x);
}

/* The positions of the token in a tile, in order. The number of hits of each warp is
 * kept for this tile and the previous one, so that a tile without hits costs only one
 * barrier. */
struct hit_list {
    int n[2][WARPS];
    int position[TILE];
};

/* Returns the number of hits in the tile. The list of hits is complete after the next
 * barrier. */
static __device__ int list_hits(hit_list *hits, const int32_t *tokens, int32_t token,
                                int start, int N, int turn)
{
    const int lane = (int)threadIdx.x % WARP_SIZE, w = (int)threadIdx.x / WARP_SIZE;
    const int own = start + w * WARP_TILE + lane;
    unsigned found[BALLOTS];
    int count = 0, at = 0, all = 0;
    for (int k = 0; k < BALLOTS; k++) {
        const int n = own + k * WARP_SIZE;
        found[k] = __ballot_sync(0xffffffffu, n < N && tokens[n] == token);
        count += __popc(found[k]);
    }
    if (lane == 0)
        hits->n[turn][w] = count;
    __syncthreads();
    for (int v = 0; v < WARPS; v++) {
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

static __device__ void add_few(float *dw, const act *dout, const int *position, int n,
                               int C)
{
    for (int c = (int)threadIdx.x; c < C; c += THREADS) {
        float sum = dw[c];
        for (int i = 0; i < n; i++)
            sum += __bfloat162float(dout[(size_t)position[i] * (size_t)C + (size_t)c]);
        dw[c] = sum;
    }
}

/* Sums a warp's share of the hits, with V columns per lane. */
template <int V>
static __device__ void sum_share(float *sum, const act *column, const int *position,
                                 int n, int C)
{
    float all[V] = {};
#pragma unroll 8
    for (int i = (int)threadIdx.x / WARP_SIZE; i < n; i += WARPS) {
        float x[V];
        load_acts<V>(x, column + (size_t)position[i] * (size_t)C);
        for (int k = 0; k < V; k++)
            all[k] += x[k];
    }
    for (int k = 0; k < V; k++)
        sum[k] = all[k];
}

template <int V>
static __device__ void add_many(float *dw, const act *dout, const int *position, int n,
                                int C)
{
    enum { COLUMNS = WARP_SIZE * V };
    __shared__ float shares[WARPS][COLUMNS];
    const int lane = (int)threadIdx.x % WARP_SIZE, w = (int)threadIdx.x / WARP_SIZE;
    for (int start = 0; start < C; start += COLUMNS) {
        if (start + lane * V < C)
            sum_share<V>(&shares[w][lane * V], dout + start + lane * V, position, n, C);
        __syncthreads();
        for (int c = (int)threadIdx.x; c < min((int)COLUMNS, C - start); c += THREADS) {
            float sum = dw[start + c];
            for (int v = 0; v < WARPS; v++)
                sum += shares[v][c];
            dw[start + c] = sum;
        }
        __syncthreads();
    }
}

template <int V>
static __global__ void __launch_bounds__(THREADS)
    embed_backward_kernel(float *dw, const act *dout, const int32_t *tokens, int N,
                          int C)
{
    __shared__ hit_list hits;
    const int first = (int)blockIdx.x;
    const int32_t token = tokens[first];
    for (int start = 0; start < first; start += THREADS) {
        const int n = start + (int)threadIdx.x;
        if (__syncthreads_or(n < first && tokens[n] == token))
            return; /* all threads return */
    }
    float *row = dw + (size_t)token * (size_t)C;
    for (int start = first, turn = 0; start < N; start += TILE, turn ^= 1) {
        const int n = list_hits(&hits, tokens, token, start, N, turn);
        if (n == 0)
            continue;
        __syncthreads();
        if (n <= WARPS)
            add_few(row, dout, hits.position, n, C);
        else
            add_many<V>(row, dout, hits.position, n, C);
    }
}

void cuda_embed_forward(pl_backend *be, pl_act *out, const int32_t *tokens,
                        const float *w, int N, int C)
{
    const size_t n = (size_t)N * (size_t)C;
    if (acts_width(C) == ACTS_WIDE)
        PL_LAUNCH((embed_forward_kernel<ACTS_WIDE>), blocks_for(n / ACTS_WIDE, THREADS),
                  THREADS, 0, cuda_stream(be), cuda_acts(out), tokens, w, N, C);
    else
        PL_LAUNCH((embed_forward_kernel<1>), blocks_for(n, THREADS), THREADS, 0,
                  cuda_stream(be), cuda_acts(out), tokens, w, N, C);
}

void cuda_embed_backward(pl_backend *be, float *dw, const pl_act *dout,
                         const int32_t *tokens, int N, int C)
{
    if (acts_width(C) == ACTS_WIDE)
        PL_LAUNCH((embed_backward_kernel<ACTS_WIDE>), N, THREADS, 0, cuda_stream(be),
                  dw, cuda_acts(dout), tokens, N, C);
    else
        PL_LAUNCH((embed_backward_kernel<1>), N, THREADS, 0, cuda_stream(be), dw,
                  cuda_acts(dout), tokens, N, C);
}
