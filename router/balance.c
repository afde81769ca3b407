/* Balanced routing by prices: the assignment of least total cost under a limit a path
 * gives every document the path that is cheapest after a price a path is added (the
 * dual of the transportation problem; Bertsekas 1988, the auction algorithm). So the
 * balance needs no list of documents: it is part of the router and holds for new ones
 * as far as they are like those it was fitted on.
 *
 * Prices start at zero. While a path has too many documents, the fullest raises its
 * price by as much as makes the surplus leave: the documents with the least to lose.
 * Prices only rise, by `step` where margins are equal; a path that was never too full
 * keeps price zero.
 *
 * Documents that are alike cannot be parted by any price: a group of them that is
 * larger than a path may be would drive the prices for ever. Of each group only as many
 * count as a path has in the mean, so that some others may be where it is.
 */
#include "router/balance.h"
#include "router/alike.h"
#include <stdlib.h>
#include <string.h>

enum { POINTS_A_ITEM = 256, RAISES_A_PATH = 4096, RAISES_MAX = 1 << 18 };

typedef struct auction {
    const balance_job *job;
    double *bias, *best; /* [n_paths] prices; those with the smallest fullest path */
    size_t smallest;     /* fullest path so far */
    int *label;
    size_t *docs; /* [n_docs] those that count */
    size_t n_docs;
    size_t *count;   /* [n_paths] */
    size_t *members; /* [n] documents of the path that raises its price */
    size_t n_members;
    double *margin; /* [n] of each member: what leaving would cost it */
    double *sorted; /* [n] the same, rising */
    double *costs;  /* [n_threads, n_paths] */
} auction;

static double *costs_of(const auction *a, size_t document, int thread)
{
    const pl_router *router = a->job->router;
    double *costs = a->costs + (size_t)thread * (size_t)router->n_paths;
    size_t stride = (size_t)router_n_centroids(router);
    router_costs(router, a->job->distances + document * stride, a->bias, costs);
    return costs;
}

/* Of documents that are alike at most a mean shard counts. */
static void choose_documents(auction *a)
{
    const balance_job *job = a->job;
    size_t bytes = (size_t)router_n_centroids(job->router) * sizeof(double), end;
    size_t most = job->n / (size_t)job->router->n_paths;
    size_t *order = a->members; /* not in use yet */
    router_group_alike(job->distances, job->n, bytes, order);
    a->n_docs = 0;
    for (size_t i = 0; i < job->n; i = end) {
        end = router_group_end(job->distances, job->n, bytes, order, i);
        for (size_t k = i; k < end && k - i < (most ? most : 1); ++k)
            a->docs[a->n_docs++] = order[k];
    }
}

static void choose_all(auction *a)
{
    a->n_docs = a->job->n;
    for (size_t i = 0; i < a->n_docs; ++i)
        a->docs[i] = i;
}

/* Items of those that count: everyone takes the cheapest path. */
static pl_status label_item(void *context, size_t item, int thread)
{
    auction *a = context;
    size_t first = item * POINTS_A_ITEM;
    for (size_t i = first; i < a->n_docs && i < first + POINTS_A_ITEM; ++i)
        a->label[a->docs[i]] =
            router_cheapest(costs_of(a, a->docs[i], thread), a->job->router->n_paths);
    return PL_OK;
}

static pl_status label_documents(auction *a)
{
    size_t n_items = (a->n_docs + POINTS_A_ITEM - 1) / POINTS_A_ITEM;
    return pl_parallel(a->job->n_threads, n_items, label_item, a);
}

/* Items of the members: how much more the best other path costs. */
static pl_status measure_margins(void *context, size_t item, int thread)
{
    auction *a = context;
    size_t first = item * POINTS_A_ITEM;
    for (size_t m = first; m < a->n_members && m < first + POINTS_A_ITEM; ++m) {
        int own = a->label[a->members[m]];
        double *costs = costs_of(a, a->members[m], thread);
        double here = costs[own], other = -1.0;
        for (int path = 0; path < a->job->router->n_paths; ++path)
            if (path != own && (other < 0.0 || costs[path] < other))
                other = costs[path];
        a->margin[m] = other - here;
    }
    return PL_OK;
}

