/* pathloom bench codec: measures each codec on a real update, on one core.
 *
 * Speed is in bytes of the fp32 update per second. The best of several passes counts,
 * because other work on the machine can only add time. A codec encodes with a residual
 * if training with it would keep one, or if the field `residual` of the row says so.
 * The error is the error of one message alone: it includes the part that the residual
 * would correct in later messages. */
#include "measure/measure.h"

#include <math.h>

enum { PASSES = 9, CONTRIBUTORS = 4 };

/* ---- the update ---- */
typedef struct measured_update {
    pl_topology *topology;
    size_t n; /* number of parameters of a path */
    /* [n] the parameters at the start of a phase minus those at its end */
    float *values;
    char source[160]; /* says in words where the update comes from */
} measured_update;

static pl_status alloc_update(size_t n, float **out)
{
    return pl_try_alloc(n * sizeof **out, "an update", (void **)out);
}

/* Reads the update that path 0 sent for version `v` of a module, if the store still has
 * this update. The update overwrites out [n], and *kept becomes true. */
static pl_status read_kept(pl_store *store, const pl_version *v, size_t n, float *out,
                           bool *kept)
{
    pl_buf bytes = {0};
    double norm = 0;
    pl_status status = PL_OK;
    for (int i = 0; i < v->n_contributions; i++) {
        const pl_contribution *c = &v->contributions[i];
        if (c->path != 0 || c->replica != 0 || !pl_store_has_blob(store, &c->update))
            continue;
        pl_buf_reserve(&bytes, (size_t)c->update_bytes);
        PL_TRY(pl_store_read_blob(store, &c->update, 0, (size_t)c->update_bytes,
                                  bytes.data));
        memset(out, 0, n * sizeof *out);
        PL_TRY(pl_codec_add(bytes.data, c->update_bytes, n, 1.0f, out, &norm));
        *kept = true;
        break;
    }
done:
    pl_buf_destroy(&bytes);
    return status;
}

/* Reads the update of path 0 of a run's mixture: the update that the path sent in the
 * last merged phase, if the store still has it, otherwise the difference between the
 * last two versions. ERR_NOT_FOUND if nothing was merged yet. */
static pl_status read_update(const char *folder, measured_update *out)
{
    pl_store *store = NULL;
    pl_arm arm = {0};
    float *end = NULL;
    uint64_t version = UINT64_MAX;
    bool kept = false;
    pl_status status = PL_OK;
    PL_TRY(store_open_run(folder, &store));
    char chapter[PL_ARM_NAME_MAX];
    pl_newest_chapter(store, chapter);
    PL_TRY(pl_read_arm(store, chapter, &arm, &out->topology));
    out->n = pl_topology_path_params(out->topology);
    PL_TRY(alloc_update(out->n, &out->values));
    const pl_topology *t = out->topology;
    /* finds the newest version that all modules of path 0 have */
    for (int slot = 0; slot < pl_topology_n_slots(t); slot++) {
        pl_version head = {0};
        char name[96];
        pl_arm_module_name(&arm, t, pl_topology_module_of_path(t, slot, 0), name);
        PL_TRY(pl_store_head(store, name, &head));
        version = head.number < version ? head.number : version;
        pl_version_clear(&head);
    }
    if (version == 0 || version == UINT64_MAX)
        PL_TRY(pl_fail(PL_ERR_NOT_FOUND,
                       "no update of path 0 of %s has been merged in all its modules "
                       "yet; wait until its first phase has ended",
                       arm.name));
    PL_TRY(alloc_update(out->n, &end));
    const uint64_t before = version - 1;
    PL_TRY(pl_read_path(store, &arm, t, 0, (pl_which){.number = &before}, out->values));
    PL_TRY(pl_read_path(store, &arm, t, 0, (pl_which){.number = &version}, end));
    for (size_t i = 0; i < out->n; i++)
        out->values[i] -= end[i];
    for (int slot = 0; slot < pl_topology_n_slots(t); slot++) {
        const pl_slot *s = pl_topology_slot(t, slot);
        pl_version v = {0};
        char name[96];
        pl_arm_module_name(&arm, t, pl_topology_module_of_path(t, slot, 0), name);
        PL_TRY(pl_store_get_version(store, name, version, &v));
        status = read_kept(store, &v, s->n_params, out->values + s->offset, &kept);
        pl_version_clear(&v);
        PL_TRY(status);
    }
    snprintf(out->source, sizeof out->source, "%s of path 0 in version %llu of %s",
             kept ? "updates" : "differences", (unsigned long long)version, folder);
done:
    pl_free(end);
    pl_arm_clear(&arm);
    pl_store_close(&store);
    return status;
}

