/* Sums and maxima over a warp and over a block, always in the same order. */
#pragma once
#include "modules/cuda/device.h"

/* Returns the sum over the lanes of a warp to every lane. Lane l adds the value of lane
 * l ^ 16, then of lane l ^ 8, and so on. */
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

/* Returns the sum over a block of `warps` warps to each of its threads. `scratch` is
 * shared memory with one value per warp; it may be used again after the block's next
 * barrier. */
template <class T> __device__ inline T block_sum_of(T value, T *scratch, int warps)
{
    const int warp = (int)threadIdx.x / WARP_SIZE, lane = (int)threadIdx.x % WARP_SIZE;
    value = warp_sum(value);
    if (lane == 0)
        scratch[warp] = value;
    __syncthreads();
    return warp_sum(lane < warps ? scratch[lane] : T(0));
}

template <int THREADS, class T> __device__ inline T block_sum(T value, T *scratch)
{
    return block_sum_of(value, scratch, THREADS / WARP_SIZE);
}

/* Returns the maximum over a block to each of its threads. */
template <int THREADS, class T> __device__ inline T block_max(T value, T *scratch)
{
    const int warp = (int)threadIdx.x / WARP_SIZE, lane = (int)threadIdx.x % WARP_SIZE;
    value = warp_max(value);
    if (lane == 0)
        scratch[warp] = value;
    __syncthreads();
    return warp_max(scratch[lane < THREADS / WARP_SIZE ? lane : 0]);
}

/* Returns a thread's share of sum g^2 if the work is divided among `stride` threads.
 * The thread reads four neighbours at a time if g is aligned for that, and the rest one
 * by one. A square is exact in double, so product and sum together are rounded only
 * once, with and without fused multiply-add. */
__device__ inline double square_share(const float *g, size_t n, size_t first,
                                      size_t stride)
{
    const size_t quads = reinterpret_cast<uintptr_t>(g) % 16 == 0 ? n / 4 : 0;
    double sum = 0.0;
#pragma unroll 4
    for (size_t i = first; i < quads; i += stride) {
        const float4 x = reinterpret_cast<const float4 *>(g)[i];
        sum = fma((double)x.x, (double)x.x, sum);
        sum = fma((double)x.y, (double)x.y, sum);
        sum = fma((double)x.z, (double)x.z, sum);
        sum = fma((double)x.w, (double)x.w, sum);
    }
    for (size_t i = 4 * quads + first; i < n; i += stride)
        sum = fma((double)g[i], (double)g[i], sum);
    return sum;
}
