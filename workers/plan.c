/* The plan: decides which task is next, and records which worker has which lease.
 *
 * Purpose. For every question of a worker, the hub (hub.c) calls functions of this
 * file. No function here opens a socket, reads a clock or logs: the caller passes the
 * time as `now_ms`. Tests can therefore simulate whole jobs, restarts and lost messages
 * in memory.
 *
 * State. A task is one (path, replica) of an arm in the phase that it has reached.
 * Phases and versions come from the homes (plan_hear, plan_set_version). Phases and
 * versions only rise, so reports may arrive late, twice or in any order: an older
 * report changes nothing. There is one exception: a phase whose results an audit drops
 * is done again (plan_path.in_audit). Only the hub knows the leases. A hub that
 * restarts learns of them again when their holders renew them (plan_renew).
 *
 * A task of phase t may begin (may_begin) when
 *   1. its path has finished t phases and the arm has more than t of them;
 *   2. every module of the path has the version that phase t needs (pl_round_needs). A
 *      holder that continues before its results of phase t - 1 have arrived does not
 *      need versions that are made only from these results (pl_contract.predicts);
 *   3. the method's own condition holds:
 *      noloco             the mates of phase t - 1 have finished that phase, or offer
 *                         their updates, or the deadline is over
 *      streaming          every update for the versions that the path will mix in is
 *                         done or has a worker
 *      delayed-nesterov   the path is at most `staleness` phases ahead of the slowest
 *                         path
 *   4. all homes have the arm;
 *   5. under fleet.audit, the audit of phase t - 1 (if it was drawn) has agreed, and
 *      the updates for versions that the path will mix in (streaming) count.
 *
 * Nothing else delays a task. plan_choose takes the ready task whose path has the most
 * inner steps left (tasks that score documents come first). Among equal tasks, it
 * prefers a task whose state the asking worker has in its cache. The hub may keep the
 * tasks of an arm from a worker that would finish them too late (plan.fits).
 *
 * The lease of a path in phase t:
 *
 *          plan_grant, or plan_renew after a restart of the hub
 *   FREE ------------------------------------------------------> HELD
 *    ^ ^ ^                                                       |  |
 *    | | +------ plan_release, plan_expire, plan_release_worker -+  | plan_say_done
 *    | |                                                            v
 *    | +------ plan_expire: the homes never confirmed ------------ SAID
 *    |                                                              |
 *    +---- plan_hear: the homes report phase t + 1 (also from HELD) +
 *
 * SAID means that the worker has reported the task as done. Only the homes can confirm
 * this, so renewals do not prolong the lease in this state (plan_done.c). A holder may
 * also continue with phase t + 1 while its results of phase t are being sent:
 * plan_extend moves the lease to phase t + 1 under the same token, and plan_shorten
 * moves it back. A backup is a second lease of the same phase with a higher token. If
 * the first lease ends, the backup takes its place.
 *
 * Invariants
 *   - A path has at most one lease and one backup, and its lease is at most one phase
 *     ahead of the path.
 *   - Tokens only rise: the high half is the epoch, which the first home increases at
 *     every start of a hub, and the low half counts grants.
 *   - A message about a token counts only if it comes from the worker that has the
 *     lease (plan_lease_of). So a guessed token has no effect.
 *   - Failures are counted per phase: the count of a new phase begins at 0.
 *
 * Ownership. `plan` owns arms, topologies, paths and name tables until plan_clear. A
 * plan_path never moves in memory, but plan_add_arm may move every plan_arm. Workers
 * are indices into the hub's table; plan_forget_worker tells whether an index can be
 * reused. */
#include "workers/plan.h"

static void clear_arm(plan_arm *a)
{
    for (int i = 0; a->paths && i < a->n_tasks; i++)
        pl_free(a->paths[i].mates);
    pl_free(a->contracts);
    pl_topology_destroy(&a->topology);
    pl_arm_clear(&a->arm);
    pl_name_table_destroy(&a->path_names);
    pl_name_table_destroy(&a->module_names);
    pl_free_all(a->versions, a->made_ms, a->paths);
}

void plan_clear(plan *p)
{
    for (int i = 0; i < p->n_arms; i++)
        clear_arm(&p->arms[i]);
    pl_free(p->arms);
    memset(p, 0, sizeof *p);
}

