/* The last matrix with cross-entropy, a chunk of rows at a time:
 *
 *   logits = x w^T        fp32, cuBLASLt, in scratch
 *   loss, dlogits         one kernel, a block for each row; dlogits bf16, in scratch
 *   dx = dlogits w        dw += dlogits^T x
 *
 * The chunk is as many rows as CHUNK_BYTES hold: with 32k words and these 256 MiB, a
 * thousand rows, enough for full matrix units.
 */
#include "modules/cuda/ops_cuda.cuh"
#include "modules/cuda/warp.cuh"

enum { THREADS = 256, WARPS = THREADS / WARP_SIZE };
enum { CHUNK_BYTES = 256 << 20, CHUNK_MIN = 16 };

/* log sum_v exp(row[v]); all threads get it. */
static __device__ float row_log_sum(const float *row, int V)
{
    __shared__ float largest[WARPS], sums[WARPS];
    float top = row[0];
    for (int v = (int)threadIdx.x; v < V; v += THREADS)
        top = fmaxf(top, row[v]);
    top = block_max<THREADS>(top, largest);
    float sum = 0.0f;
    for (int v = (int)threadIdx.x; v < V; v += THREADS)
        sum += expf(row[v] - top);
    return top + logf(block_sum<THREADS>(sum, sums));
}

/* loss[n], and with dlogits d(*scale * loss) / d logits. */
static __global__ void __launch_bounds__(THREADS)
    classifier_kernel(float *loss, act *dlogits, const float *logits,
                      const int32_t *targets, const float *scale, int V)
{
    const size_t row = (size_t)blockIdx.x * (size_t)V;
    const int target = targets[blockIdx.x];
    const float lse = row_log_sum(logits + row, V);
    if (threadIdx.x == 0)
        loss[blockIdx.x] = target < 0 ? 0.0f : lse - logits[row + (size_t)target];
    if (!dlogits)
        return;
    const float factor = *scale;
    for (int v = (int)threadIdx.x; v < V; v += THREADS) {
        const size_t at = row + (size_t)v;
        const float p = expf(logits[at] - lse) - (v == target ? 1.0f : 0.0f);
        dlogits[at] = __float2bfloat16_rn(target < 0 ? 0.0f : factor * p);
    }
}

static size_t rows_of_chunk(int N, int V, bool gradients)
{
    const size_t row = (size_t)V * (sizeof(float) + (gradients ? sizeof(act) : 0));
    size_t rows = CHUNK_BYTES / row;
    if (rows < CHUNK_MIN)
        rows = CHUNK_MIN;
    return rows < (size_t)N ? rows : (size_t)N;
}

void cuda_classifier(pl_backend *be, float *loss, pl_act *dx, float *dw,
                     const pl_act *x, const pl_weight *w, const int32_t *targets,
                     const float *scale, int N, int V, int C)
{
    const size_t chunk = rows_of_chunk(N, V, dx != NULL);
    const size_t logit_bytes = cuda_lines(chunk * (size_t)V * sizeof(float));
    uint8_t *scratch = static_cast<uint8_t *>(cuda_scratch(
        cuda_self(be), logit_bytes + (dx ? chunk * (size_t)V * sizeof(act) : 0)));
    if (!scratch)
        return;
    float *logits = reinterpret_cast<float *>(scratch);
    pl_act *dlogits = dx ? reinterpret_cast<pl_act *>(scratch + logit_bytes) : NULL;
    for (size_t n = 0; n < (size_t)N; n += chunk) {
        const size_t rows = chunk < (size_t)N - n ? chunk : (size_t)N - n;
        const pl_act *in =
            reinterpret_cast<const pl_act *>(cuda_acts(x) + n * (size_t)C);
        cuda_logits(be, logits, in, w, (int)rows, V, C);
        PL_LAUNCH(classifier_kernel, (unsigned)rows, THREADS, 0, cuda_stream(be),
                  loss + n, cuda_acts(dlogits), logits, targets + n, scale, V);
        if (!dx)
            continue;
        pl_act *to = reinterpret_cast<pl_act *>(cuda_acts(dx) + n * (size_t)C);
        cuda_matmul_dx(be, to, dlogits, w, (int)rows, V, C, false);
        cuda_matmul_dw(be, dw, dlogits, in, (int)rows, V, C);
    }
}
