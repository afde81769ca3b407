/* Plans and writes the copy of a store without some documents (rewind.h). The copy has
 * the same parts as the store, so every name stays in its home. The plan for an arm
 * decides which rows and objects of the arm are copied. */
#include "history/rewind.h"
#include "history/merged.h"
#include "history/transfer.h"
#include <stdio.h>
#include <string.h>

typedef struct keeper {
    pl_store *store;
    const pl_rewind_arm *of;
} keeper;

static int n_rewound_tasks(const pl_rewind_arm *a)
{
    return pl_topology_n_paths(a->topology) * pl_topology_n_replicas(a->topology);
}

/* Returns the number of a contribution's task; -1 if the arm has no such task. */
static int64_t task_of_update(const pl_rewind_arm *a, const pl_contribution *c)
{
    const int replicas = pl_topology_n_replicas(a->topology);
    if (c->path < 0 || c->path >= pl_topology_n_paths(a->topology) || c->replica < 0 ||
        c->replica >= replicas)
        return -1;
    return c->path * replicas + c->replica;
}

static void task_name(const pl_rewind_arm *a, int task, char out[96])
{
    const int replicas = pl_topology_n_replicas(a->topology);
    pl_arm_path_name(&a->arm, a->topology, task / replicas, task % replicas, out);
}

static bool must_stay(void *context, pl_kept what, int index, int64_t number)
{
    const keeper *k = context;
    const pl_rewind_arm *of = k->of;
    char path[96], name[PL_MODULE_NAME_MAX];
    pl_object object;
    pl_version v;
    if (what == PL_KEPT_STATE) {
        task_name(of, index, path);
        pl_kept_state_name(path, number, name);
        return pl_store_get_object(k->store, name, &object) == PL_OK;
    }
    pl_arm_module_name(&of->arm, of->topology, index, name);
    if (pl_store_get_version(k->store, name, (uint64_t)number, &v) != PL_OK)
        return false;
    bool kept = !v.params_gone;
    if (what == PL_KEPT_STEP) {
        /* The outer step after this version may need more than parameters. The version
         * then has a momentum blob, unless the blob was dropped. */
        const pl_contract c = pl_contract_of(&of->arm, of->topology, index);
        const pl_outer_step step =
            pl_round_step_of(&c, (uint64_t)number, c.n_contributors).step;
        kept = !pl_hash_none(&v.momentum) ||
               !(pl_outer_keeps_momentum(&step) || pl_outer_keeps_carry(&step) ||
                 c.keeps_change);
    }
    if (what == PL_KEPT_UPDATES)
        kept = v.has_updates && v.n_contributions > 0 && !pl_version_has_sums(&v);
    pl_version_clear(&v);
    return kept;
}

/* ---- making the plan ---- */
/* The context of note_phases, which reads the duration of each phase of each task, and
 * the kinds of devices. All modules of a path record the same duration of a phase, so
 * the duration is set, not added up. */
typedef struct phase_scan {
    pl_rewind_arm *of;
    double *seconds; /* [tasks, phases] where a task is path * R + replica */
} phase_scan;

static pl_status note_phases(void *context, const pl_version *v)
{
    const phase_scan *s = context;
    pl_rewind_arm *a = s->of;
    uint64_t source;
    if (pl_version_source(v, &source))
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "%s was rolled back to version %llu, and a run without the "
                       "document cannot repeat the rollback; train a new run with "
                       "data.forget",
                       v->module, (unsigned long long)source);
    for (int i = 0; i < v->n_contributions; i++) {
        const pl_contribution *c = &v->contributions[i];
        const int64_t task = task_of_update(a, c);
        const uint64_t phase = c->work.first_sample / pl_phase_samples(&a->arm);
        if (!a->device[0])
            pl_copy_text(a->device, sizeof a->device, c->device);
        else if (strcmp(a->device, c->device) != 0)
            pl_copy_text(a->other_device, sizeof a->other_device, c->device);
        if (task >= 0 && phase < (uint64_t)a->arm.inner.phases)
            s->seconds[task * a->arm.inner.phases + (int64_t)phase] = c->work.seconds;
    }
    return PL_OK;
}

/* Reads a token file from the store; `out`: a copy with the documents blank. */
static pl_status read_blanked(pl_store *store, const char *object,
                              const pl_doc_list *docs, pl_buf *out)
{
    pl_buf bytes = {0};
    pl_tokens *tokens = NULL;
    pl_status status = pl_store_read_object(store, object, &bytes);
    pl_buf_clear(out);
    if (status == PL_OK)
        status = pl_tokens_view(bytes.data, bytes.len, object, &tokens);
    if (status == PL_OK)
        status = pl_tokens_blank(tokens, docs, out);
    pl_tokens_close(&tokens);
    pl_buf_destroy(&bytes);
    return status;
}

