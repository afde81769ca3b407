/* Private to the store: the temporary folder in which RocksDB writes for a reader,
 * which may not write into another process's database. The folder lies under TMPDIR, is
 * locked as long as its reader lives, and is removed when the reader closes. Folders of
 * readers that were killed are removed by later readers. */
#ifndef PL_STORE_SCRATCH_H
#define PL_STORE_SCRATCH_H
#include "base/base.h"

typedef struct scratch {
    char path[PL_PATH_MAX]; /* "": there is no folder */
    int lock;
} scratch;

/* Makes the folder. Also removes, a few at a time, folders that no reader has locked
 * and that are at least a minute old. ERR_IO: TMPDIR cannot be written. */
PL_MUST_CHECK pl_status scratch_make(scratch *out);
void scratch_drop(scratch *s); /* does nothing if there is no folder */

#endif
