/* folder: serve; label: unit */
/* Tests the scores (log-probabilities) of tokens, penalties and biases. The model has
 * random weights. A batch must give scores that agree with the losses of the model. */
#include "tests/support/word_model.h"
#include <math.h>

enum { VOCAB = WORD_VOCAB, CONTEXT = 64, PROMPT = 20, TOP = 5 };
static int32_t prompt[CONTEXT];

static int open_all(void **state)
{
    prompt[0] = PL_TOKEN_BOS;
    for (int i = 1; i < CONTEXT; i++)
        prompt[i] = 3 + (i * i * 7 + i * 11) % (VOCAB - 3);
    open_word_model("ref", "f32", CONTEXT);
    return open_words(state);
}

static int close_all(void **state)
{
    close_word_model();
    return close_words(state);
}

/* ---- one score ---- */
PL_TEST(a_score_is_the_logarithm_of_a_softmax)
{
    const float logits[6] = {1.0f, 3.0f, -2.0f, 3.0f, -INFINITY, 2.5f};
    pl_token_score s;
    double sum = 0;
    for (int v = 0; v < 6; v++)
        sum += exp((double)logits[v]);
    assert_ok(pl_score_token(logits, 6, 0, 3, &s));
    assert_int_equal(s.token, 0);
    assert_true(fabs(s.logprob - (1.0 - log(sum))) < 1e-12);
    assert_int_equal(s.n_top, 3);
    /* Equally likely tokens are in the order of their numbers. */
    assert_int_equal(s.top[0].token, 1);
    assert_int_equal(s.top[1].token, 3);
    assert_int_equal(s.top[2].token, 5);
    assert_true(s.top[0].logprob == s.top[1].logprob);
    assert_ok(pl_score_token(logits, 6, 3, 0, &s));
    assert_int_equal(s.n_top, 0);
    /* Asks for more tokens than there are. */
    assert_ok(pl_score_token(logits, 6, 1, 20, &s));
    assert_int_equal(s.n_top, 6);
    assert_int_equal(s.top[5].token, 4);
    assert_true(s.logprob == s.top[0].logprob);
    const float none[2] = {-INFINITY, -INFINITY}, bad[2] = {NAN, 0};
    assert_int_equal(pl_score_token(none, 2, 0, 1, &s), PL_ERR_NUMERIC);
    assert_int_equal(pl_score_token(bad, 2, 0, 1, &s), PL_ERR_NUMERIC);
}

/* ---- requests ---- */
static const pl_token_score *scores_of(const told *t, size_t *n)
{
    *n = t->scores.len / sizeof(pl_token_score);
    return (const pl_token_score *)(const void *)t->scores.data;
}

static pl_generate_options asking(int i)
{
    return (pl_generate_options){.max_tokens = 4 + i,
                                 .scores = true,
                                 .prompt_scores = i % 2 == 0,
                                 .n_top = TOP,
                                 .frequency_penalty = i == 3 ? 1.5 : 0,
                                 .choice = {.temperature = i > 1 ? 1.0 : 0.0,
                                            .top_p = 1.0,
                                            .seed = (uint64_t)i}};
}

static void join(pl_batch *batch, int n_prompt, const pl_generate_options *options,
                 told *t)
{
    const pl_batch_request q = told_request(t, prompt, n_prompt, options);
    assert_ok(pl_batch_join(batch, &q));
}

static void ask_alone(int n_slots, int n_prompt, const pl_generate_options *options,
                      told *t)
{
    pl_batch *batch;
    memset(t, 0, sizeof *t);
    assert_ok(pl_batch_create(model, word_tokenizer, VOCAB, CONTEXT, n_slots, &batch));
    join(batch, n_prompt, options, t);
    run_batch(batch);
    pl_batch_destroy(&batch);
    assert_int_equal(t->n_done, 1);
    assert_ok(t->status);
}

/* The scores of a prompt's tokens must be the negative losses of the model. With
 * max_tokens 0 there are only these scores, with 1 there is one more. A request without
 * prompt_scores must not have max_tokens 0. */
PL_TEST(scores_of_a_prompt_are_the_losses_of_the_model)
{
    float losses[PROMPT - 1];
    size_t n = 0;
    told t;
    pl_generate_options options = asking(0);
    assert_ok(pl_model_losses(model, prompt, prompt + 1, 1, PROMPT - 1, losses));
    for (int max_tokens = 0; max_tokens < 2; max_tokens++) {
        options.max_tokens = max_tokens;
        ask_alone(3, PROMPT, &options, &t);
        const pl_token_score *scores = scores_of(&t, &n);
        assert_int_equal(n, PROMPT + max_tokens);
        assert_true(isnan(scores[0].logprob));
        assert_int_equal(scores[0].n_top, 0);
        for (int i = 1; i < PROMPT; i++) {
            assert_int_equal(scores[i].token, prompt[i]);
            assert_true(fabs(scores[i].logprob + (double)losses[i - 1]) < 1e-5);
            assert_int_equal(scores[i].n_top, TOP);
            assert_true(scores[i].logprob <= scores[i].top[0].logprob);
        }
        assert_int_equal(t.result.n_tokens, max_tokens);
        assert_int_equal(t.result.n_prompt, PROMPT);
        assert_int_equal(t.result.finish, PL_FINISH_LENGTH);
        told_clear(&t);
    }
    options.prompt_scores = false;
    options.max_tokens = 0;
    OWNED(pl_batch_destroy) pl_batch *batch;
    assert_ok(pl_batch_create(model, word_tokenizer, VOCAB, CONTEXT, 1, &batch));
    const pl_batch_request q = told_request(&t, prompt, PROMPT, &options);
    assert_int_equal(pl_batch_join(batch, &q), PL_ERR_USAGE);
}

