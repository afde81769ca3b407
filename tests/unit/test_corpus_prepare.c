/* folder: corpus; label: integration */
#include "tests/support/corpus_support.h"
#include <sys/stat.h>

enum { N_DOCS = 120 };

static int make_corpus(void **state)
{
    return make_documents(state, N_DOCS);
}

static void read_product(const char *folder, const char *name, pl_buf *out)
{
    char path[PL_PATH_MAX];
    assert_ok(pl_read_file(pl_join(path, in_scratch(folder), name), out));
}

static void check_same_file(const char *a, const char *b, const char *name)
{
    OWNED(pl_buf_destroy) pl_buf one = {0}, two = {0};
    read_product(a, name, &one);
    read_product(b, name, &two);
    assert_same_bytes(one, two);
}

static pl_tokens *open_product(const char *folder, const char *name)
{
    char path[PL_PATH_MAX];
    pl_tokens *tokens;
    assert_ok(pl_tokens_open(pl_join(path, in_scratch(folder), name), true, &tokens));
    return tokens;
}

/* Gives bytes to options.corpus, as the file `name`. */
static void use_corpus(pl_prepare_options *options, const char *name, const pl_buf *b)
{
    write_bytes(name, b->data, b->len);
    options->corpus = in_scratch(name);
}

/* ---- the prepared files ---- */

PL_TEST(the_products_hold_every_document_once)
{
    pl_prepare_options options = usual_prepare();
    pl_prepare_result result;
    OWNED(pl_tokens_close) pl_tokens *train, *valid;
    const char *heard = prepare_aloud(&options, "out", &result);
    train = open_product("out", "train.tok");
    valid = open_product("out", "valid.tok");
    assert_int_equal(result.train_documents + result.valid_documents, N_DOCS);
    assert_in_range(result.valid_documents, 10, 40);
    assert_int_equal(pl_tokens_n_docs(train), result.train_documents);
    assert_int_equal(pl_tokens_count(train), result.train_tokens);
    assert_int_equal(pl_tokens_n_docs(valid), result.valid_documents);
    assert_int_equal(pl_tokens_count(valid), result.valid_tokens);
    assert_int_equal(pl_tokens_vocab(train), 320);
    assert_int_equal(pl_tokens_n_domains(valid), 2);
    assert_non_null(strstr(heard, "120 documents, 2 domains from"));
    assert_non_null(strstr(heard, "MB/s"));
    assert_non_null(strstr(heard, "held out"));
}

typedef struct text_check {
    const pl_tokens *tokens;
    const pl_tokenizer *tokenizer;
    uint32_t next;
} text_check;

/* If the next document of the token file has the hash of `document`, its tokens must
 * decode to the text of `document`. */
static pl_status check_text(void *context, const pl_document *document)
{
    text_check *check = context;
    int32_t ids[4096];
    OWNED(pl_buf_destroy) pl_buf text = {0};
    pl_hash identity;
    if (check->next == pl_tokens_n_docs(check->tokens))
        return PL_OK;
    const pl_token_doc *doc = pl_tokens_doc(check->tokens, check->next);
    pl_hash_of("document", document->text, document->len, &identity);
    if (memcmp(&doc->hash, identity.bytes, 8) != 0)
        return PL_OK;
    check->next++;
    assert_in_range(doc->n_tokens, 3, 4096);
    pl_tokens_copy(check->tokens, doc->first, doc->n_tokens, ids);
    assert_int_equal(ids[0], PL_TOKEN_BOS);
    assert_int_equal(ids[doc->n_tokens - 1], PL_TOKEN_EOS);
    assert_ok(pl_tokenizer_decode(check->tokenizer, ids, doc->n_tokens, &text));
    assert_int_equal(text.len, document->len);
    assert_memory_equal(text.data, document->text, text.len);
    assert_string_equal(pl_tokens_domain(check->tokens, doc->domain), document->domain);
    return PL_OK;
}

