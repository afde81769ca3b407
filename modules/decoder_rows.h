/* Private to the decoder: the order in which the rows of a step are computed.
 *
 * The rows of a step may belong to different paths. A block multiplies all rows that
 * use the same module together, so these rows must be adjacent. If they are not, the
 * rows are rearranged before the block:
 *
 *   path    L1  L2     arrangement at L1     at L2
 *   p00     E0  E0     p00 p01 | p10 p11     p00 p10 | p01 p11
 *   p01     E0  E1
 *   p10     E1  E0
 *   p11     E1  E1
 *
 * A point is a place in a path where rows may be rearranged: before each block, and
 * before the head. The embedding needs no arrangement, because it reads one row of a
 * matrix per token. */
#pragma once
#include "modules/model_internal.h"
PL_C_BEGIN

typedef struct decoder_rows {
    const pl_path *paths[PL_DECODER_SLOTS_MAX]; /* [n] in the caller's order of rows */
    int n;
    /* hash of the paths in their order; 0: nothing is planned */
    uint64_t hash;
    int n_arrangements;
    int *at; /* [n_blocks + 1] for each point, the number of its arrangement */
    /* [n_blocks + 2, PL_DECODER_SLOTS_MAX] for each arrangement and row: `who`, the
     * caller's number of the row, and `order`, the row's place in the previous
     * arrangement. The first arrangement is the order of the caller. */
    int32_t (*who)[PL_DECODER_SLOTS_MAX], (*order)[PL_DECODER_SLOTS_MAX];
} decoder_rows;

void decoder_rows_open(decoder_rows *r, int n_blocks);
void decoder_rows_close(decoder_rows *r);
/* Plans the arrangements for paths[0..n), unless the current plan is for the same
 * paths. */
void decoder_rows_plan(decoder_rows *r, int n_blocks);
/* Returns the rows from `first` on that use the same parameters as row `first` at a
 * point; `point` -1 is the embedding. */
model_rows decoder_rows_group(const decoder_rows *r, int n_blocks, int point,
                              int first);

PL_C_END
