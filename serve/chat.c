/* Turns the messages of a conversation into a prompt (chat.h). */
#include "serve/chat.h"
#include "serve/serve.h"

enum { MESSAGES_MAX = 1024, MARKS_MAX = 5, STOPS_MAX = PL_STOPS - PL_STOP_MAX };

typedef enum chat_role { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT } chat_role;
static const char *const role_names[] = {"system", "user", "assistant"};

typedef struct chat_message {
    chat_role role;
    pl_buf text;
} chat_message;

typedef struct chat_request {
    const pl_chat_template *chat;
    pl_completion *completion; /* gets the values of the request's keys */
    chat_message *messages;
    int n;
    bool scores;
    int64_t n_top;
} chat_request;

struct pl_chat_template {
    const char *name;
    const char *marks[MARKS_MAX]; /* texts that no message may contain */
    const char *stops[STOPS_MAX]; /* texts that end an answer */
    /* writes the text of the prompt, in parts that a NUL divides: EOS and BOS are
     * inserted there */
    pl_status (*write)(const chat_request *q, pl_buf *out);
    /* for write_turns: texts before and after the role, after the message, and after
     * the last message */
    const char *turn[4];
};

/* ---- the templates ---- */
static void append_text(pl_buf *out, const pl_buf *text)
{
    pl_buf_append(out, text->data, text->len);
}

/* Writes each message between two texts, then the beginning of the answer. */
static pl_status write_turns(const chat_request *q, pl_buf *out)
{
    for (int i = 0; i < q->n; i++) {
        pl_buf_printf(out, "%s%s%s", q->chat->turn[0], role_names[q->messages[i].role],
                      q->chat->turn[1]);
        append_text(out, &q->messages[i].text);
        pl_buf_printf(out, "%s", q->chat->turn[2]);
    }
    pl_buf_printf(out, "%s", q->chat->turn[3]);
    return PL_OK;
}

/* Writes the messages for Llama 2. The system's message is put into the user's first
 * turn. */
static pl_status write_llama2(const chat_request *q, pl_buf *out)
{
    const int first = q->messages[0].role == CHAT_SYSTEM ? 1 : 0;
    for (int i = first; i < q->n; i++)
        if (q->messages[i].role != ((i - first) % 2 == 0 ? CHAT_USER : CHAT_ASSISTANT))
            return pl_fail(
                PL_ERR_USAGE,
                "`messages`: the template llama2 needs messages of user and assistant "
                "in turn, beginning with user, after at most one system message");
    if (q->n == first || (q->n - first) % 2 == 0)
        return pl_fail(PL_ERR_USAGE, "the last of `messages` must be from the user");
    for (int i = first; i < q->n; i++) {
        if (q->messages[i].role == CHAT_ASSISTANT) {
            pl_buf_printf(out, " ");
            append_text(out, &q->messages[i].text);
            pl_buf_append(out, " ", 2); /* with the NUL: this part ends */
            continue;
        }
        pl_buf_printf(out, "[INST] ");
        if (i == first && first == 1) {
            pl_buf_printf(out, "<<SYS>>\n");
            append_text(out, &q->messages[0].text);
            pl_buf_printf(out, "\n<</SYS>>\n\n");
        }
        append_text(out, &q->messages[i].text);
        pl_buf_printf(out, " [/INST]");
    }
    return PL_OK;
}

static const pl_chat_template templates[] = {
    {"chatml",
     {"<|im_start|>", "<|im_end|>"},
     {"<|im_end|>"},
     write_turns,
     {"<|im_start|>", "\n", "<|im_end|>\n", "<|im_start|>assistant\n"}},
    {"llama2",
     {"[INST]", "[/INST]", "<<SYS>>", "<</SYS>>"},
     {NULL},
     write_llama2,
     {NULL}},
    {"plain",
     {NULL},
     {"\nuser:", "\nsystem:"},
     write_turns,
     {"", ": ", "\n", "assistant:"}},
};
enum { N_TEMPLATES = sizeof templates / sizeof *templates };

const pl_chat_template *pl_chat_find(const char *name)
{
    for (int i = 0; i < N_TEMPLATES; i++)
        if (strcmp(templates[i].name, name) == 0)
            return &templates[i];
    return NULL;
}

