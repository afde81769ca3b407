/* Which worker does an audit, and its lease.
 *
 * The hub prefers a worker with the same kind of device as the first worker, because
 * then the results are compared by hash. If there is no such worker, a worker with a
 * different kind of device does the audit, and the results are compared with a
 * tolerance (hub_verdict.c).
 *
 * If a connected worker with one of the job's own keys can do an audit, only such
 * workers get it. Without this rule, a person with several keys could let one key audit
 * results of another key, by naming a device that no other worker has. Or the person
 * could use two keys to accuse a third worker.
 *
 * No worker audits a result that was made under its own name or key. */
#include "workers/hub_internal.h"

enum { LOOK_MS = 200 };

static bool is_of_its_kind(const hub *h, const hub_audit *a, int worker)
{
    return strcmp(h->workers[worker].device, a->row.results[0].device) == 0;
}

/* Whether worker w and the worker with this name and key may belong to the same
 * person. */
static bool shares_holder(const hub_worker *w, const char *name, const pl_pubkey *key)
{
    return strcmp(w->name, name) == 0 ||
           (!w->own_key && !pl_pubkey_none(key) && pl_pubkey_equal(&w->key, key));
}

static bool can_audit(const hub *h, const hub_audit *a, int worker)
{
    const hub_worker *w = &h->workers[worker];
    bool across = a->row.seed != 0 && h->options->audit_tolerance > 0;
    if (w->fenced[0] || (!across && !is_of_its_kind(h, a, worker)))
        return false;
    for (int i = 0; i < a->row.n; i++)
        if (shares_holder(w, a->row.results[i].worker, &a->row.results[i].key))
            return false;
    /* a worker with the job's own key may be the third worker, even if it sent some of
     * the updates */
    if (w->own_key && a->row.n > 1)
        return true;
    for (int slot = 0; slot < a->n_slots; slot++)
        if (a->senders[slot].worker[0] &&
            shares_holder(w, a->senders[slot].worker, &a->senders[slot].key))
            return false;
    return true;
}

/* Returns how much the hub trusts a worker's result: 2 if the worker has one of the
 * job's own keys, 1 if it has delivered its tasks so far, otherwise 0. A worker gets an
 * audit only if no worker with more trust can do it. Without this rule a dishonest
 * worker could choose who audits it, because each worker names its device itself. */
static int trust_in(const hub_worker *w)
{
    return w->own_key ? 2 : w->delivers;
}

/* Finds out whether a connected worker can do the audit, the highest trust of such a
 * worker, and whether a worker with this trust has the first worker's kind of device.
 * The list of workers is searched only every LOOK_MS, because thousands of workers may
 * ask for tasks. */
void hub_look_for_auditors(const hub *h, hub_audit *a, int64_t now_ms)
{
    if (a->looked_ms > 0 && now_ms - a->looked_ms < LOOK_MS)
        return;
    a->looked_ms = now_ms;
    a->has_any = a->has_kin = false;
    a->trust = 0;
    for (int i = 0; i < h->n_workers; i++) {
        const hub_worker *w = &h->workers[i];
        if (w->drains || hub_is_away(h, w, now_ms) || hub_is_barred(w, now_ms) ||
            !can_audit(h, a, i))
            continue;
        int trust = trust_in(w);
        a->has_any = true;
        a->has_kin = trust < a->trust    ? a->has_kin
                     : trust == a->trust ? a->has_kin || is_of_its_kind(h, a, i)
                                         : is_of_its_kind(h, a, i);
        a->trust = trust > a->trust ? trust : a->trust;
    }
}

hub_audit *hub_find_audit(hub *h, int worker, int64_t now_ms)
{
    for (size_t i = 0; i < h->n_audits; i++) {
        hub_audit *a = &h->audits[i];
        if (a->row.verdict != PL_VERDICT_OPEN || a->lease.active ||
            pl_hash_none(&a->row.results[0].digest) || !can_audit(h, a, worker))
            continue;
        hub_look_for_auditors(h, a, now_ms);
        if (trust_in(&h->workers[worker]) >= a->trust &&
            (is_of_its_kind(h, a, worker) || !a->has_kin))
            return a;
    }
    return NULL;
}

void hub_grant_audit(hub *h, hub_audit *a, int worker, int64_t now_ms)
{
    plan *p = &h->tasks;
    a->lease = (plan_lease){.active = true,
                            .token = (p->epoch << 32) | ++p->counter,
                            .phase = a->row.phase,
                            .deadline_ms = now_ms + h->options->ttl_ms,
                            .granted_ms = now_ms,
                            .worker = worker,
                            .repeats = a->row.repeats};
    p->n_granted++;
}
