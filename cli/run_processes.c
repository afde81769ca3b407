/* The processes of a job on this machine: one home, one hub, the workers. */
#include "cli/run.h"

static pl_status start_home(run *r)
{
    char store[PL_PATH_MAX], ready[PL_PATH_MAX], staging[32];
    const char *argv[16] = {"pathloom", "home", "--bind", r->cfg.home_bind};
    int n = 4;
    snprintf(staging, sizeof staging, "%lld", (long long)r->cfg.staging);
    argv[n++] = "--store";
    argv[n++] = run_file(r, "store", store);
    argv[n++] = "--ready";
    argv[n++] = run_file(r, "proc/home.address", ready);
    argv[n++] = "--staging-bytes";
    argv[n++] = staging;
    if (r->cfg.keep_updates)
        argv[n++] = "--keep-updates";
    if (r->cfg.keep_momentum)
        argv[n++] = "--keep-momentum";
    PL_RETURN_IF(pl_launcher_start(r->launcher, "home", argv, ready));
    return pl_launcher_address(r->launcher, "home", 30000, r->home_address,
                               sizeof r->home_address);
}

static pl_status start_hub(run *r)
{
    char ready[PL_PATH_MAX], ttl[32];
    snprintf(ttl, sizeof ttl, "%lld", (long long)r->cfg.ttl_ms);
    const char *argv[] = {"pathloom", "hub",
                          "--bind",   r->cfg.hub_bind,
                          "--home",   r->home_address,
                          "--ttl-ms", ttl,
                          "--ready",  run_file(r, "proc/hub.address", ready),
                          NULL};
    PL_RETURN_IF(pl_launcher_start(r->launcher, "hub", argv, ready));
    return pl_launcher_address(r->launcher, "hub", 30000, r->hub_address,
                               sizeof r->hub_address);
}

static pl_status start_worker(run *r, int index)
{
    char name[32], cache[PL_PATH_MAX], bytes[32], threads[32], patience[32];
    snprintf(name, sizeof name, "worker-%d", index + 1);
    snprintf(bytes, sizeof bytes, "%lld", (long long)r->cfg.worker_cache);
    snprintf(threads, sizeof threads, "%lld", (long long)r->cfg.threads);
    snprintf(patience, sizeof patience, "%lld", (long long)r->cfg.patience_s);
    const char *argv[] = {"pathloom",
                          "worker",
                          "--hub",
                          r->hub_address,
                          "--name",
                          name,
                          "--cache",
                          run_file(r, "cache", cache),
                          "--backend",
                          r->cfg.backend,
                          "--precision",
                          r->cfg.precision,
                          "--threads",
                          threads,
                          "--cache-bytes",
                          bytes,
                          "--patience-s",
                          patience,
                          NULL};
    return pl_launcher_start(r->launcher, name, argv, NULL);
}

static pl_status connect_job(run *r)
{
    const char *homes[] = {r->home_address};
    pl_client_options options = {.homes = homes, .n_homes = 1, .patience_ms = 60000};
    PL_RETURN_IF(pl_client_create(&options, &r->client));
    return pl_wire_connect(r->hub_address, &r->hub);
}

pl_status run_start(run *r)
{
    char logs[PL_PATH_MAX], proc[PL_PATH_MAX];
    PL_RETURN_IF(pl_make_folders(run_file(r, "proc", proc)));
    PL_RETURN_IF(
        pl_launcher_create("/proc/self/exe", run_file(r, "log", logs), &r->launcher));
    PL_RETURN_IF(start_home(r));
    PL_RETURN_IF(start_hub(r));
    for (int i = 0; i < r->n_workers; i++)
        PL_RETURN_IF(start_worker(r, i));
    return connect_job(r);
}

void run_stop(run *r)
{
    char proc[PL_PATH_MAX];
    if (!r->launcher)
        return;
    pl_launcher_stop(r->launcher, "worker", (int)r->cfg.patience_s * 1000);
    pl_launcher_stop(r->launcher, "hub", 5000);
    pl_launcher_stop(r->launcher, "home", 30000);
    pl_client_destroy(&r->client);
    pl_wire_close(&r->hub);
    pl_launcher_destroy(&r->launcher);
    if (pl_remove_tree(run_file(r, "proc", proc)) != PL_OK)
        fprintf(stderr, "pathloom: %s\n", pl_last_error());
}

pl_status run_hub_status(run *r, pl_json **out)
{
    pl_message q, a;
    pl_message_init(&q, PL_MSG_STATUS);
    q.request = pl_wire_next_request();
    pl_message_init(&a, 0);
    pl_status status = pl_wire_ask(r->hub, &q, 1000, 10000, &a);
    if (status == PL_OK)
        status = pl_json_parse((const char *)a.data.data, a.data.len, out);
    pl_message_destroy(&q);
    pl_message_destroy(&a);
    return status;
}
