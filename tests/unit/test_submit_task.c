/* folder: net; label: integration
 *
 * Sends a whole task to homes that refuse one of its updates, lose a message, find
 * uploads damaged, or have no memory for them. A real home does this only sometimes.
 * Each home of this test is a few lines of code and does it every time. */
#include "net/client_internal.h"
#include "net/net.h"

#include <stdatomic.h>

#include "tests/support/end_wire.h"
#include "tests/support/suite.h"

enum { HOMES_MAX = 2, UPDATES = 6, BYTES = 4096, MOMENTS_BYTES = 2 * BYTES };
static const char path_name[] = "mix/p00.r0";

typedef struct fake_home {
    pl_socket *socket;
    pl_thread *thread;
    pl_submit_result verdict; /* its answer to updates */
    bool loses_first;         /* the first SUBMIT gets no answer */
    /* Number of updates that it needs before it accepts the path's state. */
    int wants;
    /* How many uploads it has room for (0: no limit), and how many it holds. */
    int room, held;
    int n_updates;
    int damages; /* of so many submissions it says that their bytes are damaged */
    int late_ms; /* so long it does not answer its first upload */
    /* how many submissions the home at `first` had when the first upload came here */
    struct fake_home *first;
    int n_before;
    atomic_int n_submits, n_damaged, n_paths, n_busy, stop;
} fake_home;

static void answer_result(pl_message *a, pl_submit_result result)
{
    a->type = PL_MSG_SUBMITTED;
    if (result == PL_SUBMIT_REJECTED)
        pl_put_text(&a->body, PL_TAG_TEXT, "the reason");
    pl_put_u64(&a->body, PL_TAG_RESULT, (uint64_t)result);
}

static void take_upload(fake_home *h, const pl_message *m, pl_message *a)
{
    pl_reader r;
    pl_sleep_ms(h->late_ms);
    h->late_ms = 0;
    if (h->first)
        h->n_before = atomic_load(&h->first->n_submits);
    h->first = NULL;
    pl_reader_open(&r, "PUT_BLOB", m->body.data, m->body.len);
    uint64_t offset = pl_get_u64(&r, PL_TAG_OFFSET, 0);
    bool asks = m->data.len == 0;
    if (asks && h->room > 0 && h->held == h->room) {
        atomic_fetch_add(&h->n_busy, 1);
        pl_wire_error(a, 0, PL_ERR_BUSY, "no room");
        return;
    }
    h->held += asks;
    PL_SAY(a, PUT_STATE, put_state, .offset = offset + m->data.len);
}

/* Makes the answer to a message. If the type of the answer is 0, no answer is sent. */
static void answer(fake_home *h, const pl_message *m, pl_message *a)
{
    if (m->type == PL_MSG_PUT_BLOB) {
        take_upload(h, m, a);
    } else if (h->damages > 0) {
        h->damages--;
        atomic_fetch_add(&h->n_damaged, 1);
        pl_wire_error(a, 0, PL_ERR_DAMAGED, "other bytes");
    } else if (m->type == PL_MSG_SUBMIT && h->loses_first) {
        h->loses_first = false;
    } else if (m->type == PL_MSG_SUBMIT) {
        h->held--;
        h->n_updates++;
        atomic_fetch_add(&h->n_submits, 1);
        answer_result(a, h->verdict);
    } else if (m->type == PL_MSG_SUBMIT_PATH) {
        atomic_fetch_add(&h->n_paths, 1);
        answer_result(a, h->n_updates < h->wants ? PL_SUBMIT_REJECTED
                                                 : PL_SUBMIT_ACCEPTED);
    }
}

static void run_home(void *context)
{
    fake_home *h = context;
    pl_message m, a;
    pl_peer peer;
    pl_message_init(&m, 0);
    while (!atomic_load(&h->stop)) {
        bool ready = false;
        pl_wire_poll(&h->socket, 1, NULL, 0, 20, &ready);
        while (pl_wire_recv(h->socket, &peer, &m) == PL_OK) {
            pl_message_init(&a, 0);
            answer(h, &m, &a);
            a.request = m.request;
            if (a.type != 0 && pl_wire_send_to(h->socket, &peer, &a) != PL_OK)
                atomic_store(&h->stop, 1); /* without this answer the test fails */
            pl_message_destroy(&a);
        }
    }
    pl_message_destroy(&m);
}

/* ---- a task and its homes ---- */
typedef struct job {
    fake_home homes[HOMES_MAX];
    int n_homes;
    pl_client *client;
    char modules[UPDATES][32];
    uint8_t data[UPDATES][BYTES], moments[MOMENTS_BYTES];
    pl_submit_result results[UPDATES + 1];
    char texts[UPDATES + 1][256];
} job;

static job *open_job(int n_homes)
{
    job *j = pl_alloc(sizeof *j);
    char address[HOMES_MAX][PL_ADDRESS_MAX];
    const char *list[HOMES_MAX];
    j->n_homes = n_homes;
    for (int i = 0; i < n_homes; i++) {
        assert_ok(pl_wire_bind("tcp://127.0.0.1:*", &j->homes[i].socket, address[i]));
        list[i] = address[i];
    }
    pl_client_options options = {
        .homes = list, .n_homes = n_homes, .patience_ms = 20000};
    assert_ok(pl_client_create(&options, &j->client));
    return j;
}

/* Starts the threads of the homes, and sends the task. From now on, only these threads
 * may use the fields of a home, except for the atomic ones. */
