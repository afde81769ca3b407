/* folder: workers; label: unit
 *
 * Tests how the hub audits a task: which workers repeat it, what the verdict is if
 * parts of the result came from several workers and kinds of devices, who is fenced,
 * and in which order the homes hear of it. */
#include "net/net.h"
#include "tests/support/tiny_arm.h"
#include "workers/hub_internal.h"
#include "tests/support/suite.h"

enum { NOW = 50000, FIRST = 0, SAME, OTHER, THIRD, GUEST, N_WORKERS };

typedef struct fixture {
    hub h;
    pl_hub_options options;
    hub_worker workers[N_WORKERS];
    hub_home homes[2];
    hub_audit *audit;
    int64_t now;
    pl_pubkey sender_key; /* the key in the leases of the updates */
    pl_pubkey fenced_key; /* the key that was fenced; set by liar_is_found */
    hub_worker *later[2]; /* NULL, or workers that join after a worker was fenced */
} fixture;

static void know_an_arm(hub *h, char path[PL_MODULE_NAME_MAX])
{
    pl_hash blob;
    OWNED(free_memory) pl_arm *arm = pl_alloc(sizeof *arm);
    tiny_arm(arm, 2, 2, 2, 3);
    arm->inner.tau = 10;
    pl_hash_of("blob", "m", 1, &blob);
    assert_ok(plan_add_arm(&h->tasks, arm, &blob));
    pl_copy_text(path, PL_MODULE_NAME_MAX, h->tasks.arms[0].paths[0].name);
}

/* The hub hears of the open row of path 0, phase 0, whose state FIRST sent. */
static void hear_row(fixture *f, const char *device, int64_t tries)
{
    pl_audit row = {.tries = tries, .n = 1};
    OWNED(pl_buf_destroy) pl_buf text = {0}, body = {0};
    pl_reader r;
    char texts[PL_WIRE_BODY_MAX];
    pl_copy_text(row.path, sizeof row.path, f->h.tasks.arms[0].paths[0].name);
    pl_copy_text(row.results[0].worker, sizeof row.results[0].worker, "first");
    pl_copy_text(row.results[0].device, sizeof row.results[0].device, device);
    row.results[0].key = f->sender_key;
    pl_hash_of("blob", "after", 5, &row.after);
    pl_audit_write(&row, &text);
    pl_put_text(&body, PL_TAG_TEXT, pl_buf_text(&text));
    pl_put_u64(&body, PL_TAG_AUDIT, 1);
    pl_reader_open(&r, "a record", body.data, body.len);
    r.texts = texts;
    assert_ok(hub_take_audit_record(&f->h, 0, &r, false));
    f->audit = &f->h.audits[f->h.n_audits - 1];
}

static int setup(void **state)
{
    static const char *const names[] = {"first", "same", "other", "third", "guest"};
    static const char *const kinds[] = {"cpu", "cpu", "ref", "ref", "cpu"};
    fixture *f = pl_alloc(sizeof *f);
    char path[PL_MODULE_NAME_MAX];
    f->now = NOW;
    f->options = (pl_hub_options){.ttl_ms = 1000, .audits = true};
    f->h.options = &f->options;
    f->h.workers = f->workers;
    f->h.n_workers = N_WORKERS;
    f->h.worker_names = pl_name_table_create();
    f->h.homes = f->homes;
    f->h.n_homes = 2;
    f->h.tasks.audits = true;
    for (int i = 0; i < 2; i++)
        assert_ok(pl_wire_connect("tcp://127.0.0.1:1", &f->homes[i].socket));
    for (int i = 0; i < N_WORKERS; i++) {
        pl_copy_text(f->workers[i].name, sizeof f->workers[i].name, names[i]);
        pl_copy_text(f->workers[i].device, sizeof f->workers[i].device, kinds[i]);
        f->workers[i].seen_ms = NOW + 4000;
        f->workers[i].own_key = i != GUEST;
        pl_name_table_put(f->h.worker_names, names[i], i);
    }
    memset(f->workers[GUEST].key.bytes, 5, PL_PUBKEY_BYTES);
    know_an_arm(&f->h, path);
    hear_row(f, "cpu", 1);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    OWNED(free_memory) fixture *f = *state;
    hub_clear_audits(&f->h);
    plan_clear(&f->h.tasks);
    for (int i = 0; i < 2; i++)
        pl_wire_close(&f->homes[i].socket);
    pl_name_table_destroy(&f->h.worker_names);
    return 0;
}

