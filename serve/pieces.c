/* Joins the bytes of tokens into text: UTF-8 as in Unicode 15, table 3-7 (well-formed
 * byte sequences); each maximal ill-formed part becomes one U+FFFD (section 3.9). */
#include "serve/pieces.h"

/* Returns the length of a character, from its first byte; 0 if no character begins with
 * this byte. */
static size_t length_of(uint8_t first)
{
    if (first < 0x80)
        return 1;
    if (first < 0xc2 || first > 0xf4)
        return 0;
    return first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
}

/* Returns how many of the first bytes belong to one character; *whole becomes true if
 * this character is complete. The second byte has a smaller range after some first
 * bytes, which excludes overlong forms, surrogates, and values above U+10FFFF. */
static size_t match_character(const uint8_t *data, size_t len, bool *whole)
{
    size_t need = length_of(data[0]), n = 1;
    uint8_t low = data[0] == 0xe0 ? 0xa0 : data[0] == 0xf0 ? 0x90 : 0x80;
    uint8_t high = data[0] == 0xed ? 0x9f : data[0] == 0xf4 ? 0x8f : 0xbf;
    for (; n < need && n < len && data[n] >= low && data[n] <= high; ++n) {
        low = 0x80;
        high = 0xbf;
    }
    *whole = need > 0 && n == need;
    return n;
}

bool pieces_are_text(const void *data, size_t len)
{
    bool whole = true;
    for (size_t at = 0; at < len && whole;)
        at += match_character((const uint8_t *)data + at, len - at, &whole);
    return whole;
}

static void drop_front(pl_buf *buf, size_t n)
{
    memmove(buf->data, buf->data + n, buf->len - n);
    buf->len -= n;
}

/* Moves complete characters from `raw` to `text`. With `end`, also moves an incomplete
 * last character. */
static void take_characters(pieces *p, bool end)
{
    size_t at = 0;
    while (at < p->raw.len) {
        bool whole;
        size_t left = p->raw.len - at;
        size_t n = match_character(p->raw.data + at, left, &whole);
        if (whole)
            pl_buf_append(&p->text, p->raw.data + at, n);
        else if (n == left && length_of(p->raw.data[at]) > 0 && !end)
            break;
        else
            pl_buf_append(&p->text, "\xef\xbf\xbd", 3);
        at += n;
    }
    if (at > 0)
        drop_front(&p->raw, at);
}

static pl_status emit_front(pieces *p, size_t n)
{
    if (n == 0)
        return PL_OK;
    PL_CHECK(p->emit(p->context, (const char *)p->text.data, n));
    drop_front(&p->text, n);
    return PL_OK;
}

pl_status pieces_add(pieces *p, const void *data, size_t len, bool *stopped)
{
    pl_buf_append(&p->raw, data, len);
    take_characters(p, false);
    /* the text ends before the first stop text */
    size_t stop = p->text.len;
    for (int s = 0; s < p->n_stop; ++s) {
        size_t n = strlen(p->stop[s]);
        for (size_t at = 0; at + n <= p->text.len && at < stop; ++at)
            if (memcmp(p->text.data + at, p->stop[s], n) == 0)
                stop = at;
    }
    *stopped = stop < p->text.len;
    /* bytes at the end that may be the beginning of a stop text are held back */
    size_t held = 0;
    for (int s = 0; s < p->n_stop && !*stopped; ++s) {
        size_t n = strlen(p->stop[s]) - 1;
        if (n > p->text.len)
            n = p->text.len;
        while (n > held && memcmp(p->text.data + p->text.len - n, p->stop[s], n) != 0)
            --n;
        if (n > held)
            held = n;
    }
    return emit_front(p, stop - held);
}

pl_status pieces_end(pieces *p)
{
    take_characters(p, true);
    return emit_front(p, p->text.len);
}

void pieces_destroy(pieces *p)
{
    pl_buf_destroy(&p->raw);
    pl_buf_destroy(&p->text);
}

pl_status pieces_decode(const pl_tokenizer *tokenizer, const int32_t *tokens, size_t n,
                        pl_buf *out)
{
    pieces p = {0};
    pl_status status = pl_tokenizer_decode(tokenizer, tokens, n, &p.raw);
    take_characters(&p, true);
    const size_t added =
        pl_tokenizer_puts_blank(tokenizer) && p.text.len > 0 && p.text.data[0] == ' ';
    pl_buf_append(out, p.text.data + added, p.text.len - added);
    pieces_destroy(&p);
    return status;
}
