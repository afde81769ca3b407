/* pathloom hub, home, relay, worker: the processes of a job. `train` starts them; they
 * can be started by hand, and each can die and come back at any time. */
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

/* Workers elsewhere are sent to homes that they cannot reach. */
static void warn_of_local_homes(const process *p)
{
    pl_address hub, home;
    for (int i = 0; i < p->n_homes; i++)
        if (pl_address_parse(p->bind, &hub) == PL_OK && !hub.is_local &&
            pl_address_parse(p->homes[i], &home) == PL_OK && home.is_local)
            pl_log(PL_LOG_WARN, "home.local",
                   "home=%s reason=\"workers on other machines cannot reach it\"",
                   p->homes[i]);
}

/* ---- hub ---- */
/* The exporter asks the hub as anybody would, by the address in its ready file. */
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
    if (!p->metrics)
        return PL_OK;
    PL_RETURN_IF(needs(p->ready, "--metrics needs --run FOLDER or --ready FILE"));
    PL_RETURN_IF(pl_exporter_open(p->metrics, ask_hub, p, out));
    pl_log(PL_LOG_INFO, "metrics.ready", "address=%s", p->metrics);
    return PL_OK;
}

static pl_status read_backup(const process *p, pl_backup *out)
{
    static const char *const words[] = {
        [PL_BACKUP_OFF] = "off", [PL_BACKUP_AUTO] = "auto", [PL_BACKUP_ANY] = "any"};
    *out = PL_BACKUP_AUTO;
    if (!p->backup)
        return PL_OK;
    for (int i = 0; i < (int)(sizeof words / sizeof *words); i++)
        if (strcmp(p->backup, words[i]) == 0) {
            *out = (pl_backup)i;
            return PL_OK;
        }
    return pl_fail(PL_ERR_USAGE, "--backup takes off, auto or any, not `%s`",
                   p->backup);
}

static pl_status read_tolerance(const process *p, double *out)
{
    *out = 0.25;
    if (!p->tolerance ||
        (pl_parse_real(p->tolerance, out) == PL_OK && *out >= 0 && *out <= 1))
        return PL_OK;
    return pl_fail(PL_ERR_USAGE, "--audit-tolerance takes a distance, 0 to 1, not `%s`",
                   p->tolerance);
}

int cmd_hub(int argc, char **argv)
{
    pl_exporter *metrics = NULL;
    pl_backup backup = PL_BACKUP_AUTO;
    double tolerance = 0;
    process p;
    pl_status status = process_open(argc, argv, "hub", &p);
    if (status == PL_OK)
        status = needs(p.n_homes > 0,
                       "hub needs --run FOLDER, or --home ADDRESS once for each home");
    if (status == PL_OK)
        status = read_backup(&p, &backup);
    if (status == PL_OK)
        status = read_tolerance(&p, &tolerance);
    if (status == PL_OK)
        status = open_exporter(&p, &metrics);
    if (status != PL_OK)
        return cli_fail(status);
    warn_of_local_homes(&p);
    pl_hub_options options = {.bind = p.bind,
                              .homes = p.homes,
                              .n_homes = p.n_homes,
                              .ttl_ms = (int)p.ttl_ms,
                              .ready_file = or_empty(p.ready),
                              .keys = or_empty(p.keys),
                              .backup = backup,
                              .audit_tolerance = tolerance,
                              .stop = cli_stop_flag(false)};
    int code = process_ended(pl_hub_run(&options));
    pl_exporter_close(&metrics);
    return code;
}

/* ---- home ---- */
static pl_status read_gate(const process *p, double *out)
{
    *out = 10;
    if (!p->norm_gate || (pl_parse_real(p->norm_gate, out) == PL_OK && *out >= 0))
        return PL_OK;
    return pl_fail(PL_ERR_USAGE, "--norm-gate takes a number of 0 or more, not `%s`",
                   p->norm_gate);
}

static pl_status read_audit(const process *p, double *out)
{
    *out = 0;
    if (!p->audit || (pl_parse_real(p->audit, out) == PL_OK && *out >= 0 && *out <= 1))
        return PL_OK;
    return pl_fail(PL_ERR_USAGE, "--audit takes a share of tasks, 0 to 1, not `%s`",
                   p->audit);
}

