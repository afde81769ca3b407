/* What each worker can do, and which tasks it should therefore not get.
 *
 * The hub measures by its own clock. The time of a task runs from the grant of its
 * lease, or from the end of the worker's previous task if that was later, until the
 * homes confirm it. The worker says only how much of it were inner steps; the rest is
 * mostly transfers over its link. Both parts are means in which the newest task has
 * half of the weight, apart for tasks that train and for tasks that score documents.
 * In the first task of a path a worker also fetches data and a state that it then
 * keeps. The time for these bytes, of those that it has reported, does not count
 * (hub_once_s, without_once).
 *
 * The usual time of a task is the median of the times from grant to confirmation of the
 * arm's last PLAN_TIMES_MAX tasks, so that no single worker can move it. But it is no
 * shorter than the median that the job's own workers need: otherwise workers that
 * deliver nonsense at once would make all others late. A lease that is held for more
 * than LATE_TIMES the usual time is late, whatever its holder reports: then its task
 * gets a backup, or goes to another worker (hub_backup.c), and a holder without one of
 * the job's own keys is on trial (hub_trial.c).
 *
 * A worker gets a task only if the phase does not end later because of it: if it will
 * finish the task no later than the whole fleet, itself included, will have finished
 * all tasks that are ready (fleet.h). Otherwise the task waits for a better worker, and
 * the status says so with the numbers. And a ready path goes to the worker that has its
 * state and data, if that one is free (is_left_to_keeper). These rules keep that from
 * going wrong:
 *
 *   - A worker that is not measured gets a task. If it is slow, an idle worker begins
 *     the same task as soon as that would end earlier (hub_backup.c), so that not more
 *     time is lost than if the task had waited for that worker. The task that the slow
 *     worker lost is its first measurement (note_late).
 *   - Links and machines recover. After PROBE_TIMES the time that it needs for a task,
 * a worker's measurement is too old, and the worker gets a task again.
 *   - The other workers may not come, against all expectation. When the others should
 *     have finished a task twice, any worker may have it.
 *
 * Tasks of delayed-nesterov with dynamic steps fit every worker: a slow worker gets
 * fewer steps. */
#include "workers/hub_internal.h"
#include "workers/fleet.h"

#include <math.h>

/* FRESH_MS: the fleet is not looked at more often than this. OLD_MS: nor more seldom,
 * if a worker asks. ASKS_MS: a worker without a task that has not asked for this time
 * will not take one. */
enum { FRESH_MS = 5, OLD_MS = 50, ASKS_MS = 3000, PROBE_TIMES = 50 };
/* A lease is late after LATE_TIMES the usual time, but never before late_least_s more
 * than it. */
enum { LATE_TIMES = 3, SAID_TIMES = 10 };
static const double late_least_s = 0.5;
/* As long as nobody knows how long a task takes, a lease is late whose holder has
 * reported neither steps nor bytes for this time: its trainer may hang. */
static const double stalled_s = 120;
/* a worker that already has the state of a path may be slower by this factor than the
 * best worker, which would have to fetch the state */
static const double continues_times = 2, clear_times = 1.5;
/* the part of a task's time for which a ready path is left to its keeper */
static const double left_part = 0.25;

static double slots_of(const pl_arm *arm)
{
    return (double)arm->inner.tau * arm->inner.batch * arm->inner.context;
}

static double blend(int n, double old, double fresh)
{
    return n == 0 ? fresh : 0.5 * (old + fresh);
}

/* ---- the usual time of a task ---- */
double hub_usual_s(const plan_arm *arm)
{
    const double times_s = arm->n_times > 0   ? arm->median_s
                           : arm->is_measured ? arm->typical_s
                                              : arm->said_s;
    return fmax(times_s, arm->own_s);
}

/* If a silent worker is dead, the job has lost no more than a twentieth of a task. If
 * it is alive, and only its network was away, its work is not lost for a second's sake.
 * Nobody knows how long the first task takes, so the time for which it was held counts.
 */
int hub_ttl_ms(const hub *h, const plan_arm *arm, int64_t held_ms)
{
    enum { PART = 20, MOST_MS = 120000 };
    const double task_ms = fmax(1e3 * hub_usual_s(arm), (double)held_ms);
    return (int)fmax(fmin(task_ms / PART, MOST_MS), h->options->ttl_ms);
}

