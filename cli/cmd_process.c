/* pathloom hub, home, relay, worker: each runs one process of a job. `train` starts
 * them, but they can also be started by hand, and each may die and be restarted at any
 * time. */
#include "serve/serve.h"
#include "cli/process.h"

enum { METRICS_MS = 5000 };

static pl_status needs(bool given, const char *what)
{
    return given ? PL_OK : pl_fail(PL_ERR_USAGE, "%s", what);
}

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

/* ---- hub ---- */
/* The exporter is an ordinary client of the hub. It reads the hub's address from the
 * hub's ready file. */
static pl_status ask_hub(void *context, pl_json **status)
{
    const process *p = context;
    pl_buf address = {0};
    pl_run r = {.lock = -1};
    pl_status result = pl_read_file(p->ready, &address);
    if (result == PL_OK)
        result = pl_wire_connect(pl_buf_text(&address), &r.hub);
    if (result == PL_OK)
        result = run_hub_status(&r, METRICS_MS, status);
    pl_wire_close(&r.hub);
    pl_buf_destroy(&address);
    return result;
}

static pl_status open_exporter(process *p, pl_exporter **out)
{
    *out = NULL;
    if (!p->cfg.metrics[0])
        return PL_OK;
    PL_CHECK(needs(p->ready, "--metrics needs --run FOLDER or --ready FILE"));
    PL_CHECK(pl_exporter_open(p->cfg.metrics, ask_hub, p, out));
    pl_log(PL_LOG_INFO, "metrics.ready", "address=%s", p->cfg.metrics);
    return PL_OK;
}

static pl_backup read_backup(const config *c)
{
    return strcmp(c->backup, "off") == 0   ? PL_BACKUP_OFF
           : strcmp(c->backup, "any") == 0 ? PL_BACKUP_ANY
                                           : PL_BACKUP_AUTO;
}

static const cli_option hub_options[] = {
    PROCESS_OPTIONS,
    LISTEN_OPTIONS("net.hub"),
    CLI_OPTION("home", CLI_LIST, process, homes, "ADDRESS",
               "address of a home; give it once for each home (the run's)"),
    CLI_KEY("metrics", process, settings, "HOST:PORT", "net.metrics",
            "where to serve Prometheus metrics, at /metrics"),
};

static int run_hub(int argc, char **argv)
{
    pl_exporter *metrics = NULL;
    process p;
    pl_status status = process_open(&verb_hub, argc, argv, &p);
    if (status == PL_OK)
        status = needs(p.homes.n > 0,
                       "hub needs --run FOLDER, or --home ADDRESS once for each home");
    if (status == PL_OK)
        status = open_exporter(&p, &metrics);
    if (status != PL_OK)
        return cli_fail(status);
    /* Warns if workers on other machines would be told addresses of homes that they
     * cannot reach. */
    pl_address hub, home;
    for (int i = 0; i < p.homes.n; i++)
        if (pl_address_parse(p.bind, &hub) == PL_OK && !hub.is_local &&
            pl_address_parse(p.homes.items[i], &home) == PL_OK && home.is_local)
            pl_log(PL_LOG_WARN, "home.local",
                   "home=%s reason=\"workers on other machines cannot reach it\"",
                   p.homes.items[i]);
    pl_hub_options options = {.bind = p.bind,
                              .homes = p.homes.items,
                              .n_homes = p.homes.n,
                              .ttl_ms = (int)p.cfg.ttl_ms,
                              .ready_file = or_empty(p.ready),
                              .keys = or_empty(p.keys),
                              .backup = read_backup(&p.cfg),
                              .audit_tolerance = p.cfg.audit_tolerance,
                              .stop = cli_stop_flag(false)};
    int code = process_ended(pl_hub_run(&options));
    pl_exporter_close(&metrics);
    return code;
}

const cli_verb verb_hub = {.name = "hub",
                           .usage = "hub --run RUN [--listen ADDRESS]",
                           .help = "run a hub: it gives tasks to workers",
                           .options = hub_options,
                           .n_options = CLI_COUNT(hub_options),
                           .is_process = true,
                           .run = run_hub};

