/* Names and exit codes of statuses, and the thread's last error (status.h). */
#include "base/status.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SENTENCE_MAX = 1024 };
static _Thread_local char last_error[SENTENCE_MAX];

/* The arguments may point into last_error, if a caller makes the earlier sentence a
 * part of the new one. Therefore the text is first written to a second buffer. */
static void PL_PRINTF(1, 0) keep_sentence(const char *format, va_list args)
{
    char text[SENTENCE_MAX];
    vsnprintf(text, sizeof text, format, args);
    memcpy(last_error, text, sizeof text);
}

pl_status pl_fail(pl_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    keep_sentence(format, args);
    va_end(args);
    return status;
}

pl_status pl_fail_in(pl_status status, const char *format, ...)
{
    char inner[SENTENCE_MAX];
    memcpy(inner, last_error, sizeof inner);
    va_list args;
    va_start(args, format);
    keep_sentence(format, args);
    va_end(args);
    const size_t used = strlen(last_error);
    snprintf(last_error + used, SENTENCE_MAX - used, ": %s", inner);
    return status;
}

const char *pl_last_error(void)
{
    return last_error;
}

static const struct {
    const char *name;
    int exit_code;
} status_rows[] = {
#define STATUS_ROW(name, code, text) {#name, code},
    PL_STATUS_TABLE(STATUS_ROW)
#undef STATUS_ROW
};

/* Returns the status, or PL_ERR_INTERNAL for other numbers from the network. */
static pl_status known(pl_status status)
{
    return (unsigned)status < PL_STATUS_COUNT ? status : PL_ERR_INTERNAL;
}

const char *pl_status_name(pl_status status)
{
    return status_rows[known(status)].name;
}

int pl_status_exit_code(pl_status status)
{
    return status_rows[known(status)].exit_code;
}
