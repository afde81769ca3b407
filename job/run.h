/* A run folder, and what `pathloom train` does with it.
 *
 *   RUN/run.yaml      the configuration, all keys
 *   RUN/data/         tokenizer.model, train.tok, valid.tok, data.json
 *   RUN/store/        RocksDB; with several homes one per home in home-N below it
 *   RUN/cache/        data shards by hash, shared by the workers
 *   RUN/log/          one log per process
 *   RUN/proc/         addresses of hub and homes while the job runs; in proc/ipc, which
 *                     only its owner can enter, the sockets of a job on one machine
 *   RUN/keys/         the keys that may connect, if other machines may
 * (docs/SECURITY.md) RUN/router.json   how documents were routed RUN/workers.json  how
 * the workers spent their time since the last start RUN/report.json   the last
 * evaluation */
#ifndef PL_JOB_RUN_H
#define PL_JOB_RUN_H
#include "eval/eval.h"
#include "home/home.h"
#include "job/config.h"
#include "serve/serve.h"
#include "workers/workers.h"
#include "net/net.h"

enum { RELAYS_MAX = 16 };

/* The memory of one process of each kind; the launcher is `pathloom train` itself. */
typedef struct run_memory {
    uint64_t worker, home, hub, launcher;
} run_memory;

typedef struct pl_run {
    config cfg;
    pl_hash hash;
    char dir[PL_PATH_MAX];
    int lock;
    bool made;             /* this command made the folder */
    bool resumed;          /* something was trained in it before this command */
    bool lengthened;       /* this command adds to train.more of a run that has begun */
    pl_topology *topology; /* of the mixture, in its last chapter */
    pl_tokens *train, *valid;
    pl_hash moments; /* of the base model; none until this process has stored them */
    pl_prepare_result data;
    pl_launcher *launcher;
    pl_client *client; /* to the home */
    pl_socket *hub;
    char hub_address[PL_ADDRESS_MAX], homes_at[PL_HOMES_MAX][PL_ADDRESS_MAX];
    int n_homes, n_workers, n_relays;
    char device[96]; /* of the job's own workers; "": it has none */
    int n_gpus;      /* that they take in turn; 0: they compute on processors */
    char relays_at[RELAYS_MAX][PL_ADDRESS_MAX];
    double started;
    run_memory planned,
        /* peak: the largest memory of processes that have ended, in bytes; 0: none */
        peak;
    volatile sig_atomic_t *stop;
} pl_run;

char *run_file(const pl_run *r, const char *name, char out[PL_PATH_MAX]);

/* What a command asks for. */
typedef struct run_request {
    const char *file;        /* a configuration, or NULL */
    const char *const *sets; /* key=value */
    int n_sets;
    const char *run; /* --run or --out */
    /* for a job on another machine: its hub, and the key to connect with */
    const char *hub, *key;
} run_request;

/* run.c: makes or resumes the folder, locks it, and compares its configuration. */
pl_status run_open(const run_request *q, pl_run *r);
/* Takes the mixture's topology of this chapter, or of the last one if there are not as
 * many. */
PL_MUST_CHECK pl_status run_use_chapter(pl_run *r, int chapter);
/* Gives a run in which nothing was trained the configuration of these --set pairs, in
 * the place of the one that it was opened with. */
pl_status run_lay(pl_run *r, const char *const *sets, int n_sets);
/* Those that a job of this configuration starts on this machine, which has n_gpus GPUs
 * to train on. */
int run_local_workers(const config *c, int n_gpus);
/* What this command itself computes with (features, evaluation, samples): the backend
 * of the workers, or whatever this machine has if they need a GPU and are elsewhere. */
pl_backend_options run_own_backend(const pl_run *r);
/* Saves the configuration, which from then on is the run's. */
pl_status run_save(const pl_run *r);
void run_close(pl_run *r);
/* ERR_CANCELLED once Ctrl+C was pressed. */
pl_status run_stopped(const pl_run *r);
/* For eval and generate: reads the configuration of an existing run and locks nothing.
 */
pl_status run_look(const char *dir, pl_run *r);

