/* folder: base; label: unit */
#include "base/base.h"
#include "base/hash_lanes.h"

#include "tests/support/suite.h"

/* pl_hash_of is BLAKE2b, personalised by the use of the bytes. The expected values were
 * computed with Python's hashlib.blake2b(data, digest_size=32, person=use). */
PL_TEST(a_hash_is_blake2b_personalised_by_its_use)
{
    char text[PL_HASH_TEXT];
    pl_hash hash;
    pl_hash_of("chunk", "abc", 3, &hash);
    pl_hash_format(&hash, text);
    assert_string_equal(
        text, "058684d4a6ba321a4a75959362807bea0e7b1a3c6be8f841ee6a9a17b7996e46");
    pl_hash_of("sixteen-bytes-ok", NULL, 0, &hash);
    pl_hash_format(&hash, text);
    assert_string_equal(
        text, "3ba1d5231e42608a94f9052a911bf9af9d3fe564d3593554258219722e08311e");
}

PL_TEST(the_same_bytes_have_another_name_in_another_use)
{
    pl_hash a, b;
    pl_hash_of("chunk", "abc", 3, &a);
    pl_hash_of("blob", "abc", 3, &b);
    assert_false(pl_hash_equal(&a, &b));
}

PL_TEST(a_hash_over_pieces_is_the_hash_of_the_whole_at_any_alignment)
{
    uint8_t data[1000];
    struct {
        uint64_t shift[8];
        /* Room behind `shift`: a hasher is placed at each element of `shift`, so its
         * address takes all multiples of 8 modulo 64. */
        pl_hasher hashers[8];
    } memory;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 7);
    pl_hash whole, pieces;
    pl_hash_of("blob", data, sizeof data, &whole);
    for (size_t shift = 0; shift < 8; shift++) {
        pl_hasher *hasher = (pl_hasher *)(void *)&memory.shift[shift];
        pl_hasher_init(hasher, "blob");
        for (size_t at = 0, step = 1 + shift; at < sizeof data; at += step) {
            step = step * 2 < sizeof data - at ? step * 2 : sizeof data - at;
            pl_hasher_add(hasher, data + at, step);
        }
        pl_hasher_end(hasher, &pieces);
        assert_true(pl_hash_equal(&whole, &pieces));
    }
}

/* Pieces that are hashed together must get the hash that each has alone. Tests all
 * lengths near the ends of blocks, pieces of equal and of different lengths, and each
 * instruction set of this machine. */
PL_TEST(many_pieces_have_the_hashes_that_each_has_alone)
{
    enum { LENGTHS = 523, MANY = 19 };
    static uint8_t data[LENGTHS + 8 * MANY];
    pl_hash alone, many[MANY];
    pl_piece pieces[MANY];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 11 + i / 251);
    for (int isa = PL_ISA_PORTABLE; isa <= (int)pl_isa_newest(); isa++)
        for (size_t len = 0; len < LENGTHS; len++) {
            const size_t lengths[] = {len, len / 2, len, LENGTHS - len, 0};
            size_t n = len % MANY + 1; /* fewer pieces than lanes, and more */
            for (size_t i = 0; i < n; i++)
                pieces[i] = (pl_piece){data + 7 * i, lengths[i % 5]};
            hash_many_with((pl_isa)isa, "chunk", pieces, n, many);
            for (size_t i = 0; i < n; i++) {
                pl_hash_of("chunk", pieces[i].data, pieces[i].len, &alone);
                assert_true(pl_hash_equal(&alone, &many[i]));
            }
        }
}

PL_TEST(the_use_counts_for_many_pieces_too)
{
    pl_piece pieces[2] = {{"abc", 3}, {"abd", 3}};
    pl_hash out[2], alone;
    pl_hash_many("sixteen-bytes-ok", pieces, 2, out);
    pl_hash_of("sixteen-bytes-ok", "abd", 3, &alone);
    assert_true(pl_hash_equal(&alone, &out[1]));
    pl_hash_many("sixteen-bytes-ko", pieces, 2, out);
    assert_false(pl_hash_equal(&alone, &out[1]));
    pl_hash_many("chunk", NULL, 0, NULL); /* without any piece nothing happens */
}

PL_TEST(a_hash_has_one_spelling)
{
    pl_hash hash, back;
    char text[PL_HASH_TEXT + 1];
    pl_hash_of("config", "x", 1, &hash);
    pl_hash_format(&hash, text);
    assert_ok(pl_hash_parse(text, &back));
    assert_true(pl_hash_equal(&hash, &back));
    text[63] = 'G';
    assert_int_equal(pl_hash_parse(text, &back), PL_ERR_DATA);
    assert_true(pl_hash_none(&back));
    text[63] = 'A';
    assert_int_equal(pl_hash_parse(text, &back), PL_ERR_DATA);
    text[63] = 0;
    assert_int_equal(pl_hash_parse(text, &back), PL_ERR_DATA);
    memset(text, '0', 65);
    text[65] = 0;
    assert_int_equal(pl_hash_parse(text, &back), PL_ERR_DATA);
    assert_int_equal(pl_hash_parse("", &back), PL_ERR_DATA);
}

/* pl_checksum is XXH3-64, and does not depend on how the bytes are cut into pieces. The
 * expected value for empty input is the one in xxHash's documentation. */
PL_TEST(the_checksum_is_xxh3_64_however_the_bytes_are_cut)
{
    uint8_t data[700];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 13);
    assert_true(pl_checksum("", 0) == 0x2d06800538d394c2u);
    for (size_t cut = 0; cut <= sizeof data; cut += 35) {
        pl_piece pieces[] = {{data, cut}, {NULL, 0}, {data + cut, sizeof data - cut}};
        assert_true(pl_checksum_pieces(pieces, 3) == pl_checksum(data, sizeof data));
    }
}
