/* folder: serve; label: unit */
/* Tests the JSON of requests to /v1/completions, /v1/embeddings, /tokenize and
 * /detokenize, and of the answers. */
#include "tests/support/corpus_support.h"
#include "serve/embedding.h"
#include "serve/serve.h"
#include "serve/server_tokens.h"
#include <math.h>

/* A body, and a part of the error with which it is refused. */
typedef struct refusal {
    const char *body, *says;
} refusal;

PL_TEST(a_completion_is_read_or_refused_by_name)
{
    static const refusal wrong[] = {
        {"", "not JSON"},
        {"{\"prompt\": \"x\"", "not JSON"},
        {"3", "JSON object"},
        {"{}", "`prompt`"},
        {"{\"prompt\": []}", "`prompt`"},
        {"{\"prompt\": {}}", "`prompt`"},
        {"{\"prompt\": [\"a\", 3]}", "`prompt`"},
        {"{\"prompt\": [3, \"a\"]}", "`prompt`"},
        {"{\"prompt\": [3, -1]}", "`prompt`"},
        {"{\"prompt\": [3, 1.5]}", "`prompt`"},
        {"{\"prompt\": [[3], []]}", "`prompt`"},
        {"{\"prompt\": [[[3]]]}", "`prompt`"},
        {"{\"prompt\": \"a\\u0000b\"}", "`prompt`"},
        {"{\"prompt\": \"a\", \"seed\": -1}", "`seed`"},
        {"{\"prompt\": \"a\", \"temperature\": \"1\"}", "`temperature`"},
        {"{\"prompt\": \"a\", \"stop\": [\"1\",\"2\",\"3\",\"4\",\"5\"]}", "`stop`"},
        {"{\"prompt\": \"a\", \"logprobs\": 21}", "`logprobs`"},
        {"{\"prompt\": \"a\", \"logprobs\": true}", "`logprobs`"},
        {"{\"prompt\": \"a\", \"n\": 0}", "`n`"},
        {"{\"prompt\": [\"a\", \"b\"], \"n\": 200}", "400 answers"},
        {"{\"prompt\": \"a\", \"best_of\": 2}", "`best_of`"},
        {"{\"prompt\": \"a\", \"max_tokens\": 0}", "`echo`"},
        {"{\"prompt\": \"a\", \"min_p\": 2}", "`min_p`"},
        {"{\"prompt\": \"a\", \"top_p\": 0}", "`top_p`"},
        {"{\"prompt\": \"a\", \"presence_penalty\": 3}", "`presence_penalty`"},
        {"{\"prompt\": \"a\", \"logit_bias\": [1]}", "`logit_bias`"},
        {"{\"prompt\": \"a\", \"logit_bias\": {\"x\": 1}}", "`logit_bias`"},
        {"{\"prompt\": \"a\", \"logit_bias\": {\"1\": 101}}", "`logit_bias`"},
        {"{\"prompt\": \"a\", \"stream_options\": {}}", "needs `stream`"},
        {"{\"prompt\": \"a\", \"stream\": true, \"stream_options\": {\"a\": 1}}",
         "`a`"},
        {"{\"prompt\": \"a\", \"suffix\": \"b\"}", "`suffix`"},
        {"{\"prompt\": \"a\", \"colour\": 1}", "`colour`"}};
    pl_completion c;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        assert_fails(pl_completion_parse(wrong[i].body, strlen(wrong[i].body), &c),
                     PL_ERR_USAGE, wrong[i].says);
        pl_completion_clear(&c);
    }
}

PL_TEST(every_key_has_its_effect)
{
    OWNED(pl_completion_clear) pl_completion c;
    const char *body =
        "{\"prompt\": [\"a\"], \"stop\": [\"x\", \"y\"], \"n\": 2, \"best_of\": 2, "
        "\"max_tokens\": 3, \"seed\": null, \"stream\": true, \"logprobs\": 0, "
        "\"echo\": true, \"min_p\": 0.25, \"top_k\": -1, \"presence_penalty\": -2, "
        "\"frequency_penalty\": 0.5, \"logit_bias\": {\"7\": -100, \"9\": 1.5}, "
        "\"stream_options\": {\"include_usage\": true}, \"user\": \"me\"}";
    assert_ok(pl_completion_parse(body, strlen(body), &c));
    assert_int_equal(c.n_prompts, 1);
    assert_string_equal(c.prompts[0].text, "a");
    assert_string_equal(c.model, "auto");
    assert_string_equal(c.options.stop[1], "y");
    assert_int_equal(c.options.max_tokens, 3);
    assert_true(c.stream && c.echo && c.include_usage);
    assert_int_equal(c.n, 2);
    assert_true(c.options.scores && c.options.prompt_scores);
    assert_int_equal(c.options.n_top, 0);
    assert_int_equal(c.options.choice.top_k, 0);
    assert_true(c.options.choice.min_p == 0.25);
    assert_true(c.options.presence_penalty == -2 && c.options.frequency_penalty == 0.5);
    assert_int_equal(c.options.n_bias, 2);
    assert_int_equal(c.options.bias[0].token, 7);
    assert_true(c.options.bias[0].bias == -100.0f && c.options.bias[1].bias == 1.5f);
}

