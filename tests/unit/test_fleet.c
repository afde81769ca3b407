/* folder: workers; label: unit
 *
 * Tests which worker gets a task and which does not. A simulation compares the time of
 * a job with and without a slow worker, for random fleets. */
#include "workers/fleet.h"
#include "workers/hub_internal.h"
#include "tests/support/tiny_arm.h"

#include <math.h>
#include <stdlib.h>

#include "tests/support/suite.h"

enum {
    TTL = 1000000000,
    STEPS = 40,
    PHASES = 12,
    PATHS = 4,
    WORKERS_MAX = 8,
    TICK_MS = 20,
    RENEW_MS = 500,
    ENDS_MS = 10000000
};

/* ---- fleet_horizon ---- */
PL_TEST(workers_that_are_equal_share_the_tasks)
{
    const fleet_member two[] = {{0, 1.5}, {0, 1.5}};
    assert_float_equal(fleet_horizon(two, 2, 4), 3.0, 1e-4);
    assert_float_equal(fleet_horizon(two, 2, 5), 4.5, 1e-4);
    assert_true(isinf(fleet_horizon(two, 0, 1)));
    assert_float_equal(fleet_horizon(two, 2, 0), 0, 0);
}

PL_TEST(worker_that_comes_too_late_changes_nothing)
{
    const fleet_member fleet[] = {{0, 1.5}, {0, 1.5}, {0, 7}, {2, 1.4}};
    assert_float_equal(fleet_horizon(fleet, 3, 4), 3.0, 1e-4);
    /* with more tasks the third worker helps */
    assert_float_equal(fleet_horizon(fleet, 3, 10), 7.5, 1e-4);
    assert_float_equal(fleet_horizon(fleet, 3, 9), 7.0, 1e-4);
    assert_float_equal(fleet_horizon(fleet + 3, 1, 1), 3.4, 1e-6);
}

static int draw(uint64_t *draws, int below)
{
    return (int)(pl_random_u32(11, 1, (*draws)++) % (uint32_t)below);
}

PL_TEST(horizon_is_that_of_list_scheduling)
{
    uint64_t draws = 0;
    for (int round = 0; round < 200; round++) {
        fleet_member m[WORKERS_MAX], one[WORKERS_MAX];
        const int n = 1 + draw(&draws, WORKERS_MAX), n_tasks = 1 + draw(&draws, 30);
        double last = 0;
        for (int i = 0; i < n; i++)
            m[i] = (fleet_member){draw(&draws, 300) * 0.01,
                                  0.1 + draw(&draws, 500) * 0.01};
        memcpy(one, m, sizeof m);
        for (int k = 0; k < n_tasks; k++) {
            int first = 0;
            for (int i = 1; i < n; i++)
                if (one[i].free_s + one[i].task_s <
                    one[first].free_s + one[first].task_s)
                    first = i;
            one[first].free_s += one[first].task_s;
            last = one[first].free_s > last ? one[first].free_s : last;
        }
        assert_float_equal(fleet_horizon(m, n, n_tasks), last, 1e-3);
    }
}

