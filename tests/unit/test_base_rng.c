/* folder: base; label: unit */
#include "base/base.h"
#include <math.h>
#include <stdlib.h>

#include "tests/support/suite.h"

/* pl_philox must give the values that the authors of Philox publish with Random123. */
PL_TEST(philox_gives_the_published_vectors)
{
    static const struct {
        uint64_t seed, stream, block;
        uint32_t expected[4];
    } rows[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX,
         UINT64_MAX,
         UINT64_MAX,
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822u, /* the counter has digits of pi: 243f6a88 85a308d3 ... */
         0x0370734413198a2eu,
         0x85a308d3243f6a88u,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t out[4];
        pl_philox(rows[i].seed, rows[i].stream, rows[i].block, out);
        assert_memory_equal(out, rows[i].expected, sizeof out);
    }
}

PL_TEST(streams_differ_by_use_and_by_each_number)
{
    uint64_t ids[] = {pl_stream("init", 0, 0), pl_stream("init", 0, 1),
                      pl_stream("init", 1, 0), pl_stream("data", 0, 0),
                      pl_stream("", 0, 0)};
    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < i; j++)
            assert_true(ids[i] != ids[j]);
    assert_true(ids[0] == pl_stream("init", 0, 0));
}

PL_TEST(uniform_values_fill_the_unit_interval)
{
    enum { N = 100000, BINS = 16 };
    int bins[BINS] = {0};
    for (uint64_t i = 0; i < N; i++) {
        double value = pl_random_uniform(3, 4, i);
        assert_true(value >= 0.0 && value < 1.0);
        bins[(int)(value * BINS)]++;
    }
    for (int b = 0; b < BINS; b++) /* 77 is the standard deviation of a bin */
        assert_true(abs(bins[b] - N / BINS) < 5 * 77);
}

PL_TEST(normal_values_have_the_moments_of_the_normal_law)
{
    enum { N = 400000 };
    double sums[5] = {0};
    for (uint64_t i = 0; i < N; i++) {
        double value = (double)pl_random_normal(5, 6, i), power = 1.0;
        for (int k = 1; k <= 4; k++) {
            power *= value;
            sums[k] += power / N;
        }
    }
    /* Standard errors of the four moments are 1, sqrt 2, sqrt 15 and sqrt 96, divided
     * by sqrt N. */
    assert_true(fabs(sums[1]) < 5 * 1.0 / sqrt(N));
    assert_true(fabs(sums[2] - 1.0) < 5 * 1.42 / sqrt(N));
    assert_true(fabs(sums[3]) < 5 * 3.88 / sqrt(N));
    assert_true(fabs(sums[4] - 3.0) < 5 * 9.8 / sqrt(N));
}

/* Normal values are those of the method of Box and Muller. This project has its own
 * logarithm, sine and cosine, which may differ from the C library's functions only in
 * the last bits. */
PL_TEST(normal_values_are_those_of_box_and_muller)
{
    for (uint64_t i = 0; i < 40000; i++) {
        uint32_t words[4];
        pl_philox(7, 8, i / 4, words);
        size_t pair = i % 4 / 2 * 2;
        double radius = sqrt(-2.0 * log((words[pair] + 0.5) * 0x1p-32));
        double angle = 6.283185307179586 * (words[pair + 1] * 0x1p-32);
        double expected = radius * (i % 2 ? sin(angle) : cos(angle));
        double got = (double)pl_random_normal(7, 8, i);
        assert_true(fabs(got - expected) <= 1e-7 * fabs(expected) + 1e-14);
    }
}

PL_TEST(many_normal_values_are_the_single_ones)
{
    enum { MOST = 9 };
    for (size_t n = 0; n <= MOST; n++) {
        float values[MOST + 1], single[MOST + 1];
        for (size_t i = 0; i < n; i++)
            single[i] = pl_random_normal(7, 8, i);
        values[n] = single[n] = 7.0f; /* must not be written */
        pl_random_normals(7, 8, n, values);
        assert_memory_equal(values, single, (n + 1) * sizeof *values);
    }
}

PL_TEST(normal_values_keep_their_bits)
{
    uint64_t digest = 0;
    for (uint64_t i = 0; i < 10000; i++) {
        float value = pl_random_normal(1, pl_stream("init", 2, 3), i);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        digest = (digest ^ bits) * 0x100000001b3u;
    }
    assert_true(digest == 0x2236b020a6c5d29du);
}

PL_TEST(a_permutation_is_a_bijection_for_every_size_up_to_200)
{
    for (uint64_t n = 1; n <= 200; n++) {
        bool hit[200] = {false};
        for (uint64_t i = 0; i < n; i++) {
            uint64_t at = pl_permute(9, n, n, i);
            assert_true(at < n);
            assert_false(hit[at]);
            hit[at] = true;
        }
    }
}

PL_TEST(a_permutation_depends_on_seed_and_stream)
{
    int same_seed = 0, same_stream = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        same_seed += pl_permute(1, 1, 1000, i) == pl_permute(1, 2, 1000, i);
        same_stream += pl_permute(1, 1, 1000, i) == pl_permute(2, 1, 1000, i);
    }
    assert_true(same_seed < 10 && same_stream < 10);
}

/* Over many streams, each of five elements must be at each place about equally often
 * (57 is the standard deviation). */
PL_TEST(a_permutation_of_five_is_not_biased)
{
    enum { STREAMS = 20000, N = 5 };
    int landed[N][N] = {{0}};
    for (uint64_t stream = 0; stream < STREAMS; stream++)
        for (uint64_t i = 0; i < N; i++)
            landed[i][pl_permute(11, stream, N, i)]++;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            assert_true(abs(landed[i][j] - STREAMS / N) < 5 * 57);
}

PL_TEST(a_huge_permutation_stays_in_range)
{
    static const uint64_t sizes[] = {(uint64_t)1 << 32, ((uint64_t)1 << 32) + 1,
                                     ((uint64_t)1 << 63) + 12345, UINT64_MAX};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (uint64_t i = 0; i < 100; i++)
            assert_true(pl_permute(1, 2, sizes[s], sizes[s] - 1 - i) < sizes[s]);
}
