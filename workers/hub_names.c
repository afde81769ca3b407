/* Keeps the names of workers, and the keys to which the names belong.
 *
 * The hub assumes that all workers with the same key belong to one person. So a key may
 * have at most NAMES_PER_KEY names, and a failure of one of its workers counts for all
 * of them (hub_trial.c). The job's own keys belong to the operator, who may start any
 * number of workers. A failure of such a worker counts only for that worker. */
#include "workers/hub_internal.h"

enum { NAMES_PER_KEY = 64, WORKERS_MAX = 16384 };

int hub_find_worker(const hub *h, const char *name)
{
    return pl_name_table_get(h->worker_names, name);
}

int hub_find_maker(const hub *h, const char *name, const pl_pubkey *key)
{
    const int found = hub_find_worker(h, name);
    const bool is_it = found >= 0 && (pl_pubkey_none(key) ||
                                      pl_pubkey_equal(&h->workers[found].key, key));
    return is_it ? found : -1;
}

bool hub_same_holder(const hub_worker *a, const hub_worker *b)
{
    return a == b || (!a->own_key && !b->own_key && pl_pubkey_equal(&a->key, &b->key));
}

/* Finds an entry for a new worker. If its key has too many names or the table is full,
 * that is the entry of a worker to which nothing refers any more: its name is
 * forgotten. */
static pl_status place_worker(hub *h, const hub_worker *fresh, int *out)
{
    const int64_t now = pl_now_ms();
    int n_names = 0;
    for (int i = 0; i < h->n_workers; i++)
        n_names += pl_pubkey_equal(&h->workers[i].key, &fresh->key);
    const bool crowded = !fresh->own_key && n_names >= NAMES_PER_KEY;
    const bool full = h->n_workers >= WORKERS_MAX;
    for (int i = 0; (crowded || full) && i < h->n_workers; i++) {
        const hub_worker *w = &h->workers[i];
        if ((!crowded || pl_pubkey_equal(&w->key, &fresh->key)) &&
            hub_is_away(h, w, now) && !w->queued && !w->fenced[0] &&
            w->barred_until_ms <= now && !hub_is_audited(h, w) &&
            plan_forget_worker(&h->tasks, i)) {
            if (pl_log_may(w->own_key))
                pl_log(PL_LOG_INFO, "worker.forgotten", "worker=%s", w->name);
            pl_name_table_drop(h->worker_names, w->name);
            *out = i;
            return PL_OK;
        }
    }
    char text[PL_PUBKEY_TEXT];
    if (crowded)
        return pl_fail(
            PL_ERR_BUSY,
            "the key %s already has %d workers, the most that one key may have, so %s "
            "waits until one of them has been away for a while; create another key "
            "with `pathloom key invite`",
            pl_pubkey_format(&fresh->key, text), NAMES_PER_KEY, fresh->name);
    if (full)
        return pl_fail(PL_ERR_BUSY,
                       "this hub already has %d workers, the most that it can have",
                       WORKERS_MAX);
    h->workers = pl_grow(h->workers, (size_t)(h->n_workers + 1) * sizeof *h->workers);
    h->queue = pl_grow(h->queue, (size_t)(h->n_workers + 1) * sizeof *h->queue);
    *out = h->n_workers++;
    return PL_OK;
}

/* Refuses names that only their owner may use: texts of keys, the names of the job's
 * own workers, and names that the list of keys assigns to other keys. This is checked
 * even if the hub has restarted and knows no worker yet. Any other name belongs to the
 * key that uses it first, until the list assigns the name to another key
 * (hub_enrol). */
static pl_status check_reserved(const char *name, const pl_peer *peer)
{
    pl_pubkey owner;
    if (pl_pubkey_parse(name, &owner) == PL_OK)
        return pl_fail(PL_ERR_NOPERM,
                       "the name %s is the text of a key; start this worker with a "
                       "different --name",
                       name);
    if (!peer->own && pl_key_name_is_jobs(name))
        return pl_fail(PL_ERR_NOPERM,
                       "the name %s is reserved for the job's own workers; start this "
                       "worker with a different --name",
                       name);
    if (peer->own || !pl_gate_key_named(name, &owner) ||
        pl_pubkey_equal(&owner, &peer->key))
        return PL_OK;
    return pl_fail(PL_ERR_NOPERM,
                   "the list of keys gives the name %s to another key; start this "
                   "worker with a different --name",
                   name);
}

static bool list_gives(const char *name, const pl_pubkey *key)
{
    pl_pubkey owner;
    return pl_gate_key_named(name, &owner) && pl_pubkey_equal(&owner, key);
}

