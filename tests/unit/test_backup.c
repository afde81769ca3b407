/* folder: workers; label: unit
 *
 * Tests backup leases: which worker gets the second lease of a task, and how both
 * leases end. */
#include "tests/unit/fleet_fixture.h"

#define FIXTURE_TEST(name) PL_TEST_ON(name, fixture *f, setup, teardown)

FIXTURE_TEST(task_within_its_promise_gets_no_backup)
{
    begin(f, 0);
    for (int64_t ms = 0; ms <= 2900; ms += 100)
        assert_false(finds(f, 1, ms));
    assert_true(finds(f, 1, 3100));
}

FIXTURE_TEST(progress_that_is_too_slow_is_seen_at_once)
{
    plan_lease *l = begin(f, 0);
    l->first_ms = 400; /* at 0.4 s per step the task takes 4 s, not 1 s */
    l->first_step = 1;
    l->step_ms = 800;
    l->step = 2;
    assert_true(finds(f, 1, 850));
}

FIXTURE_TEST(small_gains_are_not_worth_it)
{
    for (int i = 0; i < 20; i++) {
        hub_note_pace(&f->h, &f->workers[0], 0, 0.02, 0.03, 0);
        hub_note_pace(&f->h, &f->workers[1], 0, 0.02, 0.03, 0);
    }
    begin(f, 0);
    assert_false(finds(f, 1, 250));
    assert_true(finds(f, 1, 400));
}

FIXTURE_TEST(only_an_idle_worker_of_the_same_kind_is_asked)
{
    plan_lease *l = begin(f, 0);
    l->first_ms = 400; /* as above: too slow, but not late yet */
    l->first_step = 1;
    l->step_ms = 800;
    l->step = 2;
    assert_false(finds(f, 0, 850)); /* worker 0 is the holder */
    assert_false(finds(f, 3, 850));
    pl_copy_text(f->workers[1].task, sizeof f->workers[1].task, "mix/p01.r0");
    assert_false(finds(f, 1, 850));
    assert_true(finds(f, 2, 850));
    assert_true(finds(f, 3, 9000)); /* the lease is late */
    f->options.backup = PL_BACKUP_ANY;
    assert_true(finds(f, 3, 850));
    f->options.backup = PL_BACKUP_OFF;
    assert_false(finds(f, 2, 9000));
}

/* Else workers that keep their paths would leave it nothing to do. */
FIXTURE_TEST(worker_that_joins_is_measured)
{
    begin(f, 0);
    f->workers[3].pace[0] = (hub_pace){0};
    assert_false(finds(f, 3, 100)); /* on the hub's own machine */
    f->workers[3].peer.role = PL_AS_WORKER;
    for (int ms = 150; ms < 450; ms += 100)
        assert_true(finds(f, 3, ms));
    assert_false(finds(f, 3, 450));
    f->workers[3].n_probes = 0;
    assert_false(finds(f, 3, 900)); /* too little is left */
}

/* A worker on trial is helped by workers of any kind that are not on trial, and earlier
 * than other workers. */
FIXTURE_TEST(worker_on_trial_is_helped_as_soon_as_it_is_late)
{
    f->workers[0].own_key = f->workers[2].own_key = false;
    pl_copy_text(f->workers[0].device, sizeof f->workers[0].device, "my own kind");
    f->workers[0].key.bytes[0] = 1;
    begin(f, 0);
    assert_false(finds(f, 1, 2200));
    assert_false(finds(f, 2, 2300)); /* worker 2 is on trial */
    assert_true(finds(f, 1, 2300));
    f->options.backup = PL_BACKUP_OFF;
    assert_false(finds(f, 1, 2300));
    f->options.backup = PL_BACKUP_AUTO;
    hub_note_success(&f->h, 0, false);
    assert_false(finds(f, 1, 2400));
    hub_note_lost(&f->h, 0, UINT64_MAX); /* worker 0 is on trial again */
    assert_true(finds(f, 1, 2500));
    /* while its result is audited, worker 0 is on trial again */
    hub_note_success(&f->h, 0, false);
    hub_part part = {.sends = true};
    hub_audit a = {.row = {.n = 1}, .n_parts = 1, .parts = &part};
    pl_copy_text(part.from.worker, sizeof part.from.worker, f->workers[0].name);
    assert_false(finds(f, 1, 2600));
    f->h.audits = &a;
    f->h.n_audits = 1;
    assert_true(finds(f, 1, 2700));
    f->h.audits = NULL;
    f->h.n_audits = 0;
    assert_false(finds(f, 1, 2800));
}

