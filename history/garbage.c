/* Frees or counts the data of old versions, in all parts of a store (garbage.h).
 *
 * Keeps versions that a tag names, and versions that an unfinished training may still
 * read or refer to. Training needs all versions of a module from a certain number on.
 * Some methods also need version 0.
 *
 * The caller opens all parts for writing before this file reads the tags and the paths.
 * So no process can name a version before the data of the last part are freed. */
#include "history/garbage.h"
#include "outer/outer.h"
#include <string.h>

/* The versions of one module that must be kept: all versions from `needed` on, version
 * 0 if the method refers to version 0, and the version that a longer run continues. */
typedef struct root_module {
    char name[PL_MODULE_NAME_MAX];
    uint64_t needed;    /* UINT64_MAX: no version is needed */
    uint64_t continued; /* 0: none */
    bool needs_first;
} root_module;

typedef struct root_audit {
    char path[PL_MODULE_NAME_MAX];
    int64_t phase;
} root_audit;

struct pl_roots {
    pl_store *store;
    root_audit *audits; /* the open audits */
    size_t n_audits;
    pl_snapshot *tags;
    size_t n_tags;
    root_module *modules;
    size_t n_modules;
};

void pl_roots_add_tag(pl_roots *r, const pl_snapshot *tag)
{
    r->tags = pl_grow(r->tags, (r->n_tags + 1) * sizeof *r->tags);
    pl_snapshot *copy = &r->tags[r->n_tags++];
    *copy = *tag;
    copy->items = pl_alloc((tag->n_items + 1) * sizeof *copy->items);
    if (tag->n_items > 0)
        memcpy(copy->items, tag->items, tag->n_items * sizeof *copy->items);
}

static pl_status add_tag(void *context, const pl_snapshot *tag)
{
    pl_roots_add_tag(context, tag);
    return PL_OK;
}

/* Notes an open audit, whose task is repeated from the versions of the first worker. */
static pl_status add_audit(void *context, const char *name, const char *target)
{
    pl_roots *r = context;
    pl_audit audit;
    if (pl_audit_read(target, &audit) != PL_OK)
        return pl_fail(PL_ERR_DAMAGED,
                       "ref %s is damaged: it does not describe an audit", name);
    if (audit.verdict != PL_VERDICT_OPEN)
        return PL_OK;
    r->audits = pl_grow(r->audits, (r->n_audits + 1) * sizeof *r->audits);
    root_audit *a = &r->audits[r->n_audits++];
    pl_copy_text(a->path, sizeof a->path, audit.path);
    a->phase = audit.phase - audit.repeats;
    return PL_OK;
}

static void add_module(pl_roots *r, const pl_arm *arm, const pl_topology *t, int module)
{
    const pl_contract c = pl_contract_of(arm, t, module);
    pl_version head;
    r->modules = pl_grow(r->modules, (r->n_modules + 1) * sizeof *r->modules);
    root_module *m = &r->modules[r->n_modules++];
    *m = (root_module){.needed = UINT64_MAX, .needs_first = c.keeps_first};
    pl_copy_text(m->name, sizeof m->name, c.name);
    if (pl_phase_stays(arm, pl_arm_full_phases(arm)))
        m->continued = pl_rounds_after(&c, pl_arm_full_phases(arm));
    for (int nth = 0; nth < pl_topology_module_n_paths(t, module); nth++)
        for (int i = 0; i < pl_topology_n_replicas(t); i++) {
            const int path = pl_topology_module_path(t, module, nth);
            char name[PL_MODULE_NAME_MAX];
            pl_path_state state;
            pl_arm_path_name(arm, t, path, i, name);
            /* the earliest phase of the path that a worker may still do or repeat */
            int64_t phase = pl_store_get_path(r->store, name, &state) == PL_OK
                                ? state.phase - state.repeats
                                : 0;
            for (size_t k = 0; k < r->n_audits; k++)
                if (strcmp(r->audits[k].path, name) == 0 && r->audits[k].phase < phase)
                    phase = r->audits[k].phase;
            /* The oldest version that this phase, or the one before it, reads or refers
             * to. A finished path needs only the newest versions, which are kept
             * anyway. */
            if (phase < arm->inner.phases)
                for (int64_t p = phase > 0 ? phase - 1 : 0; p <= phase; p++) {
                    const int64_t round = pl_round_of(&c, p);
                    const uint64_t needs = pl_round_needs(&c, p);
                    const uint64_t base = round < 0 ? needs : pl_round_base(&c, round);
                    m->needed = needs < m->needed ? needs : m->needed;
                    m->needed = base < m->needed ? base : m->needed;
                }
        }
    /* merges may read older versions than tasks, and updates may be relative to them */
    if (pl_store_head(r->store, m->name, &head) != PL_OK)
        return;
    m->needed = pl_round_oldest(&c, head.number, m->needed);
    pl_version_clear(&head);
}

