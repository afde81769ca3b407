/* Private to workers: a cache of blobs, found by their hashes. The least recently used
 * blobs are dropped first. */
#pragma once
#include "base/base.h"

typedef struct cache cache;
cache *cache_create(uint64_t max_bytes);
void cache_destroy(cache **c);
/* Limits the cache to `max_bytes`. If the cache is larger, drops blobs at once. */
void cache_limit(cache *c, uint64_t max_bytes);
/* Returns the blob, borrowed until the next call that changes the cache. NULL if the
 * cache does not have it. */
const void *cache_get(cache *c, const pl_hash *hash, uint64_t *bytes);
/* Removes the blob from the cache and returns it; the caller must free it with pl_free.
 * NULL if the cache does not have it. */
void *cache_take(cache *c, const pl_hash *hash, uint64_t *bytes);
/* Drops a blob that will not be needed again. */
void cache_drop(cache *c, const pl_hash *hash);
/* Takes ownership of `data`, which pl_free will free. A blob that is larger than the
 * cache's limit, or that the cache has already, is freed at once. */
void cache_put(cache *c, const pl_hash *hash, void *data, uint64_t bytes);
