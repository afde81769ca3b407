/* A list of hashes, which is sorted and then says how often each hash occurs in it.
 *
 * One pass over the store adds hashes in any order; the next pass walks rows in key
 * order and asks. A hash takes 32 bytes of memory, and no table has to be sized
 * beforehand. */
#ifndef PL_STORE_TALLY_H
#define PL_STORE_TALLY_H
#include "base/base.h"

typedef struct tally {
    pl_hash *names; /* the hashes; tally_sort sorts them */
    size_t n, cap;
} tally;

void tally_add(tally *t, const pl_hash *name); /* adds a hash; a zero hash is ignored */
/* sorts the hashes, before the first tally_count or tally_next */
void tally_sort(tally *t);
uint64_t tally_count(const tally *t, const pl_hash *name);
/* Gives the name at position *i and how often it occurs, and moves *i past it. Returns
 * false at the end. */
bool tally_next(const tally *t, size_t *i, pl_hash *name, uint64_t *count);
void tally_destroy(tally *t);

#endif
