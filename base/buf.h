/* A growable byte buffer. It has one owner and belongs to one thread. */
#pragma once
#include "base/mem.h"
#include <stdbool.h>
PL_C_BEGIN

typedef struct pl_buf {
    uint8_t *data; /* NUL-terminated only if text functions built the buffer */
    size_t len, cap;
} pl_buf; /* a struct of zeros is an empty buffer */

void pl_buf_reserve(pl_buf *buf, size_t more);
void pl_buf_append(pl_buf *buf, const void *data, size_t len);
void pl_buf_clear(pl_buf *buf);   /* empties the buffer but keeps its memory */
void pl_buf_destroy(pl_buf *buf); /* frees the memory and zeroes the struct */

/* Appends text and writes a NUL after it, which `len` does not count. */
void pl_buf_printf(pl_buf *buf, const char *format, ...) PL_PRINTF(2, 3);
/* Returns the text with a NUL at its end; valid until the buffer changes. */
const char *pl_buf_text(pl_buf *buf);

/* Appends text as a JSON string with its quotes; ill-formed UTF-8 becomes U+FFFD. */
void pl_buf_json_text(pl_buf *buf, const char *text, size_t len);
void pl_buf_base64(pl_buf *buf, const void *data, size_t len);
/* Appends a part of a URL's path or query: special characters become %XX. */
void pl_buf_url(pl_buf *buf, const char *text);

/* Appends text for a terminal or a log. Each byte of a character that controls a
 * terminal (pl_utf8_steers), and each byte that is not UTF-8, is written as \xHH. If
 * `lines` is true, newlines and tabs stay as they are. */
void pl_buf_printable(pl_buf *buf, const char *text, size_t len, bool lines);

PL_C_END