int cmd_home(int argc, char **argv)
{
    double gate = 0, audit = 0;
    process p;
    pl_status status = process_open(argc, argv, "home", &p);
    if (status == PL_OK)
        status = needs(p.store, "home needs --run FOLDER, or --store FOLDER");
    if (status == PL_OK)
        status = read_gate(&p, &gate);
    if (status == PL_OK)
        status = read_audit(&p, &audit);
    if (status == PL_OK && p.engine)
        status = pl_store_make_on(p.store, p.engine);
    if (status != PL_OK)
        return cli_fail(status);
    pl_home_options options = {.store = p.store,
                               .bind = p.bind,
                               .ready_file = or_empty(p.ready),
                               .keep_updates = p.keep_updates,
                               .keep_momentum = p.keep_momentum,
                               .compress = p.compress,
                               .norm_gate = gate,
                               .audit = audit,
                               .staging_bytes = (uint64_t)p.staging,
                               .stop = cli_stop_flag(false)};
    return process_ended(pl_home_run(&options));
}

/* ---- worker ---- */
/* Other workers may ask this one on the machine of the hub; elsewhere only where its
 * owner says so. */
static pl_status place_of_offers(const process *p, char out[PL_ADDRESS_MAX])
{
    pl_address hub;
    PL_RETURN_IF(pl_address_parse(p->hub, &hub));
    if (p->offer)
        pl_copy_text(out, PL_ADDRESS_MAX, p->offer);
    else if (!hub.host[0]) /* beside the hub's own socket */
        pl_address_beside(p->hub, p->name, out);
    else
        pl_copy_text(out, PL_ADDRESS_MAX,
                     hub.is_local || p->run ? "tcp://127.0.0.1:*" : "");
    /* A gate with no list: mates come with the key that the hub gives to all. */
    bool encrypted = hub.has_key && out[0] && !pl_gate_is_open();
    return encrypted ? pl_admission_open(p->key, "") : PL_OK;
}

pl_status process_work(const process *p)
{
    char cache[PL_PATH_MAX], offers[PL_ADDRESS_MAX] = "";
    PL_RETURN_IF(place_of_offers(p, offers));
    pl_log(PL_LOG_INFO, "worker.settings",
           "backend=%s precision=%s threads=%lld recompute=%s cache_bytes=%lld "
           "patience_s=%lld run=\"%s\"",
           p->backend, p->precision, (long long)p->threads,
           p->recompute ? "true" : "false", (long long)p->cache_bytes,
           (long long)p->patience_s, p->settled_by);
    if (!p->cache) /* shards are named by their hash: all jobs may share the folder */
        PL_RETURN_IF(process_user_folder("XDG_CACHE_HOME", ".cache", cache));
    pl_worker_options options = {.hub = p->hub,
                                 .name = p->name,
                                 .cache = p->cache ? p->cache : cache,
                                 .backend = {.name = p->backend,
                                             .n_threads = (int)p->threads,
                                             .precision = p->precision,
                                             .device = (int)p->device,
                                             .device_turns = true},
                                 .recompute = p->recompute,
                                 .cache_bytes = (uint64_t)p->cache_bytes,
                                 .patience_ms = (int)p->patience_s * 1000,
                                 .homes = p->homes,
                                 .n_homes = p->n_homes,
                                 .offers = offers,
                                 .grace_ms = (int)p->grace_s * 1000,
                                 .stop = cli_stop_flag(false)};
    return pl_worker_run(&options);
}

int cmd_worker(int argc, char **argv)
{
    process p;
    pl_status status = process_open(argc, argv, "worker", &p);
    if (status == PL_OK)
        status = needs(p.hub, "worker needs --hub ADDRESS (with --key FILE where it is "
                              "encrypted), or --run FOLDER; another machine joins with "
                              "`pathloom join TOKEN`");
    if (status != PL_OK)
        return cli_fail(status);
    if (!p.name) {
        process_name(&p);
        process_open_log(&p, "worker");
    }
    return process_ended(process_work(&p));
}

int cmd_relay(int argc, char **argv)
{
    process p;
    pl_relay_report report;
    pl_status status = process_open(argc, argv, "relay", &p);
    if (status == PL_OK)
        status =
            needs(p.n_homes == 1,
                  "relay needs --home ADDRESS once: of a home, or of the relay before "
                  "it; another home takes another relay");
    if (status != PL_OK)
        return cli_fail(status);
    pl_relay_options options = {.home = p.homes[0],
                                .bind = p.bind,
                                .ready_file = or_empty(p.ready),
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
    return process_ended(status);
}
