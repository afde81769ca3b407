/* folder: serve; label: unit */
/* Tests the prompts that chat templates make from conversations, and answers in the
 * format of OpenAI's chat API. */
#include "serve/chat.h"
#include "serve/serve.h"
#include "tests/support/corpus_support.h"

static pl_status parse_chat(const char *name, const char *body, pl_completion *c)
{
    const pl_chat_template *chat = pl_chat_find(name);
    assert_non_null(chat);
    assert_string_equal(pl_chat_name(chat), name);
    return pl_chat_parse(chat, word_tokenizer, body, strlen(body), c);
}

#define SYSTEM    "{\"role\": \"system\", \"content\": \"Be kind.\"}"
#define USER(say) "{\"role\": \"user\", \"content\": \"" say "\"}"
#define ASSISTANT "{\"role\": \"assistant\", \"content\": \"Yes.\"}"
#define TURNS                                                                          \
    "{\"messages\": [" SYSTEM ", " USER("Hi") ", " ASSISTANT ", " USER("So?") "]}"

PL_TEST(turns_are_written_by_chatml_and_plain)
{
    OWNED(pl_completion_clear) pl_completion c;
    assert_ok(parse_chat("chatml", TURNS, &c));
    assert_int_equal(c.n_prompts, 1);
    assert_string_equal(c.prompts[0].text,
                        "<|im_start|>system\nBe kind.<|im_end|>\n"
                        "<|im_start|>user\nHi<|im_end|>\n"
                        "<|im_start|>assistant\nYes.<|im_end|>\n"
                        "<|im_start|>user\nSo?<|im_end|>\n<|im_start|>assistant\n");
    assert_string_equal(c.options.stop[0], "<|im_end|>");
    assert_null(c.options.stop[1]);
    assert_true(c.chat && c.logprobs == -1 && c.options.max_tokens == PL_TOKENS_MAX);
    pl_completion_clear(&c);
    assert_ok(parse_chat("plain", TURNS, &c));
    assert_string_equal(c.prompts[0].text, "system: Be kind.\nuser: Hi\n"
                                           "assistant: Yes.\nuser: So?\nassistant:");
    assert_string_equal(c.options.stop[0], "\nuser:");
}

PL_TEST(llama2_separates_turns_by_tokens)
{
    static const char *const parts[] = {
        "[INST] <<SYS>>\nBe kind.\n<</SYS>>\n\nHi [/INST] Yes. ", "[INST] So? [/INST]"};
    const int32_t bos = PL_TOKEN_BOS, eos = PL_TOKEN_EOS;
    OWNED(pl_completion_clear) pl_completion c;
    OWNED(pl_buf_destroy) pl_buf wanted = {0};
    for (int i = 0; i < 2; i++) {
        pl_buf_append(&wanted, &bos, sizeof bos);
        assert_ok(
            pl_tokenizer_encode(word_tokenizer, parts[i], strlen(parts[i]), &wanted));
        if (i == 0)
            pl_buf_append(&wanted, &eos, sizeof eos);
    }
    assert_ok(parse_chat("llama2", TURNS, &c));
    assert_null(c.prompts[0].text);
    assert_int_equal(c.prompts[0].n_tokens, wanted.len / sizeof bos);
    assert_memory_equal(c.prompts[0].tokens, wanted.data, wanted.len);
    pl_completion_clear(&c);
    assert_ok(parse_chat("llama2", "{\"messages\": [" USER("Hi") "]}", &c));
    assert_string_equal(c.prompts[0].text, "[INST] Hi [/INST]");
}

PL_TEST(keys_of_a_chat_are_read_or_refused_by_name)
{
    static const struct {
        const char *name, *body, *says;
    } wrong[] = {
        {"plain", "", "not JSON"},
        {"plain", "[]", "JSON object"},
        {"plain", "{}", "`messages`"},
        {"plain", "{\"messages\": []}", "`messages`"},
        {"plain", "{\"messages\": {\"role\": \"user\"}}", "`messages`"},
        {"plain", "{\"messages\": [3]}", "object"},
        {"plain", "{\"messages\": [{\"content\": \"x\"}]}", "`role`"},
        {"plain", "{\"messages\": [{\"role\": \"tool\", \"content\": \"x\"}]}",
         "`role`"},
        {"plain", "{\"messages\": [{\"role\": \"user\"}]}", "`content`"},
        {"plain", "{\"messages\": [{\"role\": \"user\", \"content\": 3}]}",
         "`content`"},
        {"plain", "{\"messages\": [" USER("a\\u0000b") "]}", "`content`"},
        {"plain",
         "{\"messages\": [{\"role\": \"user\", \"content\": "
         "[{\"type\": \"image_url\", \"image_url\": {}}]}]}",
         "`content`"},
        {"plain",
         "{\"messages\": [{\"role\": \"user\", \"content\": \"x\", \"tool_calls\": "
         "[1]}]}",
         "`tool_calls`"},
        {"chatml", "{\"messages\": [" USER("a<|im_end|>b") "]}", "<|im_end|>"},
        {"llama2", "{\"messages\": [" USER("a [/INST] b") "]}", "[/INST]"},
        {"llama2", "{\"messages\": [" SYSTEM "]}", "user"},
        {"llama2", "{\"messages\": [" USER("a") ", " ASSISTANT "]}", "user"},
        {"llama2", "{\"messages\": [" ASSISTANT "]}", "in turn"},
        {"plain", "{\"messages\": [" USER("a") "], \"prompt\": \"x\"}", "`prompt`"},
        {"plain", "{\"messages\": [" USER("a") "], \"echo\": true}", "`echo`"},
        {"plain", "{\"messages\": [" USER("a") "], \"tools\": [1]}", "`tools`"},
        {"plain", "{\"messages\": [" USER("a") "], \"logprobs\": 3}", "`logprobs`"},
        {"plain", "{\"messages\": [" USER("a") "], \"top_logprobs\": 3}", "`logprobs`"},
        {"plain",
         "{\"messages\": [" USER("a") "], \"logprobs\": true, "
                                      "\"top_logprobs\": 21}",
         "`top_logprobs`"},
        {"plain", "{\"messages\": [" USER("a") "], \"max_tokens\": 0}", "`max_tokens`"},
        {"plain",
         "{\"messages\": [" USER("a") "], \"stop\": "
                                      "[\"a\", \"b\", \"c\", \"d\", \"e\"]}",
         "`stop`"},
    };
    OWNED(pl_completion_clear) pl_completion c;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        pl_status status = parse_chat(wrong[i].name, wrong[i].body, &c);
        if (status != PL_ERR_USAGE || !strstr(pl_last_error(), wrong[i].says))
            fail_msg("%s: %s", wrong[i].body, pl_last_error());
        pl_completion_clear(&c);
    }
    assert_ok(parse_chat("plain",
                         "{\"messages\": [{\"role\": \"developer\", \"name\": \"x\", "
                         "\"refusal\": null, \"content\": [{\"type\": \"text\", "
                         "\"text\": \"a\"}, {\"type\": \"text\", \"text\": \"b\"}]}], "
                         "\"logprobs\": true, \"top_logprobs\": 2, "
                         "\"max_completion_tokens\": 7, \"tools\": [], "
                         "\"stop\": [\"a\", \"b\", \"c\", \"d\"], "
                         "\"temperature\": 0, \"stream\": true, \"n\": 2}",
                         &c));
    assert_string_equal(c.prompts[0].text, "system: ab\nassistant:");
    assert_true(c.logprobs == 2 && c.options.max_tokens == 7 && c.n == 2 && c.stream);
    assert_string_equal(c.options.stop[5], "\nsystem:");
}

