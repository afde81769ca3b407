/* The stages of `train`: data, base model, routing, arms. Each stage first checks
 * whether its result exists, so that a repeated command continues where the last
 * command stopped. */
#include "job/stages.h"
#include "job/forget.h"

/* ---- data ---- */
static void on_progress(void *context, const char *line)
{
    (void)context;
    say("%s", line);
}

bool stages_scores(const pl_run *r, uint32_t document)
{
    return routing_scores(r, document) &&
           pl_counted_targets(r->train, document, (int)r->cfg.prefix) > 0;
}

pl_status stage_data(pl_run *r)
{
    const config *c = &r->cfg;
    char folder[PL_PATH_MAX];
    uint64_t most = (uint64_t)c->max_bytes;
    if (most == 0 && c->corpus[0] == '\0')
        most = 12 << 20;
    pl_prepare_options options = {.corpus = c->corpus,
                                  .valid = c->valid,
                                  .valid_share = c->valid_share,
                                  .tokenizer = c->tokenizer,
                                  .vocab = (int)c->vocab,
                                  .reading = run_reading(r, true),
                                  .n_paths = (uint64_t)pl_topology_n_paths(r->topology),
                                  .n_threads = pl_cpu_count(),
                                  .max_bytes = most,
                                  .seed = (uint64_t)c->seed,
                                  .min_document_tokens = (int)c->prefix + 1,
                                  .progress = on_progress,
                                  .stop = r->stop};
    PL_CHECK(pl_prepare(&options, run_file(r, "data", folder), &r->data));
    char path[PL_PATH_MAX];
    PL_CHECK(pl_tokens_open(run_file(r, "data/train.tok", path), true, &r->train));
    PL_CHECK(pl_tokens_open(run_file(r, "data/valid.tok", path), true, &r->valid));
    PL_CHECK(forgotten_blank(r, false));
    uint32_t n_docs = pl_tokens_n_docs(r->train);
    if ((uint32_t)pl_topology_n_paths(r->topology) > n_docs)
        return pl_fail(PL_ERR_CONFIG,
                       "there are %d paths but only %u training documents, and each "
                       "path needs one; give more text or fewer paths",
                       pl_topology_n_paths(r->topology), n_docs);
    /* If documents are dealt again (router.em), checks that at least as many documents
     * can be scored as there are paths. */
    config_chapter chapters[CONFIG_CHAPTERS_MAX];
    int n = 0, most_paths = 0, n_apart = 0;
    PL_CHECK(config_chapters(&r->cfg, chapters, &n));
    for (int i = 1; i < n; i++)
        if (chapters[i].deals &&
            pl_topology_spec_n_paths(&chapters[i].spec) > most_paths)
            most_paths = pl_topology_spec_n_paths(&chapters[i].spec);
    for (uint32_t d = 0; most_paths > 0 && d < pl_tokens_n_docs(r->train); d++)
        n_apart += stages_scores(r, d);
    if (n_apart >= most_paths)
        return PL_OK;
    return pl_fail(
        PL_ERR_DATA,
        "router.share %g sets aside only %d documents that can be scored, but at "
        "least %d are needed, one per path; give more documents, or a larger share",
        r->cfg.share, n_apart, most_paths);
}

/* ---- shards ---- */
pl_status stages_put_shard(pl_run *r, pl_arm *arm, const pl_topology *t, int path,
                           const uint32_t *docs, size_t n)
{
    char object[PL_MODULE_NAME_MAX];
    pl_buf bytes = {0};
    pl_status status = pl_tokens_subset(r->train, docs, n, &bytes);
    if (status == PL_OK)
        status = pl_client_put_object(r->client,
                                      stages_path_object("shard", arm, t, path, object),
                                      bytes.data, bytes.len, &arm->shards[path]);
    /* The number of targets in one epoch of these documents. */
    double targets = 0;
    for (size_t i = 0; i < n; i++)
        targets +=
            (double)pl_counted_targets(r->train, docs[i], arm->inner.skip_prefix);
    arm->weights[path] = targets;
    pl_buf_destroy(&bytes);
    return status;
}

pl_status stages_put_shards(pl_run *r, pl_arm *arm, const routing *g)
{
    for (int p = 0; p < g->shards.n_paths; p++) {
        size_t first = g->shards.first[p];
        PL_CHECK(stages_put_shard(r, arm, g->topology, p, g->shards.docs + first,
                                  g->shards.first[p + 1] - first));
    }
    PL_CHECK(curve_text_put(r, arm, g->topology, g->answers));
    return select_put_holdouts(r, arm, g);
}

