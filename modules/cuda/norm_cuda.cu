/* RMSNorm over the last axis, after the residual addition (arXiv:1910.07467, eq. 4),
 * and QK norm. norm_backward_cuda.cu has the backward pass of RMSNorm.
 *
 * Forward pass: one block computes a row, because a decoding step has only a few rows.
 * The sum with the residual is rounded to bf16 when it is stored, and the norm is
 * computed from the rounded row, so the forward and the backward pass use the same
 * values. A row of up to ROW_THREADS_MAX * 8 elements stays in registers; a wider row
 * is read again, from the cache.
 *
 * QK norm is RMSNorm of each query head and each key head: one warp computes one head
 * of a row. In its backward pass one thread sums dw of one column over a chunk of
 * rows. */
#include "modules/cuda/acts.cuh"
#include "modules/cuda/ops_cuda.cuh"
#include "modules/cuda/warp.cuh"

enum { NORM_ROWS = 4 }; /* heads of QK norm per block: one per warp */
enum { ROW_THREADS_MAX = 1024 };
enum { NORM_COLUMNS = 128 };

/* Returns sum a^2 of V elements. */
template <int V> static __device__ float sum_squares(const float a[V])
{
    float squares = 0.0f;
    for (int i = 0; i < V; i++)
        squares = fmaf(a[i], a[i], squares);
    return squares;
}

/* Loads V elements of x. If there is a residual, adds it and stores the sum to x. */
template <int V>
static __device__ void load_sum(float a[V], act *x, const act *residual)
{
    float b[V];
    load_acts<V>(a, x);
    if (!residual)
        return;
    load_acts<V>(b, residual);
    for (int i = 0; i < V; i++)
        a[i] = __bfloat162float(__float2bfloat16_rn(a[i] + b[i]));
    store_acts<V>(x, a);
}

template <int V>
static __global__ void __launch_bounds__(ROW_THREADS_MAX)
    rmsnorm_forward_kernel(act *out, float *rstd, act *x, const act *residual,
                           const float *w, int C, float eps)
{
    __shared__ float sums[ROW_THREADS_MAX / WARP_SIZE];
    const int first = (int)threadIdx.x * V, step = (int)blockDim.x * V;
    const size_t row = (size_t)blockIdx.x * (size_t)C;
    float a[V] = {}, scale[V] = {}, squares = 0.0f;
    wait_for_earlier();
    for (int c = first; c < C; c += step) {
        load_floats<V>(scale, w + c);
        load_sum<V>(a, x + row + c, residual ? residual + row + c : NULL);
        squares += sum_squares<V>(a);
    }
    const float sum = block_sum_of(squares, sums, (int)blockDim.x / WARP_SIZE);
    const float r = 1.0f / sqrtf(sum / (float)C + eps);
    if (threadIdx.x == 0)
        rstd[blockIdx.x] = r;
    for (int c = first; c < C; c += step) {
        /* otherwise `a` and `scale` still hold the values that the loop above loaded */
        if (step < C) {
            load_floats<V>(scale, w + c);
            load_acts<V>(a, x + row + c);
        }
        for (int i = 0; i < V; i++)
            a[i] = a[i] * r * scale[i];
        store_acts<V>(out + row + c, a);
    }
}

template <int V>
static void rmsnorm_forward(pl_backend *be, act *out, float *rstd, act *x,
                            const act *residual, const float *w, int N, int C,
                            float eps)
{
    const unsigned warps = blocks_for((size_t)C, V * WARP_SIZE);
    const unsigned block = min(warps * WARP_SIZE, (unsigned)ROW_THREADS_MAX);
    PL_LAUNCH_EARLY(cuda_self(be), (rmsnorm_forward_kernel<V>), (unsigned)N, block, 0,
                    out, rstd, x, residual, w, C, eps);
}

void cuda_rmsnorm_forward(pl_backend *be, pl_act *out, float *rstd, pl_act *x,
                          const pl_act *residual, const float *w, int N, int C,
                          float eps)
{
    if (acts_width(C) == ACTS_WIDE)
        rmsnorm_forward<ACTS_WIDE>(be, cuda_acts(out), rstd, cuda_acts(x),
                                   cuda_acts(residual), w, N, C, eps);
    else
        rmsnorm_forward<1>(be, cuda_acts(out), rstd, cuda_acts(x), cuda_acts(residual),
                           w, N, C, eps);
}

