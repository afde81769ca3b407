/* Keeps paths in memory. A path is a table of pointers to modules; each module is in
 * memory once (module_pool.h). When a request needs a path, its missing modules are
 * read from the store. If memory is too small, idle paths are dropped, first the path
 * that was not used for the longest time. When a path is dropped, its modules leave
 * memory, except those that another path uses.
 *
 * One engine computes all paths of one shape. So working memory, slots and their caches
 * do not grow with the number of paths. */
#include "serve/server_paths.h"

enum {
    /* a busy path gets new requests for at least this time, even if another path waits
     * for memory; without this limit the server might load paths all the time */
    STAY_MS = 1000,
    /* limit for the time of routing and embeddings between two steps, while requests
     * are being answered */
    ROUTE_MS = 20,
    ENGINES_MAX = 1 + SERVER_OTHERS_MAX
};

/* Computes paths of one shape. */
typedef struct engine {
    const pl_shape *shape;
    /* the model has no parameters of its own; it computes with those of a path */
    pl_model *model;
    pl_batch *batch;
} engine;

/* A path in memory. */
typedef struct loaded {
    pl_pooled_path *pooled;
    engine *engine;
    int number; /* the model's number in the list of models */
    /* number of reloads (server_paths.edition) when the path's versions were last found
     * to be the newest */
    int edition;
    /* no further request may use the path, because another path waits for memory */
    bool leaving;
    /* the path must not be dropped, because more paths are being loaded for the same
     * request */
    bool pinned;
    uint64_t asked;   /* number of the last use (server_paths.asked) */
    int64_t since_ms; /* time when the path was loaded */
} loaded;

struct server_paths {
    const pl_server_options *options;
    pl_mixture *mix;
    pl_path_chooser *chooser;
    pl_backend *backend;
    server_models *models;
    pl_module_pool *pool;
    engine engines[ENGINES_MAX]; /* the first engine is the mixture's */
    int n_engines;
    loaded **paths;
    int n_paths;
    uint64_t budget; /* limit for the bytes of modules in memory */
    int edition;     /* number of reloads so far */
    uint64_t asked;  /* number of uses of paths so far */
    /* Each step resets both. holds: an earlier request waits for several slots, so
     * later requests take no slots. short_of_memory: an earlier request waits for
     * memory, so later requests load no paths. */
    bool holds, short_of_memory;
    bool gated;       /* the router chooses paths, also when they are chosen again */
    double routing_s; /* seconds for routing and embeddings since the last step */
};

/* ---- opening ---- */
/* Decides whether paths are chosen by likelihood or by the router. *left is the free
 * memory in bytes. The modules that compute likelihoods must fit into a quarter of it,
 * and their size is subtracted from *left. */
static pl_status decide_routing(server_paths *p, uint64_t *left)
{
    char needed[16], room[16];
    const int n_paths = pl_topology_n_paths(p->mix->topology);
    if (!pl_answers_by_likelihood(p->mix->settings.rule, p->mix->settings.prefix,
                                  n_paths)) {
        p->gated = true;
        pl_log(PL_LOG_INFO, "serve.routing", "by=router paths=%d", n_paths);
        return PL_OK;
    }
    const uint64_t bytes = pl_path_chooser_bytes(p->chooser, p->mix->topology);
    pl_human_bytes((double)bytes, needed);
    pl_human_bytes((double)(*left / 4), room);
    if (bytes <= *left / 4) {
        *left -= bytes;
        pl_log(PL_LOG_INFO, "serve.routing", "by=likelihood paths=%d memory=\"%s\"",
               n_paths, needed);
        /* All paths are read now, so that the first request need not wait for them. */
        PL_CHECK(pl_path_chooser_by_likelihood(p->chooser, &p->mix->arm,
                                               p->mix->topology,
                                               pl_topology_n_paths(p->mix->topology)));
        while (!pl_path_chooser_is_ready(p->chooser))
            PL_CHECK(pl_path_chooser_read_one(p->chooser));
        return PL_OK;
    }
    if (strcmp(p->mix->settings.rule, "likelihood") == 0)
        return pl_fail(
            PL_ERR_NOMEM,
            "to route by likelihood, the server keeps the modules of all %d paths in "
            "memory a second time. They need %s, but may take only %s, a quarter of "
            "the free memory; free memory, or give --route router",
            n_paths, needed, room);
    p->gated = true;
    pl_log(PL_LOG_WARN, "serve.routing",
           "by=router paths=%d memory=\"%s\" room=\"%s\" reason=\"the modules for "
           "routing by likelihood do not fit into a quarter of the free memory\"",
           n_paths, needed, room);
    return PL_OK;
}

