/* Draws the tasks that are audited, keeps the records of audits and of fenced workers,
 * and carries out verdicts. A drawn task counts only after one of the job's own workers
 * has repeated it: until then the path stays in its phase, and the row of the audit has
 * the path's next state (outer/audit_row.h). Messages of fenced workers are refused.
 * The hub decides about audits and fences (workers/hub_verdict.c), and the home makes
 * the hub's decisions durable. */
#include "home/home_internal.h"

static pl_audit *find_audit(const home *h, const char *path)
{
    for (size_t i = 0; i < h->n_audits; i++)
        if (strcmp(h->audits[i].path, path) == 0)
            return &h->audits[i];
    return NULL;
}

const pl_path_state *home_in_audit(const home *h, const char *path)
{
    const pl_audit *a = find_audit(h, path);
    return a ? &a->state : NULL;
}

static void keep_open(home *h, const pl_audit *a)
{
    h->audits = pl_grow(h->audits, (h->n_audits + 1) * sizeof *h->audits);
    h->audits[h->n_audits++] = *a;
}

void home_audit_records(const home *h, pl_buf *out)
{
    pl_buf text = {0};
    for (size_t i = 0; i < h->n_audits; i++) {
        pl_buf_clear(&text);
        pl_audit_write(&h->audits[i], &text);
        PL_SAY_RECORD(out, audit_record, .row_text = pl_buf_text(&text), .audit = 1);
    }
    pl_buf_destroy(&text);
    for (size_t i = 0; i < h->n_fenced; i++) {
        const pl_fence *f = &h->fenced[i];
        PL_SAY_RECORD(out, fenced_record, .reason = f->reason, .name = f->name,
                      .key = pl_pubkey_none(&f->key) ? NULL : f->key.bytes,
                      .fenced = 1);
    }
}

/* ---- the draw ---- */
static pl_status put_row(home *h, const char *name, pl_buf *text)
{
    PL_CHECK(home_write(h));
    return pl_txn_put_ref(h->txn, name, pl_buf_text(text));
}

static pl_status put_draw(home *h, pl_draw draw)
{
    char name[PL_TEXT_MAX];
    pl_buf text = {0};
    pl_draw_name(&draw, name);
    pl_draw_write(&draw, &text);
    const pl_status status = put_row(h, name, &text);
    pl_buf_destroy(&text);
    return status;
}

static pl_status note_draw(void *context, const char *name, const char *target)
{
    (void)name;
    (void)target;
    *(bool *)context = true;
    return PL_OK;
}

/* A process that draws nothing also notes this, if an earlier one drew: otherwise a
 * task without an audit could not be explained. */
pl_status home_begin_draws(home *h)
{
    bool has_drawn = h->options->audit > 0;
    PL_CHECK(pl_store_each_ref(h->store, PL_DRAW_REFS, note_draw, &has_drawn));
    if (!has_drawn)
        return PL_OK;
    pl_draw_create(h->options->audit, &h->draw);
    return put_draw(h, (pl_draw){.hash = h->draw.hash, .share = h->draw.share});
}

pl_status home_end_draws(home *h)
{
    if (pl_hash_none(&h->draw.secret))
        return PL_OK;
    PL_CHECK(put_draw(h, h->draw));
    return home_commit(h);
}

bool home_audits(const home *h, const home_arm *arm)
{
    return h->options->audit > 0 && pl_audit_may(&arm->arm);
}