static void know_homes(fixture *f)
{
    for (int i = 0; i < 2; i++)
        f->homes[i].known = f->homes[i].welcome = true;
}

static pl_hash update_of(int slot, int wrong)
{
    pl_hash hash;
    const int bytes[2] = {slot, wrong};
    pl_hash_of("blob", bytes, sizeof bytes, &hash);
    return hash;
}

/* Tells the hub that a home has accepted the update of a slot. */
static void hear_update(fixture *f, int slot, const char *worker, const char *device,
                        bool lie)
{
    OWNED(pl_message_destroy) pl_message m;
    pl_hash hash = update_of(slot, lie);
    pl_message_init(&m, PL_MSG_UPDATE_IS);
    f->audit->parts[slot].request = m.request = 100 + (uint64_t)slot;
    pl_put_text(&m.body, PL_TAG_NAME, worker);
    pl_put_text(&m.body, PL_TAG_DEVICE, device);
    if (!pl_pubkey_none(&f->sender_key))
        pl_put_bytes(&m.body, PL_TAG_KEY, f->sender_key.bytes, PL_PUBKEY_BYTES);
    pl_put_hash(&m.body, PL_TAG_BLOB, &hash);
    assert_ok(hub_hear_update(&f->h, &m));
}

/* All updates came from FIRST; that of slot `lie` is wrong (-1: none). */
static void hear_updates(fixture *f, int lie)
{
    for (int slot = 0; slot < f->audit->n_parts - 1; slot++)
        hear_update(f, slot, "first", "cpu", slot == lie);
}

static bool is_asked(fixture *f, int worker)
{
    f->now += 200; /* the hub looks for judges only every 200 ms */
    return hub_find_audit(&f->h, worker, f->now) == f->audit;
}

/* The worker repeats the task; its update of slot `wrong` has a fault (-1: none). */
static void do_again(fixture *f, int worker, int wrong, int fault)
{
    hub_audit *a = f->audit;
    OWNED(pl_message_destroy) pl_message m;
    pl_message_init(&m, PL_MSG_DONE);
    for (int slot = 0; slot < a->n_parts - 1; slot++) {
        pl_hash hash = update_of(slot, slot == wrong ? fault : 0);
        pl_put_hash(&m.body, PL_TAG_BLOB, &hash);
    }
    pl_put_hash(&m.body, PL_TAG_BLOB, &a->row.after);
    assert_true(is_asked(f, worker));
    hub_grant_audit(&f->h, a, worker, f->now);
    assert_ok(hub_audit_done(&f->h, a, worker, &m));
}

static void expect(const fixture *f, pl_verdict verdict)
{
    assert_int_equal(f->audit->row.verdict, verdict);
}

#define FIXTURE_TEST(name) PL_TEST_ON(name, fixture *f, setup, teardown)

/* ---- judges ---- */
FIXTURE_TEST(own_worker_of_the_senders_kind_judges)
{
    assert_false(is_asked(f, SAME)); /* the homes have not said the updates yet */
    hear_updates(f, -1);
    assert_true(is_asked(f, SAME));
    assert_false(is_asked(f, OTHER)); /* it rounds differently */
    assert_false(is_asked(f, GUEST)); /* it may belong to the sender */
    assert_false(is_asked(f, FIRST)); /* the result is its own */
    do_again(f, SAME, -1, 0);
    expect(f, PL_VERDICT_AGREED);
    assert_int_equal(f->h.n_fenced, 0);
}

FIXTURE_TEST(guests_never_judge)
{
    hear_updates(f, -1);
    f->workers[FIRST].own_key = f->workers[SAME].own_key = false;
    f->workers[GUEST].n_results = 1;
    for (int i = 0; i < N_WORKERS; i++)
        assert_false(is_asked(f, i));
    expect(f, PL_VERDICT_OPEN); /* it waits */
}