/* ---- objects ---- */
char *stages_path_object(const char *kind, const pl_arm *arm, const pl_topology *t,
                         int path, char out[PL_MODULE_NAME_MAX])
{
    char name[PL_NAME_MAX];
    pl_topology_path_name(t, path, name);
    snprintf(out, PL_MODULE_NAME_MAX, "%s/%s/%s", kind, arm->name, name);
    return out;
}

pl_status stages_read_object(const pl_run *r, const char *name, pl_buf *out)
{
    pl_hash blob;
    PL_CHECK(pl_client_get_object(r->client, name, &blob));
    return pl_client_get_blob(r->client, name, &blob, out);
}

pl_status stages_put_object(const pl_run *r, const char *name, pl_buf *bytes)
{
    pl_hash blob;
    pl_status status =
        pl_client_put_object(r->client, name, bytes->data, bytes->len, &blob);
    pl_buf_destroy(bytes);
    return status;
}

pl_status stages_copy_object(pl_run *r, const char *from, const char *to, pl_hash *blob)
{
    pl_buf bytes = {0};
    pl_status status = stages_read_object(r, from, &bytes);
    if (status == PL_OK)
        status = pl_client_put_object(r->client, to, bytes.data, bytes.len, blob);
    pl_buf_destroy(&bytes);
    return status;
}

/* ---- arms ---- */
pl_status stages_arm_exists(pl_run *r, const char *name, bool *exists)
{
    pl_hash blob;
    char object[PL_MODULE_NAME_MAX];
    snprintf(object, sizeof object, "arm/%s", name);
    pl_status status = pl_client_get_object(r->client, object, &blob);
    *exists = status == PL_OK;
    return status == PL_ERR_NOT_FOUND ? PL_OK : status;
}

pl_status stages_read_arm(pl_run *r, const char *name, pl_arm *arm)
{
    char object[PL_MODULE_NAME_MAX];
    pl_buf bytes = {0};
    memset(arm, 0, sizeof *arm);
    snprintf(object, sizeof object, "arm/%s", name);
    pl_status status = stages_read_object(r, object, &bytes);
    if (status == PL_OK)
        status = pl_arm_decode(bytes.data, bytes.len, arm);
    pl_buf_destroy(&bytes);
    return status;
}

pl_status stages_put_arm(pl_run *r, const pl_arm *arm)
{
    char name[PL_MODULE_NAME_MAX];
    pl_buf bytes = {0};
    pl_arm_encode(arm, &bytes);
    snprintf(name, sizeof name, "arm/%s", arm->name);
    return stages_put_object(r, name, &bytes);
}

pl_status stages_publish_arm(pl_run *r, const pl_arm *arm, const pl_topology *t,
                             const float *params)
{
    char name[PL_MODULE_NAME_MAX];
    for (int m = 0; m < pl_topology_n_modules(t); m++) {
        const pl_slot *s = pl_topology_slot(t, pl_topology_module_slot(t, m));
        PL_CHECK(pl_client_create_module(r->client, pl_arm_module_name(arm, t, m, name),
                                         params + s->offset, s->n_params, &r->hash));
    }
    return stages_put_arm(r, arm);
}

pl_status stages_path_params(const pl_run *r, float **out)
{
    return pl_try_alloc(pl_topology_path_params(r->topology) * sizeof(float),
                        "a path's parameters", (void **)out);
}

pl_status stages_read_state(pl_run *r, const char *path, uint64_t bytes, pl_buf *out)
{
    pl_path_state state;
    pl_buf_clear(out);
    PL_CHECK(pl_client_get_path(r->client, path, &state));
    PL_CHECK(pl_client_get_blob(r->client, path, &state.moments, out));
    if (out->len == bytes)
        return PL_OK;
    return pl_fail(PL_ERR_DAMAGED, "the state of %s has %zu bytes instead of %llu",
                   path, out->len, (unsigned long long)bytes);
}

/* Stores the mean of the moments that the replicas of the base model had at their end.
 * With the schedule wsd, arms continue with these moments. The arm is read, because an
 * earlier release may have given it other phases or a state of another size. */
