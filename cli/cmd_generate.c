/* pathloom generate: writes text on the path that the prompt chooses. */
#include "cli/cli.h"

typedef struct request {
    mixture_wish wish;
    const char *dir, *prompt, *path, *route, *precision;
    pl_generate_options options;
    int64_t seed;
    const char *select;
    int every; /* tokens between two choices of the path; 0: only one choice */
    given_texts stop;
    bool json;
} request;

static const cli_option options[] = {
    CLI_RUN(request, dir),
    CLI_ANSWER(request, wish),
    CLI_OPTION("prompt", CLI_TEXT, request, prompt, "TEXT",
               "beginning of the text; its tokens choose the path"),
    CLI_OPTION("path", CLI_TEXT, request, path, "pNN",
               "let this path answer, for any prompt, or an arm with one path (dense)"),
    CLI_OPTION("route", CLI_TEXT, request, route, "RULE",
               "router: the router chooses the path; likelihood: the path under which "
               "the prompt is likeliest; auto: likelihood, if there are at most 16 "
               "paths (router.answer)"),
    CLI_SELECT(request, select),
    CLI_NUMBER("route-every", CLI_INT, request, every, "W", 1, 1 << 20,
               "choose the path again every W tokens, by the text so far; all paths "
               "are loaded. With likelihood, all paths read the text; with --route "
               "router, only the path that writes"),
    CLI_NUMBER("max-tokens", CLI_INT, request, options.max_tokens, "N", 1, 1 << 20,
               "write at most N tokens (64)"),
    CLI_NUMBER("temperature", CLI_REAL, request, options.choice.temperature, "X", 0,
               100,
               "sampling temperature, 0 to 100; 0: always the likeliest token (0.8)"),
    CLI_NUMBER("top-k", CLI_INT, request, options.choice.top_k, "N", 0, 1 << 20,
               "choose among the N likeliest tokens; 0: among all (40)"),
    CLI_NUMBER(
        "top-p", CLI_REAL, request, options.choice.top_p, "X", 0, 1,
        "choose among the likeliest tokens that together have probability X (0.95)"),
    CLI_NUMBER("seed", CLI_INT64, request, seed, "N", 0, 9e15,
               "seed of the random choices (0)"),
    CLI_OPTION("stop", CLI_LIST, request, stop, "TEXT",
               "end before this text; may be given up to 4 times"),
    CLI_OPTION("precision", CLI_TEXT, request, precision, "P",
               "auto, f32, bf16, f16 or int8 (default: the run's)"),
    CLI_JSON(request, json),
};

typedef struct session {
    const request *q;
    pl_mixture mix;
    pl_path_chooser *chooser;
    pl_path_choice choice;
    pl_readers readers; /* the path; with --route-every: all paths that may answer */
    pl_reroute_trace trace;
    bool single; /* --path names an arm with one path */
    bool gated;  /* with --route-every: the router chooses, not the paths' losses */
    pl_buf tokens, text;
    /* the prompt was printed; it is printed together with the first new text */
    bool echoed;
} session;

static void echo_prompt(session *s)
{
    if (!s->echoed && !s->q->json)
        fputs(s->q->prompt, stdout);
    s->echoed = true;
}

static pl_status emit(void *context, const char *text, size_t len)
{
    session *s = context;
    if (s->q->json) {
        pl_buf_append(&s->text, text, len);
        return PL_OK;
    }
    echo_prompt(s);
    fwrite(text, 1, len, stdout);
    fflush(stdout);
    return PL_OK;
}

