/* Audits: a fraction of tasks is done again by a second worker, and by a third worker
 * if the two results differ (outer/audit_row.h). Homes choose the tasks at random and
 * keep a record of each audit, its row. The hub leases the audits, compares the results
 * and reports the verdicts to the homes. The hub stores nothing on disk: after a
 * restart it gets the open rows from the homes again.
 *
 * The hub prefers a worker with the same kind of device as the first worker, because
 * then the results are compared by hash. If there is no such worker, a worker with a
 * different kind of device does the audit, and the results are compared with a
 * tolerance.
 *
 * Merges never wait for an audit. So versions may contain a wrong update before an
 * audit finds it. The records of versions tell which versions contain the update, and
 * `pathloom audit` lists them.
 *
 * If a connected worker with one of the job's own keys can do an audit, only such
 * workers get it. Without this rule, a person with several keys could let one key audit
 * results of another key, by naming a device that no other worker has. Or the person
 * could use two keys to accuse a third worker.
 *
 * No worker audits a result that was made under its own name or key. Before the hub
 * leases an audit, it asks the homes which updates they accepted. It does not trust a
 * worker's own report about them. */
#include "workers/hub_internal.h"

enum { ASK_MS = 1000, ASKED_MAX = 10, FAILURES_MAX = 3, LOOK_MS = 200 };

/* ---- finding an audit ---- */
/* Returns NULL if this worker does not have the lease of an audit with this token: only
 * the worker with the lease may report the result. */
hub_audit *hub_audit_of(hub *h, uint64_t token, int worker)
{
    for (size_t i = 0; token != 0 && i < h->n_audits; i++)
        if (h->audits[i].lease.active && h->audits[i].lease.token == token &&
            h->audits[i].lease.worker == worker)
            return &h->audits[i];
    return NULL;
}

static bool is_by(const hub_worker *w, const char *name, const pl_pubkey *key)
{
    return strcmp(name, w->name) == 0 &&
           (pl_pubkey_none(key) || pl_pubkey_equal(key, &w->key));
}

/* Whether the worker made a result of the audit, or a part of the first result. If a
 * task was leased to another worker before it was finished, the updates of its result
 * may come from several workers. */
static bool took_part(const hub_audit *a, const hub_worker *w)
{
    for (int k = 0; k < a->row.n; k++)
        if (is_by(w, a->row.results[k].worker, &a->row.results[k].key))
            return true;
    for (int slot = 0; slot < a->n_slots; slot++)
        if (is_by(w, a->senders[slot].worker, &a->senders[slot].key))
            return true;
    return false;
}

bool hub_is_audited(const hub *h, const hub_worker *w)
{
    for (size_t i = 0; i < h->n_audits; i++)
        if (took_part(&h->audits[i], w))
            return true;
    return false;
}

static hub_audit *find_row(hub *h, const pl_audit *row)
{
    for (size_t i = 0; i < h->n_audits; i++)
        if (strcmp(h->audits[i].row.path, row->path) == 0 &&
            h->audits[i].row.phase == row->phase)
            return &h->audits[i];
    return NULL;
}

static void clear_audit(hub_audit *a)
{
    pl_free(a->hashes);
    pl_free(a->senders);
    pl_free(a->requests);
    pl_free(a->likeness);
    pl_free(a->seeds);
    memset(a, 0, sizeof *a);
}

void hub_clear_audits(hub *h)
{
    for (size_t i = 0; i < h->n_audits; i++)
        clear_audit(&h->audits[i]);
    pl_free(h->audits);
    pl_free(h->fenced);
    h->audits = NULL;
    h->fenced = NULL;
    h->n_audits = h->n_fenced = 0;
}

/* ---- reporting the verdict ---- */
static pl_status tell_home(hub *h, hub_audit *a, int64_t now_ms)
{
    pl_message m = {0};
    pl_buf text = {0};
    a->told_ms = now_ms;
    pl_audit_write(&a->row, &text);
    PL_SAY(&m, PUT_AUDIT, put_audit, .row_text = pl_buf_text(&text));
    pl_buf_destroy(&text);
    return hub_send_home(&h->homes[a->home], &m);
}

static void void_audit(hub_audit *a, const char *reason)
{
    a->row.verdict = PL_VERDICT_VOID;
    a->lease.active = false;
    pl_copy_text(a->row.reason, sizeof a->row.reason, reason);
}

