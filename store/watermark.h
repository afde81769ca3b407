/* The high-water mark: the newest commit that is known to be on disk (PROTOCOL 4.3).
 *
 * If synced commits at the end of a write-ahead log are lost, RocksDB opens the log
 * without any error. To detect this, the number of the newest acknowledged commit is
 * also kept in a separate file. It has two slots, written in turn. */
#pragma once
#include "base/base.h"

typedef struct watermark {
    uint64_t sequence, epoch; /* number of the commit; the store's epoch */
    pl_hash log;              /* hash of the commit's log row */
} watermark;

typedef struct watermark_file {
    int fd;   /* file descriptor; -1 if the file is closed */
    int slot; /* the slot that holds the newest mark */
    char path[PL_PATH_MAX];
} watermark_file;

/* Reads the newest mark of the store in `folder`. *found: there is a file. ERR_DAMAGED:
 * no valid slot. */
pl_status watermark_load(const char *folder, watermark *out, bool *found);

/* Makes the file with only this mark; replaces a file, even with a higher mark. */
pl_status watermark_make(const char *folder, const watermark *mark);
/* Opens the file for writing, or makes it with the mark `first`. */
pl_status watermark_open(const char *folder, const watermark *first,
                         watermark_file *out);
pl_status watermark_set(watermark_file *file, const watermark *mark);
void watermark_close(watermark_file *file); /* accepts a file that is closed already */
