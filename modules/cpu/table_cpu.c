/* The backend's table of operations. This file is compiled once for each instruction
 * set, so each instruction set has its own table. */
#include "modules/cpu/ops_cpu.h"

const pl_ops OP(cpu_ops) = {
#define SHARED(op) .op = cpu_##op,
#define OWN(op)    .op = OP(op),
#define HOST(op)   .op = pl_host_##op,
    PL_OPS_OF_MEMORY(HOST) PL_OPS_OF_CASTS(OWN) PL_OPS_OF_WEIGHTS(SHARED)
        PL_OPS_OF_MODELS(OWN) PL_OPS_OF_STEPS(HOST)};
