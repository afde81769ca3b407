/* Paths in memory. A path is read from the store when a request asks for it; when there
 * is no room, the one that nobody has asked for longest leaves, if it is idle. */
#include "cli/server_paths.h"

enum { STAY_MS = 1000 }; /* at least, so that answering is not all loading */

typedef struct loaded {
    pl_model *model; /* NULL: free */
    pl_batch *batch;
    int path, edition;
    bool leaving; /* nobody joins it any more: another path waits for its place */
    uint64_t asked;
    int64_t since_ms;
} loaded;

struct server_paths {
    const server_options *options;
    mixture mix;
    pl_arm base_arm;
    pl_topology *base_topology;
    pl_router *router;
    pl_backend *backend, *base_backend;
    pl_model *base;
    float *feature;
    loaded *paths;
    int n_places;
    int edition; /* rises with every reload */
    uint64_t asked;
};

/* ---- opening ---- */

/* The base model, one text at a time: what routing at training made of a text. */
static pl_status open_base(server_paths *p)
{
    pl_status status = PL_OK;
    void *params = NULL;
    const pl_backend_options backend = {.name = p->mix.r.cfg.backend,
                                        .n_threads = 1,
                                        .precision = p->mix.r.cfg.precision};
    const pl_model_options model = {.batch = 1, .context = (int)p->mix.r.cfg.prefix};
    PL_RETURN_IF(store_arm(p->mix.store, "base", &p->base_arm, &p->base_topology));
    PL_RETURN_IF(pl_backend_open(&backend, &p->base_backend));
    PL_RETURN_IF(pl_model_create(p->base_backend, p->base_topology, &model, &p->base));
    PL_RETURN_IF(pl_try_alloc(pl_topology_path_params(p->base_topology) * sizeof(float),
                              "the base model", &params));
    PL_TRY(store_path_params(p->mix.store, &p->base_arm, p->base_topology, 0,
                             UINT64_MAX, params));
    PL_TRY(pl_model_load(p->base, params));
done:
    pl_free_aligned(params);
    return status;
}

static pl_status open_router(server_paths *p)
{
    pl_buf bytes = {0};
    pl_status status = store_object_bytes(p->mix.store, "router/mix", &bytes);
    if (status == PL_OK)
        status = pl_router_decode(bytes.data, bytes.len, &p->router);
    pl_buf_destroy(&bytes);
    p->feature = pl_alloc((size_t)p->mix.r.cfg.width * sizeof *p->feature);
    return status == PL_OK ? open_base(p) : status;
}

/* As many paths as half of the free memory holds, while the option is 0. */
static int count_places(const server_paths *p)
{
    pl_model_plan plan;
    const pl_model_options model = {.batch = 1, .context = (int)p->mix.r.cfg.context};
    const pl_shape *s = pl_topology_shape(p->mix.topology);
    int n_paths = pl_topology_n_paths(p->mix.topology);
    size_t kv = (size_t)s->n_blocks * (size_t)s->n_kv_heads * (size_t)s->head_size;
    size_t cache = 2 * kv * (size_t)model.context * (size_t)p->options->slots *
                   pl_type_bytes(p->backend->act);
    pl_model_plan_on(p->backend, p->mix.topology, &model, &plan);
    uint64_t each = pl_model_plan_sum(&plan) + cache;
    uint64_t left = p->backend->memory_left_bytes ? p->backend->memory_left_bytes
                                                  : pl_memory_available_bytes();
    uint64_t fit = left / 2 / each;
    /* while a path is loaded, its parameters are here in fp32 as well */
    const uint64_t copy =
        p->backend->memory_left_bytes
            ? 0
            : sizeof(float) * pl_topology_path_params(p->mix.topology);
    const uint64_t beside = left > copy ? (left - copy) / each : 0;
    fit = beside < fit ? beside : fit;
    if (p->options->paths > 0)
        return p->options->paths < n_paths ? p->options->paths : n_paths;
    return fit < 1 ? 1 : fit < (uint64_t)n_paths ? (int)fit : n_paths;
}

