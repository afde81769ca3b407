/* Muon (modules/ops.h) on a GPU: momentum, then Newton-Schulz. As in the layers,
 * products have bf16 operands and are summed in fp32.
 *
 * X and its Gram matrix are kept in fp32 and rounded to bf16 only for products. The
 * three lines below are one iteration. On the left, a matrix is copied to bf16 (x16,
 * g16, m16), and the matrix or its copy is multiplied by a number. On the right, a
 * product of bf16 copies overwrites a matrix or is added to it.
 *
 *   x16 = X,  X = a X            G = x16^T x16            (tall; x16 x16^T if wide)
 *   g16 = G,  G = b/c G          G = G + g16 g16
 *   m16 = c G                    X = X + x16 m16          (m16 x16) */
#include "modules/cuda/muon_cuda.cuh"
#include "modules/cuda/warp.cuh"

enum {
    MUON_THREADS = 256,
    MUON_PARTS = 64, /* partial sums of the squares of a matrix */
    MUON_LOADS = 8   /* elements that a thread of muon_load_kernel reads */
};

/* Parts of `work` (pl_muon_work_floats): the matrices of n products follow each
 * other. */
struct muon_work {
    int n, O, I;
    float *x, *gram;
    act *x16, *gram16, *mix16;
    double *squares; /* [n, MUON_PARTS] */
};

/* ---- kernels ---- */

static __global__ void __launch_bounds__(MUON_THREADS)
    muon_momentum_kernel(float *m, float *g, size_t n, float factor)
{
    const size_t i = (size_t)blockIdx.x * MUON_THREADS + threadIdx.x;
    if (i < n)
        muon_momentum(m + i, g + i, g[i] * factor);
}

/* Block (i, k) sums the squares of part i of matrix k. */
static __global__ void __launch_bounds__(MUON_THREADS)
    muon_squares_kernel(double *squares, const float *u, size_t size)
{
    __shared__ double sums[MUON_THREADS / WARP_SIZE];
    double sum = 0.0;
    for (size_t i = (size_t)blockIdx.x * MUON_THREADS + threadIdx.x; i < size;
         i += (size_t)MUON_PARTS * MUON_THREADS) {
        const double value = (double)u[(size_t)blockIdx.y * size + i];
        sum += value * value;
    }
    sum = block_sum<MUON_THREADS>(sum, sums);
    if (threadIdx.x == 0)
        squares[(size_t)blockIdx.y * MUON_PARTS + blockIdx.x] = sum;
}

/* Writes x = u / (|u| + tiny) for matrix blockIdx.y. */
static __global__ void __launch_bounds__(MUON_THREADS)
    muon_load_kernel(float *x, const float *u, const double *squares, size_t size)
{
    __shared__ double sums[MUON_THREADS / WARP_SIZE];
    const size_t first = (size_t)blockIdx.x * MUON_THREADS * MUON_LOADS + threadIdx.x;
    const size_t at = (size_t)blockIdx.y * size;
    const double part = threadIdx.x < MUON_PARTS
                            ? squares[(size_t)blockIdx.y * MUON_PARTS + threadIdx.x]
                            : 0.0;
    const double sum = block_sum<MUON_THREADS>(part, sums);
    const float scale = (float)(1.0 / (sqrt(sum) + (double)PL_MUON_TINY));
    for (size_t k = 0, i = first; k < MUON_LOADS && i < size; k++, i += MUON_THREADS)
        x[at + i] = u[at + i] * scale;
}

/* Writes out = before * x, then x = after * x. */
static __global__ void __launch_bounds__(MUON_THREADS)
    muon_split_kernel(act *out, float *x, size_t n, float before, float after)
{
    const size_t i = (size_t)blockIdx.x * MUON_THREADS + threadIdx.x;
    if (i >= n)
        return;
    const float value[1] = {x[i] * before};
    store_acts<1>(out + i, value);
    x[i] *= after;
}

static __global__ void __launch_bounds__(MUON_THREADS)
    muon_apply_kernel(float *p, float *g, const float *x, act *copy, size_t n,
                      float scale, muon_rates rates)
{
    const size_t i = (size_t)blockIdx.x * MUON_THREADS + threadIdx.x;
    if (i >= n)
        return;
    g[i] = 0.0f;
    if (rates.squares && !isfinite(*rates.squares))
        return;
    const float lr = rates.numbers ? rates.numbers->adam.lr : rates.lr;
    const float decay =
        rates.numbers ? rates.numbers->adam.weight_decay : rates.weight_decay;
    const float value[1] = {p[i] - lr * (x[i] * scale + decay * p[i])};
    p[i] = value[0];
    if (copy)
        store_acts<1>(copy + i, value);
}

