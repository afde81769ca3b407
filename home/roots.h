/* Finds the versions of a store that `store gc` must keep. */
#ifndef PL_HOME_ROOTS_H
#define PL_HOME_ROOTS_H
#include "store/store.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_roots pl_roots;

/* Reads the tags and, for every arm, the versions from which a task may still start or
 * to which an update may be relative. */
PL_MUST_CHECK pl_status pl_roots_create(pl_store *store, pl_roots **out);
void pl_roots_destroy(pl_roots **roots);
/* Returns why the version must be kept, such as "tag best"; NULL if neither tags nor
 * training need it. The text is valid until the next call. */
const char *pl_roots_reason(pl_roots *roots, const pl_version *version);

#ifdef __cplusplus
}
#endif
#endif
