/* Text: strict parsing of numbers, the most similar name, numbers with units. */
#pragma once
#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
PL_C_BEGIN

/* These functions parse a text that must contain only the value; otherwise they return
 * ERR_DATA. pl_parse_int accepts "1k", "1M" and "1G" (powers of ten) and "1Ki", "1Mi"
 * and "1Gi" (powers of two). "1.5M" and "1e6" are fine if the value is whole. */
pl_status pl_parse_int(const char *text, int64_t *out);
pl_status pl_parse_real(const char *text, double *out);
pl_status pl_parse_bool(const char *text, bool *out); /* true/false/yes/no/on/off */

/* pl_edit_distance returns the Levenshtein distance. pl_nearest returns the name with
 * the smallest distance to `word`. A name is ignored if its distance exceeds half of
 * the length of the name; NULL if all names are ignored. */
int pl_edit_distance(const char *a, const char *b);
const char *pl_nearest(const char *word, const char *const *names, size_t n_names);

/* Writes "1.4 MiB", "3m41s", "12.3k"; out has at least 16 bytes. Returns out. */
char *pl_human_bytes(double bytes, char out[16]);
char *pl_human_seconds(double seconds, char out[16]);
char *pl_human_count(double count, char out[16]);

/* Writes the shortest decimal that reads back as the same double. Returns out. */
char *pl_format_real(double value, char out[32]);

/* Copies at most size - 1 bytes and adds a NUL. Returns whether the whole text fits. */
bool pl_copy_text(char *out, size_t size, const char *text);
bool pl_starts_with(const char *text, const char *prefix);
bool pl_ends_with(const char *text, const char *suffix);
/* Whether one of the words of `list`, which `separator` divides, is `word`. */
bool pl_lists_word(const char *list, char separator, const char *word);

/* Returns the length (1..4 bytes) of the UTF-8 character at the start of text; 0 if it
 * is ill-formed or cut off, or if len is 0. */
size_t pl_utf8_length(const void *text, size_t len);
/* Returns the code point of a well-formed character of n bytes, or of one byte. */
uint32_t pl_utf8_code_point(const void *text, size_t n);
/* Whether this well-formed character of n bytes controls a terminal or the direction of
 * writing, and is not itself visible: C0, DEL, C1, line and paragraph separators, and
 * the bidirectional controls U+202A..U+202E and U+2066..U+2069. */
bool pl_utf8_steers(const void *text, size_t n);

PL_C_END