void pl_server_plan_bytes(const pl_backend *be, const pl_topology *t, int slots,
                          pl_server_plan *out)
{
    pl_model_plan plan;
    const pl_shape *s = pl_topology_shape(t);
    const pl_model_options model = {.batch = 1, .context = s->context};
    pl_model_plan_on(be, t, &model, &plan);
    /* the cache of each slot has room for the model's context */
    const uint64_t kv =
        (uint64_t)s->n_blocks * (uint64_t)s->n_kv_heads * (uint64_t)s->head_size;
    const uint64_t caches =
        2 * kv * (uint64_t)s->context * (uint64_t)slots * pl_type_bytes(be->act);
    *out = (pl_server_plan){.n_modules = pl_topology_n_modules(t),
                            .modules_bytes = pl_modules_bytes(be, t),
                            .path_bytes = pl_path_bytes(be, t),
                            .engine_bytes =
                                pl_model_plan_sum(&plan) - plan.params_bytes + caches};
    for (int slot = 0; slot < pl_topology_n_slots(t); slot++) {
        const uint64_t floats = pl_topology_slot(t, slot)->n_params * sizeof(float);
        out->reading_bytes = floats > out->reading_bytes ? floats : out->reading_bytes;
    }
}

/* Finds the engine for the topology's shape, or makes this engine. */
static pl_status open_engine(server_paths *p, const pl_topology *t, engine **out)
{
    const pl_shape *s = pl_topology_shape(t);
    const pl_model_options model = {.batch = 1, .context = s->context};
    for (int i = 0; i < p->n_engines; i++)
        if (pl_shape_equal(p->engines[i].shape, s)) {
            *out = &p->engines[i];
            return PL_OK;
        }
    engine *e = *out = &p->engines[p->n_engines];
    pl_status status = pl_model_create(p->backend, t, &model, &e->model);
    if (status == PL_OK)
        status = pl_batch_create(e->model, p->mix->tokenizer, s->vocab, s->context,
                                 p->options->slots, &e->batch);
    if (status != PL_OK) {
        pl_model_destroy(&e->model);
        return status;
    }
    e->shape = s;
    p->n_engines++;
    return PL_OK;
}

/* Finds the versions of every path that may answer. So a tag or a module that is
 * missing is reported when the server starts or reads the store again, not when a
 * request comes. */
static pl_status check_versions(const server_paths *p)
{
    const pl_mixture *mix = p->mix;
    const pl_topology *t = mix->topology;
    const int n_slots = pl_topology_n_slots(t);
    pl_path_module *modules = pl_alloc((size_t)n_slots * sizeof *modules);
    pl_status status = PL_OK;
    for (int path = 0; status == PL_OK && path < pl_topology_n_paths(t); path++) {
        if (pl_path_is_closed(&mix->settings, path))
            continue;
        status = pl_name_path_modules(mix->store, &mix->arm, t, path,
                                      mix->settings.which, modules);
        for (int slot = 0; status == PL_OK && slot < n_slots; slot++)
            status = pl_find_path_module(mix->store, &modules[slot]);
    }
    pl_free(modules);
    return status;
}

