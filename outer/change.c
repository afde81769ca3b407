/* Makes and applies changes: encoded differences between two versions (change.h). Home
 * and worker apply the same bytes with the same code, and get the same version. */
#include "outer/change.h"
#include "outer/method.h"

pl_status pl_change_check(const pl_outer *outer)
{
    pl_codec codec = (pl_codec)outer->down.codec[PL_ROLE_MLP];
    const outer_method *of = outer_method_of(outer->method.method);
    if (codec <= PL_CODEC_F32)
        return PL_OK;
    /* the other codecs need the contributors of a round, or leave values out */
    if (codec > PL_CODEC_I4)
        return pl_fail(PL_ERR_CONFIG,
                       "codec.down cannot be %s, because this codec cannot encode "
                       "versions; set codec.down to f32, bf16, i8 or i4",
                       pl_codec_name(codec));
    if (of->mates)
        return pl_fail(PL_ERR_CONFIG,
                       "with outer.method=%s workers keep their own parameters and "
                       "take no versions; codec.down must be f32",
                       of->name);
    return PL_OK;
}

pl_status pl_change_make(const pl_arm *arm, const pl_topology *topology, int module,
                         const float *before, float *params, float *residual,
                         pl_buf *change, double *norm)
{
    size_t n =
        pl_topology_slot(topology, pl_topology_module_slot(topology, module))->n_params;
    size_t at = change->len;
    float *update = NULL;
    pl_status status = PL_OK;
    PL_TRY(pl_try_alloc(n * sizeof *update, "a change", (void **)&update));
    for (size_t i = 0; i < n; i++)
        update[i] = before[i] - params[i];
    PL_TRY(pl_codec_encode_update(&arm->outer.down, topology, module, NULL, update,
                                  residual, change));
    memcpy(params, before, n * sizeof *params);
    PL_TRY(pl_codec_add(change->data + at, change->len - at, n, -1.0f, params, norm));
done:
    pl_free(update);
    return status;
}

pl_status pl_change_apply(const void *change, uint64_t bytes, size_t n, float *params)
{
    double norm = 0;
    return pl_codec_add(change, bytes, n, -1.0f, params, &norm);
}
