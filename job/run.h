/* A run folder, and the functions with which `pathloom train` uses it.
 *
 *   RUN/run.yaml      the configuration, all keys
 *   RUN/data/         tokenizer.model, train.tok, valid.tok, data.json
 *   RUN/store/        a RocksDB database; with several homes, one in each home-N
 *   RUN/cache/        data shards by hash, shared by the workers
 *   RUN/log/          one log per process
 *   RUN/proc/         addresses of hub and homes while the job runs; proc/ipc, which
 *                     only its owner can enter, has the sockets of a job on one machine
 *   RUN/keys/         the keys that may connect, if other machines may connect
 *                     (docs/SECURITY.md)
 *   RUN/router.json   how documents were routed; router_map.json shows it as a picture
 *   RUN/workers.json  how the workers spent their time since the last start
 *   RUN/report.json   the last evaluation */
#pragma once
#include "home/home.h"
#include "config/config.h"
#include "serve/serve.h"
#include "workers/workers.h"

enum { RELAYS_MAX = 16 };

/* The memory of one process of each kind; the launcher is `pathloom train` itself. */
typedef struct run_memory {
    uint64_t worker, home, hub, launcher;
} run_memory;

typedef struct pl_run {
    config cfg;
    pl_hash hash;
    const pl_gone *gone; /* what run.yaml has that this version does not, or NULL */
    char dir[PL_PATH_MAX];
    int lock;
    bool made;       /* this command made the folder */
    bool resumed;    /* training in this folder began before this command */
    bool took_saved; /* training has not begun, and the saved run.yaml is used */
    bool lengthened; /* this command appends to train.more of a run that has begun */
    int64_t phases_before; /* phases of the mixture before it was lengthened */
    pl_topology *topology; /* topology of the mixture in its last chapter */
    pl_tokens *train, *valid;
    /* hash of the blob with the base model's moments; zero until this process has
     * stored it */
    pl_hash moments;
    pl_prepare_result data;
    pl_launcher *launcher;
    pl_client *client; /* client of the homes */
    pl_socket *hub;
    char hub_address[PL_ADDRESS_MAX], homes_at[PL_HOMES_MAX][PL_ADDRESS_MAX];
    int n_homes, n_workers, n_relays;
    /* pl_backend_kind of the job's own workers; "": there are none */
    char device[PL_DEVICE_MAX];
    /* number of GPUs over which the job's own workers are spread; 0: they use
     * processors */
    int n_gpus;
    char relays_at[RELAYS_MAX][PL_ADDRESS_MAX];
    struct curves *curves; /* NULL: eval.tensorboard is off, or no job runs */
    /* what `train` has said about workers, hub and homes; NULL: nothing yet */
    struct worker_news *news;
    double started;
    run_memory planned,
        /* peak: for each kind of process, the largest memory in bytes of a process that
         * has ended; 0: none has ended */
        peak;
    volatile sig_atomic_t *stop;
} pl_run;

char *run_file(const pl_run *r, const char *name, char out[PL_PATH_MAX]);
/* Writes a JSON value, and `end`, as a file of the run. Takes ownership of `json`. */
pl_status run_write_json(const pl_run *r, const char *name, pl_json *json, int indent,
                         const char *end);

/* The run, the settings and the hub that a command line names. */
typedef struct run_request {
    const char *file;        /* a configuration file, or NULL */
    const char *const *sets; /* pairs KEY=VALUE */
    int n_sets;
    const char *run; /* value of --run or --out */
    /* for a job on another machine: the hub's address, and the file with the key to
     * connect */
    const char *hub, *key;
} run_request;

/* run.c: makes or resumes the folder, locks it, and compares its configuration with the
 * command's. */
pl_status run_open(const run_request *q, pl_run *r);
/* Sets r->topology to the mixture's topology in this chapter, or in the last chapter if
 * there are fewer chapters. */
pl_status run_use_chapter(pl_run *r, int chapter);
/* In a run in which training has not begun, builds the configuration again, from these
 * --set pairs alone. */
pl_status run_lay(pl_run *r, const char *const *sets, int n_sets);
/* Returns the number of workers that a job with this configuration starts on this
 * machine, which has n_gpus GPUs for training. */
int run_local_workers(const config *c, int n_gpus);
/* Returns the backend with which this command computes features, evaluation and
 * samples. This is the workers' backend, except if the workers need a GPU and run on
 * other machines: then it is a backend that this machine has. */
pl_backend_options run_own_backend(const pl_run *r);
/* Saves the configuration as run.yaml of the run, which later commands use. */
pl_status run_save(const pl_run *r);
/* Reads the saved configuration of a run that is to be continued; fails as
 * run_check_gone does. */
