#include "cli/evaluate.h"

#include <math.h>

static const char *const arm_names[COLUMNS] = {"mix", "dense", "diloco", "dense-eq",
                                               "base"};
static const char *const titles[COLUMNS] = {
    "mixture, one routed path", "dense, steps of one path",
    "DiLoCo, tokens of all paths", "dense, tokens of all paths", "base model, before"};

void evaluation_clear(evaluation *e)
{
    for (int i = 0; i < COLUMNS; i++)
        pl_free(e->columns[i].by_domain);
    pl_free(e->docs);
    pl_free(e->path_of);
    memset(e, 0, sizeof *e);
}

/* ---- what was spent ---- */
typedef struct spent {
    uint64_t tokens;
    int n;
    int64_t least_phase;
} spent;

static pl_status add_path(void *context, const pl_path_state *state)
{
    spent *s = context;
    s->tokens += state->n_tokens;
    s->least_phase =
        s->n == 0 || state->phase < s->least_phase ? state->phase : s->least_phase;
    s->n++;
    return PL_OK;
}

static pl_status count_spent(pl_store *store, const char *arm, spent *out)
{
    char prefix[PL_ARM_NAME_MAX + 2];
    memset(out, 0, sizeof *out);
    snprintf(prefix, sizeof prefix, "%s/", arm);
    return pl_store_each_path(store, prefix, add_path, out);
}

/* ---- scores ---- */
typedef struct job {
    run *r;
    pl_store *store;
    evaluation *e;
    pl_scorer *scorer;
    pl_score *scores;
    float *params;
    uint64_t base_tokens;
} job;

typedef struct arm_source {
    pl_store *store;
    const pl_arm *arm;
    const pl_topology *topology;
} arm_source;

static pl_status load_path(void *context, int path, float *params)
{
    const arm_source *s = context;
    return store_path_params(s->store, s->arm, s->topology, path, UINT64_MAX, params);
}

static pl_status score_arm(job *j, const pl_arm *arm, const pl_topology *t)
{
    arm_source source = {j->store, arm, t};
    evaluation *e = j->e;
    if (pl_topology_n_paths(t) > 1)
        return pl_score_routed(j->scorer, j->r->valid, e->docs, e->path_of, e->n_docs,
                               load_path, &source, j->scores);
    PL_RETURN_IF(load_path(&source, 0, j->params));
    PL_RETURN_IF(pl_scorer_load(j->scorer, j->params));
    return pl_score_documents(j->scorer, j->r->valid, e->docs, e->n_docs, j->scores);
}

static void fill_spent(job *j, column *c, const pl_arm *arm, const pl_topology *t,
                       const spent *s)
{
    bool is_base = strcmp(c->arm, "base") == 0;
    uint64_t before = is_base ? 0 : j->base_tokens;
    int trainings = pl_topology_n_paths(t) * pl_topology_n_replicas(t);
    c->tokens_total = before + s->tokens;
    c->tokens_per_path = before + s->tokens / (uint64_t)(trainings ? trainings : 1);
    c->flops = (double)c->tokens_total *
               pl_topology_flops_per_token(t, arm->inner.context, true);
    c->finished = arm->inner.phases == 0 ||
                  (s->n == trainings && s->least_phase >= arm->inner.phases);
}

static pl_status fill_column(job *j, column *c)
{
    pl_arm arm;
    pl_topology *t = NULL;
    spent s;
    size_t n_domains = pl_tokens_n_domains(j->r->valid);
    pl_status status = store_arm(j->store, c->arm, &arm, &t);
    if (status == PL_ERR_NOT_FOUND)
        return PL_OK;
    PL_TRY(status);
    PL_TRY(count_spent(j->store, c->arm, &s));
    PL_TRY(score_arm(j, &arm, t));
    c->present = true;
    c->score = pl_score_sum(j->scores, j->e->n_docs);
    c->ppl = pl_perplexity(&c->score);
    c->by_domain = pl_alloc((n_domains ? n_domains : 1) * sizeof *c->by_domain);
    pl_score_by_domain(j->r->valid, j->e->docs, j->scores, j->e->n_docs, c->by_domain);
    fill_spent(j, c, &arm, t, &s);
done:
    pl_topology_destroy(&t);
    pl_arm_clear(&arm);
    return status;
}

/* ---- routing of the held-out documents ---- */
static pl_status read_base(job *j)
{
    pl_arm arm;
    pl_topology *t = NULL;
    pl_status status = store_arm(j->store, "base", &arm, &t);
    if (status == PL_ERR_NOT_FOUND)
        return pl_fail(PL_ERR_NOT_FOUND,
                       "the run in %s has no base model yet; train it first",
                       j->r->dir);
    if (status == PL_OK)
        status = store_path_params(j->store, &arm, t, 0, UINT64_MAX, j->params);
    pl_topology_destroy(&t);
    pl_arm_clear(&arm);
    return status;
}

