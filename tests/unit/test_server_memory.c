/* folder: serve; label: unit */
/* Tests a server whose modules do not all fit into its memory. Every request must be
 * answered, however many other requests ask for paths that are in memory. */
#include "tests/support/word_model.h"
#include "router/router.h"
#include "serve/serve.h"
#include "serve/server_internal.h"
#include "serve/server_paths.h"

enum { CONTEXT = 64, SLOTS = 8, DOCUMENTS = 2, STAY_MS = 1000 };
static pl_mixture mix;

/* Stores the router that every server reads. It is fitted to a few documents. */
static void put_router(void)
{
    const uint32_t lens[DOCUMENTS] = {9, 9};
    const int path_of[DOCUMENTS] = {0, 3};
    OWNED(pl_buf_destroy) pl_buf text = {0}, router = {0};
    OWNED(pl_tokens_close) pl_tokens *tokens;
    OWNED(pl_prefix_lm_destroy) pl_prefix_lm *lm;
    pl_txn *txn;
    pl_hash blob;
    build_tokens(lens, DOCUMENTS, WORD_VOCAB, &text);
    assert_ok(pl_tokens_view(text.data, text.len, "documents", &tokens));
    const pl_prefix_lm_job job = {
        .tokens = tokens, .length = 8, .n_paths = 4, .n_threads = 1};
    assert_ok(pl_prefix_lm_count(&job, path_of, &lm));
    assert_ok(pl_prefix_lm_encode(lm, &router));
    assert_ok(pl_txn_begin(mix.store, &txn));
    assert_ok(pl_txn_put_blob(txn, router.data, router.len, &blob));
    assert_ok(pl_txn_put_object(txn, "router/mix", &blob));
    assert_ok(pl_txn_commit(&txn));
}

static int open_all(void **state)
{
    mix.settings = (pl_answer_settings){
        .backend = "ref", .precision = "f32", .rule = "router", .prefix = 8};
    if (!open_word_mixture(state, &mix, CONTEXT))
        return -1;
    put_router();
    return 0;
}

static int close_all(void **state)
{
    return close_word_mixture(state, &mix);
}

/* ---- requests ---- */
typedef struct client {
    server_paths *server;
    int path, n_answers;
    bool asks_on; /* after an answer it sends a new request immediately */
    bool joined;
    pl_buf text;
} client;

static pl_status on_text(void *context, const char *text, size_t len)
{
    client *c = context;
    if (!c->asks_on)
        pl_buf_append(&c->text, text, len);
    return PL_OK;
}

static void on_done(void *context, pl_status status, const pl_generate_result *r)
{
    client *c = context;
    (void)r;
    assert_ok(status);
    c->n_answers++;
    c->joined = false;
}

static void join(client *c)
{
    static const int32_t prompt[] = {PL_TOKEN_BOS, 5, 6, 7};
    static const pl_generate_options options = {
        .max_tokens = 12, .choice = {.temperature = 1.0, .top_p = 1.0, .seed = 5}};
    pl_batch_request q = {.prompt = prompt,
                          .n_prompt = 4,
                          .options = &options,
                          .emit = on_text,
                          .done = on_done,
                          .context = c};
    bool waits = false;
    if (c->joined || (!c->asks_on && c->n_answers > 0))
        return;
    assert_ok(server_paths_join(c->server, c->path, &q, &waits));
    c->joined = !waits;
}

static void finish(server_paths *server)
{
    while (server_paths_active(server) > 0)
        (void)server_paths_step(server);
}

static server_paths *open_server(uint64_t module_bytes)
{
    static pl_server_options options;
    server_paths *server;
    options = (pl_server_options){
        .mix = &mix, .threads = 1, .slots = SLOTS, .module_bytes = module_bytes};
    assert_ok(server_paths_open(&options, &server));
    return server;
}

static uint64_t path_bytes(void)
{
    const pl_backend_options options = {.name = "ref", .n_threads = 1};
    OWNED(pl_backend_close) pl_backend *be;
    assert_ok(pl_backend_open(&options, &be));
    return pl_path_bytes(be, mix.topology);
}

