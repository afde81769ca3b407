/* Starts and stops the processes of a job on this machine: homes, one hub, the workers,
 * and, if the configuration has any, relays between workers and homes. */
#include "job/run.h"

enum {
    WATCH_MS = 3000,
    DRAIN_MS = 24 * 3600 * 1000,
    ABANDON_MS = 1000,
    ATTACH_MS = 60000,
    SAY_MS = 10000,
    PATIENCE_MS = 60000
};

/* Whether the job is encrypted. A hub and a home that a user has started (net.attach)
 * may use encryption even if the configuration does not ask for encryption. */
static bool job_is_encrypted(const pl_run *r)
{
    return config_encrypts(&r->cfg) || (r->cfg.attach && run_has_keys(r->dir));
}

/* Turns PL_ADDRESS_PRIVATE into RUN/proc/ipc/NAME.sock. An encrypted job listens on
 * loopback instead, because such a job is meant for several machines, or its keys
 * separate the users of one machine. */
void run_listen_at(const char *dir, const char *asked, const char *name, bool encrypted,
                   char out[PL_ADDRESS_MAX])
{
    char folder[PL_PATH_MAX];
    if (strcmp(asked, PL_ADDRESS_PRIVATE) != 0)
        pl_copy_text(out, PL_ADDRESS_MAX, asked);
    else if (encrypted)
        pl_copy_text(out, PL_ADDRESS_MAX, "tcp://127.0.0.1:*");
    else
        pl_address_in_folder(pl_join(folder, dir, "proc/ipc"), name, out);
}

char *run_home_file(int i, int n, char out[64])
{
    if (n == 1)
        snprintf(out, 64, "proc/home.address");
    else
        snprintf(out, 64, "proc/home-%d.address", i + 1);
    return out;
}

char *run_job_file(const char *dir, char out[PL_PATH_MAX])
{
    return pl_join(out, dir, "proc/job.yaml");
}

int run_count_relays(const config *c)
{
    const int workers = run_local_workers(c, 0);
    return (int)c->relays < workers ? (int)c->relays : workers;
}

/* Worker i connects to relay i modulo the number of relays. */
int run_workers_behind(const config *c, int relay)
{
    const int n = run_count_relays(c);
    return n == 0 ? 0 : (run_local_workers(c, 0) - relay + n - 1) / n;
}

/* Starts a process. Its log and its socket get the name `name`. index 0: there is only
 * one process with this role. `asked` is the address at which the process must listen;
 * NULL: it does not listen. */
static pl_status start_job_process(pl_run *r, const char *role, const char *name,
                                   int index, const char *asked, const char *ready)
{
    char number[16], address[PL_ADDRESS_MAX];
    const char *argv[10] = {"pathloom", role, "--run", r->dir};
    int n = 4;
    snprintf(number, sizeof number, "%d", index);
    if (index > 0) {
        argv[n++] = "--index";
        argv[n++] = number;
    }
    /* a restarted process must use the same address, because other processes know it */
    if (asked) {
        run_listen_at(r->dir, asked, name, job_is_encrypted(r), address);
        argv[n++] = "--listen";
        argv[n++] = address;
    }
    return pl_launcher_start(r->launcher, name, argv, ready);
}

/* Called while this process waits for a home. Returns an error if a process of the job
 * has ended and will not be restarted, or if Ctrl+C was pressed. */
static pl_status on_home_wait(void *context)
{
    const pl_run *r = context;
    PL_CHECK(run_stopped(r));
    return r->launcher ? pl_launcher_tend(r->launcher) : PL_OK;
}

