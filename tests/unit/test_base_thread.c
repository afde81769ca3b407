/* folder: base; label: unit */
#include "base/base.h"
#include <poll.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/suite.h"

enum { N_ITEMS = 1000 };

static pl_status count_item(void *context, size_t item, int thread)
{
    atomic_int *counts = context;
    if (thread < 0 || thread >= 4)
        return pl_fail(PL_ERR_INTERNAL, "thread %d", thread);
    atomic_fetch_add(&counts[item], 1);
    return PL_OK;
}

PL_TEST(every_item_is_done_once_on_any_number_of_threads)
{
    for (int n_threads = 0; n_threads <= 4; n_threads++) {
        static atomic_int counts[N_ITEMS];
        memset(counts, 0, sizeof counts);
        assert_ok(pl_parallel(n_threads, N_ITEMS, count_item, counts));
        for (int i = 0; i < N_ITEMS; i++)
            assert_int_equal(counts[i], 1);
    }
    assert_ok(pl_parallel(4, 0, count_item, NULL));
}

/* Item 3 fails after 5 ms, and items from 6 on fail at once. Items 0, 1, 2, 4 and 5
 * succeed. */
static pl_status fail_some(void *context, size_t item, int thread)
{
    (void)context;
    (void)thread;
    if (item != 3 && item < 6)
        return PL_OK;
    pl_sleep_ms(item == 3 ? 5 : 0);
    return pl_fail(item == 3 ? PL_ERR_DATA : PL_ERR_IO, "item %zu", item);
}

PL_TEST(the_lowest_failure_comes_back_with_its_sentence)
{
    for (int i = 0; i < 50; i++) {
        pl_fail(PL_ERR_OS, "older");
        assert_int_equal(pl_parallel(4, N_ITEMS, fail_some, NULL), PL_ERR_DATA);
        assert_string_equal(pl_last_error(), "item 3");
    }
}

typedef struct relay_ends {
    pl_queue *in, *out;
} relay_ends;

static void relay_run(void *context)
{
    relay_ends *relay = context;
    void *item;
    while ((item = pl_queue_pop(relay->in, -1)) != relay)
        pl_queue_push(relay->out, item);
    pl_queue_push(relay->out, relay);
}

PL_TEST(a_queue_keeps_order_across_threads)
{
    static char items[20000];
    relay_ends relay = {0};
    pl_thread *thread;
    assert_ok(pl_queue_create(&relay.in));
    assert_ok(pl_queue_create(&relay.out));
    assert_ok(pl_thread_start("relay-with-a-long-name", relay_run, &relay, &thread));
    for (size_t i = 0; i < sizeof items; i++)
        pl_queue_push(relay.in, &items[i]);
    pl_queue_push(relay.in, &relay);
    for (size_t i = 0; i < sizeof items; i++)
        assert_ptr_equal(pl_queue_pop(relay.out, 5000), &items[i]);
    assert_ptr_equal(pl_queue_pop(relay.out, 5000), &relay);
    pl_thread_join(&thread);
    assert_null(thread);
    pl_thread_join(&thread);
    pl_queue_destroy(&relay.in);
    pl_queue_destroy(&relay.out);
    assert_null(relay.in);
    pl_queue_destroy(&relay.in);
}

static bool is_readable(const pl_queue *queue)
{
    struct pollfd item = {.fd = pl_queue_fd(queue), .events = POLLIN};
    return poll(&item, 1, 0) == 1;
}

PL_TEST(the_descriptor_is_readable_exactly_while_something_waits)
{
    OWNED(pl_queue_destroy) pl_queue *queue;
    int a, b;
    assert_ok(pl_queue_create(&queue));
    assert_false(is_readable(queue));
    pl_queue_push(queue, &a);
    pl_queue_push(queue, &b);
    assert_true(is_readable(queue));
    assert_ptr_equal(pl_queue_pop(queue, 0), &a);
    assert_true(is_readable(queue));
    assert_ptr_equal(pl_queue_pop(queue, 0), &b);
    assert_false(is_readable(queue));
}