/* A path that is always in use must make room for another path. There is memory for
 * only one path. Two clients of p00 send one request after another without a pause, so
 * p00 always has a request when a client asks for p11. */
PL_TEST(a_path_in_steady_use_makes_room_for_another)
{
    OWNED(server_paths_close) server_paths *server = open_server(path_bytes());
    client first = {.server = server, .asks_on = true}, second = first,
           other = {.server = server, .path = 3};
    const int64_t start = pl_now_ms();
    join(&first);
    for (int step = 0; other.n_answers == 0; step++) {
        if (pl_now_ms() - start > 20 * STAY_MS)
            fail_msg("p11 waits while p00 gives %d answers",
                     first.n_answers + second.n_answers);
        if (step > 2)
            join(&other); /* the request is ahead of the others in the queue */
        join(&first);
        if (step > 1)
            join(&second);
        (void)server_paths_step(server);
        assert_true(server_paths_modules(server).bytes <= path_bytes());
    }
    first.asks_on = second.asks_on = false;
    finish(server);
    pl_buf_destroy(&other.text);
}

/* Modules that no path uses must make room for a path. When a module of p00 gets a new
 * version, p00 is closed. Its other modules stay in memory for paths that are opened
 * later, until p11 needs their memory. */
PL_TEST(kept_modules_make_room_for_another_path)
{
    OWNED(server_paths_close) server_paths *server = open_server(path_bytes());
    client first = {.server = server}, other = {.server = server, .path = 3};
    join(&first);
    finish(server);
    put_word_module(&mix, pl_topology_module_of_path(mix.topology, 2, 0), 1, 8);
    assert_ok(server_paths_reload(server));
    (void)server_paths_step(server);
    assert_int_equal(server_paths_loaded(server), 0);
    assert_true(server_paths_modules(server).n_modules > 0);
    join(&other);
    assert_true(other.joined);
    assert_true(server_paths_modules(server).bytes <= path_bytes());
    finish(server);
    pl_buf_destroy(&first.text), pl_buf_destroy(&other.text);
}

/* Sends a request for a path to a server that has no other requests. */
static void ask_alone(int path, pl_buf *text)
{
    OWNED(server_paths_close) server_paths *server = open_server(0);
    client c = {.server = server, .path = path};
    join(&c);
    finish(server);
    *text = c.text;
}

/* p00 and p01 share a module, which gets a new version while both paths answer. These
 * answers must keep the old version. Later requests, which run at the same time, must
 * use the new version. */
PL_TEST(an_answer_keeps_the_versions_with_which_it_began)
{
    const int shared = pl_topology_module_of_path(mix.topology, 1, 0);
    pl_buf before[2] = {{0}}, after[2] = {{0}};
    OWNED(server_paths_close) server_paths *server = open_server(0);
    client first[2] = {{.server = server}, {.server = server, .path = 1}};
    client later[2] = {first[0], first[1]};
    for (int i = 0; i < 2; i++) {
        ask_alone(i, &before[i]);
        join(&first[i]);
    }
    for (int i = 0; i < 3; i++)
        (void)server_paths_step(server);
    const int n_modules = server_paths_modules(server).n_modules;
    put_word_module(&mix, shared, 1, 9);
    assert_ok(server_paths_reload(server));
    for (int i = 0; i < 2; i++) {
        ask_alone(i, &after[i]);
        join(&later[i]);
    }
    assert_int_equal(server_paths_modules(server).n_modules, n_modules + 1);
    finish(server);
    (void)server_paths_step(server); /* drops the paths with old versions */
    assert_int_equal(server_paths_modules(server).n_modules, n_modules);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(pl_buf_text(&first[i].text), pl_buf_text(&before[i]));
        assert_string_equal(pl_buf_text(&later[i].text), pl_buf_text(&after[i]));
        assert_string_not_equal(pl_buf_text(&before[i]), pl_buf_text(&after[i]));
        pl_buf_destroy(&first[i].text), pl_buf_destroy(&before[i]);
        pl_buf_destroy(&later[i].text), pl_buf_destroy(&after[i]);
    }
}

