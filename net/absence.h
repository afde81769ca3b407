/* Logs that a hub or a home is away, and that it is back. */
#pragma once
#include "base/base.h"

typedef struct pl_absence {
    int64_t next_ms;          /* silence after which the next line follows; 0: 5 s */
    int64_t silent_ms;        /* silence at the last call */
    char since[PL_TIME_TEXT]; /* UTC time of the last sign of life; "": not away */
} pl_absence;

/* Whether a line is due, now that the process has been silent for silent_ms: after 5 s,
 * 10 s, 20 s and so on, at most 10 minutes apart, and when the silence has ended. */
bool pl_absence_is_due(const pl_absence *a, int64_t silent_ms);
/* Call this often. Logs a line if one is due: the process is away, or it is back.
 * `what` and `address` name the process, `why` may give a reason, and patience_ms is
 * the silence after which the caller gives up; 0: never. */
void pl_absence_note(pl_absence *a, const char *what, const char *address,
                     const char *why, int64_t silent_ms, int64_t patience_ms);
