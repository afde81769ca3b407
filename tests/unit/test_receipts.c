/* folder: home; label: integration
 *
 * Tests that with several homes a task ends only when all homes have its updates. The
 * home of a path does not ask the other homes. They give receipts to the worker, and
 * the worker shows them when it ends the task. */
#include "tests/support/relay_fixture.h"

enum { PATH = 0, HOMES = 2 };

typedef struct two_homes {
    fixture f; /* f.home is the first home, f.second the other one */
    pl_client *client;
    char path[96];
    void *moments;
    uint64_t bytes;
    pl_hash state;
    int64_t phase; /* of the lease */
    int64_t round; /* which the messages name */
} two_homes;

static two_homes *open_homes(bool by_arrival)
{
    two_homes *j = pl_alloc(sizeof *j);
    place_home(&j->f, "f32");
    if (by_arrival)
        j->f.arm.outer.method = pl_method_defaults(PL_METHOD_DELAYED_NESTEROV);
    pl_outer *outer = &j->f.arm.outer;
    for (int c = 0; by_arrival && c < PL_CLASS_COUNT; c++) {
        outer->lr[c] = outer->method.lr;
        outer->momentum[c] = outer->method.momentum;
    }
    name_child(&j->f.second, j->f.dir, "home", "second.address");
    pl_join(j->f.second.target, j->f.dir, "second");
    start_child(&j->f.home);
    start_child(&j->f.second);
    tell_secret(j->f.home.address);
    tell_secret_also(j->f.second.address);
    const char *homes[HOMES] = {j->f.home.address, j->f.second.address};
    pl_client_options options = {
        .homes = homes, .n_homes = HOMES, .patience_ms = PATIENCE_MS};
    assert_ok(pl_client_create(&options, &j->client));
    publish_arm(j->client, &j->f.arm, j->f.topology);
    pl_arm_path_name(&j->f.arm, j->f.topology, PATH, 0, j->path);
    j->bytes = pl_path_state_bytes(&j->f.arm, pl_topology_path_params(j->f.topology));
    j->moments = pl_alloc((size_t)j->bytes + 1);
    pl_blob_hash(j->moments, j->bytes, &j->state);
    return j;
}

static int setup(void **state)
{
    *state = open_homes(false);
    return 0;
}

static int setup_by_arrival(void **state)
{
    *state = open_homes(true);
    return 0;
}

static const char *home_of_path(const two_homes *j, bool is_other)
{
    const bool is_first = pl_home_of(j->path, HOMES) == 0;
    return is_first != is_other ? j->f.home.address : j->f.second.address;
}

static int teardown(void **state)
{
    OWNED(free_memory) two_homes *j = *state;
    pl_client_destroy(&j->client);
    pl_free(j->moments);
    close_job(&j->f);
    return 0;
}

static pl_lease lease_with(const two_homes *j, uint64_t token)
{
    pl_lease lease = lease_of(&j->f.arm, PATH, j->phase, token);
    act_under(j->client, &j->f.arm, &lease);
    return lease;
}

/* Submits the updates of all slots, or only of those that the path's home owns. The
 * receipts of the others are added to `receipts`. */
static int submit_updates(two_homes *j, uint64_t token, bool only_own,
                          pl_hash receipts[N_SLOTS])
{
    worker w = {.job = &j->f, .path = PATH};
    char name[96], text[256];
    int n = 0;
    for (int slot = 0; slot < N_SLOTS; slot++) {
        OWNED(pl_buf_destroy) pl_buf bytes = {0};
        pl_submission s;
        pl_submit_result result;
        fill(&w, j->client, slot, name, &bytes, &s);
        s.contribution.work.first_sample =
            (uint64_t)j->phase * pl_phase_samples(&j->f.arm);
        s.contribution.phase = j->round;
        (void)lease_with(j, token);
        const bool is_own = pl_home_of(name, HOMES) == pl_home_of(j->path, HOMES);
        if (is_own || !only_own) {
            assert_ok(pl_client_submit(j->client, &s, &result, text));
            assert_in_range(result, PL_SUBMIT_ACCEPTED, PL_SUBMIT_DUPLICATE);
            assert_false(pl_hash_none(&s.receipt));
        }
        if (!is_own && !only_own)
            receipts[n++] = s.receipt;
    }
    return n;
}