/* Nobody knows how long a worker needs that joined just now. It is late when it fetches
 * for longer than the others. */
FIXTURE_TEST(new_worker_is_helped_when_it_fetches_for_long)
{
    f->workers[0].own_key = false;
    f->workers[0].key.bytes[0] = 1;
    f->workers[0].pace[0] = (hub_pace){0};
    plan_lease *l = begin(f, 0);
    assert_false(finds(f, 1, 60));
    assert_true(finds(f, 1, 300));
    l->first_ms = l->step_ms = 150; /* it has begun, 0.05 s later than the others */
    l->first_step = l->step = 1;
    assert_false(finds(f, 1, 400));
    l->step_ms = 550;
    l->step = 5;
    assert_false(finds(f, 1, 600));
}

/* The job's first task: the others wait for it, and nobody was measured. */
FIXTURE_TEST(first_task_of_a_worker_on_trial_is_begun_twice)
{
    for (int i = 0; i < 4; i++) {
        f->workers[i].own_key = false;
        f->workers[i].key.bytes[0] = (uint8_t)(i + 1);
        f->workers[i].pace[0] = (hub_pace){0};
    }
    begin(f, 0);
    assert_false(finds(f, 3, 100)); /* another kind of device */
    assert_true(finds(f, 1, 200));
    plan_grant(&f->h.tasks, (plan_task){0, 1}, 2, 0, TTL);
    assert_false(finds(f, 1, 300)); /* with two tasks the reports tell which is slow */
    assert_true(finds(f, 1, 2100));
    f->workers[1].key = f->workers[2].key; /* whose other worker has a lease */
    assert_false(finds(f, 1, 2200));
}

FIXTURE_TEST(slowest_of_many_comes_first)
{
    plan_task task;
    for (int i = 0; i < 3; i++)
        plan_grant(&f->h.tasks, (plan_task){0, i}, 0, i == 1 ? 0 : 5000, TTL);
    assert_true(hub_find_backup(&f->h, 1, 20000, &task));
    assert_int_equal(task.index, 1);
}

/* ---- what a worker is seen to do ---- */
static void renew(fixture *f, bool trains, uint64_t step, uint64_t down, int64_t now_ms)
{
    const pl_msg_renew q = {.trains = trains, .step = step, .down = down};
    hub_note_renewal(&f->h, 0, &f->paths[0], &f->paths[0].lease, &q, now_ms);
    hub_look_at_fleet(&f->h, now_ms);
}

FIXTURE_TEST(worker_with_a_lease_is_never_idle)
{
    hub_worker *w = &f->workers[0];
    hub_look_at_fleet(&f->h, 50);
    assert_string_equal(hub_doing(w, 50), "waiting");
    begin(f, 0);
    renew(f, false, 0, 10, 100);
    assert_true(w->has_lease);
    assert_string_equal(hub_doing(w, 100), "fetching");
    assert_string_equal(w->at->name, f->paths[0].name);
    renew(f, true, 0, 20, 200);
    assert_string_equal(hub_doing(w, 200), "training");
    renew(f, true, STEPS, 20, 300);
    renew(f, false, 0, 20, 400);
    assert_string_equal(hub_doing(w, 400), "sending");
    /* a second lease, of which nothing was reported yet */
    plan_grant(&f->h.tasks, (plan_task){0, 1}, 0, 450, TTL);
    hub_look_at_fleet(&f->h, 500);
    assert_string_equal(hub_doing(w, 500), "sending");
}

