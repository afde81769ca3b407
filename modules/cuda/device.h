/* The seam between the house's kernels and who executes them.
 *
 * Every CUDA source includes this and no other header of NVIDIA's. With nvcc they are
 * NVIDIA's; without, a host compiler finds those of tests/emulation/toolkit, and the
 * kernels run on the CPU, checked (docs/CUDA.md). The four differences are here: how a
 * kernel is launched, where dynamic shared memory lies, what is cleared for initcheck,
 * and (mma.cuh) what a tensor-core instruction is.
 */
#ifndef PL_MODULES_CUDA_DEVICE_H
#define PL_MODULES_CUDA_DEVICE_H
#include "base/base.h"
#include <cuda_bf16.h>
#include <cuda_runtime.h>

/* Launches kernel(arguments...) on `stream`; a template's name in parentheses. Grid and
 * block as int or dim3, `shared` dynamic bytes. A failure surfaces at device_sync. */
#ifdef __CUDACC__
#define PL_LAUNCH(kernel, grid, block, shared, stream, ...)                            \
    (kernel)<<<(grid), (block), (shared), (stream)>>>(__VA_ARGS__)
#else
#define PL_LAUNCH(kernel, grid, block, shared, stream, ...)                            \
    emulated_launch(#kernel, (kernel), (grid), (block), (shared), (stream), __VA_ARGS__)
#endif

/* The block's dynamic shared memory, aligned to 16 bytes. */
__device__ inline void *dynamic_shared()
{
#ifdef __CUDACC__
    extern __shared__ __align__(16) unsigned char block_memory[];
    return block_memory;
#else
    return emulated_dynamic_shared();
#endif
}

enum { WARP_SIZE = 32 };

/* Blocks of `size` that cover n things; n is below 2^31 * size. */
static inline unsigned blocks_for(size_t n, size_t size)
{
    return (unsigned)((n + size - 1) / size);
}

/* PL_OK, or ERR_DEVICE (ERR_NOMEM where memory ran out) with what was being done and
 * what the device says. */
PL_MUST_CHECK pl_status device_check(cudaError_t error, const char *what);

/* Zeroes, in the stream's order, memory that cuBLAS writes, once when it is allocated:
 * compute-sanitizer's initcheck does not follow all that a library's kernels write, and
 * would report our reading of it. Not in the emulation, which knows what a product
 * wrote, and would no longer find what nobody did. */
PL_MUST_CHECK pl_status device_clear_for_libraries(void *memory, size_t bytes,
                                                   cudaStream_t stream);

/* Waits for the stream; a failure of anything launched before surfaces here. */
PL_MUST_CHECK pl_status device_sync(cudaStream_t stream, const char *what);

#endif