static pl_status end_path_at(two_homes *j, const char *home, uint64_t token,
                             const pl_hash *receipts, int n, pl_submit_result *out)
{
    OWNED(pl_message_destroy) pl_message q, a;
    pl_msg_submitted said;
    OWNED(pl_wire_close) pl_socket *socket = NULL;
    pl_sealed_lease sealed;
    pl_hash seal, blob;
    const pl_lease lease = lease_with(j, token);
    pl_lease_seal(&home_secret, &lease, &sealed);
    assert_ok(pl_client_put_blob(j->client, j->path, j->moments, j->bytes, &blob));
    pl_msg_submit_path body = {.name = j->path,
                               .phase = j->phase + 1,
                               .blob = blob,
                               .work.n_samples = ((uint64_t)j->phase + 1) *
                                                 pl_phase_samples(&j->f.arm)};
    pl_lease_sign(&sealed.key, PL_MSG_SUBMIT_PATH, pl_fields_of_submit_path(), &body,
                  &seal);
    body.lease = (pl_bytes){sealed.bytes, sealed.len};
    body.seal = seal.bytes;
    body.receipt = PL_ITEMS(receipts, n);
    pl_message_init(&q, 0);
    pl_message_init(&a, 0);
    pl_message_put(&q, PL_MSG_SUBMIT_PATH, pl_fields_of_submit_path(), &body);
    q.request = pl_wire_next_request();
    assert_ok(pl_wire_connect(home, &socket));
    PL_CHECK(pl_wire_ask(socket, &q, 1000, 10000, &a));
    assert_ok(PL_HEAR(&a, submitted, &said));
    *out = (pl_submit_result)said.result;
    return PL_OK;
}

static pl_submit_result end_path(two_homes *j, uint64_t token, const pl_hash *receipts,
                                 int n)
{
    pl_submit_result result;
    assert_ok(end_path_at(j, home_of_path(j, false), token, receipts, n, &result));
    return result;
}

#define FIXTURE_TEST(name) PL_TEST_ON(name, two_homes *j, setup, teardown)

FIXTURE_TEST(task_does_not_end_without_the_updates_at_other_homes)
{
    pl_hash receipts[N_SLOTS] = {{{0}}}, forged[N_SLOTS] = {{{1}}};
    assert_int_equal(submit_updates(j, 1, true, receipts), 0);
    assert_int_equal(end_path(j, 1, NULL, 0), PL_SUBMIT_REJECTED);
    assert_int_equal(end_path(j, 1, forged, N_SLOTS), PL_SUBMIT_REJECTED);
    const int n = submit_updates(j, 1, false, receipts);
    assert_true(n > 0); /* both homes have modules of the path */
    assert_int_equal(end_path(j, 1, receipts, n - 1), PL_SUBMIT_REJECTED);
    assert_int_equal(end_path(j, 1, receipts, n), PL_SUBMIT_ACCEPTED);
}

/* Every home has all paths and fences. If the other home ended the path's task, the hub
 * would believe it, and the path's own home would never begin its next phase. */
FIXTURE_TEST(home_takes_only_results_that_belong_to_it)
{
    pl_hash receipts[N_SLOTS] = {{{0}}};
    pl_submit_result result;
    pl_client *right = j->client;
    const char *exchanged[HOMES] = {j->f.second.address, j->f.home.address};
    const pl_client_options options = {
        .homes = exchanged, .n_homes = HOMES, .patience_ms = PATIENCE_MS};
    tell_number(j->f.home.address, 0, HOMES);
    tell_number(j->f.second.address, 1, HOMES);
    const int n = submit_updates(j, 1, false, receipts);
    assert_int_equal(end_path_at(j, home_of_path(j, true), 1, receipts, n, &result),
                     PL_ERR_NOT_FOUND);
    assert_ok(pl_client_create(&options, &j->client));
    (void)lease_with(j, 1);
    for (int slot = 0; slot < N_SLOTS; slot++) {
        OWNED(pl_buf_destroy) pl_buf bytes = {0};
        pl_submission s;
        char name[96], text[256];
        fill(&(worker){.job = &j->f, .path = PATH}, right, slot, name, &bytes, &s);
        assert_int_equal(pl_client_submit(j->client, &s, &result, text),
                         PL_ERR_NOT_FOUND);
    }
    pl_client_destroy(&j->client);
    j->client = right;
    assert_int_equal(end_path(j, 1, receipts, n), PL_SUBMIT_ACCEPTED);
}

/* The updates of the first lease may have been dropped since its receipts were given.
 */
FIXTURE_TEST(receipt_is_worth_nothing_under_another_lease)
{
    pl_hash first[N_SLOTS] = {{{0}}}, second[N_SLOTS] = {{{0}}};
    int n = submit_updates(j, 1, false, first);
    assert_int_equal(end_path(j, 2, first, n), PL_SUBMIT_REJECTED);
    n = submit_updates(j, 2, false, second); /* duplicates, with new receipts */
    assert_int_equal(end_path(j, 2, second, n), PL_SUBMIT_ACCEPTED);
}