FIXTURE_TEST(worker_judges_itself_only_if_it_is_alone)
{
    hear_updates(f, -1);
    f->workers[SAME].drains = true;
    assert_true(is_asked(f, FIRST));
    f->workers[SAME].drains = false;
    assert_false(is_asked(f, FIRST));
    pl_copy_text(f->workers[SAME].fenced, PL_FENCED_TEXT_MAX, "it lied");
    assert_true(is_asked(f, FIRST));
    assert_false(is_asked(f, SAME));
}

FIXTURE_TEST(only_own_worker_judges_what_it_did_not_send)
{
    f->workers[FIRST].own_key = false; /* the liar */
    for (int slot = 0; slot < f->audit->n_parts - 1; slot++)
        hear_update(f, slot, slot == 1 ? "same" : "first", "cpu", slot == 0);
    do_again(f, SAME, -1, 0);
    do_again(f, SAME, -1, 0);
    expect(f, PL_VERDICT_ODD);
    assert_string_equal(f->audit->row.odd, "first");
    assert_int_equal(f->h.n_fenced, 1);
}

FIXTURE_TEST(second_judge_is_another_one)
{
    hear_updates(f, 2);
    do_again(f, SAME, -1, 0);
    expect(f, PL_VERDICT_OPEN);
    assert_true(is_asked(f, FIRST)); /* it is the sender, but SAME has judged already */
    assert_false(is_asked(f, SAME));
    do_again(f, FIRST, -1, 0);
    expect(f, PL_VERDICT_ODD);
}

/* ---- verdicts ---- */
FIXTURE_TEST(part_is_judged_on_its_senders_kind)
{
    /* FIRST sent a false update and left; OTHER, on another kind, did the rest. */
    hub_clear_audits(&f->h);
    hear_row(f, "ref", 1);
    pl_copy_text(f->audit->parts[f->audit->n_parts - 1].from.worker, PL_TEXT_MAX,
                 "other");
    for (int slot = 0; slot < f->audit->n_parts - 1; slot++)
        hear_update(f, slot, slot == 0 ? "first" : "other", slot == 0 ? "cpu" : "ref",
                    slot == 0);
    int n = 0;
    for (; f->audit->row.verdict == PL_VERDICT_OPEN && n < 6; n++)
        for (int w = 0; w < N_WORKERS; w++)
            if (is_asked(f, w)) {
                do_again(f, w, -1, 0);
                break;
            }
    expect(f, PL_VERDICT_ODD);
    assert_int_equal(f->h.n_fenced, 1);
    assert_string_equal(f->h.fenced[0].name, "first");
}

FIXTURE_TEST(results_of_different_kinds_are_not_compared)
{
    for (int slot = 0; slot < f->audit->n_parts - 1; slot++)
        hear_update(f, slot, "first", slot == 0 ? "ref" : "cpu", slot == 0);
    do_again(f, OTHER, 0, 1); /* a `ref` makes what looks like a lie on a `cpu` */
    expect(f, PL_VERDICT_OPEN);
    do_again(f, SAME, -1, 0);
    expect(f, PL_VERDICT_AGREED);
    assert_int_equal(f->h.n_fenced, 0);
}

FIXTURE_TEST(judge_with_a_fault_is_named_and_the_result_counts)
{
    hear_updates(f, -1);
    do_again(f, SAME, 1, 1);
    do_again(f, FIRST, -1, 0);
    expect(f, PL_VERDICT_AGREED);
    assert_string_equal(f->audit->row.odd, "same");
    assert_int_equal(f->h.n_fenced, 1);
    assert_string_equal(f->h.fenced[0].name, "same");
}

FIXTURE_TEST(repetitions_that_differ_drop_the_result)
{
    plan_path *path = &f->h.tasks.arms[0].paths[0];
    for (int i = 1; i <= 3; i++) {
        hub_clear_audits(&f->h);
        hear_row(f, "cpu", i);
        hear_updates(f, 0);
        do_again(f, SAME, 0, 2);
        do_again(f, FIRST, 0, 3);
        expect(f, PL_VERDICT_UNDECIDED);
        assert_int_equal(f->h.n_fenced, 0);
        assert_int_equal(f->h.failure[0] != '\0', i == 3);
    }
    assert_int_equal(path->n_undecided, 3);
    assert_non_null(strstr(f->h.failure, path->name));
}