static pl_status send_task(job *j)
{
    pl_submission s[UPDATES] = {0};
    pl_path_state state = {0};
    for (int i = 0; i < j->n_homes; i++)
        assert_ok(pl_thread_start("home", run_home, &j->homes[i], &j->homes[i].thread));
    for (int i = 0; i < UPDATES; i++) {
        snprintf(j->modules[i], sizeof j->modules[i], "mix/L%d.E0", i);
        memset(j->data[i], i + 1, BYTES);
        s[i].module = j->modules[i];
        s[i].data = j->data[i];
        s[i].bytes = BYTES;
    }
    pl_copy_text(state.name, sizeof state.name, path_name);
    state.phase = 1;
    pl_blob_hash(j->moments, MOMENTS_BYTES, &state.moments);
    return pl_client_submit_task(j->client, s, UPDATES, &state, j->moments,
                                 MOMENTS_BYTES, j->results, j->texts);
}

static void close_job(job **owner)
{
    OWNED(free_memory) job *j = *owner;
    for (int i = 0; i < j->n_homes; i++) {
        atomic_store(&j->homes[i].stop, 1);
        pl_thread_join(&j->homes[i].thread);
        pl_wire_close(&j->homes[i].socket);
    }
    pl_client_destroy(&j->client);
}

static void assert_all(const job *j, pl_submit_result want)
{
    for (int i = 0; i <= UPDATES; i++)
        assert_int_equal(j->results[i], want);
}

/* ---- tests ---- */
/* If one home refuses an update, the client must not send the path's state to the other
 * home. That home has all its updates and would accept the state. Then the refused
 * update would never be sent again. */
static void path_stays_back_when_another_home_refused(pl_submit_result verdict)
{
    OWNED(close_job) job *j = open_job(2);
    int other = 1 - pl_home_of(path_name, j->client->n_homes), refused = 0;
    j->homes[other].verdict = verdict;
    assert_ok(send_task(j));
    for (int i = 0; i < UPDATES; i++) {
        bool there = pl_home_of(j->modules[i], j->client->n_homes) == other;
        assert_int_equal(j->results[i], there ? verdict : PL_SUBMIT_ACCEPTED);
        refused += there;
    }
    assert_true(refused > 0 && refused < UPDATES);
    assert_int_equal(atomic_load(&j->homes[1 - other].n_paths), 0);
    assert_int_equal(j->results[UPDATES], PL_SUBMIT_REJECTED);
}

PL_TEST(path_is_not_sent_when_another_home_has_fenced_an_update)
{
    path_stays_back_when_another_home_refused(PL_SUBMIT_FENCED);
}

PL_TEST(path_is_not_sent_when_another_home_has_rejected_an_update)
{
    path_stays_back_when_another_home_refused(PL_SUBMIT_REJECTED);
}

PL_TEST(two_homes_take_a_task)
{
    OWNED(close_job) job *j = open_job(2);
    assert_ok(send_task(j));
    assert_all(j, PL_SUBMIT_ACCEPTED);
}

/* A home drops uploads about which nobody asks for long, here while the other home gets
 * its uploads over a slow link. */
PL_TEST(uploads_of_one_home_do_not_wait_for_slow_uploads_to_the_next)
{
    OWNED(close_job) job *j = open_job(2);
    j->homes[0].late_ms = 400;
    j->homes[1].first = &j->homes[0];
    assert_ok(send_task(j));
    assert_all(j, PL_SUBMIT_ACCEPTED);
    for (int i = 0; i < 2; i++) {
        atomic_store(&j->homes[i].stop, 1);
        pl_thread_join(&j->homes[i].thread);
    }
    assert_int_equal(j->homes[1].n_before, j->homes[0].n_updates);
    assert_true(j->homes[1].n_before > 0);
}

PL_TEST(path_that_overtook_a_lost_update_is_sent_again)
{
    OWNED(close_job) job *j = open_job(1);
    j->homes[0].loses_first = true;
    j->homes[0].wants = UPDATES;
    assert_ok(send_task(j));
    assert_all(j, PL_SUBMIT_ACCEPTED);
    assert_int_equal(atomic_load(&j->homes[0].n_paths), 2);
}

/* If a home has no memory for a whole task, the client must submit some updates before
 * it uploads more. Otherwise two workers, each with half of its task uploaded, would
 * wait for each other. */
PL_TEST(task_larger_than_the_room_for_uploads_goes_in_parts)
{
    OWNED(close_job) job *j = open_job(1);
    j->homes[0].room = 2;
    j->homes[0].wants = UPDATES;
    assert_ok(send_task(j));
    assert_all(j, PL_SUBMIT_ACCEPTED);
    /* Room for all updates is asked for at once: 4 wait, then 2, then the state. */
    assert_int_equal(atomic_load(&j->homes[0].n_busy),
                     (UPDATES - 2) + (UPDATES - 4) + 1);
}

/* A finished phase is not lost because bytes were damaged on their way. */
PL_TEST(damaged_uploads_are_sent_again)
{
    OWNED(close_job) job *j = open_job(1);
    j->homes[0].damages = UPDATES + 1;
    j->homes[0].wants = UPDATES;
    assert_ok(send_task(j));
    assert_all(j, PL_SUBMIT_ACCEPTED);
}

PL_TEST(uploads_that_are_always_damaged_end_the_task)
{
    OWNED(close_job) job *j = open_job(1);
    j->homes[0].damages = 1000;
    assert_int_equal(send_task(j), PL_ERR_DAMAGED);
    assert_in_range(atomic_load(&j->homes[0].n_damaged), UPDATES + 2, 3 * UPDATES);
}

PL_SUITE(NULL, end_wire)
