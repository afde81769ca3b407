/* Balanced routing by prices. If each path has a limit, the assignment with the least
 * total cost can be described by one price per path: each document goes to the path
 * with the least sum of cost and price. (This is the dual of the transportation
 * problem; Bertsekas 1988, the auction algorithm.) Prices are part of the router. They
 * also balance new documents that resemble the documents to which the router was
 * fitted.
 *
 * The limit is a limit for weight, not for the number of documents: every path trains
 * the same number of steps, so shards should have about equal numbers of tokens.
 *
 * Prices start at zero and never fall. While a path is heavier than the limit, the
 * heaviest path raises its price until enough documents leave the path. The margin of a
 * document is the extra cost of its second best path; documents with the smallest
 * margins leave first. If the margin of the last document that must leave equals the
 * next margin, the price rises by this margin plus `step`. A path that was never too
 * heavy keeps price zero. A raise makes the path slightly lighter than the limit. If
 * the path were exactly at the limit, the next document that arrives would force out
 * another document, which would force out a third one from the next path. With 64 paths
 * this took more than ten times as many raises.
 *
 * If the documents of two heavy paths are far from all other paths, tiny raises would
 * move the same documents between the two paths again and again. So if n_paths raises
 * have not made the heaviest path lighter, all paths that raised their prices in this
 * time raise them together, until enough documents leave these paths.
 *
 * Prices cannot separate documents whose distances are equal, so each group of such
 * documents is one piece. Most pieces are one document. A piece that is heavier than
 * the limit does not fit on any path, and with its full weight prices would rise
 * without end. Such a piece counts only as much as the mean weight of a path. All other
 * documents of its path together then weigh at most (limit - mean).
 *
 * Pieces are not divided, so a limit near the mean may be impossible to reach. If
 * PATIENCE_A_PATH raises per path (at most PATIENCE_MAX in all) have not made the
 * heaviest path lighter, the auction ends and keeps the best prices. */
#include "router/balance.h"
#include "router/alike.h"
#include <math.h>
#include <stdlib.h>

enum { PIECES_AN_ITEM = 512, PATIENCE_A_PATH = 64, PATIENCE_MAX = 1 << 14 };
static const double ROUNDING = 1e-9; /* relative tolerance for sums of weights */
/* A raise should leave a path with a weight that is below the limit by this fraction of
 * (limit - mean weight). */
static const double ROOM = 0.125;
static const size_t NO_PIECE = SIZE_MAX;

typedef struct piece {
    /* index in `order` of the piece's first document; the piece ends where the next
     * begins */
    size_t first;
    size_t next; /* next piece of the same path, or NO_PIECE */
    double weight;
    int path;
} piece;

typedef struct offer {
    /* the cheapest cost among the paths that do not raise their prices, minus the cost
     * of the piece's present path */
    double margin;
    size_t piece;
} offer;

typedef struct auction {
    const balance_job *job;
    /* [n_paths] bias: current prices; best: the prices with which the weight of the
     * heaviest path was smallest */
    double *bias, *best;
    double lightest; /* weight of the heaviest path with the prices `best` */
    double target;   /* weight that a path should have after it raised its price */
    size_t *order;   /* [n] the documents; documents that are alike are adjacent */
    piece *pieces;   /* [n_pieces] */
    size_t n_pieces;
    double *load;  /* [n_paths] weight of each path */
    size_t *heads; /* [n_paths] first piece of each path, or NO_PIECE */
    bool *raises;  /* [n_paths] whether a path takes part in the present raise */
    /* [n_paths] whether a path has raised its price since the last raise in which
     * several paths raised their prices together */
    bool *raised;
    offer *offers; /* [n_pieces] the pieces of the paths in `raises` */
    size_t n_offers;
    double *costs; /* [n_threads, n_paths] scratch memory of each thread */
} auction;

static double *costs_of(const auction *a, size_t number, int thread)
{
    const pl_router *router = a->job->router;
    double *costs = a->costs + (size_t)thread * (size_t)router->n_paths;
    size_t document = a->order[a->pieces[number].first];
    size_t stride = (size_t)router_n_centroids(router);
    router_costs(router, a->job->distances + document * stride, a->bias, costs);
    return costs;
}