const char *pl_chat_name(const pl_chat_template *chat)
{
    return chat->name;
}

/* ---- the template of an imported model ---- */
static void name_jinja(const char *text, char out[PL_CHAT_NAME_MAX])
{
    const char *name = strstr(text, "<|im_start|>")                        ? "chatml"
                       : strstr(text, "[INST]") && strstr(text, "<<SYS>>") ? "llama2"
                                                                           : "unknown";
    pl_copy_text(out, PL_CHAT_NAME_MAX, name);
}

void pl_chat_of_model(const char *folder, char out[PL_CHAT_NAME_MAX])
{
    char path[PL_PATH_MAX];
    pl_buf text = {0};
    pl_json *config = NULL;
    out[0] = '\0';
    if (pl_path_exists(pl_join(path, folder, "chat_template.jinja")) &&
        pl_read_file(path, &text) == PL_OK) {
        name_jinja(pl_buf_text(&text), out);
    } else if (pl_path_exists(pl_join(path, folder, "tokenizer_config.json")) &&
               pl_json_load(path, &config) == PL_OK) {
        const pl_json *value = pl_json_get(config, "chat_template");
        const char *jinja = pl_json_text(value, NULL);
        if (jinja)
            name_jinja(jinja, out);
        /* the file has several named templates; we do not choose among them */
        else if (pl_json_count(value) > 0)
            pl_copy_text(out, PL_CHAT_NAME_MAX, "unknown");
    }
    pl_json_destroy(&config);
    pl_buf_destroy(&text);
}

/* ---- messages ---- */
static pl_status append_content(const pl_json *value, pl_buf *out)
{
    size_t len = 0;
    const char *text = pl_json_text(value, &len);
    if (!text || strlen(text) != len)
        return pl_fail(PL_ERR_USAGE,
                       "`content` must be a text, or a list of parts with "
                       "\"type\": \"text\", without the character U+0000");
    pl_buf_append(out, text, len);
    return PL_OK;
}

static pl_status read_message(const pl_json *value, const pl_chat_template *chat,
                              chat_message *out)
{
    const char *role = pl_json_get_text(value, "role");
    int i = 0;
    if (!pl_json_is_object(value))
        return pl_fail(PL_ERR_USAGE, "each item of `messages` must be an object");
    if (strcmp(role, "developer") == 0) /* a newer name of `system` */
        role = role_names[CHAT_SYSTEM];
    while (i <= CHAT_ASSISTANT && strcmp(role_names[i], role) != 0)
        i++;
    if (i > CHAT_ASSISTANT)
        return pl_fail(PL_ERR_USAGE, "`role` must be system, user or assistant");
    out->role = (chat_role)i;
    for (const char *key = NULL; (key = pl_json_next_key(value, key));)
        if (strcmp(key, "role") != 0 && strcmp(key, "content") != 0 &&
            strcmp(key, "name") != 0)
            PL_CHECK(pl_completion_foreign_key(key, pl_json_get(value, key)));
    /* the content is a text, or a list of parts that must all be text */
    const pl_json *content = pl_json_get(value, "content");
    if (!pl_json_is_array(content))
        PL_CHECK(append_content(content, &out->text));
    for (size_t k = 0; k < pl_json_count(content); k++) {
        const pl_json *part = pl_json_at(content, k);
        const bool text = strcmp(pl_json_get_text(part, "type"), "text") == 0;
        PL_CHECK(append_content(text ? pl_json_get(part, "text") : NULL, &out->text));
    }
    for (int k = 0; k < MARKS_MAX && chat->marks[k]; k++)
        if (strstr(pl_buf_text(&out->text), chat->marks[k]))
            return pl_fail(PL_ERR_USAGE,
                           "`content` contains %s, which separates turns in the chat "
                           "template %s; leave it out",
                           chat->marks[k], chat->name);
    return PL_OK;
}

/* ---- the request ---- */
/* Parses a key of a chat request. The parser of completions parses the keys that have
 * the same form in /v1/completions. */
