/* Private to cli: what the processes of a fleet are told on their command lines. */
#ifndef PL_CLI_PROCESS_H
#define PL_CLI_PROCESS_H
#include "cli/cli.h"

typedef struct process {
    const char *bind, *ready, *store, *hub, *name, *cache, *backend, *precision;
    const char *key, *keys, *advertise, *run, *offer, *metrics, *token_file;
    const char *part;      /* which of several homes of a run: "2/3" */
    const char *engine;    /* of all homes' chunks; NULL: the store's own database */
    const char *norm_gate; /* a number; NULL: the usual one */
    const char *audit;     /* a number; NULL: none */
    const char *backup;    /* off, auto, any; NULL: auto */
    const char *homes[PL_HOMES_MAX];
    int n_homes;
    int64_t cache_bytes, staging, threads, ttl_ms, patience_s, expect, wait_ms, grace_s;
    int64_t device;
    bool recompute, keep_updates, keep_momentum, compress, log_json, verbose,
        only_enrol, json;
    const char *word; /* the one that no option takes; NULL: none */
    /* texts that were found out, not given */
    char paths[6][PL_PATH_MAX], found[PL_HOMES_MAX][PL_ADDRESS_MAX],
        called[PL_KEY_NAME_MAX], place[PL_ADDRESS_MAX];
    const char *tolerance; /* of audits across kinds; NULL: the usual one */
    char backend_text[32], precision_text[32];
    char settled_by[PL_PATH_MAX]; /* the run's configuration, if it was there; or "" */
} process;

/* ERR_USAGE. `words`: how many may stand beside the options, 0 or 1. */
pl_status process_parse(int argc, char **argv, int words, process *p);
/* Parses, fills what --run and the machine imply for this role, opens the log and shows
 * the key. */
pl_status process_open(int argc, char **argv, const char *role, process *p);
/* What a worker computes with and how long it waits, where no option says it: as the
 * run's configuration does, else as its keys do by default. ERR_CONFIG names the file.
 */
pl_status process_settle(process *p);
/* The name of a worker that was given none: the machine's and the key's beginning. */
void process_name(process *p);
/* FOLDER/pathloom, made, where the environment has FOLDER, or HOME. ERR_USAGE. */
pl_status process_user_folder(const char *variable, const char *below_home,
                              char out[PL_PATH_MAX]);
void process_open_log(const process *p, const char *role);
pl_status process_work(const process *p);
/* The end of a process stands in its log, where the launcher looks for it. */
int process_ended(pl_status status);

#endif
