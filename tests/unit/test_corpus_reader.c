/* folder: corpus; label: unit */
#include "tests/support/corpus_support.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINES "first line\nsecond line\n"
/* The text LINES, compressed by gzip, bzip2, xz and zstd. */
static const uint8_t gz_bytes[] = {
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xff, 0x4b, 0xcb, 0x2c,
    0x2a, 0x2e, 0x51, 0xc8, 0xc9, 0xcc, 0x4b, 0xe5, 0x2a, 0x4e, 0x4d, 0xce, 0xcf,
    0x4b, 0x81, 0xb0, 0x01, 0x2c, 0x5a, 0x45, 0x5d, 0x17, 0x00, 0x00, 0x00};
static const uint8_t bz2_bytes[] = {
    0x42, 0x5a, 0x68, 0x39, 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, 0x8b, 0x13,
    0xe1, 0x84, 0x00, 0x00, 0x04, 0xd1, 0x80, 0x00, 0x10, 0x40, 0x00, 0x0f,
    0x25, 0x9c, 0x00, 0x20, 0x00, 0x21, 0xa1, 0x32, 0x31, 0x94, 0x20, 0x1a,
    0x00, 0x91, 0x2a, 0x31, 0x95, 0x68, 0xcb, 0x04, 0x82, 0xfd, 0x57, 0xf1,
    0x77, 0x24, 0x53, 0x85, 0x09, 0x08, 0xb1, 0x3e, 0x18, 0x40};
static const uint8_t xz_bytes[] = {
    0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x04, 0xe6, 0xd6, 0xb4, 0x46, 0x02, 0x00,
    0x21, 0x01, 0x16, 0x00, 0x00, 0x00, 0x74, 0x2f, 0xe5, 0xa3, 0x01, 0x00, 0x16, 0x66,
    0x69, 0x72, 0x73, 0x74, 0x20, 0x6c, 0x69, 0x6e, 0x65, 0x0a, 0x73, 0x65, 0x63, 0x6f,
    0x6e, 0x64, 0x20, 0x6c, 0x69, 0x6e, 0x65, 0x0a, 0x00, 0x00, 0x12, 0xe9, 0x31, 0xef,
    0xb2, 0xa2, 0xda, 0x64, 0x00, 0x01, 0x2f, 0x17, 0x81, 0x08, 0x49, 0xb1, 0x1f, 0xb6,
    0xf3, 0x7d, 0x01, 0x00, 0x00, 0x00, 0x00, 0x04, 0x59, 0x5a};
static const uint8_t zst_bytes[] = {
    0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0xb9, 0x00, 0x00, 0x66, 0x69, 0x72,
    0x73, 0x74, 0x20, 0x6c, 0x69, 0x6e, 0x65, 0x0a, 0x73, 0x65, 0x63, 0x6f,
    0x6e, 0x64, 0x20, 0x6c, 0x69, 0x6e, 0x65, 0x0a, 0x1f, 0x3b, 0xb8, 0xa0};
/* The line {"text": "packed"}, compressed by gzip. */
static const uint8_t jsonl_gz_bytes[] = {
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xff, 0xab, 0x56, 0x2a,
    0x49, 0xad, 0x28, 0x51, 0xb2, 0x52, 0x50, 0x2a, 0x48, 0x4c, 0xce, 0x4e, 0x4d,
    0x51, 0xaa, 0xe5, 0x02, 0x00, 0x2c, 0xe1, 0x8d, 0x4e, 0x13, 0x00, 0x00, 0x00};

/* The documents that were read, each as "domain:text|", one after another. */
typedef struct collection {
    pl_buf seen;
    size_t n_documents, stop_after;
} collection;

static void forget(collection *all)
{
    pl_buf_destroy(&all->seen);
}

static pl_status collect(void *context, const pl_document *document)
{
    collection *all = context;
    pl_buf_printf(&all->seen, "%s:%.*s|", document->domain, (int)document->len,
                  document->text);
    assert_true(strlen(document->source) > 0);
    all->n_documents++;
    return all->n_documents == all->stop_after ? PL_ERR_CANCELLED : PL_OK;
}

