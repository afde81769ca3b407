/* folder: workers; label: unit
 *
 * Tests what the hub does about workers that hold their leases for too long, whatever
 * they report, and what it believes of their reports. */
#include "tests/unit/fleet_fixture.h"

#define FIXTURE_TEST(name) PL_TEST_ON(name, fixture *f, setup, teardown)

/* After its first renewal the holder always reports its last step. Its own pace is
 * slow, because it has delivered late before. */
FIXTURE_TEST(holder_that_claims_to_be_nearly_done_gets_a_backup_all_the_same)
{
    plan_lease *l = begin(f, 0);
    hub_note_pace(&f->h, &f->workers[0], 0, 99.9, 100, 0);
    join(f, 0);
    for (int64_t ms = 100; ms <= 2900; ms += 100) {
        const pl_msg_renew q = {.trains = true, .step = ms == 100 ? 1 : STEPS};
        hub_note_renewal(&f->h, 0, &f->paths[0], l, &q, ms);
    }
    hub_end_overdue(&f->h, 2900);
    assert_false(hub_is_on_trial(&f->h, &f->workers[0]));
    assert_false(finds(f, 3, 2900));
    assert_true(finds(f, 1, 3100));
    assert_true(finds(f, 3, 3200)); /* a different kind of device helps, too */
    hub_end_overdue(&f->h, 3200);
    assert_true(hub_is_on_trial(&f->h, &f->workers[0]));
}

/* A holder may ask for its next phase before it has delivered this one. */
FIXTURE_TEST(lease_that_went_on_to_the_next_phase_is_late_as_well)
{
    plan_grant(&f->h.tasks, f->first, 0, 1000, TTL);
    plan_extend(&f->h.tasks, f->first, 1100, TTL);
    assert_false(finds(f, 1, 3900));
    assert_true(finds(f, 1, 4100));
    plan_grant_backup(&f->h.tasks, f->first, 1, 4100, TTL);
    assert_int_equal(f->paths[0].backup.phase, 0);
}

/* Two workers that work together could keep both places. */
FIXTURE_TEST(backup_that_is_late_gives_its_place_to_another)
{
    join(f, 0);
    join(f, 1);
    plan_lease *l = begin(f, 0);
    assert_true(finds(f, 1, 3100));
    plan_grant_backup(&f->h.tasks, f->first, 1, 3100, TTL);
    const uint64_t late = f->paths[0].backup.token;
    assert_false(finds(f, 2, 6000));
    assert_true(finds(f, 2, 6200));
    assert_false(finds(f, 1, 6300)); /* it has had its turn */
    hub_end_late(&f->h, f->first, 6300);
    plan_grant_backup(&f->h.tasks, f->first, 2, 6300, TTL);
    assert_false(plan_renew(&f->h.tasks, &f->paths[0], 0, late, 1, 6400, TTL));
    assert_true(plan_renew(&f->h.tasks, &f->paths[0], 0, l->token, 0, 6400, TTL));
    assert_true(hub_is_on_trial(&f->h, &f->workers[1]));
    /* failures of helpers do not end the search for one */
    f->paths[0].backups_failed = 9;
    assert_true(finds(f, 3, 9400));
}

/* One worker delivers late again and again. The bound stays that of the others. */
FIXTURE_TEST(late_deliveries_do_not_move_the_bound)
{
    plan_arm *arm = &f->h.tasks.arms[0];
    int64_t now_ms = 0;
    arm->arm.inner.phases = 100;
    join(f, 0);
    for (int i = 0; i < 16; i++) {
        const bool late = i >= 10 && i < 15;
        plan_grant(&f->h.tasks, f->first, 0, now_ms, TTL);
        const int64_t bound_ms = i == 0 ? 1000 : (int64_t)(1e3 * hub_usual_s(arm));
        now_ms += late ? 19 * bound_ms : 1000;
        deliver(f, now_ms);
        assert_float_equal(hub_usual_s(arm), 1, 1e-9);
        assert_int_equal(hub_is_on_trial(&f->h, &f->workers[0]), late);
    }
    plan_grant(&f->h.tasks, f->first, 0, now_ms, TTL);
    f->options.ttl_ms = 100;
    hub_end_overdue(&f->h, now_ms + 20900);
    assert_true(f->paths[0].lease.active);
    hub_end_overdue(&f->h, now_ms + 21100);
    assert_false(f->paths[0].lease.active);
}