/* ---- rows ---- */
pl_status home_open_audit(home *h, const home_lease *under, const pl_path_state *state)
{
    home_path *path = &under->arm->paths[under->index];
    char name[PL_TEXT_MAX];
    pl_status status = PL_OK;
    pl_message event = {0};
    pl_buf text = {0};
    pl_audit a = {.phase = path->state.phase,
                  .before = path->state.moments,
                  .repeats = path->state.repeats,
                  .after = state->repeats > 0 ? state->made : state->moments,
                  .state = *state,
                  .n = 1};
    pl_copy_text(a.path, sizeof a.path, state->name);
    pl_copy_text(a.results[0].worker, sizeof a.results[0].worker, under->lease.worker);
    pl_copy_text(a.results[0].device, sizeof a.results[0].device, under->lease.device);
    a.results[0].key = under->lease.key;
    /* each row of an earlier audit of this phase that dropped its result is one try */
    a.verdict = PL_VERDICT_ODD;
    a.tries = 1;
    while (pl_store_get_ref(h->store, pl_audit_name(&a, name), &text) == PL_OK)
        a.tries++;
    a.verdict = PL_VERDICT_OPEN;
    pl_buf_clear(&text);
    pl_audit_write(&a, &text);
    PL_TRY(put_row(h, pl_audit_name(&a, name), &text));
    if (!pl_hash_none(&state->moments))
        PL_TRY(pl_txn_put_object(h->txn, name, &state->moments));
    keep_open(h, &a);
    PL_SAY(&event, EVENT, audit_record, .row_text = pl_buf_text(&text), .audit = 1);
    home_tell(h, &event);
    home_tell_path(h, path);
done:
    pl_buf_destroy(&text);
    return status;
}

/* Writes the row with its verdict. The name of a dropped result is free again, because
 * the task may be drawn once more. */
static pl_status close_row(home *h, pl_audit *row)
{
    char open[PL_TEXT_MAX], closed[PL_TEXT_MAX];
    const pl_verdict verdict = row->verdict;
    pl_buf text = {0};
    row->verdict = PL_VERDICT_OPEN;
    pl_audit_name(row, open);
    row->verdict = verdict;
    pl_audit_name(row, closed);
    row->state = (pl_path_state){.phase = 0};
    pl_audit_write(row, &text);
    pl_status status = put_row(h, closed, &text);
    pl_buf_destroy(&text);
    PL_CHECK(status);
    if (strcmp(open, closed) != 0)
        PL_CHECK(pl_txn_drop_ref(h->txn, open));
    status = pl_txn_drop_object(h->txn, open);
    return status == PL_ERR_NOT_FOUND ? PL_OK : status;
}

/* The context of drop_update: the updates of a path to drop. */
typedef struct dropping {
    home *h;
    const home_arm *arm;
    int index;
    int64_t phase;
    uint64_t token;
} dropping;

static pl_status drop_update(void *context, const char *module,
                             const pl_contribution *c)
{
    const dropping *d = context;
    home_arm *arm = NULL;
    int place = 0;
    if (home_find_module(d->h, module, &arm, &place) != PL_OK)
        return PL_OK;
    const home_module *m = &arm->modules[place];
    const int replicas = pl_topology_n_replicas(arm->topology);
    const uint64_t first = (uint64_t)d->phase * pl_phase_samples(&arm->arm);
    if (arm != d->arm || c->path * replicas + c->replica != d->index ||
        c->work.first_sample < first || c->token > d->token || !m->exists ||
        !*home_flag(arm, m, c->phase, d->index))
        return PL_OK;
    PL_CHECK(home_write(d->h));
    PL_CHECK(pl_txn_drop_update(d->h->txn, module, c));
    *home_flag(arm, m, c->phase, d->index) = false;
    --*home_count(m, c->phase);
    return PL_OK;
}

static pl_status drop_updates(dropping *d)
{
    char prefix[PL_ARM_NAME_MAX + 1];
    snprintf(prefix, sizeof prefix, "%s/", d->arm->arm.name);
    return pl_store_each_pending(d->h->store, prefix, drop_update, d);
}

/* A ref whose updates this drop drops, too, is of no more use. */
static pl_status drop_older_ref(void *context, const char *name, const char *target)
{
    const dropping *d = context;
    pl_dropped older;
    (void)target;
    PL_CHECK(pl_dropped_read(name, &older));
    return older.phase >= d->phase && older.token < d->token
               ? pl_txn_drop_ref(d->h->txn, name)
               : PL_OK;
}

pl_status home_drop_results(home *h, const home_arm *arm, int index, int64_t phase,
                            uint64_t token)
{
    char name[2 * PL_MODULE_NAME_MAX];
    const home_path *path = &arm->paths[index];
    if (phase < path->confirmed || phase < path->state.phase)
        return PL_OK; /* the phase counts: the order is an old one */
    dropping d = {h, arm, index, phase, token};
    PL_CHECK(home_write(h));
    snprintf(name, sizeof name, PL_DROPPED_REFS "%s/", path->state.name);
    PL_CHECK(pl_store_each_ref(h->store, name, drop_older_ref, &d));
    snprintf(name, sizeof name, PL_DROPPED_REFS "%s/%lld/%llu", path->state.name,
             (long long)phase, (unsigned long long)token);
    PL_CHECK(pl_txn_put_ref(h->txn, name, "-"));
    return drop_updates(&d);
}

