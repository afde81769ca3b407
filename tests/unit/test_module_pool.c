/* folder: serve; label: unit */
/* Tests that a module is in memory once, even if several paths use it. Requests for
 * several paths in one batch must get the same bytes as in a batch of their own. */
#include "tests/support/pairs.h"
#include "tests/support/word_model.h"

enum { CONTEXT = 600, LONG = 560, SLOTS = 8, PATHS = 4 };
static pl_mixture mix;

/* ---- a store ---- */
static int open_all(void **state)
{
    mix.arm.spec.private_block[3] = true;
    return open_word_mixture(state, &mix, CONTEXT) ? 0 : -1;
}

static int close_all(void **state)
{
    return close_word_mixture(state, &mix);
}

static pl_pooled_path *open_path(pl_module_pool *pool, int path)
{
    pl_pooled_path *out;
    const pl_path_source source = {&mix.arm, mix.topology, path, {.best = false}};
    assert_ok(pl_module_pool_open(pool, &source, &out));
    return out;
}

/* ---- memory ---- */
/* Returns how many bytes the backend needs for the modules of the paths p with
 * paths[p]. A module that several paths use counts once. *n_modules becomes the number
 * of modules. */
static uint64_t bytes_of(const pl_backend *be, const bool *paths, int *n_modules)
{
    uint64_t bytes = 0;
    *n_modules = 0;
    for (int m = 0; m < pl_topology_n_modules(mix.topology); m++) {
        bool used = false;
        for (int p = 0; p < PATHS; p++)
            used |= paths[p] && pl_topology_path_has(mix.topology, p, m);
        if (used) {
            bytes += pl_module_bytes(be, mix.topology,
                                     pl_topology_module_slot(mix.topology, m));
            ++*n_modules;
        }
    }
    return bytes;
}

static void expect_paths(const pl_module_pool *pool, const pl_backend *be,
                         const bool *paths, uint64_t n_read)
{
    int n_modules;
    const uint64_t bytes = bytes_of(be, paths, &n_modules);
    const pl_pool_counts c = pl_module_pool_count(pool);
    assert_int_equal(c.n_modules, n_modules);
    assert_int_equal(c.bytes, bytes);
    assert_int_equal(c.n_read, n_read);
}

static void check_memory(const char *precision)
{
    OWNED(pl_backend_close) pl_backend *be = open_side("cpu", precision, 1);
    pl_pooled_path *open[PATHS] = {NULL};
    bool is_open[PATHS] = {false};
    uint64_t missing;
    const pl_path_source p01 = {&mix.arm, mix.topology, 1, {.best = false}};
    if (!be)
        return;
    OWNED(pl_module_pool_destroy)
    pl_module_pool *pool = pl_module_pool_create(be, mix.store);
    expect_paths(pool, be, is_open, 0);
    assert_ok(pl_module_pool_missing(pool, &p01, &missing));
    assert_int_equal(missing, pl_path_bytes(be, mix.topology));
    open[0] = open_path(pool, 0);
    is_open[0] = true;
    expect_paths(pool, be, is_open, 5); /* embed, L1, L2, B3, head */
    assert_ok(pl_module_pool_missing(pool, &p01, &missing));
    open[1] = open_path(pool, 1); /* p01 has a different L2 and a different B3 */
    assert_int_equal(pl_module_bytes(be, mix.topology, 2) +
                         pl_module_bytes(be, mix.topology, 3),
                     missing);
    is_open[1] = true;
    expect_paths(pool, be, is_open, 7);
    open[3] = open_path(pool, 3);
    is_open[3] = true;
    expect_paths(pool, be, is_open, 9);
    open[2] = open_path(pool, 2);
    is_open[2] = true;
    expect_paths(pool, be, is_open, 10);
    assert_int_equal(pl_module_pool_count(pool).bytes,
                     pl_modules_bytes(be, mix.topology));
    /* Modules that other paths use must stay in memory. */
    pl_module_pool_close(pool, &open[0]);
    is_open[0] = false;
    expect_paths(pool, be, is_open, 10);
    pl_module_pool_close(pool, &open[1]);
    is_open[1] = false;
    expect_paths(pool, be, is_open, 10);
    pl_module_pool_close(pool, &open[3]);
    pl_module_pool_close(pool, &open[2]);
    is_open[2] = is_open[3] = false;
    expect_paths(pool, be, is_open, 10);
}

PL_TEST(a_module_is_in_memory_once_and_as_long_as_a_path_uses_it)
{
    check_memory("f32");
    check_memory("bf16");
    check_memory("int8");
}

