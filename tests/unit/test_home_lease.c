/* folder: home; label: integration
 *
 * Tests that a home accepts a worker's messages only under a lease that the hub has
 * sealed. The messages must be about the lease's task and phase, with numbers that this
 * task can have. Their blobs must fit into the part of the upload memory that one lease
 * may use. */
#include "tests/support/relay_fixture.h"

#include <ftw.h>
#include <math.h>

enum { PATH = 0 };

static fixture job;

static int setup(void **state)
{
    (void)state;
    open_job(&job, "f32");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close_job(&job);
    return 0;
}

/* Submits an update of the first slot under this lease; NULL: without a lease. */
static pl_status submit_under(const pl_lease *lease, pl_contribution as,
                              pl_submit_result *result)
{
    worker w = {.job = &job, .path = PATH};
    char name[96], text[256];
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    pl_submission s;
    *result = PL_SUBMIT_REJECTED;
    fill(&w, job.client, 0, name, &bytes, &s);
    as.path = PATH;
    pl_copy_text(as.codec, sizeof as.codec, "f32");
    s.contribution = as;
    if (lease)
        act_under(job.client, &job.arm, lease);
    else
        pl_client_act_under(job.client, NULL);
    return pl_client_submit(job.client, &s, result, text);
}

static pl_contribution good_work(void)
{
    return (pl_contribution){.work.n_samples = pl_phase_samples(&job.arm),
                             .work.loss = 1};
}

static void refuse(const pl_lease *lease, pl_contribution as)
{
    pl_submit_result result;
    assert_int_not_equal(submit_under(lease, as, &result), PL_OK);
}

static void take(const pl_lease *lease, pl_contribution as, pl_submit_result expected)
{
    pl_submit_result result;
    assert_ok(submit_under(lease, as, &result));
    assert_int_equal(result, expected);
}

#define FIXTURE_TEST(name) PL_TEST_WITH(name, setup, teardown)

FIXTURE_TEST(update_without_a_lease_of_its_task_is_refused)
{
    pl_lease good = lease_of(&job.arm, PATH, 0, 5), bad = good;
    refuse(NULL, good_work());
    bad.path = 1;
    refuse(&bad, good_work());
    bad = good;
    bad.phase = 1;
    refuse(&bad, good_work());
    bad = good;
    pl_copy_text(bad.arm, sizeof bad.arm, "other");
    refuse(&bad, good_work());
    bad = good;
    bad.key.bytes[0] = 1; /* the key of a different worker */
    refuse(&bad, good_work());
    pl_lease_secret right = home_secret;
    home_secret.bytes[0] ^= 1; /* a wrong secret */
    refuse(&good, good_work());
    home_secret = right;
    take(&good, good_work(), PL_SUBMIT_ACCEPTED);
}

/* A relay sees the lease, but not the task key. */
FIXTURE_TEST(what_the_worker_of_the_lease_did_not_seal_is_refused)
{
    worker w = {.job = &job, .path = PATH};
    char name[96], text[256];
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    pl_submission s;
    pl_submit_result result;
    pl_hash receipt;
    pl_sealed_lease sealed;
    const pl_lease lease = lease_of(&job.arm, PATH, 0, 5);
    fill(&w, job.client, 0, name, &bytes, &s);
    tell_valid(&job.arm, &lease, 5);
    pl_lease_seal(&home_secret, &lease, &sealed);
    sealed.key.bytes[0] ^= 1; /* any other key */
    pl_client_act_under(job.client, &sealed);
    assert_int_equal(pl_client_submit(job.client, &s, &result, text), PL_ERR_STALE);
    sealed.key.bytes[0] ^= 1;
    /* a relay changes a bit of the update, and the hash in the worker's message */
    pl_submission_proof proof = {.len = sealed.len};
    pl_submit_message m = {
        .base = s.base, .n = 1, .contributors = &s.contribution, .proofs = &proof};
    pl_copy_text(m.module, sizeof m.module, name);
    memcpy(proof.lease, sealed.bytes, sealed.len);
    pl_blob_hash(bytes.data, bytes.len, &m.update);
    proof.update = m.update;
    pl_submission_seal(&m, 0, &sealed.key, &proof.seal);
    bytes.data[bytes.len - 1] ^= 1;
    pl_blob_hash(bytes.data, bytes.len, &m.update);
    proof.update = m.update;
    assert_int_equal(pl_client_submit_as(job.client, &m, bytes.data, bytes.len, &result,
                                         text, &receipt),
                     PL_ERR_STALE);
    bytes.data[bytes.len - 1] ^= 1;
    pl_blob_hash(bytes.data, bytes.len, &m.update);
    proof.update = m.update;
    assert_ok(pl_client_submit_as(job.client, &m, bytes.data, bytes.len, &result, text,
                                  &receipt));
    assert_int_equal(result, PL_SUBMIT_ACCEPTED);
}

