/* Checks keys, ports and addresses of a run, and the way to a hub elsewhere. */
#include "measure/doctor_internal.h"

#include <sys/stat.h>

/* ---- keys ---- */
static void look_at_keys(doctor *d, const char *dir)
{
    static const pl_key_role own[] = {PL_AS_ADMIN, PL_AS_HUB, PL_AS_HOME, PL_AS_WORKER};
    char path[PL_PATH_MAX];
    pl_key_list list = {0};
    if (!run_has_keys(dir)) {
        doctor_say(d, HEALTH_OK, "keys", "",
                   "the run has no keys: only this machine can reach the job");
        return;
    }
    if (pl_key_list_load(run_key_list(dir, path), &list) != PL_OK) {
        doctor_say(d, HEALTH_FAIL, "keys",
                   "make the list of keys readable; correct or delete a wrong line",
                   "%s", pl_last_error());
        return;
    }
    struct stat info;
    bool shut = stat(pl_join(path, dir, "keys"), &info) == 0 &&
                !(info.st_mode & (S_IWGRP | S_IWOTH));
    if (!shut)
        doctor_say(d, HEALTH_FAIL, "keys", "chmod 700 RUN/keys",
                   "%s cannot be read, or other users can write to it and so let any "
                   "machine into the job",
                   path);
    int n[PL_AS_COUNT] = {0}, expired = 0;
    for (size_t i = 0; i < list.n; i++) {
        const pl_key_entry *e = &list.entries[i];
        n[e->role]++;
        expired += e->expires_s != 0 && pl_wall_ms() / 1000 > e->expires_s;
    }
    if (list.n_bad > 0)
        doctor_say(d, HEALTH_WARN, "keys", "correct the line or delete it", "%s",
                   list.complaint);
    doctor_say(d, expired ? HEALTH_WARN : HEALTH_OK, "keys",
               "remove an expired key with pathloom key revoke NAME",
               "the list has keys of %d workers and %d inspectors, and %d open "
               "invitations; %d entries have expired",
               n[PL_AS_WORKER], n[PL_AS_INSPECTOR], n[PL_AS_INVITE], expired);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) { /* the job's own keys */
        pl_keypair pair;
        run_key_file(dir, own[i], path);
        if (pl_keypair_load(path, &pair) != PL_OK) {
            doctor_say(d, HEALTH_FAIL, "key",
                       "if the key is lost, delete the folder RUN/keys; the job makes "
                       "new keys when it starts again",
                       "%s", pl_last_error());
            continue;
        }
        const pl_key_entry *e =
            pl_key_list_find(&list, &pair.open, pl_wall_ms() / 1000);
        bool good = e && e->role == own[i];
        doctor_say(d, good ? HEALTH_OK : HEALTH_FAIL, "key",
                   "add the key to the list: pathloom key allow KEY --role ROLE",
                   "%s is %s", path,
                   good ? "in the list"
                        : "not in the list, or has a different role there");
        pl_keypair_wipe(&pair);
    }
    pl_key_list_clear(&list);
}

/* ---- ports ---- */
static void look_at_port(doctor *d, const char *key, const char *address)
{
    if (pl_wire_check_free(address) == PL_OK)
        doctor_say(d, HEALTH_OK, "port", "", "%s %s is free", key, address);
    else
        doctor_say(d, HEALTH_FAIL, "port",
                   "set this configuration key to a different port or host", "%s: %s",
                   key, pl_last_error());
}

static void look_at_advertised(doctor *d, const config *c)
{
    char host[PL_ADDRESS_MAX];
    if (!config_encrypts(c))
        return;
    pl_address_of_machine(host);
    bool given = c->advertise[0] != '\0', local = pl_starts_with(host, "127.");
    doctor_say(d, given || !local ? HEALTH_OK : HEALTH_WARN, "address",
               "--set net.advertise=HOST", "other machines are told to connect to %s",
               given ? c->advertise : host);
}