static pl_status open_all(server_paths *p)
{
    PL_RETURN_IF(mixture_open(p->options->dir, &p->mix));
    const char *precision = p->options->precision;
    const pl_backend_options backend = {
        .name = p->mix.r.cfg.backend,
        .n_threads = p->options->threads,
        .precision = precision ? precision : p->mix.r.cfg.precision};
    PL_RETURN_IF(pl_backend_open(&backend, &p->backend));
    PL_RETURN_IF(open_router(p));
    p->n_places = count_places(p);
    p->paths = pl_alloc((size_t)p->n_places * sizeof *p->paths);
    return PL_OK;
}

pl_status server_paths_open(const server_options *options, server_paths **out)
{
    server_paths *p = pl_alloc(sizeof *p);
    p->options = options;
    pl_status status = open_all(p);
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
    pl_free(p->feature);
    pl_model_destroy(&p->base);
    pl_backend_close(&p->base_backend);
    pl_backend_close(&p->backend);
    pl_router_destroy(&p->router);
    pl_topology_destroy(&p->base_topology);
    pl_arm_clear(&p->base_arm);
    mixture_close(&p->mix);
    pl_free(p);
    *paths = NULL;
}

const pl_topology *server_paths_topology(const server_paths *p)
{
    return p->mix.topology;
}

const pl_tokenizer *server_paths_tokenizer(const server_paths *p)
{
    return p->mix.tokenizer;
}

int server_paths_context(const server_paths *p)
{
    return (int)p->mix.r.cfg.context;
}

/* ---- routing ---- */

pl_status server_paths_route(server_paths *p, const int32_t *tokens, int n, int *path)
{
    int32_t length = n < (int)p->mix.r.cfg.prefix ? n : (int)p->mix.r.cfg.prefix;
    PL_RETURN_IF(pl_model_features(p->base, tokens, &length, 1, length, p->feature));
    pl_router_route(p->router, p->feature, 1, path);
    return PL_OK;
}

/* ---- loading ---- */

pl_status server_paths_reload(server_paths *p)
{
    PL_RETURN_IF(pl_store_refresh(p->mix.store));
    p->edition++;
    return PL_OK;
}

static pl_status load(server_paths *p, int path, loaded *l)
{
    pl_status status = PL_OK;
    void *params = NULL;
    const pl_model_options model = {.batch = 1, .context = (int)p->mix.r.cfg.context};
    PL_TRY(pl_try_alloc(pl_topology_path_params(p->mix.topology) * sizeof(float),
                        "a path", &params));
    PL_TRY(store_path_params(p->mix.store, &p->mix.arm, p->mix.topology, path,
                             UINT64_MAX, params));
    PL_TRY(pl_model_create(p->backend, p->mix.topology, &model, &l->model));
    PL_TRY(pl_model_load(l->model, params));
    PL_TRY(pl_batch_create(l->model, p->mix.tokenizer, (int)p->mix.r.cfg.vocab,
                           (int)p->mix.r.cfg.context, p->options->slots, &l->batch));
    l->path = path;
    l->edition = p->edition;
    l->leaving = false;
    l->since_ms = pl_now_ms();
done:
    pl_free_aligned(params);
    if (status != PL_OK)
        unload(l);
    return status;
}

static bool is_leaving(const server_paths *p, const loaded *l)
{
    return l->leaving || l->edition != p->edition;
}

/* A free place, or that of the idle path that was asked for least lately. If all are
 * busy one of them leaves, or those that wait would do so for as long as others ask. */
static loaded *make_room(server_paths *p)
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

pl_status server_paths_batch(server_paths *p, int path, pl_batch **out)
{
    loaded *l = NULL;
    *out = NULL;
    for (int i = 0; i < p->n_places && !l; i++)
        if (p->paths[i].model && p->paths[i].path == path &&
            !is_leaving(p, &p->paths[i]))
            l = &p->paths[i];
    if (!l) {
        l = make_room(p);
        if (!l)
            return PL_OK;
        PL_RETURN_IF(load(p, path, l));
    }
    l->asked = ++p->asked;
    *out = pl_batch_room(l->batch) > 0 ? l->batch : NULL;
    return PL_OK;
}

/* Paths that leave do so as soon as they are idle. */
int server_paths_step(server_paths *p)
{
    int n = 0;
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
            pl_log(PL_LOG_WARN, "serve.step_failed", "path=%d error=\"%s\"", l->path,
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