enum { BATCH = 8, CONTEXT = 64, STEPS = 60, PHASE = 20 };

static pl_status train_steps(pl_model *model, int vocab, int first, int end)
{
    int32_t tokens[BATCH * CONTEXT], targets[BATCH * CONTEXT];
    for (int step = first; step < end; step++) {
        pl_step_result result;
        pl_adamw adam = {.lr = 1e-3f,
                         .beta1 = 0.9f,
                         .beta2 = 0.95f,
                         .eps = 1e-8f,
                         .weight_decay = 0.1f,
                         .step = step + 1};
        /* Draws random words of an artificial language that a model can learn: each
         * word depends on the previous word and a random number, which is small more
         * often than large. */
        for (int b = 0; b < BATCH; b++) {
            int32_t word = 1;
            for (int t = 0; t <= CONTEXT; t++) {
                uint64_t at = (uint64_t)((step * BATCH + b) * (CONTEXT + 1) + t);
                double u = pl_random_uniform(7, 1, at);
                int32_t rank = (int32_t)(u * u * u * u * vocab);
                word = (word * 31 + rank) % vocab;
                if (t < CONTEXT)
                    tokens[b * CONTEXT + t] = word;
                if (t > 0)
                    targets[b * CONTEXT + t - 1] = word;
            }
        }
        PL_CHECK(pl_model_train_step(model, tokens, targets, BATCH, CONTEXT, &adam,
                                     1.0f, &result));
    }
    return PL_OK;
}

/* Trains `laptop` on random text; the update: of the last PHASE steps. */
static pl_status train_update(measured_update *out)
{
    pl_backend_options backend = {.name = "cpu", .n_threads = 1, .precision = "auto"};
    pl_model_options options = {.batch = BATCH, .context = CONTEXT, .training = true};
    pl_backend *be = NULL;
    pl_model *model = NULL;
    float *end = NULL;
    pl_shape shape;
    pl_topology_spec spec;
    pl_status status = PL_OK;
    PL_TRY(pl_preset("laptop", &shape, &spec));
    PL_TRY(pl_topology_create(&shape, &spec, &out->topology));
    out->n = pl_topology_path_params(out->topology);
    PL_TRY(alloc_update(out->n, &out->values));
    PL_TRY(pl_backend_open(&backend, &be));
    PL_TRY(pl_model_create(be, out->topology, &options, &model));
    PL_TRY(alloc_update(out->n, &end));
    for (int slot = 0; slot < pl_topology_n_slots(out->topology); slot++)
        pl_topology_init(out->topology, slot, 1,
                         out->values + pl_topology_slot(out->topology, slot)->offset);
    PL_TRY(pl_model_load(model, out->values));
    PL_TRY(pl_model_load_moments(model, NULL, NULL));
    PL_TRY(train_steps(model, shape.vocab, 0, STEPS - PHASE));
    PL_TRY(pl_model_save(model, out->values));
    PL_TRY(train_steps(model, shape.vocab, STEPS - PHASE, STEPS));
    PL_TRY(pl_model_save(model, end));
    for (size_t i = 0; i < out->n; i++)
        out->values[i] -= end[i];
    snprintf(out->source, sizeof out->source,
             "%d steps of AdamW on the laptop preset after %d earlier steps", PHASE,
             STEPS - PHASE);
done:
    pl_free(end);
    pl_model_destroy(&model);
    pl_backend_close(&be);
    return status;
}