/* ---- Newton-Schulz ---- */

static void split_matrix(pl_backend *be, act *out, float *x, size_t n, float before,
                         float after)
{
    PL_LAUNCH(muon_split_kernel, blocks_for(n, MUON_THREADS), MUON_THREADS, 0,
              cuda_stream(be), out, x, n, before, after);
}

static void iterate_matrices(pl_backend *be, const muon_work *w)
{
    const float q[3] = PL_MUON_QUINTIC;
    const bool tall = w->O >= w->I;
    const int S = tall ? w->I : w->O, L = tall ? w->O : w->I;
    const size_t n = (size_t)w->n * (size_t)w->O * (size_t)w->I;
    const size_t square = (size_t)w->n * (size_t)S * (size_t)S;
    const act *left = tall ? w->x16 : w->mix16, *right = tall ? w->mix16 : w->x16;
    const gemm_call gram = {tall ? GEMM_TN : GEMM_NT,
                            S,
                            S,
                            L,
                            PL_F32,
                            false,
                            w->gram,
                            w->x16,
                            w->x16,
                            0,
                            0,
                            w->n};
    const gemm_call gram2 = {GEMM_NN, S,         S,         S, PL_F32, true,
                             w->gram, w->gram16, w->gram16, 0, 0,      w->n};
    const gemm_call step = {GEMM_NN, w->O, w->I,  S, PL_F32, true,
                            w->x,    left, right, 0, 0,      w->n};
    split_matrix(be, w->x16, w->x, n, 1.0f, q[0]);
    cuda_multiply(be, &gram);
    split_matrix(be, w->gram16, w->gram, square, 1.0f, q[1] / q[2]);
    cuda_multiply(be, &gram2);
    split_matrix(be, w->mix16, w->gram, square, q[2], 1.0f);
    cuda_multiply(be, &step);
}

/* Returns the part of `work` that begins at *at, and moves *at behind it. */
template <class T> static T *take_part(uint8_t **at, size_t n)
{
    T *part = reinterpret_cast<T *>(*at);
    *at += cuda_lines(n * sizeof(T));
    return part;
}

void cuda_muon_step(pl_backend *be, float *p, float *u, act *copy, float *work, int n,
                    int O, int I, const muon_rates *rates)
{
    const size_t size = (size_t)O * (size_t)I, all = (size_t)n * size;
    const size_t side = (size_t)min(O, I), squares = (size_t)n * side * side;
    const unsigned loads = blocks_for(size, MUON_THREADS * MUON_LOADS);
    uint8_t *at = reinterpret_cast<uint8_t *>(work);
    muon_work w = {};
    w.n = n;
    w.O = O;
    w.I = I;
    w.x = take_part<float>(&at, all);
    w.gram = take_part<float>(&at, squares);
    w.x16 = take_part<act>(&at, all);
    w.gram16 = take_part<act>(&at, squares);
    w.mix16 = take_part<act>(&at, squares);
    w.squares = take_part<double>(&at, (size_t)n * MUON_PARTS);
    PL_LAUNCH(muon_squares_kernel, dim3(MUON_PARTS, (unsigned)n), MUON_THREADS, 0,
              cuda_stream(be), w.squares, u, size);
    PL_LAUNCH(muon_load_kernel, dim3(loads, (unsigned)n), MUON_THREADS, 0,
              cuda_stream(be), w.x, u, w.squares, size);
    for (int i = 0; i < PL_MUON_ITERATIONS; i++)
        iterate_matrices(be, &w);
    PL_LAUNCH(muon_apply_kernel, blocks_for(all, MUON_THREADS), MUON_THREADS, 0,
              cuda_stream(be), p, u, w.x, copy, all,
              PL_MUON_SCALE * sqrtf((float)max(O, I)), *rates);
}

void cuda_muon(pl_backend *be, float *p, float *m, float *g, float *work, int n, int O,
               int I, float grad_scale, const pl_adamw *adam)
{
    const size_t all = (size_t)n * (size_t)O * (size_t)I;
    const muon_rates rates = {adam->lr, adam->weight_decay, NULL, NULL};
    PL_LAUNCH(muon_momentum_kernel, blocks_for(all, MUON_THREADS), MUON_THREADS, 0,
              cuda_stream(be), m, g, all, grad_scale);
    cuda_muon_step(be, p, g, NULL, work, n, O, I, &rates);
}
