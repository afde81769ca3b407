/* What is written down of an audit: a task that a second worker did again.
 *
 * Which tasks are drawn depends on the arm's seed and the task alone. The home of the
 * path makes the row in the commit that ends the phase, and keeps the path's state from
 * before it, which the second worker begins with. The row is closed by a verdict:
 *
 *   agreed      the second made the same bytes
 *   settled     it did not, and a third made those of one of them: the other is odd
 *   undecided   three workers, three results
 *   void        it could not be done: `reason`
 *
 * Until then it is open. Rows are refs, "audit/ARM/p01.r0/PHASE", with JSON in them;
 * open or not they stay. The state before lies as an object of the row's name, until
 * the row is closed.
 *
 * A result's digest is hash "audit" over the blob hash of the task's update of each
 * slot that sends in this phase, in their order, and that of the state after it. */
#ifndef PL_OUTER_AUDIT_ROW_H
#define PL_OUTER_AUDIT_ROW_H
#include "outer/arm.h"
#include "store/store.h"
#ifdef __cplusplus
extern "C" {
#endif

#define PL_AUDIT_REFS  "audit/"
#define PL_FENCED_REFS "fenced/"
enum { PL_AUDIT_RESULTS = 3, PL_AUDIT_REASON_MAX = 200, PL_AUDIT_TEXT_MAX = 4096 };

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
} pl_audit;

/* Whether tasks of this arm can be done again later: they need nothing that is gone by
 * then, and give the same bytes. */
bool pl_audit_covers(const pl_arm *arm);
/* Whether this task is one of the share (0 to 1). */
bool pl_audit_draws(const pl_arm *arm, int path, int replica, int64_t phase,
                    double share);
const char *pl_verdict_name(pl_verdict verdict);

/* "audit/PATH/PHASE" */
void pl_audit_name(const pl_audit *audit, char out[PL_TEXT_MAX]);
void pl_audit_write(const pl_audit *audit, pl_buf *out);
/* ERR_DATA: it is no such row. */
PL_MUST_CHECK pl_status pl_audit_read(const char *text, pl_audit *out);

/* Takes a result in: the first has n = 1. Closes the row where that decides it. */
void pl_audit_judge(pl_audit *audit, const pl_audit_result *result);

#ifdef __cplusplus
}
#endif
#endif