/* ---- new versions ---- */
PL_TEST(only_modules_that_have_changed_are_read_again)
{
    OWNED(pl_backend_close) pl_backend *be = open_side("ref", "f32", 1);
    OWNED(pl_module_pool_destroy)
    pl_module_pool *pool = pl_module_pool_create(be, mix.store);
    pl_pooled_path *before = open_path(pool, 0), *other = open_path(pool, 3), *after;
    bool current = false;
    const int changed = pl_topology_module_of_path(mix.topology, 2, 0);
    assert_int_equal(pl_module_pool_count(pool).n_read, 8);
    assert_ok(pl_module_pool_compare(pool, before, &current));
    assert_true(current);
    /* When a path without new versions is closed, all modules that no open path uses
     * leave the memory. */
    pl_module_pool_close(pool, &before);
    assert_int_equal(pl_module_pool_count(pool).n_modules, 5);
    before = open_path(pool, 0);
    assert_int_equal(pl_module_pool_count(pool).n_read, 11);
    put_word_module(&mix, changed, 1, 8);
    assert_ok(pl_module_pool_compare(pool, other, &current));
    assert_true(current);
    assert_ok(pl_module_pool_compare(pool, before, &current));
    assert_false(current);
    /* One module of the path has a new version. The path's other four modules stay in
     * memory until the path is opened again. */
    const uint64_t contents = pl_pooled_path_contents(before);
    pl_module_pool_close(pool, &before);
    assert_int_equal(pl_module_pool_count(pool).n_modules, 7);
    after = open_path(pool, 0);
    assert_int_equal(pl_module_pool_count(pool).n_read, 12);
    assert_int_not_equal(pl_pooled_path_contents(after), contents);
    pl_module_pool_close(pool, &after);
    assert_true(pl_module_pool_drop_kept(pool));
    /* The modules that remain are those of `other`. */
    assert_int_equal(pl_module_pool_count(pool).n_modules, 5);
    /* Version 2 has the parameters of version 0, so the path has its first contents
     * again. */
    put_word_module(&mix, changed, 2, 7);
    after = open_path(pool, 0);
    assert_int_equal(pl_pooled_path_contents(after), contents);
    pl_module_pool_close(pool, &after);
    pl_module_pool_close(pool, &other);
}

/* ---- requests ---- */
typedef struct asked {
    int path, n, kind;
    /* Number of the prompt's tokens that must be known from earlier requests, if this
     * request comes after the others. */
    int n_known;
    told got;
} asked;

static const pl_generate_options options = {
    .max_tokens = 9,
    .scores = true,
    .n_top = 3,
    .choice = {.temperature = 1.0, .top_p = 1.0, .seed = 5}};

static void join(pl_batch *batch, const pl_pooled_path *path, asked *a)
{
    static int32_t prompt[CONTEXT];
    prompt[0] = PL_TOKEN_BOS;
    for (int i = 1; i < a->n; i++)
        prompt[i] = 3 + (i * 7 + i * i % 31 + 11 * a->kind) % (WORD_VOCAB - 3);
    pl_batch_request q = told_request(&a->got, prompt, a->n, &options);
    q.path = path ? pl_pooled_path_table(path) : NULL;
    q.path_contents = path ? pl_pooled_path_contents(path) : 0;
    assert_ok(pl_batch_join(batch, &q));
}

static pl_batch *open_batch(pl_model *loaded, int slots)
{
    pl_batch *batch;
    assert_ok(
        pl_batch_create(loaded, mix.tokenizer, WORD_VOCAB, CONTEXT, slots, &batch));
    return batch;
}

static pl_model *open_model(pl_backend *be)
{
    pl_model *loaded;
    const pl_model_options size = {.batch = 1, .context = CONTEXT};
    assert_ok(pl_model_create(be, mix.topology, &size, &loaded));
    return loaded;
}

/* Runs the same request alone, in a model that has loaded the parameters of its
 * path. */
static void expect_as_alone(pl_backend *be, asked *a)
{
    asked alone = {.path = a->path, .n = a->n, .kind = a->kind};
    OWNED(pl_model_destroy) pl_model *loaded = open_model(be);
    OWNED(free_memory)
    float *params = pl_alloc(pl_topology_path_params(mix.topology) * sizeof *params);
    assert_ok(pl_read_path(mix.store, &mix.arm, mix.topology, a->path,
                           (pl_which){.at = NULL}, params));
    assert_ok(pl_model_load(loaded, params));
    OWNED(pl_batch_destroy) pl_batch *batch = open_batch(loaded, 1);
    join(batch, NULL, &alone);
    run_batch(batch);
    assert_ok(a->got.status);
    assert_same_told(&a->got, &alone.got);
    told_clear(&alone.got);
}

