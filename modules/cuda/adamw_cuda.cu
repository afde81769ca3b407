/* AdamW (arXiv:1711.05101) and the gradient norm for clipping. The kernels round
 * wherever the reference rounds, so parameters and moments get the reference's bytes.
 *
 * The sum of squares uses the same number of blocks on every device. Each block sums
 * its share of the elements; then one block adds up these sums. */
#include "modules/cuda/ops_cuda.cuh"
#include "modules/cuda/warp.cuh"
#include <math.h>

enum { ADAMW_THREADS = 256, ADAMW_WARPS = ADAMW_THREADS / WARP_SIZE };

static __global__ void __launch_bounds__(ADAMW_THREADS)
    squares_kernel(double *part, const float *g, size_t n)
{
    __shared__ double scratch[ADAMW_WARPS];
    double sum = square_share(g, n, (size_t)blockIdx.x * ADAMW_THREADS + threadIdx.x,
                              (size_t)gridDim.x * ADAMW_THREADS);
    sum = block_sum<ADAMW_THREADS>(sum, scratch);
    if (threadIdx.x == 0)
        part[blockIdx.x] = sum;
}

static __global__ void __launch_bounds__(ADAMW_THREADS)
    squares_sum_kernel(double *out, const double *part, int n)
{
    __shared__ double scratch[ADAMW_WARPS];
    double sum = 0.0;
    for (int i = (int)threadIdx.x; i < n; i += ADAMW_THREADS)
        sum += part[i];
    sum = block_sum<ADAMW_THREADS>(sum, scratch);
    if (threadIdx.x == 0)
        *out = sum;
}

void cuda_sum_squares(pl_backend *be, double *out, const float *g, size_t n)
{
    const unsigned blocks =
        min((unsigned)CUDA_SUM_BLOCKS, blocks_for(n, ADAMW_THREADS));
    double *part = static_cast<double *>(
        cuda_scratch(cuda_self(be), CUDA_SUM_BLOCKS * sizeof(double)));
    if (!part)
        return;
    PL_LAUNCH(squares_kernel, blocks, ADAMW_THREADS, 0, cuda_stream(be), part, g, n);
    PL_LAUNCH(squares_sum_kernel, 1, ADAMW_THREADS, 0, cuda_stream(be), out, part,
              (int)blocks);
}

/* The constants of a step; mass1 and mass2 are 1 - beta^step. */
struct adamw_step {
    float lr, beta1, beta2, eps, weight_decay, mass1, mass2, grad_scale;
};

static __global__ void __launch_bounds__(ADAMW_THREADS)
    adamw_kernel(float *p, float *m, float *v, float *g, act *copy, size_t n,
                 adamw_step a)
{
    const size_t i = (size_t)blockIdx.x * ADAMW_THREADS + threadIdx.x;
    if (i >= n)
        return;
    const float gradient = g[i] * a.grad_scale;
    const float first = a.beta1 * m[i] + (1.0f - a.beta1) * gradient;
    const float second = a.beta2 * v[i] + (1.0f - a.beta2) * gradient * gradient;
    const float step = (first / a.mass1) / (sqrtf(second / a.mass2) + a.eps);
    const float before = p[i];
    const float after[1] = {before - a.lr * (step + a.weight_decay * before)};
    p[i] = after[0];
    m[i] = first;
    v[i] = second;
    if (copy)
        store_acts<1>(copy + i, after);
    else
        g[i] = 0.0f;
}

void cuda_adamw(pl_backend *be, float *p, float *m, float *v, float *g, size_t n,
                float grad_scale, const pl_adamw *adam, const pl_weight *w)
{
    const double steps = (double)adam->step;
    const adamw_step a = {adam->lr,
                          adam->beta1,
                          adam->beta2,
                          adam->eps,
                          adam->weight_decay,
                          (float)(1.0 - pow((double)adam->beta1, steps)),
                          (float)(1.0 - pow((double)adam->beta2, steps)),
                          grad_scale};
    PL_LAUNCH(adamw_kernel, blocks_for(n, ADAMW_THREADS), ADAMW_THREADS, 0,
              cuda_stream(be), p, m, v, g, w ? w->copy + (p - w->master) : NULL, n, a);
}
