/* One round of a module: the weighted mean of its messages, and the outer step with
 * that mean.
 *
 * The functions are pure and any thread may call them. After an error the state's
 * vectors may be partly written. */
#pragma once
#include "codec/codec.h"
#include "outer/iso.h"
#include "outer/step.h"

/* The inputs of pl_arith_step, which computes the following (a message is an encoded
 * update):
 *
 *   D = sum_i weights[i] messages[i]      in the order of the list
 *   D = D / W, where W > 0                value by value, if `present`
 *   D = D + (params - origin)             unless origin is NULL
 *   D = factor D
 *   D = D with equal singular values in each of `matrices` (outer/iso.h)
 *
 * W has for each value the sum of the weights of the messages in which this value is
 * not 0 (as in SparseLoCo, arXiv:2508.15706). Homomorphic messages are added by
 * pl_codec_add_all, without weights, because they were multiplied by their weights when
 * they were encoded. */
typedef struct pl_arith_merge {
    const pl_outer_step *step;
    pl_outer_state *state;
    size_t n;
    /* the messages, with weights unless they are homomorphic */
    pl_codec_source messages;
    bool homomorphic;
    bool present;        /* whether to divide by W; false for homomorphic messages */
    const float *origin; /* [n], or NULL */
    float factor;
    const pl_iso_matrix *matrices; /* [n_matrices]; n_matrices is 0 except for iso */
    int n_matrices;
} pl_arith_merge;

/* Computes D and takes the outer step. report->mean_norm is the norm of D before its
 * singular values were changed. */
pl_status pl_arith_step(const pl_arith_merge *merge, pl_outer_report *report);