/* Small messages arrive, and large packets are lost on the way. */
FIXTURE_TEST(transfer_that_does_not_move_is_stalled)
{
    hub_worker *w = &f->workers[0];
    char text[HUB_WITHHELD_TEXT_MAX];
    begin(f, 0);
    renew(f, false, 0, 0, 100);
    renew(f, false, 0, 5000, 9000);
    renew(f, false, 0, 5000, 23900);
    assert_string_equal(hub_doing(w, 23900), "fetching");
    assert_string_equal(hub_reason(&f->h, w, 23900, text), "");
    renew(f, false, 0, 5000, 34000);
    assert_string_equal(hub_doing(w, 34000), "stalled");
    assert_non_null(strstr(hub_reason(&f->h, w, 34000, text), "for 25 s no byte"));
    renew(f, false, 0, 6000, 34100);
    assert_string_equal(hub_doing(w, 34100), "fetching");
    /* training takes an hour, in which nothing moves; then sending begins */
    renew(f, true, 1, 6000, 34200);
    renew(f, true, STEPS, 6000, 3634200);
    assert_string_equal(hub_doing(w, 3634200), "training");
    renew(f, false, 0, 6000, 3634300);
    assert_string_equal(hub_doing(w, 3634300), "sending");
}

/* A hub that restarted does not know when a lease that it takes over began. If it
 * counted the lease as begun at time 0, the task would get a backup immediately. */
FIXTURE_TEST(lease_taken_up_after_a_restart_is_not_slow_at_once)
{
    plan *p = &f->h.tasks;
    p->epoch = 2;
    int64_t now_ms = 100000000;
    assert_true(plan_renew(p, &f->paths[0], 0, (1ull << 32) | 5, 0, now_ms, TTL));
    assert_false(finds(f, 1, now_ms + 100));
    assert_true(finds(f, 1, now_ms + 9000));
}

FIXTURE_TEST(audit_is_answered_by_its_holder_alone)
{
    hub_audit a = {0};
    a.lease = (plan_lease){.active = true, .token = 7, .worker = 1};
    f->h.audits = &a;
    f->h.n_audits = 1;
    assert_ptr_equal(hub_audit_of(&f->h, 7, 1), &a);
    assert_null(hub_audit_of(&f->h, 7, 0));
    assert_null(hub_audit_of(&f->h, 8, 1));
    f->h.audits = NULL;
    f->h.n_audits = 0;
}

FIXTURE_TEST(both_leases_are_renewed_and_a_third_is_not_given)
{
    plan *p = &f->h.tasks;
    uint64_t slow = begin(f, 0)->token, quick = back_up(f, 1)->token;
    assert_true(quick > slow);
    assert_true(plan_renew(p, &f->paths[0], 0, slow, 0, 9100, TTL));
    assert_true(plan_renew(p, &f->paths[0], 0, quick, 1, 9100, TTL));
    assert_int_equal(f->paths[0].lease.worker, 0);
    assert_false(finds(f, 2, 11000));
}

/* Lets the homes report the first path's phase. Returns whether worker `by` is
 * credited. */
static bool settle(fixture *f, int by, int64_t now_ms, plan_settled *out)
{
    plan_path *path = &f->paths[0];
    const plan_news news = {.phase = path->phase + 1, .by = by};
    const bool settled = plan_settle(&f->h.tasks, path, &news, now_ms, out);
    plan_hear(path, &news, now_ms);
    return settled;
}

