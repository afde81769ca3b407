/* folder: corpus; label: unit */
#include "modules/modules.h"
#include "tests/support/corpus_support.h"

enum { T = 8, N_DOCS = 9, WINDOWS_MAX = 16 };
/* Lengths of documents in tokens: shorter than a window or a prefix, equal to one, and
 * longer. */
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

static pl_sampler *make_sampler_with(const pl_sampler_options *options)
{
    pl_sampler *sampler;
    assert_ok(pl_sampler_create(tokens, options, &sampler));
    return sampler;
}

static pl_sampler *make_sampler(uint64_t seed, uint64_t stream, int replica,
                                int n_replicas, int skip_prefix)
{
    pl_sampler_options options = {.context = T,
                                  .seed = seed,
                                  .stream = stream,
                                  .replica = replica,
                                  .n_replicas = n_replicas,
                                  .skip_prefix = skip_prefix};
    return make_sampler_with(&options);
}

/* of[d][w] is the number of times that window w of document d occurred. */
typedef struct window_tally {
    int of[N_DOCS][WINDOWS_MAX];
} window_tally;

/* Finds from the values of the tokens (test_token) in which document a row begins, and
 * at which token of it. Only the first window of a document begins with BOS. Only
 * document 0 has no token except BOS and EOS. */
static void locate(const int32_t *in, const int32_t *out, size_t *doc, size_t *at)
{
    int32_t telling = in[0] == PL_TOKEN_BOS ? out[0] : in[0];
    *doc = telling == PL_TOKEN_EOS ? 0 : (size_t)(telling - 3) / 200;
    *at = in[0] == PL_TOKEN_BOS ? 0 : (size_t)(telling - 3) % 200;
}

/* Checks that a row is as corpus.h describes it, and counts its window in `tally`.
 * Returns the number of targets that count. */
