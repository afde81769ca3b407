/* The models that `pathloom bench` measures by name, and what it says of them. */
#include "measure/engine_internal.h"

#define SHAPE(V, C, H, F, L, T)                                                        \
    {                                                                                  \
        .vocab = (V), .width = (C), .n_heads = (H), .n_kv_heads = (H),                 \
        .head_size = (C) / (H), .ffn = (F), .n_blocks = (L), .context = (T),           \
        .tied = true, .rope_theta = 10000.0, .norm_eps = 1e-5                          \
    }
static const measured_model models[] = {
    {"laptop", SHAPE(2048, 128, 4, 344, 4, 128), 8, 10, 12},
    {"2m", SHAPE(4096, 128, 4, 352, 8, 256), 4, 6, 12},
    {"13m", SHAPE(8192, 384, 6, 1024, 6, 256), 4, 3, 8},
    {"124m", SHAPE(50304, 768, 12, 2048, 12, 256), 4, 2, 4},
};
#undef SHAPE
enum { N_MODELS = sizeof models / sizeof *models };

/* Models for a GPU. A model of this list is measured only if the user names it. */
static const struct {
    const char *name, *preset;
    int batch, rounds, decode_rounds;
} presets[] = {{"150m", "dense-150m", 16, 4, 4}, {"1.3b", "dense-1b", 8, 3, 3}};
enum { N_PRESETS = sizeof presets / sizeof *presets };

pl_probe_options measure_probe_options(const measure_options *o,
                                       const measured_model *model)
{
    return (pl_probe_options){.shape = &model->shape,
                              .batch = model->batch,
                              .rounds = model->rounds,
                              .seconds = o->seconds,
                              .cpu_clock = o->cpu_clock,
                              .muon = o->muon,
                              .muon_rows = o->muon_rows};
}

pl_status measure_say_list(const measure_options *o, const char *name, pl_json *list,
                           pl_status status)
{
    if (!list || status != PL_OK) {
        pl_json_destroy(&list);
        return status;
    }
    pl_json *out = pl_json_object();
    pl_json_set_text(out, "backend", o->backend);
    pl_json_set_int(out, "threads", o->threads);
    pl_json_set(out, name, list);
    say_json(out);
    return PL_OK;
}

const measured_model *measure_models(int *n)
{
    *n = N_MODELS;
    return models;
}

pl_status measure_model_by_name(const char *name, measured_model *out)
{
    const char *names[N_MODELS + N_PRESETS];
    for (int i = 0; i < N_MODELS; i++) {
        names[i] = models[i].name;
        if (strcmp(name, models[i].name) != 0)
            continue;
        *out = models[i];
        return PL_OK;
    }
    for (int i = 0; i < N_PRESETS; i++) {
        names[N_MODELS + i] = presets[i].name;
        if (strcmp(name, presets[i].name) == 0) {
            pl_topology_spec spec;
            *out = (measured_model){.name = presets[i].name,
                                    .batch = presets[i].batch,
                                    .rounds = presets[i].rounds,
                                    .decode_rounds = presets[i].decode_rounds};
            return pl_preset(presets[i].preset, &out->shape, &spec);
        }
    }
    const char *near = pl_nearest(name, names, N_MODELS + N_PRESETS);
    return pl_fail(PL_ERR_USAGE,
                   "there is no model `%s` to measure; did you mean `%s`?", name,
                   near ? near : names[0]);
}
