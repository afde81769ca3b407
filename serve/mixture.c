/* Reads a trained mixture from the store of its run, also while its job runs
 * (mixture.h). */
#include "serve/serve.h"

void pl_mixture_close(pl_mixture *mix)
{
    pl_topology_destroy(&mix->topology);
    pl_arm_clear(&mix->arm);
    pl_tokenizer_destroy(&mix->tokenizer);
    pl_store_close(&mix->store);
}

static pl_status read_module(pl_store *store, const pl_slot *slot, uint64_t version,
                             pl_path_module *m, float *out)
{
    pl_version v;
    uint64_t bytes = 0, wanted = (uint64_t)slot->n_params * sizeof *out;
    memset(&v, 0, sizeof v);
    PL_CHECK(version == UINT64_MAX ? pl_store_head(store, m->name, &v)
                                   : pl_store_get_version(store, m->name, version, &v));
    m->number = v.number;
    m->params = v.params;
    bool gone = v.params_gone;
    pl_version_clear(&v);
    if (gone)
        return pl_fail(PL_ERR_NOT_FOUND,
                       "version %llu of %s was collected, only its record is left; "
                       "`pathloom store log` shows which are there",
                       (unsigned long long)m->number, m->name);
    PL_CHECK(pl_store_blob_bytes(store, &m->params, &bytes));
    if (bytes != wanted)
        return pl_fail(PL_ERR_DAMAGED, "module %s has %llu bytes instead of %llu",
                       m->name, (unsigned long long)bytes, (unsigned long long)wanted);
    return pl_store_read_blob(store, &m->params, 0, (size_t)bytes, out);
}

pl_status pl_read_path_modules(pl_store *store, const pl_arm *arm, const pl_topology *t,
                               int path, const uint64_t *versions, float *params,
                               pl_path_module *modules)
{
    for (int slot = 0; slot < pl_topology_n_slots(t); slot++) {
        const pl_slot *s = pl_topology_slot(t, slot);
        pl_path_module *m = &modules[slot];
        pl_arm_module_name(arm, t, pl_topology_module_of_path(t, slot, path), m->name);
        PL_CHECK(read_module(store, s, versions[slot], m, params + s->offset));
    }
    return PL_OK;
}

/* ---- which version ---- */
void pl_best_tag(const pl_arm *arm, const pl_topology *t, int path,
                 char out[PL_NAME_MAX])
{
    char name[PL_NAME_MAX];
    pl_topology_path_name(t, path, name);
    snprintf(out, PL_NAME_MAX, "best-%s-%.24s", arm->name, name);
}

static pl_status read_best_tag(pl_store *store, const pl_arm *arm, const char *name,
                               pl_snapshot *tag)
{
    pl_status status = pl_store_get_tag(store, name, tag);
    if (status != PL_ERR_NOT_FOUND)
        return status;
    return pl_fail(
        status,
        "%s has no best versions: there is no tag %s, which `pathloom train` "
        "makes when the arm has ended, if train.holdout is above 0; leave "
        "out --select best",
        arm->name, name);
}

pl_status pl_best_versions(pl_store *store, const pl_arm *arm, const pl_topology *t,
                           int path, uint64_t *versions)
{
    char name[PL_NAME_MAX], module[PL_MODULE_NAME_MAX];
    const int n_slots = pl_topology_n_slots(t);
    pl_snapshot tag;
    for (int slot = 0; slot < n_slots; slot++)
        versions[slot] = UINT64_MAX;
    if (pl_arm_chapter(arm->name) < 0)
        return PL_OK;
    pl_best_tag(arm, t, path, name);
    PL_CHECK(read_best_tag(store, arm, name, &tag));
    pl_status status = PL_OK;
    for (int slot = 0; status == PL_OK && slot < n_slots; slot++) {
        pl_arm_module_name(arm, t, pl_topology_module_of_path(t, slot, path), module);
        const pl_snapshot_item *item = pl_snapshot_find(&tag, module);
        if (item)
            versions[slot] = item->number;
        else
            status = pl_fail(PL_ERR_NOT_FOUND, "tag %s has no module %s", name, module);
    }
    pl_snapshot_clear(&tag);
    return status;
}

static pl_status read_versions(pl_store *store, const pl_arm *arm, const pl_topology *t,
                               int path, const uint64_t *versions, float *params)
{
    size_t n = (size_t)pl_topology_n_slots(t);
    pl_path_module *modules = pl_alloc(n * sizeof *modules);
    pl_status status =
        pl_read_path_modules(store, arm, t, path, versions, params, modules);
    pl_free(modules);
    return status;
}

pl_status pl_read_path(pl_store *store, const pl_arm *arm, const pl_topology *t,
                       int path, uint64_t version, float *params)
{
    size_t n = (size_t)pl_topology_n_slots(t);
    uint64_t *versions = pl_alloc(n * sizeof *versions);
    for (size_t slot = 0; slot < n; slot++)
        versions[slot] = version;
    pl_status status = read_versions(store, arm, t, path, versions, params);
    pl_free(versions);
    return status;
}

pl_status pl_read_selected(pl_store *store, const pl_arm *arm, const pl_topology *t,
                           int path, bool best, float *params)
{
    if (!best)
        return pl_read_path(store, arm, t, path, UINT64_MAX, params);
    uint64_t *versions = pl_alloc((size_t)pl_topology_n_slots(t) * sizeof *versions);
    pl_status status = pl_best_versions(store, arm, t, path, versions);
    if (status == PL_OK)
        status = read_versions(store, arm, t, path, versions, params);
    pl_free(versions);
    return status;
}

pl_status pl_load_path(pl_store *store, const pl_arm *arm, const pl_topology *t,
                       int path, bool best, pl_model *model)
{
    void *params = NULL;
    PL_CHECK(
        pl_try_alloc(pl_topology_path_params(t) * sizeof(float), "a path", &params));
    pl_status status = pl_read_selected(store, arm, t, path, best, params);
    if (status == PL_OK)
        status = pl_model_load(model, params);
    pl_free_aligned(params);
    return status;
}

pl_status pl_find_path(const pl_topology *t, const char *name, int *path)
{
    char known[PL_NAME_MAX];
    int64_t number = -1;
    int n = pl_topology_n_paths(t);
    for (*path = 0; *path < n; ++*path) {
        pl_topology_path_name(t, *path, known);
        if (strcmp(known, name) == 0)
            return PL_OK;
    }
    if (pl_parse_int(name, &number) == PL_OK && number >= 0 && number < n) {
        *path = (int)number;
        return PL_OK;
    }
    pl_topology_path_name(t, n - 1, known);
    return pl_fail(PL_ERR_NOT_FOUND, "there is no path `%s`; the last one is %s", name,
                   known);
}
