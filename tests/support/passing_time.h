/* For a test that is a program of its own ("; alone"): replaces the function of the C
 * library, so that the test can let time pass, for all threads of the program. */
#pragma once
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_int passed_s;

int clock_gettime(clockid_t clock, struct timespec *out)
{
    const long got = syscall(SYS_clock_gettime, clock, out);
    out->tv_sec += clock == CLOCK_BOOTTIME ? atomic_load(&passed_s) : 0;
    return (int)got;
}

static inline void let_pass(int seconds)
{
    atomic_fetch_add(&passed_s, seconds);
}
