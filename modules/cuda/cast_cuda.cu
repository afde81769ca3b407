/* Converts activations between bf16 and fp32. */
#include "modules/cuda/ops_cuda.cuh"

enum { THREADS = 256 };

template <int V>
static __global__ void __launch_bounds__(THREADS)
    cast_to_float_kernel(float *out, const act *in, size_t n)
{
    const size_t i = ((size_t)blockIdx.x * THREADS + threadIdx.x) * V;
    if (i >= n)
        return;
    float x[V];
    load_acts<V>(x, in + i);
    store_floats<V>(out + i, x);
}

template <int V>
static __global__ void __launch_bounds__(THREADS)
    cast_from_float_kernel(act *out, const float *in, size_t n)
{
    const size_t i = ((size_t)blockIdx.x * THREADS + threadIdx.x) * V;
    if (i >= n)
        return;
    float x[V];
    load_floats<V>(x, in + i);
    store_acts<V>(out + i, x);
}

void cuda_act_to_float(pl_backend *be, float *out, const pl_act *in, size_t n)
{
    if (acts_width_of(n, in, out) == ACTS_WIDE)
        PL_LAUNCH((cast_to_float_kernel<ACTS_WIDE>),
                  blocks_for(n, (size_t)THREADS * ACTS_WIDE), THREADS, 0,
                  cuda_stream(be), out, cuda_acts(in), n);
    else
        PL_LAUNCH((cast_to_float_kernel<1>), blocks_for(n, THREADS), THREADS, 0,
                  cuda_stream(be), out, cuda_acts(in), n);
}

void cuda_act_from_float(pl_backend *be, pl_act *out, const float *in, size_t n)
{
    if (acts_width_of(n, in, out) == ACTS_WIDE)
        PL_LAUNCH((cast_from_float_kernel<ACTS_WIDE>),
                  blocks_for(n, (size_t)THREADS * ACTS_WIDE), THREADS, 0,
                  cuda_stream(be), cuda_acts(out), in, n);
    else
        PL_LAUNCH((cast_from_float_kernel<1>), blocks_for(n, THREADS), THREADS, 0,
                  cuda_stream(be), cuda_acts(out), in, n);
}
