/* Finds from the store's records on which samples of each path the path's modules were
 * trained, and checks that no phase was lost or counted twice.
 *
 * Phase p of a path has S samples (pl_phase_samples), numbered from p * S on. Each
 * module to which the phase contributes must have exactly one contribution of this
 * phase, either in a version or pending. If the path has not finished the phase, only
 * some of its modules may have one. */
#pragma once
#include "outer/outer.h"

typedef struct pl_coverage {
    char path[PL_MODULE_NAME_MAX]; /* "mix/p01.r0" */
    int64_t phases;                /* number of finished phases */
    uint64_t samples;              /* number of samples in those phases */
    uint64_t n_tokens;             /* number of targets in those samples */
    /* passes over the shard: n_tokens divided by the shard's number of targets */
    double passes;
    uint64_t skipped; /* samples that slower workers left out (dynamic local steps) */
    /* number of (phase, module) pairs in rounds that a rollback replaced */
    int64_t n_given_up;
    /* (phase, module) pairs whose round was merged by quorum without the update */
    int64_t n_left_out;
    /* all other (phase, module) pairs of finished phases: one contribution each */
    int64_t n_checked;
    /* n_lost: number of checked pairs without a contribution. n_repeated: number of
     * pairs with several contributions, also in phases that are not finished. n_wrong:
     * number of contributions whose samples are not those of a phase of their round; it
     * also counts a path whose number of samples does not fit its phases */
    int64_t n_lost, n_repeated, n_wrong;
    /* number of merged contributions of phases after the one that the path does next;
     * only `forget` makes such records, because it sets paths back further than
     * versions */
    int64_t n_ahead;
    char lost_in[PL_MODULE_NAME_MAX]; /* the first module that lacks one; "" */
    /* a sentence about the first fault; "" if there is no fault */
    char example[256];
} pl_coverage;

/* Fills paths [P*R]; the index is path * R + replica. */
pl_status pl_coverage_of(pl_store *store, const pl_arm *arm,
                         const pl_topology *topology, pl_coverage *paths);
