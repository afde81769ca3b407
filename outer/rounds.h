/* Computes from which versions the phases of a path start, and to which rounds of its
 * modules they contribute.
 *
 * A merge of a module is called a round; round r makes version r + 1. The work of a
 * path is divided into phases. For most methods phase and round have the same number.
 * The methods differ in how old the version may be from which a phase starts:
 *
 *   diloco, iso, fedavg,         phase p starts from version p
 *   heavy-ball
 *   co2, eager (delay D)         phase p starts from version max(0, p - D)
 *   noloco                       a phase starts from the path's own parameters; updates
 *                                are relative to version 0, which every worker has
 *   streaming (F fragments)      H is the number of inner steps between two merges of a
 *                                fragment; a phase is H/F inner steps; phase p sends
 *                                fragment p mod F, in that fragment's round p / F
 *   delayed-nesterov             a phase starts from the newest version; each arrival
 *                                of an update is a round
 *
 * A module with a single contributor is merged as in diloco under every method. */
#ifndef PL_OUTER_ROUNDS_H
#define PL_OUTER_ROUNDS_H
#include "outer/arith.h"
#include "outer/arm.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Returns the round of `module` to which a phase contributes, or -1 if the phase
 * contributes to no round. It is always -1 in an arm that scores, and for a frozen
 * module. Do not use the result under delayed-nesterov, because there the home numbers
 * the rounds as updates arrive. */
int64_t pl_round_of(const pl_arm *arm, const pl_topology *t, int module, int64_t phase);
/* Returns the version to which an update of this round is relative. */
uint64_t pl_round_base(const pl_arm *arm, const pl_topology *t, int module,
                       int64_t round);
/* Returns the version that must exist before the phase can begin. */
uint64_t pl_round_needs(const pl_arm *arm, const pl_topology *t, int module,
                        int64_t phase);
/* Streaming: returns the version that is mixed into the path's parameters `overlap`
 * steps after the start of the phase; 0 if no version is mixed in. For a module with a
 * single contributor it is always 0, because the path continues with its own
 * parameters. */
uint64_t pl_round_takes(const pl_arm *arm, const pl_topology *t, int module,
                        int64_t phase);
/* Returns the number of rounds of a module when all phases are done, which is also the
 * number of the module's last version. */
uint64_t pl_round_count(const pl_arm *arm, const pl_topology *t, int module);
/* Returns for how many rounds of a module the home accepts contributions at the same
 * time. */
int pl_round_window(const pl_arm *arm, const pl_topology *t, int module);
/* Returns the number of samples per phase of a path. The samples of phase p begin at p
 * times this number, even if some samples of earlier phases were left out. */
uint64_t pl_phase_samples(const pl_arm *arm);
/* Returns the number of contributions that complete a round. */
int pl_round_contributors(const pl_arm *arm, const pl_topology *t, int module);

/* Returns the number of contributions after which a round can be merged without the
 * missing ones. It is the number of all contributions unless the arm has a quorum. */
int pl_round_quorum(const pl_arm *arm, const pl_topology *t, int module);

/* Returns the number of messages in an update. It is 1, or 2 under noloco if gamma
 * differs from beta (outer/gossip.h). The two messages are the change made by the
 * phase, and the difference between the parameters at the start of the phase and the
 * base. */
enum { PL_ROUND_VECTORS_MAX = 2 };
int pl_round_vectors(const pl_arm *arm, const pl_topology *t, int module);

/* Returns the values with which the codec encodes the path's update in this round. All
 * values except the weight must be equal for all contributors. `norm` is the update
 * norm of version pl_round_base. */
pl_codec_round pl_round_codec(const pl_arm *arm, const pl_topology *t, int module,
                              int path, int64_t round, double norm);

/* noloco: finds the mate that a path and replica meets in `module` after `phase`.
 * `index` and *mate are path * R + replica. *mate equals `index` if there is no mate,
 * or if the method is not noloco. */
PL_MUST_CHECK pl_status pl_round_mate(const pl_arm *arm, const pl_topology *t,
                                      int module, int index, int64_t phase, int *mate);

/* Returns whether a worker can compute a module's next version from its own update.
 * This is possible if the worker's path is the only contributor and no momentum is
 * kept. */
bool pl_round_predicts(const pl_arm *arm, const pl_topology *t, int module);
/* Computes the version that the home will make from this message, with the same
 * arithmetic as the home. `params` is version `round` on entry and version `round` + 1
 * on return. *norm gets the update norm that the home will record. */
PL_MUST_CHECK pl_status pl_round_predict(const pl_arm *arm, const pl_topology *t,
                                         int module, int64_t round,
                                         const pl_codec_message *message, float *params,
                                         double *norm);

/* number of values per block of an i8 vector; each block is followed by 2 bytes with an
 * exponent e, and its scale is 2^e */
enum { PL_STATE_I8_BLOCK = 256 };

/* The positions of the vectors in a path's state, which is passed from phase to phase.
 * A position is -1 if the arm has no such vector. */
typedef struct pl_path_layout {
    int n_vectors; /* number of vectors; 0 if the arm scores */
    int residual;  /* the part of updates that a lossy codec has not sent yet */
    /* the path's own parameters: x_i in noloco and eager, the local parameters in
     * streaming */
    int params;
    int velocity; /* noloco v_i, eager m_i */
    /* the last vector that the path has sent: in noloco the offer (or the update, if
     * two vectors are sent), in eager the update */
    int last;
    /* in eager the update before `last`; in noloco with two vectors, x at the start of
     * the phase */
    int before;
} pl_path_layout; /* vectors 0 and 1 are the optimizer's m and v */
pl_path_layout pl_path_layout_of(const pl_arm *arm);
/* Returns the number of values of vector v. It is one per parameter, except that with
 * Muon the second moments have no values for the matrices that Muon updates
 * (pl_shape_hidden_params). */
size_t pl_path_vector_floats(const pl_arm *arm, int v, size_t n_params);
/* Returns the number of values of both moments together. */
size_t pl_path_moments_floats(const pl_arm *arm, size_t n_params);
/* pl_path_kind returns the form in which vector v is sent, pl_path_vector_bytes its
 * size in bytes. */
pl_state_kind pl_path_kind(const pl_arm *arm, int v);
uint64_t pl_path_vector_bytes(const pl_arm *arm, int v, size_t n_params);
/* Returns the size in bytes of the blob with all vectors; 0 if a path has no state. */
uint64_t pl_path_state_bytes(const pl_arm *arm, size_t n_params);

/* Returns whether a phase can be done again later with the same result, from data that
 * the homes keep. */
bool pl_phase_repeats(const pl_outer *outer);
/* Returns whether the state that a path has after `phase` phases must be uploaded
 * (pl_outer.state_every). */
bool pl_phase_uploads(const pl_arm *arm, int64_t phase);
/* Returns the bytes that a worker sends and fetches per phase if it stays with a path,
 * as means over many phases: its updates and its state (pl_outer.state_every), and the
 * new versions. Updates that are compressed may be smaller. */
void pl_phase_bytes(const pl_arm *arm, const pl_topology *topology, double *up,
                    double *down);

#ifdef __cplusplus
}
#endif
#endif
