/* Computes the bytes of a phase of a path (link.h). */
#include "job/link.h"

#include <stdlib.h>

/* The first level changes nothing. The second one does not change results: the state
 * then has less than a tenth of the bytes of updates and versions. The third one has no
 * measured loss (docs/results/outer.md) and no random or timing-dependent part. */
const link_level link_levels[LINK_LEVELS] = {
    {{NULL}, {NULL}},
    {{"train.state_every"}, {"10"}},
    {{"codec.name", "codec.residual", "codec.down"}, {"i4", "i8", "i8"}},
};

pl_status link_parse_rate(const char *text, double *bits_per_s)
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

static double bound_of(const pl_codec_options *codec, const pl_topology *t, int module)
{
    int n = pl_codec_parts(t, module, NULL);
    pl_codec_part *parts = pl_alloc((size_t)n * sizeof *parts);
    (void)pl_codec_parts(t, module, parts);
    double bytes = (double)pl_codec_bound(codec, parts, n, 1);
    pl_free(parts);
    return bytes;
}

pl_status link_phase_bytes(const config *c, const pl_topology *t, double *bytes)
{
    pl_arm arm = {.shape = *pl_topology_shape(t), .inner.muon = config_has_muon(c)};
    *bytes = 0;
    PL_CHECK(config_outer(c, &arm.outer));
    const int every = arm.outer.state_every > 1 ? arm.outer.state_every : 1;
    const bool whole = arm.outer.down.codec[PL_ROLE_MLP] <= PL_CODEC_F32;
    for (int slot = 0; slot < pl_topology_n_slots(t); slot++) {
        const int module = pl_topology_module_of_path(t, slot, 0);
        const double params = (double)pl_topology_slot(t, slot)->n_params;
        *bytes += bound_of(&arm.outer.codec, t, module);
        *bytes += whole ? params * sizeof(float) : bound_of(&arm.outer.down, t, module);
    }
    *bytes += (double)pl_path_state_bytes(&arm, pl_topology_path_params(t)) / every;
    return PL_OK;
}