/* ---- QK norm ---- */
/* The heads to which QK norm is applied: H query heads and G key heads in rows of
 * `stride` acts. */
struct head_plan {
    int N, H, heads, D; /* heads: H + G */
    size_t stride;
};

static head_plan plan_heads(int N, int H, int G, int D)
{
    return {N, H, H + G, D, (size_t)(H + 2 * G) * (size_t)D};
}

template <int V>
static __global__ void __launch_bounds__(NORM_ROWS *WARP_SIZE)
    head_norm_forward_kernel(act *qkv, act *before, float *rstd, const float *w,
                             head_plan plan, float eps)
{
    const int lane = (int)threadIdx.x % WARP_SIZE, D = plan.D;
    const size_t i = (size_t)blockIdx.x * NORM_ROWS + threadIdx.x / WARP_SIZE;
    wait_for_earlier();
    if (i >= (size_t)plan.N * (size_t)plan.heads)
        return; /* all lanes return, because a warp has one head */
    const size_t n = i / (size_t)plan.heads, h = i % (size_t)plan.heads;
    act *x = qkv + n * plan.stride + h * (size_t)D;
    const float *gain = h < (size_t)plan.H ? w : w + D;
    float squares = 0.0f;
    for (int d = lane * V; d < D; d += WARP_SIZE * V) {
        float a[V];
        load_acts<V>(a, x + d);
        squares += sum_squares<V>(a);
    }
    const float mean = warp_sum(squares) / (float)D;
    const float r = 1.0f / sqrtf(mean + eps);
    if (rstd && lane == 0)
        rstd[i] = r;
    for (int d = lane * V; d < D; d += WARP_SIZE * V) {
        float a[V], scale[V];
        load_acts<V>(a, x + d);
        if (before)
            store_acts<V>(before + i * (size_t)D + d, a);
        load_floats<V>(scale, gain + d);
        for (int k = 0; k < V; k++)
            a[k] = a[k] * r * scale[k];
        store_acts<V>(x + d, a);
    }
}

void cuda_head_norm_forward(pl_backend *be, pl_act *qkv, pl_act *before, float *rstd,
                            const float *w, int N, int H, int G, int D, float eps)
{
    const head_plan plan = plan_heads(N, H, G, D);
    const unsigned grid = blocks_for((size_t)N * (size_t)(H + G), NORM_ROWS);
    if (acts_width_of((size_t)D, w, w) == ACTS_WIDE)
        PL_LAUNCH_EARLY(cuda_self(be), (head_norm_forward_kernel<ACTS_WIDE>), grid,
                        NORM_ROWS * WARP_SIZE, 0, cuda_acts(qkv), cuda_acts(before),
                        rstd, w, plan, eps);
    else
        PL_LAUNCH_EARLY(cuda_self(be), (head_norm_forward_kernel<1>), grid,
                        NORM_ROWS * WARP_SIZE, 0, cuda_acts(qkv), cuda_acts(before),
                        rstd, w, plan, eps);
}

/* part[chunk, c] = sum of dqkv x rstd over the chunk's rows and over all heads of
 * queries (c < D) or of keys (c >= D). The kernel reads gradients that
 * head_norm_dx_kernel replaces afterwards. */
static __global__ void __launch_bounds__(NORM_COLUMNS)
    head_norm_dw_kernel(float *part, const act *dqkv, const act *before,
                        const float *rstd, head_plan plan)
{
    const int c = (int)blockIdx.y * NORM_COLUMNS + (int)threadIdx.x, D = plan.D;
    const int chunk = (int)blockIdx.x, end = min(plan.N, (chunk + 1) * CUDA_NORM_CHUNK);
    if (c >= 2 * D)
        return;
    const int first = c < D ? 0 : plan.H, last = c < D ? plan.H : plan.heads;
    float sum = 0.0f;
    for (int n = chunk * CUDA_NORM_CHUNK; n < end; n++)
        for (int h = first; h < last; h++) {
            const size_t head = (size_t)n * (size_t)plan.heads + (size_t)h;
            const size_t at = (size_t)h * (size_t)D + (size_t)(c % D);
            const float dy = __bfloat162float(dqkv[(size_t)n * plan.stride + at]);
            const float x = __bfloat162float(
                before[(size_t)n * (size_t)plan.heads * (size_t)D + at]);
            sum = fmaf(dy * x, rstd[head], sum);
        }
    part[(size_t)chunk * 2 * (size_t)D + (size_t)c] = sum;
}

