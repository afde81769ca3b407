/* Private to cli: a row of output is described once, and printed as a line of text for
 * people or as a JSON object for programs.
 *
 *   row r = row_begin(json);
 *   row_text(&r, "module", v->module, "%-*s");
 *   row_count(&r, "version", v->number, "  version %-6s");
 *   row_finish(&r);
 *
 * Each field has a key and a format. A field without a key is left out of the JSON, a
 * field without a format is left out of the text. A format contains one place for the
 * value: "%s", possibly with a width and "-" ("*" stands for r.width), or "%.4f" or
 * "%.4g" for a number with digits; "%h" prints all digits of a hash. "%%" is a percent
 * sign. */
#ifndef PL_CLI_ROW_H
#define PL_CLI_ROW_H
#include "base/base.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct row {
    pl_json *json; /* NULL: the row is printed as text */
    pl_json *list; /* borrowed: list of the rows that row_item makes */
    pl_json *into; /* borrowed: gets this row when it ends; NULL: the row is printed */
    pl_buf text;
    int width;
} row;

row row_begin(bool json);
/* Prints the text since the last line break, or the JSON, and frees the row. */
void row_finish(row *r);
/* Ends a line of the text, for a row that has several lines. */
void row_break(row *r);
/* Begins a list of rows, which row_item makes. In the text each of them is a line. */
void row_list(row *r, const char *key);
row row_item(const row *r);
/* Adds text that belongs to no field. */
void row_say(row *r, const char *format, ...) PL_PRINTF(2, 3);

void row_text(row *r, const char *key, const char *value, const char *format);
void row_int(row *r, const char *key, int64_t value, const char *format);
/* A number above INT64_MAX becomes INT64_MAX in JSON. */
void row_count(row *r, const char *key, uint64_t value, const char *format);
/* A value that is not finite becomes null in JSON. */
void row_real(row *r, const char *key, double value, const char *format);
/* A truth value. If the value is true, the text contains `format`, which has no place
 * for a value. */
void row_flag(row *r, const char *key, bool value, const char *format);
void row_hash(row *r, const char *key, const pl_hash *hash, const char *format);
/* Bytes, tokens and seconds are numbers in JSON; the text shows "1.4 MiB", "12.3k" or
 * "3m41s". */
void row_bytes(row *r, const char *key, uint64_t bytes, const char *format);
void row_tokens(row *r, const char *key, uint64_t count, const char *format);
void row_seconds(row *r, const char *key, double seconds, const char *format);
/* A time as returned by pl_wall_ms. The text shows the date; row_age shows how long ago
 * it was. */
void row_date(row *r, const char *key, int64_t wall_ms, const char *format);
void row_age(row *r, const char *key, int64_t wall_ms, const char *format);

#ifdef __cplusplus
}
#endif
#endif
