/* Reading what a run made, from its store, also while the job runs. */
#include "cli/run.h"

pl_status store_open_run(const char *dir, pl_store **out)
{
    char path[PL_PATH_MAX];
    return pl_store_open(pl_join(path, dir, "store"), PL_STORE_READ, out);
}

pl_status store_object_bytes(pl_store *store, const char *name, pl_buf *out)
{
    pl_object object;
    PL_RETURN_IF(pl_store_get_object(store, name, &object));
    pl_buf_reserve(out, (size_t)object.bytes);
    PL_RETURN_IF(pl_store_read_blob(store, &object.blob, 0, (size_t)object.bytes,
                                    out->data + out->len));
    out->len += (size_t)object.bytes;
    return PL_OK;
}

pl_status store_arm(pl_store *store, const char *name, pl_arm *arm,
                    pl_topology **topology)
{
    char object[PL_MODULE_NAME_MAX];
    pl_buf bytes = {0};
    pl_status status = PL_OK;
    memset(arm, 0, sizeof *arm);
    snprintf(object, sizeof object, "arm/%s", name);
    PL_TRY(store_object_bytes(store, object, &bytes));
    PL_TRY(pl_arm_decode(bytes.data, bytes.len, arm));
    PL_TRY(pl_topology_create(&arm->shape, &arm->spec, topology));
done:
    pl_buf_destroy(&bytes);
    return status;
}

static pl_status read_module(pl_store *store, const char *name, uint64_t version,
                             size_t n, float *out)
{
    pl_version v;
    uint64_t bytes = 0;
    memset(&v, 0, sizeof v);
    PL_RETURN_IF(version == UINT64_MAX
                     ? pl_store_head(store, name, &v)
                     : pl_store_get_version(store, name, version, &v));
    pl_hash params = v.params;
    pl_version_clear(&v);
    PL_RETURN_IF(pl_store_blob_bytes(store, &params, &bytes));
    if (bytes != (uint64_t)n * sizeof *out)
        return pl_fail(PL_ERR_DAMAGED, "module %s has %llu bytes instead of %zu", name,
                       (unsigned long long)bytes, n * sizeof *out);
    return pl_store_read_blob(store, &params, 0, (size_t)bytes, out);
}

pl_status store_path_params(pl_store *store, const pl_arm *arm, const pl_topology *t,
                            int path, uint64_t version, float *params)
{
    for (int slot = 0; slot < pl_topology_n_slots(t); slot++) {
        const pl_slot *s = pl_topology_slot(t, slot);
        char name[96];
        pl_arm_module_name(arm, t, pl_topology_module_of_path(t, slot, path), name);
        PL_RETURN_IF(
            read_module(store, name, version, s->n_params, params + s->offset));
    }
    return PL_OK;
}
