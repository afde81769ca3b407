/* Keeps paths in memory. A path is read from the store when a request needs it. If
 * there is no room, the idle path that was not used for the longest time is dropped. */
#include "serve/server_paths.h"
#include "serve/path_chooser.h"

enum {
    /* the shortest time that a path stays in memory; without it, the server might only
     * load */
    STAY_MS = 1000,
    /* the most time for routing between two steps, while requests are being answered */
    ROUTE_MS = 20
};

typedef struct loaded {
    pl_model *model; /* NULL: the place is free */
    pl_batch *batch;
    /* number: the model's number in the list of models; edition: number of reloads
     * before its parameters were read */
    int number, edition;
    /* no further request may join, because another path waits for this place */
    bool leaving;
    uint64_t asked;
    int64_t since_ms;
} loaded;

struct server_paths {
    const pl_server_options *options;
    pl_mixture *mix;
    pl_path_chooser *chooser;
    pl_backend *backend;
    server_models *models;
    loaded *paths;
    int n_places;
    int edition; /* number of reloads so far */
    uint64_t asked;
    double routing_s; /* seconds spent on routing since the last step */
};

/* ---- opening ---- */
/* Sets up the choice by likelihood or by the router. Scoring models must fit into a
 * quarter of the free memory; their memory is subtracted from *left. */
static pl_status decide_routing(server_paths *p, uint64_t *left)
{
    char needed[16], room[16];
    const int n_paths = pl_topology_n_paths(p->mix->topology);
    if (!pl_answers_by_likelihood(p->mix->settings.rule, p->mix->settings.prefix,
                                  n_paths)) {
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
        /* One scoring model per path. All are read before the first request. */
        PL_CHECK(pl_path_chooser_by_likelihood(p->chooser, &p->mix->arm,
                                               p->mix->topology,
                                               pl_topology_n_paths(p->mix->topology)));
        while (!pl_path_chooser_is_ready(p->chooser))
            PL_CHECK(pl_path_chooser_read_one(p->chooser));
        return PL_OK;
    }
    if (strcmp(p->mix->settings.rule, "likelihood") == 0)
        return pl_fail(PL_ERR_NOMEM,
                       "to route by likelihood the server keeps all %d paths in memory "
                       "a second time, which takes %s, and a quarter of the free "
                       "memory is %s; free memory, or give --route router",
                       n_paths, needed, room);
    pl_log(PL_LOG_WARN, "serve.routing",
           "by=router paths=%d memory=\"%s\" room=\"%s\" reason=\"the models for "
           "routing by likelihood do not fit into a quarter of the free memory\"",
           n_paths, needed, room);
    return PL_OK;
}

/* The number of paths in memory: what the option says; if it is 0, as many as fit into
 * half of the memory that is left. */
static int count_places(const server_paths *p, uint64_t left)
{
    pl_model_plan plan;
    const pl_model_options model = {.batch = 1, .context = p->mix->arm.shape.context};
    const pl_shape *s = pl_topology_shape(p->mix->topology);
    int n_paths = pl_topology_n_paths(p->mix->topology);
    size_t kv = (size_t)s->n_blocks * (size_t)s->n_kv_heads * (size_t)s->head_size;
    size_t cache = 2 * kv * (size_t)model.context * (size_t)p->options->slots *
                   pl_type_bytes(p->backend->act);
    pl_model_plan_on(p->backend, p->mix->topology, &model, &plan);
    uint64_t each = pl_model_plan_sum(&plan) + cache;
    uint64_t fit = left / 2 / each;
    /* while a path is being loaded, its parameters are also in memory in fp32 */
    const uint64_t copy =
        p->backend->memory_left_bytes
            ? 0
            : sizeof(float) * pl_topology_path_params(p->mix->topology);
    const uint64_t beside = left > copy ? (left - copy) / each : 0;
    fit = beside < fit ? beside : fit;
    if (p->options->paths > 0)
        return p->options->paths < n_paths ? p->options->paths : n_paths;
    return fit < 1 ? 1 : fit < (uint64_t)n_paths ? (int)fit : n_paths;
}

/* Finds the versions of every path that may answer, so that a tag that does not exist
 * is reported when the server starts and not at a request. */
static pl_status check_versions(const server_paths *p)
{
    const pl_mixture *mix = p->mix;
    const pl_topology *t = mix->topology;
    pl_path_module *modules =
        pl_alloc((size_t)pl_topology_n_slots(t) * sizeof *modules);
    pl_status status = PL_OK;
    for (int path = 0; status == PL_OK && path < pl_topology_n_paths(t); path++)
        if (!pl_path_is_closed(&mix->settings, path))
            status = pl_name_path_modules(mix->store, &mix->arm, t, path,
                                          mix->settings.which, modules);
    pl_free(modules);
    return status;
}