static void count_verdict(hub *h, const hub_audit *a)
{
    h->n_verdicts[a->row.verdict]++;
    h->n_across += a->row.tolerance > 0;
    pl_log(PL_LOG_INFO, "audit.closed",
           "task=%s phase=%lld verdict=%s worker=%s distance=%.4f tolerance=%g "
           "reason=\"%s\"",
           a->row.path, (long long)a->row.phase, pl_verdict_name(a->row.verdict),
           a->row.results[0].worker, a->row.n > 1 ? a->row.results[1].apart[0] : 0,
           a->row.tolerance, a->row.reason);
}

/* ---- fenced workers ---- */
void hub_mark_fenced(hub *h, hub_worker *w)
{
    const pl_fence *f =
        pl_fence_find(h->fenced, h->n_fenced, w->name, &w->key, w->own_key);
    if (f)
        pl_copy_text(w->fenced, sizeof w->fenced, f->reason);
}

static void add_fenced(hub *h, const pl_fence *f)
{
    if (pl_fence_find(h->fenced, h->n_fenced, f->name, &f->key, false))
        return;
    h->fenced = pl_grow(h->fenced, (h->n_fenced + 1) * sizeof *h->fenced);
    h->fenced[h->n_fenced++] = *f;
    pl_log(PL_LOG_ERROR, "worker.fenced", "worker=%s reason=\"%s\"", f->name,
           f->reason);
    for (int i = 0; i < h->n_workers; i++) {
        hub_mark_fenced(h, &h->workers[i]);
        if (h->workers[i].fenced[0])
            hub_free_held(h, i);
    }
}

static pl_status tell_fenced(hub *h, const pl_fence *f, int home)
{
    pl_message m = {0};
    PL_SAY(&m, FENCE_WORKER, fence_worker, .reason = f->reason, .name = f->name,
           .key = pl_pubkey_none(&f->key) ? NULL : f->key.bytes);
    return hub_send_home(&h->homes[home], &m);
}

/* Fences the worker whose result differs from the two others. The fence has the key of
 * the lease under which the result was made, unless this is one of the job's own keys.
 * If the worker's name now belongs to a different key, the fence has the text of the
 * key instead of the name. */
static pl_status fence_odd(hub *h, const hub_audit *a)
{
    const pl_audit *row = &a->row;
    const pl_pubkey *key = &row->results[row->odd].key;
    const char *name = row->results[row->odd].worker;
    int others[2], n = 0, w = pl_name_table_get(h->worker_names, name);
    bool own = false, moved = w >= 0 && !pl_pubkey_none(key) &&
                              !pl_pubkey_equal(key, &h->workers[w].key);
    pl_fence f;
    memset(&f, 0, sizeof f);
    pl_copy_text(f.name, sizeof f.name, name);
    const pl_key_role role = pl_gate_role(key, &own);
    /* If the job's own keys have been replaced, a worker that had one of the old keys
     * may have a new key by now. */
    own = own || (moved && role == PL_AS_NONE && h->workers[w].own_key);
    if (own && moved) {
        pl_log(PL_LOG_WARN, "audit.unfenced", "worker=%s task=%s phase=%lld", name,
               row->path, (long long)row->phase);
        return PL_OK;
    }
    if (!own)
        f.key = *key;
    if (moved)
        pl_pubkey_format(key, f.name);
    for (int i = 0; i < PL_AUDIT_RESULTS; i++)
        if (i != row->odd)
            others[n++] = i;
    snprintf(
        f.reason, sizeof f.reason,
        "worker %.60s is fenced: its result of %.40s in phase %lld differs from the "
        "result that %.60s and %.60s agree on; check its machine's "
        "memory and its build, then join with another name and key",
        name, row->path, (long long)row->phase, row->results[others[0]].worker,
        row->results[others[1]].worker);
    add_fenced(h, &f);
    for (int i = 0; i < h->n_homes; i++)
        PL_CHECK(tell_fenced(h, &f, i));
    return PL_OK;
}

/* ---- updates that the homes accepted ---- */
/* Asks the homes for those updates of the first worker that the hub does not know yet.
 * Asks every home for each update, because modules may move between homes during the
 * job. */
