/* folder: serve; label: unit */
#include "tests/support/pairs.h"
#include "tests/support/shape.h"
#include "tests/support/corpus_support.h"
#include "serve/serve.h"

/* A model that generates a fixed list of tokens, the script. Its blocks add nothing.
 * The embedding of the script's i-th token is the i-th unit vector, for which the head
 * gives the next token the highest logit. So a test can choose the output. */
enum { VOCAB = 400, WIDTH = 48, CONTEXT = 40 };
static pl_tokenizer *tokenizer;
static pl_topology *topology;
static pl_backend *backend;
static pl_model *model;
static pl_generator generator = {.vocab = VOCAB + 7, .context = CONTEXT};

static void open_model(int context)
{
    pl_shape shape = SHAPE(VOCAB + 7, WIDTH, 2, 2, 4, 8, 1, context, .tied = false,
                           .rope_theta = 100.0);
    pl_model_options options = {.batch = 1, .context = context};
    topology = one_path(&shape);
    assert_ok(pl_model_create(backend, topology, &options, &model));
    generator.context = context;
    assert_ok(pl_decoder_create(model, 1, &generator.decoder));
}

static void close_model(void)
{
    pl_decoder_destroy(&generator.decoder);
    pl_model_destroy(&model);
    pl_topology_destroy(&topology);
}

static int open_all(void **state)
{
    assert_ok(make_words_tokenizer(state, WORDS_BYTES, VOCAB, &tokenizer));
    backend = open_side("ref", "f32", 1);
    generator.tokenizer = tokenizer;
    open_model(CONTEXT);
    return 0;
}

static int close_all(void **state)
{
    close_model();
    pl_backend_close(&backend);
    pl_tokenizer_destroy(&tokenizer);
    return remove_scratch(state);
}

static float *find_tensor(float *params, const char *name)
{
    for (int i = 0; i < pl_topology_n_tensors(topology); ++i)
        if (strcmp(pl_topology_tensor(topology, i)->name, name) == 0)
            return params + pl_topology_tensor(topology, i)->offset;
    fail_msg("no tensor %s", name);
    return NULL;
}

/* All tokens of a script must differ, because each token determines the next one. */
static void teach(const int32_t *script, size_t n)
{
    OWNED(free_memory)
    float *params = calloc(pl_topology_path_params(topology), sizeof *params);
    float *embed = find_tensor(params, "model.embed_tokens.weight");
    float *head = find_tensor(params, "lm_head.weight");
    float *norm = find_tensor(params, "model.norm.weight");
    for (size_t c = 0; c < WIDTH; ++c)
        norm[c] = 1.0f;
    assert_true(n <= WIDTH);
    for (size_t i = 0; i < n; ++i) {
        embed[(size_t)script[i] * WIDTH + i] = 1.0f;
        if (i + 1 < n)
            head[(size_t)script[i + 1] * WIDTH + i] = 5.0f;
    }
    assert_ok(pl_model_load(model, params));
}

/* Teaches the model BOS, the tokens of a text, and EOS. */
static size_t teach_text(const char *text)
{
    OWNED(pl_buf_destroy) pl_buf script = {0};
    const int32_t bos = PL_TOKEN_BOS, eos = PL_TOKEN_EOS;
    pl_buf_append(&script, &bos, sizeof bos);
    assert_ok(pl_tokenizer_encode(tokenizer, text, strlen(text), &script));
    pl_buf_append(&script, &eos, sizeof eos);
    size_t n = script.len / sizeof bos;
    teach((const int32_t *)(const void *)script.data, n);
    return n;
}

/* text: the whole output; pieces: the same with '|' after each piece; refuse: the
 * number of the piece that hear refuses, counted from 1 (0: none). */
typedef struct heard {
    pl_buf text, pieces;
    int n_pieces, refuse;
} heard;

static pl_status hear(void *context, const char *text, size_t len)
{
    heard *h = context;
    assert_true(len > 0);
    if (++h->n_pieces == h->refuse)
        return pl_fail(PL_ERR_CANCELLED, "the listener has gone");
    pl_buf_append(&h->text, text, len);
    pl_buf_append(&h->pieces, text, len);
    pl_buf_append(&h->pieces, "|", 1);
    return PL_OK;
}

static void forget(heard *h)
{
    pl_buf_destroy(&h->text);
    pl_buf_destroy(&h->pieces);
}

static pl_generate_options greedy(int max_tokens)
{
    return (pl_generate_options){.max_tokens = max_tokens, .choice = {.top_p = 1.0}};
}