static pl_status open_path_places(server_paths *p)
{
    const char *precision = p->options->precision;
    const pl_backend_options backend = {
        .name = p->mix->settings.backend,
        .n_threads = p->options->threads,
        .precision = precision ? precision : p->mix->settings.precision};
    PL_CHECK(check_versions(p));
    PL_CHECK(server_models_open(p->mix, &p->models));
    PL_CHECK(pl_backend_open(&backend, &p->backend));
    /* The router is always read, because likelihood needs it for prompts without a
     * token. The free memory is measured after this, so that the router's memory is not
     * counted as free. */
    PL_CHECK(pl_path_chooser_open(&p->mix->settings, p->mix->store, &p->chooser));
    PL_CHECK(pl_path_chooser_by_router(p->chooser));
    uint64_t left = p->backend->memory_left_bytes ? p->backend->memory_left_bytes
                                                  : pl_memory_available_bytes();
    PL_CHECK(decide_routing(p, &left));
    p->n_places = count_places(p, left);
    p->paths = pl_alloc((size_t)p->n_places * sizeof *p->paths);
    return PL_OK;
}

pl_status server_paths_open(const pl_server_options *options, server_paths **out)
{
    server_paths *p = pl_alloc(sizeof *p);
    p->options = options;
    p->mix = options->mix;
    pl_status status = open_path_places(p);
    if (status == PL_OK)
        *out = p;
    else
        server_paths_close(&p);
    return status;
}

static void unload(loaded *l)
{
    pl_batch_destroy(&l->batch);
    pl_model_destroy(&l->model);
}

void server_paths_unload(server_paths *p)
{
    for (int i = 0; i < p->n_places; i++)
        unload(&p->paths[i]);
}