static pl_status ask_updates(hub *h, hub_audit *a, int64_t now_ms)
{
    const plan_arm *arm = &h->tasks.arms[a->task.arm];
    int replicas = pl_topology_n_replicas(arm->topology);
    int path = a->task.index / replicas;
    char name[PL_MODULE_NAME_MAX];
    a->asked_ms = now_ms;
    for (int slot = 0; slot < a->n_slots; slot++) {
        int module = pl_topology_module_of_path(arm->topology, slot, path);
        int64_t round = pl_round_of(&arm->contracts[module], a->row.phase);
        if (round < 0 || !pl_hash_none(&a->hashes[slot]))
            continue;
        pl_arm_module_name(&arm->arm, arm->topology, module, name);
        a->requests[slot] = pl_wire_next_request();
        for (int i = 0; i < h->n_homes; i++) {
            pl_message m = {.request = a->requests[slot]};
            PL_SAY(&m, GET_UPDATE, get_update, .name = name, .path = path,
                   .replica = a->task.index % replicas, .phase = round);
            PL_CHECK(hub_send_home(&h->homes[i], &m));
        }
    }
    return PL_OK;
}

static bool sends(const hub *h, const hub_audit *a, int slot)
{
    const plan_arm *arm = &h->tasks.arms[a->task.arm];
    int path = a->task.index / pl_topology_n_replicas(arm->topology);
    int module = pl_topology_module_of_path(arm->topology, slot, path);
    return pl_round_of(&arm->contracts[module], a->row.phase) >= 0;
}

static int count_sending(const hub *h, const hub_audit *a)
{
    int n = 0;
    for (int slot = 0; slot < a->n_slots; slot++)
        n += sends(h, a, slot);
    return n;
}

static void digest_result(const pl_hash *hashes, int n, const pl_hash *after,
                          pl_hash *out)
{
    pl_hasher hasher;
    pl_hasher_init(&hasher, "audit");
    for (int i = 0; i < n; i++)
        pl_hasher_add(&hasher, hashes[i].bytes, sizeof hashes[i].bytes);
    pl_hasher_add(&hasher, after->bytes, sizeof after->bytes);
    pl_hasher_end(&hasher, out);
}

/* If all parts of the first worker's result are known, computes the digest of the
 * result. */
static void gather_first_result(hub *h, hub_audit *a)
{
    int n = 0;
    pl_hash *made = pl_alloc((size_t)a->n_slots * sizeof *made);
    bool whole = true;
    for (int slot = 0; slot < a->n_slots; slot++)
        if (sends(h, a, slot)) {
            whole = whole && !pl_hash_none(&a->hashes[slot]);
            made[n++] = a->hashes[slot];
        }
    if (whole)
        digest_result(made, n, &a->row.after, &a->row.results[0].digest);
    pl_free(made);
}

static void set_audit_aside(hub *h, hub_audit *a, const char *reason)
{
    void_audit(a, reason);
    count_verdict(h, a);
}

/* Notes the likeness that a home sent for the update of a slot. Returns false if the
 * home sent no likeness. */
static bool note_likeness(const pl_msg_update_is *said, hub_audit *a, int slot)
{
    a->seeds[slot] = said->seed;
    if (said->seed == 0 || !said->likeness)
        return false;
    memcpy(a->likeness[slot].cells, said->likeness, sizeof a->likeness[slot].cells);
    return true;
}

/* Notes one update of the first result. The home read the sender and the device from
 * the sealed lease. If a relay added the update to other updates, the audit is void. If
 * the updates come from different kinds of devices, likenesses are compared instead of
 * hashes, even if the second worker has the same kind of device as one of the senders.
 * If likenesses cannot be compared, the audit is void. */
static void note_update(hub *h, hub_audit *a, int slot, const pl_msg_update_is *said)
{
    pl_audit_result *first = &a->row.results[0];
    if (a->row.verdict != PL_VERDICT_OPEN)
        return;
    a->mixed =
        a->mixed || (first->device[0] && strcmp(said->device, first->device) != 0);
    if (a->row.seed && !note_likeness(said, a, slot))
        set_audit_aside(h, a, "a relay added the task's updates to other updates");
    else if (a->mixed && !(a->row.seed && h->options->audit_tolerance > 0))
        set_audit_aside(h, a,
                        "the task's updates came from different kinds of devices");
    if (a->row.verdict != PL_VERDICT_OPEN)
        return;
    if (!first->device[0])
        pl_copy_text(first->device, sizeof first->device, said->device);
    pl_copy_text(a->senders[slot].worker, sizeof a->senders[slot].worker, said->name);
    pl_copy_text(a->senders[slot].device, sizeof a->senders[slot].device, said->device);
    memset(&a->senders[slot].key, 0, sizeof a->senders[slot].key);
    if (said->key)
        memcpy(a->senders[slot].key.bytes, said->key, PL_PUBKEY_BYTES);
    a->looked_ms = 0;
    a->hashes[slot] = said->blob;
    gather_first_result(h, a);
}