static pl_status choose_path(void *context, size_t item, int thread)
{
    auction *a = context;
    size_t first = item * PIECES_AN_ITEM;
    for (size_t g = first; g < a->n_pieces && g < first + PIECES_AN_ITEM; ++g)
        a->pieces[g].path =
            router_cheapest(costs_of(a, g, thread), a->job->router->n_paths);
    return PL_OK;
}

static void join_path(auction *a, size_t number, int path)
{
    piece *p = &a->pieces[number];
    p->path = path;
    p->next = a->heads[path];
    a->heads[path] = number;
    a->load[path] += p->weight;
}

/* Computes the margin of each offered piece (struct offer). */
static pl_status measure_margins(void *context, size_t item, int thread)
{
    auction *a = context;
    size_t first = item * PIECES_AN_ITEM;
    int n_paths = a->job->router->n_paths;
    for (size_t m = first; m < a->n_offers && m < first + PIECES_AN_ITEM; ++m) {
        size_t number = a->offers[m].piece;
        int own = a->pieces[number].path;
        double *costs = costs_of(a, number, thread), here = costs[own];
        for (int path = 0; path < n_paths; ++path)
            if (a->raises[path])
                costs[path] = INFINITY;
        a->offers[m].margin = costs[router_cheapest(costs, n_paths)] - here;
    }
    return PL_OK;
}

static int least_margin_first(const void *a, const void *b)
{
    const offer *x = a, *y = b;
    if (x->margin != y->margin)
        return x->margin < y->margin ? -1 : 1;
    return (x->piece > y->piece) - (x->piece < y->piece);
}

/* Raises the prices of all paths in `raises` by the same amount, so that pieces with a
 * total weight of `surplus` leave these paths. */
static pl_status raise_prices(auction *a, double surplus)
{
    int n_paths = a->job->router->n_paths;
    a->n_offers = 0;
    for (int path = 0; path < n_paths; ++path)
        if (a->raises[path])
            for (size_t g = a->heads[path]; g != NO_PIECE; g = a->pieces[g].next)
                a->offers[a->n_offers++].piece = g;
    size_t n_items = (a->n_offers + PIECES_AN_ITEM - 1) / PIECES_AN_ITEM;
    PL_CHECK(pl_parallel(a->job->n_threads, n_items, measure_margins, a));
    qsort(a->offers, a->n_offers, sizeof *a->offers, least_margin_first);
    /* The prices rise to half way between the margin of the last piece that must leave
     * and the margin of the first piece that may stay. If these two margins are equal,
     * both pieces leave, and the prices rise by the margin plus `step`. */
    size_t n_leave = 0;
    double leaving = 0.0;
    while (n_leave < a->n_offers && (n_leave == 0 || leaving < surplus))
        leaving += a->pieces[a->offers[n_leave++].piece].weight;
    const double last = a->offers[n_leave - 1].margin, least = last + a->job->step;
    const double middle =
        n_leave < a->n_offers ? 0.5 * (last + a->offers[n_leave].margin) : least;
    const double raise = middle > last ? middle : least;
    for (int path = 0; path < n_paths; ++path)
        if (a->raises[path]) {
            a->bias[path] += raise;
            a->heads[path] = NO_PIECE;
            a->load[path] = 0.0;
        }
    for (size_t m = 0; m < a->n_offers; ++m) {
        bool stays = a->offers[m].margin > raise + a->job->step;
        size_t g = a->offers[m].piece;
        int path =
            stays ? a->pieces[g].path : router_cheapest(costs_of(a, g, 0), n_paths);
        join_path(a, g, path);
    }
    return PL_OK;
}

/* Chooses the paths that raise their prices. Without `together` this is only `path`,
 * the heaviest path. With `together` (after n_paths raises without success) these are
 * all paths in `raised`; but if `raised` has every path, only `path` is chosen. Returns
 * the weight that must leave the chosen paths. */
static double choose_raises(auction *a, int path, bool together)
{
    size_t n_paths = (size_t)a->job->router->n_paths, n_raised = 0;
    double surplus = 0.0, own = a->load[path] - a->target;
    a->raised[path] = true;
    for (size_t p = 0; p < n_paths; ++p) {
        a->raises[p] = a->raised[p];
        n_raised += a->raised[p];
        surplus += a->raised[p] ? a->load[p] - a->target : 0.0;
    }
    if (together)
        memset(a->raised, 0, n_paths * sizeof *a->raised);
    if (together && n_raised < n_paths)
        return fmax(surplus, own);
    memset(a->raises, 0, n_paths * sizeof *a->raises);
    a->raises[path] = true;
    return own;
}

