/* Checks that a message carries a valid lease and that the reported work fits the
 * lease's task. Computes how long an update may be.
 *
 * The secret that seals leases comes with the hub's HELLO and is kept in memory only.
 * After a restart of the hub, leases of the previous hub stay good for a while, so that
 * their workers can go on until they have new seals. */
#include "home/home_internal.h"

#include <math.h>

static int n_good_secrets(const home *h)
{
    return h->n_secrets == 2 && pl_now_ms() >= h->old_until_ms ? 1 : h->n_secrets;
}

bool home_is_valid(const home_path *path, uint64_t token)
{
    return token != 0 && (token == path->valid[0] || token == path->valid[1]);
}

pl_status home_check_here(const home *h, const char *name)
{
    const int at = h->n_homes > 1 ? pl_home_of(name, (int)h->n_homes) : 0;
    if (h->n_homes <= 1 || at == (int)h->number)
        return PL_OK;
    return pl_fail(PL_ERR_NOT_FOUND, "%s belongs to home-%d, and this is home-%d", name,
                   at + 1, (int)h->number + 1);
}

pl_status home_open_seal(const home *h, int n_secrets, pl_bytes sealed, home_lease *out)
{
    pl_status status = PL_ERR_STALE;
    memset(out, 0, sizeof *out);
    if (h->n_secrets == 0)
        return pl_fail(PL_ERR_BUSY, "this home cannot check leases yet, because no hub "
                                    "has said HELLO to it; try again");
    for (int i = 0; i < n_secrets && status == PL_ERR_STALE; i++) {
        status = pl_lease_open(&h->secrets[i], sealed.at, sealed.len, &out->lease);
        out->secret = &h->secrets[i];
    }
    PL_CHECK(status);
    pl_lease_key(out->secret, sealed.at, sealed.len, &out->key);
    return PL_OK;
}

pl_status home_open_lease(home *h, const pl_peer *peer, pl_bytes sealed,
                          home_lease *out)
{
    PL_CHECK(home_open_seal(h, n_good_secrets(h), sealed, out));
    const pl_lease *lease = &out->lease;
    (void)pl_gate_role(&lease->key, &out->is_own);
    const pl_fence *f =
        pl_fence_find(h->fenced, h->n_fenced, lease->worker, &lease->key, out->is_own);
    if (f)
        return pl_fail(PL_ERR_NOPERM, "%s", f->reason);
    if (peer->role != PL_AS_RELAY && !pl_pubkey_equal(&lease->key, &peer->key))
        return pl_fail(PL_ERR_NOPERM,
                       "the lease of %s/p%02lld.r%lld belongs to worker %s, whose key "
                       "is not the sender's key",
                       lease->arm, (long long)lease->path, (long long)lease->replica,
                       lease->worker);
    out->arm = home_find_arm(h, lease->arm, strlen(lease->arm));
    if (!out->arm)
        return pl_fail(PL_ERR_NOT_FOUND, "this home has no arm %s", lease->arm);
    int64_t n_replicas = pl_topology_n_replicas(out->arm->topology);
    int64_t n_paths = pl_topology_n_paths(out->arm->topology);
    if (lease->path < 0 || lease->path >= n_paths || lease->replica < 0 ||
        lease->replica >= n_replicas || lease->phase < 0 ||
        lease->phase > out->arm->arm.inner.phases)
        return pl_fail(PL_ERR_STALE, "the lease names a task that arm %s does not have",
                       lease->arm);
    out->index = (int)(lease->path * n_replicas + lease->replica);
    home_path *path = &out->arm->paths[out->index];
    out->is_ended = !home_is_valid(path, lease->token);
    /* the hub tells the homes of a lease before it tells the worker */
    if (out->is_ended && lease->token > path->fence)
        return pl_fail(PL_ERR_BUSY,
                       "the hub has not told this home of the lease of %s yet; try "
                       "again",
                       path->state.name);
    h->uploads.owner =
        (staging_owner){.token = lease->token, .path = path, .phase = lease->phase};
    return PL_OK;
}

