/* Scores all paths for a text (text_route.h). */
#include "job/text_route.h"

#include <math.h>

struct text_router {
    pl_mixture *mix;
    pl_path_chooser *chooser;
    char rule[16]; /* the rule that chooses the path */
    bool likelihood;
    double *costs;
};

pl_status text_router_open(pl_mixture *mix, const text_router_wish *wish,
                           text_router **out)
{
    const int n_paths = pl_topology_n_paths(mix->topology);
    text_router *t = pl_alloc(sizeof *t);
    pl_status status = PL_OK;
    *out = t;
    t->mix = mix;
    t->costs = pl_alloc((size_t)n_paths * sizeof *t->costs);
    pl_copy_text(t->rule, sizeof t->rule, wish->rule ? wish->rule : mix->settings.rule);
    t->likelihood = pl_answers_by_likelihood(wish->likelihood ? "likelihood" : t->rule,
                                             mix->settings.prefix, n_paths);
    PL_TRY(pl_path_chooser_open(&mix->settings, mix->store, &t->chooser));
    if (t->likelihood) {
        const bool keep =
            pl_path_chooser_bytes(t->chooser, mix->topology) <= wish->keep_bytes;
        PL_TRY(pl_path_chooser_by_likelihood(t->chooser, &mix->arm, mix->topology,
                                             keep ? n_paths : 1));
    }
done:
    if (status != PL_OK)
        text_router_close(out);
    return status;
}

void text_router_close(text_router **router)
{
    text_router *t = *router;
    if (!t)
        return;
    pl_path_chooser_close(&t->chooser);
    pl_free_all(t->costs, t);
    *router = NULL;
}

pl_status text_router_ask(text_router *t, const int32_t *tokens, int n, text_route *out)
{
    const pl_answer_settings *settings = &t->mix->settings;
    pl_path_choice choice = {.by_likelihood = false};
    *out = (text_route){.n_paths = pl_topology_n_paths(t->mix->topology),
                        .n_tokens = n - 1,
                        .n_seen = (n < settings->prefix ? n : settings->prefix) - 1,
                        .costs = t->costs};
    if (t->likelihood)
        PL_CHECK(pl_path_chooser_choose(t->chooser, tokens, n, &choice));
    PL_CHECK(pl_path_chooser_costs(t->chooser, tokens, n, out->n_paths, t->costs));
    for (int path = 1; path < out->n_paths; path++)
        if (out->costs[path] < out->costs[out->router_path])
            out->router_path = path;
    out->router_margin = INFINITY;
    for (int path = 0; path < out->n_paths; path++)
        if (path != out->router_path)
            out->router_margin = fmin(out->router_margin,
                                      out->costs[path] - out->costs[out->router_path]);
    if (choice.by_likelihood) {
        out->nats = choice.nats;
        out->likeliest = choice.path;
        out->margin_nats = choice.margin_nats;
        out->by_likelihood =
            pl_answers_by_likelihood(t->rule, settings->prefix, out->n_paths);
    }
    out->path = out->by_likelihood ? out->likeliest : out->router_path;
    out->why =
        out->by_likelihood  ? "its likelihood of the text is the highest"
        : out->n_paths == 1 ? "it is the only path"
        : out->n_seen < 1
            ? "there is no token that the paths could predict, so the router decides"
        : strcmp(t->rule, "auto") == 0
            ? "the router decides, because this run has more than 16 paths"
            : "the router decides";
    return PL_OK;
}

double text_route_posterior(const text_route *route, int path)
{
    const double *nats = route->nats;
    double sum = 0.0;
    if (nats && !isfinite(nats[path])) /* the path is closed (--without) */
        return 0.0;
    for (int other = 0; nats && other < route->n_paths; other++)
        sum += exp(nats[path] - nats[other]); /* exp gives 0 for a closed path */
    return nats ? 1.0 / sum : NAN;
}
