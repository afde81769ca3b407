/* folder: workers; label: unit
 *
 * Tests which worker gets which task at what time. The plan is data without
 * connections, so the tests set up every situation themselves. */
#include "workers/plan.h"
#include "tests/support/tiny_arm.h"
#include "tests/support/suite.h"

enum { TTL = PLAN_FIRST_MS };

/* Reports, as a home does, that the phase is finished. The report does not name the
 * worker. */
static void finish(plan_path *path, int64_t phase, int64_t now_ms)
{
    const plan_news news = {.phase = phase, .by = -1};
    plan_hear(path, &news, now_ms);
}

/* As finish, but the report names the worker. Returns whether it is credited. */
static bool deliver(plan *p, plan_path *path, int64_t phase, int by, int64_t now_ms,
                    plan_settled *out)
{
    const plan_news news = {.phase = phase, .by = by, .work.loss = (double)phase};
    const bool settled = plan_settle(p, path, &news, now_ms, out);
    plan_hear(path, &news, now_ms);
    return settled;
}

static void add_arm(plan *p, const char *name, int a, int b, int replicas, int phases)
{
    pl_arm arm;
    pl_hash blob;
    tiny_arm(&arm, 2, a, b, phases);
    pl_copy_text(arm.name, sizeof arm.name, name);
    arm.spec.replicas = replicas;
    arm.inner.tau = 10;
    arm.n_scored = strncmp(name, "score~", 6) == 0 ? 3 : 0;
    pl_hash_of("blob", name, strlen(name), &blob);
    assert_ok(plan_add_arm(p, &arm, &blob));
}

static void set_all(plan *p, const char *name, uint64_t version)
{
    plan_arm *arm = plan_find_arm(p, name);
    for (int m = 0; m < pl_topology_n_modules(arm->topology); m++) {
        char module[96];
        pl_arm_module_name(&arm->arm, arm->topology, m, module);
        plan_set_version(p, module, version, 0);
    }
}

/* Version 0 of all modules of the arm is there. */
static plan_arm *ready(plan *p, const char *name)
{
    set_all(p, name, 0);
    return plan_find_arm(p, name);
}

static int setup(void **state)
{
    plan *p = pl_alloc(sizeof *p);
    p->epoch = 1;
    add_arm(p, "mix", 2, 2, 1, 3);
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    OWNED(free_memory) plan *p = *state;
    plan_clear(p);
    return 0;
}

#define FIXTURE_TEST(name) PL_TEST_ON(name, plan *p, setup, teardown)

/* Leases the first task of "mix" to worker 0, and returns its path. */
static plan_path *grant_first(plan *p, plan_task *task)
{
    set_all(p, "mix", 0);
    assert_true(plan_choose(p, 0, 0, task));
    plan_grant(p, *task, 0, 0, TTL);
    return &p->arms[task->arm].paths[task->index];
}

FIXTURE_TEST(nothing_is_ready_before_version_0_is_there)
{
    plan_task task;
    assert_false(plan_choose(p, 0, 0, &task));
    set_all(p, "mix", 0);
    assert_true(plan_choose(p, 0, 0, &task));
}

FIXTURE_TEST(every_task_is_given_once)
{
    plan_task task;
    bool seen[4] = {false};
    set_all(p, "mix", 0);
    for (int i = 0; i < 4; i++) {
        assert_true(plan_choose(p, i, 0, &task));
        assert_false(seen[task.index]);
        seen[task.index] = true;
        plan_grant(p, task, i, 0, TTL);
    }
    assert_false(plan_choose(p, 9, 0, &task));
    assert_true(plan_choose(p, 9, TTL + 1, &task));
}