/* ---- home ---- */
static const cli_option home_options[] = {
    PROCESS_OPTIONS,
    LISTEN_OPTIONS("net.home"),
    INDEX_OPTION("this is home I of the run, which has several"),
    CLI_OPTION("store", CLI_TEXT, process, store, "FOLDER",
               "folder of its store, which is made if it does not exist (the run's)"),
};

static int run_home(int argc, char **argv)
{
    process p;
    pl_status status = process_open(&verb_home, argc, argv, &p);
    if (status == PL_OK)
        status = needs(p.store, "home needs --run FOLDER, or --store FOLDER");
    /* An existing store keeps its engine, unless an option asks for one. */
    if (status == PL_OK && (p.settled_by[0] || process_sets(&p, "store.engine")))
        status = pl_store_make_on(p.store, p.cfg.engine);
    if (status != PL_OK)
        return cli_fail(status);
    pl_home_options options = {.store = p.store,
                               .bind = p.bind,
                               .ready_file = or_empty(p.ready),
                               .keep_updates = p.cfg.keep_updates,
                               .keep_momentum = p.cfg.keep_momentum,
                               .keep_states = p.cfg.keep_states,
                               .compress = strcmp(p.cfg.compress, "auto") == 0,
                               .norm_gate = p.cfg.norm_gate,
                               .audit = p.cfg.audit,
                               .staging_bytes = (uint64_t)p.cfg.staging,
                               .stop = cli_stop_flag(false)};
    return process_ended(pl_home_run(&options));
}

const cli_verb verb_home = {
    .name = "home",
    .usage = "home --run RUN [--index I] [--listen ADDRESS]",
    .help = "run a home: it owns a store and makes versions from updates",
    .options = home_options,
    .n_options = CLI_COUNT(home_options),
    .is_process = true,
    .run = run_home};

/* ---- worker ---- */
pl_status process_work(const process *p)
{
    char cache[PL_PATH_MAX], offers[PL_ADDRESS_MAX] = "";
    const config *c = &p->cfg;
    /* On the hub's machine, other workers may connect to this worker. On any other
     * machine the user must allow it (--offer). */
    pl_address hub;
    PL_CHECK(pl_address_parse(p->hub, &hub));
    if (p->offer)
        pl_copy_text(offers, PL_ADDRESS_MAX, p->offer);
    /* the hub listens at a socket in the run's folder, so this worker makes one beside
     * it */
    else if (!hub.host[0])
        pl_address_beside(p->hub, p->name, offers);
    else
        pl_copy_text(offers, PL_ADDRESS_MAX,
                     hub.is_local || p->run ? "tcp://127.0.0.1:*" : "");
    /* The list of keys is not used here: mates connect with the key that the hub gives
     * to all workers. */
    bool encrypted = hub.has_key && offers[0] && !pl_gate_is_open();
    PL_CHECK(encrypted ? pl_admission_open(p->key, "") : PL_OK);
    pl_log(PL_LOG_INFO, "worker.settings",
           "backend=%s precision=%s threads=%lld recompute=%s cache_bytes=%lld "
           "patience_s=%lld run=\"%s\"",
           c->backend, c->precision, (long long)c->threads,
           c->recompute ? "true" : "false", (long long)c->worker_cache,
           (long long)c->patience_s, p->settled_by);
    /* files are named by the hash of their shard, so all jobs may share the folder */
    if (!p->cache)
        PL_CHECK(process_user_folder("XDG_CACHE_HOME", ".cache", cache));
    pl_worker_options options = {.hub = p->hub,
                                 .name = p->name,
                                 .cache = p->cache ? p->cache : cache,
                                 .backend = {.name = c->backend,
                                             .n_threads = (int)c->threads,
                                             .precision = c->precision,
                                             .device = (int)p->device,
                                             .device_turns = true},
                                 .recompute = c->recompute,
                                 .cache_bytes = (uint64_t)c->worker_cache,
                                 .patience_ms = (int)c->patience_s * 1000,
                                 .homes = p->homes.items,
                                 .n_homes = p->homes.n,
                                 .offers = offers,
                                 .grace_ms = (int)p->grace_s * 1000,
                                 .stop = cli_stop_flag(false)};
    return pl_worker_run(&options);
}