/* ---- templates of imported models ---- */
PL_TEST(a_model_brings_its_template)
{
    char name[PL_CHAT_NAME_MAX];
    assert_ok(pl_make_folders(in_scratch("model")));
    pl_chat_of_model(in_scratch("model"), name);
    assert_string_equal(name, "");
    static const struct {
        const char *config, *name;
    } cases[] = {
        {"{\"chat_template\": \"{% for m in x %}<|im_start|>{% endfor %}\"}", "chatml"},
        {"{\"chat_template\": \"[INST] <<SYS>>\"}", "llama2"},
        {"{\"chat_template\": \"<|start_header_id|>\"}", "unknown"},
        {"{\"chat_template\": [{\"name\": \"default\", \"template\": \"x\"}]}",
         "unknown"},
        {"{\"chat_template\": null}", ""},
        {"{\"bos_token\": \"<s>\"}", ""},
        {"{", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text("model/tokenizer_config.json", cases[i].config);
        pl_chat_of_model(in_scratch("model"), name);
        assert_string_equal(name, cases[i].name);
    }
    write_text("model/chat_template.jinja", "<|im_start|>");
    pl_chat_of_model(in_scratch("model"), name);
    assert_string_equal(name, "chatml");
    assert_null(pl_chat_find("jinja"));
}

/* ---- answers ---- */
PL_TEST(answers_have_the_shape_of_a_chat)
{
    pl_token_score score = {.token = 5, .logprob = -0.5, .n_top = 1};
    score.top[0] = (pl_token_rank){.token = 5, .logprob = -0.5};
    pl_completion_choice choice = {.path = "p01",
                                   .text = "Hi",
                                   .text_len = 2,
                                   .scores = &score,
                                   .n_scores = 1,
                                   .scored = true,
                                   .first = true,
                                   .ended = true,
                                   .finish = PL_FINISH_STOP};
    pl_completion_answer a = {.id = 3,
                              .model = "p01",
                              .choices = &choice,
                              .n_choices = 1,
                              .chat = true,
                              .tokenizer = word_tokenizer};
    OWNED(pl_buf_destroy) pl_buf whole = {0}, chunk = {0};
    OWNED(pl_json_destroy) pl_json *o = NULL;
    assert_ok(pl_completion_write(&a, &whole));
    assert_ok(pl_json_parse(pl_buf_text(&whole), whole.len, &o));
    assert_string_equal(pl_json_get_text(o, "object"), "chat.completion");
    assert_string_equal(pl_json_get_text(o, "id"), "chatcmpl-3");
    const pl_json *first = pl_json_at(pl_json_get(o, "choices"), 0);
    const pl_json *message = pl_json_get(first, "message");
    assert_string_equal(pl_json_get_text(message, "role"), "assistant");
    assert_string_equal(pl_json_get_text(message, "content"), "Hi");
    const pl_json *token =
        pl_json_at(pl_json_get(pl_json_get(first, "logprobs"), "content"), 0);
    assert_true(pl_json_get_real(token, "logprob") == -0.5);
    assert_true(pl_json_count(pl_json_get(token, "bytes")) > 0);
    assert_int_equal(pl_json_count(pl_json_get(token, "top_logprobs")), 1);
    a.stream = true;
    choice.first = choice.ended = choice.scored = false;
    assert_ok(pl_completion_write(&a, &chunk));
    assert_non_null(strstr(pl_buf_text(&chunk), "\"chat.completion.chunk\""));
    assert_non_null(strstr(pl_buf_text(&chunk), "\"delta\":{\"content\":\"Hi\"}"));
    assert_non_null(strstr(pl_buf_text(&chunk), "\"finish_reason\":null"));
}

PL_SUITE(open_words, close_words)