static pl_status put_moments(pl_run *r)
{
    pl_arm arm;
    pl_topology *t = NULL;
    float *sum = NULL;
    size_t n_params = 0, bytes = 0;
    pl_buf state = {0};
    char name[PL_MODULE_NAME_MAX];
    pl_status status = stages_read_arm(r, "base", &arm);
    PL_TRY(status);
    PL_TRY(pl_topology_create(&arm.shape, &arm.spec, &t));
    n_params = pl_topology_path_params(t);
    bytes = pl_path_moments_floats(&arm, n_params) * sizeof *sum;
    const int n_replicas = pl_topology_n_replicas(t);
    PL_TRY(pl_try_alloc(bytes, "a path's moments", (void **)&sum));
    for (int replica = 0; replica < n_replicas; replica++) {
        pl_arm_path_name(&arm, t, 0, replica, name);
        /* a residual of the codec may follow the moments, which are in f32 */
        PL_TRY(stages_read_state(r, name, pl_path_state_bytes(&arm, n_params), &state));
        const float *own = (const float *)(const void *)state.data;
        for (size_t i = 0; i < bytes / sizeof *sum; i++)
            sum[i] += own[i] / (float)n_replicas;
    }
    pl_buf_destroy(&state);
    PL_TRY(pl_client_put_object(r->client, PL_MOMENTS_OBJECT, sum, bytes, &r->moments));
done:
    pl_buf_destroy(&state);
    pl_free(sum);
    pl_topology_destroy(&t);
    pl_arm_clear(&arm);
    return status;
}

/* Stores the base model's moments before the arm is published, so that workers always
 * find the blob that the arm names. */
static pl_status begin_arm(pl_run *r, pl_arm *arm)
{
    if (arm->inner.first_step == 0)
        return PL_OK;
    if (pl_hash_none(&r->moments))
        PL_CHECK(put_moments(r));
    arm->moments = r->moments;
    return PL_OK;
}

/* ---- versions ---- */
static pl_status read_params(pl_run *r, const char *module, const pl_hash *params,
                             const pl_slot *slot, float *out)
{
    pl_buf bytes = {0};
    pl_status status = pl_client_get_blob(r->client, module, params, &bytes);
    if (status == PL_OK && bytes.len != slot->n_params * sizeof *out)
        status = pl_fail(PL_ERR_DAMAGED,
                         "the parameters of %s have %zu bytes instead of %zu", module,
                         bytes.len, (size_t)slot->n_params * sizeof *out);
    if (status == PL_OK)
        memcpy(out, bytes.data, bytes.len);
    pl_buf_destroy(&bytes);
    return status;
}

pl_status stages_read_version(pl_run *r, const char *module, uint64_t number,
                              const pl_slot *slot, float *out, pl_hash *params)
{
    enum { MERGE_WAIT_MS = 120000, MERGE_POLL_MS = 50 };
    const int64_t until = pl_now_ms() + MERGE_WAIT_MS;
    pl_version_facts version;
    pl_status status;
    for (;;) {
        status = pl_client_get_version(r->client, module, (int64_t)number, &version);
        if (status != PL_ERR_NOT_FOUND || pl_now_ms() > until)
            break;
        PL_CHECK(run_stopped(r));
        PL_CHECK(pl_launcher_tend(r->launcher));
        pl_sleep_ms(MERGE_POLL_MS);
    }
    PL_CHECK(status);
    *params = version.params;
    return read_params(r, module, &version.params, slot, out);
}

/* The last versions are those after the phases that the stored arm has. */
pl_status stages_base_params(pl_run *r, float *params)
{
    pl_arm arm;
    pl_topology *t = NULL;
    pl_status status = stages_read_arm(r, "base", &arm);
    PL_TRY(status);
    PL_TRY(pl_topology_create(&arm.shape, &arm.spec, &t));
    for (int s = 0; s < pl_topology_n_slots(t); s++) {
        const pl_slot *slot = pl_topology_slot(t, s);
        char name[PL_MODULE_NAME_MAX];
        pl_version_facts last;
        pl_arm_module_name(&arm, t, pl_topology_module_of_path(t, s, 0), name);
        PL_TRY(pl_client_get_version(r->client, name, arm.inner.phases, &last));
        PL_TRY(read_params(r, name, &last.params, slot, params + slot->offset));
    }
done:
    pl_topology_destroy(&t);
    pl_arm_clear(&arm);
    return status;
}