/* Reads a file of the scratch folder as `reading` says, and compares all documents with
 * `expected`. */
static pl_read_stats check_reading(const char *name, const pl_reading *reading,
                                   const char *expected)
{
    OWNED(forget) collection all = {0};
    pl_read_stats stats;
    assert_ok(pl_documents_cut(in_scratch(name), reading, collect, &all, &stats));
    assert_string_equal(pl_buf_text(&all.seen), expected);
    assert_int_equal(stats.n_documents, all.n_documents);
    return stats;
}

static pl_read_stats check_read(const char *name, const char *expected)
{
    return check_reading(name, NULL, expected);
}

static void check_refused(const char *name, pl_status expected, const char *said)
{
    OWNED(forget) collection all = {0};
    assert_fails(pl_documents_cut(in_scratch(name), 0, collect, &all, NULL), expected,
                 said);
}

/* Writes `text` to the file, and reads it. */
static pl_read_stats check_text(const char *name, const char *text,
                                const char *expected)
{
    write_text(name, text);
    return check_read(name, expected);
}

static void refuse_text(const char *name, const char *text, pl_status expected,
                        const char *said)
{
    write_text(name, text);
    check_refused(name, expected, said);
}

static void make_folder(const char *name)
{
    assert_ok(pl_make_folders(in_scratch(name)));
}

/* ---- compression ---- */

typedef struct packed {
    const char *suffix;
    const uint8_t *bytes;
    size_t len;
} packed;
static const packed packings[] = {{".gz", gz_bytes, sizeof gz_bytes},
                                  {".bz2", bz2_bytes, sizeof bz2_bytes},
                                  {".xz", xz_bytes, sizeof xz_bytes},
                                  {".zst", zst_bytes, sizeof zst_bytes}};

PL_TEST(every_compression_is_opened_by_content)
{
    for (size_t i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "packed.txt%s", packings[i].suffix);
        write_bytes(name, packings[i].bytes, packings[i].len);
        check_read(name, ":" LINES "|");
        write_bytes("unnamed", packings[i].bytes, packings[i].len);
        check_read("unnamed", ":" LINES "|");
    }
}

PL_TEST(compressed_json_lines_are_lines)
{
    write_bytes("packed.jsonl.gz", jsonl_gz_bytes, sizeof jsonl_gz_bytes);
    check_read("packed.jsonl.gz", ":packed|");
}

PL_TEST(a_compressed_file_cut_anywhere_is_refused_by_name)
{
    for (size_t i = 0; i < 4; i++)
        for (size_t len = 0; len < packings[i].len; len++) {
            char name[32];
            snprintf(name, sizeof name, "cut.txt%s", packings[i].suffix);
            write_bytes(name, packings[i].bytes, len);
            check_refused(name, PL_ERR_DATA, name);
        }
}

PL_TEST(a_file_that_only_has_the_name_of_a_compressed_one_is_refused)
{
    refuse_text("plain.gz", "this is plain text\n", PL_ERR_DATA,
                "does not begin like a .gz file");
}

/* ---- text ---- */

PL_TEST(a_text_file_is_one_document)
{
    pl_read_stats stats =
        check_text("a.txt", "one\n\ntwo \xc3\xa9", ":one\n\ntwo \xc3\xa9|");
    assert_int_equal(stats.n_files, 1);
    assert_int_equal(stats.n_bytes, 11);
    assert_int_equal(stats.n_replaced_bytes, 0);
}

PL_TEST(an_empty_or_blank_file_is_counted_and_gives_nothing)
{
    assert_int_equal(check_text("empty.txt", "", "").n_empty, 1);
    assert_int_equal(check_text("blank.txt", " \n\t\r\n", "").n_empty, 1);
}

