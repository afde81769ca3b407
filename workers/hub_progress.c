/* What workers report about their work: inner steps, and when they begin to train and
 * to send. */
#include "workers/hub_internal.h"

#include <math.h>

/* the largest speed (tokens per second) and loss that a worker may report */
static const double rate_max = 1e9, loss_max = 1e9;
static const uint64_t memory_max = UINT64_C(1) << 50, bytes_max = UINT64_C(1) << 50;

double hub_possible_rate(double rate)
{
    return rate >= 0 && rate <= rate_max ? rate : 0;
}

static uint64_t at_most(uint64_t value, uint64_t most)
{
    return value < most ? value : most;
}

uint64_t hub_possible_bytes(uint64_t bytes)
{
    return at_most(bytes, bytes_max);
}

static double possible_bytes(double rate)
{
    return rate >= 0 && rate <= (double)bytes_max ? rate : 0;
}

void hub_note_renewal(hub *h, int worker, const plan_path *path, plan_lease *lease,
                      const pl_msg_renew *q, int64_t now_ms)
{
    hub_worker *w = &h->workers[worker];
    /* A worker's numbers are only shown, except that `down` tells which part of its
     * first fetch was done once for all (hub_once_s). */
    hub_link *link = &w->link;
    const uint64_t up = hub_possible_bytes(q->up), down = hub_possible_bytes(q->down);
    if (link->moved_ms == 0 || up != link->up || down != link->down)
        link->moved_ms = now_ms;
    link->up = up;
    link->down = down;
    const uint64_t moved = up + down + (q->trains ? q->step : 0);
    lease->moved_ms = moved != lease->moved ? now_ms : lease->moved_ms;
    lease->moved = moved;
    link->up_rate = possible_bytes(q->up_rate);
    link->down_rate = possible_bytes(q->down_rate);
    link->rtt_ms = at_most(q->rtt_ms, UINT32_MAX);
    link->repeated = at_most(q->repeated, up + down);
    link->reconnects = at_most(q->reconnects, UINT32_MAX);
    if (!q->trains && lease->stage == PLAN_TRAINS && lease->phase == q->phase) {
        lease->stage = PLAN_SENDS;
        lease->step_ms = now_ms;
        hub_end_task(w, path);
    }
    if (!q->trains)
        return;
    plan_task task;
    const bool known = plan_find_task(&h->tasks, path->name, &task);
    const int most = known ? h->tasks.arms[task.arm].arm.inner.tau : 0;
    w->step = q->step < (uint64_t)most ? (int)q->step : most;
    /* a lease that was extended belongs to the next phase */
    if (lease->phase == q->phase) {
        lease->stage = PLAN_TRAINS;
        lease->step = w->step;
        lease->loss = q->loss > -1 && q->loss <= loss_max ? q->loss : (double)NAN;
        lease->step_ms = now_ms;
        if (lease->first_ms <= 0 && w->step != 0) {
            lease->first_ms = now_ms;
            lease->first_step = w->step;
            lease->fetched = hub_fetched(w, lease);
        }
    }
    w->rate = hub_possible_rate(q->rate);
    w->memory_bytes = q->memory_bytes <= memory_max ? q->memory_bytes : 0;
    w->phase = q->phase;
    pl_copy_text(w->task, sizeof w->task, path->name);
}

void hub_extend(hub *h, plan_task task, int64_t now_ms)
{
    plan_lease *lease = &h->tasks.arms[task.arm].paths[task.index].lease;
    const double once_s = hub_once_s(h, &h->tasks.arms[task.arm], lease);
    plan_extend(&h->tasks, task, now_ms, hub_ttl_ms(h, &h->tasks.arms[task.arm], 0));
    lease->before_once_s = once_s;
}

/* The worker's messages arrive, and it fetches or sends, but no byte of a blob has
 * moved for a long time: the way from or to the homes loses large packets, or a home
 * hangs. */
static double stalled_s(const hub_worker *w, int64_t now_ms)
{
    enum { STALLED_MS = 15000 };
    const int64_t since_ms =
        w->link.moved_ms > w->stage_ms ? w->link.moved_ms : w->stage_ms;
    const int64_t still_ms = now_ms - since_ms;
    const bool moves = w->has_lease && w->stage != PLAN_TRAINS && w->link.moved_ms > 0;
    return moves && still_ms > STALLED_MS ? 1e-3 * (double)still_ms : 0;
}

const char *hub_doing(const hub_worker *w, int64_t now_ms)
{
    return !w->has_lease              ? "waiting"
           : stalled_s(w, now_ms) > 0 ? "stalled"
           : w->stage == PLAN_TRAINS  ? "training"
           : w->stage == PLAN_SENDS   ? "sending"
                                      : "fetching";
}

const char *hub_reason(const hub *h, const hub_worker *w, int64_t now_ms,
                       char text[HUB_WITHHELD_TEXT_MAX])
{
    const double still_s = stalled_s(w, now_ms);
    if (still_s <= 0)
        return w->has_lease ? "" : hub_withheld_text(h, w, text);
    snprintf(text, HUB_WITHHELD_TEXT_MAX,
             "its messages arrive, but for %.0f s no byte of what it %s has moved; "
             "large packets may be lost on the way: see whether `ping -M do -s 1472` "
             "reaches the home, and lower the MTU of its network if not",
             still_s, w->stage == PLAN_SENDS ? "sends" : "fetches");
    return text;
}
