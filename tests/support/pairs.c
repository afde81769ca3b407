/* Defines the functions of pairs.h. */
#include "tests/support/pairs.h"

pl_backend *open_side(const char *name, const char *precision, int n_threads)
{
    pl_backend *be;
    pl_backend_options options = {
        .name = name, .n_threads = n_threads, .precision = precision};
    pl_status status = pl_backend_open(&options, &be);
    if (status == PL_ERR_UNSUPPORTED)
        return NULL;
    if (status != PL_OK)
        fail_msg("%s", pl_last_error());
    return be;
}

pl_topology *one_path(const pl_shape *shape)
{
    const pl_topology_spec spec = {.n_levels = 1, .experts = {1}, .replicas = 1};
    pl_topology *t;
    assert_int_equal(pl_topology_create(shape, &spec, &t), PL_OK);
    return t;
}

pl_model *fresh_model(const pl_topology *t, pl_backend *be,
                      const pl_model_options *options)
{
    pl_model *model;
    float *params = calloc(pl_topology_path_params(t), sizeof *params);
    if (pl_model_create(be, t, options, &model) != PL_OK)
        fail_msg("%s", pl_last_error());
    for (int s = 0; s < pl_topology_n_slots(t); s++)
        pl_topology_init(t, s, 4, params + pl_topology_slot(t, s)->offset);
    assert_int_equal(pl_model_load(model, params), PL_OK);
    free(params);
    return model;
}

pl_model *fresh_reader(const pl_topology *t, pl_backend *be)
{
    const pl_model_options options = {.batch = 1,
                                      .context = pl_topology_shape(t)->context};
    return fresh_model(t, be, &options);
}