PL_TEST(bad_utf8_becomes_replacement_characters_and_is_counted)
{
    static const struct {
        const char *bytes, *expected;
        uint64_t n_replaced;
    } cases[] = {
        {"a\xff"
         "b",
         ":a\xef\xbf\xbd"
         "b|",
         1},
        {"\xc0\xaf.", ":\xef\xbf\xbd\xef\xbf\xbd.|", 2}, /* not the shortest code */
        {"\xe0\x9f\xbf.", ":\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd.|", 3},
        {"\xed\xa0\x80.", ":\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd.|", 3}, /* surrogate */
        {"\xf4\x90\x80\x80.", ":\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd.|", 4},
        /* The last character is cut off. */
        {"ok\xe2\x82", ":ok\xef\xbf\xbd\xef\xbf\xbd|", 2},
        {"\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf", /* valid, next to invalid ones */
         ":\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf|", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text("bad.txt", cases[i].bytes);
        assert_int_equal(check_read("bad.txt", cases[i].expected).n_replaced_bytes,
                         cases[i].n_replaced);
    }
}

PL_TEST(a_bad_byte_is_found_at_every_place_of_a_long_text)
{
    for (size_t at = 0; at < 40; at++) {
        char text[41], expected[64];
        memset(text, 'x', 40);
        text[40] = '\0';
        text[at] = (char)0x80;
        snprintf(expected, sizeof expected, ":%.*s\xef\xbf\xbd%s|", (int)at, text,
                 text + at + 1);
        write_text("bad.txt", text);
        assert_int_equal(check_read("bad.txt", expected).n_replaced_bytes, 1);
    }
}

PL_TEST(a_byte_order_mark_is_dropped)
{
    check_text("bom.txt", "\xef\xbb\xbfhello", ":hello|");
    check_text("bom.jsonl", "\xef\xbb\xbf{\"text\": \"hello\"}\n", ":hello|");
    /* two such files, one after the other */
    check_text("boms.jsonl",
               "\xef\xbb\xbf{\"text\": \"a\"}\n\xef\xbb\xbf{\"text\": \"b\"}\n",
               ":a|:b|");
}

PL_TEST(a_binary_file_is_refused_wherever_its_nul_lies)
{
    static char bytes[600001];
    for (size_t at = 0; at < sizeof bytes; at += 150000) {
        memset(bytes, 'a', sizeof bytes);
        bytes[at] = '\0';
        write_bytes("program", bytes, sizeof bytes);
        check_refused("program", PL_ERR_DATA, "NUL");
    }
}

PL_TEST(missing_unreadable_and_packed_files_say_what_to_do)
{
    check_refused("missing.txt", PL_ERR_NOT_FOUND, "missing.txt' does not exist");
    refuse_text("x.parquet", "PAR1....", PL_ERR_UNSUPPORTED, "duckdb -c");
    refuse_text("disguised", "PAR1....", PL_ERR_UNSUPPORTED, "duckdb -c");
    refuse_text("a.pdf", "%PDF-1.7 one", PL_ERR_UNSUPPORTED,
                "is a PDF document, which");
    refuse_text("a.docx", "PK\x03\x04 one", PL_ERR_UNSUPPORTED, "is a zip archive");
    refuse_text("a.rtf", "{\\rtf1 one}", PL_ERR_UNSUPPORTED, "is an RTF document");
    char tar[300];
    memset(tar, 'a', sizeof tar);
    memcpy(tar + 257, "ustar", 5);
    tar[sizeof tar - 1] = '\0';
    refuse_text("a.tar", tar, PL_ERR_UNSUPPORTED, "is a tar archive");
    make_folder("packed");
    write_text("packed/a.pdf", "%PDF-1.7 one");
    write_text("packed/b.txt", "PK one %PDF-");
    assert_int_equal(check_read("packed", ":PK one %PDF-|").n_skipped_files, 1);
    if (geteuid() == 0) /* root may read everything */
        return;
    write_text("secret.txt", "text");
    assert_int_equal(chmod(in_scratch("secret.txt"), 0), 0);
    check_refused("secret.txt", PL_ERR_NOPERM, "secret.txt");
}

/* ---- JSON lines ---- */

PL_TEST(json_lines_give_a_document_each)
{
    pl_read_stats stats = check_text("a.jsonl",
                                     "{\"text\": \"one\\ntwo\", \"domain\": \"d\"}\r\n"
                                     "\n"
                                     "{\"id\": 7, \"text\": \"\\u00e9\"}\n"
                                     "{\"text\": \"\"}\n"
                                     "{\"text\": \"last\", \"domain\": \"e\"}",
                                     "d:one\ntwo|:\xc3\xa9|e:last|");
    assert_int_equal(stats.n_empty, 1);
    assert_int_equal(stats.n_files, 1);
}

PL_TEST(lines_longer_than_a_read_are_put_together)
{
    enum { LEN = 700000 };
    OWNED(pl_buf_destroy) pl_buf line = {0}, expected = {0};
    for (int i = 0; i < 3; i++) {
        pl_buf_printf(&line, "{\"text\": \"");
        pl_buf_printf(&expected, ":");
        for (int j = 0; j < LEN + i; j++) {
            char c = (char)('a' + (i + j) % 26);
            pl_buf_append(&line, &c, 1);
            pl_buf_append(&expected, &c, 1);
        }
        pl_buf_printf(&line, "\"}\n");
        pl_buf_printf(&expected, "|");
    }
    write_bytes("long.jsonl", line.data, line.len);
    check_read("long.jsonl", pl_buf_text(&expected));
}

PL_TEST(a_broken_line_is_named_with_its_number)
{
    refuse_text("b.jsonl", "{\"text\": \"a\"}\n\n{\"text\": \"b\"\n{\"text\": \"c\"}\n",
                PL_ERR_DATA, "b.jsonl' line 3");
    refuse_text("b.jsonl", "{\"text\": \"a\"}\n{\"content\": \"b\"}\n", PL_ERR_DATA,
                "b.jsonl' line 2: the line has no \"text\"");
    refuse_text("b.jsonl", "{\"text\": 5}\n", PL_ERR_DATA,
                "b.jsonl' line 1: the line has no \"text\"");
    refuse_text("b.jsonl", "[\"text\"]\n", PL_ERR_DATA,
                "b.jsonl' line 1: the JSON text is wrong at column 1");
    refuse_text("b.jsonl", "plain words\n", PL_ERR_DATA, "b.jsonl' line 1");
}

PL_TEST(bad_bytes_and_escaped_nuls_in_json_are_replaced)
{
    pl_read_stats stats =
        check_text("c.jsonl",
                   "{\"text\": \"a\xff\"}\n"
                   "{\"text\": \"eight more\\u0000and eight more\"}\n",
                   ":a\xef\xbf\xbd|:eight more\xef\xbf\xbd"
                   "and eight more|");
    assert_int_equal(stats.n_replaced_bytes, 2);
}

PL_TEST(a_line_without_text_names_the_keys_that_it_has)
{
    refuse_text("k.jsonl", "{\"content\": \"b\", \"id\": 1}\n", PL_ERR_DATA,
                "no \"text\", but the keys content, id: ");
    check_refused("k.jsonl", PL_ERR_DATA, "data.text_key");
    refuse_text("k.jsonl", "{\"messages\": [{\"role\": \"user\", \"text\": \"a\"}]}\n",
                PL_ERR_DATA, "a conversation (\"messages\")");
    refuse_text("k.jsonl", "{\"text\": [\"a\", \"b\"]}\n", PL_ERR_DATA,
                "whose value is a string, but a list");
    refuse_text("k.jsonl", "{}\n", PL_ERR_DATA, "an empty object");
    refuse_text("k.jsonl", "{\"text\": \"a\", \"text\": \"b\"}\n", PL_ERR_DATA,
                "the key \"text\" twice");
}

PL_TEST(the_key_of_the_text_may_have_any_name)
{
    write_text("k.jsonl", "{\"text\": 1, \"content\": \"b\"}\n");
    check_reading("k.jsonl", &(pl_reading){.text_key = "content"}, ":b|");
    /* json.dumps writes names that are not ASCII with escapes */
    write_text("k.jsonl", "{\"\\u5185\\u5bb9\": \"b\"}\n");
    check_reading("k.jsonl", &(pl_reading){.text_key = "\u5185\u5bb9"}, ":b|");
}

PL_TEST(values_that_nobody_reads_do_no_harm)
{
    static const char *const values[] = {"NaN",
                                         "-Infinity",
                                         "1e999",
                                         "[1, NaN]",
                                         "\"\\ud800\"",
                                         "123456789012345678901234567890",
                                         "{\"a\": {\"b\": []}}",
                                         "\"\xff\"",
                                         "{\"a\": 1, \"a\": 2}"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char line[160];
        snprintf(line, sizeof line, "{\"x\": %s, \"x\": %s, \"text\": \"a\"}",
                 values[i], values[i]);
        write_text("v.jsonl", line);
        assert_int_equal(check_read("v.jsonl", ":a|").n_replaced_bytes, 0);
    }
}

PL_TEST(half_of_a_surrogate_pair_in_a_text_is_replaced_and_counted)
{
    pl_read_stats stats = check_text("s.jsonl",
                                     "{\"text\": \"a\\ud800b\"}\n"
                                     "{\"text\": \"\\ud83d\\ude00\"}\n"
                                     "{\"text\": \"\\ude00\\ud83d\"}\n"
                                     "{\"text\": \"\\ud83d\\u0041\"}",
                                     ":a\xef\xbf\xbd"
                                     "b|:\xf0\x9f\x98\x80|:\xef\xbf\xbd"
                                     "\xef\xbf\xbd|:\xef\xbf\xbd"
                                     "A|");
    assert_int_equal(stats.n_replaced_bytes, 4);
}

PL_TEST(escapes_are_decoded_and_wrong_ones_are_refused)
{
    check_text("e.jsonl", "{\"text\": \"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00E9\\u20ac.\"}",
               ":\"\\/\b\f\n\r\t\xc3\xa9\xe2\x82\xac.|");
    static const char *const wrong[] = {"\\x41", "\\u12", "\\u12g4", "\\"};
    for (size_t i = 0; i < 4; i++) {
        char line[64];
        snprintf(line, sizeof line, "{\"text\": \"%s\"}", wrong[i]);
        write_text("e.jsonl", line);
        check_refused("e.jsonl", PL_ERR_DATA, "e.jsonl' line 1");
    }
}

PL_TEST(a_json_line_cut_anywhere_is_refused)
{
    static const char line[] =
        "{\"a\": [1, {\"b\": \"\\u00e9\"}], \"text\": \"t\\ud83d\\ude00\"}";
    for (size_t len = 1; len + 1 < sizeof line; len++) {
        write_bytes("t.jsonl", line, len);
        check_refused("t.jsonl", PL_ERR_DATA, "t.jsonl' line 1");
    }
}

PL_TEST(bad_lines_are_skipped_and_counted_if_asked_for)
{
    write_text("b.jsonl", "{\"text\": \"a\"}\nwords\n{\"id\": 1}\n{\"text\": \"b\"}\n");
    pl_read_stats stats =
        check_reading("b.jsonl", &(pl_reading){.skip_bad = true}, ":a|:b|");
    assert_int_equal(stats.n_bad_lines, 2);
    assert_non_null(strstr(stats.first_bad_line, "b.jsonl' line 2: "));
}

PL_TEST(json_lines_are_recognised_by_their_first_line)
{
    static const char lines[] = "{\"id\": 1, \"text\": \"a\"}\n{\"text\": \"b\"}\n";
    static const char *const names[] = {"l.json", "l.txt", "l"};
    for (size_t i = 0; i < 3; i++) {
        write_text(names[i], lines);
        check_read(names[i], ":a|:b|");
    }
    /* source code and other JSON are texts */
    check_text("l.json", "{\n  \"text\": \"a\"\n}\n", ":{\n  \"text\": \"a\"\n}\n|");
    check_text("l.json", "{\"name\": \"a\"}\n", ":{\"name\": \"a\"}\n|");
    check_text("l.c", "{ \"text\": int x; }\n", ":{ \"text\": int x; }\n|");
    check_text("l.txt", "{\"text\": \"an example\"}\n\nis a line.\n",
               ":{\"text\": \"an example\"}\n\nis a line.\n|");
    check_text("l.txt", "{\"text\": \"a\"}\n \n{\"text\": \"b\"}\n", ":a|:b|");
    check_text("l.txt", "{\"text\": \"a\"}\n\n", ":a|");
    refuse_text("l.jsonl", "{\"text\": \"a\"}\nb\n", PL_ERR_DATA, "line 2");
    refuse_text("l.json", "[{\"text\": \"a\"},\n {\"text\": \"b\"}]\n", PL_ERR_DATA,
                "jq -c '.[]'");
    OWNED(pl_buf_destroy)
    pl_buf array = {0}; /* its first object does not end in the first bytes read */
    pl_buf_printf(&array, "[{\"text\": \"");
    for (int i = 0; i < 100000; i++)
        pl_buf_printf(&array, "word ");
    pl_buf_printf(&array, "\"}]");
    write_text("l.json", pl_buf_text(&array));
    check_refused("l.json", PL_ERR_DATA, "jq -c '.[]'");
    check_text("l.txt", "[{1, 2}, 3]", ":[{1, 2}, 3]|");
}

PL_TEST(text_in_utf_16_is_refused_by_the_name_of_its_encoding)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *name;
    } cases[] = {{"\xff\xfe"
                  "a\0b\0",
                  6, "UTF-16"},
                 {"\xfe\xff\0a\0b", 6, "UTF-16"},
                 {"a\0b\0\n\0", 6, "UTF-16LE"},
                 {"\0a\0b\0\n", 6, "UTF-16BE"},
                 {"\xff\xfe\0\0a\0\0\0", 8, "UTF-32"}};
    make_folder("wide");
    write_text("wide/a.txt", "text");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char said[64];
        snprintf(said, sizeof said, "iconv -f %s -t UTF-8", cases[i].name);
        write_bytes("wide.txt", cases[i].bytes, cases[i].len);
        check_refused("wide.txt", PL_ERR_DATA, said);
        write_bytes("wide/b.jsonl", cases[i].bytes, cases[i].len);
        assert_int_equal(check_read("wide", ":text|").n_skipped_files, 1);
    }
}

