/* Determines which phases score held-out text, and adds up the scores (held.h). */
#include "outer/held.h"

#include <math.h>

void pl_arm_hold(pl_arm *arm)
{
    const size_t n = arm->n_shards > 0 ? (size_t)arm->n_shards : 1;
    arm->held = pl_alloc(n * sizeof *arm->held);
    arm->held_bytes = pl_alloc(n * sizeof *arm->held_bytes);
}

static bool has_held(const pl_arm *arm, int path)
{
    return arm->held_every > 0 && path >= 0 && path < arm->n_shards &&
           arm->held_bytes[path] > 0;
}

bool pl_held_scores(const pl_arm *arm, int path, int replica, int64_t phase)
{
    return has_held(arm, path) && replica == 0 && phase % arm->held_every == 0;
}

void pl_held_add(pl_held_sum *sum, const pl_arm *arm, int path, double nats)
{
    if (!has_held(arm, path))
        return;
    sum->nats += nats;
    sum->bytes += arm->held_bytes[path];
    sum->n_missing += !(nats > 0);
}

double pl_held_bits(const pl_held_sum *sum)
{
    if (sum->n_missing > 0 || sum->bytes == 0)
        return 0;
    return sum->nats / log(2) / (double)sum->bytes;
}