pl_status run_await_child(const pl_run *r, pl_launcher *launcher, const char *name,
                          int most_ms, char out[PL_ADDRESS_MAX])
{
    const int64_t begun_ms = pl_now_ms();
    int64_t say_ms = begun_ms + SAY_MS;
    while (!pl_launcher_address(launcher, name, out, PL_ADDRESS_MAX)) {
        PL_CHECK(run_stopped(r));
        PL_CHECK(pl_launcher_tend(launcher));
        if (most_ms > 0 && pl_now_ms() - begun_ms > most_ms)
            return pl_fail(PL_ERR_TIMEOUT,
                           "process %s was not ready within %d s; see its log "
                           "%s/log/%s.log",
                           name, most_ms / 1000, r->dir, name);
        if (pl_now_ms() > say_ms) {
            say("wait     for %s, which writes to %s/log/%s.log", name, r->dir, name);
            say_ms = INT64_MAX;
        }
        pl_sleep_ms(10);
    }
    return PL_OK;
}

/* ---- checks before any process is started ---- */
/* Checks whether a port is in use, so that the user learns of it now and not after
 * minutes of work. */
static pl_status check_address(const char *key, const char *address)
{
    pl_status status = pl_wire_check_free(address);
    pl_wire_shutdown(); /* waits until the port is free again */
    return status == PL_OK ? PL_OK : pl_fail_in(status, "%s", key);
}

pl_status run_find_device(pl_run *r)
{
    const config *c = &r->cfg;
    pl_backend *backend = NULL;
    if (r->n_workers == 0) /* all workers run on other machines, with other devices */
        return PL_OK;
    pl_backend_options options = {
        .name = c->backend, .n_threads = (int)c->threads, .precision = c->precision};
    pl_status status = pl_backend_open(&options, &backend);
    if (status != PL_OK)
        return pl_fail_in(status, "workers.backend");
    pl_backend_kind(backend, r->device);
    r->n_gpus = backend->n_devices;
    r->n_workers = run_local_workers(c, r->n_gpus);
    r->n_relays = (int)c->relays < r->n_workers ? (int)c->relays : r->n_workers;
    if (backend->remark[0])
        say("note     %s", backend->remark);
    status = run_gpu_check(r, backend);
    pl_backend_close(&backend);
    return status;
}

/* The context of check_arm_homes: the store of all n homes. */
typedef struct homes_check {
    pl_store *store;
    int n;
} homes_check;

pl_status run_home_is_missing(const char *dir, const char *store, int home)
{
    return pl_fail(PL_ERR_DAMAGED,
                   "%s is missing or empty, but other homes of the job have commits; "
                   "restore it from a copy. But if an earlier release added this home "
                   "(`homes add`) and it has never run, make it: start `pathloom home "
                   "--run %s --index %d`, stop it with Ctrl+C, and give this command "
                   "again",
                   store, dir, home + 1);
}

/* Refuses a home that lacks updates which the other homes count on. Their paths would
 * never send these updates again, and the job would wait for ever. */
static pl_status check_arm_homes(void *context, const pl_object *object)
{
    const homes_check *c = context;
    pl_arm arm;
    pl_topology *topology = NULL;
    pl_coverage *paths = NULL;
    pl_status status = PL_OK;
    PL_TRY(pl_read_arm(c->store, object->name + strlen("arm/"), &arm, &topology));
    if (pl_arm_scores(&arm))
        goto done;
    const int n = pl_topology_n_paths(topology) * pl_topology_n_replicas(topology);
    paths = pl_alloc((size_t)n * sizeof *paths);
    PL_TRY(pl_coverage_of(c->store, &arm, topology, paths));
    for (int i = 0; i < n; i++)
        if (paths[i].n_lost > 0)
            PL_TRY(pl_fail(
                PL_ERR_DAMAGED,
                "home-%d is older than the other homes of the job, for example because "
                "it alone was restored from a backup: %lld phases that %s has finished "
                "are missing in %s; restore all homes from one backup, or go back with "
                "`pathloom store rollback %s --to N` to a version that all homes have",
                pl_home_of(paths[i].lost_in, c->n) + 1, (long long)paths[i].n_lost,
                paths[i].path, paths[i].lost_in, arm.name));
done:
    pl_free(paths);
    pl_arm_clear(&arm);
    pl_topology_destroy(&topology);
    return status;
}

/* Checks that no home's store was lost. All are made before anything is committed. So
 * if one has commits and another is missing, the missing one was lost; a new empty
 * store would hide the loss. If a home died while it made its store, the next home that
 * starts finishes it. */
