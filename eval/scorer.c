/* Scores documents: cuts them into windows in document order, fills batches of a fixed
 * size, and runs one model per thread. */
#include "eval/scorer.h"

enum { TOKENS_A_CALL = 2048 };

/* The model of one thread, and its buffers [batch, context]. */
typedef struct lane {
    pl_backend *backend; /* NULL if the model is borrowed */
    pl_model *model;
    int32_t *tokens, *targets;
    float *losses;
} lane;

struct pl_scorer {
    pl_scorer_options options;
    lane *lanes;
    int n_lanes;
    bool loaded;
};

pl_status pl_scorer_create(const pl_scorer_options *options, pl_scorer **out)
{
    *out = NULL;
    const int longest = pl_topology_shape(options->topology)->context;
    if ((options->n_threads < 1 && !options->model) || options->batch < 0 ||
        options->prefix < 0)
        return pl_fail(PL_ERR_ARG,
                       "a scorer needs 1 or more threads (not %d), a batch of 0 or "
                       "more (not %d) and a prefix of 0 or more (not %d)",
                       options->n_threads, options->batch, options->prefix);
    if (options->step < 0 ||
        options->step > (options->context > 0 ? options->context : longest))
        return pl_fail(PL_ERR_ARG,
                       "windows for scoring cannot be shifted by %d tokens: give 1 to "
                       "the length of a window",
                       options->step);
    if (options->context < 0 || options->context > longest)
        return pl_fail(
            PL_ERR_CONFIG,
            "windows of %d tokens for scoring are negative or exceed the model's "
            "context of %d tokens; make them shorter",
            options->context, longest);
    pl_status status = PL_OK;
    pl_scorer *scorer = pl_alloc(sizeof *scorer);
    scorer->options = *options;
    pl_scorer_options *const o = &scorer->options;
    if (o->context == 0)
        o->context = longest;
    if (o->step == 0)
        o->step = o->context;
    if (o->batch == 0)
        o->batch = (TOKENS_A_CALL + o->context - 1) / o->context;
    int n_lanes = options->model ? 1 : options->n_threads;
    scorer->lanes = pl_alloc((size_t)n_lanes * sizeof *scorer->lanes);
    scorer->loaded = options->model != NULL;
    const pl_model_options model = {.batch = o->batch, .context = o->context};
    const size_t n = (size_t)o->batch * (size_t)o->context;
    while (scorer->n_lanes < n_lanes) {
        /* on GPUs, lane i computes on GPU i */
        const pl_backend_options backend = {.name = o->backend,
                                            .n_threads = 1,
                                            .precision = o->precision,
                                            .device = scorer->n_lanes,
                                            .device_turns = true};
        lane *l = &scorer->lanes[scorer->n_lanes++];
        l->model = o->model;
        if (!o->model) {
            PL_TRY(pl_backend_open(&backend, &l->backend));
            PL_TRY(pl_model_create(l->backend, o->topology, &model, &l->model));
        }
        PL_TRY(pl_try_alloc(n * (2 * sizeof(int32_t) + sizeof(float)),
                            "a batch of windows to score", (void **)&l->tokens));
        l->targets = l->tokens + n;
        l->losses = (float *)(l->targets + n);
        if (l->backend && l->backend->n_devices > 0 && l->backend->n_devices < n_lanes)
            n_lanes = l->backend->n_devices;
    }
    *out = scorer;
    scorer = NULL;
done:
    pl_scorer_destroy(&scorer);
    return status;
}

void pl_scorer_destroy(pl_scorer **scorer)
{
    if (!*scorer)
        return;
    for (int i = 0; i < (*scorer)->n_lanes; ++i) {
        lane *l = &(*scorer)->lanes[i];
        pl_free(l->tokens);
        if (l->backend)
            pl_model_destroy(&l->model);
        pl_backend_close(&l->backend);
    }
    pl_free_all((*scorer)->lanes, *scorer);
    *scorer = NULL;
}

const pl_scorer_options *pl_scorer_settings(const pl_scorer *scorer)
{
    return &scorer->options;
}

pl_status pl_scorer_load(pl_scorer *scorer, const float *params)
{
    for (int i = 0; i < scorer->n_lanes; ++i)
        PL_CHECK(pl_model_load(scorer->lanes[i].model, params));
    scorer->loaded = true;
    return PL_OK;
}

typedef struct window {
    size_t row;     /* index of the window's document in `docs` */
    uint64_t first; /* index in the file of the window's first token */
    /* index of the window's first target among the targets of all listed documents */
    uint64_t place;
    uint32_t n;    /* number of targets */
    uint32_t skip; /* number of targets at the window's start that do not count */
} window;

typedef struct pass {
    pl_scorer *scorer;
    const pl_tokens *tokens;
    int prefix;
    window *windows;
    size_t n_windows;
    double *nats; /* [n_windows] sum of the losses of each window */
    /* losses of all targets; the losses of a window begin at index `place`; NULL: only
     * sums are computed */
    float *losses;
} pass;

