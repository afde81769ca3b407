/* The boundary between the kernels and the machine that executes them.
 *
 * Every CUDA source includes this header instead of NVIDIA's headers. With nvcc, this
 * header includes those of NVIDIA. With a host compiler, it includes those of
 * tests/gpu/emulation/toolkit, and the kernels run on the CPU with checks
 * (docs/CUDA.md). GPU and emulation differ in four points: how a kernel is launched,
 * where dynamic shared memory lies, which memory is cleared for initcheck (all in this
 * header), and how a tensor-core instruction is executed (mma.cuh). */
#ifndef PL_MODULES_CUDA_DEVICE_H
#define PL_MODULES_CUDA_DEVICE_H
#include "base/base.h"
#include <cuda_bf16.h>
#include <cuda_runtime.h>

/* Launches kernel(arguments...) on `stream`; write a template's name in parentheses.
 * Grid and block are int or dim3; `shared` is the dynamic shared memory in bytes.
 * device_sync reports a failure. */
#ifdef __CUDACC__
#define PL_LAUNCH(kernel, grid, block, shared, stream, ...)                            \
    (kernel)<<<(grid), (block), (shared), (stream)>>>(__VA_ARGS__)
#else
#define PL_LAUNCH(kernel, grid, block, shared, stream, ...)                            \
    emulated_launch(#kernel, (kernel), (grid), (block), (shared), (stream), __VA_ARGS__)
#endif

/* The block's dynamic shared memory, aligned to 1024 bytes (mma.cuh says why). */
__device__ inline void *dynamic_shared()
{
#ifdef __CUDACC__
    extern __shared__ __align__(1024) unsigned char block_memory[];
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

/* Turns an error code of CUDA into a status: PL_OK, ERR_NOMEM if memory ran out, else
 * ERR_DEVICE. The error text has `what`, the work that failed, and CUDA's own text. */
PL_MUST_CHECK pl_status device_check(cudaError_t error, const char *what);

/* Zeroes memory for results of cuBLAS, once when it is allocated, in the stream's
 * order. Without this, compute-sanitizer's initcheck reports errors where kernels read
 * such memory, because it does not see all writes of a library's kernels. The emulation
 * does not zero the memory: it knows what a product wrote, and zeros would hide memory
 * that was never written. */
PL_MUST_CHECK pl_status device_clear_for_libraries(void *memory, size_t bytes,
                                                   cudaStream_t stream);

/* Waits for the stream. Returns the failure of any work that was launched before. */
PL_MUST_CHECK pl_status device_sync(cudaStream_t stream, const char *what);

#endif