static pl_status check_stores(const char *dir, const char *folder, int n)
{
    char path[PL_PATH_MAX];
    int missing = -1;
    uint64_t commits = 0;
    for (int i = 0; i < n; i++) {
        pl_store *store = NULL;
        pl_status status =
            pl_store_open(pl_store_home(folder, i, n, path), PL_STORE_READ, &store);
        if (status == PL_OK)
            commits += pl_store_sequence(store);
        else if (status == PL_ERR_NOT_FOUND)
            missing = i;
        if (status == PL_OK)
            status = pl_store_check_placement(store);
        pl_store_close(&store);
        if (status != PL_OK && status != PL_ERR_NOT_FOUND)
            return status;
    }
    if (commits == 0 || (missing < 0 && n == 1))
        return PL_OK;
    if (missing < 0) {
        homes_check c = {.n = n};
        pl_status status = pl_store_open(folder, PL_STORE_READ, &c.store);
        if (status == PL_ERR_BUSY) /* the homes will finish an interrupted rollback */
            return PL_OK;
        PL_CHECK(status);
        status = pl_store_each_object(c.store, "arm/", check_arm_homes, &c);
        pl_store_close(&c.store);
        return status;
    }
    return run_home_is_missing(dir, pl_store_home(folder, missing, n, path), missing);
}

pl_status run_check(pl_run *r)
{
    const config *c = &r->cfg;
    char address[sizeof "tcp://" + sizeof c->metrics], numeric[PL_ADDRESS_MAX];
    if (!c->attach) {
        if (strcmp(c->hub_bind, c->home_bind) == 0 && !pl_ends_with(c->hub_bind, "*"))
            return pl_fail(PL_ERR_CONFIG,
                           "net.hub and net.home are both %s; give each its own port, "
                           "or * for a free one",
                           c->hub_bind);
        if (c->homes > 1 && !pl_ends_with(c->home_bind, "*"))
            return pl_fail(PL_ERR_CONFIG,
                           "net.home is %s, but store.homes asks for %lld homes, each "
                           "with a port of its own; write * for the port",
                           c->home_bind, (long long)c->homes);
        PL_CHECK(check_address("net.hub", c->hub_bind));
        PL_CHECK(check_address("net.home", c->home_bind));
    }
    if (c->metrics[0])
        PL_CHECK(pl_exporter_check(c->metrics, numeric));
    if (c->metrics[0] && !c->attach) {
        snprintf(address, sizeof address, "tcp://%s", c->metrics);
        const bool is_hub =
            strcmp(address, c->hub_bind) == 0 || strcmp(numeric, c->hub_bind) == 0;
        if (is_hub || strcmp(address, c->home_bind) == 0 ||
            strcmp(numeric, c->home_bind) == 0)
            return pl_fail(PL_ERR_CONFIG,
                           "%s and net.metrics are both %s; give each its own port",
                           is_hub ? "net.hub" : "net.home", c->metrics);
        PL_CHECK(check_address("net.metrics", numeric));
    }
    char path[PL_PATH_MAX], part[PL_PATH_MAX];
    int n = 0;
    PL_CHECK(run_clear_homes(r->dir));
    if (!pl_path_exists(run_file(r, "store", path)))
        return PL_OK;
    /* changes of the store that were interrupted are finished first */
    PL_CHECK(pl_store_end_copy(path));
    PL_CHECK(pl_store_clear_copy(path));
    PL_CHECK(run_put_back_left(r->dir, path));
    PL_CHECK(pl_store_homes(path, &n));
    if (n == 1 && pl_path_exists(pl_store_part(path, 0, part)))
        return pl_fail(
            PL_ERR_DAMAGED,
            "%s has parts (home-1 ...), but its file PARTS is missing; make this file "
            "with two lines: `pathloom parts 1`, and the number of parts",
            path);
    PL_CHECK(check_stores(r->dir, path, n));
    if (n == r->n_homes)
        return PL_OK;
    return pl_fail(PL_ERR_CONFIG,
                   "the store of this run belongs to %d home%s; give store.homes=%d, "
                   "not %d, in this command and in its file, or change the number with "
                   "`pathloom homes set %d --run %s`",
                   n, n > 1 ? "s" : "", n, r->n_homes, r->n_homes, r->dir);
}

