/* What workers report about their work: inner steps, and when they begin to train and
 * to send. */
#include "workers/hub_internal.h"

#include <math.h>

/* the largest speed (tokens per second) and loss that a worker may report */
static const double rate_max = 1e9, loss_max = 1e9;
static const uint64_t memory_max = UINT64_C(1) << 50;

static int possible_step(hub *h, const plan_path *path, uint64_t step)
{
    plan_task task;
    if (!plan_find_task(&h->tasks, path->name, &task))
        return 0;
    int most = h->tasks.arms[task.arm].arm.inner.tau;
    return step < (uint64_t)most ? (int)step : most;
}

static void note_progress(plan_lease *lease, int step, double loss, int64_t now_ms)
{
    lease->stage = PLAN_TRAINS;
    lease->step = step;
    lease->loss = loss > -1 && loss <= loss_max ? loss : (double)NAN;
    lease->step_ms = now_ms;
    if (lease->first_ms > 0 || step == 0)
        return;
    lease->first_ms = lease->step_ms;
    lease->first_step = step;
}

double hub_possible_rate(double rate)
{
    return rate >= 0 && rate <= rate_max ? rate : 0;
}

void hub_note_renewal(hub *h, int worker, const plan_path *path, plan_lease *lease,
                      const pl_msg_renew *q, int64_t now_ms)
{
    hub_worker *w = &h->workers[worker];
    if (!q->trains && lease->stage == PLAN_TRAINS && lease->phase == q->phase) {
        lease->stage = PLAN_SENDS;
        lease->step_ms = now_ms;
        hub_end_task(w, path);
    }
    if (!q->trains)
        return;
    w->step = possible_step(h, path, q->step);
    note_progress(lease, w->step, q->loss, now_ms);
    w->rate = hub_possible_rate(q->rate);
    w->memory_bytes = q->memory <= memory_max ? q->memory : 0;
    w->phase = q->phase;
    pl_copy_text(w->task, sizeof w->task, path->name);
}

void hub_note_done(hub *h, hub_worker *w, const plan_path *path, int64_t phase,
                   const plan_lease *lease, double inner_s, int64_t now_ms)
{
    plan_task task;
    int64_t begun_ms = w->done_ms;
    w->done_ms = now_ms;
    if (!path || !plan_find_task(&h->tasks, path->name, &task))
        return;
    if (lease) {
        const bool earlier = lease->phase > phase && lease->before_ms > 0;
        const int64_t granted_ms = earlier ? lease->before_ms : lease->granted_ms;
        begun_ms = granted_ms > begun_ms ? granted_ms : begun_ms;
    }
    const bool known = lease && !lease->taken_up;
    hub_note_pace(w, &h->tasks.arms[task.arm].arm, inner_s,
                  known ? 1e-3 * (double)(now_ms - begun_ms) : 0, now_ms);
}