pl_status run_load_own(pl_run *r, config *out);
void run_close(pl_run *r);
/* Returns ERR_CANCELLED if a signal (such as Ctrl+C) has asked the command to stop. */
pl_status run_stopped(const pl_run *r);
/* ERR_NOT_FOUND, with the remedy, if the folder has no run.yaml. */
pl_status run_exists(const char *dir);
/* For eval and generate: reads the configuration of an existing run without a lock.
 * Also opens a run that cannot be continued. */
pl_status run_look(const char *dir, pl_run *r);
/* Refuses to continue or to change a run whose configuration this version does not
 * have. ERR_CONFIG. */
pl_status run_check_gone(const pl_run *r);

/* run_keys.c: RUN/keys */
bool run_has_keys(const char *dir);
/* Makes the keys if there are none. ERR_NOPERM: one of the job's own keys was revoked
 * or has expired. */
pl_status run_make_keys(const char *dir);
/* From now on this process uses the administrator's key, if the run has keys. */
pl_status run_use_keys(const char *dir);
char *run_key_file(const char *dir, pl_key_role role, char out[PL_PATH_MAX]);
char *run_key_list(const char *dir, char out[PL_PATH_MAX]);

/* run_processes.c */
/* Returns the name of the file with the settings for the processes of a running job:
 * RUN/proc/job.yaml. */
char *run_job_file(const char *dir, char out[PL_PATH_MAX]);
int run_count_relays(const config *c);
/* Returns how many of the job's own workers connect to relay number `relay` (from
 * 0). */
int run_workers_behind(const config *c, int relay);
/* Finds the name of the file to which home i (from 0) of n homes writes its address:
 * "proc/home.address" if there is only one home. */
char *run_home_file(int i, int n, char out[64]);
/* Finds the address at which the process `name` of the run must listen. `asked` is the
 * value of net.hub or net.home. */
void run_listen_at(const char *dir, const char *asked, const char *name, bool encrypted,
                   char out[PL_ADDRESS_MAX]);
/* Opens the backend of the job's own workers once, and sets device, n_gpus and
 * n_workers. ERR_CONFIG if the workers do not fit on a GPU. */
pl_status run_find_device(pl_run *r);
/* Checks addresses and the store, so that the processes do not fail soon after their
 * start. */
pl_status run_check(pl_run *r);
/* Reports that one of several homes (from 0) has no store. */
pl_status run_home_is_missing(const char *dir, const char *store, int home);
pl_status run_start(pl_run *r);
/* Ends first the workers, then the hub and the homes. With ERR_CANCELLED, the workers
 * finish their tasks first. Processes that a user has started (net.attach) end only if
 * the job is finished (PL_OK). */
void run_stop(pl_run *r, pl_status how);
/* For commands that watch a job: connects to the hub of --run, or to --hub with --key.
 */
pl_status run_watch(pl_run *r, const run_request *q);
pl_status run_ask_hub(pl_run *r, pl_json **out);
/* Gives the address of the hub of the job in this folder; ERR_NOT_FOUND if no job is
 * running. */
pl_status run_hub_address(const char *dir, char out[PL_ADDRESS_MAX]);
/* Waits until a process that this command has started is ready, for at most most_ms (0:
 * as long as it lives). It may take minutes: a home repairs its store first, or waits
 * for its storage engine. */
pl_status run_await_child(const pl_run *r, pl_launcher *launcher, const char *name,
                          int most_ms, char out[PL_ADDRESS_MAX]);
/* Asks a process a question without fields, with the key pair `own` or, if it is NULL,
 * with this process's key. OK: it has answered. */
pl_status run_ask_once(const char *address, const pl_keypair *own, uint16_t type,
                       int longest_ms);
/* Reads the address that a process of the run wrote into DIR/FILE; waits up to `ms` for
 * it. */
pl_status run_await_address(const char *dir, const char *file, int ms,
                            char out[PL_ADDRESS_MAX]);
/* Appends the lines of the hub's log from *offset on to `out`, at most 256 KiB, and
 * moves *offset behind them. *more: whether the log has more lines. *anew: the log was
 * begun again, and `out` has its first lines. */
pl_status run_hub_log(pl_run *r, uint64_t *offset, pl_buf *out, bool *more, bool *anew);
pl_status run_hub_status(pl_run *r, int timeout_ms, pl_json **out);

/* Largest memory in which an evaluation holds the losses of all paths at once. */
enum { EVALUATION_LOSSES_BYTES = 64 << 20 };