static plan_arm *arm_of(plan *p, const char *name, size_t len)
{
    for (int i = 0; i < p->n_arms; i++)
        if (strlen(p->arms[i].arm.name) == len &&
            memcmp(p->arms[i].arm.name, name, len) == 0)
            return &p->arms[i];
    return NULL;
}

plan_arm *plan_find_arm(plan *p, const char *name)
{
    return arm_of(p, name, strlen(name));
}

pl_status plan_add_arm(plan *p, pl_arm *arm, const pl_hash *blob)
{
    plan_arm a;
    if (plan_find_arm(p, arm->name)) {
        pl_arm_clear(arm);
        return PL_OK;
    }
    a = (plan_arm){.arm = *arm, .blob = *blob};
    memset(arm, 0, sizeof *arm);
    pl_status status = pl_topology_create(&a.arm.shape, &a.arm.spec, &a.topology);
    if (status != PL_OK) {
        clear_arm(&a);
        return status;
    }
    a.contracts = pl_contracts_create(&a.arm, a.topology);
    a.phases_ahead =
        pl_versions_have_phases(&a.arm.outer) ? INT64_MAX : a.arm.outer.staleness;
    a.is_audited = p->audits && pl_audit_may(&a.arm);
    char name[PL_NAME_MAX];
    int n = pl_topology_n_modules(a.topology);
    a.versions = pl_alloc((size_t)n * sizeof *a.versions);
    memset(a.versions, 0xff, (size_t)n * sizeof *a.versions);
    a.made_ms = pl_alloc((size_t)n * sizeof *a.made_ms);
    a.module_names = pl_name_table_create();
    for (int m = 0; m < n; m++) {
        pl_topology_module_name(a.topology, m, name);
        pl_name_table_put(a.module_names, name, m);
    }
    int replicas = pl_topology_n_replicas(a.topology);
    a.n_tasks = pl_topology_n_paths(a.topology) * replicas;
    a.paths = pl_alloc((size_t)a.n_tasks * sizeof *a.paths);
    a.path_names = pl_name_table_create();
    for (int i = 0; i < a.n_tasks; i++) {
        a.paths[i].last_worker = a.paths[i].keeper = -1;
        a.paths[i].mates_phase = -1;
        pl_arm_path_name(&a.arm, a.topology, i / replicas, i % replicas,
                         a.paths[i].name);
        pl_name_table_put(a.path_names, strchr(a.paths[i].name, '/') + 1, i);
    }
    p->arms = pl_grow(p->arms, (size_t)(p->n_arms + 1) * sizeof *p->arms);
    p->arms[p->n_arms++] = a;
    return PL_OK;
}

void plan_set_version(plan *p, const char *module, uint64_t version, int64_t now_ms)
{
    const char *slash = strchr(module, '/');
    plan_arm *a = slash ? arm_of(p, module, (size_t)(slash - module)) : NULL;
    int m = a ? pl_name_table_get(a->module_names, slash + 1) : -1;
    if (m >= 0 && (a->versions[m] == UINT64_MAX || a->versions[m] < version)) {
        a->versions[m] = version;
        a->made_ms[m] = now_ms;
    }
}

bool plan_find_task(plan *p, const char *name, plan_task *out)
{
    const char *slash = strchr(name, '/');
    plan_arm *a = slash ? arm_of(p, name, (size_t)(slash - name)) : NULL;
    int i = a ? pl_name_table_get(a->path_names, slash + 1) : -1;
    if (i >= 0)
        *out = (plan_task){(int)(a - p->arms), i};
    return i >= 0;
}

int64_t plan_n_confirmed(const plan_path *path)
{
    return path->phase - path->in_audit;
}

/* What is counted per phase begins at 0. */
static void begin_phase(plan_path *path, int64_t phase, int64_t now_ms)
{
    path->phase = phase;
    path->phase_ms = now_ms;
    path->kept_ms = 0;
    memset(&path->backup, 0, sizeof path->backup);
    path->backups_failed = path->n_taken = 0;
    path->n_failed_by = path->own_failures = 0;
}

