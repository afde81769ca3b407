/* folder: workers; label: unit */
/* Tests enrolment with an invitation. A new key is admitted. A key that was revoked,
 * and a name that another key already has, must be refused. */
#include "codec/codec.h"
#include "workers/hub_internal.h"
#include <sys/stat.h>

#include "tests/support/key_edits.h"
#include "tests/support/scratch.h"

typedef struct fixture {
    char list[80];
    pl_key_entry pool; /* an invitation for five keys */
} fixture;

static pl_pubkey a_key(void)
{
    pl_keypair pair;
    pl_keypair_create(&pair);
    return pair.open;
}

static int set_up(void **state)
{
    fixture *f = pl_alloc(sizeof *f);
    assert_int_equal(make_scratch(NULL), 0);
    pl_copy_text(f->list, sizeof f->list, in_scratch("allow"));
    f->pool = (pl_key_entry){.key = a_key(),
                             .role = PL_AS_INVITE,
                             .grants = PL_AS_WORKER,
                             .uses = 5,
                             .name = "pool"};
    assert_ok(pl_key_list_edit(f->list, put_entry, &f->pool));
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    pl_free(*state);
    return remove_scratch(NULL);
}

static pl_status enrol(const fixture *f, const pl_pubkey *key, const char *name)
{
    pl_key_role role;
    pl_status status = pl_admission_enrol(f->list, &f->pool.key, key, name, &role);
    assert_int_equal(role, status == PL_OK ? PL_AS_WORKER : PL_AS_NONE);
    return status;
}

static int uses_left(const fixture *f)
{
    OWNED(pl_key_list_clear) pl_key_list list;
    assert_ok(pl_key_list_load(f->list, &list));
    const pl_key_entry *e = pl_key_list_find(&list, &f->pool.key, 0);
    return e ? e->uses : 0;
}

#define WITH_LIST(name) PL_TEST_ON(name, fixture *f, set_up, tear_down)

/* An invalid public key (all zeros, or another point of low order) is refused. The
 * refusal uses up no invitation and writes no line that later readers must skip. */
WITH_LIST(a_key_of_zeros_is_refused_and_the_list_stays_whole)
{
    pl_pubkey zero = {{0}}, one = {{1}}, good = a_key();
    OWNED(pl_key_list_clear) pl_key_list list;
    assert_int_equal(enrol(f, &zero, "zero"), PL_ERR_DATA);
    assert_int_equal(enrol(f, &one, "one"), PL_ERR_DATA);
    assert_int_equal(uses_left(f), 5);
    assert_ok(enrol(f, &good, "good"));
    assert_ok(pl_key_list_load(f->list, &list));
    assert_int_equal(list.n, 2);
    assert_int_equal(list.n_bad, 0);
}

WITH_LIST(no_refusal_tells_a_path_of_this_machine)
{
    pl_key_role role;
    pl_pubkey key = a_key();
    assert_int_equal(
        pl_admission_enrol(in_scratch("none/allow"), &f->pool.key, &key, "w", &role),
        PL_ERR_BUSY);
    assert_null(strchr(pl_last_error(), '/'));
}

/* The second attempt does not write the file of the list again. */
WITH_LIST(asking_twice_uses_up_one)
{
    struct stat first, second;
    pl_pubkey key = a_key();
    assert_ok(enrol(f, &key, "a"));
    assert_int_equal(stat(f->list, &first), 0);
    assert_ok(enrol(f, &key, "a"));
    assert_int_equal(stat(f->list, &second), 0);
    assert_int_equal(first.st_ino, second.st_ino);
    assert_int_equal(uses_left(f), 4);
}

WITH_LIST(a_revoked_key_does_not_come_back_by_the_same_invitation)
{
    pl_pubkey key = a_key();
    assert_ok(enrol(f, &key, "a"));
    assert_ok(pl_key_list_edit(f->list, revoke_key, &key));
    assert_fails(enrol(f, &key, "a"), PL_ERR_NOPERM, "revoked");
    assert_int_equal(enrol(f, &key, "b"), PL_ERR_NOPERM);
    assert_int_equal(uses_left(f), 4);
}

WITH_LIST(nobody_enrols_under_a_name_that_is_taken)
{
    pl_pubkey key = a_key(), other = a_key();
    assert_ok(enrol(f, &key, "a"));
    assert_int_equal(enrol(f, &other, "a"), PL_ERR_EXISTS);
    assert_int_equal(enrol(f, &other, "pool"), PL_ERR_EXISTS);
    assert_int_equal(enrol(f, &other, "own-hub"), PL_ERR_NOPERM);
    assert_int_equal(uses_left(f), 4); /* a refusal uses up no invitation */
    assert_ok(enrol(f, &other, "b"));
}