/* run_plan.c: plans memory and disk, prints the plan, and refuses what cannot fit. */
pl_status run_plan(pl_run *r);
/* Reads the corpus, and prints its documents and bytes, for a plan without training. */
pl_status run_plan_data(pl_run *r);
/* Returns an upper limit of the bytes that all homes store for the run without garbage
 * collection. */
uint64_t run_stored_bytes(const pl_run *r);
/* Finds the bytes of the largest upload to a home. Only one upload must fit into
 * store.staging: if there is no room for the next one, a worker first submits those
 * that are complete (net/client_task.c). */
pl_status run_largest_upload(const pl_run *r, uint64_t *out);
/* Prints the highest memory use of each kind of process. Call it when all other
 * processes have ended. */
void run_say_peak(pl_run *r);

/* run_gpu.c: the memory that workers take on a GPU. `be` is an open cuda backend. */
void run_gpu_plan(const pl_run *r, pl_model_plan *out); /* for one worker's model */
/* Returns the memory of one worker, including the CUDA context of its process. */
uint64_t run_gpu_worker_bytes(const pl_run *r, const pl_backend *be);
/* Returns how many of this machine's workers share its first GPU. No other GPU has more
 * workers. */
int run_gpu_sharers(const pl_run *r, const pl_backend *be);
/* Checks that the workers and the launcher fit on the GPU. The sentence of ERR_CONFIG
 * has the numbers and the remedy. */
pl_status run_gpu_check(const pl_run *r, const pl_backend *be);

/* stages.c */
pl_status stage_data(pl_run *r);
pl_status stage_base(pl_run *r);
pl_status stage_route(pl_run *r);
pl_status stage_arms(pl_run *r);

/* Finds the short name of a path: "p01" for "p01.r0" if no path of the arm has several
 * replicas; "" if the arm has only one path. */
void progress_path_name(const pl_json *paths, size_t i, char out[PL_NAME_MAX]);
/* Writes the size of a home's store and, if the home has a quota, how much of it is
 * used: "2.1 GiB (1.9 GiB of the quota, 2.0 GiB)" for 2.1 GiB on disk, of which 1.9 GiB
 * count, and a quota of 2.0 GiB. */
char *progress_store_size(const pl_json *home, char out[80]);
/* Says for which worker the task of an audit waits; `waiting` is an element of the
 * hub's audits_waiting. */
enum { PROGRESS_WAITING_MAX = 400 };
char *progress_waiting(const pl_json *waiting, char out[PROGRESS_WAITING_MAX]);
/* progress.c: shows the progress of all arms until the first n_needed arms are
 * finished. */
pl_status progress_wait(pl_run *r, const char *const *arms, int n_arms, int n_needed);

/* arms.c: definitions of the arms of a run */
enum { ARMS_MAX = 1 + CONFIG_BASELINES };
/* Lists the names of the run's arms: first mix, then the baselines of the
 * configuration. Returns their number. */
int run_arm_names(const pl_run *r, const char *names[ARMS_MAX]);
/* Returns the sum of the phases of all paths and replicas of the mixture, without the
 * phases of train.more. */
int64_t run_path_phases(const pl_run *r);
/* Whether this chapter of the mixture is the last one; true for all other arms. */
bool run_is_last_chapter(const pl_run *r, const char *arm);
bool run_may_have_arm(const char *name); /* true if any configuration has such an arm */
/* Fills in the definition of an arm. The lists of shards and weights are allocated, but
 * not filled in. */
pl_status run_arm(const pl_run *r, const char *name, pl_arm *out);

/* artifacts.c: opens the parts of a run that commands need to answer prompts. These
 * functions also work while the run's job runs. */
pl_status store_open_run(const char *dir, pl_store **out);
/* Whether all arms of the run have done their last phase. *ended is false after a
 * failure. */
pl_status run_has_ended(pl_store *store, bool *ended);
/* Returns how the run reads documents; with `cut`, a single text file is cut. */
pl_reading run_reading(const pl_run *r, bool cut);
/* Appends the hashes of the documents in a file or folder. A corpus of a single file
 * was cut into documents (data.cut); a file in a folder was not. So the hashes of the
 * cut text and of the whole text are both appended. */
pl_status run_document_hashes(const pl_run *r, const char *path, pl_buf *hashes);
/* Reads the run's tokenizer. Fails if it is not the tokenizer that made the run's
 * data. */
