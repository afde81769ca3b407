/* A run folder, and what `pathloom train` does with it.
 *
 *   RUN/run.yaml      the configuration, all keys
 *   RUN/data/         tokenizer.model, train.tok, valid.tok, data.json
 *   RUN/store/        RocksDB; with several homes there is one in each home-N
 *   RUN/cache/        data shards by hash, shared by the workers
 *   RUN/log/          one log per process
 *   RUN/proc/         addresses of hub and homes while the job runs; proc/ipc, which
 *                     only its owner can enter, has the sockets of a job on one machine
 *   RUN/keys/         the keys that may connect, if other machines may
 *                     (docs/SECURITY.md)
 *   RUN/router.json   how documents were routed; RUN/router_map.json: a picture of it
 *   RUN/workers.json  how the workers spent their time since the last start
 *   RUN/report.json   the last evaluation */
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
    bool made;       /* this command made the folder */
    bool resumed;    /* training in this folder began before this command */
    bool took_saved; /* nothing was trained yet; the saved run.yaml is used */
    bool lengthened; /* this command appends to train.more of a run that has begun */
    int64_t phases_before; /* if so: phases of the mixture before this command */
    pl_topology *topology; /* topology of the mixture in its last chapter */
    pl_tokens *train, *valid;
    /* blob with the base model's moments; zero until this process has stored it */
    pl_hash moments;
    pl_prepare_result data;
    pl_launcher *launcher;
    pl_client *client; /* client of the homes */
    pl_socket *hub;
    char hub_address[PL_ADDRESS_MAX], homes_at[PL_HOMES_MAX][PL_ADDRESS_MAX];
    int n_homes, n_workers, n_relays;
    char device[96]; /* device of the job's own workers; "": the job has none */
    /* number of GPUs over which the job's own workers are spread; 0: they use
     * processors */
    int n_gpus;
    char relays_at[RELAYS_MAX][PL_ADDRESS_MAX];
    struct curves *curves; /* eval.tensorboard; NULL: off, or no job */
    double started;
    run_memory planned,
        /* peak: the largest memory in bytes of an ended process of each kind; 0: none
         * has ended */
        peak;
    volatile sig_atomic_t *stop;
} pl_run;

char *run_file(const pl_run *r, const char *name, char out[PL_PATH_MAX]);

/* What the command line asks for. */
typedef struct run_request {
    const char *file;        /* a configuration file, or NULL */
    const char *const *sets; /* pairs KEY=VALUE */
    int n_sets;
    const char *run; /* value of --run or --out */
    /* for a job on another machine: the hub's address, and the key file to connect
     * with */
    const char *hub, *key;
} run_request;

/* run.c: makes or resumes the folder, locks it, and compares its configuration with the
 * command's. */
pl_status run_open(const run_request *q, pl_run *r);
/* Makes the mixture's topology in this chapter the run's topology; in the last chapter
 * if there are fewer. */
PL_MUST_CHECK pl_status run_use_chapter(pl_run *r, int chapter);
/* In a run in which nothing was trained: replaces its configuration by the one that
 * these --set pairs give. */
pl_status run_lay(pl_run *r, const char *const *sets, int n_sets);
/* Number of workers that a job with this configuration starts on this machine, which
 * has n_gpus GPUs for training. */
int run_local_workers(const config *c, int n_gpus);
/* The backend with which this command itself computes features, evaluation and samples:
 * the workers' backend; but if the workers need a GPU and run elsewhere, what this
 * machine has. */
pl_backend_options run_own_backend(const pl_run *r);
/* Saves the configuration as run.yaml of the run, which later commands use. */
pl_status run_save(const pl_run *r);
void run_close(pl_run *r);
/* ERR_CANCELLED if Ctrl+C was pressed. */
pl_status run_stopped(const pl_run *r);
/* For eval and generate: reads the configuration of an existing run without a lock. */
pl_status run_look(const char *dir, pl_run *r);

/* run_keys.c: RUN/keys */
bool run_has_keys(const char *dir);
/* Makes the keys if there are none. ERR_NOPERM: one of the existing keys was
 * revoked. */
pl_status run_make_keys(const char *dir);
/* From now on this process uses the administrator's key. */
pl_status run_use_keys(const char *dir);
char *run_key_file(const char *dir, pl_key_role role, char out[PL_PATH_MAX]);
char *run_key_list(const char *dir, char out[PL_PATH_MAX]);

