/* folder: base; label: unit */
#include "base/base.h"

#include "tests/support/suite.h"

static void fill(uint8_t *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        data[i] = (uint8_t)(i % 100 < 90 ? i / 100 : pl_random_u32(1, 2, i));
}

PL_TEST(what_was_zipped_comes_back_behind_what_was_there)
{
    static uint8_t data[100000];
    static const size_t sizes[] = {0, 1, 100, sizeof data};
    fill(data, sizeof data);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        OWNED(pl_buf_destroy) pl_buf packed = {0}, back = {0};
        pl_buf_append(&back, "head", 4);
        assert_ok(pl_zip(data, sizes[i], 3, &packed));
        assert_ok(pl_unzip(packed.data, packed.len, sizes[i], &back));
        assert_int_equal(back.len, 4 + sizes[i]);
        assert_memory_equal(back.data, "head", 4);
        assert_memory_equal(back.data + 4, data, sizes[i]);
    }
}

PL_TEST(numbers_shrink_to_their_entropy)
{
    enum { N = 1 << 16 };
    static uint8_t data[N];
    OWNED(pl_buf_destroy) pl_buf packed = {0}, back = {0};
    /* The values are 5 to 12, equally likely: 3 bits of entropy. */
    for (size_t i = 0; i < N; i++)
        data[i] = (uint8_t)(5 + pl_random_u32(1, 2, i) % 8);
    assert_ok(pl_zip_huffman(data, N, &packed));
    assert_in_range(packed.len, N * 3 / 8, N * 3 / 8 + N / 100);
    assert_ok(pl_unzip(packed.data, packed.len, N, &back));
    assert_memory_equal(back.data, data, N);
}

PL_TEST(a_wrong_size_or_two_frames_are_damage)
{
    uint8_t data[1000];
    fill(data, sizeof data);
    OWNED(pl_buf_destroy) pl_buf packed = {0}, back = {0};
    assert_ok(pl_zip(data, sizeof data, 1, &packed));
    assert_int_equal(pl_unzip(packed.data, packed.len, 999, &back), PL_ERR_DAMAGED);
    assert_int_equal(pl_unzip(packed.data, packed.len, 1001, &back), PL_ERR_DAMAGED);
    assert_ok(pl_zip(data, sizeof data, 1, &packed));
    assert_int_equal(pl_unzip(packed.data, packed.len, 1000, &back), PL_ERR_DAMAGED);
    assert_int_equal(back.len, 0);
    assert_int_equal(pl_zip(data, 1, 20, &packed), PL_ERR_ARG);
}

PL_TEST(a_frame_cut_at_any_length_is_damage)
{
    uint8_t data[1000];
    fill(data, sizeof data);
    OWNED(pl_buf_destroy) pl_buf packed = {0}, back = {0};
    assert_ok(pl_zip(data, sizeof data, 1, &packed));
    for (size_t len = 0; len < packed.len; len++) {
        assert_int_equal(pl_unzip(packed.data, len, 1000, &back), PL_ERR_DAMAGED);
        assert_int_equal(back.len, 0);
    }
}

/* pl_unzip need not notice a flipped bit of a literal byte, because its callers have
 * checksums. But its output must have the right size, and it must not write a byte
 * outside of the output. */
PL_TEST(a_flipped_bit_is_damage_or_gives_the_right_size)
{
    uint8_t data[300];
    fill(data, sizeof data);
    OWNED(pl_buf_destroy) pl_buf packed = {0}, back = {0};
    int n_damaged = 0;
    assert_ok(pl_zip(data, sizeof data, 1, &packed));
    for (size_t bit = 0; bit < 8 * packed.len; bit++) {
        packed.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        pl_buf_clear(&back);
        pl_status status = pl_unzip(packed.data, packed.len, sizeof data, &back);
        assert_int_equal(back.len, status == PL_OK ? sizeof data : 0);
        n_damaged += status == PL_ERR_DAMAGED;
        packed.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_in_range(n_damaged, 30, 8 * packed.len);
}

PL_TEST(planes_split_and_join)
{
    static const uint8_t in[] = {1, 2, 3, 11, 12, 13};
    static const uint8_t planes[] = {1, 11, 2, 12, 3, 13};
    uint8_t out[6], back[6];
    pl_planes_split(in, 2, 3, out);
    assert_memory_equal(out, planes, sizeof planes);
    pl_planes_join(out, 2, 3, back);
    assert_memory_equal(back, in, sizeof in);
}
