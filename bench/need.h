/* Functions that several benchmarks share. */
#ifndef PL_BENCH_NEED_H
#define PL_BENCH_NEED_H
#include "base/base.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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

#endif
