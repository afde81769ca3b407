/* Chooses the path of a document again every W tokens, from the matrix of routes.c.
 *
 * Under teacher forcing, the chosen path reads all of the earlier text, no matter which
 * paths were chosen for that text. So the loss of a target on a path is an entry of the
 * matrix and does not depend on earlier choices. The result for every W is exact and
 * needs only additions, no further runs of a model.
 *
 *   piece k      counted targets k W .. (k + 1) W - 1; the last piece may be shorter
 *   history W    chooses piece 0 as PL_ROUTE_LIKELIHOOD does, and for each later piece
 *                the path with the least evidence against it. This evidence is the sum
 *                of the path's losses in the text before the piece, but at most
 *                PL_HISTORY_BEHIND nats more than the evidence against the best path.
 *   gate W       the same rule with the losses of the router's tiny language models
 *                (router/prefix_lm.c); piece 0 goes to the router's path. So only the
 *                chosen path must read the text. The limit is PL_GATE_BEHIND, because
 *                these losses differ less between paths.
 *   oracle W     chooses, in hindsight, the path that predicts each piece best
 *
 * `history` and `gate` can be used in practice; `oracle` cannot, because it needs the
 * text that follows the piece. Without the limit, a path that predicted a long
 * beginning well would stay the chosen path long after the text has changed. With the
 * limit, the path changes as soon as another path predicts the newer text better by
 * PL_HISTORY_BEHIND nats, however long the earlier text is. This is Viterbi's algorithm
 * for a text that continues with each of the other paths with probability
 * exp(-PL_HISTORY_BEHIND) at any token (the fixed share of Herbster and Warmuth
 * 1998). */
#include "eval/routes.h"
#include <math.h>

void pl_evidence_add(double *evidence, int n_paths, double behind, const float *losses,
                     size_t stride, size_t n)
{
    for (size_t t = 0; t < n; ++t) {
        double least = NAN;
        for (int path = 0; path < n_paths; ++path) {
            evidence[path] += (double)losses[(size_t)path * stride + t];
            least = fmin(least, evidence[path]);
        }
        for (int path = 0; path < n_paths; ++path)
            if (evidence[path] - least > behind)
                evidence[path] = behind;
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

/* The losses by which a rule chooses: one row per path. */
typedef struct rule_losses {
    const float *losses;
    size_t stride;
    double behind; /* limit of the evidence */
    bool all_read; /* whether all paths read all tokens */
} rule_losses;

/* Applies a rule to a document: chooses a path for each piece, and adds the losses of
 * the chosen paths to the score. */
static void follow_rule(const pl_route_document *d, const rule_losses *rule, int path,
                        uint32_t W, pl_every_way *out)
{
    const uint32_t n = d->n_targets;
    const uint32_t first = d->prefix > 1 ? (uint32_t)d->prefix - 1 : 0;
    double *evidence = pl_alloc((size_t)d->n_paths * sizeof *evidence);
    /* number of tokens that each path has read */
    uint32_t *lengths = pl_alloc((size_t)d->n_paths * sizeof *lengths);
    uint32_t read = 0;
    for (uint32_t at = first; at < n; at += W) {
        const uint32_t end = n - at < W ? n : at + W;
        if (at > first) {
            const int before = path;
            path = pl_least_evidence(evidence, d->n_paths);
            out->n_choices++;
            out->n_changes += path != before;
            lengths[before] = at;
            const uint32_t T = (uint32_t)d->window;
            const uint32_t window =
                pl_window_start(at, T, d->step > 0 ? (uint32_t)d->step : T);
            if (!rule->all_read && lengths[path] < at)
                out->n_missed += at - (lengths[path] > window ? lengths[path] : window);
        }
        route_add(d, path, at, end, &out->score);
        pl_evidence_add(evidence, d->n_paths, rule->behind, rule->losses + read,
                        rule->stride, end - read);
        read = end;
    }
    pl_free_all(lengths, evidence);
}

void pl_route_every(const pl_route_document *d, int path, int every,
                    pl_every_choice *out)
{
    const uint32_t W = (uint32_t)every, n = d->n_targets;
    const uint32_t first = d->prefix > 1 ? (uint32_t)d->prefix - 1 : 0;
    memset(out, 0, sizeof *out);
    const rule_losses history = {d->losses, d->stride, PL_HISTORY_BEHIND, true};
    const rule_losses gate = {d->gate, n, PL_GATE_BEHIND, false};
    double *nats = pl_alloc((size_t)d->n_paths * sizeof *nats);
    follow_rule(d, &history, path, W, &out->history);
    if (d->gate)
        follow_rule(d, &gate, d->router_path, W, &out->gate);
    for (uint32_t at = first; at < n; at += W) {
        const uint32_t end = n - at < W ? n : at + W;
        route_add(d, route_likeliest(d, at, end, nats), at, end, &out->oracle);
    }
    pl_free(nats);
}