void server_paths_close(server_paths **paths)
{
    server_paths *p = *paths;
    if (!p)
        return;
    server_paths_unload(p);
    pl_free(p->paths);
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

const pl_tokenizer *server_paths_tokenizer(const server_paths *p)
{
    return p->mix->tokenizer;
}

int server_paths_context(const server_paths *p)
{
    return p->mix->arm.shape.context;
}

/* ---- routing ---- */
/* Chooses the path of a prompt; *path is -1 if this must go on later. Routing blocks
 * the engine's only thread, so while requests are being answered, it pauses after
 * ROUTE_MS, when it has finished reading a path or routing a prompt. */
pl_status server_paths_route(server_paths *p, const int32_t *tokens, int n, int *path)
{
    pl_path_choice choice;
    const double start = pl_now();
    const bool in_pieces = server_paths_active(p) > 0;
    pl_status status;
    *path = -1;
    if (in_pieces && p->routing_s >= ROUTE_MS / 1e3)
        return PL_OK;
    if (in_pieces && !pl_path_chooser_is_ready(p->chooser)) {
        status = pl_path_chooser_read_one(p->chooser);
    } else {
        status = pl_path_chooser_choose(p->chooser, tokens, n, &choice);
        *path = status == PL_OK ? choice.path : -1;
    }
    p->routing_s += pl_now() - start;
    return status;
}

/* ---- loading ---- */
pl_status server_paths_reload(server_paths *p)
{
    PL_CHECK(pl_store_refresh(p->mix->store));
    pl_path_chooser_reload(p->chooser);
    p->edition++;
    return PL_OK;
}

static pl_status load_server_path(server_paths *p, int number, loaded *l)
{
    pl_status status = PL_OK;
    const server_model from = server_models_get(p->models, number);
    const pl_model_options model = {.batch = 1, .context = p->mix->arm.shape.context};
    pl_which which = p->mix->settings.which;
    if (from.arm != &p->mix->arm) /* a tag names modules of the mixture only */
        which.at = NULL;
    PL_TRY(pl_model_create(p->backend, from.topology, &model, &l->model));
    PL_TRY(pl_load_path(p->mix->store, from.arm, from.topology, from.path, which,
                        l->model));
    PL_TRY(pl_batch_create(l->model, p->mix->tokenizer, p->mix->arm.shape.vocab,
                           p->mix->arm.shape.context, p->options->slots, &l->batch));
    l->number = number;
    l->edition = p->edition;
    l->leaving = false;
    l->since_ms = pl_now_ms();
done:
    if (status != PL_OK)
        unload(l);
    return status;
}

static bool is_leaving(const server_paths *p, const loaded *l)
{
    return l->leaving || l->edition != p->edition;
}

/* Finds a free place, or that of the idle path that was not used for the longest time.
 * If all paths are busy, one of them must leave: otherwise a request for another path
 * would wait as long as new requests for these paths arrive. */
static loaded *make_path_room(server_paths *p)
{
    loaded *oldest = NULL, *busy = NULL;
    bool one_leaves = false;
    for (int i = 0; i < p->n_places; i++) {
        loaded *l = &p->paths[i];
        if (!l->model)
            return l;
        bool idle = pl_batch_active(l->batch) == 0;
        if (idle && (!oldest || l->asked < oldest->asked))
            oldest = l;
        bool stayed = pl_now_ms() - l->since_ms >= STAY_MS;
        if (!idle && stayed && (!busy || l->asked < busy->asked))
            busy = l;
        one_leaves |= is_leaving(p, l);
    }
    if (oldest)
        unload(oldest);
    else if (busy && !one_leaves)
        busy->leaving = true;
    return oldest;
}

/* Finds or loads a model. *out is NULL if the model must wait for memory. */
static pl_status find_loaded(server_paths *p, int model, loaded **out)
{
    loaded *l = NULL;
    *out = NULL;
    for (int i = 0; i < p->n_places && !l; i++)
        if (p->paths[i].model && p->paths[i].number == model &&
            !is_leaving(p, &p->paths[i]))
            l = &p->paths[i];
    if (!l) {
        l = make_path_room(p);
        if (!l)
            return PL_OK;
        PL_CHECK(load_server_path(p, model, l));
    }
    l->asked = ++p->asked;
    *out = l;
    return PL_OK;
}

pl_status server_paths_batch(server_paths *p, int model, pl_batch **out)
{
    loaded *l = NULL;
    *out = NULL;
    PL_CHECK(find_loaded(p, model, &l));
    *out = l && pl_batch_room(l->batch) > 0 ? l->batch : NULL;
    return PL_OK;
}

/* An embedding blocks the engine's only thread, so it shares the time of routing: at
 * most ROUTE_MS between two steps, or one text if that takes longer. */
pl_status server_paths_embed(server_paths *p, int model, const int32_t *tokens, int n,
                             pl_buf *out, bool *waits)
{
    loaded *l = NULL;
    const double start = pl_now();
    const size_t width = (size_t)p->mix->arm.shape.width;
    const int32_t length = n;
    *waits = server_paths_active(p) > 0 && p->routing_s >= ROUTE_MS / 1e3;
    if (*waits)
        return PL_OK;
    PL_CHECK(find_loaded(p, model, &l));
    *waits = !l;
    if (!l)
        return PL_OK;
    float *values = pl_alloc(width * sizeof *values);
    pl_status status = pl_model_features(l->model, tokens, &length, 1, n, values);
    if (status == PL_OK)
        pl_buf_append(out, values, width * sizeof *values);
    pl_free(values);
    p->routing_s += pl_now() - start;
    return status;
}

/* Makes one step of each busy path. A path that must leave is dropped when it has no
 * requests. */
int server_paths_step(server_paths *p)
{
    int n = 0;
    p->routing_s = 0;
    for (int i = 0; i < p->n_places; i++) {
        loaded *l = &p->paths[i];
        if (!l->model)
            continue;
        if (pl_batch_active(l->batch) == 0) {
            if (is_leaving(p, l))
                unload(l);
            continue;
        }
        n++;
        if (pl_batch_step(l->batch) != PL_OK)
            pl_log(PL_LOG_WARN, "serve.step_failed", "path=%d error=\"%s\"", l->number,
                   pl_last_error());
    }
    return n;
}

int server_paths_active(const server_paths *p)
{
    int n = 0;
    for (int i = 0; i < p->n_places; i++)
        n += p->paths[i].model ? pl_batch_active(p->paths[i].batch) : 0;
    return n;
}

int server_paths_loaded(const server_paths *p)
{
    int n = 0;
    for (int i = 0; i < p->n_places; i++)
        n += p->paths[i].model != NULL;
    return n;
}

static void write_slot(const server_paths *p, const loaded *l, int slot, pl_json *list)
{
    char name[PL_NAME_MAX];
    pl_batch_slot state;
    pl_json *o = pl_json_object(), *next = pl_json_array(), *token = pl_json_object();
    pl_batch_slot_state(l->batch, slot, &state);
    server_models_name(p->models, l->number, name);
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

void server_paths_write_slots(const server_paths *p, pl_json *list)
{
    for (int i = 0; i < p->n_places; i++)
        for (int slot = 0; p->paths[i].model && slot < p->options->slots; slot++)
            write_slot(p, &p->paths[i], slot, list);
}
