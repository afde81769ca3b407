/* The growable byte buffer, and the functions that append text to it (buf.h). */
#include "base/buf.h"
#include "base/text.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_CAPACITY = 64 };

/* The buffer at least doubles when it grows, so that the time of many appends is linear
 * in the total length. The first reservation is exact, for callers that know the
 * length. If the sum overflows, SIZE_MAX is requested, and pl_grow aborts. */
void pl_buf_reserve(pl_buf *buf, size_t more)
{
    size_t need = more > SIZE_MAX - buf->len ? SIZE_MAX : buf->len + more;
    if (need <= buf->cap)
        return;
    size_t cap = buf->cap ? buf->cap : more > FIRST_CAPACITY ? need : FIRST_CAPACITY;
    while (cap < need)
        cap = cap > SIZE_MAX / 2 ? SIZE_MAX : cap * 2;
    buf->data = pl_grow(buf->data, cap);
    buf->cap = cap;
}

void pl_buf_append(pl_buf *buf, const void *data, size_t len)
{
    if (!len)
        return;
    pl_buf_reserve(buf, len);
    memcpy(buf->data + buf->len, data, len);
    buf->len += len;
}

void pl_buf_clear(pl_buf *buf)
{
    buf->len = 0;
}

void pl_buf_destroy(pl_buf *buf)
{
    pl_free(buf->data);
    *buf = (pl_buf){0};
}

/* the first vsnprintf usually fits; otherwise its result says how much is needed */
void pl_buf_printf(pl_buf *buf, const char *format, ...)
{
    pl_buf_reserve(buf, FIRST_CAPACITY);
    for (int tries = 0; tries < 2; tries++) {
        size_t room = buf->cap - buf->len;
        va_list args;
        va_start(args, format);
        int len = vsnprintf((char *)buf->data + buf->len, room, format, args);
        va_end(args);
        if (len >= 0 && (size_t)len < room) {
            buf->len += (size_t)len;
            return;
        }
        pl_buf_reserve(buf, len < 0 ? 1 : (size_t)len + 1);
    }
    pl_buf_text(buf); /* if the format cannot be printed, nothing is added */
}

const char *pl_buf_text(pl_buf *buf)
{
    pl_buf_reserve(buf, 1);
    buf->data[buf->len] = 0;
    return (const char *)buf->data;
}

void pl_buf_json_text(pl_buf *buf, const char *text, size_t len)
{
    pl_buf_append(buf, "\"", 1);
    for (size_t i = 0; i < len;) {
        size_t n = pl_utf8_length(text + i, len - i);
        if (n == 0)
            pl_buf_append(buf, "\xef\xbf\xbd", 3); /* U+FFFD */
        else if (text[i] == '"' || text[i] == '\\')
            pl_buf_printf(buf, "\\%c", text[i]);
        else if (pl_utf8_steers(text + i, n))
            pl_buf_printf(buf, "\\u%04x", (unsigned)pl_utf8_code_point(text + i, n));
        else
            pl_buf_append(buf, text + i, n);
        i += n ? n : 1;
    }
    pl_buf_append(buf, "\"", 1);
}

void pl_buf_base64(pl_buf *buf, const void *data, size_t len)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *bytes = data;
    pl_buf_reserve(buf, (len + 2) / 3 * 4 + 1);
    for (size_t at = 0; at < len; at += 3) {
        const size_t n = len - at < 3 ? len - at : 3;
        uint32_t bits = (uint32_t)bytes[at] << 16;
        char four[4] = {'=', '=', '=', '='};
        bits |= n > 1 ? (uint32_t)bytes[at + 1] << 8 : 0;
        bits |= n > 2 ? (uint32_t)bytes[at + 2] : 0;
        for (size_t i = 0; i < n + 1; i++)
            four[i] = letters[bits >> (18 - 6 * i) & 63];
        pl_buf_append(buf, four, sizeof four);
    }
}

void pl_buf_url(pl_buf *buf, const char *text)
{
    for (; *text; text++) {
        const bool plain = (*text >= '0' && *text <= '9') ||
                           (*text >= 'A' && *text <= 'Z') ||
                           (*text >= 'a' && *text <= 'z') || strchr("-._~", *text);
        pl_buf_printf(buf, plain ? "%c" : "%%%02X", (unsigned char)*text);
    }
}

void pl_buf_printable(pl_buf *buf, const char *text, size_t len, bool lines)
{
    for (size_t i = 0; i < len;) {
        size_t n = pl_utf8_length(text + i, len - i);
        bool stays = lines && (text[i] == '\n' || text[i] == '\t');
        if (n > 0 && (stays || !pl_utf8_steers(text + i, n))) {
            pl_buf_append(buf, text + i, n);
            i += n;
            continue;
        }
        for (size_t end = i + (n ? n : 1); i < end; i++)
            pl_buf_printf(buf, "\\x%02x", (unsigned)(uint8_t)text[i]);
    }
}
