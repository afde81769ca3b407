/* Private to workers: blobs by hash, the least recently used ones dropped first. */
#ifndef PL_WORKERS_CACHE_H
#define PL_WORKERS_CACHE_H
#include "base/base.h"

typedef struct cache cache;
cache *cache_create(uint64_t max_bytes);
void cache_destroy(cache **c);
/* Borrowed until the next cache_put; NULL if not there. */
const void *cache_get(cache *c, const pl_hash *hash, uint64_t *bytes);
/* Copies. A blob larger than the whole cache is not kept. */
void cache_put(cache *c, const pl_hash *hash, const void *data, uint64_t bytes);
#endif
