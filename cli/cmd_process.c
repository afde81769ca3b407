/* pathloom hub, home, relay, worker: the processes of a job. `train` starts them; they
 * can be started by hand, and each can die and come back at any time. */
#include "cli/cli.h"
#include "workers/workers.h"

#include <getopt.h>

enum {
    OPT_BIND = 256,
    OPT_HOME,
    OPT_STORE,
    OPT_READY,
    OPT_HUB,
    OPT_NAME,
    OPT_CACHE,
    OPT_CACHE_BYTES,
    OPT_BACKEND,
    OPT_PRECISION,
    OPT_THREADS,
    OPT_TTL,
    OPT_PATIENCE,
    OPT_KEEP_UPDATES,
    OPT_KEEP_MOMENTUM,
    OPT_STAGING,
    OPT_EXPECT,
    OPT_WAIT,
    OPT_LOG_JSON,
    OPT_VERBOSE
};

static const struct option longs[] = {
    {"bind", required_argument, NULL, OPT_BIND},
    {"home", required_argument, NULL, OPT_HOME},
    {"store", required_argument, NULL, OPT_STORE},
    {"ready", required_argument, NULL, OPT_READY},
    {"hub", required_argument, NULL, OPT_HUB},
    {"name", required_argument, NULL, OPT_NAME},
    {"cache", required_argument, NULL, OPT_CACHE},
    {"cache-bytes", required_argument, NULL, OPT_CACHE_BYTES},
    {"backend", required_argument, NULL, OPT_BACKEND},
    {"precision", required_argument, NULL, OPT_PRECISION},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"ttl-ms", required_argument, NULL, OPT_TTL},
    {"patience-s", required_argument, NULL, OPT_PATIENCE},
    {"keep-updates", no_argument, NULL, OPT_KEEP_UPDATES},
    {"keep-momentum", no_argument, NULL, OPT_KEEP_MOMENTUM},
    {"staging-bytes", required_argument, NULL, OPT_STAGING},
    {"expect", required_argument, NULL, OPT_EXPECT},
    {"wait-ms", required_argument, NULL, OPT_WAIT},
    {"log-json", no_argument, NULL, OPT_LOG_JSON},
    {"verbose", no_argument, NULL, OPT_VERBOSE},
    {NULL, 0, NULL, 0}};

typedef struct process {
    const char *bind, *ready, *store, *hub, *name, *cache, *backend, *precision;
    const char *homes[PL_HOMES_MAX];
    int n_homes;
    int64_t cache_bytes, staging, threads, ttl_ms, patience_s, expect, wait_ms;
    bool keep_updates, keep_momentum, log_json, verbose;
} process;

static pl_status take_number(const char *name, int64_t *out)
{
    if (pl_parse_int(optarg, out) != PL_OK || *out < 0)
        return pl_fail(PL_ERR_USAGE, "--%s takes a number, not `%s`", name, optarg);
    return PL_OK;
}

static pl_status take_text(int option, process *p)
{
    const char **place[] = {&p->bind, NULL,      &p->store, &p->ready,   &p->hub,
                            &p->name, &p->cache, NULL,      &p->backend, &p->precision};
    if (option == OPT_HOME) {
        if (p->n_homes == PL_HOMES_MAX)
            return pl_fail(PL_ERR_USAGE, "more than %d homes", PL_HOMES_MAX);
        p->homes[p->n_homes++] = optarg;
        return PL_OK;
    }
    *place[option - OPT_BIND] = optarg;
    return PL_OK;
}

static pl_status take(int option, process *p, char **argv)
{
    switch (option) {
    case OPT_CACHE_BYTES:
        return take_number("cache-bytes", &p->cache_bytes);
    case OPT_STAGING:
        return take_number("staging-bytes", &p->staging);
    case OPT_EXPECT:
        return take_number("expect", &p->expect);
    case OPT_WAIT:
        return take_number("wait-ms", &p->wait_ms);
    case OPT_THREADS:
        return take_number("threads", &p->threads);
    case OPT_TTL:
        return take_number("ttl-ms", &p->ttl_ms);
    case OPT_PATIENCE:
        return take_number("patience-s", &p->patience_s);
    case OPT_KEEP_UPDATES:
        p->keep_updates = true;
        return PL_OK;
    case OPT_KEEP_MOMENTUM:
        p->keep_momentum = true;
        return PL_OK;
    case OPT_LOG_JSON:
        p->log_json = true;
        return PL_OK;
    case OPT_VERBOSE:
        p->verbose = true;
        return PL_OK;
    case '?':
    case ':':
        return cli_bad_option(option, argv, longs);
    default:
        return take_text(option, p);
    }
}

