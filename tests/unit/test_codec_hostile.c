/* folder: codec; label: unit */
#include "tests/support/codec_support.h"

enum { N = 5000, N_NAMES = 7 };
static const char *const names[N_NAMES] = {"f32",  "bf16",     "i8",       "i4",
                                           "topk", "sketch16", "i8-shared"};

static void encode_one(const char *name, bool entropy, pl_buf *out)
{
    static float x[N];
    pl_codec_options o = options_of(name);
    pl_codec_round round = round_of(3);
    o.entropy = entropy;
    fill_values(x, N, 77);
    encode_all(&o, &round, x, N, NULL, out);
}

static pl_status try_add(const uint8_t *data, size_t len, size_t n)
{
    double norm = 0;
    return pl_codec_add(data, len, n, 1, NULL, &norm);
}

/* Corrects the header's checksum after the header or the table was changed, as an
 * attacker would do. */
static void forge_header(pl_buf *m)
{
    uint32_t table;
    memcpy(&table, m->data + 36, 4);
    memset(m->data + 56, 0, 8);
    if (table > m->len - HEADER_BYTES)
        table = (uint32_t)(m->len - HEADER_BYTES);
    uint64_t checksum = pl_checksum(m->data, HEADER_BYTES + table);
    memcpy(m->data + 56, &checksum, 8);
}

/* In a message with one stretch, corrects the checksum of section `i`, and then that of
 * the header. */
static void forge_section(pl_buf *m, int i)
{
    uint64_t wire, at = HEADER_BYTES;
    uint32_t table;
    memcpy(&table, m->data + 36, 4);
    at += table;
    for (int s = 0; s <= i; s++) {
        uint8_t *entry =
            m->data + HEADER_BYTES + RECORD_BYTES + (size_t)s * SECTION_BYTES;
        memcpy(&wire, entry + 8, 8);
        if (s == i) {
            uint64_t checksum = pl_checksum(m->data + at, (size_t)wire);
            memcpy(entry + 16, &checksum, 8);
        }
        at += wire;
    }
    forge_header(m);
}

PL_TEST(update_cut_off_anywhere_is_refused)
{
    for (int c = 0; c < N_NAMES; c++)
        for (int entropy = 0; entropy < 2; entropy++) {
            OWNED(pl_buf_destroy) pl_buf m = {0};
            encode_one(names[c], entropy, &m);
            assert_ok(try_add(m.data, m.len, N));
            for (size_t len = 0; len < m.len; len += len < 300 ? 1 : 37) {
                /* A copy of its own, so that a sanitizer finds reads beyond its end. */
                OWNED(free_memory) uint8_t *cut = pl_alloc(len + 1);
                memcpy(cut, m.data, len);
                assert_int_equal(try_add(cut, len, N), PL_ERR_DATA);
            }
            pl_buf_append(&m, "x", 1);
            assert_int_equal(try_add(m.data, m.len, N), PL_ERR_DATA);
        }
}

PL_TEST(messages_that_lie_behind_one_another_come_apart_or_are_refused)
{
    OWNED(pl_buf_destroy) pl_buf both = {0};
    pl_codec_message out[2];
    encode_one("i8", false, &both);
    size_t first = both.len;
    encode_one("f32", true, &both);
    assert_ok(pl_codec_split(both.data, both.len, 2, out));
    assert_ptr_equal(out[0].data, both.data);
    assert_int_equal(out[0].bytes, first);
    assert_ptr_equal(out[1].data, both.data + first);
    assert_int_equal(out[1].bytes, both.len - first);
    assert_int_equal(pl_codec_split(both.data, both.len, 1, out), PL_ERR_DATA);
    for (size_t len = 0; len < both.len; len += len < 300 ? 1 : 37) {
        OWNED(free_memory) uint8_t *cut = pl_alloc(len + 1);
        memcpy(cut, both.data, len);
        assert_int_equal(pl_codec_split(cut, len, 2, out), PL_ERR_DATA);
    }
    for (size_t at = 36; at < 48; at++) {
        OWNED(pl_buf_destroy) pl_buf forged = {0};
        pl_buf_append(&forged, both.data, both.len);
        forged.data[at] = 0xff;
        assert_int_equal(pl_codec_split(forged.data, forged.len, 2, out), PL_ERR_DATA);
    }
}