PL_TEST(documents_keep_their_order_text_and_domain)
{
    static const char *const names[] = {"train.tok", "valid.tok"};
    char path[PL_PATH_MAX];
    OWNED(pl_tokenizer_destroy) pl_tokenizer *tokenizer;
    assert_ok(pl_tokenizer_load(pl_join(path, in_scratch("out"), "tokenizer.model"),
                                &tokenizer));
    for (size_t i = 0; i < 2; i++) {
        OWNED(pl_tokens_close) pl_tokens *tokens;
        tokens = open_product("out", names[i]);
        text_check check = {.tokens = tokens, .tokenizer = tokenizer};
        assert_ok(
            pl_documents_cut(in_scratch("corpus.jsonl"), 0, check_text, &check, NULL));
        assert_int_equal(check.next, pl_tokens_n_docs(tokens));
    }
}

/* The subset of all documents of a file must have the bytes of the file. The two are
 * written by different functions, but must have the same format. */
PL_TEST(a_subset_of_a_file_is_the_file)
{
    OWNED(pl_tokens_close) pl_tokens *tokens;
    OWNED(pl_buf_destroy) pl_buf subset = {0}, file = {0};
    uint32_t docs[N_DOCS];
    tokens = open_product("out", "train.tok");
    read_product("out", "train.tok", &file);
    for (uint32_t d = 0; d < N_DOCS; d++)
        docs[d] = d;
    assert_ok(pl_tokens_subset(tokens, docs, pl_tokens_n_docs(tokens), &subset));
    assert_same_bytes(subset, file);
}

PL_TEST(the_bytes_do_not_depend_on_threads)
{
    pl_prepare_options options = usual_prepare();
    pl_prepare_result result;
    options.n_threads = 1;
    assert_ok(pl_prepare(&options, in_scratch("single"), &result));
    check_same_file("out", "single", "tokenizer.model");
    check_same_file("out", "single", "train.tok");
    check_same_file("out", "single", "valid.tok");
    check_same_file("out", "single", "data.json");
}

static bool file_has(const pl_tokens *tokens, uint64_t hash)
{
    for (uint32_t d = 0; d < pl_tokens_n_docs(tokens); d++)
        if (pl_tokens_doc(tokens, d)->hash == hash)
            return true;
    return false;
}

static pl_status write_backwards(void *context, const pl_document *document)
{
    pl_buf *lines = context, line = {0};
    OWNED(pl_json_destroy) pl_json *object = pl_json_object();
    pl_json_set(object, "text", pl_json_make_bytes(document->text, document->len));
    pl_json_write(object, 0, &line);
    pl_buf_printf(&line, "\n");
    pl_buf_append(&line, lines->data, lines->len);
    pl_buf_destroy(lines);
    *lines = line;
    return PL_OK;
}

PL_TEST(the_split_is_stable_and_duplicates_are_kept_once)
{
    pl_prepare_options options = usual_prepare();
    pl_prepare_result result;
    OWNED(pl_buf_destroy) pl_buf lines = {0};
    OWNED(pl_tokens_close) pl_tokens *valid, *valid_before;
    assert_ok(
        pl_documents_cut(in_scratch("corpus.jsonl"), 0, write_backwards, &lines, NULL));
    assert_ok(
        pl_documents_cut(in_scratch("corpus.jsonl"), 0, write_backwards, &lines, NULL));
    pl_buf_printf(&lines, "{\"text\": \"a new document of some words\"}\n");
    use_corpus(&options, "backwards.jsonl", &lines);
    const char *heard = prepare_aloud(&options, "backwards", &result);
    assert_non_null(strstr(heard, "left out: 120 duplicate"));
    valid_before = open_product("out", "valid.tok");
    valid = open_product("backwards", "valid.tok");
    assert_int_equal(pl_tokens_n_docs(valid), pl_tokens_n_docs(valid_before));
    for (uint32_t d = 0; d < pl_tokens_n_docs(valid_before); d++)
        assert_true(file_has(valid, pl_tokens_doc(valid_before, d)->hash));
}

