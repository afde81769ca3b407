/* The public header of workers: the hub, which decides which worker trains which task,
 * and the workers, which train.
 *
 * hub      leases tasks (arm, path, replica, phase) to workers. The hub keeps nothing
 *          on disk: the homes know which phases are done, so a hub that restarts asks
 *          the homes and continues.
 * worker   leases a task, fetches by hash the data that it lacks, trains tau inner
 *          steps, sends one update per module to that module's home, then the path's
 *          state.
 * launch   starts hubs, homes and workers as child processes, and restarts them.
 *
 * Read in this order: plan (which task is next; it uses no sockets), hub, train (inner
 * steps), worker, launch. */
#pragma once
#include "modules/modules.h"
#include "codec/codec.h"
#include "outer/outer.h"
#include "net/net.h"
#include "workers/admission.h"
#include "workers/metrics.h"
#include <signal.h>

/* Whether an error says something about the machine of a worker (its disk, memory,
 * device, limits or rights) and nothing about the task that the worker could not do. */
static inline bool pl_is_machine_fault(pl_status why)
{
    return why == PL_ERR_NOSPACE || why == PL_ERR_NOMEM || why == PL_ERR_DEVICE ||
           why == PL_ERR_IO || why == PL_ERR_OS || why == PL_ERR_FILES ||
           why == PL_ERR_NOPERM || why == PL_ERR_UNSUPPORTED;
}

/* Whether a worker that failed in this way did not reach a home. Only the hub knows
 * whether the home is away, or this is a fault of the worker's machine. */
static inline bool pl_is_unreached(pl_status why)
{
    return why == PL_ERR_NET || why == PL_ERR_TIMEOUT;
}

/* ---- hub ---- */
/* Whether an idle worker may also do a task that a slow worker has (hub_backup.c):
 * never, only if both have the same kind of device, or with any device. */
typedef enum pl_backup { PL_BACKUP_OFF, PL_BACKUP_AUTO, PL_BACKUP_ANY } pl_backup;

typedef struct pl_hub_options {
    const char *bind;
    const char *const *homes; /* addresses of the homes 1, 2, ... */
    int n_homes;
    /* if a lease is not renewed for this long, it ends, and another worker may get the
     * task */
    int ttl_ms;
    /* the hub writes its bound address to this file; "": no file */
    const char *ready_file;
    /* file with the list of keys, to which the hub adds keys that come with an
     * invitation; NULL: no list */
    const char *keys;
    pl_backup backup;
    bool audits; /* whether homes draw tasks for audits (fleet.audit) */
    /* kinds of devices that need not be audited (fleet.devices); NULL: none */
    const char *devices;
    volatile sig_atomic_t *stop;
} pl_hub_options;
pl_status pl_hub_run(const pl_hub_options *options);

/* ---- worker ---- */
typedef struct pl_worker_options {
    const char *hub;
    const char *name;  /* name of the worker; it is part of every contribution */
    const char *cache; /* folder for data shards; the workers of a machine share it */
    pl_backend_options backend;
    /* whether to compute activations again in the backward pass, which needs less
     * memory */
    bool recompute;
    /* limit of the cache for modules and optimizer states in memory */
    uint64_t cache_bytes;
    /* how long the hub may be unreachable before the worker ends; for data from a home
     * it waits at most a minute, or as long as the fetch has worked */
    int patience_ms;
    /* addresses of relays that the worker uses instead of the homes that the hub
     * names */
    const char *const *homes;
    int n_homes; /* number of relays: 0, or the same as the number of homes */
    /* whether the worker exchanges large blobs with S3 itself (net/client.h) */
    pl_direct direct;
    /* address at which the worker offers updates to other workers; "": no offers */
    const char *offers;
    int grace_ms; /* time that the worker has to finish after `stop`; 0: no limit */
    /* 1: the worker finishes its tasks and returns; 2: gives them back and returns */
    volatile sig_atomic_t *stop;
} pl_worker_options;
pl_status pl_worker_run(const pl_worker_options *options);

