/* Runs one process of a job: hub, home, relay or worker (process.h). Each process may
 * die and be restarted at any time. */
#include "job/process.h"

enum { METRICS_MS = 5000 };

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

static pl_status prepare_hub(process *p)
{
    if (p->homes.n == 0)
        return pl_fail(PL_ERR_USAGE,
                       "hub needs --run FOLDER, or --home ADDRESS once for each home");
    if (!p->cfg.metrics[0])
        return PL_OK;
    if (!p->ready)
        return pl_fail(PL_ERR_USAGE, "--metrics needs --run FOLDER or --ready FILE");
    PL_CHECK(pl_exporter_open(p->cfg.metrics, ask_hub, p, &p->metrics));
    pl_log(PL_LOG_INFO, "metrics.ready", "address=%s", p->cfg.metrics);
    return PL_OK;
}

static pl_status run_hub(const process *p)
{
    pl_address hub, home;
    /* workers on other machines may reach the hub, but not a home whose address the hub
     * would tell them */
    for (int i = 0; i < p->homes.n; i++)
        if (pl_address_parse(p->bind, &hub) == PL_OK && !hub.is_local &&
            pl_address_parse(p->homes.items[i], &home) == PL_OK && home.is_local)
            pl_log(PL_LOG_WARN, "home.local",
                   "home=%s reason=\"workers on other machines cannot reach it\"",
                   p->homes.items[i]);
    const char *backup = p->cfg.backup;
    pl_hub_options options = {.bind = p->bind,
                              .homes = p->homes.items,
                              .n_homes = p->homes.n,
                              .ttl_ms = (int)p->cfg.ttl_ms,
                              .ready_file = or_empty(p->ready),
                              .keys = or_empty(p->keys),
                              .backup = strcmp(backup, "off") == 0   ? PL_BACKUP_OFF
                                        : strcmp(backup, "any") == 0 ? PL_BACKUP_ANY
                                                                     : PL_BACKUP_AUTO,
                              .audits = p->cfg.audit > 0,
                              .devices = p->cfg.devices,
                              .stop = p->stop};
    return pl_hub_run(&options);
}

/* ---- home ---- */
/* Prepares a home. An existing store keeps its engine, unless an option names an
 * engine. */
static pl_status prepare_home(process *p)
{
    if (!p->store)
        return pl_fail(PL_ERR_USAGE, "home needs --run FOLDER, or --store FOLDER");
    return p->settled_by[0] || given_sets(&p->settings, "store.engine")
               ? pl_store_make_on(p->store, p->cfg.engine)
               : PL_OK;
}

static pl_status run_home(const process *p)
{
    pl_home_options options = {.store = p->store,
                               .bind = p->bind,
                               .ready_file = or_empty(p->ready),
                               .keep_updates = p->cfg.keep_updates,
                               .keep_momentum = p->cfg.keep_momentum,
                               .keep_states = p->cfg.keep_states,
                               .compress = strcmp(p->cfg.compress, "auto") == 0,
                               .norm_gate = p->cfg.norm_gate,
                               .audit = p->cfg.audit,
                               .staging_bytes = (uint64_t)p->cfg.staging,
                               .quota_bytes = (uint64_t)p->cfg.quota,
                               .stop = p->stop};
    return pl_home_run(&options);
}

/* ---- worker ---- */
static pl_status prepare_worker(process *p)
{
    if (!p->hub)
        return pl_fail(
            PL_ERR_USAGE,
            "worker needs --run FOLDER, or --hub ADDRESS (with --key FILE if the "
            "job is encrypted); another machine joins with `pathloom join TOKEN`");
    if (p->name)
        return PL_OK;
    process_name(p);
    process_open_log(p, "worker");
    return PL_OK;
}

pl_status process_work(const process *p)
{
    char cache[PL_PATH_MAX], offers[PL_ADDRESS_MAX] = "";
    const config *c = &p->cfg;
    /* If this worker runs on the hub's machine, other workers may connect to it. On any
     * other machine the user must allow this with --offer. */
    pl_address hub;
    PL_CHECK(pl_address_parse(p->hub, &hub));
    if (p->offer)
        pl_copy_text(offers, PL_ADDRESS_MAX, p->offer);
    /* the hub listens at a socket in the run's folder, so this worker makes a socket
     * beside that one */
    else if (!hub.host[0])
        pl_address_beside(p->hub, p->name, offers);
    else
        pl_copy_text(offers, PL_ADDRESS_MAX,
                     hub.is_local || p->run ? "tcp://127.0.0.1:*" : "");
    /* The list of keys is not used here, because mates (workers that exchange updates)
     * connect with the key that the hub gives to all workers. */
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
                                 /* a relay could replace a URL */
                                 .direct = p->homes.n > 0           ? PL_DIRECT_NONE
                                           : !hub.host[0] || p->run ? PL_DIRECT_OWN
                                                                    : PL_DIRECT_SAFE,
                                 .homes = p->homes.items,
                                 .n_homes = p->homes.n,
                                 .offers = offers,
                                 .grace_ms = (int)p->grace_s * 1000,
                                 .stop = p->stop};
    return pl_worker_run(&options);
}

/* ---- relay ---- */
static pl_status prepare_relay(process *p)
{
    if (p->homes.n == 1)
        return PL_OK;
    return pl_fail(
        PL_ERR_USAGE,
        "relay needs exactly one --home ADDRESS: that of a home, or of another relay "
        "on the way to the home; start another relay for another home");
}

static pl_status run_relay(const process *p)
{
    pl_relay_report report;
    pl_relay_options options = {.home = p->homes.items[0],
                                .bind = p->bind,
                                .ready_file = or_empty(p->ready),
                                .expect = (int)p->expect,
                                .wait_ms = (int)p->wait_ms,
                                .patience_ms = (int)p->cfg.patience_s * 1000,
                                .staging_bytes = (uint64_t)p->cfg.staging,
                                .stop = p->stop};
    pl_status status = pl_relay_run(&options, &report);
    pl_log(PL_LOG_INFO, "relay.carried",
           "bytes_received=%llu bytes_sent=%llu sums=%lld summed=%lld alone=%lld",
           (unsigned long long)report.bytes_received,
           (unsigned long long)report.bytes_sent, (long long)report.n_sums,
           (long long)report.n_summed, (long long)report.n_alone);
    return status;
}

/* ---- all roles ---- */
static const struct role {
    const char *name;
    pl_status (*prepare)(process *p);
    pl_status (*run)(const process *p);
} roles[] = {{"hub", prepare_hub, run_hub},
             {"home", prepare_home, run_home},
             {"worker", prepare_worker, process_work},
             {"relay", prepare_relay, run_relay}};

static const struct role *role_named(const char *name)
{
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strcmp(roles[i].name, name) == 0)
            return &roles[i];
    return NULL;
}

pl_status process_prepare(process *p, const char *role)
{
    return role_named(role)->prepare(p);
}

int process_ended(pl_status status)
{
    if (status == PL_OK) {
        pl_log(PL_LOG_INFO, "process.end", "status=ok");
        return 0;
    }
    pl_log(PL_LOG_ERROR, "process.failed", "status=%s error=\"%s\"",
           pl_status_name(status), pl_last_error());
    return pl_status_exit_code(status);
}

int process_run(process *p, const char *role)
{
    int code = process_ended(role_named(role)->run(p));
    pl_exporter_close(&p->metrics);
    return code;
}
