/* folder: workers; label: unit; alone
 *
 * Tests that the results of a finished phase are kept while a home, a relay or the hub
 * is away. The test is the home; the sender has its thread. */
#include "workers/worker_internal.h"
#include "tests/support/passing_time.h"
#include "tests/support/end_wire.h"
#include "tests/support/home_fixture.h"

enum { SHORT_MS = 100, DAY_MS = 86400000, REFUSALS = 3 };

typedef struct scene {
    pl_worker_options options;
    worker w;
    worker_arm arm;
    worker_task *task;
    pl_socket *home;
    pl_lease_secret secret; /* of the hub that the home knows */
    pl_status refusal;      /* how the home answers results; PL_OK: it takes them */
    bool hangs;             /* the home answers nothing, which counts as refused */
    bool holds;             /* the same, but it takes uploads */
    int n_refused, n_taken;
} scene;

/* Makes a task that is trained: all its values are zeros. */
static worker_task *make_task(const worker_arm *arm)
{
    worker_task *task = pl_alloc(sizeof *task);
    void *base, *params, *state;
    task->arm = arm;
    task->layout = pl_path_layout_of(&arm->arm);
    task->n_params = pl_topology_path_params(arm->topology);
    task->token = 1;
    task->granted = pl_now() - 60; /* a sender has patience for ten times this */
    pl_arm_path_name(&arm->arm, arm->topology, 0, 0, task->name);
    const size_t bytes = task->n_params * sizeof(float);
    assert_ok(pl_try_alloc(bytes, "a version", &base));
    assert_ok(pl_try_alloc(bytes, "parameters", &params));
    assert_ok(pl_try_alloc((size_t)task->layout.n_vectors * bytes, "a state", &state));
    task->base = task->start = base;
    task->job.params = params;
    task->job.state = state;
    task->bases = pl_alloc(N_SLOTS * sizeof *task->bases);
    return task;
}

static void seal_task(scene *s, const pl_lease_secret *secret)
{
    pl_sealed_lease sealed;
    const pl_lease lease = lease_of(&s->arm.arm, 0, 0, s->task->token);
    pl_lease_seal(secret, &lease, &sealed);
    assert_ok(worker_take_lease(s->task, (pl_bytes){sealed.bytes, sealed.len},
                                sealed.key.bytes));
}

static int setup(void **state)
{
    scene *s = pl_alloc(sizeof *s);
    define_grid(&s->arm.arm, "f32");
    assert_ok(
        pl_topology_create(&s->arm.arm.shape, &s->arm.arm.spec, &s->arm.topology));
    s->arm.contracts = pl_contracts_create(&s->arm.arm, s->arm.topology);
    s->options = (pl_worker_options){.cache = "/nonexistent", .patience_ms = SHORT_MS};
    s->w.options = &s->options;
    s->w.n_homes = 1;
    assert_ok(pl_wire_bind("tcp://127.0.0.1:*", &s->home, s->w.homes_at[0]));
    assert_ok(sender_create(&s->w, &s->w.out));
    s->task = make_task(&s->arm);
    pl_lease_secret_create(&s->secret);
    seal_task(s, &s->secret);
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    OWNED(free_memory) scene *s = *state;
    worker_task_lose(s->task);
    sender_destroy(s->w.out);
    worker_task_free(&s->task);
    pl_wire_close(&s->home);
    pl_free(s->arm.contracts);
    pl_topology_destroy(&s->arm.topology);
    pl_arm_clear(&s->arm.arm);
    return 0;
}

static pl_status judge(const scene *s, pl_message *m)
{
    pl_lease lease;
    pl_reader r;
    pl_bytes sealed;
    if (s->refusal != PL_OK)
        return pl_fail(s->refusal, "the test refuses this");
    pl_reader_open(&r, "results", m->body.data, m->body.len);
    sealed.at = pl_get_bytes(&r, PL_TAG_LEASE, 0, &sealed.len);
    return pl_lease_open(&s->secret, sealed.at, sealed.len, &lease);
}

/* Answers all that has come, as a home does. It says that it has every blob. */
static void turn_home(scene *s)
{
    OWNED(pl_message_destroy) pl_message m = {0};
    pl_peer from;
    while (pl_wire_recv(s->home, &from, &m) == PL_OK) {
        OWNED(pl_message_destroy) pl_message a = {0};
        pl_msg_put_blob put;
        const bool silent = s->hangs || (s->holds && m.type != PL_MSG_PUT_BLOB);
        s->n_refused += silent;
        if (silent)
            continue;
        if (m.type == PL_MSG_PUT_BLOB) {
            assert_ok(PL_HEAR(&m, put_blob, &put));
            PL_SAY(&a, PUT_STATE, put_state, .offset = put.total);
        } else if (judge(s, &m) != PL_OK) {
            pl_wire_error(&a, 0, s->refusal ? s->refusal : PL_ERR_STALE, "refused");
            s->n_refused++;
        } else {
            PL_SAY(&a, SUBMITTED, submitted, .result = PL_SUBMIT_ACCEPTED);
            s->n_taken++;
        }
        a.request = m.request;
        assert_ok(pl_wire_send_to(s->home, &from, &a));
    }
}

/* Waits until the home has refused so many messages, or the task has come back. Returns
 * whether it has come back. */
