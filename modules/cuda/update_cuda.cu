/* The optimizer's step on a whole path (modules/ops.h, update_apply): two launches,
 * with Muon some more for each of its matrices.
 *
 *   squares   a fixed number of blocks, each over its share of the gradients; its
 *             sum becomes NaN if a loss in its share is not finite
 *   update    every block adds up those sums, in the same order, to compute the
 *             clipping factor; then it updates one piece of the parameters. It writes
 *             the compute copies of weights, or clears the gradients of other
 *             parameters: 30 or 32 bytes per parameter are moved
 *   Muon      `update` computes the momentum for pieces of Muon's matrices; then
 *             muon_cuda.cu updates all matrices of a run at once
 *
 * The kernels round wherever the reference rounds, so AdamW gives the reference's bytes
 * if the clipping factor is the same. The sum of squares is added in a different
 * order. */
#include "modules/cuda/muon_cuda.cuh"
#include "modules/cuda/warp.cuh"
#include <math.h>

enum { UPDATE_THREADS = 256, UPDATE_WARPS = UPDATE_THREADS / WARP_SIZE };
enum { PIECE = CUDA_PIECE };

/* Consecutive parameters that are updated in the same way, by one block. */
struct update_piece {
    /* at: index of the piece's first parameter; second: index of this parameter's v */
    size_t at, second;
    unsigned n;
    bool decay, wide, muon; /* `wide`: ACTS_WIDE parameters are updated at once */
    /* the compute copy of the piece's first parameter; NULL outside of weights, where
     * the update clears the gradients */
    act *copy;
};
static_assert(sizeof(update_piece) == CUDA_PIECE_BYTES,
              "the memory plan counts CUDA_PIECE_BYTES for each piece");

struct pl_update {
    pl_update_plan plan;
    float *seconds; /* the second moments */
    double *parts;  /* [CUDA_SUM_BLOCKS] sums of the blocks */
    update_piece *pieces;
    unsigned n_pieces;
    float *work; /* scratch memory for Muon */
};

/* ---- kernels ---- */

static __global__ void __launch_bounds__(UPDATE_THREADS)
    update_squares_kernel(double *parts, const float *g, size_t n, const float *loss,
                          int N)
{
    __shared__ double scratch[UPDATE_WARPS];
    const size_t stride = (size_t)gridDim.x * UPDATE_THREADS;
    const size_t first = (size_t)blockIdx.x * UPDATE_THREADS + threadIdx.x;
    double sum = square_share(g, n, first, stride);
    for (size_t i = first; i < (size_t)N; i += stride)
        if (!isfinite(loss[i]))
            sum = nan("");
    sum = block_sum<UPDATE_THREADS>(sum, scratch);
    if (threadIdx.x == 0)
        parts[blockIdx.x] = sum;
}

/* One block sums the losses, in a fixed order. */
static __global__ void __launch_bounds__(UPDATE_THREADS)
    losses_sum_kernel(double *out, const float *loss, int N, bool accumulate)
{
    __shared__ double scratch[UPDATE_WARPS];
    double sum = 0.0;
    for (int i = (int)threadIdx.x; i < N; i += UPDATE_THREADS)
        sum += (double)loss[i];
    sum = block_sum<UPDATE_THREADS>(sum, scratch);
    if (threadIdx.x == 0)
        *out = accumulate ? *out + sum : sum;
}

/* Updates one parameter exactly as the reference does (ref/adamw_ref.c). */
static __device__ __forceinline__ void step_one(float *p, float *m, float *v, float g,
                                                const pl_step_numbers *s, float decay)
{
    const float b1 = s->adam.beta1, b2 = s->adam.beta2;
    *m = b1 * *m + (1.0f - b1) * g;
    *v = b2 * *v + (1.0f - b2) * g * g;
    const float step = (*m / s->mass1) / (sqrtf(*v / s->mass2) + s->adam.eps);
    *p = *p - s->adam.lr * (step + decay * *p);
}

