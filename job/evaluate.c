/* Scores a run's arms on its held-out text. */
#include "job/evaluate.h"

#include <math.h>

/* The rows of the table. Rows of the same arm must be adjacent. */
static const struct {
    const char *arm, *name, *title, *brief;
} kinds[ROW_COUNT] = {
    [ROW_ROUTER] = {"mix", "mix", "mixture, by the router", "router"},
    [ROW_LIKELIHOOD] = {"mix", "mix-likelihood", "mixture, by likelihood", "likely"},
    [ROW_REROUTED] = {"mix", "mix-windows", "mixture, re-routed", "rerouted"},
    [ROW_DENSE] = {"dense", "dense", "one machine, same time", "dense"},
    [ROW_DILOCO] = {"diloco", "diloco", "same machines, DiLoCo", "DiLoCo"},
    [ROW_BATCH] = {"dense-batch", "dense-batch", "same machines, one batch", "batch"},
    [ROW_EQUAL] = {"dense-eq", "dense-eq", NULL,
                   "dense-eq"}, /* the title contains a factor, so it is made later */
    [ROW_BASE] = {"base", "base", "base model, before", "base"}};

void evaluation_clear(evaluation *e)
{
    for (int i = 0; i < ROW_COUNT; i++)
        pl_free_all(e->rows[i].by_domain, e->rows[i].scores);
    pl_free_all(e->docs, e->path_of, e->likeliest, e->bytes, e->every);
    memset(e, 0, sizeof *e);
}

static pl_status add_path(void *context, const pl_path_state *state)
{
    pl_spent *s = context;
    s->tokens += state->work.n_tokens;
    s->seconds += state->work.seconds;
    s->longest = state->work.n_tokens > s->longest ? state->work.n_tokens : s->longest;
    s->least_phase =
        s->n == 0 || state->phase < s->least_phase ? state->phase : s->least_phase;
    s->n++;
    return PL_OK;
}

typedef struct job {
    pl_run *r;
    pl_store *store;
    evaluation *e;
    pl_scorer *scorer;
    float *params;
    pl_snapshot tag; /* the tag that the command names, if any */
    /* versions of the chapter to evaluate; NULL: the newest ones */
    const pl_snapshot *versions;
    bool *closed;         /* [n_paths] paths that are never chosen nor read, or NULL */
    pl_prefix_lm *router; /* the chapter's router */
    double trainings; /* phases of all paths and replicas per phase of the mixture */
    pl_spent spent[ROW_COUNT]; /* of the arm of each row */
} job;

typedef struct arm_source {
    pl_store *store;
    const pl_arm *arm;
    const pl_topology *topology;
    pl_which which;
} arm_source;

static pl_status load_arm_path(void *context, int path, float *params)
{
    const arm_source *s = context;
    return pl_read_path(s->store, s->arm, s->topology, path, s->which, params);
}

static pl_score *scores_of(evaluation *e, row_kind kind)
{
    evaluation_row *w = &e->rows[kind];
    if (!w->scores)
        w->scores = pl_alloc((e->n_docs ? e->n_docs : 1) * sizeof *w->scores);
    w->present = true;
    return w->scores;
}

static void write_gate_losses(const void *gate, int n_paths, const int32_t *tokens,
                              int n, float *losses, size_t stride)
{
    pl_prefix_lm_losses(gate, NULL, n_paths, tokens, n, losses, stride);
}

/* Scores every document with every path, and sets the scores of the mixture's three
 * rows. */
