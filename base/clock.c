/* Reads the monotonic clock and the time of day, and sleeps (clock.h). */
#include "base/clock.h"
#include <errno.h>
#include <time.h>

static int64_t read_ns(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t pl_now_ms(void)
{
    return read_ns(CLOCK_BOOTTIME) / 1000000;
}

double pl_now(void)
{
    return (double)read_ns(CLOCK_BOOTTIME) * 1e-9;
}

int64_t pl_wall_ms(void)
{
    return read_ns(CLOCK_REALTIME) / 1000000;
}

double pl_thread_s(void)
{
    return (double)read_ns(CLOCK_THREAD_CPUTIME_ID) * 1e-9;
}

void pl_sleep_ms(int64_t ms)
{
    if (ms <= 0)
        return;
    struct timespec rest = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR)
        continue;
}

bool pl_format_time(int64_t seconds, bool iso, char out[PL_TIME_TEXT])
{
    const time_t at = (time_t)seconds;
    struct tm utc;
    return gmtime_r(&at, &utc) &&
           strftime(out, PL_TIME_TEXT,
                    iso ? "%Y-%m-%dT%H:%M:%SZ" : "%Y-%m-%d %H:%M:%S UTC", &utc) > 0;
}
