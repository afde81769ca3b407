/* Compares ways to choose a document's path. The losses of all targets of the documents
 * on all paths are one matrix, and the result of each way to choose is a sum over parts
 * of this matrix. So all ways (pl_route) are compared with the same parameters. Among
 * paths with equal sums the first is chosen. */
#include "eval/routes.h"
#include <math.h>

static double sum_losses(const float *losses, uint32_t first, uint32_t end)
{
    double sum = 0.0;
    for (uint32_t t = first; t < end; ++t)
        sum += (double)losses[t];
    return sum;
}

int route_likeliest(const pl_route_document *d, uint32_t first, uint32_t end,
                    double *nats)
{
    for (int path = 0; path < d->n_paths; ++path)
        nats[path] = sum_losses(d->losses + (size_t)path * d->stride, first, end);
    return pl_least_evidence(nats, d->n_paths);
}

void route_add(const pl_route_document *d, int path, uint32_t first, uint32_t end,
               pl_score *score)
{
    const float *losses = d->losses + (size_t)path * d->stride;
    const uint32_t T = (uint32_t)d->window;
    score->nats += sum_losses(losses, first, end);
    score->n_targets += end - first;
    if (first < T) {
        score->first_nats += sum_losses(losses, first, end < T ? end : T);
        score->n_first += (end < T ? end : T) - first;
    }
}

void pl_route_choose(const pl_route_document *d, pl_score scores[PL_ROUTE_COUNT],
                     pl_likeliest *out)
{
    /* index of the first counted target */
    uint32_t first = d->prefix > 1 ? (uint32_t)d->prefix - 1 : 0;
    uint32_t seen = first < d->n_targets ? first : d->n_targets;
    double *nats = pl_alloc((size_t)d->n_paths * sizeof *nats);
    pl_every_choice again;
    memset(scores, 0, PL_ROUTE_COUNT * sizeof *scores);
    *out = (pl_likeliest){d->router_path, INFINITY};
    if (seen > 0) {
        out->path = route_likeliest(d, 0, seen, nats);
        for (int other = 0; other < d->n_paths; ++other)
            if (other != out->path)
                out->margin_nats =
                    fmin(out->margin_nats, nats[other] - nats[out->path]);
    }
    if (d->n_targets > first) {
        int best = route_likeliest(d, first, d->n_targets, nats);
        route_add(d, d->router_path, first, d->n_targets, &scores[PL_ROUTE_ROUTER]);
        route_add(d, out->path, first, d->n_targets, &scores[PL_ROUTE_LIKELIHOOD]);
        route_add(d, best, first, d->n_targets, &scores[PL_ROUTE_BEST]);
        pl_route_every(d, out->path, d->prefix > 1 ? d->prefix : 1, &again);
        scores[PL_ROUTE_REROUTED] = again.history.score;
        scores[PL_ROUTE_BEST_PIECES] = again.oracle;
    }
    pl_free(nats);
}

/* ---- the matrix, computed for a part of the documents at a time ---- */
static size_t n_targets_of(const pl_route_job *job, size_t i)
{
    return pl_doc_targets(pl_tokens_doc(job->tokens, job->docs[i]));
}

static pl_status score_part(const pl_route_job *job, size_t first, size_t n,
                            size_t targets, float *params, const pl_routes *out)
{
    const pl_scorer_options *settings = pl_scorer_settings(job->scorer);
    const int n_paths = pl_topology_n_paths(settings->topology);
    float *losses = NULL;
    pl_status status;
    PL_TRY(pl_try_alloc(targets * (size_t)n_paths * sizeof(float),
                        "losses of every path", (void **)&losses));
    for (int path = 0; path < n_paths; ++path) {
        float *own = losses + (size_t)path * targets;
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
        const pl_token_doc *from = pl_tokens_doc(job->tokens, job->docs[i]);
        const size_t n_own = pl_doc_targets(from);
        float *gate = NULL;
        if (gated) {
            /* The losses of the document under the gate's models, one row per path. The
             * losses of a closed path are NaN, so that it is never chosen. */
            gate = pl_alloc((n_own * (size_t)n_paths + 1) * sizeof *gate);
            int32_t *text = pl_alloc((n_own + 1) * sizeof *text);
            pl_tokens_copy(job->tokens, from->first, n_own > 0 ? n_own + 1 : 0, text);
            job->gate_losses(job->gate, n_paths, text, (int)n_own + 1, gate, n_own);
            for (int path = 0; job->closed && path < n_paths; ++path)
                for (size_t t = 0; job->closed[path] && t < n_own; ++t)
                    gate[(size_t)path * n_own + t] = NAN;
            pl_free(text);
        }
        const pl_route_document d = {.losses = next,
                                     .stride = targets,
                                     .n_paths = n_paths,
                                     .n_targets = (uint32_t)n_own,
                                     .prefix = job->prefix,
                                     .window = settings->context,
                                     .step = settings->step,
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
    pl_free(losses);
    return status;
}

pl_status pl_score_routes(const pl_route_job *job, const pl_routes *out)
{
    const pl_topology *t = pl_scorer_settings(job->scorer)->topology;
    const int n_paths = pl_topology_n_paths(t);
    const size_t bytes = pl_topology_path_params(t) * sizeof(float);
    const size_t most = job->most_bytes / ((size_t)n_paths * sizeof(float));
    void *params = NULL;
    pl_status status;
    PL_TRY(pl_check_paths(job->path_of, job->n, n_paths));
    PL_TRY(pl_try_alloc(bytes, "a path's parameters", &params));
    for (size_t first = 0, n; first < job->n; first += n) {
        /* the losses of these documents fit into most_bytes; at least one document */
        size_t targets = n_targets_of(job, first);
        for (n = 1;
             first + n < job->n && targets + n_targets_of(job, first + n) <= most; ++n)
            targets += n_targets_of(job, first + n);
        PL_TRY(score_part(job, first, n, targets, params, out));
    }
done:
    pl_free(params);
    return status;
}
