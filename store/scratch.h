/* Private to the store: the temporary folder of a reader. RocksDB needs a folder into
 * which it can write, and a reader must not write into the writer's folder. The
 * temporary folder is under TMPDIR, is locked while the reader runs, and is removed
 * when the reader closes the store. Folders of readers that were killed are removed by
 * later readers. */
#pragma once
#include "base/base.h"

typedef struct scratch {
    char path[PL_PATH_MAX]; /* "": there is no folder */
    int lock;
} scratch;

/* Makes the folder. Also removes, a few at a time, folders that no reader has locked
 * and that are at least a minute old. ERR_IO: TMPDIR cannot be written. */
pl_status scratch_make(scratch *out);
void scratch_drop(scratch *s); /* does nothing if there is no folder */
