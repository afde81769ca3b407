/* Frees the data of old versions, or counts them. Some versions keep their data:
 * version 0, the newest versions, young versions, versions that a tag names, and
 * versions from which a task may still start. */
#ifndef PL_HOME_GARBAGE_H
#define PL_HOME_GARBAGE_H
#include "store/store.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_garbage {
    const char *folder; /* folder of the store */
    /* the whole store, opened for reading; but opened for writing if the store is in
     * one piece and data will be freed */
    pl_store *store;
    int64_t keep;     /* the data of this many newest versions of each module stay */
    int64_t grace_ms; /* the data of versions younger than this stay */
} pl_garbage;

/* Frees the data if `run` is true; otherwise only counts them. */
PL_MUST_CHECK pl_status pl_garbage_collect(const pl_garbage *garbage, bool run,
                                           pl_gc_report *out);

#ifdef __cplusplus
}
#endif
#endif
