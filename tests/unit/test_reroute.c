/* folder: serve; label: unit */
#include "tests/support/pairs.h"
#include "tests/support/shape.h"
#include "tests/support/corpus_support.h"
#include "eval/eval.h"
#include "router/router.h"
#include "serve/pieces.h"
#include "serve/serve.h"
#include <math.h>

/* Tests the choice of a new path every few tokens, while text is generated. Three paths
 * have random parameters, so that their predictions differ. */
enum { VOCAB = 300, WIDTH = 24, CONTEXT = 96, PATHS = 3, PREFIX = 6, EVERY = 8 };
static pl_tokenizer *tokenizer;
static pl_topology *topology;
static pl_backend *backend;
static pl_model *models[PATHS];
static pl_decoder *decoders[PATHS];
/* The gate numbers the paths differently: path p has the number numbers[p] there. */
static pl_prefix_lm *gate;
static const int numbers[PATHS] = {2, 0, 1};

static float *path_params(int path)
{
    size_t n = pl_topology_path_params(topology);
    float *params = pl_alloc(n * sizeof *params);
    init_path(topology, (uint64_t)path + 5, params);
    for (size_t i = 0; i < n; ++i)
        params[i] *= 3.0f;
    return params;
}

static void open_path(int path)
{
    const pl_model_options options = {.batch = 1, .context = CONTEXT};
    OWNED(free_memory) float *params = path_params(path);
    assert_ok(pl_model_create(backend, topology, &options, &models[path]));
    assert_ok(pl_model_load(models[path], params));
    assert_ok(pl_decoder_create(models[path], 1, &decoders[path]));
}

/* Makes a gate that has read a text of each of its paths. */
static void open_gate(void)
{
    enum { TEXT = 1500 };
    int path_of[PATHS];
    OWNED(pl_buf_destroy) pl_buf lines = {0}, file = {0}, sources = {0};
    OWNED(pl_tokens_close) pl_tokens *tokens = NULL;
    for (int path = 0; path < PATHS; ++path) {
        OWNED(pl_buf_destroy) pl_buf words = {0};
        path_of[path] = path;
        make_words((uint64_t)path + 1, TEXT, &words);
        for (size_t i = 0; i < words.len; ++i)
            words.data[i] = words.data[i] < ' ' ? ' ' : words.data[i];
        pl_buf_printf(&lines, "{\"text\": \"%s\"}\n", pl_buf_text(&words));
    }
    write_bytes("texts.jsonl", lines.data, lines.len);
    assert_ok(pl_documents_encode(in_scratch("texts.jsonl"), NULL, tokenizer, &file,
                                  &sources));
    assert_ok(pl_tokens_view(file.data, file.len, "texts", &tokens));
    const pl_prefix_lm_job job = {
        .tokens = tokens, .length = TEXT, .n_paths = PATHS, .n_threads = 1};
    assert_ok(pl_prefix_lm_count(&job, path_of, &gate));
}

static int open_all(void **state)
{
    const pl_shape shape = SHAPE(VOCAB, WIDTH, 2, 2, 12, 32, 2, CONTEXT, .tied = true,
                                 .rope_theta = 100.0);
    pl_topology_spec spec = {.replicas = 1};
    assert_ok(make_words_tokenizer(state, WORDS_BYTES, VOCAB, &tokenizer));
    backend = open_side("ref", "f32", 1);
    assert_ok(pl_topology_parse_levels("3", &spec));
    assert_ok(pl_topology_create(&shape, &spec, &topology));
    for (int path = 0; path < PATHS; ++path)
        open_path(path);
    open_gate();
    return 0;
}

static int close_all(void **state)
{
    for (int path = 0; path < PATHS; ++path) {
        pl_decoder_destroy(&decoders[path]);
        pl_model_destroy(&models[path]);
    }
    pl_prefix_lm_destroy(&gate);
    pl_topology_destroy(&topology);
    pl_backend_close(&backend);
    pl_tokenizer_destroy(&tokenizer);
    return remove_scratch(state);
}

