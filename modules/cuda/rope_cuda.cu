/* Rotary position embedding (arXiv:2104.09864). As in Llama, elements i and i + D/2 of
 * a head are rotated as a pair. The cosines come from a table that the host computes in
 * double precision, as in the cpu backend: fp32 sines of large angles would be
 * wrong. */
#include "modules/cuda/ops_cuda.cuh"
#include <math.h>

enum { ROPE_THREADS = 256 };

/* The heads of a row that are rotated, and the tables of cosines and sines. */
struct rope_plan {
    int T, heads, half; /* heads: H + G; half: D/2 */
    size_t stride;      /* elements per row of qkv */
    const float *cosines, *sines;
    float sign;
    const int32_t *texts; /* for each row, where its text begins; NULL: at 0 */
};

template <int V>
static __global__ void __launch_bounds__(ROPE_THREADS)
    rope_kernel(act *qkv, rope_plan plan, size_t n_pairs)
{
    const size_t i = ((size_t)blockIdx.x * ROPE_THREADS + threadIdx.x) * V;
    if (i >= n_pairs)
        return;
    const size_t half = (size_t)plan.half, row_pairs = (size_t)plan.heads * half;
    const size_t row = i / row_pairs, head = i % row_pairs / half, at = i % half;
    const size_t begin = plan.texts ? (size_t)plan.texts[row] : 0;
    const size_t angle = (row % (size_t)plan.T - begin) * half + at;
    act *low = qkv + row * plan.stride + head * 2 * half + at;
    float a[V], b[V], c[V], s[V];
    load_acts<V>(a, low);
    load_acts<V>(b, low + half);
    load_floats<V>(c, plan.cosines + angle);
    load_floats<V>(s, plan.sines + angle);
    for (int k = 0; k < V; k++) {
        const float x = a[k], y = b[k], sine = s[k] * plan.sign;
        a[k] = x * c[k] - y * sine;
        b[k] = y * c[k] + x * sine;
    }
    store_acts<V>(low, a);
    store_acts<V>(low + half, b);
}

static pl_status make_rope_table(cuda_state *self, int n_positions, int D, double theta)
{
    const size_t bytes = (size_t)n_positions * (size_t)D * sizeof(float);
    void *host = NULL;
    (void)cudaFree(self->rope);
    self->rope = NULL;
    self->rope_positions = 0;
    self->generation++;
    PL_CHECK(device_check(cudaMalloc(&self->rope, bytes), "the rotary table"));
    PL_CHECK(pl_try_alloc(bytes, "the rotary table", &host));
    float *cosines = static_cast<float *>(host);
    const size_t half = (size_t)D / 2, count = (size_t)n_positions * half;
    for (size_t i = 0; i < count; i++) {
        const double frequency = pow(theta, -2.0 * (double)(i % half) / D);
        const double angle = (double)(i / half) * frequency;
        cosines[i] = (float)cos(angle);
        cosines[count + i] = (float)sin(angle);
    }
    const pl_status status =
        transit_upload(&self->transit, self->stream, self->rope, host, bytes);
    pl_free(host);
    PL_CHECK(status);
    self->rope_positions = n_positions;
    self->rope_size = D;
    self->rope_theta = theta;
    return PL_OK;
}

bool cuda_rope_table(cuda_state *self, int n_positions, int D, double theta)
{
    const bool same = self->rope_size == D && self->rope_theta == theta;
    if (same && self->rope_positions >= n_positions)
        return true;
    const pl_status status =
        make_rope_table(self, cuda_table_positions(n_positions), D, theta);
    cuda_note_failure(self, status);
    return status == PL_OK;
}

void cuda_rope(pl_backend *be, pl_act *qkv, const int32_t *texts, int B, int T, int H,
               int G, int D, double theta, int start, int sign)
{
    cuda_state *self = cuda_self(be);
    if (!cuda_rope_table(self, start + T, D, theta))
        return;
    const size_t half = (size_t)D / 2;
    const float *cosines = self->rope + (size_t)start * half;
    const rope_plan plan = {T,           H + G,
                            D / 2,       (size_t)(H + 2 * G) * (size_t)D,
                            cosines,     cosines + (size_t)self->rope_positions * half,
                            (float)sign, texts};
    const size_t n = (size_t)B * (size_t)T * (size_t)(H + G) * half;
    if (acts_width(D / 2) == ACTS_WIDE)
        PL_LAUNCH((rope_kernel<ACTS_WIDE>), blocks_for(n / ACTS_WIDE, ROPE_THREADS),
                  ROPE_THREADS, 0, self->stream, cuda_acts(qkv), plan, n);
    else
        PL_LAUNCH((rope_kernel<1>), blocks_for(n, ROPE_THREADS), ROPE_THREADS, 0,
                  self->stream, cuda_acts(qkv), plan, n);
}
