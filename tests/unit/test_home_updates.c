/* folder: home; label: unit
 *
 * Tests how a home reads the updates of a round: in the order of the contributions, a
 * sum of several contributors' updates only once, and with a limited amount of
 * memory. */
#include "home/home_updates.h"
#include "tests/support/store_fixture.h"

enum { N = 3000, MANY = 40 };

typedef struct round_of {
    pl_store *store;
    pl_contribution contributions[MANY];
    float weights[MANY];
    home_round round;
} round_of;

static void encode(const char *codec, int index, int n_contributors, pl_buf *out)
{
    pl_codec_options options = {0};
    const pl_codec_part part = {.count = N, .role = PL_ROLE_MLP};
    const pl_codec_round round = {.seed = 3,
                                  .scale_exponent = -8,
                                  .n_contributors = n_contributors,
                                  .weight = 1.0f};
    OWNED(free_memory) float *update = pl_alloc(N * sizeof *update);
    for (int i = 0; i < N; i++)
        update[i] = (float)((i + index) % 7) * 0x1p-7f;
    assert_ok(pl_codec_options_default(codec, &options));
    assert_ok(pl_codec_encode_module(&options, &part, 1, &round, update, NULL, out));
}

static void open_round(round_of *r, const char *folder, int n)
{
    memset(r, 0, sizeof *r);
    r->store = open_store(folder, PL_STORE_CREATE);
    r->round = (home_round){.store = r->store,
                            .module = "mix/L1.E0",
                            .n_params = N,
                            .contributions = r->contributions,
                            .n = n,
                            .weights = r->weights,
                            .n_vectors = 1};
}

static void put(round_of *r, int index, const pl_buf *bytes)
{
    char name[32];
    pl_txn *txn = begin(r->store);
    snprintf(name, sizeof name, "update/%d-%zu", index, bytes->len);
    pl_contribution *c = &r->contributions[index];
    assert_ok(pl_txn_put_blob(txn, bytes->data, bytes->len, &c->update));
    /* The store drops a blob that no record names, so an object names it. */
    assert_ok(pl_txn_put_object(txn, name, &c->update));
    assert_ok(pl_txn_commit(&txn));
    c->update_bytes = bytes->len;
    c->path = index;
    r->weights[index] = 1.0f / (float)(index + 2);
}

STORE_TEST(updates_come_in_runs_of_bounded_size_in_their_order)
{
    enum { ROOM = 5 * (4 * N + 256) };
    round_of r;
    pl_buf bytes[MANY] = {{0}};
    open_round(&r, *state, MANY);
    r.round.ahead_bytes = ROOM;
    for (int i = 0; i < MANY; i++) {
        encode("f32", i, MANY, &bytes[i]);
        put(&r, i, &bytes[i]);
    }
    OWNED(home_updates_destroy) home_updates *updates = home_updates_create(&r.round);
    const pl_codec_source source = home_updates_source(updates);
    const uint8_t *place = NULL;
    for (int time = 0; time < 2; time++) { /* the first reading stops in the middle */
        pl_codec_run run;
        int n = 0;
        assert_ok(source.next(source.context, true, &run));
        while (run.n > 0 && n < (time ? MANY : MANY / 2)) {
            const uint8_t *first = run.messages[0].data;
            assert_in_range(run.n, n + 4 < MANY ? 4 : 1, MANY / 4);
            assert_true(!place || place == first);
            place = first;
            for (int i = 0; i < run.n; i++, n++) {
                const pl_codec_message *m = &run.messages[i];
                assert_in_range((const uint8_t *)m->data - first, 0, ROOM - m->bytes);
                assert_int_equal(m->bytes, bytes[n].len);
                assert_memory_equal(m->data, bytes[n].data, m->bytes);
                assert_true(run.weights[i] == r.weights[n]);
            }
            assert_ok(source.next(source.context, false, &run));
        }
        assert_int_equal(run.n == 0, time == 1);
    }
    for (int i = 0; i < MANY; i++)
        pl_buf_destroy(&bytes[i]);
    pl_store_close(&r.store);
}

STORE_TEST(a_sum_of_three_contributors_is_added_once)
{
    round_of r;
    pl_buf one[3] = {{0}}, two = {0}, three = {0}, alone = {0};
    pl_codec_message m;
    float weight = 0;
    open_round(&r, *state, 4);
    r.round.homomorphic = true;
    for (int i = 0; i < 3; i++)
        encode("i8-shared", i, 4, &one[i]);
    encode("i8-shared", 3, 4, &alone);
    assert_ok(
        pl_codec_combine(one[0].data, one[0].len, one[1].data, one[1].len, N, &two));
    assert_ok(pl_codec_combine(two.data, two.len, one[2].data, one[2].len, N, &three));
    put(&r, 0, &three);
    put(&r, 1, &alone);
    put(&r, 2, &three);
    put(&r, 3, &three);
    OWNED(home_updates_destroy) home_updates *updates = home_updates_create(&r.round);
    pl_codec_walk walk = {.source = home_updates_source(updates)};
    assert_ok(pl_codec_next(&walk, &m, &weight));
    assert_memory_equal(m.data, three.data, three.len);
    assert_ok(pl_codec_next(&walk, &m, &weight));
    assert_memory_equal(m.data, alone.data, alone.len);
    assert_ok(pl_codec_next(&walk, &m, &weight));
    assert_null(m.data);
    home_updates_destroy(&updates);
    /* Now all four contributions name the sum of three contributors. So this sum is
     * added twice, and the updates have six contributors instead of four. */
    put(&r, 1, &three);
    updates = home_updates_create(&r.round);
    walk = (pl_codec_walk){.source = home_updates_source(updates)};
    assert_ok(pl_codec_next(&walk, &m, &weight));
    assert_ok(pl_codec_next(&walk, &m, &weight));
    assert_fails(pl_codec_next(&walk, &m, &weight), PL_ERR_INTERNAL, "6 contributors");
    for (int i = 0; i < 3; i++)
        pl_buf_destroy(&one[i]);
    pl_buf_destroy(&two);
    pl_buf_destroy(&three);
    pl_buf_destroy(&alone);
    pl_store_close(&r.store);
}

STORE_TEST(an_update_that_is_gone_ends_the_round)
{
    round_of r;
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    pl_codec_run run;
    open_round(&r, *state, 3);
    encode("f32", 0, 3, &bytes);
    for (int i = 0; i < 3; i++)
        put(&r, i, &bytes);
    r.contributions[1].update.bytes[0] ^= 1;
    OWNED(home_updates_destroy) home_updates *updates = home_updates_create(&r.round);
    pl_codec_source source = home_updates_source(updates);
    /* A run has at least one update per processor. */
    pl_status status = source.next(source.context, true, &run);
    while (status == PL_OK && run.n > 0)
        status = source.next(source.context, false, &run);
    assert_int_equal(status, PL_ERR_NOT_FOUND);
    pl_store_close(&r.store);
}