pl_status run_read_tokenizer(const pl_run *r, pl_buf *bytes);
pl_status run_load_tokenizer(const pl_run *r, pl_tokenizer **out);
void run_answer_settings(const pl_run *r, pl_answer_settings *out);
/* Reads a tag of the mixture. The caller clears *out. ERR_USAGE: the tag belongs to
 * another arm. */
pl_status mixture_tag(pl_store *store, const char *name, pl_snapshot *out);
/* Names the versions and the paths of a mixture that answer. */
typedef struct mixture_wish {
    const char *at;      /* a tag of the mixture; NULL: the newest versions */
    const char *without; /* modules whose paths are closed, "L1.E3,B0.E1"; NULL: none */
} mixture_wish;
/* Opens the mixture of a run. Call pl_mixture_close even if this failed. */
pl_status mixture_open(const char *dir, const mixture_wish *wish, pl_mixture *mix);
/* Checks that mixture_open would open the arm, and the versions of the tag, that `mix`
 * has; the sentence of ERR_BUSY says what has changed. `wish` is a mixture_wish, so
 * that a server can call this function (pl_server_options). */
pl_status mixture_check_newest(const void *wish, const pl_mixture *mix);

/* run_homes.c: changes the number of homes */
/* Gives a stopped run n homes: copies its store, and then replaces the store by the
 * copy. The caller has locked the run. ERR_BUSY: another process has locked the store.
 * After an interruption, call the function again. */
pl_status run_set_homes(pl_run *r, int n, pl_divide_report *report);
/* Removes what an interrupted run_set_homes has left. The caller has locked the run. */
pl_status run_clear_homes(const char *dir);

/* store_homes.c: functions for a store that the homes of a job may have locked.
 * `folder` is the folder of the store. */
/* Locks all homes of the store, so that no process can write to it; does nothing if the
 * folder does not exist. ERR_BUSY: a process writes to it. Call run_unlock_store also
 * after an error. */
pl_status run_lock_store(const char *folder, int locks[PL_PARTS_MAX]);
void run_unlock_store(int locks[PL_PARTS_MAX]);
/* ERR_BUSY if `pathloom forget` has decided to replace the store but has not done so
 * yet (job/forget.h): data that a command writes to the old store would be lost. */
pl_status run_check_exchange(const char *folder);
/* Stores a tag as the object "tag/NAME", or drops it if `bytes` is empty (a running
 * home keeps an empty object instead). If a home has locked the store, that home stores
 * or drops the tag; otherwise this process does it. `store` is a reader of the store.
 * ERR_NOT_FOUND: garbage collection removed the data of a version that the tag names.
 */
pl_status run_keep_tag(const char *folder, pl_store *store, const char *object,
                       const pl_buf *bytes);
/* Opens the store for reading. Opens it again if the number of homes has changed. */
pl_status run_see_all_parts(const char *folder, pl_store **store);
/* Makes the reader show the state of all homes at one moment; opens the store again if
 * the number of homes has changed. *held_ms is the time for which the homes of a
 * running job stopped writing meanwhile; -1 if they did not stop. */
pl_status run_look_at_one_moment(const char *folder, pl_store **store,
                                 int64_t *held_ms);

/* run_copy.c: copies configuration, keys and prepared text of the run `from` into the
 * folder `to`, with their modes. */
pl_status run_copy_files(const char *from, const char *to);

/* run_kept.c: what the restore of a store must not undo */
typedef struct run_kept_ref {
    char ref[2 * PL_MODULE_NAME_MAX];
    char target[PL_FENCED_TEXT_MAX + PL_PUBKEY_TEXT];
} run_kept_ref;
typedef struct run_kept {
    const char *dir;    /* the run, if it has a list of keys; NULL: the store alone */
    run_kept_ref *refs; /* [n] */
    size_t n;
    int64_t hub_epoch; /* the highest one of all homes */
} run_kept;
/* Reads what must stay from the store that the backup will replace, and revokes the
 * keys of fenced workers in the run's list. A folder without a store has nothing. The
 * caller frees `refs`, even after an error. */
pl_status run_keep(const char *folder, pl_store *backup, run_kept *out);
/* Writes into all homes of the restored store what they lack of it, and revokes the
 * keys again, because the list may have been replaced, too. */
pl_status run_put_back(const char *folder, run_kept *kept);
/* Does the rest of this for a restore of the run's store that was interrupted. */
pl_status run_put_back_left(const char *dir, const char *folder);

/* Prints a line to stdout at once, without buffering. */
void say(const char *format, ...) PL_PRINTF(1, 2);
/* Prints one line of JSON to stdout at once, and takes ownership of `json`. */
void say_json(pl_json *json);
