/* Meetings of pairs (outer/gossip.h) and what workers compute in methods that overlap
 * (outer/step_overlap.h): one thread a value. */
#include "outer/cuda/accel_inside.cuh"
#include "outer/step_overlap.h"

enum { THREADS = 256 };

/* This thread's value. */
static __device__ size_t value_index()
{
    return (size_t)blockIdx.x * THREADS + threadIdx.x;
}

/* What was started is refused at once or fails later, at a sync. */
static pl_status started(const char *what)
{
    return device_check(cudaGetLastError(), what);
}

/* ---- meetings ---- */

struct meeting {
    float alpha, beta, gamma, pull; /* pull: gamma / beta, for Nesterov */
    bool is_nesterov;
    float *params, *velocity;
    const float *own, *mate; /* offers, or updates; alone: own twice */
    const float *mate_params, *own_view;
    size_t n;
};

static __device__ float mean_of(float a, float b)
{
    return 0.5f * (a + b);
}

/* What one adds its mate takes away, bit for bit. */
static __device__ float half_way(float a, float b)
{
    return 0.5f * (b - a);
}

/* Value i goes on by its rule: along the gradient, or by the new velocity of heavy
 * ball. */
static __device__ void go_on(const meeting *m, size_t i, float gradient, float velocity)
{
    float v = velocity, by = velocity;
    if (m->is_nesterov) {
        v = m->alpha * m->velocity[i] + gradient;
        by = -(m->beta * (gradient + m->alpha * v));
    }
    m->params[i] += by;
    m->velocity[i] = v;
}

static __global__ void __launch_bounds__(THREADS) meet_one_kernel(meeting m)
{
    const size_t i = value_index();
    if (i >= m.n)
        return;
    const float x = m.params[i], offer = mean_of(m.own[i], m.mate[i]);
    go_on(&m, i, x - offer, m.alpha * m.velocity[i] + m.beta * (offer - x));
}

static __global__ void __launch_bounds__(THREADS) meet_two_kernel(meeting m)
{
    const size_t i = value_index();
    if (i >= m.n)
        return;
    const float x = m.params[i], update = mean_of(m.own[i], m.mate[i]);
    const float between = mean_of(x, m.mate_params[i]);
    go_on(&m, i, update + m.pull * (x - between),
          (m.alpha * m.velocity[i] - m.beta * update) + m.gamma * (between - x));
}

static __global__ void __launch_bounds__(THREADS) meet_views_kernel(meeting m)
{
    const size_t i = value_index();
    if (i >= m.n)
        return;
    const float own = m.own_view[i], other = m.mate_params[i];
    const float update = mean_of(m.own[i], m.mate[i]);
    go_on(&m, i, update + m.pull * half_way(other, own),
          (m.alpha * m.velocity[i] - m.beta * update) + m.gamma * half_way(own, other));
}

/* What meet_two does with itself as mate. */
static __global__ void __launch_bounds__(THREADS) meet_nobody_kernel(meeting m)
{
    const size_t i = value_index();
    if (i >= m.n)
        return;
    go_on(&m, i, m.own[i], m.alpha * m.velocity[i] - m.beta * m.own[i]);
}

static meeting meeting_of(const pl_gossip_step *step, float *params, float *velocity,
                          const float *own, const float *mate, size_t n)
{
    meeting m = {};
    m.alpha = (float)step->alpha;
    m.beta = (float)step->beta;
    m.gamma = (float)step->gamma;
    m.pull = (float)(step->gamma / step->beta);
    m.is_nesterov = step->rule == PL_RULE_NESTEROV;
    m.params = params;
    m.velocity = velocity;
    m.own = own;
    m.mate = mate ? mate : own;
    m.n = n;
    return m;
}

pl_status pl_accel_meet_one(pl_accel *accel, const pl_gossip_step *step, float *params,
                            float *velocity, const float *own, const float *mate,
                            size_t n)
{
    const meeting m = meeting_of(step, params, velocity, own, mate, n);
    PL_RETURN_IF(pl_gossip_check_one(step));
    if (n > 0)
        PL_LAUNCH(meet_one_kernel, blocks_for(n, THREADS), THREADS, 0, accel->stream,
                  m);
    return started("a meeting");
}

