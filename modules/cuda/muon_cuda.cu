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

enum { MUON_THREADS = 256 };

/* Parts of `work` (pl_muon_work_floats). */
struct muon_work {
    float *x, *gram;
    act *x16, *gram16, *mix16;
    double *squares;
};

/* ---- kernels ---- */

static __global__ void __launch_bounds__(MUON_THREADS)
    muon_momentum_kernel(float *m, float *g, size_t n, float factor)
{
    const size_t i = (size_t)blockIdx.x * MUON_THREADS + threadIdx.x;
    if (i < n)
        muon_momentum(m + i, g + i, g[i] * factor);
}

static __global__ void __launch_bounds__(MUON_THREADS)
    muon_load_kernel(float *x, const float *u, const double *squares, size_t n)
{
    const size_t i = (size_t)blockIdx.x * MUON_THREADS + threadIdx.x;
    const float scale = (float)(1.0 / (sqrt(*squares) + (double)PL_MUON_TINY));
    if (i < n)
        x[i] = u[i] * scale;
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

static void add_product(pl_backend *be, gemm_kind kind, int M, int N, int K, float *c,
                        const act *a, const act *b, bool accumulate)
{
    gemm_call call = {};
    call.kind = kind;
    call.M = M;
    call.N = N;
    call.K = K;
    call.type = PL_F32;
    call.accumulate = accumulate;
    call.c = c;
    call.a = a;
    call.b = b;
    cuda_multiply(be, &call);
}

static void iterate_matrix(pl_backend *be, const muon_work *w, int O, int I)
{
    const float q[3] = PL_MUON_QUINTIC;
    const bool tall = O >= I;
    const int S = tall ? I : O, L = tall ? O : I;
    const size_t n = (size_t)O * (size_t)I, square = (size_t)S * (size_t)S;
    split_matrix(be, w->x16, w->x, n, 1.0f, q[0]);
    add_product(be, tall ? GEMM_TN : GEMM_NT, S, S, L, w->gram, w->x16, w->x16, false);
    split_matrix(be, w->gram16, w->gram, square, 1.0f, q[1] / q[2]);
    add_product(be, GEMM_NN, S, S, S, w->gram, w->gram16, w->gram16, true);
    split_matrix(be, w->mix16, w->gram, square, q[2], 1.0f);
    add_product(be, GEMM_NN, O, I, S, w->x, tall ? w->x16 : w->mix16,
                tall ? w->mix16 : w->x16, true);
}

void cuda_muon_step(pl_backend *be, float *p, float *u, act *copy, float *work, int n,
                    int O, int I, const muon_rates *rates)
{
    const size_t size = (size_t)O * (size_t)I, all = pl_muon_work_floats(O, I);
    const size_t line = cuda_lines(size * sizeof(float)) / sizeof(float);
    const size_t side = (size_t)min(O, I);
    const size_t tiles = (side + 63) / 64 * 64, square = tiles * tiles;
    const unsigned blocks = blocks_for(size, MUON_THREADS);
    const float scale = PL_MUON_SCALE * sqrtf((float)max(O, I));
    muon_work w;
    w.x = work;
    w.x16 = reinterpret_cast<act *>(work + line);
    w.gram = work + (all - 2 * square);
    w.gram16 = reinterpret_cast<act *>(w.gram + square);
    w.mix16 = w.gram16 + square;
    w.squares = reinterpret_cast<double *>(w.gram) - 1;
    for (int k = 0; k < n; k++, p += size, u += size, copy += copy ? size : 0) {
        cuda_sum_squares(be, w.squares, u, size);
        PL_LAUNCH(muon_load_kernel, blocks, MUON_THREADS, 0, cuda_stream(be), w.x, u,
                  w.squares, size);
        for (int i = 0; i < PL_MUON_ITERATIONS; i++)
            iterate_matrix(be, &w, O, I);
        PL_LAUNCH(muon_apply_kernel, blocks, MUON_THREADS, 0, cuda_stream(be), p, u,
                  w.x, copy, size, scale, *rates);
    }
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
