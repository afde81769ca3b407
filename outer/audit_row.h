/* The record of an audit: a task that a second worker did again.
 *
 * The choice of tasks depends on the arm's seed and the task alone. The home of the
 * path makes the row in the commit that ends the phase, and keeps the path's state from
 * before it, which the second worker begins with. The row is closed by a verdict:
 *
 *   agreed      the second result equals the first
 *   settled     it does not, and a third result equals one of them; the remaining
 *               result is called odd
 *   undecided   all three results differ; or the third equals both
 *   void        the task could not be done; `reason` says why
 *
 * Results of devices of one kind (equal text) count as equal if their bytes are equal.
 * Devices of different kinds round differently. Their results count as equal if two
 * conditions hold. In every module the distance (outer/likeness.h) of the updates is at
 * most the hub's tolerance. The distances of the first moments and of the second
 * moments are at most twice the tolerance. (Moments get the larger limit because they
 * depend on the last few steps only.) A falsification within the tolerance is not
 * found.
 *
 * Without a verdict the row is open. Rows are refs, "audit/ARM/p01.r0/PHASE", with JSON
 * in them; they are never deleted. The state before the task is an object with the
 * row's name until the row is closed.
 *
 * A result's digest is the hash "audit" over blob hashes: those of the task's update of
 * each slot that sends in this phase, in order of slots, then that of the state after
 * the task. A result's likeness is computed from the same updates, decoded, and from
 * the two moments of the state after the task. `seed` is drawn when the first result
 * can no longer change. */
#ifndef PL_OUTER_AUDIT_ROW_H
#define PL_OUTER_AUDIT_ROW_H
#include "outer/arm.h"
#include "outer/likeness.h"
#include "store/store.h"
#ifdef __cplusplus
extern "C" {
#endif

#define PL_AUDIT_REFS  "audit/"
#define PL_FENCED_REFS "fenced/"
enum { PL_AUDIT_RESULTS = 3, PL_AUDIT_REASON_MAX = 200, PL_AUDIT_TEXT_MAX = 12288 };
enum { PL_AUDIT_MOMENTS = 2 }; /* m and v */

typedef enum pl_verdict {
    PL_VERDICT_OPEN,
    PL_VERDICT_AGREED,
    PL_VERDICT_SETTLED,
    PL_VERDICT_UNDECIDED,
    PL_VERDICT_VOID,
    PL_VERDICT_COUNT
} pl_verdict;

typedef struct pl_audit_result {
    char worker[PL_TEXT_MAX], device[PL_TEXT_MAX];
    pl_pubkey key; /* the worker's; zero if its connection was not encrypted */
    /* zero while the digest of the first result is not known */
    pl_hash digest;
    /* The distance to each earlier result: 0 if the bytes are equal; above 0 between
     * different kinds of devices; below 0 if devices of one kind gave different
     * bytes. */
    double apart[PL_AUDIT_RESULTS - 1];
} pl_audit_result;

typedef struct pl_audit {
    char path[PL_TEXT_MAX]; /* "mix/p01.r0" */
    int64_t phase;
    /* blob hashes of the path's state before and after the task; zero: no state */
    pl_hash before, after;
    pl_verdict verdict;
    int odd; /* if the verdict is "settled": index of the odd result */
    int n;   /* number of results; versions are made from the first one */
    pl_audit_result results[PL_AUDIT_RESULTS];
    char reason[PL_AUDIT_REASON_MAX];
    /* seed of the likenesses; 0: only devices of equal kind can be compared */
    uint64_t seed;
    /* likeness of the moments in the state `after`; all zero once the row is closed */
    pl_likeness moments[PL_AUDIT_MOMENTS];
    /* the tolerance that was used for the verdict; 0: hashes were compared */
    double tolerance;
} pl_audit;

/* Whether this task is audited, if the share `share` (0 to 1) of all tasks is
 * audited. */
bool pl_audit_draws(const pl_arm *arm, int path, int replica, int64_t phase,
                    double share);
const char *pl_verdict_name(pl_verdict verdict);

/* Writes "audit/PATH/PHASE". */
void pl_audit_name(const pl_audit *audit, char out[PL_TEXT_MAX]);
void pl_audit_write(const pl_audit *audit, pl_buf *out);
/* ERR_DATA: the text is not the row of an audit. */
PL_MUST_CHECK pl_status pl_audit_read(const char *text, pl_audit *out);

/* Adds a result, with its distances to those before it; the first has n = 1. Closes the
 * row if the result decides it. Distances up to `tolerance` count as equal; with
 * tolerance 0 only equal bytes do. */
void pl_audit_judge(pl_audit *audit, const pl_audit_result *result, double tolerance);

/* The parts of a task that are compared across kinds of devices: one per slot, in
 * order, then the moments. */
int pl_audit_parts(const pl_topology *topology);
/* The likeness of an encoded update. ERR_UNSUPPORTED: the update is a sum of several.
 * ERR_DATA: the update cannot be decoded. */
PL_MUST_CHECK pl_status pl_audit_update(const pl_topology *topology, int module,
                                        uint64_t seed, const void *data, uint64_t bytes,
                                        pl_likeness *out);
/* The likeness of a packed state's moments; `bytes` must be pl_path_state_bytes. The
 * likeness is all zero if the arm's moments are not sent. */
PL_MUST_CHECK pl_status pl_audit_moments(const pl_arm *arm, const pl_topology *topology,
                                         uint64_t seed, const void *data,
                                         uint64_t bytes,
                                         pl_likeness out[PL_AUDIT_MOMENTS]);

#ifdef __cplusplus
}
#endif
#endif
