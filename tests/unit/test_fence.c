/* folder: home; label: integration */
#include "tests/support/relay_fixture.h"

/* Tests the fences by which a home refuses messages of a process that was given up.
 * Also tests the epoch, a number that rises each time a hub says hello to a home. */

static const char path_name[] = "mix/p01.r0";
enum { PATH = 1 };

static void ask_home(fixture *f, pl_message *question, pl_message *answer)
{
    pl_socket *socket = NULL;
    pl_message_init(answer, 0);
    question->request = pl_wire_next_request();
    assert_int_equal(pl_wire_connect(f->home.address, &socket), PL_OK);
    assert_int_equal(pl_wire_ask(socket, question, 500, 10000, answer), PL_OK);
    pl_wire_close(&socket);
    pl_message_destroy(question);
}

static void fence(fixture *f, uint64_t token)
{
    pl_message q, a;
    pl_message_init(&q, PL_MSG_FENCE);
    q.token = token;
    pl_put_text(&q.body, PL_TAG_NAME, path_name);
    pl_put_u64(&q.body, PL_TAG_TOKEN, token);
    ask_home(f, &q, &a);
    assert_int_equal(a.type, PL_MSG_OK);
    pl_message_destroy(&a);
}

/* A hub that starts has a new secret. */
static uint64_t hub_says_hello(fixture *f)
{
    pl_message q, a;
    pl_reader r;
    pl_message_init(&q, PL_MSG_HELLO);
    pl_lease_secret_create(&home_secret);
    PL_SAY(&q, HELLO, hello_home, .role = "hub", .secret = home_secret.bytes);
    ask_home(f, &q, &a);
    assert_int_equal(a.type, PL_MSG_WELCOME);
    pl_reader_open(&r, "WELCOME", a.body.data, a.body.len);
    uint64_t epoch = pl_get_u64(&r, PL_TAG_VERSION, 0);
    assert_int_equal(pl_reader_status(&r), PL_OK);
    pl_message_destroy(&a);
    return epoch;
}

/* Under a lease that has ended, not even an upload is taken. */
static pl_submit_result fenced_or(pl_status status, pl_submit_result result)
{
    if (status == PL_ERR_STALE)
        return PL_SUBMIT_FENCED;
    assert_int_equal(status, PL_OK);
    return result;
}

static pl_submit_result submit_update(fixture *f, int slot, uint64_t token)
{
    worker w = {.job = f, .path = PATH};
    char name[96], text[256];
    pl_buf bytes = {0};
    pl_submission s;
    pl_submit_result result = PL_SUBMIT_REJECTED;
    fill(&w, f->client, slot, name, &bytes, &s);
    s.contribution.token = token;
    lease_for(f->client, &f->arm, &s.contribution, 0);
    pl_status status = pl_client_submit(f->client, &s, &result, text);
    pl_buf_destroy(&bytes);
    return fenced_or(status, result);
}

static pl_submit_result submit_path(fixture *f, uint64_t token)
{
    char text[256];
    pl_path_state state;
    pl_submit_result result = PL_SUBMIT_REJECTED;
    size_t n = pl_topology_path_params(f->topology);
    uint64_t bytes = pl_path_state_bytes(&f->arm, n);
    uint8_t *moments = pl_alloc((size_t)bytes + 1);
    memset(&state, 0, sizeof state);
    pl_copy_text(state.name, sizeof state.name, path_name);
    state.phase = 1;
    state.work.n_samples = pl_phase_samples(&f->arm);
    pl_lease lease = lease_of(&f->arm, PATH, 0, token);
    act_under(f->client, &f->arm, &lease);
    pl_status status = send_state(f->client, &state, moments, bytes, &result, text);
    pl_free(moments);
    return fenced_or(status, result);
}

static void submissions_below_the_fence_are_refused(void **state)
{
    (void)state;
    fixture f;
    open_job(&f, "f32");
    fence(&f, 100);
    fence(&f, 50); /* a fence with a lower token changes nothing */
    assert_int_equal(submit_update(&f, 0, 99), PL_SUBMIT_FENCED);
    assert_int_equal(submit_update(&f, 0, 100), PL_SUBMIT_ACCEPTED);
    for (int slot = 1; slot < pl_topology_n_slots(f.topology); slot++)
        assert_int_equal(submit_update(&f, slot, 100), PL_SUBMIT_ACCEPTED);
    assert_int_equal(submit_path(&f, 99), PL_SUBMIT_FENCED);
    assert_int_equal(submit_path(&f, 100), PL_SUBMIT_ACCEPTED);
    assert_int_equal(submit_path(&f, 99), PL_SUBMIT_DUPLICATE);
    close_job(&f);
}

