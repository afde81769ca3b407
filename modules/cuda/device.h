/* The boundary between the kernels and the machine that executes them.
 *
 * Every CUDA source includes this header instead of NVIDIA's headers. With nvcc, this
 * header includes those of NVIDIA. With a host compiler, it includes those of
 * tests/gpu/emulation/toolkit, and the kernels run on the CPU with checks
 * (docs/CUDA.md). GPU and emulation differ in these points: how a kernel is launched,
 * where dynamic shared memory lies, how a kernel waits for earlier kernels, how memory
 * is prefetched, which memory is cleared for initcheck (all in this header), how
 * instructions of tensor cores and asynchronous copies are executed (mma.cuh), how two
 * acts are packed (acts.cuh), and how cuBLASLt is found (blas.cu). */
#pragma once
#include "base/base.h"
#include <cuda_bf16.h>
#include <cuda_runtime.h>

/* Launches kernel(arguments...) on `stream`; write a template's name in parentheses.
 * Grid and block are int or dim3; `shared` is the dynamic shared memory in bytes.
 * PL_LAUNCH reports no failure: if the launch or the kernel fails, the next device_sync
 * returns the error. */
#ifdef __CUDACC__
#define PL_LAUNCH(kernel, grid, block, shared, stream, ...)                            \
    (kernel)<<<(grid), (block), (shared), (stream)>>>(__VA_ARGS__)
#else
#define PL_LAUNCH(kernel, grid, block, shared, stream, ...)                            \
    emulated_launch(#kernel, false, (kernel), (grid), (block), (shared), (stream),     \
                    __VA_ARGS__)
#endif

/* Launches a kernel that may start while the kernels before it still run, so that the
 * start of a kernel, about 2 us, costs no time (programmatic dependent launch). Each of
 * its threads must call wait_for_earlier before its first access to device memory. The
 * emulation checks this. `self` (cuda_state) has the stream, and says whether the
 * device can start kernels early. */
#ifdef __CUDACC__
#define PL_LAUNCH_EARLY(self, kernel, grid, block, shared, ...)                        \
    device_launch_early((kernel), (grid), (block), (shared), (self)->stream,           \
                        (self)->launches_early, __VA_ARGS__)
template <class... P, class... A>
static inline void device_launch_early(void (*kernel)(P...), dim3 grid, dim3 block,
                                       size_t shared, cudaStream_t stream, bool early,
                                       A... values)
{
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = early ? 1 : 0;
    (void)cudaLaunchKernelEx(&config, kernel, static_cast<P>(values)...);
}
#else
#define PL_LAUNCH_EARLY(self, kernel, grid, block, shared, ...)                        \
    emulated_launch(#kernel, (self)->launches_early, (kernel), (grid), (block),        \
                    (shared), (self)->stream, __VA_ARGS__)
#endif

/* Allows the next kernel to start, and waits until all earlier kernels have ended and
 * their results are visible. In a kernel that was launched by PL_LAUNCH this function
 * does not wait. */
__device__ inline void wait_for_earlier()
{
#ifndef __CUDACC__
    emulated_wait_for_earlier();
#elif __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;\n"
                 "griddepcontrol.wait;\n" ::
                     : "memory");
#endif
}

/* Loads memory into the L2 cache; allowed before wait_for_earlier, because L2 is common
 * to all multiprocessors. Address and size are multiples of 16. */
__device__ inline void prefetch_l2(const void *from, size_t bytes)
{
#ifndef __CUDACC__
    emulated_prefetch(from, bytes);
#elif __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;\n" ::"l"(
                     __cvta_generic_to_global(from)),
                 "r"((unsigned)bytes)
                 : "memory");
#else
    (void)from, (void)bytes;
#endif
}

/* Whether a device of this capability (major * 100 + minor * 10) runs kernels that
 * contain the instruction of wait_for_earlier. */
static inline bool device_launches_early(int capability)
{
#ifdef __CUDACC__
    for (const int compiled : {__CUDA_ARCH_LIST__})
        if (compiled >= 900 && compiled <= capability)
            return true;
    return false;
#else
    return capability >= 900;
#endif
}

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

/* Returns how many blocks of `size` elements cover n elements; n must be below 2^31 *
 * size. */
static inline unsigned blocks_for(size_t n, size_t size)
{
    return (unsigned)((n + size - 1) / size);
}

/* Turns an error code of CUDA into a status: PL_OK, ERR_NOMEM if memory ran out, else
 * ERR_DEVICE. The error text has `what`, the work that failed, and CUDA's own text. */
pl_status device_check(cudaError_t error, const char *what);

/* Zeroes memory that will hold results of cuBLAS. Call this once, when the memory is
 * allocated; the stream executes the zeroing. Without this, compute-sanitizer's
 * initcheck reports errors where kernels read such memory, because it does not see all
 * writes of a library's kernels. The emulation does not zero the memory: it knows what
 * a product wrote, and zeros would hide memory that was never written. */
pl_status device_clear_for_libraries(void *memory, size_t bytes, cudaStream_t stream);

/* Waits for the stream. Returns the failure of any work that was launched before. */
pl_status device_sync(cudaStream_t stream, const char *what);
