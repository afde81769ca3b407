/* Checks that a message carries a valid lease and that the reported work fits the
 * lease's task. Computes how much may be uploaded under a lease.
 *
 * The secret that seals leases is a ref of the store. When a hub sends HELLO for the
 * first time, the home makes this secret. If another home of the job has already made
 * the secret, the HELLO contains this secret, and the home stores it. So all homes of a
 * job accept the same leases, even after a restart of a home or of the hub. */
#include "codec/codec.h"
#include "home/home_internal.h"
#include "outer/outer.h"

#include <math.h>

pl_status home_load_secret(home *h)
{
    pl_buf text = {0};
    pl_hash hash;
    pl_status status = pl_store_get_ref(h->store, PL_SECRET_REF, &text);
    if (status == PL_OK)
        status = pl_hash_parse(pl_buf_text(&text), &hash);
    else if (status == PL_ERR_NOT_FOUND)
        hash = (pl_hash){{0}}, status = PL_OK;
    pl_buf_destroy(&text);
    PL_CHECK(status);
    h->has_secret = !pl_hash_none(&hash);
    pl_lease_secret *out = &h->secret;
    memcpy(out->bytes, hash.bytes, sizeof out->bytes);
    return PL_OK;
}

/* `told` is the secret in a hub's HELLO, or NULL if the message has none. */
pl_status home_agree_secret(home *h, const uint8_t *told)
{
    char text[PL_HASH_TEXT];
    pl_hash hash;
    pl_lease_secret secret = h->secret;
    if (told)
        memcpy(secret.bytes, told, sizeof secret.bytes);
    else if (!h->has_secret)
        pl_lease_secret_create(&secret);
    if (h->has_secret && memcmp(&secret, &h->secret, sizeof secret) == 0)
        return PL_OK;
    memcpy(hash.bytes, secret.bytes, sizeof hash.bytes);
    pl_hash_format(&hash, text);
    PL_CHECK(home_write(h));
    PL_CHECK(pl_txn_put_ref(h->txn, PL_SECRET_REF, text));
    h->secret = secret;
    h->has_secret = true;
    return PL_OK;
}

pl_status home_open_lease(home *h, const pl_peer *peer, pl_bytes sealed,
                          home_lease *out)
{
    memset(out, 0, sizeof *out);
    if (!h->has_secret)
        return pl_fail(PL_ERR_BUSY, "this home cannot check leases yet, because no hub "
                                    "has said HELLO to it; try again");
    PL_CHECK(pl_lease_open(&h->secret, sealed.at, sealed.len, &out->lease));
    const pl_lease *lease = &out->lease;
    PL_CHECK(home_check_fenced(h, lease));
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
    h->uploads.owner = lease->token;
    h->uploads.path = &out->arm->paths[out->index];
    h->uploads.phase = lease->phase;
    return PL_OK;
}

/* ---- checks of reported work ---- */
enum { SECONDS_MAX = 1000000000, LOSS_MAX = 1000000000 };

pl_status home_check_work(const home_lease *l, const pl_work *w)
{
    const pl_arm *arm = &l->arm->arm;
    uint64_t samples = pl_phase_samples(arm);
    uint64_t first = (uint64_t)l->lease.phase * samples;
    bool fewer = arm->outer.dynamic && w->n_samples > 0 && w->n_samples < samples;
    const char *task = l->arm->paths[l->index].state.name;
    if (w->first_sample != first || (w->n_samples != samples && !fewer))
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

/* Returns twice the size of all updates of one phase and of the path's state after the
 * phase. If one lease is for two phases, uploads of the first phase may still be in
 * memory when uploads of the second phase arrive. */
uint64_t home_upload_share(const home_lease *l)
{
    const home_arm *arm = l->arm;
    uint64_t sum =
        pl_path_state_bytes(&arm->arm, pl_topology_path_params(arm->topology));
    for (int slot = 0; slot < pl_topology_n_slots(arm->topology); slot++) {
        int module =
            pl_topology_module_of_path(arm->topology, slot, (int)l->lease.path);
        sum += (uint64_t)arm->contracts[module].n_vectors *
               pl_codec_module_bound(&arm->arm.outer.codec, arm->topology, module,
                                     arm->contracts[module].n_contributors);
    }
    return 2 * sum;
}
