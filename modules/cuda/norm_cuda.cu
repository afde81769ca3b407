/* RMSNorm over the last axis, after a residual sum (arXiv:1910.07467, eq. 4).
 *
 * A warp owns a row. The sum with the residual is rounded to bf16 as it is stored, and
 * the norm is that of the stored row: what backward reads is what forward normed. The
 * second pass over the row finds it in the cache.
 */
#include "modules/cuda/acts.cuh"
#include "modules/cuda/ops_cuda.cuh"
#include "modules/cuda/warp.cuh"

enum { ROWS = 4 }; /* a block: one warp each */

/* x += residual in place; returns this lane's part of sum_c x^2. */
template <int V>
static __device__ float add_residual(act *x, const act *residual, int lane, int C)
{
    float squares = 0.0f;
    for (int c = lane * V; c < C; c += WARP_SIZE * V) {
        float a[V], b[V];
        load_acts<V>(a, x + c);
        if (residual) {
            load_acts<V>(b, residual + c);
            for (int i = 0; i < V; i++)
                a[i] = __bfloat162float(__float2bfloat16_rn(a[i] + b[i]));
            store_acts<V>(x + c, a);
        }
        for (int i = 0; i < V; i++)
            squares = fmaf(a[i], a[i], squares);
    }
    return squares;
}

template <int V>
static __global__ void __launch_bounds__(ROWS *WARP_SIZE)
    rmsnorm_forward_kernel(act *out, float *rstd, act *x, const act *residual,
                           const float *w, int N, int C, float eps)
{
    const int lane = (int)threadIdx.x % WARP_SIZE;
    const int n = (int)blockIdx.x * ROWS + (int)threadIdx.x / WARP_SIZE;
    if (n >= N)
        return; /* the whole warp: rows belong to warps */
    const size_t row = (size_t)n * (size_t)C;
    const act *add = residual ? residual + row : NULL;
    const float mean = warp_sum(add_residual<V>(x + row, add, lane, C)) / (float)C;
    const float r = 1.0f / sqrtf(mean + eps);
    if (lane == 0)
        rstd[n] = r;
    for (int c = lane * V; c < C; c += WARP_SIZE * V) {
        float a[V], scale[V];
        load_acts<V>(a, x + row + c);
        load_floats<V>(scale, w + c);
        for (int i = 0; i < V; i++)
            a[i] = a[i] * r * scale[i];
        store_acts<V>(out + row + c, a);
    }
}

void cuda_rmsnorm_forward(pl_backend *be, pl_act *out, float *rstd, pl_act *x,
                          const pl_act *residual, const float *w, int N, int C,
                          float eps)
{
    const unsigned grid = blocks_for((size_t)N, ROWS), block = ROWS * WARP_SIZE;
    if (acts_width(C) == ACTS_WIDE)
        PL_LAUNCH((rmsnorm_forward_kernel<ACTS_WIDE>), grid, block, 0, cuda_stream(be),
                  cuda_acts(out), rstd, cuda_acts(x), cuda_acts(residual), w, N, C,
                  eps);
    else
        PL_LAUNCH((rmsnorm_forward_kernel<1>), grid, block, 0, cuda_stream(be),
                  cuda_acts(out), rstd, cuda_acts(x), cuda_acts(residual), w, N, C,
                  eps);
}