/* Generates text after BOS. The result must be `text`. */
static pl_generate_result expect_text(const pl_generate_options *options,
                                      const char *text)
{
    OWNED(forget) heard h = {0};
    pl_generate_result result;
    const int32_t prompt[] = {PL_TOKEN_BOS};
    assert_ok(pl_generate(&generator, prompt, 1, options, hear, &h, &result));
    assert_string_equal(pl_buf_text(&h.text), text);
    return result;
}

PL_TEST(a_text_comes_out_until_its_end)
{
    size_t n = teach_text("path loom");
    pl_generate_options options = greedy(100);
    pl_generate_result result = expect_text(&options, "path loom");
    assert_int_equal(result.n_tokens, n - 1); /* EOS counts, BOS does not */
    assert_int_equal(result.n_prompt, 1);
    assert_int_equal(result.finish, PL_FINISH_STOP);
    assert_string_equal(pl_finish_name(result.finish), "stop");
}

PL_TEST(characters_come_whole)
{
    OWNED(forget) heard h = {0};
    pl_generate_result result;
    const int32_t prompt[] = {PL_TOKEN_BOS};
    pl_generate_options options = greedy(100);
    size_t n = teach_text("\xc3\xa9\xf0\x9f\x98\x80\xe2\x82\xac");
    assert_int_equal(n, 2 + 9); /* one token per byte, and BOS and EOS */
    assert_ok(pl_generate(&generator, prompt, 1, &options, hear, &h, &result));
    assert_string_equal(pl_buf_text(&h.pieces),
                        "\xc3\xa9|\xf0\x9f\x98\x80|\xe2\x82\xac|");
}

PL_TEST(the_length_may_end_a_character)
{
    teach_text("lo\xf0\x9f\x98\x80");
    OWNED(pl_buf_destroy) pl_buf ids = {0};
    assert_ok(pl_tokenizer_encode(tokenizer, "lo", 2, &ids));
    pl_generate_options options = greedy((int)(ids.len / sizeof(int32_t)) + 3);
    pl_generate_result result = expect_text(&options, "lo\xef\xbf\xbd");
    assert_int_equal(result.finish, PL_FINISH_LENGTH);
    assert_string_equal(pl_finish_name(result.finish), "length");
    assert_int_equal(result.n_tokens, options.max_tokens);
}

/* Returns the token of a single byte. It is found by encoding characters that contain
 * this byte. */
static int32_t byte_token(uint8_t byte)
{
    static const char *const carriers[] = {"\xc3\xa9",     "\xf0\x9f\x98\x80",
                                           "\xe2\x82\xac", "\xed\x9f\xbf",
                                           "\xc2\xa0",     "\xef\xbf\xbd"};
    for (size_t i = 0; i < sizeof carriers / sizeof *carriers; ++i) {
        const char *at = strchr(carriers[i], (char)byte);
        OWNED(pl_buf_destroy) pl_buf ids = {0};
        int32_t token = -1;
        assert_ok(
            pl_tokenizer_encode(tokenizer, carriers[i], strlen(carriers[i]), &ids));
        if (at && ids.len == strlen(carriers[i]) * sizeof token)
            memcpy(&token, ids.data + (size_t)(at - carriers[i]) * sizeof token,
                   sizeof token);
        if (token >= 0)
            return token;
    }
    fail_msg("no token for byte %02x", byte);
    return -1;
}

static void teach_bytes(const char *bytes)
{
    int32_t script[WIDTH] = {PL_TOKEN_BOS};
    size_t n = strlen(bytes);
    for (size_t i = 0; i < n; ++i)
        script[1 + i] = byte_token((uint8_t)bytes[i]);
    script[1 + n] = PL_TOKEN_EOS;
    teach(script, n + 2);
}

