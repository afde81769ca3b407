/* Private to the worker: computes the vectors that a path keeps between its phases in
 * addition to the versions of modules (outer/rounds.h, pl_path_layout). The functions
 * only compute: the same input gives the same bytes on every worker. */
#ifndef PL_WORKERS_LOCAL_H
#define PL_WORKERS_LOCAL_H
#include "codec/codec.h"
#include "outer/outer.h"
#include "net/net.h"

/* One slot of one path. Each vector of the path is represented by its part [n] that
 * belongs to this slot. */
typedef struct local_slot {
    const pl_arm *arm;
    const pl_topology *topology;
    int module, path;
    int64_t phase;
    size_t n;
    const float *base; /* the version that updates are relative to */
    /* parts of vectors of the path's state; NULL if the method needs no such vector */
    float *params, *velocity, *last, *before;
} local_slot;

/* For noloco, from the second phase on: takes the outer step after the previous phase.
 * s->params becomes the start of this phase. mate: the mate's decoded update, or NULL
 * if the path met no mate. mate_start: the second vector of the mate's update, if
 * updates have two vectors (pl_round_vectors). */
PL_MUST_CHECK pl_status local_step_gossip(const local_slot *s, const float *mate,
                                          const float *mate_start);

/* Computes the update that training from `start` to `now` makes. */
void local_update(const local_slot *s, const float *start, const float *now,
                  float *update);
/* Computes the second vector of the update, if two vectors are sent: the base minus the
 * start. */
void local_update_start(const local_slot *s, const float *start, float *update);
/* A codec leaves out a part of an update. Returns the fraction of this part that the
 * next update contains anyway, because the path's own parameters still contain it. Only
 * the rest goes into the residual. With streaming the fraction is the mixing factor, or
 * 1 for a module with one contributor. With all other methods it is 0. */
float local_carries(const local_slot *s);
/* Computes the residual for the next round. left: on entry, the part of this round's
 * update plus residual that the codec left out; on return, the new residual. before:
 * the residual of this round. */
void local_keep_left(const local_slot *s, const float *before, float *left);
/* Writes the data that the next phase needs to the path's vectors. Call this after
 * training. `sent` is the update as the receiver decodes it; `sent_start` is the second
 * vector of the update, if two vectors are sent. */
void local_keep(const local_slot *s, const float *start, const float *now,
                const float *sent, const float *sent_start);

#endif
