/* Private to the worker: what a path keeps between its phases besides the modules'
 * versions (outer/rounds.h, pl_path_layout), and how it changes. Pure arithmetic: the
 * same input gives the same bytes on every worker. */
#ifndef PL_WORKERS_LOCAL_H
#define PL_WORKERS_LOCAL_H
#include "codec/codec.h"
#include "outer/outer.h"
#include "net/net.h"

/* One slot of one path: regions of the path's vectors, [n] each. */
typedef struct local_slot {
    const pl_arm *arm;
    const pl_topology *topology;
    int module, path;
    int64_t phase;
    size_t n;
    const float *base; /* the version that updates are relative to */
    float *params, *velocity, *last, *before; /* of the state; NULL where it has none */
} local_slot;

/* eager and noloco, from the second phase on: the step that ends the phase before.
 * `params` becomes what this phase starts from. */
PL_MUST_CHECK pl_status local_step_eager(const local_slot *s, const float *mean_before);
/* mate: what its update decodes to, or NULL for nobody; mate_start: the second vector
 * where two travel (pl_round_vectors). */
PL_MUST_CHECK pl_status local_step_gossip(const local_slot *s, const float *mate,
                                          const float *mate_start);

/* The update that training from `start` to `now` makes. */
void local_update(const local_slot *s, const float *start, const float *now,
                  float *update);
/* The second vector where two travel: how far the start is from the base. */
void local_update_start(const local_slot *s, const float *start, float *update);
/* Share of what an update leaves out that the path's own parameters hold by themselves,
 * so that the next update has it without a residual: streaming's, which are mixed with
 * the next version and not replaced by it. 0 for all that start from a version. */
float local_carries(const local_slot *s);
/* left: in, what the codec left out of this round's update and residual; out, the
 * residual of the next. before: the residual of this one. */
void local_keep_left(const local_slot *s, const float *before, float *left);
/* After training: `sent`, and `sent_start` where two vectors travel, are what the
 * update was decoded to by whoever receives it. */
void local_keep(const local_slot *s, const float *start, const float *now,
                const float *sent, const float *sent_start);

#endif
