/* Computes the bytes of a phase of a path (slow_link.h). */
#include "config/slow_link.h"
#include <stdlib.h>

/* The first level changes nothing. The second one does not change results: the state
 * then has less than a tenth of the bytes of updates and versions. The third one has no
 * measured loss (docs/results/outer.md) and no random or timing-dependent part. */
const slow_link_level slow_link_levels[SLOW_LINK_LEVELS] = {
    {{NULL}, {NULL}},
    {{"train.state_every"}, {"10"}},
    {{"codec.name", "codec.residual", "codec.down"}, {"i4", "i8", "i8"}},
};

pl_status slow_link_parse_rate(const char *text, double *bits_per_s)
{
    static const struct {
        const char *unit;
        double bits;
    } units[] = {{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}};
    char *end;
    double value = strtod(text, &end);
    *bits_per_s = 0;
    for (size_t i = 0; end != text && i < sizeof units / sizeof *units; i++)
        if (strcmp(end, units[i].unit) == 0)
            *bits_per_s = value * units[i].bits;
    if (*bits_per_s >= 1e3 && *bits_per_s <= 1e13)
        return PL_OK;
    return pl_fail(PL_ERR_USAGE,
                   "--link takes the rate of a worker's link, from 1kbit to 10000gbit, "
                   "such as 500kbit or 5mbit, not `%.64s`",
                   text);
}

pl_status slow_link_phase_bytes(const config *c, const pl_topology *t, double *bytes)
{
    pl_arm arm = {.shape = *pl_topology_shape(t), .inner.muon = config_has_muon(c)};
    double up = 0, down = 0;
    *bytes = 0;
    PL_CHECK(config_outer(c, &arm.outer));
    pl_phase_bytes(&arm, t, &up, &down);
    *bytes = up + down;
    return PL_OK;
}
