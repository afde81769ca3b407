/* Checks a topology's specification before it is used. */
#pragma once
#include "modules/topology.h"
PL_C_BEGIN

enum { PATHS_MAX = 1 << 20, REPLICAS_MAX = 1 << 16 };

/* Checks `spec` against `shape` (ERR_CONFIG), and copies it to *out with `blocks`
 * filled in. */
pl_status topology_spec_complete(const pl_shape *shape, const pl_topology_spec *spec,
                                 pl_topology_spec *out);

PL_C_END