double hub_held_s(const plan_arm *arm, const plan_path *path, const plan_lease *l,
                  int64_t phase, int64_t now_ms, double *n_tasks)
{
    int64_t n, begun_ms = plan_granted_ms(l, phase, &n);
    const int index = (int)(path - arm->paths),
              replicas = pl_topology_n_replicas(arm->topology), of = index / replicas;
    *n_tasks = n > 1 ? (double)n : 1;
    /* A token is at least a byte. */
    if (pl_held_scores(&arm->arm, of, index % replicas, phase))
        *n_tasks += ceil((double)arm->arm.held_bytes[of] / slots_of(&arm->arm));
    /* Most phases do not send the state. A phase that sends it counts as more tasks:
     * one for each time that the bytes of a phase without it fit into the state. */
    const int n_slots = pl_topology_n_slots(arm->topology);
    if (arm->arm.outer.state_every > 1 && pl_phase_uploads(&arm->arm, phase + 1)) {
        const uint64_t n_params = pl_topology_path_params(arm->topology);
        uint64_t others = n_params; /* at least a byte of each is fetched */
        for (int slot = 0; slot < n_slots; slot++)
            others += pl_codec_module_bound(
                &arm->arm.outer.codec, arm->topology,
                pl_topology_module_of_path(arm->topology, slot, of), 1);
        *n_tasks +=
            ceil((double)pl_path_state_bytes(&arm->arm, n_params) / (double)others);
    }
    for (int slot = 0; slot < n_slots; slot++) {
        const int m = pl_topology_module_of_path(arm->topology, slot, of);
        const uint64_t takes = pl_round_takes(&arm->contracts[m], phase);
        if (takes > 0 && (arm->versions[m] == UINT64_MAX || arm->versions[m] < takes))
            return 0;
        if (takes > 0 && arm->made_ms[m] > begun_ms)
            begun_ms = arm->made_ms[m];
    }
    return 1e-3 * (double)(now_ms - begun_ms);
}

bool hub_is_late(const plan_arm *arm, const plan_path *path, const plan_lease *l,
                 int64_t phase, int64_t now_ms)
{
    const double usual_s = hub_usual_s(arm),
                 most_s = fmax(LATE_TIMES * usual_s, usual_s + late_least_s);
    double n_tasks;
    const double held_s = hub_held_s(arm, path, l, phase, now_ms, &n_tasks);
    const int64_t moved_ms = l->moved_ms > l->granted_ms ? l->moved_ms : l->granted_ms;
    if (usual_s <= 0)
        return 1e-3 * (double)(now_ms - moved_ms) >
               ldexp(stalled_s * n_tasks, path->n_taken);
    return held_s > ldexp(most_s * n_tasks, path->n_taken);
}

/* ---- the pace of a worker ---- */
/* Tasks that score documents have a pace of their own. */
static const hub_pace *pace_of(const hub_worker *w, const pl_arm *arm)
{
    return &w->pace[pl_arm_scores(arm)];
}

void hub_note_pace(const hub *h, hub_worker *w, int of, double inner_s, double total_s,
                   int64_t now_ms)
{
    const pl_arm *arm = &h->tasks.arms[of].arm;
    hub_pace *p = &w->pace[pl_arm_scores(arm)];
    /* A task with its own number of threads says nothing about the speed of the
     * worker's other tasks. */
    if (!(inner_s > 0) || !(total_s > 0) || arm->inner.threads > 0)
        return;
    inner_s = fmin(inner_s, total_s);
    p->slot_s = blend(p->n_tasks, p->slot_s, inner_s / slots_of(arm));
    p->rest_s = blend(p->n_tasks, p->rest_s, total_s - inner_s);
    p->n_tasks++;
    p->noted_ms = now_ms;
}

double hub_task_s(const hub_worker *w, const pl_arm *arm)
{
    const hub_pace *p = pace_of(w, arm);
    return p->n_tasks > 0 ? p->slot_s * slots_of(arm) + p->rest_s : 0;
}

static double inner_of(const hub_worker *w, const pl_arm *arm)
{
    return pace_of(w, arm)->slot_s * slots_of(arm);
}

/* Returns the seconds of an inner step by the hub's clock, from two reports of the
 * holder; 0 if there are not two. */
static double step_of(const plan_lease *l)
{
    if (l->first_ms == 0 || l->step <= l->first_step || l->step_ms <= l->first_ms)
        return 0;
    return 1e-3 * (double)(l->step_ms - l->first_ms) / (l->step - l->first_step);
}

/* Returns the seconds between the grant and the first inner step, in which the worker
 * fetched what the task needs. */
