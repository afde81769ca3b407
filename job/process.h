/* The processes of a job (hub, home, relay, worker): their settings, and how each is
 * run.
 *
 * The configuration is that of the run: RUN/proc/job.yaml, which `pathloom train`
 * writes when it starts there; else RUN/run.yaml; else the defaults. Options override
 * it. So a process behaves the same whether it was started by hand, by systemd or by
 * `train`. */
#ifndef PL_JOB_PROCESS_H
#define PL_JOB_PROCESS_H
#include "job/given.h"
#include "job/run.h"

typedef struct process {
    const char *run, *store, *ready, *hub, *name, *cache;
    /* paths of the key and of the list of keys; NULL: connections are not encrypted */
    const char *key, *keys;
    const char *offer, *token_file;
    /* number (from 1) among the processes of this role in the run; 0: it is the only
     * one, or the number is not known */
    int index;
    given_texts homes;
    given_settings settings;
    int64_t device, expect, wait_ms, grace_s;
    bool log_json, verbose, only_enrol;
    volatile sig_atomic_t *stop; /* set by a signal: then the process ends */
    /* process_configure and process_open set these: */
    config cfg;
    char bind[PL_ADDRESS_MAX];
    char paths[6][PL_PATH_MAX], found[PL_HOMES_MAX][PL_ADDRESS_MAX],
        called[PL_KEY_NAME_MAX];
    pl_exporter *metrics;         /* metrics of a hub, else NULL */
    char settled_by[PL_PATH_MAX]; /* the file that `cfg` was read from; "": none */
} process;

/* Reads the configuration of p->run, or the defaults, and applies the options.
 * ERR_CONFIG names the file, ERR_USAGE the option. */
PL_MUST_CHECK pl_status process_configure(process *p);
/* Derives further settings for this role ("hub", "home", "relay" or "worker") from run
 * and machine, opens the log, and loads the key. ERR_USAGE: something must be given. */
PL_MUST_CHECK pl_status process_open(process *p, const char *role);
/* Gives a worker without a name one, made of the machine's name and the beginning of
 * the worker's key. */
void process_name(process *p);
/* Makes the folder FOLDER/pathloom and returns its name. FOLDER is taken from the
 * environment, or derived from HOME. ERR_USAGE. */
pl_status process_user_folder(const char *variable, const char *below_home,
                              char out[PL_PATH_MAX]);
void process_open_log(const process *p, const char *role);

/* process_roles.c */
/* The last step of process_open: checks that the role has what it needs. */
PL_MUST_CHECK pl_status process_prepare(process *p, const char *role);
/* Runs an opened process until it ends. Returns the exit code. */
int process_run(process *p, const char *role);
/* Runs a worker whose process was not opened: the caller has set hub and key, and has
 * called process_configure. */
PL_MUST_CHECK pl_status process_work(const process *p);
/* Writes to the log how the process ended; the launcher looks for it there. Returns the
 * exit code. */
int process_ended(pl_status status);

#endif