static bool comes_back(scene *s, int n_refused)
{
    for (int i = 0; i < 12000 && s->n_refused < n_refused; i++) {
        turn_home(s);
        if (sender_take(s->w.out))
            return true;
        pl_sleep_ms(5);
    }
    assert_true(s->n_refused >= n_refused);
    return false;
}

static void assert_sent(scene *s)
{
    assert_true(comes_back(s, INT32_MAX));
    assert_ok(s->task->status);
    assert_true(s->n_taken > N_SLOTS); /* each update, and the state */
}

#define FIXTURE_TEST(name) PL_TEST_ON(name, scene *s, setup, teardown)

FIXTURE_TEST(results_wait_for_a_home_longer_than_the_patience)
{
    sender_push(s->w.out, s->task);
    pl_sleep_ms(5 * SHORT_MS);
    assert_null(sender_take(s->w.out));
    assert_sent(s);
}

FIXTURE_TEST(results_of_a_worker_that_leaves_wait_no_longer_than_its_patience)
{
    static volatile sig_atomic_t stop = 1;
    s->options.stop = &stop;
    sender_push(s->w.out, s->task);
    for (int i = 0; i < 12000 && !sender_take(s->w.out); i++)
        pl_sleep_ms(5);
    assert_int_equal(s->task->status, PL_ERR_TIMEOUT);
}

/* The patience of a worker that joined. */
static void leave(scene *s, pl_status refusal, bool hangs)
{
    enum { LEAVE_S = 61 };
    static volatile sig_atomic_t stop = 1;
    sender_destroy(s->w.out);
    s->options.patience_ms = DAY_MS;
    s->options.stop = &stop;
    s->refusal = refusal;
    s->hangs = hangs;
    assert_ok(sender_create(&s->w, &s->w.out));
    sender_push(s->w.out, s->task);
    assert_false(comes_back(s, 1));
    let_pass(LEAVE_S);
    assert_true(comes_back(s, INT32_MAX));
    assert_int_equal(s->task->status, PL_ERR_CANCELLED); /* blames nobody */
}

FIXTURE_TEST(results_of_a_worker_that_leaves_wait_a_minute_for_a_home_that_hangs)
{
    leave(s, PL_OK, true);
}

FIXTURE_TEST(results_of_a_worker_that_leaves_wait_a_minute_for_a_busy_home)
{
    leave(s, PL_ERR_BUSY, false);
}

/* A relay answers after silence that it holds the updates: it sends a sum. */
FIXTURE_TEST(results_of_a_worker_that_leaves_wait_for_a_relay_that_sends_them)
{
    enum { SILENT_S = 11, STEP_S = 4, STEPS = 20, STEP_MS = 300 };
    static volatile sig_atomic_t stop = 1;
    pl_link before, after;
    s->options.stop = &stop;
    sender_destroy(s->w.out);
    s->options.patience_ms = DAY_MS;
    s->holds = true;
    assert_ok(sender_create(&s->w, &s->w.out));
    sender_push(s->w.out, s->task);
    assert_false(comes_back(s, N_SLOTS + 1));
    let_pass(SILENT_S);
    s->holds = false;
    s->refusal = PL_ERR_BUSY;
    sender_link(s->w.out, &before);
    for (int step = 1; step <= STEPS; step++) {
        const int64_t began = pl_now_ms();
        s->n_refused = 0;
        assert_false(comes_back(s, 1));
        while (pl_now_ms() - began < STEP_MS) {
            turn_home(s);
            pl_sleep_ms(5);
        }
        assert_in_range(s->n_refused, 1, N_SLOTS + 1); /* each asks once */
        let_pass(STEP_S);
    }
    sender_link(s->w.out, &after);
    assert_true(after.up_bytes > before.up_bytes); /* to the hub it is not stalled */
    s->refusal = PL_OK;
    assert_sent(s);
}

/* A relay gives up an update when its home is away, or when it ends itself. */
FIXTURE_TEST(results_outlive_a_relay_that_gives_them_up)
{
    static const pl_status why[] = {PL_ERR_TIMEOUT, PL_ERR_CANCELLED};
    sender_push(s->w.out, s->task);
    for (int i = 0; i < 2; i++) {
        s->refusal = why[i];
        s->n_refused = 0;
        assert_false(comes_back(s, REFUSALS * (N_SLOTS + 1)));
    }
    s->refusal = PL_OK;
    assert_sent(s);
}

/* One home knows the new hub already and no longer the hub before. The new hub seals no
 * lease while another home is silent. */
FIXTURE_TEST(results_wait_for_the_seal_of_a_new_hub)
{
    pl_lease_secret_create(&s->secret);
    sender_push(s->w.out, s->task);
    assert_false(comes_back(s, 1));
    pl_sleep_ms(2 * SHORT_MS);
    assert_null(sender_take(s->w.out));
    seal_task(s, &s->secret);
    assert_sent(s);
}

static void wait_for_nothing(scene *s, pl_status refusal)
{
    s->refusal = refusal;
    sender_push(s->w.out, s->task);
    assert_false(comes_back(s, 1));
    worker_task_lose(s->task);
    assert_true(comes_back(s, INT32_MAX));
    assert_int_not_equal(s->task->status, PL_OK);
}

FIXTURE_TEST(results_of_a_lost_lease_wait_for_no_home)
{
    wait_for_nothing(s, PL_ERR_TIMEOUT);
}

FIXTURE_TEST(results_of_a_lost_lease_wait_for_no_seal)
{
    wait_for_nothing(s, PL_ERR_STALE);
}

PL_SUITE(NULL, end_wire)
