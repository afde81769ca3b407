/* A list of hashes that counts how often each hash was added.
 *
 * One pass over the store adds hashes in any order. The next pass goes through rows in
 * key order and asks how often each key was added. A hash takes 32 bytes of memory, and
 * the number of hashes need not be known beforehand. */
#pragma once
#include "store/store.h"

typedef struct tally {
    pl_hash *names; /* the hashes; tally_sort sorts them */
    size_t n;
} tally;

void tally_add(tally *t, const pl_hash *name); /* adds a hash; a zero hash is ignored */
void tally_add_version(tally *t, const pl_version *v);
void tally_sort(tally *t);
uint64_t tally_count(const tally *t, const pl_hash *name);
/* Gets the hash at position *i and the number of times that it was added, and moves *i
 * to the next different hash. Returns false at the end. */
bool tally_next(const tally *t, size_t *i, pl_hash *name, uint64_t *count);
void tally_destroy(tally *t);