static void check_requests(const char *name, const char *precision)
{
    static const int wanted[][4] = {/* path, tokens, kind, tokens known */
                                    {0, 9, 1, 0},
                                    {3, 5, 2, 0},
                                    {1, 12, 1, 0},
                                    {2, 9, 1, 0},
                                    {0, 21, 3, 0},
                                    {3, LONG, 4, 0},
                                    {1, LONG, 4, 0},
                                    {2, 2, 5, 0},
                                    /* these requests come after the others: */
                                    {3, 5, 2, 5},
                                    {2, 5, 2, 0},
                                    {0, LONG, 4, 0},
                                    {3, LONG, 4, LONG}};
    enum { N = sizeof wanted / sizeof *wanted };
    asked list[N] = {0};
    enum { TOGETHER = 8 };
    OWNED(pl_backend_close) pl_backend *be = open_side(name, precision, 1);
    pl_pooled_path *paths[PATHS];
    if (!be)
        return;
    OWNED(pl_module_pool_destroy)
    pl_module_pool *pool = pl_module_pool_create(be, mix.store);
    pl_model *loaded = open_model(be);
    pl_batch *batch = open_batch(loaded, SLOTS);
    for (int p = 0; p < PATHS; p++)
        paths[p] = open_path(pool, p);
    for (int i = 0; i < N; i++) {
        list[i].path = wanted[i][0];
        list[i].n = wanted[i][1];
        list[i].kind = wanted[i][2];
        list[i].n_known = wanted[i][3];
    }
    for (int i = 0; i < TOGETHER; i++) {
        join(batch, paths[list[i].path], &list[i]);
        if (i % 3 == 2) /* some requests join while others generate text */
            assert_ok(pl_batch_step(batch));
    }
    assert_int_equal(pl_batch_active_on(batch, pl_pooled_path_table(paths[2])), 2);
    run_batch(batch);
    for (int i = 0; i < N; i++) {
        if (i >= TOGETHER) {
            join(batch, paths[list[i].path], &list[i]);
            run_batch(batch);
            if (list[i].got.result.n_known != list[i].n_known)
                fail_msg("request %d: %d tokens are known, not %d", i,
                         list[i].got.result.n_known, list[i].n_known);
        }
        expect_as_alone(be, &list[i]);
        told_clear(&list[i].got);
    }
    pl_batch_destroy(&batch);
    pl_model_destroy(&loaded);
    for (int p = 0; p < PATHS; p++)
        pl_module_pool_close(pool, &paths[p]);
}

PL_TEST(requests_of_several_paths_get_the_bytes_that_they_get_alone)
{
    check_requests("ref", "f32");
    check_requests("cpu", "f32");
    check_requests("cpu", "bf16");
    check_requests("cpu", "int8");
}

/* ---- the plan ---- */
/* Tests the memory that is planned for the preset dipaco-150m-16x16. It has 256 paths
 * and 64 modules: 16 embeddings, 16 modules of each of two levels, and 16 heads. */
PL_TEST(sixteen_by_sixteen_is_planned_at_the_size_of_its_modules)
{
    static const char *const precisions[] = {"f32", "bf16", "int8"};
    pl_shape shape;
    pl_topology_spec spec;
    OWNED(pl_topology_destroy) pl_topology *t;
    assert_ok(pl_preset("dipaco-150m-16x16", &shape, &spec));
    assert_ok(pl_topology_create(&shape, &spec, &t));
    assert_int_equal(pl_topology_n_paths(t), 256);
    for (int i = 0; i < 3; i++) {
        pl_server_plan plan, more;
        OWNED(pl_backend_close) pl_backend *be = open_side("cpu", precisions[i], 1);
        if (!be)
            continue;
        pl_server_plan_bytes(be, t, 16, &plan);
        assert_int_equal(plan.n_modules, 64);
        assert_int_equal(plan.modules_bytes, 16 * plan.path_bytes);
        if (i == 0)
            assert_int_equal(plan.modules_bytes, 4 * pl_topology_total_params(t));
        /* The size of the caches depends on the number of slots, but not on the number
         * of paths or modules. */
        pl_server_plan_bytes(be, t, 32, &more);
        assert_int_equal(more.modules_bytes, plan.modules_bytes);
        assert_int_equal(more.engine_bytes - plan.engine_bytes,
                         16 * 2 * pl_type_bytes(be->act) * (uint64_t)shape.n_blocks *
                             (uint64_t)shape.context * (uint64_t)shape.n_kv_heads *
                             (uint64_t)shape.head_size);
    }
}

PL_SUITE(open_all, close_all)
