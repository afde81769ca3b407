/* Private to hash: BLAKE2b-256 of several pieces at once, one in each lane of a vector.
 *
 * One message is a chain of additions, each waiting for the one before; four messages
 * beside each other keep the processor's vector units busy. The hashes are those that
 * each piece has alone. */
#ifndef PL_BASE_HASH_LANES_H
#define PL_BASE_HASH_LANES_H
#include "base/hash.h"
#ifdef __cplusplus
extern "C" {
#endif

/* With which instructions; each includes those before it. */
typedef enum lanes_kind { LANES_NONE, LANES_AVX2, LANES_AVX512 } lanes_kind;

lanes_kind hash_lanes_best(void); /* that this machine has */
/* pl_hash_many with instructions that this machine has; LANES_NONE: one by one. */
void hash_many_with(lanes_kind kind, const char *use, const pl_piece *pieces, size_t n,
                    pl_hash *out);

#ifdef __cplusplus
}
#endif
#endif
