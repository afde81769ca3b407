/* folder: workers; label: integration; alone
 *
 * Tests what a worker reports to its hub about a task whose data it cannot fetch. The
 * test acts as the hub and as the home. */
#include "workers/workers.h"

#include "net/net.h"

#include "tests/support/passing_time.h"
#include "tests/support/end_wire.h"
#include "tests/support/suite.h"

/* the worker has joined, so it has the patience of a day */
enum { TTL_MS = 400, PATIENCE_MS = 60000, DAY_MS = 86400000, TOKEN = 77 };
static const char task_name[] = "mix/p01.r0";

typedef struct scene {
    pl_socket *hub, *home;
    char hub_at[PL_ADDRESS_MAX], home_at[PL_ADDRESS_MAX];
    pl_peer worker;
    pl_message heard; /* the last message that the worker has sent */
    volatile sig_atomic_t stop;
    pl_thread *thread;
    pl_status ended;
} scene;

static void run_worker(void *context)
{
    scene *s = context;
    pl_worker_options options = {
        .hub = s->hub_at,
        .name = "w",
        .cache = "/nonexistent",
        .backend = {.name = "ref", .n_threads = 1, .precision = "f32"},
        .cache_bytes = 1 << 20,
        .patience_ms = DAY_MS,
        .stop = &s->stop};
    s->ended = pl_worker_run(&options);
}

/* Waits for a message of this type, and drops all other messages. */
static void hear(scene *s, pl_socket *socket, uint16_t type)
{
    int64_t start = pl_now_ms();
    while (pl_now_ms() - start < PATIENCE_MS) {
        bool ready = false;
        pl_wire_poll(&socket, 1, NULL, 0, 20, &ready);
        if (pl_wire_recv(socket, &s->worker, &s->heard) == PL_OK &&
            s->heard.type == type)
            return;
    }
    fail_msg("no message of type %u came", type);
}

static void answer(scene *s, pl_socket *socket, pl_message *a)
{
    a->request = s->heard.request;
    assert_ok(pl_wire_send_to(socket, &s->worker, a));
    pl_message_destroy(a);
}

static void say_welcome(scene *s)
{
    pl_message a;
    hear(s, s->hub, PL_MSG_HELLO);
    pl_message_init(&a, PL_MSG_WELCOME);
    pl_put_text(&a.body, PL_TAG_ADDRESS, s->home_at);
    pl_put_u64(&a.body, PL_TAG_TTL_MS, TTL_MS);
    answer(s, s->hub, &a);
}

static void give_task(scene *s)
{
    pl_message a;
    pl_hash blob;
    hear(s, s->hub, PL_MSG_TASK_REQ);
    pl_hash_of("blob", "an arm", 6, &blob);
    pl_message_init(&a, PL_MSG_TASK);
    a.token = TOKEN;
    pl_put_hash(&a.body, PL_TAG_ARM_BLOB, &blob);
    pl_put_u64(&a.body, PL_TAG_PATH, 1);
    pl_put_u64(&a.body, PL_TAG_REPLICA, 0);
    pl_put_u64(&a.body, PL_TAG_PHASE, 3);
    pl_put_text(&a.body, PL_TAG_TASK, task_name);
    answer(s, s->hub, &a);
}

/* After this function the worker is fetching the data of a task: the home has received
 * the request for the task's arm and has not answered it. */
static int setup(void **state)
{
    scene *s = pl_alloc(sizeof *s);
    pl_message_init(&s->heard, 0);
    assert_ok(pl_wire_bind("tcp://127.0.0.1:*", &s->hub, s->hub_at));
    assert_ok(pl_wire_bind("tcp://127.0.0.1:*", &s->home, s->home_at));
    assert_ok(pl_thread_start("worker", run_worker, s, &s->thread));
    say_welcome(s);
    give_task(s);
    hear(s, s->home, PL_MSG_GET_BLOB);
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    OWNED(free_memory) scene *s = *state;
    __atomic_store_n(&s->stop, 1, __ATOMIC_RELAXED);
    pl_thread_join(&s->thread);
    pl_status ended = s->ended;
    pl_message_destroy(&s->heard);
    pl_wire_close(&s->hub);
    pl_wire_close(&s->home);
    return ended == PL_OK ? 0 : -1;
}

/* Checks that the worker's last message names the task and has the token of its lease.
 * Returns a reader of the message. */
