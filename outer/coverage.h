/* Reads from the store's records on which samples of each path's stream its modules
 * were trained, and checks that no phase was lost or counted twice.
 *
 * Phase p of a path has S = pl_phase_samples samples, from number p S on. In each
 * module to which the phase contributes it must occur exactly once, as a contribution
 * to a version or as a pending one. A phase that the path has not finished may occur or
 * not. */
#ifndef PL_OUTER_COVERAGE_H
#define PL_OUTER_COVERAGE_H
#include "outer/arm.h"
#include "store/store.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_coverage {
    char path[PL_MODULE_NAME_MAX]; /* "mix/p01.r0" */
    int64_t phases;                /* number of finished phases */
    uint64_t samples;              /* number of samples in those phases */
    uint64_t n_tokens;             /* number of targets that they trained on */
    double passes;                 /* passes over the shard: n_tokens / its targets */
    uint64_t skipped;   /* samples that slower workers left out (dynamic steps) */
    int64_t n_given_up; /* (phase, module) pairs in rounds that a rollback replaced */
    int64_t n_left_out; /* pairs in rounds that a quorum merged without them */
    /* all other (phase, module) pairs of finished phases, each of which must occur
     * once */
    int64_t n_checked;
    /* of the checked pairs: missing, repeated, and with samples of another phase */
    int64_t n_lost, n_repeated, n_wrong;
    /* the first of these faults, as a sentence; "" if there is none */
    char example[256];
} pl_coverage;

/* Fills paths [P*R], indexed by path * R + replica. */
PL_MUST_CHECK pl_status pl_coverage_of(pl_store *store, const pl_arm *arm,
                                       const pl_topology *topology, pl_coverage *paths);

#ifdef __cplusplus
}
#endif
#endif
