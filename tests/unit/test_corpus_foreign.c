/* folder: corpus; label: unit
 *
 * Prepares text as other people have it: in another encoding, with broken lines, in few
 * documents, with a tokenizer that was made for different text. */
#include "tests/support/corpus_support.h"

enum { N_DOCS = 60 };

static int make_corpus(void **state)
{
    return make_documents(state, N_DOCS);
}

PL_TEST(text_in_another_encoding_is_reported_with_its_share)
{
    pl_prepare_options options = usual_prepare();
    pl_prepare_result result;
    OWNED(pl_buf_destroy) pl_buf all = {0};
    assert_ok(pl_read_file(options.corpus, &all));
    for (size_t i = 0; i < all.len; i++)
        if (all.data[i] == 'e')
            all.data[i] = 0xe9;
    /* the name of the key is not a part of the text */
    for (uint8_t *at = all.data;
         (at = memmem(at, all.len - (size_t)(at - all.data), "\"t\xe9xt\"", 6));)
        at[2] = 'e';
    write_bytes("latin1.jsonl", all.data, all.len);
    options.corpus = in_scratch("latin1.jsonl");
    const char *heard = prepare_aloud(&options, "latin1", &result);
    assert_non_null(strstr(heard, "warning: "));
    assert_non_null(strstr(heard, "iconv -f latin1"));
}

PL_TEST(skipped_lines_are_named_and_counted)
{
    pl_prepare_options options = usual_prepare();
    pl_prepare_result result;
    OWNED(pl_buf_destroy) pl_buf all = {0};
    assert_ok(pl_read_file(options.corpus, &all));
    pl_buf_printf(&all, "words\n{\"id\": 1}\n");
    write_bytes("spoilt.jsonl", all.data, all.len);
    options.corpus = in_scratch("spoilt.jsonl");
    check_prepare_fails(&options, "spoilt", PL_ERR_DATA, "data.bad_lines=skip");
    options.reading.skip_bad = true;
    const char *heard = prepare_aloud(&options, "spoilt", &result);
    assert_non_null(strstr(heard, "skipped: "));
    assert_non_null(strstr(heard, "left out: 2 JSON lines"));
    options.reading.skip_bad = false;
    check_prepare_fails(&options, "spoilt", PL_ERR_EXISTS, "bad_lines 'skip'");
}

/* With few documents, the share alone may choose none. */
PL_TEST(one_document_is_held_out_if_the_share_chose_none)
{
    pl_prepare_options options = usual_prepare();
    pl_prepare_result result;
    options.valid_share = 1e-9;
    const char *heard = prepare_aloud(&options, "few", &result);
    assert_int_equal(result.valid_documents, 1);
    assert_int_equal(result.train_documents, N_DOCS - 1);
    assert_non_null(strstr(heard, "one document is held out"));
}

static void put_piece(pl_buf *model, const char *text, uint8_t kind)
{
    const uint8_t len = (uint8_t)strlen(text);
    const uint8_t head[] = {0x0a, (uint8_t)(len + 9), 0x0a, len};
    const uint8_t tail[] = {0x15, 0, 0, 0, 0, 0x18, kind};
    pl_buf_append(model, head, sizeof head);
    pl_buf_append(model, text, len);
    pl_buf_append(model, tail, sizeof tail);
}

/* Writes a SentencePiece model of single characters, without pieces for bytes. */
static void write_letters_model(const char *name, const char *letters)
{
    OWNED(pl_buf_destroy) pl_buf model = {0};
    put_piece(&model, "<unk>", 2);
    put_piece(&model, "<s>", 3);
    put_piece(&model, "</s>", 3);
    put_piece(&model, "\xe2\x96\x81", 1);
    for (const char *at = letters; *at; at++)
        put_piece(&model, (char[]){*at, '\0'}, 1);
    const uint8_t trainer[] = {0x12, 2, 0x18, 2}; /* the algorithm is BPE */
    pl_buf_append(&model, trainer, sizeof trainer);
    write_bytes(name, model.data, model.len);
}

PL_TEST(a_tokenizer_that_does_not_know_the_text_is_refused)
{
    char path[PL_PATH_MAX];
    pl_prepare_options options = usual_prepare();
    pl_prepare_result result;
    write_letters_model("greek.model", "xyz");
    options.tokenizer = pl_join(path, scratch, "greek.model");
    check_prepare_fails(&options, "greek", PL_ERR_DATA, "byte fallback");
    assert_false(pl_path_exists(in_scratch("greek/data.json")));
    write_letters_model("ascii.model", "abcdefghijklmnopqrstuvwxyz.,0123456789");
    options.tokenizer = pl_join(path, scratch, "ascii.model");
    OWNED(pl_buf_destroy) pl_buf lines = {0};
    for (int i = 0; i < 60; i++)
        pl_buf_printf(&lines,
                      "{\"text\": \"abcdefghij klmnopqrst uvwxyz abcdefghij %d%s\"}\n",
                      i, i == 7 ? "@" : "");
    write_bytes("known.jsonl", lines.data, lines.len);
    options.corpus = in_scratch("known.jsonl");
    const char *heard = prepare_aloud(&options, "known", &result);
    assert_non_null(strstr(heard, "the tokenizer does not know"));
    /* a text that is evaluated with a tokenizer that does not know it */
    OWNED(pl_tokenizer_destroy) pl_tokenizer *tokenizer = NULL;
    OWNED(pl_buf_destroy) pl_buf file = {0}, sources = {0};
    assert_ok(pl_tokenizer_load(in_scratch("greek.model"), &tokenizer));
    assert_fails(pl_documents_encode(in_scratch("known.jsonl"), NULL, tokenizer, &file,
                                     &sources),
                 PL_ERR_DATA, "byte fallback");
}

PL_SUITE(make_corpus, remove_scratch)