pl_status pl_accel_meet_two(pl_accel *accel, const pl_gossip_step *step, float *params,
                            float *velocity, const float *own_update,
                            const float *mate_params, const float *mate_update,
                            size_t n)
{
    meeting m = meeting_of(step, params, velocity, own_update, mate_update, n);
    const unsigned grid = blocks_for(n, THREADS);
    PL_RETURN_IF(pl_gossip_check_two(mate_params, mate_update));
    m.mate_params = mate_params;
    if (n > 0 && mate_params)
        PL_LAUNCH(meet_two_kernel, grid, THREADS, 0, accel->stream, m);
    else if (n > 0)
        PL_LAUNCH(meet_nobody_kernel, grid, THREADS, 0, accel->stream, m);
    return started("a meeting");
}

pl_status pl_accel_meet_views(pl_accel *accel, const pl_gossip_step *step,
                              float *params, float *velocity, const pl_gossip_view *own,
                              const pl_gossip_view *mate, size_t n)
{
    const unsigned grid = blocks_for(n, THREADS);
    PL_RETURN_IF(pl_gossip_check_views(own, mate));
    meeting m =
        meeting_of(step, params, velocity, own->update, mate ? mate->update : NULL, n);
    m.own_view = own->params;
    m.mate_params = mate ? mate->params : NULL;
    if (n > 0 && mate)
        PL_LAUNCH(meet_views_kernel, grid, THREADS, 0, accel->stream, m);
    else if (n > 0)
        PL_LAUNCH(meet_nobody_kernel, grid, THREADS, 0, accel->stream, m);
    return started("a meeting");
}

static __global__ void __launch_bounds__(THREADS)
    offer_kernel(float *out, const float *params, const float *update, float scale,
                 size_t n)
{
    const size_t i = value_index();
    if (i < n)
        out[i] = params[i] - scale * update[i];
}

pl_status pl_accel_offer(pl_accel *accel, const float *params, const float *update,
                         double share, size_t n, float *out)
{
    if (n > 0)
        PL_LAUNCH(offer_kernel, blocks_for(n, THREADS), THREADS, 0, accel->stream, out,
                  params, update, (float)share, n);
    return started("an offer");
}

/* ---- overlap ---- */

static __global__ void __launch_bounds__(THREADS)
    mix_kernel(float *local, const float *merged, float a, float rest, size_t n)
{
    const size_t i = value_index();
    if (i < n)
        local[i] = a * local[i] + rest * merged[i];
}

pl_status pl_accel_mix(pl_accel *accel, float *local, const float *merged, double mix,
                       size_t n)
{
    if (mix == 1.0 || n == 0)
        return PL_OK;
    if (mix == 0.0)
        return device_check(cudaMemcpyAsync(local, merged, n * sizeof *local,
                                            cudaMemcpyDeviceToDevice, accel->stream),
                            "taking up a fragment");
    PL_LAUNCH(mix_kernel, blocks_for(n, THREADS), THREADS, 0, accel->stream, local,
              merged, (float)mix, (float)(1.0 - mix), n);
    return started("taking up a fragment");
}

/* The vectors of the phase before may be NULL. */
static __global__ void __launch_bounds__(THREADS)
    eager_kernel(float *out, const float *own, const float *own_before,
                 const float *mean_before, float parts, size_t n)
{
    const size_t i = value_index();
    if (i >= n)
        return;
    const float past = mean_before ? mean_before[i] : 0.0f;
    const float replaced = own_before ? own_before[i] / parts : 0.0f;
    out[i] = (past - replaced) + own[i] / parts;
}

pl_status pl_accel_eager_update(pl_accel *accel, const float *own,
                                const float *own_before, const float *mean_before,
                                int n_workers, size_t n, float *out)
{
    if (n > 0)
        PL_LAUNCH(eager_kernel, blocks_for(n, THREADS), THREADS, 0, accel->stream, out,
                  own, own_before, mean_before, (float)n_workers, n);
    return started("an eager update");
}