FIXTURE_TEST(fast_nonsense_makes_nobody_late)
{
    plan_arm *arm = &f->h.tasks.arms[0];
    arm->arm.inner.phases = 100;
    f->options.ttl_ms = 10;
    join(f, 0);
    for (int i = 0; i < 64; i++) {
        plan_grant(&f->h.tasks, f->first, 0, i, TTL);
        deliver(f, i + 1);
    }
    plan_grant(&f->h.tasks, f->first, 1, 100, TTL);
    assert_false(finds(f, 2, 3000));
    assert_float_equal(hub_usual_s(arm), 1, 1e-9);
    hub_end_overdue(&f->h, 20000);
    assert_true(f->paths[0].lease.active);
    for (int i = 1; i < 4; i++) /* without own workers nothing else is known */
        f->workers[i].own_key = false;
    hub_look_at_fleet(&f->h, 20000);
    assert_float_equal(hub_usual_s(arm), 0.001, 1e-9);
}

FIXTURE_TEST(delivery_is_credited_to_the_worker_that_the_homes_name)
{
    plan_settled done;
    for (int i = 0; i < 2; i++) {
        join(f, i);
        f->workers[i].n_results = 0;
    }
    const uint64_t liar = begin(f, 1)->token;
    plan_grant_backup(&f->h.tasks, f->first, 0, 0, TTL);
    const plan_said said = {.token = liar, .worker = 1};
    assert_true(plan_say_done(&f->paths[0], &said, 10, TTL));
    deliver(f, 1000);
    assert_false(hub_is_on_trial(&f->h, &f->workers[0]));
    assert_true(hub_is_on_trial(&f->h, &f->workers[1]));
    /* a home that restarted tells an old state: nobody delivers anything */
    f->workers[0].n_results = 0;
    const plan_news news = {.phase = 2, .by = 0};
    assert_false(plan_settle(&f->h.tasks, &f->paths[0], &news, 2000, &done));
    assert_true(hub_is_on_trial(&f->h, &f->workers[0]));
}

/* Otherwise 64 names of one key could hold that many paths for one result. */
FIXTURE_TEST(names_of_a_key_hold_two_tasks_more_for_each_result)
{
    for (int i = 0; i < 3; i++)
        join(f, i);
    for (int i = 1; i < 3; i++)
        f->workers[i].key = f->workers[0].key;
    f->workers[0].n_results = f->workers[1].n_results = f->workers[2].n_results = 0;
    assert_true(hub_may_take(&f->h, &f->workers[1]));
    begin(f, 0);
    assert_false(hub_may_take(&f->h, &f->workers[1]));
    hub_note_success(&f->h, 0, false);
    plan_grant(&f->h.tasks, (plan_task){0, 1}, 1, 0, TTL);
    assert_true(hub_may_take(&f->h, &f->workers[2]));
    plan_grant(&f->h.tasks, (plan_task){0, 2}, 1, 0, TTL);
    assert_false(hub_may_take(&f->h, &f->workers[2]));
    hub_note_success(&f->h, 1, false);
    assert_true(hub_may_take(&f->h, &f->workers[2]));
    assert_true(hub_may_take(&f->h, &f->workers[3])); /* one of the job's own */
}

FIXTURE_TEST(worker_that_was_never_measured_is_asked_when_a_lease_is_late)
{
    begin(f, 0);
    f->workers[1].pace[0] = (hub_pace){0};
    assert_false(finds(f, 1, 2900));
    assert_true(finds(f, 1, 3100));
}

