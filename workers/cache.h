/* Private to workers: blobs by hash, the least recently used ones dropped first. */
#ifndef PL_WORKERS_CACHE_H
#define PL_WORKERS_CACHE_H
#include "base/base.h"

typedef struct cache cache;
cache *cache_create(uint64_t max_bytes);
void cache_destroy(cache **c);
/* From now on at most so many bytes; what is too much is dropped. */
void cache_limit(cache *c, uint64_t max_bytes);
/* Borrowed until the next call that changes the cache; NULL if not there. */
const void *cache_get(cache *c, const pl_hash *hash, uint64_t *bytes);
/* The same, and the caller owns it: free with pl_free. */
void *cache_take(cache *c, const pl_hash *hash, uint64_t *bytes);
void cache_drop(cache *c, const pl_hash *hash); /* nobody will ask for it again */
/* Takes `data`, which pl_free can free. A blob larger than the whole cache is not kept.
 */
void cache_put(cache *c, const pl_hash *hash, void *data, uint64_t bytes);
#endif
