/* Reads the parameters of versions of modules, tensor by tensor (pathloom.h).
 *
 * The parameters of a version are one blob of floats, which the store keeps in chunks.
 * A module handle has memory for the whole blob and fills it chunk by chunk: a tensor
 * that is asked for causes its chunks to be read, each chunk only once. The caller gets
 * a pointer into this memory, so nothing is copied after the store has checked the
 * chunk's hash. */
#include "history/history.h"
#include "lib/lib_internal.h"

struct pathloom_module {
    pathloom_run *run; /* pathloom_refresh may open its store anew */
    pl_version version;
    lib_version shown;
    pl_arm arm;
    pl_topology *topology;
    const pl_slot *slot;
    float *params;   /* [slot->n_params]; NULL: nothing was read yet */
    uint8_t *loaded; /* [chunks] whether a chunk is in `params` */
};

int pathloom_module_open(pathloom_run *run, const char *version, pathloom_module **out,
                         pathloom_error *error)
{
    pl_module_at at;
    char arm[PL_MODULE_NAME_MAX], tag_name[PL_MODULE_NAME_MAX];
    uint64_t bytes = 0;
    pathloom_module *m = pl_alloc(sizeof *m);
    const pl_version *v = &m->version;
    pl_status status;
    *out = NULL;
    m->run = run;
    PL_TRY(lib_given(version, "version"));
    PL_TRY(pl_names_module(m->run->store, version, &at));
    PL_TRY(pl_store_get_version(m->run->store, at.module, at.number, &m->version));
    if (m->version.params_gone)
        PL_TRY(pl_fail(PL_ERR_NOT_FOUND,
                       "garbage collection has deleted the parameters of %s@%llu; only "
                       "the record of this version is left",
                       at.module, (unsigned long long)at.number));
    /* A merged module belongs to the arm of the tag for which it was made. */
    pl_arm_of_module(v->module, arm, sizeof arm);
    if (pl_merged_tag(v->module, tag_name)) {
        pl_snapshot tag;
        PL_TRY(pl_store_get_tag(run->store, tag_name, &tag));
        pl_copy_text(arm, sizeof arm, tag.arm);
        pl_snapshot_clear(&tag);
    }
    PL_TRY(pl_read_arm(run->store, arm, &m->arm, &m->topology));
    const int index = pl_topology_find_module(m->topology, pl_module_place(v->module));
    if (index < 0)
        PL_TRY(pl_fail(PL_ERR_NOT_FOUND, "the arm %s does not define the tensors of %s",
                       arm, v->module));
    m->slot =
        pl_topology_slot(m->topology, pl_topology_module_slot(m->topology, index));
    PL_TRY(pl_store_blob_bytes(run->store, &v->params, &bytes));
    if (bytes != m->slot->n_params * sizeof(float))
        PL_TRY(pl_fail(PL_ERR_DAMAGED,
                       "the parameters of module %s have %llu bytes instead of %llu",
                       v->module, (unsigned long long)bytes,
                       (unsigned long long)(m->slot->n_params * sizeof(float))));
    lib_version_fill(&m->version, &m->shown);
    *out = m;
    m = NULL;
done:
    pathloom_module_close(&m);
    return lib_end(status, error);
}

void pathloom_module_close(pathloom_module **module)
{
    pathloom_module *m = *module;
    if (!m)
        return;
    pl_free_all(m->loaded, m->params, m->shown.list);
    pl_topology_destroy(&m->topology);
    pl_arm_clear(&m->arm);
    pl_version_clear(&m->version);
    pl_free(m);
    *module = NULL;
}

const pathloom_version_info *pathloom_module_info(const pathloom_module *module)
{
    return &module->shown.info;
}

int pathloom_module_n_tensors(const pathloom_module *module)
{
    return module->slot->n_tensors;
}

static pl_status describe_tensor(const pathloom_module *m, int i, pathloom_tensor *out)
{
    memset(out, 0, sizeof *out);
    if (i < 0 || i >= m->slot->n_tensors)
        return pl_fail(PL_ERR_ARG, "%s has no tensor %d; its tensors are 0 to %d",
                       m->version.module, i, m->slot->n_tensors - 1);
    const pl_tensor *t = pl_topology_tensor(m->topology, m->slot->first_tensor + i);
    *out = (pathloom_tensor){.name = t->name, .rows = t->rows, .cols = t->cols};
    return PL_OK;
}