static int64_t check_row(const int32_t *in, const int32_t *out, int prefix,
                         window_tally *tally)
{
    int64_t counted = 0;
    int32_t plain[T]; /* a copy of `out` whose first target is not masked */
    size_t doc, at;
    memcpy(plain, out, sizeof plain);
    if (plain[0] < 0) /* a masked target, so not document 0 */
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

/* Checks that each window that has a target after the prefix occurred `times` times,
 * and that no other window occurred. */
static void check_tally(const window_tally *tally, int prefix, int times)
{
    for (size_t d = 0; d < N_DOCS; d++)
        for (size_t w = 0; w < WINDOWS_MAX; w++) {
            size_t last = w * T + T < lens[d] - 1 ? w * T + T : lens[d] - 1;
            bool exists = w * T + 1 < lens[d] && last >= (size_t)prefix;
            assert_int_equal(tally->of[d][w], exists ? times : 0);
        }
}

PL_TEST(every_window_comes_once_an_epoch_whatever_the_prefix)
{
    for (size_t p = 0; p < N_PREFIXES; p++) {
        OWNED(pl_sampler_destroy)
        pl_sampler *sampler = make_sampler(7, 3, 0, 1, prefixes[p]);
        uint64_t n = pl_sampler_rows(sampler);
        window_tally tally = {0};
        for (uint64_t i = 0; i < 3 * n; i++) {
            int32_t in[T], out[T];
            int64_t counted = pl_sampler_fill(sampler, i, 1, in, out);
            assert_int_equal(check_row(in, out, prefixes[p], &tally), counted);
            assert_true(counted > 0);
            if ((i + 1) % n == 0)
                check_tally(&tally, prefixes[p], (int)((i + 1) / n));
        }
    }
}

PL_TEST(an_epoch_counts_every_target_after_the_prefix)
{
    for (size_t p = 0; p < N_PREFIXES; p++) {
        OWNED(pl_sampler_destroy)
        pl_sampler *sampler = make_sampler(1, 0, 0, 1, prefixes[p]);
        int n = (int)pl_sampler_rows(sampler);
        OWNED(free_memory) int32_t *in = pl_alloc((size_t)n * T * sizeof *in);
        OWNED(free_memory) int32_t *out = pl_alloc((size_t)n * T * sizeof *out);
        int64_t expected = 0, first = prefixes[p] > 1 ? prefixes[p] : 1;
        for (size_t d = 0; d < N_DOCS; d++)
            expected += lens[d] > first ? lens[d] - first : 0;
        assert_int_equal(pl_sampler_fill(sampler, 0, n, in, out), expected);
    }
}

PL_TEST(replicas_share_an_epoch_without_overlap)
{
    for (int R = 1; R <= 5; R++) {
        window_tally tally = {0};
        for (int r = 0; r < R; r++) {
            OWNED(pl_sampler_destroy) pl_sampler *sampler = make_sampler(7, 3, r, R, 9);
            uint64_t n = pl_sampler_rows(sampler);
            for (uint64_t i = 0; i * (uint64_t)R + (uint64_t)r < n; i++) {
                int32_t in[T], out[T];
                pl_sampler_fill(sampler, i, 1, in, out);
                check_row(in, out, 9, &tally);
            }
        }
        check_tally(&tally, 9, 1);
    }
}

PL_TEST(a_restart_at_any_sample_gives_the_same_rows)
{
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

/* Writes all rows of one epoch, in their order. */
static void fill_epoch(uint64_t seed, uint64_t stream, uint64_t epoch, int32_t *in)
{
    int32_t out[64 * T];
    OWNED(pl_sampler_destroy) pl_sampler *sampler = make_sampler(seed, stream, 0, 1, 0);
    uint64_t n = pl_sampler_rows(sampler);
    assert_in_range(n, 20, 64);
    memset(in, 0, 64 * T * sizeof *in);
    pl_sampler_fill(sampler, epoch * n, (int)n, in, out);
}

PL_TEST(epochs_seeds_and_streams_have_their_own_order)
{
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

/* ---- packing ---- */

/* Checks each text of a row as if it had its own row. Returns the number of targets
 * that count. */
static int64_t check_packed_row(const int32_t *in, const int32_t *out, int prefix,
                                window_tally *tally)
{
    int64_t counted = 0;
    assert_true(in[0] < PL_TEXT_BEGINS);
    for (size_t at = 0, end; at < T && in[at] != 0; at = end) {
        int32_t alone[T] = {in[at] & ~PL_TEXT_BEGINS}, targets[T];
        memset(targets, 0xff, sizeof targets);
        targets[0] = out[at];
        for (end = at + 1; end < T && in[end] != 0 && in[end] < PL_TEXT_BEGINS; end++) {
            alone[end - at] = in[end];
            targets[end - at] = out[end];
        }
        counted += check_row(alone, targets, prefix, tally);
    }
    return counted;
}

PL_TEST(packed_rows_have_every_window_once_an_epoch)
{
    for (size_t p = 0; p < N_PREFIXES; p++) {
        pl_sampler_options options = {.context = T,
                                      .seed = 7,
                                      .n_replicas = 1,
                                      .skip_prefix = prefixes[p],
                                      .pack = true};
        OWNED(pl_sampler_destroy) pl_sampler *sampler = make_sampler_with(&options);
        uint64_t n = pl_sampler_rows(sampler), counted;
        window_tally tally = {0};
        int32_t in[T], out[T];
        for (uint64_t i = 0; i < 3 * n; i++) {
            int64_t targets = pl_sampler_fill(sampler, i, 1, in, out);
            assert_int_equal(check_packed_row(in, out, prefixes[p], &tally), targets);
            if ((i + 1) % n == 0)
                check_tally(&tally, prefixes[p], (int)((i + 1) / n));
        }
        assert_ok(pl_sampler_count_rows(tokens, NULL, N_DOCS, &options, &counted));
        assert_int_equal(counted, n);
    }
}

PL_TEST(short_windows_share_as_few_rows_as_they_can)
{
    const uint32_t some[] = {2, 4, 8};
    pl_sampler_options options = {.context = T, .n_replicas = 1};
    uint64_t rows;
    assert_ok(pl_sampler_count_rows(tokens, NULL, N_DOCS, &options, &rows));
    assert_int_equal(rows, 24 + 6);
    options.pack = true;
    assert_ok(pl_sampler_count_rows(tokens, NULL, N_DOCS, &options, &rows));
    assert_int_equal(rows, 24 + 3);
    assert_ok(pl_sampler_count_rows(tokens, some, 3, &options, &rows));
    assert_int_equal(rows, 1 + 4 + 12 + 2);
}

PL_TEST(packing_leaves_little_room_and_is_repeated_exactly)
{
    enum { N = 3000, WIDE = 200 };
    uint32_t *lengths = pl_alloc(N * sizeof *lengths);
    int32_t *in = pl_alloc(4 * WIDE * sizeof *in), *again = in + WIDE;
    int32_t *out = in + 2 * WIDE, *out_again = in + 3 * WIDE;
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    OWNED(pl_tokens_close) pl_tokens *many;
    OWNED(pl_sampler_destroy) pl_sampler *first, *second;
    pl_sampler_options options = {
        .context = WIDE, .seed = 3, .n_replicas = 1, .pack = true};
    int64_t targets = 0, counted = 0;
    for (uint32_t i = 0; i < N; i++) {
        lengths[i] = 2 + pl_random_u32(5, 6, i) % 300;
        targets += lengths[i] - 1;
    }
    build_tokens(lengths, N, 700000, &bytes);
    assert_ok(pl_tokens_view(bytes.data, bytes.len, "test", &many));
    assert_ok(pl_sampler_create(many, &options, &first));
    assert_ok(pl_sampler_create(many, &options, &second));
    uint64_t n = pl_sampler_rows(first);
    for (uint64_t i = 0; i < n; i++) {
        counted += pl_sampler_fill(first, i, 1, in, out);
        pl_sampler_fill(second, i, 1, again, out_again);
        assert_memory_equal(in, again, WIDE * sizeof *in);
        assert_memory_equal(out, out_again, WIDE * sizeof *out);
    }
    assert_int_equal(counted, targets);
    assert_true((double)targets > 0.99 * (double)(n * WIDE));
    pl_free(in), pl_free(lengths);
}

PL_TEST(a_sampler_without_targets_or_sense_is_refused)
{
    pl_sampler *sampler;
    const pl_sampler_options none = {.context = T, .n_replicas = 2, .skip_prefix = 100},
                             bad[] = {
                                 {.context = T, .n_replicas = 2, .replica = 2},
                                 {.n_replicas = 2},
                                 {.context = T},
                                 {.context = T, .n_replicas = 2, .skip_prefix = -1}};
    assert_fails(pl_sampler_create(tokens, &none, &sampler), PL_ERR_DATA,
                 "prefix of 100");
    assert_null(sampler);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(pl_sampler_create(tokens, &bad[i], &sampler), PL_ERR_ARG);
}

PL_TEST(a_blank_document_keeps_its_place_and_counts_nothing)
{
    enum { BLANK = 4, ROWS = 64 };
    int32_t in[2][T], out[2][T];
    uint64_t hash = pl_tokens_doc(tokens, BLANK)->hash;
    const pl_doc_list list = {&hash, 1};
    uint64_t of_docs[N_DOCS];
    bool was_there = false;
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    OWNED(pl_tokens_close) pl_tokens *blanked;
    assert_ok(pl_tokens_blank(tokens, &list, &bytes));
    assert_ok(pl_tokens_view(bytes.data, bytes.len, "blanked", &blanked));
    for (uint32_t d = 0; d < N_DOCS; d++)
        assert_int_equal(pl_tokens_is_blank(blanked, d), d == BLANK);
    for (int packs = 0; packs < 2; packs++) {
        const pl_sampler_options options = {
            .context = T, .seed = 5, .n_replicas = 1, .pack = packs};
        OWNED(pl_sampler_destroy)
        pl_sampler *plain = make_sampler_with(&options), *without;
        assert_ok(pl_sampler_create(blanked, &options, &without));
        assert_int_equal(pl_sampler_rows(plain), pl_sampler_rows(without));
        for (uint64_t i = 0; i < ROWS; i++) {
            const int64_t all = pl_sampler_fill(plain, i, 1, in[0], out[0]);
            const int64_t rest = pl_sampler_fill(without, i, 1, in[1], out[1]);
            memset(of_docs, 0, sizeof of_docs);
            pl_sampler_count(plain, i, 1, NULL, of_docs);
            const uint64_t marked = of_docs[BLANK];
            assert_int_equal(rest, all - (int64_t)marked);
            was_there = was_there || marked > 0;
            for (size_t t = 0; t < T; t++) {
                const int32_t was = out[0][t], is = out[1][t];
                assert_true(is == was || (is == -1 && marked > 0));
                assert_true(is != -1 || was == -1 ||
                            (in[1][t] & ~PL_TEXT_BEGINS) == PL_TOKEN_UNK);
            }
            memset(of_docs, 0, sizeof of_docs);
            assert_int_equal(pl_sampler_count(without, i, 1, NULL, of_docs), rest);
            assert_int_equal(of_docs[BLANK], 0);
        }
    }
    assert_true(was_there);
}

PL_SUITE(open_tokens, close_tokens)
