/* Chooses the path that answers a prompt: by the router, or by likelihood
 * (path_chooser.h). */
#include "serve/path_chooser.h"
#include "serve/serve.h"

#include <math.h>

/* A place that holds one path in memory, so that likelihoods under this path can be
 * computed. */
typedef struct scoring {
    pl_pooled_path *pooled; /* NULL: no path was read yet */
    int path; /* number of the held path; -1: none, or it must be read again */
} scoring;

struct pl_path_chooser {
    const pl_answer_settings *settings;
    pl_store *store;
    pl_prefix_lm *router; /* NULL: not read yet */
    /* the fields below are used if paths are chosen by likelihood */
    pl_backend *backend; /* computes likelihoods */
    pl_module_pool *pool;
    pl_model *model;   /* computes the losses of one path after another */
    const pl_arm *arm; /* NULL: the newest chapter, or that of the tag */
    const pl_topology *topology;
    scoring *scorings; /* [n_held] path p is held in scorings[p modulo n_held] */
    int n_held;        /* largest number of held paths; 0: the router chooses */
    double *nats;      /* [n_paths] each path's nats of the last prompt */
    double *costs;     /* [n_paths] the router's costs; used in both ways of choosing */
};

pl_status pl_path_chooser_open(const pl_answer_settings *settings, pl_store *store,
                               pl_path_chooser **out)
{
    const pl_backend_options backend = {
        .name = settings->backend, .n_threads = 1, .precision = settings->precision};
    pl_path_chooser *c = pl_alloc(sizeof *c);
    c->settings = settings;
    c->store = store;
    const pl_status status = pl_backend_open(&backend, &c->backend);
    if (status == PL_OK)
        c->pool = pl_module_pool_create(c->backend, store);
    else
        pl_path_chooser_close(&c);
    *out = c;
    return status;
}

void pl_path_chooser_close(pl_path_chooser **chooser)
{
    pl_path_chooser *c = *chooser;
    if (!c)
        return;
    for (int i = 0; i < c->n_held; i++)
        pl_module_pool_close(c->pool, &c->scorings[i].pooled);
    pl_free(c->scorings);
    pl_model_destroy(&c->model);
    pl_module_pool_destroy(&c->pool);
    pl_free_all(c->nats, c->costs);
    pl_prefix_lm_destroy(&c->router);
    pl_backend_close(&c->backend);
    pl_free(c);
    *chooser = NULL;
}

/* ---- by the router ---- */
pl_status pl_path_chooser_by_router(pl_path_chooser *c)
{
    pl_buf bytes = {0};
    char chapter[PL_ARM_NAME_MAX], name[PL_MODULE_NAME_MAX];
    if (c->router)
        return PL_OK;
    if (c->arm)
        pl_copy_text(chapter, sizeof chapter, c->arm->name);
    else if (c->settings->which.at)
        pl_copy_text(chapter, sizeof chapter, c->settings->which.at->arm);
    else
        pl_newest_chapter(c->store, chapter);
    snprintf(name, sizeof name, "router/%s", chapter);
    pl_status status = pl_store_read_object(c->store, name, &bytes);
    if (status == PL_OK)
        status = pl_prefix_lm_decode(bytes.data, bytes.len, 1, &c->router);
    pl_buf_destroy(&bytes);
    if (status == PL_OK)
        c->costs = pl_alloc((size_t)pl_prefix_lm_n_paths(c->router) * sizeof *c->costs);
    return status;
}

const pl_prefix_lm *pl_path_chooser_router(const pl_path_chooser *c)
{
    return c->router;
}

/* ---- by likelihood ---- */
uint64_t pl_path_chooser_bytes(const pl_path_chooser *c, const pl_topology *topology)
{
    pl_model_plan plan;
    const pl_model_options model = {.batch = 1, .context = c->settings->prefix};
    pl_model_plan_on(c->backend, topology, &model, &plan);
    return pl_modules_bytes(c->backend, topology) + pl_model_plan_sum(&plan) -
           plan.params_bytes;
}

pl_status pl_path_chooser_by_likelihood(pl_path_chooser *c, const pl_arm *arm,
                                        const pl_topology *topology, int n_held)
{
    const pl_model_options model = {.batch = 1, .context = c->settings->prefix};
    c->arm = arm;
    c->topology = topology;
    c->nats = pl_alloc((size_t)pl_topology_n_paths(topology) * sizeof *c->nats);
    c->scorings = pl_alloc((size_t)n_held * sizeof *c->scorings);
    c->n_held = n_held;
    pl_path_chooser_reload(c);
    return pl_model_create(c->backend, topology, &model, &c->model);
}

