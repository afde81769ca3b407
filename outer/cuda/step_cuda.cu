/* The fused outer step (outer/step_kernel.h) on a device.
 *
 * A block of threads is a block of values: each thread makes EACH of them, from the
 * weighted mean of all updates to the new parameters, in registers. Then sums of
 * squares are made in the order that the CPU has: eight lanes, then the lanes, then
 * the rest, in double. What the lanes walk along lies in shared memory, in rows that
 * begin in different banks.
 *
 * A value's square is exact in double, so a fused product and sum rounds once, as the
 * CPU's two operations do.
 */
#include "outer/cuda/accel_inside.cuh"
#include "outer/step_kernel.h"

enum { THREADS = 128, EACH = PL_OUTER_BLOCK / THREADS };
enum { LANES = 8, SUMS = 3, ROW = PL_OUTER_BLOCK + LANES };

struct step_vectors {
    float *params, *momentum, *carry;
    size_t n;
    const float *mean; /* or NULL: it is that of the views */
    const pl_update_view *views;
    int n_views;
};

/* ---- the mean ---- */

static __device__ float view_value(const pl_update_view *view, size_t i)
{
    if (view->is_bf16)
        return __uint_as_float((unsigned)static_cast<const uint16_t *>(view->values)[i]
                               << 16);
    return static_cast<const float *>(view->values)[i];
}

/* Values first + e * THREADS of the mean; zero behind the end. */
static __device__ void make_mean(float mean[EACH], const step_vectors *v, size_t first)
{
    for (int e = 0; e < EACH; e++) {
        const size_t i = first + (size_t)e * THREADS;
        mean[e] = v->mean && i < v->n ? v->mean[i] : 0.0f;
    }
    for (int u = 0; u < v->n_views; u++) {
        const pl_update_view view = v->views[u];
        for (int e = 0; e < EACH; e++) {
            const size_t i = first + (size_t)e * THREADS;
            if (i < v->n)
                mean[e] = mean[e] + view.weight * view_value(&view, i);
        }
    }
}

/* ---- one value's step; d becomes what was subtracted ---- */

static __device__ float clipped(float value, float limit)
{
    const float below = value > limit ? limit : value;
    return below < -limit ? -limit : below;
}

static __device__ float make_eager(float parts, float *carry, float d)
{
    const float before = *carry;
    *carry = d;
    return (before - before / parts) + d / parts;
}

static __device__ float step_of(const step_coefficients *c, float *m, float *s, float d)
{
    const float g = c->scale * d;
    switch (c->kind) {
    case STEP_PLAIN:
        return c->eta * clipped(g, c->clip);
    case STEP_NESTEROV:
        *m = clipped(c->mu * *m + g, c->clip);
        return c->eta * (g + c->mu * *m);
    case STEP_HEAVY_BALL:
        *m = clipped(c->mu * *m + g, c->clip);
        return c->eta * *m;
    case STEP_ARRIVAL:
        *s += g;
        return c->eta * (g / c->parts + c->pull * *m);
    case STEP_LAST_ARRIVAL:
        *m = c->mu * *m + (*s + g) / c->parts;
        *s = 0.0f;
        return c->eta * (g / c->parts + c->pull * *m);
    }
    return 0.0f;
}

static __device__ float step_value(const step_coefficients *c, const step_vectors *v,
                                   size_t i, float d, float *x)
{
    float m = v->momentum ? v->momentum[i] : 0.0f;
    float s = v->carry ? v->carry[i] : 0.0f;
    if (c->eager)
        d = make_eager(c->parts, &s, d);
    d = step_of(c, &m, &s, d);
    *x = v->params[i] - d;
    v->params[i] = *x;
    if (v->momentum)
        v->momentum[i] = m;
    if (v->carry)
        v->carry[i] = s;
    return d;
}

/* ---- sums of squares ---- */

static __device__ double add_square(double sum, float value)
{
    return fma((double)value, (double)value, sum);
}

/* The first warp: threads 8r .. 8r+7 are the lanes of row r. All others pass by. */
static __device__ void sum_rows(step_sums *out, const float rows[SUMS][ROW], int n_rows,
                                int count)
{
    const int row = (int)threadIdx.x / LANES, lane = (int)threadIdx.x % LANES;
    const int whole = count - count % LANES;
    if (threadIdx.x >= WARP_SIZE)
        return;
    double sum = 0.0, total = 0.0;
    for (int i = lane; row < n_rows && i < whole; i += LANES)
        sum = add_square(sum, rows[row][i]);
    sum += __shfl_down_sync(0xffffffffu, sum, LANES / 2);
    for (int l = 0; l < LANES / 2; l++)
        total += __shfl_sync(0xffffffffu, sum, l, LANES);
    if (row >= SUMS || lane > 0)
        return;
    for (int i = whole; row < n_rows && i < count; i++)
        total = add_square(total, rows[row][i]);
    *(row == 0 ? &out->mean : row == 1 ? &out->params : &out->step) = total;
}

