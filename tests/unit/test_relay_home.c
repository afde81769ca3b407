/* folder: relay; label: integration; alone
 *
 * Tests what a relay keeps and what it answers while its home is slow or silent. The
 * test is the home, and a worker whose key is not the job's own. */
#include "tests/support/key_edits.h"
#include "tests/support/end_wire.h"
#include "tests/support/passing_time.h"
#include "tests/support/relay_fixture.h"
#include "tests/support/scratch.h"
#include "net/net.h"
#include "relay/relay.h"

enum { BODY = 60000, TURNS = 2000 };

typedef struct scene {
    fixture f; /* only its arm */
    pl_keypair own, keys;
    pl_socket *home, *worker;
    pl_relay_options options;
    pl_relay_report report;
    volatile sig_atomic_t stop;
    pl_status status;
    char at[PL_ADDRESS_MAX], list[PL_PATH_MAX], ready[PL_PATH_MAX];
    pl_thread *thread;
    pl_buf update;
    /* the home */
    bool silent;           /* the home does not answer GET_VERSION */
    bool late;             /* it answers no SUBMIT yet */
    pl_message submit;     /* the last one that came */
    pl_peer from;          /* who sent it */
    int n_leased, n_bare;  /* questions for room, with and without a lease */
    int n_paths, n_passed; /* SUBMIT_PATHs, and GET_VERSIONs */
    /* the worker */
    int n_submitted, n_busy, n_lost, n_put, n_versions; /* answers */
    uint64_t request;                                   /* of the newest answer */
} scene;

static void no_refusal(const pl_refusal *refusal)
{
    (void)refusal;
}

static void no_trouble(const char *trouble)
{
    (void)trouble;
}

static void allow(const scene *s, const pl_keypair *pair, pl_key_role role,
                  const char *name)
{
    pl_key_entry e = {.key = pair->open, .role = role};
    pl_copy_text(e.name, sizeof e.name, name);
    assert_ok(pl_key_list_edit(s->list, put_entry, &e));
}

static void run_scene_relay(void *context)
{
    scene *s = context;
    s->status = pl_relay_run(&s->options, &s->report);
}

static void open_relay(scene *s, int wait_ms, uint64_t staging_bytes)
{
    OWNED(pl_buf_destroy) pl_buf text = {0};
    s->options = (pl_relay_options){.home = s->at,
                                    .bind = "tcp://127.0.0.1:*",
                                    .ready_file = s->ready,
                                    .wait_ms = wait_ms,
                                    .patience_ms = 1 << 30,
                                    .staging_bytes = staging_bytes,
                                    .stop = &s->stop};
    assert_ok(pl_thread_start("relay", run_scene_relay, s, &s->thread));
    for (int i = 0; i < TURNS && !pl_path_exists(s->ready); i++)
        pl_sleep_ms(10);
    assert_ok(pl_read_file(s->ready, &text));
    assert_ok(pl_wire_connect_as(pl_buf_text(&text), &s->keys, &s->worker));
}

static int setup(void **state)
{
    scene *s = pl_alloc(sizeof *s);
    assert_int_equal(make_scratch(NULL), 0);
    pl_copy_text(s->list, sizeof s->list, in_scratch("allow"));
    pl_copy_text(s->ready, sizeof s->ready, in_scratch("ready"));
    pl_keypair_create(&s->own);
    pl_keypair_create(&s->keys);
    allow(s, &s->own, PL_AS_RELAY, PL_KEY_OWN "relay");
    allow(s, &s->keys, PL_AS_WORKER, "w");
    pl_wire_keys(&s->own);
    assert_ok(pl_gate_open(&(pl_gate_options){.own = &s->own,
                                              .list = s->list,
                                              .may = pl_role_allows,
                                              .on_refused = no_refusal,
                                              .on_list = no_trouble}));
    assert_ok(pl_wire_bind("tcp://127.0.0.1:*", &s->home, s->at));
    define_arm(&s->f, "i8-shared");
    const worker w = {.job = &s->f};
    encode(&w, SLOT_EMBED, 1, &s->update);
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    OWNED(free_memory) scene *s = *state;
    __atomic_store_n(&s->stop, 1, __ATOMIC_RELAXED);
    pl_thread_join(&s->thread);
    assert_ok(s->status);
    pl_wire_close(&s->worker);
    pl_wire_close(&s->home);
    pl_wire_shutdown();
    pl_wire_keys(NULL);
    pl_message_destroy(&s->submit);
    pl_buf_destroy(&s->update);
    pl_topology_destroy(&s->f.topology);
    pl_arm_clear(&s->f.arm);
    return remove_scratch(NULL);
}

#define SCENE_TEST(name) PL_TEST_ON(name, scene *s, setup, teardown)

static void answer(const scene *s, const pl_peer *to, uint64_t request, pl_message *a)
{
    a->request = request;
    assert_ok(pl_wire_send_to(s->home, to, a));
    pl_message_destroy(a);
}

