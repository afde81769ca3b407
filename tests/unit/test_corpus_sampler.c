/* folder: corpus; label: unit */
#include "tests/support/corpus_support.h"

enum { T = 8, N_DOCS = 9, WINDOWS_MAX = 16 };
/* Documents shorter than, equal to, and longer than windows and prefixes. */
static const uint32_t lens[N_DOCS] = {2, 9, 10, 17, 40, 3, 33, 8, 100};
static const int prefixes[] = {0, 1, 2, 7, 8, 9, 16, 17, 32, 99};
enum { N_PREFIXES = sizeof prefixes / sizeof *prefixes };
static pl_buf file;
static pl_tokens *tokens;

static int open_tokens(void **state)
{
    (void)state;
    build_tokens(lens, N_DOCS, 3000, &file);
    return pl_tokens_view(file.data, file.len, "test", &tokens) == PL_OK ? 0 : -1;
}

static int close_tokens(void **state)
{
    (void)state;
    pl_tokens_close(&tokens);
    pl_buf_destroy(&file);
    return 0;
}

static pl_sampler *make_sampler(uint64_t seed, uint64_t stream, int replica,
                                int n_replicas, int skip_prefix)
{
    pl_sampler *sampler;
    pl_sampler_options options = {.context = T,
                                  .seed = seed,
                                  .stream = stream,
                                  .replica = replica,
                                  .n_replicas = n_replicas,
                                  .skip_prefix = skip_prefix};
    assert_ok(pl_sampler_create(tokens, &options, &sampler));
    return sampler;
}

/* How often each window of each document came. */
typedef struct window_tally {
    int of[N_DOCS][WINDOWS_MAX];
} window_tally;

/* Where a row begins: test tokens tell their document and place; only the first
 * window of a document begins with BOS, and only document 0 has nothing else. */
static void locate(const int32_t *in, const int32_t *out, size_t *doc, size_t *at)
{
    int32_t telling = in[0] == PL_TOKEN_BOS ? out[0] : in[0];
    *doc = telling == PL_TOKEN_EOS ? 0 : (size_t)(telling - 3) / 200;
    *at = in[0] == PL_TOKEN_BOS ? 0 : (size_t)(telling - 3) % 200;
}

/* Compares a row with what the header comment of the sampler says it is. */
static int64_t check_row(const int32_t *in, const int32_t *out, int prefix,
                         window_tally *tally)
{
    int64_t counted = 0;
    int32_t plain[T]; /* targets as if there were no mask */
    size_t doc, at;
    memcpy(plain, out, sizeof plain);
    if (plain[0] < 0) /* masked: document 0 has but one, unmasked window */
        plain[0] = in[1];
    locate(in, plain, &doc, &at);
    assert_int_equal(at % T, 0);
    for (size_t t = 0; t < T; t++) {
        bool inside = at + t + 1 < lens[doc];
        bool masked = !inside || at + t + 1 < (size_t)prefix;
        assert_int_equal(in[t], inside ? test_token(doc, at + t, lens[doc]) : 0);
        assert_int_equal(out[t], masked ? -1 : test_token(doc, at + t + 1, lens[doc]));
        counted += !masked;
    }
    tally->of[doc][at / T]++;
    return counted;
}

/* Every window with a target after the prefix came `times` times, no other at all. */
static void check_tally(const window_tally *tally, int prefix, int times)
{
    for (size_t d = 0; d < N_DOCS; d++)
        for (size_t w = 0; w < WINDOWS_MAX; w++) {
            size_t last = w * T + T < lens[d] - 1 ? w * T + T : lens[d] - 1;
            bool exists = w * T + 1 < lens[d] && last >= (size_t)prefix;
            assert_int_equal(tally->of[d][w], exists ? times : 0);
        }
}

static void every_window_comes_once_an_epoch_whatever_the_prefix(void **state)
{
    (void)state;
    for (size_t p = 0; p < N_PREFIXES; p++) {
        pl_sampler *sampler = make_sampler(7, 3, 0, 1, prefixes[p]);
        uint64_t n = pl_sampler_windows(sampler);
        window_tally tally = {0};
        for (uint64_t i = 0; i < 3 * n; i++) {
            int32_t in[T], out[T];
            int64_t counted = pl_sampler_fill(sampler, i, 1, in, out);
            assert_int_equal(check_row(in, out, prefixes[p], &tally), counted);
            assert_true(counted > 0);
            if ((i + 1) % n == 0)
                check_tally(&tally, prefixes[p], (int)((i + 1) / n));
        }
        pl_sampler_destroy(&sampler);
    }
}