static pl_status plan_rewound_arm(void *context, const pl_object *object)
{
    pl_rewind *w = context;
    const pl_subject subject = {.docs = w->docs};
    char path[PL_NAME_MAX], name[PL_MODULE_NAME_MAX];
    phase_scan s = {.seconds = NULL};
    pl_buf bytes = {0};
    int64_t *draws = NULL;
    pl_status status = PL_OK;
    w->arms = pl_grow(w->arms, (size_t)(w->n_arms + 1) * sizeof *w->arms);
    pl_rewind_arm *a = &w->arms[w->n_arms++];
    memset(a, 0, sizeof *a);
    PL_TRY(pl_read_arm(w->store, object->name + strlen("arm/"), &a->arm, &a->topology));
    const char *why = a->arm.outer.quorum > 0        ? "outer.quorum"
                      : a->arm.outer.deadline_ms > 0 ? "outer.deadline_s"
                      : !pl_versions_have_phases(&a->arm.outer)
                          ? "outer.method=delayed-nesterov"
                      : a->arm.outer.state == PL_STATE_LOCAL ? "train.state=local"
                                                             : NULL;
    if (why)
        PL_TRY(pl_fail(
            PL_ERR_UNSUPPORTED,
            "with %s the result of %s depended on timing, so the result without a "
            "document is not known exactly; train a new run with data.forget",
            why, a->arm.name));
    const int n_tasks = n_rewound_tasks(a);
    const int64_t phases = a->arm.inner.phases;
    draws = pl_alloc((size_t)n_tasks * sizeof *draws);
    PL_TRY(pl_exposure_draws(w->store, &a->arm, a->topology, &subject, draws,
                             &a->emptied));
    keeper k = {w->store, a};
    pl_affected_find(&a->arm, a->topology, draws, must_stay, &k, &a->affected);
    s.of = a;
    s.seconds = pl_alloc(((size_t)n_tasks * (size_t)phases + 1) * sizeof *s.seconds);
    for (int m = 0; m < pl_topology_n_modules(a->topology); m++) {
        pl_arm_module_name(&a->arm, a->topology, m, name);
        PL_TRY(pl_store_each_version(w->store, name, note_phases, &s));
    }
    a->n_phases = n_tasks * phases;
    for (int i = 0; i < n_tasks; i++) {
        a->n_changed += phases - a->affected.changes[i];
        a->n_again += phases - a->affected.begins[i];
        for (int64_t t = 0; t < phases; t++) {
            a->seconds += s.seconds[i * phases + t];
            if (t >= a->affected.begins[i])
                a->again_s += s.seconds[i * phases + t];
        }
    }
    a->is_changed = a->n_changed > 0;
    for (int p = 0; p < a->arm.n_shards; p++) {
        pl_topology_path_name(a->topology, p, path);
        snprintf(name, sizeof name, "shard/%s/%s", a->arm.name, path);
        PL_TRY(read_blanked(w->store, name, &w->docs, &bytes));
        pl_blob_hash(bytes.data, bytes.len, &a->arm.shards[p]);
    }
done:
    pl_buf_destroy(&bytes);
    pl_free_all(s.seconds, draws);
    return status;
}

pl_status pl_rewind_plan(pl_store *store, const pl_doc_list *docs, pl_rewind *out)
{
    *out = (pl_rewind){.store = store, .docs = *docs};
    return pl_store_each_object(store, "arm/", plan_rewound_arm, out);
}

void pl_rewind_keep(pl_rewind_arm *a)
{
    for (int i = 0; i < n_rewound_tasks(a); i++)
        a->affected.changes[i] = a->affected.begins[i] = a->arm.inner.phases;
    for (int m = 0; m < pl_topology_n_modules(a->topology); m++)
        a->affected.stays[m] =
            (int64_t)pl_contract_of(&a->arm, a->topology, m).n_rounds;
    a->keeps = true;
    a->is_changed = false;
    a->n_changed = a->n_again = 0;
    a->again_s = 0;
}

void pl_rewind_drop(pl_rewind_arm *a)
{
    a->drops = a->is_changed = true;
    a->keeps = false;
    a->n_changed = a->n_again = a->n_phases;
    a->again_s = a->seconds;
}

