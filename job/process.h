/* The processes of a job (hub, home, relay, worker): finds their settings and runs
 * them.
 *
 * A process reads the configuration of its run from RUN/proc/job.yaml, which exists
 * while `pathloom train` runs, otherwise from RUN/run.yaml. If neither exists, the
 * process uses the defaults. Options override the configuration. So a process behaves
 * in the same way whether a user, systemd or `train` starts it. */
#pragma once
#include "job/run.h"
#include "relay/relay.h"

typedef struct process {
    const char *run, *store, *ready, *hub, *name, *cache;
    /* files with the key and with the list of keys; NULL: connections are not
     * encrypted */
    const char *key, *keys;
    /* offer: address at which a worker gives updates to its mates, or NULL;
     * token_file: file with the token of `join`, or NULL */
    const char *offer, *token_file;
    /* number (from 1) among the processes with this role in the run; 0: the only such
     * process, or not known */
    int index;
    given_texts homes;
    given_settings settings;
    /* device: number of a worker's GPU; expect, wait_ms: of a relay (relay/relay.h);
     * grace_s: seconds that a worker has to finish after `stop`, 0: no limit */
    int64_t device, expect, wait_ms, grace_s;
    bool log_json, verbose, only_enrol;
    volatile sig_atomic_t *stop; /* a signal sets it to end the process */
    /* process_configure and process_open set the fields below. paths, found and called
     * are memory for derived paths, addresses and a name. */
    config cfg;
    char bind[PL_ADDRESS_MAX];
    char paths[6][PL_PATH_MAX], found[PL_HOMES_MAX][PL_ADDRESS_MAX],
        called[PL_KEY_NAME_MAX];
    pl_exporter *metrics;         /* metrics of a hub, else NULL */
    char settled_by[PL_PATH_MAX]; /* the file that `cfg` was read from; "": none */
} process;

/* Reads the configuration of p->run, or the defaults, and applies the options. The
 * sentence of ERR_CONFIG names the file; the sentence of ERR_USAGE names the option. */
pl_status process_configure(process *p);
/* Derives further settings for this role ("hub", "home", "relay" or "worker") from the
 * run and the machine, opens the log, and loads the key. ERR_USAGE: an option is
 * missing. */
pl_status process_open(process *p, const char *role);
/* Sets the name of a worker that has none: the machine's name and the beginning of the
 * worker's key, or the process id if the worker has no key. */
void process_name(process *p);
/* Makes the folder FOLDER/pathloom and writes its name to `out`. FOLDER is the value of
 * the environment variable `variable`, or the folder `below_home` in HOME.
 * ERR_USAGE. */
pl_status process_user_folder(const char *variable, const char *below_home,
                              char out[PL_PATH_MAX]);
void process_open_log(const process *p, const char *role);

/* process_roles.c */
/* The last step of process_open: checks that all settings that the role needs are set,
 * and prepares what the role uses (a home's store, a hub's exporter of metrics, a
 * worker's name). */
pl_status process_prepare(process *p, const char *role);
/* Runs an opened process until it ends. Returns the exit code. */
int process_run(process *p, const char *role);
/* Runs a worker for which process_open was not called. The caller has set hub and key,
 * and has called process_configure. */
pl_status process_work(const process *p);
/* Writes to the log how the process ended, because the launcher reads it there. Returns
 * the exit code. */
int process_ended(pl_status status);
