/* The record (row) of an audit: a second worker repeats a task, and the results are
 * compared.
 *
 * Whether a task is audited depends only on the arm's seed, on the task, and on the
 * fraction of tasks that is audited. The path's home makes the row in the commit that
 * ends the phase. The home also keeps the path's state before the task, because the
 * second worker begins with that state. A verdict closes the row:
 *
 *   agreed      the second result equals the first
 *   settled     the first two results differ, and a third result equals one of them;
 *               the remaining result is called odd
 *   undecided   all three results differ, or the third result equals both others
 *   void        the task could not be done; `reason` says why
 *
 * Two results from devices of the same kind (the texts in `device` are equal) count as
 * equal if their bytes are equal. Devices of different kinds round differently. Their
 * results count as equal if two conditions hold. First, in every module the distance
 * (outer/likeness.h) between the updates is at most the hub's tolerance. Second, the
 * distance between the first moments, and that between the second moments, is at most
 * twice the tolerance. (The limit for moments is larger because moments depend only on
 * the last few steps.) A false result within the tolerance is not found.
 *
 * A row without a verdict is open. A row is stored as the ref "audit/ARM/p01.r0/PHASE",
 * whose text is JSON, and is never deleted. Until the row is closed, the state before
 * the task is stored as an object with the row's name.
 *
 * The digest of a result is the hash "audit" over blob hashes: the hashes of the task's
 * updates, one per slot that sends in this phase, in the order of the slots; then the
 * hash of the state after the task. The likeness of a result is computed from the same
 * updates, after decoding, and from the two moments of the state after the task. `seed`
 * is drawn when the first result can no longer change. */
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
enum { PL_AUDIT_MOMENTS = 2 }; /* the optimizer's first and second moments */

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
    pl_pubkey key; /* the worker's key; zeros if its connection was not encrypted */
    /* zeros while the digest is not known, which can be so only for the first result */
    pl_hash digest;
    /* The distance to each earlier result. It is 0 if the bytes are equal, above 0 if
     * the bytes differ and the devices are of different kinds, and below 0 if the bytes
     * differ and the devices are of the same kind. */
    double apart[PL_AUDIT_RESULTS - 1];
} pl_audit_result;

typedef struct pl_audit {
    char path[PL_TEXT_MAX]; /* "mix/p01.r0" */
    int64_t phase;
    /* blob hashes of the path's state before and after the task; zero: no state. If
     * `repeats` is above 0, the state before the task was not uploaded: `before` is
     * then the newest state before it that was, and the phases from that state on, this
     * many, must be repeated. */
    pl_hash before, after;
    int64_t repeats;
    pl_verdict verdict;
    int odd; /* if the verdict is "settled": index of the odd result */
    int n;   /* number of results; versions are made from the first result */
    pl_audit_result results[PL_AUDIT_RESULTS];
    char reason[PL_AUDIT_REASON_MAX];
    /* seed of the likenesses; 0: only results from devices of the same kind can be
     * compared */
    uint64_t seed;
    /* likeness of the moments in the state `after`; all zero after the row was
     * closed */
    pl_likeness moments[PL_AUDIT_MOMENTS];
    /* the tolerance that was used for the verdict; 0: hashes were compared */
    double tolerance;
} pl_audit;

/* Returns whether this task is audited, if the fraction `share` (0 to 1) of all tasks
 * is audited. */
bool pl_audit_draws(const pl_arm *arm, int path, int replica, int64_t phase,
                    double share);
const char *pl_verdict_name(pl_verdict verdict);

/* Writes "audit/PATH/PHASE". */
void pl_audit_name(const pl_audit *audit, char out[PL_TEXT_MAX]);
void pl_audit_write(const pl_audit *audit, pl_buf *out);
/* ERR_DATA: the text is not the row of an audit. */
PL_MUST_CHECK pl_status pl_audit_read(const char *text, pl_audit *out);

/* Adds a result, which has its distances to the earlier results, to a row. Closes the
 * row if the results now give a verdict. Results with a distance up to `tolerance`
 * count as equal; with tolerance 0 only equal bytes count as equal. */
void pl_audit_judge(pl_audit *audit, const pl_audit_result *result, double tolerance);

/* Returns the number of parts of a result that are compared between different kinds of
 * devices: the updates of the slots in order, then the moments. */
int pl_audit_parts(const pl_topology *topology);
/* Computes the likeness of an encoded update. ERR_UNSUPPORTED: the update is a sum of
 * several updates. ERR_DATA: the update cannot be decoded. */
PL_MUST_CHECK pl_status pl_audit_update(const pl_topology *topology, int module,
                                        uint64_t seed, const void *data, uint64_t bytes,
                                        pl_likeness *out);
/* Computes the likeness of the moments in a packed state; `bytes` must be
 * pl_path_state_bytes. The likeness is all zero if the arm's moments are not sent. */
PL_MUST_CHECK pl_status pl_audit_moments(const pl_arm *arm, const pl_topology *topology,
                                         uint64_t seed, const void *data,
                                         uint64_t bytes,
                                         pl_likeness out[PL_AUDIT_MOMENTS]);

#ifdef __cplusplus
}
#endif
#endif