pl_status server_paths_open(const pl_server_options *options, server_paths **out)
{
    server_paths *p = pl_alloc(sizeof *p);
    pl_status status = PL_OK;
    p->options = options;
    p->mix = options->mix;
    engine *mixture;
    const char *precision = options->precision;
    const pl_backend_options backend = {
        .name = p->mix->settings.backend,
        .n_threads = options->threads,
        .precision = precision ? precision : p->mix->settings.precision};
    PL_TRY(check_versions(p));
    PL_TRY(server_models_open(p->mix, &p->models));
    PL_TRY(pl_backend_open(&backend, &p->backend));
    p->pool = pl_module_pool_create(p->backend, p->mix->store);
    /* The router is always read, because it also chooses the path of prompts that are
     * too short for likelihood. The free memory is measured afterwards, so that the
     * router's memory is not counted as free. */
    PL_TRY(pl_path_chooser_open(&p->mix->settings, p->mix->store, &p->chooser));
    PL_TRY(pl_path_chooser_by_router(p->chooser));
    uint64_t left = p->backend->memory_left_bytes ? p->backend->memory_left_bytes
                                                  : pl_memory_now().available_bytes;
    PL_TRY(decide_routing(p, &left));
    /* Modules may take half of the memory that the engine leaves free. While a module
     * is read, its parameters are also in the host's memory in fp32. */
    char text[4][16];
    pl_server_plan plan;
    pl_server_plan_bytes(p->backend, p->mix->topology, options->slots, &plan);
    const uint64_t reading = p->backend->memory_left_bytes ? 0 : plan.reading_bytes;
    pl_human_bytes((double)plan.modules_bytes, text[0]);
    pl_human_bytes((double)plan.path_bytes, text[1]);
    pl_human_bytes((double)plan.engine_bytes, text[2]);
    pl_human_bytes((double)left, text[3]);
    if (plan.engine_bytes + plan.path_bytes + reading > left)
        PL_TRY(pl_fail(PL_ERR_NOMEM,
                       "the modules of one path need %s, and %d slots need %s, but "
                       "only %s are free (reading a module needs memory, too); free "
                       "memory, or give fewer --slots or --precision int8",
                       text[1], options->slots, text[2], text[3]));
    left -= plan.engine_bytes;
    p->budget = left / 2 < left - reading ? left / 2 : left - reading;
    if (options->module_bytes > 0)
        p->budget = options->module_bytes;
    if (p->budget < plan.path_bytes)
        p->budget = plan.path_bytes;
    pl_log(PL_LOG_INFO, "serve.memory",
           "paths=%d modules=%d module_memory=\"%s\" path=\"%s\" slots=%d "
           "slot_memory=\"%s\" free=\"%s\"",
           pl_topology_n_paths(p->mix->topology), plan.n_modules, text[0], text[1],
           options->slots, text[2], text[3]);
    PL_TRY(open_engine(p, p->mix->topology, &mixture));
    *out = p;
    return PL_OK;
done:
    server_paths_close(&p);
    return status;
}

static void unload(server_paths *p, int at)
{
    pl_module_pool_close(p->pool, &p->paths[at]->pooled);
    pl_free(p->paths[at]);
    p->paths[at] = p->paths[--p->n_paths];
}

void server_paths_unload(server_paths *p)
{
    for (int i = 0; i < p->n_engines; i++) {
        pl_batch_destroy(&p->engines[i].batch);
        pl_model_destroy(&p->engines[i].model);
    }
    p->n_engines = 0;
    while (p->n_paths > 0)
        unload(p, 0);
}

void server_paths_close(server_paths **paths)
{
    server_paths *p = *paths;
    if (!p)
        return;
    server_paths_unload(p);
    pl_free(p->paths);
    pl_module_pool_destroy(&p->pool);
    server_models_close(&p->models);
    pl_path_chooser_close(&p->chooser);
    pl_backend_close(&p->backend);
    pl_free(p);
    *paths = NULL;
}

const server_models *server_paths_models(const server_paths *p)
{
    return p->models;
}

/* Routing blocks the only thread that computes answers and takes requests. So it may
 * take about ROUTE_MS between two decoding steps; then it pauses until the next step is
 * done. The time is checked after each path that was read and each prompt that was
 * routed. */
pl_status server_paths_route(server_paths *p, const int32_t *tokens, int n,
                             pl_path_choice *out)
{
    const double start = pl_now();
    const bool in_pieces = server_paths_active(p) > 0;
    pl_status status;
    *out = (pl_path_choice){.path = -1};
    if (p->routing_s >= ROUTE_MS / 1e3)
        return PL_OK;
    if (in_pieces && !pl_path_chooser_is_ready(p->chooser)) {
        status = pl_path_chooser_read_one(p->chooser);
    } else {
        status = pl_path_chooser_choose(p->chooser, tokens, n, out);
        out->path = status == PL_OK ? out->path : -1;
    }
    p->routing_s += pl_now() - start;
    return status;
}

