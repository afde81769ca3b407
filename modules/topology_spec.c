/* Reads a topology's specification from text, and checks that it is consistent. */
#include "modules/topology_spec.h"
#include <ctype.h>

/* Reads a decimal number at *text and moves past it. Returns -1 if there is no digit,
 * or if there are more than six; every number of six digits fits into an int. */
static int take_number(const char **text)
{
    int value = 0, n_digits = 0;
    for (; isdigit((unsigned char)**text) && n_digits < 7; (*text)++, n_digits++)
        value = value * 10 + (**text - '0');
    return n_digits == 0 || n_digits > 6 ? -1 : value;
}

pl_status pl_topology_parse_levels(const char *text, pl_topology_spec *spec)
{
    const char *at = text;
    int experts[PL_LEVELS_MAX] = {0}, n = 0;
    for (;; at++) {
        int k = take_number(&at);
        if (k < 1)
            return pl_fail(PL_ERR_CONFIG,
                           "levels \"%s\" are not numbers of modules joined by x; "
                           "write for example 2x2, 16x16 or 1",
                           text);
        if (n == PL_LEVELS_MAX)
            return pl_fail(PL_ERR_CONFIG,
                           "\"%s\" has too many levels; a topology can have at most %d",
                           text, PL_LEVELS_MAX);
        experts[n++] = k;
        if (*at != 'x')
            break;
    }
    if (*at != '\0')
        return pl_fail(
            PL_ERR_CONFIG,
            "levels \"%s\" cannot be read from \"%s\" on; write for example 2x2", text,
            at);
    spec->n_levels = n;
    memcpy(spec->experts, experts, sizeof experts);
    return PL_OK;
}

pl_status pl_topology_parse_private(const char *text, int n_blocks,
                                    pl_topology_spec *spec)
{
    bool chosen[PL_BLOCKS_MAX] = {false};
    for (const char *at = text; *at != '\0';) {
        int block = take_number(&at);
        if (block < 0 || (*at != ',' && *at != '\0') || (*at == ',' && at[1] == '\0'))
            return pl_fail(PL_ERR_CONFIG,
                           "private blocks \"%s\" are not numbers joined by commas; "
                           "write for example 0,5,6,11",
                           text);
        if (block >= n_blocks || block >= PL_BLOCKS_MAX)
            return pl_fail(PL_ERR_CONFIG,
                           "private block %d does not exist; the model has %d blocks, "
                           "numbered from 0",
                           block, n_blocks);
        chosen[block] = true;
        at += *at == ',';
    }
    memcpy(spec->private_block, chosen, sizeof chosen);
    return PL_OK;
}

static pl_status check_choice(const char *slot, int choice, int n_levels)
{
    if (choice < PL_CHOICE_PRIVATE || choice > n_levels)
        return pl_fail(PL_ERR_CONFIG,
                       "the choice of %s is %d; it must be a level from 1 to %d, 0 "
                       "(common) or -1 (private)",
                       slot, choice, n_levels);
    return PL_OK;
}

/* If combinations are left out, checks that there are not too many combinations, that
 * the combinations left out exist, and that each expert is in a path. */
static pl_status check_absent(const pl_topology_spec *spec)
{
    const int n_cells = pl_topology_spec_n_cells(spec);
    int n_absent = 0;
    for (int i = 0; i < PL_ABSENT_MAX; i++)
        n_absent += spec->absent[i];
    if (n_absent == 0)
        return PL_OK;
    if (n_cells > PL_ABSENT_MAX)
        return pl_fail(PL_ERR_CONFIG,
                       "this topology leaves out paths; that is possible with at most "
                       "%d combinations of modules, but its levels have %d",
                       (int)PL_ABSENT_MAX, n_cells);
    for (int i = n_cells; i < PL_ABSENT_MAX; i++)
        if (spec->absent[i])
            return pl_fail(PL_ERR_CONFIG,
                           "path %d is left out, but the levels make only %d paths", i,
                           n_cells);
    for (int l = 0, stride = n_cells; l < spec->n_levels; l++) {
        bool used[PL_ABSENT_MAX] = {false};
        stride /= spec->experts[l];
        for (int i = 0; i < n_cells; i++)
            if (!spec->absent[i])
                used[i / stride % spec->experts[l]] = true;
        for (int e = 0; e < spec->experts[l]; e++)
            if (!used[e])
                return pl_fail(PL_ERR_CONFIG,
                               "no path uses module %d of level %d; keep at least one "
                               "path that uses it",
                               e, l + 1);
    }
    return PL_OK;
}