/* Whether the worker keeps its name when the list gives the name to another key. A
 * worker that has shown that it delivers keeps its name, so that an invitation is not
 * enough to take the name from it. Any other worker that is not the job's own loses its
 * name, so that it cannot block names that others will need. */
static bool keeps_name(const hub_worker *w)
{
    return w->own_key || (w->proven && !w->fenced[0]);
}

pl_status hub_know_worker(hub *h, const char *name, const pl_peer *peer, int *out)
{
    hub_worker fresh = {.key = peer->key, .own_key = peer->own};
    PL_CHECK(pl_key_name_check(name));
    *out = hub_find_worker(h, name);
    if (*out >= 0) {
        /* A worker may have the name only because its key was the first to use it. Then
         * the job's own keys, and the key to which the list gives the name, have a
         * better right. */
        hub_worker *w = &h->workers[*out];
        if (w->own_key || list_gives(w->name, &w->key) ||
            !(peer->own || (!keeps_name(w) && list_gives(w->name, &peer->key))))
            return PL_OK;
        /* The entry gets a name with which no worker can join. */
        char old[PL_TEXT_MAX];
        pl_copy_text(old, sizeof old, w->name);
        pl_log(PL_LOG_WARN, "name.taken_back", "worker=%s", old);
        hub_free_held(h, *out);
        pl_name_table_drop(h->worker_names, old);
        snprintf(w->name, sizeof w->name, "?%d", *out);
        pl_name_table_put(h->worker_names, w->name, *out);
        w->left = true;
    }
    PL_CHECK(check_reserved(name, peer));
    pl_copy_text(fresh.name, sizeof fresh.name, name);
    PL_CHECK(place_worker(h, &fresh, out));
    h->workers[*out] = fresh;
    pl_name_table_put(h->worker_names, name, *out);
    /* the new worker gets the failures, bars and results of workers with its key */
    hub_worker *own = &h->workers[*out];
    for (int i = 0; i < h->n_workers; i++) {
        const hub_worker *w = &h->workers[i];
        if (w == own || !hub_same_holder(w, own))
            continue;
        own->n_failures = w->n_failures;
        own->n_bars = w->n_bars;
        own->barred_until_ms = w->barred_until_ms;
        own->n_results = w->n_results;
        own->trial_token = w->trial_token;
    }
    return PL_OK;
}

/* Checks that the worker is not fenced, and that the peer has the worker's key. A name
 * belongs to the key that used it first, so that no other key can take over the
 * worker's leases. Without encryption all keys are equal. */
pl_status hub_check_owner(const hub_worker *w, const pl_peer *peer)
{
    if (w->fenced[0])
        return pl_fail(PL_ERR_NOPERM, "%s", w->fenced);
    if (pl_pubkey_equal(&w->key, &peer->key))
        return PL_OK;
    return pl_fail(
        PL_ERR_NOPERM,
        "the name %s belongs to another key; start this worker with a different --name",
        w->name);
}

pl_status hub_enrol(hub *h, const pl_peer *peer, pl_message *m, pl_message *a)
{
    char text[PL_PUBKEY_TEXT];
    pl_msg_enrol q;
    pl_pubkey fresh;
    pl_key_role role;
    PL_CHECK(PL_HEAR(m, enrol, &q));
    if (peer->role != PL_AS_INVITE || !h->options->keys || !h->options->keys[0])
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "no key can be enrolled over this connection: the job is not "
                       "encrypted, or the connection does not use an invitation");
    memcpy(fresh.bytes, q.key, sizeof fresh.bytes);
    /* A worker may keep the name that it uses (keeps_name). pl_admission_enrol checks
     * the names of the list. */
    pl_pubkey owner;
    const int w = hub_find_worker(h, q.name);
    if (w >= 0 && keeps_name(&h->workers[w]) && !pl_gate_key_named(q.name, &owner) &&
        !pl_pubkey_equal(&h->workers[w].key, &fresh))
        return pl_fail(PL_ERR_EXISTS,
                       "a worker with another key uses the name %s; choose a different "
                       "name with --name",
                       q.name);
    PL_CHECK(pl_admission_enrol(h->options->keys, &peer->key, &fresh, q.name, &role));
    if (pl_log_may(peer->own))
        pl_log(PL_LOG_INFO, "key.enrolled", "key=%s name=%s role=%s",
               pl_pubkey_format(&fresh, text), q.name, pl_key_role_name(role));
    PL_SAY(a, ENROLLED, enrolled, .role = pl_key_role_name(role));
    return PL_OK;
}