/* ---- loading ---- */
/* Paths whose modules have no newer versions stay. The other paths will be opened
 * again, so those of their modules that have not changed stay in memory. If the store
 * lacks something that the server needs, nothing changes. */
pl_status server_paths_reload(server_paths *p)
{
    PL_CHECK(pl_store_refresh(p->mix->store));
    if (p->options->check_mixture)
        PL_CHECK(p->options->check_mixture(p->options->context, p->mix));
    PL_CHECK(check_versions(p));
    pl_path_chooser_reload(p->chooser);
    p->edition++;
    (void)pl_module_pool_drop_kept(p->pool);
    for (int i = 0; i < p->n_paths; i++) {
        loaded *l = p->paths[i];
        bool current = false;
        /* A path that cannot be compared gets no further requests. The next request
         * opens the path again, and gets the error. */
        if (l->edition == p->edition - 1 &&
            pl_module_pool_compare(p->pool, l->pooled, &current) == PL_OK && current)
            l->edition = p->edition;
    }
    return PL_OK;
}

static int count_requests(const loaded *l)
{
    return pl_batch_active_on(l->engine->batch, pl_pooled_path_table(l->pooled));
}

static bool is_leaving(const server_paths *p, const loaded *l)
{
    return l->leaving || l->edition != p->edition;
}

/* Drops the idle path that was not used for the longest time. If all paths are busy and
 * none is leaving, marks one as leaving, so that it gets no new requests; otherwise a
 * request for another path might wait forever. Returns whether a path was dropped. */
static bool drop_one_path(server_paths *p)
{
    loaded *busy = NULL;
    int oldest = -1;
    bool one_leaves = false;
    for (int i = 0; i < p->n_paths; i++) {
        loaded *l = p->paths[i];
        const bool idle = count_requests(l) == 0;
        if (l->pinned)
            continue;
        if (idle && (oldest < 0 || l->asked < p->paths[oldest]->asked))
            oldest = i;
        const bool stayed = pl_now_ms() - l->since_ms >= STAY_MS;
        if (!idle && stayed && (!busy || l->asked < busy->asked))
            busy = l;
        one_leaves |= is_leaving(p, l);
    }
    if (oldest >= 0)
        unload(p, oldest);
    else if (busy && !one_leaves)
        busy->leaving = true;
    return oldest >= 0;
}

/* Loads a model; *out stays NULL if the model must wait for memory. While a request
 * waits for memory, later requests load nothing. Otherwise they could keep modules in
 * use, for example by loading a leaving path again, and the first request needs the
 * memory of these modules. */
static pl_status load_server_path(server_paths *p, int number, loaded **out)
{
    const server_model from = server_models_get(p->models, number);
    pl_path_source source = {from.arm, from.topology, from.path,
                             p->mix->settings.which};
    pl_pooled_path *pooled;
    engine *e;
    if (from.arm != &p->mix->arm) /* a tag names modules of the mixture only */
        source.which.at = NULL;
    if (p->short_of_memory)
        return PL_OK;
    /* Makes room for the path. If no path is in memory, this one is loaded even above
     * the limit. */
    const int most = p->options->paths;
    for (;;) {
        uint64_t missing;
        PL_CHECK(pl_module_pool_missing(p->pool, &source, &missing));
        const uint64_t bytes = pl_module_pool_count(p->pool).bytes + missing;
        const bool few = most == 0 || p->n_paths < most;
        if (few && bytes <= p->budget)
            break;
        if ((few && pl_module_pool_drop_kept(p->pool)) || drop_one_path(p))
            continue;
        if (p->n_paths == 0)
            break;
        p->short_of_memory = true;
        return PL_OK;
    }
    PL_CHECK(open_engine(p, from.topology, &e));
    PL_CHECK(pl_module_pool_open(p->pool, &source, &pooled));
    const size_t n = (size_t)p->n_paths;
    p->paths = pl_grow_items(p->paths, n, n + 1, sizeof(loaded *));
    *out = p->paths[p->n_paths++] = pl_alloc(sizeof(loaded));
    **out = (loaded){.pooled = pooled,
                     .engine = e,
                     .number = number,
                     .edition = p->edition,
                     .since_ms = pl_now_ms()};
    return PL_OK;
}