void plan_hear(plan_path *path, const plan_news *news, int64_t now_ms)
{
    int64_t phase = news->phase;
    if (phase == path->phase - 1 && path->in_audit && !news->in_audit) {
        /* An audit has dropped the results of the path's last phase: it is leased
         * again. No earlier lease counts any more. */
        begin_phase(path, phase, now_ms);
        memset(&path->lease, 0, sizeof path->lease);
        path->is_untold = true;
    }
    /* what counts stays so */
    if (phase < path->phase ||
        (phase == path->phase && news->in_audit && !path->in_audit))
        return;
    path->in_audit = news->in_audit;
    path->work = news->work;
    path->held_phase = news->held_phase;
    pl_copy_text(path->state_of, sizeof path->state_of,
                 news->worker ? news->worker : "");
    path->state_key = news->key;
    path->repeats = news->repeats;
    path->keeper = news->keeper;
    path->drops_state = path->drops_state && path->state_of[0] && phase == path->phase;
    if (phase == path->phase)
        return;
    begin_phase(path, phase, now_ms);
    if (path->lease.phase < phase)
        memset(&path->lease, 0, sizeof path->lease);
    path->lease.failures = 0;
    plan_await_next(path);
}

void plan_offer(plan_path *path, int64_t phase, uint64_t token, int worker)
{
    if (phase < path->phase || phase > path->lease.phase ||
        plan_lease_of(path, token, worker) != &path->lease)
        return;
    path->offered = phase + 1;
    path->offered_by = worker;
}

void plan_withdraw(plan *p, int worker)
{
    for (plan_walk at = {.plan = p}; plan_next(&at);)
        if (at.path->offered_by == worker)
            at.path->offered = 0;
}

const int *plan_mates(const plan_arm *arm, int index, int64_t phase)
{
    plan_path *path = &arm->paths[index];
    if (!path->mates)
        path->mates =
            pl_alloc((size_t)pl_topology_n_slots(arm->topology) * sizeof *path->mates);
    const int replicas = pl_topology_n_replicas(arm->topology);
    const int n_slots = pl_topology_n_slots(arm->topology);
    for (int slot = 0; path->mates_phase != phase && slot < n_slots; slot++) {
        int module = pl_topology_module_of_path(arm->topology, slot, index / replicas);
        if (pl_round_mate(&arm->contracts[module], index, phase - 1,
                          &path->mates[slot]) != PL_OK)
            path->mates[slot] = -1;
    }
    path->mates_phase = phase;
    return path->mates;
}

bool plan_is_late(const plan_arm *arm, int index, int64_t phase, int64_t now_ms)
{
    const plan_path *path = &arm->paths[index];
    int deadline_ms = arm->arm.outer.deadline_ms;
    if (deadline_ms <= 0 || phase < 1 || path->phase < phase)
        return false;
    return path->phase > phase || now_ms - path->phase_ms >= deadline_ms;
}

/* Whether a task may begin (see the top of this file). `ahead` means that the results
 * of the previous phase have not arrived yet. Then versions that are made only from
 * these results may be missing, because the worker that has the results can compute
 * these versions itself. */
