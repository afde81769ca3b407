/* BLAKE2b (RFC 7693) over the lanes of a vector, with a use as its personalisation.
 *
 *   h_0 = iv ^ parameters;   h_i+1 = F(h_i, block i, bytes so far, is it the last)
 *
 * The same text is compiled for each set of instructions; rotations are single
 * instructions with AVX-512 and two shifts elsewhere. Without vectors, and for pieces
 * that have no neighbour of their length, libsodium does it. */
#include "base/hash_lanes.h"
#include <assert.h>
#include <string.h>

#if defined(__x86_64__)

enum { LANES = 4, WORDS = 16, STATE = 8, BLOCK_BYTES = 128, ROUNDS = 12 };

typedef uint64_t lanes __attribute__((vector_size(LANES * sizeof(uint64_t))));
typedef void (*compress_fn)(lanes state[STATE], const uint8_t *const at[LANES],
                            size_t n_blocks, uint64_t bytes_after_first, bool has_last);

static const uint64_t iv[STATE] = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};

/* Which word of the block each step of a round takes. */
static const uint8_t order[ROUNDS][WORDS] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3}};

#define INSIDE static inline __attribute__((always_inline))

/* G of the RFC. */
INSIDE void mix(lanes v[WORDS], const int at[4], const lanes *x, const lanes *y)
{
    lanes *a = &v[at[0]], *b = &v[at[1]], *c = &v[at[2]], *d = &v[at[3]];
    *a = *a + *b + *x;
    *d ^= *a;
    *d = *d >> 32 | *d << 32;
    *c += *d;
    *b ^= *c;
    *b = *b >> 24 | *b << 40;
    *a = *a + *b + *y;
    *d ^= *a;
    *d = *d >> 16 | *d << 48;
    *c += *d;
    *b ^= *c;
    *b = *b >> 63 | *b << 1;
}

/* Columns, then diagonals. */
INSIDE void mix_all(lanes v[WORDS], const lanes m[WORDS])
{
    static const int places[8][4] = {{0, 4, 8, 12},  {1, 5, 9, 13},  {2, 6, 10, 14},
                                     {3, 7, 11, 15}, {0, 5, 10, 15}, {1, 6, 11, 12},
                                     {2, 7, 8, 13},  {3, 4, 9, 14}};
    for (int r = 0; r < ROUNDS; r++)
        for (int g = 0; g < 8; g++)
            mix(v, places[g], &m[order[r][2 * g]], &m[order[r][2 * g + 1]]);
}

