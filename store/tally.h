/* A list of hashes that is sorted and then counted: how often each is named.
 *
 * One pass gathers names in any order; the next walks rows in key order and asks. A
 * name takes 32 bytes of memory, and no table has to be sized beforehand. */
#ifndef PL_STORE_TALLY_H
#define PL_STORE_TALLY_H
#include "base/base.h"

typedef struct tally {
    pl_hash *names; /* all zero is an empty list */
    size_t n, cap;
} tally;

void tally_add(tally *t, const pl_hash *name); /* a none hash is left out */
void tally_sort(tally *t);                     /* call it before the first question */
uint64_t tally_count(const tally *t, const pl_hash *name);
/* Gives the name at position *i and how often it occurs, and moves *i past it. False at
 * the end. */
bool tally_next(const tally *t, size_t *i, pl_hash *name, uint64_t *count);
void tally_destroy(tally *t);

#endif
