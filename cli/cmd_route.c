/* pathloom route: prints how well each path fits a text, which answers, and why. */
#include "cli/cli.h"
#include "cli/row.h"

#include <math.h>

typedef struct request {
    mixture_wish wish;
    const char *dir, *prompt, *file, *route;
    bool json;
} request;

static const cli_option options[] = {
    CLI_RUN(request, dir),
    CLI_ANSWER(request, wish),
    CLI_OPTION("prompt", CLI_TEXT, request, prompt, "TEXT", "the text to route"),
    CLI_OPTION("file", CLI_TEXT, request, file, "FILE",
               "read the text from this file, or from standard input (-); only its "
               "first document counts"),
    CLI_OPTION("route", CLI_TEXT, request, route, "RULE",
               "router, likelihood or auto, as in `pathloom generate` (router.answer)"),
    CLI_JSON(request, json),
};

typedef struct routing_call {
    pl_mixture mix;
    text_router *router;
    text_route route;
    pl_buf tokens;
    bool have_text;
} routing_call;

static pl_status take_first_document(void *context, const pl_document *document)
{
    routing_call *call = context;
    if (call->have_text)
        return PL_OK;
    call->have_text = true;
    return pl_tokenizer_encode(call->mix.tokenizer, document->text, document->len,
                               &call->tokens);
}

/* Shows a number of a path. Shows a dash of the same width if the path has no such
 * number, because it is closed or its likelihood is not known. */
static void show_path_real(row *r, const char *key, double value, const char *format,
                           const char *dash)
{
    row_real(r, key, value, isfinite(value) ? format : dash);
}

static pl_status run_route(int argc, char **argv)
{
    const int32_t bos = PL_TOKEN_BOS;
    request q = {0};
    routing_call call = {0};
    pl_read_stats stats;
    pl_status status = PL_OK;
    PL_CHECK(cli_read(&verb_route, argc, argv, &q, NULL));
    if (q.route)
        PL_CHECK(config_check_answer("--route", q.route));
    if ((q.prompt != NULL) == (q.file != NULL))
        return pl_fail(PL_ERR_USAGE,
                       "route needs either --prompt TEXT or --file FILE, not both");
    PL_TRY(mixture_open(q.dir, &q.wish, &call.mix));
    pl_buf_append(&call.tokens, &bos, sizeof bos);
    PL_TRY(q.prompt ? pl_tokenizer_encode(call.mix.tokenizer, q.prompt,
                                          strlen(q.prompt), &call.tokens)
                    : pl_documents_cut(q.file, 0, take_first_document, &call, &stats));
    if (q.file && !call.have_text)
        PL_TRY(pl_fail(PL_ERR_DATA, "there is no text in '%s'", q.file));
    PL_TRY(text_router_open(&call.mix,
                            &(text_router_wish){.rule = q.route, .likelihood = true},
                            &call.router));
    PL_TRY(text_router_ask(call.router, pl_prompt_tokens(&call.tokens),
                           pl_prompt_count(&call.tokens), &call.route));
    const pl_topology *t = call.mix.topology;
    const text_route *route = &call.route;
    char name[PL_NAME_MAX], by_router[PL_NAME_MAX];
    row r = row_begin(q.json);
    pl_topology_path_name(t, route->path, name);
    pl_topology_path_name(t, route->router_path, by_router);
    row_text(&r, "path", name, "%s answers: ");
    row_text(&r, "route", route->by_likelihood ? "likelihood" : "router", NULL);
    row_text(&r, "why", route->why, "%s");
    row_int(&r, "tokens", route->n_tokens, NULL);
    row_int(&r, "tokens_seen", route->n_seen,
            route->nats ? "\nthe paths read the first %s tokens" : NULL);
    if (route->nats) {
        char likely[PL_NAME_MAX];
        pl_topology_path_name(t, route->likeliest, likely);
        row_text(&r, "likeliest_path", likely, "; the likeliest path is %s");
        show_path_real(&r, "margin_nats", route->margin_nats,
                       ", %.2f nats ahead of the second",
                       ", the only path that may answer");
    }
    row_text(&r, "router_path", by_router, "; the router takes %s");
    show_path_real(&r, "router_margin", route->router_margin,
                   ", %.4f ahead of the second", ", the only path that may answer");
    row_say(&r, "\n\n%-6s %11s %9s %10s %12s %9s", "path", "nats", "behind",
            "posterior", "router cost", "behind");
    row_break(&r);
    row_list(&r, "paths");
    const double *nats = route->nats;
    for (int path = 0; path < route->n_paths; path++) {
        row item = row_item(&r);
        pl_topology_path_name(t, path, name);
        row_text(&item, "path", name, "%-6s");
        row_say(&item, "%s", path == route->path ? "*" : " ");
        show_path_real(&item, "nats", nats ? nats[path] : NAN, " %10.2f",
                       "          -");
        show_path_real(&item, "behind_nats",
                       nats ? nats[path] - nats[route->likeliest] : NAN, " %9.2f",
                       "         -");
        show_path_real(&item, "posterior", text_route_posterior(route, path), " %10.4f",
                       "          -");
        show_path_real(&item, "router_cost", route->costs[path], " %12.4f",
                       "            -");
        show_path_real(&item, "router_behind",
                       route->costs[path] - route->costs[route->router_path], " %9.4f",
                       "         -");
        row_finish(&item);
    }
    row_finish(&r);
done:
    text_router_close(&call.router);
    pl_buf_destroy(&call.tokens);
    pl_mixture_close(&call.mix);
    return status;
}

const cli_verb verb_route = {
    .name = "route",
    .usage = "route --run RUN --prompt TEXT | --file FILE [--json]",
    .help = "show the scores of all paths for a text: which one answers, and why",
    CLI_TABLE(options),
    .notes = "nats: -log p of the first tokens (router.prefix) under the path, plus "
             "that of the later tokens by the router's counts. behind: difference to "
             "the best path. posterior: the path's share of the likelihoods of all "
             "paths. router cost: -log p of all tokens by the router's counts. *: the "
             "path that generate, serve and export --prompt choose.",
    .computes = true,
    .run = run_route};