static double fetched_in(const plan_lease *l, double step_s)
{
    double s = 1e-3 * (double)(l->first_ms - l->granted_ms) - step_s * l->first_step;
    return s > 0 ? s : 0;
}

uint64_t hub_fetched(const hub_worker *w, const plan_lease *l)
{
    const bool is_newest = l->token == w->given_token && w->link.down > w->given_down;
    return is_newest ? w->link.down - w->given_down : 0;
}

/* Returns the part, at most 1, of the time in which a lease's holder has fetched
 * `fetched` bytes that it needs to fetch, or to send, what later tasks of the arm move.
 * A worker that is new to a path also fetches data and a state that it then keeps. But
 * if there are more paths than workers, it will fetch the next path's state, too. */
static double steady_part(const hub *h, const plan_arm *arm, const plan_lease *l,
                          uint64_t fetched, bool sends)
{
    double up, down;
    if (fetched == 0 || !l->is_new)
        return 1;
    pl_phase_bytes(&arm->arm, arm->topology, &up, &down);
    if (arm->n_open > h->n_able)
        down += (double)pl_path_state_bytes(&arm->arm,
                                            pl_topology_path_params(arm->topology));
    return fmin(1, (sends ? up : down) / (double)fetched);
}

double hub_once_s(const hub *h, const plan_arm *arm, const plan_lease *l)
{
    const double fetch_s = l->first_ms > 0 ? fetched_in(l, step_of(l)) : 0;
    return fetch_s * (1 - steady_part(h, arm, l, l->fetched, false));
}

/* Subtracts the time for bytes that the worker will not fetch again. Only the worker
 * knows these bytes, so this makes a worker that is not the job's own at best as fast
 * as the median of the measured workers. */
static double without_once(const hub_worker *w, const plan_arm *arm, double total_s,
                           double once_s)
{
    const double least_s = w->own_key         ? 0
                           : arm->is_measured ? fmin(total_s, arm->typical_s)
                                              : total_s;
    return fmax(total_s - once_s, least_s);
}

void hub_note_done(hub *h, hub_worker *w, const plan_path *path, int64_t phase,
                   const plan_lease *lease, double inner_s, int64_t now_ms)
{
    plan_task task;
    int64_t n_tasks;
    const int64_t granted_ms = plan_granted_ms(lease, phase, &n_tasks) - lease->left_ms;
    const bool was_idle = granted_ms >= w->done_ms;
    double total_s = 1e-3 * (double)(now_ms - (was_idle ? granted_ms : w->done_ms));
    w->done_ms = now_ms > w->done_ms ? now_ms : w->done_ms;
    if (n_tasks == 0 || !plan_find_task(&h->tasks, path->name, &task))
        return;
    total_s /= (double)n_tasks;
    if (was_idle && n_tasks == 1) {
        const plan_arm *arm = &h->tasks.arms[task.arm];
        total_s = without_once(w, arm, total_s,
                               lease->phase == phase ? hub_once_s(h, arm, lease)
                                                     : lease->before_once_s);
    }
    hub_note_pace(h, w, task.arm, inner_s, total_s, now_ms);
}

/* A worker whose task another worker finished first has measured itself, too: what it
 * had not done by then, it does at the pace that it showed, and a byte takes about as
 * long to send as to fetch. If it was stopped before its first step, and fetched no
 * longer than the worker that was first, that says nothing. */
static void note_late(const hub *h, int of, const plan_settled *s, int64_t now_ms)
{
    const pl_arm *arm = &h->tasks.arms[of].arm;
    const plan_lease *l = &s->lost;
    hub_worker *w = &h->workers[l->worker];
    double inner_s = fmin(s->seconds, 1e-3 * (double)s->held_ms);
    const double passed_s = 1e-3 * (double)(now_ms - l->granted_ms),
                 step_s = step_of(l);
    double fetch_s = passed_s;
    uint64_t fetched = hub_fetched(w, l);
    if (l->token == 0 || l->taken_up || l->repeats > 0)
        return;
    if (l->first_ms > 0) {
        fetch_s = fetched_in(l, step_s);
        fetched = l->fetched;
    }
    if (step_s > 0)
        inner_s = step_s * arm->inner.tau;
    else if (pace_of(w, arm)->n_tasks > 0)
        inner_s = inner_of(w, arm);
    if (step_s <= 0 && inner_s + 2 * fetch_s < 1e-3 * (double)s->held_ms)
        return;
    const double again_s =
                     fetch_s * steady_part(h, &h->tasks.arms[of], l, fetched, false),
                 send_s =
                     fetch_s * steady_part(h, &h->tasks.arms[of], l, fetched, true);
    hub_note_pace(h, w, of, inner_s,
                  fmax(without_once(w, &h->tasks.arms[of], passed_s, fetch_s - again_s),
                       again_s + inner_s + send_s),
                  now_ms);
}