pl_status hub_hear_update(hub *h, pl_message *m)
{
    pl_msg_update_is said;
    for (size_t i = 0; i < h->n_audits; i++)
        for (int slot = 0; slot < h->audits[i].n_slots; slot++)
            if (h->audits[i].requests[slot] == m->request) {
                h->audits[i].requests[slot] = 0;
                PL_CHECK(PL_HEAR(m, update_is, &said));
                if (!said.name || !said.device)
                    return pl_fail(PL_ERR_PROTO,
                                   "an UPDATE_IS of a home lacks the sender's name or "
                                   "device");
                note_update(h, &h->audits[i], slot, &said);
                return PL_OK;
            }
    return PL_OK;
}

/* ---- rows of the homes ---- */
static void alloc_audit(hub_audit *a, const pl_topology *topology)
{
    a->n_slots = pl_topology_n_slots(topology);
    a->n_parts = pl_audit_parts(topology);
    a->hashes = pl_alloc((size_t)a->n_slots * sizeof *a->hashes);
    a->senders = pl_alloc((size_t)a->n_slots * sizeof *a->senders);
    a->requests = pl_alloc((size_t)a->n_slots * sizeof *a->requests);
    a->likeness =
        pl_alloc((size_t)(PL_AUDIT_RESULTS * a->n_parts) * sizeof *a->likeness);
    a->seeds = pl_alloc((size_t)a->n_parts * sizeof *a->seeds);
    memcpy(a->likeness + a->n_slots, a->row.moments, sizeof a->row.moments);
    for (int part = a->n_slots; part < a->n_parts; part++)
        a->seeds[part] = a->row.seed;
    /* later results must be made again, because the row has only their digests */
    a->row.n = 1;
    /* the hashes of the first result come from the homes, one per update */
    if (a->row.verdict == PL_VERDICT_OPEN)
        a->row.results[0].digest = (pl_hash){{0}};
}

static pl_status take_row(hub *h, int home, const char *text)
{
    pl_audit row;
    plan_task task;
    PL_CHECK(pl_audit_read(text, &row));
    hub_audit *a = find_row(h, &row);
    if (!a) {
        if (!plan_find_task(&h->tasks, row.path, &task))
            /* This hub does not know the arm yet. The home sends the row again in its
             * next state. */
            return PL_OK;
        h->audits = pl_grow(h->audits, (h->n_audits + 1) * sizeof *h->audits);
        a = &h->audits[h->n_audits++];
        memset(a, 0, sizeof *a);
        a->row = row;
        a->task = task;
        a->home = home;
        alloc_audit(a, h->tasks.arms[task.arm].topology);
        if (row.verdict == PL_VERDICT_OPEN && count_sending(h, a) == 0)
            /* a task that scores documents has no updates */
            gather_first_result(h, a);
        h->stirred = true;
    }
    a->listed = a->listed || h->in_state;
    a->home = home;
    a->n_there = row.n;
    return PL_OK;
}

static pl_status take_fenced(hub *h, pl_reader *r)
{
    pl_fence f;
    pl_msg_fenced_record said;
    memset(&f, 0, sizeof f);
    pl_get_fields(r, pl_fields_of_fenced_record(), &said);
    PL_CHECK(pl_reader_status(r));
    pl_copy_text(f.reason, sizeof f.reason, said.reason);
    pl_copy_text(f.name, sizeof f.name, said.name);
    if (said.key)
        memcpy(f.key.bytes, said.key, sizeof f.key.bytes);
    add_fenced(h, &f);
    return PL_OK;
}

bool hub_is_audit_record(pl_reader *r)
{
    return pl_field_count(r, PL_TAG_AUDIT) > 0 || pl_field_count(r, PL_TAG_FENCED) > 0;
}