/* Where two workers may not do one task, it is taken away after the same time. */
FIXTURE_TEST(what_two_may_not_do_is_taken_when_it_is_late)
{
    pl_outer *outer = &f->h.tasks.arms[0].arm.outer;
    const pl_method methods[] = {PL_METHOD_NOLOCO, PL_METHOD_DELAYED_NESTEROV,
                                 PL_METHOD_CO2};
    for (int i = 0; i < 3; i++) {
        const int64_t at_ms = 10000 * i;
        outer->method.method = methods[i];
        outer->state = methods[i] == PL_METHOD_CO2 ? PL_STATE_LOCAL : PL_STATE_F32;
        f->paths[0].n_taken = 0;
        join(f, 0);
        plan_grant(&f->h.tasks, f->first, 0, at_ms, TTL);
        assert_false(finds(f, 1, at_ms + 2900));
        assert_true(finds(f, 1, at_ms + 3100));
        /* the hub's tick finds it, too: late once, not twice */
        hub_look_at_fleet(&f->h, at_ms + 3100);
        hub_end_overdue(&f->h, at_ms + 3100);
        assert_true(hub_is_on_trial(&f->h, &f->workers[0]));
        f->workers[0].pace[0] = (hub_pace){0};
        hub_end_late(&f->h, f->first, at_ms + 3100);
        assert_false(f->paths[0].lease.active);
        /* it needs at least as long as it had: it does not get the task again */
        assert_true(hub_task_s(&f->workers[0], &f->h.tasks.arms[0].arm) > 3);
        f->workers[1].seen_ms = f->workers[1].asked_ms = at_ms + 3200;
        assert_false(hub_fits_new(&f->h, 0, f->first, at_ms + 3200));
        assert_true(hub_is_on_trial(&f->h, &f->workers[0]));
        assert_int_equal(f->workers[0].n_failures, 0);
        /* the next one has twice as long, so that a slow task ends all the same */
        plan_grant(&f->h.tasks, f->first, 1, at_ms + 3100, TTL);
        assert_false(finds(f, 2, at_ms + 9000));
        assert_true(finds(f, 2, at_ms + 9200));
    }
    outer->state = PL_STATE_F32;
    plan_grant(&f->h.tasks, f->first, 0, 0, TTL);
    assert_true(finds(f, 1, 9300));
    hub_end_late(&f->h, f->first, 9300); /* there is no backup that could be late */
    assert_true(f->paths[0].lease.active);
}

/* Under streaming a phase begins before the versions exist that it mixes in. */
FIXTURE_TEST(holder_that_waits_for_others_is_not_late)
{
    plan_arm *arm = &f->h.tasks.arms[0];
    const plan_lease *l = &f->paths[0].lease;
    join(f, 0);
    arm->arm.inner.phases = 9;
    arm->arm.outer.method = pl_method_defaults(PL_METHOD_STREAMING);
    arm->arm.outer.method.overlap = STEPS / 2;
    pl_free(arm->contracts);
    arm->contracts = pl_contracts_create(&arm->arm, arm->topology);
    finish(&f->paths[0], 1, 0);
    begin(f, 0);
    hub_look_at_fleet(&f->h, 0);
    for (uint64_t version = 0; version < 2; version++) {
        assert_false(hub_is_late(arm, &f->paths[0], l, 1, 8000));
        hub_end_overdue(&f->h, 8000);
        hub_note_returned(&f->h, 0, 8000);
        assert_false(hub_is_on_trial(&f->h, &f->workers[0]));
        for (int m = 0; m < pl_topology_n_modules(arm->topology); m++) {
            char name[PL_MODULE_NAME_MAX];
            pl_arm_module_name(&arm->arm, arm->topology, m, name);
            plan_set_version(&f->h.tasks, name, version, 8000);
        }
    }
    assert_false(hub_is_late(arm, &f->paths[0], l, 1, 10900));
    assert_true(hub_is_late(arm, &f->paths[0], l, 1, 11100));
    hub_note_returned(&f->h, 0, 9100);
    assert_true(hub_is_on_trial(&f->h, &f->workers[0]));
    deliver(f, 8600); /* nor does the time of a task contain the waiting */
    assert_float_equal(arm->median_s, 1.2, 1e-9);
}

/* A worker that shows its lease to each new hub, and does nothing, would stop the job.
 */
FIXTURE_TEST(lease_is_late_for_a_hub_that_knows_only_what_homes_say)
{
    plan_arm *arm = &f->h.tasks.arms[0];
    arm->arm.outer.method.method = PL_METHOD_NOLOCO;
    for (int i = 0; i < 4; i++)
        f->workers[i].pace[0] = (hub_pace){0};
    for (int i = 0; i < arm->n_tasks; i++) {
        arm->paths[i].phase = 2;
        arm->paths[i].work.seconds = 1.8;
    }
    plan_grant(&f->h.tasks, f->first, 0, 0, TTL);
    hub_look_at_fleet(&f->h, 0);
    assert_false(hub_is_late(arm, &f->paths[0], &f->paths[0].lease, 2, 26000));
    assert_true(hub_is_late(arm, &f->paths[0], &f->paths[0].lease, 2, 28000));
    assert_true(finds(f, 1, 28000));
}