/* Finds or loads a model. *out is NULL if the model must wait for memory. */
static pl_status find_loaded(server_paths *p, int model, loaded **out)
{
    *out = NULL;
    for (int i = 0; i < p->n_paths && !*out; i++)
        if (p->paths[i]->number == model && !is_leaving(p, p->paths[i]))
            *out = p->paths[i];
    if (!*out)
        PL_CHECK(load_server_path(p, model, out));
    if (*out)
        (*out)->asked = ++p->asked;
    return PL_OK;
}

pl_status server_paths_join(server_paths *p, int model, pl_batch_request *request,
                            bool *waits)
{
    engine *e;
    loaded *l = NULL;
    PL_CHECK(open_engine(p, server_models_get(p->models, model).topology, &e));
    *waits = p->holds || pl_batch_room(e->batch) == 0;
    if (*waits)
        return PL_OK;
    PL_CHECK(find_loaded(p, model, &l));
    *waits = !l;
    if (!l)
        return PL_OK;
    request->path = pl_pooled_path_table(l->pooled);
    request->path_contents = pl_pooled_path_contents(l->pooled);
    return pl_batch_join(e->batch, request);
}

/* ---- requests on all paths ---- */
int server_paths_open_path(const server_paths *p, int nth)
{
    int path = -1;
    for (int left = nth; left >= 0; left--)
        do
            path++;
        while (pl_path_is_closed(&p->mix->settings, path));
    return path;
}

pl_status server_paths_join_all(server_paths *p, int every,
                                void (*moved)(void *context, int from, int path),
                                pl_batch_request *request, bool *waits)
{
    pl_batch *batch = p->engines[0].batch;
    int wanted = 0, n = 0;
    for (int path = 0; path < pl_topology_n_paths(p->mix->topology); path++)
        wanted += !pl_path_is_closed(&p->mix->settings, path);
    /* all paths must be in memory, and have slots, at the same time */
    const uint64_t bytes = pl_modules_bytes(p->backend, p->mix->topology);
    if (wanted > p->options->slots)
        return pl_fail(
            PL_ERR_USAGE,
            "`route_every` needs a slot for each of %d paths, but the server has only "
            "%d slots (serve --slots); leave out `route_every`",
            wanted, p->options->slots);
    if ((p->options->paths > 0 && wanted > p->options->paths) || bytes > p->budget)
        return pl_fail(PL_ERR_USAGE,
                       "`route_every` needs all %d paths in memory, but this server "
                       "has too little memory for them or allows fewer paths (serve "
                       "--paths); leave out `route_every`",
                       wanted);
    *waits = p->holds || pl_batch_room(batch) < wanted;
    p->holds |= *waits;
    if (*waits)
        return PL_OK;
    const pl_path **tables = pl_alloc((size_t)wanted * sizeof *tables);
    int *numbers = pl_alloc((size_t)wanted * sizeof *numbers);
    for (int i = 0; i < wanted; i++)
        numbers[i] = server_paths_open_path(p, i);
    /* n is less than `wanted` if some paths must wait for memory */
    pl_status status = PL_OK;
    for (loaded *l = NULL; n < wanted && status == PL_OK; n++) {
        status = find_loaded(p, numbers[n], &l);
        if (status != PL_OK || !l)
            break;
        l->pinned = true;
        tables[n] = pl_pooled_path_table(l->pooled);
    }
    for (int i = 0; i < p->n_paths; i++)
        p->paths[i]->pinned = false;
    const pl_batch_routes routes = {
        .paths = tables,
        .n_paths = wanted,
        .rule = {.prefix = p->mix->settings.prefix,
                 .every = every,
                 .gate = p->gated ? pl_path_chooser_router(p->chooser) : NULL,
                 .numbers = numbers},
        .moved = moved};
    *waits = n < wanted;
    request->routes = &routes;
    if (status == PL_OK && !*waits)
        status = pl_batch_join(batch, request);
    request->routes = NULL;
    pl_free_all(numbers, tables);
    return status;
}