pl_rewind_arm *pl_rewind_find(const pl_rewind *w, const char *arm)
{
    for (int i = 0; i < w->n_arms; i++)
        if (strcmp(w->arms[i].arm.name, arm) == 0)
            return &w->arms[i];
    return NULL;
}

void pl_rewind_clear(pl_rewind *w)
{
    for (int i = 0; i < w->n_arms; i++) {
        pl_arm_clear(&w->arms[i].arm);
        pl_topology_destroy(&w->arms[i].topology);
        pl_affected_clear(&w->arms[i].affected);
    }
    pl_free(w->arms);
    pl_buf_destroy(&w->remade);
    pl_buf_destroy(&w->dropped);
}

/* ---- writing the copy ---- */
typedef struct copying {
    pl_rewind *w;
    pl_transfer t; /* copies from a part to the copy of that part */
} copying;

/* Finds the arm in a name like KIND/ARM or KIND/ARM/REST; NULL: no such arm. */
static pl_rewind_arm *arm_of_object(const pl_rewind *w, const char *name)
{
    char arm[PL_ARM_NAME_MAX];
    const char *at = strchr(name, '/');
    const size_t n = at ? strcspn(at + 1, "/") : 0;
    if (!at || n >= sizeof arm)
        return NULL;
    snprintf(arm, sizeof arm, "%.*s", (int)n, at + 1);
    return pl_rewind_find(w, arm);
}

/* Returns the number of the newest version of the module that the copy will have; -1
 * for no version, INT64_MAX for all versions. */
static int64_t newest_kept(const pl_rewind *w, const char *module)
{
    char arm[PL_ARM_NAME_MAX];
    const char *own = pl_arm_of_module(module, arm, sizeof arm);
    const pl_rewind_arm *a = pl_rewind_find(w, arm);
    if (pl_module_is_merged(module) || (a && a->drops))
        return -1;
    const int m = a ? pl_topology_find_module(a->topology, own) : -1;
    return m < 0 ? INT64_MAX : a->affected.stays[m];
}

/* Copies the versions of a module up to the newest one that stays, then the updates
 * that made the next version, except those of tasks that are trained again. These
 * become pending updates of the copy. */
static pl_status copy_module(void *context, const pl_version *head)
{
    copying *c = context;
    const char *module = head->module;
    const int64_t newest = newest_kept(c->w, module);
    char arm[PL_ARM_NAME_MAX];
    pl_version next;
    if (newest < 0)
        return PL_OK;
    if ((uint64_t)newest >= head->number)
        return pl_transfer_module(&c->t, module, head->number);
    PL_CHECK(pl_transfer_module(&c->t, module, (uint64_t)newest));
    pl_arm_of_module(module, arm, sizeof arm);
    const pl_rewind_arm *a = pl_rewind_find(c->w, arm);
    if (!a ||
        pl_store_get_version(c->t.from, module, (uint64_t)newest + 1, &next) != PL_OK)
        return PL_OK;
    pl_status status = pl_txn_begin(c->t.to, &c->t.txn);
    const int n = next.has_updates ? next.n_contributions : 0;
    for (int i = 0; status == PL_OK && i < n; i++) {
        const pl_contribution *d = &next.contributions[i];
        const int64_t task = task_of_update(a, d);
        if (task < 0 || a->affected.begins[task] <= d->phase)
            continue;
        status = pl_transfer_blob(&c->t, &d->update);
        if (status == PL_OK)
            status = pl_txn_put_pending(c->t.txn, module, d);
    }
    pl_version_clear(&next);
    return status == PL_OK ? pl_txn_commit(&c->t.txn) : status;
}

/* The context of add_phase_sums: adds up tokens and time of the phases that the path
 * keeps. The loss and the worker's name are those of the last of these phases. */
typedef struct sums {
    const pl_rewind_arm *of;
    int64_t path, replica;
    pl_path_state *state;
} sums;

static pl_status add_phase_sums(void *context, const pl_version *v)
{
    const sums *s = context;
    pl_work *all = &s->state->work;
    for (int i = 0; i < v->n_contributions; i++) {
        const pl_contribution *d = &v->contributions[i];
        const int64_t phase =
            (int64_t)(d->work.first_sample / pl_phase_samples(&s->of->arm));
        if (d->path != s->path || d->replica != s->replica || phase >= s->state->phase)
            continue;
        const bool scored = d->work.held != 0 && phase >= s->state->held_phase;
        const double held = scored ? d->work.held : all->held;
        if (scored)
            s->state->held_phase = phase;
        if (phase == s->state->phase - 1) {
            pl_work_add(all, &d->work);
            pl_copy_text(s->state->worker, sizeof s->state->worker, d->worker);
        } else {
            all->n_tokens += d->work.n_tokens;
            all->seconds += d->work.seconds;
        }
        all->held = held;
    }
    return PL_OK;
}

