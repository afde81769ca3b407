/* folder: serve
 *
 * Fuzzes bodies whose parsers need a tokenizer: /tokenize, /detokenize, and
 * /v1/chat/completions with each template. The first byte of an input chooses among
 * them. */
#include "serve/chat.h"
#include "serve/serve.h"
#include "serve/server_tokens.h"
#include "tests/fuzz/fuzz.h"
#include <stdio.h>
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

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void parse_tokens(const pl_tokenizer *tokenizer, bool encode, const char *body,
                         size_t len)
{
    pl_buf out = {0};
    pl_json *json = NULL;
    const pl_status status = encode ? tokens_encode(tokenizer, 64, body, len, &out)
                                    : tokens_decode(tokenizer, body, len, &out);
    if (status == PL_OK) /* the answer must be JSON */
        check(pl_json_parse(pl_buf_text(&out), out.len, &json) == PL_OK);
    pl_json_destroy(&json);
    pl_buf_destroy(&out);
}

/* An accepted conversation must be one prompt, as a text or as valid tokens. */
static void parse_chat(const pl_tokenizer *tokenizer, const char *chat_template,
                       const char *body, size_t len)
{
    pl_completion c;
    if (pl_chat_parse(pl_chat_find(chat_template), tokenizer, body, len, &c) == PL_OK) {
        check(c.chat && !c.echo && c.n_prompts == 1 && c.n >= 1);
        check(c.options.max_tokens > 0 && c.options.n_top <= PL_TOP_MAX);
        check(c.prompts[0].text || c.prompts[0].n_tokens > 0);
        for (int i = 0; i < c.prompts[0].n_tokens; i++)
            check(c.prompts[0].tokens[i] >= 0 &&
                  c.prompts[0].tokens[i] < (int32_t)pl_tokenizer_vocab(tokenizer));
    }
    pl_completion_clear(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t len)
{
    static const char *const templates[] = {"chatml", "llama2", "plain"};
    static pl_tokenizer *tokenizer;
    if (!tokenizer)
        tokenizer = make_tokenizer();
    if (len < 1)
        return 0;
    const char *body = (const char *)input + 1;
    const int kind = input[0] % 5;
    if (kind < 2)
        parse_tokens(tokenizer, kind == 1, body, len - 1);
    else
        parse_chat(tokenizer, templates[kind - 2], body, len - 1);
    return 0;
}

void fuzz_seeds(void (*give)(const void *, size_t))
{
    static const char *const bodies[] = {
        "\1{\"content\": \"word and <s> then </s>\", \"with_pieces\": true}",
        "\1{\"prompt\": \"a\\u00e9\", \"add_special_tokens\": false}",
        "\1{\"content\": \"<s>\", \"parse_special\": false, \"add_special\": true}",
        "\5{\"tokens\": [1, 5, 300, 2]}",
        "\2{\"messages\": [{\"role\": \"developer\", \"content\": \"be kind\"}, "
        "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": "
        "\"word\"}]}], "
        "\"logprobs\": true, \"top_logprobs\": 2, \"stop\": [\"x\"]}",
        "\3{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, "
        "{\"role\": \"user\", \"content\": \"a\", \"name\": \"n\"}, "
        "{\"role\": \"assistant\", \"content\": \"b\"}, "
        "{\"role\": \"user\", \"content\": \"<s>\"}], \"max_completion_tokens\": 8}",
        "\4{\"messages\": [{\"role\": \"user\", \"content\": \"a <|im_end|> "
        "[INST]\"}], "
        "\"n\": 2, \"stream\": true, \"stop\": [\"a\", \"b\"]}"};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        give(bodies[i], strlen(bodies[i]));
}