PL_TEST(control_characters_of_a_domain_are_written_as_escapes)
{
    check_text("d.jsonl", "{\"text\": \"a\", \"domain\": \"x\\ny\\u001b\"}\n",
               "x\\x0ay\\x1b:a|");
    make_folder("dom/x\ny");
    write_text("dom/x\ny/a.txt", "a");
    check_read("dom", "x\\x0ay:a|");
}

/* The limit keeps the memory for a corpus small. */
PL_TEST(a_line_above_the_limit_is_refused_by_its_file)
{
    OWNED(pl_buf_destroy) pl_buf line = {0};
    pl_buf_printf(&line, "{\"text\": \"");
    pl_buf_reserve(&line, (size_t)66 << 20);
    memset(line.data + line.len, 'a', (size_t)66 << 20);
    line.len += (size_t)66 << 20;
    write_bytes("huge.jsonl", line.data, line.len);
    check_refused("huge.jsonl", PL_ERR_DATA,
                  "huge.jsonl' has a document of more than 64 MiB");
    assert_int_equal(unlink(in_scratch("huge.jsonl")), 0);
}

/* Reads `bytes` through standard input, in pieces of at most `cut` bytes (0: not cut),
 * and compares the documents with `expected`. */
static void check_stdin_cut(const char *bytes, size_t cut, const char *expected)
{
    OWNED(forget) collection all = {0};
    write_text("input", bytes);
    int saved = dup(STDIN_FILENO), fd = open(in_scratch("input"), O_RDONLY);
    assert_true(saved >= 0 && fd >= 0);
    assert_int_equal(dup2(fd, STDIN_FILENO), STDIN_FILENO);
    pl_status status =
        pl_documents_cut("-", &(pl_reading){.cut_bytes = cut}, collect, &all, NULL);
    assert_int_equal(dup2(saved, STDIN_FILENO), STDIN_FILENO);
    close(saved);
    close(fd);
    assert_ok(status);
    assert_string_equal(pl_buf_text(&all.seen), expected);
}

