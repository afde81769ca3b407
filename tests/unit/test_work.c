/* folder: net; label: unit */
/* Tests the numbers of a phase (store/work.h): each of them arrives with an update, and
 * phases are added and joined. */
#include "net/net.h"
#include "tests/support/suite.h"

/* A number that is in pl_work, but not in net/messages.def, would arrive as 0. */
PL_TEST(every_number_of_a_phase_arrives_with_an_update)
{
    for (int n = 1; n <= 2; n++) {
        OWNED(pl_message_destroy) pl_message m = {.type = PL_MSG_SUBMIT};
        pl_submission_proof proofs[2] = {{.len = 1}, {.len = 1}};
        pl_contribution sent[2] = {{.path = 1, .codec = "i8"}, {.path = 2}};
        OWNED(pl_submission_clear) pl_submit_message got;
        pl_submit_message s = {
            .module = "mix/L1.E0", .contributors = sent, .proofs = proofs, .n = n};
        memset(&sent[0].work, 1, sizeof sent[0].work);
        memset(&sent[1].work, 2, sizeof sent[1].work);
        pl_submission_write(&s, &m);
        assert_ok(pl_submission_read(&m, &got));
        assert_int_equal(got.n, n);
        for (int i = 0; i < n; i++)
            assert_memory_equal(&got.contributors[i].work, &sent[i].work,
                                sizeof sent[i].work);
    }
}

static void expect_numbers_of_a_path(const pl_work *got)
{
    for (int i = 0; i < PL_WORK_N_MEASURES; i++) {
        const pl_work_measure *m = &pl_work_measures[i];
        pl_work sent;
        memset(&sent, 1, sizeof sent);
        assert_true(pl_work_value(got, m) ==
                    (m->views == PL_WORK_OF_WORKERS ? 0 : pl_work_value(&sent, m)));
    }
}

/* The state of a path has no number that describes a worker. */
PL_TEST(every_other_number_arrives_with_the_state_of_a_path)
{
    pl_work sent;
    OWNED(pl_message_destroy) pl_message m = {0}, event = {0};
    pl_msg_submit_path submit;
    pl_msg_path_record record;
    pl_pubkey key;
    memset(&sent, 1, sizeof sent);
    memset(&key, 5, sizeof key);
    PL_SAY(&m, SUBMIT_PATH, submit_path, .name = "mix/p0.r0", .work = sent,
           .seal = key.bytes);
    assert_ok(PL_HEAR(&m, submit_path, &submit));
    expect_numbers_of_a_path(&submit.work);
    /* every field is there, in encrypted jobs the worker's key, too */
    PL_SAY(&event, EVENT, path_record, .name = "mix/p0.r0", .key = key.bytes,
           .phase = 3, .work = sent, .worker = "w", .held_phase = 2, .repeats = 1);
    assert_ok(PL_HEAR(&event, path_record, &record));
    expect_numbers_of_a_path(&record.work);
    assert_memory_equal(record.key, key.bytes, sizeof key.bytes);
    assert_int_equal(record.repeats, 1);
}

PL_TEST(what_a_message_does_not_have_is_zero)
{
    static const pl_work none = {0};
    OWNED(pl_message_destroy) pl_message m = {0};
    pl_msg_path_is is;
    memset(&is, 1, sizeof is);
    PL_SAY(&m, PATH_IS, path_is, .phase = 3, .work.memory_bytes = 7);
    assert_ok(PL_HEAR(&m, path_is, &is));
    assert_int_equal(is.phase, 3);
    assert_memory_equal(&is.work, &none, sizeof none);
}

PL_TEST(a_phase_adds_to_the_work_of_its_path)
{
    pl_work all = {.n_samples = 8, .n_tokens = 100, .loss = 5, .seconds = 2, .held = 9};
    const pl_work phase = {.first_sample = 8,
                           .n_samples = 4,
                           .n_tokens = 50,
                           .loss = 4,
                           .seconds = 1,
                           .gradient = 0.5};
    pl_work_add(&all, &phase);
    assert_true(all.first_sample == 0 && all.n_samples == 12 && all.n_tokens == 150);
    assert_true(all.seconds == 3 && all.loss == 4 && all.gradient == 0.5);
    assert_true(all.held == 0); /* the phase did not score held-out text */
}

PL_TEST(joined_phases_weigh_a_loss_by_its_tokens)
{
    pl_work a = {0};
    const pl_work first = {.n_samples = 4,
                           .n_tokens = 100,
                           .loss = 4,
                           .seconds = 2,
                           .gradient = 1,
                           .memory_bytes = 7};
    const pl_work later = {.n_samples = 4,
                           .n_tokens = 300,
                           .loss = 2,
                           .seconds = 1,
                           .gradient = 4,
                           .held = 12,
                           .memory_bytes = 5};
    pl_work_join(&a, 0, &first, 2);
    pl_work_join(&a, 2, &later, 1);
    assert_true(a.n_samples == 8 && a.n_tokens == 400 && a.loss == 2.5);
    assert_true(a.seconds == 3 && a.gradient == 2 && a.memory_bytes == 7);
    assert_true(a.held == 12); /* the earliest measured score */
    pl_work_join(&a, 3, &(pl_work){.held = 1, .loss = 9}, 0);
    assert_true(a.held == 12 && a.loss == 2.5);
}
