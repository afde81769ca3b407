/* Checks UTF-8. Every byte of a corpus is checked here, so plain ASCII is checked eight
 * bytes at a time. RFC 3629, section 4 has the table for other bytes. */
#include "corpus/utf8.h"
#include <string.h>

size_t utf8_valid_len(const char *text, size_t len)
{
    const uint64_t highs = 0x8080808080808080u, ones = 0x0101010101010101u;
    const uint8_t *bytes = (const uint8_t *)text;
    size_t at = 0;
    while (at < len) {
        if (len - at >= 8) {
            /* Eight bytes that are all ASCII and not NUL are the usual case. If no byte
             * of x has its high bit set, (x - 0x0101...) sets a high bit only if x has
             * a zero byte. */
            uint64_t word;
            memcpy(&word, bytes + at, sizeof word);
            if (((word | (word - ones)) & highs) == 0) {
                at += 8;
                continue;
            }
        }
        const size_t step = bytes[at] ? pl_utf8_length(bytes + at, len - at) : 0;
        if (step == 0)
            return at;
        at += step;
    }
    return len;
}