PL_TEST(thousands_of_duplicates_are_found)
{
    pl_prepare_options options = usual_prepare();
    pl_prepare_result result;
    OWNED(pl_buf_destroy) pl_buf lines = {0};
    enum { UNIQUE = 5000 };
    for (int i = 0; i < 2 * UNIQUE; i++)
        pl_buf_printf(&lines, "{\"text\": \"document %d\"}\n", i % UNIQUE);
    use_corpus(&options, "many.jsonl", &lines);
    options.vocab = 290;
    options.min_document_tokens = 0;
    assert_ok(pl_prepare(&options, in_scratch("many"), &result));
    assert_int_equal(result.train_documents + result.valid_documents, UNIQUE);
    assert_in_range(result.valid_documents, UNIQUE / 5 - 120, UNIQUE / 5 + 120);
}

PL_TEST(a_separate_valid_file_never_trains)
{
    pl_prepare_options options = usual_prepare();
    pl_prepare_result result;
    OWNED(pl_buf_destroy) pl_buf all = {0};
    OWNED(pl_tokens_close) pl_tokens *train, *valid;
    assert_ok(pl_read_file(options.corpus, &all));
    const char *text = pl_buf_text(&all), *end = text;
    for (int line = 0; line < 7; line++)
        end = strchr(end, '\n') + 1;
    write_bytes("held.jsonl", text, (size_t)(end - text));
    options.valid = in_scratch("held.jsonl");
    assert_ok(pl_prepare(&options, in_scratch("separate"), &result));
    assert_int_equal(result.valid_documents, 7);
    assert_int_equal(result.train_documents, N_DOCS - 7);
    train = open_product("separate", "train.tok");
    valid = open_product("separate", "valid.tok");
    for (uint32_t d = 0; d < 7; d++)
        assert_false(file_has(train, pl_tokens_doc(valid, d)->hash));
}

PL_TEST(short_documents_train_but_do_not_judge)
{
    pl_prepare_options options = usual_prepare();
    pl_prepare_result result;
    OWNED(pl_buf_destroy) pl_buf lines = {0};
    OWNED(pl_tokens_close) pl_tokens *valid;
    enum { SHORT = 60 };
    assert_ok(pl_read_file(options.corpus, &lines));
    for (int i = 0; i < SHORT; i++)
        pl_buf_printf(&lines, "{\"text\": \"short %d\"}\n", i);
    use_corpus(&options, "short.jsonl", &lines);
    const char *heard = prepare_aloud(&options, "short", &result);
    valid = open_product("short", "valid.tok");
    for (uint32_t d = 0; d < pl_tokens_n_docs(valid); d++)
        assert_true(pl_tokens_doc(valid, d)->n_tokens >= 33);
    const char *said = strstr(heard, "held out (");
    assert_non_null(said);
    unsigned long long too_short = strtoull(said + strlen("held out ("), NULL, 10);
    assert_in_range(too_short, 1, SHORT / 2);
    assert_int_equal(result.train_documents + result.valid_documents + too_short,
                     N_DOCS + SHORT);
}

PL_TEST(a_given_tokenizer_is_used_and_max_bytes_ends_the_reading)
{
    pl_prepare_options options = usual_prepare();
    pl_prepare_result result;
    char model[PL_PATH_MAX];
    options.tokenizer = pl_join(model, in_scratch("out"), "tokenizer.model");
    options.vocab = 0;
    options.max_bytes = 40000;
    assert_ok(pl_prepare(&options, in_scratch("given"), &result));
    assert_int_equal(result.vocab, 320);
    assert_in_range(result.train_documents, 20, 30);
    check_same_file("out", "given", "tokenizer.model");
}

/* ---- a second call of pl_prepare for the same folder ---- */