static bool may_begin(const plan_arm *a, int index, int64_t phase, bool ahead,
                      int64_t now_ms)
{
    const int n_slots = pl_topology_n_slots(a->topology);
    const int replicas = pl_topology_n_replicas(a->topology), path = index / replicas;
    /* A task may take versions in while it trains (below). Under audits these wait for
     * the job's own workers, so nothing may begin that would keep such a worker waiting
     * for them; and a phase may not begin before the phase before it counts. */
    if (a->lacking || phase >= a->arm.inner.phases || a->paths[index].in_audit ||
        (ahead && a->is_audited))
        return false;
    for (int slot = 0; slot < n_slots; slot++) {
        const int module = pl_topology_module_of_path(a->topology, slot, path);
        const uint64_t have = a->versions[module];
        const bool predicted = ahead && a->contracts[module].predicts;
        if (have == UINT64_MAX ||
            (!predicted && have < pl_round_needs(&a->contracts[module], phase)))
            return false;
    }
    /* delayed-nesterov: not too far ahead of the slowest path */
    for (int i = 0; phase > a->phases_ahead && i < a->n_tasks; i++)
        if (phase - a->paths[i].phase > a->phases_ahead)
            return false;
    /* Streaming: all tasks that contribute to the versions that are mixed in during
     * this phase are done or have a worker. The versions need not exist when the phase
     * begins. But without this rule, the path might wait for a task for which no worker
     * is free. */
    for (int slot = 0; slot < n_slots; slot++) {
        const int module = pl_topology_module_of_path(a->topology, slot, path);
        const pl_contract *of = &a->contracts[module];
        const bool is_made = a->versions[module] >= pl_round_takes(of, phase);
        for (int i = 0; !is_made && i < of->n_holders; i++) {
            int at = pl_topology_module_path(a->topology, module, i / replicas);
            const plan_path *other = &a->paths[at * replicas + i % replicas];
            if (other->phase < phase - 1 ||
                (other->phase == phase - 1 && !other->lease.active) ||
                (a->is_audited && plan_n_confirmed(other) < phase))
                return false;
        }
    }
    /* noloco: all mates that the path meets before `phase` have finished the phase
     * before it, or have workers that offer their updates; or the deadline is over */
    if (phase == 0 || plan_is_late(a, index, phase, now_ms))
        return true;
    const int *mates = plan_mates(a, index, phase);
    for (int slot = 0; slot < n_slots; slot++) {
        const int mate = mates[slot];
        if (mate < 0 || (mate != index && a->paths[mate].phase < phase &&
                         a->paths[mate].offered < phase))
            return false;
    }
    return true;
}

bool plan_ready(const plan_arm *arm, int index, int64_t now_ms)
{
    return may_begin(arm, index, arm->paths[index].phase, false, now_ms);
}

/* Returns the priority of a task; larger is better. It depends first on the number of
 * inner steps that are left on the path, then on whether this worker had the path last.
 * Tasks that score documents come before all tasks that train, because the mixture
 * waits for them. */
static int64_t score_of(const plan_arm *arm, const plan_path *path, int64_t phase,
                        int worker)
{
    enum { BEFORE_ALL = INT32_MAX };
    int64_t steps = pl_arm_scores(&arm->arm)
                        ? BEFORE_ALL
                        : (arm->arm.inner.phases - phase) * arm->arm.inner.tau;
    int affinity = path->last_worker == worker ? 2 : path->last_worker < 0 ? 1 : 0;
    return steps * 4 + affinity;
}

int64_t plan_repeats(const plan_path *path, int worker)
{
    return path->keeper == worker ? 0 : path->repeats;
}

/* Whether the path waits for its keeper instead of going to this worker, which would
 * have to repeat phases. The keeper may be busy with another path. So the path waits,
 * from the time when a worker without any task wanted it, for as long as the repeated
 * phases usually take: if the keeper is slow, waiting for its own pace would cost more
 * than repeating the phases. After the first phase this time is not known before a
 * keeper's DONE, which follows the homes' report. */
static bool waits_for_keeper(const plan_arm *arm, const plan_path *path, int worker,
                             int64_t now_ms)
{
    const double unknown_ms = 2000;
    const double wait_ms =
        arm->median_s > 0 ? 1e3 * arm->median_s * (double)path->repeats : unknown_ms;
    return path->keeper >= 0 && plan_repeats(path, worker) > 0 &&
           (path->kept_ms == 0 || (double)(now_ms - path->kept_ms) < wait_ms);
}

/* Chooses among the paths that this worker can continue at once or, if `repeats` is
 * set, among those whose phases it would have to repeat although they have a keeper.
 * Notes since when such a path waits for its keeper. */
static bool choose_among(const plan *p, int worker, bool repeats, int64_t now_ms,
                         plan_task *out)
{
    int64_t best = -1;
    for (plan_walk at = {.plan = p}; plan_next(&at);) {
        plan_path *path = at.path;
        const int64_t again = plan_repeats(path, worker);
        bool held = path->backup.active || path->drops_state ||
                    (path->keeper >= 0 && again > 0) != repeats ||
                    (path->lease.active && path->lease.deadline_ms > now_ms);
        int64_t score = score_of(at.arm, path, path->phase, worker);
        /* plan_ready comes last, because it takes the most time and the score already
         * excludes most tasks */
        if (held || score <= best || plan_has_said(path, worker, now_ms) ||
            !plan_ready(at.arm, at.task.index, now_ms))
            continue;
        if (repeats && path->kept_ms == 0)
            path->kept_ms = now_ms;
        if (waits_for_keeper(at.arm, path, worker, now_ms) ||
            (p->fits && !p->fits(p->context, worker, at.task, now_ms)))
            continue;
        best = score;
        *out = at.task;
    }
    return best >= 0;
}