FIXTURE_TEST(holder_that_scores_text_has_longer)
{
    plan_arm *arm = &f->h.tasks.arms[0];
    const plan_lease *l = begin(f, 0);
    hub_look_at_fleet(&f->h, 0);
    arm->arm.held_every = 1;
    pl_arm_hold(&arm->arm);
    assert_true(hub_is_late(arm, &f->paths[0], l, 0, 3100));
    arm->arm.held_bytes[0] = 2 * STEPS * 2 * 16; /* as much as two tasks */
    assert_false(hub_is_late(arm, &f->paths[0], l, 0, 8900));
    assert_true(hub_is_late(arm, &f->paths[0], l, 0, 9100));
}

FIXTURE_TEST(holder_that_sends_its_state_has_longer)
{
    plan_arm *arm = &f->h.tasks.arms[0];
    arm->arm.outer.state_every = 2;
    for (int64_t phase = 0; phase < 2; phase++) {
        finish(&f->paths[0], phase, 0);
        const plan_lease *l = begin(f, 0);
        hub_look_at_fleet(&f->h, 0);
        /* the first phase does not upload it, the second one does */
        assert_int_equal(hub_is_late(arm, &f->paths[0], l, phase, 3100), phase == 0);
        assert_true(hub_is_late(arm, &f->paths[0], l, phase, 30000));
    }
}

FIXTURE_TEST(what_two_may_not_do_is_taken_earlier_from_a_worker_on_trial)
{
    plan_lease *l = begin(f, 0);
    f->h.tasks.arms[0].arm.outer.method.method = PL_METHOD_NOLOCO;
    f->workers[0].own_key = false;
    f->workers[0].key.bytes[0] = 1;
    l->first_ms = 100; /* worker 0 reports that it is nearly done */
    l->step_ms = 1500;
    l->step = STEPS - 1;
    assert_false(finds(f, 1, 1900));
    assert_true(finds(f, 1, 2100));
    hub_note_success(&f->h, 0, false);
    assert_false(finds(f, 1, 2200));
    hub_note_lost(&f->h, 0, UINT64_MAX);
    begin(f, 0); /* it was on trial when it got this lease */
    hub_end_late(&f->h, f->first, 2300);
    assert_false(f->paths[0].lease.active);
    assert_int_equal(f->workers[0].n_failures, 1);
}

/* With noloco, two workers may not do one task, so a backup would take the lease from
 * its holder. After the holder has reported the task as done this must not happen as
 * long as its results have perhaps arrived at a home. */
FIXTURE_TEST(who_says_done_keeps_the_lease_where_backups_are_not_allowed)
{
    hub_home slow = {.welcome = true, .fresh_ms = 2700};
    f->h.homes = &slow;
    f->h.n_homes = 1;
    f->h.tasks.arms[0].arm.outer.method.method = PL_METHOD_NOLOCO;
    uint64_t token = begin(f, 0)->token;
    f->workers[0].own_key = false; /* worker 0 is on trial */
    assert_true(finds(f, 1, 2700));
    assert_true(say(f, 0, token, 0, 2800));
    assert_false(finds(f, 1, 2900));
    assert_false(finds(f, 1, 20000));
    slow.fresh_ms = 2801; /* asked after the DONE, the home has no result */
    assert_true(finds(f, 1, 20100));
    f->h.homes = NULL;
    f->h.n_homes = 0;
}

/* A worker says itself how long its inner steps took. Its pace follows from the hub's
 * clock all the same, also if its lease went on to the next phase. */