static void tell_generated(session *s, const pl_generate_result *g)
{
    double rate = g->decode_seconds > 0 ? g->n_tokens / g->decode_seconds : 0;
    char path[PL_NAME_MAX];
    pl_topology_path_name(s->mix.topology, s->choice.path, path);
    if (s->single)
        pl_copy_text(path, sizeof path, s->mix.arm.name);
    if (s->q->json) {
        const pl_topology *t = s->mix.topology;
        char name[PL_NAME_MAX];
        pl_json *o = pl_json_object();
        pl_json_set_text(o, "path", path);
        pl_json_set_text(o, "prompt", s->q->prompt);
        pl_json_set(o, "text", pl_json_make_bytes(pl_buf_text(&s->text), s->text.len));
        pl_json_set_int(o, "prompt_tokens", g->n_prompt);
        pl_json_set_int(o, "tokens", g->n_tokens);
        pl_json_set_text(o, "finish", pl_finish_name(g->finish));
        pl_json_set_real(o, "tokens_per_second", rate);
        pl_json_set_text(o, "route",
                         s->q->path                ? "asked"
                         : s->q->every             ? (s->gated ? "gate" : "history")
                         : s->choice.by_likelihood ? "likelihood"
                                                   : "router");
        if (s->choice.by_likelihood) {
            pl_json *nats = pl_json_object();
            for (int i = 0; i < pl_topology_n_paths(t); i++) {
                pl_topology_path_name(t, i, name);
                pl_json_set_real(nats, name, s->choice.nats[i]);
            }
            pl_json_set_real(o, "margin_nats", s->choice.margin_nats);
            pl_json_set(o, "nats", nats);
        }
        if (s->q->every) {
            /* each path that wrote, and its first token */
            pl_json *list = pl_json_array();
            for (int i = 0; i < s->trace.n; i++) {
                pl_json *span = pl_json_object();
                pl_topology_path_name(t, s->trace.spans[i].path, name);
                pl_json_set_int(span, "from", s->trace.spans[i].from);
                pl_json_set_text(span, "path", name);
                pl_json_push(list, span);
            }
            pl_json_set(o, "paths", list);
            pl_json_set_int(o, "routing_tokens", g->n_routing);
            pl_json_set_real(o, "routing_seconds", g->routing_seconds);
        }
        say_json(o);
        return;
    }
    fflush(stdout);
    fprintf(stderr, "\n[path %s", path);
    /* the paths after the first one: ", p01 from token 96, p00 from token 224" */
    for (int i = 1; i < s->trace.n; i++) {
        pl_topology_path_name(s->mix.topology, s->trace.spans[i].path, path);
        fprintf(stderr, ", %s from token %d", path, s->trace.spans[i].from);
    }
    fprintf(stderr, "%s; %d tokens of prompt, %d chosen, %.0f tokens/s, %s]\n",
            s->q->path || s->q->every ? ""
            : s->choice.by_likelihood ? ", by likelihood"
                                      : ", by the router",
            g->n_prompt, g->n_tokens, rate, pl_finish_name(g->finish));
    if (s->q->every)
        fprintf(stderr,
                "[chosen by %s: paths read %lld more tokens to choose, %.3f s]\n",
                s->gated ? "the router" : "the paths' losses", (long long)g->n_routing,
                g->routing_seconds);
}

/* ---- generating ---- */
/* Chooses one path, which generates. It is enough to hold one path at a time in memory
 * (pl_path_chooser_follow), because there is only one prompt. */
static pl_status generate_once(session *s, pl_generate_result *result)
{
    const char *name = s->q->path;
    if (name && pl_find_path(s->mix.topology, name, &s->choice.path) == PL_OK) {
        if (pl_path_is_closed(&s->mix.settings, s->choice.path))
            return pl_fail(PL_ERR_USAGE,
                           "path %s uses a module that --without excludes", name);
    } else if (name) {
        /* as in `serve`, an arm with a single path, which then replaces the mixture */
        char last[PL_NAME_MAX];
        const int n_paths = pl_topology_n_paths(s->mix.topology);
        pl_topology_path_name(s->mix.topology, n_paths - 1, last);
        s->choice.path = 0;
        const pl_status status = pl_mixture_use_arm(&s->mix, name);
        s->single = status == PL_OK && pl_topology_n_paths(s->mix.topology) == 1;
        if (status != PL_OK && status != PL_ERR_NOT_FOUND)
            return status;
        if (!s->single)
            return pl_fail(PL_ERR_NOT_FOUND,
                           "there is no path `%s`, and no arm of this name with one "
                           "path; the last path is %s",
                           name, last);
    } else {
        PL_CHECK(pl_path_chooser_open(&s->mix.settings, s->mix.store, &s->chooser));
        PL_CHECK(pl_path_chooser_follow(s->chooser, &s->mix.arm, s->mix.topology));
        PL_CHECK(pl_path_chooser_choose(s->chooser, pl_prompt_tokens(&s->tokens),
                                        pl_prompt_count(&s->tokens), &s->choice));
    }
    PL_CHECK(pl_readers_open(&s->mix, s->q->precision, pl_cpu_count(), &s->readers));
    PL_CHECK(pl_readers_add(&s->readers, s->choice.path));
    const pl_generator g = {s->readers.decoders[0], s->mix.tokenizer,
                            s->mix.arm.shape.vocab, s->mix.arm.shape.context};
    return pl_generate(&g, pl_prompt_tokens(&s->tokens), pl_prompt_count(&s->tokens),
                       &s->q->options, emit, s, result);
}

