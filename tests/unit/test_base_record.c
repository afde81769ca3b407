/* folder: base; label: unit */
#include "base/base.h"
#include <math.h>

#include "tests/support/suite.h"

static const uint8_t golden[] = {
    0x01, 0x00, 8, 0, 0, 0, 0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, /* u64 */
    0x02, 0x00, 8, 0, 0, 0, 0,    0,    0,    0,    0,    0,    0xf8, 0xbf, /* f64 */
    0x03, 0x00, 3, 0, 0, 0, 'a',  'b',  'c',                                /* text */
    0x04, 0x00, 0, 0, 0, 0,                                                 /* empty */
    0x05, 0x01, 1, 0, 0, 0, 0xaa,                                           /* list */
    0x05, 0x01, 2, 0, 0, 0, 0xbb, 0xcc,
};

static void put_golden(pl_buf *record)
{
    pl_put_u64(record, 1, 0x0102030405060708u);
    pl_put_f64(record, 2, -1.5);
    pl_put_text(record, 3, "abc");
    pl_put_bytes(record, 4, NULL, 0);
    pl_put_bytes(record, 0x105, "\xaa", 1);
    pl_put_bytes(record, 0x105, "\xbb\xcc", 2);
}

PL_TEST(a_record_has_these_bytes)
{
    OWNED(pl_buf_destroy) pl_buf record = {0};
    put_golden(&record);
    assert_int_equal(record.len, sizeof golden);
    assert_memory_equal(record.data, golden, sizeof golden);
}

PL_TEST(a_record_gives_back_what_was_put)
{
    pl_reader reader;
    char text[4];
    size_t len;
    pl_reader_open(&reader, "test", golden, sizeof golden);
    assert_true(pl_get_u64(&reader, 1, 0) == 0x0102030405060708u);
    assert_true(pl_get_f64(&reader, 2, 0) == -1.5);
    pl_get_text(&reader, 3, 0, text, sizeof text);
    assert_string_equal(text, "abc");
    assert_non_null(pl_get_bytes(&reader, 4, 0, &len));
    assert_int_equal(len, 0);
    assert_int_equal(pl_field_count(&reader, 0x105), 2);
    assert_int_equal(pl_field_count(&reader, 7), 0);
    assert_int_equal(*pl_get_bytes(&reader, 0x105, 1, &len), 0xbb);
    assert_int_equal(len, 2);
    assert_int_equal(*pl_get_bytes(&reader, 0x105, 0, &len), 0xaa);
    assert_ok(pl_reader_status(&reader));
}

PL_TEST(hashes_and_odd_floats_survive)
{
    OWNED(pl_buf_destroy) pl_buf record = {0};
    pl_hash hash, back;
    pl_reader reader;
    pl_hash_of("blob", "x", 1, &hash);
    pl_put_hash(&record, 1, &hash);
    pl_put_f64(&record, 2, -0.0);
    pl_put_f64(&record, 3, NAN);
    pl_reader_open(&reader, "test", record.data, record.len);
    back = pl_get_hash(&reader, 1, 0);
    assert_true(pl_hash_equal(&hash, &back));
    assert_true(signbit(pl_get_f64(&reader, 2, 0)));
    assert_true(isnan(pl_get_f64(&reader, 3, 0)));
    assert_ok(pl_reader_status(&reader));
}

PL_TEST(a_record_cut_anywhere_inside_a_field_is_refused)
{
    static const size_t ends[] = {0, 14, 28, 37, 43, 50, 58};
    size_t next = 0;
    for (size_t len = 0; len <= sizeof golden; len++) {
        OWNED(free_memory)
        uint8_t *copy = pl_alloc(len); /* a sanitizer finds reads beyond the end */
        memcpy(copy, golden, len);
        pl_reader reader;
        pl_reader_open(&reader, "test", copy, len);
        bool at_end = len == ends[next];
        next += at_end;
        assert_int_equal(pl_reader_status(&reader), at_end ? PL_OK : PL_ERR_PROTO);
        if (!at_end)
            assert_int_equal(pl_field_count(&reader, 1), 0);
    }
}

PL_TEST(no_flipped_bit_makes_a_reader_run_over_the_end)
{
    int n_refused = 0;
    for (size_t bit = 0; bit < 8 * sizeof golden; bit++) {
        OWNED(free_memory) uint8_t *copy = pl_alloc(sizeof golden);
        memcpy(copy, golden, sizeof golden);
        copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
        pl_reader reader;
        pl_reader_open(&reader, "test", copy, sizeof golden);
        char text[4];
        size_t len;
        pl_get_u64(&reader, 1, 0);
        pl_get_f64(&reader, 2, 0);
        pl_get_text(&reader, 3, 0, text, sizeof text);
        pl_get_bytes(&reader, 0x105, 1, &len);
        n_refused += pl_reader_status(&reader) == PL_ERR_PROTO;
    }
    /* Flipped bits of tags and lengths are refused; those of values may pass. */
    assert_in_range(n_refused, 100, 8 * sizeof golden);
}

PL_TEST(tags_out_of_order_are_refused)
{
    OWNED(pl_buf_destroy) pl_buf record = {0};
    pl_reader reader;
    pl_put_u64(&record, 2, 0);
    pl_put_u64(&record, 1, 0);
    pl_reader_open(&reader, "a note", record.data, record.len);
    assert_int_equal(pl_reader_status(&reader), PL_ERR_PROTO);
    assert_string_equal(pl_last_error(), "a note: field 1 is out of order");
}