static pl_status relabel_members(void *context, size_t item, int thread)
{
    auction *a = context;
    size_t first = item * POINTS_A_ITEM;
    for (size_t m = first; m < a->n_members && m < first + POINTS_A_ITEM; ++m) {
        double *costs = costs_of(a, a->members[m], thread);
        a->label[a->members[m]] = router_cheapest(costs, a->job->router->n_paths);
    }
    return PL_OK;
}

static void count_labels(auction *a)
{
    memset(a->count, 0, (size_t)a->job->router->n_paths * sizeof *a->count);
    for (size_t i = 0; i < a->n_docs; ++i)
        ++a->count[a->label[a->docs[i]]];
}

static int fullest(const auction *a)
{
    int best = 0;
    for (int path = 1; path < a->job->router->n_paths; ++path)
        if (a->count[path] > a->count[best])
            best = path;
    return best;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Half way between the last margin that must leave and the first that may stay; past
 * those that are equal to it, for they leave together. */
static double raise_needed(auction *a, size_t surplus)
{
    memcpy(a->sorted, a->margin, a->n_members * sizeof *a->sorted);
    qsort(a->sorted, a->n_members, sizeof *a->sorted, compare_doubles);
    double last = a->sorted[surplus - 1], next = a->sorted[surplus];
    double middle = 0.5 * (last + next), least = last + a->job->step;
    return middle > last ? middle : least;
}

static pl_status raise_price(auction *a, int path)
{
    a->n_members = 0;
    for (size_t i = 0; i < a->n_docs; ++i)
        if (a->label[a->docs[i]] == path)
            a->members[a->n_members++] = a->docs[i];
    size_t n_items = (a->n_members + POINTS_A_ITEM - 1) / POINTS_A_ITEM;
    PL_RETURN_IF(pl_parallel(a->job->n_threads, n_items, measure_margins, a));
    a->bias[path] += raise_needed(a, a->n_members - a->job->limit);
    PL_RETURN_IF(pl_parallel(a->job->n_threads, n_items, relabel_members, a));
    count_labels(a);
    return PL_OK;
}

static pl_status hold_auction(auction *a)
{
    const size_t n_paths = (size_t)a->job->router->n_paths;
    const size_t most =
        n_paths < RAISES_MAX / RAISES_A_PATH ? n_paths * RAISES_A_PATH : RAISES_MAX;
    a->smallest = SIZE_MAX;
    memset(a->bias, 0, n_paths * sizeof *a->bias);
    choose_documents(a);
    PL_RETURN_IF(label_documents(a));
    count_labels(a);
    for (size_t raise = 0;; ++raise) {
        int path = fullest(a);
        if (a->count[path] < a->smallest) {
            a->smallest = a->count[path];
            memcpy(a->best, a->bias, n_paths * sizeof *a->best);
        }
        if (a->smallest <= a->job->limit || raise == most)
            break;
        PL_RETURN_IF(raise_price(a, path));
    }
    memcpy(a->bias, a->best, n_paths * sizeof *a->bias);
    choose_all(a);
    return label_documents(a);
}

pl_status balance_fit(const balance_job *job, double *bias, int *label, bool *held)
{
    size_t n = job->n, P = (size_t)job->router->n_paths;
    size_t threads = (size_t)job->n_threads;
    if (job->limit < 1 || job->limit * P < n || !(job->step > 0.0))
        return pl_fail(PL_ERR_ARG, "%zu documents do not fit %zu paths of at most %zu",
                       n, P, job->limit);
    auction a = {.job = job, .bias = bias, .label = label};
    void *memory = NULL;
    pl_status status;
    PL_TRY(pl_try_alloc((2 * n + (threads + 1) * P) * sizeof(double) +
                            (2 * n + P) * sizeof(size_t),
                        "balanced assignment", &memory));
    a.margin = memory;
    a.sorted = a.margin + n;
    a.costs = a.sorted + n;
    a.best = a.costs + threads * P;
    a.members = (size_t *)(a.best + P);
    a.docs = a.members + n;
    a.count = a.docs + n;
    PL_TRY(hold_auction(&a));
    *held = a.smallest <= job->limit;
done:
    pl_free_aligned(memory);
    return status;
}