/* Adds the time of a phase that has ended to those of which hub_usual_s is the median.
 */
static void note_time(plan_arm *arm, const plan_path *path, const plan_settled *s,
                      int64_t now_ms)
{
    int64_t n_tasks;
    (void)plan_granted_ms(&s->done, s->phase, &n_tasks);
    if (n_tasks == 0)
        return;
    /* If it waited for a version, it did at least the steps after the overlap since. */
    double sorted[PLAN_TIMES_MAX], usual;
    const int tau = arm->arm.inner.tau, rest = tau - arm->arm.outer.method.overlap;
    const double held_s = 1e-3 * (double)s->held_ms,
                 own_s = hub_held_s(arm, path, &s->done, s->phase, now_ms, &usual) *
                         tau / rest;
    arm->times_s[arm->n_times++ % PLAN_TIMES_MAX] =
        (own_s > 0 && own_s < held_s ? own_s : held_s) / (double)n_tasks;
    memcpy(sorted, arm->times_s, sizeof sorted);
    arm->median_s = fleet_median(
        sorted, arm->n_times < PLAN_TIMES_MAX ? (int)arm->n_times : PLAN_TIMES_MAX);
}

void hub_note_settled(hub *h, plan_task task, const plan_settled *s, int64_t now_ms)
{
    plan_arm *arm = &h->tasks.arms[task.arm];
    const plan_path *path = &arm->paths[task.index];
    hub_note_success(h, s->done.worker,
                     hub_is_late(arm, path, &s->done, s->phase, now_ms));
    note_time(arm, path, s, now_ms);
    hub_note_done(h, &h->workers[s->done.worker], path, s->phase, &s->done, s->seconds,
                  now_ms);
    if (s->lost.worker >= 0 && s->lost.worker < h->n_workers)
        note_late(h, task.arm, s, now_ms);
}

void hub_note_taken(const hub *h, int of, const plan_path *path, const plan_lease *l,
                    int64_t now_ms)
{
    const pl_arm *arm = &h->tasks.arms[of].arm;
    hub_worker *w = &h->workers[l->worker];
    double n_tasks;
    const double all_s =
        hub_held_s(&h->tasks.arms[of], path, l, path->phase, now_ms, &n_tasks);
    const double held_s = fmin(all_s, 1e-3 * (double)(now_ms - w->done_ms)) / n_tasks,
                 step_s = step_of(l),
                 inner_s = step_s > 0 ? step_s * arm->inner.tau : held_s;
    /* a holder that stands still in a first task says nothing about how long one takes
     */
    if (step_s <= 0 && hub_usual_s(&h->tasks.arms[of]) <= 0)
        return;
    /* it may be known that the worker needs still longer */
    hub_note_pace(h, w, of, inner_s, fmax(fmax(held_s, inner_s), hub_task_s(w, arm)),
                  now_ms);
}

/* ---- when a lease will end ---- */
double hub_left_s(const hub *h, const plan_arm *arm, const plan_path *path,
                  const plan_lease *l, int64_t now_ms)
{
    const hub_worker *w = &h->workers[l->worker];
    const double step_s = step_of(l);
    const double own_s = hub_task_s(w, &arm->arm),
                 expected_s =
                     (double)(1 + l->repeats) * (own_s > 0 ? own_s : arm->typical_s);
    int64_t begun_ms = l->granted_ms;
    if (w->done_ms > l->granted_ms && w->done_ms <= now_ms)
        begun_ms = w->done_ms; /* it was at another task until then */
    const double passed_s = 1e-3 * (double)(now_ms - begun_ms);
    double left_s = expected_s <= 0         ? passed_s
                    : passed_s < expected_s ? expected_s - passed_s
                                            : passed_s - expected_s;
    /* A worker that is not measured and has not begun to train has the steps before it,
     * and will send for as long as it fetches. If it has fetched for t seconds longer
     * than the others, it fetches for t seconds more. */
    bool trains_another = w->task[0] && strcmp(w->task, path->name) != 0;
    if (own_s <= 0 && l->first_ms == 0 && !trains_another && arm->typical_s > 0) {
        const double fetch_s = 0.5 * (arm->typical_s - arm->typical_inner_s),
                     late_s = passed_s > fetch_s ? passed_s - fetch_s : 0,
                     least_s = arm->typical_inner_s + passed_s + 2 * late_s;
        left_s = least_s > left_s ? least_s : left_s;
    }
    /* What the holder reports can only show that it needs longer than that. */
    if (step_s > 0) {
        const hub_pace *p = pace_of(w, &arm->arm);
        const double send_s = p->n_tasks > 0   ? 0.5 * p->rest_s
                              : l->repeats > 0 ? 0
                                               : fetched_in(l, step_s);
        const double steps_s =
            l->stage == PLAN_SENDS ? 0 : step_s * (arm->arm.inner.tau - l->step);
        /* below 0 if that time has passed */
        const double reported_s =
            1e-3 * (double)l->step_ms + steps_s + send_s - 1e-3 * (double)now_ms;
        left_s = fmax(left_s, fabs(reported_s));
    }
    return left_s;
}

