/* out = x w^T for a few rows of x, as a decoding step needs it. Reading every weight
 * once takes most of the time, so many loads must be in flight: a block computes
 * MATVEC_ROWS rows of w, and each of its threads loads the same columns of all these
 * rows before it uses any of them. The columns of x are then loaded once for all these
 * rows. The order of a sum depends only on the number of columns, so the result for a
 * row of x does not depend on the other rows.
 *
 * A kernel often starts before the results of earlier kernels are there
 * (PL_LAUNCH_EARLY). Meanwhile its weights are loaded into the L2 cache, so that the
 * memory is busy between two products, too.
 *
 * Weights are bf16, or bytes with a scale for each row (bytes_cuda.cu). */
#include "modules/cuda/ops_cuda.cuh"
#include "modules/cuda/warp.cuh"

enum { MATVEC_WARPS = 4, MATVEC_THREADS = MATVEC_WARPS * WARP_SIZE, MATVEC_ROWS = 4 };

struct matvec_call {
    const act *x; /* [N,I] */
    const act *copy;
    const int8_t *bytes; /* rows, `stride` bytes apart */
    const float *scales; /* a scale per row of bytes; NULL if weights are bf16 */
    size_t stride;
    int O, I;
    act *out;    /* [N,O]; or NULL */
    float *wide; /* [N,O] in fp32, used if out is NULL */
};

/* Computes this thread's part of sum_i x[n,i] w[o+r,i] for N rows of x and MATVEC_ROWS
 * rows of w. Where w has no more rows, its last row is read again and the result is not
 * stored. */
template <int N, int V, class T>
static __device__ void dot_rows(float sum[MATVEC_ROWS][N], const matvec_call *c,
                                const T *w, int o)
{
#pragma unroll 2
    for (int i = (int)threadIdx.x * V; i < c->I; i += MATVEC_THREADS * V) {
        typename raw_of<V, T>::type raw[MATVEC_ROWS];
#pragma unroll
        for (int r = 0; r < MATVEC_ROWS; r++)
            raw[r] = load_raw<V>(w + (size_t)min(o + r, c->O - 1) * c->stride + i);
        float a[N][V];
#pragma unroll
        for (int n = 0; n < N; n++)
            load_acts<V>(a[n], c->x + (size_t)n * (size_t)c->I + i);
#pragma unroll
        for (int r = 0; r < MATVEC_ROWS; r++) {
            float b[V];
            to_floats(b, raw[r]);
#pragma unroll
            for (int n = 0; n < N; n++)
                for (int k = 0; k < V; k++)
                    sum[r][n] = fmaf(b[k], a[n][k], sum[r][n]);
        }
    }
}

/* The parts of warps are added up in order. */
template <int N, int V>
static __global__ void __launch_bounds__(MATVEC_THREADS) matvec_kernel(matvec_call c)
{
    __shared__ float parts[MATVEC_WARPS][N * MATVEC_ROWS];
    const int warp = (int)threadIdx.x / WARP_SIZE, lane = (int)threadIdx.x % WARP_SIZE;
    const int first = (int)blockIdx.x * MATVEC_ROWS, i = (int)threadIdx.x;
    const int o =
        first + i % MATVEC_ROWS; /* the row that this thread writes at the end */
    if constexpr (V > 1)
        prefetch_rows(c.bytes ? (const void *)c.bytes : c.copy,
                      c.stride * (c.bytes ? sizeof(int8_t) : sizeof(act)), first,
                      MATVEC_ROWS, c.O);
    wait_for_earlier();
    const float scale = c.scales && o < c.O ? c.scales[o] : 1.0f;
    float sum[MATVEC_ROWS][N] = {};
    if (c.bytes)
        dot_rows<N, V>(sum, &c, c.bytes, first);
    else
        dot_rows<N, V>(sum, &c, c.copy, first);
#pragma unroll
    for (int at = 0; at < N * MATVEC_ROWS; at++) {
        const float part = warp_sum(sum[at % MATVEC_ROWS][at / MATVEC_ROWS]);
        if (lane == 0)
            parts[warp][at] = part;
    }
    __syncthreads();
    if (i >= N * MATVEC_ROWS || o >= c.O)
        return;
    float y = 0.0f;
    for (int w = 0; w < MATVEC_WARPS; w++)
        y += parts[w][i];
    y *= scale;
    const size_t at = (size_t)(i / MATVEC_ROWS) * (size_t)c.O + (size_t)o;
    if (c.out)
        c.out[at] = __float2bfloat16_rn(y);
    else
        c.wide[at] = y;
}

template <int N> static void multiply(pl_backend *be, const matvec_call *c)
{
    const unsigned grid = blocks_for((size_t)c->O, MATVEC_ROWS);
    if (acts_width(c->I) == ACTS_WIDE)
        PL_LAUNCH_EARLY(cuda_self(be), (matvec_kernel<N, ACTS_WIDE>), grid,
                        MATVEC_THREADS, 0, *c);
    else
        PL_LAUNCH_EARLY(cuda_self(be), (matvec_kernel<N, 1>), grid, MATVEC_THREADS, 0,
                        *c);
}

void cuda_matvec(pl_backend *be, pl_act *out, float *wide, const pl_act *x,
                 const pl_weight *w, int N)
{
    const size_t stride = w->bytes ? cuda_bytes_stride(w->I) : (size_t)w->I;
    const matvec_call c = {cuda_acts(x), w->copy, w->bytes,       w->scales, stride,
                           w->O,         w->I,    cuda_acts(out), wide};
    if (N == 1)
        multiply<1>(be, &c);
    else if (N == 2)
        multiply<2>(be, &c);
    else if (N == 3)
        multiply<3>(be, &c);
    else
        multiply<4>(be, &c);
}