/* Updates V parameters of the piece, starting with the i-th. */
template <int V>
static __device__ __forceinline__ void step_some(const pl_update *u,
                                                 const update_piece *piece, unsigned i,
                                                 const pl_step_numbers *s, float factor)
{
    const size_t at = piece->at + i, second = piece->second + i;
    const float decay = piece->decay ? s->adam.weight_decay : 0.0f;
    float p[V], m[V], v[V], g[V];
    load_floats<V>(p, u->plan.params + at);
    load_floats<V>(m, u->plan.moments + at);
    load_floats<V>(v, u->seconds + second);
    load_floats<V>(g, u->plan.grads + at);
#pragma unroll
    for (int k = 0; k < V; k++) {
        step_one(&p[k], &m[k], &v[k], g[k] * factor, s, decay);
        g[k] = 0.0f;
    }
    store_floats<V>(u->plan.params + at, p);
    store_floats<V>(u->plan.moments + at, m);
    store_floats<V>(u->seconds + second, v);
    if (piece->copy)
        store_acts<V>(piece->copy + i, p);
    else
        store_floats<V>(u->plan.grads + at, g);
}

/* Computes the same factor as pl_host_update_apply. */
static __device__ float clip_factor(double squares, float clip)
{
    const double norm = sqrt(squares);
    return clip > 0.0f && norm > (double)clip ? (float)((double)clip / norm) : 1.0f;
}

static __global__ void __launch_bounds__(UPDATE_THREADS)
    update_step_kernel(pl_update u, unsigned n_parts, const pl_step_numbers *numbers)
{
    __shared__ double scratch[UPDATE_WARPS];
    double sum = 0.0;
    for (unsigned i = threadIdx.x; i < n_parts; i += UPDATE_THREADS)
        sum += u.parts[i];
    sum = block_sum<UPDATE_THREADS>(sum, scratch);
    if (blockIdx.x == 0 && threadIdx.x == 0)
        *u.plan.squares = sum;
    const update_piece piece = u.pieces[blockIdx.x];
    if (!isfinite(sum)) {
        for (unsigned i = threadIdx.x; i < piece.n && !piece.copy; i += UPDATE_THREADS)
            u.plan.grads[piece.at + i] = 0.0f;
        return; /* all blocks return */
    }
    const pl_step_numbers s = *numbers;
    const float factor = clip_factor(sum, s.clip);
    if (piece.muon) {
        for (unsigned i = threadIdx.x; i < piece.n; i += UPDATE_THREADS)
            muon_momentum(u.plan.moments + piece.at + i, u.plan.grads + piece.at + i,
                          u.plan.grads[piece.at + i] * factor);
        return;
    }
    const unsigned wide = piece.wide ? piece.n / ACTS_WIDE * ACTS_WIDE : 0;
    for (unsigned i = threadIdx.x * ACTS_WIDE; i < wide;
         i += UPDATE_THREADS * ACTS_WIDE)
        step_some<ACTS_WIDE>(&u, &piece, i, &s, factor);
    for (unsigned i = wide + threadIdx.x; i < piece.n; i += UPDATE_THREADS)
        step_some<1>(&u, &piece, i, &s, factor);
}

/* ---- pieces ---- */

/* Returns where the compute copy of the run begins, or NULL if it is in no weight. */
static act *copy_of(const pl_update_run *run, const pl_update_plan *plan)
{
    const pl_weight *w = run->weight >= 0 ? plan->weights[run->weight] : NULL;
    return w ? w->copy + (plan->params + run->offset - w->master) : NULL;
}

