/* Prints a row as text or as JSON, from the same description (row.h). */
#include "cli/row.h"
#include "cli/cli.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { SHORT_HASH = 12 };

row row_begin(bool json)
{
    return (row){.json = json ? pl_json_object() : NULL};
}

void row_break(row *r)
{
    if (r->json)
        return;
    say("%s", pl_buf_text(&r->text));
    pl_buf_clear(&r->text);
}

void row_finish(row *r)
{
    if (r->into)
        pl_json_push(r->into, r->json);
    else if (r->json)
        say_json(r->json);
    else if (r->text.len > 0)
        row_break(r);
    pl_buf_destroy(&r->text);
    *r = (row){0};
}

void row_list(row *r, const char *key)
{
    if (r->json)
        pl_json_set(r->json, key, r->list = pl_json_array());
}

row row_item(const row *r)
{
    row item = row_begin(r->json);
    item.into = r->list;
    return item;
}

void row_say(row *r, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    if (r->json)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    pl_buf_printf(&r->text, "%s", text);
}

/* Adds the text of a format with a value: `text`, or `number` if it is NULL. */
static void put_formatted(row *r, const char *format, const char *text, double number)
{
    for (const char *p = format; p && *p; p++) {
        char shown[64], *end;
        if (*p != '%' || *++p == '%') {
            pl_buf_append(&r->text, p, 1);
            continue;
        }
        bool left = *p == '-';
        p += left;
        int width = *p == '*' ? r->width : (int)strtol(p, &end, 10), digits = 6;
        p = *p == '*' ? p + 1 : end;
        if (*p == '.') {
            digits = (int)strtol(p + 1, &end, 10);
            p = end;
        }
        if (!text)
            snprintf(shown, sizeof shown, *p == 'f' ? "%.*f" : "%.*g", digits, number);
        pl_buf_printf(&r->text, "%*s", left ? -width : width, text ? text : shown);
    }
}

void row_text(row *r, const char *key, const char *value, const char *format)
{
    if (!r->json)
        put_formatted(r, format, value, 0);
    else if (key)
        pl_json_set_text(r->json, key, value);
}

/* Adds the integer `value` to the JSON, or `shown` (the value as text) to the text. */
static void put_counted(row *r, const char *key, int64_t value, const char *shown,
                        const char *format)
{
    if (!r->json)
        put_formatted(r, format, shown, 0);
    else if (key)
        pl_json_set_int(r->json, key, value);
}

static int64_t capped(uint64_t value)
{
    return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

void row_int(row *r, const char *key, int64_t value, const char *format)
{
    char shown[32];
    snprintf(shown, sizeof shown, "%lld", (long long)value);
    put_counted(r, key, value, shown, format);
}

void row_count(row *r, const char *key, uint64_t value, const char *format)
{
    char shown[32];
    snprintf(shown, sizeof shown, "%llu", (unsigned long long)value);
    put_counted(r, key, capped(value), shown, format);
}

void row_bytes(row *r, const char *key, uint64_t bytes, const char *format)
{
    char shown[16];
    put_counted(r, key, capped(bytes), pl_human_bytes((double)bytes, shown), format);
}

void row_tokens(row *r, const char *key, uint64_t count, const char *format)
{
    char shown[16];
    put_counted(r, key, capped(count), pl_human_count((double)count, shown), format);
}

void row_real(row *r, const char *key, double value, const char *format)
{
    if (!r->json)
        put_formatted(r, format, NULL, value);
    else if (key)
        pl_json_set_real(r->json, key, value);
}

void row_seconds(row *r, const char *key, double seconds, const char *format)
{
    char shown[16];
    if (!r->json)
        put_formatted(r, format, pl_human_seconds(seconds, shown), 0);
    else if (key)
        pl_json_set_real(r->json, key, seconds);
}

void row_flag(row *r, const char *key, bool value, const char *format)
{
    if (r->json && key)
        pl_json_set_bool(r->json, key, value);
    else if (!r->json && value)
        put_formatted(r, format, "", 0);
}

void row_hash(row *r, const char *key, const pl_hash *hash, const char *format)
{
    char text[PL_HASH_TEXT];
    pl_hash_format(hash, text);
    if (!r->json) {
        if (format && !strstr(format, "%h"))
            text[SHORT_HASH] = 0;
        put_formatted(r, format, pl_hash_none(hash) ? "-" : text, 0);
    } else if (key && pl_hash_none(hash)) {
        pl_json_set_real(r->json, key, NAN); /* null */
    } else if (key) {
        pl_json_set_text(r->json, key, text);
    }
}

void row_date(row *r, const char *key, int64_t wall_ms, const char *format)
{
    char text[PL_TIME_TEXT] = "?";
    pl_format_time(wall_ms / 1000, false, text);
    put_counted(r, key, wall_ms, text, format);
}

void row_age(row *r, const char *key, int64_t wall_ms, const char *format)
{
    char text[16];
    int64_t past_ms = pl_wall_ms() - wall_ms;
    pl_human_seconds(past_ms > 0 ? (double)past_ms / 1000 : 0, text);
    put_counted(r, key, wall_ms, text, format);
}
