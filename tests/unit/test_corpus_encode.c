/* folder: corpus; label: unit */
#include "tests/support/corpus_support.h"

enum { VOCAB = 400 };
static pl_tokenizer *tokenizer;

static int make_encoder(void **state)
{
    assert_ok(make_words_tokenizer(state, 2 * WORDS_BYTES, VOCAB, &tokenizer));
    return 0;
}

static int drop_encoder(void **state)
{
    pl_tokenizer_destroy(&tokenizer);
    return remove_scratch(state);
}

/* Decodes document `doc`, which begins with BOS and ends with EOS. */
static void assert_document_is(const pl_tokens *tokens, uint32_t doc, const char *text)
{
    const pl_token_doc *d = pl_tokens_doc(tokens, doc);
    OWNED(free_memory) int32_t *ids = malloc(d->n_tokens * sizeof *ids);
    OWNED(pl_buf_destroy) pl_buf back = {0};
    pl_tokens_copy(tokens, d->first, d->n_tokens, ids);
    assert_int_equal(ids[0], PL_TOKEN_BOS);
    assert_int_equal(ids[d->n_tokens - 1], PL_TOKEN_EOS);
    assert_ok(pl_tokenizer_decode(tokenizer, ids, d->n_tokens, &back));
    assert_string_equal(pl_buf_text(&back), text);
}

/* pl_documents_encode encodes all documents, also short and equal ones. (pl_prepare
 * leaves some out.) */
PL_TEST(every_document_is_encoded_in_its_order)
{
    OWNED(pl_buf_destroy) pl_buf file = {0}, sources = {0};
    OWNED(pl_tokens_close) pl_tokens *tokens;
    write_text("some.jsonl", "{\"text\": \"one two\", \"domain\": \"b\"}\n"
                             "{\"text\": \"x\"}\n"
                             "{\"text\": \"one two\", \"domain\": \"a\"}\n"
                             "{\"text\": \"w\\u00e4rme\", \"domain\": \"b\"}\n");
    const char *path = in_scratch("some.jsonl");
    assert_ok(pl_documents_encode(path, NULL, tokenizer, &file, &sources));
    assert_ok(pl_tokens_view(file.data, file.len, "some", &tokens));
    assert_int_equal(pl_tokens_n_docs(tokens), 4);
    assert_int_equal(pl_tokens_vocab(tokens), pl_tokenizer_vocab(tokenizer));
    assert_document_is(tokens, 0, "one two");
    assert_document_is(tokens, 1, "x");
    assert_document_is(tokens, 2, "one two");
    assert_document_is(tokens, 3, "w\xc3\xa4rme");
    static const char *const domains[] = {"b", "unknown", "a", "b"};
    for (uint32_t d = 0; d < 4; ++d)
        assert_string_equal(pl_tokens_domain(tokens, pl_tokens_doc(tokens, d)->domain),
                            domains[d]);
    assert_int_equal(pl_tokens_n_domains(tokens), 3);
    assert_string_equal((const char *)sources.data, path);
    assert_int_equal(sources.len, 4 * (strlen(path) + 1));
}

PL_TEST(files_of_a_folder_keep_their_names)
{
    OWNED(pl_buf_destroy) pl_buf file = {0}, sources = {0};
    OWNED(pl_tokens_close) pl_tokens *tokens;
    assert_ok(pl_make_folders(in_scratch("texts/notes")));
    write_text("texts/notes/a.txt", "the first");
    write_text("texts/notes/b.txt", "the second");
    assert_ok(
        pl_documents_encode(in_scratch("texts"), NULL, tokenizer, &file, &sources));
    assert_ok(pl_tokens_view(file.data, file.len, "texts", &tokens));
    assert_int_equal(pl_tokens_n_docs(tokens), 2);
    assert_document_is(tokens, 1, "the second");
    assert_string_equal(pl_tokens_domain(tokens, 0), "notes");
    const char *first = (const char *)sources.data;
    assert_true(pl_ends_with(first, "notes/a.txt"));
    assert_true(pl_ends_with(first + strlen(first) + 1, "notes/b.txt"));
}

PL_TEST(domains_beyond_the_limit_count_as_the_last)
{
    enum { LINES = 1100, MOST = 1024 };
    OWNED(pl_buf_destroy) pl_buf file = {0}, sources = {0}, lines = {0};
    OWNED(pl_tokens_close) pl_tokens *tokens;
    for (int i = 0; i < LINES; ++i)
        pl_buf_printf(&lines, "{\"text\": \"a\", \"domain\": \"d%d\"}\n", i);
    write_bytes("many.jsonl", lines.data, lines.len);
    assert_ok(pl_documents_encode(in_scratch("many.jsonl"), NULL, tokenizer, &file,
                                  &sources));
    assert_ok(pl_tokens_view(file.data, file.len, "many", &tokens));
    assert_int_equal(pl_tokens_n_docs(tokens), LINES);
    assert_int_equal(pl_tokens_n_domains(tokens), MOST);
    assert_int_equal(pl_tokens_doc(tokens, LINES - 1)->domain, MOST - 1);
}

PL_TEST(text_that_is_not_there_is_refused)
{
    OWNED(pl_buf_destroy) pl_buf file = {0}, sources = {0};
    write_text("empty.txt", "");
    assert_fails(
        pl_documents_encode(in_scratch("empty.txt"), NULL, tokenizer, &file, &sources),
        PL_ERR_DATA, "there is no text");
    assert_int_equal(
        pl_documents_encode(in_scratch("nothing"), NULL, tokenizer, &file, &sources),
        PL_ERR_NOT_FOUND);
    write_text("bad.jsonl", "{\"text\": 3}\n");
    assert_fails(
        pl_documents_encode(in_scratch("bad.jsonl"), NULL, tokenizer, &file, &sources),
        PL_ERR_DATA, "line 1");
}

PL_SUITE(make_encoder, drop_encoder)
