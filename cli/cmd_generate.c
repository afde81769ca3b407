/* pathloom generate: writes text. The prompt's first tokens choose a path, and that
 * path runs. */
#include "cli/cli.h"
#include "serve/serve.h"

typedef struct request {
    const char *dir, *prompt, *path, *route, *precision;
    pl_generate_options options;
    int64_t seed;
    cli_list stop;
    bool json;
} request;

static const cli_option options[] = {
    CLI_RUN(request, dir),
    CLI_OPTION("prompt", CLI_TEXT, request, prompt, "TEXT",
               "begins the text; its first tokens choose the path"),
    CLI_OPTION("path", CLI_TEXT, request, path, "pNN", "this path answers"),
    CLI_OPTION("route", CLI_TEXT, request, route, "RULE",
               "router: the router chooses the path; likelihood: the path under which "
               "the prompt's first tokens are likeliest; auto: likelihood, if there "
               "are at most 16 paths (router.answer)"),
    CLI_NUMBER("max-tokens", CLI_INT, request, options.max_tokens, "N", 1, 1 << 20,
               "at most N tokens (64)"),
    CLI_NUMBER("temperature", CLI_REAL, request, options.choice.temperature, "X", 0,
               100, "0 takes the likeliest token, up to 100 (0.8)"),
    CLI_NUMBER("top-k", CLI_INT, request, options.choice.top_k, "N", 0, 1 << 20,
               "choose among the N likeliest tokens; 0: among all (40)"),
    CLI_NUMBER(
        "top-p", CLI_REAL, request, options.choice.top_p, "X", 0, 1,
        "choose among the likeliest tokens that have probability X together (0.95)"),
    CLI_NUMBER("seed", CLI_INT64, request, seed, "N", 0, 9e15, "of the choices (0)"),
    CLI_OPTION("stop", CLI_LIST, request, stop, "TEXT",
               "ends before this text; may be given 4 times"),
    CLI_OPTION("precision", CLI_TEXT, request, precision, "P",
               "auto, f32, bf16, f16 or int8 (that of the run)"),
    CLI_JSON(request, json),
};

static pl_status parse_generate_args(int argc, char **argv, request *q)
{
    memset(q, 0, sizeof *q);
    q->options.max_tokens = 64;
    q->options.choice = pl_choice_defaults();
    PL_CHECK(cli_read(&verb_generate, argc, argv, q, NULL));
    q->options.choice.seed = (uint64_t)q->seed;
    if (q->stop.n > PL_STOP_MAX)
        return pl_fail(PL_ERR_USAGE, "more than %d times --stop", PL_STOP_MAX);
    for (int i = 0; i < q->stop.n; i++)
        q->options.stop[i] = q->stop.items[i];
    if (q->route)
        PL_CHECK(config_check_answer("--route", q->route));
    if (!q->prompt || !q->prompt[0])
        return pl_fail(PL_ERR_USAGE,
                       "generate needs --prompt TEXT, and the text must not be empty");
    if (q->path && q->route)
        return pl_fail(PL_ERR_USAGE, "--path names the path, so --route has nothing to "
                                     "choose; give one of the two");
    return PL_OK;
}

typedef struct session {
    const request *q;
    pl_mixture mix;
    pl_backend *backend;
    pl_model *model;
    pl_decoder *decoder;
    pl_path_chooser *chooser;
    pl_path_choice choice;
    pl_buf tokens, text;
    /* whether the prompt was printed before the text, which happens once text is sure
     * to come */
    bool echoed;
} session;

static int count_session_tokens(const session *s)
{
    return (int)(s->tokens.len / sizeof(int32_t));
}

static const int32_t *get_session_tokens(const session *s)
{
    return (const int32_t *)(const void *)s->tokens.data;
}

/* Uses one scoring model, because a prompt asks each path only once. */
static pl_status choose_prompt_path(session *s)
{
    const pl_topology *t = s->mix.topology;
    if (s->q->path)
        return pl_find_path(t, s->q->path, &s->choice.path);
    PL_CHECK(pl_path_chooser_open(&s->mix.settings, s->mix.store, &s->chooser));
    PL_CHECK(pl_path_chooser_follow(s->chooser, &s->mix.arm, t));
    return pl_path_chooser_choose(s->chooser, get_session_tokens(s),
                                  count_session_tokens(s), &s->choice);
}

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

static const char *route_name(const session *s)
{
    return s->q->path ? "asked" : s->choice.by_likelihood ? "likelihood" : "router";
}

