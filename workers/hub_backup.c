/* Backup tasks. If no task is ready, an idle worker may begin a task that another
 * worker holds. Usually it does so only if measurements show that it will finish the
 * task much earlier.
 *
 *   promise(w)  seconds that worker w needs for a task: computed from the pace of the
 *               worker's finished tasks and from their time outside inner steps
 *   left        seconds until the task of a lease will end: computed from its progress
 *               if the holder has reported twice, else from the holder's promise. A
 *               task that is t seconds late is expected to need t seconds more. If
 *               neither progress nor promise is known, the time since the grant is
 *               used.
 *
 * A backup begins if left >= 2 promise(idle worker) and it saves at least 0.2 s. A
 * smaller gain is not certain, because reports are slightly old. Both workers deliver
 * the same bytes, so the homes need not know of the backup: the first delivery counts,
 * and the second one is a duplicate.
 *
 * A worker on trial (hub_names.c) may never finish its task. So an idle worker that is
 * not on trial begins the same task at once, even with a different kind of device.
 * (Each worker names its device itself. If a worker on trial named a device that no
 * other worker has, no worker with the same device could help.) If the method does not
 * allow two workers at one task, the hub takes the task from the worker on trial when
 * that worker has held it for twice the time that the idle worker would need.
 *
 * If no home has confirmed a worker's DONE after UNCONFIRMED_MS, the worker has
 * probably sent nothing to the homes: usually the homes' report reaches the hub before
 * the worker's DONE. But on a slow link the homes' report may come after the DONE. So
 * the hub also waits until each home has answered a question that was sent after the
 * DONE arrived. Then an idle worker begins the same task, if the method allows two
 * workers at one task. If the worker is on trial, idle workers do not wait for
 * UNCONFIRMED_MS. */
#include "workers/hub_internal.h"

enum { LOOK_MS = 50, BACKUP_FAILURES_MAX = 2, UNCONFIRMED_MS = 1500 };
/* on_trial_s: the value of `left` for doubtful leases (is_doubtful), so that these come
 * first */
static const double gain_s = 0.2, on_trial_s = 1e12;

static double slots_of(const pl_arm *arm)
{
    return (double)arm->inner.tau * arm->inner.batch * arm->inner.context;
}

static double blend(int n, double old, double fresh)
{
    return n == 0 ? fresh : 0.5 * (old + fresh);
}

void hub_note_pace(hub_worker *w, const pl_arm *arm, double inner_s, double total_s)
{
    hub_pace *p = &w->pace;
    if (!(inner_s > 0) || inner_s > 1e9)
        return;
    /* A task with its own number of threads says nothing about the speed of the
     * worker's other tasks. */
    if (arm->inner.threads > 0)
        return;
    p->slot_s = blend(p->n_tasks, p->slot_s, inner_s / slots_of(arm));
    if (total_s >= inner_s)
        p->rest_s = blend(p->n_tasks, p->rest_s, total_s - inner_s);
    p->n_tasks++;
}

/* Returns the seconds that this worker would need for a task; 0 if the worker's pace is
 * not known. */
static double promise(const hub_worker *w, const pl_arm *arm)
{
    return w->pace.n_tasks > 0 ? w->pace.slot_s * slots_of(arm) + w->pace.rest_s : 0;
}

/* Returns the time, in seconds on the hub's clock, when the task will end, estimated
 * from the holder's reports; 0 if there are too few reports. */
static double end_by_progress(const plan_lease *l, int steps)
{
    if (l->first_ms == 0 || l->step <= l->first_step || l->step_ms <= l->first_ms)
        return 0;
    double step_s =
        1e-3 * (double)(l->step_ms - l->first_ms) / (l->step - l->first_step);
    return 1e-3 * (double)l->step_ms + step_s * (steps - l->step);
}

static double left_of(const hub *h, const pl_arm *arm, const plan_lease *l,
                      int64_t now_ms)
{
    double now = 1e-3 * (double)now_ms, end = end_by_progress(l, arm->inner.tau);
    double promised = (double)(1 + l->repeats) * promise(&h->workers[l->worker], arm);
    if (end <= 0 && promised <= 0)
        return now - 1e-3 * (double)l->granted_ms;
    if (end <= 0)
        end = 1e-3 * (double)l->granted_ms + promised;
    return end > now ? end - now : now - end;
}

/* ---- which worker did a finished phase ---- */
static pl_status tell_second(hub *h, const plan_path *path, const plan_said *by,
                             int other, uint64_t lost)
{
    pl_message m;
    pl_message_init(&m, 0);
    m.token = lost;
    hub_end_task(&h->workers[other], path);
    PL_SAY(&m, LEASE_LOST, lease_lost, .phase = by->phase);
    pl_log(PL_LOG_INFO, "backup.settled", "task=%s phase=%lld first=%s stopped=%s",
           path->name, (long long)by->phase, h->workers[by->worker].name,
           h->workers[other].name);
    return hub_answer(h, &h->workers[other].peer, &m);
}

pl_status hub_settle(hub *h, plan_path *path)
{
    int other = -1;
    plan_said by;
    uint64_t lost = 0;
    while (plan_settle(&h->tasks, path, &by, &other, &lost)) {
        hub_note_success(h, by.worker, 1e-3 * (double)by.held_ms);
        pl_log(PL_LOG_INFO, "task.done",
               "task=%s phase=%lld worker=%s loss=%.4f seconds=%.2f", path->name,
               (long long)by.phase, h->workers[by.worker].name, by.loss, by.seconds);
        if (other >= 0 && other < h->n_workers)
            PL_CHECK(tell_second(h, path, &by, other, lost));
    }
    return PL_OK;
}

