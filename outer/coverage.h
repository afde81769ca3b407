/* Reads from the store's record on which samples of each path's stream its modules were
 * trained, and checks that no phase was lost or counted twice.
 *
 * Phase p of a path has the samples from p S on, S = pl_phase_samples. In each module
 * to which it contributes it must occur exactly once, as a contribution to a version or
 * as a pending one. A phase that the path has not finished may occur or not. */
#ifndef PL_OUTER_COVERAGE_H
#define PL_OUTER_COVERAGE_H
#include "outer/arm.h"
#include "store/store.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_coverage {
    char path[PL_MODULE_NAME_MAX]; /* "mix/p01.r0" */
    int64_t phases;                /* finished phases */
    uint64_t samples;              /* of those phases */
    uint64_t n_tokens;             /* trained on, targets */
    double passes;                 /* passes over the shard: n_tokens / its targets */
    uint64_t skipped;   /* samples that slower workers left out (dynamic steps) */
    int64_t n_given_up; /* (phase, module) pairs in rounds that a rollback replaced */
    int64_t n_left_out; /* pairs in rounds that a quorum merged without them */
    /* all other pairs of finished phases, each of which must occur once */
    int64_t n_checked;
    /* wrong: the samples are not those of the phase */
    int64_t n_lost, n_repeated, n_wrong;
    char example[256]; /* the first of these, as a sentence; "" if there is none */
} pl_coverage;

/* paths [P*R], by path * R + replica. */
PL_MUST_CHECK pl_status pl_coverage_of(pl_store *store, const pl_arm *arm,
                                       const pl_topology *topology, pl_coverage *paths);

#ifdef __cplusplus
}
#endif
#endif