/* run_keys.c: RUN/keys */
bool run_has_keys(const char *dir);
/* Makes keys if there are none. ERR_NOPERM: one of the existing keys was revoked. */
pl_status run_make_keys(const char *dir);
pl_status run_use_keys(const char *dir); /* this process is an administrator */
char *run_key_file(const char *dir, pl_key_role role, char out[PL_PATH_MAX]);
char *run_key_list(const char *dir, char out[PL_PATH_MAX]);

/* run_processes.c */
/* The file with the settings for the processes of a running job: RUN/proc/job.yaml. */
char *run_job_file(const char *dir, char out[PL_PATH_MAX]);
int run_count_relays(const config *c);
/* How many of the job's own workers connect to this relay (from 0). */
int run_workers_behind(const config *c, int relay);
/* The file in which home i (from 0) of n writes its address; "proc/home.address" if
 * there is only one. */
void run_home_file(int i, int n, char out[64]);
/* The address at which a process of the run must listen, as follows from net.hub or
 * net.home. */
void run_listen_at(const char *dir, const char *asked, const char *name, bool encrypted,
                   char out[PL_ADDRESS_MAX]);
/* Opens the backend of the job's own workers once: device, n_gpus, n_workers.
 * ERR_CONFIG if they do not fit a GPU. */
pl_status run_find_device(pl_run *r);
/* Finds failures that would end the processes soon after their start: addresses,
 * store. */
pl_status run_check(pl_run *r);
pl_status run_start(pl_run *r);
/* Starts the homes of a stopped job, with a client, and nothing else. */
pl_status run_start_homes(pl_run *r);
/* Finds the addresses of a running job and makes a client; there is no launcher. */
pl_status run_find_homes(pl_run *r);
/* Reaps and restarts processes; starts a home that `pathloom homes add` asked for. */
pl_status run_tend(pl_run *r);
/* Tells the hub all homes that the job has now. */
pl_status run_tell_homes(pl_run *r);
/* With `drain` the workers finish their tasks first; then hub and home end. */
void run_stop(pl_run *r, bool drain);
/* For commands that watch a job: connects to the hub of --run, or to --hub with --key.
 */
pl_status run_watch(pl_run *r, const run_request *q);
pl_status run_ask_hub(pl_run *r, pl_json **out);
/* Where the hub of the job in this folder listens; ERR_NOT_FOUND if none is running. */
pl_status run_hub_address(const char *dir, char out[PL_ADDRESS_MAX]);
/* Reads what a process of the run wrote into DIR/FILE; waits up to `ms` for it. */
pl_status run_await_address(const char *dir, const char *file, int ms,
                            char out[PL_ADDRESS_MAX]);
pl_status run_hub_status(pl_run *r, int timeout_ms, pl_json **out);

/* The most memory for the losses of all paths that an evaluation keeps at a time. */
enum { EVALUATION_LOSSES_BYTES = 64 << 20 };

/* run_plan.c: plans memory and disk, prints the plan, and refuses what cannot fit. */
pl_status run_plan(pl_run *r);
/* The most bytes that all homes keep for the run if nothing is collected. */
uint64_t run_stored_bytes(const pl_run *r);
/* prints the peak beside the plan, when all other processes have ended */
void run_say_peak(pl_run *r);

/* run_gpu.c: what workers take of a GPU. `be` is an open cuda backend. */
void run_gpu_plan(const pl_run *r, pl_model_plan *out); /* of one worker's model */
/* Including its process's CUDA context. */
uint64_t run_gpu_worker_bytes(const pl_run *r, const pl_backend *be);
/* How many of this machine's workers share its first GPU; no GPU has more of them. */
int run_gpu_sharers(const pl_run *r, const pl_backend *be);
/* ERR_CONFIG with the numbers and the remedy if they do not fit there. */
pl_status run_gpu_check(const pl_run *r, const pl_backend *be);

/* stages.c */
pl_status stage_data(pl_run *r);
pl_status stage_base(pl_run *r);
pl_status stage_route(pl_run *r);
pl_status stage_arms(pl_run *r);

