/* Time. Leases and deadlines use the monotonic clock. Wall time is used only for dates,
 * such as the day on which a key expires. */
#pragma once
#include "base/status.h"
#include <stdint.h>
PL_C_BEGIN
int64_t pl_now_ms(void);  /* monotonic; also counts time in suspend (CLOCK_BOOTTIME) */
double pl_now(void);      /* the clock of pl_now_ms in seconds */
int64_t pl_wall_ms(void); /* milliseconds since 1970 */
void pl_sleep_ms(int64_t ms);
PL_C_END