/* Says HELLO as a hub with this secret, and with an epoch (0: a hub that starts). */
static pl_status say_hello(const pl_lease_secret *secret, int64_t epoch, int ttl_ms,
                           pl_msg_welcome_home *out)
{
    OWNED(pl_message_destroy) pl_message q, a;
    pl_message_init(&q, 0);
    PL_SAY(&q, HELLO, hello_home, .role = "hub", .ttl_ms = (uint64_t)ttl_ms,
           .secret = secret->bytes, .version = epoch);
    pl_status status = ask_home(job.home.address, &q, 0, &a);
    if (status == PL_OK) {
        static uint8_t before[PL_HASH_BYTES];
        assert_ok(PL_HEAR(&a, welcome_home, out));
        if (out->secret)
            out->secret = memcpy(before, out->secret, sizeof before);
    }
    return status;
}

FIXTURE_TEST(leases_of_the_hub_before_are_good_for_a_while)
{
    enum { LONG_MS = 600000 };
    pl_msg_welcome_home said, again;
    pl_submit_result result;
    pl_lease_secret next, third;
    const pl_lease lease = lease_of(&job.arm, PATH, 0, 5);
    pl_lease_secret_create(&next);
    pl_lease_secret_create(&third);
    assert_ok(say_hello(&home_secret, 0, LONG_MS, &said));
    assert_null(said.secret);
    assert_ok(say_hello(&next, 0, LONG_MS, &again));
    assert_memory_equal(again.secret, home_secret.bytes, PL_HASH_BYTES);
    assert_int_equal(again.version, said.version + 1);
    /* the same hub is no new one */
    assert_ok(say_hello(&next, again.version, LONG_MS, &said));
    assert_int_equal(said.version, again.version);
    /* the hub before, and one that another hub has followed while the home was away */
    assert_int_equal(say_hello(&home_secret, again.version, LONG_MS, &said),
                     PL_ERR_STALE);
    assert_int_equal(say_hello(&third, again.version - 1, LONG_MS, &said),
                     PL_ERR_STALE);
    take(&lease, good_work(), PL_SUBMIT_ACCEPTED);
    /* this hub lets the leases of the hub before end at once */
    assert_ok(say_hello(&third, 0, 0, &said));
    home_secret = next;
    assert_int_equal(submit_under(&lease, good_work(), &result), PL_ERR_STALE);
    home_secret = third;
    take(&lease, good_work(), PL_SUBMIT_DUPLICATE);
}

static int n_searched;

static int search_file(const char *path, const struct stat *at, int kind, struct FTW *w)
{
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    pl_hash secret;
    char text[PL_HASH_TEXT];
    (void)at;
    (void)w;
    if (kind != FTW_F)
        return 0;
    memcpy(secret.bytes, home_secret.bytes, sizeof secret.bytes);
    pl_hash_format(&secret, text);
    assert_ok(pl_read_file(path, &bytes));
    n_searched++;
    assert_null(memmem(bytes.data, bytes.len, secret.bytes, sizeof secret.bytes));
    assert_null(memmem(bytes.data, bytes.len, text, strlen(text)));
    return 0;
}

