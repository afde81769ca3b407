/* Gets a real update for measurements: from a run, or by a few training steps. */
#include "measure/update_internal.h"

void measure_update_free(measure_update *update)
{
    pl_topology_destroy(&update->topology);
    pl_free_aligned(update->values);
    update->values = NULL;
}

static pl_status alloc_update(size_t n, float **out)
{
    return pl_try_alloc(n * sizeof **out, "an update", (void **)out);
}

/* ---- from a run ---- */
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

pl_status measure_update_read(const char *folder, measure_update *out)
{
    pl_store *store = NULL;
    pl_arm arm = {0};
    float *end = NULL;
    uint64_t version = UINT64_MAX;
    bool kept = false;
    pl_status status = PL_OK;
    memset(out, 0, sizeof *out);
    PL_TRY(store_open_run(folder, &store));
    char chapter[PL_ARM_NAME_MAX];
    pl_newest_chapter(store, chapter);
    PL_TRY(pl_read_arm(store, chapter, &arm, &out->topology));
    out->n = pl_topology_path_params(out->topology);
    PL_TRY(alloc_update(out->n, &out->values));
    const pl_topology *t = out->topology;
    /* finds the newest version that all modules of path 0 have */
    for (int slot = 0; slot < pl_topology_n_slots(t); slot++) {
        pl_version head;
        char name[96];
        memset(&head, 0, sizeof head);
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
    PL_TRY(pl_read_path(store, &arm, out->topology, 0, (pl_which){.number = &before},
                        out->values));
    PL_TRY(pl_read_path(store, &arm, out->topology, 0, (pl_which){.number = &version},
                        end));
    for (size_t i = 0; i < out->n; i++)
        out->values[i] -= end[i];
    for (int slot = 0; slot < pl_topology_n_slots(out->topology); slot++) {
        const pl_slot *s = pl_topology_slot(out->topology, slot);
        pl_version v;
        char name[96];
        memset(&v, 0, sizeof v);
        pl_arm_module_name(&arm, out->topology,
                           pl_topology_module_of_path(out->topology, slot, 0), name);
        PL_TRY(pl_store_get_version(store, name, version, &v));
        status = read_kept(store, &v, s->n_params, out->values + s->offset, &kept);
        pl_version_clear(&v);
        PL_TRY(status);
    }
    snprintf(out->source, sizeof out->source, "%s of path 0 in version %llu of %s",
             kept ? "updates" : "differences", (unsigned long long)version, folder);
done:
    pl_free_aligned(end);
    pl_arm_clear(&arm);
    pl_store_close(&store);
    return status;
}

/* ---- by training ---- */
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

pl_status measure_update_train(measure_update *out)
{
    pl_backend_options backend = {.name = "cpu", .n_threads = 1, .precision = "auto"};
    pl_model_options options = {.batch = BATCH, .context = CONTEXT, .training = true};
    pl_backend *be = NULL;
    pl_model *model = NULL;
    float *end = NULL;
    pl_shape shape;
    pl_topology_spec spec;
    pl_status status = PL_OK;
    memset(out, 0, sizeof *out);
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
    pl_free_aligned(end);
    pl_model_destroy(&model);
    pl_backend_close(&be);
    return status;
}

pl_status measure_update_module(const measure_update *update, double norm, int slot,
                                measure_module *out)
{
    int module = pl_topology_module_of_path(update->topology, slot, 0);
    out->slot = pl_topology_slot(update->topology, slot);
    out->round = (pl_codec_round){.seed = 1,
                                  .n_contributors = BENCH_CONTRIBUTORS,
                                  .weight = 1.0f,
                                  .scale_exponent = pl_codec_exponent(norm, update->n)};
    if (out->slot->n_tensors > BENCH_PARTS_MAX)
        return pl_fail(PL_ERR_UNSUPPORTED, "%s has more than %d tensors",
                       out->slot->name, BENCH_PARTS_MAX);
    out->n_parts = pl_codec_parts(update->topology, module, out->parts);
    return PL_OK;
}