FIXTURE_TEST(path_goes_on_when_its_own_modules_are_ready)
{
    plan_arm *mix = ready(p, "mix");
    for (int i = 0; i < 4; i++)
        finish(&mix->paths[i], 1, 0);
    plan_set_version(p, "mix/embed.E0", 1, 0);
    plan_set_version(p, "mix/head.E0", 1, 0);
    plan_set_version(p, "mix/L1.E0", 1, 0);
    plan_set_version(p, "mix/L2.E1", 1, 0);
    assert_false(plan_ready(mix, 0, 0)); /* path p00 needs L2.E0 */
    assert_true(plan_ready(mix, 1, 0));  /* path p01 needs L1.E0 and L2.E1 */
    assert_false(plan_ready(mix, 2, 0));
    assert_false(plan_ready(mix, 3, 0)); /* path p11 needs L1.E1 */
}

FIXTURE_TEST(worker_prefers_the_path_it_knows)
{
    plan_task task;
    plan_arm *mix = ready(p, "mix");
    mix->paths[2].last_worker = 7;
    mix->paths[0].last_worker = 5;
    assert_true(plan_choose(p, 7, 0, &task));
    assert_int_equal(task.index, 2);
    assert_true(plan_choose(p, 8, 0, &task));
    /* A path comes first if no worker has had it yet. */
    assert_int_equal(task.index, 1);
}

FIXTURE_TEST(longest_chain_comes_first)
{
    plan_task task;
    add_arm(p, "dense-eq", 1, 1, 1, 12);
    set_all(p, "mix", 0);
    set_all(p, "dense-eq", 0);
    assert_true(plan_choose(p, 0, 0, &task));
    assert_string_equal(p->arms[task.arm].arm.name, "dense-eq");
}

/* Shows that tasks that score documents (arm score~1) come before tasks that train,
 * because the mixture waits until all documents are scored. The tasks of dense-eq come
 * later, although it has more phases. */
FIXTURE_TEST(scores_come_before_all_training)
{
    plan_task task;
    add_arm(p, "dense-eq", 1, 1, 1, 12);
    add_arm(p, "score~1", 2, 2, 1, 1);
    set_all(p, "dense-eq", 0);
    set_all(p, "score~1", 0);
    assert_true(plan_choose(p, 0, 0, &task));
    assert_string_equal(p->arms[task.arm].arm.name, "score~1");
    for (int i = 0; i < 4; i++)
        finish(&plan_find_arm(p, "score~1")->paths[i], 1, 0);
    assert_true(plan_arm_finished(plan_find_arm(p, "score~1")));
    assert_true(plan_choose(p, 0, 0, &task));
    assert_string_equal(p->arms[task.arm].arm.name, "dense-eq");
}

/* Compares the tokens that the homes are told with those of the lease and the backup;
 * NULL: no lease. */
static void assert_valid(const plan_path *path, const plan_lease *a,
                         const plan_lease *b)
{
    uint64_t tokens[2];
    size_t n = plan_valid_tokens(path, tokens);
    assert_int_equal(n, (a != NULL) + (b != NULL));
    assert_true(!a || tokens[0] == a->token);
    assert_true(!b || tokens[n - 1] == b->token);
}

FIXTURE_TEST(tokens_rise_and_an_expired_lease_is_valid_until_the_next_grant)
{
    plan_task task;
    plan_path *path = grant_first(p, &task);
    uint64_t first = path->lease.token;
    assert_int_equal(plan_expire(p, TTL + 1, NULL, NULL), 1);
    assert_valid(path, &path->lease, NULL);
    plan_grant(p, task, 1, TTL + 1, TTL);
    assert_true(path->lease.token > first);
    assert_valid(path, &path->lease, NULL);
}

FIXTURE_TEST(lease_that_was_given_back_is_dead)
{
    plan_task task;
    plan_path *path = grant_first(p, &task);
    const uint64_t first = path->lease.token;
    plan_grant_backup(p, task, 1, 0, TTL);
    const plan_lease backup = path->backup;
    assert_valid(path, &path->lease, &backup);
    path->is_untold = false;
    plan_release(p, path, first, 0, false);
    assert_true(path->is_untold);
    assert_valid(path, &backup, NULL);
    assert_false(plan_renew(p, path, 0, first, 0, 1, TTL));
    path->is_untold = false;
    plan_release(p, path, backup.token, 1, false);
    assert_true(path->is_untold);
    assert_valid(path, NULL, NULL);
    assert_false(plan_renew(p, path, 0, backup.token, 1, 1, TTL));
}