FIXTURE_TEST(worker_cannot_make_itself_fast_by_what_it_says)
{
    hub_worker *w = &f->workers[0];
    const pl_arm *arm = &f->h.tasks.arms[0].arm;
    w->pace[0] = (hub_pace){0};
    plan_grant(&f->h.tasks, f->first, 0, 1000, TTL);
    const plan_lease *l = &f->paths[0].lease;
    plan_extend(&f->h.tasks, f->first, 1900, TTL);
    hub_note_done(&f->h, w, &f->paths[0], 0, l, 0.001, 6000);
    assert_float_equal(hub_task_s(w, arm), 5, 1e-6);
    /* until 6 s it was at the first phase */
    hub_note_done(&f->h, w, &f->paths[0], 1, l, 0.001, 9000);
    assert_float_equal(hub_task_s(w, arm), 4, 1e-6);
    /* the hub does not know when a lease began that it took up: nothing is believed */
    plan_grant(&f->h.tasks, f->first, 0, 10000, TTL);
    f->paths[0].lease.taken_up = true;
    hub_note_done(&f->h, w, &f->paths[0], 0, &f->paths[0].lease, 0.001, 20000);
    assert_float_equal(hub_task_s(w, arm), 4, 1e-6);
    /* nor how many phases it repeated in a time that it names */
    plan_grant(&f->h.tasks, f->first, 0, 30000, TTL);
    f->paths[0].lease.repeats = 1;
    hub_note_done(&f->h, w, &f->paths[0], 0, &f->paths[0].lease, 0.001, 38000);
    assert_float_equal(hub_task_s(w, arm), 4, 1e-6);
}

/* A worker reports its DONE at once, and that it fetched very much that it will keep.
 */
FIXTURE_TEST(worker_is_no_faster_than_the_usual_time_by_what_it_claims)
{
    hub_worker *w = &f->workers[0];
    const pl_arm *arm = &f->h.tasks.arms[0].arm;
    plan_settled done;
    join(f, 0);
    w->pace[0] = (hub_pace){0};
    plan_grant(&f->h.tasks, f->first, 0, 1000, TTL);
    hub_look_at_fleet(&f->h, 1000); /* the others need 1 s */
    w->given_token = f->paths[0].lease.token;
    const plan_said said = {.token = w->given_token};
    const plan_news news = {.phase = 1, .by = 0, .work.seconds = 0.001};
    assert_true(plan_say_done(&f->paths[0], &said, 1001, TTL));
    for (int step = 1; step < 3; step++) {
        const pl_msg_renew q = {
            .trains = true, .step = (uint64_t)step, .down = UINT64_C(1) << 40};
        hub_note_renewal(&f->h, 0, &f->paths[0], &f->paths[0].lease, &q, 10800 + step);
    }
    assert_true(plan_settle(&f->h.tasks, &f->paths[0], &news, 11000, &done));
    hub_note_settled(&f->h, f->first, &done, 11000);
    assert_float_equal(hub_task_s(w, arm), 1, 1e-6);
}

FIXTURE_TEST(leases_that_run_out_bar_a_key_on_trial)
{
    for (int i = 0; i < 2; i++) {
        f->workers[i].own_key = false;
        f->workers[i].key.bytes[0] = 1;
    }
    hub_note_success(&f->h, 0, false);
    assert_false(
        hub_is_on_trial(&f->h, &f->workers[1])); /* worker 1 has the same key */
    hub_note_lost(&f->h, 0, UINT64_MAX);
    /* a lease that is renewed too late comes back, and may run out again */
    for (uint64_t i = 0; i < 6; i++) {
        hub_note_lost(&f->h, 0, UINT64_C(1) << 40 | i / 3);
        assert_true(hub_is_on_trial(&f->h, &f->workers[1]));
        assert_int_equal(f->workers[1].n_failures, 1 + i / 3);
        assert_false(hub_is_barred(&f->workers[1], pl_now_ms()));
    }
    hub_note_lost(&f->h, 1, UINT64_MAX);
    assert_true(hub_is_barred(&f->workers[0], pl_now_ms()));
    /* A worker with one of the job's own keys may lose any number of leases. */
    for (int i = 0; i < 9; i++)
        hub_note_lost(&f->h, 2, UINT64_MAX);
    assert_false(hub_is_on_trial(&f->h, &f->workers[2]));
    assert_false(hub_is_barred(&f->workers[2], pl_now_ms()));
}

/* Own parameters that a joined worker has moved a little in each of many phases go on
 * into the states of the own workers after it. */