static const cli_option worker_options[] = {
    PROCESS_OPTIONS,
    INDEX_OPTION("this is worker I of the run's own workers"),
    CLI_OPTION(
        "hub", CLI_TEXT, process, hub, "ADDRESS",
        "address of the hub that gives it tasks: tcp://HOST:PORT#KEY (the run's)"),
    CLI_OPTION("home", CLI_LIST, process, homes, "ADDRESS",
               "address of a relay to use instead of the home; once for each home"),
    COMPUTE_OPTIONS,
};

static int run_worker(int argc, char **argv)
{
    process p;
    pl_status status = process_open(&verb_worker, argc, argv, &p);
    if (status == PL_OK)
        status = needs(
            p.hub,
            "worker needs --run FOLDER, or --hub ADDRESS (with --key FILE if the job "
            "is encrypted); another machine joins with `pathloom join TOKEN`");
    if (status != PL_OK)
        return cli_fail(status);
    if (!p.name) {
        process_name(&p);
        process_open_log(&p, "worker");
    }
    return process_ended(process_work(&p));
}

const cli_verb verb_worker = {
    .name = "worker",
    .usage = "worker --run RUN | --hub ADDRESS --key FILE",
    .help = "run a worker: it trains the tasks that the hub gives it",
    .options = worker_options,
    .n_options = CLI_COUNT(worker_options),
    .is_process = true,
    .computes = true,
    .run = run_worker};

/* ---- relay ---- */
static const cli_option relay_options[] = {
    PROCESS_OPTIONS,
    LISTEN_OPTIONS("net.home"),
    INDEX_OPTION("this is relay I of the run's relays"),
    CLI_OPTION("home", CLI_LIST, process, homes, "ADDRESS",
               "address of the home, or of the next relay before it (the run's)"),
    CLI_NUMBER("expect", CLI_INT64, process, expect, "N", 0, 1 << 20,
               "number of workers (or relays) that will connect; 0: unknown (0)"),
    CLI_NUMBER("wait-ms", CLI_INT64, process, wait_ms, "N", 0, 1 << 30,
               "how long an update waits for others, at most (500)"),
    CLI_KEY("patience-s", process, settings, "N", "workers.patience_s",
            "how many seconds the home may be unreachable (60)"),
};

static int run_relay(int argc, char **argv)
{
    process p;
    pl_relay_report report;
    pl_status status = process_open(&verb_relay, argc, argv, &p);
    if (status == PL_OK)
        status =
            needs(p.homes.n == 1,
                  "relay needs exactly one --home ADDRESS, that of a home or of the "
                  "next relay before it; start another relay for another home");
    if (status != PL_OK)
        return cli_fail(status);
    pl_relay_options options = {.home = p.homes.items[0],
                                .bind = p.bind,
                                .ready_file = or_empty(p.ready),
                                .expect = (int)p.expect,
                                .wait_ms = (int)p.wait_ms,
                                .patience_ms = (int)p.cfg.patience_s * 1000,
                                .staging_bytes = (uint64_t)p.cfg.staging,
                                .stop = cli_stop_flag(false)};
    status = pl_relay_run(&options, &report);
    pl_log(PL_LOG_INFO, "relay.carried",
           "bytes_received=%llu bytes_sent=%llu sums=%lld summed=%lld alone=%lld",
           (unsigned long long)report.bytes_received,
           (unsigned long long)report.bytes_sent, (long long)report.n_sums,
           (long long)report.n_summed, (long long)report.n_alone);
    return process_ended(status);
}

const cli_verb verb_relay = {
    .name = "relay",
    .usage = "relay --home ADDRESS [--expect N] [--wait-ms N]",
    .help =
        "run a relay: it adds updates (of homomorphic codecs) on their way to a home",
    .options = relay_options,
    .n_options = CLI_COUNT(relay_options),
    .notes = "Give the workers that shall use the relay --home with its address.",
    .is_process = true,
    .run = run_relay};