PL_TEST(a_second_call_reuses_what_is_there)
{
    pl_prepare_options options = usual_prepare();
    pl_prepare_result first, second;
    struct stat before, after;
    char path[PL_PATH_MAX];
    assert_ok(pl_prepare(&options, in_scratch("single"), &first));
    assert_int_equal(stat(pl_join(path, in_scratch("single"), "train.tok"), &before),
                     0);
    const char *heard = prepare_aloud(&options, "single", &second);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_memory_equal(&first, &second, sizeof first);
    assert_int_equal(second.train_documents + second.valid_documents, N_DOCS);
    assert_false(pl_hash_none(&second.train_hash));
    assert_non_null(strstr(heard, "prepared before"));
}

PL_TEST(other_options_are_refused_naming_both_values)
{
    pl_prepare_options options = usual_prepare();
    options.vocab = 330;
    check_prepare_fails(&options, "out", PL_ERR_EXISTS,
                        "vocab '320', but now this option is '330'");
    options = usual_prepare();
    options.seed = 6;
    check_prepare_fails(&options, "out", PL_ERR_EXISTS,
                        "seed '5', but now this option is '6'");
    options = usual_prepare();
    options.valid_share = 0.1;
    check_prepare_fails(&options, "out", PL_ERR_EXISTS, "valid_share '0.2'");
    assert_said("another --out");
}

PL_TEST(a_damaged_product_is_named)
{
    static const char *const names[] = {"tokenizer.model", "train.tok", "valid.tok"};
    pl_prepare_options options = usual_prepare();
    for (size_t i = 0; i < 3; i++) {
        char name[64];
        OWNED(pl_buf_destroy) pl_buf bytes = {0};
        read_product("out", names[i], &bytes);
        bytes.data[bytes.len / 2] ^= 4;
        snprintf(name, sizeof name, "out/%s", names[i]);
        write_bytes(name, bytes.data, bytes.len);
        check_prepare_fails(&options, "out", PL_ERR_DAMAGED, names[i]);
        assert_said("delete the folder");
        assert_int_equal(remove(in_scratch(name)), 0);
        check_prepare_fails(&options, "out", PL_ERR_DAMAGED, names[i]);
        bytes.data[bytes.len / 2] ^= 4;
        write_bytes(name, bytes.data, bytes.len);
    }
    pl_prepare_result result;
    assert_ok(pl_prepare(&options, in_scratch("out"), &result));
}

PL_TEST(a_manifest_that_is_no_json_is_damage)
{
    pl_prepare_options options = usual_prepare();
    assert_ok(pl_make_folders(in_scratch("broken")));
    write_text("broken/data.json", "{\"format\": ");
    check_prepare_fails(&options, "broken", PL_ERR_DAMAGED, "data.json");
    write_text("broken/data.json", "{\"format\": \"something else\"}");
    check_prepare_fails(&options, "broken", PL_ERR_UNSUPPORTED, "something else");
}

PL_TEST(a_manifest_whose_blank_hash_is_no_text_is_damage)
{
    pl_prepare_options options = usual_prepare();
    pl_prepare_result result;
    pl_json *json = NULL, *numbers = pl_json_array();
    OWNED(pl_buf_destroy) pl_buf text = {0};
    pl_tokens *train;
    bool changed = false;
    assert_ok(pl_prepare(&options, in_scratch("number"), &result));
    assert_ok(pl_json_load(in_scratch("number/data.json"), &json));
    pl_json_push(numbers, pl_json_make_int(7));
    pl_json_set(json, "blanked", numbers);
    pl_json_write(json, 2, &text);
    write_bytes("number/data.json", text.data, text.len);
    train = open_product("number", "train.tok");
    const uint64_t hash = pl_tokens_doc(train, 3)->hash;
    pl_tokens_close(&train);
    assert_int_equal(
        pl_data_blank(in_scratch("number"), &(pl_doc_list){&hash, 1}, &changed),
        PL_ERR_DAMAGED);
    /* a file that no longer matches is compared with the hashes in the list */
    write_text("number/train.tok", "changed");
    check_prepare_fails(&options, "number", PL_ERR_DAMAGED, "data.json");
    assert_int_equal(pl_data_check(in_scratch("number")), PL_ERR_DAMAGED);
    pl_json_destroy(&json);
}