static bool may(pl_key_role role, uint16_t type)
{
    (void)type;
    return role != PL_AS_NONE;
}

static void on_refused(const pl_refusal *refusal)
{
    (void)refusal;
}

static void on_list(const char *trouble)
{
    fail_msg("the list of keys: %s", trouble);
}

/* A key is listed under `name`. Before the hub reads the list, a worker with a
 * different key uses the name and delivers `n_tasks` tasks. If `is_fenced` is set, this
 * worker is then fenced. Returns whether the hub gives the name to the listed key. */
static bool gets_name(fixture *f, const char *name, int n_tasks, bool is_fenced)
{
    const pl_hub_options options = {.keys = f->list};
    hub h = {.options = &options, .worker_names = pl_name_table_create()};
    pl_peer first = {.key = a_key(), .role = PL_AS_WORKER}, owner = first;
    pl_keypair own;
    int w = -1;
    owner.key = a_key();
    assert_ok(enrol(f, &owner.key, name));
    /* Until the gate opens, the hub does not know which names are in the list. */
    assert_ok(hub_know_worker(&h, name, &first, &w));
    for (int i = 0; i < n_tasks; i++)
        hub_note_success(&h, w, false);
    if (is_fenced)
        pl_copy_text(h.workers[w].fenced, sizeof h.workers[w].fenced, "it lied");
    pl_keypair_create(&own);
    const pl_gate_options gate = {.own = &own,
                                  .list = f->list,
                                  .may = may,
                                  .on_refused = on_refused,
                                  .on_list = on_list};
    assert_ok(pl_gate_open(&gate));
    assert_ok(hub_know_worker(&h, name, &owner, &w));
    bool gets = pl_pubkey_equal(&h.workers[w].key, &owner.key);
    assert_int_equal(hub_check_owner(&h.workers[w], &owner),
                     gets ? PL_OK : PL_ERR_NOPERM);
    assert_int_equal(hub_find_worker(&h, name), w);
    pl_wire_shutdown(); /* closes the gate */
    pl_free(h.workers);
    pl_free(h.queue);
    pl_name_table_destroy(&h.worker_names);
    return gets;
}

WITH_LIST(a_worker_keeps_a_name_only_if_it_delivers)
{
    assert_true(gets_name(f, "idle", 0, false));
    assert_true(gets_name(f, "new", 1, false));
    assert_false(gets_name(f, "busy", 2, false));
    assert_true(gets_name(f, "liar", 2, true));
}

/* For example 64 machines with one key that were killed and start again with new names:
 * the hub cannot know yet that their old names are dead. */
WITH_LIST(a_key_with_too_many_workers_waits_until_one_is_forgotten)
{
    enum { MOST = 64 };
    char name[16];
    const pl_hub_options options = {.ttl_ms = 10};
    hub h = {.options = &options, .worker_names = pl_name_table_create()};
    const pl_peer peer = {.key = a_key(), .role = PL_AS_WORKER};
    int w = -1;
    for (int i = 0; i < MOST; i++) {
        snprintf(name, sizeof name, "w%d", i);
        assert_ok(hub_know_worker(&h, name, &peer, &w));
        h.workers[w].seen_ms = pl_now_ms() + 60000;
    }
    assert_fails(hub_know_worker(&h, "fresh", &peer, &w), PL_ERR_BUSY,
                 "already has 64 workers");
    h.workers[7].seen_ms = pl_now_ms() - 60000;
    assert_ok(hub_know_worker(&h, "fresh", &peer, &w));
    assert_int_equal(w, 7);
    assert_int_equal(hub_find_worker(&h, "w7"), -1);
    pl_free(h.workers);
    pl_free(h.queue);
    pl_name_table_destroy(&h.worker_names);
}

WITH_LIST(no_worker_has_the_text_of_a_key_as_its_name)
{
    char text[PL_PUBKEY_TEXT];
    hub h = {.worker_names = pl_name_table_create()};
    const pl_peer peer = {.key = a_key(), .role = PL_AS_WORKER};
    const pl_pubkey other = a_key();
    int w = -1;
    pl_pubkey_format(&other, text);
    assert_int_equal(hub_know_worker(&h, text, &peer, &w), PL_ERR_NOPERM);
    assert_int_equal(hub_know_worker(&h, "?0", &peer, &w), PL_ERR_USAGE);
    assert_int_equal(h.n_workers, 0);
    pl_name_table_destroy(&h.worker_names);
}

WITH_LIST(the_last_use_of_an_invitation_frees_its_name)
{
    pl_pubkey key = a_key();
    f->pool.uses = 1;
    assert_ok(pl_key_list_edit(f->list, put_entry, &f->pool));
    assert_ok(enrol(f, &key, "pool"));
    assert_int_equal(uses_left(f), 0);
}