FIXTURE_TEST(own_state_may_be_the_cause_of_failures_if_others_have_delivered)
{
    f->h.worker_names = pl_name_table_create();
    pl_name_table_put(f->h.worker_names, f->workers[1].name, 1);
    for (int joined = 0; joined < 2; joined++) {
        plan_path *path = &f->paths[joined];
        path->phase = 1;
        pl_copy_text(path->state_of, sizeof path->state_of, f->workers[1].name);
        path->lease.failures = 3;
        f->workers[2].own_key = false;
        f->workers[2].delivered = joined;
        f->workers[0].seen_ms = pl_now_ms();
        f->h.failure[0] = '\0';
        for (int i = 0; i < 3; i++)
            assert_ok(hub_note_failure(&f->h, path, 0, PL_ERR_DATA, "too long"));
        assert_int_equal(f->h.failure[0] == '\0', joined);
        assert_int_equal(path->drops_state, joined);
    }
    pl_name_table_destroy(&f->h.worker_names);
}

FIXTURE_TEST(audit_that_is_held_for_ever_goes_to_another)
{
    hub_audit a = {0};
    pl_copy_text(a.row.path, sizeof a.row.path, "mix/p00.r0");
    a.lease = (plan_lease){.active = true, .token = 7, .worker = 1};
    f->h.audits = &a;
    f->h.n_audits = 1;
    f->h.tasks.arms[0].times_s[0] = f->h.tasks.arms[0].median_s = 1;
    f->h.tasks.arms[0].n_times = 1;
    f->workers[1].own_key = false;
    pl_pubkey key = {{1}};
    f->workers[1].key = key;
    assert_int_equal(hub_n_held(&f->h, &f->workers[1], HELD_BY_KEY), 1);
    hub_end_overdue(&f->h, 20000 + 10 * TTL);
    assert_true(a.lease.active);
    hub_end_overdue(&f->h, 20001 + 10 * TTL);
    assert_false(a.lease.active);
    assert_true(f->workers[1].n_failures > 0);
    f->h.audits = NULL;
    f->h.n_audits = 0;
}

FIXTURE_TEST(lease_of_an_audit_lives_as_long_as_that_of_a_task)
{
    hub_audit a = {0};
    f->options.ttl_ms = 100;
    f->h.tasks.arms[0].times_s[0] = f->h.tasks.arms[0].median_s = 600;
    f->h.tasks.arms[0].n_times = 1;
    hub_grant_audit(&f->h, &a, 1, 1000);
    assert_int_equal(a.lease.deadline_ms, 1000 + 600 * 1000 / 20);
}

/* With one holder per task, a first task is taken from a holder that stands still. That
 * must not make the others late. */
FIXTURE_TEST(usual_time_is_not_learned_from_a_holder_that_stood_still)
{
    plan *p = &f->h.tasks;
    p->arms[0].arm.outer.method.method = PL_METHOD_NOLOCO;
    p->arms[0].n_times = 0;
    p->arms[0].median_s = p->arms[0].typical_s = 0;
    p->arms[0].is_measured = false;
    for (int i = 0; i < 4; i++)
        f->workers[i].pace[0] = f->workers[i].pace[1] = (hub_pace){0};
    const plan_lease *l = begin(f, 0);
    plan_grant(p, (plan_task){0, 1}, 1, 0, TTL);
    assert_false(hub_is_late(&p->arms[0], &f->paths[0], l, 0, 119000));
    plan_stand_still(p, 100000, 0); /* the homes were away */
    assert_false(hub_is_late(&p->arms[0], &f->paths[0], l, 0, 219000));
    assert_true(hub_is_late(&p->arms[0], &f->paths[0], l, 0, 1000000));
    hub_end_late(&f->h, f->first, 1000000);
    assert_false(f->paths[0].lease.active);
    for (int i = 0; i < 4; i++)
        f->workers[i].seen_ms = 1000000;
    hub_look_at_fleet(&f->h, 1000000);
    assert_true(hub_usual_s(&p->arms[0]) <= 0);
    hub_end_overdue(&f->h, 9000000);
    assert_true(f->paths[1].lease.active);
}