PL_TEST(flipped_bit_anywhere_is_noticed)
{
    for (int c = 0; c < N_NAMES; c++) {
        OWNED(pl_buf_destroy) pl_buf m = {0};
        encode_one(names[c], true, &m);
        for (size_t at = 0; at < m.len; at += at < 250 ? 1 : 23) {
            m.data[at] ^= (uint8_t)(1u << at % 8);
            assert_int_equal(try_add(m.data, m.len, N), PL_ERR_DATA);
            m.data[at] ^= (uint8_t)(1u << at % 8);
        }
        assert_int_equal(try_add(m.data, m.len, N - 1), PL_ERR_DATA);
        assert_int_equal(try_add(m.data, m.len, N + 1), PL_ERR_DATA);
    }
}

PL_TEST(forged_header_and_table_never_lead_outside)
{
    static const uint8_t values[] = {0, 1, 2, 7, 8, 0x7f, 0x80, 0xff};
    for (int c = 0; c < N_NAMES; c++) {
        OWNED(pl_buf_destroy) pl_buf m = {0}, forged = {0};
        encode_one(names[c], c % 2, &m);
        uint32_t table;
        memcpy(&table, m.data + 36, 4);
        for (size_t at = 0; at < HEADER_BYTES + table; at++)
            for (size_t v = 0; v < sizeof values; v++) {
                pl_buf_clear(&forged);
                pl_buf_append(&forged, m.data, m.len);
                forged.data[at] = values[v];
                forge_header(&forged);
                OWNED(free_memory) uint8_t *exact = pl_alloc(forged.len);
                memcpy(exact, forged.data, forged.len);
                pl_status status = try_add(exact, forged.len, N);
                assert_true(status == PL_OK || status == PL_ERR_DATA ||
                            status == PL_ERR_PEEL || status == PL_ERR_NUMERIC);
            }
    }
}

PL_TEST(forged_sections_never_lead_outside)
{
    for (int c = 0; c < N_NAMES; c++)
        for (uint64_t seed = 0; seed < 60; seed++) {
            OWNED(pl_buf_destroy) pl_buf m = {0};
            encode_one(names[c], seed % 2, &m);
            uint32_t table;
            memcpy(&table, m.data + 36, 4);
            size_t body = HEADER_BYTES + table;
            for (size_t i = 0; i < 1 + seed; i++) {
                size_t at = body + pl_random_u32(seed, 1, 2 * i) % (m.len - body);
                m.data[at] = (uint8_t)pl_random_u32(seed, 1, 2 * i + 1);
            }
            int n_sections = (int)((table - RECORD_BYTES) / SECTION_BYTES);
            for (int s = 0; s < n_sections; s++)
                forge_section(&m, s);
            pl_status status = try_add(m.data, m.len, N);
            assert_true(status == PL_OK || status == PL_ERR_DATA ||
                        status == PL_ERR_PEEL || status == PL_ERR_NUMERIC);
        }
}

PL_TEST(index_outside_the_stretch_is_refused)
{
    OWNED(pl_buf_destroy) pl_buf m = {0};
    encode_one("topk", false, &m);
    size_t scales = HEADER_BYTES + RECORD_BYTES + 3 * SECTION_BYTES;
    size_t gaps = scales + (size_t)2 * 4; /* each of two blocks has two magnitudes */
    /* The gaps become so long that the last value would be beyond the end. */
    m.data[gaps + 3] = 254;
    for (int i = 0; i < 60; i++)
        m.data[gaps + 4 + (size_t)i] = 254;
    forge_section(&m, 1);
    assert_fails(try_add(m.data, m.len, N), PL_ERR_DATA, "outside");
}