FIXTURE_TEST(missing_update_drops_the_result)
{
    know_homes(f);
    hear_update(f, 0, "first", "cpu", false);
    for (int i = 0; i < 12; i++) {
        expect(f, PL_VERDICT_OPEN);
        f->now += 1001;
        assert_ok(hub_tend_audits(&f->h, f->now));
        hub_hear_no_update(&f->h, f->audit->parts[1].request);
    }
    expect(f, PL_VERDICT_UNDECIDED);
}

/* Its home has much to do: each answer comes after the question was repeated. */
FIXTURE_TEST(late_answers_of_a_home_count)
{
    know_homes(f);
    f->now += 1001;
    assert_ok(hub_tend_audits(&f->h, f->now));
    const uint64_t asked = f->audit->parts[0].request;
    assert_true(asked != 0);
    for (int i = 0; i < 20; i++) {
        f->now += 1001;
        assert_ok(hub_tend_audits(&f->h, f->now));
    }
    assert_int_equal(f->audit->parts[0].request, asked);
    expect(f, PL_VERDICT_OPEN);
    hear_updates(f, 0);
    do_again(f, SAME, -1, 0);
    do_again(f, FIRST, -1, 0);
    expect(f, PL_VERDICT_ODD);
    uint64_t ordered = 0;
    for (int i = 0; i < 3; i++) {
        f->now += 1001;
        assert_ok(hub_tend_audits(&f->h, f->now));
        ordered = ordered == 0 ? f->audit->drops[0] : ordered;
    }
    hub_hear_ok(&f->h, 0, ordered);
    assert_true(f->audit->dropped[0]);
}

FIXTURE_TEST(homes_drop_before_the_verdict_is_stored)
{
    hear_updates(f, 0);
    do_again(f, SAME, -1, 0);
    do_again(f, FIRST, -1, 0);
    expect(f, PL_VERDICT_ODD);
    f->now += 1001;
    assert_ok(hub_tend_audits(&f->h, f->now));
    assert_true(f->audit->drops[0] != 0 && f->audit->drops[1] != 0);
    assert_true(f->audit->drop_token > f->audit->lease.token);
    const uint64_t first = f->audit->drops[0];
    hub_hear_ok(&f->h, 1, first); /* the answer of a home to another one's order */
    assert_false(f->audit->dropped[0] || f->audit->dropped[1]);
    hub_hear_ok(&f->h, 0, first);
    assert_true(f->audit->dropped[0] && !f->audit->dropped[1]);
    f->now += 1001;
    assert_ok(hub_tend_audits(&f->h, f->now));
    assert_int_equal(f->audit->drops[0], first); /* it is not told again */
    hub_hear_ok(&f->h, 1, f->audit->drops[1]);
    assert_true(f->audit->dropped[1]);
}

FIXTURE_TEST(retried_task_has_a_new_audit)
{
    hear_updates(f, 0);
    do_again(f, SAME, -1, 0);
    do_again(f, FIRST, -1, 0);
    expect(f, PL_VERDICT_ODD);
    hear_row(f, "cpu", 1); /* an old list of the home */
    assert_int_equal(f->h.n_audits, 1);
    hear_row(f, "cpu", 2);
    assert_int_equal(f->h.n_audits, 2);
    assert_int_equal(f->h.audits[1].row.verdict, PL_VERDICT_OPEN);
}

/* ---- kinds of devices ---- */
FIXTURE_TEST(kind_without_an_own_worker_gets_no_task)
{
    hub_worker *guest = &f->workers[GUEST];
    char text[HUB_WITHHELD_TEXT_MAX];
    assert_true(hub_admits_device(&f->h, guest, f->now));
    pl_copy_text(guest->device, sizeof guest->device, "invented");
    assert_false(hub_admits_device(&f->h, guest, f->now));
    guest->unchecked = true;
    assert_non_null(strstr(hub_withheld_text(&f->h, guest, text), "fleet.devices"));
    f->options.devices = "cuda, invented ,other";
    assert_true(hub_admits_device(&f->h, guest, f->now));
    pl_copy_text(guest->device, sizeof guest->device, "invent");
    assert_false(hub_admits_device(&f->h, guest, f->now));
    guest->device[0] = '\0';
    assert_false(hub_admits_device(&f->h, guest, f->now));
    f->h.tasks.audits = false; /* without audits every kind is welcome */
    assert_true(hub_admits_device(&f->h, guest, f->now));
}