/* A large shard over a slow link: to take the task away would lose what has come. */
FIXTURE_TEST(lease_whose_bytes_move_is_not_ended_while_nobody_waits)
{
    const plan_lease *lease = begin(f, 0);
    const int64_t end = lease->granted_ms + 20001 + 10 * TTL;
    f->h.tasks.arms[0].times_s[0] = f->h.tasks.arms[0].median_s = 1;
    f->h.tasks.arms[0].n_times = 1;
    f->workers[0].link.moved_ms = end - 59000;
    for (int i = 1; i < 4; i++)
        f->workers[i].waiting = false;
    hub_end_overdue(&f->h, end);
    assert_true(lease->active);
    f->workers[1].waiting = true;
    f->workers[1].drains = true;
    hub_end_overdue(&f->h, end);
    assert_true(lease->active);
    f->workers[1].drains = false;
    hub_end_overdue(&f->h, end);
    assert_false(lease->active);
    f->workers[1].waiting = false;
    lease = begin(f, 0);
    f->workers[0].link.moved_ms = 3 * end - 60001; /* no byte for over a minute */
    hub_end_overdue(&f->h, 3 * end);
    assert_false(lease->active);
}

/* A lease that was held for too long has ended for good. If a renewal could restore it,
 * hub_end_overdue would end it again each second, and each time count one more failure
 * of the worker. */
FIXTURE_TEST(lease_that_was_held_for_too_long_is_not_renewed)
{
    plan *p = &f->h.tasks;
    const plan_lease *lease = begin(f, 0);
    const uint64_t token = lease->token;
    const int64_t end = lease->granted_ms + 20001 + 10 * TTL;
    f->h.tasks.arms[0].times_s[0] = f->h.tasks.arms[0].median_s = 1;
    f->h.tasks.arms[0].n_times = 1;
    assert_true(plan_renew(p, &f->paths[0], 0, token, 0, end, TTL));
    hub_end_overdue(&f->h, end);
    assert_int_equal(f->workers[0].n_failures, 1);
    assert_false(plan_renew(p, &f->paths[0], 0, token, 0, end, TTL));
    hub_end_overdue(&f->h, end + 1000);
    assert_int_equal(f->workers[0].n_failures, 1);
}

/* It has trained, and its way to the homes is broken. */
FIXTURE_TEST(results_that_cannot_be_sent_bar_a_machine_and_are_no_failure)
{
    plan_lease *lease = begin(f, 0);
    const int64_t end = lease->granted_ms + 20001 + 10 * TTL;
    f->h.tasks.arms[0].times_s[0] = f->h.tasks.arms[0].median_s = 1;
    f->h.tasks.arms[0].n_times = 1;
    f->workers[0].own_key = true;
    lease->stage = PLAN_SENDS;
    hub_end_overdue(&f->h, end - 10);
    assert_true(lease->active);
    hub_end_overdue(&f->h, end);
    assert_false(lease->active);
    assert_true(hub_is_barred(&f->workers[0], pl_now_ms()));
    assert_int_equal(f->workers[0].n_failures, 0);
    assert_int_equal(lease->failures, 0);
}

FIXTURE_TEST(failure_of_a_backup_is_not_the_holders)
{
    plan *p = &f->h.tasks;
    begin(f, 0);
    hub_note_pace(&f->h, &f->workers[0], 0, 9, 20, 0); /* it is known to be slow */
    for (int i = 0; i < 2; i++) {
        assert_true(finds(f, 1, 500 + 100 * i));
        plan_release(p, &f->paths[0], back_up(f, 1)->token, 1, true);
    }
    assert_int_equal(f->paths[0].lease.failures, 0);
    assert_true(f->paths[0].lease.active);
    assert_false(finds(f, 1, 1000));
    assert_int_equal(p->n_failed, 2);
    assert_true(finds(f, 1, 3100)); /* the lease is late */
}

/* While a home is away or the hub is stopped, no result can be confirmed. */
FIXTURE_TEST(lease_does_not_become_late_by_an_outage)
{
    hub_home home = {.known = true, .welcome = false};
    plan_grant(&f->h.tasks, f->first, 0, 1000, 1000 * TTL);
    plan_extend(&f->h.tasks, f->first, 1100, 1000 * TTL);
    bool more = false;
    assert_ok(pl_wire_connect("tcp://127.0.0.1:9", &home.socket));
    f->h.homes = &home;
    f->h.n_homes = 1;
    f->h.expired_ms = home.asked_ms = 1200;
    home.heard_ms = 1200;
    /* the hub is not asked for backups here, because no worker waits */
    for (int64_t ms = 1300; ms <= 61200; ms += 100) {
        home.asked_ms = ms;
        assert_ok(hub_tend(&f->h, ms, &more));
    }
    pl_wire_close(&home.socket);
    f->h.n_homes = 0;
    f->h.homes = NULL;
    for (int i = 0; i < 4; i++)
        f->workers[i].seen_ms = 121200;
    assert_ok(hub_tend(&f->h, 121200, &more)); /* it was stopped */
    assert_false(finds(f, 1, 123800));
    assert_true(finds(f, 1, 124100));
}

