/* folder: corpus; label: unit */
#include "tests/support/corpus_support.h"

enum { VOCAB = 400 };
static pl_tokenizer *tokenizer;

static pl_status train(const pl_buf *text, int vocab, int n_threads, const char *name)
{
    const char *texts[] = {(const char *)text->data};
    return pl_tokenizer_train(texts, &text->len, 1, vocab, n_threads, in_scratch(name));
}

static int make_tokenizer(void **state)
{
    assert_ok(make_words_tokenizer(state, 2 * WORDS_BYTES, VOCAB, &tokenizer));
    return 0;
}

static int drop_tokenizer(void **state)
{
    pl_tokenizer_destroy(&tokenizer);
    return remove_scratch(state);
}

/* Encodes and decodes a text, which must come back byte by byte. */
static size_t check_round_trip(const pl_tokenizer *with, const char *text, size_t len)
{
    OWNED(pl_buf_destroy) pl_buf ids = {0}, back = {0};
    assert_ok(pl_tokenizer_encode(with, text, len, &ids));
    size_t n = ids.len / sizeof(int32_t);
    const int32_t *tokens = (const void *)ids.data;
    for (size_t i = 0; i < n; i++)
        assert_in_range(tokens[i], PL_TOKEN_EOS + 1, pl_tokenizer_vocab(with) - 1);
    assert_ok(pl_tokenizer_decode(with, tokens, n, &back));
    assert_int_equal(back.len, len);
    if (len > 0)
        assert_memory_equal(back.data, text, len);
    return n;
}

static void put_utf8(pl_buf *text, uint32_t c)
{
    uint8_t bytes[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n; i-- > 1; c >>= 6)
        bytes[i] = (uint8_t)(0x80 | (c & 0x3f));
    bytes[0] = (uint8_t)(lead[n] | c);
    pl_buf_append(text, bytes, n);
}

/* Draws characters of every kind. Blanks, newlines and the characters that
 * SentencePiece uses as marks are frequent. */
static uint32_t random_character(uint64_t seed, uint64_t i)
{
    static const uint32_t special[] = {' ',    '\n',   '\t',   '\r',   0x2581, 0x2585,
                                       0xfffd, 0x2047, 0x3000, 0xfeff, 0xa0,   '<'};
    uint32_t draw = pl_random_u32(seed, 2, i), kind = draw >> 29;
    uint32_t value = draw & 0x1fffff;
    if (kind < 3)
        return special[value % 12];
    if (kind < 5)
        return 1 + value % 0x7f;
    if (kind == 5)
        return 0x80 + value % 0x780;
    if (kind == 6)
        return 0x800 + value % 0xd000; /* all of them are below the surrogates */
    return 0x10000 + value % 0x100000;
}

PL_TEST(any_utf8_comes_back_exactly)
{
    for (uint64_t seed = 0; seed < 300; seed++) {
        OWNED(pl_buf_destroy) pl_buf text = {0};
        uint64_t n = pl_random_u32(seed, 3, 0) % 200;
        for (uint64_t i = 0; i < n; i++)
            put_utf8(&text, random_character(seed, i));
        check_round_trip(tokenizer, (const char *)text.data, text.len);
    }
}

PL_TEST(long_texts_without_any_place_to_cut_come_back)
{
    static const char *const units[] = {
        "x", " ", "\n", "\xe2\x96\x81", "\xf0\x9f\x8e\x89", "ab\xc3\xa9"};
    for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
        OWNED(pl_buf_destroy) pl_buf text = {0};
        while (text.len < 200000)
            pl_buf_append(&text, units[u], strlen(units[u]));
        check_round_trip(tokenizer, (const char *)text.data, text.len);
    }
}

PL_TEST(words_that_look_like_control_tokens_are_only_words)
{
    static const char text[] = "<s> </s> <unk> <0x41> <pad>";
    assert_true(check_round_trip(tokenizer, text, strlen(text)) > 5);
    check_round_trip(tokenizer, "", 0);
}

PL_TEST(pieces_are_learnt_and_newlines_are_tokens)
{
    OWNED(pl_buf_destroy) pl_buf ids = {0};
    size_t n = check_round_trip(tokenizer, "ringing staner, the", 19);
    assert_true(n < 15);
    assert_ok(pl_tokenizer_encode(tokenizer, "\n\n\n\t", 4, &ids));
    /* The tokens are: two newlines, one newline, one tab. */
    assert_int_equal(ids.len, 3 * sizeof(int32_t));
}

PL_TEST(cuts_into_blocks_do_not_change_the_tokens)
{
    OWNED(pl_buf_destroy) pl_buf text = {0}, whole = {0}, lines = {0};
    make_words(5, 300000, &text);
    const char *at = (const char *)text.data, *end = at + text.len;
    assert_ok(pl_tokenizer_encode(tokenizer, at, text.len, &whole));
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        while (stop < end && *stop == '\n')
            stop++;
        assert_ok(pl_tokenizer_encode(tokenizer, at, (size_t)(stop - at), &lines));
        at = stop;
    }
    assert_same_bytes(whole, lines);
}

static pl_status count_round_trip(void *context, const pl_document *document)
{
    *(size_t *)context += check_round_trip(tokenizer, document->text, document->len);
    return PL_OK;
}