static pl_path_state path_now(fixture *f)
{
    pl_path_state state;
    assert_int_equal(pl_client_get_path(f->client, path_name, &state), PL_OK);
    return state;
}

static void drop_state(fixture *f, uint64_t phase)
{
    pl_message q, a;
    pl_message_init(&q, PL_MSG_FENCE);
    q.token = 200;
    pl_put_text(&q.body, PL_TAG_NAME, path_name);
    pl_put_u64(&q.body, PL_TAG_PHASE, phase);
    ask_home(f, &q, &a);
    assert_int_equal(a.type, PL_MSG_OK);
    pl_message_destroy(&a);
}

static void fence_with_a_phase_drops_the_state_behind_it(void **state)
{
    (void)state;
    fixture f;
    open_job(&f, "f32");
    for (int slot = 0; slot < pl_topology_n_slots(f.topology); slot++)
        assert_int_equal(submit_update(&f, slot, 100), PL_SUBMIT_ACCEPTED);
    assert_int_equal(submit_path(&f, 100), PL_SUBMIT_ACCEPTED);
    drop_state(&f, 2); /* phase 2 has no state to drop */
    pl_path_state before = path_now(&f);
    assert_false(pl_hash_none(&before.moments));
    drop_state(&f, 1);
    for (int i = 0; i < 2; i++) { /* also after a restart */
        pl_path_state now = path_now(&f);
        assert_true(pl_hash_none(&now.moments));
        assert_int_equal(now.phase, 1);
        assert_int_equal(now.work.n_samples, pl_phase_samples(&f.arm));
        assert_int_equal(submit_path(&f, 300), PL_SUBMIT_DUPLICATE);
        kill_child(&f.home, SIGKILL);
        start_child(&f.home);
    }
    close_job(&f);
}

/* Without a key, the worker is fenced by its name. */
static void fence_worker(fixture *f, const char *name, const pl_pubkey *key,
                         const char *reason)
{
    pl_message q, a;
    pl_message_init(&q, PL_MSG_FENCE_WORKER);
    pl_put_text(&q.body, PL_TAG_TEXT, reason);
    pl_put_text(&q.body, PL_TAG_NAME, name);
    if (key)
        pl_put_bytes(&q.body, PL_TAG_KEY, key->bytes, PL_PUBKEY_BYTES);
    ask_home(f, &q, &a);
    assert_int_equal(a.type, PL_MSG_OK);
    pl_message_destroy(&a);
}

static pl_status submit_as(fixture *f, const char *name, const pl_pubkey *key)
{
    worker w = {.job = f, .path = PATH};
    char module[96], text[256];
    pl_buf bytes = {0};
    pl_submission s;
    pl_submit_result result = PL_SUBMIT_REJECTED;
    fill(&w, f->client, 0, module, &bytes, &s);
    pl_copy_text(s.contribution.worker, sizeof s.contribution.worker, name);
    lease_for(f->client, &f->arm, &s.contribution, 0);
    pl_lease lease = lease_of(&f->arm, PATH, 0, s.contribution.token);
    pl_copy_text(lease.worker, sizeof lease.worker, name);
    if (key)
        lease.key = *key;
    act_under(f->client, &f->arm, &lease);
    pl_status status = pl_client_submit(f->client, &s, &result, text);
    pl_buf_destroy(&bytes);
    return status;
}

static void nothing_is_taken_from_a_fenced_worker_for_ever(void **state)
{
    (void)state;
    fixture f;
    open_job(&f, "f32");
    fence_worker(&f, "liar", NULL, "liar is fenced: it lied");
    fence_worker(&f, "liar", NULL, "said again");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(submit_as(&f, "liar", NULL), PL_ERR_NOPERM);
        assert_non_null(strstr(pl_last_error(), "liar is fenced: it lied"));
        kill_child(&f.home, SIGKILL);
        start_child(&f.home);
    }
    assert_int_equal(submit_as(&f, "honest", NULL), PL_OK);
    close_job(&f);
}

