/* pathloom generate: the prompt's first tokens pick the path, one path runs. */
#include "cli/cli.h"
#include "serve/serve.h"

#include <getopt.h>

enum {
    OPT_RUN = 256,
    OPT_PROMPT,
    OPT_PATH,
    OPT_ROUTE,
    OPT_MAX,
    OPT_TEMPERATURE,
    OPT_TOP_K,
    OPT_TOP_P,
    OPT_SEED,
    OPT_STOP,
    OPT_PRECISION,
    OPT_JSON
};

static const struct option longs[] = {
    {"run", required_argument, NULL, OPT_RUN},
    {"prompt", required_argument, NULL, OPT_PROMPT},
    {"path", required_argument, NULL, OPT_PATH},
    {"route", required_argument, NULL, OPT_ROUTE},
    {"max-tokens", required_argument, NULL, OPT_MAX},
    {"temperature", required_argument, NULL, OPT_TEMPERATURE},
    {"top-k", required_argument, NULL, OPT_TOP_K},
    {"top-p", required_argument, NULL, OPT_TOP_P},
    {"seed", required_argument, NULL, OPT_SEED},
    {"stop", required_argument, NULL, OPT_STOP},
    {"precision", required_argument, NULL, OPT_PRECISION},
    {"json", no_argument, NULL, OPT_JSON},
    {NULL, 0, NULL, 0}};

typedef struct request {
    const char *dir, *prompt, *path, *route, *precision;
    pl_generate_options options;
    int n_stop;
    bool json;
} request;

static pl_status take_int(const char *name, int64_t least, int64_t most, int64_t *out)
{
    if (pl_parse_int(optarg, out) != PL_OK || *out < least || *out > most)
        return pl_fail(PL_ERR_USAGE,
                       "--%s takes a whole number from %lld to %lld, not `%s`", name,
                       (long long)least, (long long)most, optarg);
    return PL_OK;
}

static pl_status take_real(const char *name, double most, double *out)
{
    if (pl_parse_real(optarg, out) != PL_OK || *out < 0 || *out > most)
        return pl_fail(PL_ERR_USAGE, "--%s takes a number from 0 to %g, not `%s`", name,
                       most, optarg);
    return PL_OK;
}

static pl_status take_stop(request *q)
{
    if (q->n_stop == PL_STOP_MAX)
        return pl_fail(PL_ERR_USAGE, "more than %d times --stop", PL_STOP_MAX);
    q->options.stop[q->n_stop++] = optarg;
    return PL_OK;
}

static pl_status take(int option, request *q, char **argv)
{
    int64_t number = 0;
    pl_status status = PL_OK;
    switch (option) {
    case OPT_RUN:
        q->dir = optarg;
        return PL_OK;
    case OPT_PROMPT:
        q->prompt = optarg;
        return PL_OK;
    case OPT_PATH:
        q->path = optarg;
        return PL_OK;
    case OPT_ROUTE:
        q->route = optarg;
        return config_check_answer("--route", optarg);
    case OPT_PRECISION:
        q->precision = optarg;
        return PL_OK;
    case OPT_STOP:
        return take_stop(q);
    case OPT_JSON:
        q->json = true;
        return PL_OK;
    case OPT_MAX:
        status = take_int("max-tokens", 1, 1000000, &number);
        q->options.max_tokens = (int)number;
        return status;
    case OPT_TOP_K:
        status = take_int("top-k", 0, 1000000, &number);
        q->options.choice.top_k = (int)number;
        return status;
    case OPT_SEED:
        status = take_int("seed", 0, INT64_MAX, &number);
        q->options.choice.seed = (uint64_t)number;
        return status;
    case OPT_TEMPERATURE:
        return take_real("temperature", 100, &q->options.choice.temperature);
    case OPT_TOP_P:
        return take_real("top-p", 1, &q->options.choice.top_p);
    default:
        return cli_bad_option(option, argv, longs);
    }
}

