/* folder: router; label: unit */
#include "tests/support/router_support.h"
#include "router/prefix_lm.h"

enum { VOCAB = 40, PATHS = 3, TEXTS = 60, LEN = 50 };

/* Makes text i, which belongs to path i % PATHS. All texts use the same tokens about
 * equally often, but each path has its own order of tokens: after token a comes mostly
 * a * (path + 2) + 1, modulo VOCAB. */
static void write_text(uint64_t i, int32_t text[LEN])
{
    int step = (int)(i % PATHS) + 2;
    text[0] = 1;
    for (uint64_t t = 1; t < LEN; ++t)
        text[t] = pl_random_uniform(5, i, t) < 0.3
                      ? (int32_t)(pl_random_u32(6, i, t) % VOCAB)
                      : (text[t - 1] * step + 1) % VOCAB;
}

/* Makes a model of all texts. They are added one after another, from text `first` to
 * the last one, and then from text 0. */
static pl_prefix_lm *count_texts(uint64_t first, int n_threads)
{
    int32_t text[LEN];
    pair_survey survey;
    pl_prefix_lm *lm;
    assert_ok(survey_begin(VOCAB, &survey));
    for (uint64_t i = 0; i < TEXTS; ++i) {
        write_text((first + i) % TEXTS, text);
        survey_add(&survey, text, LEN);
    }
    assert_ok(survey_end(&survey, PATHS, &lm));
    survey_clear(&survey);
    for (uint64_t i = 0; i < TEXTS; ++i) {
        write_text((first + i) % TEXTS, text);
        prefix_lm_add(lm, (int)((first + i) % TEXTS % PATHS), text, LEN);
    }
    assert_ok(prefix_lm_finish(lm, n_threads));
    return lm;
}

static int likeliest_of(const pl_prefix_lm *lm, const int32_t *text, int n)
{
    double nats[PATHS];
    int best = 0;
    pl_prefix_lm_nats(lm, text, n, nats);
    for (int p = 1; p < PATHS; ++p)
        best = nats[p] < nats[best] ? p : best;
    return best;
}

PL_TEST(new_texts_find_their_path)
{
    OWNED(pl_prefix_lm_destroy) pl_prefix_lm *lm = count_texts(0, 1);
    int32_t text[LEN];
    int found = 0;
    for (uint64_t i = TEXTS; i < 2 * TEXTS; ++i) {
        write_text(i, text);
        found += likeliest_of(lm, text, 16) == (int)(i % PATHS);
    }
    assert_true(found >= TEXTS * 9 / 10);
}

/* Tests the equation of prefix_lm.c with two paths. The documents of path 0 are "1 2 1
 * 2", those of path 1 are "1 3". */
PL_TEST(a_probability_is_a_ratio_of_smoothed_counts)
{
    const int32_t a[] = {1, 2, 1, 2}, b[] = {1, 3}, asked[] = {1, 2}, rare[] = {2, 3};
    pair_survey survey;
    OWNED(pl_prefix_lm_destroy) pl_prefix_lm *lm;
    double nats[2];
    assert_ok(survey_begin(4, &survey));
    survey_add(&survey, a, 4);
    survey_add(&survey, b, 2);
    assert_ok(survey_end(&survey, 2, &lm));
    survey_clear(&survey);
    assert_int_equal(lm->n_rows, 1); /* only the pair 1 2 occurs twice */
    prefix_lm_add(lm, 0, a, 4);
    prefix_lm_add(lm, 1, b, 2);
    assert_ok(prefix_lm_finish(lm, 1));
    pl_prefix_lm_nats(lm, asked, 2, nats); /* K / P = 1 (K = 2, 2 paths) */
    assert_true(fabs(nats[0] + log((2.0 + 2.0) / (2.0 + 3.0))) < 1e-6);
    assert_true(fabs(nats[1] + log((0.0 + 2.0) / (1.0 + 3.0))) < 1e-6);
    pl_prefix_lm_nats(lm, rare, 2, nats);
    assert_true(fabs(nats[0] + log((0.0 + 1.0) / (4.0 + 6.0))) < 1e-6);
    assert_true(fabs(nats[1] + log((1.0 + 1.0) / (2.0 + 6.0))) < 1e-6);
}

