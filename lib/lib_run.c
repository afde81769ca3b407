/* Opens a run for reading, and lists its arms, modules, versions, contributors, tags,
 * paths and phases (pathloom.h). */
#include "history/history.h"
#include "lib/lib_internal.h"
#include "view/view.h"

#include <stdlib.h>

/* ---- runs ---- */
int pathloom_open(const char *folder, pathloom_run **out, pathloom_error *error)
{
    pl_status status = PL_OK;
    pathloom_run *run = pl_alloc(sizeof *run);
    pl_run looked = {.lock = -1};
    char *whole = NULL;
    *out = NULL;
    PL_TRY(lib_begin());
    PL_TRY(lib_given(folder, "folder"));
    PL_TRY(run_look(folder, &looked));
    /* so that the run is found after the process has changed its directory */
    whole = realpath(looked.dir, NULL);
    if (!whole || !pl_copy_text(run->dir, sizeof run->dir, whole))
        PL_TRY(pl_fail(PL_ERR_IO,
                       "the absolute path of %s cannot be found, or is too long",
                       looked.dir));
    pl_hash_format(&looked.hash, run->config);
    if (!pl_path_exists(pl_join(run->folder, run->dir, "store")))
        PL_TRY(pl_fail(PL_ERR_NOT_FOUND,
                       "the run in %s has no store yet; `pathloom train` makes it",
                       run->dir));
    PL_TRY(run_see_all_parts(run->folder, &run->store));
    *out = run;
    run = NULL;
done:
    free(whole);
    run_close(&looked);
    pathloom_close(&run);
    return lib_end(status, error);
}

void pathloom_close(pathloom_run **run)
{
    if (!*run)
        return;
    pl_store_close(&(*run)->store);
    pl_free(*run);
    *run = NULL;
}

int pathloom_refresh(pathloom_run *run, pathloom_error *error)
{
    pl_store *now = NULL;
    int n = 0;
    pl_status status;
    PL_TRY(pl_store_parts(run->folder, &n));
    if (n == pl_store_n_parts(run->store)) {
        PL_TRY(pl_store_refresh(run->store));
    } else { /* the number of homes has changed; after a failure the old reader stays */
        PL_TRY(pl_store_open(run->folder, PL_STORE_READ, &now));
        pl_store_close(&run->store);
        run->store = now;
    }
done:
    return lib_end(status, error);
}

int pathloom_describe(pathloom_run *run, pathloom_run_info *info, pathloom_error *error)
{
    bool ended = false;
    pl_status status;
    memset(info, 0, sizeof *info);
    PL_TRY(run_has_ended(run->store, &ended));
    PL_TRY(pl_store_homes(run->folder, &info->n_homes));
    pl_newest_chapter(run->store, run->newest);
    info->folder = run->dir;
    info->config = run->config;
    info->n_commits = pl_store_sequence(run->store);
    info->is_training = pl_store_has_writer(run->folder);
    info->is_finished = ended;
    info->newest = run->newest;
done:
    return lib_end(status, error);
}

/* ---- lists ---- */
/* One listing: the caller's function, and how many things it has seen. */
typedef struct listing {
    pl_store *store;
    union {
        pathloom_arm_fn arm;
        pathloom_version_fn version;
        pathloom_tag_fn tag;
        pathloom_path_fn path;
    } fn;
    void *context;
    size_t n;
} listing;

/* Writes "ARM/", the beginning of the names of an arm's modules and paths. Without an
 * arm, all names begin with "". */
static pl_status arm_prefix(const char *arm, char out[PL_MODULE_NAME_MAX])
{
    out[0] = '\0';
    if (!arm)
        return PL_OK;
    if (snprintf(out, PL_MODULE_NAME_MAX, "%s/", arm) < PL_MODULE_NAME_MAX)
        return PL_OK;
    return pl_fail(PL_ERR_USAGE, "the name of the arm is longer than %d bytes",
                   PL_MODULE_NAME_MAX - 2);
}

/* A listing that found nothing fails if the arm that it was asked for does not exist.
 */
static pl_status check_arm_exists(const listing *l, const char *arm)
{
    pl_object object;
    char name[PL_MODULE_NAME_MAX];
    if (!arm || l->n > 0)
        return PL_OK;
    if (snprintf(name, sizeof name, "arm/%s", arm) >= (int)sizeof name ||
        pl_store_get_object(l->store, name, &object) != PL_OK)
        return pl_fail(PL_ERR_NOT_FOUND,
                       "the run has no arm %s; pathloom_each_arm lists its arms", arm);
    return PL_OK;
}

