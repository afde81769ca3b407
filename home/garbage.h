/* Frees the data of old versions, or counts them. The data stay of version 0, of the
 * newest versions, of young versions, and of versions that a tag names or from which a
 * task may still start. */
#ifndef PL_HOME_GARBAGE_H
#define PL_HOME_GARBAGE_H
#include "store/store.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_garbage {
    const char *folder; /* folder of the store */
    /* the whole store, opened for reading; a store in one piece whose data are to be
     * freed is opened for writing */
    pl_store *store;
    int64_t keep;     /* number of newest versions of each module whose data stay */
    int64_t grace_ms; /* age below which the data of a version stay */
} pl_garbage;

/* With `run` frees the data, else only counts them. */
PL_MUST_CHECK pl_status pl_garbage_collect(const pl_garbage *garbage, bool run,
                                           pl_gc_report *out);

#ifdef __cplusplus
}
#endif
#endif
