/* The door of job: a run folder, and what `pathloom train` does with it.
 *
 *   RUN/run.yaml      the configuration, all keys
 *   RUN/data/         tokenizer.model, train.tok, valid.tok, data.json
 *   RUN/store/        RocksDB; with several homes one in each home-N below it
 *   RUN/cache/        data shards by hash, shared by the workers
 *   RUN/log/          a log a process
 *   RUN/proc/         addresses of hub and homes while the job runs; in proc/ipc, which
 *                     only its owner can enter, the sockets of a job on one machine
 *   RUN/keys/         who may connect, if other machines may (docs/SECURITY.md)
 *   RUN/router.json   how documents were routed
 *   RUN/workers.json  what the workers' time went into, of the last sitting
 *   RUN/report.json   the last evaluation
 */
#ifndef PL_JOB_RUN_H
#define PL_JOB_RUN_H
#include "eval/eval.h"
#include "home/home.h"
#include "job/config.h"
#include "serve/serve.h"
#include "workers/workers.h"
#include "net/net.h"

enum { RELAYS_MAX = 16 };

/* Of one process of each kind; the launcher is `pathloom train` itself. */
typedef struct run_memory {
    uint64_t worker, home, hub, launcher;
} run_memory;

typedef struct pl_run {
    config cfg;
    pl_hash hash;
    char dir[PL_PATH_MAX];
    int lock;
    bool made;             /* this command made the folder */
    bool resumed;          /* something was trained in it before */
    pl_topology *topology; /* of the mixture */
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
        peak; /* peak: of processes that have ended, in bytes; 0: none */
    volatile sig_atomic_t *stop;
} pl_run;

char *run_file(const pl_run *r, const char *name, char out[PL_PATH_MAX]);

/* What a command asks of a run. */
typedef struct run_request {
    const char *file;        /* a configuration, or NULL */
    const char *const *sets; /* key=value */
    int n_sets;
    const char *run;       /* --run or --out */
    const char *hub, *key; /* of a job elsewhere: its hub, and the key to ask with */
} run_request;

/* run.c: the folder: made or resumed, locked, its configuration compared. */
pl_status run_open(const run_request *q, pl_run *r);
/* Those that a job of this configuration starts on this machine, which has n_gpus GPUs
 * to train on. */
int run_local_workers(const config *c, int n_gpus);
/* What this command itself computes with (features, evaluation, samples): the backend
 * of the workers, or whatever this machine has if they need a GPU and are elsewhere. */
pl_backend_options run_own_backend(const pl_run *r);
/* Keeps the configuration, which from then on is that of the run. */
pl_status run_save(const pl_run *r);
void run_close(pl_run *r);
/* ERR_CANCELLED once Ctrl+C was pressed. */
pl_status run_stopped(const pl_run *r);
/* For eval and generate: the configuration of an existing run, nothing locked. */
pl_status run_look(const char *dir, pl_run *r);

/* run_keys.c: RUN/keys */
bool run_has_keys(const char *dir);
/* Where there are none. ERR_NOPERM: one of those that are there was revoked. */
pl_status run_make_keys(const char *dir);
pl_status run_use_keys(const char *dir); /* this process is an administrator */
char *run_key_file(const char *dir, pl_key_role role, char out[PL_PATH_MAX]);
char *run_key_list(const char *dir, char out[PL_PATH_MAX]);

/* run_processes.c */
/* What the processes of a job that runs go by: RUN/proc/job.yaml. */
char *run_job_file(const char *dir, char out[PL_PATH_MAX]);
int run_count_relays(const config *c);
/* How many of the job's own workers ask this relay (from 0). */
int run_workers_behind(const config *c, int relay);
/* Where home i (from 0) of n writes its address: "proc/home.address" of a single one.
 */
void run_home_file(int i, int n, char out[64]);
/* What a process of the run is told to listen at, for what net.hub or net.home says. */
void run_listen_at(const char *dir, const char *asked, const char *name, bool encrypted,
                   char out[PL_ADDRESS_MAX]);