static int find_rewound_task(const pl_rewind_arm *a, const char *path)
{
    char name[96];
    for (int i = 0; i < n_rewound_tasks(a); i++) {
        task_name(a, i, name);
        if (strcmp(name, path) == 0)
            return i;
    }
    return -1;
}

static pl_status copy_path(void *context, const pl_path_state *path)
{
    copying *c = context;
    char arm[PL_ARM_NAME_MAX];
    pl_path_state state = *path;
    pl_arm_of_module(path->name, arm, sizeof arm);
    const pl_rewind_arm *a = pl_rewind_find(c->w, arm);
    const int task = a ? find_rewound_task(a, path->name) : -1;
    if (a && (a->drops || (task >= 0 && a->affected.begins[task] == 0 &&
                           a->affected.changes[task] < a->arm.inner.phases)))
        return PL_OK;
    if (task >= 0 && a->affected.begins[task] < a->arm.inner.phases) {
        /* the path continues from a kept state */
        const int replicas = pl_topology_n_replicas(a->topology);
        char name[PL_MODULE_NAME_MAX];
        pl_object kept;
        int m = -1;
        memset(&state, 0, sizeof state);
        pl_copy_text(state.name, sizeof state.name, path->name);
        state.phase = a->affected.begins[task];
        pl_kept_state_name(state.name, state.phase, name);
        PL_CHECK(pl_store_get_object(c->w->store, name, &kept));
        state.moments = kept.blob;
        for (int slot = 0; m < 0 && slot < pl_topology_n_slots(a->topology); slot++) {
            m = pl_topology_module_of_path(a->topology, slot, task / replicas);
            m = pl_arm_is_frozen(&a->arm, m) ? -1 : m;
        }
        pl_arm_module_name(&a->arm, a->topology, m < 0 ? 0 : m, name);
        sums s = {a, task / replicas, task % replicas, &state};
        PL_CHECK(pl_store_each_version(c->w->store, name, add_phase_sums, &s));
        state.work.n_samples = (uint64_t)state.phase * pl_phase_samples(&a->arm);
    }
    PL_CHECK(pl_txn_begin(c->t.to, &c->t.txn));
    PL_CHECK(pl_transfer_blob(&c->t, &state.moments));
    PL_CHECK(pl_txn_put_path(c->t.txn, &state));
    return pl_txn_commit(&c->t.txn);
}

/* Returns the number of the task in a name like state/PATH/PHASE; -1: none. */
static int read_task_name(const pl_rewind_arm *a, const char *name, int64_t *phase)
{
    char path[PL_MODULE_NAME_MAX];
    const char *first = strchr(name, '/');
    pl_copy_text(path, sizeof path, first ? first + 1 : "");
    char *last = strrchr(path, '/');
    if (last)
        last[1 + strcspn(last + 1, ".")] = '\0'; /* the try of a dropped result */
    if (!last || pl_parse_int(last + 1, phase) != PL_OK)
        return -1;
    *last = '\0';
    return find_rewound_task(a, path);
}

/* Sets *stays to whether the tag is copied, that is, whether the copy has all versions
 * that the tag names and the job does not make the tag again. */
static pl_status judge_tag(copying *c, const char *name, bool *stays)
{
    pl_rewind *w = c->w;
    pl_snapshot tag;
    const char *names = w->remade.len > 0 ? pl_buf_text(&w->remade) : "";
    const size_t n = strlen(name);
    *stays = false;
    for (const char *at = strchr(names, ' '); at; at = strchr(at + 1, ' '))
        if (strncmp(at + 1, name, n) == 0 && (at[1 + n] == ' ' || !at[1 + n]))
            return PL_OK;
    PL_CHECK(pl_store_get_tag(w->store, name, &tag));
    *stays = true;
    for (size_t i = 0; i < tag.n_items; i++)
        *stays = *stays &&
                 newest_kept(w, tag.items[i].module) >= (int64_t)tag.items[i].number;
    if (!*stays)
        pl_buf_printf(&w->dropped, " %s", name);
    pl_snapshot_clear(&tag);
    return PL_OK;
}