static void an_epoch_counts_every_target_after_the_prefix(void **state)
{
    (void)state;
    for (size_t p = 0; p < N_PREFIXES; p++) {
        pl_sampler *sampler = make_sampler(1, 0, 0, 1, prefixes[p]);
        int n = (int)pl_sampler_windows(sampler);
        int32_t *in = pl_alloc((size_t)n * T * sizeof *in);
        int32_t *out = pl_alloc((size_t)n * T * sizeof *out);
        int64_t expected = 0, first = prefixes[p] > 1 ? prefixes[p] : 1;
        for (size_t d = 0; d < N_DOCS; d++)
            expected += lens[d] > first ? lens[d] - first : 0;
        assert_int_equal(pl_sampler_fill(sampler, 0, n, in, out), expected);
        pl_free(in);
        pl_free(out);
        pl_sampler_destroy(&sampler);
    }
}

static void replicas_share_an_epoch_without_overlap(void **state)
{
    (void)state;
    for (int R = 1; R <= 5; R++) {
        window_tally tally = {0};
        for (int r = 0; r < R; r++) {
            pl_sampler *sampler = make_sampler(7, 3, r, R, 9);
            uint64_t n = pl_sampler_windows(sampler);
            for (uint64_t i = 0; i * (uint64_t)R + (uint64_t)r < n; i++) {
                int32_t in[T], out[T];
                pl_sampler_fill(sampler, i, 1, in, out);
                check_row(in, out, 9, &tally);
            }
            pl_sampler_destroy(&sampler);
        }
        check_tally(&tally, 9, 1);
    }
}

static void a_restart_at_any_sample_gives_the_same_rows(void **state)
{
    (void)state;
    enum { N = 60, B = 4 };
    int32_t in[N * T], out[N * T], in_again[B * T], out_again[B * T];
    pl_sampler *sampler = make_sampler(7, 3, 1, 2, 5);
    pl_sampler_fill(sampler, 0, N, in, out);
    pl_sampler_destroy(&sampler);
    for (uint64_t first = 0; first + B <= N; first++) {
        sampler = make_sampler(7, 3, 1, 2, 5);
        pl_sampler_fill(sampler, first, B, in_again, out_again);
        assert_memory_equal(in_again, in + first * T, sizeof in_again);
        assert_memory_equal(out_again, out + first * T, sizeof out_again);
        pl_sampler_destroy(&sampler);
    }
}

/* The order of one epoch, as the rows themselves. */
static void fill_epoch(uint64_t seed, uint64_t stream, uint64_t epoch, int32_t *in)
{
    int32_t out[64 * T];
    pl_sampler *sampler = make_sampler(seed, stream, 0, 1, 0);
    uint64_t n = pl_sampler_windows(sampler);
    assert_in_range(n, 20, 64);
    memset(in, 0, 64 * T * sizeof *in);
    pl_sampler_fill(sampler, epoch * n, (int)n, in, out);
    pl_sampler_destroy(&sampler);
}

static void epochs_seeds_and_streams_have_their_own_order(void **state)
{
    (void)state;
    int32_t base[64 * T], other[64 * T];
    fill_epoch(7, 3, 0, base);
    fill_epoch(7, 3, 0, other);
    assert_memory_equal(base, other, sizeof base);
    fill_epoch(7, 3, 1, other);
    assert_memory_not_equal(base, other, sizeof base);
    fill_epoch(8, 3, 0, other);
    assert_memory_not_equal(base, other, sizeof base);
    fill_epoch(7, 4, 0, other);
    assert_memory_not_equal(base, other, sizeof base);
}

static void a_sampler_without_targets_or_sense_is_refused(void **state)
{
    (void)state;
    pl_sampler *sampler;
    pl_sampler_options good = {.context = T, .n_replicas = 2}, bad = good;
    bad.skip_prefix = 100;
    assert_int_equal(pl_sampler_create(tokens, &bad, &sampler), PL_ERR_DATA);
    assert_said("prefix of 100");
    assert_null(sampler);
    bad = good;
    bad.replica = 2;
    assert_int_equal(pl_sampler_create(tokens, &bad, &sampler), PL_ERR_ARG);
    bad = good;
    bad.context = 0;
    assert_int_equal(pl_sampler_create(tokens, &bad, &sampler), PL_ERR_ARG);
    bad = good;
    bad.n_replicas = 0;
    assert_int_equal(pl_sampler_create(tokens, &bad, &sampler), PL_ERR_ARG);
    bad = good;
    bad.skip_prefix = -1;
    assert_int_equal(pl_sampler_create(tokens, &bad, &sampler), PL_ERR_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_window_comes_once_an_epoch_whatever_the_prefix),
        cmocka_unit_test(an_epoch_counts_every_target_after_the_prefix),
        cmocka_unit_test(replicas_share_an_epoch_without_overlap),
        cmocka_unit_test(a_restart_at_any_sample_gives_the_same_rows),
        cmocka_unit_test(epochs_seeds_and_streams_have_their_own_order),
        cmocka_unit_test(a_sampler_without_targets_or_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, open_tokens, close_tokens);
}
