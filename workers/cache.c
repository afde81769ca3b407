/* Keeps blobs in a list in order of use (cache.h). A list is fast enough, because a
 * worker has tens of blobs, never thousands. */
#include "workers/cache.h"

typedef struct entry {
    pl_hash hash;
    void *data;
    uint64_t bytes;
    struct entry *next; /* the next entry, which was used less recently */
} entry;

struct cache {
    entry *first;
    uint64_t bytes, max_bytes;
};

cache *cache_create(uint64_t max_bytes)
{
    cache *c = pl_alloc(sizeof *c);
    c->max_bytes = max_bytes;
    return c;
}

static void drop(cache *c, entry **at)
{
    entry *victim = *at;
    *at = victim->next;
    c->bytes -= victim->bytes;
    pl_free_all(victim->data, victim);
}

void cache_destroy(cache **c)
{
    if (!*c)
        return;
    while ((*c)->first)
        drop(*c, &(*c)->first);
    pl_free(*c);
    *c = NULL;
}

static entry *find_and_raise(cache *c, const pl_hash *hash)
{
    for (entry **at = &c->first; *at; at = &(*at)->next)
        if (pl_hash_equal(&(*at)->hash, hash)) {
            entry *found = *at;
            *at = found->next;
            found->next = c->first;
            c->first = found;
            return found;
        }
    return NULL;
}

const void *cache_get(cache *c, const pl_hash *hash, uint64_t *bytes)
{
    entry *e = find_and_raise(c, hash);
    if (!e)
        return NULL;
    *bytes = e->bytes;
    return e->data;
}

void *cache_take(cache *c, const pl_hash *hash, uint64_t *bytes)
{
    entry *e = find_and_raise(c, hash);
    if (!e)
        return NULL;
    void *data = e->data;
    *bytes = e->bytes;
    e->data = NULL;
    drop(c, &c->first);
    return data;
}

void cache_drop(cache *c, const pl_hash *hash)
{
    uint64_t bytes;
    pl_free(cache_take(c, hash, &bytes));
}

static void drop_last(cache *c)
{
    entry **at = &c->first;
    while ((*at)->next)
        at = &(*at)->next;
    drop(c, at);
}

void cache_limit(cache *c, uint64_t max_bytes)
{
    c->max_bytes = max_bytes;
    while (c->bytes > max_bytes)
        drop_last(c);
}

void cache_put(cache *c, const pl_hash *hash, void *data, uint64_t bytes)
{
    if (bytes > c->max_bytes || find_and_raise(c, hash)) {
        pl_free(data);
        return;
    }
    while (c->first && c->bytes + bytes > c->max_bytes)
        drop_last(c);
    entry *e = pl_alloc(sizeof *e);
    *e = (entry){*hash, data, bytes, c->first};
    c->first = e;
    c->bytes += bytes;
}
