/* Assigns clusters to paths by a local search: it swaps two clusters as long as a swap
 * makes the clusters that share a module more similar (arrange.h). */
#include "router/arrange.h"

enum { STARTS = 8, SWEEPS_MAX = 64 };

typedef struct grid {
    const float *centroids; /* [n_paths, dim] */
    int n_paths, dim, n_levels, n_modules;
    const int *experts;
    /* [n_levels] the index in `sums` of each level's first module */
    int first[PL_LEVELS_MAX];
    int *order; /* [n_paths] index of each path's centroid */
    int *best;  /* [n_paths] the best `order` found so far */
    /* [modules, dim] sum of the centroids of a module's paths */
    double *sums;
    double *trial; /* [2, dim] scratch memory for a swap */
} grid;

/* Returns the sum of the module that a path has at a level. */
static double *level_sum(const grid *g, int path, int level)
{
    for (int l = g->n_levels - 1; l > level; l--)
        path /= g->experts[l];
    const int module = g->first[level] + path % g->experts[level];
    return g->sums + (size_t)module * (size_t)g->dim;
}

static const float *centroid_at(const grid *g, int path)
{
    return g->centroids + (size_t)g->order[path] * (size_t)g->dim;
}

static void fill_sums(grid *g)
{
    memset(g->sums, 0, (size_t)g->n_modules * (size_t)g->dim * sizeof *g->sums);
    for (int path = 0; path < g->n_paths; path++)
        for (int level = 0; level < g->n_levels; level++) {
            double *sum = level_sum(g, path, level);
            for (int d = 0; d < g->dim; d++)
                sum[d] += (double)centroid_at(g, path)[d];
        }
}

static double squared_length(const double *x, int n)
{
    double total = 0;
    for (int d = 0; d < n; d++)
        total += x[d] * x[d];
    return total;
}

/* Returns the cohesion: the sum over modules of |sum of the module's centroids|^2 /
 * number of the module's paths. The scatter (arrange.h) is a constant minus the
 * cohesion, so a larger cohesion is better. */
static double cohesion(const grid *g)
{
    double total = 0;
    for (int level = 0; level < g->n_levels; level++)
        for (int e = 0; e < g->experts[level]; e++)
            total +=
                squared_length(g->sums + (size_t)(g->first[level] + e) * (size_t)g->dim,
                               g->dim) /
                (double)(g->n_paths / g->experts[level]);
    return total;
}

/* Returns by how much the cohesion grows if the centroids of two paths are swapped. */
static double gain_of_swap(grid *g, int a, int b)
{
    const float *ca = centroid_at(g, a), *cb = centroid_at(g, b);
    double gain = 0, *at_a = g->trial, *at_b = g->trial + g->dim;
    for (int level = 0; level < g->n_levels; level++) {
        const double *sa = level_sum(g, a, level), *sb = level_sum(g, b, level);
        if (sa == sb)
            continue;
        for (int d = 0; d < g->dim; d++) {
            at_a[d] = sa[d] - (double)ca[d] + (double)cb[d];
            at_b[d] = sb[d] - (double)cb[d] + (double)ca[d];
        }
        gain += (squared_length(at_a, g->dim) + squared_length(at_b, g->dim) -
                 squared_length(sa, g->dim) - squared_length(sb, g->dim)) /
                (double)(g->n_paths / g->experts[level]);
    }
    return gain;
}

static void descend(grid *g)
{
    bool moved = true;
    for (int sweep = 0; sweep < SWEEPS_MAX && moved; sweep++) {
        moved = false;
        for (int a = 0; a < g->n_paths; a++)
            for (int b = a + 1; b < g->n_paths; b++)
                if (gain_of_swap(g, a, b) > 1e-9) {
                    int kept = g->order[a];
                    g->order[a] = g->order[b];
                    g->order[b] = kept;
                    fill_sums(g);
                    moved = true;
                }
    }
}

pl_status arrange_grid(float *centroids, int n_paths, int dim, int n_levels,
                       const int *experts, uint64_t seed)
{
    size_t row = (size_t)dim * sizeof *centroids;
    grid g = {.centroids = centroids,
              .n_paths = n_paths,
              .dim = dim,
              .n_levels = n_levels,
              .experts = experts};
    for (int level = 1; level < n_levels; level++)
        g.first[level] = g.first[level - 1] + experts[level - 1];
    g.n_modules = g.first[n_levels - 1] + experts[n_levels - 1];
    float *copy = NULL;
    PL_CHECK(pl_try_alloc((size_t)n_paths * row, "centroids", (void **)&copy));
    g.order = pl_alloc((size_t)n_paths * sizeof *g.order);
    g.best = pl_alloc((size_t)n_paths * sizeof *g.best);
    g.sums = pl_alloc((size_t)g.n_modules * (size_t)dim * sizeof *g.sums);
    g.trial = pl_alloc(2 * (size_t)dim * sizeof *g.trial);
    double best = -1;
    for (int start = 0; start < STARTS; start++) {
        const uint64_t stream = pl_stream("arrange", (uint64_t)start, 0);
        for (int path = 0; path < n_paths; path++)
            g.order[path] =
                start == 0
                    ? path
                    : (int)pl_permute(seed, stream, (uint64_t)n_paths, (uint64_t)path);
        fill_sums(&g);
        descend(&g);
        const double reached = cohesion(&g);
        if (reached > best * (1 + 1e-12)) {
            best = reached;
            memcpy(g.best, g.order, (size_t)n_paths * sizeof *g.best);
        }
    }
    memcpy(copy, centroids, (size_t)n_paths * row);
    for (int path = 0; path < n_paths; path++)
        memcpy(centroids + (size_t)path * (size_t)dim,
               copy + (size_t)g.best[path] * (size_t)dim, row);
    pl_free_all(g.order, g.best, g.sums, g.trial, copy);
    return PL_OK;
}