pl_status hub_take_audit_record(hub *h, int home, pl_reader *r)
{
    pl_msg_audit_record said;
    if (pl_field_count(r, PL_TAG_FENCED) > 0)
        return take_fenced(h, r);
    pl_get_fields(r, pl_fields_of_audit_record(), &said);
    PL_CHECK(pl_reader_status(r));
    return take_row(h, home, said.row_text);
}

void hub_begin_rows(hub *h, int home)
{
    for (size_t i = 0; i < h->n_audits; i++)
        if (h->audits[i].home == home) {
            h->audits[i].was_listed = h->audits[i].listed;
            h->audits[i].listed = false;
        }
}

/* Call this at the end of a home's list of open rows. If the hub has closed a row and
 * the list does not have it, the home has stored the verdict, so the hub forgets the
 * row. The hub forgets a row that is still open only if the home's previous list had
 * the row: a row that came as an event may be newer than the list. */
void hub_end_rows(hub *h, int home)
{
    size_t n = 0;
    for (size_t i = 0; i < h->n_audits; i++) {
        hub_audit *a = &h->audits[i];
        bool closed = a->row.verdict != PL_VERDICT_OPEN;
        if (a->home == home && !a->listed && (closed || a->was_listed))
            clear_audit(a);
        else
            h->audits[n++] = *a;
    }
    h->n_audits = n;
}

/* ---- choosing the worker ---- */
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
static void look_for_workers(const hub *h, hub_audit *a, int64_t now_ms)
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

static bool may_audit(const hub *h, hub_audit *a, int worker, int64_t now_ms)
{
    if (!can_audit(h, a, worker))
        return false;
    look_for_workers(h, a, now_ms);
    return trust_in(&h->workers[worker]) >= a->trust;
}

static bool is_open(const hub_audit *a)
{
    return a->row.verdict == PL_VERDICT_OPEN && !a->lease.active &&
           !pl_hash_none(&a->row.results[0].digest);
}

static bool one_of_its_kind_may(const hub *h, hub_audit *a, int64_t now_ms)
{
    look_for_workers(h, a, now_ms);
    return a->has_kin;
}