static pl_status add_arm(void *context, const pl_object *object)
{
    pl_roots *r = context;
    pl_arm arm;
    pl_topology *t = NULL;
    pl_status status = pl_read_arm(r->store, object->name + strlen("arm/"), &arm, &t);
    if (status == PL_OK)
        for (int m = 0; m < pl_topology_n_modules(t); m++)
            add_module(r, &arm, t, m);
    pl_topology_destroy(&t);
    pl_arm_clear(&arm);
    return status == PL_OK
               ? PL_OK
               : pl_fail_in(status, "cannot find the versions that tasks of %s need",
                            object->name);
}

pl_status pl_roots_create(pl_store *store, pl_roots **out)
{
    *out = pl_alloc(sizeof **out);
    (*out)->store = store;
    pl_status status = pl_store_each_tag(store, add_tag, *out);
    if (status == PL_OK)
        status = pl_store_each_ref(store, PL_AUDIT_REFS, add_audit, *out);
    if (status == PL_OK)
        status = pl_store_each_object(store, "arm/", add_arm, *out);
    if (status != PL_OK)
        pl_roots_destroy(out);
    return status;
}

void pl_roots_destroy(pl_roots **handle)
{
    pl_roots *r = *handle;
    *handle = NULL;
    if (!r)
        return;
    for (size_t i = 0; i < r->n_tags; i++)
        pl_snapshot_clear(&r->tags[i]);
    pl_free_all(r->tags, r->audits, r->modules, r);
}

/* Whether training or a tag needs the version. */
static bool is_needed(const pl_roots *r, const pl_version *v)
{
    for (size_t i = 0; i < r->n_modules; i++) {
        const root_module *m = &r->modules[i];
        if (strcmp(m->name, v->module) != 0)
            continue;
        if (v->number >= m->needed || (v->number == 0 && m->needs_first) ||
            (v->number > 0 && v->number == m->continued))
            return true;
        break;
    }
    for (size_t i = 0; i < r->n_tags; i++) {
        const pl_snapshot_item *item = pl_snapshot_find(&r->tags[i], v->module);
        if (item && item->number == v->number)
            return true;
    }
    return false;
}

bool pl_keep_rule_stays(void *rule, const pl_version *v)
{
    pl_keep_rule *r = rule;
    pl_version head;
    /* called module by module, so the last module's newest version is kept */
    if (strcmp(r->module, v->module) != 0) {
        pl_copy_text(r->module, sizeof r->module, v->module);
        /* UINT64_MAX: the newest version cannot be read, so all versions are kept */
        r->head = UINT64_MAX;
        if (pl_store_head(r->store, v->module, &head) == PL_OK) {
            r->head = head.number;
            pl_version_clear(&head);
        }
    }
    return v->number == 0 || r->head == UINT64_MAX || r->head <= v->number ||
           r->head - v->number < (uint64_t)r->keep ||
           (r->grace_ms > 0 && r->now_ms - v->wall_ms < r->grace_ms) ||
           is_needed(r->roots, v);
}

pl_status pl_garbage_collect(const pl_garbage *g, pl_writers *writers,
                             pl_gc_report *out)
{
    pl_keep_rule rule = {.store = writers ? pl_writers_view(writers) : g->store,
                         .keep = g->keep,
                         .grace_ms = g->grace_ms,
                         .now_ms = pl_wall_ms()};
    char name[PL_PATH_MAX];
    pl_store *part = NULL;
    pl_gc_report one;
    pl_status status = PL_OK;
    int n = 0;
    memset(out, 0, sizeof *out);
    PL_CHECK(pl_store_homes(g->folder, &n));
    if (writers)
        PL_TRY(pl_store_clear_copy(g->folder));
    /* the roots cover all parts: a task may begin with versions in other parts */
    PL_TRY(pl_roots_create(rule.store, &rule.roots));
    PL_TRY(pl_failpoint("gc.roots.after"));
    for (int i = 0; i < n; i++) {
        if (!writers)
            PL_TRY(pl_store_open(pl_store_home(g->folder, i, n, name), PL_STORE_READ,
                                 &part));
        PL_TRY(pl_store_collect(writers ? pl_writers_part(writers, i) : part,
                                pl_keep_rule_stays, &rule, writers != NULL, &one));
        pl_store_close(&part);
        out->n_versions += one.n_versions;
        out->n_kept += one.n_kept;
        out->n_gone += one.n_gone;
        out->n_blobs += one.n_blobs;
        out->n_chunks += one.n_chunks;
        out->bytes += one.bytes;
        out->n_garbage += one.n_garbage;
        out->garbage_bytes += one.garbage_bytes;
    }
done:
    pl_roots_destroy(&rule.roots);
    pl_store_close(&part);
    return status;
}