PL_TEST(real_text_comes_back_exactly)
{
    size_t n = 0;
    assert_ok(pl_documents_cut("docs/man", 0, count_round_trip, &n, NULL));
    assert_ok(pl_documents_cut("corpus", 0, count_round_trip, &n, NULL));
    assert_true(n > 100000);
}

PL_TEST(training_gives_the_same_bytes_whatever_the_threads)
{
    OWNED(pl_buf_destroy) pl_buf text = {0}, first = {0}, other = {0};
    make_words(2, 100000, &text);
    assert_ok(train(&text, 350, 1, "one.model"));
    assert_ok(train(&text, 350, 4, "four.model"));
    assert_ok(pl_read_file(in_scratch("one.model"), &first));
    assert_ok(pl_read_file(in_scratch("four.model"), &other));
    assert_same_bytes(first, other);
}

static int number_after(const char *words)
{
    const char *at = strstr(pl_last_error(), words);
    assert_non_null(at);
    return atoi(at + strlen(words));
}

PL_TEST(a_vocab_too_large_names_the_largest_and_that_one_works)
{
    OWNED(pl_buf_destroy) pl_buf text = {0};
    make_words(3, 300, &text);
    assert_int_equal(train(&text, 50000, 1, "large.model"), PL_ERR_DATA);
    int largest = number_after("at most ");
    assert_false(pl_path_exists(in_scratch("large.model")));
    assert_int_equal(train(&text, largest + 1, 1, "large.model"), PL_ERR_DATA);
    assert_ok(train(&text, largest, 1, "large.model"));
}

PL_TEST(a_vocab_too_small_names_the_smallest_and_that_one_works)
{
    OWNED(pl_buf_destroy) pl_buf text = {0};
    make_words(3, 20000, &text);
    for (int vocab = 1; vocab < 265; vocab += 29)
        assert_int_equal(train(&text, vocab, 1, "small.model"), PL_ERR_DATA);
    assert_int_equal(train(&text, 264, 1, "small.model"), PL_ERR_DATA);
    int smallest = number_after("need at least ");
    assert_in_range(smallest, 265, 300);
    assert_ok(train(&text, smallest, 1, "small.model"));
}

PL_TEST(a_text_without_blanks_trains_a_tokenizer_that_knows_them)
{
    OWNED(pl_buf_destroy) pl_buf text = {0};
    OWNED(pl_tokenizer_destroy) pl_tokenizer *blankless;
    static const char with[] = "a b  \xe2\x96\x81 c\n d";
    for (int i = 0; i < 3000; i++)
        pl_buf_printf(&text, "word%d\n", i);
    assert_ok(train(&text, 280, 1, "blankless.model"));
    assert_ok(pl_tokenizer_load(in_scratch("blankless.model"), &blankless));
    check_round_trip(blankless, with, strlen(with));
}

PL_TEST(no_text_cannot_train)
{
    assert_int_equal(
        pl_tokenizer_train(NULL, NULL, 0, 300, 1, in_scratch("none.model")),
        PL_ERR_DATA);
    assert_false(pl_path_exists(in_scratch("none.model")));
}

PL_TEST(a_token_outside_the_vocabulary_is_refused)
{
    OWNED(pl_buf_destroy) pl_buf back = {0};
    static const int32_t wrong[] = {-1, VOCAB, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pl_tokenizer_decode(tokenizer, &wrong[i], 1, &back),
                         PL_ERR_ARG);
    static const int32_t control[] = {PL_TOKEN_BOS, PL_TOKEN_EOS};
    assert_ok(pl_tokenizer_decode(tokenizer, control, 2, &back));
    assert_int_equal(back.len, 0);
}

PL_TEST(damaged_models_are_refused_or_usable)
{
    OWNED(pl_buf_destroy) pl_buf model = {0};
    size_t n_refused = 0;
    assert_ok(pl_read_file(in_scratch("words.model"), &model));
    for (size_t i = 0; i < 2 * model.len; i += 41) {
        OWNED(pl_tokenizer_destroy) pl_tokenizer *damaged;
        OWNED(pl_buf_destroy) pl_buf bytes = {0}, ids = {0};
        pl_buf_append(&bytes, model.data, i < model.len ? i : model.len);
        if (i >= model.len)
            bytes.data[i - model.len] ^= (uint8_t)(1u << i % 8);
        if (pl_tokenizer_load_bytes(bytes.data, bytes.len, &damaged) != PL_OK) {
            assert_null(damaged);
            n_refused++;
        } else if (pl_tokenizer_encode(damaged, "some text\n", 10, &ids) == PL_OK) {
            assert_true(ids.len > 0);
        }
    }
    assert_true(n_refused > 20);
}

PL_TEST(a_missing_model_is_named)
{
    pl_tokenizer *none;
    assert_fails(pl_tokenizer_load(in_scratch("absent.model"), &none), PL_ERR_NOT_FOUND,
                 "absent.model");
    write_text("text.model", "this is no model");
    assert_fails(pl_tokenizer_load(in_scratch("text.model"), &none), PL_ERR_DAMAGED,
                 "text.model");
    assert_null(none);
}

PL_SUITE(make_tokenizer, drop_tokenizer)
