/* Audits: a drawn task counts only after one of the job's own workers has done it
 * again, with the same bytes (outer/audit_row.h). Homes draw the tasks when their
 * results are committed, keep a record of each audit, its row, and let the path wait.
 * The hub leases the audits (hub_auditor.c), judges the results (hub_verdict.c) and
 * reports the verdicts to the homes. It stores nothing on disk: after a restart it gets
 * the open rows from the homes again, and the tasks are repeated again.
 *
 * While a row is open, the hub asks the homes which updates they accepted (it does not
 * trust a worker's own report), then leases repetitions until there is a verdict. After
 * `odd` or `undecided`, all homes first drop the task's updates and refuse all earlier
 * leases of the path (FENCE with AUDIT); when all have answered, the row's home gets
 * the verdict, and the task is leased again. After the other verdicts the row's home
 * gets the verdict at once, and the path's next phase begins.
 *
 * Every message is repeated until it is answered, or until the row is no longer in the
 * home's list. */
#include "workers/hub_internal.h"

enum { ASK_MS = 1000, ASKED_MAX = 10, FAILURES_MAX = 3, UNDECIDED_MAX = 3 };

/* Only the worker with the lease may report the result. */
hub_audit *hub_audit_of(hub *h, uint64_t token, int worker)
{
    for (size_t i = 0; token != 0 && i < h->n_audits; i++)
        if (h->audits[i].lease.active && h->audits[i].lease.token == token &&
            h->audits[i].lease.worker == worker)
            return &h->audits[i];
    return NULL;
}

/* A worker is audited if it sent a part of the result of an open audit. If a task was
 * leased to another worker before it was finished, the parts may come from several
 * workers. */
bool hub_is_audited(const hub *h, const hub_worker *w)
{
    for (size_t i = 0; i < h->n_audits; i++) {
        const hub_audit *a = &h->audits[i];
        for (int k = 0; a->row.verdict == PL_VERDICT_OPEN && k < a->n_parts; k++)
            if (strcmp(a->parts[k].from.worker, w->name) == 0 &&
                (pl_pubkey_none(&a->parts[k].from.key) ||
                 pl_pubkey_equal(&a->parts[k].from.key, &w->key)))
                return true;
    }
    return false;
}

static void clear_audit(hub_audit *a)
{
    pl_free_all(a->parts, a->made);
    memset(a, 0, sizeof *a);
}

void hub_clear_audits(hub *h)
{
    for (size_t i = 0; i < h->n_audits; i++)
        clear_audit(&h->audits[i]);
    pl_free_all(h->audits, h->fenced);
    h->audits = NULL;
    h->fenced = NULL;
    h->n_audits = h->n_fenced = 0;
}

void hub_close_audit(hub *h, hub_audit *a, pl_verdict verdict, const char *reason)
{
    plan *p = &h->tasks;
    plan_path *path = &p->arms[a->task.arm].paths[a->task.index];
    a->row.verdict = verdict;
    a->lease.active = false;
    a->wants[0] = '\0';
    pl_copy_text(a->row.reason, sizeof a->row.reason, reason);
    a->asked_ms = 0;
    if (pl_verdict_drops(verdict))
        a->drop_token = plan_next_token(p, path);
    h->n_verdicts[verdict]++;
    h->stirred = true;
    pl_log(verdict == PL_VERDICT_AGREED ? PL_LOG_INFO : PL_LOG_WARN, "audit.closed",
           "task=%s phase=%lld verdict=%s worker=%s odd=%s reason=\"%s\"", a->row.path,
           (long long)a->row.phase, pl_verdict_name(verdict), a->row.results[0].worker,
           a->row.odd, reason);
    if (verdict != PL_VERDICT_UNDECIDED || a->lacks_ms > 0 ||
        ++path->n_undecided < UNDECIDED_MAX)
        return;
    h->failure_status = PL_ERR_DATA;
    snprintf(h->failure, sizeof h->failure,
             "%d audits of %s could not be decided, the last one in phase %lld: %s; "
             "check the memory and the builds of the job's own workers (`pathloom "
             "audit`), or set fleet.audit=0",
             UNDECIDED_MAX, a->row.path, (long long)a->row.phase, reason);
}

/* ---- updates that the homes accepted ---- */
/* Asks the homes for those parts of the result that the hub does not know yet. */
static pl_status ask_updates(hub *h, hub_audit *a, int64_t now_ms)
{
    const plan_arm *arm = &h->tasks.arms[a->task.arm];
    int replicas = pl_topology_n_replicas(arm->topology);
    int path = a->task.index / replicas;
    char name[PL_MODULE_NAME_MAX];
    a->asked_ms = now_ms;
    for (int slot = 0; slot < a->n_parts - 1; slot++) {
        int module = pl_topology_module_of_path(arm->topology, slot, path);
        if (!a->parts[slot].sends || a->parts[slot].is_known)
            continue;
        pl_arm_module_name(&arm->arm, arm->topology, module, name);
        /* the answer to a question that was repeated counts, too: a home with much to
         * do answers late */
        if (a->parts[slot].request == 0)
            a->parts[slot].request = pl_wire_next_request();
        pl_message m = {.request = a->parts[slot].request};
        PL_SAY(&m, GET_UPDATE, get_update, .name = name, .path = path,
               .replica = a->task.index % replicas,
               .phase = pl_round_of(&arm->contracts[module], a->row.phase));
        PL_CHECK(hub_send_home(&h->homes[pl_home_of(name, h->n_homes)], &m));
    }
    return PL_OK;
}

