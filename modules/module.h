/* Modules in memory, for inference. A backend's memory has the parameters of a module
 * only once, even if several paths use the module. A path is a table of pointers to the
 * parameters of its modules. */
#pragma once
#include "modules/backend.h"
#include "modules/topology.h"
PL_C_BEGIN

/* The parameters of one module, in the form in which the operations of a backend read
 * them. They never change, so any number of paths may use them. A backend that
 * multiplies by copies of matrices (bf16, int8) keeps these copies; it keeps only
 * the embedding and the norms in fp32. */
typedef struct pl_module pl_module;
/* Returns the bytes that a module of this slot takes. */
uint64_t pl_module_bytes(const pl_backend *be, const pl_topology *t, int slot);
/* Makes a module from the floats of one expert of the slot, in the host's memory.
 * Borrows the backend until destroy. */
pl_status pl_module_create(pl_backend *be, const pl_topology *t, int slot,
                           const float *params, pl_module **out);
void pl_module_destroy(pl_module **module); /* accepts NULL */

/* A path made of modules of one backend. Paths of one shape may use the same model and
 * the same step of a decoder, even if their topologies differ. */
typedef struct pl_path pl_path;
/* Makes a path from one module per slot of t. Borrows the modules until destroy. */
pl_status pl_path_create(const pl_topology *t, pl_module *const *modules,
                         pl_path **out);
void pl_path_destroy(pl_path **path); /* accepts NULL */

PL_C_END