static pl_route_rule make_rule(int every, bool gated)
{
    return (pl_route_rule){.prefix = PREFIX,
                           .every = every,
                           .gate = gated ? gate : NULL,
                           .numbers = gated ? numbers : NULL};
}

static pl_rerouter make_rerouter(void)
{
    return (pl_rerouter){.decoders = decoders,
                         .n_paths = PATHS,
                         .rule = make_rule(EVERY, false),
                         .tokenizer = tokenizer,
                         .vocab = VOCAB,
                         .context = CONTEXT};
}

static pl_status hear(void *context, const char *text, size_t len)
{
    pl_buf_append(context, text, len);
    return PL_OK;
}

static int path_at(const pl_reroute_trace *trace, int token)
{
    int path = -1;
    for (int i = 0; i < trace->n && trace->spans[i].from <= token; ++i)
        path = trace->spans[i].path;
    return path;
}

/* Generates the same text again: for each token, a new decoder of the token's path
 * reads all earlier tokens. Fills text [CONTEXT + 1], and returns the number of its
 * tokens. */
static int write_again(const int32_t *prompt, int n_prompt,
                       const pl_generate_options *options, int n_tokens,
                       const pl_reroute_trace *trace, int32_t *text)
{
    float logits[VOCAB];
    OWNED(pl_chooser_destroy) pl_chooser *chooser;
    int n = n_prompt;
    memcpy(text, prompt, (size_t)n_prompt * sizeof *prompt);
    assert_ok(pl_chooser_create(pl_tokenizer_vocab(tokenizer), &chooser));
    for (; n < n_prompt + n_tokens; ++n) {
        OWNED(pl_decoder_destroy) pl_decoder *fresh;
        assert_ok(pl_decoder_create(models[path_at(trace, n)], 1, &fresh));
        assert_ok(pl_decoder_prefill(fresh, 0, text, n, logits));
        logits[PL_TOKEN_UNK] = logits[PL_TOKEN_BOS] = -INFINITY;
        assert_ok(
            pl_choose_token(chooser, logits, &options->choice, (uint64_t)n, &text[n]));
    }
    return n;
}

/* Appends the text that a generation with these tokens would give its caller. */
static void hear_tokens(const int32_t *tokens, int n, pl_buf *out)
{
    OWNED(pieces_destroy) pieces p = {.emit = hear, .context = out};
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    bool stopped;
    for (int i = 0; i < n && tokens[i] != PL_TOKEN_EOS; ++i) {
        pl_buf_clear(&bytes);
        assert_ok(pl_tokenizer_decode(tokenizer, tokens + i, 1, &bytes));
        assert_ok(pieces_add(&p, bytes.data, bytes.len, &stopped));
    }
    assert_ok(pieces_end(&p));
}

/* Computes the losses [PATHS, n - 1] of all paths on a text, as an evaluation does. */
static void score_text(const int32_t *text, int n, float *losses)
{
    for (int path = 0; path < PATHS; ++path)
        assert_ok(pl_model_losses(models[path], text, text + 1, 1, n - 1,
                                  losses + path * (n - 1)));
}

/* Returns how many tokens the paths must read because a gate changes the path. A path
 * that is chosen again reads the tokens that it has missed since it last wrote, except
 * the last one. */
static int count_missed(const pl_reroute_trace *trace)
{
    int length[PATHS] = {0}, n = 0;
    for (int i = 1; i < trace->n; ++i) {
        const int from = trace->spans[i].from, path = trace->spans[i].path;
        length[trace->spans[i - 1].path] = from - 1;
        n += from - 1 - length[path];
    }
    return n;
}

/* Compares the paths that a generation chooses with those that an evaluation of the
 * finished text chooses. The prompt has at most `prefix` tokens, so the paths of all
 * pieces are chosen during the generation. */
