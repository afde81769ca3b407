/* The product with the last matrix, together with cross-entropy, for one chunk of rows
 * at a time:
 *
 *   logits = x w^T        fp32, cuBLASLt, in scratch, for a part of the chunk's rows,
 *                         so that the logits are still in the second-level cache when
 *   loss, dlogits         one kernel reads them, a block for each row; dlogits bf16,
 *                         in scratch, for all rows of the chunk
 *   dx = dlogits w        dw (+)= dlogits^T x
 *
 * cuda_chunk_rows (plan_cuda.h) chooses the rows of a chunk. With a vocabulary of 32k a
 * chunk has more than a thousand rows, which is enough for full use of the matrix
 * units. A chunk has whole tiles of rows, so that the operands of every chunk have the
 * same alignment.
 *
 * The kernel reads a row twice: once for its largest logit and the sum of exponentials,
 * once for the gradient. For long rows a block has so many threads that the rows of all
 * running blocks fit into the second-level cache, from which the second reading is
 * served. */
#include "modules/cuda/ops_cuda.cuh"
#include "modules/cuda/warp.cuh"
#include <math.h>

enum { BLOCK_SHORT = 128, BLOCK_LONG = 1024, V_LONG = 8192 };

struct classifier_rows {
    float *loss;
    act *dlogits; /* NULL if no gradients are computed */
    const float *logits;
    const int32_t *targets;
    const float *scale;
    int V;
    size_t stride; /* distance between rows of logits and of dlogits */
};

enum { W = ACTS_WIDE }; /* logits that a thread reads at once */

/* Reads W logits from number v on. What comes after the last one of V counts as -inf,
 * which adds nothing to any sum. */
static __device__ void load_logits(float (&x)[W], const float *row, int v, int V)
{
    if (v + W <= V) {
        load_floats<W>(x, row + v);
        return;
    }
    for (int i = 0; i < W; i++)
        x[i] = v + i < V ? row[v + i] : -INFINITY;
}

/* Returns log sum_v exp(row[v]) to every thread. */
template <int THREADS> static __device__ float row_log_sum(const float *row, int V)
{
    __shared__ float largest[THREADS / WARP_SIZE], sums[THREADS / WARP_SIZE];
    float top = -INFINITY, sum = 0.0f;
    for (int v = (int)threadIdx.x * W; v < V; v += THREADS * W) {
        float x[W];
        load_logits(x, row, v, V);
        float most = top;
        for (int i = 0; i < W; i++)
            most = fmaxf(most, x[i]);
        sum *= expf(top - most);
        for (int i = 0; i < W; i++)
            sum += expf(x[i] - most);
        top = most;
    }
    const float all = block_max<THREADS>(top, largest);
    return all + logf(block_sum<THREADS>(sum * expf(top - all), sums));
}

/* Writes loss[n] and, if dlogits is not NULL, the derivatives of *scale * loss with
 * respect to the logits. */
template <int THREADS>
static __global__ void __launch_bounds__(THREADS) classifier_kernel(classifier_rows c)
{
    const size_t row = (size_t)blockIdx.x * c.stride;
    const int target = c.targets[blockIdx.x];
    const float lse = row_log_sum<THREADS>(c.logits + row, c.V);
    if (threadIdx.x == 0)
        c.loss[blockIdx.x] = target < 0 ? 0.0f : lse - c.logits[row + (size_t)target];
    if (!c.dlogits)
        return;
    const float factor = *c.scale;
    for (int v = (int)threadIdx.x * W; v < c.V; v += THREADS * W) {
        float x[W];
        load_logits(x, c.logits + row, v, c.V);
        for (int i = 0; i < W; i++) {
            const float p = expf(x[i] - lse) - (v + i == target ? 1.0f : 0.0f);
            x[i] = target < 0 ? 0.0f : factor * p;
        }
        store_acts<W>(c.dlogits + row + v, x);
    }
}

static void classify(pl_backend *be, unsigned n, classifier_rows c)
{
    if (c.V >= V_LONG)
        PL_LAUNCH(classifier_kernel<BLOCK_LONG>, n, BLOCK_LONG, 0, cuda_stream(be), c);
    else
        PL_LAUNCH(classifier_kernel<BLOCK_SHORT>, n, BLOCK_SHORT, 0, cuda_stream(be),
                  c);
}

void cuda_classifier(pl_backend *be, float *loss, pl_act *dx, float *dw,
                     const pl_act *x, const pl_weight *w, const int32_t *targets,
                     const float *scale, int N, int V, int C, bool accumulate)
{
    const size_t chunk = cuda_chunk_rows((size_t)N, (size_t)V, dx != NULL);
    const size_t stride = cuda_logit_stride((size_t)V);
    const size_t part = cuda_logit_rows(chunk, (size_t)V);
    const int step = (int)stride;
    uint8_t *scratch = static_cast<uint8_t *>(cuda_scratch(
        cuda_self(be), cuda_classifier_bytes((size_t)N, (size_t)V, dx != NULL)));
    if (!scratch)
        return;
    uint8_t *behind = scratch + cuda_lines(part * stride * sizeof(float));
    float *logits = reinterpret_cast<float *>(scratch);
    act *dlogits = dx ? reinterpret_cast<act *>(behind) : NULL;
    for (size_t n = 0; n < (size_t)N; n += chunk) {
        const int rows = (int)(chunk < (size_t)N - n ? chunk : (size_t)N - n);
        const act *in = cuda_acts(x) + n * (size_t)C;
        for (size_t i = 0; i < (size_t)rows; i += part) {
            const int some = (int)(part < (size_t)rows - i ? part : (size_t)rows - i);
            const gemm_call forward = {GEMM_NT, some,  V,      C,
                                       PL_F32,  false, logits, in + i * (size_t)C,
                                       w->copy, 0,     step};
            const classifier_rows c = {
                loss + n + i, dlogits ? dlogits + i * stride : NULL,
                logits,       targets + n + i,
                scale,        V,
                stride};
            cuda_multiply(be, &forward);
            classify(be, (unsigned)some, c);
        }
        if (!dx)
            continue;
        act *to = cuda_acts(dx) + n * (size_t)C;
        const gemm_call to_x = {GEMM_NN, rows, C,       V,       PL_BF16,
                                false,   to,   dlogits, w->copy, step};
        const gemm_call to_w = {GEMM_TN, V,       C,  rows, PL_F32, accumulate || n > 0,
                                dw,      dlogits, in, step};
        cuda_multiply(be, &to_x);
        cuda_multiply(be, &to_w);
    }
}
