/* Private to hash: BLAKE2b-256 of several pieces at once, one in each lane of a vector.
 *
 * Within one piece, each addition must wait for the result of the previous one. Four or
 * eight pieces at once keep the processor's vector units busy. Each piece gets the same
 * hash as it would alone. */
#pragma once
#include "base/hash.h"
#include "base/isa.h"
PL_C_BEGIN

/* Does the work of pl_hash_many with this instruction set, which the machine must have.
 * PL_ISA_PORTABLE hashes one piece after the other. */
void hash_many_with(pl_isa isa, const char *use, const pl_piece *pieces, size_t n,
                    pl_hash *out);

PL_C_END