static void add_nats(const session *s, pl_json *o)
{
    const pl_topology *t = s->mix.topology;
    char name[PL_NAME_MAX];
    pl_json *nats = pl_json_object();
    for (int path = 0; path < pl_topology_n_paths(t); path++) {
        pl_topology_path_name(t, path, name);
        pl_json_set_real(nats, name, s->choice.nats[path]);
    }
    pl_json_set_real(o, "margin_nats", s->choice.margin_nats);
    pl_json_set(o, "nats", nats);
}

static void tell_generated_json(session *s, const char *path,
                                const pl_generate_result *g, double rate)
{
    pl_json *o = pl_json_object();
    pl_json_set_text(o, "path", path);
    pl_json_set_text(o, "prompt", s->q->prompt);
    pl_json_set_text(o, "text", pl_buf_text(&s->text));
    pl_json_set_int(o, "prompt_tokens", g->n_prompt);
    pl_json_set_int(o, "tokens", g->n_tokens);
    pl_json_set_text(o, "finish", pl_finish_name(g->finish));
    pl_json_set_real(o, "tokens_per_second", rate);
    pl_json_set_text(o, "route", route_name(s));
    if (s->choice.by_likelihood)
        add_nats(s, o);
    say_json(o);
}

static void tell_generated(session *s, const pl_generate_result *g)
{
    double rate = g->decode_seconds > 0 ? g->n_tokens / g->decode_seconds : 0;
    char path[PL_NAME_MAX];
    pl_topology_path_name(s->mix.topology, s->choice.path, path);
    if (s->q->json) {
        tell_generated_json(s, path, g, rate);
        return;
    }
    fflush(stdout);
    fprintf(stderr,
            "\n[path %s%s; %d tokens of prompt, %d chosen, %.0f tokens/s, %s]\n", path,
            s->q->path                ? ""
            : s->choice.by_likelihood ? ", by likelihood"
                                      : ", by the router",
            g->n_prompt, g->n_tokens, rate, pl_finish_name(g->finish));
}

static pl_status generate(session *s)
{
    pl_generate_result result;
    PL_CHECK(mixture_open(s->q->dir, &s->mix));
    if (s->q->route)
        pl_copy_text(s->mix.settings.rule, sizeof s->mix.settings.rule, s->q->route);
    int32_t bos = PL_TOKEN_BOS;
    pl_buf_append(&s->tokens, &bos, sizeof bos);
    PL_CHECK(pl_tokenizer_encode(s->mix.tokenizer, s->q->prompt, strlen(s->q->prompt),
                                 &s->tokens));
    PL_CHECK(choose_prompt_path(s));
    const char *precision = s->q->precision;
    pl_backend_options backend = {.name = s->mix.settings.backend,
                                  .n_threads = pl_cpu_count(),
                                  .precision = precision ? precision
                                                         : s->mix.settings.precision};
    pl_model_options model = {.batch = 1, .context = s->mix.arm.shape.context};
    PL_CHECK(pl_backend_open(&backend, &s->backend));
    PL_CHECK(pl_model_create(s->backend, s->mix.topology, &model, &s->model));
    PL_CHECK(pl_load_path(s->mix.store, &s->mix.arm, s->mix.topology, s->choice.path,
                          s->model));
    PL_CHECK(pl_decoder_create(s->model, &s->decoder));
    pl_generator g = {s->decoder, s->mix.tokenizer, s->mix.arm.shape.vocab,
                      s->mix.arm.shape.context};
    PL_CHECK(pl_generate(&g, get_session_tokens(s), count_session_tokens(s),
                         &s->q->options, emit, s, &result));
    echo_prompt(s);
    tell_generated(s, &result);
    return PL_OK;
}

static int run_generate(int argc, char **argv)
{
    request q;
    session s;
    memset(&s, 0, sizeof s);
    s.q = &q;
    pl_status status = parse_generate_args(argc, argv, &q);
    if (status != PL_OK)
        return cli_fail(status);
    status = generate(&s);
    int code = status == PL_OK ? 0 : cli_fail(status);
    pl_decoder_destroy(&s.decoder);
    pl_model_destroy(&s.model);
    pl_backend_close(&s.backend);
    pl_path_chooser_close(&s.chooser);
    pl_buf_destroy(&s.tokens);
    pl_buf_destroy(&s.text);
    pl_mixture_close(&s.mix);
    return code;
}

const cli_verb verb_generate = {.name = "generate",
                                .usage = "generate --run RUN --prompt TEXT [--path "
                                         "pNN] [--max-tokens N] [--temperature X]",
                                .help = "text from the path that fits the prompt",
                                .options = options,
                                .n_options = CLI_COUNT(options),
                                .computes = true,
                                .run = run_generate};