/* Returns the number of bytes that a worker's cache needs for the modules and the state
 * of one path of the arm, but at most `most`. If versions are sent as changes
 * (codec.down), it needs the modules of all paths. This does not include moments that
 * never leave the worker (train.state=local), which are in a second cache. */
uint64_t pl_worker_cache_bytes(const pl_arm *arm, const pl_topology *topology,
                               uint64_t most);

/* Trains the task that made the contribution `wanted` to `module` again, from the data
 * in the store. To do this, also trains all earlier phases of its path. *update gets
 * the hash of the resulting update. The hash equals wanted->update if the worker was
 * honest and backend, number of threads and device are the same as those of the worker.
 * ERR_NOT_FOUND: the task cannot be trained again, because of the method, a different
 * device, or missing data. */
pl_status pl_task_retrain(pl_store *store, const pl_arm *arm,
                          const pl_topology *topology, const char *module,
                          const pl_contribution *wanted,
                          const pl_backend_options *backend, pl_hash *update);

/* ---- launch: child processes of this program ---- */
enum { PL_CHILDREN_MAX = 256 };
typedef struct pl_launcher pl_launcher;
/* Environment variable of the children: the process id of their launcher. */
#define PL_LAUNCHER_VARIABLE "PATHLOOM_LAUNCHER"

/* Every child executes `program`, and its output is appended to log_folder/NAME.log.
 * Children die when this process dies (PR_SET_PDEATHSIG), and ignore Ctrl+C in the
 * terminal. */
pl_status pl_launcher_create(const char *program, const char *log_folder,
                             pl_launcher **out);
/* Kills the children that still run, without waiting for them to finish. */
void pl_launcher_destroy(pl_launcher **launcher);
/* Starts a child: executes `program`, even if argv[0] names another program. `argv` is
 * NULL-terminated and copied. If `ready_file` is given, the child is ready when that
 * file exists; the file has the child's address. If the argument after "--listen" ends
 * with "*" (any port or path), a restarted child gets this address instead. */
pl_status pl_launcher_start(pl_launcher *launcher, const char *name,
                            const char *const *argv, const char *ready_file);
/* If the child `name`, which has a ready_file, is ready, returns true and writes its
 * address to `address`. */
bool pl_launcher_address(pl_launcher *launcher, const char *name, char *address,
                         size_t size);
/* Reaps children that died and starts them again; call it often. If a child ends by
 * itself with a code of sysexits.h except 75 (an error of configuration, data or disk),
 * its error is returned. But if the child is a worker that the hub has fenced and
 * another worker runs, the job goes on without this worker. Any other child that died
 * is started again, after a delay that grows with each crash in a row; so is a worker
 * that ended because of a fault of this machine (pl_is_machine_fault). 8 crashes in a
 * row are an error, and so are 200 ends in a row by SIGKILL, by SIGTERM or with code 0.
 * But if other workers can do the work, a worker is then started once per minute. */
pl_status pl_launcher_tend(pl_launcher *launcher);
/* Tells the launcher that workers of other machines may join, so that the job can go on
 * without the workers that this launcher has started. */
void pl_launcher_expect_others(pl_launcher *launcher);
int pl_launcher_restarts(const pl_launcher *launcher);
/* Returns which child was started again last, and how it had ended, for example
 * "worker-1 was killed (signal 9)". Returns "" if no child was started again. The text
 * is valid until the next pl_launcher_tend. */
const char *pl_launcher_last_restart(const pl_launcher *launcher);
/* Returns the largest peak memory, in bytes, of any running child whose name starts
 * with `prefix`. */
uint64_t pl_launcher_peak_bytes(const pl_launcher *launcher, const char *prefix);
/* Sends SIGTERM to every child whose name starts with `prefix`, and waits up to
 * timeout_ms. Returns how many still run. */
int pl_launcher_end(pl_launcher *launcher, const char *prefix, int timeout_ms);
/* Does the same, and then sends SIGKILL. Returns how many children did not end in time
 * and were killed. */
int pl_launcher_stop(pl_launcher *launcher, const char *prefix, int timeout_ms);
