/* out = x w^T for a few rows of x, as a decoding step needs it. Reading every weight
 * once takes most of the time. There is one warp per row of w for any number of rows of
 * x, so the result for a row of x does not depend on the other rows.
 *
 * Weights are bf16, or bytes with a scale for each row (bytes_cuda.cu). */
#include "modules/cuda/ops_cuda.cuh"
#include "modules/cuda/warp.cuh"

enum { WARPS = 4, THREADS = WARPS * WARP_SIZE };

struct matvec_call {
    const act *x; /* [N,I] */
    const act *copy;
    const int8_t *bytes; /* rows, `stride` bytes apart */
    const float *scales; /* a scale per row of bytes; NULL if weights are bf16 */
    size_t stride;
    int O, I;
    act *out;    /* [N,O]; or NULL */
    float *wide; /* [N,O] in fp32, used if out is NULL */
};

template <int V> static __device__ void load_row(float out[V], const act *row)
{
    load_acts<V>(out, row);
}

template <int V> static __device__ void load_row(float out[V], const int8_t *row)
{
    if constexpr (V == 1) {
        out[0] = (float)row[0];
    } else {
        const uint2 raw = *reinterpret_cast<const uint2 *>(row);
        for (int i = 0; i < 4; i++) {
            out[i] = (float)(int8_t)(raw.x >> (8 * i) & 255u);
            out[i + 4] = (float)(int8_t)(raw.y >> (8 * i) & 255u);
        }
    }
}

/* Computes this lane's part of sum_i x[n,i] row[i] for N rows. */
template <int N, int V, class T>
static __device__ void dot_row(float sum[N], const act *x, const T *row, int I)
{
    const int lane = (int)threadIdx.x % WARP_SIZE;
#pragma unroll 4
    for (int i = lane * V; i < I; i += WARP_SIZE * V) {
        float w[V], a[V];
        load_row<V>(w, row + i);
#pragma unroll
        for (int n = 0; n < N; n++) {
            load_acts<V>(a, x + (size_t)n * (size_t)I + i);
            for (int k = 0; k < V; k++)
                sum[n] = fmaf(w[k], a[k], sum[n]);
        }
    }
}

template <int N, int V>
static __global__ void __launch_bounds__(THREADS) matvec_kernel(matvec_call c)
{
    const int o = (int)blockIdx.x * WARPS + (int)threadIdx.x / WARP_SIZE;
    float sum[N] = {0.0f};
    if (o >= c.O)
        return; /* all lanes of the warp return */
    if (c.bytes)
        dot_row<N, V>(sum, c.x, c.bytes + (size_t)o * c.stride, c.I);
    else
        dot_row<N, V>(sum, c.x, c.copy + (size_t)o * c.stride, c.I);
    const float scale = c.scales ? c.scales[o] : 1.0f;
#pragma unroll
    for (int n = 0; n < N; n++) {
        const float y = warp_sum(sum[n]) * scale;
        const size_t at = (size_t)n * (size_t)c.O + (size_t)o;
        if (threadIdx.x % WARP_SIZE > 0)
            continue;
        if (c.out)
            c.out[at] = __float2bfloat16_rn(y);
        else
            c.wide[at] = y;
    }
}

template <int N> static void multiply(pl_backend *be, const matvec_call *c)
{
    const unsigned grid = blocks_for((size_t)c->O, WARPS);
    if (acts_width(c->I) == ACTS_WIDE)
        PL_LAUNCH((matvec_kernel<N, ACTS_WIDE>), grid, THREADS, 0, cuda_stream(be), *c);
    else
        PL_LAUNCH((matvec_kernel<N, 1>), grid, THREADS, 0, cuda_stream(be), *c);
}

static void multiply_some(pl_backend *be, int n, const matvec_call *c)
{
    if (n == 1)
        multiply<1>(be, c);
    else if (n == 2)
        multiply<2>(be, c);
    else if (n == 3)
        multiply<3>(be, c);
    else
        multiply<4>(be, c);
}

void cuda_matvec(pl_backend *be, pl_act *out, float *wide, const pl_act *x,
                 const pl_weight *w, int N)
{
    matvec_call c = {};
    c.copy = w->copy;
    c.bytes = w->bytes;
    c.scales = w->scales;
    c.stride = w->bytes ? cuda_bytes_stride(w->I) : (size_t)w->I;
    c.O = w->O;
    c.I = w->I;
    c.x = cuda_acts(x);
    c.out = cuda_acts(out);
    c.wide = wide;
    multiply_some(be, N, &c);
}