/* Opens the backend of the job's own workers once: device, n_gpus, n_workers.
 * ERR_CONFIG if they do not fit a GPU. */
pl_status run_find_device(pl_run *r);
/* What would end the processes soon after their start: addresses, store. */
pl_status run_check(pl_run *r);
pl_status run_start(pl_run *r);
/* The homes of a job that is stopped, with a client, and nothing else. */
pl_status run_start_homes(pl_run *r);
/* A job that runs: their addresses, and a client; no launcher. */
pl_status run_find_homes(pl_run *r);
/* Reaps and restarts processes; starts a home that `pathloom homes add` asked for. */
pl_status run_tend(pl_run *r);
/* The hub hears of all homes that the job has now. */
pl_status run_tell_homes(pl_run *r);
/* With `drain` the workers finish their tasks first; then hub and home end. */
void run_stop(pl_run *r, bool drain);
/* For those who look at a job: connects to the hub of --run, or to --hub with --key. */
pl_status run_watch(pl_run *r, const run_request *q);
pl_status run_ask_hub(pl_run *r, pl_json **out);
/* Where the hub of the job in this folder listens; ERR_NOT_FOUND if none is running. */
pl_status run_hub_address(const char *dir, char out[PL_ADDRESS_MAX]);
/* What a process of the run wrote into DIR/FILE, for which it is given `ms`. */
pl_status run_await_address(const char *dir, const char *file, int ms,
                            char out[PL_ADDRESS_MAX]);
pl_status run_hub_status(pl_run *r, int timeout_ms, pl_json **out);

/* Losses of every path that an evaluation holds at a time. */
enum { EVALUATION_LOSSES_BYTES = 64 << 20 };

/* run_plan.c: memory and disk, printed, refused when it cannot fit. */
pl_status run_plan(pl_run *r);
void run_say_peak(pl_run *r); /* beside the plan, when all other processes have ended */

/* run_gpu.c: what workers take of a GPU. `be` is an open cuda backend. */
void run_gpu_plan(const pl_run *r, pl_model_plan *out); /* of one worker's model */
/* With its process's context. */
uint64_t run_gpu_worker_bytes(const pl_run *r, const pl_backend *be);
/* How many of this machine's workers share its first GPU, which has the most of them.
 */
int run_gpu_sharers(const pl_run *r, const pl_backend *be);
/* ERR_CONFIG with the numbers and the remedy if they do not fit there. */
pl_status run_gpu_check(const pl_run *r, const pl_backend *be);

/* stages.c */
pl_status stage_data(pl_run *r);
pl_status stage_base(pl_run *r);
pl_status stage_route(pl_run *r);
pl_status stage_arms(pl_run *r);

/* progress.c: waits until the arms are finished, showing how far they are. */
pl_status progress_wait(pl_run *r, const char *const *arms, int n_arms);

/* arms.c: definitions of the arms of a run */
enum { ARMS_MAX = 1 + CONFIG_BASELINES };
/* mix first, then the wanted baselines. */
int run_arm_names(const pl_run *r, const char *names[ARMS_MAX]);
bool run_may_have_arm(const char *name); /* whatever its configuration */
/* Fills everything but shards and weights (allocated for the paths). */
pl_status run_arm(const pl_run *r, const char *name, pl_arm *out);

/* artifacts.c: what answers from a run need, also while its job runs */
pl_status store_open_run(const char *dir, pl_store **out);
/* The run's tokenizer, refused if it is not the one that its data were made with. */
pl_status run_read_tokenizer(const pl_run *r, pl_buf *bytes);
pl_status run_load_tokenizer(const pl_run *r, pl_tokenizer **out);
void run_answer_settings(const pl_run *r, pl_answer_settings *out);
/* To be closed (pl_mixture_close) as well where opening failed. */
pl_status mixture_open(const char *dir, pl_mixture *mix);

void say(const char *format, ...) PL_PRINTF(1, 2); /* a line to stdout, at once */
/* One line of JSON to stdout, at once; takes `json`. */
void say_json(pl_json *json);

#endif