bool plan_choose(const plan *p, int worker, int64_t now_ms, plan_task *out)
{
    return choose_among(p, worker, false, now_ms, out) ||
           choose_among(p, worker, true, now_ms, out);
}

bool plan_leaves_out(const plan *p, int worker, int64_t now_ms)
{
    for (plan_walk at = {.plan = p}; plan_next(&at);) {
        const bool is_free = !at.path->lease.active && !at.path->drops_state;
        if (plan_has_said(at.path, worker, now_ms) ||
            (is_free && waits_for_keeper(at.arm, at.path, worker, now_ms) &&
             plan_ready(at.arm, at.task.index, now_ms)))
            return true;
    }
    return false;
}

bool plan_continues(plan *p, plan_task task, int64_t phase, uint64_t token, int worker,
                    int64_t now_ms)
{
    const plan_arm *arm = &p->arms[task.arm];
    plan_path *path = &arm->paths[task.index];
    const plan_lease *lease = plan_lease_of(path, token, worker);
    return lease == &path->lease && lease->active && path->phase == phase &&
           lease->phase == phase && may_begin(arm, task.index, phase + 1, true, now_ms);
}

bool plan_is_better(const plan *p, plan_task task, plan_task held, int worker)
{
    const plan_arm *a = &p->arms[task.arm], *b = &p->arms[held.arm];
    const plan_path *x = &a->paths[task.index], *y = &b->paths[held.index];
    return score_of(a, x, x->phase, worker) > score_of(b, y, y->phase + 1, worker);
}

/* Does not reset the lease's count of failures, because these failures belong to the
 * earlier phase, whose results have not arrived yet. */
void plan_extend(plan *p, plan_task task, int64_t now_ms, int ttl_ms)
{
    plan_lease *lease = &p->arms[task.arm].paths[task.index].lease;
    lease->phase++;
    lease->step = 0;
    lease->first_ms = 0;
    lease->fetched = 0;
    lease->is_new = false;
    lease->left_ms = 0;
    lease->stage = PLAN_FETCHES;
    lease->deadline_ms = now_ms + ttl_ms;
    lease->before_ms = lease->granted_ms;
    lease->before_tasks = lease->taken_up ? 0 : 1 + lease->repeats;
    lease->granted_ms = lease->renewed_ms = now_ms;
    lease->repeats = 0; /* the holder continues with the state that it has just made */
    lease->taken_up = false;
    p->n_granted++;
}

void plan_shorten(plan_path *path, uint64_t token, int worker)
{
    plan_lease *lease = &path->lease;
    if (plan_lease_of(path, token, worker) != lease || lease->phase <= path->phase)
        return;
    lease->phase = path->phase;
    if (lease->before_ms == 0) /* a new hub does not know when the phase was granted */
        return;
    lease->granted_ms = lease->before_ms;
    lease->taken_up = lease->before_tasks == 0;
    lease->repeats = lease->taken_up ? 0 : lease->before_tasks - 1;
}

uint64_t plan_next_token(plan *p, plan_path *path)
{
    const uint64_t token = (p->epoch << 32) | ++p->counter;
    if (path)
        path->granted = token;
    return token;
}

size_t plan_valid_tokens(const plan_path *path, uint64_t out[2])
{
    size_t n = 0;
    if (path->lease.token != 0)
        out[n++] = path->lease.token;
    if (path->backup.active)
        out[n++] = path->backup.token;
    return n;
}

static plan_lease new_lease(plan *p, plan_path *path, int worker, int64_t now_ms,
                            int ttl_ms)
{
    p->n_granted++;
    ttl_ms = ttl_ms > PLAN_FIRST_MS ? ttl_ms : PLAN_FIRST_MS;
    return (plan_lease){.active = true,
                        .is_new = path->keeper != worker,
                        .token = plan_next_token(p, path),
                        .phase = path->phase,
                        .deadline_ms = now_ms + ttl_ms,
                        .granted_ms = now_ms,
                        .renewed_ms = now_ms,
                        .worker = worker,
                        .loss = path->work.loss,
                        .repeats = plan_repeats(path, worker)};
}

