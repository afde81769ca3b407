/* Fail points: named places before and after every write, flush, batch, send and reply,
 * at which a test can end the process, stop it, or let the call fail.
 *
 *   PATHLOOM_FAILPOINT=NAME:ACTION[:NTH][,NAME:ACTION[:NTH] ...]
 *
 *   NAME    as in the call, "kv.commit.before"; with "@home" only in a process that was
 *           started as `pathloom home`, and so on
 *   ACTION  kill (SIGKILL), exit (_exit, no cleanup), stop (SIGSTOP, until SIGCONT),
 *           error (the call fails with ERR_IO), sleep (NTH ms, at every passage)
 *   NTH     the how-manieth passage in this process acts; 1 if not given
 *
 * All processes of a job inherit the variable. With PATHLOOM_FAILPOINT_ONCE=FOLDER a
 * point acts in one process only: the first leaves a file of NAME there, which also
 * shows a test that the point was reached.
 *
 * They are part of every build: what the tests kill is the program that is shipped. A
 * process without the variable pays one relaxed load and one branch a point, beside a
 * system call. (Whoever can set a process's environment could end it anyway.)
 */
#ifndef PL_BASE_FAILPOINT_H
#define PL_BASE_FAILPOINT_H
#include "base/status.h"
#ifdef __cplusplus
extern "C" {
#endif

/* PL_OK unless the point is to act now. Any thread. ERR_IO for `error`, ERR_USAGE if
 * the variable cannot be read. */
PL_MUST_CHECK pl_status pl_failpoint(const char *name);

#ifdef __cplusplus
}
#endif
#endif
