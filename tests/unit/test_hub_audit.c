/* folder: workers; label: unit
 *
 * Tests which worker the hub chooses to repeat a task for an audit: one whose device is
 * of the same kind as the first worker's. If there is no such worker, and results of
 * different kinds of devices may be compared with a tolerance, the hub chooses one with
 * a different kind of device. */
#include "net/net.h"
#include "tests/support/tiny_arm.h"
#include "workers/hub_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { NOW = 50000, FIRST = 0, SAME, OTHER, THIRD, N_WORKERS };

typedef struct fixture {
    hub h;
    pl_hub_options options;
    hub_worker workers[N_WORKERS];
    hub_audit audit;
    int64_t now;
    pl_pubkey fenced_key; /* the key that was fenced; set by liar_is_found */
    pl_pubkey sender_key; /* the key in the leases of the updates */
    hub_worker *later[2]; /* NULL, or workers that join after a worker was fenced */
} fixture;

static int setup(void **state)
{
    static const char *const names[] = {"first", "same", "other", "third"};
    static const char *const kinds[] = {"cpu", "cpu", "ref", "cuda"};
    fixture *f = pl_alloc(sizeof *f);
    f->now = NOW;
    f->options = (pl_hub_options){.ttl_ms = 1000, .audit_tolerance = 0.3};
    f->h.options = &f->options;
    f->h.workers = f->workers;
    f->h.n_workers = N_WORKERS;
    f->h.worker_names = pl_name_table_create();
    for (int i = 0; i < N_WORKERS; i++) {
        pl_copy_text(f->workers[i].name, sizeof f->workers[i].name, names[i]);
        pl_copy_text(f->workers[i].device, sizeof f->workers[i].device, kinds[i]);
        f->workers[i].seen_ms = NOW + 4000;
        f->workers[i].own_key = true;
        pl_name_table_put(f->h.worker_names, names[i], i);
    }
    f->h.audits = &f->audit;
    f->h.n_audits = 1;
    pl_audit *row = &f->audit.row;
    row->n = 1;
    row->seed = 1;
    pl_copy_text(row->results[0].worker, sizeof row->results[0].worker, "first");
    pl_copy_text(row->results[0].device, sizeof row->results[0].device, "cpu");
    pl_hash_of("audit", "x", 1, &row->results[0].digest);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    pl_name_table_destroy(&f->h.worker_names);
    pl_free(f);
    return 0;
}

static bool is_asked(fixture *f, int worker)
{
    f->now += 200; /* the hub looks for workers only every 200 ms */
    return hub_find_audit(&f->h, worker, f->now) == &f->audit;
}

static void one_of_its_kind_comes_first(void **state)
{
    fixture *f = *state;
    assert_true(is_asked(f, SAME));
    assert_false(is_asked(f, OTHER));
    assert_false(is_asked(f, FIRST)); /* the result is from FIRST itself */
}

static void another_kind_does_it_where_there_is_none(void **state)
{
    fixture *f = *state;
    f->workers[SAME].left = true;
    assert_true(is_asked(f, OTHER));
    f->workers[SAME].left = false;
    pl_copy_text(f->workers[SAME].fenced, sizeof f->workers[SAME].fenced, "it lied");
    assert_true(is_asked(f, OTHER));
    assert_false(is_asked(f, SAME));
}

static void third_is_neither_of_the_two(void **state)
{
    fixture *f = *state;
    pl_audit *row = &f->audit.row;
    f->workers[SAME].left = true;
    row->n = 2;
    row->results[1] = row->results[0];
    pl_copy_text(row->results[1].worker, sizeof row->results[1].worker, "other");
    assert_false(is_asked(f, OTHER));
    assert_true(is_asked(f, THIRD));
    f->workers[SAME].left = false; /* SAME has the same kind of device as FIRST */
    assert_true(is_asked(f, SAME));
    assert_false(is_asked(f, THIRD));
}

static void without_distances_other_kinds_are_not_asked(void **state)
{
    fixture *f = *state;
    f->workers[SAME].left = true;
    f->options.audit_tolerance = 0;
    assert_false(is_asked(f, OTHER));
    f->options.audit_tolerance = 0.3;
    /* With seed 0 the task has no sketches of its results, so results of different
     * kinds of devices cannot be compared. */
    f->audit.row.seed = 0;
    assert_false(is_asked(f, OTHER));
    f->workers[SAME].left = false;
    assert_true(is_asked(f, SAME));
}