FIXTURE_TEST(secret_of_leases_is_in_no_file)
{
    pl_submit_result result;
    const pl_lease lease = lease_of(&job.arm, PATH, 0, 5);
    assert_ok(submit_under(&lease, good_work(), &result));
    kill_child(&job.home, SIGKILL);
    n_searched = 0;
    assert_int_equal(nftw(job.home.target, search_file, 16, FTW_PHYS), 0);
    assert_true(n_searched > 3);
    start_child(&job.home);
    kill_child(&job.home, SIGTERM);
    assert_int_equal(nftw(job.home.target, search_file, 16, FTW_PHYS), 0);
}

/* The hub says in the lease how many steps a worker does (outer.dynamic_steps). */
FIXTURE_TEST(worker_does_not_choose_its_number_of_steps)
{
    pl_lease lease = lease_of(&job.arm, PATH, 0, 5);
    pl_contribution one = good_work();
    one.work.n_samples = 1;
    refuse(&lease, one);
    one.work.n_samples = (uint64_t)job.arm.inner.batch;
    refuse(&lease, one);
    lease.step = 1;
    refuse(&lease, good_work());
    take(&lease, one, PL_SUBMIT_ACCEPTED);
}

FIXTURE_TEST(lease_stays_good_over_a_killed_home)
{
    pl_lease_secret before = home_secret;
    pl_lease lease = lease_of(&job.arm, PATH, 0, 5);
    restart_child(&job.home);
    assert_memory_equal(&before, &home_secret, sizeof before);
    take(&lease, good_work(), PL_SUBMIT_ACCEPTED);
}

FIXTURE_TEST(numbers_that_no_task_can_have_are_refused)
{
    pl_lease lease = lease_of(&job.arm, PATH, 0, 5);
#define REFUSED(change)                                                                \
    do {                                                                               \
        pl_contribution bad = good_work();                                             \
        change;                                                                        \
        refuse(&lease, bad);                                                           \
    } while (0)
    REFUSED(bad.work.n_samples++);
    REFUSED(bad.work.first_sample = 1);
    REFUSED(bad.work.n_tokens =
                bad.work.n_samples * (uint64_t)job.arm.inner.context + 1);
    REFUSED(bad.work.n_tokens = (UINT64_C(1) << 63) + 5);
    REFUSED(bad.work.loss = NAN);
    REFUSED(bad.work.loss = -1e300);
    REFUSED(bad.work.seconds = INFINITY);
    REFUSED(bad.work.seconds = -1);
    REFUSED(bad.work.gradient = NAN);
    REFUSED(bad.work.memory_bytes = UINT64_C(1) << 51);
    REFUSED(bad.work.held = -1);
    REFUSED(bad.work.held = INFINITY);
    REFUSED(bad.work.held = 1); /* no path of this arm has held-out text */
#undef REFUSED
    take(&lease, good_work(), PL_SUBMIT_ACCEPTED);
}

static uint8_t state_byte; /* each byte of the state has this value */

static pl_status end_path(pl_path_state state, pl_submit_result *result)
{
    char text[256];
    size_t n = pl_topology_path_params(job.topology);
    uint64_t bytes = pl_path_state_bytes(&job.arm, n);
    OWNED(free_memory) uint8_t *moments = pl_alloc((size_t)bytes + 1);
    memset(moments, state_byte, (size_t)bytes);
    pl_arm_path_name(&job.arm, job.topology, PATH, 0, state.name);
    state.phase = 1;
    *result = PL_SUBMIT_REJECTED;
    return send_state(job.client, &state, moments, bytes, result, text);
}