static pl_status parse(int argc, char **argv, process *p)
{
    int option;
    *p = (process){.bind = "tcp://127.0.0.1:*",
                   .ready = "",
                   .backend = "auto",
                   .precision = "auto",
                   .cache_bytes = 512 << 20,
                   .staging = 1 << 30,
                   .threads = 1,
                   .ttl_ms = 2000,
                   .patience_s = 60,
                   .wait_ms = 500};
    optind = 1;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":", longs, NULL)) != -1)
        PL_RETURN_IF(take(option, p, argv));
    if (optind < argc)
        return pl_fail(PL_ERR_USAGE, "unexpected word `%s`", argv[optind]);
    return PL_OK;
}

/* The end of a process stands in its log: the launcher shows the last line. */
static int ended(pl_status status)
{
    if (status == PL_OK) {
        pl_log(PL_LOG_INFO, "process.end", "status=ok");
        return 0;
    }
    pl_log(PL_LOG_ERROR, "process.failed", "status=%s error=\"%s\"",
           pl_status_name(status), pl_last_error());
    return pl_status_exit_code(status);
}

static pl_status open_process(int argc, char **argv, const char *role, process *p)
{
    PL_RETURN_IF(parse(argc, argv, p));
    pl_log_open(p->name ? p->name : role, p->verbose ? PL_LOG_DEBUG : PL_LOG_INFO,
                p->log_json);
    return PL_OK;
}

int cmd_hub(int argc, char **argv)
{
    process p;
    pl_status status = open_process(argc, argv, "hub", &p);
    if (status == PL_OK && p.n_homes == 0)
        status = pl_fail(PL_ERR_USAGE, "hub needs --home ADDRESS, once for each home");
    if (status != PL_OK)
        return cli_fail(status);
    pl_hub_options options = {.bind = p.bind,
                              .homes = p.homes,
                              .n_homes = p.n_homes,
                              .ttl_ms = (int)p.ttl_ms,
                              .ready_file = p.ready,
                              .stop = cli_stop_flag(false)};
    return ended(pl_hub_run(&options));
}

int cmd_home(int argc, char **argv)
{
    process p;
    pl_status status = open_process(argc, argv, "home", &p);
    if (status == PL_OK && !p.store)
        status = pl_fail(PL_ERR_USAGE, "home needs --store FOLDER");
    if (status != PL_OK)
        return cli_fail(status);
    pl_home_options options = {.store = p.store,
                               .bind = p.bind,
                               .ready_file = p.ready,
                               .keep_updates = p.keep_updates,
                               .keep_momentum = p.keep_momentum,
                               .staging_bytes = (uint64_t)p.staging,
                               .stop = cli_stop_flag(false)};
    return ended(pl_home_run(&options));
}

int cmd_worker(int argc, char **argv)
{
    process p;
    pl_status status = open_process(argc, argv, "worker", &p);
    if (status == PL_OK && (!p.hub || !p.name || !p.cache))
        status = pl_fail(PL_ERR_USAGE,
                         "worker needs --hub ADDRESS --name NAME --cache FOLDER");
    if (status != PL_OK)
        return cli_fail(status);
    pl_worker_options options = {.hub = p.hub,
                                 .name = p.name,
                                 .cache = p.cache,
                                 .backend = {.name = p.backend,
                                             .n_threads = (int)p.threads,
                                             .precision = p.precision},
                                 .cache_bytes = (uint64_t)p.cache_bytes,
                                 .patience_ms = (int)p.patience_s * 1000,
                                 .homes = p.homes,
                                 .n_homes = p.n_homes,
                                 .stop = cli_stop_flag(false)};
    return ended(pl_worker_run(&options));
}

int cmd_relay(int argc, char **argv)
{
    process p;
    pl_relay_report report;
    pl_status status = open_process(argc, argv, "relay", &p);
    if (status == PL_OK && p.n_homes != 1)
        status = pl_fail(PL_ERR_USAGE,
                         "relay needs --home ADDRESS once: of a home, or of the "
                         "relay before it; another home takes another relay");
    if (status != PL_OK)
        return cli_fail(status);
    pl_relay_options options = {.home = p.homes[0],
                                .bind = p.bind,
                                .ready_file = p.ready,
                                .expect = (int)p.expect,
                                .wait_ms = (int)p.wait_ms,
                                .patience_ms = (int)p.patience_s * 1000,
                                .staging_bytes = (uint64_t)p.staging,
                                .stop = cli_stop_flag(false)};
    status = pl_relay_run(&options, &report);
    pl_log(PL_LOG_INFO, "relay.carried",
           "bytes_received=%llu bytes_sent=%llu sums=%lld summed=%lld alone=%lld",
           (unsigned long long)report.bytes_received,
           (unsigned long long)report.bytes_sent, (long long)report.n_sums,
           (long long)report.n_summed, (long long)report.n_alone);
    return ended(status);
}
