/* The boundary between the kernels and the machine that executes them.
 *
 * Every CUDA source includes this header and none of NVIDIA's. nvcc finds NVIDIA's own
 * headers; without it a host compiler finds those of tests/gpu/emulation/toolkit, and
 * the kernels run on the CPU with checks (docs/CUDA.md). GPU and emulation differ in
 * four points, which are hidden here: how a kernel is launched, where dynamic shared
 * memory lies, which memory is cleared for initcheck, and (mma.cuh) how a tensor-core
 * instruction is executed. */
#ifndef PL_MODULES_CUDA_DEVICE_H
#define PL_MODULES_CUDA_DEVICE_H
#include "base/base.h"
#include <cuda_bf16.h>
#include <cuda_runtime.h>

/* Launches kernel(arguments...) on `stream`; write a template's name in parentheses.
 * Grid and block are int or dim3; `shared` is the dynamic shared memory in bytes. A
 * failure surfaces at device_sync. */
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

/* Returns how many blocks of `size` cover n things; n is below 2^31 * size. */
static inline unsigned blocks_for(size_t n, size_t size)
{
    return (unsigned)((n + size - 1) / size);
}

/* Returns PL_OK, or ERR_DEVICE (ERR_NOMEM if memory ran out); the error has `what`, the
 * work that failed, and the device's own text. */
PL_MUST_CHECK pl_status device_check(cudaError_t error, const char *what);

/* Zeroes memory that cuBLAS writes, in the stream's order, once when it is allocated.
 * compute-sanitizer's initcheck does not see all that a library's kernels write, and
 * would report errors where we read it. The emulation does not clear: it knows what a
 * product wrote, and clearing would hide memory that nothing wrote. */
PL_MUST_CHECK pl_status device_clear_for_libraries(void *memory, size_t bytes,
                                                   cudaStream_t stream);

/* Waits for the stream; a failure of anything launched before surfaces here. */
PL_MUST_CHECK pl_status device_sync(cudaStream_t stream, const char *what);

#endif