/* If a worker with one of the job's own keys can do an audit, no worker with a
 * different key gets it. Otherwise a person with the keys of FIRST and SAME could name
 * a kind of device that no other worker has, and SAME would audit FIRST. */
static void those_who_join_judge_nobody_where_own_workers_are(void **state)
{
    fixture *f = *state;
    f->workers[FIRST].own_key = f->workers[SAME].own_key = false;
    memset(f->workers[FIRST].key.bytes, 1, sizeof f->workers[FIRST].key.bytes);
    memset(f->workers[SAME].key.bytes, 2, sizeof f->workers[SAME].key.bytes);
    assert_false(is_asked(f, SAME));
    assert_true(is_asked(f, OTHER));
    f->options.audit_tolerance = 0; /* results of other kinds cannot be compared */
    assert_true(is_asked(f, SAME));
    f->options.audit_tolerance = 0.3;
    f->workers[OTHER].left = true;
    f->workers[THIRD].barred_until_ms = INT64_MAX;
    assert_true(is_asked(f, SAME));
}

/* Among workers with keys that are not the job's own, those that have delivered a task
 * come first, even if their device is of a different kind. Otherwise a liar could name
 * a new kind of device for two keys, and one key would audit the other. */
static void those_who_deliver_judge_before_others_of_its_kind(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < N_WORKERS; i++) {
        f->workers[i].own_key = false;
        memset(f->workers[i].key.bytes, 1 + i, sizeof f->workers[i].key.bytes);
    }
    assert_true(is_asked(f, SAME));
    f->workers[OTHER].delivers = true;
    assert_false(is_asked(f, SAME));
    assert_true(is_asked(f, OTHER));
    f->workers[SAME].delivers = true;
    assert_true(is_asked(f, SAME));
    assert_false(is_asked(f, OTHER));
    hub_grant_audit(&f->h, &f->audit, SAME, f->now);
    hub_audit_release(&f->h, &f->audit, NULL); /* SAME gives the audit back */
    assert_false(is_asked(f, SAME));
    assert_true(is_asked(f, OTHER));
}

/* A worker with one of the job's own keys that sent a part of the first result may
 * still be the third worker of the audit. Otherwise a worker that joined would be the
 * third. */
static void own_worker_that_sent_some_of_it_is_a_third(void **state)
{
    fixture *f = *state;
    pl_audit *row = &f->audit.row;
    hub_sender sender = {.worker = "other"};
    f->audit.senders = &sender;
    f->audit.n_slots = 1;
    assert_false(is_asked(f, OTHER));
    f->workers[THIRD].own_key = false;
    row->n = 2;
    row->results[1] = row->results[0];
    pl_copy_text(row->results[1].worker, sizeof row->results[1].worker, "same");
    assert_true(is_asked(f, OTHER));
    assert_false(is_asked(f, THIRD));
    f->workers[OTHER].own_key = false;
    assert_false(is_asked(f, OTHER));
}

static void know_an_arm(hub *h, char path[PL_MODULE_NAME_MAX])
{
    pl_hash blob;
    pl_arm *arm = pl_alloc(sizeof *arm);
    pl_copy_text(arm->name, sizeof arm->name, "mix");
    arm->shape = tiny_shape(2);
    arm->spec = (pl_topology_spec){.n_levels = 2, .experts = {2, 2}, .replicas = 1};
    arm->inner = (pl_inner){.batch = 2, .context = 16, .tau = 10, .phases = 3};
    tiny_shards(arm, 4);
    pl_hash_of("blob", "m", 1, &blob);
    assert_int_equal(plan_add_arm(&h->tasks, arm, &blob), PL_OK);
    pl_free(arm);
    pl_copy_text(path, PL_MODULE_NAME_MAX, h->tasks.arms[0].paths[0].name);
}

/* The record of an audit at a home has only hashes of the results that an earlier hub
 * received. A third result could not be compared with the second by a hash. So after a
 * restart the hub drops the second result, and asks the homes for the hashes of the
 * first result's updates before it leases the audit. */