/* run_processes.c */
/* The file with the settings for the processes of a running job: RUN/proc/job.yaml. */
char *run_job_file(const char *dir, char out[PL_PATH_MAX]);
int run_count_relays(const config *c);
/* Number of the job's own workers that connect to relay number `relay` (from 0). */
int run_workers_behind(const config *c, int relay);
/* The name of the file in which home i (from 0) of n homes writes its address:
 * "proc/home.address" if there is only one. */
void run_home_file(int i, int n, char out[64]);
/* The address at which a process of the run must listen, as net.hub or net.home
 * says. */
void run_listen_at(const char *dir, const char *asked, const char *name, bool encrypted,
                   char out[PL_ADDRESS_MAX]);
/* Opens the backend of the job's own workers once, and sets device, n_gpus and
 * n_workers. ERR_CONFIG if the workers do not fit on a GPU. */
pl_status run_find_device(pl_run *r);
/* Checks addresses and the store, so that the processes do not fail soon after their
 * start. */
pl_status run_check(pl_run *r);
pl_status run_start(pl_run *r);
/* Starts only the homes of a stopped job, and makes a client of them. */
pl_status run_start_homes(pl_run *r);
/* For a process that is not the launcher: finds the addresses of a running job's homes
 * and makes a client. */
pl_status run_find_homes(pl_run *r);
/* Collects processes that ended, and restarts them; starts a home that `pathloom homes
 * add` asked for. */
pl_status run_tend(pl_run *r);
/* Tells the hub the addresses of all homes that the job has now. */
pl_status run_tell_homes(pl_run *r);
/* Ends the workers, which with `drain` finish their tasks first; then the hub and the
 * homes. */
void run_stop(pl_run *r, bool drain);
/* For commands that watch a job: connects to the hub of --run, or to --hub with --key.
 */
pl_status run_watch(pl_run *r, const run_request *q);
pl_status run_ask_hub(pl_run *r, pl_json **out);
/* Gives the address of the hub of the job in this folder; ERR_NOT_FOUND if no job is
 * running. */
pl_status run_hub_address(const char *dir, char out[PL_ADDRESS_MAX]);
/* Reads the address that a process of the run wrote into DIR/FILE; waits up to `ms` for
 * it. */
pl_status run_await_address(const char *dir, const char *file, int ms,
                            char out[PL_ADDRESS_MAX]);
pl_status run_hub_status(pl_run *r, int timeout_ms, pl_json **out);

/* The most memory at a time for the losses of all paths in an evaluation. */
enum { EVALUATION_LOSSES_BYTES = 64 << 20 };

/* run_plan.c: plans memory and disk, prints the plan, and refuses what cannot fit. */
pl_status run_plan(pl_run *r);
/* The most bytes that all homes store for the run if nothing is collected. */
uint64_t run_stored_bytes(const pl_run *r);
/* Prints the highest memory use of each kind of process, when all others have ended. */
void run_say_peak(pl_run *r);

/* run_gpu.c: memory that workers take on a GPU. `be` is an open cuda backend. */
void run_gpu_plan(const pl_run *r, pl_model_plan *out); /* for one worker's model */
/* Memory of one worker, including the CUDA context of its process. */
uint64_t run_gpu_worker_bytes(const pl_run *r, const pl_backend *be);
/* Number of this machine's workers that share its first GPU; no other GPU has more. */
int run_gpu_sharers(const pl_run *r, const pl_backend *be);
/* ERR_CONFIG with the numbers and the remedy if the workers do not fit on the GPU. */
pl_status run_gpu_check(const pl_run *r, const pl_backend *be);

/* stages.c */
pl_status stage_data(pl_run *r);
pl_status stage_base(pl_run *r);
pl_status stage_route(pl_run *r);
pl_status stage_arms(pl_run *r);

/* The short name of a path: "p01" for "p01.r0" if no path of the arm has several
 * replicas; "" if the arm has only one path. */
void progress_path_name(const pl_json *paths, size_t i, char out[PL_NAME_MAX]);
/* The size of a home's store, and how much of its quota it has used: "2.1 GiB (1.9 GiB
 * of the quota, 2.0 GiB)". */
char *progress_store_size(const pl_json *home, char out[80]);
/* progress.c: shows the progress of all arms until the first n_needed of them are
 * finished. */
pl_status progress_wait(pl_run *r, const char *const *arms, int n_arms, int n_needed);

