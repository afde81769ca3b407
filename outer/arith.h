/* Where the arithmetic of updates is done: outer steps, meetings, encoding, decoding.
 *
 * Homes and workers go by a table of functions. Vectors lie in the host's memory on the
 * way in and on the way out, and every table gives the same bytes, so a job may change
 * from one to another whenever it likes, also between two rounds. The CPU's is the
 * default; outer/accel.h opens one that takes the vectors to a device and brings the
 * results back.
 *
 * Any thread may use a table. After an error vectors may be partly written.
 */
#ifndef PL_OUTER_ARITH_H
#define PL_OUTER_ARITH_H
#include "outer/codec.h"
#include "outer/gossip.h"
#include "outer/step.h"
#ifdef __cplusplus
extern "C" {
#endif

/* A round's mean and the step with it:
 *
 *   D = sum_i weights[i] messages[i]      in the order of the list
 *   D = D / W, where W > 0                value by value, if `present`
 *   D = D + (params - origin)             unless origin is NULL
 *   D = factor D
 *
 * W is the sum of the weights of those messages that are not 0 there (as in SparseLoCo,
 * arXiv:2508.15706). Of homomorphic messages the sum is taken as pl_codec_add_all does,
 * without weights.
 */
typedef struct pl_arith_merge {
    const pl_outer_step *step;
    pl_outer_state *state;
    size_t n;
    pl_codec_source messages; /* with weights, unless homomorphic */
    bool homomorphic;
    bool present; /* not if homomorphic */
    const float *origin;
    float factor;
} pl_arith_merge;

/* The step of pl_eager_update's result; the vectors of the phase before may be NULL. */
typedef struct pl_arith_eager {
    const pl_outer_step *step;
    pl_outer_state *state;
    size_t n;
    const float *own, *own_before, *mean_before;
    int n_workers;
} pl_arith_eager;

/* pl_gossip_apply_views; or, with one vector, pl_gossip_apply_one of own.update and
 * mate.update, which are offers then. mate.update NULL: a group of one. */
typedef struct pl_arith_meeting {
    const pl_gossip_step *step;
    bool one_vector;
    float *params, *velocity;
    pl_gossip_view own, mate;
    size_t n;
} pl_arith_meeting;

typedef struct pl_arith_encode {
    const pl_codec_options *options;
    const pl_codec_part *parts;
    int n_parts;
    const pl_codec_round *round; /* may be NULL as for pl_codec_encode_module */
    const float *update;
    size_t n;
    float *residual; /* or NULL */
} pl_arith_encode;

/* pl_codec_add. */
typedef struct pl_arith_add {
    pl_codec_message message;
    size_t n;
    float weight;
    float *sum; /* NULL: validation only */
} pl_arith_add;

typedef struct pl_arith {
    const char *name; /* of where: "cpu", or the device's */
    pl_status (*merge)(const struct pl_arith *self, const pl_arith_merge *merge,
                       pl_outer_report *report);
    pl_status (*eager)(const struct pl_arith *self, const pl_arith_eager *eager);
    pl_status (*meet)(const struct pl_arith *self, const pl_arith_meeting *meeting);
    pl_status (*encode)(const struct pl_arith *self, const pl_arith_encode *encode,
                        pl_buf *out); /* appended */
    pl_status (*add)(const struct pl_arith *self, const pl_arith_add *add,
                     double *norm);
} pl_arith;

/* The table that stands for NULL: the CPU's. */
const pl_arith *pl_arith_or_cpu(const pl_arith *arith);

#ifdef __cplusplus
}
#endif
#endif