static void answer_submit(const scene *s)
{
    pl_message a = {0};
    pl_hash receipt = {{1}};
    PL_SAY(&a, SUBMITTED, submitted, .result = PL_SUBMIT_ACCEPTED,
           .receipt = PL_ITEMS(&receipt, 1));
    answer(s, &s->from, s->submit.request, &a);
}

/* The home takes what has come. */
static void turn_home(scene *s)
{
    OWNED(pl_message_destroy) pl_message m = {0};
    pl_peer from;
    while (pl_wire_recv(s->home, &from, &m) == PL_OK) {
        pl_message a = {0};
        pl_msg_put_blob put;
        s->n_paths += m.type == PL_MSG_SUBMIT_PATH;
        s->n_passed += m.type == PL_MSG_GET_VERSION;
        if (m.type == PL_MSG_PUT_BLOB) {
            assert_ok(PL_HEAR(&m, put_blob, &put));
            const bool asks = m.data.len == 0, leased = put.lease.at != NULL;
            s->n_leased += asks && leased;
            s->n_bare += asks && !leased;
            PL_SAY(&a, PUT_STATE, put_state, .offset = put.offset + m.data.len);
            answer(s, &from, m.request, &a);
        } else if (m.type == PL_MSG_GET_VERSION && !s->silent) {
            PL_SAY(&a, VERSION_IS, version_is, .version = 1);
            answer(s, &from, m.request, &a);
        } else if (m.type == PL_MSG_SUBMIT) {
            pl_message_destroy(&s->submit);
            s->submit = m;
            pl_message_init(&m, 0);
            s->from = from;
            if (!s->late)
                answer_submit(s);
        }
    }
}

/* Lets the home and the worker take what has come, for at most about `ms`, until *n is
 * at least `wanted`. Returns whether it is. */
static bool pump(scene *s, const int *n, int wanted, int ms)
{
    OWNED(pl_message_destroy) pl_message m = {0};
    for (int i = 0; i < ms && *n < wanted; i += 5) {
        turn_home(s);
        while (pl_wire_recv(s->worker, NULL, &m) == PL_OK) {
            const pl_status why = m.type == PL_MSG_ERR ? pl_wire_error_of(&m) : PL_OK;
            s->n_submitted += m.type == PL_MSG_SUBMITTED;
            s->n_put += m.type == PL_MSG_PUT_STATE;
            s->n_versions += m.type == PL_MSG_VERSION_IS;
            s->n_busy += why == PL_ERR_BUSY;
            s->n_lost += why == PL_ERR_NET;
            s->request = m.request;
        }
        pl_sleep_ms(5);
    }
    return *n >= wanted;
}

static void expect(scene *s, const int *n, int wanted)
{
    assert_true(pump(s, n, wanted, 20000));
    assert_int_equal(*n, wanted);
}

static void send_as(pl_socket *socket, uint64_t request, pl_message *m)
{
    m->request = request;
    assert_ok(pl_wire_send(socket, m));
    pl_message_destroy(m);
}

static void send_submit(const scene *s, uint64_t request, bool has_lease)
{
    pl_message m = {.type = PL_MSG_SUBMIT};
    pl_contribution from = {.path = 0};
    pl_submission_proof proof = {.len = 0};
    pl_submit_message submit = {.n = 1, .contributors = &from, .proofs = &proof};
    const pl_lease lease = lease_of(&s->f.arm, 0, 0, 1);
    pl_sealed_lease sealed;
    pl_lease_seal(&home_secret, &lease, &sealed);
    proof.len = has_lease ? sealed.len : 0;
    memcpy(proof.lease, sealed.bytes, sealed.len);
    pl_copy_text(from.codec, sizeof from.codec, "i8-shared");
    pl_copy_text(submit.module, sizeof submit.module, embed);
    pl_blob_hash(s->update.data, s->update.len, &submit.update);
    proof.update = submit.update;
    pl_submission_write(&submit, &m);
    send_as(s->worker, request, &m);
}

/* The worker uploads its update; the relay keeps it. */
static void upload_update(scene *s)
{
    pl_message m = {0};
    pl_hash hash;
    pl_blob_hash(s->update.data, s->update.len, &hash);
    const pl_lease lease = lease_of(&s->f.arm, 0, 0, 1);
    pl_sealed_lease sealed;
    pl_lease_seal(&home_secret, &lease, &sealed);
    PL_SAY(&m, PUT_BLOB, put_blob, .blob = hash, .total = s->update.len,
           .lease = {sealed.bytes, sealed.len});
    pl_buf_append(&m.data, s->update.data, s->update.len);
    send_as(s->worker, pl_wire_next_request(), &m);
    expect(s, &s->n_put, 1);
    assert_int_equal(s->n_leased + s->n_bare, 0);
}

static void submit_update(scene *s, uint64_t request)
{
    upload_update(s);
    send_submit(s, request, true);
}

static void say_state(const scene *s, uint64_t request, size_t bytes)
{
    pl_message m = {.type = PL_MSG_SUBMIT_PATH};
    pl_buf_reserve(&m.body, bytes);
    memset(m.body.data, 0, bytes);
    m.body.len = bytes;
    send_as(s->worker, request, &m);
}