FIXTURE_TEST(receipts_outlive_a_restart_of_the_hub)
{
    pl_hash receipts[N_SLOTS] = {{{0}}};
    const int n = submit_updates(j, 1, false, receipts);
    pl_lease_secret_create(&home_secret); /* a new hub */
    tell_secret(j->f.home.address);
    tell_secret_also(j->f.second.address);
    assert_int_equal(end_path(j, 1, receipts, n), PL_SUBMIT_ACCEPTED);
}

/* The hub greets one home after the other. */
FIXTURE_TEST(receipts_count_at_a_home_that_does_not_know_the_new_hub_yet)
{
    pl_hash receipts[N_SLOTS] = {{{0}}};
    const pl_lease_secret old = home_secret;
    pl_lease_secret_create(&home_secret); /* a new hub */
    tell_secret(home_of_path(j, true));
    home_secret = old;
    tell_secret_also(home_of_path(j, false));
    const int n = submit_updates(j, 1, false, receipts);
    assert_int_equal(end_path(j, 1, receipts, n), PL_SUBMIT_ACCEPTED);
}

/* Under delayed-nesterov the home chooses the round. A worker that names the round of
 * its next phase must not get a receipt for this phase. */
PL_TEST_WITH(receipt_is_for_the_phase_of_the_lease, setup_by_arrival, teardown)
{
    two_homes *j = *state;
    pl_hash receipts[N_SLOTS] = {{{0}}}, ahead[N_SLOTS] = {{{0}}};
    int n = submit_updates(j, 1, false, receipts);
    j->round = 1;
    assert_int_equal(submit_updates(j, 1, false, ahead), n);
    assert_int_equal(end_path(j, 1, receipts, n), PL_SUBMIT_ACCEPTED);
    j->phase = 1; /* the lease is extended */
    submit_updates(j, 1, true, receipts);
    assert_int_equal(end_path(j, 1, ahead, n), PL_SUBMIT_REJECTED);
    n = submit_updates(j, 1, false, receipts);
    assert_int_equal(end_path(j, 1, receipts, n), PL_SUBMIT_ACCEPTED);
}

PL_CHILD(argc, argv)
{
    return run_child(argv, (pl_home_options){.keep_updates = true});
}

/* The seal in the record covers the worker's update, not the one that a relay names. */
PL_TEST(update_of_one_worker_cannot_be_exchanged_in_a_sum)
{
    OWNED(pl_message_destroy) pl_message m;
    pl_submit_message read;
    const pl_hash made = {{1}}, exchanged = {{2}}, seal = {{3}};
    for (int i = 0; i < 2; i++) {
        pl_msg_contributor one = {.blob = made, .codec = "f32", .seal = seal.bytes};
        pl_message_init(&m, 0);
        PL_SAY(&m, SUBMIT, submit_sum, .module = "mix/L0.E0",
               .blob = i ? exchanged : made, .record = &one, .n_record = 1);
        assert_int_equal(pl_submission_read(&m, &read), i ? PL_ERR_PROTO : PL_OK);
        pl_submission_clear(&read);
        pl_message_destroy(&m);
    }
}

PL_TEST(answer_that_was_changed_or_belongs_to_another_question_is_not_taken)
{
    OWNED(pl_message_destroy) pl_message q, other, a;
    const pl_lease lease = {.arm = "mix", .worker = "w", .device = "d", .token = 7};
    pl_lease_secret secret;
    pl_sealed_lease sealed;
    pl_lease_secret_create(&secret);
    pl_lease_seal(&secret, &lease, &sealed);
    pl_message_init(&q, 0);
    pl_message_init(&other, 0);
    pl_message_init(&a, 0);
    PL_SAY(&q, GET_PATH, get_path, .name = "mix/p00.r0");
    PL_SAY(&other, GET_PATH, get_path, .name = "mix/p01.r0");
    PL_SAY(&a, PATH_IS, path_is, .phase = 3);
    assert_int_equal(pl_lease_check_answer(&sealed.key, &q, &a), PL_ERR_PROTO);
    pl_lease_sign_answer(&sealed.key, &q, &a);
    assert_ok(pl_lease_check_answer(&sealed.key, &q, &a));
    assert_int_equal(pl_lease_check_answer(&sealed.key, &other, &a), PL_ERR_PROTO);
    for (size_t i = 0; i < a.body.len; i++) {
        a.body.data[i] ^= 1;
        assert_int_equal(pl_lease_check_answer(&sealed.key, &q, &a), PL_ERR_PROTO);
        a.body.data[i] ^= 1;
    }
    sealed.key.bytes[0] ^= 1;
    assert_int_equal(pl_lease_check_answer(&sealed.key, &q, &a), PL_ERR_PROTO);
}