void plan_grant(plan *p, plan_task task, int worker, int64_t now_ms, int ttl_ms)
{
    plan_path *path = &p->arms[task.arm].paths[task.index];
    const int failures = path->lease.failures;
    path->lease = new_lease(p, path, worker, now_ms, ttl_ms);
    path->lease.failures = failures;
    memset(&path->backup, 0, sizeof path->backup);
    path->last_worker = worker;
    path->waits_until_ms = 0;
}

static bool is_lease_of(const plan_lease *lease, uint64_t token, int worker)
{
    return token != 0 && lease->token == token && lease->worker == worker;
}

plan_lease *plan_lease_of(plan_path *path, uint64_t token, int worker)
{
    if (is_lease_of(&path->lease, token, worker))
        return &path->lease;
    bool backs_up = path->backup.active && is_lease_of(&path->backup, token, worker);
    return backs_up ? &path->backup : NULL;
}

void plan_grant_backup(plan *p, plan_task task, int worker, int64_t now_ms, int ttl_ms)
{
    plan_path *path = &p->arms[task.arm].paths[task.index];
    path->backup = new_lease(p, path, worker, now_ms, ttl_ms);
    p->n_backups++;
}

/* Ends the path's lease. If the path has a backup, the backup becomes the path's
 * lease. */
static void end_lease(plan_path *path)
{
    int failures = path->lease.failures;
    path->lease.active = false;
    if (!path->backup.active)
        return;
    path->is_untold = true;
    path->lease = path->backup;
    path->lease.failures = failures;
    path->last_worker = path->lease.worker;
    memset(&path->backup, 0, sizeof path->backup);
}

void plan_stand_still(plan *p, int64_t ms, int64_t until_ms)
{
    for (int a = 0; a < p->n_arms; a++) {
        for (int m = 0; m < pl_topology_n_modules(p->arms[a].topology); m++)
            p->arms[a].made_ms[m] += ms;
        for (int i = 0; i < p->arms[a].n_tasks; i++) {
            plan_path *path = &p->arms[a].paths[i];
            plan_lease *leases[] = {&path->lease, &path->backup};
            for (int k = 0; k < 2; k++) {
                leases[k]->granted_ms += ms;
                leases[k]->moved_ms += leases[k]->moved_ms > 0 ? ms : 0;
                if (leases[k]->deadline_ms < until_ms)
                    leases[k]->deadline_ms = until_ms;
                leases[k]->before_ms += leases[k]->before_ms > 0 ? ms : 0;
            }
        }
    }
}

int plan_n_held(const plan *p, int worker)
{
    int n = 0;
    for (plan_walk at = {.plan = p}; plan_next(&at);)
        n += at.path->lease.active && at.path->lease.worker == worker;
    return n;
}

bool plan_renew(plan *p, plan_path *path, int64_t phase, uint64_t token, int worker,
                int64_t now_ms, int ttl_ms)
{
    /* a renewal may be for the next phase, if the lease was extended */
    bool ahead = phase == path->phase + 1;
    if (phase != path->phase && !ahead)
        return false;
    plan_lease *lease = plan_lease_of(path, token, worker);
    if (lease)
        lease->renewed_ms = now_ms;
    if (lease && plan_is_said(path, token, path->phase))
        return lease->active; /* a lease that was reported as done is not prolonged */
    if (!lease) {
        /* The hub granted this lease before it restarted; the lease's holder renews it
         * now. The token must be of an earlier epoch, because the hub knows all leases
         * that it granted in the present epoch. Of two such leases the later one
         * counts: the other one had ended. */
        if ((path->lease.active && !path->lease.taken_up) || path->granted >= token ||
            token >> 32 >= p->epoch || plan_n_held(p, worker) >= PLAN_HELD_MAX)
            return false;
        path->granted = token;
        path->is_untold = true;
        path->lease = (plan_lease){.taken_up = true,
                                   .token = token,
                                   .phase = phase,
                                   .granted_ms = now_ms,
                                   .renewed_ms = now_ms,
                                   .worker = worker};
        path->last_worker = worker;
    }
    if (lease == &path->backup) {
        lease->deadline_ms = now_ms + ttl_ms;
        return phase == path->phase;
    }
    lease = &path->lease;
    /* A hub that was started after the grant does not know of extensions. */
    if (lease->taken_up && phase > lease->phase)
        lease->phase = phase;
    lease->active = true;
    lease->deadline_ms = now_ms + ttl_ms;
    return true;
}