/* ---- the fleet ---- */
/* Notes the median of the times for a task of the arm, and for the inner steps in it:
 * those of the workers that were measured, or, as long as there are none, those to
 * which two or more leases will come; and of the job's own workers. A new hub knows
 * only what the homes say of the inner steps: without this time, a worker that holds a
 * lease for ever would never be late. It is SAID_TIMES that long, as nobody knows how
 * long transfers take. `values` has room for all workers and leases. */
static void note_typical(const hub *h, plan_arm *arm, double *values, int64_t now_ms)
{
    for (int inner = 0; inner < 2; inner++) {
        double *out = inner ? &arm->typical_inner_s : &arm->typical_s;
        int n = 0;
        for (int i = 0; i < h->n_workers; i++) {
            const hub_worker *w = &h->workers[i];
            const double task_s = hub_task_s(w, &arm->arm);
            if (task_s > 0 && !hub_is_away(h, w, now_ms))
                values[n++] = inner ? inner_of(w, &arm->arm) : task_s;
        }
        arm->is_measured = n > 0;
        for (int i = 0; i < arm->n_tasks && !arm->is_measured; i++) {
            const plan_lease *l = &arm->paths[i].lease;
            const double step_s = l->active && l->repeats == 0 ? step_of(l) : 0;
            const double inner_s = step_s * arm->arm.inner.tau;
            if (step_s > 0)
                values[n++] = inner ? inner_s : 2 * fetched_in(l, step_s) + inner_s;
        }
        *out = arm->is_measured || n > 1 ? fleet_median(values, n) : 0;
    }
    int n_own = 0;
    for (int i = 0; i < h->n_workers; i++) {
        const hub_worker *w = &h->workers[i];
        if (w->own_key && hub_task_s(w, &arm->arm) > 0 && !hub_is_away(h, w, now_ms))
            values[n_own++] = hub_task_s(w, &arm->arm);
    }
    arm->own_s = fleet_median(values, n_own);
    int n_said = 0;
    for (int i = 0; arm->n_times == 0 && i < arm->n_tasks; i++)
        if (arm->paths[i].phase > 0)
            values[n_said++] =
                SAID_TIMES * arm->paths[i].work.seconds / (double)arm->paths[i].phase;
    arm->said_s = fleet_median(values, n_said);
}

static void note_busy(hub *h, const plan_arm *arm, const plan_path *path,
                      const plan_lease *l, int64_t now_ms)
{
    if (!l->active || l->worker < 0 || l->worker >= h->n_workers)
        return;
    hub_worker *w = &h->workers[l->worker];
    const bool said = plan_is_said(path, l->token, path->phase);
    const int64_t free_ms =
        now_ms + (said ? 0 : (int64_t)(1e3 * hub_left_s(h, arm, path, l, now_ms)));
    w->free_ms = free_ms > w->free_ms ? free_ms : w->free_ms;
    const plan_stage stage = said ? PLAN_SENDS : l->stage;
    if (!w->has_lease || stage > w->stage) {
        w->stage = stage;
        w->stage_ms = stage == PLAN_FETCHES ? l->granted_ms : l->step_ms;
        w->at = path;
    }
    w->has_lease = true;
}

static bool takes_tasks(const hub *h, const hub_worker *w, int64_t now_ms)
{
    return !w->drains && !w->fenced[0] && !hub_is_barred(w, now_ms) &&
           !hub_is_away(h, w, now_ms) &&
           (w->waiting || w->has_lease || now_ms - w->asked_ms < ASKS_MS ||
            now_ms - w->done_ms < ASKS_MS);
}