FIXTURE_TEST(impossible_state_is_refused_and_a_second_one_is_another)
{
    pl_submit_result result;
    for (int slot = 0; slot < N_SLOTS; slot++)
        assert_ok(submit_slot(&job, PATH, slot, 0, &result));
    const pl_path_state good = {.work.n_samples = pl_phase_samples(&job.arm),
                                .work.loss = 1};
#define REFUSED(change)                                                                \
    do {                                                                               \
        pl_path_state bad = good;                                                      \
        change;                                                                        \
        assert_int_not_equal(end_path(bad, &result), PL_OK);                           \
    } while (0)
    REFUSED(bad.work.loss = NAN);
    REFUSED(bad.work.n_tokens = (UINT64_C(1) << 63) + 5);
    REFUSED(bad.work.seconds = INFINITY);
    REFUSED(bad.work.held = NAN);
    REFUSED(bad.work.held = 1);
    REFUSED(bad.work.n_samples = 1);
#undef REFUSED
    static const uint8_t no_moments[] = {0x4f, 0x7f, 0x80 | 0x3f, 0xff};
    for (size_t i = 0; i < sizeof no_moments; i++) {
        state_byte = no_moments[i];
        assert_int_equal(end_path(good, &result), PL_ERR_DATA);
    }
    state_byte = 0;
    assert_ok(end_path(good, &result));
    assert_int_equal(result, PL_SUBMIT_ACCEPTED);
    assert_ok(end_path(good, &result));
    assert_int_equal(result, PL_SUBMIT_DUPLICATE);
    /* the sender of other bytes must not go on from them */
    state_byte = 1;
    assert_ok(end_path(good, &result));
    assert_int_equal(result, PL_SUBMIT_OTHER);
}

/* Asks for room for a blob of `total` bytes, which are never sent. Without a lease, the
 * job itself asks. */
static pl_status reserve(pl_socket *socket, const pl_lease *lease, uint8_t name,
                         uint64_t total)
{
    OWNED(pl_message_destroy) pl_message q, a;
    pl_sealed_lease sealed;
    pl_hash hash = {{name}};
    pl_message_init(&q, PL_MSG_PUT_BLOB);
    pl_message_init(&a, 0);
    q.request = pl_wire_next_request();
    pl_put_hash(&q.body, PL_TAG_BLOB, &hash);
    pl_put_u64(&q.body, PL_TAG_TOTAL, total);
    pl_put_u64(&q.body, PL_TAG_OFFSET, 0);
    if (lease) {
        pl_lease_seal(&home_secret, lease, &sealed);
        pl_put_bytes(&q.body, PL_TAG_LEASE, sealed.bytes, sealed.len);
    }
    return pl_wire_ask(socket, &q, 1000, 10000, &a);
}

FIXTURE_TEST(lease_uploads_no_more_than_its_task_needs)
{
    enum { TOTAL = PL_WIRE_DATA_MAX + 1 };
    OWNED(pl_wire_close) pl_socket *socket = NULL;
    pl_lease lease = lease_of(&job.arm, PATH, 0, 5), other = lease;
    int n = 0;
    tell_valid(&job.arm, &lease, 5);
    assert_ok(pl_wire_connect(job.home.address, &socket));
    while (n < 64 && reserve(socket, &lease, (uint8_t)(n + 1), TOTAL) == PL_OK)
        n++;
    /* The home has 64 MiB for uploads; a task here needs much less. */
    assert_true(n < 8);
    assert_int_equal(reserve(socket, &lease, 99, UINT64_C(60) << 20 | 1), PL_ERR_PROTO);
    other.token = 6; /* a different lease has its own limit */
    take(&other, good_work(), PL_SUBMIT_ACCEPTED);
}

/* The phase of the leases was given to another worker, for example because a backup was
 * first, so their uploads wait for nothing. */