PL_TEST(an_answer_scores_as_it_does_in_a_prompt)
{
    OWNED(told_clear) told t, again;
    size_t n = 0, m = 0;
    int32_t kept[CONTEXT];
    pl_generate_options options = asking(0);
    options.max_tokens = 8;
    ask_alone(1, PROMPT, &options, &t);
    const pl_token_score *scores = scores_of(&t, &n);
    assert_int_equal(n, PROMPT + t.result.n_tokens);
    memcpy(kept, prompt, sizeof kept);
    for (size_t i = PROMPT; i < n; i++) {
        /* The likeliest token was chosen. */
        assert_int_equal(scores[i].token, scores[i].top[0].token);
        prompt[i] = scores[i].token;
    }
    options.max_tokens = 0;
    ask_alone(2, (int)n, &options, &again);
    const pl_token_score *read = scores_of(&again, &m);
    assert_int_equal(m, n);
    for (size_t i = 1; i < n; i++)
        assert_true(fabs(read[i].logprob - scores[i].logprob) < 1e-5);
    memcpy(prompt, kept, sizeof kept);
}

/* A request must get the same bytes of text and scores alone as together with other
 * requests. */
static void check_company(const char *name, const char *precision)
{
    enum { GUESTS = 6 };
    pl_batch *batch;
    told guests[GUESTS] = {0};
    pl_generate_options options[GUESTS];
    int next = 0;
    close_word_model();
    open_word_model(name, precision, CONTEXT);
    assert_ok(pl_batch_create(model, word_tokenizer, VOCAB, CONTEXT, 4, &batch));
    while (next < GUESTS || pl_batch_active(batch) > 0) {
        if (next < GUESTS && pl_batch_room(batch) > 0) {
            options[next] = asking(next);
            join(batch, PROMPT + next, &options[next], &guests[next]);
            next++;
        }
        assert_ok(pl_batch_step(batch));
    }
    pl_batch_destroy(&batch);
    for (int i = 0; i < GUESTS; i++) {
        told alone;
        ask_alone(1, PROMPT + i, &options[i], &alone);
        assert_int_equal(guests[i].n_done, 1);
        assert_same_told(&guests[i], &alone);
        told_clear(&guests[i]), told_clear(&alone);
    }
    close_word_model();
    open_word_model("ref", "f32", CONTEXT);
}

PL_TEST(scores_are_the_same_in_any_company)
{
    check_company("ref", "f32");
    check_company("cpu", "f32");
    check_company("cpu", "bf16");
}

/* ---- options that change logits ---- */
PL_TEST(a_bias_forces_and_forbids)
{
    told t, other;
    size_t n = 0;
    pl_logit_bias bias = {.token = 17, .bias = 100.0f};
    pl_generate_options options = asking(1);
    ask_alone(1, PROMPT, &options, &other);
    const int32_t first = scores_of(&other, &n)[0].token;
    options.bias = &bias;
    options.n_bias = 1;
    ask_alone(1, PROMPT, &options, &t);
    const pl_token_score *scores = scores_of(&t, &n);
    assert_int_equal(n, 5);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(scores[i].token, 17);
    /* The score is the probability that the model gives without the bias. */
    assert_int_equal(scores[0].top[0].token, first);
    assert_true(scores[0].logprob < scores[0].top[0].logprob);
    told_clear(&t);
    bias = (pl_logit_bias){.token = first, .bias = -100.0f};
    ask_alone(1, PROMPT, &options, &t);
    assert_int_not_equal(scores_of(&t, &n)[0].token, first);
    told_clear(&t), told_clear(&other);
    bias.token = VOCAB;
    OWNED(pl_batch_destroy) pl_batch *batch;
    assert_ok(pl_batch_create(model, word_tokenizer, VOCAB, CONTEXT, 1, &batch));
    pl_batch_request q = told_request(&t, prompt, PROMPT, &options);
    q.score = NULL;
    assert_fails(pl_batch_join(batch, &q), PL_ERR_USAGE, "logit_bias");
}

/* With a bias of 50 for token 17, all five tokens of the answer are token 17. A
 * frequency penalty of 30 is subtracted for each earlier choice, so token 17 is chosen
 * only twice. A presence penalty of 30 is subtracted only once: nothing changes. */
PL_TEST(penalties_count_what_was_chosen)
{
    static const struct {
        double presence, frequency;
        int times;
    } cases[] = {{0, 0, 5}, {0, 30, 2}, {30, 0, 5}, {100, 0, 1}, {0, 100, 1}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        pl_logit_bias bias = {.token = 17, .bias = 50.0f};
        pl_generate_options options = asking(1);
        int times = 0;
        size_t n = 0;
        OWNED(told_clear) told t;
        options.bias = &bias;
        options.n_bias = 1;
        options.presence_penalty = cases[c].presence;
        options.frequency_penalty = cases[c].frequency;
        ask_alone(1, PROMPT, &options, &t);
        const pl_token_score *scores = scores_of(&t, &n);
        for (size_t i = 0; i < n; i++)
            times += scores[i].token == 17;
        assert_int_equal(times, cases[c].times);
    }
}

PL_SUITE(open_all, close_all)
