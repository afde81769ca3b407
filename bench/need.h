/* Functions that several benchmarks share. */
#ifndef PL_BENCH_NEED_H
#define PL_BENCH_NEED_H
#include "base/base.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Ends the program with the last error, unless the status is OK. */
static inline void need(pl_status status)
{
    if (status == PL_OK)
        return;
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, pl_last_error());
    exit(1);
}

/* Returns the processor time of all threads of this process. */
static inline double processor_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* Returns a number of /proc/PID/status, such as VmRSS:, in bytes. */
static inline double memory_bytes(pid_t pid, const char *what)
{
    char path[64];
    pl_buf text = {0};
    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    need(pl_read_file(path, &text));
    const char *at = strstr(pl_buf_text(&text), what);
    const double kib = at ? strtod(at + strlen(what), NULL) : 0;
    pl_buf_destroy(&text);
    return 1024 * kib;
}

#endif
