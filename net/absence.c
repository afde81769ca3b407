/* Logs that a hub or a home is away, at growing intervals (absence.h). */
#include "net/absence.h"

enum { FIRST_MS = 5000, STEP_MAX_MS = 600000 };

bool pl_absence_is_due(const pl_absence *a, int64_t silent_ms)
{
    const int64_t next_ms = a->next_ms > 0 ? a->next_ms : FIRST_MS;
    return silent_ms >= next_ms || (a->since[0] && silent_ms < a->silent_ms);
}

void pl_absence_note(pl_absence *a, const char *what, const char *address,
                     const char *why, int64_t silent_ms, int64_t patience_ms)
{
    char waited[16], left[16];
    const bool is_due = pl_absence_is_due(a, silent_ms);
    const bool is_back = silent_ms < a->silent_ms;
    a->silent_ms = silent_ms;
    if (!is_due)
        return;
    if (is_back) {
        pl_log(PL_LOG_INFO, "peer.back", "peer=%s address=%s away_since=%s", what,
               address, a->since);
        *a = (pl_absence){.silent_ms = silent_ms};
        return;
    }
    if (!a->since[0])
        (void)pl_format_time((pl_wall_ms() - silent_ms) / 1000, true, a->since);
    a->next_ms = silent_ms + (silent_ms < STEP_MAX_MS ? silent_ms : STEP_MAX_MS);
    pl_human_seconds(1e-3 * (double)silent_ms, waited);
    pl_human_seconds(1e-3 * (double)(patience_ms - silent_ms), left);
    pl_log(PL_LOG_WARN, "peer.away",
           "peer=%s address=%s since=%s for=\"%s\" gives_up_in=\"%s\"%s%s%s", what,
           address, a->since, waited, patience_ms > 0 ? left : "never",
           why[0] ? " reason=\"" : "", why, why[0] ? "\"" : "");
}
