/* Implements the list of hashes of tally.h: a growing array, which is sorted once and
 * then searched by binary search. Garbage collection, audits and copies of a store
 * count references with it. */
#include "store/tally.h"
#include <stdlib.h>
#include <string.h>

void tally_add(tally *t, const pl_hash *name)
{
    if (pl_hash_none(name))
        return;
    t->names = pl_grow_items(t->names, t->n, t->n + 1, sizeof *t->names);
    t->names[t->n++] = *name;
}

void tally_add_version(tally *t, const pl_version *v)
{
    if (!v->params_gone)
        tally_add(t, &v->params);
    tally_add(t, &v->momentum);
    tally_add(t, &v->change);
    for (int i = 0; v->has_updates && i < v->n_contributions; i++)
        tally_add(t, &v->contributions[i].update);
}

static int by_hash_bytes(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(pl_hash));
}

void tally_sort(tally *t)
{
    if (t->n > 1)
        qsort(t->names, t->n, sizeof *t->names, by_hash_bytes);
}

uint64_t tally_count(const tally *t, const pl_hash *name)
{
    size_t at = 0, to = t->n;
    while (at < to) {
        size_t middle = at + (to - at) / 2;
        if (by_hash_bytes(&t->names[middle], name) < 0)
            at = middle + 1;
        else
            to = middle;
    }
    const size_t first = at; /* the first hash that is not less than `name` */
    while (at < t->n && pl_hash_equal(&t->names[at], name))
        at++;
    return at - first;
}

bool tally_next(const tally *t, size_t *i, pl_hash *name, uint64_t *count)
{
    size_t first = *i;
    if (first >= t->n)
        return false;
    *name = t->names[first];
    while (*i < t->n && pl_hash_equal(&t->names[*i], name))
        ++*i;
    *count = *i - first;
    return true;
}

void tally_destroy(tally *t)
{
    pl_free(t->names);
    memset(t, 0, sizeof *t);
}
