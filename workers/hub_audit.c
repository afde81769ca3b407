/* Audits: a fraction of tasks is done again by a second worker, and by a third worker
 * if the two results differ (outer/audit_row.h). Homes choose the tasks at random and
 * keep a record of each audit, its row. The hub leases the audits (hub_auditor.c),
 * compares the results (hub_verdict.c) and reports the verdicts to the homes. The hub
 * stores nothing on disk: after a restart it gets the open rows from the homes again.
 *
 * Merges never wait for an audit. So versions may contain a wrong update before an
 * audit finds it. The records of versions tell which versions contain the update, and
 * `pathloom audit` lists them.
 *
 * Before the hub leases an audit, it asks the homes which updates they accepted. It
 * does not trust a worker's own report about them. */
#include "workers/hub_internal.h"

enum { ASK_MS = 1000, ASKED_MAX = 10, FAILURES_MAX = 3 };

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

/* A worker is audited if it made a result of an open audit, or a part of the first
 * result. If a task was leased to another worker before it was finished, the updates of
 * its result may come from several workers. */
bool hub_is_audited(const hub *h, const hub_worker *w)
{
    for (size_t i = 0; i < h->n_audits; i++) {
        const hub_audit *a = &h->audits[i];
        for (int k = 0; k < a->row.n; k++)
            if (is_by(w, a->row.results[k].worker, &a->row.results[k].key))
                return true;
        for (int slot = 0; slot < a->n_slots; slot++)
            if (is_by(w, a->senders[slot].worker, &a->senders[slot].key))
                return true;
    }
    return false;
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

pl_status hub_tell_audit(hub *h, hub_audit *a, int64_t now_ms)
{
    pl_message m = {0};
    pl_buf text = {0};
    a->told_ms = now_ms;
    pl_audit_write(&a->row, &text);
    PL_SAY(&m, PUT_AUDIT, put_audit, .row_text = pl_buf_text(&text));
    pl_buf_destroy(&text);
    return hub_send_home(&h->homes[a->home], &m);
}

static void set_audit_aside(hub *h, hub_audit *a, const char *reason)
{
    a->row.verdict = PL_VERDICT_VOID;
    a->lease.active = false;
    pl_copy_text(a->row.reason, sizeof a->row.reason, reason);
    hub_count_verdict(h, a);
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

bool hub_audit_sends(const hub *h, const hub_audit *a, int slot)
{
    const plan_arm *arm = &h->tasks.arms[a->task.arm];
    int path = a->task.index / pl_topology_n_replicas(arm->topology);
    int module = pl_topology_module_of_path(arm->topology, slot, path);
    return pl_round_of(&arm->contracts[module], a->row.phase) >= 0;
}

int hub_audit_count(const hub *h, const hub_audit *a)
{
    int n = 0;
    for (int slot = 0; slot < a->n_slots; slot++)
        n += hub_audit_sends(h, a, slot);
    return n;
}

/* If all parts of the first worker's result are known, computes the digest of the
 * result. */
static void gather_first_result(hub *h, hub_audit *a)
{
    int n = 0;
    pl_hash *made = pl_alloc((size_t)a->n_slots * sizeof *made);
    bool whole = true;
    for (int slot = 0; slot < a->n_slots; slot++)
        if (hub_audit_sends(h, a, slot)) {
            whole = whole && !pl_hash_none(&a->hashes[slot]);
            made[n++] = a->hashes[slot];
        }
    if (whole)
        hub_audit_digest(made, n, &a->row.after, &a->row.results[0].digest);
    pl_free(made);
}

/* Notes one update of the first result. The home read the sender and the device from
 * the sealed lease. If a relay added the update to other updates, the audit is void. If
 * the updates come from different kinds of devices, likenesses are compared instead of
 * hashes, even if the second worker has the same kind of device as one of the senders.
 * If likenesses cannot be compared, the audit is void. */
pl_status hub_hear_update(hub *h, pl_message *m)
{
    pl_msg_update_is said;
    hub_audit *a = NULL;
    int slot = 0;
    for (size_t i = 0; i < h->n_audits && !a; i++)
        for (int s = 0; s < h->audits[i].n_slots && !a; s++)
            if (h->audits[i].requests[s] == m->request) {
                a = &h->audits[i];
                slot = s;
            }
    if (!a)
        return PL_OK;
    a->requests[slot] = 0;
    PL_CHECK(PL_HEAR(m, update_is, &said));
    if (!said.name || !said.device)
        return pl_fail(PL_ERR_PROTO,
                       "an UPDATE_IS of a home lacks the sender's name or device");
    if (a->row.verdict != PL_VERDICT_OPEN)
        return PL_OK;
    pl_audit_result *first = &a->row.results[0];
    a->mixed =
        a->mixed || (first->device[0] && strcmp(said.device, first->device) != 0);
    const bool has_likeness = a->row.seed && said.seed != 0 && said.likeness;
    if (a->row.seed)
        a->seeds[slot] = said.seed;
    if (has_likeness)
        memcpy(a->likeness[slot].cells, said.likeness, sizeof a->likeness[slot].cells);
    if (a->row.seed && !has_likeness)
        set_audit_aside(h, a, "a relay added the task's updates to other updates");
    else if (a->mixed && !(a->row.seed && h->options->audit_tolerance > 0))
        set_audit_aside(h, a,
                        "the task's updates came from different kinds of devices");
    if (a->row.verdict != PL_VERDICT_OPEN)
        return PL_OK;
    hub_sender *sender = &a->senders[slot];
    if (!first->device[0])
        pl_copy_text(first->device, sizeof first->device, said.device);
    pl_copy_text(sender->worker, sizeof sender->worker, said.name);
    pl_copy_text(sender->device, sizeof sender->device, said.device);
    memset(&sender->key, 0, sizeof sender->key);
    if (said.key)
        memcpy(sender->key.bytes, said.key, PL_PUBKEY_BYTES);
    a->looked_ms = 0;
    a->hashes[slot] = said.blob;
    gather_first_result(h, a);
    return PL_OK;
}

bool hub_is_audit_record(pl_reader *r)
{
    return pl_field_count(r, PL_TAG_AUDIT) > 0 || pl_field_count(r, PL_TAG_FENCED) > 0;
}

pl_status hub_take_audit_record(hub *h, int home, pl_reader *r)
{
    pl_msg_audit_record said;
    pl_audit row;
    plan_task task;
    hub_audit *a = NULL;
    if (pl_field_count(r, PL_TAG_FENCED) > 0)
        return hub_take_fenced(h, r);
    pl_get_fields(r, pl_fields_of_audit_record(), &said);
    PL_CHECK(pl_reader_status(r));
    PL_CHECK(pl_audit_read(said.row_text, &row));
    for (size_t i = 0; i < h->n_audits && !a; i++)
        if (strcmp(h->audits[i].row.path, row.path) == 0 &&
            h->audits[i].row.phase == row.phase)
            a = &h->audits[i];
    if (!a) {
        if (!plan_find_task(&h->tasks, row.path, &task))
            /* This hub does not know the arm yet. The home sends the row again in its
             * next state. */
            return PL_OK;
        const pl_topology *topology = h->tasks.arms[task.arm].topology;
        const size_t n_slots = (size_t)pl_topology_n_slots(topology),
                     n_parts = (size_t)pl_audit_parts(topology);
        h->audits = pl_grow(h->audits, (h->n_audits + 1) * sizeof *h->audits);
        a = &h->audits[h->n_audits++];
        *a = (hub_audit){.row = row,
                         .task = task,
                         .n_slots = (int)n_slots,
                         .n_parts = (int)n_parts,
                         .hashes = pl_alloc(n_slots * sizeof *a->hashes),
                         .senders = pl_alloc(n_slots * sizeof *a->senders),
                         .requests = pl_alloc(n_slots * sizeof *a->requests),
                         .seeds = pl_alloc(n_parts * sizeof *a->seeds)};
        a->likeness = pl_alloc(PL_AUDIT_RESULTS * n_parts * sizeof *a->likeness);
        memcpy(a->likeness + n_slots, row.moments, sizeof row.moments);
        for (size_t part = n_slots; part < n_parts; part++)
            a->seeds[part] = row.seed;
        /* later results must be made again, because the row has only their digests */
        a->row.n = 1;
        /* the hashes of the first result come from the homes, one per update */
        if (row.verdict == PL_VERDICT_OPEN)
            a->row.results[0].digest = (pl_hash){{0}};
        if (row.verdict == PL_VERDICT_OPEN && hub_audit_count(h, a) == 0)
            /* a task that scores documents has no updates */
            gather_first_result(h, a);
        h->stirred = true;
    }
    a->listed = a->listed || h->in_state;
    a->home = home;
    a->n_there = row.n;
    return PL_OK;
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

/* Whether a job that has trained the whole arm should wait for its audits. It waits for
 * audits that a connected worker does or can do, for hashes from the homes, and until
 * the homes have stored the verdicts. */
bool hub_audits_wait(const hub *h, int arm, int64_t now_ms)
{
    bool audits = h->n_audits > 0;
    for (int v = 0; v < PL_VERDICT_COUNT; v++)
        audits = audits || h->n_verdicts[v] > 0;
    /* A worker's DONE may have arrived before the home's row of its audit. The home's
     * next state will have the row. */
    for (int i = 0; audits && i < h->n_homes; i++)
        if (h->homes[i].welcome && h->homes[i].fresh_ms <= h->done_ms)
            return true;
    for (size_t i = 0; i < h->n_audits; i++) {
        hub_audit *a = &h->audits[i];
        if (a->task.arm != arm)
            continue;
        bool known = !pl_hash_none(&a->row.results[0].digest);
        if (a->row.verdict != PL_VERDICT_OPEN || a->lease.active || !known)
            return true;
        hub_look_for_auditors(h, a, now_ms);
        if (a->has_any)
            return true;
    }
    return false;
}

void hub_audit_release(hub *h, hub_audit *a, const char *reason)
{
    hub_note_lost(h, a->lease.worker);
    a->lease.active = false;
    a->looked_ms = 0;
    h->stirred = true;
    if (!reason || ++a->failures < FAILURES_MAX)
        return;
    set_audit_aside(h, a, reason);
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
            if (hub_homes_ready(h) && ++a->n_asked > ASKED_MAX)
                set_audit_aside(h, a, "the homes do not have all updates of the task");
        }
        if ((closed || a->row.n > a->n_there) && now_ms - a->told_ms > ASK_MS)
            PL_CHECK(hub_tell_audit(h, a, now_ms));
    }
    return PL_OK;
}

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