FIXTURE_TEST(room_of_a_task_that_was_leased_again_is_given_to_those_who_wait)
{
    enum { TOTAL = 16 << 10, ALL = 64 << 20 };
    OWNED(pl_wire_close) pl_socket *socket = NULL;
    pl_lease lease = lease_of(&job.arm, PATH, 0, 5), next = lease;
    next.token = 6;
    assert_ok(pl_wire_connect(job.home.address, &socket));
    assert_ok(reserve(socket, NULL, 3, ALL - TOTAL));
    tell_valid(&job.arm, &lease, 5);
    assert_ok(reserve(socket, &lease, 1, TOTAL));
    /* a lease of which the hub has not told the home waits, too */
    assert_int_equal(reserve(socket, &next, 2, TOTAL), PL_ERR_BUSY);
    tell_valid(&job.arm, &next, 6);
    pl_status status = PL_ERR_BUSY;
    for (int i = 0; i < 600 && status == PL_ERR_BUSY; i++) {
        status = reserve(socket, &next, 2, TOTAL);
        pl_sleep_ms(status == PL_ERR_BUSY ? 100 : 0);
    }
    assert_ok(status);
    assert_int_equal(reserve(socket, &lease, 1, TOTAL), PL_ERR_STALE);
}

/* Sends a whole blob of one byte under the lease, without waiting for an answer. */
static void send_byte(pl_socket *socket, const pl_lease *lease)
{
    OWNED(pl_message_destroy) pl_message q;
    pl_sealed_lease sealed;
    pl_hash hash;
    pl_message_init(&q, PL_MSG_PUT_BLOB);
    q.request = pl_wire_next_request();
    pl_lease_seal(&home_secret, lease, &sealed);
    pl_blob_hash("x", 1, &hash);
    pl_put_hash(&q.body, PL_TAG_BLOB, &hash);
    pl_put_u64(&q.body, PL_TAG_TOTAL, 1);
    pl_put_u64(&q.body, PL_TAG_OFFSET, 0);
    pl_put_bytes(&q.body, PL_TAG_LEASE, sealed.bytes, sealed.len);
    pl_buf_append(&q.data, "x", 1);
    assert_ok(pl_wire_send(socket, &q));
}

static void read_answers(pl_socket *socket, int n)
{
    OWNED(pl_message_destroy) pl_message a;
    pl_message_init(&a, 0);
    while (n > 0) {
        bool ready = false;
        pl_status status = pl_wire_recv(socket, NULL, &a);
        if (status == PL_ERR_TIMEOUT) {
            assert_int_equal(pl_wire_poll(&socket, 1, NULL, 0, 20000, &ready), 1);
            continue;
        }
        assert_ok(status);
        assert_int_not_equal(a.type, PL_MSG_ERR);
        n--;
    }
}

/* A home must not keep the names of workers, which it takes from their leases. If it
 * kept them, a flood of names could fill its memory and make it refuse new workers. */
FIXTURE_TEST(names_leave_nothing_at_the_home)
{
    enum { NAMES = 66000, AT_ONCE = 500, MORE_KIB = 8 << 10 };
    OWNED(pl_wire_close) pl_socket *socket = NULL;
    pl_lease lease = lease_of(&job.arm, PATH, 0, 5);
    assert_ok(pl_wire_connect(job.home.address, &socket));
    tell_valid(&job.arm, &lease, 5);
    send_byte(socket, &lease);
    read_answers(socket, 1);
    const long before = child_kib(&job.home);
    for (int i = 0; i < NAMES; i += AT_ONCE) {
        for (int k = i; k < i + AT_ONCE; k++) {
            snprintf(lease.worker, sizeof lease.worker, "many-%d", k);
            send_byte(socket, &lease);
        }
        read_answers(socket, AT_ONCE);
    }
    assert_true(child_kib(&job.home) - before < MORE_KIB);
    pl_copy_text(lease.worker, sizeof lease.worker, "an-honest-one");
    lease.token++;
    take(&lease, good_work(), PL_SUBMIT_ACCEPTED);
}

PL_CHILD(argc, argv)
{
    return run_child(argv, (pl_home_options){.keep_updates = true});
}