static __device__ int count_at(const step_vectors *v, size_t first)
{
    return v->n - first < PL_OUTER_BLOCK ? (int)(v->n - first) : (int)PL_OUTER_BLOCK;
}

/* ---- kernels ---- */

static __global__ void __launch_bounds__(THREADS)
    step_block_kernel(step_coefficients c, step_vectors v, step_sums *sums, int n_rows)
{
    __shared__ float rows[SUMS][ROW];
    const size_t block = (size_t)blockIdx.x * PL_OUTER_BLOCK;
    float mean[EACH];
    make_mean(mean, &v, block + threadIdx.x);
    for (int e = 0; e < EACH; e++) {
        const int at = (int)threadIdx.x + e * THREADS;
        const size_t i = block + (size_t)at;
        if (i >= v.n)
            continue;
        rows[0][at] = mean[e];
        rows[2][at] = step_value(&c, &v, i, mean[e], &rows[1][at]);
    }
    __syncthreads();
    sum_rows(&sums[blockIdx.x], rows, n_rows, count_at(&v, block));
}

/* Only |D|, which Lambda needs before anything may be changed. */
static __global__ void __launch_bounds__(THREADS)
    measure_block_kernel(step_vectors v, step_sums *sums)
{
    __shared__ float rows[SUMS][ROW];
    const size_t block = (size_t)blockIdx.x * PL_OUTER_BLOCK;
    float mean[EACH];
    make_mean(mean, &v, block + threadIdx.x);
    for (int e = 0; e < EACH; e++)
        rows[0][(int)threadIdx.x + e * THREADS] = mean[e];
    __syncthreads();
    sum_rows(&sums[blockIdx.x], rows, 1, count_at(&v, block));
}

/* A span's blocks, one after the other. */
static __global__ void __launch_bounds__(STEP_SPAN_BLOCKS)
    add_blocks_kernel(step_sums *spans, const step_sums *blocks, unsigned n_blocks)
{
    __shared__ double parts[STEP_SPAN_BLOCKS][SUMS];
    const unsigned first = blockIdx.x * STEP_SPAN_BLOCKS, at = threadIdx.x;
    const unsigned count = min(n_blocks - first, (unsigned)STEP_SPAN_BLOCKS);
    double total = 0.0;
    if (at < count) {
        parts[at][0] = blocks[first + at].mean;
        parts[at][1] = blocks[first + at].params;
        parts[at][2] = blocks[first + at].step;
    }
    __syncthreads();
    if (at >= SUMS)
        return;
    for (unsigned b = 0; b < count; b++)
        total += parts[b][at];
    step_sums *span = &spans[blockIdx.x];
    *(at == 0 ? &span->mean : at == 1 ? &span->params : &span->step) = total;
}

/* ---- the host's side ---- */

struct step_scratch {
    step_sums *blocks, *spans;
    pl_update_view *views;
    unsigned n_blocks, n_spans;
};

static pl_status make_room(pl_accel *accel, size_t n, const pl_update_list *updates,
                           step_scratch *s)
{
    uint8_t *at;
    s->n_blocks = blocks_for(n, PL_OUTER_BLOCK);
    s->n_spans = blocks_for(n, STEP_SPAN);
    const size_t views = (size_t)updates->n_views * sizeof *updates->views;
    const size_t blocks = accel_lines(s->n_blocks * sizeof *s->blocks);
    const size_t spans = accel_lines(s->n_spans * sizeof *s->spans);
    PL_RETURN_IF(accel_scratch(accel, blocks + spans + views, &at));
    s->blocks = reinterpret_cast<step_sums *>(at);
    s->spans = reinterpret_cast<step_sums *>(at + blocks);
    s->views = reinterpret_cast<pl_update_view *>(at + blocks + spans);
    return pl_accel_upload(accel, s->views, updates->views, views);
}

/* Waits. The spans are few enough for the host: one in 131072 values. */
static pl_status read_sums(pl_accel *accel, const step_scratch *s, step_sums *total)
{
    void *spans = NULL;
    PL_LAUNCH(add_blocks_kernel, s->n_spans, STEP_SPAN_BLOCKS, 0, accel->stream,
              s->spans, s->blocks, s->n_blocks);
    PL_RETURN_IF(
        pl_try_alloc(s->n_spans * sizeof *s->spans, "sums of an outer step", &spans));
    pl_status status = device_check(cudaGetLastError(), "an outer step");
    if (status == PL_OK)
        status =
            pl_accel_download(accel, spans, s->spans, s->n_spans * sizeof *s->spans);
    if (status == PL_OK)
        *total = step_add_spans(static_cast<const step_sums *>(spans), s->n_spans);
    pl_free_aligned(spans);
    return status;
}

