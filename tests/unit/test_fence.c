/* folder: home; label: integration */
#include "tests/support/relay_fixture.h"

/* Tests the fences by which a home refuses messages of a process that was given up.
 * Also tests the epoch, a number that rises each time a hub says hello to a home. */

static const char path_name[] = "mix/p01.r0";
enum { PATH = 1 };

/* `m` becomes the answer. */
static pl_status tell_home(fixture *f, pl_message *m, uint64_t epoch)
{
    pl_message a;
    const pl_status status = ask_home(f->home.address, m, epoch, &a);
    *m = a;
    return status;
}

static void fence(fixture *f, uint64_t token)
{
    OWNED(pl_message_destroy) pl_message m = {.token = token};
    PL_SAY(&m, FENCE, fence, .name = path_name, .token = PL_ITEMS(&token, 1));
    assert_ok(tell_home(f, &m, UINT64_MAX));
}

/* A hub that starts has a new secret. */
static uint64_t hub_says_hello(fixture *f)
{
    OWNED(pl_message_destroy) pl_message m = {0};
    pl_msg_welcome_home said;
    pl_lease_secret_create(&home_secret);
    PL_SAY(&m, HELLO, hello_home, .role = "hub", .secret = home_secret.bytes);
    assert_ok(tell_home(f, &m, 0));
    assert_ok(PL_HEAR(&m, welcome_home, &said));
    return (uint64_t)said.version;
}

/* Under a lease that has ended, not even an upload is taken. */
static pl_submit_result fenced_or(pl_status status, pl_submit_result result)
{
    if (status == PL_ERR_STALE)
        return PL_SUBMIT_FENCED;
    assert_ok(status);
    return result;
}

static pl_submit_result submit_update(fixture *f, int slot, uint64_t token)
{
    pl_submit_result result;
    const pl_status status = submit_slot(f, PATH, slot, token, &result);
    return fenced_or(status, result);
}

static pl_submit_result submit_path(fixture *f, uint64_t token)
{
    pl_submit_result result;
    const pl_status status = submit_state(f, PATH, 0, 0, token, &result);
    return fenced_or(status, result);
}

PL_TEST(submissions_below_the_fence_are_refused)
{
    OWNED(close_job) fixture f;
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
}

static pl_path_state path_now(fixture *f)
{
    pl_path_state state;
    pl_client_act_under(f->client, NULL);
    assert_ok(pl_client_get_path(f->client, path_name, &state));
    return state;
}

static void drop_state(fixture *f, int64_t phase)
{
    OWNED(pl_message_destroy) pl_message m = {.token = 200};
    PL_SAY(&m, FENCE, fence, .name = path_name, .phase = phase);
    assert_ok(tell_home(f, &m, UINT64_MAX));
}

PL_TEST(fence_with_a_phase_drops_the_state_behind_it)
{
    OWNED(close_job) fixture f;
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
        restart_child(&f.home);
    }
}

/* The two hubs may have decided differently about the same result. */
PL_TEST(orders_of_a_replaced_hub_are_refused)
{
    OWNED(close_job) fixture f;
    open_job(&f, "f32");
    for (int slot = 0; slot < pl_topology_n_slots(f.topology); slot++)
        assert_int_equal(submit_update(&f, slot, 100), PL_SUBMIT_ACCEPTED);
    assert_int_equal(submit_path(&f, 100), PL_SUBMIT_ACCEPTED);
    const uint64_t epoch = hub_says_hello(&f);
    for (int i = 0; i < 2; i++) { /* also after a restart */
        for (int order = 0; order < 4; order++) {
            OWNED(pl_message_destroy) pl_message q = {.token = (epoch << 32) | 9};
            if (order < 2)
                PL_SAY(&q, FENCE, fence, .name = path_name, .phase = 1,
                       .audit = order == 1);
            else if (order == 2)
                PL_SAY(&q, FENCE, fence, .name = path_name, .confirmed = 1);
            else
                PL_SAY(&q, PUT_AUDIT, put_audit, .row_text = "1");
            assert_int_equal(tell_home(&f, &q, epoch - 1), PL_ERR_STALE);
        }
        pl_path_state now = path_now(&f);
        assert_false(pl_hash_none(&now.moments));
        restart_child(&f.home);
    }
}

/* The first home may have an older copy of its store than this one. */
PL_TEST(hub_with_the_epoch_of_another_is_refused)
{
    OWNED(close_job) fixture f;
    open_job(&f, "f32");
    const uint64_t epoch = hub_says_hello(&f);
    for (int is_new = 0; is_new < 2; is_new++) {
        OWNED(pl_message_destroy) pl_message q = {0};
        if (is_new)
            pl_lease_secret_create(&home_secret);
        PL_SAY(&q, HELLO, hello_home, .role = "hub", .ttl_ms = 60000,
               .secret = home_secret.bytes, .version = (int64_t)epoch);
        assert_int_equal(tell_home(&f, &q, 0), is_new ? PL_ERR_STALE : PL_OK);
    }
}