/* ---- the job ---- */
pl_status run_await_address(const char *dir, const char *file, int ms,
                            char out[PL_ADDRESS_MAX])
{
    char path[PL_PATH_MAX];
    pl_buf text = {0};
    int64_t begun = pl_now_ms();
    pl_join(path, dir, file);
    while (!pl_path_exists(path) && pl_now_ms() - begun < ms)
        pl_sleep_ms(50);
    pl_status status = pl_read_file(path, &text);
    pl_copy_text(out, PL_ADDRESS_MAX, status == PL_OK ? pl_buf_text(&text) : "");
    pl_buf_destroy(&text);
    return status;
}

static pl_status no_job(const char *dir)
{
    PL_CHECK(run_exists(dir));
    return pl_fail(
        PL_ERR_NOT_FOUND,
        "no job is running in %s; start or resume it with `pathloom train --out %s`",
        dir, dir);
}

pl_status run_hub_address(const char *dir, char out[PL_ADDRESS_MAX])
{
    return run_await_address(dir, "proc/hub.address", 0, out) == PL_OK ? PL_OK
                                                                       : no_job(dir);
}

/* Waits until a process that starts has written its address into RUN/FILE. */
static pl_status await_process(const pl_run *r, const char *file, int64_t until_ms,
                               bool *said, char out[PL_ADDRESS_MAX])
{
    while (run_await_address(r->dir, file, 0, out) != PL_OK) {
        PL_CHECK(run_stopped(r));
        if (pl_now_ms() > until_ms)
            return pl_fail(
                PL_ERR_NOT_FOUND,
                "net.attach is on, but no process wrote its address into %s/%s within "
                "%d s; start `pathloom home --run %s` and `pathloom hub --run %s`",
                r->dir, file, ATTACH_MS / 1000, r->dir, r->dir);
        if (!*said)
            say("wait     for %s/%s, which a home or the hub writes", r->dir, file);
        *said = true;
        pl_sleep_ms(50);
    }
    return PL_OK;
}