FIXTURE_TEST(whoever_comes_first_stops_the_other)
{
    plan *p = &f->h.tasks;
    plan_settled done;
    for (int i = 0; i < 4; i++) {
        int won = i % 2;
        bool says_first = i >= 2;
        uint64_t tokens[2] = {begin(f, 0)->token, back_up(f, 1)->token};
        int64_t phase = f->paths[0].phase;
        uint64_t won_before = p->n_backups_won;
        if (says_first)
            assert_true(say(f, phase, tokens[won], won, 9400));
        assert_true(f->paths[0].lease.active);
        assert_true(f->paths[0].backup.active);
        assert_true(settle(f, won, 9500, &done));
        assert_false(f->paths[0].lease.active);
        assert_false(f->paths[0].backup.active);
        assert_int_equal(done.done.worker, won);
        assert_int_equal(done.lost.worker, !won);
        assert_true(done.lost.token == tokens[!won]);
        assert_int_equal(p->n_backups_won - won_before, won);
        assert_int_equal(f->paths[0].last_worker, won);
        /* later reports are ignored */
        assert_false(say(f, phase, tokens[won], won, 9500));
        assert_false(plan_renew(p, &f->paths[0], phase, tokens[!won], !won, 9600, TTL));
    }
}

/* Two workers have leases of one task. The task is credited to the worker that the
 * homes name, whoever reports it first; if they name none that is known, to none. */
FIXTURE_TEST(of_two_who_say_it_the_one_who_delivered_is_credited)
{
    plan *p = &f->h.tasks;
    plan_settled done;
    for (int i = 0; i < 8; i++) {
        int first = i & 1, named = i >> 1 & 1;
        bool both = i >= 4;
        uint64_t tokens[2] = {begin(f, 0)->token, back_up(f, 1)->token};
        int64_t phase = f->paths[0].phase;
        uint64_t won_before = p->n_backups_won;
        assert_true(say(f, phase, tokens[first], first, 9400));
        assert_true(plan_has_said(&f->paths[0], first, 9460));
        assert_int_equal(both, both && say(f, phase, tokens[!first], !first, 9450));
        assert_true(settle(f, named, 9500, &done));
        assert_int_equal(done.done.worker, named);
        assert_true(done.done.token == tokens[named]);
        assert_int_equal(p->n_backups_won - won_before, named);
        assert_int_equal(done.lost.worker, both || first != named ? -1 : !named);
        assert_int_equal(f->paths[0].n_said, 0);
    }
    begin(f, 0);
    assert_false(settle(f, -1, 9600, &done));
    assert_false(settle(f, 1, 9700, &done)); /* it had no lease */
}

/* ---- a worker says DONE before the homes report the task ---- */
FIXTURE_TEST(what_only_the_worker_says_finishes_nothing)
{
    plan *p = &f->h.tasks;
    plan_path *path = &f->paths[0];
    plan_task task;
    uint64_t token = begin(f, 0)->token;
    assert_false(say(f, 0, token, 1, 1000)); /* worker 1 has no lease */
    assert_true(say(f, 0, token, 0, 1000));
    assert_int_equal(path->phase, 0);
    /* While worker 0 is on trial, its report does not delay a backup. */
    f->workers[0].own_key = false;
    f->workers[0].key.bytes[0] = 1;
    assert_true(finds(f, 1, 1000 + 100));
    f->workers[0].own_key = true;
    assert_false(finds(f, 1, 1000 + 1400)); /* the homes may still confirm the phase */
    assert_true(finds(f, 1, 1000 + 1600));
    /* The backup may have another kind of device. */
    assert_true(finds(f, 3, 1000 + 1700));
    /* This home has not yet answered a question that was sent after the report. */
    hub_home slow = {.welcome = true, .fresh_ms = 1000};
    f->h.homes = &slow;
    f->h.n_homes = 1;
    assert_false(finds(f, 1, 1000 + 3000));
    slow.fresh_ms = 1001;
    assert_true(finds(f, 1, 1000 + 3100));
    f->h.homes = NULL;
    f->h.n_homes = 0;
    f->workers[1].own_key = false;
    assert_false(finds(f, 1, 1000 + 1800)); /* worker 1 is on trial */
    f->workers[1].own_key = true;
    /* neither a renewal nor a repeated report prolongs the lease beyond TTL ms after
     * the first report */
    assert_true(plan_renew(p, path, 0, token, 0, TTL, TTL));
    assert_true(say(f, 0, token, 0, TTL));
    assert_int_equal(plan_expire(p, TTL + 999, NULL, NULL), 0);
    assert_int_equal(plan_expire(p, TTL + 1000, NULL, NULL), 1);
    assert_false(plan_renew(p, path, 0, token, 0, TTL + 1000, TTL));
    for (int m = 0; m < pl_topology_n_modules(p->arms[0].topology); m++)
        p->arms[0].versions[m] = 0;
    for (int i = 1; i < 4; i++)
        plan_grant(p, (plan_task){0, i}, 2, TTL + 1000, 10 * TTL);
    assert_false(plan_choose(p, 0, TTL + 1000, &task));
    assert_true(plan_leaves_out(p, 0, TTL + 1000));
    assert_false(plan_leaves_out(p, 1, TTL + 1000));
    assert_true(plan_choose(p, 1, TTL + 1000, &task));
    assert_int_equal(task.index, 0);
    assert_true(plan_choose(p, 0, 3 * TTL + 1001, &task));
    assert_int_equal(task.index, 0);
}