PL_TEST(standard_input_is_lines_if_it_begins_with_a_brace)
{
    check_stdin_cut("{\"text\": \"a\"}\n{\"text\": \"b\"}\n", 0, ":a|:b|");
    check_stdin_cut("plain\ntext\n", 0, ":plain\ntext\n|");
}

PL_TEST(the_callers_failure_stops_the_reading_and_comes_back)
{
    OWNED(forget) collection all = {.stop_after = 2};
    write_text("d.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n{\"text\": \"c\"}\n");
    assert_int_equal(pl_documents_cut(in_scratch("d.jsonl"), 0, collect, &all, NULL),
                     PL_ERR_CANCELLED);
    assert_string_equal(pl_buf_text(&all.seen), ":a|:b|");
}

/* ---- cutting ---- */

/* Reads a file in pieces of at most `cut` bytes. */
static pl_read_stats check_cut(const char *name, size_t cut, const char *expected)
{
    return check_reading(name, &(pl_reading){.cut_bytes = cut}, expected);
}

static pl_read_stats cut_text(const char *text, size_t cut, const char *expected)
{
    write_text("cut.txt", text);
    return check_cut("cut.txt", cut, expected);
}

PL_TEST(a_text_is_cut_at_paragraphs_lines_words_and_characters)
{
    assert_int_equal(cut_text("one\n\ntwo\nthree", 10, ":one\n\n|:two\nthree|").n_cuts,
                     1);
    cut_text("one\r\n \t\r\ntwo\nthree", 14, ":one\r\n \t\r\n|:two\nthree|");
    cut_text("one\ntwo\nthree", 10, ":one\ntwo\n|:three|");
    cut_text("one two three", 10, ":one two |:three|");
    cut_text("abcdef\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80g", 7,
             ":abcdef|:\xc3\xa9\xe2\x82\xac|:\xf0\x9f\x98\x80g|");
    assert_int_equal(cut_text("short\n", 6, ":short\n|").n_cuts, 0);
    check_stdin_cut("one\n\ntwo\nthree", 10, ":one\n\n|:two\nthree|");
    check_stdin_cut("{\"text\": \"one\\n\\ntwo\\nthree\"}", 10, ":one\n\ntwo\nthree|");
}

