/* The bytes that a phase of a path sends over a worker's link, for `pathloom train
 * --link`. Pure: no file, no socket, no clock. */
#pragma once
#include "config/settings.h"

/* Reads a rate such as 5mbit, 500kbit or 1.5gbit in bits per second. ERR_USAGE. */
pl_status slow_link_parse_rate(const char *text, double *bits_per_s);
/* Returns the bytes that a worker sends and fetches in a phase of a path, as a mean
 * over many phases: its updates, its state and the next versions. Updates that are
 * compressed may be smaller. */
pl_status slow_link_phase_bytes(const config *c, const pl_topology *topology,
                                double *bytes);

/* The settings that are tried for a slow link, in this order; each contains the ones
 * before it. docs/results/links.md has the measurements. */
enum { SLOW_LINK_LEVELS = 3, SLOW_LINK_PAIRS_MAX = 3 };
typedef struct slow_link_level {
    const char *key[SLOW_LINK_PAIRS_MAX],
        *value[SLOW_LINK_PAIRS_MAX]; /* NULL: no more pairs */
} slow_link_level;
extern const slow_link_level slow_link_levels[SLOW_LINK_LEVELS];