PL_TEST(bytes_that_are_no_text_become_replacements)
{
    static const struct {
        const char *bytes, *text;
    } cases[] = {
        /* The two bytes are in the wrong order. */
        {"\xa9\xc3", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xf0\x9f\xc3\xa9", "\xef\xbf\xbd\xc3\xa9"}, /* cut off by a new first byte */
        {"\xed\xbf\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* a surrogate */
        /* Two first bytes follow each other. */
        {"\xc3\xe2\x82\xac", "\xef\xbf\xbd\xe2\x82\xac"},
        /* A longer encoding than necessary, cut off. */
        {"\xf0\x80\x98", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        pl_generate_options options = greedy(100);
        teach_bytes(cases[i].bytes);
        expect_text(&options, cases[i].text);
    }
}

PL_TEST(a_stop_text_ends_it_and_stays_out)
{
    static const struct {
        const char *stop, *second, *text;
    } cases[] = {{"loom", NULL, "path "},
                 {" l", NULL, "path"},
                 {"zzz", "m er", "path loo"},
                 {"om", "path", ""},
                 {"loomx", "path lo", ""},
                 /* The text ends with the beginning of a stop text. */
                 {"erx", "r!", "path loom er"}};
    teach_text("path loom er");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        pl_generate_options options = greedy(100);
        options.stop[0] = cases[i].stop;
        options.stop[1] = cases[i].second;
        pl_generate_result result = expect_text(&options, cases[i].text);
        assert_int_equal(result.finish, PL_FINISH_STOP);
    }
}

/* With a prompt of n tokens the model can generate context - n + 1 tokens, because the
 * last one needs no place in the context. */
PL_TEST(the_context_bounds_the_text)
{
    OWNED(forget) heard h = {0};
    int32_t prompt[CONTEXT + 1];
    pl_generate_result result;
    pl_generate_options options = greedy(1000);
    for (int i = 0; i < CONTEXT; ++i)
        prompt[i] = 3 + i;
    teach(prompt, CONTEXT); /* no token of the script follows the last one */
    prompt[CONTEXT] = 3;
    assert_ok(
        pl_generate(&generator, prompt, CONTEXT - 4, &options, hear, &h, &result));
    assert_int_equal(result.n_tokens, 5);
    assert_ok(pl_generate(&generator, prompt, CONTEXT, &options, hear, &h, &result));
    assert_int_equal(result.n_tokens, 1);
    assert_fails(
        pl_generate(&generator, prompt, CONTEXT + 1, &options, hear, &h, &result),
        PL_ERR_USAGE, "41 tokens");
}

PL_TEST(the_same_seed_says_the_same)
{
    const int32_t prompt[] = {PL_TOKEN_BOS};
    heard h[3] = {0};
    teach_text("path");
    for (int i = 0; i < 3; ++i) { /* with a high temperature */
        pl_generate_result result;
        pl_generate_options options = {
            .max_tokens = 30,
            .choice = {.temperature = 50.0, .top_p = 1.0, .seed = i == 2 ? 9 : 8}};
        assert_ok(pl_generate(&generator, prompt, 1, &options, hear, &h[i], &result));
    }
    assert_string_equal(pl_buf_text(&h[0].text), pl_buf_text(&h[1].text));
    assert_string_not_equal(pl_buf_text(&h[0].text), pl_buf_text(&h[2].text));
    for (int i = 0; i < 3; ++i)
        forget(&h[i]);
}

PL_TEST(a_listener_may_end_it)
{
    const int32_t prompt[] = {PL_TOKEN_BOS};
    OWNED(forget) heard h = {.refuse = 2};
    pl_generate_result result;
    pl_generate_options options = greedy(100);
    teach_text("path loom");
    assert_int_equal(pl_generate(&generator, prompt, 1, &options, hear, &h, &result),
                     PL_ERR_CANCELLED);
    assert_int_equal(h.n_pieces, 2);
}

PL_TEST(impossible_requests_are_refused)
{
    const int32_t prompt[] = {PL_TOKEN_BOS};
    OWNED(forget) heard h = {0};
    pl_generate_result result;
    pl_generate_options options = greedy(0);
    assert_fails(pl_generate(&generator, prompt, 1, &options, hear, &h, &result),
                 PL_ERR_USAGE, "max_tokens is 0");
    options = greedy(5);
    assert_int_equal(pl_generate(&generator, prompt, 0, &options, hear, &h, &result),
                     PL_ERR_USAGE);
    options.stop[0] = "";
    assert_int_equal(pl_generate(&generator, prompt, 1, &options, hear, &h, &result),
                     PL_ERR_USAGE);
    pl_generator small = generator;
    small.vocab = VOCAB - 1;
    options = greedy(5);
    assert_int_equal(pl_generate(&small, prompt, 1, &options, hear, &h, &result),
                     PL_ERR_CONFIG);
    assert_int_equal(h.n_pieces, 0);
}

/* ---- several requests at the same time ---- */

typedef struct guest {
    heard h;
    pl_status status;
    pl_generate_result result;
    int n_done;
} guest;

static pl_status hear_guest(void *context, const char *text, size_t len)
{
    return hear(&((guest *)context)->h, text, len);
}

static void say_goodbye(void *context, pl_status status, const pl_generate_result *r)
{
    guest *g = context;
    g->status = status;
    g->result = *r;
    g->n_done++;
}

static pl_batch_request asks(const int32_t *prompt, int n_prompt,
                             const pl_generate_options *options, guest *g)
{
    return (pl_batch_request){.prompt = prompt,
                              .n_prompt = n_prompt,
                              .options = options,
                              .emit = hear_guest,
                              .done = say_goodbye,
                              .context = g};
}

static pl_generate_options hot(int i)
{
    return (pl_generate_options){
        .max_tokens = 3 + 5 * i % 17,
        .choice = {.temperature = 30.0, .top_p = 1.0, .seed = (uint64_t)i}};
}

/* A request must get the same text in a batch as alone. Seven requests share three
 * places, and at most one joins before each step. The fifth request refuses its second
 * piece, which ends it. */
PL_TEST(guests_of_a_batch_hear_what_they_hear_alone)
{
    enum { GUESTS = 7, PLACES = 3 };
    const int32_t prompt[] = {PL_TOKEN_BOS, 5, 6, 7, 8};
    pl_generate_options options[GUESTS];
    guest guests[GUESTS] = {0};
    pl_batch *batch;
    int next = 0;
    teach_text("path loom");
    assert_ok(pl_batch_create(model, tokenizer, VOCAB + 7, CONTEXT, PLACES, &batch));
    while (next < GUESTS || pl_batch_active(batch) > 0) {
        if (next < GUESTS && pl_batch_room(batch) > 0) {
            guest *g = &guests[next];
            options[next] = hot(next);
            g->h.refuse = next == 4 ? 2 : 0;
            const pl_batch_request q = asks(prompt, 1 + next % 5, &options[next], g);
            assert_ok(pl_batch_join(batch, &q));
            next++;
        }
        assert_ok(pl_batch_step(batch));
    }
    pl_batch_destroy(&batch);
    for (int i = 0; i < GUESTS; ++i) {
        heard alone = {.refuse = guests[i].h.refuse};
        pl_generate_result result;
        pl_generate_options again = hot(i);
        assert_int_equal(
            pl_generate(&generator, prompt, 1 + i % 5, &again, hear, &alone, &result),
            guests[i].status);
        assert_int_equal(guests[i].n_done, 1);
        assert_string_equal(pl_buf_text(&guests[i].h.text), pl_buf_text(&alone.text));
        if (guests[i].status == PL_OK) {
            assert_int_equal(guests[i].result.n_tokens, result.n_tokens);
            assert_int_equal(guests[i].result.finish, result.finish);
        }
        forget(&alone), forget(&guests[i].h);
    }
    assert_int_equal(guests[4].status, PL_ERR_CANCELLED);
}

/* A long prompt must not delay other requests much. Reading the prompt of the second
 * request takes three steps. The first request gets a piece in each of these steps. The
 * third request has its first piece after them. */
PL_TEST(a_long_prompt_silences_nobody)
{
    enum { LONG = 1200 };
    int32_t prompt[LONG];
    guest guests[3] = {0};
    pl_batch *batch;
    pl_generate_options options = greedy(30);
    heard alone = {0};
    pl_generate_result result;
    for (int i = 0; i < LONG; i++)
        prompt[i] = 5 + i % 50;
    prompt[LONG - 1] = PL_TOKEN_BOS;
    close_model();
    open_model(LONG + 100);
    teach_text("several paths of one loom");
    assert_ok(pl_batch_create(model, tokenizer, VOCAB + 7, LONG + 100, 3, &batch));
    pl_batch_request q = asks(prompt + LONG - 1, 1, &options, &guests[0]);
    assert_ok(pl_batch_join(batch, &q));
    assert_ok(pl_batch_step(batch));
    q.prompt = prompt, q.n_prompt = LONG, q.context = &guests[1];
    assert_ok(pl_batch_join(batch, &q));
    q.prompt = prompt + LONG - 2, q.n_prompt = 2, q.context = &guests[2];
    assert_ok(pl_batch_join(batch, &q));
    for (int step = 1; step <= 3; step++) {
        const int before = guests[0].h.n_pieces;
        assert_int_equal(guests[1].h.n_pieces, 0);
        assert_int_equal(guests[2].h.n_pieces, 0);
        assert_ok(pl_batch_step(batch));
        assert_int_equal(guests[0].h.n_pieces, before + 1);
    }
    assert_true(guests[1].h.n_pieces > 0);
    assert_true(guests[2].h.n_pieces > 0);
    while (pl_batch_active(batch) > 0)
        assert_ok(pl_batch_step(batch));
    assert_ok(pl_generate(&generator, prompt, LONG, &options, hear, &alone, &result));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(guests[i].n_done, 1);
        assert_ok(guests[i].status);
        assert_string_equal(pl_buf_text(&guests[i].h.text), pl_buf_text(&alone.text));
        forget(&guests[i].h);
    }
    assert_int_equal(guests[1].result.n_prompt, LONG);
    assert_true(guests[1].result.prompt_seconds > 0);
    forget(&alone);
    pl_batch_destroy(&batch);
    close_model();
    open_model(CONTEXT);
}

static pl_status not_for_long(void *context)
{
    guest *g = context;
    g->h.refuse++;
    return g->h.refuse < 3 ? PL_OK : pl_fail(PL_ERR_CANCELLED, "the asker has gone");
}

/* A prompt must not be read further after its client has disconnected. Before each part
 * of the prompt the batch calls `wanted`. Before the third part, after 1024 tokens,
 * `wanted` returns an error. */
PL_TEST(who_leaves_is_not_read_to_the_end)
{
    enum { LONG = 1200 };
    int32_t prompt[LONG];
    guest g = {0};
    pl_batch *batch;
    pl_generate_options options = greedy(30);
    for (int i = 0; i < LONG; i++)
        prompt[i] = 5 + i % 50;
    close_model();
    open_model(LONG + 100);
    teach_text("path loom");
    assert_ok(pl_batch_create(model, tokenizer, VOCAB + 7, LONG + 100, 1, &batch));
    pl_batch_request q = asks(prompt, LONG, &options, &g);
    q.wanted = not_for_long;
    assert_ok(pl_batch_join(batch, &q));
    for (int step = 0; step < 3; step++) {
        assert_int_equal(g.n_done, 0);
        assert_ok(pl_batch_step(batch));
    }
    assert_int_equal(g.n_done, 1);
    assert_int_equal(g.status, PL_ERR_CANCELLED);
    assert_int_equal(g.result.n_prompt, 1024);
    assert_int_equal(pl_batch_active(batch), 0);
    pl_batch_destroy(&batch);
    forget(&g.h);
    close_model();
    open_model(CONTEXT);
}

PL_TEST(who_is_not_answered_yet_can_end)
{
    const int32_t prompt[] = {PL_TOKEN_BOS, VOCAB + 7};
    guest guests[2] = {0};
    pl_batch *batch;
    pl_generate_options options = greedy(30);
    teach_text("path loom");
    assert_ok(pl_batch_create(model, tokenizer, VOCAB + 7, CONTEXT, 2, &batch));
    pl_batch_request q = asks(prompt, 2, &options, &guests[0]);
    assert_ok(pl_batch_join(batch, &q));
    assert_ok(pl_batch_step(batch));
    assert_int_equal(guests[0].status, PL_ERR_DATA);
    assert_int_equal(pl_batch_active(batch), 0);
    q.n_prompt = 1, q.context = &guests[1];
    assert_ok(pl_batch_join(batch, &q));
    assert_int_equal(pl_batch_active(batch), 1);
    pl_batch_destroy(&batch);
    assert_int_equal(guests[1].status, PL_ERR_CANCELLED);
    assert_int_equal(guests[0].n_done + guests[1].n_done, 2);
    forget(&guests[0].h), forget(&guests[1].h);
}

PL_TEST(a_full_batch_takes_nobody_and_its_end_ends_all)
{
    const int32_t prompt[] = {PL_TOKEN_BOS};
    guest guests[2] = {0};
    pl_batch *batch;
    pl_generate_options options = greedy(100), wrong = greedy(0);
    teach_text("path loom is long");
    assert_ok(pl_batch_create(model, tokenizer, VOCAB + 7, CONTEXT, 1, &batch));
    pl_batch_request q = asks(prompt, 1, &wrong, &guests[0]);
    assert_int_equal(pl_batch_join(batch, &q), PL_ERR_USAGE);
    assert_int_equal(pl_batch_active(batch), 0);
    q.options = &options;
    assert_ok(pl_batch_join(batch, &q));
    q.context = &guests[1];
    assert_int_equal(pl_batch_join(batch, &q), PL_ERR_BUSY);
    assert_int_equal(guests[0].n_done, 0);
    pl_batch_destroy(&batch);
    assert_int_equal(guests[0].n_done, 1);
    assert_int_equal(guests[0].status, PL_ERR_CANCELLED);
    assert_int_equal(guests[1].n_done, 0);
    forget(&guests[0].h);
}

PL_SUITE(open_all, close_all)