pl_status run_start(pl_run *r)
{
    char logs[PL_PATH_MAX], proc[PL_PATH_MAX];
    PL_CHECK(pl_make_folders(run_file(r, "proc", proc)));
    PL_CHECK(
        pl_launcher_create("/proc/self/exe", run_file(r, "log", logs), &r->launcher));
    /* Writes the settings for the processes of this start: the run's configuration with
     * the local keys of this command. */
    char path[PL_PATH_MAX];
    pl_buf text = {0};
    config c = r->cfg;
    /* each relay computes from this how many workers connect to it */
    c.workers = r->n_workers;
    pl_conf_write_yaml(&config_table, &c, &text);
    pl_status status =
        pl_replace_file(run_job_file(r->dir, path), pl_buf_text(&text), text.len);
    pl_buf_destroy(&text);
    PL_CHECK(status);
    if (config_encrypts(&r->cfg))
        PL_CHECK(run_make_keys(r->dir));
    PL_CHECK(run_use_keys(r->dir));
    if (r->cfg.attach) {
        /* Uses processes that the user or the system has started. This command ends
         * them only when the job is finished (run_stop). */
        char file[64];
        bool said = false;
        const int64_t until_ms = pl_now_ms() + ATTACH_MS;
        for (int i = 0; i < r->n_homes; i++) {
            run_home_file(i, r->n_homes, file);
            PL_CHECK(await_process(r, file, until_ms, &said, r->homes_at[i]));
        }
        PL_CHECK(await_process(r, "proc/hub.address", until_ms, &said, r->hub_address));
    } else {
        char folder[PL_PATH_MAX], hub_file[PL_PATH_MAX];
        PL_CHECK(r->n_homes == 1
                     ? PL_OK
                     : pl_store_make_parts(run_file(r, "store", folder), r->n_homes));
        for (int i = 0; i < r->n_homes; i++) {
            char name[32], file[64], ready[PL_PATH_MAX];
            const bool alone = r->n_homes == 1;
            snprintf(name, sizeof name, alone ? "home" : "home-%d", i + 1);
            run_home_file(i, r->n_homes, file);
            PL_CHECK(start_job_process(r, "home", name, alone ? 0 : i + 1,
                                       r->cfg.home_bind, run_file(r, file, ready)));
            PL_CHECK(run_await_child(r, r->launcher, name, 0, r->homes_at[i]));
        }
        PL_CHECK(start_job_process(r, "hub", "hub", 0, r->cfg.hub_bind,
                                   run_file(r, "proc/hub.address", hub_file)));
        PL_CHECK(run_await_child(r, r->launcher, "hub", 0, r->hub_address));
    }
    pl_address hub;
    if (pl_address_parse(r->hub_address, &hub) == PL_OK && hub.has_key && !hub.is_local)
        say("hub      %s, encrypted; another machine joins with the command that\n"
            "         `pathloom key invite --run %s` prints",
            hub.endpoint, r->dir);
    for (int i = 0; i < r->n_relays; i++) {
        char name[32], file[64], ready[PL_PATH_MAX];
        snprintf(name, sizeof name, "relay-%d", i + 1);
        snprintf(file, sizeof file, "proc/%s.address", name);
        PL_CHECK(start_job_process(r, "relay", name, i + 1, PL_ADDRESS_PRIVATE,
                                   run_file(r, file, ready)));
        PL_CHECK(run_await_child(r, r->launcher, name, 0, r->relays_at[i]));
    }
    for (int i = 0; i < r->n_workers; i++) {
        char name[32];
        snprintf(name, sizeof name, "worker-%d", i + 1);
        PL_CHECK(start_job_process(r, "worker", name, i + 1, NULL, NULL));
    }
    if (r->cfg.attach || job_is_encrypted(r))
        pl_launcher_expect_others(r->launcher);
    const char *homes[PL_HOMES_MAX];
    int64_t engine_ms;
    PL_CHECK(pl_store_check_engine(r->cfg.engine, &engine_ms));
    for (int i = 0; i < r->n_homes; i++)
        homes[i] = r->homes_at[i];
    pl_client_options options = {.homes = homes,
                                 .n_homes = r->n_homes,
                                 .patience_ms = PATIENCE_MS + (int)engine_ms,
                                 .idle = on_home_wait,
                                 .idle_context = r};
    PL_CHECK(pl_client_create(&options, &r->client));
    return pl_wire_connect(r->hub_address, &r->hub);
}

pl_status run_ask_once(const char *address, const pl_keypair *own, uint16_t type,
                       int longest_ms)
{
    pl_socket *socket = NULL;
    pl_message q = {.type = type, .request = pl_wire_next_request()}, a = {0};
    pl_status status = pl_wire_connect_as(address, own, &socket);
    if (status == PL_OK)
        status = pl_wire_ask(socket, &q, 1000, longest_ms, &a);
    pl_wire_close(&socket);
    pl_message_destroy(&q);
    pl_message_destroy(&a);
    return status;
}