/* "p01" for "p01.r0" where no path of the arm has several replicas; "" if the arm has
 * one path only. */
void progress_path_name(const pl_json *paths, size_t i, char out[PL_NAME_MAX]);
/* progress.c: waits until the first n_needed of the arms are finished, showing how far
 * all are. */
pl_status progress_wait(pl_run *r, const char *const *arms, int n_arms, int n_needed);

/* arms.c: definitions of the arms of a run */
enum { ARMS_MAX = 1 + CONFIG_BASELINES };
/* mix first, then the wanted baselines. */
int run_arm_names(const pl_run *r, const char *names[ARMS_MAX]);
/* Phases of all paths and replicas of the mixture, without those of train.more. */
int64_t run_path_phases(const pl_run *r);
/* Whether no further chapter of the mixture follows; true for all other arms. */
bool run_is_last_chapter(const pl_run *r, const char *arm);
bool run_may_have_arm(const char *name); /* true if any configuration has such an arm */
/* Fills everything but shards and weights (allocated for the paths). */
pl_status run_arm(const pl_run *r, const char *name, pl_arm *out);

/* artifacts.c: what commands that answer from a run need, also while its job runs */
pl_status store_open_run(const char *dir, pl_store **out);
/* Reads the run's tokenizer. Refuses one that is not the one that made the run's data.
 */
pl_status run_read_tokenizer(const pl_run *r, pl_buf *bytes);
pl_status run_load_tokenizer(const pl_run *r, pl_tokenizer **out);
void run_answer_settings(const pl_run *r, pl_answer_settings *out);
/* Reads a tag of the mixture. ERR_USAGE: it is one of another arm. Clear it. */
PL_MUST_CHECK pl_status mixture_tag(pl_store *store, const char *name,
                                    pl_snapshot *out);
/* What of a mixture answers. */
typedef struct mixture_wish {
    const char *at;      /* a tag of it; NULL: its newest versions */
    const char *without; /* modules whose paths are closed, "L1.E3,B0.E1"; NULL: none */
} mixture_wish;
/* Call pl_mixture_close even if opening failed. */
pl_status mixture_open(const char *dir, const mixture_wish *wish, pl_mixture *mix);

/* run_homes.c: homes are added and removed */
/* Held by the only process that may move names of this run. ERR_BUSY. */
pl_status run_lock_movers(const pl_run *r, int *lock);
/* Makes the part of home n + 1 of a run with n homes, and waits until that home runs.
 */
pl_status run_begin_home(pl_run *r, int n);
/* Removes the last home of a stopped job; `home` counts from 0. */
pl_status run_drop_home(const char *store, int home);
/* Reads the weights that will be changed, also those of an interrupted change. Homes
 * that are in no table yet have weight 0. */
pl_status run_home_weights(const pl_run *r, pl_places *out);
/* The same of a stopped job, from the store in `folder` with n homes. */
pl_status run_stored_weights(const char *folder, int n, pl_places *out,
                             bool *unfinished);

/* store_homes.c: a store that the homes of a job may hold. `folder` is the store's. */
/* The table by which homes place new names, read from home 1; n 0: the store is in one
 * piece. */
pl_status run_placement(const char *folder, pl_places *out);
/* Keeps an object, or drops it if `bytes` is empty (a home then keeps it empty). The
 * home that holds the store does it; else this process. `store` is a reader of it. */
pl_status run_keep_object(const char *folder, pl_store *store, const char *object,
                          const pl_buf *bytes);
/* Opens the store for reading, also if it is open but a home was added since, whose
 * part that reader does not see. */
pl_status run_see_all_parts(const char *folder, pl_store **store);
/* Makes the reader show what all homes of the store had at one moment; opens it anew if
 * a home was added. If a job's homes had to stand still for that, *held_ms says for how
 * long; else it is -1. */
pl_status run_look_at_one_moment(const char *folder, pl_store **store,
                                 int64_t *held_ms);

void say(const char *format, ...) PL_PRINTF(1, 2); /* a line to stdout, at once */
/* Prints one line of JSON to stdout, at once; takes `json`. */
void say_json(pl_json *json);

#endif