FIXTURE_TEST(zombie_cannot_renew_what_another_holds)
{
    plan_task task;
    plan_path *path = grant_first(p, &task);
    uint64_t first = path->lease.token;
    plan_expire(p, TTL + 1, NULL, NULL);
    plan_grant(p, task, 1, TTL + 1, TTL);
    assert_false(plan_renew(p, path, 0, first, 0, TTL + 2, TTL));
    assert_true(plan_renew(p, path, 0, path->lease.token, 1, TTL + 2, TTL));
}

FIXTURE_TEST(token_is_of_use_to_its_worker_alone)
{
    plan_task task;
    plan_path *path = grant_first(p, &task);
    uint64_t token = path->lease.token;
    assert_false(plan_renew(p, path, 0, token, 1, 5, TTL));
    assert_int_equal(path->lease.worker, 0);
    assert_false(plan_continues(p, task, 0, token, 1, 5));
    assert_null(plan_lease_of(path, token, 1));
    plan_release(p, path, token, 1, true);
    assert_true(path->lease.active);
    assert_int_equal(path->lease.failures, 0);
    assert_int_equal(p->n_failed, 0);
    assert_int_equal(plan_expire(p, TTL + 1, NULL, NULL), 1);
    assert_false(plan_renew(p, path, 0, token, 1, TTL + 2, TTL));
    assert_true(plan_renew(p, path, 0, token, 0, TTL + 2, TTL));
}

/* Shows that the hub renews no lease with a token that it has never granted. The path
 * never had a lease. A high token, of this epoch or a later one, would fence all
 * workers that get their leases later. */
FIXTURE_TEST(tokens_that_were_never_given_are_refused)
{
    plan_arm *mix = ready(p, "mix");
    p->epoch = 4;
    plan_path *path = &mix->paths[0];
    assert_null(plan_lease_of(path, 0, 0));
    assert_false(plan_renew(p, path, 0, 0, 0, 0, TTL));
    assert_false(plan_renew(p, path, 0, (4ull << 32) | 9, 0, 0, TTL));
    assert_false(plan_renew(p, path, 0, (9ull << 32) | 9, 0, 0, TTL));
    plan_grant(p, (plan_task){0, 0}, 1, 0, TTL);
    assert_true(path->lease.token == ((4ull << 32) | 1));
}

/* Shows that an offer counts only with the phase, token and worker of the lease,
 * because a worker can write anything into an offer. Only a home's report starts the
 * deadline. */
FIXTURE_TEST(a_false_offer_neither_counts_nor_starts_the_deadline)
{
    plan_arm *mix = ready(p, "mix");
    plan_path *path = &mix->paths[0];
    mix->arm.outer.deadline_ms = 1000;
    plan_grant(p, (plan_task){0, 0}, 1, 0, TTL);
    plan_offer(path, 500, path->lease.token, 1);
    plan_offer(path, 1, path->lease.token, 1);
    plan_offer(path, 0, path->lease.token, 2);
    plan_offer(path, 0, path->lease.token + 1, 1);
    assert_int_equal(path->offered, 0);
    plan_offer(path, 0, path->lease.token, 1);
    assert_int_equal(path->offered, 1);
    assert_false(plan_is_late(mix, 0, 1, 5000));
    finish(path, 1, 6000);
    assert_false(plan_is_late(mix, 0, 1, 6999));
    assert_true(plan_is_late(mix, 0, 1, 7000));
    assert_false(plan_is_late(mix, 0, 2, 90000));
}