PL_TEST(losses_add_up_to_nats)
{
    enum { STRIDE = LEN + 2 };
    OWNED(pl_prefix_lm_destroy) pl_prefix_lm *lm = count_texts(0, 1);
    const int some[] = {PATHS - 1, 0};
    for (uint64_t i = 0; i < 8; ++i) {
        int32_t text[LEN];
        double nats[PATHS];
        float all[PATHS * STRIDE], few[2 * STRIDE];
        write_text(i, text);
        pl_prefix_lm_nats(lm, text, LEN, nats);
        pl_prefix_lm_losses(lm, NULL, PATHS, text, LEN, all, STRIDE);
        pl_prefix_lm_losses(lm, some, 2, text, LEN, few, STRIDE);
        for (int p = 0; p < PATHS; ++p) {
            double sum = 0.0;
            for (int t = 0; t < LEN - 1; ++t)
                sum += (double)all[p * STRIDE + t];
            assert_true(fabs(sum - nats[p]) < 1e-9 * (1 + nats[p]));
        }
        for (int k = 0; k < 2; ++k)
            assert_memory_equal(few + k * STRIDE, all + some[k] * STRIDE,
                                (LEN - 1) * sizeof *all);
    }
}

PL_TEST(tokens_outside_the_vocabulary_are_unknown_ones)
{
    OWNED(pl_prefix_lm_destroy) pl_prefix_lm *lm = count_texts(0, 1);
    const int32_t odd[] = {1, -1, VOCAB, 1 << 30, 5}, zeros[] = {1, 0, 0, 0, 5};
    double a[PATHS], b[PATHS];
    pl_prefix_lm_nats(lm, odd, 5, a);
    pl_prefix_lm_nats(lm, zeros, 5, b);
    assert_memory_equal(a, b, sizeof a);
    pl_prefix_lm_nats(lm, odd, 1, a); /* this text has no token to predict */
    for (int p = 0; p < PATHS; ++p)
        assert_true(a[p] == 0.0);
}

PL_TEST(its_bytes_depend_on_neither_order_nor_threads)
{
    OWNED(pl_prefix_lm_destroy)
    pl_prefix_lm *a = count_texts(0, 1), *b = count_texts(17, 3);
    OWNED(pl_buf_destroy) pl_buf x = {0}, y = {0};
    assert_ok(pl_prefix_lm_encode(a, &x));
    assert_ok(pl_prefix_lm_encode(b, &y));
    assert_same_bytes(x, y);
}

PL_TEST(a_decoded_model_decides_alike)
{
    OWNED(pl_prefix_lm_destroy) pl_prefix_lm *lm = count_texts(0, 1), *copy = NULL;
    OWNED(pl_buf_destroy) pl_buf bytes = {0}, again = {0};
    pl_buf_append(&bytes, "head", 4); /* encoding appends to this text */
    assert_ok(pl_prefix_lm_encode(lm, &bytes));
    assert_ok(pl_prefix_lm_decode(bytes.data + 4, bytes.len - 4, 2, &copy));
    assert_ok(pl_prefix_lm_encode(copy, &again));
    assert_int_equal(bytes.len - 4, again.len);
    assert_memory_equal(bytes.data + 4, again.data, again.len);
    assert_int_equal(pl_prefix_lm_n_paths(copy), PATHS);
    for (uint64_t i = 0; i < TEXTS; ++i) {
        int32_t text[LEN];
        double a[PATHS], b[PATHS];
        write_text(i, text);
        pl_prefix_lm_nats(lm, text, LEN, a);
        pl_prefix_lm_nats(copy, text, LEN, b);
        assert_memory_equal(a, b, sizeof a);
    }
}

