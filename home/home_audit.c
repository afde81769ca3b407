/* Keeps the records of audits and of fenced workers. The record of an audit names a
 * task that a second worker must repeat, and lists the results of both workers.
 * Messages of fenced workers are refused. The hub decides about audits and fences
 * (workers/hub_verdict.c), and the home makes the hub's decisions durable. */
#include "outer/outer.h"
#include "home/home_internal.h"

struct home_audit {
    char name[PL_TEXT_MAX];
    char *text; /* owned */
    int n;      /* number of results in `text` */
};

void home_forget_audits(home *h)
{
    for (size_t i = 0; i < h->n_audits; i++)
        pl_free(h->audits[i].text);
    pl_free(h->audits);
    pl_free(h->fenced);
    h->audits = NULL;
    h->fenced = NULL;
    h->n_audits = h->n_fenced = 0;
}

static home_audit *find_audit(home *h, const char *name)
{
    for (size_t i = 0; i < h->n_audits; i++)
        if (strcmp(h->audits[i].name, name) == 0)
            return &h->audits[i];
    return NULL;
}

static void keep_open(home *h, const char *name, const char *text, int n)
{
    home_audit *a = find_audit(h, name);
    if (!a) {
        h->audits = pl_grow(h->audits, (h->n_audits + 1) * sizeof *h->audits);
        a = &h->audits[h->n_audits++];
        memset(a, 0, sizeof *a);
        pl_copy_text(a->name, sizeof a->name, name);
    }
    pl_free(a->text);
    a->text = pl_alloc(strlen(text) + 1);
    memcpy(a->text, text, strlen(text) + 1);
    a->n = n;
}

/* ---- records of audits; choosing tasks for an audit ---- */
void home_audit_records(const home *h, pl_buf *out)
{
    for (size_t i = 0; i < h->n_audits; i++)
        PL_SAY_RECORD(out, audit_record, .row_text = h->audits[i].text, .audit = 1);
    for (size_t i = 0; i < h->n_fenced; i++) {
        const pl_fence *f = &h->fenced[i];
        PL_SAY_RECORD(out, fenced_record, .reason = f->reason, .name = f->name,
                      .key = pl_pubkey_none(&f->key) ? NULL : f->key.bytes,
                      .fenced = 1);
    }
}

static pl_status put_audit_row(home *h, const char *name, const pl_audit *a)
{
    pl_buf text = {0};
    pl_audit_write(a, &text);
    pl_status status = home_write(h);
    if (status == PL_OK)
        status = pl_txn_put_ref(h->txn, name, pl_buf_text(&text));
    if (status == PL_OK && a->verdict == PL_VERDICT_OPEN)
        keep_open(h, name, pl_buf_text(&text), a->n);
    pl_buf_destroy(&text);
    return status;
}

pl_status home_draw_audit(home *h, const home_lease *under, const pl_path_state *after,
                          pl_audit *out)
{
    const home_arm *arm = under->arm;
    const int index = under->index;
    const home_path *path = &arm->paths[index];
    int replicas = pl_topology_n_replicas(arm->topology);
    memset(out, 0, sizeof *out);
    if (!pl_audit_draws(&arm->arm, index / replicas, index % replicas,
                        path->state.phase, h->options->audit))
        return PL_OK;
    pl_copy_text(out->path, sizeof out->path, path->state.name);
    out->phase = path->state.phase;
    out->before = path->state.moments;
    out->repeats = path->state.repeats;
    out->after = after->repeats > 0 ? after->made : after->moments;
    out->n = 1;
    out->seed = pl_random_fresh();
    pl_copy_text(out->results[0].worker, sizeof out->results[0].worker, after->worker);
    out->results[0].key = under->lease.key;
    /* A task that only scores sends no update that would name the device, so the device
     * is taken from the lease. */
    if (arm->arm.n_scored > 0)
        pl_copy_text(out->results[0].device, sizeof out->results[0].device,
                     under->lease.device);
    /* the likeness of a state that was not uploaded stays zero */
    if (pl_hash_none(&out->after) || after->repeats > 0)
        return PL_OK;
    pl_status status = PL_OK;
    pl_bytes state = {0};
    void *owned = NULL;
    PL_TRY(home_lend_blob(h, &out->after, "a path's state", &state, &owned));
    PL_TRY(pl_audit_moments(&arm->arm, arm->topology, out->seed, state.at, state.len,
                            out->moments));
done:
    pl_free_aligned(owned);
    return status;
}

pl_status home_open_audit(home *h, const pl_audit *a)
{
    char name[PL_TEXT_MAX];
    pl_message event;
    if (a->n == 0)
        return PL_OK;
    pl_audit_name(a, name);
    PL_CHECK(put_audit_row(h, name, a));
    if (!pl_hash_none(&a->before))
        PL_CHECK(pl_txn_put_object(h->txn, name, &a->before));
    pl_message_init(&event, 0);
    PL_SAY(&event, EVENT, audit_record, .row_text = find_audit(h, name)->text,
           .audit = 1);
    home_tell(h, &event);
    return PL_OK;
}

/* The sketch is computed when the update arrives: the merge drops the bytes of the
 * update, and the audit comes later. */
pl_status home_note_likeness(home *h, const home_arm *arm, int module, int64_t round,
                             const pl_hash *update, pl_contribution *c)
{
    pl_status status = PL_OK;
    pl_bytes data = {0};
    void *owned = NULL;
    pl_likeness like;
    int64_t phase = round; /* the phase whose update belongs to the round */
    const int64_t last = round + arm->arm.inner.phases;
    while (phase <= last && pl_round_of(&arm->contracts[module], phase) != round)
        phase++;
    if (phase > last || !pl_audit_draws(&arm->arm, (int)c->path, (int)c->replica, phase,
                                        h->options->audit))
        return PL_OK;
    PL_TRY(home_lend_blob(h, update, "an update", &data, &owned));
    const uint64_t seed = pl_random_fresh();
    PL_TRY(pl_audit_update(arm->topology, module, seed, data.at, data.len, &like));
    c->seed = seed;
    memcpy(c->likeness, like.cells, sizeof c->likeness);
done:
    pl_free_aligned(owned);
    return status;
}

