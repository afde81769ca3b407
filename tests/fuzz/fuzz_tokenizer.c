/* folder: corpus
 *
 * Fuzzes tokenizer models and tokenizer.json. A model that loads must encode and
 * decode. */
#include "corpus/corpus.h"
#include "corpus/tokenizer_json.h"
#include "tests/fuzz/fuzz.h"
#include <stdio.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t len)
{
    static const char text[] = "The quick brown fox; 12 \xc3\xa9 \xff\n";
    pl_tokenizer *tokenizer;
    pl_buf tokens = {0}, back = {0}, model = {0};
    const bool json = len > 0 && input[0] == '{';
    if (json && tokenizer_json_read((const char *)input, len, &model) != PL_OK)
        model.len = 0;
    const pl_status status =
        json ? pl_tokenizer_load_bytes(model.data, model.len, &tokenizer)
             : pl_tokenizer_load_bytes(input, len, &tokenizer);
    pl_buf_destroy(&model);
    if (status != PL_OK)
        return 0;
    if (pl_tokenizer_encode(tokenizer, text, sizeof text - 1, &tokens) == PL_OK)
        (void)pl_tokenizer_decode(tokenizer, (const int32_t *)(const void *)tokens.data,
                                  tokens.len / sizeof(int32_t), &back);
    static const int32_t odd[] = {-1, 0, 1, 2, 3, 1000000, INT32_MAX};
    (void)pl_tokenizer_decode(tokenizer, odd, sizeof odd / sizeof *odd, &back);
    pl_buf_destroy(&tokens);
    pl_buf_destroy(&back);
    pl_tokenizer_destroy(&tokenizer);
    return 0;
}

/* Makes a BPE model of six pieces by hand. The model is short, so that most random
 * changes hit one of its fields. */
static void seed_small(void (*give)(const void *, size_t), uint8_t kind)
{
    static const char *const pieces[] = {"<unk>", "<s>", "\xe2\x96\x81",
                                         "e",     "t",   "he"};
    static const uint8_t types[] = {2, 3, 1, 1, 1, 1};
    const uint8_t trainer[] = {0x12, 2, 0x18, kind};
    pl_buf model = {0};
    for (size_t i = 0; i < sizeof types; i++) {
        uint8_t n = (uint8_t)strlen(pieces[i]);
        const uint8_t open[] = {0x0a, (uint8_t)(n + 9), 0x0a, n};
        const uint8_t close[] = {0x15, 0, 0, 0x80, 0x3f, 0x18, types[i]};
        pl_buf_append(&model, open, sizeof open);
        pl_buf_append(&model, pieces[i], n);
        pl_buf_append(&model, close, sizeof close);
    }
    pl_buf_append(&model, trainer, sizeof trainer);
    give(model.data, model.len);
    pl_buf_destroy(&model);
}

/* Gives a model that was trained on generated words, small models, and bytes that are
 * not a model. */
void fuzz_seeds(void (*give)(const void *, size_t))
{
    char text[4096], path[] = "/tmp/pathloom-fuzz-XXXXXX";
    pl_buf model = {0};
    const char *texts[] = {text};
    size_t len = 0;
    for (uint32_t i = 0; len + 32 < sizeof text; i++)
        len += (size_t)snprintf(text + len, 32, "word%u and %x, then\n", i * i, 7 * i);
    int fd = mkstemp(path);
    if (pl_tokenizer_train(texts, &len, 1, 300, 1, path) == PL_OK &&
        pl_read_file(path, &model) == PL_OK)
        give(model.data, model.len);
    close(fd);
    unlink(path);
    pl_buf_destroy(&model);
    seed_small(give, 1);
    seed_small(give, 2);
    give("\x0a\x00", 2);
    static const char steps[] =
        "{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\",\"split\":false}";
    /* the second names a token twice */
    static const char *const more[] = {"", ",{\"id\":6,\"content\":\"<x>\"},"
                                           "{\"id\":6,\"content\":\"<x>\"}"};
    for (size_t i = 0; i < 2; i++) {
        pl_buf json = {0};
        pl_buf_printf(
            &json,
            "{\"added_tokens\":[{\"id\":0,\"content\":\"<unk>\",\"special\":true},"
            "{\"id\":1,\"content\":\"<s>\",\"special\":true},"
            "{\"id\":2,\"content\":\"</s>\",\"special\":true}%s],"
            "\"pre_tokenizer\":%s,"
            "\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"vocab\":{\"<unk>\":"
            "0,"
            "\"<s>\":1,\"</s>\":2,\"h\":3,\"e\":4,\"he\":5},\"merges\":[\"h e\"]}}",
            more[i], steps);
        give(json.data, json.len);
        pl_buf_destroy(&json);
    }
}
