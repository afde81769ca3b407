/* Modules in memory, for inference. A module's parameters are in the memory of a
 * backend once, however many paths use them; a path is a table of pointers to them. */
#ifndef PL_MODULES_MODULE_H
#define PL_MODULES_MODULE_H
#include "modules/backend.h"
#include "modules/topology.h"
#ifdef __cplusplus
extern "C" {
#endif

/* The parameters of one module, in the form in which the operations of a backend read
 * them. They do not change, so that any number of paths may use them. Only what is read
 * is kept: on a backend that multiplies by copies of matrices (bf16, fp8, int8) these
 * are the copies, and in fp32 only the embedding and the norms. */
typedef struct pl_module pl_module;
/* Returns the bytes that a module of this slot takes. */
uint64_t pl_module_bytes(const pl_backend *be, const pl_topology *t, int slot);
/* Makes a module from the floats of one expert of the slot, in the host's memory.
 * Borrows the backend until destroy. */
PL_MUST_CHECK pl_status pl_module_create(pl_backend *be, const pl_topology *t, int slot,
                                         const float *params, pl_module **out);
void pl_module_destroy(pl_module **module); /* accepts NULL */

/* A path made of modules of one backend. Paths of one shape may go through the same
 * model and the same step of a decoder, also if their topologies differ. */
typedef struct pl_path pl_path;
/* Makes a path from one module per slot of t. Borrows the modules until destroy. */
PL_MUST_CHECK pl_status pl_path_create(const pl_topology *t, pl_module *const *modules,
                                       pl_path **out);
void pl_path_destroy(pl_path **path); /* accepts NULL */

#ifdef __cplusplus
}
#endif
#endif