/* /slots of a server that has ended would wait for ever, and so would its front. */
PL_TEST(a_server_that_has_ended_takes_no_questions)
{
    const pl_server_options options = {.mix = &mix, .threads = 1, .slots = SLOTS};
    volatile sig_atomic_t stop = 1, reload = 0;
    server_job *job = NULL;
    OWNED(pl_server_close) pl_server *server;
    assert_ok(pl_server_open(&options, &server));
    assert_ok(server_ask_slots(server, &job)); /* answered when the server runs */
    assert_ok(pl_server_run(server, &stop, &reload));
    server_job_release(&job);
    assert_int_equal(server_ask_slots(server, &job), PL_ERR_BUSY);
    assert_null(job);
}

/* ---- memory of answers ---- */
static server_job *submit(pl_server *server, const char *prompt, pl_completion c)
{
    server_job *job = NULL;
    c.n_prompts = 1;
    c.prompts = pl_alloc(sizeof *c.prompts);
    c.prompts[0].text = pl_strdup(prompt);
    c.logprobs = 20;
    c.options.choice.top_p = 1.0;
    pl_copy_text(c.model, sizeof c.model, "p00");
    assert_ok(server_submit(server, SERVER_COMPLETION, &c,
                            (server_asker){.address = 1, .user = ""}, &job));
    return job;
}

/* The 128 answers to each request count as 48 MiB, because they begin with the prompt,
 * which could fill the context. So there is room for five requests of one address. */
PL_TEST(a_request_waits_until_earlier_answers_to_its_address_are_sent)
{
    enum { JOBS = 6 };
    const pl_completion large = {.n = 128, .echo = true, .options = {.max_tokens = 1}};
    const pl_server_options options = {
        .mix = &mix, .threads = 1, .slots = SLOTS, .queue = JOBS, .timeout_s = 600};
    volatile sig_atomic_t stop = 1, reload = 0;
    server_job *jobs[JOBS];
    OWNED(pl_server_close) pl_server *server;
    assert_ok(pl_server_open(&options, &server));
    for (int i = 0; i < JOBS; i++)
        jobs[i] = submit(server, "a", large);
    assert_ok(pl_server_run(server, &stop, &reload));
    for (int i = 0; i < JOBS; i++)
        assert_int_equal(jobs[i]->n_ended, i < JOBS - 1 ? jobs[i]->n_parts : 0);
    server_job_release(&jobs[0]);
    assert_ok(pl_server_run(server, &stop, &reload));
    assert_int_equal(jobs[JOBS - 1]->n_ended, jobs[JOBS - 1]->n_parts);
    assert_ok(jobs[JOBS - 1]->status);
    for (int i = 1; i < JOBS; i++)
        server_job_release(&jobs[i]);
}

PL_TEST(a_long_prompt_leaves_little_room_for_its_answer)
{
    static const char *const prompts[2] = {
        "a", "a text that has at least some tokens, but how many?"};
    const pl_server_options options = {
        .mix = &mix, .threads = 1, .slots = SLOTS, .queue = 2, .timeout_s = 600};
    volatile sig_atomic_t stop = 1, reload = 0;
    server_job *jobs[2];
    int64_t room[2];
    OWNED(pl_server_close) pl_server *server;
    assert_ok(pl_server_open(&options, &server));
    for (int i = 0; i < 2; i++)
        jobs[i] = submit(server, prompts[i],
                         (pl_completion){.n = 1, .options = {.max_tokens = CONTEXT}});
    assert_ok(pl_server_run(server, &stop, &reload));
    for (int i = 0; i < 2; i++)
        room[i] = CONTEXT - (int64_t)(jobs[i]->prompts[0].tokens.len / sizeof(int32_t));
    assert_in_range(room[1], 1, room[0] - 1);
    assert_int_equal(jobs[0]->answer_bytes * room[1], jobs[1]->answer_bytes * room[0]);
    assert_true(jobs[0]->answer_bytes > 0);
    for (int i = 0; i < 2; i++)
        server_job_release(&jobs[i]);
}

PL_SUITE(open_all, close_all)