static pl_status read_chat_key(void *context, const char *key, const pl_json *value)
{
    static const char *const others[] = {"prompt", "echo", "best_of"};
    chat_request *q = context;
    if (pl_json_is_null(value))
        return PL_OK;
    if (strcmp(key, "messages") == 0) {
        const size_t n = pl_json_count(value);
        if (!pl_json_is_array(value) || n == 0 || n > MESSAGES_MAX)
            return pl_fail(PL_ERR_USAGE,
                           "`messages` must be a list of 1 to %d messages",
                           (int)MESSAGES_MAX);
        q->messages = pl_alloc(n * sizeof *q->messages);
        for (size_t i = 0; i < n; i++) {
            q->n++;
            PL_CHECK(read_message(pl_json_at(value, i), q->chat, &q->messages[i]));
        }
        return PL_OK;
    }
    if (strcmp(key, "max_completion_tokens") == 0)
        key = "max_tokens";
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(key, others[i]) == 0)
            return pl_fail(PL_ERR_USAGE,
                           "unknown key `%s`: only /v1/completions has it", key);
    if (strcmp(key, "logprobs") == 0)
        return pl_json_bool(value, &q->scores)
                   ? PL_OK
                   : pl_fail(PL_ERR_USAGE, "`logprobs` must be true or false");
    if (strcmp(key, "top_logprobs") == 0)
        return pl_json_int(value, &q->n_top) && q->n_top >= 0 && q->n_top <= PL_TOP_MAX
                   ? PL_OK
                   : pl_fail(PL_ERR_USAGE,
                             "`top_logprobs` must be a whole number from 0 to %d",
                             (int)PL_TOP_MAX);
    return pl_completion_read_key(key, value, q->completion);
}

pl_status pl_chat_parse(const pl_chat_template *chat, const pl_tokenizer *tokenizer,
                        const char *body, size_t len, pl_completion *out)
{
    chat_request q = {.chat = chat, .completion = out};
    pl_buf prompt = {0}, tokens = {0};
    pl_completion_defaults(out);
    out->chat = true;
    /* longer than any context, so an answer may fill the context */
    out->options.max_tokens = PL_TOKENS_MAX;
    pl_status status = PL_OK;
    PL_TRY(pl_completion_each_key(body, len, read_chat_key, &q));
    if (q.n == 0)
        PL_TRY(pl_fail(PL_ERR_USAGE, "`messages` must be given"));
    if (q.n_top > 0 && !q.scores)
        PL_TRY(pl_fail(PL_ERR_USAGE,
                       "`top_logprobs` needs `logprobs`; set `logprobs` to true"));
    out->logprobs = q.scores ? (int)q.n_top : -1;
    int at = 0;
    while (at < PL_STOP_MAX && out->options.stop[at])
        at++;
    for (int i = 0; i < STOPS_MAX && chat->stops[i]; i++)
        out->options.stop[at++] = pl_strdup(chat->stops[i]);
    PL_TRY(chat->write(&q, &prompt));
    /* a prompt of one part becomes a text; a prompt of several parts becomes tokens */
    const int32_t eos = PL_TOKEN_EOS;
    const char *part = pl_buf_text(&prompt), *end = part + prompt.len;
    pl_completion_prompt *to = out->prompts = pl_alloc(sizeof *out->prompts);
    out->n_prompts = 1;
    if (part + strlen(part) == end) {
        to->text = pl_strdup(part);
    } else {
        for (;; part += strlen(part) + 1) {
            PL_TRY(pl_prompt_encode(tokenizer, part, strlen(part), &tokens));
            if (part + strlen(part) == end)
                break;
            pl_buf_append(&tokens, &eos, sizeof eos);
        }
        to->tokens = pl_alloc(tokens.len);
        memcpy(to->tokens, tokens.data, tokens.len);
        to->n_tokens = pl_prompt_count(&tokens);
    }
    PL_TRY(pl_completion_check(out));
done:
    pl_buf_destroy(&tokens);
    pl_buf_destroy(&prompt);
    for (int i = 0; i < q.n; i++)
        pl_buf_destroy(&q.messages[i].text);
    pl_free(q.messages);
    return status;
}