static pl_status score_ways(job *j, arm_source *source)
{
    static const int kind_of[PL_ROUTE_COUNT] = {[PL_ROUTE_ROUTER] = ROW_ROUTER,
                                                [PL_ROUTE_LIKELIHOOD] = ROW_LIKELIHOOD,
                                                [PL_ROUTE_REROUTED] = ROW_REROUTED,
                                                [PL_ROUTE_BEST] = -1,
                                                [PL_ROUTE_BEST_PIECES] = -1};
    evaluation *e = j->e;
    size_t n = e->n_docs;
    e->likeliest = pl_alloc((n ? n : 1) * sizeof *e->likeliest);
    if (e->wish.n_every > 0)
        e->every = pl_alloc((size_t)e->wish.n_every * n * sizeof *e->every);
    const pl_routes routes = {
        .scores = pl_alloc(PL_ROUTE_COUNT * (n ? n : 1) * sizeof(pl_score)),
        .likeliest = e->likeliest,
        .every = e->every};
    pl_route_job all = {.scorer = j->scorer,
                        .tokens = j->r->valid,
                        .docs = e->docs,
                        .path_of = e->path_of,
                        .closed = j->closed,
                        .gate = j->router,
                        .gate_losses = write_gate_losses,
                        .n = n,
                        .prefix = (int)j->r->cfg.prefix,
                        .params = load_arm_path,
                        .context = source,
                        .most_bytes = EVALUATION_LOSSES_BYTES,
                        .n_every = e->wish.n_every};
    memcpy(all.every, e->wish.every, sizeof all.every);
    pl_status status = pl_score_routes(&all, &routes);
    for (int route = 0; status == PL_OK && route < PL_ROUTE_COUNT; route++)
        if (kind_of[route] >= 0)
            memcpy(scores_of(e, (row_kind)kind_of[route]),
                   routes.scores + (size_t)route * n, n * sizeof(pl_score));
    e->best = pl_score_sum(routes.scores + PL_ROUTE_BEST * n, n);
    e->best_pieces = pl_score_sum(routes.scores + PL_ROUTE_BEST_PIECES * n, n);
    pl_free(routes.scores);
    return status;
}

/* Fills all rows of one arm. `kind` is the first of these rows. */
static pl_status fill_rows(job *j, row_kind kind)
{
    pl_arm arm;
    pl_topology *t = NULL;
    evaluation *e = j->e;
    const char *name = e->rows[kind].arm;
    pl_status status =
        pl_read_arm(j->store, pl_arm_chapter(name) < 0 ? name : e->chapter, &arm, &t);
    if (status == PL_ERR_NOT_FOUND)
        return PL_OK;
    PL_TRY(status);
    arm_source source = {j->store, &arm, t, {.best = e->wish.best}};
    if (kind == ROW_ROUTER)
        source.which.at = j->versions;
    const int n_paths = pl_topology_n_paths(t);
    const bool answers =
        pl_answers_by_likelihood(j->r->cfg.answer, (int)j->r->cfg.prefix, n_paths);
    if (kind == ROW_ROUTER && n_paths > 1 && (answers || e->wish.n_every > 0)) {
        e->answer = answers ? ROW_LIKELIHOOD : ROW_ROUTER;
        PL_TRY(score_ways(j, &source));
    } else if (n_paths > 1) {
        PL_TRY(pl_score_routed(j->scorer, j->r->valid, e->docs, e->path_of, e->n_docs,
                               load_arm_path, &source, scores_of(e, kind)));
    } else {
        PL_TRY(load_arm_path(&source, 0, j->params));
        PL_TRY(pl_scorer_load(j->scorer, j->params));
        PL_TRY(pl_score_documents(j->scorer, j->r->valid, e->docs, e->n_docs,
                                  scores_of(e, kind)));
    }
    const uint64_t prefix = (uint64_t)j->r->cfg.prefix;
    double all = 0, in_prefix = 0; /* tokens of the documents */
    for (size_t i = 0; i < e->n_docs; i++) {
        const uint64_t n = pl_tokens_doc(j->r->valid, e->docs[i])->n_tokens;
        all += (double)n;
        in_prefix += (double)(n < prefix ? n : prefix);
    }
    for (int i = kind; i < ROW_COUNT && strcmp(e->rows[i].arm, name) == 0; i++) {
        if (!e->rows[i].present)
            continue;
        evaluation_row *w = &e->rows[i];
        size_t n_domains = pl_tokens_n_domains(j->r->valid);
        w->score = pl_score_sum(w->scores, e->n_docs);
        w->ppl = pl_perplexity(&w->score);
        const pl_score first = pl_first_windows(&w->score);
        w->ppl_first = pl_perplexity(&first);
        w->bits = pl_bits_per_byte(&w->score, e->n_bytes);
        w->by_domain = pl_alloc((n_domains ? n_domains : 1) * sizeof *w->by_domain);
        pl_score_by_domain(j->r->valid, e->docs, w->scores, e->n_docs, w->by_domain);
        w->ppl_macro = pl_macro_perplexity(w->by_domain, n_domains);
        /* The likelihood of the prefix needs all paths there, and choosing again needs
         * them everywhere. The router costs next to nothing. */
        double read = 1; /* tokens that paths read per token of the text */
        if (i == ROW_REROUTED)
            read = e->n_open;
        else if (i == ROW_LIKELIHOOD)
            read = 1 + (e->n_open - 1) * in_prefix / all;
        w->flops_read = read * pl_topology_flops_per_token(t, arm.inner.context, false);
        w->n_params = pl_topology_total_params(t);
        const pl_spent *s = &j->spent[i];
        const int n = n_paths * pl_topology_n_replicas(t);
        w->effort = pl_effort_of(
            s, i == ROW_BASE ? NULL : &j->spent[ROW_BASE],
            i == ROW_BATCH ? j->trainings : 1,
            pl_topology_flops_per_token(t, arm.inner.context, true), e->rate);
        w->finished = (arm.inner.phases == 0 ||
                       (s->n == n && s->least_phase >= arm.inner.phases)) &&
                      run_is_last_chapter(j->r, arm.name);
    }
done:
    pl_topology_destroy(&t);
    pl_arm_clear(&arm);
    return status;
}

