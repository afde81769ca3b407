/* Converts activations between bf16 and fp32, changes the order of rows of activations,
 * and computes means of rows. */
#include "modules/cuda/ops_cuda.cuh"

enum { CAST_THREADS = 256 };

template <int V>
static __global__ void __launch_bounds__(CAST_THREADS)
    cast_to_float_kernel(float *out, const act *in, size_t n)
{
    const size_t i = ((size_t)blockIdx.x * CAST_THREADS + threadIdx.x) * V;
    if (i >= n)
        return;
    float x[V];
    load_acts<V>(x, in + i);
    store_floats<V>(out + i, x);
}

template <int V>
static __global__ void __launch_bounds__(CAST_THREADS)
    cast_from_float_kernel(act *out, const float *in, size_t n)
{
    const size_t i = ((size_t)blockIdx.x * CAST_THREADS + threadIdx.x) * V;
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
                  blocks_for(n, (size_t)CAST_THREADS * ACTS_WIDE), CAST_THREADS, 0,
                  cuda_stream(be), out, cuda_acts(in), n);
    else
        PL_LAUNCH((cast_to_float_kernel<1>), blocks_for(n, CAST_THREADS), CAST_THREADS,
                  0, cuda_stream(be), out, cuda_acts(in), n);
}

void cuda_act_from_float(pl_backend *be, pl_act *out, const float *in, size_t n)
{
    if (acts_width_of(n, in, out) == ACTS_WIDE)
        PL_LAUNCH((cast_from_float_kernel<ACTS_WIDE>),
                  blocks_for(n, (size_t)CAST_THREADS * ACTS_WIDE), CAST_THREADS, 0,
                  cuda_stream(be), cuda_acts(out), in, n);
    else
        PL_LAUNCH((cast_from_float_kernel<1>), blocks_for(n, CAST_THREADS),
                  CAST_THREADS, 0, cuda_stream(be), cuda_acts(out), in, n);
}

/* Each thread handles one column, so no other thread reads what it writes. */
static __global__ void __launch_bounds__(CAST_THREADS)
    permute_rows_kernel(act *x, act *scratch, const int32_t *order, int N, int C)
{
    const size_t c = (size_t)blockIdx.x * CAST_THREADS + threadIdx.x, row = (size_t)C;
    if (c >= row)
        return;
    for (int n = 0; n < N; n++)
        scratch[(size_t)n * row + c] = x[(size_t)order[n] * row + c];
    for (int n = 0; n < N; n++)
        x[(size_t)n * row + c] = scratch[(size_t)n * row + c];
}

void cuda_permute_rows(pl_backend *be, pl_act *x, pl_act *scratch, const int32_t *order,
                       int N, int C)
{
    PL_LAUNCH(permute_rows_kernel, blocks_for((size_t)C, CAST_THREADS), CAST_THREADS, 0,
              cuda_stream(be), cuda_acts(x), cuda_acts(scratch), order, N, C);
}

/* A thread sums one column of one sequence, in the order of the reference. */
static __global__ void __launch_bounds__(CAST_THREADS)
    mean_rows_kernel(float *out, const act *x, const int32_t *lengths, int B, int T,
                     int C)
{
    const size_t i = (size_t)blockIdx.x * CAST_THREADS + threadIdx.x;
    const size_t b = i / (size_t)C, c = i % (size_t)C;
    if (b >= (size_t)B)
        return;
    const int n = lengths[b];
    double sum = 0.0;
    for (int t = 0; t < n; t++)
        sum += (double)__bfloat162float(x[(b * (size_t)T + (size_t)t) * (size_t)C + c]);
    out[i] = (float)(sum / n);
}

void cuda_mean_rows(pl_backend *be, float *out, const pl_act *x, const int32_t *lengths,
                    int B, int T, int C)
{
    PL_LAUNCH(mean_rows_kernel, blocks_for((size_t)B * (size_t)C, CAST_THREADS),
              CAST_THREADS, 0, cuda_stream(be), out, cuda_acts(x), lengths, B, T, C);
}