static pl_status generate_rerouted(session *s, pl_generate_result *result)
{
    const int n_paths = pl_topology_n_paths(s->mix.topology);
    s->gated = !pl_answers_by_likelihood(s->mix.settings.rule, s->mix.settings.prefix,
                                         n_paths);
    if (s->gated) {
        PL_CHECK(pl_path_chooser_open(&s->mix.settings, s->mix.store, &s->chooser));
        PL_CHECK(pl_path_chooser_by_router(s->chooser));
    }
    PL_CHECK(pl_readers_open(&s->mix, s->q->precision, pl_cpu_count(), &s->readers));
    for (int path = 0; path < n_paths; path++)
        if (!pl_path_is_closed(&s->mix.settings, path))
            PL_CHECK(pl_readers_add(&s->readers, path));
    const pl_rerouter r = {
        .decoders = s->readers.decoders,
        .n_paths = s->readers.n,
        .rule = {.prefix = s->mix.settings.prefix,
                 .every = s->q->every,
                 .gate = s->gated ? pl_path_chooser_router(s->chooser) : NULL,
                 .numbers = s->readers.numbers},
        .tokenizer = s->mix.tokenizer,
        .vocab = s->mix.arm.shape.vocab,
        .context = s->mix.arm.shape.context};
    PL_CHECK(pl_reroute_generate(&r, pl_prompt_tokens(&s->tokens),
                                 pl_prompt_count(&s->tokens), &s->q->options, emit, s,
                                 result, &s->trace));
    for (int i = 0; i < s->trace.n; i++)
        s->trace.spans[i].path = s->readers.numbers[s->trace.spans[i].path];
    s->choice.path = s->trace.spans[0].path;
    return PL_OK;
}

static pl_status run_generate(int argc, char **argv)
{
    request q = {0};
    session s = {0};
    pl_generate_result result;
    pl_status status = PL_OK;
    s.q = &q;
    q.options.max_tokens = 64;
    q.options.choice = pl_choice_defaults();
    PL_CHECK(cli_read(&verb_generate, argc, argv, &q, NULL));
    q.options.choice.seed = (uint64_t)q.seed;
    if (q.stop.n > PL_STOP_MAX)
        return pl_fail(PL_ERR_USAGE, "--stop may be given at most %d times",
                       PL_STOP_MAX);
    for (int i = 0; i < q.stop.n; i++)
        q.options.stop[i] = q.stop.items[i];
    if (q.route)
        PL_CHECK(config_check_answer("--route", q.route));
    if (!q.prompt)
        return pl_fail(PL_ERR_USAGE, "generate needs --prompt TEXT");
    if (q.path && (q.route || q.every))
        return pl_fail(PL_ERR_USAGE,
                       "--path names the path, so --route and "
                       "--route-every have nothing to choose; leave them out");
    PL_TRY(mixture_open(q.dir, &q.wish, &s.mix));
    PL_TRY(cli_read_select(q.select, q.wish.at, &s.mix.settings.which.best));
    if (q.route)
        pl_copy_text(s.mix.settings.rule, sizeof s.mix.settings.rule, q.route);
    PL_TRY(pl_prompt_encode(s.mix.tokenizer, q.prompt, strlen(q.prompt), &s.tokens));
    PL_TRY(q.every ? generate_rerouted(&s, &result) : generate_once(&s, &result));
    echo_prompt(&s);
    tell_generated(&s, &result);
done:
    pl_readers_close(&s.readers);
    pl_reroute_trace_clear(&s.trace);
    pl_path_chooser_close(&s.chooser);
    pl_buf_destroy(&s.tokens);
    pl_buf_destroy(&s.text);
    pl_mixture_close(&s.mix);
    return status;
}

const cli_verb verb_generate = {.name = "generate",
                                .usage = "generate --run RUN --prompt TEXT [--path "
                                         "pNN] [--max-tokens N] [--temperature X]",
                                .help = "write text with the path that fits the prompt",
                                CLI_TABLE(options),
                                .computes = true,
                                .run = run_generate};
