/* folder: serve; label: unit */
#include "tests/support/corpus_support.h"
#include "serve/half.h"
#include "serve/safetensors.h"
#include <math.h>

/* ---- files that are written by hand ---- */
static void build(const char *header, size_t n_data, pl_buf *out)
{
    pl_buf_clear(out);
    put_le(out, strlen(header), 8);
    pl_buf_append(out, header, strlen(header));
    for (size_t i = 0; i < n_data; i++)
        put_le(out, i * 37 % 251, 1);
}

/* Parses a copy that has exactly the length of the bytes, so that a sanitizer finds
 * reads beyond the end. */
static pl_status parse(const pl_buf *bytes, safetensors **out, uint8_t **block)
{
    *block = malloc(bytes->len ? bytes->len : 1);
    assert_non_null(*block);
    if (bytes->len)
        memcpy(*block, bytes->data, bytes->len);
    return safetensors_parse("a.safetensors", *block, bytes->len, out);
}

static const char good[] =
    "{\"__metadata__\":{\"format\":\"pt\"},"
    "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[4,28]},"
    "\"a\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]},"
    "\"none\":{\"dtype\":\"I64\",\"shape\":[0,7],\"data_offsets\":[28,28]},"
    "\"one\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[28,30]}}  ";
enum { GOOD_DATA = 30 };

PL_TEST(tensors_are_found_by_name_with_shape_and_bytes)
{
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    OWNED(free_memory) uint8_t *block;
    OWNED(safetensors_close) safetensors *file = NULL;
    build(good, GOOD_DATA, &bytes);
    assert_ok(parse(&bytes, &file, &block));
    assert_int_equal(file->n_tensors, 4);
    assert_string_equal(file->tensors[0].name, "a");
    assert_null(safetensors_find(file, "c"));
    const st_tensor *b = safetensors_find(file, "b"),
                    *one = safetensors_find(file, "one");
    assert_int_equal(b->n_dims, 2);
    assert_int_equal(b->dims[1], 3);
    assert_int_equal(b->n_values, 6);
    assert_memory_equal(b->data, bytes.data + 8 + strlen(good) + 4, 24);
    assert_int_equal(one->n_dims, 0);
    assert_int_equal(one->n_values, 1);
    assert_int_equal(safetensors_find(file, "none")->n_bytes, 0);
}

PL_TEST(values_of_each_type_become_floats)
{
    static const char header[] =
        "{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
        "\"y\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[4,8]},"
        "\"z\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[8,10]},"
        "\"w\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[10,11]}}";
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    OWNED(free_memory) uint8_t *block;
    OWNED(safetensors_close) safetensors *file = NULL;
    float values[2];
    build(header, 0, &bytes);
    put_le(&bytes, 0xc0490fdb, 4); /* -pi */
    put_le(&bytes, 0x3555, 2);     /* 0.333251953125 */
    put_le(&bytes, 0x8001, 2);     /* -2^-24 */
    put_le(&bytes, 0x4049, 2);     /* 3.140625 */
    put_le(&bytes, 5, 1);
    assert_ok(parse(&bytes, &file, &block));
    assert_ok(safetensors_floats(file, safetensors_find(file, "x"), values));
    assert_true(values[0] == -3.14159274101257324f);
    assert_ok(safetensors_floats(file, safetensors_find(file, "y"), values));
    assert_true(values[0] == 0.333251953125f && values[1] == -0x1p-24f);
    assert_ok(safetensors_floats(file, safetensors_find(file, "z"), values));
    assert_true(values[0] == 3.140625f);
    assert_fails(safetensors_floats(file, safetensors_find(file, "w"), values),
                 PL_ERR_UNSUPPORTED, "w is I8");
}

/* ---- refused files ---- */
static void refused(const char *header, size_t n_data, const char *words)
{
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    OWNED(free_memory) uint8_t *block;
    safetensors *file = NULL;
    build(header, n_data, &bytes);
    if (parse(&bytes, &file, &block) == PL_OK)
        fail_msg("this wrong header was accepted: %s", header);
    assert_null(file);
    assert_said(words);
}

