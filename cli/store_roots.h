/* Which versions of a store must stay: what `store gc` may not touch. */
#ifndef PL_CLI_STORE_ROOTS_H
#define PL_CLI_STORE_ROOTS_H
#include "store/store.h"

typedef struct roots roots;

/* Reads tags, and of every arm what a task may still start from or an update be
 * relative to. */
pl_status roots_create(pl_store *store, roots **out);
void roots_destroy(roots **roots);
/* NULL if nothing but the caller's own rules keeps it, else why: "tag best". The text
 * lives until the next call. */
const char *roots_reason(roots *roots, const pl_version *version);

#endif
