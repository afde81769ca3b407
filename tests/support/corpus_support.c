/* Defines the functions of corpus_support.h. */
#include "tests/support/corpus_support.h"

void put_le(pl_buf *buf, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        uint8_t byte = (uint8_t)(value >> (8 * i));
        pl_buf_append(buf, &byte, 1);
    }
}

int32_t test_token(size_t d, size_t t, size_t n)
{
    if (t == 0)
        return PL_TOKEN_BOS;
    return t == n - 1 ? PL_TOKEN_EOS : (int32_t)(3 + d * 200 + t);
}

void build_tokens(const uint32_t *lens, size_t n, uint32_t vocab, pl_buf *out)
{
    static const char names[] = "one\0two";
    OWNED(pl_buf_destroy) pl_buf body = {0};
    uint64_t first = 0;
    int width = vocab <= 65536 ? 2 : 4;
    for (size_t d = 0; d < n; d++)
        for (size_t t = 0; t < lens[d]; t++)
            put_le(&body, (uint64_t)test_token(d, t, lens[d]), width);
    while (body.len % 8 != 0)
        put_le(&body, 0, 1);
    for (size_t d = 0; d < n; d++) {
        put_le(&body, first, 8);
        put_le(&body, lens[d], 4);
        put_le(&body, d % 2, 4);
        put_le(&body, 0x1111 * (d + 1), 8);
        first += lens[d];
    }
    pl_buf_append(&body, names, sizeof names);
    size_t header = out->len;
    pl_buf_append(out, "PLTOK\r\n\x1a", 8);
    put_le(out, 1, 4);
    put_le(out, (uint64_t)width, 4);
    put_le(out, vocab, 4);
    put_le(out, n, 4);
    put_le(out, 2, 4);
    put_le(out, sizeof names, 4);
    put_le(out, first, 8);
    put_le(out, 0, 8);
    put_le(out, pl_checksum(body.data, body.len), 8);
    put_le(out, pl_checksum(out->data + header, 56), 8);
    pl_buf_append(out, body.data, body.len);
}

void make_words(uint64_t seed, size_t len, pl_buf *out)
{
    static const char *const parts[] = {"pa", "th", "lo", "om", "ring", "er",
                                        "st", "an", "be", "cu", "di",   "fo"};
    static const char *const ends[] = {" ", " ", " ", " ", ", ", ".\n", ".\n\n", "\t"};
    for (uint64_t i = 0; out->len < len; i += 4) {
        uint32_t draw = pl_random_u32(seed, 1, i / 4);
        for (uint32_t part = 0; part < 1 + draw % 3; part++)
            pl_buf_printf(out, "%s", parts[(draw >> (4 + 5 * part)) % 12]);
        pl_buf_printf(out, "%s", ends[(draw >> 28) % 8]);
    }
    pl_buf_text(out);
}

pl_status make_words_tokenizer(void **state, size_t len, int vocab, pl_tokenizer **out)
{
    OWNED(pl_buf_destroy) pl_buf text = {0};
    if (make_scratch(state) != 0)
        return pl_fail(PL_ERR_IO, "there is no scratch folder");
    make_words(1, len, &text);
    const char *texts[] = {(const char *)text.data};
    pl_status status =
        pl_tokenizer_train(texts, &text.len, 1, vocab, 1, in_scratch("words.model"));
    return status == PL_OK ? pl_tokenizer_load(in_scratch("words.model"), out) : status;
}

pl_tokenizer *word_tokenizer;

int open_words(void **state)
{
    assert_ok(make_words_tokenizer(state, WORDS_BYTES, WORD_VOCAB, &word_tokenizer));
    return 0;
}

int close_words(void **state)
{
    pl_tokenizer_destroy(&word_tokenizer);
    return remove_scratch(state);
}

int make_documents(void **state, int n)
{
    OWNED(pl_buf_destroy) pl_buf lines = {0};
    if (make_scratch(state) != 0)
        return -1;
    for (int d = 0; d < n; d++) {
        OWNED(pl_buf_destroy) pl_buf words = {0};
        OWNED(pl_json_destroy) pl_json *object = pl_json_object();
        make_words((uint64_t)d, 1500, &words);
        pl_json_set_text(object, "text", pl_buf_text(&words));
        pl_json_set_text(object, "domain", d % 3 ? "even" : "third");
        pl_json_write(object, 0, &lines);
        pl_buf_printf(&lines, "\n");
    }
    write_bytes("corpus.jsonl", lines.data, lines.len);
    return 0;
}

/* Appends a line of pl_prepare's progress to `context`, a pl_buf. */
static void hear_line(void *context, const char *line)
{
    assert_null(strchr(line, '\n'));
    pl_buf_printf(context, "%s\n", line);
}

pl_prepare_options usual_prepare(void)
{
    static char path[PL_PATH_MAX];
    return (pl_prepare_options){.corpus = pl_join(path, scratch, "corpus.jsonl"),
                                .valid = "",
                                .valid_share = 0.2,
                                .tokenizer = "",
                                .vocab = 320,
                                .n_threads = 2,
                                .seed = 5,
                                .min_document_tokens = 33};
}

void check_prepare_fails(const pl_prepare_options *options, const char *folder,
                         pl_status expected, const char *said)
{
    pl_prepare_result result;
    pl_status status = pl_prepare(options, in_scratch(folder), &result);
    if (status != expected)
        fail_msg("%s instead of %s: %s", pl_status_name(status),
                 pl_status_name(expected), pl_last_error());
    assert_said(said);
}

const char *prepare_aloud(const pl_prepare_options *options, const char *folder,
                          pl_prepare_result *result)
{
    static pl_buf heard;
    pl_prepare_options aloud = *options;
    aloud.progress = hear_line;
    aloud.progress_context = &heard;
    pl_buf_clear(&heard);
    assert_ok(pl_prepare(&aloud, in_scratch(folder), result));
    return pl_buf_text(&heard);
}