PL_TEST(what_is_cut_is_marked_bad_or_blank_as_what_is_not)
{
    cut_text("\xef\xbb\xbfone\n\ntwo\nthree", 10, ":one\n\n|:two\nthree|");
    cut_text("\xef\xbb\xbfone\n", 10, ":one\n|");
    pl_read_stats stats = cut_text("abc\xff\nd\x80\x80\x80\x80\x80", 6,
                                   ":abc\xef\xbf\xbd\n|:d\xef\xbf\xbd\xef\xbf\xbd"
                                   "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd|");
    assert_int_equal(stats.n_replaced_bytes, 6);
    assert_int_equal(cut_text("one\n\n          \n \n", 6, ":one\n\n|").n_empty, 3);
    assert_int_equal(cut_text("", 6, "").n_empty, 1);
    OWNED(forget) collection all = {0};
    write_bytes("cut.txt", "one two three\0four", 18);
    assert_fails(pl_documents_cut(in_scratch("cut.txt"), &(pl_reading){.cut_bytes = 6},
                                  collect, &all, NULL),
                 PL_ERR_DATA, "NUL");
}

PL_TEST(pieces_are_the_text_and_none_is_too_long)
{
    enum { CUT = 1000 };
    OWNED(pl_buf_destroy) pl_buf text = {0}, again = {0};
    OWNED(forget) collection all = {0};
    for (int i = 0; text.len < 1 << 20; i++)
        pl_buf_printf(&text, "word %d%s", i, i % 10 ? " " : i % 70 ? "\n" : "\n\n");
    write_bytes("long.txt", text.data, text.len);
    assert_ok(pl_documents_cut(in_scratch("long.txt"), &(pl_reading){.cut_bytes = CUT},
                               collect, &all, NULL));
    assert_in_range(all.n_documents, text.len / CUT, text.len / (CUT / 2));
    const char *end, *at = pl_buf_text(&all.seen);
    for (; (end = strchr(at, '|')) != NULL; at = end + 1) {
        assert_in_range(end - at, 1, CUT + 1);
        pl_buf_append(&again, at + 1, (size_t)(end - at - 1));
    }
    assert_same_bytes(again, text);
}