void doctor_run(doctor *d, const char *dir)
{
    char path[PL_PATH_MAX], folder[PL_PATH_MAX];
    pl_run r = {.lock = -1};
    const run_request q = {.run = dir};
    pl_json *answer = NULL;
    const bool running =
        run_watch(&r, &q) == PL_OK && run_ask_hub(&r, &answer) == PL_OK;
    pl_json_destroy(&answer);
    pl_wire_close(&r.hub);
    doctor_disk(d, pl_path_is_folder(dir) ? dir : ".");
    look_at_keys(d, dir);
    /* The run is opened twice: an error in the check of the GPU would otherwise
     * overwrite the text (pl_last_error) that says why the run cannot be opened. */
    pl_status status = run_look(dir, &r);
    doctor_gpu(d, status == PL_OK ? &r : NULL, running);
    run_close(&r);
    status = run_look(dir, &r);
    /* Data that is not complete yet has no hash of its tokenizer. */
    if (status == PL_OK && pl_path_exists(run_file(&r, "data/data.json", path))) {
        if (pl_data_check_tokenizer(run_file(&r, "data", path)) == PL_OK)
            doctor_say(d, HEALTH_OK, "tokenizer", "",
                       "the run's data was made with %s/tokenizer.model", path);
        else
            doctor_say(d, HEALTH_FAIL, "tokenizer", "do what the message above says",
                       "%s", pl_last_error());
    }
    if (status != PL_OK && !pl_path_is_folder(dir)) {
        doctor_say(d, HEALTH_OK, "run", "", "there is no run in %s yet", dir);
    } else if (status != PL_OK) {
        doctor_say(d, HEALTH_WARN, "run", "make a run with pathloom train --out RUN",
                   "%s", pl_last_error());
    } else if (running) {
        doctor_say(d, HEALTH_OK, "run", "", "the hub of %s answers", dir);
        look_at_advertised(d, &r.cfg);
    } else {
        /* Checks that a writer could open the store. A running home has it open
         * already. */
        if (pl_path_is_folder(pl_join(folder, dir, "store"))) {
            pl_store *store = NULL;
            status = store_open_run(dir, &store);
            if (status == PL_OK)
                status = pl_store_look_as_writer(store);
            if (status == PL_OK)
                doctor_say(
                    d, HEALTH_OK, "store", "",
                    "the files of %s are complete (`pathloom store fsck` reads them)",
                    folder);
            else
                doctor_say(
                    d, HEALTH_FAIL, "store",
                    "run pathloom store fsck, and restore the store from a backup",
                    "%s", pl_last_error());
            pl_store_close(&store);
        }
        look_at_port(d, "net.hub", r.cfg.hub_bind);
        look_at_port(d, "net.home", r.cfg.home_bind);
        char metrics[PL_ADDRESS_MAX];
        if (r.cfg.metrics[0] && pl_exporter_check(r.cfg.metrics, metrics) == PL_OK)
            look_at_port(d, "net.metrics", metrics);
        else if (r.cfg.metrics[0])
            doctor_say(d, HEALTH_FAIL, "port", "set net.metrics to HOST:PORT", "%s",
                       pl_last_error());
        look_at_advertised(d, &r.cfg);
    }
    run_close(&r);
}

/* ---- a hub on another machine ---- */
void doctor_hub(doctor *d, const char *hub, const char *key)
{
    pl_run r = {.lock = -1};
    const run_request q = {.hub = hub, .key = key};
    pl_json *status = NULL;
    double start = pl_now();
    pl_status found = run_watch(&r, &q);
    if (found == PL_OK)
        found = run_ask_hub(&r, &status);
    if (found == PL_OK)
        doctor_say(d, HEALTH_OK, "hub", "", "the hub answered after %.0f ms",
                   1e3 * (pl_now() - start));
    else
        doctor_say(d, HEALTH_FAIL, "hub",
                   found == PL_ERR_NOPERM
                       ? "do what the message above says"
                       : "check that the job runs and that no firewall blocks the port",
                   "%s", pl_last_error());
    pl_json_destroy(&status);
    run_close(&r);
}