FIXTURE_TEST(nobody_takes_up_more_than_a_worker_can_hold)
{
    plan_arm *mix = ready(p, "mix");
    p->epoch = 4;
    for (int i = 0; i < 4; i++)
        assert_int_equal(plan_renew(p, &mix->paths[i], 0,
                                    ((uint64_t)3 << 32) + (uint64_t)i + 1, 2, 0, TTL),
                         i < PLAN_HELD_MAX);
    assert_true(plan_renew(p, &mix->paths[3], 0, (3ull << 32) | 4, 1, 0, TTL));
}

/* A worker cannot put its lease into the next phase, where nobody would help it. */
FIXTURE_TEST(only_the_hub_extends_a_lease)
{
    plan_task task;
    plan_path *path = grant_first(p, &task);
    assert_true(plan_renew(p, path, 1, path->lease.token, 0, 1, TTL));
    assert_int_equal(path->lease.phase, 0);
}

FIXTURE_TEST(late_worker_keeps_an_expired_lease_that_nobody_took)
{
    plan_task task;
    plan_path *path = grant_first(p, &task);
    assert_int_equal(plan_expire(p, 5 * TTL, NULL, NULL), 1);
    assert_true(plan_renew(p, path, 0, path->lease.token, 0, 5 * TTL, TTL));
    assert_true(path->lease.active);
}

FIXTURE_TEST(hub_that_starts_again_takes_leases_up)
{
    plan_arm *mix = ready(p, "mix");
    p->epoch = 4;
    uint64_t old_token = (3ull << 32) | 17;
    assert_true(plan_renew(p, &mix->paths[1], 0, old_token, 2, 0, TTL));
    assert_int_equal(mix->paths[1].lease.worker, 2);
    assert_true(mix->paths[1].lease.taken_up);
    plan_task task;
    for (int i = 0; i < 3; i++) {
        assert_true(plan_choose(p, 0, 0, &task));
        assert_int_not_equal(task.index, 1);
        plan_grant(p, task, 0, 0, TTL);
        assert_true(mix->paths[task.index].lease.token > old_token);
    }
    assert_false(plan_choose(p, 0, 0, &task));
}

/* Of two leases of the hub before, the one with the lower token had ended. */
FIXTURE_TEST(hub_that_starts_again_gives_a_task_to_its_last_holder)
{
    plan_arm *mix = ready(p, "mix");
    const uint64_t ended = (3ull << 32) | 10, last = (3ull << 32) | 20;
    p->epoch = 4;
    assert_true(plan_renew(p, &mix->paths[0], 0, ended, 1, 0, TTL));
    assert_true(plan_renew(p, &mix->paths[0], 0, last, 2, 1, TTL));
    assert_true(plan_renew(p, &mix->paths[1], 0, last, 2, 0, TTL));
    assert_false(plan_renew(p, &mix->paths[1], 0, ended, 1, 1, TTL));
    for (int i = 0; i < 2; i++) {
        assert_true(mix->paths[i].is_untold);
        assert_int_equal(mix->paths[i].lease.worker, 2);
        assert_true(mix->paths[i].lease.token == last);
        assert_false(plan_renew(p, &mix->paths[i], 0, ended, 1, 2, TTL));
    }
    /* a lease of this hub is never replaced by an earlier one */
    plan_grant(p, (plan_task){0, 2}, 0, 0, TTL);
    assert_false(plan_renew(p, &mix->paths[2], 0, last, 2, 1, TTL));
}

FIXTURE_TEST(finished_phase_ends_its_lease_and_old_news_is_ignored)
{
    plan_task task;
    plan_path *path = grant_first(p, &task);
    finish(path, 1, 0);
    assert_false(path->lease.active);
    finish(path, 0, 0);
    assert_int_equal(path->phase, 1);
    assert_false(plan_renew(p, path, 0, 1, 0, 0, TTL));
}

FIXTURE_TEST(failures_of_a_task_are_counted_across_workers)
{
    plan_arm *mix = ready(p, "mix");
    plan_task task = {0, 0};
    for (int i = 0; i < 3; i++) {
        plan_grant(p, task, i, 0, TTL);
        plan_release(p, &mix->paths[0], mix->paths[0].lease.token, i, true);
    }
    assert_int_equal(mix->paths[0].lease.failures, 3);
}