PL_TEST(the_first_failure_sticks)
{
    pl_reader reader;
    pl_reader_open(&reader, "test", golden, sizeof golden);
    assert_true(pl_get_u64(&reader, 3, 0) == 0);
    assert_string_equal(pl_last_error(), "test: field 3 has a wrong size");
    assert_true(pl_get_u64(&reader, 99, 0) == 0);
    assert_string_equal(pl_last_error(), "test: field 3 has a wrong size");
    assert_true(pl_get_u64(&reader, 1, 0) != 0);
    assert_int_equal(pl_reader_status(&reader), PL_ERR_PROTO);
}

PL_TEST(text_that_does_not_fit_or_hides_a_nul_is_refused)
{
    OWNED(pl_buf_destroy) pl_buf record = {0};
    pl_reader reader;
    char text[4];
    pl_put_bytes(&record, 1, "a\0b", 3);
    pl_put_text(&record, 2, "four");
    pl_reader_open(&reader, "test", record.data, record.len);
    pl_get_text(&reader, 1, 0, text, sizeof text);
    assert_int_equal(pl_reader_status(&reader), PL_ERR_PROTO);
    assert_string_equal(text, "");
    pl_reader_open(&reader, "test", record.data, record.len);
    pl_get_text(&reader, 2, 0, text, sizeof text);
    assert_int_equal(pl_reader_status(&reader), PL_ERR_PROTO);
    assert_string_equal(text, "");
}

PL_TEST(text_is_utf8_without_control_characters)
{
    static const struct {
        const char *bytes;
        bool good;
    } rows[] = {{"mix/L1.E0", true},
                {"gr\xc3\xbc\xc3\x9f", true},
                {"\xff\xfe", false},
                {"cut \xe2\x82", false},
                {"\xc0\xaf", false},
                {"\x1b[2J", false},
                {"two\nlines", false},
                {"tab\t", false},
                {"\x7f", false},
                {"\xc2\x9b"
                 "31m",
                 false},
                {"\xe2\x80\xae"
                 "txt.exe",
                 false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        OWNED(pl_buf_destroy) pl_buf record = {0}, said = {0};
        pl_reader reader;
        char text[32];
        pl_put_bytes(&record, 1, rows[i].bytes, strlen(rows[i].bytes));
        pl_reader_open(&reader, "test", record.data, record.len);
        pl_get_text(&reader, 1, 0, text, sizeof text);
        assert_int_equal(pl_reader_status(&reader),
                         rows[i].good ? PL_OK : PL_ERR_PROTO);
        assert_string_equal(text, rows[i].good ? rows[i].bytes : "");
        /* pl_put_text replaces bad characters, so its text can always be read. */
        pl_put_text(&said, 1, rows[i].bytes);
        pl_reader_open(&reader, "test", said.data, said.len);
        pl_get_text(&reader, 1, 0, text, sizeof text);
        assert_ok(pl_reader_status(&reader));
        assert_int_equal(strlen(text), strlen(rows[i].bytes));
    }
}

PL_TEST(a_long_list_reads_in_any_order)
{
    enum { N = 3000 };
    OWNED(pl_buf_destroy) pl_buf record = {0};
    pl_reader reader;
    pl_put_u64(&record, 1, 77);
    for (uint64_t i = 0; i < N; i++)
        pl_put_u64(&record, 2, i);
    pl_put_u64(&record, 3, 78);
    pl_reader_open(&reader, "test", record.data, record.len);
    for (size_t i = 0; i < N; i++)
        assert_true(pl_get_u64(&reader, 2, i) == i);
    for (size_t i = 0; i < N; i++) {
        size_t at = (size_t)pl_permute(1, 1, N, i);
        assert_true(pl_get_u64(&reader, 2, at) == at);
        if (i % 100 == 0) {
            assert_true(pl_get_u64(&reader, 1, 0) == 77);
            assert_true(pl_get_u64(&reader, 3, 0) == 78);
        }
    }
    assert_ok(pl_reader_status(&reader));
    pl_get_u64(&reader, 2, N);
    assert_int_equal(pl_reader_status(&reader), PL_ERR_PROTO);
}

PL_TEST(a_record_inside_another_is_read_like_any)
{
    OWNED(pl_buf_destroy) pl_buf inner = {0}, outer = {0};
    pl_reader all, one;
    pl_put_u64(&inner, 1, 7);
    pl_put_bytes(&outer, 2, inner.data, inner.len);
    pl_put_bytes(&outer, 2, "x", 1);
    pl_reader_open(&all, "all", outer.data, outer.len);
    pl_reader_enter(&one, "the first", &all, 2, 0);
    assert_int_equal(pl_get_u64(&one, 1, 0), 7);
    assert_ok(pl_reader_status(&one));
    pl_reader_enter(&one, "the second", &all, 2, 1);
    assert_int_equal(pl_get_u64(&one, 1, 0), 0);
    assert_string_equal(pl_last_error(), "the second: the record is cut off at byte 0");
    assert_int_equal(pl_reader_status(&one), PL_ERR_PROTO);
    assert_ok(pl_reader_status(&all));
    pl_reader_enter(&one, "the third", &all, 2, 2);
    assert_int_equal(pl_get_u64(&one, 1, 0), 0);
    assert_string_equal(pl_last_error(), "all: field 2 is missing");
    assert_int_equal(pl_reader_status(&one), PL_ERR_PROTO);
}
