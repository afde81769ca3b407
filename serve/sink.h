/* Writes a file in pieces. The file appears under its name only when it is complete. */
#ifndef PL_SERVE_SINK_H
#define PL_SERVE_SINK_H
#include "base/base.h"

typedef struct sink sink;

/* Opens the temporary file PATH.tmp-PID, where PATH is `path` and PID the process. */
PL_MUST_CHECK pl_status sink_open(const char *path, sink **out);
PL_MUST_CHECK pl_status sink_write(sink *s, const void *data, size_t len);
/* Writes zeros until the file's size is a multiple of `multiple`. */
PL_MUST_CHECK pl_status sink_align(sink *s, uint64_t multiple);
/* Flushes the file to the disk and renames it to its final name. */
PL_MUST_CHECK pl_status sink_end(sink *s);
/* Removes the temporary file if sink_end has not succeeded. Accepts NULL. */
void sink_close(sink **s);

#endif