static pl_reader assert_named(const scene *s)
{
    pl_reader r;
    char name[96];
    pl_reader_open(&r, "a report", s->heard.body.data, s->heard.body.len);
    pl_get_text(&r, PL_TAG_TASK, 0, name, sizeof name);
    assert_ok(pl_reader_status(&r));
    assert_string_equal(name, task_name);
    assert_int_equal(s->heard.token, TOKEN);
    return r;
}

#define FIXTURE_TEST(name) PL_TEST_ON(name, scene *s, setup, teardown)

/* ---- tests ---- */
FIXTURE_TEST(lease_is_renewed_while_the_arm_is_fetched)
{
    for (int i = 0; i < 3; i++) {
        hear(s, s->hub, PL_MSG_RENEW);
        assert_named(s);
    }
}

static void refuse_arm(scene *s, pl_status why, const char *text)
{
    pl_message a;
    pl_message_init(&a, PL_MSG_ERR);
    pl_put_u64(&a.body, PL_TAG_STATUS, why);
    pl_put_text(&a.body, PL_TAG_TEXT, text);
    hear(s, s->home, PL_MSG_GET_BLOB);
    answer(s, s->home, &a);
}

FIXTURE_TEST(arm_that_cannot_be_used_is_a_failure_of_its_task)
{
    refuse_arm(s, PL_ERR_DAMAGED, "the arm is damaged");
    hear(s, s->hub, PL_MSG_RELEASE);
    pl_reader r = assert_named(s);
    char text[64];
    pl_get_text(&r, PL_TAG_TEXT, 0, text, sizeof text);
    assert_string_equal(text, "the arm is damaged");
    assert_int_equal(pl_get_u64(&r, PL_TAG_STATUS, 0), PL_ERR_DAMAGED);
}

FIXTURE_TEST(fetch_that_has_worked_for_long_waits_longer_for_a_home)
{
    enum { WORKS_S = 20, TIMES = 25, SILENCE_S = 200, LOOK_MS = 200 };
    for (int i = 0; i <= TIMES; i++) {
        let_pass(i < TIMES ? WORKS_S : SILENCE_S);
        pl_sleep_ms(LOOK_MS); /* the worker sees that the home is silent */
        if (i < TIMES)
            refuse_arm(s, PL_ERR_NET, "a relay has lost its home");
        pl_sleep_ms(LOOK_MS);
    }
    refuse_arm(s, PL_ERR_DAMAGED, "the arm is damaged");
    hear(s, s->hub, PL_MSG_RELEASE);
    pl_reader r = assert_named(s);
    assert_int_equal(pl_get_u64(&r, PL_TAG_STATUS, 0), PL_ERR_DAMAGED);
}

/* Perhaps it is only this worker that does not reach the home. */
FIXTURE_TEST(home_that_is_silent_for_a_minute_ends_a_fetch)
{
    enum { MINUTE_S = 61, TIMES = 300 };
    s->heard.type = 0;
    /* what the kernel confirms after the first minute is a sign of life */
    for (int i = 0; i < TIMES && s->heard.type != PL_MSG_RELEASE; i++) {
        bool ready = false;
        let_pass(MINUTE_S);
        pl_wire_poll(&s->hub, 1, NULL, 0, 200, &ready);
        while (s->heard.type != PL_MSG_RELEASE &&
               pl_wire_recv(s->hub, &s->worker, &s->heard) == PL_OK)
            continue;
    }
    assert_int_equal(s->heard.type, PL_MSG_RELEASE);
    pl_reader r = assert_named(s);
    assert_int_equal(pl_get_u64(&r, PL_TAG_STATUS, 0), PL_ERR_TIMEOUT);
    hear(s, s->hub, PL_MSG_TASK_REQ);
}

FIXTURE_TEST(stop_ends_a_fetch_and_gives_the_task_back)
{
    int64_t start = pl_now_ms();
    __atomic_store_n(&s->stop, 1, __ATOMIC_RELAXED);
    hear(s, s->hub, PL_MSG_RELEASE);
    pl_reader r = assert_named(s);
    /* Without STATUS the message does not report a failure. */
    assert_int_equal(pl_field_count(&r, PL_TAG_STATUS), 0);
    pl_thread_join(&s->thread);
    assert_ok(s->ended);
    assert_true(pl_now_ms() - start < PATIENCE_MS / 2);
}