static void compare_with_evaluation(bool gated)
{
    int n_changes = 0;
    for (uint64_t seed = 0; seed < 12; ++seed) {
        const int32_t prompt[] = {PL_TOKEN_BOS, 40 + (int32_t)seed, 77, 91};
        /* The temperature is high so that paths change. At a low temperature a path
         * writes text that it finds likely itself, so it is chosen again. */
        const pl_generate_options options = {
            .max_tokens = 80, .choice = {.temperature = 20, .top_p = 1, .seed = seed}};
        pl_rerouter r = make_rerouter();
        r.rule = make_rule(EVERY, gated);
        pl_generate_result result;
        OWNED(pl_reroute_trace_clear) pl_reroute_trace trace;
        OWNED(pl_buf_destroy) pl_buf heard = {0}, again = {0};
        int32_t text[CONTEXT + 1];
        float losses[PATHS * CONTEXT], of_gate[PATHS * CONTEXT];
        pl_every_choice wanted;
        assert_ok(pl_reroute_generate(&r, prompt, 4, &options, hear, &heard, &result,
                                      &trace));
        int n = write_again(prompt, 4, &options, result.n_tokens, &trace, text);
        hear_tokens(text + 4, n - 4, &again);
        assert_string_equal(pl_buf_text(&heard), pl_buf_text(&again));
        score_text(text, n, losses);
        pl_prefix_lm_losses(gate, numbers, PATHS, text, n, of_gate, (size_t)n - 1);
        pl_route_document d = {.losses = losses,
                               .stride = (size_t)n - 1,
                               .n_paths = PATHS,
                               .n_targets = (uint32_t)n - 1,
                               .prefix = PREFIX,
                               .window = CONTEXT,
                               .gate = of_gate};
        pl_route_document by_gate = d;
        by_gate.losses = of_gate;
        pl_score ways[PL_ROUTE_COUNT];
        pl_likeliest likeliest;
        pl_route_choose(&by_gate, ways, &likeliest);
        d.router_path = likeliest.path;
        pl_route_choose(&d, ways, &likeliest);
        pl_route_every(&d, likeliest.path, EVERY, &wanted);
        const pl_every_way *way = gated ? &wanted.gate : &wanted.history;
        double nats = 0;
        uint64_t changes = 0;
        for (int t = PREFIX - 1; t < n - 1; ++t) {
            nats += (double)losses[path_at(&trace, t + 1) * (n - 1) + t];
            changes += t >= PREFIX && path_at(&trace, t + 1) != path_at(&trace, t);
        }
        assert_true(fabs(nats - way->score.nats) < 1e-4 * (1 + nats));
        assert_int_equal(changes, way->n_changes);
        assert_true(result.routing_seconds > 0);
        if (gated)
            assert_int_equal(result.n_routing, count_missed(&trace));
        n_changes += (int)changes;
    }
    assert_true(n_changes > 5);
}

PL_TEST(choices_are_those_of_evaluation)
{
    compare_with_evaluation(false);
}

PL_TEST(so_are_those_of_a_gate)
{
    compare_with_evaluation(true);
}

/* Shows that the text of a long prompt decides which path is first: the path is chosen
 * at the last border of pieces in the prompt. */
PL_TEST(a_long_prompt_is_evidence)
{
    enum { LONG = PREFIX + 3 * EVERY + 5 };
    int32_t prompt[LONG] = {PL_TOKEN_BOS};
    float losses[PATHS * LONG];
    double evidence[PATHS] = {0};
    for (int i = 1; i < LONG; ++i)
        prompt[i] = 3 + (i * 37) % 250;
    const pl_generate_options options = {.max_tokens = 2,
                                         .choice = pl_choice_defaults()};
    const pl_rerouter r = make_rerouter();
    pl_generate_result result;
    OWNED(pl_reroute_trace_clear) pl_reroute_trace trace;
    OWNED(pl_buf_destroy) pl_buf heard = {0};
    assert_ok(
        pl_reroute_generate(&r, prompt, LONG, &options, hear, &heard, &result, &trace));
    score_text(prompt, LONG, losses);
    pl_evidence_add(evidence, PATHS, PL_HISTORY_BEHIND, losses, LONG - 1,
                    PREFIX + 3 * EVERY - 1);
    assert_int_equal(trace.n, 1);
    assert_int_equal(trace.spans[0].from, LONG);
    assert_int_equal(trace.spans[0].path, pl_least_evidence(evidence, PATHS));
}

