/* Compares ways to choose a document's path. The losses of all targets of the documents
 * on all paths are one matrix, and the result of each way to choose is a sum over parts
 * of this matrix. So all ways are compared with the same parameters.
 *
 *   router       one path per document: the path that the caller gives
 *   likelihood   one path per document: the path under which the prefix is likeliest,
 *                p = argmin_p sum of its losses of the targets within the prefix
 *   windows      window 0 as likelihood; for each later window, the path with the least
 *                evidence against it, e_p <- e_p / 2 + its losses of the window before.
 *                Only text before the window counts, and recent text counts most.
 *   best         in hindsight, the path that predicts the document's counted targets
 *                best
 *   best windows in hindsight, the path that predicts each window's counted targets
 *                best
 *
 * Among paths with equal sums the first is chosen. A path whose losses are NaN is
 * chosen only if the losses of all paths are NaN. */
#include "eval/eval.h"
#include <math.h>
#include <string.h>

static double sum_losses(const float *losses, uint32_t first, uint32_t end)
{
    double sum = 0.0;
    for (uint32_t t = first; t < end; ++t)
        sum += (double)losses[t];
    return sum;
}

/* Returns the path under which the targets first .. end - 1 are likeliest; nats
 * [n_paths] gets the sums of losses. */
static int likeliest(const pl_route_document *d, uint32_t first, uint32_t end,
                     double *nats)
{
    for (int path = 0; path < d->n_paths; ++path)
        nats[path] = sum_losses(d->losses + (size_t)path * d->stride, first, end);
    return pl_least_evidence(nats, d->n_paths);
}

static void add_part(const pl_route_document *d, int path, uint32_t first, uint32_t end,
                     pl_score *score)
{
    score->nats += sum_losses(d->losses + (size_t)path * d->stride, first, end);
    score->n_targets += end - first;
}

static void route_windows(const pl_route_document *d, uint32_t first, int path,
                          double *nats, double *evidence,
                          pl_score scores[PL_ROUTE_COUNT])
{
    uint32_t W = (uint32_t)d->window;
    for (uint32_t at = 0; at < d->n_targets; at += W) {
        uint32_t end = d->n_targets - at < W ? d->n_targets : at + W;
        uint32_t from = at > first ? at : first;
        if (at > 0)
            path = pl_least_evidence(evidence, d->n_paths);
        if (from < end) {
            add_part(d, path, from, end, &scores[PL_ROUTE_WINDOWS]);
            add_part(d, likeliest(d, from, end, nats), from, end,
                     &scores[PL_ROUTE_BEST_WINDOWS]);
        }
        for (int p = 0; p < d->n_paths; ++p) {
            const float *losses = d->losses + (size_t)p * d->stride;
            evidence[p] = evidence[p] / 2 + sum_losses(losses, at, end);
        }
    }
}

void pl_route_choose(const pl_route_document *d, pl_score scores[PL_ROUTE_COUNT],
                     pl_likeliest *out)
{
    /* index of the first counted target */
    uint32_t first = d->prefix > 1 ? (uint32_t)d->prefix - 1 : 0;
    uint32_t seen = first < d->n_targets ? first : d->n_targets;
    double *nats = pl_alloc(2 * (size_t)d->n_paths * sizeof *nats);
    memset(scores, 0, PL_ROUTE_COUNT * sizeof *scores);
    *out = (pl_likeliest){d->router_path, INFINITY};
    if (seen > 0) {
        out->path = likeliest(d, 0, seen, nats);
        for (int other = 0; other < d->n_paths; ++other)
            if (other != out->path)
                out->margin_nats =
                    fmin(out->margin_nats, nats[other] - nats[out->path]);
    }
    if (d->n_targets > first) {
        int best = likeliest(d, first, d->n_targets, nats);
        add_part(d, d->router_path, first, d->n_targets, &scores[PL_ROUTE_ROUTER]);
        add_part(d, out->path, first, d->n_targets, &scores[PL_ROUTE_LIKELIHOOD]);
        add_part(d, best, first, d->n_targets, &scores[PL_ROUTE_BEST]);
        route_windows(d, first, out->path, nats, nats + d->n_paths, scores);
    }
    pl_free(nats);
}

/* ---- the matrix, computed for a part of the documents at a time ---- */

