/* Assigns training documents to paths: fits the router of a run, deals the documents to
 * shards, and reports on the shards. */
#include "job/stages.h"
#include "eval/eval.h"

#include <math.h>
#include <stdlib.h>

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
        pl_free_aligned(memory);
}

static uint64_t features_bytes(const routing *g)
{
    return (uint64_t)g->n * (uint64_t)g->dim * sizeof *g->features;
}

void routing_clear(routing *g)
{
    routing_free(g->features, features_bytes(g));
    pl_free_aligned(g->tokens);
    pl_router_destroy(&g->router);
    pl_prefix_lm_destroy(&g->answers);
    pl_shards_clear(&g->shards);
    pl_free(g->held);
    pl_free(g->held_first);
    pl_free(g->sizes);
    pl_free(g->domains);
}

static pl_router_options router_options(const pl_run *r, const routing *g, int n_paths)
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

static bool routing_holds(const pl_run *r, uint32_t document)
{
    const uint64_t hash = pl_tokens_doc(r->train, document)->hash;
    return r->cfg.holdout > 0 && !routing_scores(r, document) &&
           pl_random_uniform((uint64_t)r->cfg.seed, pl_stream("hold-out", 0, 0), hash) <
               r->cfg.holdout;
}

bool routing_trains(const pl_run *r, uint32_t document)
{
    return !routing_scores(r, document) && !routing_holds(r, document);
}

/* Removes from the shards all documents on which no arm trains, and lists each path's
 * held-out documents. If all documents of a path would be removed, the path trains on
 * them anyway. */
static void drop_untrained(const pl_run *r, routing *g)
{
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
}

/* Fits the prefix model, which routes new text, to the shards. */
static pl_status fit_answers(const pl_run *r, routing *g)
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
    PL_CHECK(fit_answers(r, g));
    drop_untrained(r, g);
    return PL_OK;
}

/* Computes the data that every fit needs: the number of targets of each document, and
 * the features that the base model `params` gives each document. */
static pl_status look_at_documents(pl_run *r, const float *params, routing *g)
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

/* Fits a linear router to the scores [n_docs, paths] of these documents. */
static pl_status fit_linear(const pl_run *r, const uint32_t *docs, size_t n_docs,
                            const double *scores, routing *g)
{
    enum { ITERATIONS = 500 };
    size_t dim = (size_t)r->cfg.width;
    float *few = NULL;
    pl_router_options options = router_options(r, g, pl_topology_n_paths(g->topology));
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
    return status;
}

pl_status routing_refit(pl_run *r, const float *params, const uint32_t *docs,
                        size_t n_docs, const double *scores, routing *g)
{
    PL_CHECK(look_at_documents(r, params, g));
    PL_CHECK(fit_linear(r, docs, n_docs, scores, g));
    pl_router_options options = router_options(r, g, pl_topology_n_paths(g->topology));
    PL_CHECK(pl_router_price(g->router, g->features, g->n, &options));
    return deal(r, g);
}