PL_TEST(a_path_that_is_chosen_once_writes_as_it_does_alone)
{
    const int32_t prompt[] = {PL_TOKEN_BOS, 50, 60, 70, 80, 90, 100, 110};
    const pl_generate_options options = {.max_tokens = 200,
                                         .choice = pl_choice_defaults()};
    pl_rerouter r = make_rerouter();
    pl_generate_result with, alone;
    OWNED(pl_reroute_trace_clear) pl_reroute_trace trace;
    OWNED(pl_buf_destroy) pl_buf heard = {0}, wanted = {0};
    r.rule.every = 1000;
    assert_ok(
        pl_reroute_generate(&r, prompt, 8, &options, hear, &heard, &with, &trace));
    assert_int_equal(trace.n, 1);
    const pl_generator g = {decoders[trace.spans[0].path], tokenizer, VOCAB, CONTEXT};
    assert_ok(pl_generate(&g, prompt, 8, &options, hear, &wanted, &alone));
    assert_string_equal(pl_buf_text(&heard), pl_buf_text(&wanted));
    assert_int_equal(with.n_tokens, alone.n_tokens);
    assert_int_equal(with.finish, alone.finish);
}

PL_TEST(a_prompt_without_a_token_is_refused)
{
    const int32_t prompt[CONTEXT + 1] = {PL_TOKEN_BOS};
    const pl_generate_options options = {.max_tokens = 1,
                                         .choice = pl_choice_defaults()};
    const pl_rerouter r = make_rerouter();
    pl_generate_result result;
    OWNED(pl_reroute_trace_clear) pl_reroute_trace trace;
    assert_fails(
        pl_reroute_generate(&r, prompt, 1, &options, hear, NULL, &result, &trace),
        PL_ERR_USAGE, "no token that could choose a path");
    pl_reroute_trace_clear(&trace);
    assert_int_equal(pl_reroute_generate(&r, prompt, CONTEXT + 1, &options, hear, NULL,
                                         &result, &trace),
                     PL_ERR_USAGE);
}

/* ---- in a batch ---- */
/* The three paths as tables of modules in a backend. In the first slot all paths have
 * the same module. */
enum { PATH_SLOTS = 3 };
typedef struct tables {
    pl_module *modules[PATHS][PATH_SLOTS];
    pl_path *paths[PATHS];
} tables;

static void open_tables(tables *t, pl_backend *be)
{
    memset(t, 0, sizeof *t);
    assert_int_equal(pl_topology_n_slots(topology), PATH_SLOTS);
    OWNED(free_memory) float *first = path_params(0);
    for (int path = 0; path < PATHS; ++path) {
        OWNED(free_memory) float *params = path_params(path);
        pl_module *of[PATH_SLOTS];
        for (int slot = 0; slot < PATH_SLOTS; ++slot) {
            const size_t at = pl_topology_slot(topology, slot)->offset;
            if (slot > 0 || path == 0)
                assert_ok(pl_module_create(be, topology, slot,
                                           (slot > 0 ? params : first) + at,
                                           &t->modules[path][slot]));
            of[slot] = t->modules[slot > 0 ? path : 0][slot];
        }
        assert_ok(pl_path_create(topology, of, &t->paths[path]));
    }
}