/* A worker that is stopped gives its task back. One that does so again and again after
 * a long time delays paths as one that holds them. */
FIXTURE_TEST(task_given_back_after_its_usual_time_puts_a_key_on_trial)
{
    join(f, 0);
    begin(f, 0);
    hub_look_at_fleet(&f->h, 0);
    hub_note_returned(&f->h, 0, 900);
    assert_false(hub_is_on_trial(&f->h, &f->workers[0]));
    hub_note_returned(&f->h, 0, 1100);
    assert_true(hub_is_on_trial(&f->h, &f->workers[0]));
    assert_int_equal(f->workers[0].n_failures, 0);
    /* also a backup, and also when a new process takes the place of the old one */
    join(f, 1);
    plan_grant_backup(&f->h.tasks, f->first, 1, 0, TTL);
    hub_free_held(&f->h, 1);
    assert_true(hub_is_on_trial(&f->h, &f->workers[1]));
    assert_false(f->paths[0].backup.active);
}

/* Lets the hub hear an OFFER of worker 0 and returns whether it counts. */
static bool offers(fixture *f, const pl_peer *peer)
{
    OWNED(pl_message_destroy) pl_message m = {.token = f->paths[0].lease.token};
    PL_SAY(&m, OFFER, offer, .name = "a", .phase = 0, .task = f->paths[0].name);
    m.type = PL_MSG_OFFER;
    assert_ok(hub_take(&f->h, peer, &m));
    return f->paths[0].offered == 1;
}

FIXTURE_TEST(offer_counts_only_from_a_worker_that_delivers)
{
    char bound[PL_ADDRESS_MAX];
    f->h.worker_names = pl_name_table_create();
    pl_name_table_put(f->h.worker_names, "a", 0);
    assert_ok(pl_wire_bind("tcp://127.0.0.1:*", &f->h.socket, bound));
    join(f, 0);
    f->workers[0].n_results = 0;
    const pl_peer peer = {.role = PL_AS_WORKER, .key = f->workers[0].key, .len = 1};
    begin(f, 0);
    assert_false(offers(f, &peer));
    f->workers[0].n_results = 1;
    assert_true(offers(f, &peer));
    hub_put_on_trial(&f->h, 0);
    assert_int_equal(f->paths[0].offered, 0);
    pl_wire_close(&f->h.socket);
    pl_wire_shutdown();
    pl_name_table_destroy(&f->h.worker_names);
}

/* A liar had the name of an own worker before that worker came. The path's row names
 * the key, too. */
FIXTURE_TEST(worker_is_not_blamed_for_a_state_of_its_name_and_another_key)
{
    plan_path *path = &f->paths[0];
    f->h.worker_names = pl_name_table_create();
    for (int i = 0; i < 2; i++) {
        pl_name_table_put(f->h.worker_names, f->workers[i].name, i);
        f->workers[i].key.bytes[0] = 5;
        f->workers[i].seen_ms = pl_now_ms();
    }
    for (int other = 1; other >= 0; other--) {
        plan_news news = {.phase = 2 - other, .worker = "a", .by = -1, .keeper = -1};
        news.key.bytes[0] = other ? 9 : 5;
        assert_int_equal(hub_find_maker(&f->h, "a", &news.key), other ? -1 : 0);
        plan_hear(path, &news, 0);
        path->drops_state = false;
        for (int i = 0; i < 3; i++) {
            path->lease.failures = i + 1;
            assert_ok(
                hub_note_failure(&f->h, path, 1, PL_ERR_DATA, "its norm is too large"));
        }
        /* another's state is dropped; one of its own ends the job */
        assert_int_equal(path->drops_state, other);
        assert_int_equal(f->h.failure[0] == '\0', other);
    }
    pl_name_table_destroy(&f->h.worker_names);
}
