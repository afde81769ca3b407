/* Converts operands of forward products to fp8 (e4m3). Each tensor is scaled by its
 * largest element:
 *
 *   x ~ scale q,   scale = max |x| / 448
 *
 * The maximum does not depend on the order of elements. cuBLASLt multiplies the result
 * by both scales when it stores it (gemm_cuda.h). NaN stays NaN, and an infinite
 * element makes all elements NaN or their scale infinite. So the loss is not finite,
 * and the step reports it. */
#include "modules/cuda/ops_cuda.cuh"
#include "modules/cuda/warp.cuh"
#include <cuda_fp8.h>

enum { SMALL_THREADS = 256, SMALL_WARPS = SMALL_THREADS / WARP_SIZE };

static const float largest_small = 448.0f;
/* If the largest element of a tensor is below this number, the tensor counts as zero,
 * because the inverse of its scale would not be finite. */
static const float smallest_most = 1e-30f;

static __global__ void __launch_bounds__(SMALL_THREADS)
    small_largest_kernel(float *parts, const act *x, size_t n)
{
    __shared__ float scratch[SMALL_WARPS];
    const size_t stride = (size_t)gridDim.x * SMALL_THREADS * ACTS_WIDE;
    float most = 0.0f;
    for (size_t i = ((size_t)blockIdx.x * SMALL_THREADS + threadIdx.x) * ACTS_WIDE;
         i < n; i += stride) {
        float a[ACTS_WIDE];
        load_acts<ACTS_WIDE>(a, x + i);
        for (int k = 0; k < ACTS_WIDE; k++)
            most = fmaxf(most, fabsf(a[k]));
    }
    most = block_max<SMALL_THREADS>(most, scratch);
    if (threadIdx.x == 0)
        parts[blockIdx.x] = most;
}

static __device__ unsigned pack_four(const float x[4], float inverse)
{
    unsigned packed = 0;
    for (int k = 0; k < 4; k++)
        packed |=
            (unsigned)__nv_cvt_float_to_fp8(x[k] * inverse, __NV_SATFINITE, __NV_E4M3)
            << (8 * k);
    return packed;
}

/* Converts x to fp8 and writes its scale; n is a multiple of ACTS_WIDE. */
static __global__ void __launch_bounds__(SMALL_THREADS)
    small_encode_kernel(uint8_t *out, float *scale, const float *parts, int n_parts,
                        const act *x, size_t n)
{
    __shared__ float scratch[SMALL_WARPS];
    float most = 0.0f;
    for (int i = (int)threadIdx.x; i < n_parts; i += SMALL_THREADS)
        most = fmaxf(most, parts[i]);
    most = block_max<SMALL_THREADS>(most, scratch);
    const bool any = most > smallest_most;
    if (blockIdx.x == 0 && threadIdx.x == 0)
        *scale = any ? most / largest_small : 1.0f;
    const float inverse = any ? largest_small / most : 1.0f;
    const size_t i = ((size_t)blockIdx.x * SMALL_THREADS + threadIdx.x) * ACTS_WIDE;
    if (i >= n)
        return;
    float a[ACTS_WIDE];
    load_acts<ACTS_WIDE>(a, x + i);
    *reinterpret_cast<uint2 *>(out + i) =
        make_uint2(pack_four(a, inverse), pack_four(a + 4, inverse));
}

static void encode_operand(pl_backend *be, uint8_t *out, float *scale, float *parts,
                           const act *x, size_t n)
{
    const unsigned blocks = blocks_for(n, (size_t)SMALL_THREADS * ACTS_WIDE);
    const unsigned n_parts = min(blocks, (unsigned)CUDA_SMALL_PARTS);
    PL_LAUNCH(small_largest_kernel, n_parts, SMALL_THREADS, 0, cuda_stream(be), parts,
              x, n);
    PL_LAUNCH(small_encode_kernel, blocks, SMALL_THREADS, 0, cuda_stream(be), out,
              scale, parts, (int)n_parts, x, n);
}

void cuda_small_refresh(pl_backend *be, pl_weight *const *weights, int n)
{
    float *parts = NULL;
    for (int i = 0; i < n; i++) {
        const pl_weight *w = weights[i];
        if (!w->small_copy)
            continue;
        parts = static_cast<float *>(
            cuda_scratch(cuda_self(be), CUDA_SMALL_PARTS * sizeof(float)));
        if (!parts)
            return;
        encode_operand(be, w->small_copy, w->small_scale, parts, w->copy, w->n);
    }
}

bool cuda_small_acts(pl_backend *be, const pl_act *x, size_t n, cuda_small *out)
{
    const size_t line = cuda_lines(CUDA_SMALL_PARTS * sizeof(float));
    uint8_t *at =
        static_cast<uint8_t *>(cuda_scratch(cuda_self(be), cuda_small_bytes(n)));
    if (!at)
        return false;
    float *scale = reinterpret_cast<float *>(at + line);
    uint8_t *values = at + line + cuda_lines(sizeof(float));
    encode_operand(be, values, scale, reinterpret_cast<float *>(at), cuda_acts(x), n);
    *out = cuda_small{values, scale};
    return true;
}