/* ---- arms with one path ---- */
/* Creates an arm with one path, the base model or a baseline, if it does not exist. */
static pl_status create_dense(pl_run *r, const char *name)
{
    pl_arm arm;
    pl_topology *t = NULL;
    float *params = NULL;
    uint32_t *docs = NULL;
    bool exists = false;
    PL_CHECK(stages_arm_exists(r, name, &exists));
    if (exists)
        return PL_OK;
    pl_status status = run_arm(r, name, &arm);
    PL_TRY(status);
    PL_TRY(pl_topology_create(&arm.shape, &arm.spec, &t));
    PL_TRY(stages_path_params(r, &params));
    if (strcmp(name, "base") != 0) {
        PL_TRY(stages_base_params(r, params));
    } else if (r->cfg.import[0]) {
        pl_import *model = NULL;
        status = pl_import_open(r->cfg.import, &model);
        if (status == PL_OK)
            status = pl_import_load(model, t, params);
        pl_import_close(&model);
        PL_TRY(status == PL_OK ? status : pl_fail_in(status, "model.import"));
    } else {
        for (int s = 0; s < pl_topology_n_slots(t); s++)
            pl_topology_init(t, s, (uint64_t)r->cfg.seed,
                             params + pl_topology_slot(t, s)->offset);
    }
    PL_TRY(begin_arm(r, &arm)); /* does nothing for the base model */
    size_t n = 0;
    uint32_t n_docs = pl_tokens_n_docs(r->train);
    docs = pl_alloc(n_docs * sizeof *docs);
    for (uint32_t d = 0; d < n_docs; d++)
        if (!routing_scores(r, d) && !routing_holds(r, d))
            docs[n++] = d;
    PL_TRY(stages_put_shard(r, &arm, t, 0, docs, n));
    PL_TRY(curve_text_put(r, &arm, t, NULL));
    PL_TRY(stages_publish_arm(r, &arm, t, params));
done:
    pl_free_all(docs, params);
    pl_topology_destroy(&t);
    pl_arm_clear(&arm);
    return status;
}

pl_status stage_base(pl_run *r)
{
    static const char *const names[] = {"base"};
    PL_CHECK(create_dense(r, "base"));
    return progress_wait(r, names, 1, 1);
}

/* ---- the mixture ---- */
pl_status stage_route(pl_run *r)
{
    routing g = {.topology = NULL};
    pl_arm arm = {.n_shards = 0};
    pl_topology *t = NULL;
    float *params = NULL;
    bool exists = false;
    pl_status status = PL_OK;
    PL_CHECK(stages_arm_exists(r, "mix", &exists));
    if (exists)
        return forgotten_blank(r, true);
    PL_TRY(run_arm(r, "mix", &arm));
    PL_TRY(pl_topology_create(&arm.shape, &arm.spec, &t));
    g.topology = t;
    PL_TRY(stages_path_params(r, &params));
    PL_TRY(stages_base_params(r, params));
    PL_TRY(routing_fit(r, params, &g));
    g.phases = r->cfg.phases;
    PL_TRY(pl_tokens_check(r->train));
    PL_TRY(routing_report(r, &g));
    PL_TRY(routing_put(r, &g, arm.name));
    PL_TRY(forgotten_blank(r, true));
    PL_TRY(begin_arm(r, &arm));
    PL_TRY(stages_put_shards(r, &arm, &g));
    PL_TRY(stages_publish_arm(r, &arm, t, params));
done:
    pl_free(params);
    routing_clear(&g);
    pl_topology_destroy(&t);
    pl_arm_clear(&arm);
    return status;
}

pl_status stage_arms(pl_run *r)
{
    const char *names[ARMS_MAX];
    char chapter[PL_ARM_NAME_MAX];
    config_chapter chapters[CONFIG_CHAPTERS_MAX];
    int n = run_arm_names(r, names), n_chapters = 0;
    PL_CHECK(config_chapters(&r->cfg, chapters, &n_chapters));
    for (int i = 1; i < n; i++)
        PL_CHECK(create_dense(r, names[i]));
    for (int c = 1; c < n_chapters; c++) {
        PL_CHECK(progress_wait(r, names, n, 1));
        PL_CHECK(stage_chapter(r, c, &chapters[c], names + 1, n - 1));
        names[0] = pl_chapter_name(c, chapter);
    }
    PL_CHECK(progress_wait(r, names, n, n));
    return stage_select(r, names[0]);
}
