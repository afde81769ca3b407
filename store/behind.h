/* A file that is written from its beginning to its end by a thread of its own, past the
 * page cache where the file system allows it: whoever makes the bytes goes on making
 * them while the disk takes those before. Four pieces of 2 MiB are under way at most.
 */
#ifndef PL_STORE_BEHIND_H
#define PL_STORE_BEHIND_H
#include "base/base.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct behind behind;
/* A new file, or an emptied one. Failures are errnos here, 0 is none: RocksDB words
 * them. */
int behind_open(const char *path, behind **out);
/* 0, or the errno of a write that failed before: nothing after it is written. Waits
 * while too many pieces are under way. */
int behind_append(behind *file, const void *data, size_t len);
/* Nothing comes any more: what is left is written and flushed, meanwhile. */
void behind_end(behind *file);
/* Waits until that has happened (it must have been begun); 0, or the errno of the first
 * failure. */
int behind_wait(behind *file);
/* Nobody wants it any more: what is under way is written, nothing else, and nothing is
 * flushed. */
void behind_cancel(behind *file);
/* Accepts NULL. Without a wait it is cancelled; the file stays as far as it was
 * written. */
void behind_close(behind **file);

#ifdef __cplusplus
}
#endif
#endif