/* Returns true if the home refuses the update, but not because of a fence. It refuses
 * it because without encryption no connection can show that it has the lease's key. */
static bool is_only_a_stranger(fixture *f, const char *name, const pl_pubkey *key)
{
    return submit_as(f, name, key) == PL_ERR_NOPERM &&
           strstr(pl_last_error(), "lied") == NULL;
}

/* Three workers with the same name lied: two with keys, and one without. All three must
 * be fenced. A fourth worker of this name, with a different key, must not be. */
static void a_name_with_several_keys_is_fenced_for_each_of_them(void **state)
{
    (void)state;
    fixture f;
    pl_pubkey keys[3];
    for (int i = 0; i < 3; i++)
        memset(keys[i].bytes, 7 + i, PL_PUBKEY_BYTES);
    open_job(&f, "f32");
    fence_worker(&f, "name", &keys[0], "the first lied");
    fence_worker(&f, "name", NULL, "one without a key lied");
    fence_worker(&f, "name", &keys[1], "the second lied");
    for (int i = 0; i < 2; i++) { /* also after a restart */
        assert_int_equal(submit_as(&f, "x", &keys[0]), PL_ERR_NOPERM);
        assert_non_null(strstr(pl_last_error(), "the first lied"));
        assert_int_equal(submit_as(&f, "x", &keys[1]), PL_ERR_NOPERM);
        assert_non_null(strstr(pl_last_error(), "the second lied"));
        assert_int_equal(submit_as(&f, "name", NULL), PL_ERR_NOPERM);
        assert_non_null(strstr(pl_last_error(), "one without a key lied"));
        assert_true(is_only_a_stranger(&f, "name", &keys[2]));
        kill_child(&f.home, SIGKILL);
        start_child(&f.home);
    }
    close_job(&f);
}

static void an_heir_of_a_name_is_not_fenced_with_the_liar(void **state)
{
    (void)state;
    fixture f;
    pl_pubkey liar, heir;
    memset(liar.bytes, 7, PL_PUBKEY_BYTES);
    memset(heir.bytes, 8, PL_PUBKEY_BYTES);
    open_job(&f, "f32");
    fence_worker(&f, "name", &liar, "it lied");
    assert_int_equal(submit_as(&f, "name", &liar), PL_ERR_NOPERM);
    assert_true(is_only_a_stranger(&f, "name", &heir));
    close_job(&f);
}

static void the_epoch_of_hubs_rises_also_over_a_killed_home(void **state)
{
    (void)state;
    fixture f;
    open_job(&f, "f32");
    uint64_t first = hub_says_hello(&f), second = hub_says_hello(&f);
    assert_true(second > first);
    kill_child(&f.home, SIGKILL);
    start_child(&f.home);
    assert_true(hub_says_hello(&f) > second);
    close_job(&f);
}

/* A worker has no secret. */
static void a_worker_may_say_hello_to_a_home_that_two_hubs_have_greeted(void **state)
{
    (void)state;
    fixture f;
    pl_message q, a;
    open_job(&f, "f32");
    (void)hub_says_hello(&f);
    pl_message_init(&q, 0);
    PL_SAY(&q, HELLO, hello_home, .role = "worker");
    ask_home(&f, &q, &a);
    assert_int_equal(a.type, PL_MSG_WELCOME);
    pl_message_destroy(&a);
    close_job(&f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(submissions_below_the_fence_are_refused),
        cmocka_unit_test(fence_with_a_phase_drops_the_state_behind_it),
        cmocka_unit_test(nothing_is_taken_from_a_fenced_worker_for_ever),
        cmocka_unit_test(a_name_with_several_keys_is_fenced_for_each_of_them),
        cmocka_unit_test(an_heir_of_a_name_is_not_fenced_with_the_liar),
        cmocka_unit_test(the_epoch_of_hubs_rises_also_over_a_killed_home),
        cmocka_unit_test(a_worker_may_say_hello_to_a_home_that_two_hubs_have_greeted),
    };
    if (argc > 1)
        return run_child(argv, (pl_home_options){.keep_updates = true});
    return cmocka_run_group_tests(tests, NULL, NULL);
}