FIXTURE_TEST(worker_that_goes_takes_its_question_back)
{
    __atomic_store_n(&s->stop, 1, __ATOMIC_RELAXED);
    hear(s, s->hub, PL_MSG_RELEASE);
    assert_named(s);
    hear(s, s->hub, PL_MSG_RELEASE);
    pl_reader r;
    pl_reader_open(&r, "a farewell", s->heard.body.data, s->heard.body.len);
    assert_int_equal(pl_field_count(&r, PL_TAG_TASK), 0);
    const uint64_t process = pl_get_u64(&r, PL_TAG_PID, 0);
    assert_int_equal(process & UINT32_MAX, (uint64_t)getpid());
    assert_true(process >> 32 != 0); /* random: a restart in a container is noticed */
}

FIXTURE_TEST(lost_lease_ends_a_fetch_and_another_task_is_asked_for)
{
    pl_message a;
    hear(s, s->hub, PL_MSG_RENEW);
    pl_message_init(&a, PL_MSG_LEASE_LOST);
    answer(s, s->hub, &a);
    hear(s, s->hub, PL_MSG_TASK_REQ);
}

static void refuse(scene *s, pl_status status, const char *sentence)
{
    pl_message a;
    pl_message_init(&a, 0);
    pl_wire_error(&a, 0, status, sentence);
    answer(s, s->hub, &a);
}

/* A hub that was started elsewhere does not know the worker, and names a home with a
 * different address. */
FIXTURE_TEST(home_that_has_moved_is_found_again)
{
    OWNED(pl_wire_close) pl_socket *old = s->home;
    assert_ok(pl_wire_bind("tcp://127.0.0.1:*", &s->home, s->home_at));
    hear(s, s->hub, PL_MSG_RENEW);
    refuse(s, PL_ERR_STALE, "this hub does not know the worker; send HELLO");
    say_welcome(s);
    say_welcome(s); /* the worker has begun anew */
    give_task(s);
    hear(s, s->home, PL_MSG_GET_BLOB);
}

static uint64_t heard_down(const scene *s)
{
    pl_reader r;
    pl_reader_open(&r, "DOWN", s->heard.body.data, s->heard.body.len);
    return pl_field_count(&r, PL_TAG_DOWN) > 0 ? pl_get_u64(&r, PL_TAG_DOWN, 0) : 0;
}

FIXTURE_TEST(worker_tells_a_new_hub_what_it_has_fetched_before)
{
    enum { TOTAL = 1000, PART = 10, RENEWALS_MAX = 50 };
    pl_message a;
    pl_message_init(&a, PL_MSG_BLOB);
    pl_put_u64(&a.body, PL_TAG_TOTAL, TOTAL);
    pl_buf_append(&a.data, "a part of it", PART);
    answer(s, s->home, &a);
    for (int i = 0; i < RENEWALS_MAX; i++) {
        hear(s, s->hub, PL_MSG_RENEW);
        if (heard_down(s) > 0)
            break;
    }
    assert_int_equal(heard_down(s), PART);
    refuse(s, PL_ERR_STALE, "this hub does not know the worker; send HELLO");
    say_welcome(s);
    assert_int_equal(heard_down(s), PART);
}

FIXTURE_TEST(hub_of_another_release_ends_the_worker)
{
    hear(s, s->hub, PL_MSG_RENEW);
    refuse(s, PL_ERR_UNSUPPORTED, "their results may differ");
    pl_thread_join(&s->thread);
    assert_int_equal(s->ended, PL_ERR_UNSUPPORTED);
    s->ended = PL_OK; /* for teardown */
}

FIXTURE_TEST(hub_that_refuses_the_workers_name_ends_it)
{
    hear(s, s->hub, PL_MSG_RENEW);
    refuse(s, PL_ERR_USAGE, "a name has letters, digits, `.`, `_` and `-`");
    pl_thread_join(&s->thread);
    assert_int_equal(s->ended, PL_ERR_USAGE);
    s->ended = PL_OK; /* for teardown */
}

FIXTURE_TEST(removed_worker_says_goodbye)
{
    pl_message a;
    hear(s, s->hub, PL_MSG_RENEW);
    pl_message_init(&a, PL_MSG_LEASE_LOST);
    answer(s, s->hub, &a);
    hear(s, s->hub, PL_MSG_TASK_REQ);
    refuse(s, PL_ERR_CANCELLED, "the operator has removed this worker");
    hear(s, s->hub, PL_MSG_RELEASE);
    pl_reader r;
    pl_reader_open(&r, "a farewell", s->heard.body.data, s->heard.body.len);
    assert_int_equal(pl_field_count(&r, PL_TAG_TASK), 0);
    pl_thread_join(&s->thread);
    assert_ok(s->ended);
}

PL_SUITE(NULL, end_wire)