FIXTURE_TEST(lie_is_not_confirmed_by_anothers_delivery)
{
    plan *p = &f->h.tasks;
    plan_settled done;
    uint64_t lie = begin(f, 0)->token;
    assert_true(say(f, 0, lie, 0, 1000));
    assert_int_equal(plan_expire(p, TTL + 1000, NULL, NULL), 1);
    begin(f, 1);
    assert_true(settle(f, 1, TTL + 2000, &done));
    assert_int_equal(done.done.worker, 1);
    assert_int_equal(done.lost.worker, -1);
}

/* The holder of a lease extends it to the next phase, but the homes never confirm the
 * phase before. The lease ends although its holder renews it. */
FIXTURE_TEST(lease_does_not_live_on_in_the_next_phase)
{
    plan *p = &f->h.tasks;
    uint64_t token = begin(f, 0)->token;
    plan_extend(p, f->first, 1000, TTL);
    assert_true(say(f, 0, token, 0, 2000));
    assert_true(plan_renew(p, &f->paths[0], 1, token, 0, TTL, TTL));
    assert_int_equal(plan_expire(p, TTL + 2000, NULL, NULL), 1);
    assert_false(f->paths[0].lease.active);
}

FIXTURE_TEST(holder_that_went_on_is_left_alone)
{
    plan_settled done;
    uint64_t slow = begin(f, 0)->token;
    back_up(f, 1);
    plan_extend(&f->h.tasks, f->first, 9400, TTL);
    assert_true(settle(f, 1, 9500, &done));
    assert_true(f->paths[0].lease.active);
    assert_int_equal(done.done.worker, 1);
    assert_int_equal(done.lost.worker, -1);
    assert_true(plan_renew(&f->h.tasks, &f->paths[0], 1, slow, 0, 9600, TTL));
}

FIXTURE_TEST(backup_takes_the_place_of_a_lease_that_ends)
{
    plan *p = &f->h.tasks;
    uint64_t slow = begin(f, 0)->token, quick = back_up(f, 1)->token;
    assert_int_equal(plan_expire(p, TTL + 1, NULL, NULL), 1);
    assert_true(f->paths[0].lease.active);
    assert_true(f->paths[0].lease.token == quick);
    assert_false(f->paths[0].backup.active);
    assert_false(plan_renew(p, &f->paths[0], 0, slow, 0, TTL + 2, TTL));
    assert_true(plan_renew(p, &f->paths[0], 0, quick, 1, TTL + 2, TTL));
    plan_release_worker(p, 1);
    assert_false(f->paths[0].lease.active);
}