/* Adds the arm "solo", and leases the first phase of its path to worker 0. */
static plan_path *begin_solo(plan *p, plan_task *task, int64_t now_ms)
{
    add_arm(p, "solo", 1, 1, 1, 12);
    set_all(p, "solo", 0);
    assert_true(plan_choose(p, 0, now_ms, task));
    plan_grant(p, *task, 0, now_ms, TTL);
    return &p->arms[task->arm].paths[task->index];
}

/* Adds the arm "solo", and leases the first two phases of its path to worker 0. The arm
 * has only one path, so the next phase waits for no other path. */
static plan_path *solo_that_goes_on(plan *p, plan_task *task)
{
    plan_path *path = begin_solo(p, task, 0);
    plan_extend(p, *task, 0, TTL);
    assert_int_equal(path->lease.phase, 1);
    return path;
}

FIXTURE_TEST(failures_are_counted_although_the_lease_went_on)
{
    plan_task task;
    plan_path *path = solo_that_goes_on(p, &task);
    for (int i = 1; i <= 3; i++) {
        plan_release(p, path, path->lease.token, i - 1, true);
        assert_int_equal(path->lease.failures, i);
        plan_grant(p, task, i, 0, TTL);
        plan_extend(p, task, 0, TTL);
    }
    finish(path, 1, 0);
    assert_int_equal(path->lease.failures, 0);
}

/* Shows that the time of a phase (held_ms) begins at the grant of this phase, not of
 * the lease, and ends when the homes confirm it, not when the worker reports it. */
FIXTURE_TEST(a_phase_is_held_from_its_own_grant_until_it_is_confirmed)
{
    plan_task task;
    plan_settled done;
    plan_path *path = begin_solo(p, &task, 1000);
    plan_said said = {.phase = 0, .token = path->lease.token, .worker = 0};
    plan_extend(p, task, 65000, TTL);
    assert_true(plan_say_done(path, &said, 66000, TTL));
    said.phase = 1;
    assert_true(plan_say_done(path, &said, 66500, TTL));
    assert_int_equal(path->n_said, 2);
    assert_true(deliver(p, path, 1, 0, 67000, &done));
    assert_int_equal(done.held_ms, 66000);
    assert_true(deliver(p, path, 2, 0, 68000, &done));
    assert_int_equal(done.held_ms, 3000);
    assert_int_equal(path->n_said, 0);
}

FIXTURE_TEST(next_phase_given_back_leaves_the_lease_of_the_one_before)
{
    plan_task task;
    plan_path *path = solo_that_goes_on(p, &task);
    uint64_t token = path->lease.token;
    plan_shorten(path, token - 1, 0);
    plan_shorten(path, token, 1);
    assert_int_equal(path->lease.phase, 1);
    plan_shorten(path, token, 0);
    assert_int_equal(path->lease.phase, 0);
    assert_true(path->lease.active);
    assert_true(plan_continues(p, task, 0, token, 0, 0));
}

FIXTURE_TEST(a_phase_that_was_given_back_leaves_the_time_of_the_one_before)
{
    plan_task task;
    int64_t n_tasks = 0;
    plan_path *path = begin_solo(p, &task, 1000);
    for (int repeats = 0; repeats < 3; repeats++) {
        path->lease.repeats = repeats;
        plan_extend(p, task, 7000, TTL);
        assert_int_equal(plan_granted_ms(&path->lease, 0, &n_tasks), 1000);
        assert_int_equal(n_tasks, 1 + repeats);
        plan_shorten(path, path->lease.token, 0);
        assert_int_equal(plan_granted_ms(&path->lease, 0, &n_tasks), 1000);
        assert_int_equal(n_tasks, 1 + repeats);
    }
}