/* Audits of tasks that are trained again are not copied, nor their states. */
static bool audit_stays(const pl_rewind_arm *a, const char *name)
{
    int64_t phase = 0;
    const int task = a->drops ? -1 : read_task_name(a, name, &phase);
    return !a->is_changed || (task >= 0 && phase < a->affected.begins[task]);
}

/* Copies an object: shards and hold-outs without the documents, the changed definition
 * of an arm; leaves out what the copy must not have. */
static pl_status rewind_object(void *context, const pl_object *object)
{
    copying *c = context;
    const char *name = object->name;
    const pl_rewind_arm *a = arm_of_object(c->w, name);
    pl_buf bytes = {0};
    pl_hash blob;
    int64_t phase = 0;
    bool stays = true;
    pl_status status = PL_OK;
    if (pl_starts_with(name, "tag/") && object->bytes > 0)
        PL_TRY(judge_tag(c, name + strlen("tag/"), &stays));
    else if (a && (a->drops || (a->is_changed && pl_starts_with(name, "moments/"))))
        stays = false;
    else if (a && pl_starts_with(name, PL_KEPT_STATES)) {
        /* a kept state stays if it was made before the first phase that changes */
        const int task = read_task_name(a, name, &phase);
        stays = task >= 0 && phase <= a->affected.changes[task];
    } else if (a && pl_starts_with(name, PL_AUDIT_REFS))
        stays = audit_stays(a, name);
    if (!stays)
        goto done;
    if (a && !a->keeps && pl_starts_with(name, "arm/"))
        pl_arm_encode(&a->arm, &bytes);
    else if (pl_starts_with(name, "shard/") || pl_starts_with(name, "holdout/"))
        PL_TRY(read_blanked(c->t.from, name, &c->w->docs, &bytes));
    else
        PL_TRY(pl_store_read_object(c->t.from, name, &bytes));
    PL_TRY(pl_txn_begin(c->t.to, &c->t.txn));
    PL_TRY(pl_txn_put_blob(c->t.txn, bytes.data, bytes.len, &blob));
    PL_TRY(pl_txn_put_object(c->t.txn, name, &blob));
    PL_TRY(pl_txn_commit(&c->t.txn));
done:
    pl_buf_destroy(&bytes);
    return status;
}

/* Copies a ref. Three kinds of refs are not copied: `finished`, meetings of mates of an
 * arm that changes, and audits of tasks that are trained again. */
static pl_status copy_ref(void *context, const char *name, const char *target)
{
    copying *c = context;
    const pl_rewind_arm *a = arm_of_object(c->w, name);
    bool stays = strcmp(name, "finished") != 0;
    if (a && pl_starts_with(name, PL_AUDIT_REFS))
        stays = audit_stays(a, name);
    else if (a && a->is_changed)
        stays = stays && !pl_starts_with(name, PL_MEET_REFS);
    if (!stays)
        return PL_OK;
    PL_CHECK(pl_txn_begin(c->t.to, &c->t.txn));
    PL_CHECK(pl_txn_put_ref(c->t.txn, name, target));
    return pl_txn_commit(&c->t.txn);
}

static pl_status rewind_part(pl_rewind *w, const char *from, const char *to)
{
    copying c = {.w = w, .t.updates = true};
    pl_status status = PL_OK;
    PL_TRY(pl_store_open(from, PL_STORE_READ, &c.t.from));
    PL_TRY(pl_store_open(to, PL_STORE_CREATE, &c.t.to));
    PL_TRY(pl_store_each_head(c.t.from, "", copy_module, &c));
    PL_TRY(pl_store_each_path(c.t.from, "", copy_path, &c));
    PL_TRY(pl_store_each_object(c.t.from, "", rewind_object, &c));
    PL_TRY(pl_store_each_ref(c.t.from, "", copy_ref, &c));
done:
    pl_txn_abort(&c.t.txn);
    pl_store_close(&c.t.from);
    pl_store_close(&c.t.to);
    return status;
}

pl_status pl_rewind_write(pl_rewind *w, const char *from, const char *to)
{
    char a[PL_PATH_MAX], b[PL_PATH_MAX];
    int n = 0;
    pl_buf_clear(&w->dropped);
    PL_CHECK(pl_store_parts(from, &n));
    if (n == 0)
        return rewind_part(w, from, to);
    PL_CHECK(pl_store_make_parts(to, n));
    for (int i = 0; i < n; i++)
        PL_CHECK(rewind_part(w, pl_store_part(from, i, a), pl_store_part(to, i, b)));
    return PL_OK;
}