PL_TEST(a_changed_corpus_is_noticed_and_a_lost_one_is_not_needed)
{
    pl_prepare_options options = usual_prepare();
    pl_prepare_result result;
    OWNED(pl_buf_destroy) pl_buf all = {0};
    assert_ok(pl_read_file(options.corpus, &all));
    use_corpus(&options, "moving.jsonl", &all);
    assert_ok(pl_prepare(&options, in_scratch("moving"), &result));
    write_bytes("moving.jsonl", all.data, all.len / 2);
    check_prepare_fails(&options, "moving", PL_ERR_EXISTS, "moving.jsonl' has changed");
    assert_int_equal(remove(options.corpus), 0);
    assert_ok(pl_prepare(&options, in_scratch("moving"), &result));
}

PL_TEST(a_forgotten_document_is_blank_and_may_leave_the_corpus)
{
    pl_prepare_options options = usual_prepare();
    pl_prepare_result result;
    OWNED(pl_buf_destroy) pl_buf all = {0}, old = {0}, fresh = {0};
    char corpus[PL_PATH_MAX];
    pl_tokens *train;
    bool changed = false;
    assert_ok(pl_read_file(options.corpus, &all));
    write_bytes("leaving.jsonl", all.data, all.len);
    pl_copy_text(corpus, sizeof corpus, in_scratch("leaving.jsonl"));
    options.corpus = corpus;
    assert_ok(pl_prepare(&options, in_scratch("blank"), &result));
    read_product("blank", "train.tok", &old);
    train = open_product("blank", "train.tok");
    const uint64_t hashes[] = {pl_tokens_doc(train, 3)->hash,
                               pl_tokens_doc(train, 7)->hash};
    pl_tokens_close(&train);
    for (size_t n = 1; n <= 2; n++) {
        assert_ok(
            pl_data_blank(in_scratch("blank"), &(pl_doc_list){hashes, n}, &changed));
        assert_true(changed);
        assert_ok(
            pl_data_blank(in_scratch("blank"), &(pl_doc_list){hashes, n}, &changed));
        assert_false(changed);
        train = open_product("blank", "train.tok");
        for (uint32_t d = 0; d < pl_tokens_n_docs(train); d++)
            assert_int_equal(pl_tokens_is_blank(train, d), d == 3 || (n > 1 && d == 7));
        pl_tokens_close(&train);
        write_bytes("leaving.jsonl", all.data, all.len / 2);
        assert_ok(pl_prepare(&options, in_scratch("blank"), &result));
    }
    /* Puts the old file back, as if the process was killed before it replaced the file.
     * The folder stays valid, and the next call makes the same file again. */
    read_product("blank", "train.tok", &fresh);
    write_bytes("blank/train.tok", old.data, old.len);
    assert_ok(pl_prepare(&options, in_scratch("blank"), &result));
    assert_ok(pl_data_blank(in_scratch("blank"), &(pl_doc_list){hashes, 2}, &changed));
    assert_true(changed);
    pl_buf_clear(&old);
    read_product("blank", "train.tok", &old);
    assert_same_bytes(old, fresh);
}

PL_TEST(an_unfinished_folder_is_made_anew)
{
    pl_prepare_options options = usual_prepare();
    pl_prepare_result result;
    assert_ok(pl_make_folders(in_scratch("unfinished")));
    write_text("unfinished/train.tok", "half a fi");
    write_text("unfinished/valid.tok.tmp", "half");
    write_text("unfinished/documents.tmp", "text");
    assert_ok(pl_prepare(&options, in_scratch("unfinished"), &result));
    check_same_file("out", "unfinished", "train.tok");
    assert_false(pl_path_exists(in_scratch("unfinished/documents.tmp")));
    assert_false(pl_path_exists(in_scratch("unfinished/valid.tok.tmp")));
}