/* ---- the rows ---- */
typedef struct row {
    const char *label, *codec;
    int value_bits;
    bool entropy, residual;
    double encode_s, add_s, bytes, error;
} row;

typedef struct measurement {
    measured_update update;
    double norm, copy_s;
    float *residual, *sum;
    pl_buf message;
} measurement;

static row rows[] = {
    {.label = "f32", .codec = "f32"},
    {.label = "f32 + zstd", .codec = "f32", .entropy = true},
    {.label = "bf16", .codec = "bf16"},
    {.label = "bf16 + zstd", .codec = "bf16", .entropy = true},
    {.label = "bf16 + residual", .codec = "bf16", .residual = true},
    {.label = "i8", .codec = "i8"},
    {.label = "i8 + zstd", .codec = "i8", .entropy = true},
    {.label = "i8 + residual", .codec = "i8", .residual = true},
    {.label = "i4", .codec = "i4"},
    {.label = "i4 + zstd", .codec = "i4", .entropy = true},
    {.label = "topk 8 bits", .codec = "topk"},
    {.label = "topk 8 bits + zstd", .codec = "topk", .entropy = true},
    {.label = "topk 2 bits", .codec = "topk", .value_bits = 2},
    {.label = "topk 2 bits + zstd", .codec = "topk", .value_bits = 2, .entropy = true},
    {.label = "sketch16", .codec = "sketch16"},
    {.label = "sketch16 + zstd", .codec = "sketch16", .entropy = true},
    {.label = "i8-shared", .codec = "i8-shared"},
    {.label = "i8-shared + zstd", .codec = "i8-shared", .entropy = true},
    {.label = "tagc + zstd", .codec = "tagc", .entropy = true}};
enum { N_ROWS = sizeof rows / sizeof *rows };

/* Measures a row. The first pass starts with a residual of zeros. Reports the bytes and
 * the error of the first pass, and the best times of all passes. */
static pl_status measure_row(measurement *m, row *r)
{
    const pl_topology *t = m->update.topology;
    const pl_codec_round round = {.seed = 1,
                                  .n_contributors = CONTRIBUTORS,
                                  .weight = 1.0f,
                                  .scale_exponent =
                                      pl_codec_exponent(m->norm, m->update.n)};
    pl_codec_options o;
    PL_CHECK(pl_codec_options_default(r->codec, &o));
    r->residual = r->residual || pl_codec_drops_much(&o);
    o.entropy = r->entropy;
    o.value_bits = (uint8_t)(r->value_bits ? r->value_bits : 8);
    r->encode_s = r->add_s = INFINITY;
    memset(m->residual, 0, m->update.n * sizeof *m->residual);
    memset(m->sum, 0, m->update.n * sizeof *m->sum);
    for (int i = 0; i < PASSES; i++) {
        double encode_s = 0, add_s = 0;
        uint64_t n_bytes = 0;
        for (int slot = 0; slot < pl_topology_n_slots(t); slot++) {
            double norm = 0;
            const pl_slot *s = pl_topology_slot(t, slot);
            float *residual = r->residual ? m->residual + s->offset : NULL;
            pl_buf_clear(&m->message);
            double start = pl_now();
            PL_CHECK(pl_codec_encode_update(
                &o, t, pl_topology_module_of_path(t, slot, 0), &round,
                m->update.values + s->offset, residual, &m->message));
            double middle = pl_now();
            PL_CHECK(pl_codec_add(m->message.data, m->message.len, s->n_params, 1.0f,
                                  m->sum + s->offset, &norm));
            encode_s += middle - start;
            add_s += pl_now() - middle;
            n_bytes += m->message.len;
        }
        if (i == 0) {
            double error = 0;
            for (size_t k = 0; k < m->update.n; k++) {
                double e = (double)m->update.values[k] - (double)m->sum[k];
                error += e * e;
            }
            r->bytes = (double)n_bytes / (double)m->update.n;
            r->error = m->norm > 0 ? sqrt(error) / m->norm : 0;
        }
        r->encode_s = fmin(r->encode_s, encode_s);
        r->add_s = fmin(r->add_s, add_s);
    }
    return PL_OK;
}

