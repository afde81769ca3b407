/* The door of workers: who trains what, and the processes that do it.
 *
 * hub      leases tasks (arm, path, replica, phase) to workers. It keeps nothing on
 *          disk: the homes know which phases are done, so a hub that starts again
 *          asks them and goes on.
 * worker   leases a task, fetches what it lacks by hash, trains tau inner steps,
 *          sends one update a module to that module's home, then the path's state.
 * launch   starts these as processes and keeps them alive.
 *
 * Read in this order: plan (which task is next: pure state, no sockets), hub,
 * train (the inner loop), worker, launch.
 */
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
/* Whether an idle worker may do what another is slow at (hub_backup.c): never, if both
 * have the same device, or always. */
typedef enum pl_backup { PL_BACKUP_OFF, PL_BACKUP_AUTO, PL_BACKUP_ANY } pl_backup;

typedef struct pl_hub_options {
    const char *bind;
    const char *const *homes; /* addresses, in placement order */
    int n_homes;
    int ttl_ms;             /* a lease not renewed for so long is given to others */
    const char *ready_file; /* gets the bound address; "" for none */
    const char *keys;       /* the list that invitations are enrolled in; NULL: none */
    pl_backup backup;
    double audit_tolerance; /* the distance up to which results of different kinds
                               of devices are the same; 0: only equal kinds compare */
    volatile sig_atomic_t *stop;
} pl_hub_options;
PL_MUST_CHECK pl_status pl_hub_run(const pl_hub_options *options);

/* ---- worker ---- */
typedef struct pl_worker_options {
    const char *hub;
    const char *name;  /* stands in every contribution */
    const char *cache; /* folder for data shards, shared by workers of a machine */
    pl_backend_options backend;
    bool recompute;              /* activations, in the backward pass: less memory */
    uint64_t cache_bytes;        /* of modules and optimizer states kept in memory */
    int patience_ms;             /* how long hub or homes may be away */
    const char *const *homes;    /* relays: asked instead of those that the hub names */
    int n_homes;                 /* as many as those, or 0 */
    const char *offers;          /* where other workers may ask it; "" nowhere */
    int grace_ms;                /* how long it may finish its tasks; 0: to the end */
    volatile sig_atomic_t *stop; /* 1: finish the task, 2: give it back; then return */
} pl_worker_options;
PL_MUST_CHECK pl_status pl_worker_run(const pl_worker_options *options);

/* What a worker keeps in memory of modules and states while it works for an arm, at
 * most `most` bytes: the modules and the state of one path. Moments that do not travel
 * (train.state=local) are kept besides, of every task, in as many bytes at most. */
uint64_t pl_worker_cache_bytes(const pl_arm *arm, const pl_topology *topology,
                               uint64_t most);

/* Trains the task of a contribution to `module` once more, with all phases of its path
 * before it, from what the store has; *update is the hash of what a worker would have
 * sent. Equal to wanted->update if backend, threads and device are those of the worker.
 * ERR_NOT_FOUND: it cannot be told, because of the method, of another device, or
 * because something is no longer there. */
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
/* Kills what still runs, at once. */
void pl_launcher_destroy(pl_launcher **launcher);
/* argv[0] is replaced by `program`; NULL-terminated. With `ready_file` the child
 * counts as started when that file exists, and its content is the child's address:
 * on a restart the same address is asked for in the argument after "--listen". */
PL_MUST_CHECK pl_status pl_launcher_start(pl_launcher *launcher, const char *name,
                                          const char *const *argv,
                                          const char *ready_file);
/* Waits for `name` to be ready; its address. ERR_TIMEOUT, or the child's own error. */
PL_MUST_CHECK pl_status pl_launcher_address(pl_launcher *launcher, const char *name,
                                            int timeout_ms, char *address, size_t size);
/* Reaps and restarts children that died; call it often. A child that ends by itself
 * with a sysexits code (a configuration, data or disk error) is not restarted: its
 * error is returned. Others are started again, later and later; 8 crashes in a row are
 * an error. */
PL_MUST_CHECK pl_status pl_launcher_tend(pl_launcher *launcher);
int pl_launcher_restarts(const pl_launcher *launcher);
/* The most memory that one of the running children had whose names start so. */
uint64_t pl_launcher_peak_bytes(const pl_launcher *launcher, const char *prefix);
/* SIGTERM to every child whose name starts with `prefix`; waits up to timeout_ms, then
 * SIGKILL. Returns how many had to be killed. */
int pl_launcher_stop(pl_launcher *launcher, const char *prefix, int timeout_ms);

#ifdef __cplusplus
}
#endif
#endif
