/* Reads a trained mixture from the store of its run (mixture.h). The job may still be
 * running. */
#include "serve/serve.h"

void pl_mixture_close(pl_mixture *mix)
{
    pl_topology_destroy(&mix->topology);
    pl_arm_clear(&mix->arm);
    pl_snapshot_clear(&mix->tag);
    pl_free(mix->closed);
    pl_tokenizer_destroy(&mix->tokenizer);
    pl_store_close(&mix->store);
}

pl_status pl_mixture_use_arm(pl_mixture *mix, const char *arm)
{
    if (strcmp(mix->arm.name, arm) == 0)
        return PL_OK;
    pl_topology_destroy(&mix->topology);
    pl_arm_clear(&mix->arm);
    return pl_read_arm(mix->store, arm, &mix->arm, &mix->topology);
}

pl_status pl_find_path_module(pl_store *store, pl_path_module *m)
{
    pl_version v;
    memset(&v, 0, sizeof v);
    PL_CHECK(m->number == UINT64_MAX
                 ? pl_store_head(store, m->name, &v)
                 : pl_store_get_version(store, m->name, m->number, &v));
    m->number = v.number;
    m->params = v.params;
    bool gone = v.params_gone;
    pl_version_clear(&v);
    if (gone)
        return pl_fail(PL_ERR_NOT_FOUND,
                       "garbage collection has deleted the parameters of version %llu "
                       "of %s; `pathloom store log` shows which versions are complete",
                       (unsigned long long)m->number, m->name);
    return PL_OK;
}

pl_status pl_read_path_module(pl_store *store, const pl_topology *t, int slot,
                              const pl_path_module *m, float *out)
{
    uint64_t bytes = 0;
    const uint64_t wanted = (uint64_t)pl_topology_slot(t, slot)->n_params * sizeof *out;
    PL_CHECK(pl_store_blob_bytes(store, &m->params, &bytes));
    if (bytes != wanted)
        return pl_fail(PL_ERR_DAMAGED,
                       "the parameters of module %s have %llu bytes instead of %llu",
                       m->name, (unsigned long long)bytes, (unsigned long long)wanted);
    return pl_store_read_blob(store, &m->params, 0, (size_t)bytes, out);
}

pl_status pl_read_path_modules(pl_store *store, const pl_topology *t,
                               pl_path_module *modules, float *params)
{
    for (int slot = 0; slot < pl_topology_n_slots(t); slot++) {
        const size_t at = pl_topology_slot(t, slot)->offset;
        PL_CHECK(pl_find_path_module(store, &modules[slot]));
        PL_CHECK(pl_read_path_module(store, t, slot, &modules[slot], params + at));
    }
    return PL_OK;
}

static pl_status place_in_tag(const pl_snapshot *tag, pl_path_module *m)
{
    const pl_snapshot_item *item = pl_snapshot_place(tag, m->name);
    if (!item)
        return pl_fail(PL_ERR_NOT_FOUND, "tag %s has no module %s", tag->name, m->name);
    pl_copy_text(m->name, sizeof m->name, item->module);
    m->number = item->number;
    return PL_OK;
}

/* ---- which version ---- */
char *pl_best_tag(const pl_arm *arm, const pl_topology *t, int path,
                  char out[PL_NAME_MAX])
{
    char name[PL_NAME_MAX];
    pl_topology_path_name(t, path, name);
    snprintf(out, PL_NAME_MAX, "best-%s-%.24s", arm->name, name);
    return out;
}

pl_status pl_name_path_modules(pl_store *store, const pl_arm *arm, const pl_topology *t,
                               int path, pl_which which, pl_path_module *modules)
{
    for (int slot = 0; slot < pl_topology_n_slots(t); slot++) {
        modules[slot].number = which.number ? *which.number : UINT64_MAX;
        pl_arm_module_name(arm, t, pl_topology_module_of_path(t, slot, path),
                           modules[slot].name);
    }
    if (which.best && pl_arm_chapter(arm->name) >= 0) {
        char name[PL_NAME_MAX];
        pl_snapshot tag;
        pl_best_tag(arm, t, path, name);
        pl_status status = pl_store_get_tag(store, name, &tag);
        if (status == PL_ERR_NOT_FOUND)
            return pl_fail(status,
                           "%s has no best versions: there is no tag %s. (`pathloom "
                           "train` makes this tag when the arm has ended, if "
                           "train.holdout is above 0.) Leave out --select best",
                           arm->name, name);
        PL_CHECK(status);
        for (int slot = 0; status == PL_OK && slot < pl_topology_n_slots(t); slot++)
            status = place_in_tag(&tag, &modules[slot]);
        pl_snapshot_clear(&tag);
        return status;
    }
    for (int slot = 0; which.at && slot < pl_topology_n_slots(t); slot++)
        PL_CHECK(place_in_tag(which.at, &modules[slot]));
    return PL_OK;
}

pl_status pl_read_path(pl_store *store, const pl_arm *arm, const pl_topology *t,
                       int path, pl_which which, float *params)
{
    pl_path_module *modules =
        pl_alloc((size_t)pl_topology_n_slots(t) * sizeof *modules);
    pl_status status = pl_name_path_modules(store, arm, t, path, which, modules);
    if (status == PL_OK)
        status = pl_read_path_modules(store, t, modules, params);
    pl_free(modules);
    return status;
}

pl_status pl_close_paths(const pl_topology *t, const char *modules, bool **closed)
{
    const int n_paths = pl_topology_n_paths(t);
    int n_open = 0;
    *closed = pl_alloc((size_t)n_paths * sizeof **closed);
    for (const char *at = modules; at;
         at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char name[PL_NAME_MAX];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
        const int module = pl_topology_find_module(t, name);
        if (module < 0)
            return pl_fail(
                PL_ERR_NOT_FOUND,
                "the mixture has no module `%s`; `pathloom store ls` lists all modules",
                name);
        for (int i = 0; i < pl_topology_module_n_paths(t, module); i++)
            (*closed)[pl_topology_module_path(t, module, i)] = true;
    }
    for (int path = 0; path < n_paths; path++)
        n_open += !(*closed)[path];
    if (n_open > 0)
        return PL_OK;
    return pl_fail(PL_ERR_USAGE,
                   "without %s no path is left: each of the %d paths uses one of these "
                   "modules; name fewer modules",
                   modules, n_paths);
}

pl_status pl_find_path(const pl_topology *t, const char *name, int *path)
{
    char known[PL_NAME_MAX];
    int64_t number = -1;
    int n = pl_topology_n_paths(t);
    *path = pl_topology_find_path(t, name);
    if (*path >= 0)
        return PL_OK;
    if (pl_parse_int(name, &number) == PL_OK && number >= 0 && number < n) {
        *path = (int)number;
        return PL_OK;
    }
    pl_topology_path_name(t, n - 1, known);
    return pl_fail(PL_ERR_NOT_FOUND, "there is no path `%s`; the last one is %s", name,
                   known);
}
