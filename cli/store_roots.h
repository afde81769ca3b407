/* Finds the versions of a store that `store gc` must keep. */
#ifndef PL_CLI_STORE_ROOTS_H
#define PL_CLI_STORE_ROOTS_H
#include "store/store.h"

typedef struct roots roots;

/* Reads the tags and, for every arm, the versions from which a task may still start or
 * to which an update may be relative. */
pl_status roots_create(pl_store *store, roots **out);
void roots_destroy(roots **roots);
/* Returns why the version must be kept, such as "tag best"; NULL if only the caller's
 * own rules could keep it. The text lives until the next call. */
const char *roots_reason(roots *roots, const pl_version *version);

#endif
