/* folder: base; label: unit; alone */
#include "base/base.h"
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/suite.h"

/* Replaces the function of the C library. At each call the wall clock jumps by 3 years:
 * twice forwards, then back. Other clocks show the real time. */
int clock_gettime(clockid_t clock, struct timespec *out)
{
    static int looks;
    long got = syscall(SYS_clock_gettime, clock, out);
    if (clock == CLOCK_REALTIME)
        out->tv_sec += (looks++ % 3 - 1) * 100000000;
    return (int)got;
}

PL_TEST(leases_and_deadlines_do_not_see_the_wall_clock)
{
    int64_t start_ms = pl_now_ms();
    double start = pl_now();
    int64_t first = pl_wall_ms(), second = pl_wall_ms();
    /* The wall clock has jumped. */
    assert_true(second - first > 1000000 || first - second > 1000000);
    for (int i = 0; i < 100; i++) {
        int64_t elapsed_ms = pl_now_ms() - start_ms;
        double elapsed = pl_now() - start;
        assert_true(elapsed_ms >= 0 && elapsed_ms < 60000);
        assert_true(elapsed >= 0 && elapsed < 60);
    }
}
