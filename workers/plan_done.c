/* Finds out which worker did a task, from the reports of workers and of homes. These
 * reports arrive in any order, and reports about different phases may be mixed. */
#include "workers/plan.h"

static plan_ended *ended_of(plan_path *path, int64_t phase)
{
    return &path->ended[phase % PLAN_ENDED_MAX];
}

const plan_lease *plan_lease_for(const plan_path *path, int64_t phase, int worker)
{
    const plan_lease *l = &path->lease, *b = &path->backup;
    if (l->token != 0 && l->worker == worker && l->phase >= phase)
        return l;
    return b->active && b->worker == worker && b->phase == phase ? b : NULL;
}

/* `by` is the worker that delivered the last of these phases. Those of earlier phases
 * are unknown. */
void plan_note_ended(plan_path *path, int64_t phase, int by, int64_t now_ms)
{
    const plan_lease *lease = &path->lease;
    for (int64_t p = path->phase; p < phase && p < path->phase + PLAN_ENDED_MAX; p++) {
        plan_ended *e = ended_of(path, p);
        *e = (plan_ended){.phase = p,
                          .goes_on = !lease->active || lease->phase > p,
                          .by = p == phase - 1 ? by : -1,
                          .ended_ms = now_ms};
        if (lease->phase >= p)
            e->leases[0] = *lease;
        if (p == path->phase && path->backup.active)
            e->leases[1] = path->backup;
    }
}

static int which_ended(const plan_ended *e, const plan_said *said)
{
    if (e->phase != said->phase)
        return -1;
    return plan_is_lease_of(&e->leases[0], said->token, said->worker)   ? 0
           : plan_is_lease_of(&e->leases[1], said->token, said->worker) ? 1
                                                                        : -1;
}

static const plan_said *find_said(const plan_path *path, uint64_t token, int64_t phase)
{
    for (int i = 0; i < path->n_said; i++)
        if (path->said[i].token == token && path->said[i].phase == phase)
            return &path->said[i];
    return NULL;
}

bool plan_is_said(const plan_path *path, uint64_t token, int64_t phase)
{
    return find_said(path, token, phase) != NULL;
}

bool plan_is_unconfirmed(const plan_path *path, const plan_lease *lease,
                         int64_t until_ms)
{
    const plan_said *said = find_said(path, lease->token, path->phase);
    return said && said->said_ms <= until_ms;
}

bool plan_has_said(const plan_path *path, int worker, int64_t now_ms)
{
    for (int i = 0; i < path->n_said; i++)
        if (path->said[i].worker == worker && path->said[i].phase == path->phase &&
            path->said[i].until_ms > now_ms)
            return true;
    return false;
}

static void forget_said(plan_path *path, int i)
{
    path->n_said--;
    memmove(&path->said[i], &path->said[i + 1],
            (size_t)(path->n_said - i) * sizeof *path->said);
}

int64_t plan_granted_ms(const plan_lease *lease, int64_t phase, int64_t *n_tasks)
{
    const bool earlier = phase < lease->phase && lease->before_ms > 0;
    *n_tasks = earlier                                     ? lease->before_tasks
               : phase == lease->phase && !lease->taken_up ? 1 + lease->repeats
                                                           : 0;
    return earlier ? lease->before_ms : lease->granted_ms;
}

const plan_lease *plan_say_done(plan_path *path, const plan_said *said, int64_t now_ms,
                                int ttl_ms)
{
    /* The report is about a lease of the path's phase, of the next phase if the lease
     * was extended, or of a finished phase. */
    plan_lease *lease = NULL;
    if (said->phase >= path->phase) {
        lease = plan_lease_of(path, said->token, said->worker);
        if (lease && said->phase > path->phase &&
            (lease != &path->lease || said->phase != lease->phase))
            lease = NULL;
    } else if (said->phase >= 0) {
        plan_ended *e = ended_of(path, said->phase);
        const int which = which_ended(e, said);
        lease = which < 0 ? NULL : &e->leases[which];
    }
    if (!lease || plan_is_said(path, said->token, said->phase))
        return lease;
    /* If the worker has reported the present phase and the homes have not confirmed it,
     * a report about the next phase must not prolong the lease. */
    if (said->phase <= path->phase || !plan_is_said(path, said->token, path->phase))
        lease->deadline_ms = now_ms + ttl_ms;
    if (path->n_said == PLAN_SAID_MAX)
        forget_said(path, 0);
    plan_said *kept = &path->said[path->n_said++];
    *kept = *said;
    kept->said_ms = now_ms;
    kept->lease_ms = now_ms + ttl_ms;
    kept->until_ms = now_ms + 3ll * ttl_ms;
    return lease;
}

void plan_await_next(plan_path *path)
{
    plan_lease *lease = &path->lease;
    for (int i = 0; i < path->n_said; i++) {
        const plan_said *said = &path->said[i];
        if (lease->active && said->token == lease->token &&
            said->phase == path->phase && said->lease_ms > lease->deadline_ms)
            lease->deadline_ms = said->lease_ms;
    }
}

/* Finds the report of the worker that did a finished phase. Returns the index of the
 * worker's lease in plan_ended.leases, or -1 if there is no such report. *at becomes
 * the index of the report. Drops reports about finished phases for which the reporting
 * worker had no lease. */
static int find_settled(plan_path *path, int *at)
{
    for (int i = 0; i < path->n_said;) {
        const plan_said *said = &path->said[i];
        const plan_ended *e = ended_of(path, said->phase);
        int which = which_ended(e, said);
        *at = i;
        if (said->phase < path->phase && which < 0)
            forget_said(path, i);
        else if (said->phase < path->phase && (e->by < 0 || e->by == said->worker))
            return which;
        else
            i++;
    }
    return -1;
}

/* Whether two workers had leases of the finished phase, and this worker one of them. */
static bool is_shared_by(const plan_ended *e, int worker)
{
    const plan_lease *a = &e->leases[0], *b = &e->leases[1];
    return a->token != 0 && b->token != 0 &&
           (a->worker == worker || b->worker == worker);
}

bool plan_is_settling(const plan *p, int worker, int64_t since_ms)
{
    for (int a = 0; a < p->n_arms; a++)
        for (int i = 0; i < p->arms[a].n_tasks; i++) {
            const plan_path *path = &p->arms[a].paths[i];
            for (int k = 0; path->phase_ms > since_ms && k < PLAN_ENDED_MAX; k++)
                if (is_shared_by(&path->ended[k], worker))
                    return true;
        }
    return false;
}

bool plan_settle(plan *p, plan_path *path, plan_settled *out)
{
    int at = 0, won = find_settled(path, &at);
    int64_t n_tasks;
    if (won < 0)
        return false;
    const plan_said by = path->said[at];
    const plan_ended e = *ended_of(path, by.phase);
    const plan_lease *second = &e.leases[!won];
    bool leave = second->token == 0 || (won && e.goes_on) ||
                 plan_is_said(path, second->token, by.phase);
    memset(ended_of(path, by.phase), 0, sizeof e);
    forget_said(path, at);
    *out = (plan_settled){.by = by,
                          .is_named = e.by >= 0 || second->token == 0,
                          .done = e.leases[won],
                          .lost = *second,
                          .ended_ms = e.ended_ms};
    out->held_ms = e.ended_ms - plan_granted_ms(&out->done, by.phase, &n_tasks);
    if (leave)
        out->lost.worker = -1;
    p->n_backups_won += (uint64_t)won;
    if (won && !path->lease.active) /* the worker has the path's state in its cache */
        path->last_worker = by.worker;
    return true;
}