static pl_status hold_auction(auction *a)
{
    const balance_job *job = a->job;
    const size_t n_paths = (size_t)job->router->n_paths;
    const double limit = job->limit * (1.0 + ROUNDING);
    const size_t patience = n_paths < PATIENCE_MAX / PATIENCE_A_PATH
                                ? n_paths * PATIENCE_A_PATH
                                : PATIENCE_MAX;
    const size_t bytes = (size_t)router_n_centroids(job->router) * sizeof(double);
    a->lightest = INFINITY;
    memset(a->bias, 0, n_paths * sizeof *a->bias);
    memset(a->raised, 0, n_paths * sizeof *a->raised);
    /* Groups documents with equal distances into pieces. A piece that is heavier than
     * the limit does not fit into any shard, so its weight is set to the mean weight of
     * the paths. */
    double sum = 0.0;
    router_group_alike(job->distances, job->n, bytes, a->order);
    a->n_pieces = 0;
    for (size_t i = 0, end; i < job->n; i = end) {
        piece *p = &a->pieces[a->n_pieces++];
        *p = (piece){.first = i, .next = NO_PIECE};
        end = router_group_end(job->distances, job->n, bytes, a->order, i);
        for (size_t k = i; k < end; ++k)
            p->weight += job->weights[a->order[k]];
        sum += p->weight;
    }
    const double mean = sum / job->router->n_paths;
    for (size_t g = 0; g < a->n_pieces; ++g)
        if (a->pieces[g].weight > limit)
            a->pieces[g].weight = mean;
    a->target = job->limit - ROOM * (job->limit - mean);
    const size_t n_items = (a->n_pieces + PIECES_AN_ITEM - 1) / PIECES_AN_ITEM;
    PL_CHECK(pl_parallel(job->n_threads, n_items, choose_path, a));
    for (int path = 0; path < job->router->n_paths; ++path) {
        a->heads[path] = NO_PIECE;
        a->load[path] = 0.0;
    }
    for (size_t g = 0; g < a->n_pieces; ++g)
        join_path(a, g, a->pieces[g].path);
    for (size_t vain = 0; vain < patience; ++vain) {
        int path = 0;
        for (int other = 1; other < job->router->n_paths; ++other)
            if (a->load[other] > a->load[path])
                path = other;
        if (a->load[path] < a->lightest) {
            vain = 0;
            a->lightest = a->load[path];
            memcpy(a->best, a->bias, n_paths * sizeof *a->best);
        }
        if (a->lightest <= limit)
            break;
        bool together = vain % n_paths == n_paths - 1;
        PL_CHECK(raise_prices(a, choose_raises(a, path, together)));
    }
    memcpy(a->bias, a->best, n_paths * sizeof *a->bias);
    return pl_parallel(job->n_threads, n_items, choose_path, a);
}

pl_status balance_fit(const balance_job *job, double *bias, int *label, double *fullest)
{
    size_t n = job->n, P = (size_t)job->router->n_paths;
    size_t threads = (size_t)job->n_threads;
    auction a = {.job = job, .bias = bias};
    pl_status status;
    PL_TRY(pl_try_alloc(n * (sizeof *a.pieces + sizeof *a.offers + sizeof *a.order) +
                            P * (sizeof *a.heads + 2 * sizeof *a.raises) +
                            (threads + 2) * P * sizeof(double),
                        "balanced assignment", (void **)&a.pieces));
    a.offers = (offer *)(a.pieces + n);
    a.order = (size_t *)(a.offers + n);
    a.heads = a.order + n;
    a.best = (double *)(a.heads + P);
    a.load = a.best + P;
    a.costs = a.load + P;
    a.raises = (bool *)(a.costs + threads * P);
    a.raised = a.raises + P;
    PL_TRY(hold_auction(&a));
    /* All documents of a piece go to the path of the piece. */
    for (size_t g = 0; g < a.n_pieces; ++g) {
        size_t end = g + 1 < a.n_pieces ? a.pieces[g + 1].first : a.job->n;
        for (size_t i = a.pieces[g].first; i < end; ++i)
            label[a.order[i]] = a.pieces[g].path;
    }
    *fullest = a.lightest;
done:
    pl_free(a.pieces);
    return status;
}
