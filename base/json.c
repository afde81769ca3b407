/* Reads and writes JSON with the library jansson.
 *
 * This file writes JSON text itself: jansson prints 0.1 as 0.10000000000000001, and the
 * hash of a text must not depend on how a library prints numbers. */
#include "base/json.h"
#include "base/fs.h"
#include "base/text.h"
#include <jansson.h>
#include <math.h>
#include <string.h>

static pl_json *made(pl_json *json)
{
    if (!json)
        pl_memory_exhausted(sizeof *json);
    return json;
}

/* Duplicate keys are refused because readers disagree about which one counts. */
pl_status pl_json_parse(const char *text, size_t len, pl_json **out)
{
    json_error_t error;
    size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL;
    *out = NULL;
    if (len == 0)
        return pl_fail(PL_ERR_DATA, "the JSON text is empty");
    *out = json_loadb(text, len, flags, &error);
    if (*out)
        return PL_OK;
    /* For a text of one line the error names only the column, because the reader of a
     * JSON lines file adds the number of the line. */
    if (!memchr(text, '\n', len))
        return pl_fail(PL_ERR_DATA, "the JSON text is wrong at column %d: %s",
                       error.column, error.text);
    return pl_fail(PL_ERR_DATA, "the JSON text is wrong at line %d column %d: %s",
                   error.line, error.column, error.text);
}

pl_status pl_json_load(const char *path, pl_json **out)
{
    pl_buf text = {0};
    *out = NULL;
    pl_status status = pl_read_file(path, &text);
    if (status == PL_OK)
        status = pl_json_parse(pl_buf_text(&text), text.len, out);
    pl_buf_destroy(&text);
    return status;
}

void pl_json_destroy(pl_json **json)
{
    json_decref(*json);
    *json = NULL;
}

const pl_json *pl_json_get(const pl_json *object, const char *key)
{
    return json_object_get(object, key);
}

const char *pl_json_text(const pl_json *value, size_t *len)
{
    if (len)
        *len = json_string_length(value);
    return json_string_value(value);
}

bool pl_json_number(const pl_json *value, double *out)
{
    bool is_number = json_is_number(value);
    *out = is_number ? json_number_value(value) : 0.0;
    return is_number;
}

bool pl_json_int(const pl_json *value, int64_t *out)
{
    *out = 0;
    if (json_is_integer(value)) {
        *out = json_integer_value(value);
        return true;
    }
    /* a number such as 1e3 is a real for jansson, but it is whole */
    double real = json_real_value(value);
    if (!json_is_real(value) || real != floor(real) || fabs(real) > 0x1p53)
        return false;
    *out = (int64_t)real;
    return true;
}

bool pl_json_bool(const pl_json *value, bool *out)
{
    *out = json_is_true(value);
    return json_is_boolean(value);
}

double pl_json_get_real(const pl_json *object, const char *key)
{
    return json_number_value(pl_json_get(object, key));
}

const char *pl_json_get_text(const pl_json *object, const char *key)
{
    const char *text = pl_json_text(pl_json_get(object, key), NULL);
    return text ? text : "";
}

bool pl_json_get_bool(const pl_json *object, const char *key)
{
    return json_is_true(pl_json_get(object, key));
}

bool pl_json_is_array(const pl_json *value)
{
    return json_is_array(value);
}

bool pl_json_is_object(const pl_json *value)
{
    return json_is_object(value);
}

bool pl_json_is_null(const pl_json *value)
{
    return json_is_null((const json_t *)value);
}

size_t pl_json_count(const pl_json *array)
{
    return json_array_size(array);
}

const pl_json *pl_json_at(const pl_json *array, size_t i)
{
    return json_array_get(array, i);
}

/* jansson's iterator takes only mutable objects, but changes nothing. */
const char *pl_json_next_key(const pl_json *object, const char *key)
{
    pl_json *json = (pl_json *)(uintptr_t)object;
    void *at = key ? json_object_iter_next(json, json_object_key_to_iter(key))
                   : json_object_iter(json);
    return at ? json_object_iter_key(at) : NULL;
}

pl_json *pl_json_object(void)
{
    return made(json_object());
}

pl_json *pl_json_array(void)
{
    return made(json_array());
}

