/* folder: corpus; label: unit */
#include "tests/support/corpus_support.h"

/* A file of two documents, written by hand from docs/PROTOCOL.md section 5. */
static const uint8_t golden[] = {
    0x50, 0x4c, 0x54, 0x4f, 0x4b, 0x0d, 0x0a, 0x1a, /* magic */
    1,    0,    0,    0,    2,    0,    0,    0,    /* version, token_bytes */
    0xe8, 0x03, 0,    0,    2,    0,    0,    0,    /* vocab 1000, n_docs */
    2,    0,    0,    0,    8,    0,    0,    0,    /* n_domains, names_bytes */
    7,    0,    0,    0,    0,    0,    0,    0,    /* n_tokens */
    0,    0,    0,    0,    0,    0,    0,    0,    /* reserved */
    0xde, 0x54, 0x9b, 0x67, 0xcb, 0xad, 0xb6, 0x2e, /* body checksum */
    0x21, 0x01, 0x2a, 0xcd, 0x48, 0x0f, 0xf1, 0x5a, /* header checksum */
    1,    0,    4,    0,    2,    0,                /* BOS 4 EOS */
    1,    0,    0xcc, 0,    0xcd, 0,    2,    0,    /* BOS 204 205 EOS */
    0,    0,                                        /* padding to a multiple of 8 */
    0,    0,    0,    0,    0,    0,    0,    0,    /* first */
    3,    0,    0,    0,    0,    0,    0,    0,    /* n_tokens, domain */
    0x11, 0x11, 0,    0,    0,    0,    0,    0,    /* hash */
    3,    0,    0,    0,    0,    0,    0,    0,    /* first */
    4,    0,    0,    0,    1,    0,    0,    0,    /* n_tokens, domain */
    0x22, 0x22, 0,    0,    0,    0,    0,    0,    /* hash */
    'o',  'n',  'e',  0,    't',  'w',  'o',  0};

static void check_golden(const pl_tokens *tokens)
{
    int32_t ids[7];
    static const int32_t expected[] = {1, 4, 2, 1, 204, 205, 2};
    assert_int_equal(pl_tokens_count(tokens), 7);
    assert_int_equal(pl_tokens_n_docs(tokens), 2);
    assert_int_equal(pl_tokens_vocab(tokens), 1000);
    pl_tokens_copy(tokens, 0, 7, ids);
    assert_memory_equal(ids, expected, sizeof expected);
    assert_int_equal(pl_tokens_doc(tokens, 1)->first, 3);
    assert_int_equal(pl_tokens_doc(tokens, 1)->n_tokens, 4);
    assert_int_equal(pl_tokens_doc(tokens, 1)->domain, 1);
    assert_int_equal(pl_tokens_doc(tokens, 1)->hash, 0x2222);
    assert_int_equal(pl_tokens_n_domains(tokens), 2);
    assert_string_equal(pl_tokens_domain(tokens, 1), "two");
}

PL_TEST(the_golden_bytes_are_read_as_the_protocol_says)
{
    OWNED(pl_tokens_close) pl_tokens *tokens;
    write_bytes("golden.tok", golden, sizeof golden);
    assert_ok(pl_tokens_open(in_scratch("golden.tok"), true, &tokens));
    check_golden(tokens);
    pl_tokens_close(&tokens);
    assert_null(tokens);
    assert_ok(pl_tokens_view(golden, sizeof golden, "a shard", &tokens));
    check_golden(tokens);
}

PL_TEST(a_subset_of_all_documents_is_the_same_bytes)
{
    OWNED(pl_tokens_close) pl_tokens *tokens;
    OWNED(pl_buf_destroy) pl_buf subset = {0};
    static const uint32_t all[] = {0, 1};
    assert_ok(pl_tokens_view(golden, sizeof golden, "golden", &tokens));
    pl_buf_append(&subset, "before", 6);
    assert_ok(pl_tokens_subset(tokens, all, 2, &subset));
    assert_int_equal(subset.len, 6 + sizeof golden);
    assert_memory_equal(subset.data, "before", 6);
    assert_memory_equal(subset.data + 6, golden, sizeof golden);
}