pl_status home_check_seal(const home_lease *l, const pl_hash *wanted,
                          const uint8_t *seal)
{
    if (seal && pl_hash_is_mac(wanted, seal))
        return PL_OK;
    return pl_fail(PL_ERR_STALE,
                   "a message about %s was not sealed by worker %s, which has the "
                   "lease: it was changed on its way, for example by a relay",
                   l->arm->paths[l->index].state.name, l->lease.worker);
}

bool home_is_receipt(const home *h, const char *module, int64_t round,
                     const home_lease *by, const pl_hash *receipt)
{
    pl_hash wanted;
    for (int i = 0; i < n_good_secrets(h); i++) {
        pl_lease_receipt(&h->secrets[i], &by->lease, module, round, &wanted);
        if (pl_hash_is_mac(&wanted, receipt->bytes))
            return true;
    }
    return false;
}

enum { SECONDS_MAX = 1000000000, LOSS_MAX = 1000000000 };

pl_status home_check_work(const home_lease *l, const pl_work *w)
{
    const pl_arm *arm = &l->arm->arm;
    uint64_t first = (uint64_t)l->lease.phase * pl_phase_samples(arm);
    /* outer.dynamic_steps: the lease says how many steps the worker does */
    const uint64_t samples = l->lease.step > 0
                                 ? (uint64_t)l->lease.step * (uint64_t)arm->inner.batch
                                 : pl_phase_samples(arm);
    const char *task = l->arm->paths[l->index].state.name;
    if (w->first_sample != first || w->n_samples != samples)
        return pl_fail(PL_ERR_DATA,
                       "phase %lld of %s has the samples %llu to %llu; the message "
                       "says %llu samples from number %llu on",
                       (long long)l->lease.phase, task, (unsigned long long)first,
                       (unsigned long long)(first + samples - 1),
                       (unsigned long long)w->n_samples,
                       (unsigned long long)w->first_sample);
    if (w->n_tokens > w->n_samples * (uint64_t)arm->inner.context)
        return pl_fail(PL_ERR_DATA,
                       "a worker reports %llu tokens, but %llu samples of %s have at "
                       "most %d tokens each",
                       (unsigned long long)w->n_tokens,
                       (unsigned long long)w->n_samples, task, arm->inner.context);
    if (!isfinite(w->loss))
        return pl_fail(PL_ERR_NUMERIC, "the loss of %s is not finite", task);
    /* rounding may make a loss slightly negative */
    if (w->loss <= -1 || w->loss > LOSS_MAX)
        return pl_fail(PL_ERR_DATA,
                       "the loss of %s is %g; a loss must be above -1 and at most 1e9",
                       task, w->loss);
    for (int i = 0; i < PL_WORK_N_MEASURES; i++) {
        const pl_work_measure *m = &pl_work_measures[i];
        const double value = pl_work_value(w, m);
        if (!(value >= 0 && value <= m->most)) /* true for NaN */
            return pl_fail(PL_ERR_DATA,
                           "a worker reports %s %g for %s; it must be from 0 to %g",
                           m->name, value, task, m->most);
    }
    const int n_replicas = pl_topology_n_replicas(l->arm->topology);
    if (w->held != 0 && !pl_held_scores(arm, l->index / n_replicas,
                                        l->index % n_replicas, l->lease.phase))
        return pl_fail(PL_ERR_DATA,
                       "a worker reports a held-out loss in phase %lld of %s, but this "
                       "phase scores no held-out text",
                       (long long)l->lease.phase, task);
    if (!(w->seconds >= 0 && w->seconds <= SECONDS_MAX)) /* true for NaN */
        return pl_fail(PL_ERR_DATA,
                       "a worker reports %g seconds for a phase of %s; the time must "
                       "be from 0 to 1e9",
                       w->seconds, task);
    return PL_OK;
}

uint64_t home_update_bound(const home_arm *arm, int module)
{
    const pl_contract *of = &arm->contracts[module];
    return (uint64_t)of->n_vectors * pl_codec_module_bound(&arm->arm.outer.codec,
                                                           arm->topology, module,
                                                           of->n_contributors);
}