static pl_status list_arm(void *context, const pl_object *object)
{
    listing *l = context;
    pl_arm arm;
    pl_topology *t = NULL;
    pl_status status = pl_read_arm(l->store, object->name + strlen("arm/"), &arm, &t);
    PL_TRY(status);
    if (arm.n_scored > 0) /* an arm that only scores documents for the router */
        goto done;
    const pl_shape *s = &arm.shape;
    const pathloom_arm out = {.name = arm.name,
                              .is_mixture = pl_arm_chapter(arm.name) >= 0,
                              .n_paths = pl_topology_n_paths(t),
                              .n_replicas = pl_topology_n_replicas(t),
                              .n_modules = pl_topology_n_modules(t),
                              .path_params = pl_topology_path_params(t),
                              .total_params = pl_topology_total_params(t),
                              .vocab = s->vocab,
                              .width = s->width,
                              .n_blocks = s->n_blocks,
                              .n_heads = s->n_heads,
                              .n_kv_heads = s->n_kv_heads,
                              .head_size = s->head_size,
                              .ffn = s->ffn,
                              .context = s->context,
                              .is_tied = s->tied,
                              .rope_theta = s->rope_theta,
                              .norm_eps = s->norm_eps};
    status = lib_heard(l->fn.arm(l->context, &out));
done:
    pl_topology_destroy(&t);
    pl_arm_clear(&arm);
    return status;
}

int pathloom_each_arm(pathloom_run *run, pathloom_arm_fn fn, void *context,
                      pathloom_error *error)
{
    listing l = {run->store, {.arm = fn}, context, 0};
    return lib_end(pl_store_each_object(run->store, "arm/", list_arm, &l), error);
}

void lib_version_fill(const pl_version *v, lib_version *out)
{
    const size_t n = (size_t)v->n_contributions;
    memset(out, 0, sizeof *out);
    pl_hash_format(&v->params, out->hash);
    if (!pl_hash_none(&v->parent))
        pl_hash_format(&v->parent, out->parent);
    out->list = n ? pl_alloc(n * sizeof *out->list) : NULL;
    for (size_t i = 0; i < n; i++) {
        const pl_contribution *c = &v->contributions[i];
        out->list[i] = (pathloom_contribution){.worker = c->worker,
                                               .device = c->device,
                                               .codec = c->codec,
                                               .path = c->path,
                                               .replica = c->replica,
                                               .phase = c->phase,
                                               .first_sample = c->work.first_sample,
                                               .n_samples = c->work.n_samples,
                                               .n_tokens = c->work.n_tokens,
                                               .loss = c->work.loss,
                                               .seconds = c->work.seconds,
                                               .norm = c->norm,
                                               .weight = c->weight};
    }
    out->info = (pathloom_version_info){.module = v->module,
                                        .number = v->number,
                                        .hash = out->hash,
                                        .parent = out->parent,
                                        .method = v->method,
                                        .lr = v->lr,
                                        .momentum = v->outer_momentum,
                                        .n_params = v->n_params,
                                        .params_norm = v->params_norm,
                                        .update_norm = v->update_norm,
                                        .wall_ms = v->wall_ms,
                                        .has_params = !v->params_gone,
                                        .n_contributions = n,
                                        .contributions = out->list};
}

static pl_status list_version(void *context, const pl_version *v)
{
    listing *l = context;
    lib_version out;
    l->n++;
    lib_version_fill(v, &out);
    const int stop = l->fn.version(l->context, &out.info);
    pl_free(out.list);
    return lib_heard(stop);
}

int pathloom_each_module(pathloom_run *run, const char *arm, pathloom_version_fn fn,
                         void *context, pathloom_error *error)
{
    listing l = {run->store, {.version = fn}, context, 0};
    char prefix[PL_MODULE_NAME_MAX];
    pl_status status;
    PL_TRY(arm_prefix(arm, prefix));
    PL_TRY(pl_store_each_head(run->store, prefix, list_version, &l));
    PL_TRY(check_arm_exists(&l, arm));
done:
    return lib_end(status, error);
}

int pathloom_each_version(pathloom_run *run, const char *module, pathloom_version_fn fn,
                          void *context, pathloom_error *error)
{
    listing l = {run->store, {.version = fn}, context, 0};
    pl_module_at at;
    pl_status status;
    PL_TRY(lib_given(module, "module"));
    PL_TRY(pl_names_module(run->store, module, &at));
    PL_TRY(pl_store_each_version(run->store, at.module, list_version, &l));
done:
    return lib_end(status, error);
}

