/* Log lines: "time level role event key=value ..." to stderr, or one JSON object per
 * line. Only the folders cli, home, job, serve and workers log. Functions of the other
 * folders return errors instead. */
#pragma once
#include "base/status.h"
#include <stdbool.h>
PL_C_BEGIN

typedef enum pl_log_level {
    PL_LOG_ERROR,
    PL_LOG_WARN,
    PL_LOG_INFO,
    PL_LOG_DEBUG
} pl_log_level;

/* `role` ("hub", "worker-1") must stay valid until the process ends. */
void pl_log_open(const char *role, pl_log_level level, bool json);

/* `event` is a stable name ("lease.granted"). `format` gives key=value pairs separated
 * by blanks; a value that contains blanks must be in double quotes. */
void pl_log(pl_log_level level, const char *event, const char *format, ...)
    PL_PRINTF(3, 4);

/* Returns whether a line about a message may be logged now. `own` tells whether the
 * sender has one of the job's own keys; for these there is no limit. For all others
 * together the limit is ten lines per second on average, and 200 at once. Without it,
 * one key could fill the disk. Only one thread of a process may call this function. */
bool pl_log_may(bool own);

PL_C_END
