/* Private to cli: prints a row of output from one description, either as a line of text
 * for people or as a JSON object for programs.
 *
 *   row r = row_begin(json);
 *   row_text(&r, "module", v->module, "%-*s");
 *   row_count(&r, "version", v->number, "  version %-6s");
 *   row_finish(&r);
 *
 * Each field has a key and a format. A field without a key is not in the JSON; a field
 * without a format is not in the text. A format contains one place for the value. This
 * is "%s", possibly with a width and "-" ("*" stands for r.width); for row_real it is
 * "%.4f" or "%.4g"; for all digits of a hash it is "%h". "%%" is a percent sign. */
#pragma once
#include "base/base.h"

typedef struct row {
    pl_json *json; /* NULL: the row is printed as text */
    pl_json *list; /* borrowed: list of the rows that row_item makes */
    /* borrowed: the list that gets this row at its end; NULL: the row is printed */
    pl_json *into;
    pl_buf text;
    int width;
} row;

row row_begin(bool json);
/* Prints the text since the last line break, or the JSON, and frees the row. */
void row_finish(row *r);
/* Ends a line of the text, for a row that has several lines. */
void row_break(row *r);
/* Begins a list of rows, which row_item makes. In the text each is a line. */
void row_list(row *r, const char *key);
row row_item(const row *r);
/* Adds text that belongs to no field. */
void row_say(row *r, const char *format, ...) PL_PRINTF(2, 3);

void row_text(row *r, const char *key, const char *value, const char *format);
void row_int(row *r, const char *key, int64_t value, const char *format);
/* Adds an integer. In JSON, a number above INT64_MAX becomes INT64_MAX. */
void row_count(row *r, const char *key, uint64_t value, const char *format);
/* Adds a real number. In JSON, a value that is not finite becomes null. */
void row_real(row *r, const char *key, double value, const char *format);
/* Adds a truth value. If it is true, the text has `format` (without a place). */
void row_flag(row *r, const char *key, bool value, const char *format);
void row_hash(row *r, const char *key, const pl_hash *hash, const char *format);
/* Numbers in JSON; the text shows "1.4 MiB", "12.3k" or "3m41s". */
void row_bytes(row *r, const char *key, uint64_t bytes, const char *format);
void row_tokens(row *r, const char *key, uint64_t count, const char *format);
void row_seconds(row *r, const char *key, double seconds, const char *format);
/* Adds a time of pl_wall_ms. The text shows the date, or how long ago it was. */
void row_date(row *r, const char *key, int64_t wall_ms, const char *format);
void row_age(row *r, const char *key, int64_t wall_ms, const char *format);
