/* Defines the functions of pairs.h. */
#include "tests/support/pairs.h"

pl_backend *open_side(const char *name, const char *precision, int n_threads)
{
    pl_backend *be;
    pl_backend_options options = {
        .name = name, .n_threads = n_threads, .precision = precision};
    pl_status status = pl_backend_open(&options, &be);
    if (status == PL_ERR_UNSUPPORTED && !strstr(pl_last_error(), "install"))
        return NULL;
    assert_ok(status);
    return be;
}

pl_topology *one_path(const pl_shape *shape)
{
    const pl_topology_spec spec = {.n_levels = 1, .experts = {1}, .replicas = 1};
    pl_topology *t;
    assert_ok(pl_topology_create(shape, &spec, &t));
    return t;
}

void init_path(const pl_topology *t, uint64_t seed, float *out)
{
    for (int slot = 0; slot < pl_topology_n_slots(t); slot++)
        pl_topology_init(t, slot, seed, out + pl_topology_slot(t, slot)->offset);
}

const float *kept_normals(uint64_t seed, uint64_t stream, size_t n)
{
    enum { KEPT_MAX = 64 };
    static struct {
        uint64_t seed, stream;
        size_t n;
        float *values;
    } kept[KEPT_MAX];
    int i = 0;
    while (kept[i].values && (kept[i].seed != seed || kept[i].stream != stream))
        assert_true(++i < KEPT_MAX);
    if (!kept[i].values || kept[i].n < n) {
        free(kept[i].values);
        kept[i].seed = seed, kept[i].stream = stream, kept[i].n = n;
        kept[i].values = malloc((n + 1) * sizeof(float)); /* not NULL if n is 0 */
        assert_non_null(kept[i].values);
        pl_random_normals(seed, stream, n, kept[i].values);
    }
    return kept[i].values;
}

void *new_buffer(pl_backend *be, size_t bytes)
{
    void *memory = NULL;
    assert_ok(be->ops->alloc(be, bytes, "test buffer", &memory));
    return memory;
}

/* Returns the parameters with which a training begins. They are kept for the next
 * model with the same shape and the same number of slots. */
static const float *first_params(const pl_topology *t)
{
    static pl_shape shape;
    static int n_slots;
    static float *params;
    if (params && n_slots == pl_topology_n_slots(t) &&
        pl_shape_equal(&shape, pl_topology_shape(t)))
        return params;
    free(params);
    shape = *pl_topology_shape(t);
    n_slots = pl_topology_n_slots(t);
    params = pl_alloc(pl_topology_path_params(t) * sizeof *params);
    init_path(t, 4, params);
    return params;
}

pl_model *fresh_model(const pl_topology *t, pl_backend *be,
                      const pl_model_options *options)
{
    pl_model *model;
    assert_ok(pl_model_create(be, t, options, &model));
    assert_ok(pl_model_load(model, first_params(t)));
    return model;
}

pl_model *fresh_reader(const pl_topology *t, pl_backend *be)
{
    const pl_model_options options = {.batch = 1,
                                      .context = pl_topology_shape(t)->context};
    return fresh_model(t, be, &options);
}
