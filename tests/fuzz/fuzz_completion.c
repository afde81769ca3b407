/* folder: serve
 *
 * Fuzzes the bodies of /v1/completions and /v1/embeddings. An accepted request must be
 * within the limits of the API. */
#include "serve/embedding.h"
#include "tests/fuzz/fuzz.h"

static void check(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t len)
{
    pl_completion c;
    if (pl_completion_parse((const char *)input, len, &c) == PL_OK) {
        check(c.n_prompts >= 1 && c.n >= 1 && c.n_prompts * c.n <= PL_CHOICES_MAX);
        check(c.options.n_bias <= PL_BIAS_MAX && c.options.n_top <= PL_TOP_MAX);
        check(c.options.max_tokens > 0 || c.echo);
        for (int i = 0; i < c.n_prompts; i++)
            check(c.prompts[i].text || c.prompts[i].n_tokens > 0);
    }
    pl_completion_clear(&c);
    bool base64 = false;
    if (embedding_parse((const char *)input, len, &c, &base64) == PL_OK)
        check(c.n_prompts >= 1 && c.n_prompts <= PL_CHOICES_MAX && c.n == 1);
    pl_completion_clear(&c);
    return 0;
}

void fuzz_seeds(void (*give)(const void *, size_t))
{
    static const char *const bodies[] = {
        "{\"prompt\": \"The \", \"max_tokens\": 1, \"echo\": true, \"logprobs\": 1, "
        "\"temperature\": 0, \"seed\": 1234, \"model\": \"p01\"}",
        "{\"prompt\": [[1, 5, 6], [1]], \"n\": 2, \"min_p\": 0.1, \"top_k\": -1}",
        "{\"prompt\": [1, 2, 3], \"stream\": true, "
        "\"stream_options\": {\"include_usage\": true}}",
        "{\"prompt\": [\"a\", \"b\"], \"logit_bias\": {\"17\": -100, \"3\": 5.5}, "
        "\"stop\": [\"x\", \"y\"], \"presence_penalty\": 1, \"best_of\": null}",
        "{\"input\": [\"a\", \"b\"], \"model\": \"base\", "
        "\"encoding_format\": \"base64\"}",
        "{\"input\": [[1, 2], [3]], \"user\": \"me\"}"};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        give(bodies[i], strlen(bodies[i]));
}