static void ask_version(const scene *s, uint64_t request)
{
    pl_message m = {0};
    PL_SAY(&m, GET_VERSION, get_version, .name = embed);
    send_as(s->worker, request, &m);
}

SCENE_TEST(relay_keeps_at_most_four_states_of_one_connection)
{
    open_relay(s, WAIT_LONG_MS, 64 << 20);
    submit_update(s, 1);
    for (uint64_t i = 2; i <= 7; i++)
        say_state(s, i, 100);
    expect(s, &s->n_busy, 2);
    assert_int_equal(s->request, 7);
    assert_int_equal(s->n_paths, 0);
}

SCENE_TEST(states_that_wait_in_a_relay_count_to_the_share_of_their_key)
{
    open_relay(s, WAIT_LONG_MS, 1 << 20);
    submit_update(s, 1);
    for (uint64_t i = 2; i <= 5; i++)
        say_state(s, i, BODY);
    assert_true(pump(s, &s->n_busy, 1, 20000));
    assert_int_equal(s->n_paths, 0);
}

SCENE_TEST(a_key_has_a_limit_of_open_questions_at_a_relay)
{
    enum { LIMIT = 1000, HALF = 500, MORE = 5 };
    s->silent = true;
    open_relay(s, 0, 64 << 20);
    for (uint64_t i = 1; i <= LIMIT + MORE; i++) {
        ask_version(s, i);
        if (i % HALF == 0)
            expect(s, &s->n_passed, (int)i);
    }
    s->silent = false;
    ask_version(s, 1); /* what is open already may be asked again */
    expect(s, &s->n_versions, 1);
    assert_int_equal(s->n_passed, LIMIT + 1); /* the others were dropped */
    assert_int_equal(s->n_lost, 0);
    ask_version(s, LIMIT + 1);
    expect(s, &s->n_versions, 2);
}

/* So the home refuses a bad lease before it keeps bytes. */
SCENE_TEST(an_update_that_is_in_no_sum_is_uploaded_under_its_lease)
{
    open_relay(s, 0, 64 << 20);
    submit_update(s, 1);
    expect(s, &s->n_submitted, 1);
    assert_int_equal(s->n_leased, 1);
    assert_int_equal(s->n_bare, 0);
}

/* The relay would upload it under its own key, and the home would refuse it after that.
 */
SCENE_TEST(an_update_without_a_lease_is_not_held)
{
    open_relay(s, WAIT_LONG_MS, 64 << 20);
    upload_update(s);
    send_submit(s, 1, false);
    expect(s, &s->n_submitted, 1);
    assert_int_equal(s->n_leased + s->n_bare, 0);
}

/* A sum may need minutes on a slow link. Without a sign of life a worker gives up. */
SCENE_TEST(an_asker_is_told_to_wait_while_the_relay_sends_its_update)
{
    enum { PAUSE_S = 3, SUBMIT = 1, AGAIN = 2, STATE = 3 };
    s->late = true;
    open_relay(s, 0, 64 << 20);
    submit_update(s, SUBMIT);
    say_state(s, STATE, 100);
    for (int i = 0; i < TURNS && s->submit.type == 0; i++)
        (void)pump(s, &s->n_busy, 1, 10);
    assert_int_equal(s->submit.type, PL_MSG_SUBMIT);
    assert_false(pump(s, &s->n_busy, 1, 300)); /* not asked again */
    let_pass(PAUSE_S);
    send_submit(s, SUBMIT, true);
    expect(s, &s->n_busy, 1);
    assert_int_equal(s->request, SUBMIT);
    say_state(s, STATE, 100);
    expect(s, &s->n_busy, 2);
    assert_int_equal(s->request, STATE);
    let_pass(PAUSE_S);
    send_submit(s, AGAIN, true); /* nothing has moved */
    assert_false(pump(s, &s->n_busy, 3, 300));
    s->late = false;
    answer_submit(s);
    expect(s, &s->n_submitted, 1);
    assert_int_equal(s->request, AGAIN);
    expect(s, &s->n_paths, 1);
}

/* A download whose answers wait behind others would otherwise come twice. */
SCENE_TEST(a_question_is_lost_only_if_nothing_comes_from_the_home)
{
    enum { PART_S = 50, SILENT_S = 75 };
    s->silent = true;
    open_relay(s, 0, 64 << 20);
    ask_version(s, 1);
    expect(s, &s->n_passed, 1);
    for (uint64_t i = 2; i < 5; i++) {
        let_pass(PART_S);
        s->silent = false;
        ask_version(s, i);
        expect(s, &s->n_versions, (int)i - 1);
        s->silent = true;
    }
    assert_int_equal(s->n_lost, 0);
    let_pass(SILENT_S);
    expect(s, &s->n_lost, 1);
    assert_int_equal(s->request, 1);
}

PL_SUITE(NULL, end_wire)