/* Divides an arm's ready tasks among the workers, after the arms before it. */
static void divide_tasks(hub *h, plan_arm *arm, fleet_member *members, int64_t now_ms)
{
    int n = 0;
    for (int i = 0; i < h->n_workers; i++) {
        const hub_worker *w = &h->workers[i];
        const double task_s = hub_task_s(w, &arm->arm);
        if (task_s > 0 && takes_tasks(h, w, now_ms))
            members[n++] =
                (fleet_member){1e-3 * (double)(w->taken_ms - now_ms), task_s};
    }
    const double ends_s =
        fleet_horizon(members, n, arm->n_ready > 0 ? arm->n_ready : 1);
    arm->horizon_ms = isfinite(ends_s) ? now_ms + (int64_t)(1e3 * ends_s) : INT64_MAX;
    if (arm->n_ready == 0 || !isfinite(ends_s))
        return;
    fleet_assign(members, n, ends_s);
    n = 0;
    for (int i = 0; i < h->n_workers; i++) {
        hub_worker *w = &h->workers[i];
        if (hub_task_s(w, &arm->arm) > 0 && takes_tasks(h, w, now_ms))
            w->taken_ms = now_ms + (int64_t)(1e3 * members[n++].free_s);
    }
}

void hub_look_at_fleet(hub *h, int64_t now_ms)
{
    const size_t n = (size_t)h->n_workers + 1;
    double *values = pl_alloc((n + PL_TASKS_MAX) * sizeof *values);
    fleet_member *members = pl_alloc(n * sizeof *members);
    int *order = pl_alloc(((size_t)h->tasks.n_arms + 1) * sizeof *order);
    h->fleet_ms = now_ms;
    /* Counts the ready, leased and open tasks of each arm. steps_left: the largest
     * number of steps that one of its ready paths has left. Arms that score documents
     * come first, as in plan_choose. */
    for (int a = 0; a < h->tasks.n_arms; a++) {
        plan_arm *arm = &h->tasks.arms[a];
        const pl_inner *in = &arm->arm.inner;
        arm->n_ready = arm->n_leased = arm->n_open = arm->steps_left = 0;
        for (int i = 0; i < arm->n_tasks; i++) {
            const plan_path *path = &arm->paths[i];
            arm->n_leased += path->lease.active;
            arm->n_open += path->phase < in->phases;
            if (path->lease.active || path->drops_state || !plan_ready(arm, i, now_ms))
                continue;
            const int64_t left = pl_arm_scores(&arm->arm)
                                     ? INT64_MAX
                                     : (in->phases - path->phase) * in->tau;
            arm->steps_left = left > arm->steps_left ? left : arm->steps_left;
            arm->n_ready++;
        }
        if (arm->n_ready + arm->n_leased > 0)
            note_typical(h, arm, values, now_ms);
    }
    /* what the workers do, and when they will be free */
    for (int i = 0; i < h->n_workers; i++) {
        h->workers[i].free_ms = now_ms;
        h->workers[i].has_lease = false;
    }
    for (int a = 0; a < h->tasks.n_arms; a++) {
        const plan_arm *arm = &h->tasks.arms[a];
        for (int i = 0; i < arm->n_tasks && arm->n_leased > 0; i++) {
            const plan_path *path = &arm->paths[i];
            note_busy(h, arm, path, &path->lease, now_ms);
            note_busy(h, arm, path, &path->backup, now_ms);
        }
    }
    for (size_t i = 0; i < h->n_audits; i++) {
        const hub_audit *a = &h->audits[i];
        const plan_arm *arm = &h->tasks.arms[a->task.arm];
        note_busy(h, arm, &arm->paths[a->task.index], &a->lease, now_ms);
    }
    h->n_able = 0;
    for (int i = 0; i < h->n_workers; i++) {
        h->workers[i].taken_ms = h->workers[i].free_ms;
        h->n_able += takes_tasks(h, &h->workers[i], now_ms);
    }
    /* the arms whose paths have the most steps left come first */
    for (int a = 0; a < h->tasks.n_arms; a++) {
        const plan_arm *arms = h->tasks.arms;
        int at = a;
        for (; at > 0 && arms[order[at - 1]].steps_left < arms[a].steps_left; at--)
            order[at] = order[at - 1];
        order[at] = a;
    }
    for (int k = 0; k < h->tasks.n_arms; k++) {
        plan_arm *arm = &h->tasks.arms[order[k]];
        if (arm->n_ready + arm->n_leased == 0)
            continue;
        divide_tasks(h, arm, members, now_ms);
        /* until when the arm's ready tasks may be kept from a worker */
        arm->waits_until_ms = INT64_MAX;
        for (int i = 0; i < arm->n_tasks; i++) {
            plan_path *path = &arm->paths[i];
            if (path->lease.active || path->drops_state || !plan_ready(arm, i, now_ms))
                continue;
            if (path->waits_until_ms == 0 && arm->horizon_ms < INT64_MAX)
                path->waits_until_ms = arm->horizon_ms + (arm->horizon_ms - now_ms);
            if (path->waits_until_ms > 0 && path->waits_until_ms < arm->waits_until_ms)
                arm->waits_until_ms = path->waits_until_ms;
        }
    }
    pl_free_all(order, members, values);
}