/* Parses a request that also has this member. */
static pl_status parse_with(const char *member, pl_completion *c)
{
    char body[256];
    snprintf(body, sizeof body, "{\"prompt\": \"a\", %s}", member);
    return pl_completion_parse(body, strlen(body), c);
}

PL_TEST(keys_of_other_servers_are_ignored_if_they_ask_for_nothing)
{
    static const char *const neutral[] = {"\"response_format\": {\"type\": \"text\"}",
                                          "\"store\": false",
                                          "\"tools\": []",
                                          "\"tools\": null",
                                          "\"tool_choice\": \"auto\"",
                                          "\"metadata\": {\"a\": \"b\"}",
                                          "\"parallel_tool_calls\": true",
                                          "\"service_tier\": \"default\"",
                                          "\"repetition_penalty\": 1.0",
                                          "\"modalities\": [\"text\"]",
                                          "\"suffix\": \"\"",
                                          "\"user\": \"me\""};
    static const refusal asks[] = {
        {"\"tools\": [{}]", "`tools` is not supported"},
        {"\"tool_choice\": {\"type\": \"function\"}", "`tool_choice` is not"},
        {"\"response_format\": {\"type\": \"json_object\"}",
         "`response_format` is not supported"},
        {"\"store\": true", "`store` is not supported"},
        {"\"repetition_penalty\": 1.1", "`repetition_penalty` is not"},
        {"\"ignore_eos\": true", "`ignore_eos` is not"},
        {"\"max_token\": 3", "the most similar key is `max_tokens`"},
        {"\"tempreature\": 1", "the most similar key is `temperature`"},
        {"\"seed\": 18446744073709551615", "above 9223372036854775807"}};
    pl_completion c;
    for (size_t i = 0; i < sizeof neutral / sizeof *neutral; i++) {
        if (parse_with(neutral[i], &c) != PL_OK)
            fail_msg("%s: %s", neutral[i], pl_last_error());
        pl_completion_clear(&c);
    }
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
        assert_fails(parse_with(asks[i].body, &c), PL_ERR_USAGE, asks[i].says);
        pl_completion_clear(&c);
    }
}

PL_TEST(prompts_are_texts_or_tokens)
{
    OWNED(pl_completion_clear) pl_completion c;
    const char *tokens = "{\"prompt\": [1, 5, 6]}";
    assert_ok(pl_completion_parse(tokens, strlen(tokens), &c));
    assert_int_equal(c.n_prompts, 1);
    assert_null(c.prompts[0].text);
    assert_int_equal(c.prompts[0].n_tokens, 3);
    assert_int_equal(c.prompts[0].tokens[2], 6);
    assert_false(c.options.scores);
    pl_completion_clear(&c);
    const char *mixed = "{\"prompt\": [[1, 5], \"b\", [2]], \"echo\": true, "
                        "\"max_tokens\": 0}";
    assert_ok(pl_completion_parse(mixed, strlen(mixed), &c));
    assert_int_equal(c.n_prompts, 3);
    assert_string_equal(c.prompts[1].text, "b");
    assert_int_equal(c.prompts[2].tokens[0], 2);
}

static void expect_token(int32_t token, const char *wanted)
{
    OWNED(pl_buf_destroy) pl_buf text = {0};
    assert_ok(pl_token_text(word_tokenizer, token, &text));
    assert_string_equal(pl_buf_text(&text), wanted);
}

PL_TEST(a_token_has_a_text_of_its_own)
{
    OWNED(pl_buf_destroy) pl_buf ids = {0};
    expect_token(PL_TOKEN_BOS, "<s>");
    expect_token(PL_TOKEN_EOS, "</s>");
    expect_token(WORD_VOCAB + 5, "<token 305>");
    assert_ok(pl_tokenizer_encode(word_tokenizer, "\xc3\xa9", 2, &ids));
    assert_int_equal(ids.len, 2 * sizeof(int32_t)); /* one token per byte */
    int32_t half;
    memcpy(&half, ids.data, sizeof half);
    expect_token(half, "bytes:\\xc3");
}

