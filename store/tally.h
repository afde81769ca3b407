/* A list of hashes that is sorted and counted: who is named how often.
 *
 * One pass gathers names in any order, the next walks rows in key order and asks;
 * memory is 32 bytes a name, and no table has to be sized beforehand. */
#ifndef PL_STORE_TALLY_H
#define PL_STORE_TALLY_H
#include "base/base.h"

typedef struct tally {
    pl_hash *names; /* all zero is an empty one */
    size_t n, cap;
} tally;

void tally_add(tally *t, const pl_hash *name); /* a none hash is left out */
void tally_sort(tally *t);                     /* before the first question */
uint64_t tally_count(const tally *t, const pl_hash *name);
/* The name at position *i, and how often it stands there; moves *i behind it. False at
 * the end. */
bool tally_next(const tally *t, size_t *i, pl_hash *name, uint64_t *count);
void tally_destroy(tally *t);

#endif