/* ---- which tasks fit a worker ---- */
/* The task for which a worker asks. */
typedef struct pace_ask {
    bool goes_on; /* the task is the next phase of one that the worker holds */
    /* phases that this worker would have to repeat first, and the others */
    int64_t own, others;
} pace_ask;

/* Who has to repeat phases needs that much longer. If the worker has the path's state,
 * the others would have to repeat phases. */
static bool is_in_time(const hub_worker *w, const plan_arm *arm, const pace_ask *ask,
                       int64_t now_ms)
{
    /* below this difference it is only the measurements that differ */
    const double equal_ms = 5, equal_times = 1.01;
    const double need_ms = 1e3 * hub_task_s(w, &arm->arm) * (double)(1 + ask->own);
    const double wait_ms = w->free_ms > now_ms ? (double)(w->free_ms - now_ms) : 0;
    const double others_ms = (double)(arm->horizon_ms - now_ms) *
                             (double)(1 + (ask->own == 0 ? ask->others : 0));
    return wait_ms + need_ms <=
           (ask->goes_on ? continues_times : equal_times) * others_ms + equal_ms;
}

static bool fits_worker(hub *h, int worker, int of, const pace_ask *ask, int64_t now_ms)
{
    hub_worker *w = &h->workers[worker];
    const plan_arm *arm = &h->tasks.arms[of];
    hub_withheld *held = &w->withheld;
    const bool has_own_pace = pl_steps_vary(&arm->arm.outer);
    if (has_own_pace || hub_task_s(w, &arm->arm) <= 0)
        return true;
    if (h->fleet_ms == 0 || now_ms - h->fleet_ms >= OLD_MS)
        hub_look_at_fleet(h, now_ms);
    bool fits = is_in_time(w, arm, ask, now_ms);
    if (!fits && now_ms - held->judged_ms >= OLD_MS &&
        now_ms - h->fleet_ms >= FRESH_MS) {
        hub_look_at_fleet(h, now_ms);
        fits = is_in_time(w, arm, ask, now_ms);
    }
    const double task_s = hub_task_s(w, &arm->arm), task_ms = 1e3 * task_s;
    const int64_t noted_ms = pace_of(w, &arm->arm)->noted_ms;
    const bool is_old = (double)(now_ms - noted_ms) > PROBE_TIMES * task_ms;
    const bool may_lose =
        h->options->backup != PL_BACKUP_OFF && pl_phase_repeats(&arm->arm.outer);
    const bool others_did_not_come = arm->waits_until_ms < now_ms &&
                                     (double)(now_ms - arm->waits_until_ms) > task_ms;
    if (fits || (is_old && may_lose) || others_did_not_come)
        return true;
    held->judged_ms = now_ms;
    held->arm = of;
    held->need_s =
        task_s + (w->free_ms > now_ms ? 1e-3 * (double)(w->free_ms - now_ms) : 0);
    held->others_s = 1e-3 * (double)(arm->horizon_ms - now_ms);
    /* no line about a worker that is only a little slower than the others */
    if (!held->is && held->need_s > clear_times * held->others_s &&
        pl_log_may(w->peer.own)) {
        char text[HUB_WITHHELD_TEXT_MAX];
        held->is = true;
        pl_log(PL_LOG_INFO, "worker.withheld", "worker=%s reason=\"%s\"", w->name,
               hub_withheld_text(h, w, text));
    }
    held->is = true;
    return false;
}

