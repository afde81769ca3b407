/* Assigns training documents to paths: fits the router of a run, and deals the
 * documents to shards. */
#include "job/stages.h"

/* The largest memory for a list. A longer list is kept in a file, and a router is
 * fitted to only as many documents as fit into this memory. */
enum { ROUTER_BYTES = 1 << 30 };

pl_status routing_alloc(const pl_run *r, uint64_t bytes, const char *what, void **out)
{
    if (bytes > ROUTER_BYTES)
        return pl_map_scratch(r->dir, (size_t)bytes, out);
    return pl_try_alloc((size_t)bytes, what, out);
}

void routing_free(void *memory, uint64_t bytes)
{
    if (bytes > ROUTER_BYTES)
        pl_unmap_scratch(memory, (size_t)bytes);
    else
        pl_free(memory);
}

static uint64_t features_bytes(const routing *g)
{
    return (uint64_t)g->n * (uint64_t)g->dim * sizeof *g->features;
}

void routing_clear(routing *g)
{
    routing_free(g->features, features_bytes(g));
    pl_free(g->tokens);
    pl_router_destroy(&g->router);
    pl_prefix_lm_destroy(&g->answers);
    pl_shards_clear(&g->shards);
    pl_free_all(g->held, g->held_first, g->sizes, g->domains);
}

pl_router_options routing_options(const pl_run *r, const routing *g, int n_paths)
{
    const pl_topology_spec *spec = pl_topology_get_spec(g->topology);
    pl_router_options o;
    memset(&o, 0, sizeof o);
    o.kind = strcmp(r->cfg.router_kind, "product") == 0 ? PL_ROUTER_PRODUCT
                                                        : PL_ROUTER_KMEANS;
    o.n_paths = n_paths;
    o.n_levels = spec->n_levels;
    memcpy(o.experts, spec->experts, sizeof o.experts);
    o.restarts = 8;
    o.iterations = 100;
    o.balance = r->cfg.balance;
    o.weights = g->tokens;
    o.standardize = o.unit = true;
    o.sharpen = 3;
    o.components = (int)(r->cfg.components < r->cfg.width ? r->cfg.components : 0);
    o.seed = (uint64_t)r->cfg.seed;
    o.n_threads = pl_cpu_count();
    o.memory = ROUTER_BYTES;
    return o;
}

bool routing_scores(const pl_run *r, uint32_t document)
{
    const uint64_t hash = pl_tokens_doc(r->train, document)->hash;
    return r->cfg.em[0] &&
           pl_random_uniform((uint64_t)r->cfg.seed, pl_stream("router-data", 0, 0),
                             hash) < r->cfg.share;
}

bool routing_holds(const pl_run *r, uint32_t document)
{
    const uint64_t hash = pl_tokens_doc(r->train, document)->hash;
    return r->cfg.holdout > 0 && !routing_scores(r, document) &&
           pl_random_uniform((uint64_t)r->cfg.seed, pl_stream("hold-out", 0, 0), hash) <
               r->cfg.holdout;
}

pl_status routing_fit_answers(const pl_run *r, routing *g)
{
    enum { WINDOWS = 16 };
    const pl_prefix_lm_job job = {.tokens = r->train,
                                  .length = (int)r->cfg.context,
                                  .windows = WINDOWS,
                                  .n_paths = g->shards.n_paths,
                                  .n_threads = pl_cpu_count()};
    return pl_prefix_lm_count(&job, g->shards.path_of, &g->answers);
}

static pl_status deal(pl_run *r, routing *g)
{
    const int overlap = (int)r->cfg.overlap;
    PL_CHECK(run_stopped(r));
    PL_CHECK(pl_shards_make(g->router, g->features, g->n, overlap, &g->shards));
    PL_CHECK(routing_fit_answers(r, g));
    /* Removes from the shards all documents on which no arm trains, and lists each
     * path's held-out documents. If all documents of a path would be removed, the path
     * trains on them anyway. */
    pl_shards *shards = &g->shards;
    const int n_paths = shards->n_paths;
    size_t kept = 0, from = 0, n_held = 0;
    char name[PL_NAME_MAX];
    g->held = pl_alloc((shards->first[n_paths] + 1) * sizeof *g->held);
    g->held_first = pl_alloc(((size_t)n_paths + 1) * sizeof *g->held_first);
    for (int p = 0; p < n_paths; p++) {
        const size_t first = kept, begin = from, end = shards->first[p + 1];
        g->held_first[p] = n_held;
        for (; from < end; from++) {
            const uint32_t document = shards->docs[from];
            if (routing_holds(r, document))
                g->held[n_held++] = document;
            else if (!routing_scores(r, document))
                shards->docs[kept++] = document;
        }
        if (kept == first) {
            n_held = g->held_first[p];
            memmove(shards->docs + kept, shards->docs + begin,
                    (end - begin) * sizeof *shards->docs);
            kept += end - begin;
            pl_topology_path_name(g->topology, p, name);
            say("         all %zu documents of %s would be set aside (router.share %g, "
                "train.holdout %g), so this path trains on them",
                end - begin, name, r->cfg.em[0] ? r->cfg.share : 0.0, r->cfg.holdout);
        }
        shards->first[p + 1] = kept;
    }
    g->held_first[n_paths] = n_held;
    return PL_OK;
}