PL_TEST(a_subset_keeps_order_and_repeats_documents)
{
    static const uint32_t lens[] = {3, 50, 4};
    static const uint32_t picked[] = {2, 0, 2};
    OWNED(pl_buf_destroy) pl_buf file = {0}, subset = {0};
    OWNED(pl_tokens_close) pl_tokens *tokens, *part;
    build_tokens(lens, 3, 70000, &file); /* 70000 pieces need four bytes per token */
    assert_ok(pl_tokens_view(file.data, file.len, "file", &tokens));
    assert_ok(pl_tokens_subset(tokens, picked, 3, &subset));
    assert_ok(pl_tokens_view(subset.data, subset.len, "subset", &part));
    assert_int_equal(pl_tokens_n_docs(part), 3);
    assert_int_equal(pl_tokens_count(part), 11);
    for (uint32_t d = 0; d < 3; d++) {
        int32_t got[4];
        const pl_token_doc *doc = pl_tokens_doc(part, d);
        assert_int_equal(doc->n_tokens, lens[picked[d]]);
        assert_int_equal(doc->hash, 0x1111 * (picked[d] + 1));
        assert_int_equal(doc->domain, picked[d] % 2);
        pl_tokens_copy(part, doc->first, doc->n_tokens, got);
        for (size_t t = 0; t < doc->n_tokens; t++)
            assert_int_equal(got[t], test_token(picked[d], t, doc->n_tokens));
    }
    assert_fails(pl_tokens_subset(tokens, &(uint32_t){3}, 1, &subset), PL_ERR_ARG,
                 "has 3 documents, so there is no document with the index 3");
}

PL_TEST(an_empty_subset_is_a_valid_file)
{
    OWNED(pl_tokens_close) pl_tokens *tokens, *part;
    OWNED(pl_buf_destroy) pl_buf subset = {0};
    assert_ok(pl_tokens_view(golden, sizeof golden, "golden", &tokens));
    assert_ok(pl_tokens_subset(tokens, NULL, 0, &subset));
    assert_ok(pl_tokens_view(subset.data, subset.len, "subset", &part));
    assert_int_equal(pl_tokens_n_docs(part), 0);
    assert_int_equal(pl_tokens_n_domains(part), 2);
}

PL_TEST(every_truncation_and_every_addition_is_damage)
{
    uint8_t longer[sizeof golden + 8] = {0};
    pl_tokens *tokens;
    memcpy(longer, golden, sizeof golden);
    for (size_t len = 0; len <= sizeof longer; len++) {
        OWNED(free_memory)
        uint8_t *exact = malloc(len + 1); /* a sanitizer finds reads beyond the end */
        assert_non_null(exact);
        memcpy(exact, longer, len);
        pl_status status = pl_tokens_view(exact, len, "a shard", &tokens);
        assert_int_equal(status, len == sizeof golden ? PL_OK : PL_ERR_DAMAGED);
        if (len != sizeof golden)
            assert_said("a shard");
        pl_tokens_close(&tokens);
    }
}

/* Reads all tokens and domain names; a sanitizer finds reads outside of the file. */
static void touch_all(const pl_tokens *tokens)
{
    for (uint32_t d = 0; d < pl_tokens_n_docs(tokens); d++) {
        const pl_token_doc *doc = pl_tokens_doc(tokens, d);
        assert_true(strlen(pl_tokens_domain(tokens, doc->domain)) > 0);
        for (uint32_t t = 0; t < doc->n_tokens; t++) {
            int32_t token;
            pl_tokens_copy(tokens, doc->first + t, 1, &token);
            assert_in_range(token, 0, pl_tokens_vocab(tokens) - 1);
        }
    }
}

PL_TEST(every_flipped_bit_is_found_by_verification)
{
    for (size_t bit = 0; bit < sizeof golden * 8; bit++) {
        uint8_t bytes[sizeof golden];
        pl_tokens *tokens;
        memcpy(bytes, golden, sizeof golden);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        pl_status status = pl_tokens_view(bytes, sizeof bytes, "a shard", &tokens);
        if (status != PL_ERR_DAMAGED && status != PL_ERR_UNSUPPORTED)
            fail_msg("the flip of bit %zu was not noticed", bit);
        assert_null(tokens);
    }
}

PL_TEST(a_flipped_bit_never_leads_outside_without_verification)
{
    size_t n_opened = 0;
    for (size_t bit = 0; bit < sizeof golden * 8; bit++) {
        uint8_t bytes[sizeof golden];
        OWNED(pl_tokens_close) pl_tokens *tokens;
        memcpy(bytes, golden, sizeof golden);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        write_bytes("flipped.tok", bytes, sizeof bytes);
        if (pl_tokens_open(in_scratch("flipped.tok"), false, &tokens) != PL_OK)
            continue;
        n_opened++;
        touch_all(tokens);
    }
    assert_true(n_opened >= 7 * 16); /* without verification, tokens are not checked */
}