static int compare_values(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

PL_TEST(median_is_the_lower_of_the_middle_values)
{
    uint64_t draws = 5000;
    double values[40], sorted[40];
    assert_float_equal(fleet_median(values, 0), 0, 0);
    for (int round = 0; round < 500; round++) {
        const int n = 1 + draw(&draws, 40);
        for (int i = 0; i < n; i++)
            values[i] = sorted[i] = draw(&draws, 20);
        qsort(sorted, (size_t)n, sizeof *sorted, compare_values);
        assert_float_equal(fleet_median(values, n), sorted[(n - 1) / 2], 0);
    }
}

/* ---- whole jobs ---- */
/* A worker of the simulation. It does one task after the other. */
typedef struct machine {
    int fetch_ms, step_ms, send_ms;
    int cold_ms;  /* for a path's data, which it then keeps; fetched at the same rate */
    unsigned has; /* a bit for each path of which it has the data */
    double down;  /* bytes that it fetched before its task */
    plan_task task;
    uint64_t token; /* of its lease; 0: it has none and asks for a task */
    int64_t phase, begun_ms, renewed_ms;
    int spread;   /* the task takes spread / 1000 of the times above */
    int begin_ms; /* the fetch of this task */
    bool told_steps, told_sending;
} machine;

typedef struct job {
    hub h;
    pl_hub_options options;
    hub_worker workers[WORKERS_MAX];
    machine machines[WORKERS_MAX];
    int n;
    int queue[WORKERS_MAX];
    uint64_t draws;
} job;

static void add_arm(job *j, const char *name)
{
    pl_arm arm;
    pl_hash blob;
    tiny_arm(&arm, 2, 2, 2, PHASES);
    pl_copy_text(arm.name, sizeof arm.name, name);
    arm.inner.tau = STEPS;
    pl_hash_of("blob", "x", 1, &blob);
    assert_ok(plan_add_arm(&j->h.tasks, &arm, &blob));
}

static void begin_job(job *j, const machine *machines, int n, bool own_keys,
                      uint64_t seed)
{
    memset(j, 0, sizeof *j);
    j->options = (pl_hub_options){.backup = PL_BACKUP_AUTO, .ttl_ms = TTL};
    j->h.options = &j->options;
    j->h.workers = j->workers;
    j->h.n_workers = j->n = n;
    j->h.tasks.epoch = 1;
    j->h.tasks.fits = hub_fits_new;
    j->h.tasks.context = &j->h;
    j->draws = seed << 32;
    add_arm(j, "mix");
    for (int i = 0; i < n; i++) {
        hub_worker *w = &j->workers[i];
        snprintf(w->name, sizeof w->name, "w%d", i);
        pl_copy_text(w->device, sizeof w->device, "cpu");
        w->own_key = own_keys;
        w->key.bytes[0] = (uint8_t)(i + 1);
        j->machines[i] = machines[i];
        j->queue[i] = i;
    }
}

static void end_job(job **j)
{
    plan_clear(&(*j)->h.tasks);
    pl_free(*j);
}

/* Returns a job of n workers with keys of their own. end_job frees it. */
static job *new_job(int n)
{
    const machine m[2] = {{.step_ms = 100}, {.step_ms = 100}};
    assert_true(n <= 2);
    job *j = pl_alloc(sizeof *j);
    begin_job(j, m, n, true, 1);
    return j;
}

/* Tells the hub of the versions that the home has made: a module has version t when all
 * its paths have finished t phases. */
static void make_versions(job *j)
{
    plan_arm *arm = &j->h.tasks.arms[0];
    for (int m = 0; m < pl_topology_n_modules(arm->topology); m++) {
        char name[PL_MODULE_NAME_MAX];
        int64_t least = INT64_MAX;
        for (int i = 0; i < pl_arm_contributors(arm->topology, m); i++) {
            const plan_path *path =
                &arm->paths[pl_topology_module_path(arm->topology, m, i)];
            least = path->phase < least ? path->phase : least;
        }
        pl_arm_module_name(&arm->arm, arm->topology, m, name);
        plan_set_version(&j->h.tasks, name, (uint64_t)least, 0);
    }
}

/* Returns how long the machine has fetched for its task. */
static double fetched_ms(const machine *m, int64_t now_ms)
{
    const double ms = (double)(now_ms - m->begun_ms) * 1000 / m->spread;
    return ms < m->begin_ms ? ms : m->begin_ms;
}

/* Returns the bytes that it has fetched in that time. */
static double bytes_fetched(const job *j, const machine *m, int64_t now_ms)
{
    const plan_arm *arm = &j->h.tasks.arms[0];
    double up, down;
    pl_phase_bytes(&arm->arm, arm->topology, &up, &down);
    return m->fetch_ms > 0 ? down * fetched_ms(m, now_ms) / m->fetch_ms : 0;
}

/* The machine has done its task, or another one was faster. */
static void end_task(const job *j, machine *m, int64_t now_ms)
{
    m->down += bytes_fetched(j, m, now_ms);
    m->token = 0;
}

static void take_lease(job *j, int i, plan_task task, const plan_lease *lease,
                       int64_t now_ms)
{
    machine *m = &j->machines[i];
    m->begin_ms = m->fetch_ms + (m->has >> task.index & 1 ? 0 : m->cold_ms);
    if (lease->is_new && lease->phase > 0) /* the state has two parameters' bytes */
        m->begin_ms += 2 * m->fetch_ms;
    m->has |= 1U << task.index;
    j->workers[i].given_token = lease->token;
    j->workers[i].given_down = j->workers[i].link.down;
    j->workers[i].waiting = j->workers[i].withheld.is = false;
    j->workers[i].left_to_it = NULL;
    m->task = task;
    m->token = lease->token;
    m->phase = lease->phase;
    m->begun_ms = m->renewed_ms = now_ms;
    m->spread = 950 + draw(&j->draws, 101);
    m->told_steps = m->told_sending = false;
}

/* Serves waiting workers as hub.c does. */
static void serve(job *j, int64_t now_ms, bool on_trial, bool *search)
{
    for (int q = 0; q < j->n; q++) {
        const int i = j->queue[q];
        hub_worker *w = &j->workers[i];
        plan_task task;
        if (!w->waiting || hub_is_on_trial(&j->h, w) != on_trial)
            continue;
        plan_arm *arm = &j->h.tasks.arms[0];
        if (*search && plan_choose(&j->h.tasks, i, now_ms, &task)) {
            plan_grant(&j->h.tasks, task, i, now_ms, TTL);
            hub_note_left(w, arm, &arm->paths[task.index]);
            take_lease(j, i, task, &arm->paths[task.index].lease, now_ms);
            continue;
        }
        *search = *search && w->withheld.judged_ms == now_ms;
        if (*search || !hub_find_backup(&j->h, i, now_ms, &task))
            continue;
        hub_end_late(&j->h, task, now_ms);
        plan_grant_backup(&j->h.tasks, task, i, now_ms, TTL);
        take_lease(j, i, task, &arm->paths[task.index].backup, now_ms);
    }
}

static void deliver(job *j, int i, int64_t now_ms)
{
    plan *p = &j->h.tasks;
    machine *m = &j->machines[i];
    plan_arm *arm = &p->arms[0];
    plan_path *path = &arm->paths[m->task.index];
    const double inner_s = 1e-6 * m->step_ms * m->spread * STEPS;
    const plan_said said = {.phase = m->phase, .token = m->token, .worker = i};
    const plan_news news = {.phase = m->phase + 1,
                            .by = i,
                            .keeper = i,
                            .work.seconds = path->work.seconds + inner_s};
    plan_settled s;
    assert_true(plan_say_done(path, &said, now_ms, TTL));
    assert_true(plan_settle(p, path, &news, now_ms, &s) && s.done.worker == i);
    hub_note_settled(&j->h, m->task, &s, now_ms);
    plan_hear(path, &news, now_ms);
    make_versions(j);
    hub_end_task(&j->workers[i], path);
    end_task(j, m, now_ms);
    if (s.lost.worker < 0)
        return;
    hub_end_task(&j->workers[s.lost.worker], path);
    end_task(j, &j->machines[s.lost.worker], now_ms);
}

/* Does what the worker does at this time: reports, delivers, or asks for a task. */
static void turn(job *j, int i, int64_t now_ms)
{
    machine *m = &j->machines[i];
    hub_worker *w = &j->workers[i];
    w->seen_ms = now_ms;
    if (m->token == 0) {
        w->waiting = true;
        w->asked_ms = now_ms;
        return;
    }
    plan_path *path = &j->h.tasks.arms[0].paths[m->task.index];
    plan_lease *lease = plan_lease_of(path, m->token, i);
    if (!lease) { /* it was late, and another worker has its place */
        end_task(j, m, now_ms);
        return;
    }
    const double at = (double)(now_ms - m->begun_ms) * 1000 / m->spread - m->begin_ms;
    const double inner_ms = m->step_ms * STEPS;
    if (at >= inner_ms + m->send_ms) {
        deliver(j, i, now_ms);
        return;
    }
    const bool steps = at >= m->step_ms, sends = at >= inner_ms;
    if (now_ms - m->renewed_ms < RENEW_MS && steps == m->told_steps &&
        sends == m->told_sending)
        return;
    const pl_msg_renew q = {.phase = m->phase,
                            .trains = at >= 0 && !sends,
                            .down = (uint64_t)(m->down + bytes_fetched(j, m, now_ms)),
                            .step = at >= 0 ? (uint64_t)(at / m->step_ms) : 0};
    hub_note_renewal(&j->h, i, path, lease, &q, now_ms);
    m->renewed_ms = now_ms;
    m->told_steps = steps;
    m->told_sending = sends;
}

/* Returns the seconds that the job takes. */
static double run_job(job *j)
{
    int64_t now_ms = 1000;
    make_versions(j);
    while (!plan_arm_finished(&j->h.tasks.arms[0])) {
        bool search = true;
        for (int q = 0; q < j->n; q++)
            turn(j, j->queue[q], now_ms);
        for (int on_trial = 0; on_trial < 2; on_trial++)
            serve(j, now_ms, on_trial, &search);
        now_ms += TICK_MS;
        assert_true(now_ms < ENDS_MS);
    }
    plan_clear(&j->h.tasks);
    return 1e-3 * (double)(now_ms - 1000);
}

/* The hub learns only from its first task that a worker is slow, and may lose the time
 * of a task there; and of a second one if the first was stopped before its first step,
 * so that the hub did not learn how slow its steps are. */
PL_TEST(slow_worker_never_makes_a_job_slower)
{
    uint64_t draws = 1000;
    OWNED(free_memory) job *j = pl_alloc(sizeof *j);
    for (int round = 0; round < 96; round++) {
        machine m[WORKERS_MAX] = {0};
        const bool own_keys = round % 2 == 0;
        const int n = 2 + draw(&draws, 3), slow = draw(&draws, n + 1);
        const int step_ms = 5 + draw(&draws, 60), link_ms = 20 + draw(&draws, 1000);
        const int times = 3 + draw(&draws, 20);
        double task_s = 0;
        for (int i = 0; i < n; i++) {
            m[i] = (machine){.fetch_ms = link_ms + draw(&draws, 200),
                             .step_ms = step_ms + draw(&draws, 5),
                             .send_ms = link_ms + draw(&draws, 200)};
            m[i].cold_ms = draw(&draws, 4) * m[i].fetch_ms;
            const double own_s = 1e-3 * (m[i].cold_ms + 3 * m[i].fetch_ms +
                                         m[i].step_ms * STEPS + m[i].send_ms);
            task_s = own_s > task_s ? own_s : task_s;
        }
        begin_job(j, m, n, own_keys, (uint64_t)round);
        const double without_s = run_job(j);
        memmove(m + slow + 1, m + slow, (size_t)(n - slow) * sizeof *m);
        m[slow] = m[slow == 0 ? 1 : 0];
        if (round % 3 != 0)
            m[slow].step_ms *= times;
        if (round % 3 != 1)
            m[slow].fetch_ms = m[slow].send_ms = m[slow].fetch_ms * times;
        m[slow].cold_ms = draw(&draws, 8) * m[slow].fetch_ms;
        begin_job(j, m, n + 1, own_keys, (uint64_t)round);
        const double with_s = run_job(j);
        if (with_s > 1.02 * without_s + 2 * task_s)
            fail_msg("fleet %d of %d workers: %.2f s, and %.2f s with a slow one",
                     round, n, without_s, with_s);
    }
}

/* How many times faster the job is with all four workers than with the first two. */
static double speedup_of_the_last_two(const machine m[4])
{
    OWNED(free_memory) job *j = pl_alloc(sizeof *j);
    begin_job(j, m, 2, false, 1);
    const double two_s = run_job(j);
    begin_job(j, m, 4, false, 1);
    const double four_s = run_job(j);
    return two_s / four_s;
}

/* Four sites, 8 s of inner steps: two good ones, and two with slow links. */
PL_TEST(workers_that_finish_in_time_shorten_a_job)
{
    const machine m[] = {{.fetch_ms = 250, .step_ms = 200, .send_ms = 250},
                         {.fetch_ms = 250, .step_ms = 200, .send_ms = 250},
                         {.fetch_ms = 900, .step_ms = 200, .send_ms = 1000},
                         {.fetch_ms = 1300, .step_ms = 200, .send_ms = 1400}};
    assert_true(speedup_of_the_last_two(m) > 1.4);
}

/* The same sites, and each first fetches data that it then keeps. If that counted, the
 * last site would get no second task. */
PL_TEST(worker_with_a_long_first_fetch_shortens_a_job)
{
    const machine m[] = {
        {.fetch_ms = 100, .step_ms = 200, .send_ms = 300, .cold_ms = 400},
        {.fetch_ms = 100, .step_ms = 200, .send_ms = 300, .cold_ms = 400},
        {.fetch_ms = 300, .step_ms = 200, .send_ms = 900, .cold_ms = 2000},
        {.fetch_ms = 1100, .step_ms = 200, .send_ms = 3300, .cold_ms = 9000}};
    assert_true(speedup_of_the_last_two(m) > 1.3);
}

static job *two_workers(void)
{
    job *j = new_job(2);
    make_versions(j);
    return j;
}

/* Grants worker 0 a task and lets it report its steps: it has fetched for 8 s, `times`
 * the bytes of a later task, and then needs 4 s for its steps. */
static plan_path *begin_task(job *j, plan_task task, uint64_t had, int times,
                             int64_t now_ms)
{
    hub_worker *w = &j->workers[0];
    const plan_arm *arm = &j->h.tasks.arms[task.arm];
    plan_path *path = &arm->paths[task.index];
    double up, down;
    pl_phase_bytes(&arm->arm, arm->topology, &up, &down);
    plan_grant(&j->h.tasks, task, 0, now_ms, TTL);
    w->given_token = path->lease.token;
    w->given_down = w->link.down;
    pl_msg_renew q = {
        .trains = true, .step = 1, .down = had + (uint64_t)(times * down)};
    hub_note_renewal(&j->h, 0, path, &path->lease, &q, now_ms + 8100);
    q.step = 11;
    hub_note_renewal(&j->h, 0, path, &path->lease, &q, now_ms + 9100);
    return path;
}

/* As above; and then it sends for 1 s. */
static void do_task(job *j, plan_task task, uint64_t had, int times, int64_t now_ms)
{
    plan_path *path = begin_task(j, task, had, times, now_ms);
    hub_note_done(&j->h, &j->workers[0], path, 0, &path->lease, 4, now_ms + 13000);
}

static double measured_s(const job *j)
{
    return hub_task_s(&j->workers[0], &j->h.tasks.arms[0].arm);
}

/* Measures worker i: a task takes it so many seconds. */
static void measure(job *j, int i, double task_s, int64_t now_ms)
{
    j->workers[i].pace[0] = (hub_pace){0};
    j->workers[i].seen_ms = j->workers[i].asked_ms = now_ms;
    hub_note_pace(&j->h, &j->workers[i], 0, 0.5 * task_s, task_s, now_ms);
}

/* The first task of a job: nobody knows how long it takes, so it is late only if the
 * trainer of its holder hangs. */
PL_TEST(task_that_stands_still_gets_a_backup_before_any_time_is_known)
{
    OWNED(end_job) job *j = two_workers();
    plan_path *path = &j->h.tasks.arms[0].paths[0];
    plan_task task;
    plan_grant(&j->h.tasks, (plan_task){0, 0}, 0, 0, TTL);
    for (int s = 0; s <= 340; s += 20) {
        pl_msg_renew q = {.trains = true,
                          .step = 1 + (s < 200 ? (uint64_t)s / 20 : 10)};
        hub_note_renewal(&j->h, 0, path, &path->lease, &q, 1000 * s);
        assert_int_equal(hub_find_backup(&j->h, 1, 1000 * s, &task), s > 200 + 120);
    }
    assert_int_equal(task.index, 0);
}

PL_TEST(bytes_of_a_new_path_that_its_later_phases_do_not_need_take_no_time)
{
    OWNED(end_job) job *j = new_job(1);
    do_task(j, (plan_task){0, 0}, 0, 4, 1000);
    assert_float_equal(measured_s(j), 13 - 6, 1e-3);
    /* it says so again of a path that it had, and is not believed */
    j->h.tasks.arms[0].paths[0].keeper = 0;
    do_task(j, (plan_task){0, 0}, j->workers[0].link.down, 4, 20000);
    assert_float_equal(measured_s(j), 0.5 * (7 + 13), 1e-3);
}

/* It will fetch the states of its paths in turn. */
PL_TEST(state_of_a_new_path_takes_time_if_there_are_more_paths_than_workers)
{
    OWNED(end_job) job *j = new_job(1);
    measure(j, 0, 1, 1000);
    hub_look_at_fleet(&j->h, 1000);
    j->workers[0].pace[0] = (hub_pace){0};
    do_task(j, (plan_task){0, 0}, 0, 4, 1000);
    assert_true(measured_s(j) > 13 - 3);
}

PL_TEST(first_task_that_ends_after_the_next_phase_began_is_measured_alike)
{
    const plan_task task = {0, 0};
    OWNED(end_job) job *j = new_job(1);
    plan_path *path = begin_task(j, task, 0, 4, 1000);
    hub_extend(&j->h, task, 13000);
    hub_note_done(&j->h, &j->workers[0], path, 0, &path->lease, 4, 14000);
    assert_float_equal(measured_s(j), 13 - 6, 1e-3);
}

static void say_hello(job *j, uint64_t pid, uint64_t down)
{
    OWNED(pl_message_destroy) pl_message m = {0}, a;
    pl_peer peer = {.role = PL_AS_LOCAL, .key = j->workers[0].key};
    PL_SAY(&m, HELLO, hello, .name = "w0", .role = "worker", .device = "cpu",
           .pid = pid, .down = down);
    pl_message_init(&a, 0);
    assert_ok(hub_hello(&j->h, &peer, &m, &a));
}

/* DOWN counts from the start of the worker's process, and so neither from the start of
 * the hub nor from that of an earlier process. */
PL_TEST(bytes_fetched_before_a_hello_do_not_count_for_the_next_task)
{
    const uint64_t had = UINT64_C(10000000000);
    OWNED(end_job) job *j = new_job(1);
    j->h.worker_names = pl_name_table_create();
    pl_name_table_put(j->h.worker_names, "w0", 0);
    say_hello(j, 1, had); /* the hub is new, and the worker is not */
    do_task(j, (plan_task){0, 0}, had, 1, 1000);
    assert_float_equal(measured_s(j), 13, 1e-3);
    say_hello(j, 2, 0); /* the worker was started again */
    do_task(j, (plan_task){0, 1}, 0, 4, 20000);
    assert_float_equal(measured_s(j), 13 - 6, 1e-3);
    pl_name_table_destroy(&j->h.worker_names);
}

PL_TEST(worker_that_is_too_slow_waits_and_is_told_the_numbers)
{
    char text[HUB_WITHHELD_TEXT_MAX];
    plan_task task;
    OWNED(end_job) job *j = two_workers();
    measure(j, 0, 1, 1000);
    measure(j, 1, 3.9, 1000);
    assert_true(plan_choose(&j->h.tasks, 1, 1000, &task)); /* of four tasks, one */
    measure(j, 1, 4.5, 1100);
    assert_false(plan_choose(&j->h.tasks, 1, 1100, &task));
    assert_true(plan_choose(&j->h.tasks, 0, 1100, &task));
    hub_withheld_text(&j->h, &j->workers[1], text);
    assert_non_null(strstr(text, "4.5 s for a task of mix"));
    assert_non_null(strstr(text, "ready tasks in 4.0 s"));
    /* alone it gets every task */
    j->workers[0].left = true;
    assert_true(plan_choose(&j->h.tasks, 1, 1200, &task));
}

/* Two equal workers, to whom a task takes so many seconds, and one ready path, whose
 * state worker 1 has made. */
static plan_path *only_path_of_worker_1(job *j, double task_s)
{
    measure(j, 0, task_s, 1000);
    measure(j, 1, task_s, 1000);
    plan_arm *arm = &j->h.tasks.arms[0];
    for (int i = 0; i < PATHS; i++)
        arm->paths[i].phase = i == 2 ? 0 : PHASES;
    arm->paths[2].keeper = 1;
    hub_look_at_fleet(&j->h, 1000);
    return &arm->paths[2];
}

/* Whether worker 0 gets a task, as if no path had waited in vain before. */
static bool gets_one(job *j, int64_t now_ms)
{
    plan_task task;
    j->workers[1].missed_ms = 0;
    return plan_choose(&j->h.tasks, 0, now_ms, &task);
}

PL_TEST(ready_path_waits_a_little_for_the_worker_that_has_its_state)
{
    plan_task task;
    OWNED(end_job) job *j = two_workers();
    plan_path *path = only_path_of_worker_1(j, 1);
    plan_path *other = &j->h.tasks.arms[0].paths[0];
    assert_false(gets_one(j, 1000));
    assert_true(plan_choose(&j->h.tasks, 1, 1000, &task));
    assert_false(gets_one(j, 1200));
    assert_true(gets_one(j, 1250)); /* it did not come */
    /* not for a worker that has a task, or has left, or is on trial, or is too slow */
    path->kept_ms = 0;
    other->phase = 0;
    plan_grant(&j->h.tasks, (plan_task){0, 0}, 1, 1300, TTL);
    assert_true(gets_one(j, 1300));
    other->lease.active = false;
    other->phase = PHASES;
    assert_false(gets_one(j, 1306));
    j->workers[1].drains = true;
    assert_true(gets_one(j, 1307));
    j->workers[1].drains = false;
    assert_false(gets_one(j, 1308));
    j->workers[1].own_key = false;
    assert_true(gets_one(j, 1309));
    j->workers[1].own_key = true;
    measure(j, 1, 3, 1400);
    measure(j, 0, 1, 1400);
    assert_true(gets_one(j, 1400));
}

PL_TEST(path_is_not_left_for_long_to_a_worker_that_is_silent)
{
    OWNED(end_job) job *j = two_workers();
    (void)only_path_of_worker_1(j, 100);
    assert_false(gets_one(j, 1000));
    assert_false(gets_one(j, 3900));
    assert_true(gets_one(j, 4100));
}

PL_TEST(worker_that_let_a_path_wait_in_vain_is_left_none_for_long)
{
    plan_task task;
    OWNED(end_job) job *j = two_workers();
    plan_path *path = only_path_of_worker_1(j, 1);
    assert_false(plan_choose(&j->h.tasks, 0, 1000, &task));
    assert_true(plan_choose(&j->h.tasks, 0, 1250, &task));
    path->kept_ms = 0; /* as in the path's next phases */
    j->workers[1].asked_ms = 51000;
    assert_true(plan_choose(&j->h.tasks, 0, 51000, &task));
    assert_false(plan_choose(&j->h.tasks, 0, 51300, &task));
}

PL_TEST(time_for_which_a_path_was_left_to_a_worker_counts_as_its_time)
{
    plan_task task;
    OWNED(end_job) job *j = two_workers();
    plan_path *path = only_path_of_worker_1(j, 1);
    assert_false(plan_choose(&j->h.tasks, 0, 1000, &task));
    plan_grant(&j->h.tasks, (plan_task){0, 2}, 1, 1200, TTL);
    hub_note_left(&j->workers[1], &j->h.tasks.arms[0], path);
    hub_note_done(&j->h, &j->workers[1], path, 0, &path->lease, 0.5, 2200);
    assert_float_equal(hub_task_s(&j->workers[1], &j->h.tasks.arms[0].arm), 1.1, 1e-3);
}

/* With train.state_every a worker without the path's newest state repeats phases. */
PL_TEST(phases_that_must_be_repeated_count_as_time)
{
    const plan_task held = {0, 0};
    OWNED(end_job) job *j = two_workers();
    measure(j, 0, 1, 1000);
    measure(j, 1, 2.1, 1000); /* both finish the four tasks in 3 s */
    plan_arm *arm = &j->h.tasks.arms[0];
    plan_path *path = &arm->paths[0];
    assert_true(hub_fits_new(&j->h, 1, held, 1000));
    path->repeats = 1;
    assert_false(hub_fits_new(&j->h, 1, held, 1000));
    path->repeats = 0;
    measure(j, 1, 7, 1100); /* worker 0 alone finishes them in 4 s */
    assert_false(hub_fits_new(&j->h, 1, held, 1100));
    path->repeats = 1;
    path->keeper = 1;
    assert_true(hub_fits_new(&j->h, 1, held, 1100));
    /* what the others repeat does not matter to a worker that must repeat as much */
    path->keeper = -1;
    assert_false(hub_fits_new(&j->h, 1, held, 1100));
    path->repeats = 0;
    /* The worker that holds a path may be twice as slow, and even slower in a phase
     * whose state stays with it. */
    arm->arm.outer.state_every = 4;
    measure(j, 1, 10, 1200);
    arm->paths[0].phase = 3; /* the state after it is the fourth */
    assert_false(hub_fits_next(&j->h, 1, held, 1200));
    arm->paths[0].phase = 0;
    assert_true(hub_fits_next(&j->h, 1, held, 1200));
    measure(j, 1, 17, 1300);
    assert_false(hub_fits_next(&j->h, 1, held, 1300));
    arm->paths[0].phase = 1;
    arm->paths[0].repeats = 1;
    assert_true(hub_fits_next(&j->h, 1, held, 1300));
}

PL_TEST(worker_that_has_lost_its_task_to_a_backup_is_measured)
{
    const plan_task first = {0, 0};
    OWNED(end_job) job *j = two_workers();
    measure(j, 0, 1, 1000);
    plan_grant(&j->h.tasks, first, 1, 1000, TTL);
    plan_grant_backup(&j->h.tasks, first, 0, 2000, TTL);
    const plan_news news = {.phase = 1, .by = 0, .work.seconds = 0.5};
    plan_settled s;
    assert_true(
        plan_settle(&j->h.tasks, &j->h.tasks.arms[0].paths[0], &news, 3000, &s));
    assert_int_equal(s.lost.worker, 1);
    hub_note_settled(&j->h, first, &s, 3000);
    assert_true(hub_task_s(&j->workers[1], &j->h.tasks.arms[0].arm) >= 2);
}

PL_TEST(task_is_not_kept_for_workers_that_never_come)
{
    plan_task task;
    int64_t now_ms = 1000;
    OWNED(end_job) job *j = two_workers();
    measure(j, 0, 1, now_ms);
    measure(j, 1, 10, now_ms);
    /* worker 0 says that it is there, but takes nothing: 2 x 4 s, then the 10 s that
     * worker 1 needs */
    for (; now_ms < 100000; now_ms += 100) {
        j->workers[0].asked_ms = j->workers[0].seen_ms = now_ms;
        j->workers[1].asked_ms = j->workers[1].seen_ms = now_ms;
        if (plan_choose(&j->h.tasks, 1, now_ms, &task))
            break;
    }
    assert_true(now_ms > 18000 && now_ms < 21000);
}

PL_TEST(old_measurement_is_tried_again)
{
    plan_task task;
    int64_t now_ms = 1000;
    OWNED(end_job) job *j = two_workers();
    measure(j, 1, 5, now_ms);
    for (; now_ms < 400000; now_ms += 100) {
        /* worker 0 takes and delivers all tasks */
        measure(j, 0, 1, now_ms);
        j->workers[1].asked_ms = j->workers[1].seen_ms = now_ms;
        for (int i = 0; i < PATHS; i++)
            j->h.tasks.arms[0].paths[i].waits_until_ms = 0;
        if (plan_choose(&j->h.tasks, 1, now_ms, &task))
            break;
    }
    assert_true(now_ms > 250000 && now_ms < 252000);
}
