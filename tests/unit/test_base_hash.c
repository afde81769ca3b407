/* folder: base; label: unit */
#include "base/base.h"
#include "base/hash_lanes.h"
#include <string.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

/* pl_hash_of is BLAKE2b, personalised by the use of the bytes. The expected values were
 * computed with Python's hashlib.blake2b(data, digest_size=32, person=use). */
static void a_hash_is_blake2b_personalised_by_its_use(void **state)
{
    (void)state;
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

/* pl_sha256 and pl_git_blob_name must compute the hashes that sha256sum and `git
 * hash-object --stdin` print for the same bytes. */
static void files_have_the_names_that_hubs_give_them(void **state)
{
    (void)state;
    static const struct {
        size_t len;
        const char *sha, *git;
    } known[] = {
        {0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
         "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"},
        {1, "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb",
         "2e65efe2a145dda7ee51d1741299f848e5bf752e"},
        {46, "6643110c5628fff59edf76d82d5bf573bf800f16a4d65dfb1e5d6f1a46296d0b",
         "50b3bbe915fe104dbbb6786fdcfa310bcfc25d4e"},
        {47, "11eaed932c6c6fddfc2efc394e609facf4abe814fc6180d03b14fce13a07d0e5",
         "5e3bf7e629b4908cce461530c17a64365cb47303"},
        {48, "97daac0ee9998dfcad6c9c0970da5ca411c86233a944c25b47566f6a7bc1ddd5",
         "12d42395b020f44bb7710113b31f688d0ebeda7c"},
        {54, "a3f01b6939256127582ac8ae9fb47a382a244680806a3f613a118851c1ca1d47",
         "60704cd2c753c0419b5d235cbf244ec4c696cded"},
        {55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318",
         "d1985ddc2983785702b9a90effd5aff2f7cfdca4"},
        {56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a",
         "1f973e890f52da1f22fa7e5620a628bc4ee74cb3"},
        {118, "879dc4f05b19ebc3b037f4683633df1332b054cf52fa372d323c421cb893a2aa",
         "a022b0de5df0047aa23aac0b2f5cd841079a8eff"},
        {119, "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb",
         "1325c3d76ea6a66e75dce490a0b8cb8b12233ee0"},
        {120, "2f3d335432c70b580af0e8e1b3674a7c020d683aa5f73aaaedfdc55af904c21c",
         "253af86ee859905852357aee8bd83b08601364ae"},
        {200, "c2a908d98f5df987ade41b5fce213067efbcc21ef2240212a41e54b5e7c28ae5",
         "1d33d17ad3abab24046a78cf5a4abc31e69865b3"}};
    char bytes[200], text[PL_HASH_TEXT], git[41];
    pl_hash sha;
    memset(bytes, 'a', sizeof bytes);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        pl_sha256(bytes, known[i].len, &sha);
        pl_hash_format(&sha, text);
        assert_string_equal(text, known[i].sha);
        pl_git_blob_name(bytes, known[i].len, git);
        assert_string_equal(git, known[i].git);
    }
}

static void the_same_bytes_have_another_name_in_another_use(void **state)
{
    (void)state;
    pl_hash a, b;
    pl_hash_of("chunk", "abc", 3, &a);
    pl_hash_of("blob", "abc", 3, &b);
    assert_false(pl_hash_equal(&a, &b));
}

static void a_hash_over_pieces_is_the_hash_of_the_whole_at_any_alignment(void **state)
{
    (void)state;
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
static void many_pieces_have_the_hashes_that_each_has_alone(void **state)
{
    (void)state;
    enum { LENGTHS = 523, MANY = 19 };
    static uint8_t data[LENGTHS + 8 * MANY];
    pl_hash alone, many[MANY];
    pl_piece pieces[MANY];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 11 + i / 251);
    for (int kind = LANES_NONE; kind <= (int)hash_lanes_best(); kind++)
        for (size_t len = 0; len < LENGTHS; len++) {
            const size_t lengths[] = {len, len / 2, len, LENGTHS - len, 0};
            size_t n = len % MANY + 1; /* fewer pieces than lanes, and more */
            for (size_t i = 0; i < n; i++)
                pieces[i] = (pl_piece){data + 7 * i, lengths[i % 5]};
            hash_many_with((lanes_kind)kind, "chunk", pieces, n, many);
            for (size_t i = 0; i < n; i++) {
                pl_hash_of("chunk", pieces[i].data, pieces[i].len, &alone);
                assert_true(pl_hash_equal(&alone, &many[i]));
            }
        }
}

static void the_use_counts_for_many_pieces_too(void **state)
{
    (void)state;
    pl_piece pieces[2] = {{"abc", 3}, {"abd", 3}};
    pl_hash out[2], alone;
    pl_hash_many("sixteen-bytes-ok", pieces, 2, out);
    pl_hash_of("sixteen-bytes-ok", "abd", 3, &alone);
    assert_true(pl_hash_equal(&alone, &out[1]));
    pl_hash_many("sixteen-bytes-ko", pieces, 2, out);
    assert_false(pl_hash_equal(&alone, &out[1]));
    pl_hash_many("chunk", NULL, 0, NULL); /* without any piece nothing happens */
}

static void a_hash_has_one_spelling(void **state)
{
    (void)state;
    pl_hash hash, back;
    char text[PL_HASH_TEXT + 1];
    pl_hash_of("config", "x", 1, &hash);
    pl_hash_format(&hash, text);
    assert_int_equal(pl_hash_parse(text, &back), PL_OK);
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
static void the_checksum_is_xxh3_64_however_the_bytes_are_cut(void **state)
{
    (void)state;
    uint8_t data[700];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 13);
    assert_true(pl_checksum("", 0) == 0x2d06800538d394c2u);
    for (size_t cut = 0; cut <= sizeof data; cut += 35) {
        pl_piece pieces[] = {{data, cut}, {NULL, 0}, {data + cut, sizeof data - cut}};
        assert_true(pl_checksum_pieces(pieces, 3) == pl_checksum(data, sizeof data));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hash_is_blake2b_personalised_by_its_use),
        cmocka_unit_test(files_have_the_names_that_hubs_give_them),
        cmocka_unit_test(the_same_bytes_have_another_name_in_another_use),
        cmocka_unit_test(a_hash_over_pieces_is_the_hash_of_the_whole_at_any_alignment),
        cmocka_unit_test(many_pieces_have_the_hashes_that_each_has_alone),
        cmocka_unit_test(the_use_counts_for_many_pieces_too),
        cmocka_unit_test(a_hash_has_one_spelling),
        cmocka_unit_test(the_checksum_is_xxh3_64_however_the_bytes_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
