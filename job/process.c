/* Finds the settings of a process of a job: from its run, its options and its machine
 * (process.h). */
#include "job/process.h"

#include <stdlib.h>
#include <unistd.h>

enum { ADDRESS_WAIT_MS = 60000, DAY_S = 24 * 3600 };

static bool is_role(const char *role, const char *other)
{
    return strcmp(role, other) == 0;
}

static const char *in_run(process *p, int slot, const char *name)
{
    return pl_join(p->paths[slot], p->run, name);
}

pl_status process_configure(process *p)
{
    char file[PL_PATH_MAX];
    bool found = false;
    const pl_gone *differs; /* `train` refuses to start the processes of such a run */
    pl_conf_defaults(&config_table, &p->cfg);
    if (p->run)
        found = pl_path_exists(run_job_file(p->run, file)) ||
                pl_path_exists(pl_join(file, p->run, "run.yaml"));
    if (found)
        PL_CHECK(pl_conf_load_saved(&config_table, &p->cfg, file, &differs));
    pl_copy_text(p->settled_by, sizeof p->settled_by, found ? file : "");
    for (int i = 0; i < p->settings.n; i++)
        PL_CHECK(pl_conf_set_pair(&config_table, &p->cfg, p->settings.pairs[i],
                                  "an option"));
    /* The hub of a process without a run is on another machine, where nobody can start
     * this process again after an outage. */
    if (!p->run && !given_sets(&p->settings, "workers.patience_s"))
        p->cfg.patience_s = DAY_S;
    /* Refuses --set with a key that changes results, because this key must have the
     * same value for the whole run. Some keys that change results have special options
     * for workers, which are allowed. */
    const given_settings *s = &p->settings;
    for (int i = 0; i < s->n; i++) {
        const char *pair = s->pairs[i];
        bool by_option = pair >= s->made[0] && pair < s->made[0] + sizeof s->made;
        if (!by_option && strchr(pair, '=') && !config_pair_is_local(pair))
            return pl_fail(PL_ERR_USAGE,
                           "`%.100s` is a setting of the whole run, not of one "
                           "process; give it to `pathloom train`",
                           pair);
    }
    return PL_OK;
}

/* Waits until another process of the run has written its address. */
static pl_status await_address(process *p, const char *file, int slot, const char **out)
{
    if (run_await_address(p->run, file, ADDRESS_WAIT_MS, p->found[slot]) != PL_OK)
        return pl_fail(PL_ERR_NOT_FOUND,
                       "there is no address in %s/%s; start the hub, home or relay "
                       "that writes this file, with --run %s",
                       p->run, file, p->run);
    *out = p->found[slot];
    return PL_OK;
}

static pl_status find_store(process *p)
{
    char store[PL_PATH_MAX], file[64];
    int n = 1;
    pl_join(store, p->run, "store");
    /* Finds the number of homes. If there are several, the first home that starts makes
     * the folders of all parts. */
    PL_CHECK(pl_store_parts(store, &n));
    if (n == 0 && p->cfg.homes > 1 && p->index > 0) {
        n = (int)p->cfg.homes;
        PL_CHECK(pl_store_make_parts(store, n));
    }
    n = n > 0 ? n : 1;
    if (p->index == 0 && n > 1 && !p->store)
        return pl_fail(
            PL_ERR_USAGE,
            "the run %s has %d homes; give the number of this home, such as --index %d",
            p->run, n, n);
    if (p->index > n)
        return pl_fail(PL_ERR_USAGE, "--index %d: the run %s has only %d home%s",
                       p->index, p->run, n, n == 1 ? "" : "s");
    int index = p->index > 0 ? p->index - 1 : 0;
    if (!p->ready)
        p->ready = in_run(p, 2, run_home_file(index, n, file));
    if (p->store)
        return PL_OK;
    if (n > 1 || pl_path_exists(pl_store_part(store, index, p->paths[3])))
        pl_store_part(store, index, p->paths[3]);
    else
        pl_copy_text(p->paths[3], sizeof p->paths[3], store);
    p->store = p->paths[3];
    return PL_OK;
}