int pathloom_module_shape(const pathloom_module *module, int i, pathloom_tensor *tensor,
                          pathloom_error *error)
{
    return lib_end(describe_tensor(module, i, tensor), error);
}

/* The store hashes several chunks together, so a read has at least this many bytes, as
 * far as the module has them. */
enum { READ_BYTES = 64 << 20 };

int pathloom_module_tensor(pathloom_module *m, int i, pathloom_tensor *tensor,
                           pathloom_error *error)
{
    pl_status status;
    PL_TRY(describe_tensor(m, i, tensor));
    const pl_tensor *t = pl_topology_tensor(m->topology, m->slot->first_tensor + i);
    const size_t at = t->offset - m->slot->offset;
    const size_t bytes = (size_t)t->rows * (size_t)t->cols * sizeof(float);
    const size_t all = m->slot->n_params * sizeof(float), first = at * sizeof(float);
    size_t end = first + bytes;
    if (!m->params) {
        PL_TRY(pl_try_alloc_bare(all, "a module's parameters", (void **)&m->params));
        m->loaded = pl_alloc((all + PL_CHUNK_BYTES - 1) / PL_CHUNK_BYTES);
    }
    if (bytes < READ_BYTES)
        end = all - first < READ_BYTES ? all : first + READ_BYTES;
    /* Reads the chunks that have these bytes and were not read yet. Neighbouring chunks
     * are read by one call. */
    for (size_t c = first / PL_CHUNK_BYTES; c * PL_CHUNK_BYTES < end; c++) {
        size_t last = c;
        while (last * PL_CHUNK_BYTES < end && !m->loaded[last])
            last++;
        if (last == c)
            continue;
        const size_t from = c * PL_CHUNK_BYTES;
        const size_t to = last * PL_CHUNK_BYTES < all ? last * PL_CHUNK_BYTES : all;
        PL_TRY(pl_store_read_blob(m->run->store, &m->version.params, from, to - from,
                                  (uint8_t *)m->params + from));
        memset(m->loaded + c, 1, last - c);
    }
    tensor->values = m->params + at;
done:
    return lib_end(status, error);
}

int pathloom_each_path_module(pathloom_run *run, const char *arm_name, const char *path,
                              const char *tag_name, pathloom_name_fn fn, void *context,
                              pathloom_error *error)
{
    char chapter[PL_ARM_NAME_MAX], name[PL_MODULE_NAME_MAX + 24];
    pl_arm arm = {.n_shards = 0};
    pl_topology *t = NULL;
    pl_path_module *modules = NULL;
    pl_snapshot tag = {.n_items = 0};
    int number = 0;
    pl_status status;
    PL_TRY(lib_given(path, "path"));
    if (tag_name)
        PL_TRY(pl_store_get_tag(run->store, tag_name, &tag));
    pl_newest_chapter(run->store, chapter);
    PL_TRY(pl_read_arm(run->store,
                       arm_name   ? arm_name
                       : tag_name ? tag.arm
                                  : chapter,
                       &arm, &t));
    PL_TRY(pl_find_path(t, path, &number));
    modules = pl_alloc((size_t)pl_topology_n_slots(t) * sizeof *modules);
    PL_TRY(pl_name_path_modules(run->store, &arm, t, number,
                                (pl_which){.at = tag_name ? &tag : NULL}, modules));
    for (int slot = 0; slot < pl_topology_n_slots(t); slot++) {
        PL_TRY(pl_find_path_module(run->store, &modules[slot]));
        snprintf(name, sizeof name, "%s@%llu", modules[slot].name,
                 (unsigned long long)modules[slot].number);
        PL_TRY(lib_heard(fn(context, name)));
    }
done:
    pl_free(modules);
    pl_topology_destroy(&t);
    pl_arm_clear(&arm);
    pl_snapshot_clear(&tag);
    return lib_end(status, error);
}