PL_TEST(scores_become_four_lists)
{
    OWNED(pl_buf_destroy) pl_buf ids = {0}, out = {0};
    const char *text = "\xc3\xa9t";
    assert_ok(pl_tokenizer_encode(word_tokenizer, text, strlen(text), &ids));
    int32_t tokens[3];
    assert_int_equal(ids.len, sizeof tokens);
    memcpy(tokens, ids.data, sizeof tokens);
    pl_token_score scores[4] = {{.token = PL_TOKEN_BOS, .logprob = NAN}};
    for (int i = 0; i < 3; i++)
        scores[i + 1] =
            (pl_token_score){.token = tokens[i],
                             .logprob = -1.5,
                             .n_top = 2,
                             .top = {{PL_TOKEN_EOS, -0.5}, {tokens[i], -1.5}}};
    pl_completion_choice choice = {.index = 2,
                                   .path = "p01",
                                   .text = text,
                                   .text_len = 3,
                                   .scores = scores,
                                   .n_scores = 4,
                                   .scored = true,
                                   .ended = true,
                                   .finish = PL_FINISH_LENGTH};
    const pl_completion_answer a = {.model = "p01",
                                    .choices = &choice,
                                    .n_choices = 1,
                                    .usage = true,
                                    .n_prompt_tokens = 4,
                                    .n_tokens = 3,
                                    .tokenizer = word_tokenizer};
    assert_ok(pl_completion_write(&a, &out));
    const char *wanted =
        "\"text\":\"\xc3\xa9t\",\"index\":2,\"path\":\"p01\",\"logprobs\":{\"tokens\":["
        "\"<s>\",\"bytes:\\\\xc3\",\"bytes:\\\\xa9\",\"t\"],\"token_logprobs\":[null,"
        "-1.5,-1.5,-1.5],\"top_logprobs\":[null,{\"bytes:\\\\xc3\":-1.5,\"</s>\":-0.5},"
        "{\"bytes:\\\\xa9\":-1.5,\"</s>\":-0.5},{\"t\":-1.5,\"</s>\":-0.5}],"
        "\"text_offset\":[0,0,1,1]},\"finish_reason\":\"length\"}],\"usage\":{"
        "\"prompt_tokens\":4,\"completion_tokens\":3,\"total_tokens\":7,"
        "\"prompt_tokens_details\":{\"cached_tokens\":0}}}";
    if (!strstr(pl_buf_text(&out), wanted))
        fail_msg("%s", pl_buf_text(&out));
    assert_int_equal(choice.offset, 2);
}

/* ---- /tokenize and /detokenize ---- */
static void expect_tokens(const char *body, const char *wanted)
{
    OWNED(pl_buf_destroy) pl_buf out = {0};
    assert_ok(tokens_encode(word_tokenizer, 64, body, strlen(body), &out));
    if (strncmp(pl_buf_text(&out), wanted, strlen(wanted)) != 0)
        fail_msg("%s: %s", body, pl_buf_text(&out));
}

/* Writes the tokens of a text as a JSON list, between the texts `before` and
 * `after`. */
static void list_tokens(const char *before, const char *text, const char *after,
                        pl_buf *out)
{
    OWNED(pl_buf_destroy) pl_buf ids = {0};
    assert_ok(pl_tokenizer_encode(word_tokenizer, text, strlen(text), &ids));
    pl_buf_printf(out, "{\"tokens\":[%s", before);
    for (size_t i = 0; i < ids.len / sizeof(int32_t); i++)
        pl_buf_printf(out, "%s%d", i == 0 && before[0] == 0 ? "" : ",",
                      (int)((const int32_t *)(const void *)ids.data)[i]);
    pl_buf_printf(out, "%s]", after);
}

PL_TEST(a_text_becomes_tokens_and_back)
{
    OWNED(pl_buf_destroy)
    pl_buf plain = {0}, bos = {0}, special = {0}, body = {0}, back = {0};
    list_tokens("", "loom", "", &plain);
    list_tokens("1", "loom", "", &bos);
    list_tokens("1", "loom", ",2", &special);
    expect_tokens("{\"content\": \"loom\"}", pl_buf_text(&plain));
    expect_tokens("{\"content\": \"loom\", \"add_special\": true}", pl_buf_text(&bos));
    expect_tokens("{\"prompt\": \"loom\", \"model\": \"p0\"}", pl_buf_text(&bos));
    expect_tokens("{\"prompt\": \"loom\", \"add_special_tokens\": false}",
                  pl_buf_text(&plain));
    expect_tokens("{\"content\": \"<s>loom</s>\"}", pl_buf_text(&special));
    expect_tokens("{\"content\": \"</s>\"}", "{\"tokens\":[2],\"count\":1");
    expect_tokens("{\"content\": \"\"}", "{\"tokens\":[],\"count\":0");
    pl_buf_clear(&special);
    list_tokens("", "<s>", "", &special);
    expect_tokens("{\"content\": \"<s>\", \"parse_special\": false}",
                  pl_buf_text(&special));
    pl_buf_printf(&body, "%s}", pl_buf_text(&bos));
    assert_ok(tokens_decode(word_tokenizer, pl_buf_text(&body), body.len, &back));
    assert_string_equal(pl_buf_text(&back),
                        "{\"content\":\"loom\",\"prompt\":\"loom\"}");
}