/* ---- reporting ---- */
static double speed(const measurement *m, double seconds)
{
    return 4e-9 * (double)m->update.n / seconds;
}

pl_status measure_codec(bool json, const char *folder)
{
    pl_status status = PL_OK;
    measurement m = {0};
    PL_TRY(folder ? read_update(folder, &m.update) : train_update(&m.update));
    size_t bytes = m.update.n * sizeof(float);
    PL_TRY(pl_try_alloc(bytes, "a residual", (void **)&m.residual));
    PL_TRY(pl_try_alloc(bytes, "a sum of updates", (void **)&m.sum));
    m.norm = pl_l2_norm(m.update.values, m.update.n);
    m.copy_s = INFINITY;
    for (int i = 0; i < PASSES; i++) {
        double start = pl_now();
        memcpy(m.sum, m.update.values, m.update.n * sizeof *m.sum);
        m.copy_s = fmin(m.copy_s, pl_now() - start);
    }
    for (int i = 0; i < N_ROWS; i++)
        PL_TRY(measure_row(&m, &rows[i]));
    if (json) {
        pl_json *o = pl_json_object(), *list = pl_json_array();
        pl_json_set_text(o, "update", m.update.source);
        pl_json_set_int(o, "params", (int64_t)m.update.n);
        pl_json_set_real(o, "update_norm", m.norm);
        pl_json_set_real(o, "copy_gb_per_s", speed(&m, m.copy_s));
        pl_json_set_int(o, "contributors", CONTRIBUTORS);
        for (int i = 0; i < N_ROWS; i++) {
            const row *r = &rows[i];
            pl_json *entry = pl_json_object();
            pl_json_set_text(entry, "codec", r->codec);
            if (strcmp(r->codec, "topk") == 0)
                pl_json_set_int(entry, "value_bits", r->value_bits ? r->value_bits : 8);
            pl_json_set_bool(entry, "entropy", r->entropy);
            pl_json_set_bool(entry, "residual", r->residual);
            pl_json_set_real(entry, "encode_gb_per_s", speed(&m, r->encode_s));
            pl_json_set_real(entry, "add_gb_per_s", speed(&m, r->add_s));
            pl_json_set_real(entry, "bytes_per_param", r->bytes);
            pl_json_set_real(entry, "relative_error", r->error);
            pl_json_push(list, entry);
        }
        pl_json_set(o, "codecs", list);
        say_json(o);
    } else {
        say("update    %s", m.update.source);
        say("          %zu parameters with root mean square %.2e; memcpy copies %.1f "
            "GB/s",
            m.update.n, m.norm / sqrt((double)m.update.n), speed(&m, m.copy_s));
        say("  %-20s %12s %12s %12s %10s", "codec", "encode GB/s", "add GB/s",
            "B/param", "rel. error");
        for (int i = 0; i < N_ROWS; i++)
            say("  %-20s %12.2f %12.2f %12.4f %10.4f", rows[i].label,
                speed(&m, rows[i].encode_s), speed(&m, rows[i].add_s), rows[i].bytes,
                rows[i].error);
    }
done:
    pl_topology_destroy(&m.update.topology);
    pl_free_all(m.update.values, m.residual, m.sum);
    pl_buf_destroy(&m.message);
    return status;
}