/* ---- results of audits, as the hub reports them ---- */
/* The list of results of an audit only grows. So a message that is late, and therefore
 * has fewer results, changes nothing. */
pl_status home_put_audit(home *h, pl_message *m, pl_message *answer)
{
    char name[PL_TEXT_MAX];
    pl_msg_put_audit q;
    pl_audit a;
    pl_object state;
    PL_CHECK(PL_HEAR(m, put_audit, &q));
    PL_CHECK(pl_audit_read(q.row_text, &a));
    pl_audit_name(&a, name);
    home_audit *open = find_audit(h, name);
    answer->type = PL_MSG_OK;
    if (!open || (a.verdict == PL_VERDICT_OPEN && a.n <= open->n))
        return PL_OK;
    PL_CHECK(put_audit_row(h, name, &a));
    if (a.verdict == PL_VERDICT_OPEN)
        return PL_OK;
    pl_free(open->text);
    *open = h->audits[--h->n_audits];
    h->counts.audits[a.verdict]++;
    pl_status status = pl_store_get_object(h->store, name, &state);
    if (status == PL_OK)
        status = pl_txn_drop_object(h->txn, name);
    return status == PL_ERR_NOT_FOUND ? PL_OK : status;
}

/* ---- fenced workers ---- */
static void add_fenced(home *h, const pl_fence *f)
{
    h->fenced = pl_grow(h->fenced, (h->n_fenced + 1) * sizeof *h->fenced);
    h->fenced[h->n_fenced++] = *f;
}

/* The ref's target is the worker's key as text, or "-", followed by the reason. */
static pl_status put_fenced(home *h, const pl_fence *f)
{
    char row[PL_TEXT_MAX], text[PL_PUBKEY_TEXT] = "-",
                           target[PL_PUBKEY_TEXT + PL_FENCED_TEXT_MAX];
    if (!pl_pubkey_none(&f->key))
        pl_pubkey_format(&f->key, text);
    snprintf(row, sizeof row, PL_FENCED_REFS "%.80s", f->name);
    snprintf(target, sizeof target, "%s %s", text, f->reason);
    PL_CHECK(home_write(h));
    return pl_txn_put_ref(h->txn, row, target);
}

/* Fences a worker. If two workers with the same name are fenced, their refs need
 * different names; so the ref of the worker that is fenced by its key is named after
 * this key. */
pl_status home_fence_worker(home *h, pl_message *m, pl_message *answer)
{
    pl_fence f;
    pl_msg_fence_worker q;
    PL_CHECK(PL_HEAR(m, fence_worker, &q));
    memset(&f, 0, sizeof f);
    pl_copy_text(f.name, sizeof f.name, q.name);
    pl_copy_text(f.reason, sizeof f.reason, q.reason);
    if (q.key)
        memcpy(f.key.bytes, q.key, sizeof f.key.bytes);
    answer->type = PL_MSG_OK;
    if (pl_fence_find(h->fenced, h->n_fenced, f.name, &f.key, false))
        return PL_OK;
    for (size_t i = 0; i < h->n_fenced; i++)
        if (strcmp(h->fenced[i].name, q.name) == 0) {
            pl_fence *by_key = q.key ? &f : &h->fenced[i];
            pl_pubkey_format(&by_key->key, by_key->name);
            if (!q.key)
                PL_CHECK(put_fenced(h, by_key));
        }
    PL_CHECK(put_fenced(h, &f));
    add_fenced(h, &f);
    pl_log(PL_LOG_ERROR, "worker.fenced", "worker=%s reason=\"%s\"", q.name, q.reason);
    return PL_OK;
}

pl_status home_check_fenced(const home *h, const pl_lease *lease)
{
    bool own = false;
    (void)pl_gate_role(&lease->key, &own);
    const pl_fence *f =
        pl_fence_find(h->fenced, h->n_fenced, lease->worker, &lease->key, own);
    return f ? pl_fail(PL_ERR_NOPERM, "%s", f->reason) : PL_OK;
}

/* ---- reading audits and fenced workers at start ---- */
pl_status home_load_audit(void *context, const char *name, const char *target)
{
    pl_audit a;
    if (pl_audit_read(target, &a) != PL_OK)
        return pl_fail(PL_ERR_DAMAGED,
                       "ref %s is damaged: it does not describe an audit of this store",
                       name);
    if (a.verdict == PL_VERDICT_OPEN)
        keep_open(context, name, target, a.n);
    return PL_OK;
}

pl_status home_load_fenced(void *context, const char *name, const char *target)
{
    char text[PL_PUBKEY_TEXT];
    pl_fence f;
    const char *blank = strchr(target, ' ');
    size_t len = blank ? (size_t)(blank - target) : 0;
    memset(&f, 0, sizeof f);
    if (len == 0 || len >= sizeof text)
        return pl_fail(PL_ERR_DAMAGED,
                       "ref %s is damaged: it does not name a fenced worker", name);
    snprintf(text, sizeof text, "%.*s", (int)len, target);
    if (strcmp(text, "-") != 0)
        PL_CHECK(pl_pubkey_parse(text, &f.key));
    pl_copy_text(f.name, sizeof f.name, name + strlen(PL_FENCED_REFS));
    pl_copy_text(f.reason, sizeof f.reason, blank + 1);
    add_fenced(context, &f);
    return PL_OK;
}