hub_audit *hub_find_audit(hub *h, int worker, int64_t now_ms)
{
    for (size_t i = 0; i < h->n_audits; i++) {
        hub_audit *a = &h->audits[i];
        if (is_open(a) && may_audit(h, a, worker, now_ms) &&
            (is_of_its_kind(h, a, worker) || !one_of_its_kind_may(h, a, now_ms)))
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

/* Whether the hub may lack rows of audits: a worker's DONE may arrive before the home's
 * row, and the home's next state will have the row. Returns false if the hub has seen
 * no audit so far. */
static bool misses_rows(const hub *h)
{
    bool audits = h->n_audits > 0;
    for (int v = 0; v < PL_VERDICT_COUNT; v++)
        audits = audits || h->n_verdicts[v] > 0;
    for (int i = 0; audits && i < h->n_homes; i++)
        if (h->homes[i].welcome && h->homes[i].fresh_ms <= h->done_ms)
            return true;
    return false;
}

/* Whether a job that has trained the whole arm should wait for its audits. It waits for
 * audits that a connected worker does or can do, for hashes from the homes, and until
 * the homes have stored the verdicts. */
bool hub_audits_wait(const hub *h, int arm, int64_t now_ms)
{
    if (misses_rows(h))
        return true;
    for (size_t i = 0; i < h->n_audits; i++) {
        hub_audit *a = &h->audits[i];
        if (a->task.arm != arm)
            continue;
        bool known = !pl_hash_none(&a->row.results[0].digest);
        if (a->row.verdict != PL_VERDICT_OPEN || a->lease.active || !known)
            return true;
        look_for_workers(h, a, now_ms);
        if (a->has_any)
            return true;
    }
    return false;
}

/* ---- the result of the second or third worker ---- */
enum { FARTHEST = 1000000 };

/* Whether the home measured the moments of the first result. It did not if their state
 * was not uploaded. */
static bool has_moments(const hub_audit *a)
{
    const pl_likeness *first = a->likeness + a->n_slots;
    const char *bytes = (const char *)first;
    for (size_t i = 0; i < (size_t)(a->n_parts - a->n_slots) * sizeof *first; i++)
        if (bytes[i] != 0)
            return true;
    return false;
}

/* Returns the distance between results i and k: the largest distance of any part. The
 * distance of the moments counts half. */
static double distance(const hub_audit *a, int i, int k)
{
    double most = 0;
    int n_parts = i > 0 || has_moments(a) ? a->n_parts : a->n_slots;
    for (int part = 0; part < n_parts; part++) {
        double d = pl_likeness_distance(&a->likeness[i * a->n_parts + part],
                                        &a->likeness[k * a->n_parts + part]);
        d = part < a->n_slots ? d : d / 2;
        most = d > most ? d : most;
    }
    return most < FARTHEST ? most : FARTHEST;
}

/* Returns the distance between result i and a new result: 0 if the digests are equal;
 * -1 if the digests differ although the devices are of the same kind; otherwise a
 * number above 0. */
static double apart(const hub_audit *a, int i, const pl_audit_result *result)
{
    const pl_audit_result *before = &a->row.results[i];
    if (pl_hash_equal(&before->digest, &result->digest))
        return 0;
    if (strcmp(before->device, result->device) == 0 && !(a->mixed && i == 0))
        return -1;
    double d = distance(a, i, a->row.n);
    return d > 0 ? d : 1e-9;
}

/* Reads the likeness from a DONE. ERR_PROTO if the likeness is missing or incomplete.
 */
static pl_status take_likeness(hub_audit *a, const pl_message *m)
{
    size_t bytes = (size_t)a->n_parts * sizeof *a->likeness;
    if (a->row.seed == 0)
        return PL_OK;
    if (m->data.len != bytes)
        return pl_fail(PL_ERR_PROTO,
                       "the likeness in the DONE of an audit has %zu bytes, not %zu",
                       m->data.len, bytes);
    memcpy(a->likeness + a->row.n * a->n_parts, m->data.data, bytes);
    return PL_OK;
}

/* Sets the worker, device and key of the first result to those of the sender of the
 * first update that differs, because several workers may have sent the updates. */
static void blame(const hub *h, hub_audit *a, const pl_hash *made, const char *device)
{
    int n = 0;
    bool same_kind = !a->mixed && strcmp(a->row.results[0].device, device) == 0;
    for (int slot = 0; slot < a->n_slots; slot++) {
        if (!sends(h, a, slot))
            continue;
        bool differs = !pl_hash_equal(&a->hashes[slot], &made[n++]);
        if (differs && !same_kind)
            differs = pl_likeness_distance(&a->likeness[slot],
                                           &a->likeness[a->n_parts + slot]) >
                      h->options->audit_tolerance;
        if (!differs)
            continue;
        pl_audit_result *first = &a->row.results[0];
        pl_copy_text(first->worker, sizeof first->worker, a->senders[slot].worker);
        pl_copy_text(first->device, sizeof first->device, a->senders[slot].device);
        first->key = a->senders[slot].key;
        return;
    }
}

pl_status hub_audit_done(hub *h, hub_audit *a, int worker, const pl_message *m)
{
    pl_audit_result result;
    pl_reader r;
    size_t n = (size_t)count_sending(h, a);
    memset(&result, 0, sizeof result);
    pl_reader_open(&r, "DONE", m->body.data, m->body.len);
    size_t n_made = pl_field_count(&r, PL_TAG_BLOB);
    if (n_made != n + 1)
        return pl_fail(PL_ERR_PROTO, "the DONE of an audit has %zu hashes, not %zu",
                       n_made, n + 1);
    pl_hash *made = pl_alloc((n + 1) * sizeof *made);
    for (size_t i = 0; i <= n; i++)
        made[i] = pl_get_hash(&r, PL_TAG_BLOB, i);
    pl_status status = pl_reader_status(&r);
    if (status == PL_OK)
        status = take_likeness(a, m);
    if (status == PL_OK && a->row.n == 1)
        blame(h, a, made, h->workers[worker].device);
    digest_result(made, (int)n, &made[n], &result.digest);
    pl_free(made);
    PL_CHECK(status);
    pl_copy_text(result.worker, sizeof result.worker, h->workers[worker].name);
    pl_copy_text(result.device, sizeof result.device, h->workers[worker].device);
    result.key = h->workers[worker].key;
    for (int i = 0; i < a->row.n; i++)
        result.apart[i] = apart(a, i, &result);
    a->lease.active = false;
    a->looked_ms = 0;
    h->stirred = true;
    pl_audit_judge(&a->row, &result, h->options->audit_tolerance);
    if (a->row.verdict != PL_VERDICT_OPEN)
        count_verdict(h, a);
    else
        pl_log(PL_LOG_WARN, "audit.differs",
               "task=%s phase=%lld first=%s second=%s distance=%.4f", a->row.path,
               (long long)a->row.phase, a->row.results[0].worker, result.worker,
               result.apart[0]);
    if (a->row.verdict == PL_VERDICT_SETTLED)
        PL_CHECK(fence_odd(h, a));
    return tell_home(h, a, pl_now_ms());
}

void hub_audit_release(hub *h, hub_audit *a, const char *reason)
{
    hub_note_lost(h, a->lease.worker);
    a->lease.active = false;
    a->looked_ms = 0;
    h->stirred = true;
    if (!reason || ++a->failures < FAILURES_MAX)
        return;
    void_audit(a, reason);
    count_verdict(h, a);
}

void hub_release_audits(hub *h, int worker)
{
    for (size_t i = 0; i < h->n_audits; i++)
        if (h->audits[i].lease.active && h->audits[i].lease.worker == worker)
            hub_audit_release(h, &h->audits[i], NULL);
}

/* Ends expired leases of audits, asks the homes again for hashes of updates, and sends
 * results again that a home may not have received. */
pl_status hub_tend_audits(hub *h, int64_t now_ms)
{
    for (size_t i = 0; i < h->n_audits; i++) {
        hub_audit *a = &h->audits[i];
        bool closed = a->row.verdict != PL_VERDICT_OPEN;
        if (a->lease.active && a->lease.deadline_ms <= now_ms)
            hub_audit_release(h, a, NULL);
        if (!closed && pl_hash_none(&a->row.results[0].digest) &&
            now_ms - a->asked_ms > ASK_MS) {
            PL_CHECK(ask_updates(h, a, now_ms));
            /* If an update is still missing after more than ASKED_MAX questions to
             * homes that were all connected, no home will have this update later. */
            if (hub_homes_ready(h) && ++a->n_asked > ASKED_MAX) {
                void_audit(a, "the homes do not have all updates of the task");
                count_verdict(h, a);
            }
        }
        if ((closed || a->row.n > a->n_there) && now_ms - a->told_ms > ASK_MS)
            PL_CHECK(tell_home(h, a, now_ms));
    }
    return PL_OK;
}

pl_status hub_repeat_fenced(hub *h)
{
    for (size_t i = 0; i < h->n_fenced; i++)
        for (int home = 0; home < h->n_homes; home++)
            PL_CHECK(tell_fenced(h, &h->fenced[i], home));
    return PL_OK;
}

/* ---- for `pathloom status` ---- */
void hub_audit_json(const hub *h, pl_json *o)
{
    enum { FENCED_SHOWN = 256 };
    pl_json *fenced = pl_json_array();
    int64_t open = 0;
    for (size_t i = 0; i < h->n_audits; i++)
        open += h->audits[i].row.verdict == PL_VERDICT_OPEN;
    size_t first = h->n_fenced > FENCED_SHOWN ? h->n_fenced - FENCED_SHOWN : 0;
    for (size_t i = first; i < h->n_fenced; i++) {
        pl_json *one = pl_json_object();
        pl_json_set_text(one, "worker", h->fenced[i].name);
        pl_json_set_text(one, "reason", h->fenced[i].reason);
        pl_json_push(fenced, one);
    }
    pl_json_set_int(o, "audits_open", open);
    pl_json_set_int(o, "audits_agreed", (int64_t)h->n_verdicts[PL_VERDICT_AGREED]);
    pl_json_set_int(o, "audits_differed",
                    (int64_t)(h->n_verdicts[PL_VERDICT_SETTLED] +
                              h->n_verdicts[PL_VERDICT_UNDECIDED]));
    pl_json_set_int(o, "audits_void", (int64_t)h->n_verdicts[PL_VERDICT_VOID]);
    pl_json_set_int(o, "audits_by_tolerance", (int64_t)h->n_across);
    pl_json_set_int(o, "workers_fenced", (int64_t)h->n_fenced);
    pl_json_set(o, "fenced", fenced);
}