/* Returns the part for which the question with this number asked, and notes that the
 * question is answered. NULL: there is no such question. */
static hub_part *answered_part(hub *h, uint64_t request, hub_audit **of)
{
    for (size_t i = 0; i < h->n_audits && request != 0; i++)
        for (int k = 0; k < h->audits[i].n_parts; k++)
            if (h->audits[i].parts[k].request == request) {
                *of = &h->audits[i];
                (*of)->parts[k].request = 0;
                return &(*of)->parts[k];
            }
    return NULL;
}

void hub_hear_no_update(hub *h, uint64_t request)
{
    hub_audit *a;
    if (answered_part(h, request, &a))
        a->refused = true;
}

/* Notes one update of the result. The home read the sender and the device from the
 * sealed lease. */
pl_status hub_hear_update(hub *h, pl_message *m)
{
    pl_msg_update_is said;
    hub_audit *a = NULL;
    hub_part *part = answered_part(h, m->request, &a);
    if (!part)
        return PL_OK;
    PL_CHECK(PL_HEAR(m, update_is, &said));
    if (!said.name || !said.device)
        return pl_fail(PL_ERR_PROTO,
                       "an UPDATE_IS of a home lacks the sender's name or device");
    pl_copy_text(part->from.worker, sizeof part->from.worker, said.name);
    pl_copy_text(part->from.device, sizeof part->from.device, said.device);
    if (said.key)
        memcpy(part->from.key.bytes, said.key, PL_PUBKEY_BYTES);
    part->hash = said.blob;
    part->is_known = true;
    return hub_judge(h, a);
}