FIXTURE_TEST(listed_kind_counts_as_unchecked)
{
    f->options.devices = "invented";
    for (int slot = 0; slot < f->audit->n_parts - 1; slot++)
        hear_update(f, slot, "first", slot == 0 ? "invented" : "cpu", false);
    expect(f, PL_VERDICT_OPEN);
    do_again(f, SAME, -1, 0); /* what can be checked is checked */
    expect(f, PL_VERDICT_UNCHECKED);
    hub_clear_audits(&f->h);
    hear_row(f, "invented", 1);
    for (int slot = 0; slot < f->audit->n_parts - 1; slot++)
        hear_update(f, slot, "first", "invented", false);
    expect(f, PL_VERDICT_UNCHECKED);
}

static void let_pass(fixture *f, int seconds)
{
    know_homes(f);
    for (int i = 0; i < seconds; i++)
        assert_ok(hub_tend_audits(&f->h, f->now += 1001));
}

/* The job's own workers of the kind leave or die after the first repetition. */
FIXTURE_TEST(result_of_a_listed_kind_that_differs_never_counts)
{
    f->options.devices = "cpu";
    for (int left = 0; left < 2; left++) {
        hub_clear_audits(&f->h);
        hear_row(f, "cpu", 1 + left);
        hear_updates(f, 0);
        f->workers[FIRST].left = f->workers[SAME].left = false;
        f->workers[FIRST].seen_ms = f->workers[SAME].seen_ms = f->now;
        do_again(f, SAME, -1, 0);
        f->workers[FIRST].left = f->workers[SAME].left = left;
        let_pass(f, 2);
        expect(f, PL_VERDICT_OPEN);
        let_pass(f, 20);
        expect(f, PL_VERDICT_UNDECIDED);
    }
    assert_int_equal(f->h.tasks.arms[0].paths[0].n_undecided, 0);
}

FIXTURE_TEST(wait_for_one_kind_hides_no_difference_on_another)
{
    f->options.devices = "cpu";
    for (int slot = 0; slot < f->audit->n_parts - 1; slot++)
        hear_update(f, slot, "first", slot == 0 ? "ref" : "cpu", slot == 0);
    do_again(f, OTHER, 0, 2);
    do_again(f, THIRD, 0, 3);
    let_pass(f, 20);
    expect(f, PL_VERDICT_UNDECIDED);
}

/* It asks before the hub looks the next time, and the first repetition begins. */
FIXTURE_TEST(wait_ends_when_a_judge_gets_the_task)
{
    hear_updates(f, 0);
    f->workers[FIRST].left = f->workers[SAME].left = true;
    let_pass(f, 2);
    assert_true(f->audit->lacks_ms > 0);
    f->workers[FIRST].left = f->workers[SAME].left = false;
    assert_true(is_asked(f, SAME));
    hub_grant_audit(&f->h, f->audit, SAME, f->now);
    assert_int_equal(f->audit->lacks_ms, 0);
    hub_audit_release(&f->h, f->audit, NULL);
    do_again(f, SAME, 0, 2);
    do_again(f, FIRST, 0, 3);
    expect(f, PL_VERDICT_UNDECIDED);
    assert_int_equal(f->h.tasks.arms[0].paths[0].n_undecided, 1);
}

