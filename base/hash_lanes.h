/* Private to hash: BLAKE2b-256 of several pieces at once, one in each lane of a vector.
 *
 * Within one piece, each addition must wait for the result of the previous one. Four or
 * eight pieces at once keep the processor's vector units busy. Each piece gets the same
 * hash as it would alone. */
#pragma once
#include "base/hash.h"
PL_C_BEGIN

/* The instruction sets to use; each includes those before it. */
typedef enum lanes_kind { LANES_NONE, LANES_AVX2, LANES_AVX512 } lanes_kind;

lanes_kind hash_lanes_best(void); /* returns the best instruction set of this machine */
/* Does the work of pl_hash_many with this instruction set, which the machine must have.
 * LANES_NONE hashes one piece after the other. */
void hash_many_with(lanes_kind kind, const char *use, const pl_piece *pieces, size_t n,
                    pl_hash *out);

PL_C_END
