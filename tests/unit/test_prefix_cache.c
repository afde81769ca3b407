/* folder: serve; label: unit */
/* Tests prompts that a batch has read before. The answers must have the same bytes as
 * without the cache. */
#include "tests/support/word_model.h"

enum { VOCAB = WORD_VOCAB, CONTEXT = 1200, LONG = 1100, SLOTS = 3 };

/* Makes a prompt. The prompts of all kinds are equal up to token `from`. */
static void make_prompt(int32_t *prompt, int n, int kind, int from)
{
    prompt[0] = PL_TOKEN_BOS;
    for (int i = 1; i < n; i++)
        prompt[i] =
            3 + (i * 7 + i * i % 31 + (i >= from ? 11 * kind : 0)) % (VOCAB - 3);
}

typedef struct asked {
    /* Length and kind of the prompt, and the first token that depends on the kind. */
    int n, kind, from;
    uint64_t seed;
    int n_known; /* number of tokens that must be found in the cache */
    bool scored;
    uint64_t asker;
    told got;
} asked;

static pl_generate_options options_of(const asked *a)
{
    return (pl_generate_options){
        .max_tokens = 6,
        .scores = true,
        .prompt_scores = a->scored,
        .n_top = 3,
        .choice = {.temperature = 1.0, .top_p = 1.0, .seed = a->seed}};
}

static void join(pl_batch *batch, asked *a, const pl_generate_options *options)
{
    static int32_t prompt[CONTEXT];
    make_prompt(prompt, a->n, a->kind, a->from);
    pl_batch_request q = told_request(&a->got, prompt, a->n, options);
    q.asker = a->asker;
    assert_ok(pl_batch_join(batch, &q));
}

/* Runs the request in a new batch, which has not read any prompt. It must be told the
 * same. */
static void expect_as_alone(asked *a, const pl_generate_options *options)
{
    pl_batch *batch;
    asked alone = *a;
    alone.got = (told){0};
    assert_ok(pl_batch_create(model, word_tokenizer, VOCAB, CONTEXT, 1, &batch));
    join(batch, &alone, options);
    run_batch(batch);
    pl_batch_destroy(&batch);
    assert_ok(a->got.status);
    assert_int_equal(alone.got.result.n_known, 0);
    assert_int_equal(a->got.result.n_prompt, alone.got.result.n_prompt);
    assert_same_told(&a->got, &alone.got);
    told_clear(&alone.got);
}

/* Runs requests one after another, in a batch with three slots. */
static void check_answers(const char *name, const char *precision)
{
    asked list[] = {{LONG, 1, 900, .seed = 1, .n_known = 0},
                    {LONG, 1, 900, .seed = 2, .n_known = LONG}, /* the same prompt */
                    /* The first 900 tokens are the same. */
                    {LONG, 2, 900, .seed = 3, .n_known = 512},
                    /* The first prompt is still in the cache. */
                    {LONG, 1, 900, .seed = 4, .n_known = LONG},
                    /* The first 1024 tokens of that prompt. */
                    {1024, 1, 900, .seed = 5, .n_known = 512},
                    {LONG, 1, 900, .seed = 6, .n_known = 0, .scored = true},
                    {LONG, 3, 100, .seed = 7, .n_known = 0},
                    {40, 1, 90, .seed = 8, .n_known = 0},
                    {40, 1, 90, .seed = 9, .n_known = 40},
                    /* Of a different prompt, only whole pieces (512 tokens) are
                     * used. */
                    {41, 1, 90, .seed = 9, .n_known = 0},
                    {LONG, 3, 100, .seed = 7, .n_known = LONG}};
    pl_batch *batch;
    open_word_model(name, precision, CONTEXT);
    assert_ok(pl_batch_create(model, word_tokenizer, VOCAB, CONTEXT, SLOTS, &batch));
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        const pl_generate_options options = options_of(&list[i]);
        join(batch, &list[i], &options);
        run_batch(batch);
        if (list[i].got.result.n_known != list[i].n_known)
            fail_msg("%s %s: request %zu: %d tokens are known, not %d", name, precision,
                     i, list[i].got.result.n_known, list[i].n_known);
        expect_as_alone(&list[i], &options);
        told_clear(&list[i].got);
    }
    pl_batch_destroy(&batch);
    close_word_model();
}

PL_TEST(known_prompts_change_no_byte)
{
    check_answers("ref", "f32");
    check_answers("cpu", "f32");
    check_answers("cpu", "bf16");
    check_answers("cpu", "int8");
}

/* Shows that requests with the same prompt share what one of them has read. Two
 * requests join after the first one has taken 0 to 3 steps. They must copy what the
 * first one has read by then. */
PL_TEST(answers_to_one_prompt_share_its_reading)
{
    asked list[3];
    pl_generate_options options[3];
    pl_batch *batch;
    open_word_model("cpu", "f32", CONTEXT);
    for (int steps = 0; steps < 4; steps++) {
        memset(list, 0, sizeof list);
        assert_ok(
            pl_batch_create(model, word_tokenizer, VOCAB, CONTEXT, SLOTS, &batch));
        for (int i = 0; i < 3; i++) {
            list[i] = (asked){.n = LONG, .kind = 1, .from = 5, .seed = (uint64_t)i};
            options[i] = options_of(&list[i]);
            options[i].max_tokens = 20;
        }
        join(batch, &list[0], &options[0]);
        for (int s = 0; s < steps; s++)
            assert_ok(pl_batch_step(batch)); /* each step reads 512 tokens */
        join(batch, &list[1], &options[1]);
        join(batch, &list[2], &options[2]);
        run_batch(batch);
        pl_batch_destroy(&batch);
        for (int i = 0; i < 3; i++) {
            const int known[] = {0, 512, 1024, LONG};
            assert_int_equal(list[i].got.result.n_known, i == 0 ? 0 : known[steps]);
            expect_as_alone(&list[i], &options[i]);
            told_clear(&list[i].got);
        }
    }
    close_word_model();
}

/* Otherwise `cached_tokens`, or the time of an answer, would tell one client that
 * another one sent the same prompt. */
PL_TEST(prompts_of_one_client_are_not_known_to_another)
{
    pl_batch *batch;
    const uint64_t askers[] = {1, 2, 1, 0, 2};
    const int known[] = {0, 0, LONG, 0, LONG};
    open_word_model("cpu", "f32", CONTEXT);
    assert_ok(pl_batch_create(model, word_tokenizer, VOCAB, CONTEXT, SLOTS, &batch));
    for (int i = 0; i < 5; i++) {
        asked a = {.n = LONG, .kind = 1, .from = 5, .asker = askers[i]};
        const pl_generate_options options = options_of(&a);
        join(batch, &a, &options);
        run_batch(batch);
        assert_int_equal(a.got.result.n_known, known[i]);
        told_clear(&a.got);
    }
    pl_batch_destroy(&batch);
    close_word_model();
}

PL_SUITE(open_words, close_words)