FIXTURE_TEST(either_phase_takes_a_lease_up_at_a_new_hub)
{
    uint64_t token = (1ull << 32) | 5;
    add_arm(p, "solo", 1, 1, 1, 12);
    set_all(p, "solo", 0);
    p->epoch = 2;
    plan_path *path = plan_find_arm(p, "solo")->paths;
    /* The worker reports the later phase first. */
    assert_true(plan_renew(p, path, 1, token, 0, 0, TTL));
    assert_true(plan_renew(p, path, 0, token, 0, 0, TTL));
    assert_int_equal(path->lease.phase, 1);
    assert_false(plan_renew(p, path, 2, token, 0, 0, TTL));
    assert_false(plan_renew(p, path, 1, token - 1, 1, 0, TTL));
}

/* Tests one order of four reports about two phases. Reports 0 and 1 are those of the
 * homes; reports 2 and 3 are those of the worker. */
static void check_order(plan *p, plan_path *path, plan_task task, const int *order)
{
    plan_settled done;
    uint64_t token = path->lease.token;
    bool credited[3] = {false};
    for (int i = 0; i < 4; i++) {
        if (order[i] >= 2) {
            const plan_said said = {.phase = order[i] - 2, .token = token};
            assert_int_equal(plan_say_done(path, &said, 10, TTL),
                             said.phase >= path->phase);
        } else if (deliver(p, path, order[i] + 1, 0, 10, &done)) {
            assert_true(done.phase < path->phase && !credited[done.phase]);
            credited[done.phase] = true;
        }
        assert_true(path->phase == (int64_t)path->work.loss);
        /* No other worker may get a task that is done or leased. */
        plan_task found;
        if (path->lease.active)
            assert_false(plan_choose(p, 1, 10, &found) && found.arm == task.arm);
    }
    /* an older report says nothing new */
    bool skips = false;
    for (int i = 0; order[i] != 0; i++)
        skips = skips || order[i] == 1;
    assert_true(credited[1] && credited[0] == !skips);
    assert_int_equal(path->phase, 2);
    assert_true(path->work.loss == 2);
    assert_false(path->lease.active);
}

FIXTURE_TEST(news_and_what_workers_say_may_come_in_any_order)
{
    plan_task task;
    char name[16];
    for (int i = 0; i < 256; i++) {
        const int order[4] = {i & 3, i >> 2 & 3, i >> 4 & 3, i >> 6};
        unsigned seen = 0;
        for (int k = 0; k < 4; k++)
            seen |= 1u << order[k];
        if (seen != 15)
            continue;
        snprintf(name, sizeof name, "solo%d", i);
        /* This arm has the most phases, so its task is chosen. */
        add_arm(p, name, 1, 1, 1, 100 + i);
        set_all(p, name, 0);
        assert_true(plan_choose(p, 0, 0, &task));
        plan_grant(p, task, 0, 0, 10 * TTL);
        plan_extend(p, task, 0, 10 * TTL);
        check_order(p, &p->arms[task.arm].paths[task.index], task, order);
    }
}

FIXTURE_TEST(lease_lives_for_what_was_said_last)
{
    plan_task task;
    plan_path *path = solo_that_goes_on(p, &task);
    const uint64_t token = path->lease.token;
    const plan_said first = {.phase = 0, .token = token};
    const plan_said second = {.phase = 1, .token = token};
    const plan_news news = {.phase = 1};
    assert_true(plan_say_done(path, &first, 0, TTL));
    assert_true(plan_say_done(path, &second, TTL - 200, TTL));
    assert_int_equal(path->lease.deadline_ms, TTL);
    plan_hear(path, &news, TTL - 100);
    assert_int_equal(plan_expire(p, TTL + 1, NULL, NULL), 0);
    assert_int_equal(plan_expire(p, 2 * TTL - 199, NULL, NULL), 1);
}

FIXTURE_TEST(arm_is_finished_when_paths_and_modules_are)
{
    plan_arm *mix = plan_find_arm(p, "mix");
    set_all(p, "mix", 2);
    for (int i = 0; i < 4; i++)
        finish(&mix->paths[i], 3, 0);
    assert_false(plan_arm_finished(mix));
    set_all(p, "mix", 3);
    assert_true(plan_arm_finished(mix));
    plan_task task;
    assert_false(plan_choose(p, 0, 0, &task));
}