PL_TEST(files_of_a_folder_are_not_cut)
{
    make_folder("whole");
    write_text("whole/a.txt", "one\n\ntwo\nthree");
    assert_int_equal(check_cut("whole", 10, ":one\n\ntwo\nthree|").n_cuts, 0);
}

/* ---- folders ---- */

PL_TEST(a_folder_is_walked_in_name_order_with_domains)
{
    make_folder("corpus/beta/deep");
    make_folder("corpus/alpha");
    make_folder("corpus/.hidden");
    write_text("corpus/beta/deep/x.txt", "3");
    write_text("corpus/beta/a.jsonl",
               "{\"text\": \"1\"}\n{\"text\": \"2\", \"domain\": \"own\"}\n");
    write_text("corpus/alpha/b.txt", "B");
    write_text("corpus/alpha/B.txt", "A");
    write_text("corpus/alpha/.secret", "no");
    write_text("corpus/.hidden/x.txt", "no");
    write_text("corpus/zero.txt", "root");
    write_bytes("corpus/program", "\x7f\0ELF", 5);
    pl_read_stats stats =
        check_read("corpus", "alpha:A|alpha:B|beta:1|own:2|beta:3|:root|");
    assert_int_equal(stats.n_files, 5);
    assert_int_equal(stats.n_skipped_files, 1);
    check_read("corpus/", "alpha:A|alpha:B|beta:1|own:2|beta:3|:root|");
}