static size_t n_targets_of(const pl_route_job *job, size_t i)
{
    return pl_doc_targets(pl_tokens_doc(job->tokens, job->docs[i]));
}

/* Returns the losses of a document under the gate's models, one row per path. The
 * losses of a closed path are NaN, so that it is never chosen. */
static float *make_gate_losses(const pl_route_job *job, uint32_t doc)
{
    const pl_token_doc *from = pl_tokens_doc(job->tokens, doc);
    const size_t n = pl_doc_targets(from);
    const int n_paths = pl_topology_n_paths(pl_scorer_topology(job->scorer));
    float *losses = pl_alloc((n * (size_t)n_paths + 1) * sizeof *losses);
    int32_t *text = pl_alloc((n + 1) * sizeof *text);
    pl_tokens_copy(job->tokens, from->first, n > 0 ? n + 1 : 0, text);
    job->gate_losses(job->gate, n_paths, text, (int)n + 1, losses, n);
    for (int path = 0; job->closed && path < n_paths; ++path)
        for (size_t t = 0; job->closed[path] && t < n; ++t)
            losses[(size_t)path * n + t] = NAN;
    pl_free(text);
    return losses;
}

static pl_status score_part(const pl_route_job *job, size_t first, size_t n,
                            size_t targets, float *params, const pl_routes *out)
{
    const pl_topology *t = pl_scorer_topology(job->scorer);
    const int n_paths = pl_topology_n_paths(t);
    void *losses = NULL;
    pl_status status;
    PL_TRY(pl_try_alloc(targets * (size_t)n_paths * sizeof(float),
                        "losses of every path", &losses));
    for (int path = 0; path < n_paths; ++path) {
        float *own = (float *)losses + (size_t)path * targets;
        for (size_t i = 0; job->closed && job->closed[path] && i < targets; ++i)
            own[i] = NAN;
        if (job->closed && job->closed[path])
            continue;
        PL_TRY(job->params(job->context, path, params));
        PL_TRY(pl_scorer_load(job->scorer, params));
        PL_TRY(pl_score_targets(job->scorer, job->tokens, job->docs + first, n, own));
    }
    const bool gated = job->gate && job->n_every > 0;
    const float *next = losses;
    pl_score scores[PL_ROUTE_COUNT];
    for (size_t i = first; i < first + n; ++i) {
        float *gate = gated ? make_gate_losses(job, job->docs[i]) : NULL;
        const pl_route_document d = {.losses = next,
                                     .stride = targets,
                                     .n_paths = n_paths,
                                     .n_targets = (uint32_t)n_targets_of(job, i),
                                     .prefix = job->prefix,
                                     .window = pl_topology_shape(t)->context,
                                     .router_path = job->path_of[i],
                                     .gate = gate};
        pl_route_choose(&d, scores, &out->likeliest[i]);
        for (int route = 0; route < PL_ROUTE_COUNT; ++route)
            out->scores[(size_t)route * job->n + i] = scores[route];
        for (int w = 0; w < job->n_every; ++w)
            pl_route_every(&d, out->likeliest[i].path, job->every[w],
                           &out->every[(size_t)w * job->n + i]);
        next += d.n_targets;
        pl_free(gate);
    }
done:
    pl_free_aligned(losses);
    return status;
}

pl_status pl_score_routes(const pl_route_job *job, const pl_routes *out)
{
    const pl_topology *t = pl_scorer_topology(job->scorer);
    const int n_paths = pl_topology_n_paths(t);
    const size_t bytes = pl_topology_path_params(t) * sizeof(float);
    const size_t most = job->most_bytes / ((size_t)n_paths * sizeof(float));
    size_t targets;
    void *params = NULL;
    pl_status status;
    PL_TRY(pl_check_paths(job->path_of, job->n, n_paths));
    PL_TRY(pl_try_alloc(bytes, "a path's parameters", &params));
    for (size_t first = 0, n; first < job->n; first += n) {
        /* the losses of these documents fit into most_bytes; at least one document */
        targets = n_targets_of(job, first);
        for (n = 1; first + n < job->n; ++n) {
            if (targets + n_targets_of(job, first + n) > most)
                break;
            targets += n_targets_of(job, first + n);
        }
        PL_TRY(score_part(job, first, n, targets, params, out));
    }
done:
    pl_free_aligned(params);
    return status;
}