PL_TEST(two_preparations_of_one_folder_do_not_meet)
{
    pl_prepare_options options = usual_prepare();
    int lock;
    assert_ok(pl_make_folders(in_scratch("locked")));
    assert_ok(pl_lock_folder(in_scratch("locked"), &lock));
    check_prepare_fails(&options, "locked", PL_ERR_BUSY, "locked");
    pl_unlock_folder(&lock);
}

/* ---- bad input ---- */

static void check_corpus_fails(const char *name, pl_status expected, const char *said)
{
    pl_prepare_options options = usual_prepare();
    options.corpus = in_scratch(name);
    check_prepare_fails(&options, "failed", expected, said);
    assert_false(pl_path_exists(in_scratch("failed/data.json")));
    assert_false(pl_path_exists(in_scratch("failed/documents.tmp")));
    assert_false(pl_path_exists(in_scratch("failed/train.tok.tmp")));
}

PL_TEST(unusable_corpora_are_refused_with_the_remedy)
{
    check_corpus_fails("nowhere", PL_ERR_NOT_FOUND, "nowhere");
    write_text("empty.txt", "");
    check_corpus_fails("empty.txt", PL_ERR_DATA, "no text in");
    write_text("one.txt", "a single document");
    check_corpus_fails("one.txt", PL_ERR_DATA, "one document");
    assert_said("data.cut = 0 bytes");
    write_text("broken.jsonl", "{\"text\": \"a\"}\n{\"text\"\n");
    check_corpus_fails("broken.jsonl", PL_ERR_DATA, "line 2");
    write_bytes("program", "\0\1\2", 3);
    check_corpus_fails("program", PL_ERR_DATA, "NUL");
    write_text("x.parquet", "PAR1");
    check_corpus_fails("x.parquet", PL_ERR_UNSUPPORTED, "duckdb");
    assert_ok(pl_make_folders(in_scratch("bare")));
    check_corpus_fails("bare", PL_ERR_DATA, "no text files");
}

PL_TEST(options_that_leave_nothing_are_refused_with_numbers)
{
    pl_prepare_options options = usual_prepare();
    options.vocab = 100000;
    check_prepare_fails(&options, "failed", PL_ERR_DATA, "too large");
    options = usual_prepare();
    options.vocab = 200;
    check_prepare_fails(&options, "failed", PL_ERR_DATA, "too small");
    options = usual_prepare();
    options.min_document_tokens = 100000;
    check_prepare_fails(&options, "failed", PL_ERR_DATA, "shorter than 100000 tokens");
    options = usual_prepare();
    options.valid_share = 1.0 - 1e-9;
    check_prepare_fails(&options, "failed", PL_ERR_DATA, "left to train on");
    options.valid_share = 0;
    check_prepare_fails(&options, "failed", PL_ERR_CONFIG, "between 0 and 1");
    options = usual_prepare();
    options.valid = options.corpus;
    check_prepare_fails(&options, "failed", PL_ERR_DATA, "nothing is left to train on");
    options = usual_prepare();
    options.tokenizer = options.corpus;
    check_prepare_fails(&options, "failed", PL_ERR_DATA,
                        "neither a SentencePiece model");
}

/* Wrong settings must be refused before minutes of work are done, and before a file is
 * written into the folder. */
PL_TEST(too_few_documents_and_too_many_pieces_are_refused_first)
{
    pl_prepare_options options = usual_prepare();
    options.n_paths = N_DOCS;
    check_prepare_fails(&options, "first", PL_ERR_CONFIG, "but 120 paths");
    options = usual_prepare();
    options.tokenizer = in_scratch("out/tokenizer.model");
    options.vocab = 319;
    check_prepare_fails(&options, "first", PL_ERR_CONFIG, "set data.vocab=320");
    options = usual_prepare();
    options.reading.cut_bytes = 255;
    check_prepare_fails(&options, "first", PL_ERR_CONFIG, "at least 256 bytes");
    assert_int_equal(rmdir(in_scratch("first")), 0);
}

