/* The models that `pathloom bench` measures by name. */
#include "cli/bench_engine.h"

#define SHAPE(V, C, H, F, L, T)                                                        \
    {                                                                                  \
        .vocab = (V), .width = (C), .n_heads = (H), .n_kv_heads = (H),                 \
        .head_size = (C) / (H), .ffn = (F), .n_blocks = (L), .context = (T),           \
        .tied = true, .rope_theta = 10000.0, .norm_eps = 1e-5                          \
    }
static const bench_model models[] = {
    {"laptop", SHAPE(2048, 128, 4, 344, 4, 128), 8, 10, 12},
    {"2m", SHAPE(4096, 128, 4, 352, 8, 256), 4, 6, 12},
    {"13m", SHAPE(8192, 384, 6, 1024, 6, 256), 4, 3, 8},
    {"124m", SHAPE(50304, 768, 12, 2048, 12, 256), 4, 2, 4},
};
#undef SHAPE
enum { N_MODELS = sizeof models / sizeof *models };

const bench_model *bench_models(int *n)
{
    *n = N_MODELS;
    return models;
}

pl_status bench_model_by_name(const char *name, const bench_model **out)
{
    const char *names[N_MODELS];
    *out = NULL;
    for (int i = 0; i < N_MODELS; i++) {
        names[i] = models[i].name;
        if (strcmp(name, models[i].name) == 0)
            *out = &models[i];
    }
    if (*out)
        return PL_OK;
    const char *near = pl_nearest(name, names, N_MODELS);
    return pl_fail(PL_ERR_USAGE, "bench has no model `%s`; did you mean `%s`?", name,
                   near ? near : names[0]);
}