static pl_status route_valid(job *j)
{
    const pl_tokens *valid = j->r->valid;
    const size_t prefix = (size_t)j->r->cfg.prefix;
    char object[PL_MODULE_NAME_MAX];
    pl_buf bytes = {0};
    int32_t *text = pl_alloc(prefix * sizeof *text);
    double *nats = NULL;
    snprintf(object, sizeof object, "router/%s", j->e->chapter);
    pl_status status = pl_store_read_object(j->store, object, &bytes);
    if (status == PL_ERR_NOT_FOUND)
        status = pl_fail(
            status,
            "the run in %s has no router yet: its base model is not trained yet",
            j->r->dir);
    PL_TRY(status);
    PL_TRY(pl_prefix_lm_decode(bytes.data, bytes.len, pl_cpu_count(), &j->router));
    const int n_paths = pl_prefix_lm_n_paths(j->router);
    if (n_paths != pl_topology_n_paths(j->r->topology))
        PL_TRY(pl_fail(PL_ERR_DAMAGED,
                       "the router in the store has %d paths, but the mixture has %d",
                       n_paths, pl_topology_n_paths(j->r->topology)));
    for (int path = 0; path < n_paths; path++)
        j->e->n_open += !j->closed || !j->closed[path];
    nats = pl_alloc((size_t)n_paths * sizeof *nats);
    for (size_t i = 0; i < j->e->n_docs; i++) {
        const pl_token_doc *doc = pl_tokens_doc(valid, j->e->docs[i]);
        size_t n = doc->n_tokens < prefix ? doc->n_tokens : prefix;
        pl_tokens_copy(valid, doc->first, n, text);
        pl_prefix_lm_nats(j->router, text, (int)n, nats);
        for (int path = 0; j->closed && path < n_paths; path++)
            nats[path] = j->closed[path] ? INFINITY : nats[path];
        j->e->path_of[i] = pl_least_evidence(nats, n_paths);
    }
done:
    pl_free_all(nats, text);
    pl_buf_destroy(&bytes);
    return status;
}

