/* Private to corpus: finds the text and the domain in a line of a JSON lines file.
 *
 * All other keys of the line are only skipped, so that a value that a JSON parser
 * refuses (NaN, 1e999, half of a surrogate pair, a key that is there twice) does no
 * harm in a key that nobody reads. Strings are decoded in place, so a line needs no
 * second copy in memory. */
#pragma once
#include "base/base.h"

typedef struct json_line {
    char *text; /* NULL if the line has no string with the key of the text */
    size_t len;
    char *domain; /* NULL if the line has no string `domain` */
    size_t domain_len;
    pl_buf *why; /* a failure appends the reason, without the name of the file */
} json_line;

/* Reads a line that has one JSON object. The texts point into the line, which is
 * changed. They may contain bytes that are not valid UTF-8: a NUL for \u0000, and 0xff
 * for half of a surrogate pair. Returns false, and leaves the line as it was, if the
 * line is not an object or has no text. */
bool json_line_read(char *line, size_t len, const char *text_key, json_line *out);

/* Returns whether the text begins with an object (after blanks) that has a string with
 * this key. */
bool json_line_begins(const char *text, size_t len, const char *text_key);