static pl_status parse(int argc, char **argv, request *q)
{
    int option;
    memset(q, 0, sizeof *q);
    q->options.max_tokens = 64;
    q->options.choice = pl_choice_defaults();
    optind = 1;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":", longs, NULL)) != -1)
        PL_RETURN_IF(take(option, q, argv));
    if (optind < argc)
        return pl_fail(PL_ERR_USAGE,
                       "unexpected word `%s`; the prompt goes after --prompt, in "
                       "quotes",
                       argv[optind]);
    if (!q->prompt || !q->prompt[0])
        return pl_fail(PL_ERR_USAGE,
                       "generate needs --prompt TEXT, and the text must not be empty");
    if (q->path && q->route)
        return pl_fail(PL_ERR_USAGE,
                       "--path names the path, so --route has nothing to choose; give "
                       "one of the two");
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
    bool echoed; /* the prompt stands before the text, once that is sure to come */
} session;

static void close_session(session *s)
{
    pl_decoder_destroy(&s->decoder);
    pl_model_destroy(&s->model);
    pl_backend_close(&s->backend);
    pl_path_chooser_close(&s->chooser);
    pl_buf_destroy(&s->tokens);
    pl_buf_destroy(&s->text);
    pl_mixture_close(&s->mix);
}

static pl_status encode_prompt(session *s)
{
    int32_t bos = PL_TOKEN_BOS;
    pl_buf_append(&s->tokens, &bos, sizeof bos);
    return pl_tokenizer_encode(s->mix.tokenizer, s->q->prompt, strlen(s->q->prompt),
                               &s->tokens);
}

static int n_tokens(const session *s)
{
    return (int)(s->tokens.len / sizeof(int32_t));
}

static const int32_t *tokens(const session *s)
{
    return (const int32_t *)(const void *)s->tokens.data;
}

/* One scoring model: a prompt asks each path once. */
static pl_status find_path(session *s)
{
    const pl_topology *t = s->mix.topology;
    if (s->q->path)
        return pl_find_path(t, s->q->path, &s->choice.path);
    PL_RETURN_IF(pl_path_chooser_open(&s->mix.settings, s->mix.store, &s->chooser));
    PL_RETURN_IF(pl_path_chooser_follow(s->chooser, &s->mix.arm, t));
    return pl_path_chooser_choose(s->chooser, tokens(s), n_tokens(s), &s->choice);
}

static pl_status load_path(session *s)
{
    const char *precision = s->q->precision;
    pl_backend_options backend = {.name = s->mix.settings.backend,
                                  .n_threads = pl_cpu_count(),
                                  .precision = precision ? precision
                                                         : s->mix.settings.precision};
    pl_model_options model = {.batch = 1, .context = s->mix.arm.shape.context};
    PL_RETURN_IF(pl_backend_open(&backend, &s->backend));
    PL_RETURN_IF(pl_model_create(s->backend, s->mix.topology, &model, &s->model));
    PL_RETURN_IF(pl_load_path(s->mix.store, &s->mix.arm, s->mix.topology,
                              s->choice.path, s->model));
    return pl_decoder_create(s->model, &s->decoder);
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

static void tell_json(session *s, const char *path, const pl_generate_result *g,
                      double rate)
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

static void tell(session *s, const pl_generate_result *g)
{
    double rate = g->decode_seconds > 0 ? g->n_tokens / g->decode_seconds : 0;
    char path[PL_NAME_MAX];
    pl_topology_path_name(s->mix.topology, s->choice.path, path);
    if (s->q->json) {
        tell_json(s, path, g, rate);
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
    PL_RETURN_IF(mixture_open(s->q->dir, &s->mix));
    if (s->q->route)
        pl_copy_text(s->mix.settings.rule, sizeof s->mix.settings.rule, s->q->route);
    PL_RETURN_IF(encode_prompt(s));
    PL_RETURN_IF(find_path(s));
    PL_RETURN_IF(load_path(s));
    pl_generator g = {s->decoder, s->mix.tokenizer, s->mix.arm.shape.vocab,
                      s->mix.arm.shape.context};
    PL_RETURN_IF(
        pl_generate(&g, tokens(s), n_tokens(s), &s->q->options, emit, s, &result));
    echo_prompt(s);
    tell(s, &result);
    return PL_OK;
}

int cmd_generate(int argc, char **argv)
{
    request q;
    session s;
    memset(&s, 0, sizeof s);
    s.q = &q;
    pl_status status = parse(argc, argv, &q);
    if (status != PL_OK)
        return cli_fail(status);
    status = generate(&s);
    int code = status == PL_OK ? 0 : cli_fail(status);
    close_session(&s);
    return code;
}
