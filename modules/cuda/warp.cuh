/* Sums and maxima over a warp and over a block, always in the same order. */
#ifndef PL_MODULES_CUDA_WARP_CUH
#define PL_MODULES_CUDA_WARP_CUH
#include "modules/cuda/device.h"

/* Every lane gets the sum; the order is that of a butterfly. */
template <class T> __device__ inline T warp_sum(T value)
{
    for (int step = WARP_SIZE / 2; step > 0; step /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, step);
    return value;
}

template <class T> __device__ inline T warp_max(T value)
{
    for (int step = WARP_SIZE / 2; step > 0; step /= 2)
        value = max(value, __shfl_xor_sync(0xffffffffu, value, step));
    return value;
}

/* Every thread of a block of THREADS gets the sum over all. `scratch` is shared, one
 * value a warp; it is free again after the block's next barrier. */
template <int THREADS, class T> __device__ inline T block_sum(T value, T *scratch)
{
    const int warp = (int)threadIdx.x / WARP_SIZE, lane = (int)threadIdx.x % WARP_SIZE;
    value = warp_sum(value);
    if (lane == 0)
        scratch[warp] = value;
    __syncthreads();
    return warp_sum(lane < THREADS / WARP_SIZE ? scratch[lane] : T(0));
}

/* The same for the maximum. */
template <int THREADS, class T> __device__ inline T block_max(T value, T *scratch)
{
    const int warp = (int)threadIdx.x / WARP_SIZE, lane = (int)threadIdx.x % WARP_SIZE;
    value = warp_max(value);
    if (lane == 0)
        scratch[warp] = value;
    __syncthreads();
    return warp_max(scratch[lane < THREADS / WARP_SIZE ? lane : 0]);
}

#endif