pl_status routing_fit(pl_run *r, const float *params, routing *g)
{
    PL_CHECK(look_at_documents(r, params, g));
    pl_router_options options = router_options(r, g, pl_topology_n_paths(g->topology));
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

/* ---- paths that were split ---- */
typedef struct splitting {
    pl_run *r;
    routing *g;
    const routing_origin *from;
    int *parent; /* [paths of g->topology] the old path from which each path descends */
    /* [paths of g->topology] the paths in the order of their parents; the children of
     * parent p begin at first_child[p] */
    int *children, *first_child;
    pl_buf *lists;   /* [paths of g->topology] documents, uint32_t each */
    double *nats;    /* [paths] nats of one document under each path's prefix model */
    int32_t *tokens; /* [context] tokens of one document */
} splitting;

static void find_children(splitting *s)
{
    const int n_paths = pl_topology_n_paths(s->g->topology);
    const int n_before = pl_topology_n_paths(s->from->topology);
    s->parent = pl_alloc((size_t)n_paths * sizeof *s->parent);
    s->children = pl_alloc((size_t)n_paths * sizeof *s->children);
    s->first_child = pl_alloc(((size_t)n_before + 2) * sizeof *s->first_child);
    /* after the loops, next[p] is the end of p's children */
    int *next = s->first_child + 1;
    for (int p = 0; p < n_paths; p++) {
        s->parent[p] = pl_topology_ancestor_path(s->g->topology, s->from->descent,
                                                 s->from->topology, p);
        next[s->parent[p] + 1]++;
    }
    for (int p = 0; p < n_before; p++)
        next[p + 1] += next[p];
    for (int p = 0; p < n_paths; p++)
        s->children[next[s->parent[p]]++] = p;
}

static int count_children(const splitting *s, int parent)
{
    return s->first_child[parent + 1] - s->first_child[parent];
}

static int child_path(const splitting *s, int parent, int child)
{
    return s->children[s->first_child[parent] + child];
}

/* Returns how many modules of a level the children of a path use. K-means gets these
 * numbers, so that similar clusters go to children that share modules. If the children
 * are all combinations of these modules, they are numbered like the paths of a topology
 * with these numbers of modules. */
static int count_experts(const splitting *s, int parent, int level)
{
    const pl_topology *t = s->g->topology;
    const int n_modules = pl_topology_get_spec(t)->experts[level];
    bool *used = pl_alloc((size_t)n_modules);
    int n = 0;
    for (int c = 0; c < count_children(s, parent); c++) {
        const int module =
            pl_topology_module_of_path(t, level + 1, child_path(s, parent, c));
        bool *seen = &used[module - pl_topology_module(t, level + 1, 0)];
        n += !*seen;
        *seen = true;
    }
    pl_free(used);
    return n;
}

/* Deals the documents docs [n] of a parent to its children by a k-means of these
 * documents. If a child's centroid is not the nearest one for any document, the child
 * gets the documents nearest to its centroid, which also stay with other children. */
static pl_status deal_to_children(const splitting *s, int parent, int n_children,
                                  const uint32_t *docs, size_t n)
{
    routing *g = s->g;
    const size_t dim = (size_t)g->dim;
    float *few = NULL;
    double *tokens = NULL;
    pl_router *router = NULL;
    pl_shards shards = {.n_paths = 0};
    pl_status status;
    const uint64_t bytes = (uint64_t)n * dim * sizeof *few;
    PL_TRY(routing_alloc(s->r, bytes, "features of a shard", (void **)&few));
    PL_TRY(pl_try_alloc(n * sizeof *tokens, "tokens of a shard", (void **)&tokens));
    for (size_t i = 0; i < n; i++) {
        memcpy(few + i * dim, g->features + docs[i] * dim, dim * sizeof *few);
        tokens[i] = g->tokens[docs[i]];
    }
    pl_router_options options = router_options(s->r, g, n_children);
    options.kind = PL_ROUTER_KMEANS;
    options.weights = tokens;
    for (int l = 0; l < options.n_levels; l++)
        options.experts[l] = count_experts(s, parent, l);
    PL_TRY(pl_router_fit(few, n, g->dim, &options, &router));
    PL_TRY(pl_shards_make(router, few, n, 1, &shards));
    for (int c = 0; c < n_children; c++)
        for (size_t i = shards.first[c]; i < shards.first[c + 1]; i++)
            pl_buf_append(&s->lists[child_path(s, parent, c)], &docs[shards.docs[i]],
                          sizeof *docs);
    status = run_stopped(s->r);
done:
    pl_shards_clear(&shards);
    pl_router_destroy(&router);
    routing_free(few, (uint64_t)n * dim * sizeof *few);
    pl_free_aligned(tokens);
    return status;
}

/* Deals the documents of a parent to its children. If there are fewer documents than
 * children, each child gets all of them. */
static pl_status split_shard(const splitting *s, int parent)
{
    const pl_shards *before = s->from->shards;
    const int n_children = count_children(s, parent);
    const uint32_t *docs = before->docs + before->first[parent];
    const size_t n = before->first[parent + 1] - before->first[parent];
    char name[PL_NAME_MAX];
    if (n_children > 1 && n >= (size_t)n_children)
        return deal_to_children(s, parent, n_children, docs, n);
    pl_topology_path_name(s->from->topology, parent, name);
    if (n == 0 && n_children > 0)
        return pl_fail(
            PL_ERR_DATA,
            "path %s has no training documents, so none can be dealt to the paths "
            "into which it is split",
            name);
    if (n_children > 1)
        say("         %s has only %zu documents, so each of the %d paths that descend "
            "from it gets all of them",
            name, n, n_children);
    for (int c = 0; c < n_children; c++)
        pl_buf_append(&s->lists[child_path(s, parent, c)], docs, n * sizeof *docs);
    return PL_OK;
}

/* Computes s->nats for the first window of a document. */
static void judge_document(const splitting *s, const pl_prefix_lm *lm,
                           uint32_t document)
{
    const pl_token_doc *doc = pl_tokens_doc(s->r->train, document);
    const size_t length = (size_t)s->r->cfg.context;
    const size_t n = doc->n_tokens < length ? doc->n_tokens : length;
    pl_tokens_copy(s->r->train, doc->first, n, s->tokens);
    pl_prefix_lm_nats(lm, s->tokens, (int)n, s->nats);
}

/* Returns the path that gets a document of `tokens` tokens: of the paths whose shard
 * stays within the limit, the one whose ancestor has the fewest nats in s->nats. If
 * every shard would pass the limit, returns the path with the smallest shard. */
static int best_heir(const splitting *s, const double *load, double limit,
                     double tokens)
{
    int best = -1, lightest = 0;
    for (int p = 0; p < pl_topology_n_paths(s->g->topology); p++) {
        if (load[p] < load[lightest])
            lightest = p;
        if (load[p] + tokens <= limit &&
            (best < 0 || s->nats[s->parent[p]] < s->nats[s->parent[best]]))
            best = p;
    }
    return best >= 0 ? best : lightest;
}

static int by_document(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Deals the documents of paths that ended to the remaining paths. A document that is
 * already in the shard of a remaining path is not dealt again. */
static void give_orphans(const splitting *s)
{
    const routing *g = s->g;
    const pl_shards *before = s->from->shards;
    const int n_paths = pl_topology_n_paths(g->topology);
    double *load = pl_alloc((size_t)n_paths * sizeof *load), all = 0;
    bool *placed = pl_alloc(g->n * sizeof *placed);
    size_t n_ended = 0, n_moved = 0;
    for (int p = 0; p < n_paths; p++) {
        const uint32_t *docs = (const uint32_t *)(const void *)s->lists[p].data;
        for (size_t i = 0; i < s->lists[p].len / sizeof *docs; i++) {
            placed[docs[i]] = true;
            load[p] += g->tokens[docs[i]];
        }
    }
    for (size_t i = 0; i < before->first[before->n_paths]; i++)
        all += g->tokens[before->docs[i]];
    const double limit =
        s->r->cfg.balance > 0 ? (1 + s->r->cfg.balance) * all / n_paths : INFINITY;
    for (int parent = 0; parent < before->n_paths; parent++) {
        if (count_children(s, parent) > 0)
            continue;
        n_ended++;
        for (size_t i = before->first[parent]; i < before->first[parent + 1]; i++) {
            const uint32_t document = before->docs[i];
            if (placed[document])
                continue;
            judge_document(s, s->from->answers, document);
            const int heir = best_heir(s, load, limit, g->tokens[document]);
            pl_buf_append(&s->lists[heir], &document, sizeof document);
            load[heir] += g->tokens[document];
            placed[document] = true;
            n_moved++;
        }
    }
    for (int p = 0; p < n_paths; p++)
        qsort(s->lists[p].data, s->lists[p].len / sizeof(uint32_t), sizeof(uint32_t),
              by_document);
    if (n_ended > 0)
        say("         %zu documents of %zu paths that end go to the other %d paths",
            n_moved, n_ended, n_paths);
    pl_free(placed);
    pl_free(load);
}

/* Makes the paths' shards from their lists of documents. If a document is in the lists
 * of several paths, the router for new text is fitted as if the document belonged only
 * to the first of these paths. */
static pl_status gather_shards(const splitting *s)
{
    routing *g = s->g;
    const int n_paths = pl_topology_n_paths(g->topology);
    pl_shards *shards = &g->shards;
    size_t bytes = 0, at = 0;
    for (int p = 0; p < n_paths; p++)
        bytes += s->lists[p].len;
    PL_CHECK(pl_try_alloc(bytes, "the documents of the paths", (void **)&shards->docs));
    PL_CHECK(pl_try_alloc(((size_t)n_paths + 1) * sizeof *shards->first, "the shards",
                          (void **)&shards->first));
    PL_CHECK(pl_try_alloc(g->n * sizeof *shards->path_of, "the paths of the documents",
                          (void **)&shards->path_of));
    shards->n_paths = n_paths;
    for (size_t i = 0; i < g->n; i++)
        shards->path_of[i] = -1;
    for (int p = 0; p < n_paths; p++) {
        shards->first[p] = at;
        memcpy(shards->docs + at, s->lists[p].data, s->lists[p].len);
        at += s->lists[p].len / sizeof *shards->docs;
        for (size_t i = shards->first[p]; i < at; i++)
            if (shards->path_of[shards->docs[i]] < 0)
                shards->path_of[shards->docs[i]] = p;
    }
    shards->first[n_paths] = at;
    return PL_OK;
}

/* Assigns each document that is in no path's list to the path that the prefix model
 * chooses. */
static void place_others(const splitting *s)
{
    routing *g = s->g;
    for (size_t i = 0; i < g->n; i++) {
        if (g->shards.path_of[i] >= 0)
            continue;
        g->shards.path_of[i] = 0;
        judge_document(s, g->answers, (uint32_t)i);
        for (int p = 1; p < pl_topology_n_paths(g->topology); p++)
            if (s->nats[p] < s->nats[g->shards.path_of[i]])
                g->shards.path_of[i] = p;
    }
}

pl_status routing_split(pl_run *r, const float *params, const routing_origin *origin,
                        routing *g)
{
    const int n_paths = pl_topology_n_paths(g->topology);
    const int n_before = pl_topology_n_paths(origin->topology);
    const size_t n_nats = (size_t)(n_paths > n_before ? n_paths : n_before);
    splitting s = {.r = r, .g = g, .from = origin};
    pl_status status = PL_OK;
    PL_CHECK(look_at_documents(r, params, g));
    s.lists = pl_alloc((size_t)n_paths * sizeof *s.lists);
    find_children(&s);
    s.nats = pl_alloc(n_nats * sizeof *s.nats);
    s.tokens = pl_alloc((size_t)r->cfg.context * sizeof *s.tokens);
    for (int p = 0; p < n_before; p++)
        PL_TRY(split_shard(&s, p));
    if (origin->answers)
        give_orphans(&s);
    PL_TRY(gather_shards(&s));
    g->how = "split";
    PL_TRY(fit_answers(r, g));
    place_others(&s);
done:
    for (int p = 0; p < n_paths; p++)
        pl_buf_destroy(&s.lists[p]);
    pl_free(s.lists);
    pl_free(s.parent);
    pl_free(s.children);
    pl_free(s.first_child);
    pl_free(s.nats);
    pl_free(s.tokens);
    return status;
}

/* Judges a k-means router with k paths, which is fitted only to compare runs: purity
 * depends on the number of paths. */
static pl_status judge_at(pl_run *r, routing *g, int k, pl_judgement *out)
{
    pl_router *router = NULL;
    pl_shards shards;
    pl_router_options options = router_options(r, g, k);
    memset(&shards, 0, sizeof shards);
    options.kind = PL_ROUTER_KMEANS;
    options.n_levels = 1;
    options.balance = 0;
    pl_status status = pl_router_fit(g->features, g->n, g->dim, &options, &router);
    if (status == PL_OK)
        status = pl_shards_make(router, g->features, g->n, 1, &shards);
    if (status == PL_OK)
        pl_judge(shards.path_of, k, g->domains, (int)pl_tokens_n_domains(r->train),
                 g->n, out);
    pl_shards_clear(&shards);
    pl_router_destroy(&router);
    return status;
}

/* Computes the number of documents, tokens and epochs of every shard. */
static pl_status measure_shards(const pl_run *r, routing *g)
{
    const config *c = &r->cfg;
    double samples = (double)g->phases * (double)c->tau * (double)c->batch *
                     pl_topology_n_replicas(g->topology);
    const pl_sampler_options rows_of = {
        .context = (int)c->context, .n_replicas = 1, .pack = c->pack};
    g->sizes = pl_alloc((size_t)g->shards.n_paths * sizeof *g->sizes);
    for (int p = 0; p < g->shards.n_paths; p++) {
        shard_size *size = &g->sizes[p];
        size_t first = g->shards.first[p];
        uint64_t rows;
        for (size_t i = first; i < g->shards.first[p + 1]; i++) {
            size->tokens += g->tokens[g->shards.docs[i]];
            size->documents++;
        }
        PL_CHECK(pl_sampler_count_rows(r->train, g->shards.docs + first,
                                       (uint32_t)(g->shards.first[p + 1] - first),
                                       &rows_of, &rows));
        size->rows = (double)rows;
        size->epochs = samples / size->rows;
    }
    return PL_OK;
}

/* Prints a line such as "p00    561 documents, 1.2M tokens, 1.4 epochs, 75 % of them
 * cmake". */
static void say_shard(pl_run *r, const routing *g, int path)
{
    uint32_t n_domains = pl_tokens_n_domains(r->train), best = 0;
    const shard_size *size = &g->sizes[path];
    uint64_t *counts = pl_alloc((n_domains ? n_domains : 1) * sizeof *counts);
    char name[PL_NAME_MAX], tokens[16], mostly[PL_NAME_MAX + 64] = "";
    for (size_t i = g->shards.first[path]; i < g->shards.first[path + 1]; i++)
        counts[g->domains[g->shards.docs[i]]]++;
    for (uint32_t d = 1; d < n_domains; d++)
        best = counts[d] > counts[best] ? d : best;
    if (n_domains > 1 && size->documents > 0)
        snprintf(mostly, sizeof mostly, ", %3.0f %% of them %s",
                 100.0 * (double)counts[best] / (double)size->documents,
                 pl_tokens_domain(r->train, best));
    pl_topology_path_name(g->topology, path, name);
    say("         %s %6zu documents, %s tokens, %.1f epochs%s", name, size->documents,
        pl_human_count(size->tokens, tokens), size->epochs, mostly);
    pl_free(counts);
}

/* Prints which share of the rows is padding, if the share is so large that packing
 * would help. */
static void say_padding(const pl_run *r, const routing *g)
{
    const double least_share = 0.15;
    double rows = 0, targets = 0;
    for (int p = 0; p < g->shards.n_paths; p++) {
        rows += g->sizes[p].rows;
        targets += g->sizes[p].tokens;
    }
    double padding = 1 - targets / (rows * (double)r->cfg.context);
    if (!r->cfg.pack && padding > least_share)
        say("         %.0f %% of each batch is padding behind short documents; "
            "train.pack=true\n         fills it with other documents",
            100 * padding);
}

/* Prints every path of a small run, or the range of epochs of a large one, and warns of
 * paths that repeat their shard too often. */
static void say_shards(pl_run *r, const routing *g)
{
    /* up to this number of epochs, repetition does almost no harm (arXiv:2305.16264) */
    const double epochs_max = 4;
    int n_paths = g->shards.n_paths, n_over = 0, most = 0, least = 0;
    char name[PL_NAME_MAX];
    for (int p = 0; p < n_paths; p++) {
        if (n_paths <= 32)
            say_shard(r, g, p);
        n_over += g->sizes[p].epochs > epochs_max;
        most = g->sizes[p].epochs > g->sizes[most].epochs ? p : most;
        least = g->sizes[p].epochs < g->sizes[least].epochs ? p : least;
    }
    if (n_paths > 32)
        say("         paths train %.1f to %.1f epochs of their shards",
            g->sizes[least].epochs, g->sizes[most].epochs);
    if (n_over == 0)
        return;
    pl_topology_path_name(g->topology, most, name);
    say("         %d of %d paths repeat%s their shard more than %.0f times (%s: %.1f "
        "epochs);\n         use more text, fewer paths or a smaller train.phases",
        n_over, n_paths, n_over == 1 ? "s" : "", epochs_max, name,
        g->sizes[most].epochs);
}

static double largest_shard(const routing *g)
{
    double largest = 0;
    for (int p = 0; p < g->shards.n_paths; p++)
        largest = fmax(largest, g->sizes[p].tokens);
    return largest;
}

static double largest_over_mean(const routing *g)
{
    double sum = 0;
    for (int p = 0; p < g->shards.n_paths; p++)
        sum += g->sizes[p].tokens;
    return largest_shard(g) * g->shards.n_paths / sum;
}

/* If a shard has more tokens than router.balance allows, prints why. */
static void say_unbalanced(const pl_run *r, const routing *g)
{
    const config *c = &r->cfg;
    double total = 0;
    char tokens[16];
    for (size_t i = 0; i < g->n; i++)
        total += g->tokens[i];
    double limit = (1 + c->balance) * total / g->shards.n_paths;
    if (c->balance == 0 || c->overlap > 1 || largest_shard(g) <= limit * (1 + 1e-9))
        return;
    pl_human_count(g->alike.weight, tokens);
    if (g->alike.weight <= limit)
        say("         router.balance allows at most %.2f times the mean per shard, but "
            "the fit\n         could not reach this",
            1 + c->balance);
    else if (g->alike.n_docs > 1)
        say("         router.balance allows at most %.2f times the mean per shard, but "
            "%zu documents\n         (%s tokens) look the same to the router, which "
            "cannot separate them",
            1 + c->balance, g->alike.n_docs, tokens);
    else
        say("         router.balance allows at most %.2f times the mean per shard, but "
            "one document\n         alone has more (%s tokens); split this document",
            1 + c->balance, tokens);
}

/* Prints how large the largest shard is and, if the corpus has several domains, how
 * well the router's paths match the domains. */
static void say_router(const pl_run *r, const routing *g, const pl_judgement *own,
                       const pl_judgement *eight)
{
    char domains[160] = "";
    uint32_t n_domains = pl_tokens_n_domains(r->train);
    if (n_domains > 1)
        snprintf(domains, sizeof domains,
                 "\n         compared with %u domains: purity %.3f, NMI %.3f (purity "
                 "%.3f at K=8)",
                 n_domains, own->purity, own->nmi, eight->purity);
    say("router   %s, largest shard %.2f times the mean in tokens, %d empty shards "
        "filled%s",
        g->how ? g->how : r->cfg.router_kind, largest_over_mean(g),
        g->shards.n_repaired, domains);
}

static pl_status write_routing(const pl_run *r, const routing *g,
                               const pl_judgement *own, const pl_judgement *eight)
{
    pl_json *o = pl_json_object(), *documents = pl_json_array();
    pl_json *tokens = pl_json_array();
    pl_buf text = {0};
    char path[PL_PATH_MAX];
    for (int p = 0; p < g->shards.n_paths; p++) {
        pl_json_push(documents, pl_json_make_int((int64_t)g->sizes[p].documents));
        pl_json_push(tokens, pl_json_make_int((int64_t)g->sizes[p].tokens));
    }
    pl_json_set(o, "shard_documents", documents);
    pl_json_set(o, "shard_tokens", tokens);
    pl_json_set_int(o, "domains", (int64_t)pl_tokens_n_domains(r->train));
    pl_json_set_real(o, "largest_over_mean", largest_over_mean(g));
    pl_json_set_int(o, "repaired", g->shards.n_repaired);
    pl_json_set_int(o, "largest_alike", (int64_t)g->alike.n_docs);
    pl_json_set_int(o, "largest_alike_tokens", (int64_t)g->alike.weight);
    pl_json_set_real(o, "purity", own->purity);
    pl_json_set_real(o, "nmi", own->nmi);
    pl_json_set_real(o, "purity_k8", eight->purity);
    pl_json_set_real(o, "nmi_k8", eight->nmi);
    pl_json_write(o, 2, &text);
    pl_status status =
        pl_replace_file(run_file(r, "router.json", path), text.data, text.len);
    pl_json_destroy(&o);
    pl_buf_destroy(&text);
    return status;
}

pl_status routing_report(pl_run *r, routing *g)
{
    pl_judgement own = {0, 0}, eight = {0, 0};
    int n_paths = g->shards.n_paths, n_domains = (int)pl_tokens_n_domains(r->train);
    PL_CHECK(pl_router_heaviest_alike(g->features, g->n, g->dim, g->tokens, &g->alike));
    g->domains = pl_alloc(g->n * sizeof *g->domains);
    for (size_t i = 0; i < g->n; i++)
        g->domains[i] = pl_tokens_doc(r->train, (uint32_t)i)->domain;
    pl_judge(g->shards.path_of, n_paths, g->domains, n_domains, g->n, &own);
    if (n_domains > 1 && g->n >= 8)
        PL_CHECK(judge_at(r, g, 8, &eight));
    PL_CHECK(measure_shards(r, g));
    say_router(r, g, &own, &eight);
    say_unbalanced(r, g);
    say_shards(r, g);
    say_padding(r, g);
    PL_CHECK(write_routing(r, g, &own, &eight));
    return routing_write_map(r, g);
}

pl_status routing_put(pl_run *r, const routing *g, const char *arm)
{
    char name[PL_MODULE_NAME_MAX];
    pl_buf bytes = {0};
    pl_hash blob;
    snprintf(name, sizeof name, "router/%s", arm);
    pl_status status = pl_prefix_lm_encode(g->answers, &bytes);
    if (status == PL_OK)
        status = pl_client_put_object(r->client, name, bytes.data, bytes.len, &blob);
    pl_buf_destroy(&bytes);
    return status;
}
