/* Computes Philox4x32-10 and the distributions that are drawn from it.
 *
 * Only integer and IEEE arithmetic is used (+ - * / sqrt, each correctly rounded), so
 * that every machine and device gives the same bits. The logarithm and the circular
 * functions of C libraries differ between machines, so this file has its own. Compile
 * it without contraction to fused multiply-add (-ffp-contract=off, --fmad=false). */
#include "base/rng.h"
#include <math.h>
#include <string.h>
#include <sys/random.h>
#include <sys/types.h>

uint64_t pl_stream(const char *use, uint64_t a, uint64_t b)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (const char *c = use; *c; c++)
        hash = (hash ^ (uint8_t)*c) * 0x100000001b3u;
    hash = pl_mix64(hash + 0x9e3779b97f4a7c15u);
    hash = pl_mix64(hash ^ pl_mix64(a + 0x9e3779b97f4a7c15u));
    return pl_mix64(hash + pl_mix64(b + 0x3c6ef372fe94f82au));
}

/* The counter is (block, stream) and the key is the seed, low words first (Salmon et
 * al. 2011, section 3.3: the S-P rounds and the Weyl key schedule). */
void pl_philox(uint64_t seed, uint64_t stream, uint64_t block, uint32_t out[4])
{
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32);
    uint32_t c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xd2511f53u * c0;
        uint64_t p1 = (uint64_t)0xcd9e8d57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

uint32_t pl_random_u32(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint32_t words[4];
    pl_philox(seed, stream, index / 4, words);
    return words[index % 4];
}

double pl_random_uniform(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint32_t words[4];
    pl_philox(seed, stream, index / 2, words);
    size_t at = index % 2 * 2;
    uint64_t bits = (uint64_t)words[at + 1] << 32 | words[at];
    return (double)(bits >> 11) * 0x1p-53;
}

/* Returns ln x for x > 0 (not subnormal). Let x = m 2^e with m in [sqrt 1/2, sqrt 2),
 * and let s = (m-1)/(m+1). Then ln m = 2 (s + s^3/3 + s^5/5 + ...). Since s^2 < 0.03,
 * eleven terms reach double precision. */
static inline double natural_log(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & 0xfffffffffffffu) | 0x3ff0000000000000u;
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        exponent++;
    }
    double s = (m - 1.0) / (m + 1.0), s2 = s * s, sum = 0.0;
#pragma GCC unroll 11
    for (int k = 21; k >= 1; k -= 2)
        sum = sum * s2 + 1.0 / k;
    return 2.0 * s * sum + exponent * 0.6931471805599453;
}

typedef struct normals {
    float of_cosine, of_sine;
} normals;

/* Returns two normal values, made from two random words (Box and Muller 1958). Adding a
 * half keeps the argument of the logarithm above zero; so no value is above 6.8 in
 * magnitude. */
static inline normals draw_normals(uint32_t for_radius, uint32_t for_turn)
{
    const double radius = sqrt(-2.0 * natural_log((for_radius + 0.5) * 0x1p-32));
    /* Computes cos and sin of 2 pi * turn, where turn is in [0, 1). The quadrant is
     * split off exactly; on |x| <= pi/4 the terms of the Taylor series after x^17 are
     * below 1e-17. */
    const double turn = for_turn * 0x1p-32;
    const int quadrant = (int)(turn * 4.0 + 0.5);
    const double x = (turn * 4.0 - quadrant) * 1.5707963267948966, x2 = x * x;
    double c = 1.0, s = 1.0;
#pragma GCC unroll 8
    for (int k = 16; k >= 2; k -= 2) {
        c = 1.0 - c * x2 / (k * (k - 1));
        s = 1.0 - s * x2 / (k * (k + 1));
    }
    const float cosine = (float)(radius * c), sine = (float)(radius * (s * x));
    switch (quadrant % 4) {
    case 0:
        return (normals){cosine, sine};
    case 1:
        return (normals){-sine, cosine};
    case 2:
        return (normals){-cosine, -sine};
    default:
        return (normals){sine, -cosine};
    }
}

/* One block of Philox has four words, which give two pairs of values. */
float pl_random_normal(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint32_t words[4];
    pl_philox(seed, stream, index / 4, words);
    const size_t at = index % 4 / 2 * 2;
    const normals two = draw_normals(words[at], words[at + 1]);
    return index % 2 ? two.of_sine : two.of_cosine;
}

void pl_random_normals(uint64_t seed, uint64_t stream, size_t n, float *out)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        uint32_t words[4];
        pl_philox(seed, stream, i / 4, words);
        const normals first = draw_normals(words[0], words[1]);
        const normals second = draw_normals(words[2], words[3]);
        out[i] = first.of_cosine;
        out[i + 1] = first.of_sine;
        out[i + 2] = second.of_cosine;
        out[i + 3] = second.of_sine;
    }
    for (; i < n; i++)
        out[i] = pl_random_normal(seed, stream, i);
}

/* A balanced Feistel network over numbers of 2h bits, with the smallest h for which n-1
 * fits. Each round is a bijection for any round function, so the whole network is a
 * bijection, too. */
enum { FEISTEL_ROUNDS = 8 };

static uint64_t feistel(const uint32_t keys[FEISTEL_ROUNDS], int half_bits, uint64_t x)
{
    uint64_t mask = ((uint64_t)1 << half_bits) - 1;
    uint64_t left = x >> half_bits, right = x & mask;
    for (int round = 0; round < FEISTEL_ROUNDS; round++) {
        uint64_t mixed = pl_mix64((uint64_t)keys[round] << 32 ^ right);
        uint64_t next = left ^ (mixed & mask);
        left = right;
        right = next;
    }
    return left << half_bits | right;
}

/* Cycle walking (Black and Rogaway 2002): a value outside 0..n-1 is sent through again
 * until the result is inside. The walk always ends, because it follows a cycle of the
 * bijection, which contains i. On average it takes fewer than four passes, since 2^2h <
 * 4n. */
uint64_t pl_permute(uint64_t seed, uint64_t stream, uint64_t n, uint64_t i)
{
    if (n <= 1)
        return 0;
    int half_bits = 1;
    while (half_bits < 32 && (n - 1) >> (2 * half_bits))
        half_bits++;
    uint32_t keys[FEISTEL_ROUNDS];
    for (uint64_t block = 0; block < FEISTEL_ROUNDS / 4; block++)
        pl_philox(seed, stream, block, keys + 4 * block);
    uint64_t x = i;
    do
        x = feistel(keys, half_bits, x);
    while (x >= n);
    return x;
}

/* /dev/urandom would need an open file descriptor. getrandom cannot fail once the
 * machine has booted, but it may be interrupted. */
uint64_t pl_random_fresh(void)
{
    uint64_t out = 0;
    while (out == 0)
        if (getrandom(&out, sizeof out, 0) != (ssize_t)sizeof out)
            out = 0;
    return out;
}