/* Returns this lane's part of sum_c dy w x of a head. */
template <int V>
static __device__ float dot_scaled_head(const act *dout, const act *x, const float *w,
                                        int lane, int C)
{
    float sum = 0.0f;
    for (int c = lane * V; c < C; c += WARP_SIZE * V) {
        float dy[V], a[V], scale[V];
        load_acts<V>(dy, dout + c);
        load_acts<V>(a, x + c);
        load_floats<V>(scale, w + c);
        for (int i = 0; i < V; i++)
            sum = fmaf(dy[i] * scale[i], a[i], sum);
    }
    return sum;
}

template <int V>
static __global__ void __launch_bounds__(NORM_ROWS *WARP_SIZE)
    head_norm_dx_kernel(act *dqkv, const act *before, const float *w, const float *rstd,
                        head_plan plan)
{
    const int lane = (int)threadIdx.x % WARP_SIZE, D = plan.D;
    const size_t i = (size_t)blockIdx.x * NORM_ROWS + threadIdx.x / WARP_SIZE;
    if (i >= (size_t)plan.N * (size_t)plan.heads)
        return; /* all lanes of a warp have the same head */
    const size_t n = i / (size_t)plan.heads, h = i % (size_t)plan.heads;
    act *dx = dqkv + n * plan.stride + h * (size_t)D;
    const act *x = before + i * (size_t)D;
    const float *gain = h < (size_t)plan.H ? w : w + D;
    const float r = rstd[i];
    const float mean = warp_sum(dot_scaled_head<V>(dx, x, gain, lane, D)) / (float)D;
    const float slope = mean * r * r;
    for (int d = lane * V; d < D; d += WARP_SIZE * V) {
        float dy[V], a[V], scale[V];
        load_acts<V>(dy, dx + d);
        load_acts<V>(a, x + d);
        load_floats<V>(scale, gain + d);
        for (int k = 0; k < V; k++)
            dy[k] = r * (scale[k] * dy[k] - a[k] * slope);
        store_acts<V>(dx + d, dy);
    }
}

void cuda_head_norm_backward(pl_backend *be, pl_act *dqkv, float *dw,
                             const pl_act *before, const float *w, const float *rstd,
                             int N, int H, int G, int D)
{
    const head_plan plan = plan_heads(N, H, G, D);
    const size_t width = 2 * (size_t)D;
    const unsigned n_chunks = blocks_for((size_t)N, CUDA_NORM_CHUNK);
    const unsigned grid = blocks_for((size_t)N * (size_t)(H + G), NORM_ROWS);
    float *part = static_cast<float *>(
        cuda_scratch(cuda_self(be), cuda_norm_bytes((size_t)N, width)));
    if (!part)
        return;
    PL_LAUNCH(head_norm_dw_kernel, dim3(n_chunks, blocks_for(width, NORM_COLUMNS)),
              NORM_COLUMNS, 0, cuda_stream(be), part, cuda_acts(dqkv),
              cuda_acts(before), rstd, plan);
    cuda_norm_sum(be, dw, part, n_chunks, 2 * D);
    if (acts_width_of((size_t)D, w, w) == ACTS_WIDE)
        PL_LAUNCH((head_norm_dx_kernel<ACTS_WIDE>), grid, NORM_ROWS * WARP_SIZE, 0,
                  cuda_stream(be), cuda_acts(dqkv), cuda_acts(before), w, rstd, plan);
    else
        PL_LAUNCH((head_norm_dx_kernel<1>), grid, NORM_ROWS * WARP_SIZE, 0,
                  cuda_stream(be), cuda_acts(dqkv), cuda_acts(before), w, rstd, plan);
}
