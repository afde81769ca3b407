/* pathloom serve: serves a run's paths through OpenAI's completions API. */
#include "cli/cli.h"
#include <time.h>

/* A signal handler sets this flag: the store must be read again. */
static volatile sig_atomic_t reload;

static void on_hangup(int signal)
{
    (void)signal;
    reload = 1;
}

typedef struct request {
    const char *dir;
    mixture_wish wish;
    pl_front_options front;
    const char *chat;  /* replaces model.chat; NULL: model.chat is used */
    const char *route; /* replaces router.answer; NULL: router.answer is used */
    const char *select;
    pl_server_options server;
} request;

static const cli_option options[] = {
    CLI_RUN(request, dir),
    CLI_ANSWER(request, wish),
    CLI_OPTION("listen", CLI_TEXT, request, front.listen, "ADDRESS",
               "address to listen at, HOST:PORT; PORT *: a free one (127.0.0.1:8080)"),
    CLI_OPTION("precision", CLI_TEXT, request, server.precision, "P",
               "auto, f32, bf16, f16 or int8 (default: the run's)"),
    CLI_NUMBER("threads", CLI_INT, request, server.threads, "N", 1, 1024,
               "number of threads that compute (all processors)"),
    CLI_NUMBER("slots", CLI_INT, request, server.slots, "N", 1, PL_DECODER_SLOTS_MAX,
               "number of requests that are answered at the same time, up to 256 (32)"),
    CLI_NUMBER("paths", CLI_INT, request, server.paths, "N", 0, 1000000,
               "largest number of paths in memory; 0: as many as have modules that fit "
               "into half of the memory (0)"),
    CLI_OPTION("route", CLI_TEXT, request, route, "RULE",
               "how the path is chosen for requests to model `auto`: router, "
               "likelihood or auto, as in `pathloom generate` (router.answer)"),
    CLI_SELECT(request, select),
    CLI_OPTION("chat", CLI_TEXT, request, chat, "TEMPLATE",
               "template that makes prompts from conversations: chatml, llama2 or "
               "plain; none: refuse conversations (model.chat)"),
    CLI_NUMBER(
        "queue", CLI_INT, request, server.queue, "N", 1, 100000,
        "largest number of waiting requests; further ones get HTTP status 429 (256)"),
    CLI_NUMBER("per-address", CLI_INT, request, server.per_address, "N", 0, 100000,
               "largest number of requests of one client address at the same time; "
               "further ones get HTTP status 429; 0: no limit, for a server behind a "
               "proxy (128; at a loopback address, --queue plus --slots)"),
    CLI_NUMBER("timeout", CLI_INT, request, server.timeout_s, "S", 1, 86400,
               "largest number of seconds that a request may take (120)"),
    CLI_OPTION("api-keys", CLI_TEXT, request, front.api_keys, "FILE",
               "file with names and hashes of clients' keys; with it, all endpoints "
               "except / and /health need a key (no key is needed)"),
    CLI_OPTION(
        "cors", CLI_TEXT, request, front.cors, "ORIGIN",
        "pages of this origin may send requests from a browser; *: any origin (none)"),
    CLI_OPTION("tls-cert", CLI_TEXT, request, front.tls_cert, "FILE",
               "certificate with its chain, in PEM: serve HTTPS instead of HTTP"),
    CLI_OPTION("tls-key", CLI_TEXT, request, front.tls_key, "FILE",
               "private key of the certificate, in PEM"),
    CLI_OPTION("log-requests", CLI_FLAG, request, front.log_requests, NULL,
               "log one line per request to stderr"),
};

/* Serves until a signal arrives. After Ctrl+C or TERM the server finishes open
 * requests; a second signal ends it at once. HUP makes it read the store again. */
static pl_status run_serve(int argc, char **argv)
{
    request q = {.front.listen = "127.0.0.1:8080",
                 .server = {.threads = pl_cpu_count(),
                            .slots = 32,
                            .queue = 256,
                            .per_address = -1,
                            .timeout_s = 120,
                            .created = (int64_t)time(NULL)}};
    pl_status status = PL_OK;
    char address[64];
    pl_mixture mix;
    pl_server *s = NULL;
    pl_server_front *front = NULL;
    const struct sigaction hangup = {.sa_handler = on_hangup, .sa_flags = SA_RESTART};
    PL_CHECK(cli_read(&verb_serve, argc, argv, &q, NULL));
    if (q.chat && strcmp(q.chat, "none") != 0 && !pl_chat_find(q.chat))
        return pl_fail(PL_ERR_USAGE,
                       "--chat takes chatml, llama2, plain or none, not `%s`", q.chat);
    if (q.route)
        PL_CHECK(config_check_answer("--route", q.route));
    volatile sig_atomic_t *stop = cli_stop_flag(true);
    sigaction(SIGHUP, &hangup, NULL);
    PL_TRY(mixture_open(q.dir, &q.wish, &mix));
    PL_TRY(cli_read_select(q.select, q.wish.at, &mix.settings.which.best));
    if (q.route)
        pl_copy_text(mix.settings.rule, sizeof mix.settings.rule, q.route);
    if (q.chat)
        pl_copy_text(mix.settings.chat, sizeof mix.settings.chat, q.chat);
    q.server.mix = &mix;
    q.server.check_mixture = mixture_check_newest;
    q.server.context = &q.wish;
    q.server.chat = pl_chat_find(mix.settings.chat);
    PL_TRY(pl_server_open(&q.server, &s));
    PL_TRY(pl_server_front_open(s, &q.front, &front, address));
    say("serving %s at %s://%s/v1", q.dir ? q.dir : "pathloom-run",
        q.front.tls_cert ? "https" : "http", address);
    PL_TRY(pl_server_run(s, stop, &reload));
done:
    pl_server_front_close(&front);
    pl_server_close(&s);
    pl_mixture_close(&mix);
    return status;
}

const cli_verb verb_serve = {.name = "serve",
                             .usage = "serve --run RUN [--listen ADDRESS]",
                             .help = "serve the paths over HTTP, with OpenAI's API",
                             CLI_TABLE(options),
                             .notes =
                                 "HUP reads the store again. TERM answers all requests "
                                 "and then ends; a second TERM ends at once.",
                             .computes = true,
                             .run = run_serve};
