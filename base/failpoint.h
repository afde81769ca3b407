/* Fail points: named places before and after every write, flush, batch, send and reply,
 * at which a test can end the process, stop it, or let the call fail.
 *
 *   PATHLOOM_FAILPOINT=NAME:ACTION[:NTH][,NAME:ACTION[:NTH] ...]
 *
 *   NAME    as in the call, "kv.commit.before"; with "@home" only in a process that was
 *           started as `pathloom home`, and so on
 *   ACTION  kill (SIGKILL), exit (_exit, no cleanup), stop (SIGSTOP, until SIGCONT),
 *           error (the call fails with ERR_IO), sleep (for NTH ms, at every passage)
 *   NTH     the passage at which the point acts, counted per process; 1 if not given
 *
 * All processes of a job inherit the variable. With PATHLOOM_FAILPOINT_ONCE=FOLDER a
 * point acts in one process only: the first one leaves a file with the point's name in
 * FOLDER, which also shows a test that the point was reached.
 *
 * Fail points are part of every build, so that tests kill the same program that is
 * shipped. A process without the variable pays one relaxed load and one branch per
 * point, next to a system call. Fail points are no security risk: a user who can set a
 * process's environment can end the process anyway. */
#ifndef PL_BASE_FAILPOINT_H
#define PL_BASE_FAILPOINT_H
#include "base/status.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Returns PL_OK unless the point acts now: ERR_IO for the action `error`, ERR_USAGE if
 * the variable cannot be parsed. Any thread. */
PL_MUST_CHECK pl_status pl_failpoint(const char *name);

#ifdef __cplusplus
}
#endif
#endif
