/* A stream of bytes from a file that may be compressed. gzip, zstd, xz and bzip2 are
 * recognised by their content. Only text_stream.c uses libarchive. */
#pragma once
#include "corpus/corpus.h"

typedef struct text_stream text_stream;

/* Opens a file; "-" is standard input. ERR_NOT_FOUND, ERR_NOPERM, ERR_IO; ERR_DATA if
 * the name has the suffix of a compression that the content does not have. */
pl_status text_stream_open(const char *path, text_stream **out);
void text_stream_close(text_stream **stream); /* accepts NULL */

/* Appends at least one byte and at most `max`. At the end of the stream nothing is
 * appended and *end is set. ERR_DATA if the stream is truncated or broken; the error
 * names the file. */
pl_status text_stream_read(text_stream *stream, size_t max, pl_buf *out, bool *end);

/* Returns the length of `path` without the suffix of a compression: 7 for
 * "x.jsonl.zst", because "x.jsonl" has 7 bytes. */
size_t text_stream_stem(const char *path);
