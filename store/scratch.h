/* Private to the store: the folder in which a reader keeps what RocksDB writes beside a
 * database that is another's. It lies under TMPDIR, is locked as long as its reader
 * lives, and goes with it; those of readers that were killed are found by the next. */
#ifndef PL_STORE_SCRATCH_H
#define PL_STORE_SCRATCH_H
#include "base/base.h"

typedef struct scratch {
    char path[PL_PATH_MAX]; /* "": none */
    int lock;
} scratch;

/* Also removes, a few at a time, folders that no reader has and that are a minute old.
 * ERR_IO: TMPDIR is not to be written. */
PL_MUST_CHECK pl_status scratch_make(scratch *out);
void scratch_drop(scratch *s); /* none is fine */

#endif
