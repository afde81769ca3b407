/* The FORMAT file: what a release must understand to open a store (PROTOCOL 4.2). */
#ifndef PL_STORE_STORE_FORMAT_H
#define PL_STORE_STORE_FORMAT_H
#include "base/base.h"

/* Incompatible features: who does not know them must not open the store. */
enum { FORMAT_CODED_CHUNKS = 1, FORMAT_ENGINE = 2 /* chunks lie where ENGINE says */ };

/* ERR_NOT_FOUND if `folder` holds no store, ERR_UNSUPPORTED if a newer release made
 * it (or one that only newer ones may write, when `to_write`), ERR_DAMAGED. *incompat
 * gets the features in use. */
PL_MUST_CHECK pl_status store_format_check(const char *folder, bool to_write,
                                           uint64_t *incompat);

/* Makes the folder a store with all that this release does by itself, and the features
 * `also`. ERR_EXISTS if it holds other things already. */
PL_MUST_CHECK pl_status store_format_write(const char *folder, uint64_t also);
/* The two halves of it, for who fills the folder in between. */
PL_MUST_CHECK pl_status store_format_refuse_others(const char *folder);
PL_MUST_CHECK pl_status store_format_finish(const char *folder, uint64_t also);

#endif