static pl_status route_valid(job *j)
{
    run *r = j->r;
    pl_buf bytes = {0};
    pl_router *router = NULL;
    float *features = NULL;
    size_t n = pl_tokens_n_docs(r->valid), dim = (size_t)r->cfg.width;
    pl_feature_job features_job = {.topology = r->topology,
                                   .params = j->params,
                                   .precision = r->cfg.precision,
                                   .backend = r->cfg.backend,
                                   .prefix = (int)r->cfg.prefix,
                                   .n_threads = pl_cpu_count()};
    pl_status status = store_object_bytes(j->store, "router/mix", &bytes);
    if (status == PL_ERR_NOT_FOUND)
        status = pl_fail(status,
                         "the run in %s has no router yet: its base model is still "
                         "training",
                         r->dir);
    PL_TRY(status);
    PL_TRY(pl_router_decode(bytes.data, bytes.len, &router));
    PL_TRY(
        pl_try_alloc(n * dim * sizeof(float), "routing features", (void **)&features));
    PL_TRY(pl_router_features(&features_job, r->valid, features));
    for (size_t i = 0; i < j->e->n_docs; i++)
        pl_router_route(router, features + (size_t)j->e->docs[i] * dim, 1,
                        &j->e->path_of[i]);
done:
    pl_free_aligned(features);
    pl_router_destroy(&router);
    pl_buf_destroy(&bytes);
    return status;
}

static void read_router_report(const run *r, evaluation *e)
{
    char path[PL_PATH_MAX];
    pl_buf text = {0};
    pl_json *o = NULL;
    double domains = 0;
    e->purity = e->nmi = e->purity_k8 = NAN;
    if (pl_read_file(run_file(r, "router.json", path), &text) == PL_OK &&
        pl_json_parse((const char *)text.data, text.len, &o) == PL_OK &&
        pl_json_number(pl_json_get(o, "domains"), &domains) && domains > 1) {
        pl_json_number(pl_json_get(o, "purity"), &e->purity);
        pl_json_number(pl_json_get(o, "nmi"), &e->nmi);
        pl_json_number(pl_json_get(o, "purity_k8"), &e->purity_k8);
    }
    pl_json_destroy(&o);
    pl_buf_destroy(&text);
}

static void pick(const run *r, evaluation *e)
{
    size_t n = pl_tokens_n_docs(r->valid);
    e->docs = pl_alloc((n ? n : 1) * sizeof *e->docs);
    e->path_of = pl_alloc((n ? n : 1) * sizeof *e->path_of);
    for (size_t i = 0; i < n; i++)
        e->docs[i] = (uint32_t)i;
    e->n_docs = pl_pick_documents(r->valid, (int)r->cfg.prefix,
                                  (uint64_t)r->cfg.eval_tokens, e->docs, n);
    for (size_t i = 0; i < e->n_docs; i++)
        e->n_targets += pl_counted_targets(r->valid, e->docs[i], (int)r->cfg.prefix);
}

static pl_status open_job(job *j)
{
    const run *r = j->r;
    spent base;
    pl_scorer_options options = {.topology = r->topology,
                                 .backend = r->cfg.backend,
                                 .precision = r->cfg.precision,
                                 .n_threads = pl_cpu_count(),
                                 .prefix = (int)r->cfg.prefix};
    j->scores = pl_alloc((j->e->n_docs ? j->e->n_docs : 1) * sizeof *j->scores);
    PL_RETURN_IF(pl_try_alloc(pl_topology_path_params(r->topology) * sizeof(float),
                              "a path", (void **)&j->params));
    PL_RETURN_IF(pl_scorer_create(&options, &j->scorer));
    PL_RETURN_IF(read_base(j));
    PL_RETURN_IF(count_spent(j->store, "base", &base));
    j->base_tokens = base.tokens;
    return PL_OK;
}

pl_status evaluate(run *r, pl_store *store, evaluation *out)
{
    pl_status status = PL_OK;
    double start = pl_now();
    job j = {.r = r, .store = store, .e = out};
    memset(out, 0, sizeof *out);
    pick(r, out);
    if (out->n_docs == 0)
        PL_TRY(pl_fail(
            PL_ERR_DATA,
            "no held-out document is longer than the prefix of %lld tokens; give "
            "more held-out text",
            (long long)r->cfg.prefix));
    read_router_report(r, out);
    PL_TRY(open_job(&j));
    PL_TRY(route_valid(&j));
    for (int i = 0; i < COLUMNS; i++) {
        out->columns[i].arm = arm_names[i];
        out->columns[i].title = titles[i];
        PL_TRY(fill_column(&j, &out->columns[i]));
    }
    out->seconds = pl_now() - start;
done:
    pl_scorer_destroy(&j.scorer);
    pl_free_aligned(j.params);
    pl_free(j.scores);
    return status;
}
