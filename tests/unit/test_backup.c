/* folder: workers; label: unit
 *
 * Tests backup leases: which worker gets the second lease of a task, and how both
 * leases end. */
#include "workers/hub_internal.h"
#include "tests/support/tiny_arm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { TTL = 60000, STEPS = 10 };

/* A hub with four workers. Workers a, b and c have devices of one kind; the worker
 * `other` has another kind. Every worker needs 1 s per task. */
typedef struct fixture {
    hub h;
    pl_hub_options options;
    hub_worker workers[4];
    plan_path *paths;
    plan_task first;
} fixture;

/* Tells the hub, as a home does, that the path has finished all phases before `phase`.
 * The report does not name the worker that finished them. */
static void finish(plan_path *path, int64_t phase, int64_t now_ms)
{
    const plan_news news = {.phase = phase};
    plan_hear(path, &news, now_ms);
}

static int setup(void **state)
{
    static const char *const names[] = {"a", "b", "c", "other"};
    pl_arm arm;
    pl_hash blob;
    fixture *f = pl_alloc(sizeof *f);
    memset(f, 0, sizeof *f);
    memset(&arm, 0, sizeof arm);
    pl_copy_text(arm.name, sizeof arm.name, "mix");
    arm.shape = tiny_shape(2);
    arm.spec = (pl_topology_spec){.n_levels = 2, .experts = {2, 2}, .replicas = 1};
    arm.inner = (pl_inner){.batch = 2, .context = 16, .tau = STEPS, .phases = 3};
    tiny_shards(&arm, 4);
    pl_hash_of("blob", "x", 1, &blob);
    f->options = (pl_hub_options){.backup = PL_BACKUP_AUTO, .ttl_ms = TTL};
    f->h.options = &f->options;
    f->h.workers = f->workers;
    f->h.n_workers = 4;
    f->h.tasks.epoch = 1;
    if (plan_add_arm(&f->h.tasks, &arm, &blob) != PL_OK)
        return -1;
    for (int i = 0; i < 4; i++) {
        pl_copy_text(f->workers[i].name, sizeof f->workers[i].name, names[i]);
        f->workers[i].own_key = true;
        pl_copy_text(f->workers[i].device, sizeof f->workers[i].device,
                     i == 3 ? "cuda" : "cpu");
        hub_note_pace(&f->h, &f->workers[i], 0, 0.9, 1.0, 0);
    }
    f->paths = f->h.tasks.arms[0].paths;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    plan_clear(&f->h.tasks);
    pl_free(f);
    return 0;
}

static plan_lease *begin(fixture *f, int worker)
{
    plan_grant(&f->h.tasks, f->first, worker, 0, TTL);
    return &f->paths[0].lease;
}

static bool finds(fixture *f, int worker, int64_t now_ms)
{
    plan_task task = {-1, -1};
    bool found = hub_find_backup(&f->h, worker, now_ms, &task);
    assert_true(!found || (task.arm == 0 && task.index == 0));
    return found;
}

static void task_within_its_promise_gets_no_backup(void **state)
{
    fixture *f = *state;
    begin(f, 0);
    for (int64_t ms = 0; ms <= 2900; ms += 100)
        assert_false(finds(f, 1, ms));
    assert_true(finds(f, 1, 3100));
}

static void progress_that_is_too_slow_is_seen_at_once(void **state)
{
    fixture *f = *state;
    plan_lease *l = begin(f, 0);
    l->first_ms = 400; /* at 0.4 s per step the task takes 4 s, not 1 s */
    l->first_step = 1;
    l->step_ms = 800;
    l->step = 2;
    assert_true(finds(f, 1, 850));
}

/* What the holder reports is believed until twice the expected time has passed. */
static void good_progress_excuses_a_late_beginning_once(void **state)
{
    fixture *f = *state;
    plan_lease *l = begin(f, 0);
    l->first_ms = 1200;
    l->first_step = 1;
    l->step_ms = 1600;
    l->step = 5;
    assert_false(finds(f, 1, 1650));
    assert_false(finds(f, 1, 1990));
    l->step_ms = 2900;
    l->step = STEPS;
    assert_false(finds(f, 1, 2950));
    assert_true(finds(f, 1, 3050));
}