PL_TEST(a_folder_without_text_is_refused)
{
    make_folder("bare/inner");
    check_refused("bare", PL_ERR_DATA, "holds no text files");
    write_bytes("bare/inner/program", "\0\0\0\0", 4);
    check_refused("bare", PL_ERR_DATA, "1 binary");
    write_text("bare/x.parquet", "PAR1");
    check_refused("bare", PL_ERR_UNSUPPORTED, "x.parquet");
}

PL_TEST(links_to_files_are_read_and_circles_are_not_entered)
{
    make_folder("linked/sub");
    write_text("target.txt", "linked text");
    assert_int_equal(symlink(in_scratch("target.txt"), in_scratch("linked/a.txt")), 0);
    assert_int_equal(symlink(in_scratch("linked"), in_scratch("linked/sub/circle")), 0);
    assert_int_equal(mkfifo(in_scratch("linked/pipe"), 0600), 0);
    check_read("linked", ":linked text|");
}

/* ---- texts that this machine has itself ---- */

typedef struct system_facts {
    uint64_t n_bytes, n_documents, hash;
} system_facts;

static pl_status weigh(void *context, const pl_document *document)
{
    system_facts *facts = context;
    assert_true(document->len > 0 && document->len <= 32768);
    assert_true(pl_starts_with(document->source, "/usr/"));
    assert_null(strstr(document->source, "unicore"));
    facts->n_bytes += document->len;
    facts->n_documents++;
    facts->hash = facts->hash * 31 + pl_checksum(document->text, document->len);
    return PL_OK;
}

PL_TEST(the_machines_own_text_is_the_same_each_time_and_evenly_spread)
{
    enum { MAX = 3000000 };
    system_facts once = {0}, again = {0};
    OWNED(pl_buf_destroy) pl_buf describe = {0};
    pl_status status = pl_system_text_read(MAX, weigh, &once, &describe);
    if (status == PL_ERR_NOT_FOUND) { /* this machine has no system text */
        assert_said("apt install");
        return;
    }
    assert_ok(status);
    assert_in_range(once.n_bytes, 2000000, MAX + 32768); /* some machines have less */
    assert_ok(pl_system_text_read(MAX, weigh, &again, NULL));
    assert_int_equal(once.hash, again.hash);
    assert_int_equal(once.n_documents, again.n_documents);
    size_t n_domains = 1;
    for (const char *at = pl_buf_text(&describe); *at; at++)
        n_domains += *at == ',';
    assert_in_range(n_domains, 3, 10);
}

PL_SUITE(make_scratch, remove_scratch)