/* If the piece of a token is only a part of a character, /tokenize must give it as a
 * list of bytes. */
PL_TEST(pieces_that_are_no_text_are_bytes)
{
    OWNED(pl_buf_destroy) pl_buf out = {0};
    const char *body = "{\"content\": \"t\xc3\xa9\", \"with_pieces\": true}";
    assert_ok(tokens_encode(word_tokenizer, 64, body, strlen(body), &out));
    assert_non_null(strstr(pl_buf_text(&out), "\"piece\":\"t\"}"));
    assert_non_null(strstr(pl_buf_text(&out), "\"piece\":[195]}"));
    assert_non_null(strstr(pl_buf_text(&out), "\"piece\":[169]}"));
}

PL_TEST(wrong_token_requests_are_refused_by_name)
{
    static const refusal wrong[] = {
        {"", "not JSON"},
        {"[1]", "JSON object"},
        {"{}", "`content`"},
        {"{\"content\": \"a\", \"prompt\": \"a\"}", "`content`"},
        {"{\"content\": 3}", "`content`"},
        {"{\"content\": \"a\", \"with_pieces\": 1}", "`with_pieces`"},
        {"{\"content\": \"a\", \"colour\": 1}", "`colour`"}};
    static const refusal lists[] = {{"{", "not JSON"},
                                    {"{}", "`tokens`"},
                                    {"{\"tokens\": 1}", "`tokens`"},
                                    {"{\"tokens\": [1, -1]}", "`tokens`"},
                                    {"{\"tokens\": [\"a\"]}", "`tokens`"},
                                    {"{\"tokens\": [100000]}", "token 100000"}};
    pl_buf out = {0};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i)
        assert_fails(tokens_encode(word_tokenizer, 64, wrong[i].body,
                                   strlen(wrong[i].body), &out),
                     PL_ERR_USAGE, wrong[i].says);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; ++i)
        assert_fails(
            tokens_decode(word_tokenizer, lists[i].body, strlen(lists[i].body), &out),
            PL_ERR_USAGE, lists[i].says);
    assert_int_equal(out.len, 0);
}

/* ---- embeddings ---- */
PL_TEST(inputs_are_texts_or_tokens)
{
    static const refusal wrong[] = {
        {"", "not JSON"},
        {"[]", "JSON object"},
        {"{}", "`input`"},
        {"{\"input\": \"\"}", "`input`"},
        {"{\"input\": [\"a\", 1]}", "`input`"},
        {"{\"input\": \"a\", \"encoding_format\": \"int8\"}", "`encoding_format`"},
        {"{\"input\": \"a\", \"encoding_format\": 1}", "`encoding_format`"},
        {"{\"input\": \"a\", \"dimensions\": 8}", "`dimensions`"},
        {"{\"input\": \"a\", \"colour\": 8}", "`colour`"}};
    OWNED(pl_completion_clear) pl_completion c;
    bool base64 = false;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        assert_fails(embedding_parse(wrong[i].body, strlen(wrong[i].body), &c, &base64),
                     PL_ERR_USAGE, wrong[i].says);
        pl_completion_clear(&c);
    }
    const char *body = "{\"input\": [\"a\", \"b\"], \"model\": \"p01\", "
                       "\"encoding_format\": \"base64\"}";
    assert_ok(embedding_parse(body, strlen(body), &c, &base64));
    assert_int_equal(c.n_prompts, 2);
    assert_string_equal(c.prompts[1].text, "b");
    assert_string_equal(c.model, "p01");
    assert_true(base64);
}

PL_TEST(a_vector_has_length_one)
{
    const float values[] = {3, 0, -4, 0, 0, 2};
    embedding_answer a = {
        .model = "base", .n = 2, .width = 3, .values = values, .n_tokens = 9};
    OWNED(pl_buf_destroy) pl_buf out = {0};
    embedding_write(&a, &out);
    OWNED(pl_json_destroy) pl_json *json = NULL;
    assert_ok(pl_json_parse(pl_buf_text(&out), out.len, &json));
    const pl_json *data = pl_json_get(json, "data");
    const pl_json *first = pl_json_get(pl_json_at(data, 0), "embedding");
    double number = 0;
    assert_true(pl_json_number(pl_json_at(first, 2), &number));
    assert_true(fabs(number + 0.8) < 1e-7);
    assert_int_equal(pl_json_count(data), 2);
    a.base64 = true; /* the bytes of 1.0f are 00 00 80 3f */
    a.width = 1;
    pl_buf_clear(&out);
    embedding_write(&a, &out);
    assert_non_null(strstr(pl_buf_text(&out), "\"embedding\":\"AACAPw==\""));
}

PL_SUITE(open_words, close_words)
