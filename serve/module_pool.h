/* A pool of modules, which keeps each module in memory only once.
 *
 * The pool finds a module by the hash of its parameters. So equal modules are in memory
 * once, even if several paths, arms or versions use them. A path of the pool is a table
 * of pointers to modules; a module leaves memory when the last path that uses it is
 * closed. The parameters of all modules have the number format of the backend (f32,
 * bf16, int8). Only one thread may use a pool. */
#pragma once
#include "serve/mixture.h"

typedef struct pl_module_pool pl_module_pool;
/* Borrows backend and store until the pool is destroyed. */
pl_module_pool *pl_module_pool_create(pl_backend *be, pl_store *store);
/* The caller must have closed all paths. Accepts NULL. */
void pl_module_pool_destroy(pl_module_pool **pool);

typedef struct pl_pool_counts {
    int n_modules;   /* number of modules in memory */
    uint64_t bytes;  /* size of these modules together */
    uint64_t n_read; /* number of modules read from the store so far */
} pl_pool_counts;
pl_pool_counts pl_module_pool_count(const pl_module_pool *pool);

/* Which path to open, and which versions of its modules. All pointers are borrowed
 * while the path is open. */
typedef struct pl_path_source {
    const pl_arm *arm;
    const pl_topology *topology;
    int path;
    pl_which which;
} pl_path_source;
/* Computes how many bytes of modules would be read from the store if the path were
 * opened now. */
pl_status pl_module_pool_missing(const pl_module_pool *pool,
                                 const pl_path_source *source, uint64_t *bytes);
/* A path whose modules are in memory. */
typedef struct pl_pooled_path pl_pooled_path;
/* Opens a path: reads those of its modules that are not in memory. The errors are those
 * of pl_read_path. */
pl_status pl_module_pool_open(pl_module_pool *pool, const pl_path_source *source,
                              pl_pooled_path **out);
void pl_module_pool_close(pl_module_pool *pool, pl_pooled_path **path);
const pl_path *pl_pooled_path_table(const pl_pooled_path *path);
/* Returns a number made from the hashes of the path's modules: paths with equal modules
 * have the same number, even if one was closed before the other was opened. */
uint64_t pl_pooled_path_contents(const pl_pooled_path *path);

/* ---- new versions ---- */
/* Compares the path with the store. *current becomes true if opening the path now would
 * give the same modules. If it becomes false, the modules that have not changed stay in
 * memory even after the path is closed, until pl_module_pool_drop_kept is called. */
pl_status pl_module_pool_compare(pl_module_pool *pool, const pl_pooled_path *path,
                                 bool *current);
/* Drops the modules that no path uses, including those that pl_module_pool_compare has
 * kept. Returns whether a module was dropped. */
bool pl_module_pool_drop_kept(pl_module_pool *pool);

/* ---- plan ---- */
/* pl_modules_bytes returns the size that all modules of a topology would have in
 * memory; pl_path_bytes returns the size of the modules of one path. */
uint64_t pl_modules_bytes(const pl_backend *be, const pl_topology *t);
uint64_t pl_path_bytes(const pl_backend *be, const pl_topology *t);
