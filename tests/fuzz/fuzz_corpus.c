/* folder: corpus
 *
 * Fuzzes texts of users: JSON lines, plain text, and a single JSON value. The source of
 * the reader is included here, so that the reader reads from memory. (fuzz_stream.c
 * fuzzes compressed files.) */
#define text_stream_open  fuzz_stream_open
#define text_stream_read  fuzz_stream_read
#define text_stream_close fuzz_stream_close
#include "corpus/reader.c"
#include "tests/fuzz/fuzz.h"
#include "corpus/corpus.h"

/* The reader gets pieces of at most 100 bytes, so that many lines and some characters
 * are divided between two pieces. */
struct text_stream {
    const uint8_t *at;
    size_t left;
};
static text_stream stream;

pl_status fuzz_stream_open(const char *path, text_stream **out)
{
    (void)path;
    *out = &stream;
    return PL_OK;
}

pl_status fuzz_stream_read(text_stream *from, size_t max, pl_buf *out, bool *end)
{
    size_t n = from->left < 100 ? from->left : 100;
    *end = n == 0 || max == 0;
    pl_buf_append(out, from->at, n);
    from->at += n;
    from->left -= n;
    return PL_OK;
}

void fuzz_stream_close(text_stream **from)
{
    *from = NULL;
}

static pl_status on_document(void *context, const pl_document *document)
{
    size_t *bytes = context;
    /* Reads all bytes, so that a sanitizer finds a length that is too large. */
    for (size_t i = 0; i < document->len; i++)
        *bytes += (uint8_t)document->text[i];
    return PL_OK;
}

/* The end of a file's name decides how the file is read. */
static const char *const names[] = {"in.jsonl", "in.txt", "in.jsonl.zst", "-"};

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t len)
{
    size_t bytes = 0;
    pl_json *json;
    if (len < 1)
        return 0;
    if (input[0] % 8 == 7) {
        if (pl_json_parse((const char *)input + 1, len - 1, &json) == PL_OK)
            pl_json_destroy(&json);
        return 0;
    }
    stream = (text_stream){input + 1, len - 1};
    const pl_reading reading = {.cut_bytes = input[0] & 4 ? 16 : 0,
                                .skip_bad = input[0] & 8};
    (void)pl_documents_cut(names[input[0] % 4], &reading, on_document, &bytes, NULL);
    return 0;
}

void fuzz_seeds(void (*give)(const void *, size_t))
{
    static const char lines[] =
        "{\"text\":\"one "
        "two\",\"domain\":\"code\"}\n{\"text\":\"\\u00e9\\ud83d\\ude00\"}\n"
        "\n{\"x\":[1,2.5e3,null,true],\"text\":\"three\"}";
    char seed[sizeof lines + 1];
    for (char mode = 0; mode < 8; mode++) {
        seed[0] = mode;
        memcpy(seed + 1, lines, sizeof lines);
        give(seed, sizeof lines);
    }
    static const char plain[] = "\1plain text\n\n\nmore \377\376 of it\n";
    static const char json[] = "\7{\"a\":[{\"b\":{}},-1e-3,\"\\n\"]}";
    give(plain, sizeof plain - 1);
    give(json, sizeof json - 1);
}
