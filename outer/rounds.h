/* Which versions a path's phases start from and which merges they contribute to.
 *
 * A merge of a module is a round; round r makes version r + 1. Phases count the work of
 * a path. For most methods phase and round are the same number; the methods differ in
 * how old a version may be:
 *
 *   diloco, iso, fedavg,         phase p starts from version p
 *   heavy-ball
 *   co2, eager (delay D)         from version max(0, p - D)
 *   noloco                       from the path's own parameters; updates are relative
 *                                to version 0, which every worker has
 *   streaming (F fragments)      one phase is H/F inner steps; phase p sends fragment
 *                                p mod F, in that fragment's round p / F
 *   delayed-nesterov             from whatever version is newest; rounds are arrivals
 *
 * A module with a single contributor is merged as in diloco under every method. */
#ifndef PL_OUTER_ROUNDS_H
#define PL_OUTER_ROUNDS_H
#include "outer/arith.h"
#include "outer/arm.h"
#ifdef __cplusplus
extern "C" {
#endif

/* The round of `module` to which a path's phase contributes; -1 if it contributes to no
 * round (always in an arm that scores, and for a frozen module). Under delayed-nesterov
 * the result means nothing, because the home numbers the arrivals. */
int64_t pl_round_of(const pl_arm *arm, const pl_topology *t, int module, int64_t phase);
/* The version that an update of this round is relative to. */
uint64_t pl_round_base(const pl_arm *arm, const pl_topology *t, int module,
                       int64_t round);
/* The version that must exist before the phase can begin. */
uint64_t pl_round_needs(const pl_arm *arm, const pl_topology *t, int module,
                        int64_t phase);
/* Streaming: the version that is mixed into the path's parameters `overlap` steps after
 * the phase began; 0: none. A module with a single contributor continues with its own
 * parameters. */
uint64_t pl_round_takes(const pl_arm *arm, const pl_topology *t, int module,
                        int64_t phase);
/* The number of versions when all phases are done. */
uint64_t pl_round_count(const pl_arm *arm, const pl_topology *t, int module);
/* The number of rounds that may have waiting contributions at the same time. */
int pl_round_window(const pl_arm *arm, const pl_topology *t, int module);
/* The number of samples of a path's stream that belong to one phase, even if not all
 * are trained on: those of phase p begin at p times this number. */
uint64_t pl_phase_samples(const pl_arm *arm);
/* The number of contributions that complete a round. */
int pl_round_contributors(const pl_arm *arm, const pl_topology *t, int module);

/* The number of contributions after which a round may be merged without the others:
 * all, unless the arm has a quorum. */
int pl_round_quorum(const pl_arm *arm, const pl_topology *t, int module);

/* The number of messages in an update: 1, or 2 under noloco if gamma differs from beta
 * (the change made by training, and the distance of its start from the base). */
enum { PL_ROUND_VECTORS_MAX = 2 };
int pl_round_vectors(const pl_arm *arm, const pl_topology *t, int module);

/* The values for encoding that all contributors of a round must share. `norm` is the
 * update norm of the version that pl_round_base names. */
pl_codec_round pl_round_codec(const pl_arm *arm, const pl_topology *t, int module,
                              int path, int64_t round, double norm);

/* noloco: finds the mate in `module` after `phase` of the training (path, replica), as
 * the index path * R + replica; its own index if it has no mate, or if the method is
 * not noloco. */
PL_MUST_CHECK pl_status pl_round_mate(const pl_arm *arm, const pl_topology *t,
                                      int module, int index, int64_t phase, int *mate);

/* Whether a worker can compute a module's next version from its own update: that path
 * is the only contributor, and no momentum is kept. */
bool pl_round_predicts(const pl_arm *arm, const pl_topology *t, int module);
/* Computes the version that the home will make of this message, by the home's own
 * arithmetic. `params` is version `round` on entry and the next one on return. *norm is
 * the update norm that the home will record. */
PL_MUST_CHECK pl_status pl_round_predict(const pl_arm *arm, const pl_topology *t,
                                         int module, int64_t round,
                                         const pl_codec_message *message, float *params,
                                         double *norm);

/* number of values per block of an i8 vector; each block is followed by its power of
 * two, in 2 bytes */
enum { PL_STATE_I8_BLOCK = 256 };

/* The positions of the vectors in a path's state, which is sent from phase to phase; -1
 * if the arm has no such vector. */
typedef struct pl_path_layout {
    int n_vectors; /* number of vectors; 0 if the arm scores */
    int residual;  /* the part of updates that a lossy codec has not sent yet */
    /* the path's own parameters: x_i in noloco and eager, theta in streaming */
    int params;
    int velocity; /* noloco v_i, eager m_i */
    /* the last own vector: noloco's offer (its update if two vectors are sent), eager's
     * update */
    int last;
    /* eager: the update before `last`; noloco with two vectors: x at the phase's
     * start */
    int before;
} pl_path_layout; /* vectors 0 and 1 are the optimizer's m and v */
pl_path_layout pl_path_layout_of(const pl_arm *arm);
/* The number of values of vector v: one per parameter, except that with Muon the second
 * moments omit the matrices that Muon steps (pl_shape_hidden_params). */
size_t pl_path_vector_floats(const pl_arm *arm, int v, size_t n_params);
/* The number of values of both moments together. */
size_t pl_path_moments_floats(const pl_arm *arm, size_t n_params);
/* pl_path_kind returns the form in which vector v is sent, pl_path_vector_bytes its
 * size in bytes. */
pl_state_kind pl_path_kind(const pl_arm *arm, int v);
uint64_t pl_path_vector_bytes(const pl_arm *arm, int v, size_t n_params);
/* The size in bytes of the blob with all vectors; 0 if a path has no state. */
uint64_t pl_path_state_bytes(const pl_arm *arm, size_t n_params);

#ifdef __cplusplus
}
#endif
#endif