static void close_tables(tables *t)
{
    for (int path = 0; path < PATHS; ++path) {
        pl_path_destroy(&t->paths[path]);
        for (int slot = 0; slot < PATH_SLOTS; ++slot)
            pl_module_destroy(&t->modules[path][slot]);
    }
}

typedef struct asked {
    int n_prompt, every, path; /* every 0: only `path` is used */
    bool gated;
    uint64_t seed;
    int32_t prompt[CONTEXT];
    pl_buf text, spans;
    pl_generate_result result;
    pl_status status;
} asked;

static void on_moved(void *context, int from, int path)
{
    const pl_reroute_span span = {from, path};
    pl_buf_append(&((asked *)context)->spans, &span, sizeof span);
}

static pl_status on_text(void *context, const char *text, size_t len)
{
    pl_buf_append(&((asked *)context)->text, text, len);
    return PL_OK;
}

static void on_done(void *context, pl_status status, const pl_generate_result *result)
{
    ((asked *)context)->status = status;
    ((asked *)context)->result = *result;
}

static pl_generate_options options_of(const asked *a)
{
    return (pl_generate_options){
        .max_tokens = 45, .choice = {.temperature = 20, .top_p = 1, .seed = a->seed}};
}

static void join(pl_batch *batch, const tables *t, asked *a,
                 const pl_generate_options *options)
{
    const pl_path *paths[PATHS];
    for (int path = 0; path < PATHS; ++path)
        paths[path] = t->paths[path];
    const pl_batch_routes routes = {.paths = paths,
                                    .n_paths = PATHS,
                                    .rule = make_rule(a->every, a->gated),
                                    .moved = on_moved};
    const pl_batch_request q = {.prompt = a->prompt,
                                .n_prompt = a->n_prompt,
                                .path = a->every ? NULL : t->paths[a->path],
                                .routes = a->every ? &routes : NULL,
                                .options = options,
                                .emit = on_text,
                                .done = on_done,
                                .context = a};
    assert_ok(pl_batch_join(batch, &q));
}

/* Runs the same request with pl_reroute_generate, which must give the same result. */
static void expect_as_generate(pl_model *model, const tables *t, asked *a)
{
    pl_decoder *own[PATHS];
    pl_rerouter r = make_rerouter();
    const pl_generate_options options = options_of(a);
    pl_generate_result result;
    OWNED(pl_reroute_trace_clear) pl_reroute_trace trace;
    OWNED(pl_buf_destroy) pl_buf heard = {0};
    for (int path = 0; path < PATHS; ++path) {
        assert_ok(pl_decoder_create(model, 1, &own[path]));
        pl_decoder_use(own[path], 0, t->paths[path]);
    }
    r.decoders = own;
    r.rule = make_rule(a->every, a->gated);
    assert_ok(pl_reroute_generate(&r, a->prompt, a->n_prompt, &options, hear, &heard,
                                  &result, &trace));
    assert_ok(a->status);
    assert_string_equal(pl_buf_text(&a->text), pl_buf_text(&heard));
    assert_int_equal(a->result.n_tokens, result.n_tokens);
    assert_int_equal(a->result.finish, result.finish);
    assert_int_equal(a->result.n_routing, result.n_routing);
    if (!a->gated)
        assert_true(result.n_routing >= (PATHS - 1) * (a->n_prompt - 1));
    assert_int_equal(a->spans.len, (size_t)trace.n * sizeof *trace.spans);
    assert_memory_equal(a->spans.data, trace.spans, a->spans.len);
    for (int path = 0; path < PATHS; ++path)
        pl_decoder_destroy(&own[path]);
}

/* Runs six requests in a batch: four may change their paths (for two of them a gate
 * chooses), and two stay on one path. The batch has eleven slots, so the last requests
 * must wait for slots. Returns the number of spans (stretches of text by one path), or
 * -1 if this machine does not have the backend. */