INSIDE uint64_t word_at(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* Blocks that follow each other in each lane's piece. */
INSIDE void compress(lanes state[STATE], const uint8_t *const at[LANES],
                     size_t n_blocks, uint64_t bytes_after_first, bool has_last)
{
    for (size_t b = 0; b < n_blocks; b++) {
        lanes m[WORDS], v[WORDS];
        size_t from = b * BLOCK_BYTES;
        for (size_t i = 0; i < WORDS; i++)
            m[i] =
                (lanes){word_at(at[0] + from + 8 * i), word_at(at[1] + from + 8 * i),
                        word_at(at[2] + from + 8 * i), word_at(at[3] + from + 8 * i)};
        for (size_t i = 0; i < STATE; i++) {
            v[i] = state[i];
            v[STATE + i] = (lanes){0} + iv[i];
        }
        v[12] ^= bytes_after_first + from;
        if (has_last && b + 1 == n_blocks)
            v[14] = ~v[14];
        mix_all(v, m);
        for (size_t i = 0; i < STATE; i++)
            state[i] ^= v[i] ^ v[STATE + i];
    }
}

__attribute__((target("avx2"))) static void
compress_avx2(lanes state[STATE], const uint8_t *const at[LANES], size_t n_blocks,
              uint64_t bytes_after_first, bool has_last)
{
    compress(state, at, n_blocks, bytes_after_first, has_last);
}

__attribute__((target("avx512f,avx512vl"))) static void
compress_avx512(lanes state[STATE], const uint8_t *const at[LANES], size_t n_blocks,
                uint64_t bytes_after_first, bool has_last)
{
    compress(state, at, n_blocks, bytes_after_first, has_last);
}

/* Parameters: 32 bytes of hash, no key, one leaf; then the use, padded with zeros. */
static void begin(lanes state[STATE], const char *use)
{
    uint8_t personal[16] = {0};
    assert(strlen(use) <= sizeof personal);
    memcpy(personal, use, strlen(use));
    for (size_t i = 0; i < STATE; i++)
        state[i] = (lanes){0} + iv[i];
    state[0] ^= 0x01010000 ^ PL_HASH_BYTES;
    state[6] ^= word_at(personal);
    state[7] ^= word_at(personal + 8);
}

/* LANES pieces of one length. The last block is padded with zeros, and is there even
 * when it is empty. */
static void hash_lanes(compress_fn fn, const char *use, const pl_piece *pieces,
                       pl_hash *out)
{
    lanes state[STATE];
    uint8_t last[LANES][BLOCK_BYTES] = {{0}};
    const uint8_t *at[LANES], *last_at[LANES];
    size_t len = pieces[0].len, n_whole = len > 0 ? (len - 1) / BLOCK_BYTES : 0;
    size_t rest = len - n_whole * BLOCK_BYTES;
    for (size_t l = 0; l < LANES; l++) {
        at[l] = pieces[l].data;
        last_at[l] = last[l];
        if (rest > 0)
            memcpy(last[l], at[l] + n_whole * BLOCK_BYTES, rest);
    }
    begin(state, use);
    fn(state, at, n_whole, BLOCK_BYTES, false);
    fn(state, last_at, 1, len, true);
    for (size_t l = 0; l < LANES; l++)
        for (size_t i = 0; i < PL_HASH_BYTES / sizeof(uint64_t); i++) {
            uint64_t word = state[i][l];
            memcpy(out[l].bytes + i * sizeof word, &word, sizeof word);
        }
}

/* Pieces from the first on that have its length, at most LANES. */
static size_t count_alike(const pl_piece *pieces, size_t n)
{
    size_t alike = 1;
    while (alike < n && alike < LANES && pieces[alike].len == pieces[0].len)
        alike++;
    return alike;
}

/* Two lanes that are used are worth two that are not. */
static void hash_groups(compress_fn fn, const char *use, const pl_piece *pieces,
                        size_t n, pl_hash *out)
{
    for (size_t i = 0, some; i < n; i += some) {
        pl_piece group[LANES];
        pl_hash hashes[LANES];
        some = count_alike(pieces + i, n - i);
        if (some == 1) {
            pl_hash_of(use, pieces[i].data, pieces[i].len, &out[i]);
            continue;
        }
        for (size_t l = 0; l < LANES; l++)
            group[l] = pieces[i + (l < some ? l : 0)];
        hash_lanes(fn, use, group, hashes);
        memcpy(out + i, hashes, some * sizeof *out);
    }
}

lanes_kind hash_lanes_best(void)
{
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"))
        return LANES_AVX512;
    return __builtin_cpu_supports("avx2") ? LANES_AVX2 : LANES_NONE;
}

static compress_fn function_of(lanes_kind kind)
{
    return kind == LANES_AVX512 ? compress_avx512
           : kind == LANES_AVX2 ? compress_avx2
                                : NULL;
}

#else

typedef void *compress_fn;

static void hash_groups(compress_fn fn, const char *use, const pl_piece *pieces,
                        size_t n, pl_hash *out)
{
    (void)fn, (void)use, (void)pieces, (void)n, (void)out;
}

lanes_kind hash_lanes_best(void)
{
    return LANES_NONE;
}

static compress_fn function_of(lanes_kind kind)
{
    (void)kind;
    return NULL;
}

#endif

void hash_many_with(lanes_kind kind, const char *use, const pl_piece *pieces, size_t n,
                    pl_hash *out)
{
    compress_fn fn = function_of(kind);
    if (fn)
        hash_groups(fn, use, pieces, n, out);
    for (size_t i = 0; !fn && i < n; i++)
        pl_hash_of(use, pieces[i].data, pieces[i].len, &out[i]);
}

void pl_hash_many(const char *use, const pl_piece *pieces, size_t n, pl_hash *out)
{
    hash_many_with(hash_lanes_best(), use, pieces, n, out);
}
