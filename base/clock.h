/* Time. Leases and deadlines use the monotonic clock. Wall time is used only for dates,
 * such as the day on which a key expires. */
#pragma once
#include "base/status.h"
#include <stdbool.h>
#include <stdint.h>
PL_C_BEGIN
int64_t pl_now_ms(void);  /* monotonic; also counts time in suspend (CLOCK_BOOTTIME) */
double pl_now(void);      /* the clock of pl_now_ms in seconds */
int64_t pl_wall_ms(void); /* milliseconds since 1970 */
double pl_thread_s(void); /* processor time of the calling thread, in seconds */
void pl_sleep_ms(int64_t ms);
/* Writes a wall time in UTC, "2026-11-30T04:10:00Z", or without `iso` "2026-11-30
 * 04:10:00 UTC". If the time has no date, returns false and leaves `out` as it is. */
enum { PL_TIME_TEXT = 32 };
bool pl_format_time(int64_t seconds, bool iso, char out[PL_TIME_TEXT]);
PL_C_END