static void a_hub_that_starts_again_asks_for_what_the_first_made(void **state)
{
    fixture *f = *state;
    pl_audit row = f->audit.row;
    pl_buf text = {0}, body = {0};
    pl_reader r;
    char texts[PL_WIRE_BODY_MAX];
    know_an_arm(&f->h, row.path);
    row.n = 2;
    pl_copy_text(row.results[1].worker, sizeof row.results[1].worker, "other");
    pl_copy_text(row.results[1].device, sizeof row.results[1].device, "ref");
    pl_hash_of("audit", "y", 1, &row.results[1].digest);
    row.results[1].apart[0] = 0.9;
    pl_audit_write(&row, &text);
    pl_put_text(&body, PL_TAG_TEXT, pl_buf_text(&text));
    pl_put_u64(&body, PL_TAG_AUDIT, 1);
    pl_reader_open(&r, "a record", body.data, body.len);
    r.texts = texts;
    f->h.audits = NULL;
    f->h.n_audits = 0;
    assert_int_equal(hub_take_audit_record(&f->h, 0, &r), PL_OK);
    assert_int_equal(f->h.n_audits, 1);
    assert_int_equal(f->h.audits[0].row.n, 1);
    assert_true(pl_hash_none(&f->h.audits[0].row.results[0].digest));
    assert_null(hub_find_audit(&f->h, THIRD, NOW));
    pl_buf_destroy(&text);
    pl_buf_destroy(&body);
    hub_clear_audits(&f->h);
    plan_clear(&f->h.tasks);
}

/* ---- a task that two workers did in parts ---- */
static hub_audit *open_row(fixture *f)
{
    pl_audit row = f->audit.row;
    pl_buf text = {0}, body = {0};
    pl_reader r;
    char texts[PL_WIRE_BODY_MAX];
    know_an_arm(&f->h, row.path);
    row.seed = 0; /* only hashes are compared */
    pl_audit_write(&row, &text);
    pl_put_text(&body, PL_TAG_TEXT, pl_buf_text(&text));
    pl_put_u64(&body, PL_TAG_AUDIT, 1);
    pl_reader_open(&r, "a record", body.data, body.len);
    r.texts = texts;
    f->h.audits = NULL;
    f->h.n_audits = 0;
    assert_int_equal(hub_take_audit_record(&f->h, 0, &r), PL_OK);
    pl_buf_destroy(&text);
    pl_buf_destroy(&body);
    return &f->h.audits[0];
}

static pl_hash update_of(int slot, bool wrong)
{
    pl_hash hash;
    const int bytes[2] = {slot, wrong};
    pl_hash_of("blob", bytes, sizeof bytes, &hash);
    return hash;
}

/* Tells the hub which updates the homes have accepted. The update of slot 1 came from
 * worker `same`, all others from `first`. The update of slot `lie` is wrong (-1: no
 * update is wrong). */
static void hear_updates(fixture *f, hub_audit *a, int lie)
{
    for (int slot = 0; slot < a->n_slots; slot++) {
        pl_message m;
        pl_hash hash = update_of(slot, slot == lie);
        pl_message_init(&m, PL_MSG_UPDATE_IS);
        a->requests[slot] = m.request = 100 + (uint64_t)slot;
        pl_put_text(&m.body, PL_TAG_NAME, slot == 1 ? "same" : "first");
        pl_put_text(&m.body, PL_TAG_DEVICE, "cpu");
        if (!pl_pubkey_none(&f->sender_key))
            pl_put_bytes(&m.body, PL_TAG_KEY, f->sender_key.bytes, PL_PUBKEY_BYTES);
        pl_put_hash(&m.body, PL_TAG_BLOB, &hash);
        assert_int_equal(hub_hear_update(&f->h, &m), PL_OK);
        pl_message_destroy(&m);
    }
}

static void do_again(fixture *f, hub_audit *a, int worker)
{
    pl_message m;
    pl_message_init(&m, PL_MSG_DONE);
    for (int slot = 0; slot < a->n_slots; slot++) {
        pl_hash hash = update_of(slot, false);
        pl_put_hash(&m.body, PL_TAG_BLOB, &hash);
    }
    pl_put_hash(&m.body, PL_TAG_BLOB, &a->row.after);
    hub_grant_audit(&f->h, a, worker, NOW);
    assert_int_equal(hub_audit_done(&f->h, a, worker, &m), PL_OK);
    pl_message_destroy(&m);
}