void run_stop(pl_run *r, pl_status how)
{
    char proc[PL_PATH_MAX];
    if (!r->launcher)
        return;
    const bool drain = how == PL_ERR_CANCELLED, stays = r->cfg.attach && how != PL_OK;
    r->peak = (run_memory){.worker = pl_launcher_peak_bytes(r->launcher, "worker"),
                           .home = pl_launcher_peak_bytes(r->launcher, "home"),
                           .hub = pl_launcher_peak_bytes(r->launcher, "hub")};
    /* With `drain`, workers may finish tasks of any length, until a second Ctrl+C.
     * Without `drain` (after a failure) perhaps no process is left that receives
     * results, so the workers get only a short time. */
    pl_launcher_stop(r->launcher, "worker", drain ? DRAIN_MS : ABANDON_MS);
    pl_launcher_stop(r->launcher, "relay", 5000);
    /* A user has started the hub and the homes. The hub ends its workers. */
    for (int i = -1; r->cfg.attach && !stays && i < r->n_homes; i++)
        if (run_ask_once(i < 0 ? r->hub_address : r->homes_at[i], NULL, PL_MSG_STOP,
                         10000) != PL_OK)
            say("note     the %s may still run: %s", i < 0 ? "hub" : "home",
                pl_last_error());
    pl_launcher_stop(r->launcher, "hub", 60000);
    /* After a job that succeeded, a home may still merge the last rounds. */
    if (how == PL_OK && pl_launcher_end(r->launcher, "home", SAY_MS) > 0)
        say("wait     for the homes, which make the last versions (twice Ctrl+C ends "
            "them)");
    pl_launcher_stop(r->launcher, "home", how == PL_OK ? DRAIN_MS : 30000);
    pl_client_destroy(&r->client);
    pl_wire_close(&r->hub);
    pl_launcher_destroy(&r->launcher);
    if (!stays && pl_remove_tree(run_file(r, "proc", proc)) != PL_OK)
        say("         %s", pl_last_error());
}

pl_status run_hub_status(pl_run *r, int timeout_ms, pl_json **out)
{
    pl_message q = {.type = PL_MSG_STATUS, .request = pl_wire_next_request()}, a = {0};
    pl_status status = pl_wire_ask(r->hub, &q, 1000, timeout_ms, &a);
    if (status == PL_OK)
        status = pl_json_parse((const char *)a.data.data, a.data.len, out);
    pl_message_destroy(&q);
    pl_message_destroy(&a);
    return status;
}

/* ---- looking at a job ---- */
pl_status run_hub_log(pl_run *r, uint64_t *offset, pl_buf *out, bool *more, bool *anew)
{
    pl_message q = {.request = pl_wire_next_request()}, a = {0};
    pl_msg_log_is is;
    pl_status status = PL_OK;
    *more = *anew = false;
    PL_SAY(&q, LOG, log, .offset = *offset);
    PL_TRY(pl_wire_ask(r->hub, &q, 1000, WATCH_MS, &a));
    PL_TRY(PL_HEAR(&a, log_is, &is));
    *anew = is.offset < *offset;
    *offset = is.offset + a.data.len;
    *more = a.data.len > 0 && *offset < is.total;
    pl_buf_append(out, a.data.data, a.data.len);
done:
    pl_message_destroy(&q);
    pl_message_destroy(&a);
    return status;
}

pl_status run_watch(pl_run *r, const run_request *q)
{
    char address[PL_ADDRESS_MAX];
    if (q->hub) {
        pl_copy_text(address, sizeof address, q->hub);
    } else {
        pl_copy_text(r->dir, sizeof r->dir, q->run ? q->run : "pathloom-run");
        PL_CHECK(run_hub_address(r->dir, address));
    }
    PL_CHECK(q->key ? pl_admission_open(q->key, NULL) : run_use_keys(r->dir));
    return pl_wire_connect(address, &r->hub);
}

/* Asks the hub for its status. If the hub does not answer, tests the run's lock: a
 * killed job leaves its hub's address behind, but not its lock. */
pl_status run_ask_hub(pl_run *r, pl_json **out)
{
    int lock = -1;
    pl_status status = run_hub_status(r, WATCH_MS, out);
    if ((status != PL_ERR_TIMEOUT && status != PL_ERR_NET) || !r->dir[0])
        return status;
    if (pl_path_exists(r->dir) && pl_lock_folder(r->dir, &lock) == PL_OK) {
        pl_unlock_folder(&lock);
        return no_job(r->dir);
    }
    return pl_fail(status,
                   "the hub of the job in %s does not answer within %d s: it is being "
                   "restarted, or it hangs; see %s/log/hub.log",
                   r->dir, WATCH_MS / 1000, r->dir);
}
