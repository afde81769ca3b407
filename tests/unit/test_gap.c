/* folder: home; label: integration */
/* Tests how a home computes the penalty of co2 for late updates. The penalty depends on
 * how far a module has moved since the version to which the updates are relative. */
#include "tests/support/relay_fixture.h"

#include <math.h>

enum { SLOT = 0, ROUNDS = 5, DELAY_MAX = 3 };
static const double LR = 0.25;

/* The update of a round has this value in all elements. The values are exact in fp32,
 * and all differ. */
static const double size_of[ROUNDS] = {0.5, 0.25, 1, -0.125, 0.75};

static uint64_t base_of(int64_t round, int delay)
{
    return round > delay ? (uint64_t)(round - delay) : 0;
}

static void open_late_job(fixture *f, int delay)
{
    place_home(f, "f32");
    f->arm.outer.method = pl_method_defaults(PL_METHOD_CO2);
    f->arm.outer.method.delay = delay;
    f->arm.outer.method.lr = LR;
    f->arm.outer.method.momentum = 0;
    for (int c = 0; c < PL_CLASS_COUNT; c++) {
        f->arm.outer.lr[c] = LR;
        f->arm.outer.momentum[c] = 0;
    }
    start_job(f);
}

static void send_update(fixture *f, int path, int64_t round, int delay)
{
    size_t n = pl_topology_slot(f->topology, SLOT)->n_params;
    const pl_codec_part part = {0, n, PL_ROLE_EMBED};
    OWNED(free_memory) float *update = pl_alloc(n * sizeof *update);
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    pl_version_facts base;
    pl_submit_result result = PL_SUBMIT_REJECTED;
    char text[256];
    for (size_t i = 0; i < n; i++)
        update[i] = (float)size_of[round];
    assert_ok(pl_codec_encode_module(&f->arm.outer.codec, &part, 1, NULL, update, NULL,
                                     &bytes));
    uint64_t number = base_of(round, delay);
    assert_ok(pl_client_get_version(f->client, embed, (int64_t)number, &base));
    pl_submission s = {.module = embed,
                       .base_version = number,
                       .base = base.params,
                       .data = bytes.data,
                       .bytes = bytes.len,
                       .contribution = {.path = path,
                                        .phase = round,
                                        .work.loss = 1,
                                        .worker = "w",
                                        .device = "d",
                                        .codec = "f32"}};
    lease_for(f->client, &f->arm, &s.contribution, round);
    assert_ok(pl_client_submit(f->client, &s, &result, text));
    if (result != PL_SUBMIT_ACCEPTED)
        fail_msg("the update of path %d in round %d is refused: %s", path, (int)round,
                 text);
}

static void train(fixture *f, int delay)
{
    for (int64_t round = 0; round < ROUNDS; round++) {
        for (int path = 0; path < PATHS; path++)
            send_update(f, path, round, delay);
        await_version(f, round + 1);
    }
}

/* Computes how far each value has moved from version 0 after each round. g is the
 * update of round t, x_t is version t, and x_b is the base of g. All values of the
 * module move by the same amount, so |x_t - x_b| / |g| is a ratio of two single
 * values. */
static void expect(int delay, double moved[ROUNDS + 1])
{
    moved[0] = 0;
    for (int t = 0; t < ROUNDS; t++) {
        double since = fabs(moved[t] - moved[base_of(t, delay)]);
        double gap = 1 + since / fabs(size_of[t]);
        moved[t + 1] = moved[t] - LR * size_of[t] / gap;
    }
}

static float *read_version(pl_store *store, uint64_t number, size_t n)
{
    OWNED(pl_version_clear) pl_version v;
    float *values = pl_alloc(n * sizeof *values);
    assert_ok(pl_store_get_version(store, embed, number, &v));
    assert_ok(pl_store_read_blob(store, &v.params, 0, n * sizeof *values, values));
    return values;
}

static void check_versions(const fixture *f, pl_store *store, int delay)
{
    size_t n = pl_topology_slot(f->topology, SLOT)->n_params;
    double moved[ROUNDS + 1];
    OWNED(free_memory) float *start = read_version(store, 0, n);
    expect(delay, moved);
    for (uint64_t number = 1; number <= ROUNDS; number++) {
        OWNED(free_memory) float *x = read_version(store, number, n);
        for (size_t i = 0; i < n; i++)
            assert_true(fabs((double)x[i] - (double)start[i] - moved[number]) < 1e-6);
    }
}

static pl_status replay(pl_store *store, uint64_t number, bool *same)
{
    OWNED(pl_version_clear) pl_version v;
    pl_replay again;
    assert_ok(pl_store_get_version(store, embed, number, &v));
    pl_status status = pl_home_replay(store, &v, &again);
    *same = status == PL_OK && pl_hash_equal(&v.params, &again.params);
    return status;
}

PL_TEST(penalty_is_the_distance_from_where_updates_were_made)
{
    for (int delay = 1; delay <= DELAY_MAX; delay++) {
        OWNED(close_job) fixture f;
        OWNED(pl_store_close) pl_store *store = NULL;
        bool same = false;
        open_late_job(&f, delay);
        train(&f, delay);
        kill_child(&f.home, SIGTERM);
        assert_ok(pl_store_open(f.home.target, PL_STORE_READ, &store));
        check_versions(&f, store, delay);
        for (uint64_t number = 1; number <= ROUNDS; number++) {
            assert_ok(replay(store, number, &same));
            assert_true(same);
        }
    }
}

static bool keeps_all_but_the_second(void *context, const pl_version *v)
{
    (void)context;
    return v->number != 2 || strcmp(v->module, embed) != 0;
}

PL_TEST(step_whose_base_was_collected_cannot_be_told)
{
    enum { DELAY = 2 };
    OWNED(close_job) fixture f;
    OWNED(pl_store_close) pl_store *store = NULL;
    pl_gc_report report;
    bool same = false;
    open_late_job(&f, DELAY);
    train(&f, DELAY);
    kill_child(&f.home, SIGTERM);
    assert_ok(pl_store_open(f.home.target, PL_STORE_WRITE, &store));
    assert_ok(pl_store_collect(store, keeps_all_but_the_second, NULL, true, &report));
    assert_int_equal(report.n_versions, 1);
    /* The updates of version 5 are relative to version 2, which is gone. */
    assert_fails(replay(store, 5, &same), PL_ERR_NOT_FOUND, "version 2");
    assert_ok(replay(store, 4, &same));
    assert_true(same);
}

PL_CHILD(argc, argv)
{
    return run_child(argv, (pl_home_options){.keep_updates = true});
}