/* arms.c: definitions of the arms of a run */
enum { ARMS_MAX = 1 + CONFIG_BASELINES };
/* The names of the run's arms: mix first, then the baselines that the configuration
 * has. */
int run_arm_names(const pl_run *r, const char *names[ARMS_MAX]);
/* Phases of all paths and replicas of the mixture, without the phases of train.more. */
int64_t run_path_phases(const pl_run *r);
/* Whether this chapter of the mixture is the last one; true for all other arms. */
bool run_is_last_chapter(const pl_run *r, const char *arm);
bool run_may_have_arm(const char *name); /* true if any configuration has such an arm */
/* Fills in the definition of an arm, except shards and weights (allocated for the
 * paths). */
pl_status run_arm(const pl_run *r, const char *name, pl_arm *out);

/* artifacts.c: parts of a run for commands that answer prompts; they work also while
 * its job runs */
pl_status store_open_run(const char *dir, pl_store **out);
/* Appends the hashes of the documents in a file or folder. If the corpus was a single
 * file, it was cut into documents (data.cut); a file of a folder was not. So both forms
 * of the text are added. */
PL_MUST_CHECK pl_status run_document_hashes(const pl_run *r, const char *path,
                                            pl_buf *hashes);
/* Reads the run's tokenizer. Fails if it is not the tokenizer that made the run's
 * data. */
pl_status run_read_tokenizer(const pl_run *r, pl_buf *bytes);
pl_status run_load_tokenizer(const pl_run *r, pl_tokenizer **out);
void run_answer_settings(const pl_run *r, pl_answer_settings *out);
/* Reads a tag of the mixture, which the caller clears. ERR_USAGE: the tag belongs to
 * another arm. */
PL_MUST_CHECK pl_status mixture_tag(pl_store *store, const char *name,
                                    pl_snapshot *out);
/* Which versions and paths of a mixture answer. */
typedef struct mixture_wish {
    const char *at;      /* a tag of the mixture; NULL: the newest versions */
    const char *without; /* modules whose paths are closed, "L1.E3,B0.E1"; NULL: none */
} mixture_wish;
/* Opens the mixture of a run. Call pl_mixture_close even if this failed. */
pl_status mixture_open(const char *dir, const mixture_wish *wish, pl_mixture *mix);

/* run_homes.c: adds and removes homes */
/* Takes the lock of the one process that may move names of this run. ERR_BUSY. */
pl_status run_lock_movers(const pl_run *r, int *lock);
/* Makes the store part of a new home in a run with n homes, and waits until the home
 * runs. */
pl_status run_begin_home(pl_run *r, int n);
/* Removes the last home of a stopped job; `home` counts from 0. */
pl_status run_drop_home(const char *store, int home);
/* Reads the present weights of the homes, or those of a change that was interrupted. A
 * home that is in no table yet has weight 0. */
pl_status run_home_weights(const pl_run *r, pl_places *out);
/* Reads the weights of a stopped job's n homes from the store in `folder`. */
pl_status run_stored_weights(const char *folder, int n, pl_places *out,
                             bool *unfinished);

/* store_homes.c: a store that the homes of a job may have locked. `folder` is the
 * store's. */
/* Reads from home 1 the table by which homes place new names; if its n is 0, the store
 * is in one piece. */
pl_status run_placement(const char *folder, pl_places *out);
/* ERR_BUSY while a forgetting that was decided has not exchanged the store yet
 * (job/forget.h), because what is written to the old store would be lost. */
pl_status run_check_exchange(const char *folder);
/* Stores an object, or drops it if `bytes` is empty (a running home keeps an empty
 * object instead). If a home has locked the store, that home does this; else this
 * process does it. `store` is a reader of the store. */
pl_status run_keep_object(const char *folder, pl_store *store, const char *object,
                          const pl_buf *bytes);
/* Opens the store for reading. Opens it again if a home was added meanwhile, because an
 * open reader does not see that home's part. */
pl_status run_see_all_parts(const char *folder, pl_store **store);
/* Makes the reader show the state of all homes at one moment; opens the store again if
 * a home was added. *held_ms is the time for which the homes of a running job stopped
 * writing for this; -1 if they did not. */
pl_status run_look_at_one_moment(const char *folder, pl_store **store,
                                 int64_t *held_ms);

/* Prints a line to stdout at once, without buffering. */
void say(const char *format, ...) PL_PRINTF(1, 2);
/* Prints one line of JSON to stdout, at once; takes `json`. */
void say_json(pl_json *json);

#endif
