/* Private to cli: one description of a row, printed as a line of text for people or as
 * an object of JSON for programs.
 *
 *   row r = row_begin(json);
 *   row_text(&r, "module", v->module, "%-*s");
 *   row_count(&r, "version", v->number, "  version %-6s");
 *   row_finish(&r);
 *
 * Each field has a key and a format. Without a key it is not in the JSON, without a
 * format it is not in the text. A format has one place for the value, "%s", with a
 * width and "-" if wanted ("*" stands for r.width), and "%.4f" or "%.4g" for a number
 * with digits; "%h" prints all digits of a hash. "%%" is a percent sign. */
#ifndef PL_CLI_ROW_H
#define PL_CLI_ROW_H
#include "base/base.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct row {
    pl_json *json; /* NULL: text */
    pl_json *list; /* borrowed: takes the rows that row_item makes */
    pl_json *into; /* borrowed: takes this row when it ends; NULL: it is printed */
    pl_buf text;
    int width;
} row;

row row_begin(bool json);
/* Prints the text since the last break, or the JSON, and frees the row. */
void row_finish(row *r);
/* Ends a line of the text, where a row has several. */
void row_break(row *r);
/* Begins a list of rows. In the text each is a line of its own. */
void row_list(row *r, const char *key);
row row_item(const row *r);
/* Adds text that is in no field. */
void row_say(row *r, const char *format, ...) PL_PRINTF(2, 3);

void row_text(row *r, const char *key, const char *value, const char *format);
void row_int(row *r, const char *key, int64_t value, const char *format);
/* JSON has no number above INT64_MAX. */
void row_count(row *r, const char *key, uint64_t value, const char *format);
/* Not finite: null. */
void row_real(row *r, const char *key, double value, const char *format);
/* The text prints `format`, which has no place for a value, if it is true. */
void row_flag(row *r, const char *key, bool value, const char *format);
void row_hash(row *r, const char *key, const pl_hash *hash, const char *format);
/* Numbers in JSON; "1.4 MiB", "12.3k" and "3m41s" in the text. */
void row_bytes(row *r, const char *key, uint64_t bytes, const char *format);
void row_tokens(row *r, const char *key, uint64_t count, const char *format);
void row_seconds(row *r, const char *key, double seconds, const char *format);
/* A time of pl_wall_ms; the text has the date, or for row_age how long ago that is. */
void row_date(row *r, const char *key, int64_t wall_ms, const char *format);
void row_age(row *r, const char *key, int64_t wall_ms, const char *format);

#ifdef __cplusplus
}
#endif
#endif