PL_TEST(headers_that_lie_are_refused_with_the_tensor)
{
#define TENSOR(dtype, shape, offsets)                                                  \
    "{\"t\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
    refused(TENSOR("\"F32\"", "[2]", "[0,12]"), 12, "12 bytes for 2 values of F32");
    refused(TENSOR("\"F32\"", "[2]", "[0,8]"), 4, "ends at byte 8 of 4");
    refused(TENSOR("\"F32\"", "[2]", "[0,8]"), 12, "4 bytes of data belong to no");
    refused(TENSOR("\"F32\"", "[2]", "[4,12]"), 12, "gap");
    refused(TENSOR("\"F32\"", "[2]", "[8,0]"), 8, "data_offsets");
    refused(TENSOR("\"F32\"", "[2]", "[-8,0]"), 8, "data_offsets");
    refused(TENSOR("\"F32\"", "[2]", "[0,8,9]"), 8, "data_offsets");
    refused(TENSOR("\"F32\"", "[2]", "{}"), 8, "data_offsets");
    refused(TENSOR("\"F32\"", "[2]", "[0,8.5]"), 8, "data_offsets");
    refused(TENSOR("\"F32\"", "[-2]", "[0,8]"), 8, "extent");
    refused(TENSOR("\"F32\"", "[1.5]", "[0,8]"), 8, "extent");
    refused(TENSOR("\"F32\"", "[\"2\"]", "[0,8]"), 8, "extent");
    refused(TENSOR("\"F32\"", "{}", "[0,4]"), 4, "no `shape`");
    refused(TENSOR("\"F32\"", "2", "[0,8]"), 8, "no `shape`");
    refused(TENSOR("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "dimensions");
    refused(TENSOR("\"F33\"", "[1]", "[0,4]"), 4, "unknown dtype F33");
    refused(TENSOR("7", "[1]", "[0,4]"), 4, "no `dtype`");
    refused("{\"t\":[]}", 0, "no `dtype`");
    refused("{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"offsets\":[0,4]}}", 4,
            "data_offsets");
#undef TENSOR
}

PL_TEST(extents_that_overflow_are_refused)
{
    refused("{\"t\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],"
            "\"data_offsets\":[0,0]}}",
            0, "larger than any file");
    refused("{\"t\":{\"dtype\":\"F32\",\"shape\":[9223372036854775807],"
            "\"data_offsets\":[0,4]}}",
            4, "larger than any file");
    refused("{\"t\":{\"dtype\":\"F32\",\"shape\":[4611686018427387905],"
            "\"data_offsets\":[0,4]}}",
            4, "larger than any file");
    refused("{\"t\":{\"dtype\":\"U8\",\"shape\":[1],"
            "\"data_offsets\":[9223372036854775806,9223372036854775807]}}",
            1, "ends at byte");
    refused("{\"t\":{\"dtype\":\"U8\",\"shape\":[1],"
            "\"data_offsets\":[0,18446744073709551617]}}",
            1, "the header of a.safetensors");
}

PL_TEST(tensors_that_share_bytes_are_refused)
{
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
            "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]}}",
            6, "overlaps");
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
            "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
            4, "overlaps");
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
            "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}",
            8, "the header of");
}

PL_TEST(headers_that_are_no_object_of_texts_are_refused)
{
    OWNED(pl_buf_destroy) pl_buf nest = {0};
    refused("[]", 0, "not a JSON object");
    refused("7", 0, "not a JSON object");
    refused("", 0, "the header of");
    refused("{", 0, "the header of");
    refused("{\"__metadata__\":[]}", 0, "not a JSON object");
    refused("{\"__metadata__\":{\"n\":1}}", 0, "`n` is not a text");
    refused("{\"__metadata__\":{\"x\":\"\xff\"}}", 0, "the header of");
    for (int i = 0; i < 100000; i++)
        pl_buf_printf(&nest, "[");
    refused(pl_buf_text(&nest), 0, "the header of");
}

PL_TEST(a_length_beyond_the_file_is_refused)
{
    static const uint64_t lengths[] = {3, 100000001, 0x7fffffffffffffff, UINT64_MAX,
                                       UINT64_MAX - 7};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        OWNED(pl_buf_destroy) pl_buf bytes = {0};
        OWNED(free_memory) uint8_t *block;
        safetensors *file = NULL;
        put_le(&bytes, lengths[i], 8);
        pl_buf_append(&bytes, "{}", 2);
        assert_fails(parse(&bytes, &file, &block), PL_ERR_DATA, "does not fit");
    }
}