const char *hub_withheld_text(const hub *h, const hub_worker *w,
                              char text[HUB_WITHHELD_TEXT_MAX])
{
    text[0] = '\0';
    if (w->unchecked)
        snprintf(
            text, HUB_WITHHELD_TEXT_MAX,
            "audits (fleet.audit) cannot check its kind of device, %.100s: the job "
            "has no own worker with it; start one, or list it in fleet.devices",
            w->device);
    else if (w->withheld.is)
        snprintf(
            text, HUB_WITHHELD_TEXT_MAX,
            "it needs %.1f s for a task of %s; the others finish all ready tasks in "
            "%.1f s, so it waits for work that it would finish in time",
            w->withheld.need_s, h->tasks.arms[w->withheld.arm].arm.name,
            w->withheld.others_s);
    return text;
}

/* Whether a ready path waits for its keeper, which has the path's state and data: the
 * keeper has no task, its question for one is here or will come soon, and the path's
 * phase fits it. The path waits for a small part of the time that a task takes, and
 * only one path at a time waits for the same keeper. A keeper that has let one wait in
 * vain is waited for again only when its measurement would be too old. */
static bool is_left_to_keeper(hub *h, int worker, plan_task task, int64_t now_ms)
{
    const plan_arm *arm = &h->tasks.arms[task.arm];
    plan_path *path = &arm->paths[task.index];
    if (path->keeper < 0 || path->keeper == worker || path->repeats > 0 ||
        (arm->n_times == 0 && !arm->is_measured))
        return false;
    hub_worker *keeper = &h->workers[path->keeper];
    const plan_path *other = keeper->left_to_it;
    const double usual_ms = 1e3 * hub_usual_s(arm);
    const int64_t since_ms = now_ms - (int64_t)(left_part * usual_ms);
    if ((path->kept_ms > 0 && path->kept_ms <= since_ms) ||
        !takes_tasks(h, keeper, now_ms)) {
        keeper->missed_ms = other == path ? now_ms : keeper->missed_ms;
        keeper->left_to_it = other == path ? NULL : other;
        return false;
    }
    const bool is_other = other && other != path && !other->lease.active &&
                          other->keeper == path->keeper && other->kept_ms > since_ms;
    const bool has_missed =
        keeper->missed_ms > 0 &&
        (double)(now_ms - keeper->missed_ms) < PROBE_TIMES * usual_ms;
    if (is_other || has_missed || keeper->unchecked || hub_is_on_trial(h, keeper) ||
        plan_has_said(path, path->keeper, now_ms) ||
        (other != path && hub_n_held(h, keeper, HELD_BACKUPS) > 0))
        return false;
    if (keeper->has_lease && h->fleet_ms < now_ms) /* it has just ended its task */
        hub_look_at_fleet(h, now_ms);
    if (!fits_worker(h, path->keeper, task.arm, &(pace_ask){0}, now_ms))
        return false;
    keeper->left_to_it = path;
    path->kept_ms = path->kept_ms > 0 ? path->kept_ms : now_ms;
    h->workers[worker].withheld.judged_ms = now_ms;
    return true;
}

void hub_note_left(const hub_worker *w, const plan_arm *arm, plan_path *path)
{
    /* if nobody else asked in the meantime, it was not left to it for so long */
    const double most_ms = 1e3 * left_part * hub_usual_s(arm);
    if (w->left_to_it == path && path->kept_ms > 0)
        path->lease.left_ms =
            (int64_t)fmin((double)(path->lease.granted_ms - path->kept_ms), most_ms);
}

bool hub_fits_new(void *context, int worker, plan_task task, int64_t now_ms)
{
    hub *h = context;
    const plan_arm *arm = &h->tasks.arms[task.arm];
    const plan_path *path = &arm->paths[task.index];
    const pace_ask ask = {.own = plan_repeats(path, worker), .others = path->repeats};
    /* a worker that would not get the path lets it wait for nobody */
    return fits_worker(h, worker, task.arm, &ask, now_ms) &&
           !is_left_to_keeper(h, worker, task, now_ms);
}

bool hub_fits_next(hub *h, int worker, plan_task held, int64_t now_ms)
{
    const plan_arm *arm = &h->tasks.arms[held.arm];
    const plan_path *path = &arm->paths[held.index];
    const bool uploads = pl_phase_uploads(&arm->arm, path->phase + 1);
    const pace_ask ask = {.goes_on = true, .others = uploads ? 0 : path->repeats + 1};
    return fits_worker(h, worker, held.arm, &ask, now_ms);
}
