/* Computes the hash with which git names a blob: SHA-1 (FIPS 180-4) over "blob LENGTH",
 * a zero byte, and the bytes. */
#include "base/hash.h"
#include <stdio.h>
#include <string.h>

typedef struct sha1 {
    uint32_t h[5];
    uint8_t block[64];
    uint64_t bytes;
} sha1;

static uint32_t rotate(uint32_t x, int n)
{
    return x << n | x >> (32 - n);
}

static void add_block(sha1 *s)
{
    uint32_t w[80], a = s->h[0], b = s->h[1], c = s->h[2], d = s->h[3], e = s->h[4];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)s->block[4 * i] << 24 | (uint32_t)s->block[4 * i + 1] << 16 |
               (uint32_t)s->block[4 * i + 2] << 8 | s->block[4 * i + 3];
    for (int i = 16; i < 80; i++)
        w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    for (int i = 0; i < 80; i++) {
        static const uint32_t k[4] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
        const uint32_t f = i < 20              ? (b & c) | (~b & d)
                           : i >= 40 && i < 60 ? (b & c) | (b & d) | (c & d)
                                               : b ^ c ^ d;
        const uint32_t next = rotate(a, 5) + f + e + k[i / 20] + w[i];
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    s->h[0] += a;
    s->h[1] += b;
    s->h[2] += c;
    s->h[3] += d;
    s->h[4] += e;
}

static void add_bytes(sha1 *s, const void *data, size_t len)
{
    for (const uint8_t *from = data; len > 0; from++, len--) {
        s->block[s->bytes++ % 64] = *from;
        if (s->bytes % 64 == 0)
            add_block(s);
    }
}

void pl_git_blob_name(const void *data, size_t len, char out[41])
{
    sha1 s = {.h = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}};
    char head[32];
    uint8_t tail[8];
    const int n = snprintf(head, sizeof head, "blob %zu", len);
    add_bytes(&s, head, (size_t)n + 1);
    add_bytes(&s, data, len);
    const uint64_t bits = s.bytes * 8;
    for (int i = 0; i < 8; i++)
        tail[i] = (uint8_t)(bits >> (56 - 8 * i));
    add_bytes(&s, "\x80", 1);
    while (s.bytes % 64 != 56)
        add_bytes(&s, "", 1);
    add_bytes(&s, tail, sizeof tail);
    for (int i = 0; i < 5; i++)
        snprintf(out + 8 * i, 9, "%08x", (unsigned)s.h[i]);
}
