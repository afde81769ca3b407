/* The door of outer: how updates become versions.
 *
 * An arm says what is trained. Workers send one encoded update per module to that
 * module's home; the home checks and stores it, and when all contributors of a
 * phase are in, applies the outer step and commits the next version.
 *
 * Read in this order: arm (what is trained), codec (how an update travels),
 * step_method, step, step_overlap and gossip (the outer step of every method), change
 * (how its version travels), messages (the protocol), roles (who may send what),
 * placement (which home has what), client (who asks), home (who answers: home.c loop,
 * home_upload, home_submit, home_merge, home_state, home_places, home_moving,
 * home_audit with audit_row: tasks done twice), move (from home to home), relay (who
 * stands between), coverage (what the record says), arith (a round's mean and
 * its step).
 */
#ifndef PL_OUTER_OUTER_H
#define PL_OUTER_OUTER_H
#include "outer/arith.h"
#include "outer/arm.h"
#include "outer/audit_row.h"
#include "outer/change.h"
#include "outer/client.h"
#include "outer/codec.h"
#include "outer/coverage.h"
#include "outer/gossip.h"
#include "outer/home.h"
#include "outer/lease.h"
#include "outer/messages.h"
#include "outer/move.h"
#include "outer/placement.h"
#include "outer/relay.h"
#include "outer/roles.h"
#include "outer/rounds.h"
#include "outer/step.h"
#include "outer/step_method.h"
#include "outer/step_overlap.h"
#endif