PL_TEST(an_empty_queue_gives_null_after_its_timeout)
{
    OWNED(pl_queue_destroy) pl_queue *queue;
    assert_ok(pl_queue_create(&queue));
    int64_t before = pl_now_ms();
    assert_null(pl_queue_pop(queue, 0));
    assert_null(pl_queue_pop(queue, 30));
    assert_true(pl_now_ms() - before >= 29);
}

static int n_calls;

static void count_call(void)
{
    pl_sleep_ms(20); /* meanwhile the other threads call pl_once */
    n_calls++;
}

static pl_status ask_once(void *context, size_t item, int thread)
{
    (void)item;
    (void)thread;
    pl_once(context, count_call);
    return n_calls == 1 ? PL_OK : PL_ERR_INTERNAL;
}

PL_TEST(what_is_done_once_is_done_before_anybody_goes_on)
{
    bool done = false;
    assert_ok(pl_parallel(4, 16, ask_once, &done));
    assert_int_equal(n_calls, 1);
}

/* Doubles the number to which the job points, and counts the calls in *self. */
static void double_it(void *self, void *job)
{
    *(int *)self += 1;
    *(int *)job *= 2;
}

PL_TEST(an_actor_does_all_that_was_pushed_and_in_order)
{
    enum { JOBS = 100 };
    int jobs[JOBS], n_done = 0;
    OWNED(pl_actor_destroy) pl_actor *actor = NULL;
    assert_ok(pl_actor_start("actor", double_it, &n_done, &actor));
    assert_null(pl_actor_take(actor));
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = i;
        pl_actor_push(actor, &jobs[i]);
    }
    pl_actor_stop(actor);
    pl_actor_stop(actor); /* a second stop does nothing */
    assert_int_equal(n_done, JOBS);
    for (int i = 0; i < JOBS; i++) {
        assert_ptr_equal(pl_actor_take(actor), &jobs[i]);
        assert_int_equal(jobs[i], 2 * i);
    }
    assert_null(pl_actor_take(actor));
    pl_actor_destroy(&actor);
    assert_null(actor);
}

/* Two items, each of which waits until both have begun; so two threads do them. */
typedef struct pair {
    atomic_int begun;
    pid_t threads[2];
} pair;

static pl_status meet_the_other(void *context, size_t item, int thread)
{
    pair *p = context;
    (void)thread;
    p->threads[item] = gettid();
    atomic_fetch_add(&p->begun, 1);
    for (int i = 0; atomic_load(&p->begun) < 2 && i < 60000; i++)
        usleep(1000);
    return PL_OK;
}

static pid_t other_thread(void)
{
    pair p = {.begun = 0};
    assert_ok(pl_parallel(2, 2, meet_the_other, &p));
    assert_int_not_equal(p.threads[0], p.threads[1]);
    return p.threads[p.threads[0] == gettid()];
}

PL_TEST(a_thread_of_one_call_works_for_the_next)
{
    const pid_t first = other_thread();
    for (int i = 0; i < 10; i++)
        assert_int_equal(other_thread(), first);
}

static pl_status count_inside(void *context, size_t item, int thread)
{
    (void)item;
    (void)thread;
    return pl_parallel(3, N_ITEMS, count_item, context);
}

PL_TEST(a_call_within_a_call_ends)
{
    static atomic_int counts[N_ITEMS];
    assert_ok(pl_parallel(3, 6, count_inside, counts));
    for (int i = 0; i < N_ITEMS; i++)
        assert_int_equal(counts[i], 6);
}

PL_TEST(a_child_process_starts_its_own_threads)
{
#ifdef __SANITIZE_THREAD__
    skip(); /* after a fork, ThreadSanitizer lets no thread start */
#endif
    (void)other_thread();
    pid_t child = fork();
    if (child == 0) {
        static atomic_int counts[N_ITEMS];
        alarm(60);
        _exit(pl_parallel(4, N_ITEMS, count_item, counts) == PL_OK ? 0 : 1);
    }
    int how = -1;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
}

PL_TEST(there_is_at_least_one_processor)
{
    assert_in_range(pl_cpu_count(), 1, 100000);
}