/* Reads the tokens and seconds for which each arm was trained, and the mean rate. */
static pl_status read_spent(job *j)
{
    uint64_t tokens = 0;
    double seconds = 0;
    for (int i = 0; i < ROW_COUNT; i++) {
        if (i > 0 && strcmp(kinds[i].arm, kinds[i - 1].arm) == 0) {
            j->spent[i] = j->spent[i - 1];
            continue;
        }
        /* The mixture has the tokens and the time of all its chapters, and the other
         * numbers (n, least_phase) of the newest chapter. */
        pl_spent *s = &j->spent[i];
        const bool is_mix = pl_arm_chapter(kinds[i].arm) >= 0;
        for (int c = 0; c <= (is_mix ? pl_arm_chapter(j->e->chapter) : 0); c++) {
            char chapter[PL_ARM_NAME_MAX], prefix[PL_ARM_NAME_MAX + 2];
            pl_spent one = {0};
            pl_chapter_name(c, chapter);
            snprintf(prefix, sizeof prefix, "%s/", is_mix ? chapter : kinds[i].arm);
            PL_CHECK(pl_store_each_path(j->store, prefix, add_path, &one));
            s->tokens += one.tokens;
            s->mean += one.n > 0 ? one.tokens / (uint64_t)one.n : 0;
            s->longest += one.longest;
            s->seconds += one.seconds;
            s->n = one.n;
            s->least_phase = one.least_phase;
        }
        tokens += s->tokens;
        seconds += s->seconds;
    }
    j->e->rate = seconds > 0 ? (double)tokens / seconds : 0;
    return PL_OK;
}

pl_status evaluation_open_valid(pl_run *r)
{
    char path[PL_PATH_MAX];
    pl_status status =
        pl_tokens_open(run_file(r, "data/valid.tok", path), true, &r->valid);
    if (status == PL_ERR_DAMAGED || status == PL_ERR_NOT_FOUND)
        return pl_fail(status,
                       "%s; delete the folder %s/data, and `pathloom train --out %s` "
                       "makes it again",
                       pl_last_error(), r->dir, r->dir);
    return status;
}

/* Checks that the base model is trained, and that its parameters can be read. */
static pl_status check_base(job *j)
{
    pl_arm arm;
    pl_topology *t = NULL;
    pl_status status = pl_read_arm(j->store, "base", &arm, &t);
    if (status == PL_ERR_NOT_FOUND)
        return pl_fail(
            PL_ERR_NOT_FOUND,
            "the run in %s has no base model yet; continue its training first",
            j->r->dir);
    if (status == PL_OK)
        status = pl_read_path(j->store, &arm, t, 0, (pl_which){.at = NULL}, j->params);
    pl_topology_destroy(&t);
    pl_arm_clear(&arm);
    return status;
}

/* Lists the documents to score in e->docs, and counts their tokens and bytes.
 * ERR_NOT_FOUND: no document has the wished domain. ERR_DATA: no document is longer
 * than the prefix. */
static pl_status choose_documents_to_score(const pl_run *r, evaluation *e)
{
    const char *domain = e->wish.domain;
    const size_t all = pl_tokens_n_docs(r->valid);
    pl_tokenizer *tokenizer = NULL;
    pl_status status = PL_OK;
    size_t n = 0;
    e->docs = pl_alloc((all ? all : 1) * sizeof *e->docs);
    e->path_of = pl_alloc((all ? all : 1) * sizeof *e->path_of);
    for (size_t i = 0; i < all; i++)
        if (!domain ||
            strcmp(domain,
                   pl_tokens_domain(r->valid,
                                    pl_tokens_doc(r->valid, (uint32_t)i)->domain)) == 0)
            e->docs[n++] = (uint32_t)i;
    if (n == 0 && domain)
        return pl_fail(PL_ERR_NOT_FOUND,
                       "no document of this text has the domain `%s`; `pathloom eval` "
                       "lists the domains",
                       domain);
    e->n_docs = pl_pick_documents(r->valid, (int)r->cfg.prefix,
                                  (uint64_t)r->cfg.eval_tokens, e->docs, n);
    for (size_t i = 0; i < e->n_docs; i++)
        e->n_targets += pl_counted_targets(r->valid, e->docs[i], (int)r->cfg.prefix);
    if (e->n_docs == 0)
        return pl_fail(PL_ERR_DATA,
                       "no document is longer than the prefix of %lld tokens, so there "
                       "is nothing to score; give longer documents",
                       (long long)r->cfg.prefix);
    e->bytes = pl_alloc(e->n_docs * sizeof *e->bytes);
    PL_TRY(run_load_tokenizer(r, &tokenizer));
    bool lost = false;
    for (size_t i = 0; i < e->n_docs; i++) {
        PL_TRY(pl_counted_bytes(r->valid, e->docs[i], (int)r->cfg.prefix, tokenizer,
                                &e->bytes[i], &lost));
        e->n_bytes += e->bytes[i];
    }
    if (lost)
        e->n_bytes = 0;
done:
    pl_tokenizer_destroy(&tokenizer);
    return status;
}