pl_status pl_path_chooser_follow(pl_path_chooser *c, const pl_arm *arm,
                                 const pl_topology *topology)
{
    c->arm = arm;
    if (!pl_answers_by_likelihood(c->settings->rule, c->settings->prefix,
                                  pl_topology_n_paths(topology)))
        return PL_OK;
    return pl_path_chooser_by_likelihood(c, arm, topology, 1);
}

void pl_path_chooser_reload(pl_path_chooser *c)
{
    for (int i = 0; i < c->n_held; i++)
        c->scorings[i].path = -1;
}

/* Makes the model use the parameters of this path. If the path is not in memory, it is
 * read, and replaces the path that had its place. That path is closed only after the
 * new one was read, so that modules that both paths use are not read again. */
static pl_status hold_path(pl_path_chooser *c, int path)
{
    scoring *s = &c->scorings[path % c->n_held];
    const pl_path_source source = {c->arm, c->topology, path, c->settings->which};
    if (s->path != path) {
        pl_pooled_path *now;
        s->path = -1;
        PL_CHECK(pl_module_pool_open(c->pool, &source, &now));
        pl_module_pool_close(c->pool, &s->pooled);
        s->pooled = now;
        s->path = path;
    }
    return pl_model_use(c->model, pl_pooled_path_table(s->pooled));
}

/* Sets `costs` to the router's nats; those of closed paths are infinite, so that they
 * are never chosen. */
static void set_costs(const pl_path_chooser *c, const int32_t *tokens, int n,
                      double *costs)
{
    pl_prefix_lm_nats(c->router, tokens, n, costs);
    for (int path = 0; path < pl_prefix_lm_n_paths(c->router); path++)
        if (pl_path_is_closed(c->settings, path))
            costs[path] = INFINITY;
}

/* Returns the first path whose parameters must still be read; -1 if there is none. */
static int missing_path(const pl_path_chooser *c)
{
    for (int path = 0; c->n_held > 0 && path < pl_topology_n_paths(c->topology); path++)
        if (c->scorings[path % c->n_held].path != path &&
            !pl_path_is_closed(c->settings, path))
            return path;
    return -1;
}

bool pl_path_chooser_is_ready(const pl_path_chooser *c)
{
    return missing_path(c) < 0;
}

pl_status pl_path_chooser_read_one(pl_path_chooser *c)
{
    const int path = missing_path(c);
    return path < 0 ? PL_OK : hold_path(c, path);
}

pl_status pl_path_chooser_choose(pl_path_chooser *c, const int32_t *tokens, int n,
                                 pl_path_choice *out)
{
    const int seen = n < c->settings->prefix ? n : c->settings->prefix;
    memset(out, 0, sizeof *out);
    if (c->n_held == 0 || seen < 2) {
        PL_CHECK(pl_path_chooser_by_router(c));
        set_costs(c, tokens, n, c->costs);
        return pl_likelihood_choose(c->costs, pl_prefix_lm_n_paths(c->router),
                                    &out->path, &out->margin_nats);
    }
    for (int path = 0; path < pl_topology_n_paths(c->topology); path++) {
        c->nats[path] = INFINITY;
        if (pl_path_is_closed(c->settings, path))
            continue;
        PL_CHECK(hold_path(c, path));
        PL_CHECK(pl_likelihood_nats(c->model, tokens, seen, &c->nats[path]));
    }
    if (n > seen) {
        /* the router's nats of the later tokens */
        const int n_paths = pl_topology_n_paths(c->topology);
        PL_CHECK(pl_path_chooser_by_router(c)); /* allocates c->costs */
        PL_CHECK(pl_path_chooser_costs(c, tokens + seen - 1, n - seen + 1, n_paths,
                                       c->costs));
        for (int path = 0; path < n_paths; path++)
            c->nats[path] += c->costs[path];
    }
    out->by_likelihood = true;
    out->nats = c->nats;
    return pl_likelihood_choose(c->nats, pl_topology_n_paths(c->topology), &out->path,
                                &out->margin_nats);
}

pl_status pl_path_chooser_costs(pl_path_chooser *c, const int32_t *tokens, int n,
                                int n_paths, double *costs)
{
    PL_CHECK(pl_path_chooser_by_router(c));
    if (pl_prefix_lm_n_paths(c->router) != n_paths)
        return pl_fail(PL_ERR_DAMAGED,
                       "the router in the store has %d paths, but the mixture has %d; "
                       "run `pathloom store fsck`",
                       pl_prefix_lm_n_paths(c->router), n_paths);
    set_costs(c, tokens, n, costs);
    return PL_OK;
}