/* Puts U+FFFD in place of bytes that are not UTF-8, which jansson refuses. */
static const char *cleaned(const char *text, size_t len, pl_buf *out)
{
    for (size_t i = 0; i < len;) {
        size_t n = pl_utf8_length(text + i, len - i);
        if (n)
            pl_buf_append(out, text + i, n);
        else
            pl_buf_append(out, "\xef\xbf\xbd", 3);
        i += n ? n : 1;
    }
    return pl_buf_text(out);
}

void pl_json_set(pl_json *object, const char *key, pl_json *value)
{
    pl_buf clean = {0};
    if (json_object_set_new(object, cleaned(key, strlen(key), &clean), value) != 0)
        pl_memory_exhausted(sizeof(json_t));
    pl_buf_destroy(&clean);
}

void pl_json_set_text(pl_json *object, const char *key, const char *text)
{
    pl_json_set(object, key, pl_json_make_text(text));
}

void pl_json_set_int(pl_json *object, const char *key, int64_t value)
{
    pl_json_set(object, key, pl_json_make_int(value));
}

void pl_json_set_real(pl_json *object, const char *key, double value)
{
    pl_json_set(object, key, pl_json_make_real(value));
}

void pl_json_set_bool(pl_json *object, const char *key, bool value)
{
    pl_json_set(object, key, made(json_boolean(value)));
}

void pl_json_push(pl_json *array, pl_json *value)
{
    if (json_array_append_new(array, value) != 0)
        pl_memory_exhausted(sizeof(json_t));
}

pl_json *pl_json_make_list(pl_json *const *values, size_t n)
{
    pl_json *array = pl_json_array();
    for (size_t i = 0; i < n; i++)
        pl_json_push(array, values[i]);
    return array;
}

pl_json *pl_json_make_text(const char *text)
{
    return pl_json_make_bytes(text, strlen(text));
}

pl_json *pl_json_make_bytes(const char *text, size_t len)
{
    pl_buf clean = {0};
    const char *valid = cleaned(text, len, &clean);
    pl_json *json = made(json_stringn(valid, clean.len));
    pl_buf_destroy(&clean);
    return json;
}

pl_json *pl_json_make_real(double value)
{
    return made(isfinite(value) ? json_real(value) : json_null());
}

pl_json *pl_json_make_int(int64_t value)
{
    return made(json_integer(value));
}

static void new_line(pl_buf *out, int indent, int depth)
{
    if (indent > 0)
        pl_buf_printf(out, "\n%*s", indent * depth, "");
}

/* Recursion is limited: the parser refuses values that are nested deeper than 2048. */
static void write_value(pl_buf *out, int indent, const pl_json *json, int depth)
{
    char number[32];
    const char *comma = "";
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        pl_buf_printf(out, "{");
        for (const char *key = NULL; (key = pl_json_next_key(json, key)); comma = ",") {
            pl_buf_printf(out, "%s", comma);
            new_line(out, indent, depth + 1);
            pl_buf_json_text(out, key, strlen(key));
            pl_buf_printf(out, indent > 0 ? ": " : ":");
            write_value(out, indent, json_object_get(json, key), depth + 1);
        }
        if (*comma)
            new_line(out, indent, depth);
        pl_buf_printf(out, "}");
        break;
    case JSON_ARRAY:
        pl_buf_printf(out, "[");
        for (size_t i = 0; i < json_array_size(json); i++, comma = ",") {
            pl_buf_printf(out, "%s", comma);
            new_line(out, indent, depth + 1);
            write_value(out, indent, json_array_get(json, i), depth + 1);
        }
        if (*comma)
            new_line(out, indent, depth);
        pl_buf_printf(out, "]");
        break;
    case JSON_STRING:
        pl_buf_json_text(out, json_string_value(json), json_string_length(json));
        break;
    case JSON_INTEGER:
        pl_buf_printf(out, "%lld", (long long)json_integer_value(json));
        break;
    case JSON_REAL:
        pl_buf_printf(out, "%s", pl_format_real(json_real_value(json), number));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        pl_buf_printf(out, json_is_true(json) ? "true" : "false");
        break;
    case JSON_NULL:
        pl_buf_printf(out, "null");
        break;
    }
}

void pl_json_write(const pl_json *json, int indent, pl_buf *out)
{
    write_value(out, indent, json, 0);
}