pl_status routing_look(pl_run *r, const float *params, routing *g)
{
    const config *c = &r->cfg;
    const int sees = (int)c->sees;
    g->n = pl_tokens_n_docs(r->train);
    g->dim = (int)c->width;
    PL_CHECK(pl_try_alloc(g->n * sizeof *g->tokens, "tokens of the documents",
                          (void **)&g->tokens));
    for (size_t i = 0; i < g->n; i++)
        g->tokens[i] = (double)pl_counted_targets(r->train, (uint32_t)i, 0);
    PL_CHECK(
        routing_alloc(r, features_bytes(g), "routing features", (void **)&g->features));
    bool done = false;
    PL_CHECK(stages_feature_tasks(r, params, g, &done));
    if (done)
        return run_stopped(r);
    const pl_backend_options backend = run_own_backend(r);
    pl_feature_job job = {.topology = r->topology,
                          .params = params,
                          .precision = backend.precision,
                          .backend = backend.name,
                          .prefix = config_feature_prefix(c),
                          .windows = sees,
                          .n_threads = pl_cpu_count()};
    PL_CHECK(pl_router_features(&job, r->train, g->features));
    return run_stopped(r);
}

pl_status routing_refit(pl_run *r, const float *params, const uint32_t *docs,
                        size_t n_docs, const double *scores, routing *g)
{
    PL_CHECK(routing_look(r, params, g));
    enum { ITERATIONS = 500 };
    const size_t dim = (size_t)r->cfg.width;
    float *few = NULL;
    pl_router_options options = routing_options(r, g, pl_topology_n_paths(g->topology));
    g->how = "linear";
    options.kind = PL_ROUTER_LINEAR;
    options.iterations = ITERATIONS;
    options.sharpen = options.components = 0;
    options.unit = false;
    options.scores = scores;
    options.decay = 0.01;
    options.balance = 0;
    options.weights = NULL;
    const uint64_t bytes = (uint64_t)n_docs * dim * sizeof *few;
    PL_CHECK(routing_alloc(r, bytes, "features of scored documents", (void **)&few));
    for (size_t i = 0; i < n_docs; i++)
        memcpy(few + i * dim, g->features + docs[i] * dim, dim * sizeof *few);
    pl_status status = pl_router_fit(few, n_docs, g->dim, &options, &g->router);
    routing_free(few, bytes);
    PL_CHECK(status);
    options = routing_options(r, g, pl_topology_n_paths(g->topology));
    PL_CHECK(pl_router_price(g->router, g->features, g->n, &options));
    return deal(r, g);
}

pl_status routing_fit(pl_run *r, const float *params, routing *g)
{
    PL_CHECK(routing_look(r, params, g));
    pl_router_options options = routing_options(r, g, pl_topology_n_paths(g->topology));
    char features[16], most[16];
    size_t stride = pl_router_stride(&options, g->n, g->dim);
    pl_human_bytes((double)features_bytes(g), features);
    pl_human_bytes((double)ROUTER_BYTES, most);
    if (features_bytes(g) > ROUTER_BYTES)
        say("router   the features of %zu documents take %s and are kept on the disk",
            g->n, features);
    if (stride > 1)
        say("router   the router is fitted to one of every %zu documents, so that it "
            "uses at most %s of memory",
            stride, most);
    PL_CHECK(pl_router_fit(g->features, g->n, g->dim, &options, &g->router));
    return deal(r, g);
}

pl_status routing_put(pl_run *r, const routing *g, const char *arm)
{
    char name[PL_MODULE_NAME_MAX];
    pl_buf bytes = {0};
    snprintf(name, sizeof name, "router/%s", arm);
    pl_status status = pl_prefix_lm_encode(g->answers, &bytes);
    if (status == PL_OK)
        status = stages_put_object(r, name, &bytes);
    pl_buf_destroy(&bytes);
    return status;
}
