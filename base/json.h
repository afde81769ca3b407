/* JSON values. Only json.c uses the library jansson. */
#pragma once
#include "base/buf.h"
#include <stdio.h>
PL_C_BEGIN

typedef struct json_t pl_json; /* the type of jansson */

/* Parses strict RFC 8259: text that is not UTF-8 and duplicate keys are refused. The
 * message of ERR_DATA names the column, and the line if the text has several. */
pl_status pl_json_parse(const char *text, size_t len, pl_json **out);
/* Like pl_json_parse, for the text of a file. *out is NULL after a failure. */
pl_status pl_json_load(const char *path, pl_json **out);
void pl_json_destroy(pl_json **json);

/* Functions that read values. The result is NULL or false if the value is absent or has
 * a different type. A value that is returned belongs to its parent. */
const pl_json *pl_json_get(const pl_json *object, const char *key);
const char *pl_json_text(const pl_json *value, size_t *len);
bool pl_json_number(const pl_json *value, double *out);
bool pl_json_int(const pl_json *value, int64_t *out); /* only whole numbers */
bool pl_json_bool(const pl_json *value, bool *out);
/* These functions read a member of an object, for callers that only show the value.
 * They return 0, "" or false if the member is absent or has a different type. */
double pl_json_get_real(const pl_json *object, const char *key);
const char *pl_json_get_text(const pl_json *object, const char *key);
bool pl_json_get_bool(const pl_json *object, const char *key);
bool pl_json_is_array(const pl_json *value); /* an empty array counts, too */
bool pl_json_is_object(const pl_json *value);
bool pl_json_is_null(const pl_json *value); /* false if the value is absent */
size_t pl_json_count(const pl_json *array);
const pl_json *pl_json_at(const pl_json *array, size_t i);
/* Returns the key after `key` in order, or the first key if `key` is NULL; NULL at the
 * end. `key` must be a pointer that this function returned. */
const char *pl_json_next_key(const pl_json *object, const char *key);

/* Functions that build values. The set and push functions take ownership of `value`. In
 * texts, bytes that are not valid UTF-8 become U+FFFD. */
pl_json *pl_json_object(void);
pl_json *pl_json_array(void);
void pl_json_set(pl_json *object, const char *key, pl_json *value);
void pl_json_set_text(pl_json *object, const char *key, const char *text);
void pl_json_set_int(pl_json *object, const char *key, int64_t value);
void pl_json_set_real(pl_json *object, const char *key,
                      double value); /* a number that is not finite becomes null */
void pl_json_set_bool(pl_json *object, const char *key, bool value);
void pl_json_push(pl_json *array, pl_json *value);
/* Makes an array of these values, of which it takes ownership. */
#define pl_json_list(...)                                                              \
    pl_json_make_list((pl_json *[]){__VA_ARGS__},                                      \
                      sizeof((pl_json *[]){__VA_ARGS__}) / sizeof(pl_json *))
pl_json *pl_json_make_list(pl_json *const *values, size_t n);
pl_json *pl_json_make_text(const char *text);
pl_json *pl_json_make_bytes(const char *text, size_t len);
pl_json *pl_json_make_real(double value);
pl_json *pl_json_make_int(int64_t value);

/* Appends the JSON text. `indent` is the number of blanks per level; with 0 the text is
 * one line. Keys keep their order. */
void pl_json_write(const pl_json *json, int indent, pl_buf *out);

PL_C_END
