/* A file that is written in pieces and is there as a whole or not at all. */
#ifndef PL_SERVE_SINK_H
#define PL_SERVE_SINK_H
#include "base/base.h"

typedef struct sink sink;

/* Writes to path.tmp-PID. */
PL_MUST_CHECK pl_status sink_open(const char *path, sink **out);
PL_MUST_CHECK pl_status sink_write(sink *s, const void *data, size_t len);
/* Zeros up to the next multiple. */
PL_MUST_CHECK pl_status sink_align(sink *s, uint64_t multiple);
/* Flushes to the disk and gives the file its name. */
PL_MUST_CHECK pl_status sink_end(sink *s);
/* Accepts NULL. A file that was not ended vanishes. */
void sink_close(sink **s);

#endif
