/* A growable byte buffer. */
#include "base/buf.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_CAPACITY = 64 };

/* Doubling keeps appending linear in the total length. A sum that overflows
 * asks for SIZE_MAX and so ends in pl_grow's abort. */
void pl_buf_reserve(pl_buf *buf, size_t more)
{
    size_t need = more > SIZE_MAX - buf->len ? SIZE_MAX : buf->len + more;
    if (need <= buf->cap)
        return;
    size_t cap = buf->cap ? buf->cap : FIRST_CAPACITY;
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

void pl_buf_printf(pl_buf *buf, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    if (len >= 0) {
        pl_buf_reserve(buf, (size_t)len + 1);
        vsnprintf((char *)buf->data + buf->len, (size_t)len + 1, format, again);
        buf->len += (size_t)len;
    }
    va_end(again);
    va_end(args);
}

const char *pl_buf_text(pl_buf *buf)
{
    pl_buf_reserve(buf, 1);
    buf->data[buf->len] = 0;
    return (const char *)buf->data;
}