/* ---- audits ---- */
static void hear_audit(plan_path *path, int64_t phase, bool in_audit)
{
    const plan_news news = {.phase = phase, .in_audit = in_audit};
    plan_hear(path, &news, 5);
}

FIXTURE_TEST(path_in_audit_is_not_leased_and_not_finished)
{
    plan_task task;
    plan_arm *mix = plan_find_arm(p, "mix");
    set_all(p, "mix", 3);
    for (int i = 1; i < 4; i++)
        finish(&mix->paths[i], 3, 0);
    hear_audit(&mix->paths[0], 1, true);
    assert_int_equal(plan_n_confirmed(&mix->paths[0]), 0);
    assert_false(plan_choose(p, 0, 10, &task));
    hear_audit(&mix->paths[0], 1, false);
    assert_true(plan_choose(p, 0, 10, &task));
    hear_audit(&mix->paths[0], 3, true);
    assert_false(plan_arm_finished(mix));
    hear_audit(&mix->paths[0], 3, false);
    assert_true(plan_arm_finished(mix));
    hear_audit(&mix->paths[0], 3, true); /* an old report */
    assert_true(plan_arm_finished(mix));
}

FIXTURE_TEST(dropped_phase_is_leased_again_and_its_lease_is_dead)
{
    plan_task task;
    plan_arm *mix = ready(p, "mix");
    plan_path *path = &mix->paths[0];
    for (int i = 1; i < 4; i++)
        finish(&mix->paths[i], 1, 0);
    assert_true(plan_choose(p, 0, 0, &task));
    assert_int_equal(task.index, 0);
    plan_grant(p, task, 0, 0, TTL);
    const uint64_t token = path->lease.token;
    const plan_said said = {.phase = 0, .token = token};
    hear_audit(path, 1, true);
    assert_false(plan_say_done(path, &said, 10, TTL));
    path->kept_ms = path->n_taken = 3;
    hear_audit(path, 0, false);
    assert_int_equal(path->kept_ms + path->n_taken, 0);
    assert_int_equal(path->phase, 0);
    assert_false(plan_renew(p, path, 0, token, 0, 20, TTL));
    assert_true(plan_choose(p, 1, 20, &task));
    plan_grant(p, task, 1, 20, TTL);
    assert_true(path->lease.token > token);
    hear_audit(path, 1, false);
    assert_int_equal(path->phase, 1);
}

/* The only own worker could wait, in phase 1, for a version that waits for an audit
 * which this worker must do. */
FIXTURE_TEST(under_audits_no_lease_runs_ahead)
{
    plan_task task;
    for (int audits = 0; audits < 2; audits++) {
        const char *name = audits ? "solo2" : "solo";
        p->audits = audits;
        add_arm(p, name, 1, 1, 1, 3);
        set_all(p, name, 0);
        assert_true(plan_find_task(p, plan_find_arm(p, name)->paths[0].name, &task));
        plan_grant(p, task, 0, 0, TTL);
        const uint64_t token = p->arms[task.arm].paths[task.index].lease.token;
        assert_int_equal(plan_continues(p, task, 0, token, 0, 0), !audits);
    }
}

/* All paths have finished a phase at time 1000. Only worker 0 has the state of path 0,
 * for which another worker would repeat two phases of 500 ms. The other paths are
 * leased. */
static plan_path *only_one_has_the_state(plan *p)
{
    plan_arm *mix = plan_find_arm(p, "mix");
    const plan_news news = {.phase = 1, .by = -1, .keeper = 0, .repeats = 2};
    set_all(p, "mix", 1);
    plan_hear(&mix->paths[0], &news, 1000);
    mix->median_s = 0.5;
    for (int i = 1; i < 4; i++) {
        finish(&mix->paths[i], 1, 1000);
        plan_grant(p, (plan_task){0, i}, 10 + i, 1000, 100 * TTL);
    }
    return &mix->paths[0];
}

