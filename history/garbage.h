/* Frees the data of old versions, or counts the data that would be freed. Some versions
 * keep their data: version 0, the newest versions, young versions, versions that a tag
 * names, and versions from which a task may still start. */
#pragma once
#include "store/store.h"

typedef struct pl_garbage {
    const char *folder; /* folder of the store */
    pl_store *store;    /* the whole store, open for reading; not used with writers */
    int64_t keep;       /* this many newest versions of each module keep their data */
    int64_t grace_ms;   /* versions younger than this keep their data */
} pl_garbage;

/* Frees the data with `writers` (all parts of the store); NULL: only counts. */
pl_status pl_garbage_collect(const pl_garbage *garbage, pl_writers *writers,
                             pl_gc_report *out);