pl_status topology_spec_complete(const pl_shape *shape, const pl_topology_spec *spec,
                                 pl_topology_spec *out)
{
    const int n_blocks = shape->n_blocks;
    if (spec->n_levels < 1 || spec->n_levels > PL_LEVELS_MAX)
        return pl_fail(PL_ERR_CONFIG, "the topology has %d levels; it must have 1..%d",
                       spec->n_levels, PL_LEVELS_MAX);
    int64_t paths = 1;
    for (int l = 0; l < spec->n_levels; l++) {
        if (spec->experts[l] < 1)
            return pl_fail(PL_ERR_CONFIG,
                           "level %d has %d modules; it needs at least 1", l + 1,
                           spec->experts[l]);
        paths *= spec->experts[l];
        if (paths > PATHS_MAX)
            return pl_fail(PL_ERR_CONFIG,
                           "levels 1..%d make more than %d paths; use fewer modules",
                           l + 1, PATHS_MAX);
    }
    if (spec->replicas < 1 || spec->replicas > REPLICAS_MAX)
        return pl_fail(PL_ERR_CONFIG, "replicas is %d; it must be between 1 and %d",
                       spec->replicas, REPLICAS_MAX);
    PL_CHECK(check_choice("the embedding", spec->embed_choice, spec->n_levels));
    PL_CHECK(check_choice("the head", spec->head_choice, spec->n_levels));
    PL_CHECK(check_absent(spec));

    /* If all of blocks[] are 0, each level gets the same number of blocks. */
    *out = *spec;
    int64_t sum = 0;
    for (int l = 0; l < spec->n_levels; l++)
        sum += spec->blocks[l];
    if (sum == 0) {
        if (n_blocks % spec->n_levels != 0)
            return pl_fail(PL_ERR_CONFIG,
                           "%d blocks do not split evenly into %d levels; give the "
                           "blocks of each level, or a different number of blocks",
                           n_blocks, spec->n_levels);
        for (int l = 0; l < spec->n_levels; l++)
            out->blocks[l] = n_blocks / spec->n_levels;
        sum = n_blocks;
    }
    for (int l = 0; l < spec->n_levels; l++)
        if (out->blocks[l] < 1)
            return pl_fail(PL_ERR_CONFIG, "level %d has %d blocks; it needs at least 1",
                           l + 1, out->blocks[l]);
    if (sum != n_blocks)
        return pl_fail(
            PL_ERR_CONFIG,
            "the levels have %lld blocks in all, but the model has %d; make them equal",
            (long long)sum, n_blocks);
    for (int b = n_blocks; b < PL_BLOCKS_MAX; b++)
        if (out->private_block[b])
            return pl_fail(PL_ERR_CONFIG,
                           "private block %d does not exist; the model has %d blocks",
                           b, n_blocks);
    /* a level whose blocks are all private would have no modules to choose */
    for (int l = 0, b = 0; l < out->n_levels; l++) {
        int n_shared = 0;
        for (int end = b + out->blocks[l]; b < end; b++)
            n_shared += !out->private_block[b];
        if (n_shared == 0)
            return pl_fail(PL_ERR_CONFIG,
                           "all %d blocks of level %d are private; leave one shared, "
                           "or use one level with a module for each path",
                           out->blocks[l], l + 1);
    }
    return PL_OK;
}