/* The homes' report names the worker that has the state, and its DONE follows. */
FIXTURE_TEST(path_waits_before_it_is_known_how_long_its_phases_take)
{
    plan_task task;
    only_one_has_the_state(p);
    plan_find_arm(p, "mix")->median_s = 0;
    assert_false(plan_choose(p, 1, 1000, &task));
    assert_false(plan_choose(p, 1, 2999, &task));
    assert_true(plan_choose(p, 0, 1000, &task));
    assert_true(plan_choose(p, 1, 3000, &task));
}

FIXTURE_TEST(path_waits_for_the_worker_that_has_its_state)
{
    plan_task task;
    const plan_path *path = only_one_has_the_state(p);
    assert_int_equal(plan_repeats(path, 0), 0);
    assert_int_equal(plan_repeats(path, 1), 2);
    assert_false(plan_choose(p, 1, 1000, &task));
    assert_false(plan_choose(p, 1, 1999, &task));
    assert_true(plan_leaves_out(p, 1, 1999));
    assert_false(plan_leaves_out(p, 0, 1999));
    assert_true(plan_choose(p, 0, 1000, &task));
    assert_int_equal(task.index, 0);
    /* repeating both phases would have taken as long as this path has waited */
    assert_true(plan_choose(p, 1, 2000, &task));
    assert_false(plan_leaves_out(p, 1, 2000));
    plan_grant(p, task, 1, 2000, TTL);
    assert_int_equal(path->lease.repeats, 2);
}

FIXTURE_TEST(keeper_that_gives_its_path_back_begins_no_new_wait)
{
    plan_task task;
    plan_path *path = only_one_has_the_state(p);
    assert_false(plan_choose(p, 1, 1000, &task));
    for (int64_t ms = 1300; ms < 2000; ms += 300) {
        plan_grant(p, (plan_task){0, 0}, 0, ms, TTL);
        plan_release(p, path, path->lease.token, 0, false);
        assert_false(plan_choose(p, 1, ms + 1, &task));
    }
    assert_true(plan_choose(p, 1, 2000, &task));
}

/* Other paths go on, so the arm never stands still, and still an idle worker takes the
 * path whose keeper is busy. A worker that has another task does not. */
FIXTURE_TEST(idle_worker_repeats_phases_although_the_arm_advances)
{
    plan_task task;
    plan_arm *mix = plan_find_arm(p, "mix");
    only_one_has_the_state(p);
    finish(&mix->paths[1], 2, 1100);
    for (int m = 0; m < pl_topology_n_modules(mix->topology); m++)
        mix->versions[m] = 2;
    assert_true(plan_choose(p, 1, 1200, &task));
    assert_int_equal(task.index, 1);
    plan_grant(p, task, 5, 1200, 100 * TTL);
    for (int64_t ms = 1300; ms < 2300; ms += 100) {
        plan_set_version(p, "mix/embed", (uint64_t)ms, 0);
        mix->paths[1].phase_ms = ms;
        assert_false(plan_choose(p, 1, ms, &task));
    }
    assert_true(plan_choose(p, 1, 2300, &task));
    assert_int_equal(task.index, 0);
}

FIXTURE_TEST(path_does_not_wait_for_a_worker_that_left)
{
    plan_task task;
    const plan_path *path = only_one_has_the_state(p);
    plan_release_worker(p, 0);
    assert_true(plan_choose(p, 1, 1000, &task));
    assert_int_equal(plan_repeats(path, 0), 2);
}

FIXTURE_TEST(lost_lease_ends_the_wait_for_its_holder)
{
    plan_task task;
    const plan_path *path = only_one_has_the_state(p);
    plan_grant(p, (plan_task){0, 0}, 0, 1000, TTL);
    assert_int_equal(path->lease.repeats, 0);
    assert_int_equal(plan_expire(p, 1000 + TTL, NULL, NULL), 1);
    assert_true(plan_choose(p, 1, 1000 + TTL, &task));
}