/* Returns the number of pieces; writes them to `out` unless it is NULL. */
static unsigned cut_pieces(const pl_update_plan *plan, update_piece *out)
{
    unsigned n = 0;
    for (int r = 0; r < plan->n_runs; r++) {
        const pl_update_run *run = &plan->runs[r];
        act *copy = copy_of(run, plan);
        for (size_t i = 0; i < run->n; n++) {
            update_piece piece = {};
            piece.at = run->offset + i;
            piece.second = run->second + i;
            piece.muon = run->rows > 0;
            piece.n = (unsigned)min(run->n - i, (size_t)PIECE);
            piece.decay = run->decay;
            piece.copy = copy ? copy + i : NULL;
            piece.wide = (piece.at | piece.second) % ACTS_WIDE == 0 &&
                         reinterpret_cast<uintptr_t>(piece.copy) % 16 == 0;
            i += piece.n;
            if (out)
                out[n] = piece;
        }
    }
    return n;
}

/* ---- the operations of the table ---- */

/* The sums, Muon's working memory and the pieces lie in one block of device memory. */
static pl_status place(cuda_state *self, const pl_update_plan *plan, pl_update *u)
{
    const size_t muon =
        pl_update_work_floats(plan->runs, plan->n_runs, true) * sizeof(float);
    const size_t sums = cuda_lines(CUDA_SUM_BLOCKS * sizeof(double)) + muon;
    void *memory = NULL, *host = NULL;
    u->n_pieces = cut_pieces(plan, NULL);
    const size_t bytes = u->n_pieces * sizeof(update_piece);
    PL_CHECK(device_check(cudaMalloc(&memory, sums + bytes), "the optimizer's list"));
    u->parts = static_cast<double *>(memory);
    u->work = reinterpret_cast<float *>(u->parts + CUDA_SUM_BLOCKS);
    u->pieces = reinterpret_cast<update_piece *>(static_cast<uint8_t *>(memory) + sums);
    PL_CHECK(pl_try_alloc(bytes, "the optimizer's list", &host));
    memset(host, 0, bytes);
    cut_pieces(plan, static_cast<update_piece *>(host));
    const pl_status status =
        transit_upload(&self->transit, self->stream, u->pieces, host, bytes);
    pl_free(host);
    return status;
}

pl_status cuda_update_create(pl_backend *be, const pl_update_plan *plan,
                             pl_update **out)
{
    *out = NULL;
    pl_update *u = static_cast<pl_update *>(pl_alloc(sizeof *u));
    u->plan = *plan;
    u->seconds = plan->moments + pl_second_moments(plan->n_params);
    const pl_status status = place(cuda_self(be), plan, u);
    if (status != PL_OK)
        cuda_update_destroy(be, &u);
    *out = u;
    return status;
}

void cuda_update_destroy(pl_backend *be, pl_update **update)
{
    if (!*update)
        return;
    cuda_state *self = cuda_self(be);
    cuda_note_failure(self, device_check(cudaFree((*update)->parts), "freeing memory"));
    pl_free(*update);
    *update = NULL;
}

void cuda_sum_losses(pl_backend *be, double *sum, const float *loss, int N,
                     bool accumulate)
{
    PL_LAUNCH(losses_sum_kernel, 1, UPDATE_THREADS, 0, cuda_stream(be), sum, loss, N,
              accumulate);
}

void cuda_update_apply(pl_backend *be, pl_update *update, const float *loss, int N,
                       const pl_step_numbers *numbers)
{
    const pl_update_plan *plan = &update->plan;
    const unsigned blocks =
        min((unsigned)CUDA_SUM_BLOCKS, blocks_for(plan->n_params, UPDATE_THREADS));
    PL_LAUNCH(update_squares_kernel, blocks, UPDATE_THREADS, 0, cuda_stream(be),
              update->parts, plan->grads, plan->n_params, loss, N);
    PL_LAUNCH(update_step_kernel, update->n_pieces, UPDATE_THREADS, 0, cuda_stream(be),
              *update, blocks, numbers);
    const muon_rates rates = {0.0f, 0.0f, numbers, plan->squares};
    for (int i = 0; i < plan->n_runs; i++) {
        const pl_update_run *run = &plan->runs[i];
        if (run->rows > 0)
            cuda_muon_step(be, plan->params + run->offset, plan->grads + run->offset,
                           copy_of(run, plan), update->work,
                           pl_update_run_matrices(run), run->rows, run->cols, &rates);
    }
}