PL_TEST(every_truncation_is_refused)
{
    OWNED(pl_prefix_lm_destroy) pl_prefix_lm *lm = count_texts(0, 1), *copy = NULL;
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    assert_ok(pl_prefix_lm_encode(lm, &bytes));
    for (size_t len = 0; len < bytes.len; ++len) {
        OWNED(free_memory)
        uint8_t *part = malloc(len + 1); /* a sanitizer finds reads beyond the end */
        memcpy(part, bytes.data, len);
        assert_int_not_equal(pl_prefix_lm_decode(part, len, 1, &copy), PL_OK);
        assert_null(copy);
    }
}

PL_TEST(every_flipped_bit_is_refused)
{
    OWNED(pl_prefix_lm_destroy) pl_prefix_lm *lm = count_texts(0, 1), *copy = NULL;
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    assert_ok(pl_prefix_lm_encode(lm, &bytes));
    for (size_t bit = 0; bit < 8 * bytes.len; ++bit) {
        bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_not_equal(pl_prefix_lm_decode(bytes.data, bytes.len, 1, &copy),
                             PL_OK);
        assert_null(copy);
        bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void put_planes(pl_buf *out, uint16_t tag, const uint32_t *counts, size_t n)
{
    uint8_t planes[64];
    OWNED(pl_buf_destroy) pl_buf zipped = {0};
    pl_planes_split((const uint8_t *)counts, n, 4, planes);
    assert_ok(pl_zip(planes, 4 * n, 3, &zipped));
    pl_put_bytes(out, tag, zipped.data, zipped.len);
}

PL_TEST(lies_under_a_good_checksum_are_refused)
{
    static const struct {
        uint64_t head[4]; /* format, vocab, paths, rows */
        uint32_t buckets[2];
        const char *says; /* NULL if the model is valid */
    } lies[] = {{{2, 3, 2, 2}, {4, 9}, NULL},
                {{1, 3, 2, 2}, {4, 9}, "format version 1"},
                {{2, 0, 2, 2}, {4, 9}, "sizes"},
                {{2, 3, 0, 2}, {4, 9}, "sizes"},
                {{2, UINT64_MAX, 2, 2}, {4, 9}, "sizes"},
                {{2, 3, UINT64_MAX, 2}, {4, 9}, "sizes"},
                {{2, 3, 2, UINT64_MAX}, {4, 9}, "sizes"},
                {{2, 1 << 20, 1 << 16, 2}, {4, 9}, "sizes"},
                {{2, 3, 1 << 16, 1 << 16}, {4, 9}, "sizes"},
                {{2, 4, 2, 2}, {4, 9}, ""},
                {{2, 3, 2, 3}, {4, 9}, ""},
                {{2, 3, 2, 2}, {9, 4}, "rising order"},
                {{2, 3, 2, 2}, {4, 4}, "rising order"},
                {{2, 3, 2, 2}, {4, 1 << 22}, "rising order"}};
    for (size_t lie = 0; lie < sizeof lies / sizeof *lies; ++lie) {
        static const uint32_t counts[6] = {1, 2, 3, 4, 5, 6};
        OWNED(pl_buf_destroy) pl_buf bytes = {0};
        OWNED(pl_prefix_lm_destroy) pl_prefix_lm *lm;
        for (uint16_t tag = 1; tag <= 4; ++tag)
            pl_put_u64(&bytes, tag, lies[lie].head[tag - 1]);
        put_planes(&bytes, 5, lies[lie].buckets, 2);
        put_planes(&bytes, 6, counts, 6);
        put_planes(&bytes, 7, counts, 4);
        pl_put_u64(&bytes, 0xffff, pl_checksum(bytes.data, bytes.len));
        pl_status status = pl_prefix_lm_decode(bytes.data, bytes.len, 1, &lm);
        if (lies[lie].says) {
            assert_int_not_equal(status, PL_OK);
            assert_said(lies[lie].says);
            assert_null(lm);
        } else {
            assert_ok(status);
        }
    }
}
