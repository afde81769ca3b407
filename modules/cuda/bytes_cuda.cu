/* Weights of one byte, for decoding. Each row is scaled by its largest element and
 * rounded to the nearest of 255 steps, as in the cpu backend (cpu/matmul_cpu.c).
 *
 *   w[o,i] ~ scale[o] q[o,i],   scale[o] = max_i |w[o,i]| / 127
 *
 * A decoding step multiplies the bytes directly (matvec_cuda.cu, rows_cuda.cu). A
 * longer prompt is multiplied by cuBLASLt, for which the matrix is converted to bf16 in
 * scratch memory. */
#include "modules/cuda/ops_cuda.cuh"
#include "modules/cuda/warp.cuh"

enum { BYTES_WARPS = 4, BYTES_THREADS = BYTES_WARPS * WARP_SIZE };

/* Converts a matrix to bytes, one warp per row; the padding of a row is 0. */
static __global__ void __launch_bounds__(BYTES_THREADS)
    bytes_encode_kernel(int8_t *bytes, float *scales, const float *master,
                        size_t stride, int O, int I)
{
    const int lane = (int)threadIdx.x % WARP_SIZE;
    const int o = (int)blockIdx.x * BYTES_WARPS + (int)threadIdx.x / WARP_SIZE;
    float most = 0.0f;
    if (o >= O)
        return; /* all lanes of the warp return */
    const float *row = master + (size_t)o * (size_t)I;
    int8_t *to = bytes + (size_t)o * stride;
    for (int i = lane; i < I; i += WARP_SIZE)
        most = fmaxf(most, fabsf(row[i]));
    most = warp_max(most);
    const float inverse = most > 0.0f ? 127.0f / most : 0.0f;
    if (lane == 0)
        scales[o] = most / 127.0f;
    for (int i = lane; i < (int)stride; i += WARP_SIZE)
        to[i] = (int8_t)(i < I ? __float2int_rn(row[i] * inverse) : 0);
}

/* Converts the bytes to the bf16 matrix `copy` [O,I], with one warp per row. With
 * __restrict__ the compiler issues the loads of several iterations before the first
 * store. */
template <int V>
static __global__ void __launch_bounds__(BYTES_THREADS)
    bytes_decode_kernel(act *__restrict__ copy, const int8_t *__restrict__ bytes,
                        const float *scales, size_t stride, int O, int I)
{
    const int lane = (int)threadIdx.x % WARP_SIZE;
    const int o = (int)blockIdx.x * BYTES_WARPS + (int)threadIdx.x / WARP_SIZE;
    if (o >= O)
        return;
    const float scale = scales[o];
#pragma unroll 4
    for (int i = lane * V; i < I; i += WARP_SIZE * V) {
        float x[V];
        to_floats(x, load_raw<V>(bytes + (size_t)o * stride + i));
        for (int k = 0; k < V; k++)
            x[k] *= scale;
        store_acts<V>(copy + (size_t)o * (size_t)I + i, x);
    }
}

void cuda_bytes_encode(pl_backend *be, const pl_weight *w)
{
    PL_LAUNCH(bytes_encode_kernel, blocks_for((size_t)w->O, BYTES_WARPS), BYTES_THREADS,
              0, cuda_stream(be), w->bytes, w->scales, w->master,
              cuda_bytes_stride(w->I), w->O, w->I);
}

template <int V> static void decode(pl_backend *be, act *copy, const pl_weight *w)
{
    PL_LAUNCH((bytes_decode_kernel<V>), blocks_for((size_t)w->O, BYTES_WARPS),
              BYTES_THREADS, 0, cuda_stream(be), copy, w->bytes, w->scales,
              cuda_bytes_stride(w->I), w->O, w->I);
}

const act *cuda_bytes_decode(pl_backend *be, const pl_weight *w)
{
    act *copy = static_cast<act *>(cuda_scratch(cuda_self(be), w->n * sizeof(act)));
    if (copy && acts_width(w->I) == ACTS_WIDE)
        decode<ACTS_WIDE>(be, copy, w);
    else if (copy)
        decode<1>(be, copy, w);
    return copy;
}
