/* folder: serve
 *
 * Fuzzes bodies of /tokenize and /detokenize with a small tokenizer. */
#include "serve/server_tokens.h"
#include "tests/fuzz/fuzz.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pl_tokenizer *make_tokenizer(void)
{
    char text[4096], path[] = "/tmp/pathloom-fuzz-XXXXXX";
    const char *texts[] = {text};
    pl_tokenizer *tokenizer = NULL;
    size_t len = 0;
    for (uint32_t i = 0; len + 32 < sizeof text; i++)
        len += (size_t)snprintf(text + len, 32, "word%u and %x, then\n", i * i, 7 * i);
    int fd = mkstemp(path);
    if (pl_tokenizer_train(texts, &len, 1, 300, 1, path) != PL_OK ||
        pl_tokenizer_load(path, &tokenizer) != PL_OK)
        abort();
    close(fd);
    unlink(path);
    return tokenizer;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t len)
{
    static pl_tokenizer *tokenizer;
    pl_buf out = {0};
    if (!tokenizer)
        tokenizer = make_tokenizer();
    if (len < 1)
        return 0;
    const char *body = (const char *)input + 1;
    const pl_status status = input[0] & 1
                                 ? tokens_encode(tokenizer, 64, body, len - 1, &out)
                                 : tokens_decode(tokenizer, body, len - 1, &out);
    pl_json *json = NULL; /* the answer must be JSON */
    if (status == PL_OK && pl_json_parse(pl_buf_text(&out), out.len, &json) != PL_OK)
        abort();
    pl_json_destroy(&json);
    pl_buf_destroy(&out);
    return 0;
}

void fuzz_seeds(void (*give)(const void *, size_t))
{
    static const char *const bodies[] = {
        "\1{\"content\": \"word and <s> then </s>\", \"with_pieces\": true}",
        "\1{\"prompt\": \"a\\u00e9\", \"add_special_tokens\": false}",
        "\1{\"content\": \"<s>\", \"parse_special\": false, \"add_special\": true}",
        "\2{\"tokens\": [1, 5, 300, 2]}"};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        give(bodies[i], strlen(bodies[i]));
}
