/* folder: home; label: integration */
#include "tests/support/relay_fixture.h"

/* Tests rounds that are merged with a quorum. If an update comes too late, its worker
 * must be told. */

enum { SLOT = 0, SAMPLES = 4 }; /* the embedding, which all paths share */

static void open_quorum_job(fixture *f, double quorum, int deadline_ms)
{
    place_home(f, "f32");
    f->arm.outer.quorum = quorum;
    f->arm.outer.deadline_ms = deadline_ms;
    start_job(f);
}

/* 1 if another kind of device makes the updates, so that their bytes differ */
static uint8_t device = 0;

/* Sends the update of a phase of a path, relative to this version. */
static pl_status send_from(fixture *f, int path, int64_t phase, int64_t base_version,
                           uint64_t first_sample, pl_submit_result *result,
                           char text[256])
{
    worker w = {.job = f, .path = path};
    char name[96];
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    pl_submission s;
    pl_version_facts base;
    *result = PL_SUBMIT_REJECTED;
    fill(&w, f->client, SLOT, name, &bytes, &s);
    bytes.data[bytes.len - 4] ^= device;
    assert_ok(pl_client_get_version(f->client, name, base_version, &base));
    s.base_version = (uint64_t)base_version;
    s.base = base.params;
    s.contribution.phase = phase;
    lease_for(f->client, &f->arm, &s.contribution, phase);
    s.contribution.work.first_sample = first_sample;
    return pl_client_submit(f->client, &s, result, text);
}

/* As above; relative to the version with the same number as the phase. */
static pl_status send_samples(fixture *f, int path, int64_t phase,
                              uint64_t first_sample, pl_submit_result *result,
                              char text[256])
{
    return send_from(f, path, phase, phase, first_sample, result, text);
}

static pl_submit_result send_at(fixture *f, int path, int64_t phase, int64_t version,
                                char text[256])
{
    pl_submit_result result;
    uint64_t first = (uint64_t)phase * SAMPLES;
    assert_ok(send_from(f, path, phase, version, first, &result, text));
    return result;
}

static pl_submit_result send(fixture *f, int path, int64_t phase, char text[256])
{
    pl_submit_result result;
    uint64_t first = (uint64_t)phase * SAMPLES;
    assert_ok(send_samples(f, path, phase, first, &result, text));
    return result;
}

static void send_good(fixture *f, int path, int64_t phase)
{
    char text[256];
    assert_int_equal(send(f, path, phase, text), PL_SUBMIT_ACCEPTED);
}

/* Reads the weight that each path's update has in a version of the embedding. It is 0
 * if the path did not contribute. */
static void weights_of(fixture *f, uint64_t number, double weights[PATHS])
{
    OWNED(pl_store_close) pl_store *store = NULL;
    OWNED(pl_version_clear) pl_version v;
    memset(&v, 0, sizeof v);
    memset(weights, 0, PATHS * sizeof *weights);
    assert_ok(pl_store_open(f->home.target, PL_STORE_READ, &store));
    assert_ok(pl_store_get_version(store, embed, number, &v));
    for (int i = 0; i < v.n_contributions; i++)
        weights[v.contributions[i].path] = v.contributions[i].weight;
}

PL_TEST(round_is_merged_without_those_who_are_late)
{
    OWNED(close_job) fixture f;
    char text[256];
    double weights[PATHS];
    open_quorum_job(&f, 0.75, 100);
    for (int path = 0; path < 3; path++)
        send_good(&f, path, 0);
    await_version(&f, 1);
    weights_of(&f, 1, weights);
    assert_true(weights[0] == 1 && weights[1] == 1 && weights[2] == 1);
    assert_true(weights[3] == 0);
    for (int i = 0; i < 2; i++) { /* the second time after a restart */
        assert_int_equal(send(&f, 3, 0, text), PL_SUBMIT_DROPPED);
        assert_non_null(strstr(text, "(outer.quorum), so the update is dropped"));
        restart_child(&f.home);
    }
    assert_int_equal(send(&f, 0, 0, text), PL_SUBMIT_DUPLICATE);
    send_good(&f, 3, 1); /* path 3 trains its next phase */
}

PL_TEST(nothing_is_merged_below_the_quorum)
{
    OWNED(close_job) fixture f;
    pl_version_facts facts;
    open_quorum_job(&f, 0.75, 0);
    send_good(&f, 0, 0);
    send_good(&f, 1, 0);
    pl_sleep_ms(700);
    assert_int_not_equal(pl_client_get_version(f.client, embed, 1, &facts), PL_OK);
    send_good(&f, 2, 0);
    await_version(&f, 1);
}

PL_TEST(round_that_is_whole_does_not_wait_for_the_deadline)
{
    OWNED(close_job) fixture f;
    double weights[PATHS];
    open_quorum_job(&f, 0.5, 600000);
    for (int path = 0; path < 4; path++)
        send_good(&f, path, 0);
    await_version(&f, 1);
    weights_of(&f, 1, weights);
    for (int path = 0; path < 4; path++)
        assert_true(weights[path] == 1);
}

