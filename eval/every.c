/* Chooses the path of a document again every W tokens, from the matrix of routes.c.
 *
 * Under teacher forcing, the chosen path reads all of the earlier text, no matter which
 * paths were chosen for that text. So the loss of a target on a path is an entry of the
 * matrix and does not depend on earlier choices. The result for every W is exact and
 * costs only sums.
 *
 *   piece k      counted targets k W .. (k + 1) W - 1; the last one may be short
 *   history W    piece 0 as PL_ROUTE_LIKELIHOOD, each later piece by the path with the
 *                least evidence against it, from the text before the piece: the sum of
 *                a path's losses, but at most MOST_BEHIND nats above that of the best
 *                path
 *   gate W       the same rule, but the losses are those of the router's tiny language
 *                models (router/prefix_lm.c), and piece 0 goes to the router's path. So
 *                only the chosen path must read the text
 *   oracle W     hindsight: the best path of each piece
 *
 * `history` and `gate` can be used in practice; `oracle` cannot, because it needs the
 * text that follows the piece. Without the limit, a path that predicted a long
 * beginning well would be kept long after the text has changed. With the limit, a lead
 * of MOST_BEHIND nats is enough to change the path, however long the earlier text was.
 * This is Viterbi's algorithm for a text that continues with each of the other paths
 * with probability exp(-MOST_BEHIND) at any token (the fixed share of Herbster and
 * Warmuth 1998). */
#include "eval/eval.h"
#include <math.h>
#include <string.h>

/* limit in nats; docs/results/routing.md compares values */
#define MOST_BEHIND 24.0

void pl_evidence_add(double *evidence, int n_paths, const float *losses, size_t stride,
                     size_t n)
{
    for (size_t t = 0; t < n; ++t) {
        double least = NAN;
        for (int path = 0; path < n_paths; ++path) {
            evidence[path] += (double)losses[(size_t)path * stride + t];
            least = fmin(least, evidence[path]);
        }
        for (int path = 0; path < n_paths; ++path)
            if (evidence[path] - least > MOST_BEHIND)
                evidence[path] = MOST_BEHIND;
            else
                evidence[path] -= least;
    }
}

int pl_least_evidence(const double *evidence, int n_paths)
{
    int best = 0;
    for (int path = 1; path < n_paths; ++path)
        if (evidence[path] < evidence[best] || isnan(evidence[best]))
            best = path;
    return best;
}

static double sum_piece(const pl_route_document *d, int path, uint32_t first,
                        uint32_t end)
{
    const float *losses = d->losses + (size_t)path * d->stride;
    double sum = 0.0;
    for (uint32_t t = first; t < end; ++t)
        sum += (double)losses[t];
    return sum;
}

static double best_piece(const pl_route_document *d, uint32_t first, uint32_t end)
{
    double best = sum_piece(d, 0, first, end);
    for (int path = 1; path < d->n_paths; ++path)
        best = fmin(best, sum_piece(d, path, first, end));
    return best;
}

static void add_piece(pl_score *score, double nats, uint32_t n)
{
    score->nats += nats;
    score->n_targets += n;
}

/* Follows the path that the losses `by` choose; the score is that of the paths'
 * losses. */
static void follow_losses(const pl_route_document *d, const float *by, size_t stride,
                          int path, uint32_t W, pl_every_way *out)
{
    const uint32_t n = d->n_targets;
    const uint32_t first = d->prefix > 1 ? (uint32_t)d->prefix - 1 : 0;
    double *evidence = pl_alloc((size_t)d->n_paths * sizeof *evidence);
    uint32_t read = 0;
    for (uint32_t at = first; at < n; at += W) {
        const uint32_t end = n - at < W ? n : at + W;
        if (at > first) {
            const int before = path;
            path = pl_least_evidence(evidence, d->n_paths);
            out->n_choices++;
            out->n_changes += path != before;
        }
        add_piece(&out->score, sum_piece(d, path, at, end), end - at);
        pl_evidence_add(evidence, d->n_paths, by + read, stride, end - read);
        read = end;
    }
    pl_free(evidence);
}

void pl_route_every(const pl_route_document *d, int path, int every,
                    pl_every_choice *out)
{
    const uint32_t W = (uint32_t)every, n = d->n_targets;
    const uint32_t first = d->prefix > 1 ? (uint32_t)d->prefix - 1 : 0;
    memset(out, 0, sizeof *out);
    follow_losses(d, d->losses, d->stride, path, W, &out->history);
    if (d->gate)
        follow_losses(d, d->gate, n, d->router_path, W, &out->gate);
    for (uint32_t at = first; at < n; at += W) {
        const uint32_t end = n - at < W ? n : at + W;
        add_piece(&out->oracle, best_piece(d, at, end), end - at);
    }
}