/* ---- damaged files ---- */
/* Reads all bytes of all tensors of a file that was accepted. */
static void read_all(const safetensors *file)
{
    float values[64];
    unsigned sum = 0;
    for (size_t i = 0; i < file->n_tensors; i++) {
        const st_tensor *t = &file->tensors[i];
        for (uint64_t b = 0; b < t->n_bytes; b++)
            sum += t->data[b];
        assert_ptr_equal(safetensors_find(file, t->name), t);
        if (t->n_values <= 64)
            (void)!safetensors_floats(file, t, values);
    }
    assert_true(sum < UINT32_MAX);
}

PL_TEST(a_file_cut_anywhere_is_refused)
{
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    build(good, GOOD_DATA, &bytes);
    for (size_t len = 0, whole = bytes.len; len < whole; len++) {
        OWNED(free_memory) uint8_t *block;
        safetensors *file = NULL;
        bytes.len = len;
        if (parse(&bytes, &file, &block) == PL_OK)
            fail_msg("a file of %zu instead of %zu bytes was accepted", len, whole);
    }
}

/* The reader must never read outside a damaged file. Each round changes one to four
 * bytes: the length of the header gets any byte, other places get a byte that is likely
 * in a header. */
PL_TEST(no_damage_is_followed_outside_the_file)
{
    enum { ROUNDS = 40000 };
    static const char likely[] = "0123456789[]{}\",:-eFBU \xff";
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    int taken = 0;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        OWNED(free_memory) uint8_t *block;
        OWNED(safetensors_close) safetensors *file = NULL;
        build(good, GOOD_DATA, &bytes);
        uint32_t n = 1 + pl_random_u32(1, round, 0) % 4;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t at = pl_random_u32(1, round, 1 + 2 * i) % (uint32_t)bytes.len;
            uint32_t to = pl_random_u32(1, round, 2 + 2 * i);
            bytes.data[at] = at < 8 ? (uint8_t)to : (uint8_t)likely[to % 24];
        }
        if (parse(&bytes, &file, &block) == PL_OK) {
            read_all(file);
            taken++;
        }
    }
    /* Most changes of data or of a name are accepted. Most changes elsewhere in the
     * header are refused. */
    assert_in_range(taken, ROUNDS / 100, ROUNDS / 2);
}

PL_TEST(a_file_that_is_absent_or_empty_is_named)
{
    safetensors *file = NULL;
    assert_int_equal(safetensors_open(in_scratch("none"), &file), PL_ERR_NOT_FOUND);
    write_text("empty.safetensors", "");
    assert_fails(safetensors_open(in_scratch("empty.safetensors"), &file), PL_ERR_DATA,
                 "empty.safetensors has 0 bytes");
    assert_null(file);
}

/* ---- half precision ---- */
PL_TEST(every_half_comes_back_from_its_float)
{
    for (uint32_t bits = 0; bits < 65536; bits++) {
        float value = half_to_float((uint16_t)bits);
        uint16_t back = half_from_float(value);
        if ((bits & 0x7c00) == 0x7c00 && (bits & 0x3ff))
            assert_true(isnan(value) && (back & 0x7e00) == 0x7e00);
        else
            assert_int_equal(back, bits);
    }
}

/* Takes three floats between each two neighbouring halves. The float just below the
 * middle must become the lower half, the float just above it the higher half, and the
 * middle the half whose last bit is 0. */
PL_TEST(floats_go_to_the_nearest_half_and_ties_to_even)
{
    for (uint32_t bits = 0; bits < 0x7bff; bits++) {
        float low = half_to_float((uint16_t)bits),
              high = half_to_float((uint16_t)(bits + 1)), middle = (low + high) / 2;
        assert_int_equal(half_from_float(nextafterf(middle, 0)), bits);
        assert_int_equal(half_from_float(nextafterf(middle, high)), bits + 1);
        assert_int_equal(half_from_float(middle), bits + (bits & 1));
        assert_int_equal(half_from_float(-middle), 0x8000 | (bits + (bits & 1)));
    }
    assert_int_equal(half_from_float(65519.99f), 0x7bff);
    assert_int_equal(half_from_float(65520.0f), 0x7c00);
    assert_int_equal(half_from_float(INFINITY), 0x7c00);
    assert_int_equal(half_from_float(-0.0f), 0x8000);
}

PL_SUITE(make_scratch, remove_scratch)
