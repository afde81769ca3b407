/* Private to the worker: the vectors that a path keeps between its phases in addition
 * to the modules' versions (outer/rounds.h, pl_path_layout), and how they change. The
 * functions are pure arithmetic: equal input gives equal bytes on every worker. */
#ifndef PL_WORKERS_LOCAL_H
#define PL_WORKERS_LOCAL_H
#include "codec/codec.h"
#include "outer/outer.h"
#include "net/net.h"

/* One slot of one path, with the slot's part [n] of each of the path's vectors. */
typedef struct local_slot {
    const pl_arm *arm;
    const pl_topology *topology;
    int module, path;
    int64_t phase;
    size_t n;
    const float *base; /* the version that updates are relative to */
    /* the slot's parts of vectors of the path's state; NULL: the state lacks the
     * vector */
    float *params, *velocity, *last, *before;
} local_slot;

/* Takes the step that ends the previous phase, for eager and noloco, from the second
 * phase on. `params` becomes the start of this phase. */
PL_MUST_CHECK pl_status local_step_eager(const local_slot *s, const float *mean_before);
/* mate: the mate's decoded update, or NULL if there is none. mate_start: the mate's
 * second vector, if two are sent (pl_round_vectors). */
PL_MUST_CHECK pl_status local_step_gossip(const local_slot *s, const float *mate,
                                          const float *mate_start);

/* Computes the update that training from `start` to `now` makes. */
void local_update(const local_slot *s, const float *start, const float *now,
                  float *update);
/* Computes the second vector, if two are sent: the base minus the start. */
void local_update_start(const local_slot *s, const float *start, float *update);
/* The fraction of the codec's error that the next update contains without a residual,
 * because the path's own parameters still have it. Only the rest goes into the
 * residual. Streaming: its mixing factor (1 for a module with one contributor). 0 for
 * all other methods. */
float local_carries(const local_slot *s);
/* left: on entry the part of this round's update and residual that the codec left out,
 * on return the residual for the next round. before: the residual of this round. */
void local_keep_left(const local_slot *s, const float *before, float *left);
/* Call this after training. `sent` (and `sent_start` if two vectors are sent) is the
 * update as its receiver decodes it. */
void local_keep(const local_slot *s, const float *start, const float *now,
                const float *sent, const float *sent_start);

#endif
