/* Computes BLAKE2b (RFC 7693) in the lanes of a vector, with the use of the hash as
 * personalisation.
 *
 *   h_0 = iv ^ parameters;   h_i+1 = F(h_i, block i, bytes so far, last or not)
 *
 * When a lane has finished a piece, it takes the next one, so all lanes stay busy even
 * if pieces differ in length. The same source (hash_lanes.inc) is compiled for four and
 * for eight lanes; rotations are single instructions with AVX-512 and two shifts
 * elsewhere. libsodium hashes single pieces, and all without vector instructions. */
#include "base/hash_lanes.h"
#include "base/sanitize.h"
#include <assert.h>
#include <string.h>

#if defined(__x86_64__)

enum { WORDS = 16, STATE = 8, BLOCK_BYTES = 128, ROUNDS = 12, LANES_MAX = 8 };

static const uint64_t iv[STATE] = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};

/* order[r][i]: the word of the block that step i of round r uses. */
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

/* These functions become part of compress, which checks the blocks that they read. */
#define INSIDE PL_CHECKS_RANGES static inline __attribute__((always_inline))

INSIDE uint64_t word_at(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

typedef uint64_t four __attribute__((vector_size(32)));
typedef uint64_t eight __attribute__((vector_size(64)));
typedef uint64_t eight_bytes
    /* a vector of this type may lie at any address */
    __attribute__((vector_size(64), aligned(1), may_alias));

/* Loads one block of each lane: m[i] gets word i of all four blocks. */
INSIDE void load_four(four m[WORDS], const uint8_t *const at[4], size_t from)
{
#pragma GCC unroll 16
    for (size_t i = 0; i < WORDS; i++)
        m[i] = (four){word_at(at[0] + from + 8 * i), word_at(at[1] + from + 8 * i),
                      word_at(at[2] + from + 8 * i), word_at(at[3] + from + 8 * i)};
}

#define SHUFFLE __builtin_shufflevector

/* Loads eight words (half a block) of each lane: m[i] gets word i of all lanes. */
INSIDE void turn(eight m[8], const uint8_t *const at[8], size_t from)
{
    eight r[8], t[8], u[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        r[i] = *(const eight_bytes *)(at[i] + from);
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        t[i] = SHUFFLE(r[i], r[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        t[i + 1] = SHUFFLE(r[i], r[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        const int i = k + k / 2 * 2; /* i is 0, 1, 4, 5 */
        u[i] = SHUFFLE(t[i], t[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        u[i + 2] = SHUFFLE(t[i], t[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        m[i] = SHUFFLE(u[i], u[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        m[i + 4] = SHUFFLE(u[i], u[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

INSIDE void load_eight(eight m[WORDS], const uint8_t *const at[8], size_t from)
{
    turn(m, at, from);
    turn(m + 8, at, from + BLOCK_BYTES / 2);
}

typedef struct lane {
    const uint8_t *at;
    size_t left, index;
    uint64_t done; /* number of bytes hashed so far */
    bool busy;
} lane;

typedef struct stream {
    const pl_piece *pieces;
    size_t n, next; /* next: index of the first piece that is not yet in a lane */
    pl_hash *out;
    /* none: zeros, the argument `last` of compress if no lane is at its last block */
    uint64_t start[STATE], none[LANES_MAX];
    lane lanes[LANES_MAX];
} stream;

static size_t blocks_before_last(const lane *l)
{
    return l->left > 0 ? (l->left - 1) / BLOCK_BYTES : 0;
}

/* Returns the busy lane with the fewest bytes left; NULL if all lanes are idle. */
static const lane *shortest_lane(const stream *s, size_t n_lanes)
{
    const lane *shortest = NULL;
    for (const lane *l = s->lanes; l < s->lanes + n_lanes; l++)
        if (l->busy && (!shortest || l->left < shortest->left))
            shortest = l;
    return shortest;
}

static void advance(lane *l, size_t bytes)
{
    if (!l->busy)
        return;
    l->at += bytes;
    l->left -= bytes;
    l->done += bytes;
}

#define LANES       4
#define LANE_TYPE   four
#define LOAD        load_four
#define TARGET      "avx2"
#define NAMED(name) name##_avx2
#include "base/hash_lanes.inc"

#define LANES       4
#define LANE_TYPE   four
#define LOAD        load_four
#define TARGET      "avx512f,avx512vl"
#define NAMED(name) name##_avx512
#include "base/hash_lanes.inc"

#define LANES       8
#define LANE_TYPE   eight
#define LOAD        load_eight
#define TARGET      "avx512f,avx512vl"
#define NAMED(name) name##_wide
#include "base/hash_lanes.inc"

static void hash_stream(pl_isa isa, const char *use, const pl_piece *pieces, size_t n,
                        pl_hash *out)
{
    stream s = {.pieces = pieces, .n = n, .out = out};
    /* The state in which every piece starts: the parameters are a hash of 32 bytes, no
     * key, one leaf, and the use (padded with zeros) as personalisation. */
    uint8_t personal[16] = {0};
    assert(strlen(use) <= sizeof personal);
    memcpy(personal, use, strlen(use));
    memcpy(s.start, iv, sizeof iv);
    s.start[0] ^= 0x01010000 ^ PL_HASH_BYTES;
    s.start[6] ^= word_at(personal);
    s.start[7] ^= word_at(personal + 8);
    if (isa < PL_ISA_AVX512)
        hash_avx2(&s);
    else if (n <= LANES_MAX / 2)
        hash_avx512(&s);
    else
        hash_wide(&s);
}

#else

static void hash_stream(pl_isa isa, const char *use, const pl_piece *pieces, size_t n,
                        pl_hash *out)
{
    (void)isa, (void)use, (void)pieces, (void)n, (void)out;
}

#endif

void hash_many_with(pl_isa isa, const char *use, const pl_piece *pieces, size_t n,
                    pl_hash *out)
{
    if (isa >= PL_ISA_AVX2 && n > 1)
        hash_stream(isa, use, pieces, n, out);
    else
        for (size_t i = 0; i < n; i++)
            pl_hash_of(use, pieces[i].data, pieces[i].len, &out[i]);
}

void pl_hash_many(const char *use, const pl_piece *pieces, size_t n, pl_hash *out)
{
    hash_many_with(pl_isa_newest(), use, pieces, n, out);
}
