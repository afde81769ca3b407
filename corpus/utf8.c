/* Checks and repairs UTF-8. Every byte of a corpus is checked here, so plain ASCII is
 * checked eight bytes at a time. RFC 3629, section 4 has the table for other bytes. */
#include "corpus/utf8.h"
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd"

static bool is_tail(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

/* Returns the length of the character at `at` in bytes, or 0 if it is not valid. After
 * some first bytes the second byte has a smaller range, which excludes overlong forms
 * and surrogates (RFC 3629, section 4). */
static size_t character_len(const uint8_t *at, size_t left)
{
    uint8_t lead = at[0];
    if (lead < 0x80)
        return lead != 0;
    if (lead < 0xc2 || lead > 0xf4)
        return 0;
    size_t need = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (left < need)
        return 0;
    uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (at[1] < low || at[1] > high)
        return 0;
    for (size_t i = 2; i < need; i++)
        if (!is_tail(at[i]))
            return 0;
    return need;
}

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
        size_t step = character_len(bytes + at, len - at);
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
    while (at > 0 && is_tail((uint8_t)text[at]))
        at--;
    return at;
}
