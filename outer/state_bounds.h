/* Checks whether training can produce a path's state from the state before it.
 *
 * A path's state comes from a worker, and the path's next worker continues from it. So
 * each vector of a state must lie within what honest training can reach with the arm's
 * constants. docs/DESIGN.md, "What a state can be", has the proofs.
 *
 * Moments. b1, b2 are AdamW's decays, c is the clip, k the number of steps since the
 * state before, 1 <= k <= K (steps without a target do nothing). For each parameter
 *
 *   m = b1^k m0 + (1 - b1) sum b1^i g_i        v = b2^k v0 + (1 - b2) sum b2^i g_i^2
 *
 *   m^2 <= C v                C = (1 - b1)^2 / ((1 - b2) (1 - b1^2 / b2)), if b1^2 < b2
 *   v >= b2^K v0
 *   sum v <= max(sum v0, largest over k of b2^k sum v0 + (1 - b2^k) c^2)
 *
 * and for Muon's momentum with decay mu, |m| <= max(|m0|, mu^k |m0| + (1 - mu^k) c).
 * Frozen slots keep their moments. A step moves each parameter by at most sqrt(C) times
 * the learning rate (Muon: 0.24 times, as a root mean square), so a phase moves a
 * module of n parameters by at most U (pl_phase_movement).
 *
 * Residuals. The codec leaves out at most the fraction d of what it encodes, so
 * |e| <= d (|w u| + beta |e0|), where u is the update, at most U long.
 *
 * Own parameters. Under streaming they are within U of the parameters before, mixed
 * with the version of the phase. Under noloco own parameters, velocity and offers
 * follow exactly from the state before and from the updates of both mates, so they are
 * computed again.
 *
 * All bounds have room for rounding: of each step in f32, and of each phase to the form
 * in which a vector is sent. */
#pragma once
#include "outer/contract.h"
#include "outer/path_layout.h"

/* number of vectors of the largest slot for which pl_state_check needs memory, if a
 * state has more than moments */
enum { PL_STATE_CHECK_VECTORS = 10 };

/* Where the vectors of a state are. `at` NULL: a vector of zeros. */
typedef struct pl_state_view {
    const uint8_t *at[PL_PATH_VECTORS_MAX];
    pl_state_kind kinds[PL_PATH_VECTORS_MAX];
} pl_state_view;

/* Returns the view of a packed state of pl_path_state_bytes bytes; NULL: all zeros. */
pl_state_view pl_state_view_of(const pl_arm *arm, size_t n_params, const void *packed);

/* Reads what a state follows from. The functions return ERR_NOT_FOUND for what the
 * caller does not have; what depends on it is then not checked. */
typedef struct pl_state_source {
    void *context;
    pl_status (*version)(void *context, int slot, uint64_t number, float *out);
    /* Decodes the update of holder `index` (path * R + replica) in a round, which has
     * of->n_vectors vectors. */
    pl_status (*update)(void *context, int slot, int index, int64_t round, float *out);
    /* Whether the home of the slot's module has decided that the path did not meet its
     * mate after the round. NULL: no pair is ever split. */
    bool (*was_split)(void *context, int slot, int64_t round);
} pl_state_source;

typedef struct pl_state_claim {
    const pl_arm *arm;
    const pl_topology *topology;
    const pl_contract *contracts;
    int path, replica;
    /* the first phase after the state before, and the number of phases since; more than
     * 1 if the states in between were not uploaded */
    int64_t phase;
    int n_phases;
    bool is_known; /* whether `before` is known; if not, it is not read */
    /* whether the path had no state, and began `phase` with versions only */
    bool is_fresh;
    pl_state_view before, after;
    pl_state_source source;
} pl_state_claim;

/* ERR_DATA if training cannot have produced claim->after. An arm that scores has no
 * such state. */
pl_status pl_state_check(const pl_state_claim *claim);

/* Returns U: the largest distance by which a phase can move n parameters whose norm is
 * at most `norm`; INFINITY if the decays give no bound. */
double pl_phase_movement(const pl_arm *arm, int64_t phase, size_t n, double norm);