PL_TEST(drop_that_was_overtaken_is_not_answered_as_done)
{
    OWNED(close_job) fixture f;
    open_job(&f, "f32");
    for (int order = 0; order < 3; order++) {
        OWNED(pl_message_destroy)
        pl_message q = {.token = order == 0 ? 200 : (uint64_t)198 + (uint64_t)order};
        PL_SAY(&q, FENCE, fence, .name = path_name, .audit = order > 0);
        assert_int_equal(tell_home(&f, &q, UINT64_MAX),
                         order == 1 ? PL_ERR_BUSY : PL_OK);
    }
}

/* Without a key, the worker is fenced by its name. */
static void fence_worker(fixture *f, const char *name, const pl_pubkey *key,
                         const char *reason)
{
    OWNED(pl_message_destroy) pl_message m = {0};
    PL_SAY(&m, FENCE_WORKER, fence_worker, .reason = reason, .name = name,
           .key = key ? key->bytes : NULL);
    assert_ok(tell_home(f, &m, UINT64_MAX));
}

static pl_status submit_as(fixture *f, const char *name, const pl_pubkey *key)
{
    worker w = {.job = f, .path = PATH};
    char module[96], text[256];
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
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
    return pl_client_submit(f->client, &s, &result, text);
}

PL_TEST(nothing_is_taken_from_a_fenced_worker_for_ever)
{
    OWNED(close_job) fixture f;
    open_job(&f, "f32");
    fence_worker(&f, "liar", NULL, "liar is fenced: it lied");
    fence_worker(&f, "liar", NULL, "said again");
    for (int i = 0; i < 2; i++) {
        assert_fails(submit_as(&f, "liar", NULL), PL_ERR_NOPERM,
                     "liar is fenced: it lied");
        restart_child(&f.home);
    }
    assert_ok(submit_as(&f, "honest", NULL));
}

/* Returns true if the home refuses the update, but not because of a fence. It refuses
 * it because without encryption no connection can show that it has the lease's key. */
static bool is_only_a_stranger(fixture *f, const char *name, const pl_pubkey *key)
{
    return submit_as(f, name, key) == PL_ERR_NOPERM &&
           strstr(pl_last_error(), "lied") == NULL;
}

PL_TEST(a_name_with_several_keys_is_fenced_for_each_of_them)
{
    OWNED(close_job) fixture f;
    pl_pubkey keys[3];
    for (int i = 0; i < 3; i++)
        memset(keys[i].bytes, 7 + i, PL_PUBKEY_BYTES);
    open_job(&f, "f32");
    fence_worker(&f, "name", &keys[0], "the first lied");
    fence_worker(&f, "name", NULL, "one without a key lied");
    fence_worker(&f, "name", &keys[1], "the second lied");
    for (int i = 0; i < 2; i++) { /* also after a restart */
        assert_fails(submit_as(&f, "x", &keys[0]), PL_ERR_NOPERM, "the first lied");
        assert_fails(submit_as(&f, "x", &keys[1]), PL_ERR_NOPERM, "the second lied");
        assert_fails(submit_as(&f, "name", NULL), PL_ERR_NOPERM,
                     "one without a key lied");
        assert_true(is_only_a_stranger(&f, "name", &keys[2]));
        restart_child(&f.home);
    }
}

PL_TEST(an_heir_of_a_name_is_not_fenced_with_the_liar)
{
    OWNED(close_job) fixture f;
    pl_pubkey liar, heir;
    memset(liar.bytes, 7, PL_PUBKEY_BYTES);
    memset(heir.bytes, 8, PL_PUBKEY_BYTES);
    open_job(&f, "f32");
    fence_worker(&f, "name", &liar, "it lied");
    assert_int_equal(submit_as(&f, "name", &liar), PL_ERR_NOPERM);
    assert_true(is_only_a_stranger(&f, "name", &heir));
}

PL_TEST(the_epoch_of_hubs_rises_also_over_a_killed_home)
{
    OWNED(close_job) fixture f;
    open_job(&f, "f32");
    uint64_t first = hub_says_hello(&f), second = hub_says_hello(&f);
    assert_true(second > first);
    restart_child(&f.home);
    assert_true(hub_says_hello(&f) > second);
}

/* A worker has no secret. */
PL_TEST(a_worker_may_say_hello_to_a_home_that_two_hubs_have_greeted)
{
    OWNED(close_job) fixture f;
    OWNED(pl_message_destroy) pl_message q = {0};
    open_job(&f, "f32");
    (void)hub_says_hello(&f);
    PL_SAY(&q, HELLO, hello_home, .role = "worker");
    assert_ok(tell_home(&f, &q, 0));
    assert_int_equal(q.type, PL_MSG_WELCOME);
}

PL_CHILD(argc, argv)
{
    return run_child(argv, (pl_home_options){.keep_updates = true});
}
