/* Which versions a path's phases start from and which merges they contribute to.
 *
 * A merge of a module is a round; round r makes version r + 1. Phases count what a
 * path has done. For most methods phase and round are the same number, and what
 * differs is how old a version may be:
 *
 *   diloco, fedavg, heavy-ball   phase p starts from version p
 *   co2, eager (delay D)         from version max(0, p - D)
 *   noloco                       from the path's own parameters; updates are relative
 *                                to version 0, which everybody has
 *   streaming (F fragments)      one phase is H/F inner steps; phase p sends fragment
 *                                p mod F, in that fragment's round p / F
 *   delayed-nesterov             from whatever version is newest; rounds are arrivals
 *
 * A module with a single contributor is merged as in diloco under every method.
 */
#ifndef PL_OUTER_ROUNDS_H
#define PL_OUTER_ROUNDS_H
#include "outer/arith.h"
#include "outer/arm.h"
#ifdef __cplusplus
extern "C" {
#endif

/* The round of `module` to which a path's phase contributes; -1: to none. Not for
 * delayed-nesterov, whose home numbers the arrivals. */
int64_t pl_round_of(const pl_arm *arm, const pl_topology *t, int module, int64_t phase);
/* The version that an update of this round is relative to. */
uint64_t pl_round_base(const pl_arm *arm, const pl_topology *t, int module,
                       int64_t round);
/* The version that must be there before the phase can begin. */
uint64_t pl_round_needs(const pl_arm *arm, const pl_topology *t, int module,
                        int64_t phase);
/* Streaming: the version that a path takes up `overlap` steps into the phase; 0: none
 * (version 0 is never taken up). Who has no company goes on with its own. */
uint64_t pl_round_takes(const pl_arm *arm, const pl_topology *t, int module,
                        int64_t phase);
/* Versions when all phases are done. */
uint64_t pl_round_count(const pl_arm *arm, const pl_topology *t, int module);
/* Rounds of which contributions may be waiting at the same time. */
int pl_round_window(const pl_arm *arm, const pl_topology *t, int module);
/* Samples of a path's stream that belong to one phase, whether or not all are trained
 * on: phase p has those from p times this on. */
uint64_t pl_phase_samples(const pl_arm *arm);
/* Contributions that make a round whole. */
int pl_round_contributors(const pl_arm *arm, const pl_topology *t, int module);

/* How many of them a round needs before it may be merged without the others; all of
 * them but where the arm has a quorum. */
int pl_round_quorum(const pl_arm *arm, const pl_topology *t, int module);

/* Messages of an update, one behind the other: 1, or 2 under noloco with a consensus
 * weight of its own (what training changed; how far its start is from the base). */
enum { PL_ROUND_VECTORS_MAX = 2 };
int pl_round_vectors(const pl_arm *arm, const pl_topology *t, int module);

/* What the contributors of a round share for encoding; `norm` is the update norm of
 * the version that pl_round_base names. */
pl_codec_round pl_round_codec(const pl_arm *arm, const pl_topology *t, int module,
                              int path, int64_t round, double norm);

/* Who exchanges with training (path, replica) of `module` after `phase` (noloco): the
 * index path * R + replica of the mate, or its own. Other methods: its own. */
PL_MUST_CHECK pl_status pl_round_mate(const pl_arm *arm, const pl_topology *t,
                                      int module, int index, int64_t phase, int *mate);

/* Whether a worker can tell a module's next version from its own update: it is the
 * only contributor, and no momentum is kept. */
bool pl_round_predicts(const pl_arm *arm, const pl_topology *t, int module);
/* The version that the home will make of this message: params, version `round` in, next
 * out, by the home's own arithmetic. *norm is the update norm it will record. */
PL_MUST_CHECK pl_status pl_round_predict(const pl_arm *arm, const pl_topology *t,
                                         int module, int64_t round,
                                         const pl_codec_message *message, float *params,
                                         double *norm);

enum { PL_STATE_I8_BLOCK = 256 }; /* behind each: 2 bytes, the power of two */

/* What travels with a path from phase to phase: vectors over its slots, in this order.
 * -1: the arm has none. */
typedef struct pl_path_layout {
    int n_vectors;
    int residual; /* of lossy codecs: what was not sent yet */
    int params;   /* own parameters: noloco and eager x_i, streaming theta */
    int velocity; /* noloco v_i, eager m_i */
    int last;     /* noloco: own offer, or update of two vectors; eager: own update */
    int before;   /* eager: the update before that; noloco with two: own start */
} pl_path_layout; /* vectors 0 and 1 are AdamW's m and v */
pl_path_layout pl_path_layout_of(const pl_arm *arm);
/* How vector v travels, and in how many bytes. */
pl_state_kind pl_path_kind(const pl_arm *arm, int v);
uint64_t pl_path_vector_bytes(const pl_arm *arm, int v, size_t n_params);
/* Of the blob that the vectors travel as; 0: nothing travels. */
uint64_t pl_path_state_bytes(const pl_arm *arm, size_t n_params);

#ifdef __cplusplus
}
#endif
#endif