pl_status evaluate(pl_run *r, pl_store *store, const evaluation_wish *wish,
                   evaluation *out)
{
    pl_status status = PL_OK;
    double start = pl_now();
    job j = {.r = r, .store = store, .e = out};
    char file[PL_PATH_MAX];
    memset(out, 0, sizeof *out);
    if (wish)
        out->wish = *wish;
    PL_TRY(choose_documents_to_score(r, out));
    j.trainings = (double)run_path_phases(r) / (double)r->cfg.phases;
    for (int i = 0; i < ROW_COUNT; i++) {
        evaluation_row *w = &out->rows[i];
        w->arm = kinds[i].arm;
        w->name = kinds[i].name;
        w->brief = kinds[i].brief;
        if (kinds[i].title)
            pl_copy_text(w->title, sizeof w->title, kinds[i].title);
        else
            snprintf(w->title, sizeof w->title, "one machine, %.3g x the time",
                     j.trainings);
    }
    pl_json *o = NULL;
    double domains = 0;
    out->purity = out->nmi = out->purity_k8 = NAN;
    if (pl_json_load(run_file(r, "router.json", file), &o) == PL_OK &&
        pl_json_number(pl_json_get(o, "domains"), &domains) && domains > 1) {
        pl_json_number(pl_json_get(o, "purity"), &out->purity);
        pl_json_number(pl_json_get(o, "nmi"), &out->nmi);
        pl_json_number(pl_json_get(o, "purity_k8"), &out->purity_k8);
    }
    pl_json_destroy(&o);
    pl_newest_chapter(store, out->chapter);
    if (out->wish.mixture.at) {
        PL_TRY(mixture_tag(store, out->wish.mixture.at, &j.tag));
        j.versions = &j.tag;
    }
    if (out->wish.versions)
        j.versions = out->wish.versions;
    if (j.versions)
        pl_copy_text(out->chapter, sizeof out->chapter, j.versions->arm);
    PL_TRY(run_use_chapter(r, pl_arm_chapter(out->chapter)));
    if (out->wish.mixture.without)
        PL_TRY(pl_close_paths(r->topology, out->wish.mixture.without, &j.closed));
    const pl_backend_options backend = run_own_backend(r);
    const pl_scorer_options options = {.topology = r->topology,
                                       .backend = backend.name,
                                       .precision = backend.precision,
                                       .n_threads = pl_cpu_count(),
                                       .step = pl_window_step((int)r->cfg.context),
                                       .prefix = (int)r->cfg.prefix};
    PL_TRY(pl_try_alloc(pl_topology_path_params(r->topology) * sizeof(float),
                        "a path's parameters", (void **)&j.params));
    PL_TRY(pl_scorer_create(&options, &j.scorer));
    PL_TRY(check_base(&j));
    PL_TRY(read_spent(&j));
    PL_TRY(route_valid(&j));
    PL_TRY(fill_rows(&j, ROW_ROUTER));
    for (int kind = ROW_DENSE; kind < ROW_COUNT && !out->wish.only_mixture; kind++)
        PL_TRY(fill_rows(&j, (row_kind)kind));
    PL_TRY(pl_tokens_check(r->valid));
    out->seconds = pl_now() - start;
done:
    pl_snapshot_clear(&j.tag);
    pl_free(j.closed);
    pl_prefix_lm_destroy(&j.router);
    pl_scorer_destroy(&j.scorer);
    pl_free(j.params);
    return status;
}