static pl_status find_gap(pl_accel *accel, const pl_outer_step *step,
                          const pl_outer_state *state, const step_vectors *v,
                          const step_scratch *s, double *gap)
{
    step_sums total = {};
    if (step_depends_on_gap(step)) {
        PL_LAUNCH(measure_block_kernel, s->n_blocks, THREADS, 0, accel->stream, *v,
                  s->blocks);
        PL_RETURN_IF(read_sums(accel, s, &total));
    }
    *gap = step_gap(step, state, total.mean);
    return PL_OK;
}

/* Vectors that the step does not keep are not touched, as on the CPU. */
static step_vectors vectors_of(const pl_outer_step *step, const pl_outer_state *state,
                               size_t n, const step_scratch *s, int n_views)
{
    step_vectors v = {};
    v.params = state->params;
    v.momentum = pl_outer_keeps_momentum(step) ? state->momentum : NULL;
    v.carry = pl_outer_keeps_carry(step) ? state->carry : NULL;
    v.n = n;
    v.views = s->views;
    v.n_views = n_views;
    return v;
}

/* Of the list's views, or of a mean that is there. */
static pl_status take_step(pl_accel *accel, const pl_outer_step *step,
                           pl_outer_state *state, const float *mean, size_t n,
                           const pl_update_list *updates, pl_outer_report *report)
{
    step_scratch s;
    step_sums total = {};
    double gap = 1.0;
    memset(report, 0, sizeof *report);
    PL_RETURN_IF(step_check(step, state));
    if (n == 0) { /* no block to launch */
        step_note(step, state, &total, step_gap(step, state, 0.0), report);
        return PL_OK;
    }
    PL_RETURN_IF(make_room(accel, n, updates, &s));
    step_vectors v = vectors_of(step, state, n, &s, updates->n_views);
    v.mean = mean;
    PL_RETURN_IF(find_gap(accel, step, state, &v, &s, &gap));
    const step_coefficients c = step_coefficients_of(step, state, gap);
    const int n_rows = step_depends_on_gap(step) ? SUMS : SUMS - 1;
    PL_LAUNCH(step_block_kernel, s.n_blocks, THREADS, 0, accel->stream, c, v, s.blocks,
              n_rows);
    PL_RETURN_IF(read_sums(accel, &s, &total));
    step_note(step, state, &total, gap, report);
    return PL_OK;
}

pl_status pl_accel_merge(pl_accel *accel, const pl_outer_step *step,
                         pl_outer_state *state, size_t n, const pl_update_list *updates,
                         pl_outer_report *report)
{
    memset(report, 0, sizeof *report);
    PL_RETURN_IF(step_check(step, state));
    if (updates->n_views < 1)
        return pl_fail(PL_ERR_ARG, "a mean of no updates");
    return take_step(accel, step, state, NULL, n, updates, report);
}

pl_status pl_accel_apply(pl_accel *accel, const pl_outer_step *step,
                         pl_outer_state *state, const float *mean, size_t n,
                         pl_outer_report *report)
{
    const pl_update_list none = {NULL, 0};
    return take_step(accel, step, state, mean, n, &none, report);
}

/* ---- what a mean is corrected by ---- */

static __global__ void __launch_bounds__(THREADS)
    correct_kernel(float *mean, const float *params, const float *origin, float factor,
                   size_t n)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= n)
        return;
    float d = mean[i];
    if (origin)
        d += params[i] - origin[i];
    mean[i] = factor == 1.0f ? d : d * factor;
}

pl_status pl_accel_correct(pl_accel *accel, float *mean, const float *params,
                           const float *origin, float factor, size_t n)
{
    if (n > 0 && (origin || factor != 1.0f))
        PL_LAUNCH(correct_kernel, blocks_for(n, THREADS), THREADS, 0, accel->stream,
                  mean, params, origin, factor, n);
    return device_check(cudaGetLastError(), "correcting a mean");
}

/* ---- the mean of those that are there ---- */

static __global__ void __launch_bounds__(THREADS)
    add_present_kernel(float *mean, float *whole, const float *one, float weight,
                       size_t n)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= n)
        return;
    mean[i] += weight * one[i];
    whole[i] += one[i] != 0.0f ? weight : 0.0f;
}

static __global__ void __launch_bounds__(THREADS)
    divide_present_kernel(float *mean, const float *whole, size_t n)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < n && whole[i] > 0.0f)
        mean[i] /= whole[i];
}

pl_status pl_accel_add_present(pl_accel *accel, float *mean, float *whole,
                               const float *one, float weight, size_t n)
{
    if (n > 0)
        PL_LAUNCH(add_present_kernel, blocks_for(n, THREADS), THREADS, 0, accel->stream,
                  mean, whole, one, weight, n);
    return device_check(cudaGetLastError(), "adding what is there");
}

pl_status pl_accel_divide_present(pl_accel *accel, float *mean, const float *whole,
                                  size_t n)
{
    if (n > 0)
        PL_LAUNCH(divide_present_kernel, blocks_for(n, THREADS), THREADS, 0,
                  accel->stream, mean, whole, n);
    return device_check(cudaGetLastError(), "the mean of what is there");
}
