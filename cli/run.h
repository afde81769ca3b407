/* Private to cli: a run folder and the processes of its job.
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
#ifndef PL_CLI_RUN_H
#define PL_CLI_RUN_H
#include "cli/cli.h"
#include "workers/workers.h"

enum { RELAYS_MAX = 16 };

/* Of one process of each kind; the launcher is `pathloom train` itself. */
typedef struct run_memory {
    uint64_t worker, home, hub, launcher;
} run_memory;

typedef struct run {
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
    char relays_at[RELAYS_MAX][PL_ADDRESS_MAX];
    double started;
    run_memory planned,
        peak; /* peak: of processes that have ended, in bytes; 0: none */
    volatile sig_atomic_t *stop;
} run;

char *run_file(const run *r, const char *name, char out[PL_PATH_MAX]);

/* run.c: the folder: made or resumed, locked, its configuration compared. */
pl_status run_open(const cli_options *o, run *r);
/* Those that a job of this configuration starts on this machine. */
int run_local_workers(const config *c);
/* Keeps the configuration, which from then on is that of the run. */
pl_status run_save(const run *r);
void run_close(run *r);
/* ERR_CANCELLED once Ctrl+C was pressed. */
pl_status run_stopped(const run *r);
/* For eval and generate: the configuration of an existing run, nothing locked. */
pl_status run_look(const char *dir, run *r);

/* run_keys.c: RUN/keys */
bool run_has_keys(const char *dir);
/* Where there are none. ERR_NOPERM: one of those that are there was revoked. */
pl_status run_make_keys(const char *dir);
pl_status run_use_keys(const char *dir); /* this process is an administrator */
char *run_key_file(const char *dir, pl_key_role role, char out[PL_PATH_MAX]);
char *run_key_list(const char *dir, char out[PL_PATH_MAX]);

/* run_processes.c */
/* Where home i (from 0) of n writes its address: "proc/home.address" of a single one.
 */
void run_home_file(int i, int n, char out[64]);
/* What a process of the run is told to listen at, for what net.hub or net.home says. */
void run_listen_at(const char *dir, const char *asked, const char *name, bool encrypted,
                   char out[PL_ADDRESS_MAX]);
/* What would end the processes soon after their start: addresses, backend, store. */
pl_status run_check(run *r);
pl_status run_start(run *r);
/* The homes of a job that is stopped, with a client, and nothing else. */
pl_status run_start_homes(run *r);
/* A job that runs: their addresses, and a client; no launcher. */
pl_status run_find_homes(run *r);
/* Reaps and restarts processes; starts a home that `pathloom homes add` asked for. */
pl_status run_tend(run *r);
/* The hub hears of all homes that the job has now. */
pl_status run_tell_homes(run *r);
/* With `drain` the workers finish their tasks first; then hub and home end. */
void run_stop(run *r, bool drain);
/* For those who look at a job: connects to the hub of --run, or to --hub with --key. */
pl_status run_watch(run *r, const cli_options *o);
pl_status run_ask_hub(run *r, pl_json **out);
/* Where the hub of the job in this folder listens; ERR_NOT_FOUND if none is running. */
pl_status run_hub_address(const char *dir, char out[PL_ADDRESS_MAX]);
/* What a process of the run wrote into DIR/FILE, for which it is given `ms`. */
pl_status run_await_address(const char *dir, const char *file, int ms,
                            char out[PL_ADDRESS_MAX]);
pl_status run_hub_status(run *r, int timeout_ms, pl_json **out);

/* Losses of every path that an evaluation holds at a time. */
enum { EVALUATION_LOSSES_BYTES = 64 << 20 };

/* run_plan.c: memory and disk, printed, refused when it cannot fit. */
pl_status run_plan(run *r);
void run_say_peak(run *r); /* beside the plan, when all other processes have ended */

/* run_gpu.c: what workers take of a GPU. `be` is an open cuda backend. */
void run_gpu_plan(const run *r, pl_model_plan *out); /* of one worker's model */
/* With its process's context. */
uint64_t run_gpu_worker_bytes(const run *r, const pl_backend *be);
/* How many of this machine's workers share its first GPU, which has the most of them.
 */
int run_gpu_sharers(const run *r, const pl_backend *be);
/* ERR_CONFIG with the numbers and the remedy if they do not fit there. */
pl_status run_gpu_check(const run *r, const pl_backend *be);

/* stages.c */
pl_status stage_data(run *r);
pl_status stage_base(run *r);
pl_status stage_route(run *r);
pl_status stage_arms(run *r);

/* progress.c: waits until the arms are finished, showing how far they are. */
pl_status progress_wait(run *r, const char *const *arms, int n_arms);

/* arms.c: definitions of the arms of a run */
enum { ARMS_MAX = 1 + CONFIG_BASELINES };
/* mix first, then the wanted baselines. */
int run_arm_names(const run *r, const char *names[ARMS_MAX]);
bool run_may_have_arm(const char *name); /* whatever its configuration */
/* Fills everything but shards and weights (allocated for the paths). */
pl_status run_arm(const run *r, const char *name, pl_arm *out);

/* artifacts.c: reading what a run made, from its store */
pl_status store_open_run(const char *dir, pl_store **out);
pl_status store_arm(pl_store *store, const char *name, pl_arm *arm,
                    pl_topology **topology);
/* The run's tokenizer, refused if it is not the one that its data were made with. */
pl_status run_read_tokenizer(const run *r, pl_buf *bytes);
pl_status run_load_tokenizer(const run *r, pl_tokenizer **out);
/* What answers from a run need, also while its job runs. To be closed as well where
 * opening failed, and not without it. */
typedef struct mixture {
    run r;
    pl_store *store;
    pl_tokenizer *tokenizer;
    pl_arm arm;
    pl_topology *topology;
} mixture;
pl_status mixture_open(const char *dir, mixture *mix);
void mixture_close(mixture *mix);
/* Parameters of a path at a version (UINT64_MAX: the head of each module). */
pl_status store_path_params(pl_store *store, const pl_arm *arm, const pl_topology *t,
                            int path, uint64_t version, float *params);
/* Loads the newest ones into a model. */
PL_MUST_CHECK pl_status store_load_path(pl_store *store, const pl_arm *arm,
                                        const pl_topology *t, int path,
                                        pl_model *model);
/* As store_path_params, with a version for each slot, and which they were: versions
 * and modules [n_slots]. */
typedef struct path_module {
    char name[PL_MODULE_NAME_MAX];
    uint64_t number;
    pl_hash params;
} path_module;
pl_status store_path_modules(pl_store *store, const pl_arm *arm, const pl_topology *t,
                             int path, const uint64_t *versions, float *params,
                             path_module *modules);
/* "p01" or "1" -> 1. ERR_NOT_FOUND. */
pl_status find_path_name(const pl_topology *t, const char *name, int *path);
pl_status store_object_bytes(pl_store *store, const char *name, pl_buf *out);

void say(const char *format, ...) PL_PRINTF(1, 2); /* a line to stdout, at once */

#endif
