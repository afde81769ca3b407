/* The door of workers: the hub, which decides which worker trains which task, and the
 * processes that train.
 *
 * hub      leases tasks (arm, path, replica, phase) to workers. The hub keeps nothing
 * on disk: the homes know which phases are done, so a hub that starts again asks them
 * and continues.
 * worker   leases a task, fetches what it lacks by hash, trains tau inner steps,
 *          sends one update per module to that module's home, then the path's state.
 * launch   starts these as processes and keeps them alive.
 *
 * Read in this order: plan (which task is next: pure state, no sockets), hub, train
 * (the inner loop), worker, launch. */
#ifndef PL_WORKERS_WORKERS_H
#define PL_WORKERS_WORKERS_H
#include "modules/modules.h"
#include "codec/codec.h"
#include "outer/outer.h"
#include "net/net.h"
#include "workers/admission.h"
#include "workers/metrics.h"
#include <signal.h>
#ifdef __cplusplus
extern "C" {
#endif

/* ---- hub ---- */
/* Whether an idle worker may do a task that a slow worker has (hub_backup.c): never,
 * only if both have the same device, or always. */
typedef enum pl_backup { PL_BACKUP_OFF, PL_BACKUP_AUTO, PL_BACKUP_ANY } pl_backup;

typedef struct pl_hub_options {
    const char *bind;
    const char *const *homes; /* addresses of the homes, in placement order */
    int n_homes;
    /* a lease that is not renewed for this long is given to another worker */
    int ttl_ms;
    const char *ready_file; /* file that gets the bound address; "" for none */
    /* the list of keys in which invitations enrol new ones; NULL: none */
    const char *keys;
    pl_backup backup;
    /* audits: distance up to which results of different kinds of devices count as
     * equal; 0: only results of the same kind are compared */
    double audit_tolerance;
    volatile sig_atomic_t *stop;
} pl_hub_options;
PL_MUST_CHECK pl_status pl_hub_run(const pl_hub_options *options);

/* ---- worker ---- */
typedef struct pl_worker_options {
    const char *hub;
    const char *name;  /* name of the worker; it is part of every contribution */
    const char *cache; /* folder for data shards, shared by workers of a machine */
    pl_backend_options backend;
    /* recompute activations in the backward pass, which takes less memory */
    bool recompute;
    /* limit of the cache for modules and optimizer states in memory */
    uint64_t cache_bytes;
    int patience_ms; /* how long the hub or a home may be unreachable */
    /* relays that are asked instead of the homes that the hub names */
    const char *const *homes;
    int n_homes; /* number of relays: that of the homes, or 0 */
    /* address at which it offers updates to other workers; "": none */
    const char *offers;
    int grace_ms; /* time to end after `stop`; 0: no limit */
    /* 1: the worker finishes its tasks and returns; 2: gives them back and returns */
    volatile sig_atomic_t *stop;
} pl_worker_options;
PL_MUST_CHECK pl_status pl_worker_run(const pl_worker_options *options);

/* The number of bytes, at most `most`, that a worker's cache needs for an arm: the
 * modules and the state of one path. Moments that never leave the worker
 * (train.state=local) are kept in another cache, of at most `most` bytes. */
uint64_t pl_worker_cache_bytes(const pl_arm *arm, const pl_topology *topology,
                               uint64_t most);

/* Trains the task of a contribution to `module` again, with all earlier phases of its
 * path, from the data in the store. *update is the hash of the update that a worker
 * would have sent. The hash equals wanted->update if backend, threads and device are
 * those of the worker. ERR_NOT_FOUND: the method, another device, or missing data make
 * it impossible. */
PL_MUST_CHECK pl_status pl_task_retrain(pl_store *store, const pl_arm *arm,
                                        const pl_topology *topology, const char *module,
                                        const pl_contribution *wanted,
                                        const pl_backend_options *backend,
                                        pl_hash *update);

/* ---- launch: child processes of this program ---- */
enum { PL_CHILDREN_MAX = 256 };
typedef struct pl_launcher pl_launcher;

/* `program` is executed for every child; logs go to folder/NAME.log (appended).
 * Children die with this process (PR_SET_PDEATHSIG) and ignore the terminal's Ctrl+C.
 */
PL_MUST_CHECK pl_status pl_launcher_create(const char *program, const char *log_folder,
                                           pl_launcher **out);
/* Kills the children that still run, without waiting for them to finish. */
void pl_launcher_destroy(pl_launcher **launcher);
/* `argv` is NULL-terminated; argv[0] is replaced by `program`. With `ready_file` the
 * child counts as started when that file exists; its content is the child's address. On
 * a restart the child gets that address in the argument after "--listen". */
PL_MUST_CHECK pl_status pl_launcher_start(pl_launcher *launcher, const char *name,
                                          const char *const *argv,
                                          const char *ready_file);
/* Waits until `name` is ready and gives its address. ERR_TIMEOUT, or the child's own
 * error. */
PL_MUST_CHECK pl_status pl_launcher_address(pl_launcher *launcher, const char *name,
                                            int timeout_ms, char *address, size_t size);
/* Reaps children that died and starts them again; call it often. A child that ends by
 * itself with a sysexits code (an error of configuration, data or disk) is not
 * restarted: its error is returned. Any other child that died is started again after
 * growing delays; 8 crashes in a row are an error. */
PL_MUST_CHECK pl_status pl_launcher_tend(pl_launcher *launcher);
int pl_launcher_restarts(const pl_launcher *launcher);
/* Tells which child was started again last, and how it had ended: "worker-1 was killed
 * (signal 9)"; "" if none was. Borrowed until the next pl_launcher_tend. */
const char *pl_launcher_last_restart(const pl_launcher *launcher);
/* The largest memory of any running child whose name starts with `prefix`. */
uint64_t pl_launcher_peak_bytes(const pl_launcher *launcher, const char *prefix);
/* Sends SIGTERM to every child whose name starts with `prefix`, waits up to timeout_ms,
 * then sends SIGKILL. Returns how many had to be killed. */
int pl_launcher_stop(pl_launcher *launcher, const char *prefix, int timeout_ms);

#ifdef __cplusplus
}
#endif
#endif
