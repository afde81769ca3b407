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

/* Whether a line about what a stranger has sent may be logged now: for all strangers
 * together, ten per second on average and 200 at once. Without this limit one key could
 * fill the disk. One thread of a process may ask. */
bool pl_log_may(bool own);

PL_C_END
