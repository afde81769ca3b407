/* Rows of the embedding matrix, and their gradient.
 *
 * Backward: a block for each position. The block of a token's first position adds up
 * all positions of that token, in order; the others end at once. It looks through the
 * tokens TILE at a time, lists the hits in shared memory, in order, and each thread
 * adds them to its columns. So every sum is the reference's, term by term, and nobody
 * else writes to that row.
 */
#include "modules/cuda/ops_cuda.cuh"

enum { THREADS = 256, WARPS = THREADS / WARP_SIZE, WARP_TILE = 128 };
enum { TILE = WARPS * WARP_TILE };

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

/* Positions of the token in a tile, in order: those of warp 0's part first. */
struct hit_list {
    int n[WARPS];
    int position[WARPS][WARP_TILE];
};

/* Every warp lists its part of the tile that starts at `start`. */
static __device__ void list_hits(hit_list *hits, const int32_t *tokens, int32_t token,
                                 int start, int N)
{
    const int lane = (int)threadIdx.x % WARP_SIZE, w = (int)threadIdx.x / WARP_SIZE;
    int count = 0;
    for (int k = lane; k < WARP_TILE; k += WARP_SIZE) {
        const int n = start + w * WARP_TILE + k;
        const bool hit = n < N && tokens[n] == token;
        const unsigned all = __ballot_sync(0xffffffffu, hit);
        if (hit)
            hits->position[w][count + __popc(all & ((1u << lane) - 1u))] = n;
        count += __popc(all);
    }
    if (lane == 0)
        hits->n[w] = count;
}

static __device__ void add_hits(float *dw, const act *dout, const hit_list *hits, int C)
{
    for (int c = (int)threadIdx.x; c < C; c += THREADS) {
        float sum = dw[c];
        for (int w = 0; w < WARPS; w++)
            for (int i = 0; i < hits->n[w]; i++)
                sum += __bfloat162float(
                    dout[(size_t)hits->position[w][i] * (size_t)C + (size_t)c]);
        dw[c] = sum;
    }
}

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
            return; /* the whole block */
    }
    for (int start = first; start < N; start += TILE) {
        list_hits(&hits, tokens, token, start, N);
        __syncthreads();
        add_hits(dw + (size_t)token * (size_t)C, dout, &hits, C);
        __syncthreads();
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
    PL_LAUNCH(embed_backward_kernel, N, THREADS, 0, cuda_stream(be), dw,
              cuda_acts(dout), tokens, N, C);
}
