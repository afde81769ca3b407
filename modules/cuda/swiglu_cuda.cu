/* SwiGLU (arXiv:2002.05202): out = silu(gate) * up. A row of gu has the F values of
 * gate, then the F values of up. */
#include "modules/cuda/ops_cuda.cuh"

enum { SWIGLU_THREADS = 256 };

static __device__ float device_sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

/* Finds the row and the first column of this thread's V elements of [N,F]. Returns
 * false if the thread has none. */
template <int V> static __device__ bool place(size_t *n, size_t *f, int N, int F)
{
    const size_t i = ((size_t)blockIdx.x * SWIGLU_THREADS + threadIdx.x) * V;
    *n = i / (size_t)F;
    *f = i % (size_t)F;
    return i < (size_t)N * (size_t)F;
}

template <int V>
static __global__ void __launch_bounds__(SWIGLU_THREADS)
    swiglu_forward_kernel(act *out, const act *gu, int N, int F)
{
    size_t n, f;
    wait_for_earlier();
    if (!place<V>(&n, &f, N, F))
        return;
    const act *at = gu + n * 2 * (size_t)F + f;
    float gate[V], up[V];
    load_acts<V>(gate, at);
    load_acts<V>(up, at + F);
    for (int i = 0; i < V; i++)
        gate[i] = gate[i] * device_sigmoid(gate[i]) * up[i];
    store_acts<V>(out + n * (size_t)F + f, gate);
}

template <int V>
static __global__ void __launch_bounds__(SWIGLU_THREADS)
    swiglu_backward_kernel(act *dgu, const act *dout, const act *gu, int N, int F)
{
    size_t n, f;
    if (!place<V>(&n, &f, N, F))
        return;
    const size_t at = n * 2 * (size_t)F + f;
    float gate[V], up[V], dy[V];
    load_acts<V>(gate, gu + at);
    load_acts<V>(up, gu + at + F);
    load_acts<V>(dy, dout + n * (size_t)F + f);
    for (int i = 0; i < V; i++) {
        const float g = gate[i], s = device_sigmoid(g);
        gate[i] = dy[i] * up[i] * s * (1.0f + g * (1.0f - s));
        up[i] = dy[i] * g * s;
    }
    store_acts<V>(dgu + at, gate);
    store_acts<V>(dgu + at + F, up);
}

void cuda_swiglu_forward(pl_backend *be, pl_act *out, const pl_act *gu, int N, int F)
{
    const size_t n = (size_t)N * (size_t)F;
    if (acts_width(F) == ACTS_WIDE)
        PL_LAUNCH_EARLY(cuda_self(be), (swiglu_forward_kernel<ACTS_WIDE>),
                        blocks_for(n / ACTS_WIDE, SWIGLU_THREADS), SWIGLU_THREADS, 0,
                        cuda_acts(out), cuda_acts(gu), N, F);
    else
        PL_LAUNCH_EARLY(cuda_self(be), (swiglu_forward_kernel<1>),
                        blocks_for(n, SWIGLU_THREADS), SWIGLU_THREADS, 0,
                        cuda_acts(out), cuda_acts(gu), N, F);
}

void cuda_swiglu_backward(pl_backend *be, pl_act *dgu, const pl_act *dout,
                          const pl_act *gu, int N, int F)
{
    const size_t n = (size_t)N * (size_t)F;
    if (acts_width(F) == ACTS_WIDE)
        PL_LAUNCH((swiglu_backward_kernel<ACTS_WIDE>),
                  blocks_for(n / ACTS_WIDE, SWIGLU_THREADS), SWIGLU_THREADS, 0,
                  cuda_stream(be), cuda_acts(dgu), cuda_acts(dout), cuda_acts(gu), N,
                  F);
    else
        PL_LAUNCH((swiglu_backward_kernel<1>), blocks_for(n, SWIGLU_THREADS),
                  SWIGLU_THREADS, 0, cuda_stream(be), cuda_acts(dgu), cuda_acts(dout),
                  cuda_acts(gu), N, F);
}