/* ---- finding slow leases ---- */
/* Puts a lease into the list of the HUB_SLOW_MAX leases with the most time left. Leases
 * with equal times stay in the order in which they were added. */
static void keep_slow_lease(hub *h, plan_task task, double left_s)
{
    int at = h->n_slow;
    while (at > 0 && h->slow[at - 1].left_s < left_s)
        at--;
    if (at == HUB_SLOW_MAX)
        return;
    if (h->n_slow < HUB_SLOW_MAX)
        h->n_slow++;
    memmove(&h->slow[at + 1], &h->slow[at],
            (size_t)(h->n_slow - 1 - at) * sizeof *h->slow);
    h->slow[at] = (hub_slow){task, left_s};
}

/* Returns a time in the past. If a worker reported a result before that time and no
 * home has confirmed it, then no home has received the result. */
static int64_t homes_have_told_ms(const hub *h, int64_t now_ms)
{
    int64_t until_ms = now_ms - UNCONFIRMED_MS;
    for (int i = 0; i < h->n_homes; i++)
        if (h->homes[i].welcome && h->homes[i].fresh_ms <= until_ms)
            until_ms = h->homes[i].fresh_ms - 1;
    return until_ms;
}

/* Whether a second worker may begin the path's task. It must not begin if the holder
 * has reported the task as done, unless the holder is on trial or no home has confirmed
 * the report in time. */
static bool may_get_backup(const hub *h, const plan_path *path, int64_t now_ms)
{
    const plan_lease *l = &path->lease;
    return l->active && l->phase == path->phase && !path->backup.active &&
           path->backups_failed < BACKUP_FAILURES_MAX && l->worker >= 0 &&
           l->worker < h->n_workers &&
           (!plan_is_said(path, l->token, path->phase) ||
            hub_is_on_trial(h, &h->workers[l->worker]) ||
            plan_is_unconfirmed(path, l, homes_have_told_ms(h, now_ms)));
}

/* Whether the path's lease may end without a result: the holder is on trial, or
 * reported the task as done although the homes have no result. */
static bool is_doubtful(const hub *h, const plan_path *path)
{
    return hub_is_on_trial(h, &h->workers[path->lease.worker]) ||
           plan_is_said(path, path->lease.token, path->phase);
}

/* If the method does not allow two workers at one task: whether the hub may take the
 * lease from its holder. A holder that reported the task as done keeps the lease,
 * because taking it counts as a failure of the holder: perhaps the result has arrived,
 * and a busy home has not reported it yet. */
static bool may_be_taken(const hub *h, const plan_path *path)
{
    return hub_is_on_trial(h, &h->workers[path->lease.worker]) &&
           !plan_is_said(path, path->lease.token, path->phase);
}

static void find_slow_leases(hub *h, int64_t now_ms)
{
    h->n_slow = 0;
    h->slow_ms = now_ms;
    for (int a = 0; a < h->tasks.n_arms; a++) {
        const plan_arm *arm = &h->tasks.arms[a];
        bool both = plan_may_back_up(arm);
        for (int i = 0; i < arm->n_tasks; i++) {
            const plan_path *path = &arm->paths[i];
            if (!may_get_backup(h, path, now_ms) || !(both || may_be_taken(h, path)))
                continue;
            const plan_lease *l = &path->lease;
            keep_slow_lease(h, (plan_task){a, i},
                            !both ? 1e-3 * (double)(now_ms - l->granted_ms)
                            : is_doubtful(h, path) ? on_trial_s
                                                   : left_of(h, &arm->arm, l, now_ms));
        }
    }
}

/* Whether the worker may do this path's task as a backup. Workers whose devices have
 * the same description deliver the same bytes. */
static bool may_do(const hub *h, int worker, const plan_path *path, int64_t now_ms)
{
    const hub_worker *own = &h->workers[worker], *other;
    if (!may_get_backup(h, path, now_ms) || path->lease.worker == worker)
        return false;
    other = &h->workers[path->lease.worker];
    if (is_doubtful(h, path))
        return !hub_is_on_trial(h, own);
    return h->options->backup == PL_BACKUP_ANY ||
           strcmp(own->device, other->device) == 0;
}

static bool is_worth_it(double own_s, double left_s)
{
    return own_s > 0 && left_s < on_trial_s && left_s >= 2 * own_s &&
           left_s >= own_s + gain_s;
}

bool hub_find_backup(hub *h, int worker, int64_t now_ms, plan_task *out)
{
    const hub_worker *w = &h->workers[worker];
    if (h->options->backup == PL_BACKUP_OFF || w->task[0] || w->held_token != 0)
        return false;
    if (now_ms - h->slow_ms >= LOOK_MS)
        find_slow_leases(h, now_ms);
    for (int i = 0; i < h->n_slow; i++) {
        plan_task task = h->slow[i].task;
        const plan_arm *arm = &h->tasks.arms[task.arm];
        const plan_path *path = &arm->paths[task.index];
        if (may_do(h, worker, path, now_ms) &&
            ((is_doubtful(h, path) && plan_may_back_up(arm)) ||
             is_worth_it((double)(1 + plan_repeats(path, worker)) *
                             promise(w, &arm->arm),
                         h->slow[i].left_s))) {
            *out = task;
            return true;
        }
    }
    return false;
}