static void small_gains_are_not_worth_it(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 20; i++) {
        hub_note_pace(&f->h, &f->workers[0], 0, 0.02, 0.03, 0);
        hub_note_pace(&f->h, &f->workers[1], 0, 0.02, 0.03, 0);
    }
    begin(f, 0);
    assert_false(finds(f, 1, 250));
    assert_true(finds(f, 1, 400));
}

static void only_an_idle_worker_of_the_same_kind_is_asked(void **state)
{
    fixture *f = *state;
    begin(f, 0);
    assert_false(finds(f, 0, 9000)); /* worker 0 is the holder */
    assert_false(finds(f, 3, 9000));
    pl_copy_text(f->workers[1].task, sizeof f->workers[1].task, "mix/p01.r0");
    assert_false(finds(f, 1, 9000));
    assert_true(finds(f, 2, 9000));
    f->options.backup = PL_BACKUP_ANY;
    assert_true(finds(f, 3, 9000));
    f->options.backup = PL_BACKUP_OFF;
    assert_false(finds(f, 2, 9000));
}

/* A worker on trial is helped by workers of any kind that are not on trial, and earlier
 * than other workers. */
static void worker_on_trial_is_helped_as_soon_as_it_is_late(void **state)
{
    fixture *f = *state;
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
    hub_note_success(&f->h, 0, 1);
    assert_false(finds(f, 1, 2400));
    hub_note_lost(&f->h, 0); /* worker 0 is on trial again */
    assert_true(finds(f, 1, 2500));
    /* while its result is audited, worker 0 is on trial again */
    hub_note_success(&f->h, 0, 1);
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
static void new_worker_is_helped_when_it_fetches_for_long(void **state)
{
    fixture *f = *state;
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
static void first_task_of_a_worker_on_trial_is_begun_twice(void **state)
{
    fixture *f = *state;
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
}

static void leases_that_run_out_bar_a_key_on_trial(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 2; i++) {
        f->workers[i].own_key = false;
        f->workers[i].key.bytes[0] = 1;
    }
    hub_note_success(&f->h, 0, 1);
    assert_false(
        hub_is_on_trial(&f->h, &f->workers[1])); /* worker 1 has the same key */
    for (int i = 0; i < 3; i++) {
        hub_note_lost(&f->h, 0);
        assert_true(hub_is_on_trial(&f->h, &f->workers[1]));
        assert_false(hub_is_barred(&f->workers[1], pl_now_ms()));
    }
    hub_note_lost(&f->h, 1);
    assert_true(hub_is_barred(&f->workers[0], pl_now_ms()));
    /* A worker with one of the job's own keys may lose any number of leases. */
    for (int i = 0; i < 9; i++)
        hub_note_lost(&f->h, 2);
    assert_false(hub_is_on_trial(&f->h, &f->workers[2]));
    assert_false(hub_is_barred(&f->workers[2], pl_now_ms()));
}

static void worker_that_was_never_measured_is_not_asked(void **state)
{
    fixture *f = *state;
    begin(f, 0);
    f->workers[1].pace[0] = (hub_pace){0};
    assert_false(finds(f, 1, 9000));
}

static void slowest_of_many_comes_first(void **state)
{
    fixture *f = *state;
    plan_task task;
    for (int i = 0; i < 3; i++)
        plan_grant(&f->h.tasks, (plan_task){0, i}, 0, i == 1 ? 0 : 5000, TTL);
    assert_true(hub_find_backup(&f->h, 1, 20000, &task));
    assert_int_equal(task.index, 1);
}

static void methods_that_depend_on_the_hour_get_none(void **state)
{
    fixture *f = *state;
    pl_outer *outer = &f->h.tasks.arms[0].arm.outer;
    begin(f, 0);
    outer->method.method = PL_METHOD_NOLOCO;
    assert_false(finds(f, 1, 9000));
    outer->method.method = PL_METHOD_DELAYED_NESTEROV;
    assert_false(finds(f, 1, 9100));
    outer->method.method = PL_METHOD_CO2;
    outer->state = PL_STATE_LOCAL;
    assert_false(finds(f, 1, 9200));
    outer->state = PL_STATE_F32;
    assert_true(finds(f, 1, 9300));
}

static void what_two_may_not_do_is_taken_from_a_worker_on_trial(void **state)
{
    fixture *f = *state;
    plan_lease *l = begin(f, 0);
    f->h.tasks.arms[0].arm.outer.method.method = PL_METHOD_NOLOCO;
    f->workers[0].own_key = false;
    f->workers[0].key.bytes[0] = 1;
    l->first_ms = 100; /* worker 0 reports that it is nearly done */
    l->step_ms = 1500;
    l->step = STEPS - 1;
    assert_false(finds(f, 1, 1900));
    assert_true(finds(f, 1, 2100));
    hub_note_success(&f->h, 0, 1);
    assert_false(finds(f, 1, 9000));
    hub_note_lost(&f->h, 0);
    hub_end_lease(&f->h, &f->paths[0], 9100);
    assert_false(f->paths[0].lease.active);
    assert_int_equal(f->workers[0].n_failures, 1);
}

/* A worker says itself how long its inner steps took. Its pace follows from the hub's
 * clock all the same, also if its lease went on to the next phase. */
static void worker_cannot_make_itself_fast_by_what_it_says(void **state)
{
    fixture *f = *state;
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
}

/* ---- what a worker is seen to do ---- */
static void renew(fixture *f, bool trains, uint64_t step, uint64_t down, int64_t now_ms)
{
    const pl_msg_renew q = {.trains = trains, .step = step, .down = down};
    hub_note_renewal(&f->h, 0, &f->paths[0], &f->paths[0].lease, &q, now_ms);
    hub_look_at_fleet(&f->h, now_ms);
}

static void worker_with_a_lease_is_never_idle(void **state)
{
    fixture *f = *state;
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
static void transfer_that_does_not_move_is_stalled(void **state)
{
    fixture *f = *state;
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

/* ---- a task with two leases ---- */
static plan_lease *back_up(fixture *f, int worker)
{
    plan_grant_backup(&f->h.tasks, f->first, worker, 9000, TTL);
    return &f->paths[0].backup;
}

/* A hub that restarted does not know when a lease that it takes over began. If it
 * counted the lease as begun at time 0, the task would get a backup immediately. */
static void lease_taken_up_after_a_restart_is_not_slow_at_once(void **state)
{
    fixture *f = *state;
    plan *p = &f->h.tasks;
    p->epoch = 2;
    int64_t now_ms = 100000000;
    assert_true(plan_renew(p, &f->paths[0], 0, (1ull << 32) | 5, 0, now_ms, TTL));
    assert_false(finds(f, 1, now_ms + 100));
    assert_true(finds(f, 1, now_ms + 9000));
}

static void audit_is_answered_by_its_holder_alone(void **state)
{
    fixture *f = *state;
    hub_audit a;
    memset(&a, 0, sizeof a);
    a.lease = (plan_lease){.active = true, .token = 7, .worker = 1};
    f->h.audits = &a;
    f->h.n_audits = 1;
    assert_ptr_equal(hub_audit_of(&f->h, 7, 1), &a);
    assert_null(hub_audit_of(&f->h, 7, 0));
    assert_null(hub_audit_of(&f->h, 8, 1));
    f->h.audits = NULL;
    f->h.n_audits = 0;
}

static void audit_that_is_held_for_ever_goes_to_another(void **state)
{
    fixture *f = *state;
    hub_audit a;
    memset(&a, 0, sizeof a);
    pl_copy_text(a.row.path, sizeof a.row.path, "mix/p00.r0");
    a.lease = (plan_lease){.active = true, .token = 7, .worker = 1};
    f->h.audits = &a;
    f->h.n_audits = 1;
    f->h.slowest_s = 1;
    f->workers[1].own_key = false;
    pl_pubkey key = {{1}};
    f->workers[1].key = key;
    assert_int_equal(hub_n_held(&f->h, &f->workers[1]), 1);
    hub_end_overdue(&f->h, 20000 + 10 * TTL);
    assert_true(a.lease.active);
    hub_end_overdue(&f->h, 20001 + 10 * TTL);
    assert_false(a.lease.active);
    assert_true(f->workers[1].n_failures > 0);
    f->h.audits = NULL;
    f->h.n_audits = 0;
}

/* A lease that was held for too long has ended for good. If a renewal could restore it,
 * hub_end_overdue would end it again each second, and each time count one more failure
 * of the worker. */
static void lease_that_was_held_for_too_long_is_not_renewed(void **state)
{
    fixture *f = *state;
    plan *p = &f->h.tasks;
    const plan_lease *lease = begin(f, 0);
    const uint64_t token = lease->token;
    const int64_t end = lease->granted_ms + 20001 + 10 * TTL;
    f->h.slowest_s = 1;
    assert_true(plan_renew(p, &f->paths[0], 0, token, 0, end, TTL));
    hub_end_overdue(&f->h, end);
    assert_int_equal(f->workers[0].n_failures, 1);
    assert_false(plan_renew(p, &f->paths[0], 0, token, 0, end, TTL));
    hub_end_overdue(&f->h, end + 1000);
    assert_int_equal(f->workers[0].n_failures, 1);
}

static void both_leases_are_renewed_and_a_third_is_not_given(void **state)
{
    fixture *f = *state;
    plan *p = &f->h.tasks;
    uint64_t slow = begin(f, 0)->token, quick = back_up(f, 1)->token;
    assert_true(quick > slow);
    assert_true(plan_renew(p, &f->paths[0], 0, slow, 0, 9100, TTL));
    assert_true(plan_renew(p, &f->paths[0], 0, quick, 1, 9100, TTL));
    assert_int_equal(f->paths[0].lease.worker, 0);
    assert_false(finds(f, 2, 20000));
}

/* Notes a worker's report that `phase` of the first path is done. Returns false if the
 * worker never had a lease of this phase with this token. */
static bool say(fixture *f, int64_t phase, uint64_t token, int worker, int64_t now_ms)
{
    const plan_said said = {.phase = phase, .token = token, .worker = worker};
    return plan_say_done(&f->paths[0], &said, now_ms, TTL) != NULL;
}

static bool settle(fixture *f, plan_said *by, int *other, uint64_t *lost)
{
    plan_lease lease;
    if (!plan_settle(&f->h.tasks, &f->paths[0], by, &lease))
        return false;
    *other = lease.worker;
    *lost = lease.token;
    return true;
}

static bool settles(fixture *f, int *other, uint64_t *lost)
{
    plan_said by;
    return settle(f, &by, other, lost);
}

static void whoever_comes_first_stops_the_other(void **state)
{
    fixture *f = *state;
    plan *p = &f->h.tasks;
    for (int i = 0; i < 4; i++) {
        int won = i % 2, other = -1;
        bool says_first = i >= 2;
        uint64_t tokens[2] = {begin(f, 0)->token, back_up(f, 1)->token}, lost = 0;
        int64_t phase = f->paths[0].phase;
        uint64_t won_before = p->n_backups_won;
        if (says_first)
            assert_true(say(f, phase, tokens[won], won, 9400));
        assert_false(settles(f, &other, &lost));
        assert_true(f->paths[0].lease.active);
        assert_true(f->paths[0].backup.active);
        finish(&f->paths[0], phase + 1, 9500);
        assert_false(f->paths[0].lease.active);
        assert_false(f->paths[0].backup.active);
        if (!says_first) {
            assert_false(settles(f, &other, &lost));
            assert_true(say(f, phase, tokens[won], won, 9500));
        }
        assert_true(settles(f, &other, &lost));
        assert_int_equal(other, !won);
        assert_true(lost == tokens[!won]);
        assert_int_equal(p->n_backups_won - won_before, won);
        /* the phase is settled only once; later reports are ignored */
        assert_false(say(f, phase, tokens[won], won, 9500));
        assert_false(settles(f, &other, &lost));
        assert_false(plan_renew(p, &f->paths[0], phase, lost, other, 9600, TTL));
    }
}

/* Two workers have leases of one task, and both report it as done before the homes do.
 * The task is credited to the worker that the homes name, or, if they name none, to the
 * one that reported first. */
static void of_two_who_say_it_the_one_who_delivered_is_credited(void **state)
{
    fixture *f = *state;
    plan *p = &f->h.tasks;
    for (int i = 0; i < 8; i++) {
        int first = i & 1, named = i >> 1 & 1, other = 7;
        bool is_named = i >= 4;
        plan_said by;
        uint64_t tokens[2] = {begin(f, 0)->token, back_up(f, 1)->token}, lost = 0;
        int64_t phase = f->paths[0].phase;
        uint64_t won_before = p->n_backups_won;
        const plan_news news = {.phase = phase + 1, .by = is_named ? tokens[named] : 0};
        assert_true(say(f, phase, tokens[first], first, 9400));
        assert_true(say(f, phase, tokens[!first], !first, 9450));

        assert_true(plan_has_said(&f->paths[0], 0, 9460));
        assert_true(plan_has_said(&f->paths[0], 1, 9460));
        plan_hear(&f->paths[0], &news, 9500);
        assert_true(settle(f, &by, &other, &lost));
        int won = is_named ? named : first;
        assert_int_equal(by.worker, won);
        assert_true(by.token == tokens[won]);
        assert_int_equal(p->n_backups_won - won_before, won);
        assert_int_equal(f->paths[0].last_worker, won);
        assert_int_equal(other, -1);
        assert_false(settles(f, &other, &lost));
        assert_int_equal(f->paths[0].n_said, 0);
    }
}

static void credit_waits_for_the_worker_that_the_homes_name(void **state)
{
    fixture *f = *state;
    plan_said by;
    uint64_t slow = begin(f, 0)->token, quick = back_up(f, 1)->token, lost = 0;
    const plan_news news = {.phase = 1, .by = quick};
    int other = 7;
    assert_true(say(f, 0, slow, 0, 9400));
    plan_hear(&f->paths[0], &news, 9500);
    assert_false(settles(f, &other, &lost));
    assert_true(say(f, 0, quick, 1, 9600));
    assert_true(settle(f, &by, &other, &lost));
    assert_int_equal(by.worker, 1);
    assert_int_equal(other, -1);
}

/* ---- a worker says DONE before the homes report the task ---- */
static void what_only_the_worker_says_finishes_nothing(void **state)
{
    fixture *f = *state;
    plan *p = &f->h.tasks;
    plan_path *path = &f->paths[0];
    plan_task task;
    uint64_t token = begin(f, 0)->token, lost = 0;
    int other = -1;
    assert_false(say(f, 0, token, 1, 1000)); /* worker 1 has no lease */
    assert_true(say(f, 0, token, 0, 1000));
    assert_false(settles(f, &other, &lost));
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

/* With noloco, two workers may not do one task, so a backup would take the lease from
 * its holder and count a failure of the holder. After the holder has reported the task
 * as done this must not happen, because its results have perhaps arrived. */
static void who_says_done_keeps_the_lease_where_backups_are_not_allowed(void **state)
{
    fixture *f = *state;
    f->h.tasks.arms[0].arm.outer.method.method = PL_METHOD_NOLOCO;
    uint64_t token = begin(f, 0)->token;
    f->workers[0].own_key = false; /* worker 0 is on trial */
    assert_true(finds(f, 1, 3100));
    assert_true(say(f, 0, token, 0, 3200));
    assert_false(finds(f, 1, 3300));
    assert_false(finds(f, 1, 20000));
}

static void lie_is_not_confirmed_by_anothers_delivery(void **state)
{
    fixture *f = *state;
    plan *p = &f->h.tasks;
    plan_said by;
    uint64_t lie = begin(f, 0)->token, lost = 0;
    int other = 7;
    assert_true(say(f, 0, lie, 0, 1000));
    assert_int_equal(plan_expire(p, TTL + 1000, NULL, NULL), 1);
    uint64_t token = begin(f, 1)->token;
    finish(&f->paths[0], 1, TTL + 2000);
    assert_false(settles(f, &other, &lost));
    assert_true(say(f, 0, token, 1, TTL + 2000));
    assert_true(settle(f, &by, &other, &lost));
    assert_int_equal(by.worker, 1);
    assert_int_equal(other, -1);
}

/* The holder of a lease extends it to the next phase, but the homes never confirm the
 * phase before. The lease ends although its holder renews it. */
static void lease_does_not_live_on_in_the_next_phase(void **state)
{
    fixture *f = *state;
    plan *p = &f->h.tasks;
    uint64_t token = begin(f, 0)->token;
    plan_extend(p, f->first, 1000, TTL);
    assert_true(say(f, 0, token, 0, 2000));
    assert_true(plan_renew(p, &f->paths[0], 1, token, 0, TTL, TTL));
    assert_int_equal(plan_expire(p, TTL + 2000, NULL, NULL), 1);
    assert_false(f->paths[0].lease.active);
}

static void holder_that_went_on_is_left_alone(void **state)
{
    fixture *f = *state;
    uint64_t slow = begin(f, 0)->token, quick = back_up(f, 1)->token, lost = 0;
    int other = 7;
    plan_extend(&f->h.tasks, f->first, 9400, TTL);
    finish(&f->paths[0], 1, 9500);
    assert_true(f->paths[0].lease.active);
    assert_true(say(f, 0, quick, 1, 9500));
    assert_true(settles(f, &other, &lost));
    assert_int_equal(other, -1);
    assert_true(plan_renew(&f->h.tasks, &f->paths[0], 1, slow, 0, 9600, TTL));
}

static void backup_takes_the_place_of_a_lease_that_ends(void **state)
{
    fixture *f = *state;
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

static void failure_of_a_backup_is_not_the_holders(void **state)
{
    fixture *f = *state;
    plan *p = &f->h.tasks;
    begin(f, 0);
    for (int i = 0; i < 2; i++) {
        assert_true(finds(f, 1, 9000 + 100 * i));
        plan_release(p, &f->paths[0], back_up(f, 1)->token, 1, true);
    }
    assert_int_equal(f->paths[0].lease.failures, 0);
    assert_true(f->paths[0].lease.active);
    assert_false(finds(f, 1, 9300));
    assert_int_equal(p->n_failed, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(task_within_its_promise_gets_no_backup, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(progress_that_is_too_slow_is_seen_at_once,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(good_progress_excuses_a_late_beginning_once,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(small_gains_are_not_worth_it, setup, teardown),
        cmocka_unit_test_setup_teardown(only_an_idle_worker_of_the_same_kind_is_asked,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(worker_on_trial_is_helped_as_soon_as_it_is_late,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(new_worker_is_helped_when_it_fetches_for_long,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(first_task_of_a_worker_on_trial_is_begun_twice,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(worker_cannot_make_itself_fast_by_what_it_says,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(worker_with_a_lease_is_never_idle, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(transfer_that_does_not_move_is_stalled, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(leases_that_run_out_bar_a_key_on_trial, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(worker_that_was_never_measured_is_not_asked,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(slowest_of_many_comes_first, setup, teardown),
        cmocka_unit_test_setup_teardown(methods_that_depend_on_the_hour_get_none, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            what_two_may_not_do_is_taken_from_a_worker_on_trial, setup, teardown),
        cmocka_unit_test_setup_teardown(
            lease_taken_up_after_a_restart_is_not_slow_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(audit_is_answered_by_its_holder_alone, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(audit_that_is_held_for_ever_goes_to_another,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(lease_that_was_held_for_too_long_is_not_renewed,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            both_leases_are_renewed_and_a_third_is_not_given, setup, teardown),
        cmocka_unit_test_setup_teardown(whoever_comes_first_stops_the_other, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            of_two_who_say_it_the_one_who_delivered_is_credited, setup, teardown),
        cmocka_unit_test_setup_teardown(credit_waits_for_the_worker_that_the_homes_name,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(what_only_the_worker_says_finishes_nothing,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            who_says_done_keeps_the_lease_where_backups_are_not_allowed, setup,
            teardown),
        cmocka_unit_test_setup_teardown(lie_is_not_confirmed_by_anothers_delivery,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(lease_does_not_live_on_in_the_next_phase, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(holder_that_went_on_is_left_alone, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(backup_takes_the_place_of_a_lease_that_ends,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(failure_of_a_backup_is_not_the_holders, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