static void liar_is_found(fixture *f, int lie, const char *liar)
{
    hub_home home = {0};
    assert_int_equal(pl_wire_connect("tcp://127.0.0.1:1", &home.socket), PL_OK);
    f->h.homes = &home;
    f->h.n_homes = 1;
    for (int i = 0; i < N_WORKERS; i++)
        pl_copy_text(f->workers[i].device, sizeof f->workers[i].device, "cpu");
    hub_audit *a = open_row(f);
    hear_updates(f, a, lie);
    assert_int_equal(a->row.verdict, PL_VERDICT_OPEN);
    assert_null(hub_find_audit(&f->h, FIRST, NOW)); /* FIRST made a part of the task */
    assert_null(hub_find_audit(&f->h, SAME, NOW));
    assert_ptr_equal(hub_find_audit(&f->h, OTHER, NOW), a);
    do_again(f, a, OTHER);
    assert_int_equal(a->row.verdict, lie < 0 ? PL_VERDICT_AGREED : PL_VERDICT_OPEN);
    if (lie >= 0) {
        do_again(f, a, THIRD);
        assert_int_equal(a->row.verdict, PL_VERDICT_SETTLED);
        assert_int_equal(f->h.n_fenced, 1);
        assert_string_equal(f->h.fenced[0].name, liar);
        f->fenced_key = f->h.fenced[0].key;
        for (int i = 0; i < 2; i++)
            if (f->later[i])
                hub_mark_fenced(&f->h, f->later[i]);
    }
    hub_clear_audits(&f->h);
    plan_clear(&f->h.tasks);
    pl_wire_close(&home.socket);
}

static void of_several_senders_the_one_that_lied_is_fenced(void **state)
{
    liar_is_found(*state, 1, "same");
}

static void of_several_senders_the_other_one_is_fenced_for_its_own_lie(void **state)
{
    liar_is_found(*state, 0, "first");
}

static void several_honest_senders_agree(void **state)
{
    liar_is_found(*state, -1, "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static void a_liar_is_fenced_by_the_key_of_its_lease(void **state)
{
    fixture *f = *state;
    memset(f->sender_key.bytes, 7, PL_PUBKEY_BYTES);
    f->workers[FIRST].key = f->sender_key;
    f->workers[FIRST].own_key = false;
    liar_is_found(f, 0, "first");
    assert_true(pl_pubkey_equal(&f->fenced_key, &f->sender_key));
    assert_true(f->workers[FIRST].fenced[0]);
}

static void an_heir_of_a_liars_name_is_not_fenced(void **state)
{
    fixture *f = *state;
    char text[PL_PUBKEY_TEXT];
    memset(f->sender_key.bytes, 7, PL_PUBKEY_BYTES);
    memset(f->workers[FIRST].key.bytes, 9, PL_PUBKEY_BYTES);
    f->workers[FIRST].own_key = false;
    pl_pubkey_format(&f->sender_key, text);
    liar_is_found(f, 0, text);
    assert_true(pl_pubkey_equal(&f->fenced_key, &f->sender_key));
    assert_false(f->workers[FIRST].fenced[0]);
}

static void a_key_that_gets_a_liars_name_later_is_not_fenced(void **state)
{
    fixture *f = *state;
    hub_worker heir = {.name = "first"}, again = {.name = "again"};
    memset(f->sender_key.bytes, 7, PL_PUBKEY_BYTES);
    memset(heir.key.bytes, 9, PL_PUBKEY_BYTES);
    f->workers[FIRST].key = again.key = f->sender_key;
    f->workers[FIRST].own_key = false;
    f->later[0] = &heir;
    f->later[1] = &again;
    liar_is_found(f, 0, "first");
    assert_false(heir.fenced[0]);
    assert_true(again.fenced[0]);
}

static void a_key_does_not_audit_its_own_results(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < N_WORKERS; i++) {
        f->workers[i].own_key = false;
        memset(f->workers[i].key.bytes, 1 + i, PL_PUBKEY_BYTES);
    }
    assert_ptr_equal(hub_find_audit(&f->h, SAME, NOW), &f->audit);
    f->audit.row.results[0].key = f->workers[SAME].key;
    assert_null(hub_find_audit(&f->h, SAME, NOW));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_of_its_kind_comes_first),
        TEST(another_kind_does_it_where_there_is_none),
        TEST(third_is_neither_of_the_two),
        TEST(without_distances_other_kinds_are_not_asked),
        TEST(those_who_join_judge_nobody_where_own_workers_are),
        TEST(those_who_deliver_judge_before_others_of_its_kind),
        TEST(own_worker_that_sent_some_of_it_is_a_third),
        TEST(a_hub_that_starts_again_asks_for_what_the_first_made),
        TEST(of_several_senders_the_one_that_lied_is_fenced),
        TEST(of_several_senders_the_other_one_is_fenced_for_its_own_lie),
        TEST(a_liar_is_fenced_by_the_key_of_its_lease),
        TEST(an_heir_of_a_liars_name_is_not_fenced),
        TEST(a_key_that_gets_a_liars_name_later_is_not_fenced),
        TEST(a_key_does_not_audit_its_own_results),
        TEST(several_honest_senders_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
