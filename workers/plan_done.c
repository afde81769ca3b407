/* What workers report as done, and which worker did a finished phase. Only the homes
 * end a phase: they name the worker whose results they have. Reports of workers and of
 * homes arrive in any order, and reports about different phases may be mixed. */
#include "workers/plan.h"

static const plan_said *find_said(const plan_path *path, uint64_t token, int64_t phase)
{
    for (size_t i = 0; i < path->n_said; i++)
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
    for (size_t i = 0; i < path->n_said; i++)
        if (path->said[i].worker == worker && path->said[i].phase == path->phase &&
            path->said[i].until_ms > now_ms)
            return true;
    return false;
}

int64_t plan_granted_ms(const plan_lease *lease, int64_t phase, int64_t *n_tasks)
{
    const bool earlier = phase < lease->phase && lease->before_ms > 0;
    *n_tasks = earlier                                     ? lease->before_tasks
               : phase == lease->phase && !lease->taken_up ? 1 + lease->repeats
                                                           : 0;
    return earlier ? lease->before_ms : lease->granted_ms;
}

bool plan_say_done(plan_path *path, const plan_said *said, int64_t now_ms, int ttl_ms)
{
    /* The report is about a lease of the path's phase, or of the next phase if the
     * lease was extended. */
    plan_lease *lease = plan_lease_of(path, said->token, said->worker);
    if (!lease || said->phase < path->phase ||
        (said->phase > path->phase &&
         (lease != &path->lease || said->phase != lease->phase)))
        return false;
    if (plan_is_said(path, said->token, said->phase))
        return true;
    /* If the worker has reported the present phase and the homes have not confirmed it,
     * a report about the next phase must not prolong the lease. */
    if (said->phase == path->phase || !plan_is_said(path, said->token, path->phase))
        lease->deadline_ms = now_ms + ttl_ms;
    if (path->n_said == PLAN_SAID_MAX)
        memmove(path->said, path->said + 1, --path->n_said * sizeof *path->said);
    plan_said *kept = &path->said[path->n_said++];
    *kept = *said;
    kept->said_ms = now_ms;
    kept->lease_ms = now_ms + ttl_ms;
    kept->until_ms = now_ms + 3ll * ttl_ms;
    return true;
}

void plan_await_next(plan_path *path)
{
    plan_lease *lease = &path->lease;
    size_t n = 0;
    for (size_t i = 0; i < path->n_said; i++) {
        const plan_said *said = &path->said[i];
        if (lease->active && said->token == lease->token &&
            said->phase == path->phase && said->lease_ms > lease->deadline_ms)
            lease->deadline_ms = said->lease_ms;
        if (said->phase >= path->phase)
            path->said[n++] = *said;
    }
    path->n_said = n;
}

/* Returns the lease under which this worker did `phase`, the path's phase or the one
 * after; NULL if it has none. */
static const plan_lease *lease_for(const plan_path *path, int64_t phase, int worker)
{
    const plan_lease *l = &path->lease, *b = &path->backup;
    if (l->token != 0 && l->worker == worker && l->phase >= phase)
        return l;
    return b->active && b->worker == worker && b->phase == phase ? b : NULL;
}

bool plan_settle(plan *p, plan_path *path, const plan_news *news, int64_t now_ms,
                 plan_settled *out)
{
    const int64_t phase = news->phase - 1, n_phases = news->phase - path->phase;
    const plan_lease *done =
        n_phases > 0 && news->by >= 0 ? lease_for(path, phase, news->by) : NULL;
    *out = (plan_settled){.lost.worker = -1};
    if (!done)
        return false;
    const bool won = done == &path->backup;
    const plan_lease *other = won ? &path->lease : &path->backup;
    int64_t n_tasks;
    *out = (plan_settled){.phase = phase,
                          .loss = news->work.loss,
                          .seconds = (news->work.seconds - path->work.seconds) /
                                     (double)n_phases,
                          .done = *done,
                          .lost = *other,
                          .held_ms = now_ms - plan_granted_ms(done, phase, &n_tasks)};
    /* a first holder that went on is at the next phase already */
    const bool goes_on = path->lease.active && path->lease.phase > phase;
    if (other->token == 0 || other->phase < phase ||
        (won && (goes_on || !path->lease.active)) ||
        plan_is_said(path, other->token, phase))
        out->lost.worker = -1;
    p->n_backups_won += won;
    if (won && !goes_on) /* the worker has the path's state in its cache */
        path->last_worker = done->worker;
    return true;
}
