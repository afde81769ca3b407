/* A list in order of use: a worker keeps tens of blobs, never thousands. */
#include "workers/cache.h"

typedef struct entry {
    pl_hash hash;
    void *data;
    uint64_t bytes;
    struct entry *next; /* less recently used */
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
    pl_free_aligned(victim->data);
    pl_free(victim);
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

static void drop_last(cache *c)
{
    entry **at = &c->first;
    while ((*at)->next)
        at = &(*at)->next;
    drop(c, at);
}

void cache_put(cache *c, const pl_hash *hash, const void *data, uint64_t bytes)
{
    if (bytes > c->max_bytes || find_and_raise(c, hash))
        return;
    while (c->first && c->bytes + bytes > c->max_bytes)
        drop_last(c);
    entry *e = pl_alloc(sizeof *e);
    if (pl_try_alloc(bytes ? (size_t)bytes : 1, "a cached blob", &e->data) != PL_OK) {
        pl_free(e); /* a cache may forget */
        return;
    }
    memcpy(e->data, data, (size_t)bytes);
    e->hash = *hash;
    e->bytes = bytes;
    e->next = c->first;
    c->first = e;
    c->bytes += bytes;
}
