/* folder: job; label: unit */
#include "job/tfevents.h"

#include "tests/support/suite.h"

/* The CRC32C of 32 zeros is 0x8a9136aa (RFC 3720, B.4), and that of the text
 * "123456789" is 0xe3069283. A TFRecord rotates the CRC and adds a constant. */
PL_TEST(checksums_are_masked_crc32c)
{
    const uint8_t zeros[32] = {0};
    const uint32_t crc = 0x8a9136aau, digits = 0xe3069283u;
    assert_int_equal(tfevents_crc(zeros, sizeof zeros),
                     (uint32_t)((crc >> 15 | crc << 17) + 0xa282ead8u));
    assert_int_equal(tfevents_crc("123456789", 9),
                     (uint32_t)((digits >> 15 | digits << 17) + 0xa282ead8u));
}

/* A file must begin as TensorBoard's own files do: with a version record of 24
 * bytes. */
PL_TEST(a_file_begins_as_tensorboards_own)
{
    static const uint8_t head[] = {0x18, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22};
    OWNED(pl_buf_destroy) pl_buf out = {0};
    tfevents_begin(&out, 1.0);
    assert_int_equal(out.len, sizeof head + 24 + 4);
    assert_memory_equal(out.data, head, sizeof head);
    assert_memory_equal(out.data + sizeof head,
                        "\x09\0\0\0\0\0\0\xf0\x3f\x1a\x0d"
                        "brain.Event:2",
                        24);
}

PL_TEST(a_scalar_is_a_summary_of_an_event)
{
    static const char event[] = "\x09\0\0\0\0\0\0\xf0\x3f"
                                "\x10\xac\x02" /* step 300 */
                                "\x2a\x0a\x0a\x08\x0a\x01"
                                "a"
                                "\x15\0\0\0\x3f"; /* 0.5 */
    const tfevents_scalar scalar = {.tag = "a", .value = 0.5};
    OWNED(pl_buf_destroy) pl_buf out = {0};
    tfevents_add(&out, 1.0, 300, &scalar, 1);
    assert_int_equal(out.len, 12 + sizeof event - 1 + 4);
    assert_memory_equal(out.data + 12, event, sizeof event - 1);
}

PL_TEST(a_torn_or_damaged_end_is_found_at_each_byte)
{
    const tfevents_scalar scalar = {.tag = "train/loss", .value = 2.25};
    OWNED(pl_buf_destroy) pl_buf out = {0};
    int64_t step;
    tfevents_begin(&out, 7.0);
    const size_t first = out.len;
    tfevents_add(&out, 8.0, 1, &scalar, 1);
    const size_t second = out.len;
    tfevents_add(&out, 9.0, 40000, &scalar, 1);
    assert_int_equal(tfevents_whole(out.data, out.len, &step), out.len);
    assert_int_equal(step, 40000);
    for (size_t len = 0; len < out.len; len++) {
        const size_t whole = len < first ? 0 : len < second ? first : second;
        assert_int_equal(tfevents_whole(out.data, len, &step), whole);
        assert_int_equal(step, whole == second ? 1 : -1);
    }
    for (size_t at = second; at < out.len; at++) {
        out.data[at] ^= 0x40;
        assert_int_equal(tfevents_whole(out.data, out.len, &step), second);
        out.data[at] ^= 0x40;
    }
}