static pl_status find_in_run(process *p, const char *role)
{
    char path[PL_PATH_MAX], store[PL_PATH_MAX], single[PL_PATH_MAX], file[64];
    int n = 0;
    /* A process uses keys if the configuration asks for encryption, or if the run
     * already has keys. But if `train` runs the job without encryption, the job's
     * processes use no keys, even if an earlier job made some. */
    const bool of_train = pl_path_exists(run_job_file(p->run, path)) && !p->cfg.attach;
    if (!p->key && (config_encrypts(&p->cfg) || (!of_train && run_has_keys(p->run)))) {
        PL_CHECK(run_make_keys(p->run));
        snprintf(file, sizeof file, "keys/%s.key", role);
        p->key = in_run(p, 0, file);
        if (!p->keys && !is_role(role, "worker"))
            p->keys = in_run(p, 1, "keys/allow");
    }
    PL_CHECK(pl_make_folders(pl_join(path, p->run, "proc")));
    if (is_role(role, "home"))
        return find_store(p);
    if (is_role(role, "worker")) {
        if (!p->cache)
            p->cache = in_run(p, 4, "cache");
        if (p->index > 0 && !p->name) {
            snprintf(p->called, sizeof p->called, "worker-%d", p->index);
            p->name = p->called;
        }
        if (p->index > 0 && p->device == 0)
            p->device = p->index - 1;
        if (!p->hub)
            PL_CHECK(await_address(p, "proc/hub.address", 0, &p->hub));
        /* The job's own workers are distributed over its relays. */
        n = run_count_relays(&p->cfg);
        if (n == 0 || p->index == 0 || p->homes.n > 0)
            return PL_OK;
        snprintf(file, sizeof file, "proc/relay-%d.address", (p->index - 1) % n + 1);
        PL_CHECK(await_address(p, file, 1, &p->homes.items[0]));
        p->homes.n = 1;
        return PL_OK;
    }
    snprintf(file, sizeof file, p->index > 0 ? "proc/%s-%d.address" : "proc/%s.address",
             role, p->index);
    if (!p->ready)
        p->ready = in_run(p, 2, file);
    if (is_role(role, "relay") && p->expect == 0 && p->index > 0)
        p->expect = run_workers_behind(&p->cfg, p->index - 1);
    if (p->homes.n > 0)
        return PL_OK;
    /* The number of homes is known when the first home has started. If it does not
     * start, the wait for its address reports the problem. */
    const int64_t start = pl_now_ms();
    pl_join(store, p->run, "store");
    pl_join(single, p->run, "proc/home.address");
    PL_CHECK(pl_store_parts(store, &n));
    while (n == 0 && !pl_path_exists(single)) {
        pl_sleep_ms(50);
        if (pl_now_ms() - start >= ADDRESS_WAIT_MS)
            break;
        PL_CHECK(pl_store_parts(store, &n));
    }
    if (n > 0 && is_role(role, "relay"))
        return pl_fail(PL_ERR_USAGE,
                       "the run %s has %d homes, but a relay serves only one home: "
                       "give the address of that home with --home ADDRESS",
                       p->run, n);
    n = n > 0 ? n : 1;
    for (; p->homes.n < n; p->homes.n++) {
        run_home_file(p->homes.n, n, file);
        PL_CHECK(await_address(p, file, p->homes.n, &p->homes.items[p->homes.n]));
    }
    return PL_OK;
}

void process_name(process *p)
{
    pl_keypair own;
    char host[32] = "worker", key[PL_PUBKEY_TEXT] = "";
    gethostname(host, sizeof host - 1);
    host[strcspn(host, ".")] = '\0';
    if (p->key && pl_keypair_load(p->key, &own) == PL_OK) {
        pl_pubkey_format(&own.open, key);
        pl_keypair_wipe(&own);
    }
    if (key[0])
        snprintf(p->called, sizeof p->called, "%.31s-%.6s", host, key);
    else
        snprintf(p->called, sizeof p->called, "%.31s-%d", host, (int)getpid());
    p->name = p->called;
}

pl_status process_user_folder(const char *variable, const char *below_home,
                              char out[PL_PATH_MAX])
{
    char base[PL_PATH_MAX];
    const char *named = getenv(variable), *home = getenv("HOME");
    if (named && named[0])
        pl_copy_text(base, sizeof base, named);
    else if (home && home[0])
        pl_join(base, home, below_home);
    else
        return pl_fail(PL_ERR_USAGE,
                       "neither HOME nor %s is set; choose places for files with --key "
                       "and --cache",
                       variable);
    return pl_make_folders(pl_join(out, base, "pathloom"));
}

void process_open_log(const process *p, const char *role)
{
    pl_log_open(p->name ? p->name : role, p->verbose ? PL_LOG_DEBUG : PL_LOG_INFO,
                p->log_json);
}

pl_status process_open(process *p, const char *role)
{
    PL_CHECK(process_configure(p));
    if (p->index > 0 && !p->run)
        return pl_fail(
            PL_ERR_USAGE,
            "--index is the number of a process in a run; give --run FOLDER, too");
    if (p->run)
        PL_CHECK(find_in_run(p, role));
    process_open_log(p, role);
    if (p->run && !p->settled_by[0])
        pl_log(PL_LOG_WARN, "process.defaults",
               "role=%s run=\"%s\" reason=\"there is no run.yaml yet\"", role, p->run);
    if (!is_role(role, "worker")) {
        /* Finds the address at which the process listens. A relay must not listen at
         * the address of the run's home. A socket in the run folder gets the name of
         * the file to which the address is written. */
        char name[64];
        const char *asked =
            is_role(role, "hub") ? p->cfg.hub_bind
            : is_role(role, "relay") && !given_sets(&p->settings, "net.home")
                ? PL_ADDRESS_PRIVATE
                : p->cfg.home_bind;
        const char *file = p->ready ? strrchr(p->ready, '/') : NULL;
        file = file ? file + 1 : role;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(file, "."), file);
        if (p->run)
            run_listen_at(p->run, asked, name, p->key != NULL, p->bind);
        else if (p->key && strcmp(asked, PL_ADDRESS_PRIVATE) == 0)
            pl_copy_text(p->bind, sizeof p->bind, "tcp://127.0.0.1:*");
        else
            pl_copy_text(p->bind, sizeof p->bind, asked);
    }
    if (p->key && !p->keys && !is_role(role, "worker"))
        return pl_fail(
            PL_ERR_USAGE,
            "--key also needs --keys FILE, the list of keys that may connect");
    pl_wire_advertise(p->cfg.advertise);
    PL_CHECK(pl_admission_open(p->key, is_role(role, "worker") ? NULL : p->keys));
    return process_prepare(p, role);
}