/* A batch is as wide as its longest window. */
static pl_status score_batch(void *context, size_t item, int thread)
{
    pass *p = context;
    lane *l = &p->scorer->lanes[thread];
    size_t batch = (size_t)p->scorer->options.batch, first = item * batch, T = 0;
    size_t B = p->n_windows - first < batch ? p->n_windows - first : batch;
    const pl_scorer_options *options = &p->scorer->options;
    if (options->check)
        PL_CHECK(options->check(options->check_context));
    for (size_t b = 0; b < B; ++b)
        if (p->windows[first + b].n > T)
            T = p->windows[first + b].n;
    for (size_t b = 0; b < B; ++b) {
        const window *w = &p->windows[first + b];
        int32_t *tokens = l->tokens + b * T, *targets = l->targets + b * T;
        pl_tokens_copy(p->tokens, w->first, w->n, tokens);
        pl_tokens_copy(p->tokens, w->first + 1, w->n, targets);
        for (size_t t = 0; t < w->skip; ++t)
            targets[t] = -1;
        for (size_t t = w->n; t < T; ++t) {
            tokens[t] = 0;
            targets[t] = -1;
        }
    }
    PL_CHECK(
        pl_model_losses(l->model, l->tokens, l->targets, (int)B, (int)T, l->losses));
    for (size_t b = 0; b < B; ++b) {
        const window *w = &p->windows[first + b];
        for (size_t t = 0; t < T; ++t) /* nats begins as zeros */
            p->nats[first + b] += (double)l->losses[b * T + t];
        if (p->losses)
            memcpy(p->losses + w->place + w->skip, l->losses + b * T + w->skip,
                   (w->n - w->skip) * sizeof *l->losses);
    }
    return PL_OK;
}

static pl_status run_pass(pass *p, const uint32_t *docs, size_t n)
{
    const size_t batch = (size_t)p->scorer->options.batch;
    const uint32_t T = (uint32_t)p->scorer->options.context;
    const uint32_t S = (uint32_t)p->scorer->options.step;
    size_t most = 0; /* upper bound of the number of windows */
    if (!p->scorer->loaded)
        return pl_fail(PL_ERR_ARG, "a scorer was used before parameters were loaded");
    for (size_t i = 0; i < n; ++i) {
        if (docs[i] >= pl_tokens_n_docs(p->tokens))
            return pl_fail(
                PL_ERR_ARG,
                "document %u does not exist: the token file has %u documents", docs[i],
                pl_tokens_n_docs(p->tokens));
        most += pl_doc_targets(pl_tokens_doc(p->tokens, docs[i])) / S + 1;
    }
    PL_CHECK(pl_try_alloc(most * (sizeof(window) + sizeof(double)),
                          "evaluation windows", (void **)&p->windows));
    p->nats = (double *)(p->windows + most);
    uint64_t place = 0;
    /* Cuts the windows of each document in which at least one target counts that no
     * window before has counted. A blank document has no such window. */
    for (size_t i = 0; i < n; ++i) {
        const pl_token_doc *doc = pl_tokens_doc(p->tokens, docs[i]);
        const uint32_t n_targets = pl_doc_targets(doc);
        const bool blank = pl_tokens_is_blank(p->tokens, docs[i]);
        for (uint32_t at = 0; at < n_targets && !blank; at += S) {
            const uint32_t length = n_targets - at < T ? n_targets - at : T;
            const uint32_t skip = pl_window_skip(at, (uint32_t)p->prefix, T, S);
            if (skip < length)
                p->windows[p->n_windows++] =
                    (window){i, doc->first + at, place + at, length, skip};
        }
        place += n_targets;
    }
    return pl_parallel(p->scorer->n_lanes, (p->n_windows + batch - 1) / batch,
                       score_batch, p);
}

pl_status pl_score_documents(pl_scorer *scorer, const pl_tokens *tokens,
                             const uint32_t *docs, size_t n, pl_score *scores)
{
    memset(scores, 0, n * sizeof *scores);
    pass p = {.scorer = scorer, .tokens = tokens, .prefix = scorer->options.prefix};
    pl_status status = run_pass(&p, docs, n);
    for (size_t i = 0; status == PL_OK && i < p.n_windows; ++i) {
        const window *w = &p.windows[i];
        pl_score *score = &scores[w->row];
        score->nats += p.nats[i];
        score->n_targets += w->n - w->skip;
        if (w->first == pl_tokens_doc(tokens, docs[w->row])->first) {
            score->first_nats = p.nats[i];
            score->n_first = w->n - w->skip;
        }
    }
    pl_free(p.windows);
    return status;
}

pl_status pl_score_targets(pl_scorer *scorer, const pl_tokens *tokens,
                           const uint32_t *docs, size_t n, float *losses)
{
    pass p = {.scorer = scorer, .tokens = tokens, .losses = losses};
    pl_status status = run_pass(&p, docs, n);
    pl_free(p.windows);
    return status;
}
