/* Frees the data of old versions, or counts the data that would be freed. Some versions
 * keep their data: version 0, the newest versions, young versions, versions that a tag
 * names, and versions from which a task may still start. */
#ifndef PL_HISTORY_GARBAGE_H
#define PL_HISTORY_GARBAGE_H
#include "store/store.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_garbage {
    const char *folder; /* folder of the store */
    /* the whole store; opened for writing if the store has no parts and
     * pl_garbage_collect gets run = true, otherwise for reading */
    pl_store *store;
    int64_t keep;     /* this many newest versions of each module keep their data */
    int64_t grace_ms; /* versions younger than this keep their data */
} pl_garbage;

/* Frees the data if `run` is true; otherwise only counts the data that would be
 * freed. */
PL_MUST_CHECK pl_status pl_garbage_collect(const pl_garbage *garbage, bool run,
                                           pl_gc_report *out);

#ifdef __cplusplus
}
#endif
#endif
