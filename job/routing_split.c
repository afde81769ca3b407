/* Deals the documents of paths to the paths that descend from them (topology.split,
 * topology.graft). */
#include "job/routing.h"

#include <math.h>
#include <stdlib.h>

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

/* Deals the documents of a parent to its children by a k-means of these documents. If a
 * child's centroid is not the nearest one for any document, the child gets the
 * documents nearest to its centroid, which also stay with other children. If there are
 * fewer documents than children, each child gets all of them. */
static pl_status split_shard(const splitting *s, int parent)
{
    const pl_shards *before = s->from->shards;
    const int n_children = s->first_child[parent + 1] - s->first_child[parent];
    const int *children = s->children + s->first_child[parent];
    const uint32_t *docs = before->docs + before->first[parent];
    const size_t n = before->first[parent + 1] - before->first[parent];
    if (n_children <= 1 || n < (size_t)n_children) {
        char name[PL_NAME_MAX];
        pl_topology_path_name(s->from->topology, parent, name);
        if (n == 0 && n_children > 0)
            return pl_fail(PL_ERR_DATA,
                           "path %s has no training documents, so none can be dealt to "
                           "the paths into which it is split",
                           name);
        if (n_children > 1)
            say("         %s has only %zu documents, so each of the %d paths that "
                "descend from it gets all of them",
                name, n, n_children);
        for (int c = 0; c < n_children; c++)
            pl_buf_append(&s->lists[children[c]], docs, n * sizeof *docs);
        return PL_OK;
    }
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
    pl_router_options options = routing_options(s->r, g, n_children);
    options.kind = PL_ROUTER_KMEANS;
    options.weights = tokens;
    for (int l = 0; l < options.n_levels; l++) {
        /* Counts the modules of the level that the children use. K-means gets these
         * numbers, so that similar clusters go to children that share modules. If the
         * children are all combinations of these modules, they are numbered like the
         * paths of a topology with these numbers of modules. */
        const pl_topology *t = g->topology;
        bool *used = pl_alloc((size_t)pl_topology_get_spec(t)->experts[l]);
        int n_used = 0;
        for (int c = 0; c < n_children; c++) {
            const int module = pl_topology_module_of_path(t, l + 1, children[c]);
            bool *seen = &used[module - pl_topology_module(t, l + 1, 0)];
            n_used += !*seen;
            *seen = true;
        }
        pl_free(used);
        options.experts[l] = n_used;
    }
    PL_TRY(pl_router_fit(few, n, g->dim, &options, &router));
    PL_TRY(pl_shards_make(router, few, n, 1, &shards));
    for (int c = 0; c < n_children; c++)
        for (size_t i = shards.first[c]; i < shards.first[c + 1]; i++)
            pl_buf_append(&s->lists[children[c]], &docs[shards.docs[i]], sizeof *docs);
    status = run_stopped(s->r);
done:
    pl_shards_clear(&shards);
    pl_router_destroy(&router);
    routing_free(few, bytes);
    pl_free(tokens);
    return status;
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
        if (s->first_child[parent + 1] > s->first_child[parent])
            continue;
        n_ended++;
        for (size_t i = before->first[parent]; i < before->first[parent + 1]; i++) {
            const uint32_t document = before->docs[i];
            if (placed[document])
                continue;
            judge_document(s, s->from->answers, document);
            /* Of the paths whose shard stays within the limit, the document goes to the
             * one whose ancestor has the fewest nats. If every shard would pass the
             * limit, it goes to the path with the smallest shard. */
            int best = -1, lightest = 0;
            for (int p = 0; p < n_paths; p++) {
                if (load[p] < load[lightest])
                    lightest = p;
                if (load[p] + g->tokens[document] <= limit &&
                    (best < 0 || s->nats[s->parent[p]] < s->nats[s->parent[best]]))
                    best = p;
            }
            const int heir = best >= 0 ? best : lightest;
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
    pl_free_all(placed, load);
}

pl_status routing_split(pl_run *r, const float *params, const routing_origin *origin,
                        routing *g)
{
    const int n_paths = pl_topology_n_paths(g->topology);
    const int n_before = pl_topology_n_paths(origin->topology);
    const size_t n_nats = (size_t)(n_paths > n_before ? n_paths : n_before);
    splitting s = {.r = r, .g = g, .from = origin};
    pl_status status = PL_OK;
    PL_CHECK(routing_look(r, params, g));
    s.lists = pl_alloc((size_t)n_paths * sizeof *s.lists);
    s.parent = pl_alloc((size_t)n_paths * sizeof *s.parent);
    s.children = pl_alloc((size_t)n_paths * sizeof *s.children);
    s.first_child = pl_alloc(((size_t)n_before + 2) * sizeof *s.first_child);
    /* after the loops, next[p] is the end of p's children */
    int *next = s.first_child + 1;
    for (int p = 0; p < n_paths; p++) {
        s.parent[p] = pl_topology_ancestor_path(g->topology, origin->descent,
                                                origin->topology, p);
        next[s.parent[p] + 1]++;
    }
    for (int p = 0; p < n_before; p++)
        next[p + 1] += next[p];
    for (int p = 0; p < n_paths; p++)
        s.children[next[s.parent[p]]++] = p;
    s.nats = pl_alloc(n_nats * sizeof *s.nats);
    s.tokens = pl_alloc((size_t)r->cfg.context * sizeof *s.tokens);
    for (int p = 0; p < n_before; p++)
        PL_TRY(split_shard(&s, p));
    if (origin->answers)
        give_orphans(&s);
    /* Makes the paths' shards from their lists of documents. If a document is in the
     * lists of several paths, the router for new text is fitted as if the document
     * belonged only to the first of these paths. */
    pl_shards *shards = &g->shards;
    size_t bytes = 0, at = 0;
    for (int p = 0; p < n_paths; p++)
        bytes += s.lists[p].len;
    PL_TRY(pl_try_alloc(bytes, "the documents of the paths", (void **)&shards->docs));
    PL_TRY(pl_try_alloc(((size_t)n_paths + 1) * sizeof *shards->first, "the shards",
                        (void **)&shards->first));
    PL_TRY(pl_try_alloc(g->n * sizeof *shards->path_of, "the paths of the documents",
                        (void **)&shards->path_of));
    shards->n_paths = n_paths;
    for (size_t i = 0; i < g->n; i++)
        shards->path_of[i] = -1;
    for (int p = 0; p < n_paths; p++) {
        shards->first[p] = at;
        memcpy(shards->docs + at, s.lists[p].data, s.lists[p].len);
        at += s.lists[p].len / sizeof *shards->docs;
        for (size_t i = shards->first[p]; i < at; i++)
            if (shards->path_of[shards->docs[i]] < 0)
                shards->path_of[shards->docs[i]] = p;
    }
    shards->first[n_paths] = at;
    g->how = "split";
    PL_TRY(routing_fit_answers(r, g));
    /* Assigns each document that is in no path's list to the path that the prefix model
     * chooses. */
    for (size_t i = 0; i < g->n; i++) {
        if (g->shards.path_of[i] >= 0)
            continue;
        g->shards.path_of[i] = 0;
        judge_document(&s, g->answers, (uint32_t)i);
        for (int p = 1; p < n_paths; p++)
            if (s.nats[p] < s.nats[g->shards.path_of[i]])
                g->shards.path_of[i] = p;
    }
done:
    for (int p = 0; p < n_paths; p++)
        pl_buf_destroy(&s.lists[p]);
    pl_free_all(s.lists, s.parent, s.children, s.first_child, s.nats, s.tokens);
    return status;
}