void plan_release(plan *p, plan_path *path, uint64_t token, int worker, bool failed)
{
    const plan_lease *lease = plan_lease_of(path, token, worker);
    p->n_failed += lease && failed;
    if (lease == &path->backup) {
        memset(&path->backup, 0, sizeof path->backup);
        path->backups_failed += failed;
        path->is_untold = true;
    } else if (lease) {
        path->lease.failures += failed;
        end_lease(path);
        /* a lease that was given back is dead, unlike one that expired */
        if (is_lease_of(&path->lease, token, worker))
            path->lease.token = 0;
        path->is_untold = true;
    }
}

void plan_drop_state(plan *p, plan_path *path)
{
    path->drops_state = true;
    path->n_failed_by = path->own_failures = 0;
    memset(&path->backup, 0, sizeof path->backup);
    path->lease = (plan_lease){.phase = path->phase, .worker = path->lease.worker};
    (void)plan_next_token(p, path); /* all leases so far are dead */
}

int plan_expire(plan *p, int64_t now_ms,
                void (*lost)(void *context, int worker, uint64_t token), void *context)
{
    int n = 0;
    for (plan_walk at = {.plan = p}; plan_next(&at);) {
        plan_path *path = at.path;
        if (path->backup.active && path->backup.deadline_ms <= now_ms) {
            memset(&path->backup, 0, sizeof path->backup);
            path->is_untold = true;
            n++;
        }
        if (!path->lease.active || path->lease.deadline_ms > now_ms)
            continue;
        if (lost)
            lost(context, path->lease.worker, path->lease.token);
        if (path->keeper == path->lease.worker)
            path->keeper = -1;
        end_lease(path);
        /* ends the offer, because the worker that offers the updates may be gone */
        path->offered = 0;
        n++;
    }
    p->n_expired += (uint64_t)n;
    return n;
}

void plan_release_worker(plan *p, int worker)
{
    for (plan_walk at = {.plan = p}; plan_next(&at);) {
        plan_path *path = at.path;
        if (path->backup.active && path->backup.worker == worker) {
            memset(&path->backup, 0, sizeof path->backup);
            path->is_untold = true;
        }
        if (path->keeper == worker)
            path->keeper = -1;
        bool is_waited_for = plan_is_said(path, path->lease.token, path->phase);
        if (path->lease.active && path->lease.worker == worker && !is_waited_for)
            end_lease(path);
    }
}

bool plan_forget_worker(plan *p, int worker)
{
    for (plan_walk at = {.plan = p}; plan_next(&at);) {
        const plan_path *path = at.path;
        bool found = (path->lease.active && path->lease.worker == worker) ||
                     (path->backup.active && path->backup.worker == worker) ||
                     (path->offered > 0 && path->offered_by == worker);
        for (size_t k = 0; k < path->n_said; k++)
            found = found || path->said[k].worker == worker;
        for (int k = 0; k < path->n_failed_by; k++)
            found = found || path->failed_by[k] == worker;
        if (found)
            return false;
    }
    for (plan_walk at = {.plan = p}; plan_next(&at);) {
        if (at.path->last_worker == worker)
            at.path->last_worker = -1;
        if (at.path->keeper == worker)
            at.path->keeper = -1;
    }
    return true;
}

bool plan_arm_finished(const plan_arm *arm)
{
    for (int i = 0; i < arm->n_tasks; i++)
        if (plan_n_confirmed(&arm->paths[i]) < arm->arm.inner.phases)
            return false;
    for (int m = 0; m < pl_topology_n_modules(arm->topology); m++)
        if (arm->versions[m] == UINT64_MAX ||
            arm->versions[m] < arm->contracts[m].n_rounds)
            return false;
    return true;
}
