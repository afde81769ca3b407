/* The record (row) of an audit: one of the job's own workers repeats a task, and the
 * results are compared.
 *
 * Which tasks are audited is drawn with a secret that the home's process makes when it
 * starts and keeps in its memory. The draw happens after the task's results are
 * committed, so nobody can know it while a result can still be changed. When the
 * process ends in order, the secret is written into the store; then everybody can
 * compute the draws again (pl_draw_read, pathloom check).
 *
 * The path's home makes the row in the commit that ends the task. The row holds the
 * path's next state (`state`): the path stays in its phase until the verdict.
 *
 *   agreed      all parts of the result equal the repetition; `state` becomes the
 *               path's state
 *   odd         a part differs from two equal repetitions. Its sender, `odd`, is
 *               fenced, and all parts are dropped: the task is done again
 *   undecided   the repetitions differ from each other, or a part is lost; all parts
 *               are dropped
 *   unchecked   the job has no worker with the device of some part, and fleet.devices
 *               lists that device; `state` becomes the path's state
 *
 * The parts of a result are its updates, one per slot, and the state. Each is compared,
 * by the hash of its bytes, with a repetition on a device of the same kind as its
 * sender's: the texts in `device` are equal. Only an odd or unchecked part counts
 * against a task; devices that round differently are never compared.
 *
 * A row without a verdict is open. A row is stored as the ref "audit/ARM/p01.r0/PHASE",
 * whose text is JSON, and is never deleted. A row whose result was dropped moves to
 * "audit/ARM/p01.r0/PHASE.TRIES", because the task may be drawn again. While the row is
 * open, an object with its name holds the blob of `state`.
 *
 * The digest of a result is the hash "audit" over blob hashes: the hashes of the task's
 * updates, one per slot that sends in this phase, in the order of the slots; then the
 * hash of the state after the task. */
#pragma once
#include "outer/arm.h"
#include "store/store.h"

#define PL_AUDIT_REFS  "audit/"
#define PL_FENCED_REFS "fenced/"
#define PL_DRAW_REFS   "draw/"
/* "dropped/ARM/p01.r0/PHASE/TOKEN": the results of the path from this phase on, under
 * leases up to this token, were dropped by an audit, or with a state that was dropped.
 * Every home has it, and a restore keeps it. */
#define PL_DROPPED_REFS "dropped/"
/* the result that was sent, and two repetitions on each of up to four kinds of
 * devices */
enum { PL_AUDIT_RESULTS = 9, PL_AUDIT_REASON_MAX = 200, PL_AUDIT_TEXT_MAX = 12288 };

typedef enum pl_verdict {
    PL_VERDICT_OPEN,
    PL_VERDICT_AGREED,
    PL_VERDICT_ODD,
    PL_VERDICT_UNDECIDED,
    PL_VERDICT_UNCHECKED,
    PL_VERDICT_COUNT
} pl_verdict;

typedef struct pl_audit_result {
    char worker[PL_TEXT_MAX], device[PL_TEXT_MAX];
    pl_pubkey key;  /* the worker's key; zeros if its connection was not encrypted */
    pl_hash digest; /* zeros while the digest is not known */
} pl_audit_result;

typedef struct pl_audit {
    char path[PL_TEXT_MAX]; /* "mix/p01.r0" */
    int64_t phase;
    int64_t
        tries; /* 1 + the number of earlier results of this task that were dropped */
    /* blob hashes of the path's state before and after the task; zero: no state. If
     * `repeats` is above 0, the state before the task was not uploaded: `before` is
     * then the newest state before it that was, and the phases from that state on, this
     * many, must be repeated. */
    pl_hash before, after;
    int64_t repeats;
    /* the path's state if the audit agrees; its phase is 0 after the row was closed */
    pl_path_state state;
    pl_verdict verdict;
    char odd[PL_TEXT_MAX]; /* the worker whose result was wrong; "": none */
    int n;                 /* number of results; the first is the one that was sent */
    pl_audit_result results[PL_AUDIT_RESULTS];
    char reason[PL_AUDIT_REASON_MAX];
} pl_audit;

/* Returns whether tasks of the arm can be repeated later and compared. */
bool pl_audit_may(const pl_arm *arm);
const char *pl_verdict_name(pl_verdict verdict);
bool pl_verdict_drops(pl_verdict verdict);

/* Writes "audit/PATH/PHASE", with ".TRIES" if the results were dropped. */
char *pl_audit_name(const pl_audit *audit, char out[PL_TEXT_MAX]);
void pl_audit_write(const pl_audit *audit, pl_buf *out);
/* ERR_DATA: the text is not the row of an audit. */
pl_status pl_audit_read(const char *text, pl_audit *out);

typedef struct pl_dropped {
    char path[PL_TEXT_MAX];
    int64_t phase;
    uint64_t token;
} pl_dropped;
/* Reads a ref below PL_DROPPED_REFS. ERR_DAMAGED: it is no such ref. */
pl_status pl_dropped_read(const char *name, pl_dropped *out);

/* ---- the draw ---- */
typedef struct pl_draw {
    pl_hash secret; /* zeros: not known */
    pl_hash hash;   /* of the secret */
    double share;   /* fraction of tasks that are audited */
} pl_draw;

void pl_draw_create(double share, pl_draw *out);
/* Whether the task is audited: uniform(MAC(secret; task)) < share. */
bool pl_draw_has(const pl_draw *draw, const pl_arm *arm, int path, int replica,
                 int64_t phase);
/* The ref "draw/HASH" has the text "HASH SHARE", and after the end of the home's
 * process "HASH SHARE SECRET". pl_draw_write leaves out a secret that is not known. */
char *pl_draw_name(const pl_draw *draw, char out[PL_TEXT_MAX]);
void pl_draw_write(const pl_draw *draw, pl_buf *out);
pl_status pl_draw_read(const char *text, pl_draw *out);
