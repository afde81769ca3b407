/* What a path computes for one of its modules between two phases: the parameters with
 * which it begins, the update that it sends, and the vectors that it keeps in addition
 * to versions (pl_path_layout). All functions are pure: the same input gives the same
 * bytes on every worker. */
#pragma once
#include "outer/contract.h"

/* A module of one path. Each vector of the path is represented by its part that belongs
 * to this module; all have of->n_params values. */
typedef struct pl_holder {
    const pl_contract *of;
    int path;
    int64_t phase;
    const float *base; /* the version that updates are relative to */
    /* parts of vectors of the path's state; NULL if the method needs no such vector */
    float *params, *velocity, *last, *before;
} pl_holder;

/* Computes the parameters with which training begins. If the method's paths step by
 * themselves, takes the outer step after the previous phase. mate: the mate's decoded
 * update, NULL if the path met no mate; mate_start: the second vector of that update,
 * if updates have two vectors. ERR_NOMEM. */
pl_status pl_holder_begin(const pl_holder *h, const float *mate,
                          const float *mate_start, float *start);

void pl_holder_update(const pl_holder *h, const float *start, const float *now,
                      float *update);
/* Computes the update's second vector, if two are sent: the base minus the start. */
void pl_holder_update_start(const pl_holder *h, const float *start, float *update);
/* streaming: local = mix local + (1 - mix) merged. With mix 0 `local` becomes `merged`;
 * with mix 1 it does not change. */
void pl_streaming_mix(float *local, const float *merged, double mix, size_t n);
/* Computes the residual for the next round. left: on entry, the part of this round's
 * update plus residual that the codec left out; on return, the new residual. before:
 * the residual of this round.
 *
 * of->carries is the fraction of the left-out part that the next update contains
 * anyway, because the path's own parameters still contain it: with streaming the mixing
 * factor, or 1 for a module with one contributor; otherwise 0. Only the rest goes into
 * the residual. */
void pl_holder_keep_left(const pl_holder *h, const float *before, float *left);
/* Writes the data that the next phase needs to the path's vectors. Call this after
 * training. `sent` is the update as the receiver decodes it; `sent_start` is the second
 * vector of the update, if two vectors are sent. */
void pl_holder_keep(const pl_holder *h, const float *start, const float *now,
                    const float *sent, const float *sent_start);