int pathloom_each_contributor(pathloom_run *run, const char *version, int earlier,
                              pathloom_contributor_fn fn, void *context,
                              pathloom_error *error)
{
    pl_module_at at;
    pl_blame blame = {.n = 0};
    pl_status status;
    PL_TRY(lib_given(version, "version"));
    PL_TRY(pl_names_module(run->store, version, &at));
    PL_TRY(pl_blame_gather(run->store, at.module, at.number, earlier != 0, &blame));
    for (size_t i = 0; i < blame.n; i++) {
        const pl_contributor *c = &blame.list[i];
        const pathloom_contributor out = {.worker = c->worker,
                                          .device = c->device,
                                          .path = c->path,
                                          .replica = c->replica,
                                          .n_samples = c->n_samples,
                                          .n_tokens = c->n_tokens,
                                          .n_versions = c->n_versions,
                                          .seconds = c->seconds,
                                          .loss = c->loss,
                                          .share = c->share};
        PL_TRY(lib_heard(fn(context, &out)));
    }
done:
    pl_blame_clear(&blame);
    return lib_end(status, error);
}

static pl_status list_tag(void *context, const pl_snapshot *tag)
{
    listing *l = context;
    const char **modules = pl_alloc((tag->n_items + 1) * sizeof *modules);
    uint64_t *numbers = pl_alloc((tag->n_items + 1) * sizeof *numbers);
    for (size_t i = 0; i < tag->n_items; i++) {
        modules[i] = tag->items[i].module;
        numbers[i] = tag->items[i].number;
    }
    const pathloom_tag out = {.name = tag->name,
                              .arm = tag->arm,
                              .note = tag->note,
                              .phase = tag->phase,
                              .wall_ms = tag->wall_ms,
                              .n_modules = tag->n_items,
                              .modules = modules,
                              .numbers = numbers};
    const int stop = l->fn.tag(l->context, &out);
    pl_free(numbers);
    pl_free(modules);
    return lib_heard(stop);
}

int pathloom_each_tag(pathloom_run *run, pathloom_tag_fn fn, void *context,
                      pathloom_error *error)
{
    listing l = {run->store, {.tag = fn}, context, 0};
    return lib_end(pl_store_each_tag(run->store, list_tag, &l), error);
}

static pl_status list_path(void *context, const pl_path_state *p)
{
    listing *l = context;
    const pathloom_path out = {.name = p->name,
                               .worker = p->worker,
                               .n_phases = p->phase,
                               .n_samples = p->work.n_samples,
                               .n_tokens = p->work.n_tokens,
                               .loss = p->work.loss,
                               .seconds = p->work.seconds};
    l->n++;
    return lib_heard(l->fn.path(l->context, &out));
}

int pathloom_each_path(pathloom_run *run, const char *arm, pathloom_path_fn fn,
                       void *context, pathloom_error *error)
{
    listing l = {run->store, {.path = fn}, context, 0};
    char prefix[PL_MODULE_NAME_MAX];
    pl_status status;
    PL_TRY(arm_prefix(arm, prefix));
    PL_TRY(pl_store_each_path(run->store, prefix, list_path, &l));
    PL_TRY(check_arm_exists(&l, arm));
done:
    return lib_end(status, error);
}

int pathloom_each_phase(pathloom_run *run, pathloom_phase_fn fn, void *context,
                        pathloom_error *error)
{
    char logs[PL_PATH_MAX];
    history rows = {.n = 0};
    pl_status status;
    PL_TRY(history_read(run->store, pl_join(logs, run->dir, "log"), &rows));
    for (size_t i = 0; i < rows.n; i++) {
        const history_row *r = &rows.rows[i];
        const pathloom_phase out = {.arm = r->arm,
                                    .phase = r->phase,
                                    .n_phases = r->n_phases,
                                    .from_ms = r->from_ms,
                                    .at_ms = r->at_ms,
                                    .n_paths = r->n_paths,
                                    .n_done = r->n_done,
                                    .loss = r->loss,
                                    .bits_per_byte = r->bits,
                                    .n_tokens = r->tokens,
                                    .tokens_per_second = history_rate(r),
                                    .n_versions = r->n_versions,
                                    .n_audits = r->n_audits,
                                    .n_audits_differed = r->n_odd,
                                    .n_expired = r->n_expired,
                                    .n_restarts = r->n_restarts};
        PL_TRY(lib_heard(fn(context, &out)));
    }
done:
    history_clear(&rows);
    return lib_end(status, error);
}