/* An embedding blocks this thread, too. So embeddings and routing
 * together may take ROUTE_MS between two steps, or as long as one text takes. */
pl_status server_paths_embed(server_paths *p, int model, const int32_t *tokens, int n,
                             pl_buf *out, bool *waits)
{
    loaded *l = NULL;
    const double start = pl_now();
    const int32_t length = n;
    *waits = p->routing_s >= ROUTE_MS / 1e3;
    if (*waits)
        return PL_OK;
    PL_CHECK(find_loaded(p, model, &l));
    *waits = !l;
    if (!l)
        return PL_OK;
    const size_t width = (size_t)l->engine->shape->width;
    float *values = pl_alloc(width * sizeof *values);
    pl_status status = pl_model_use(l->engine->model, pl_pooled_path_table(l->pooled));
    if (status == PL_OK)
        status = pl_model_features(l->engine->model, tokens, &length, 1, n, values);
    if (status == PL_OK)
        pl_buf_append(out, values, width * sizeof *values);
    const pl_status unused =
        /* the model must not keep pointers to the path, which may be dropped */
        pl_model_use(l->engine->model, NULL);
    status = status == PL_OK ? unused : status;
    pl_free(values);
    p->routing_s += pl_now() - start;
    return status;
}

/* Drops paths that must leave and have no requests; then makes a step of every
 * engine. */
int server_paths_step(server_paths *p)
{
    int n = 0;
    p->routing_s = 0;
    p->holds = p->short_of_memory = false;
    for (int i = p->n_paths - 1; i >= 0; i--)
        if (is_leaving(p, p->paths[i]) && count_requests(p->paths[i]) == 0)
            unload(p, i);
    for (int i = 0; i < p->n_engines; i++) {
        pl_batch *batch = p->engines[i].batch;
        if (pl_batch_active(batch) == 0)
            continue;
        n++;
        if (pl_batch_step(batch) != PL_OK)
            pl_log(PL_LOG_WARN, "serve.step_failed", "error=\"%s\"", pl_last_error());
    }
    return n;
}

int server_paths_active(const server_paths *p)
{
    int n = 0;
    for (int i = 0; i < p->n_engines; i++)
        n += pl_batch_active(p->engines[i].batch);
    return n;
}

int server_paths_loaded(const server_paths *p)
{
    return p->n_paths;
}

pl_pool_counts server_paths_modules(const server_paths *p)
{
    return pl_module_pool_count(p->pool);
}

void server_paths_write_slots(const server_paths *p, pl_json *list)
{
    pl_batch_slot state;
    for (int i = 0; i < p->n_engines; i++)
        for (int slot = 0; slot < p->options->slots; slot++) {
            pl_batch_slot_state(p->engines[i].batch, slot, &state);
            char name[PL_NAME_MAX];
            pl_json *o = pl_json_object(), *next = pl_json_array(),
                    *token = pl_json_object();
            /* the path of a request may be chosen again; then its model is "auto" */
            pl_copy_text(name, PL_NAME_MAX, state.busy && !state.path ? "auto" : "");
            for (int k = 0; k < p->n_paths && state.busy; k++)
                if (pl_pooled_path_table(p->paths[k]->pooled) == state.path)
                    server_models_name(p->models, p->paths[k]->number, name);
            pl_json_set_int(o, "id", (int64_t)pl_json_count(list));
            pl_json_set_text(o, "model", name);
            pl_json_set_int(o, "n_ctx", p->mix->arm.shape.context);
            pl_json_set_bool(o, "speculative", false);
            pl_json_set_bool(o, "is_processing", state.busy);
            pl_json_set_int(o, "n_prompt_tokens", state.n_prompt);
            pl_json_set_int(o, "n_prompt_tokens_processed", state.n_read);
            pl_json_set_bool(token, "has_next_token", state.busy);
            pl_json_set_int(token, "n_remain", state.max_tokens - state.n_tokens);
            pl_json_set_int(token, "n_decoded", state.n_tokens);
            pl_json_push(next, token);
            pl_json_set(o, "next_token", next);
            pl_json_push(list, o);
        }
}
