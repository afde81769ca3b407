/* The public header of outer: the pure arithmetic that makes versions from updates. No
 * function here opens a file or a socket, or writes to a store.
 *
 * Read in this order: arm, arm_meaning and arm_check (the definition of a training,
 * what follows from it, what can be combined), step_method, step, gossip and iso (the
 * arithmetic of outer steps), contract (what method, codec and topology mean for one
 * module: rounds, versions, updates, merges), holder (what a path computes between
 * phases), path_layout (the vectors of a path's state), method_*.c (one file per
 * method: how it differs from diloco in all of these), change (versions as encoded
 * differences), arith (steps over whole modules), audit_row (which tasks are done
 * twice, and how their results are compared), state_bounds (which states a path can
 * have), held (held-out text of paths, for curves), blend (modules made from others
 * after training), health (how well outer steps worked, according to the versions). */
#pragma once
#include "outer/arith.h"
#include "outer/arm.h"
#include "outer/audit_row.h"
#include "outer/blend.h"
#include "outer/change.h"
#include "outer/contract.h"
#include "outer/gossip.h"
#include "outer/held.h"
#include "outer/health.h"
#include "outer/holder.h"
#include "outer/iso.h"
#include "outer/state_bounds.h"
#include "outer/path_layout.h"
#include "outer/step.h"
#include "outer/step_method.h"
