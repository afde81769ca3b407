/* Writes log lines.
 *
 * Every line is one write(2), so that lines of processes that share a terminal or a
 * file do not mix. Callers pass text with pairs `key=value`. The JSON form of a line is
 * made from this text, so that both forms always have the same content. */
#include "base/log.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/text.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The settings are set before the process has threads; all threads read them. */
static struct {
    const char *role;
    pl_log_level level;
    bool json;
} settings = {"pathloom", PL_LOG_INFO, false};

bool pl_log_may(bool own)
{
    enum { PER_S = 10, AT_ONCE = 200 };
    static double left = AT_ONCE;
    static int64_t at_ms;
    const int64_t now = pl_now_ms();
    left += 1e-3 * PER_S * (double)(now - at_ms);
    left = left < AT_ONCE ? left : AT_ONCE;
    at_ms = now;
    if (own)
        return true;
    const bool may = left >= 1;
    left -= may;
    return may;
}

static const char *const level_names[] = {"error", "warn", "info", "debug"};

void pl_log_open(const char *role, pl_log_level level, bool json)
{
    settings.role = role;
    settings.level = level;
    settings.json = json;
}

/* Returns whether the text is a number without an exponent in the grammar of JSON,
 * which excludes "+1", ".5", "007" and hexadecimal. */
static bool is_json_number(const char *text, size_t len)
{
    size_t at = len && text[0] == '-';
    size_t digits = 0;
    while (at + digits < len && text[at + digits] >= '0' && text[at + digits] <= '9')
        digits++;
    if (!digits || (digits > 1 && text[at] == '0'))
        return false;
    at += digits;
    if (at == len)
        return true;
    if (text[at] != '.')
        return false;
    size_t fraction = strspn(text + at + 1, "0123456789");
    return fraction > 0 && at + 1 + fraction == len;
}

/* Finds the closing quote of a value: a quote after which the text ends or the next
 * `key=` begins. So the value may contain quotes. */
static const char *closing_quote(const char *text)
{
    for (const char *c = text; *c; c++) {
        if (*c != '"')
            continue;
        size_t key_len = c[1] == ' ' ? strcspn(c + 2, " =\"") : 0;
        if (!c[1] || (key_len && c[2 + key_len] == '='))
            return c;
    }
    return text + strlen(text);
}

void pl_log(pl_log_level level, const char *event, const char *format, ...)
{
    if (level > settings.level)
        return;
    char pairs[4096], when[32];
    va_list args;
    va_start(args, format);
    vsnprintf(pairs, sizeof pairs, format, args);
    va_end(args);
    int64_t ms = pl_wall_ms();
    time_t seconds = (time_t)(ms / 1000);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    size_t used = strftime(when, 24, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(when + used, 32 - used, ".%03dZ", (int)(ms % 1000));
    pl_buf line = {0};
    if (settings.json) {
        pl_buf_printf(&line, "{\"time\":\"%s\",\"level\":\"%s\",\"role\":", when,
                      level_names[level]);
        pl_buf_json_text(&line, settings.role, strlen(settings.role));
        pl_buf_printf(&line, ",\"event\":");
        pl_buf_json_text(&line, event, strlen(event));
        /* turns `key=value key="two words"` into `,"key":value,"key":"two words"` */
        for (const char *at = pairs; *(at += strspn(at, " "));) {
            const size_t key_len = strcspn(at, "= ");
            pl_buf_append(&line, ",", 1);
            pl_buf_json_text(&line, at, key_len);
            at += key_len;
            if (*at != '=') {
                pl_buf_printf(&line, ":true");
                continue;
            }
            const bool quoted = *++at == '"';
            at += quoted;
            const size_t len =
                quoted ? (size_t)(closing_quote(at) - at) : strcspn(at, " ");
            pl_buf_append(&line, ":", 1);
            if (!quoted && is_json_number(at, len))
                pl_buf_append(&line, at, len);
            else
                pl_buf_json_text(&line, at, len);
            at += len;
            at += quoted && *at == '"';
        }
        pl_buf_append(&line, "}\n", 2);
    } else {
        pl_buf_printf(&line, "%s %s %s %s%s", when, level_names[level], settings.role,
                      event, *pairs ? " " : "");
        /* replaces line breaks, so that one event is one line */
        pl_buf_printable(&line, pairs, strlen(pairs), false);
        pl_buf_append(&line, "\n", 1);
    }
    ssize_t written = write(STDERR_FILENO, line.data, line.len);
    (void)written; /* a failure to write the log cannot be reported anywhere */
    pl_buf_destroy(&line);
}
