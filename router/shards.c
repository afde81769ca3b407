/* Routes documents, and makes the list of documents of each path. */
#include "router/router_internal.h"
#include <stdlib.h>

/* A path that would have no documents gets the mean number of documents per path
 * divided by REPAIR_SHARE, but at least one document. */
enum { POINTS_A_ITEM = 256, REPAIR_SHARE = 8 };

typedef struct sorting {
    const pl_router *router;
    const float *features;
    size_t n, top;
    int n_threads;
    double *scratch; /* [n_threads, router_scratch_doubles] memory of each thread */
    int *nearest;    /* [n, top] the `top` cheapest paths of each document */
    int path;        /* the path for which `costs` are computed */
    double *costs;   /* [n] costs of that path; NULL: paths are ranked */
} sorting;

/* Ranks the paths of documents, or, if there are `costs`, computes those of a path. */
static pl_status weigh_documents(void *context, size_t item, int thread)
{
    const sorting *s = context;
    const size_t first = item * POINTS_A_ITEM, dim = (size_t)s->router->lens.dim;
    double *scratch = s->scratch + (size_t)thread * router_scratch_doubles(s->router);
    for (size_t i = first; i < s->n && i < first + POINTS_A_ITEM; ++i) {
        double *costs = router_weigh(s->router, s->features + i * dim, scratch);
        if (s->costs)
            s->costs[i] = costs[s->path];
        else
            router_rank(costs, s->router->n_paths, (int)s->top,
                        s->nearest + i * s->top);
    }
    return PL_OK;
}

static pl_status on_documents(sorting *s)
{
    return pl_parallel(s->n_threads, (s->n + POINTS_A_ITEM - 1) / POINTS_A_ITEM,
                       weigh_documents, s);
}

typedef struct candidate {
    double cost;
    uint32_t document;
} candidate;

static int nearer_first(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->cost != y->cost)
        return x->cost < y->cost ? -1 : 1;
    return (x->document > y->document) - (x->document < y->document);
}

static int rising(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Writes to docs [n] the documents for which the path's cost is lowest, in rising
 * order. */
static pl_status nearest_documents(sorting *s, int path, uint32_t *docs, size_t n)
{
    candidate *candidates = NULL;
    pl_status status;
    PL_TRY(pl_try_alloc(s->n * (sizeof(candidate) + sizeof(double)),
                        "filling empty shards", (void **)&candidates));
    s->costs = (double *)(candidates + s->n);
    s->path = path;
    PL_TRY(on_documents(s));
    for (size_t i = 0; i < s->n; ++i)
        candidates[i] = (candidate){s->costs[i], (uint32_t)i};
    qsort(candidates, s->n, sizeof *candidates, nearer_first);
    for (size_t i = 0; i < n; ++i)
        docs[i] = candidates[i].document;
    qsort(docs, n, sizeof *docs, rising);
done:
    s->costs = NULL;
    pl_free(candidates);
    return status;
}

static pl_status make_lists(sorting *s, pl_shards *out)
{
    const size_t P = (size_t)out->n_paths, mean = s->n / (REPAIR_SHARE * P);
    const size_t n_repair = mean > 0 ? mean : 1;
    PL_CHECK(pl_try_alloc((P + 1) * sizeof *out->first, "shard lists",
                          (void **)&out->first));
    /* Computes first[p] from the number of documents of each path. A path without
     * documents will get n_repair documents. */
    for (size_t i = 0; i < s->n * s->top; ++i)
        ++out->first[s->nearest[i] + 1];
    for (size_t path = 0; path < P; ++path) {
        if (out->first[path + 1] == 0) {
            out->first[path + 1] = n_repair;
            ++out->n_repaired;
        }
        out->first[path + 1] += out->first[path];
    }
    PL_CHECK(pl_try_alloc(out->first[P] * sizeof *out->docs, "shard lists",
                          (void **)&out->docs));
    /* documents are distributed in rising order, so every list is sorted */
    pl_status status = PL_OK;
    size_t *next = pl_alloc(P * sizeof *next);
    memcpy(next, out->first, P * sizeof *next);
    for (size_t i = 0; i < s->n * s->top; ++i)
        out->docs[next[s->nearest[i]]++] = (uint32_t)(i / s->top);
    for (size_t path = 0; path < P; ++path)
        if (next[path] == out->first[path])
            PL_TRY(nearest_documents(s, (int)path, out->docs + out->first[path],
                                     n_repair));
    PL_TRY(pl_try_alloc(s->n * sizeof *out->path_of, "shard lists",
                        (void **)&out->path_of));
    for (size_t i = 0; i < s->n; ++i)
        out->path_of[i] = s->nearest[i * s->top];
done:
    pl_free(next);
    return status;
}

pl_status pl_shards_make(const pl_router *router, const float *features, size_t n_docs,
                         int overlap, pl_shards *out)
{
    memset(out, 0, sizeof *out);
    if (overlap < 1 || overlap > router->n_paths)
        return pl_fail(PL_ERR_CONFIG,
                       "a document cannot be in %d shards of %d paths; give 1 to %d",
                       overlap, router->n_paths, router->n_paths);
    if (n_docs < 1 || n_docs > UINT32_MAX)
        return pl_fail(PL_ERR_DATA,
                       "%zu documents cannot be dealt to paths; give at least 1 and "
                       "less than 2^32 documents",
                       n_docs);
    sorting s = {.router = router,
                 .features = features,
                 .n = n_docs,
                 .top = (size_t)overlap,
                 .n_threads = pl_cpu_count()};
    size_t scratch = (size_t)s.n_threads * router_scratch_doubles(router);
    pl_status status;
    PL_TRY(pl_try_alloc(scratch * sizeof(double) + n_docs * s.top * sizeof(int),
                        "dealing documents to shards", (void **)&s.scratch));
    s.nearest = (int *)(s.scratch + scratch);
    out->n_paths = router->n_paths;
    PL_TRY(on_documents(&s));
    PL_TRY(make_lists(&s, out));
done:
    pl_free(s.scratch);
    if (status != PL_OK)
        pl_shards_clear(out);
    return status;
}

void pl_shards_clear(pl_shards *shards)
{
    pl_free_all(shards->docs, shards->first, shards->path_of);
    memset(shards, 0, sizeof *shards);
}