PL_TEST(a_forged_file_is_refused_by_its_contents)
{
    static const struct {
        size_t at;
        uint8_t value;
        const char *said;
    } forgeries[] = {
        {12, 4, "impossible value"},       /* token_bytes does not fit vocab */
        {20, 0, "header says"},            /* no documents */
        {23, 0xff, "header says"},         /* four billion documents */
        {24, 3, "domain name 2"},          /* one name too many */
        {24, 1, "after the domain names"}, /* one name too few */
        {38, 0xff, "impossible value"},    /* the header says 2^55 tokens */
        {40, 1, "impossible value"},       /* the reserved field is not 0 */
        {64 + 7, 0xff, "token 3"},         /* a token that is not in the vocabulary */
        /* The first document does not begin at token 0. */
        {80, 1, "entry 0"},
        {88, 1, "entry 0"},          /* a document of only one token */
        {88, 8, "entry 0"},          /* the document is longer than the file */
        {88, 2, "entry 1"},          /* a gap between documents */
        {112, 3, "6 tokens"},        /* fewer tokens than the header says */
        {116, 2, "entry 1"},         /* a domain that does not exist */
        {128, 0, "domain name 0"},   /* an empty name */
        {135, 'x', "domain name 1"}, /* a name without its final zero */
    };
    for (size_t i = 0; i < sizeof forgeries / sizeof *forgeries; i++) {
        OWNED(pl_buf_destroy) pl_buf bytes = {0}, sums = {0};
        pl_tokens *tokens;
        pl_buf_append(&bytes, golden, sizeof golden);
        bytes.data[forgeries[i].at] = forgeries[i].value;
        put_le(&sums, pl_checksum(bytes.data + 64, sizeof golden - 64), 8);
        memcpy(bytes.data + 48, sums.data, 8);
        put_le(&sums, pl_checksum(bytes.data, 56), 8);
        memcpy(bytes.data + 56, sums.data + 8, 8);
        assert_fails(pl_tokens_view(bytes.data, bytes.len, "a shard", &tokens),
                     PL_ERR_DAMAGED, forgeries[i].said);
    }
}

PL_TEST(bytes_at_an_odd_address_are_read_all_the_same)
{
    static uint8_t memory[sizeof golden + 8];
    for (size_t shift = 1; shift < 8; shift++) {
        OWNED(pl_tokens_close) pl_tokens *tokens;
        memcpy(memory + shift, golden, sizeof golden);
        assert_ok(pl_tokens_view(memory + shift, sizeof golden, "shifted", &tokens));
        check_golden(tokens);
    }
}

PL_TEST(a_newer_version_and_a_missing_file_say_so)
{
    pl_tokens *tokens;
    uint8_t bytes[sizeof golden];
    memcpy(bytes, golden, sizeof golden);
    bytes[8] = 2;
    assert_fails(pl_tokens_view(bytes, sizeof bytes, "a shard", &tokens),
                 PL_ERR_UNSUPPORTED, "version 2");
    assert_int_equal(pl_tokens_open(in_scratch("none.tok"), true, &tokens),
                     PL_ERR_NOT_FOUND);
    assert_null(tokens);
}

static void put_byte(const char *path, long at, int byte)
{
    FILE *file = fopen(path, "rb+");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_int_equal(fputc(byte, file), byte);
    assert_int_equal(fclose(file), 0);
}

PL_TEST(a_file_that_changes_while_it_is_open_is_noticed)
{
    int32_t ids[3];
    OWNED(pl_tokens_close) pl_tokens *tokens;
    OWNED(pl_buf_destroy) pl_buf subset = {0};
    write_bytes("live.tok", golden, sizeof golden);
    assert_ok(pl_tokens_open(in_scratch("live.tok"), true, &tokens));
    /* Changes the table in the file. This has no effect, because pl_tokens_open has
     * copied the table. */
    put_byte(in_scratch("live.tok"), 80, 0xff);
    check_golden(tokens);
    assert_ok(pl_tokens_check(tokens));
    put_byte(in_scratch("live.tok"), 66, 5); /* changes the second token */
    pl_tokens_copy(tokens, 0, 3, ids);
    assert_int_equal(ids[1], 5);
    assert_fails(pl_tokens_check(tokens), PL_ERR_DAMAGED,
                 "changed while it was in use");
    pl_tokens_close(&tokens);
    write_bytes("live.tok", golden, sizeof golden);
    assert_ok(pl_tokens_open(in_scratch("live.tok"), true, &tokens));
    put_byte(in_scratch("live.tok"), 66, 5);
    assert_int_equal(pl_tokens_subset(tokens, &(uint32_t){0}, 1, &subset),
                     PL_ERR_DAMAGED);
}

PL_SUITE(make_scratch, remove_scratch)
