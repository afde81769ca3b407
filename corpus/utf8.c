/* Checks and repairs UTF-8. Every byte of a corpus is checked here, so plain ASCII is
 * checked eight bytes at a time. RFC 3629, section 4 has the table for other bytes. */
#include "corpus/utf8.h"
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd"

/* Whether eight bytes are all ASCII and not NUL, the usual case. If no byte of x has
 * its high bit set, (x - 0x0101...) sets a high bit only if x has a zero byte. */
static bool plain_word(const uint8_t *at)
{
    const uint64_t highs = 0x8080808080808080u, ones = 0x0101010101010101u;
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return ((word | (word - ones)) & highs) == 0;
}

size_t utf8_valid_len(const char *text, size_t len)
{
    const uint8_t *bytes = (const uint8_t *)text;
    size_t at = 0;
    while (at < len) {
        if (len - at >= 8 && plain_word(bytes + at)) {
            at += 8;
            continue;
        }
        const size_t step = bytes[at] ? pl_utf8_length(bytes + at, len - at) : 0;
        if (step == 0)
            return at;
        at += step;
    }
    return len;
}

/* Writes one U+FFFD for each invalid byte, not for each invalid sequence of bytes, so
 * the number returned is also the number of U+FFFD written. */
uint64_t utf8_clean(const char *text, size_t len, pl_buf *out)
{
    uint64_t n_replaced = 0;
    size_t at = 0;
    for (;;) {
        size_t valid = utf8_valid_len(text + at, len - at);
        pl_buf_append(out, text + at, valid);
        at += valid;
        if (at == len)
            return n_replaced;
        pl_buf_append(out, REPLACEMENT, sizeof REPLACEMENT - 1);
        at++;
        n_replaced++;
    }
}

size_t utf8_cut(const char *text, size_t at)
{
    while (at > 0 && ((uint8_t)text[at] & 0xc0) == 0x80)
        at--;
    return at;
}