/* ---- rows ---- */
pl_status hub_take_audit_record(hub *h, int home, pl_reader *r, bool in_state)
{
    pl_msg_audit_record said;
    pl_audit row;
    plan_task task;
    pl_get_fields(r, pl_fields_of_audit_record(), &said);
    PL_CHECK(pl_reader_status(r));
    PL_CHECK(pl_audit_read(said.row_text, &row));
    if (row.verdict != PL_VERDICT_OPEN)
        return PL_OK;
    /* If this hub does not know the arm yet, the home sends the row again in its next
     * state. */
    if (!plan_find_task(&h->tasks, row.path, &task))
        return PL_OK;
    hub_audit *a = NULL;
    for (size_t i = 0; i < h->n_audits; i++) {
        const pl_audit *at = &h->audits[i].row;
        if (strcmp(at->path, row.path) == 0 && at->phase == row.phase &&
            at->tries == row.tries)
            a = &h->audits[i];
    }
    if (!a) {
        const plan_arm *arm = &h->tasks.arms[task.arm];
        const int path = task.index / pl_topology_n_replicas(arm->topology);
        const int n_parts = pl_topology_n_slots(arm->topology) + 1;
        h->audits = pl_grow(h->audits, (h->n_audits + 1) * sizeof *h->audits);
        a = &h->audits[h->n_audits++];
        *a = (hub_audit){.row = row, .task = task, .n_parts = n_parts};
        a->parts = pl_alloc((size_t)n_parts * sizeof *a->parts);
        a->made = pl_alloc((size_t)(PL_AUDIT_RESULTS - 1) * (size_t)n_parts *
                           sizeof *a->made);
        /* repetitions must be made again, because the row has only their digests */
        a->row.n = 1;
        /* a task that scores documents has no updates */
        for (int slot = 0; arm->arm.n_scored == 0 && slot < n_parts - 1; slot++) {
            int module = pl_topology_module_of_path(arm->topology, slot, path);
            a->parts[slot].sends = pl_round_of(&arm->contracts[module], row.phase) >= 0;
        }
        a->parts[n_parts - 1] = (hub_part){
            .sends = true, .is_known = true, .hash = row.after, .from = row.results[0]};
        h->stirred = true;
    }
    a->listed = a->listed || in_state;
    a->home = home;
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

void hub_audit_release(hub *h, hub_audit *a, const char *reason)
{
    hub_note_lost(h, a->lease.worker, a->lease.token);
    a->lease.active = false;
    a->looked_ms = 0;
    h->stirred = true;
    if (reason && ++a->failures >= FAILURES_MAX)
        hub_close_audit(h, a, PL_VERDICT_UNDECIDED, reason);
}

/* ---- verdicts ---- */
void hub_hear_ok(hub *h, int home, uint64_t request)
{
    for (size_t i = 0; i < h->n_audits && request != 0; i++)
        if (h->audits[i].drops[home] == request) {
            h->audits[i].dropped[home] = true;
            h->audits[i].asked_ms = 0; /* goes on at once */
        }
}

/* Tells the verdict. Before, all homes drop what the task has sent, if it does not
 * count. */
static pl_status tell_verdict(hub *h, hub_audit *a, int64_t now_ms)
{
    pl_buf text = {0};
    bool all = true;
    a->asked_ms = now_ms;
    for (int i = 0; pl_verdict_drops(a->row.verdict) && i < h->n_homes; i++) {
        if (a->dropped[i])
            continue;
        all = false;
        if (a->drops[i] == 0)
            a->drops[i] = pl_wire_next_request();
        pl_message drop = {
            .token = a->drop_token, .epoch = h->tasks.epoch, .request = a->drops[i]};
        PL_SAY(&drop, FENCE, fence, .name = a->row.path, .phase = a->row.phase,
               .audit = 1);
        PL_CHECK(hub_send_home(&h->homes[i], &drop));
    }
    if (!all)
        return PL_OK;
    pl_message m = {.epoch = h->tasks.epoch};
    pl_audit_write(&a->row, &text);
    PL_SAY(&m, PUT_AUDIT, put_audit, .row_text = pl_buf_text(&text));
    pl_buf_destroy(&text);
    return hub_send_home(&h->homes[a->home], &m);
}

/* Ends expired leases of audits, asks the homes again for hashes of updates, looks
 * whether the job still lacks a device, and sends verdicts until they are stored. */
pl_status hub_tend_audits(hub *h, int64_t now_ms)
{
    for (size_t i = 0; i < h->n_audits; i++) {
        hub_audit *a = &h->audits[i];
        if (a->lease.active && a->lease.deadline_ms <= now_ms)
            hub_audit_release(h, a, NULL);
        if (now_ms - a->asked_ms <= ASK_MS)
            continue;
        if (a->row.verdict != PL_VERDICT_OPEN) {
            PL_CHECK(tell_verdict(h, a, now_ms));
        } else if (!hub_audit_is_known(a)) {
            PL_CHECK(ask_updates(h, a, now_ms));
            /* If homes that are all connected have answered more than ASKED_MAX times
             * that they lack an update, none will have it later: the hub may have ended
             * while homes dropped the task's updates. */
            a->n_asked += a->refused && hub_homes_ready(h);
            a->refused = false;
            if (a->n_asked > ASKED_MAX)
                hub_close_audit(h, a, PL_VERDICT_UNDECIDED,
                                "the homes do not have all updates of the task");
        } else if (!a->lease.active && hub_homes_ready(h)) {
            a->asked_ms = now_ms;
            PL_CHECK(hub_judge(h, a));
            hub_await_judge(h, a, now_ms);
        }
    }
    return PL_OK;
}

void hub_audit_json(const hub *h, pl_json *o)
{
    enum { FENCED_SHOWN = 256, WAITING_SHOWN = 64 };
    pl_json *fenced = pl_json_array(), *waiting = pl_json_array();
    int64_t open = 0;
    for (size_t i = 0; i < h->n_audits; i++) {
        const hub_audit *a = &h->audits[i];
        open += a->row.verdict == PL_VERDICT_OPEN;
        if (a->lacks_ms == 0 || a->row.verdict != PL_VERDICT_OPEN ||
            pl_json_count(waiting) == WAITING_SHOWN)
            continue;
        pl_json *one = pl_json_object();
        pl_json_set_text(one, "task", a->row.path);
        pl_json_set_int(one, "phase", a->row.phase);
        pl_json_set_text(one, "device", a->wants);
        pl_json_push(waiting, one);
    }
    size_t first = h->n_fenced > FENCED_SHOWN ? h->n_fenced - FENCED_SHOWN : 0;
    for (size_t i = first; i < h->n_fenced; i++) {
        pl_json *one = pl_json_object();
        pl_json_set_text(one, "worker", h->fenced[i].name);
        pl_json_set_text(one, "reason", h->fenced[i].reason);
        pl_json_push(fenced, one);
    }
    const uint64_t *n = h->n_verdicts;
    pl_json_set_int(o, "audits_open", open);
    pl_json_set_int(o, "audits_agreed", (int64_t)n[PL_VERDICT_AGREED]);
    pl_json_set_int(o, "audits_differed",
                    (int64_t)(n[PL_VERDICT_ODD] + n[PL_VERDICT_UNDECIDED]));
    pl_json_set_int(o, "audits_unchecked", (int64_t)n[PL_VERDICT_UNCHECKED]);
    pl_json_set(o, "audits_waiting", waiting);
    pl_json_set_int(o, "workers_fenced", (int64_t)h->n_fenced);
    pl_json_set(o, "fenced", fenced);
}