PL_TEST(bit_behind_the_end_of_a_bitmap_is_refused)
{
    enum { SIZE = 4099 };
    static float x[SIZE];
    pl_codec_options o = options_of("sketch16");
    pl_codec_round round = round_of(2);
    OWNED(pl_buf_destroy) pl_buf m = {0};
    o.entropy = false;
    fill_values(x, SIZE, 3);
    encode_all(&o, &round, x, SIZE, NULL, &m);
    size_t bitmap = HEADER_BYTES + RECORD_BYTES + 2 * SECTION_BYTES;
    m.data[bitmap + SIZE / 8] |= 0x80;
    forge_section(&m, 0);
    assert_fails(try_add(m.data, m.len, SIZE), PL_ERR_DATA, "after its end");
}

PL_TEST(code_beyond_what_its_contributors_give_is_refused)
{
    OWNED(pl_buf_destroy) pl_buf m = {0}, out = {0};
    encode_one("i8-shared", false, &m);
    size_t codes = HEADER_BYTES + RECORD_BYTES + SECTION_BYTES;
    m.data[codes + 100] = 0x80; /* -128 */
    forge_section(&m, 0);
    assert_fails(try_add(m.data, m.len, N), PL_ERR_DATA, "exceeds 127");
    assert_int_equal(pl_codec_combine(m.data, m.len, m.data, m.len, N, &out),
                     PL_ERR_DATA);
}

/* 4 * count is 4 in 64 bits. A relay does not know the size of a module, so it passes
 * the number that a message claims. */
PL_TEST(number_of_values_whose_bytes_overflow_is_refused)
{
    const uint64_t claims[] = {((uint64_t)1 << 62) + 1, (uint64_t)1 << 62,
                               ((uint64_t)1 << 40) + 1};
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        OWNED(pl_buf_destroy) pl_buf m = {0}, out = {0};
        encode_one("i8-shared", false, &m);
        uint8_t *record = m.data + HEADER_BYTES, *section = record + RECORD_BYTES;
        const uint64_t raw = 4 * claims[i], wire = raw < 4 ? raw : 4;
        memcpy(m.data + 8, &claims[i], 8);
        memcpy(m.data + 40, &wire, 8);
        record[0] = PL_CODEC_COUNT; /* i22-shared: four bytes per code */
        memcpy(record + 8, &claims[i], 8);
        memcpy(section, &raw, 8);
        memcpy(section + 8, &wire, 8);
        m.len = HEADER_BYTES + RECORD_BYTES + SECTION_BYTES + wire;
        forge_section(&m, 0);
        assert_fails(
            pl_codec_combine(m.data, m.len, m.data, m.len, (size_t)claims[i], &out),
            PL_ERR_DATA, "values");
    }
}

PL_TEST(update_that_is_not_finite_is_refused_wherever_it_is)
{
    enum { LONG = 9000 };
    static float x[LONG];
    const size_t places[] = {0, 4095, 4096, LONG - 1};
    pl_codec_round round = round_of(1);
    for (int c = 0; c < N_NAMES; c++)
        for (size_t k = 0; k < 4; k++) {
            pl_codec_options o = options_of(names[c]);
            pl_codec_part part = {0, LONG, PL_ROLE_MLP};
            OWNED(pl_buf_destroy) pl_buf m = {0};
            fill_values(x, LONG, 3);
            x[places[k]] = k % 2 ? NAN : INFINITY;
            pl_status status =
                pl_codec_encode_module(&o, &part, 1, &round, x, NULL, &m);
            /* With f32 and bf16, NaN can be sent; then the decoder must refuse it. */
            if (c < 2) {
                assert_ok(status);
                status = try_add(m.data, m.len, LONG);
            }
            assert_fails(status, PL_ERR_NUMERIC, "not finite near index");
            assert_true(c < 2 || m.len == 0);
        }
}

PL_TEST(scale_that_is_not_finite_is_refused)
{
    static const uint8_t infinite[] = {0, 0, 0x80, 0x7f};
    OWNED(pl_buf_destroy) pl_buf m = {0};
    encode_one("i8", false, &m);
    memcpy(m.data + HEADER_BYTES + RECORD_BYTES + 2 * SECTION_BYTES, infinite, 4);
    forge_section(&m, 0);
    assert_int_equal(try_add(m.data, m.len, N), PL_ERR_NUMERIC);
}
