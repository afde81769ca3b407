/* pathloom serve: a run's paths behind OpenAI's completions endpoint. */
#include "cli/cli.h"
#include "serve/serve.h"

#include <getopt.h>

enum {
    OPT_RUN = 256,
    OPT_LISTEN,
    OPT_PRECISION,
    OPT_THREADS,
    OPT_SLOTS,
    OPT_PATHS,
    OPT_ROUTE,
    OPT_QUEUE,
    OPT_PER_ADDRESS,
    OPT_TIMEOUT
};

static const struct option longs[] = {
    {"run", required_argument, NULL, OPT_RUN},
    {"listen", required_argument, NULL, OPT_LISTEN},
    {"precision", required_argument, NULL, OPT_PRECISION},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"slots", required_argument, NULL, OPT_SLOTS},
    {"paths", required_argument, NULL, OPT_PATHS},
    {"route", required_argument, NULL, OPT_ROUTE},
    {"queue", required_argument, NULL, OPT_QUEUE},
    {"per-address", required_argument, NULL, OPT_PER_ADDRESS},
    {"timeout", required_argument, NULL, OPT_TIMEOUT},
    {NULL, 0, NULL, 0}};

/* What a signal's handler can reach. */
static volatile sig_atomic_t reload;

static void on_hangup(int signal)
{
    (void)signal;
    reload = 1;
}

static pl_status take_int(const char *name, int64_t least, int64_t most, int *out)
{
    int64_t number = 0;
    if (pl_parse_int(optarg, &number) != PL_OK || number < least || number > most)
        return pl_fail(PL_ERR_USAGE,
                       "--%s takes a whole number from %lld to %lld, not `%s`", name,
                       (long long)least, (long long)most, optarg);
    *out = (int)number;
    return PL_OK;
}

typedef struct request {
    const char *dir, *listen;
    const char *route; /* instead of router.answer; NULL: that */
    pl_server_options server;
} request;

static pl_status take(int option, request *q, char **argv)
{
    pl_server_options *o = &q->server;
    switch (option) {
    case OPT_RUN:
        q->dir = optarg;
        return PL_OK;
    case OPT_LISTEN:
        q->listen = optarg;
        return PL_OK;
    case OPT_PRECISION:
        o->precision = optarg;
        return PL_OK;
    case OPT_ROUTE:
        q->route = optarg;
        return config_check_answer("--route", optarg);
    case OPT_THREADS:
        return take_int("threads", 1, 1024, &o->threads);
    case OPT_SLOTS:
        return take_int("slots", 1, PL_DECODER_SLOTS_MAX, &o->slots);
    case OPT_PATHS:
        return take_int("paths", 0, 1000000, &o->paths);
    case OPT_QUEUE:
        return take_int("queue", 1, 100000, &o->queue);
    case OPT_PER_ADDRESS:
        return take_int("per-address", 0, 100000, &o->per_address);
    case OPT_TIMEOUT:
        return take_int("timeout", 1, 86400, &o->timeout_s);
    default:
        return cli_bad_option(option, argv, longs);
    }
}

static pl_status parse(int argc, char **argv, request *q)
{
    int option;
    *q = (request){.listen = "127.0.0.1:8080",
                   .server = {.threads = pl_cpu_count(),
                              .slots = 16,
                              .queue = 256,
                              .per_address = 128,
                              .timeout_s = 120}};
    optind = 1;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":", longs, NULL)) != -1)
        PL_RETURN_IF(take(option, q, argv));
    if (optind < argc)
        return pl_fail(PL_ERR_USAGE, "unexpected word `%s`", argv[optind]);
    return PL_OK;
}

/* Ctrl+C and TERM drain; a second one ends at once. HUP reads the store again. */
static pl_status serve(request *q)
{
    pl_status status = PL_OK;
    char address[64];
    pl_mixture mix;
    pl_server *s = NULL;
    pl_server_front *front = NULL;
    const struct sigaction hangup = {.sa_handler = on_hangup, .sa_flags = SA_RESTART};
    volatile sig_atomic_t *stop = cli_stop_flag(true);
    sigaction(SIGHUP, &hangup, NULL);
    PL_TRY(mixture_open(q->dir, &mix));
    if (q->route)
        pl_copy_text(mix.settings.rule, sizeof mix.settings.rule, q->route);
    q->server.mix = &mix;
    PL_TRY(pl_server_open(&q->server, &s));
    PL_TRY(pl_server_front_open(s, q->listen, &front, address));
    say("serving %s at http://%s/v1", q->dir ? q->dir : "pathloom-run", address);
    PL_TRY(pl_server_run(s, stop, &reload));
done:
    pl_server_front_close(&front);
    pl_server_close(&s);
    pl_mixture_close(&mix);
    return status;
}

int cmd_serve(int argc, char **argv)
{
    request q;
    pl_status status = parse(argc, argv, &q);
    if (status == PL_OK)
        status = serve(&q);
    return status == PL_OK ? 0 : cli_fail(status);
}
