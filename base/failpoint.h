/* Fail points: named places before and after every write, flush, batch, send and reply,
 * at which a test can end the process, stop it, or make the call fail.
 *
 *   PATHLOOM_FAILPOINT=NAME:ACTION[:NTH][,NAME:ACTION[:NTH] ...]
 *
 *   NAME    the name of the point in the code, such as "kv.commit.before". NAME@home
 *           acts only in a process that was started as `pathloom home`; the same holds
 *           for the other verbs.
 *   ACTION  kill (SIGKILL), exit (_exit, no cleanup), stop (SIGSTOP, until SIGCONT),
 *           error (the call fails with ERR_IO), sleep (for NTH ms, at every passage)
 *   NTH     the point acts when a process reaches it for the NTH time (default 1);
 *           with `stop` and `error`, 0 means every time (without ONCE)
 *
 * All processes of a job inherit the variable. With PATHLOOM_FAILPOINT_ONCE=FOLDER a
 * point acts in one process only: the first one leaves a file with the point's name in
 * FOLDER, which also shows a test that the point was reached.
 *
 * Fail points are part of every build, so that tests kill the same program that is
 * shipped. In a process without the variable a point costs one relaxed load and one
 * branch. This is little, because each point is next to a system call. Fail points are
 * no security risk: a user who can set a process's environment can end the process
 * anyway. */
#pragma once
#include "base/status.h"
PL_C_BEGIN

/* Returns ERR_IO if the point acts now with the action `error`, ERR_USAGE if the
 * variable cannot be parsed, else PL_OK. Any thread may call it. */
pl_status pl_failpoint(const char *name);

PL_C_END