PL_TEST(one_text_file_becomes_documents)
{
    pl_prepare_options options = usual_prepare();
    pl_prepare_result result;
    OWNED(pl_buf_destroy) pl_buf text = {0};
    for (int i = 0; i < 150; i++) {
        make_words((uint64_t)i, text.len + 1000, &text);
        pl_buf_printf(&text, "\n\n");
    }
    use_corpus(&options, "book.txt", &text);
    options.reading.cut_bytes = 1500;
    const char *heard = prepare_aloud(&options, "book", &result);
    assert_in_range(result.train_documents + result.valid_documents, 100, 150);
    assert_non_null(strstr(heard, "book.txt: cut into 1"));
    assert_ok(pl_prepare(&options, in_scratch("book"), &result));
    options.reading.cut_bytes = 1501;
    check_prepare_fails(&options, "book", PL_ERR_EXISTS, "made with cut '1500'");
    options.valid = options.corpus;
    options.corpus = in_scratch("corpus.jsonl");
    assert_ok(pl_prepare(&options, in_scratch("judged"), &result));
    assert_in_range(result.valid_documents, 100, 150);
}

/* A file that is in the corpus and is also held out must not be trained on, even if
 * only one of the two texts is cut into documents. */
PL_TEST(what_is_cut_on_one_side_is_known_on_the_other)
{
    pl_prepare_options options = usual_prepare();
    pl_prepare_result result;
    OWNED(pl_buf_destroy) pl_buf text = {0};
    char folder[PL_PATH_MAX], book[PL_PATH_MAX];
    pl_copy_text(folder, sizeof folder, in_scratch("shelf"));
    assert_ok(pl_make_folders(folder));
    for (int i = 0; i < 40; i++) {
        char name[32];
        pl_buf_clear(&text);
        make_words((uint64_t)i, 4000, &text);
        snprintf(name, sizeof name, "shelf/%d.txt", i);
        write_bytes(name, text.data, text.len);
    }
    pl_copy_text(book, sizeof book, in_scratch("shelf/7.txt"));
    options.corpus = folder;
    options.valid = book;
    options.reading.cut_bytes = 1000;
    assert_ok(pl_prepare(&options, in_scratch("apart"), &result));
    assert_int_equal(result.train_documents, 39);
    assert_in_range(result.valid_documents, 4, 8);
    options.corpus = book;
    options.valid = folder;
    check_prepare_fails(&options, "nothing", PL_ERR_DATA,
                        "nothing is left to train on");
}

PL_TEST(replaced_bytes_are_reported)
{
    pl_prepare_options options = usual_prepare();
    pl_prepare_result result;
    OWNED(pl_buf_destroy) pl_buf all = {0};
    assert_ok(pl_read_file(options.corpus, &all));
    pl_buf_printf(&all, "{\"text\": \"not \xff UTF-8\"}\n");
    use_corpus(&options, "latin.jsonl", &all);
    const char *heard = prepare_aloud(&options, "latin", &result);
    assert_non_null(strstr(heard, "1 bytes that are not UTF-8"));
}

PL_TEST(asked_to_stop_it_ends_and_leaves_no_product)
{
    const volatile sig_atomic_t stop = 1;
    pl_prepare_options options = usual_prepare();
    options.stop = &stop;
    check_prepare_fails(&options, "stopped", PL_ERR_CANCELLED, "stopped");
    assert_int_equal(rmdir(in_scratch("stopped")), 0);
}

/* The order of the tests matters: later tests use the folder "out" that the first one
 * makes. */
PL_SUITE(make_corpus, remove_scratch)