/* The only own worker of a kind has gone, and a task of this kind was drawn. */
FIXTURE_TEST(task_that_nobody_can_check_is_done_by_another_kind)
{
    OWNED(pl_json_destroy) pl_json *o = pl_json_object();
    char text[HUB_WITHHELD_TEXT_MAX];
    know_homes(f);
    hear_updates(f, -1);
    f->workers[FIRST].left = true;
    f->workers[SAME].seen_ms = f->now - 3 * f->options.ttl_ms - 3000; /* it died */
    f->h.tasks.arms[0].own_s = 1;
    const int64_t gone = f->now += 1001;
    assert_ok(hub_tend_audits(&f->h, f->now));
    hub_audit_json(&f->h, o); /* the user is told */
    const pl_json *waiting = pl_json_get(o, "audits_waiting");
    assert_int_equal(pl_json_count(waiting), 1);
    assert_string_equal(pl_json_get_text(pl_json_at(waiting, 0), "task"),
                        f->audit->row.path);
    assert_string_equal(pl_json_get_text(pl_json_at(waiting, 0), "device"), "cpu");
    /* 20 usual times of a task, and 10 times the lifetime of a lease */
    for (int64_t at = gone; at <= gone + 31002; at += 1001) {
        expect(f, PL_VERDICT_OPEN);
        assert_true(hub_admits_device(&f->h, &f->workers[GUEST], f->now));
        f->workers[OTHER].seen_ms = f->workers[THIRD].seen_ms = f->now;
        assert_ok(hub_tend_audits(&f->h, f->now = at));
    }
    expect(f, PL_VERDICT_UNDECIDED);
    assert_non_null(strstr(f->audit->row.reason, "with the device cpu came for"));
    /* this says nothing about the repetitions of the path's tasks */
    assert_int_equal(f->h.tasks.arms[0].paths[0].n_undecided, 0);
    /* this kind gets no task, so that the result is not dropped again */
    assert_false(hub_admits_device(&f->h, &f->workers[GUEST], f->now));
    f->workers[GUEST].unchecked = true;
    assert_non_null(strstr(hub_withheld_text(&f->h, &f->workers[GUEST], text), "cpu"));
    hub_worker *same = &f->workers[SAME];
    same->seen_ms = f->now + 1; /* it is back, but must not repeat a task */
    same->drains = true;
    assert_false(hub_admits_device(&f->h, &f->workers[GUEST], f->now));
    same->drains = false;
    same->barred_until_ms = f->now + 1;
    assert_false(hub_admits_device(&f->h, &f->workers[GUEST], f->now));
    same->barred_until_ms = f->now;
    assert_true(hub_admits_device(&f->h, &f->workers[GUEST], f->now));
}

FIXTURE_TEST(judge_that_comes_back_ends_the_wait)
{
    know_homes(f);
    hear_updates(f, -1);
    f->workers[FIRST].left = f->workers[SAME].left = true;
    for (int i = 0; i < 20; i++) {
        f->now += 1001;
        f->workers[SAME].left = i != 7;
        f->workers[SAME].seen_ms = f->now;
        assert_ok(hub_tend_audits(&f->h, f->now));
        assert_int_equal(f->audit->lacks_ms == 0, i == 7);
        if (i < 17) /* ten lifetimes of a lease after it left again */
            expect(f, PL_VERDICT_OPEN);
    }
    expect(f, PL_VERDICT_UNDECIDED);
}

/* ---- who is fenced ---- */
static void liar_is_found(fixture *f, int lie, const char *liar)
{
    hub_clear_audits(&f->h);
    hear_row(f, "cpu", 1);
    hear_updates(f, lie);
    do_again(f, SAME, -1, 0);
    do_again(f, f->workers[FIRST].own_key ? FIRST : SAME, -1, 0);
    expect(f, PL_VERDICT_ODD);
    assert_int_equal(f->h.n_fenced, 1);
    assert_string_equal(f->h.fenced[0].name, liar);
    f->fenced_key = f->h.fenced[0].key;
    for (int i = 0; i < 2; i++)
        if (f->later[i])
            hub_mark_fenced(&f->h, f->later[i]);
}

FIXTURE_TEST(a_liar_is_fenced_by_the_key_of_its_lease)
{
    memset(f->sender_key.bytes, 7, PL_PUBKEY_BYTES);
    f->workers[FIRST].key = f->sender_key;
    f->workers[FIRST].own_key = false;
    liar_is_found(f, 0, "first");
    assert_true(pl_pubkey_equal(&f->fenced_key, &f->sender_key));
    assert_true(f->workers[FIRST].fenced[0]);
}

FIXTURE_TEST(an_heir_of_a_liars_name_is_not_fenced)
{
    char text[PL_PUBKEY_TEXT];
    memset(f->sender_key.bytes, 7, PL_PUBKEY_BYTES);
    memset(f->workers[FIRST].key.bytes, 9, PL_PUBKEY_BYTES);
    f->workers[FIRST].own_key = false;
    pl_pubkey_format(&f->sender_key, text);
    liar_is_found(f, 0, text);
    assert_true(pl_pubkey_equal(&f->fenced_key, &f->sender_key));
    assert_false(f->workers[FIRST].fenced[0]);
}

FIXTURE_TEST(a_key_that_gets_a_liars_name_later_is_not_fenced)
{
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
