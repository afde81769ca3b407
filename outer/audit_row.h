/* What is written down of an audit: a task that a second worker did again.
 *
 * Which tasks are drawn depends on the arm's seed and the task alone. The home of the
 * path makes the row in the commit that ends the phase, and keeps the path's state from
 * before it, which the second worker begins with. The row is closed by a verdict:
 *
 *   agreed      the second made the same
 *   settled     it did not, and a third made what one of them did: the other is odd
 *   undecided   three workers, three results; or the third is like both
 *   void        it could not be done: `reason`
 *
 * On devices of one kind (equal text) the same means equal bytes. Kinds round
 * otherwise, so across them it means: in no module is the distance (outer/likeness.h)
 * above the hub's tolerance, and in neither moment above twice that, for moments are of
 * the last few steps alone. A lie smaller than that passes there.
 *
 * Until then it is open. Rows are refs, "audit/ARM/p01.r0/PHASE", with JSON in them;
 * open or not they stay. The state before lies as an object of the row's name, until
 * the row is closed.
 *
 * A result's digest is hash "audit" over the blob hash of the task's update of each
 * slot that sends in this phase, in their order, and that of the state after it. Its
 * likeness is that of the same updates, decoded, and of the two moments of the state
 * after it; `seed` is drawn when the first result can change no more. */
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
    pl_hash digest; /* none: the first one's is not known yet */
    /* From each result before it: 0 the same bytes, above it the distance between
     * kinds; below it other bytes, which nothing excuses. */
    double apart[PL_AUDIT_RESULTS - 1];
} pl_audit_result;

typedef struct pl_audit {
    char path[PL_TEXT_MAX]; /* "mix/p01.r0" */
    int64_t phase;
    pl_hash before, after; /* the path's state; none: there was none */
    pl_verdict verdict;
    int odd; /* settled: which result */
    int n;   /* results; the first is what counts in versions */
    pl_audit_result results[PL_AUDIT_RESULTS];
    char reason[PL_AUDIT_REASON_MAX];
    uint64_t seed; /* of likenesses; 0: only equal kinds can be compared */
    pl_likeness moments[PL_AUDIT_MOMENTS]; /* of `after`; all zero once it is closed */
    double tolerance; /* that the verdict stands on; 0: on hashes */
} pl_audit;

/* Whether this task is one of the share (0 to 1). */
bool pl_audit_draws(const pl_arm *arm, int path, int replica, int64_t phase,
                    double share);
const char *pl_verdict_name(pl_verdict verdict);

/* "audit/PATH/PHASE" */
void pl_audit_name(const pl_audit *audit, char out[PL_TEXT_MAX]);
void pl_audit_write(const pl_audit *audit, pl_buf *out);
/* ERR_DATA: it is no such row. */
PL_MUST_CHECK pl_status pl_audit_read(const char *text, pl_audit *out);

/* Takes a result in, with `apart` from those before: the first has n = 1. Closes the
 * row where that decides it. Distances up to the tolerance are the same; 0: none are.
 */
void pl_audit_judge(pl_audit *audit, const pl_audit_result *result, double tolerance);

/* What of a task is compared across kinds. Parts are numbered: slot after slot, then
 * the moments behind them. */
int pl_audit_parts(const pl_topology *topology);
/* Of an update as it travels. ERR_UNSUPPORTED: it is a sum of several. ERR_DATA. */
PL_MUST_CHECK pl_status pl_audit_update(const pl_topology *topology, int module,
                                        uint64_t seed, const void *data, uint64_t bytes,
                                        pl_likeness *out);
/* Of a path's state as it travels; `bytes` as pl_path_state_bytes. All zero if moments
 * do not travel. */
PL_MUST_CHECK pl_status pl_audit_moments(const pl_arm *arm, const pl_topology *topology,
                                         uint64_t seed, const void *data,
                                         uint64_t bytes,
                                         pl_likeness out[PL_AUDIT_MOMENTS]);

#ifdef __cplusplus
}
#endif
#endif