static int check_batch(const char *name, const char *precision)
{
    enum { N = 6, PLACES = 11 };
    static asked list[N];
    pl_generate_options options[N];
    const pl_model_options size = {.batch = 1, .context = CONTEXT};
    pl_backend *b = open_side(name, precision, 1);
    pl_model *model;
    pl_batch *batch;
    tables t;
    int n_moves = 0;
    if (!b)
        return -1;
    open_tables(&t, b);
    assert_ok(pl_model_create(b, topology, &size, &model));
    assert_ok(pl_batch_create(model, tokenizer, VOCAB, CONTEXT, PLACES, &batch));
    memset(list, 0, sizeof list);
    for (int i = 0; i < N; ++i) {
        list[i].every = (const int[N]){EVERY, 0, 5, 0, EVERY, 7}[i];
        list[i].gated = i == 2 || i == 5;
        list[i].n_prompt = 4 + 9 * i;
        list[i].path = i % PATHS;
        list[i].seed = (uint64_t)i + 3;
        list[i].prompt[0] = PL_TOKEN_BOS;
        for (int k = 1; k < list[i].n_prompt; ++k)
            list[i].prompt[k] = 3 + (k * 37 + i * 11) % 250;
        options[i] = options_of(&list[i]);
        while (pl_batch_room(batch) < (list[i].every ? PATHS : 1))
            assert_ok(pl_batch_step(batch));
        join(batch, &t, &list[i], &options[i]);
        assert_ok(pl_batch_step(batch));
    }
    while (pl_batch_active(batch) > 0)
        assert_ok(pl_batch_step(batch));
    assert_int_equal(pl_batch_room(batch), PLACES);
    for (int i = 0; i < N; ++i) {
        if (list[i].every)
            expect_as_generate(model, &t, &list[i]);
        n_moves += (int)(list[i].spans.len / sizeof(pl_reroute_span));
        pl_buf_destroy(&list[i].text), pl_buf_destroy(&list[i].spans);
    }
    pl_batch_destroy(&batch);
    pl_model_destroy(&model);
    close_tables(&t);
    pl_backend_close(&b);
    return n_moves;
}

PL_TEST(a_request_of_a_batch_is_rerouted_as_alone)
{
    /* More than 8 spans are needed, so that changes of paths are tested. */
    assert_true(check_batch("ref", "f32") > 8);
    assert_true(check_batch("cpu", "f32") > 8);
    check_batch("cpu", "bf16");
    check_batch("cpu", "int8");
}

PL_TEST(a_batch_without_slots_for_all_paths_is_busy)
{
    asked a = {.n_prompt = 4, .every = 4, .prompt = {PL_TOKEN_BOS, 50, 60, 70}};
    const pl_generate_options options = options_of(&a);
    pl_generate_options echo = options;
    OWNED(pl_batch_destroy) pl_batch *batch;
    const pl_path *paths[PATHS] = {NULL};
    const pl_batch_routes routes = {
        .paths = paths, .n_paths = PATHS, .rule = make_rule(4, false)};
    pl_batch_request q = {.prompt = a.prompt,
                          .n_prompt = 4,
                          .routes = &routes,
                          .options = &options,
                          .emit = on_text,
                          .done = on_done,
                          .context = &a};
    assert_ok(pl_batch_create(models[0], tokenizer, VOCAB, CONTEXT, PATHS - 1, &batch));
    assert_int_equal(pl_batch_join(batch, &q), PL_ERR_BUSY);
    pl_batch_destroy(&batch);
    assert_ok(pl_batch_create(models[0], tokenizer, VOCAB, CONTEXT, PATHS, &batch));
    echo.prompt_scores = true;
    q.options = &echo;
    assert_int_equal(pl_batch_join(batch, &q), PL_ERR_USAGE);
    q.options = &options;
    q.n_prompt = 1;
    assert_int_equal(pl_batch_join(batch, &q), PL_ERR_USAGE);
    assert_int_equal(pl_batch_room(batch), PATHS);
}

PL_SUITE(open_all, close_all)