PL_TEST(worker_whose_update_differs_from_the_accepted_one_is_told)
{
    OWNED(close_job) fixture f;
    char text[256];
    open_quorum_job(&f, 0.5, 0);
    send_good(&f, 0, 0);
    for (int i = 0; i < 2; i++) { /* before and after the merge of the round */
        assert_int_equal(send(&f, 0, 0, text), PL_SUBMIT_DUPLICATE);
        device = 1;
        assert_int_equal(send(&f, 0, 0, text), PL_SUBMIT_OTHER);
        device = 0;
        if (i == 0)
            send_good(&f, 1, 0);
        await_version(&f, 1);
    }
}

/* A worker whose lease goes on may send its next phase first. Phase 0 is then not a
 * duplicate: its worker is told that it does not count. */
PL_TEST(update_that_comes_after_its_round_and_the_next_phase_is_dropped)
{
    OWNED(close_job) fixture f;
    char text[256];
    open_quorum_job(&f, 0.5, 0);
    send_good(&f, 0, 0);
    send_good(&f, 1, 0);
    await_version(&f, 1);
    send_good(&f, 3, 1);
    for (int64_t version = 1; version < 3; version++) {
        assert_int_equal(send(&f, 3, 0, text), PL_SUBMIT_DROPPED);
        assert_non_null(strstr(text, "was merged before this update came"));
        assert_int_equal(send(&f, 3, 1, text), PL_SUBMIT_DUPLICATE);
        if (version == 1)
            send_good(&f, 0, 1);
        await_version(&f, 2);
        restart_child(&f.home);
    }
}

static void open_arrivals_job(fixture *f)
{
    place_home(f, "f32");
    f->arm.outer.method = pl_method_defaults(PL_METHOD_DELAYED_NESTEROV);
    for (int c = 0; c < PL_CLASS_COUNT; c++) {
        f->arm.outer.lr[c] = 0.1;
        f->arm.outer.momentum[c] = 0.5;
    }
    f->arm.outer.staleness = 1;
    start_job(f);
}

/* Under delayed-nesterov each arrival makes a version. The second phase is not taken
 * before the first, so that none is lost, also after a restart. */
PL_TEST(each_phase_of_a_path_is_merged_in_its_order)
{
    OWNED(close_job) fixture f;
    char text[256];
    open_arrivals_job(&f);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(send_at(&f, 3, 1, 0, text), PL_SUBMIT_DROPPED);
        assert_non_null(strstr(text, "out of order"));
        assert_non_null(strstr(text, "next is that of phase 0"));
        restart_child(&f.home);
    }
    assert_int_equal(send_at(&f, 3, 0, 0, text), PL_SUBMIT_ACCEPTED);
    await_version(&f, 1);
    assert_int_equal(send_at(&f, 3, 1, 0, text), PL_SUBMIT_ACCEPTED);
    await_version(&f, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(send_at(&f, 3, 0, 0, text), PL_SUBMIT_DUPLICATE);
        assert_int_equal(send_at(&f, 3, 1, 0, text), PL_SUBMIT_DUPLICATE);
        device = 1;
        assert_int_equal(send_at(&f, 3, 1, 0, text), PL_SUBMIT_OTHER);
        assert_non_null(strstr(text, "a different update of mix/embed.E0 in round 1"));
        device = 0;
        assert_int_equal(send_at(&f, 3, 3, 0, text), PL_SUBMIT_DROPPED);
        restart_child(&f.home);
    }
}

PL_TEST(update_of_other_samples_than_its_phase_is_rejected)
{
    OWNED(close_job) fixture f;
    char text[256];
    open_quorum_job(&f, 0.5, 0);
    pl_submit_result result;
    assert_fails(send_samples(&f, 0, 0, SAMPLES, &result, text), PL_ERR_DATA,
                 "has the samples 0 to 3");
    send_good(&f, 0, 0);
    send_good(&f, 1, 0);
    await_version(&f, 1);
    assert_int_equal(send_samples(&f, 3, 0, 7 * SAMPLES, &result, text), PL_ERR_DATA);
}

PL_TEST(definition_keeps_its_quorum_and_others_are_as_they_were)
{
    fixture f = {0};
    OWNED(pl_buf_destroy) pl_buf with = {0}, without = {0};
    pl_arm again;
    define_arm(&f, "f32");
    pl_arm_encode(&f.arm, &without);
    f.arm.outer.quorum = 0.75;
    pl_arm_encode(&f.arm, &with);
    assert_true(with.len > without.len);
    assert_ok(pl_arm_decode(with.data, with.len, &again));
    assert_true(again.outer.quorum == 0.75);
    pl_arm_clear(&again);
    assert_ok(pl_arm_decode(without.data, without.len, &again));
    assert_true(again.outer.quorum == 0);
    pl_arm_clear(&again);
    f.arm.outer.late_weight = 0.5; /* an earlier release had it */
    pl_buf_clear(&with);
    pl_arm_encode(&f.arm, &with);
    assert_fails(pl_arm_decode(with.data, with.len, &again), PL_ERR_CONFIG,
                 "counts late updates");
    f.arm.outer.quorum = 1.5;
    pl_buf_clear(&with);
    pl_arm_encode(&f.arm, &with);
    assert_int_equal(pl_arm_decode(with.data, with.len, &again), PL_ERR_CONFIG);
    pl_topology_destroy(&f.topology);
    pl_arm_clear(&f.arm);
}

PL_CHILD(argc, argv)
{
    return run_child(argv, (pl_home_options){.keep_updates = true});
}