/* Carries out a verdict of the hub. Under `odd` and `undecided` the hub has told all
 * homes before to drop the task's updates; the path stays in its phase, and its task is
 * leased again. */
pl_status home_put_audit(home *h, pl_message *m)
{
    pl_msg_put_audit q;
    pl_audit said;
    home_arm *arm = NULL;
    int index = 0;
    PL_CHECK(PL_HEAR(m, put_audit, &q));
    PL_CHECK(pl_audit_read(q.row_text, &said));
    pl_audit *open = find_audit(h, said.path);
    if (!open || said.verdict == PL_VERDICT_OPEN || said.phase != open->phase ||
        said.tries != open->tries || !pl_hash_equal(&said.after, &open->after))
        return PL_OK; /* the verdict is about an earlier result */
    PL_CHECK(home_find_path(h, said.path, &arm, &index));
    const pl_path_state next = open->state;
    said.before = open->before;
    PL_CHECK(close_row(h, &said));
    *open = h->audits[--h->n_audits];
    h->counts.audits[said.verdict]++;
    if (!pl_verdict_drops(said.verdict))
        return home_end_phase(h, arm, index, &next);
    pl_log(PL_LOG_WARN, "task.dropped", "task=%s phase=%lld verdict=%s worker=%s",
           said.path, (long long)said.phase, pl_verdict_name(said.verdict),
           next.worker);
    home_tell_path(h, &arm->paths[index]);
    return PL_OK;
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
pl_status home_fence_worker(home *h, pl_message *m)
{
    pl_fence f = {0};
    pl_msg_fence_worker q;
    PL_CHECK(PL_HEAR(m, fence_worker, &q));
    pl_copy_text(f.name, sizeof f.name, q.name);
    pl_copy_text(f.reason, sizeof f.reason, q.reason);
    if (q.key)
        memcpy(f.key.bytes, q.key, sizeof f.key.bytes);
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

/* A copy of the store from before the verdict may still have the updates. */
pl_status home_load_dropped(void *context, const char *name, const char *target)
{
    home *h = context;
    home_arm *arm = NULL;
    int index = 0;
    pl_dropped dropped;
    (void)target;
    PL_CHECK(pl_dropped_read(name, &dropped));
    if (home_find_path(h, dropped.path, &arm, &index) != PL_OK)
        return PL_OK;
    /* a lease from before the verdict must not be valid again */
    if (dropped.token > arm->paths[index].fence)
        arm->paths[index].fence = dropped.token;
    return drop_updates(&(dropping){h, arm, index, dropped.phase, dropped.token});
}

/* An open row whose path is in another phase cannot be decided any more: a rollback
 * moved the path, or a release before this one opened the row (it has no state). */
pl_status home_load_audit(void *context, const char *name, const char *target)
{
    pl_audit a;
    home *h = context;
    home_arm *arm = NULL;
    int index = 0;
    if (pl_audit_read(target, &a) != PL_OK)
        return pl_fail(PL_ERR_DAMAGED,
                       "ref %s is damaged: it does not describe an audit of this store",
                       name);
    if (a.verdict != PL_VERDICT_OPEN)
        return PL_OK;
    if (a.state.phase > 0 && home_find_path(h, a.path, &arm, &index) == PL_OK &&
        arm->paths[index].state.phase == a.phase) {
        keep_open(h, &a);
        return PL_OK;
    }
    a.verdict = PL_VERDICT_UNCHECKED;
    pl_copy_text(a.reason, sizeof a.reason,
                 "the path was in another phase when the home started");
    return close_row(h, &a);
}

pl_status home_load_fenced(void *context, const char *name, const char *target)
{
    char text[PL_PUBKEY_TEXT];
    pl_fence f = {0};
    const char *blank = strchr(target, ' ');
    size_t len = blank ? (size_t)(blank - target) : 0;
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
