/* folder: home; label: integration
 *
 * Tests how a module, a path and an object move from one real home to another. Even if
 * a process is killed at any point, each name must have one owner, which has all rows
 * of the name. */
#include "tests/support/home_fixture.h"
#include "tests/support/store_fixture.h"

enum { HOMES = 2, VERSIONS = 4, FLOATS = 3000 };
static const char MODULE[] = "mix/L1.E0", PATH[] = "mix/p00.r0",
                  OBJECT[] = "shard/mix/p00", AUDIT[] = "audit/mix/p00.r0/3";

typedef struct fixture {
    char dir[64];
    child homes[HOMES];
    pl_client *client;
    int n_deaths;
    pl_hash params[VERSIONS];
} fixture;

/* The stores with which each test begins. They are made once and copied, because making
 * a store takes long. */
static fixture made;

/* Starts each home that has ended again, as a launcher does. */
static pl_status revive(void *context)
{
    fixture *f = context;
    for (int i = 0; i < HOMES; i++)
        if (f->homes[i].pid > 0 && waitpid(f->homes[i].pid, NULL, WNOHANG) > 0) {
            f->n_deaths++;
            start_child(&f->homes[i]);
        }
    return PL_OK;
}

/* ---- the data of the first home ---- */
static void put_blob(pl_txn *txn, int seed, size_t n, pl_hash *out)
{
    float *data = pl_alloc(n * sizeof *data);
    for (size_t i = 0; i < n; i++)
        data[i] = (float)seed + (float)i;
    assert_int_equal(pl_txn_put_blob(txn, data, n * sizeof *data, out), PL_OK);
    pl_free(data);
}

static void put_arm(pl_txn *txn)
{
    pl_arm arm;
    pl_buf bytes = {0};
    pl_hash blob;
    define_grid(&arm, "f32");
    pl_arm_encode(&arm, &bytes);
    assert_int_equal(pl_txn_put_blob(txn, bytes.data, bytes.len, &blob), PL_OK);
    assert_int_equal(pl_txn_put_object(txn, "arm/mix", &blob), PL_OK);
    pl_buf_destroy(&bytes);
    pl_arm_clear(&arm);
}

/* Makes a version, and keeps the update from which it was made. */
static void put_version(fixture *f, pl_txn *txn, int number)
{
    pl_contribution c = {.phase = number - 1, .path = 1, .work.loss = 1};
    pl_version v = {.number = (uint64_t)number, .n_params = FLOATS};
    pl_keep keep = {.updates = true, .momentum = true};
    pl_copy_text(v.module, sizeof v.module, MODULE);
    pl_copy_text(v.method, sizeof v.method, "init");
    put_blob(txn, number, FLOATS, &v.params);
    f->params[number] = v.params;
    if (number > 0) {
        v.parent = f->params[number - 1];
        put_blob(txn, 100 + number, FLOATS, &v.momentum);
        put_blob(txn, 200 + number, 100, &c.update);
        assert_int_equal(pl_txn_put_pending(txn, MODULE, &c), PL_OK);
        v.contributions = &c;
        v.n_contributions = 1;
    }
    assert_int_equal(pl_txn_put_version(txn, &v, keep), PL_OK);
}

static void make_store(const char *folder, pl_store **out)
{
    pl_txn *txn = NULL;
    assert_int_equal(pl_store_open(folder, PL_STORE_CREATE, out), PL_OK);
    assert_int_equal(pl_txn_begin(*out, &txn), PL_OK);
    put_arm(txn);
    assert_int_equal(pl_txn_commit(&txn), PL_OK);
}

static void fill(fixture *f)
{
    pl_store *store = NULL;
    pl_txn *txn = NULL;
    pl_hash blob;
    pl_path_state path = {.phase = 3, .work.n_samples = 12, .work.loss = 2};
    pl_contribution waits = {.phase = VERSIONS - 1, .path = 1, .work.loss = 1};
    make_store(f->homes[1].target, &store);
    pl_store_close(&store);
    make_store(f->homes[0].target, &store);
    for (int n = 0; n < VERSIONS; n++) {
        assert_int_equal(pl_txn_begin(store, &txn), PL_OK);
        put_version(f, txn, n);
        assert_int_equal(pl_txn_commit(&txn), PL_OK);
    }
    assert_int_equal(pl_txn_begin(store, &txn), PL_OK);
    put_blob(txn, 300, 100, &waits.update);
    assert_int_equal(pl_txn_put_pending(txn, MODULE, &waits), PL_OK);
    pl_copy_text(path.name, sizeof path.name, PATH);
    put_blob(txn, 400, 2 * FLOATS, &path.moments);
    assert_int_equal(pl_txn_put_path(txn, &path), PL_OK);
    put_blob(txn, 500, 700000, &blob); /* a blob of several pieces */
    assert_int_equal(pl_txn_put_object(txn, OBJECT, &blob), PL_OK);
    assert_int_equal(pl_txn_commit(&txn), PL_OK);
    pl_store_close(&store);
}

static void connect_client(fixture *f)
{
    const char *homes[HOMES] = {f->homes[0].address, f->homes[1].address};
    pl_places all_in_first;
    assert_int_equal(pl_places_parse("0 1 0", &all_in_first), PL_OK);
    pl_client_options options = {.homes = homes,
                                 .n_homes = HOMES,
                                 .places = &all_in_first,
                                 .patience_ms = 30000,
                                 .idle = revive,
                                 .idle_context = f};
    assert_int_equal(pl_client_create(&options, &f->client), PL_OK);
}

static void name_homes(fixture *f)
{
    char name[] = "/tmp/pl-moving-XXXXXX";
    assert_non_null(mkdtemp(name));
    pl_copy_text(f->dir, sizeof f->dir, name);
    for (int i = 0; i < HOMES; i++) {
        char file[32];
        snprintf(file, sizeof file, "ready-%d", i + 1);
        name_child(&f->homes[i], f->dir, "home", file);
        snprintf(file, sizeof file, "home-%d", i + 1);
        pl_join(f->homes[i].target, f->dir, file);
    }
}

static int make_stores(void **state)
{
    (void)state;
    name_homes(&made);
    fill(&made);
    return 0;
}

static int drop_stores(void **state)
{
    (void)state;
    return pl_remove_tree(made.dir) == PL_OK ? 0 : -1;
}

static fixture *open_fixture(const char *first, const char *second)
{
    fixture *f = pl_alloc(sizeof *f);
    name_homes(f);
    memcpy(f->params, made.params, sizeof f->params);
    for (int i = 0; i < HOMES; i++)
        copy_folder(made.homes[i].target, f->homes[i].target, NULL);
    start_failing_child(&f->homes[0], first);
    start_failing_child(&f->homes[1], second);
    connect_client(f);
    return f;
}

static void close_fixture(fixture *f)
{
    pl_client_destroy(&f->client);
    for (int i = 0; i < HOMES; i++)
        kill_child(&f->homes[i], SIGTERM);
    assert_int_equal(pl_remove_tree(f->dir), PL_OK);
    pl_free(f);
}

/* ---- checks of the homes' data ---- */
typedef struct names {
    bool module, path, object, audit;
} names;

static pl_status note_name(void *context, const char *name)
{
    names *n = context;
    n->module = n->module || strcmp(name, MODULE) == 0;
    n->path = n->path || strcmp(name, PATH) == 0;
    n->object = n->object || strcmp(name, OBJECT) == 0;
    n->audit = n->audit || strcmp(name, AUDIT) == 0;
    return PL_OK;
}

static names names_of(fixture *f, int home)
{
    names n = {false, false, false, false};
    assert_int_equal(pl_client_each_name(f->client, home, note_name, &n), PL_OK);
    return n;
}

/* Checks that the client can read all data. By the client's table of places, all names
 * belong to the first home. */
static void check_all(fixture *f)
{
    pl_version_facts v;
    pl_path_state path;
    pl_buf bytes = {0};
    pl_hash blob;
    for (int n = 0; n < VERSIONS; n++) {
        assert_int_equal(pl_client_get_version(f->client, MODULE, n, &v), PL_OK);
        assert_true(pl_hash_equal(&v.params, &f->params[n]));
        assert_int_equal(pl_client_get_blob(f->client, MODULE, &v.params, &bytes),
                         PL_OK);
        pl_buf_clear(&bytes);
        if (n == 0)
            continue;
        assert_int_equal(pl_client_get_update(f->client, MODULE, n - 1, 1, 0, &blob),
                         PL_OK);
        assert_int_equal(pl_client_get_blob(f->client, MODULE, &blob, &bytes), PL_OK);
        pl_buf_clear(&bytes);
    }
    assert_int_equal(pl_client_get_update(f->client, MODULE, VERSIONS - 1, 1, 0, &blob),
                     PL_OK);
    assert_int_equal(pl_client_get_path(f->client, PATH, &path), PL_OK);
    assert_int_equal(path.phase, 3);
    assert_int_equal(pl_client_get_blob(f->client, PATH, &path.moments, &bytes), PL_OK);
    assert_int_equal(pl_client_get_object(f->client, OBJECT, &blob), PL_OK);
    assert_int_equal(pl_client_get_blob(f->client, OBJECT, &blob, &bytes), PL_OK);
    pl_buf_destroy(&bytes);
}

static void say(void *context, const char *sentence)
{
    (void)context;
    fail_msg("%s", sentence);
}

static void check_stores(fixture *f)
{
    for (int i = 0; i < HOMES; i++) {
        pl_store *store = NULL;
        pl_audit_report report;
        kill_child(&f->homes[i], SIGTERM);
        assert_int_equal(pl_store_open(f->homes[i].target, PL_STORE_READ, &store),
                         PL_OK);
        assert_int_equal(pl_store_audit(store, true, say, NULL, &report), PL_OK);
        assert_int_equal(report.n_problems, 0);
        pl_store_close(&store);
    }
}

static void move_all(fixture *f, int from, int to)
{
    pl_move_report report = {0};
    assert_int_equal(pl_move_name(f->client, MODULE, from, to, &report), PL_OK);
    assert_int_equal(pl_move_name(f->client, PATH, from, to, &report), PL_OK);
    assert_int_equal(pl_move_name(f->client, OBJECT, from, to, &report), PL_OK);
}

static void check_owner(fixture *f, int home)
{
    names in = names_of(f, home), out = names_of(f, 1 - home);
    assert_true(in.module && in.path && in.object);
    assert_false(out.module || out.path || out.object);
}

/* ---- tests ---- */
static void what_moved_is_in_its_next_home_alone_and_whole(void **state)
{
    (void)state;
    fixture *f = open_fixture("", "");
    check_all(f);
    check_owner(f, 0);
    move_all(f, 0, 1);
    check_owner(f, 1);
    check_all(f);
    move_all(f, 0, 1); /* a move that is repeated must be accepted */
    check_owner(f, 1);
    move_all(f, 1, 0);
    check_owner(f, 0);
    check_all(f);
    check_stores(f);
    close_fixture(f);
}

static void a_home_that_was_moved_from_knows_it_after_kill_9(void **state)
{
    (void)state;
    fixture *f = open_fixture("", "");
    move_all(f, 0, 1);
    for (int i = 0; i < HOMES; i++) {
        kill_child(&f->homes[i], SIGKILL);
        start_child(&f->homes[i]);
    }
    check_owner(f, 1);
    check_all(f);
    close_fixture(f);
}

static pl_status ask(fixture *f, int home, pl_message *q, pl_message *a)
{
    pl_socket *socket = NULL;
    pl_message_init(a, 0);
    q->request = pl_wire_next_request();
    assert_int_equal(pl_wire_connect(f->homes[home].address, &socket), PL_OK);
    pl_status status = pl_wire_ask(socket, q, 500, 10000, a);
    pl_wire_close(&socket);
    return status;
}

static void nothing_is_given_away_that_the_next_home_does_not_have(void **state)
{
    (void)state;
    fixture *f = open_fixture("", "");
    pl_message q, a;
    pl_hash wrong;
    pl_hash_of("mark", "x", 1, &wrong);
    pl_message_init(&q, PL_MSG_HAND_OVER);
    pl_put_text(&q.body, PL_TAG_NAME, MODULE);
    pl_put_hash(&q.body, PL_TAG_BLOB, &wrong);
    pl_put_u64(&q.body, PL_TAG_HOME, 1);
    assert_int_equal(ask(f, 0, &q, &a), PL_ERR_STALE);
    pl_message_destroy(&a);
    pl_message_destroy(&q);
    check_owner(f, 0);
    check_all(f);
    close_fixture(f);
}

static void an_owner_takes_no_rows_and_no_ownership_from_outside(void **state)
{
    (void)state;
    fixture *f = open_fixture("", "");
    pl_message q, a;
    pl_message_init(&q, PL_MSG_PUT_ROWS);
    pl_put_text(&q.body, PL_TAG_NAME, MODULE);
    pl_put_u64(&q.body, PL_TAG_HOME, 1);
    pl_put_u64(&q.body, PL_TAG_STAMP, 0);
    assert_int_equal(ask(f, 0, &q, &a), PL_ERR_STALE);
    pl_message_destroy(&a);
    pl_message_destroy(&q);
    pl_message_init(&q, PL_MSG_ADOPT);
    pl_put_text(&q.body, PL_TAG_NAME, MODULE);
    pl_put_u64(&q.body, PL_TAG_STAMP, 1);
    assert_int_equal(ask(f, 1, &q, &a), PL_ERR_STALE);
    pl_message_destroy(&a);
    pl_message_destroy(&q);
    check_owner(f, 0);
    close_fixture(f);
}

static void expect(fixture *f, int home, pl_message *q, pl_status wanted)
{
    pl_message a;
    assert_int_equal(ask(f, home, q, &a), wanted);
    pl_message_destroy(&a);
    pl_message_destroy(q);
}

/* Shows that a home becomes the owner of a name even if it already has all rows of the
 * name. The second home gets all rows, and then the name goes to a third home and back.
 * So no row differs, but the second home's note about the owner is out of date. */
static void a_home_that_has_every_row_already_still_becomes_the_owner(void **state)
{
    (void)state;
    static const char NAME[] = "router/none";
    fixture *f = open_fixture("", "");
    pl_move_report report = {0};
    pl_message q;
    pl_hash empty;
    pl_hash_of("mark", "", 0, &empty);
    pl_message_init(&q, PL_MSG_PUT_ROWS);
    pl_put_text(&q.body, PL_TAG_NAME, NAME);
    pl_put_u64(&q.body, PL_TAG_HOME, 0);
    pl_put_u64(&q.body, PL_TAG_STAMP, 0);
    expect(f, 1, &q, PL_OK);
    pl_message_init(&q, PL_MSG_HAND_OVER);
    pl_put_text(&q.body, PL_TAG_NAME, NAME);
    pl_put_hash(&q.body, PL_TAG_BLOB, &empty);
    pl_put_u64(&q.body, PL_TAG_HOME, 2);
    expect(f, 0, &q, PL_OK);
    pl_message_init(&q, PL_MSG_ADOPT);
    pl_put_text(&q.body, PL_TAG_NAME, NAME);
    pl_put_u64(&q.body, PL_TAG_STAMP, 2);
    expect(f, 0, &q, PL_OK);
    assert_int_equal(pl_move_name(f->client, NAME, 0, 1, &report), PL_OK);
    assert_int_equal(report.n_names, 1);
    close_fixture(f);
}

static void nobody_outside_writes_whose_a_name_is(void **state)
{
    (void)state;
    fixture *f = open_fixture("", "");
    assert_int_equal(pl_client_put_ref(f->client, "at/mix/L1.E0", "1 7"),
                     PL_ERR_NOPERM);
    check_owner(f, 0);
    close_fixture(f);
}

/* Shows that each name has one owner with all its rows, although a home is killed while
 * three names move. Each case kills one home at one point. */
static void a_death_at_any_point_leaves_one_owner_with_everything(void **state)
{
    (void)state;
    static const struct {
        int home;
        const char *point;
    } cases[] = {{0, "home.handover.before:kill:1"}, {0, "home.handover.after:kill:1"},
                 {0, "home.handover.after:kill:3"},  {0, "kv.commit.before:kill:2"},
                 {0, "kv.commit.after:kill:2"},      {1, "kv.commit.before:kill:2"},
                 {1, "kv.commit.after:kill:2"},      {1, "kv.commit.before:kill:3"},
                 {1, "kv.commit.after:kill:3"},      {1, "home.reply.before:kill:1"},
                 {1, "home.reply.before:kill:2"}};
    enum { N = sizeof cases / sizeof *cases };
    int deaths = 0;
    for (int i = 0; i < N; i++) {
        fixture *f = open_fixture(cases[i].home == 0 ? cases[i].point : "",
                                  cases[i].home == 1 ? cases[i].point : "");
        move_all(f, 0, 1);
        assert_int_equal(pl_client_settle_places(f->client), PL_OK);
        check_owner(f, 1);
        check_all(f);
        deaths += f->n_deaths;
        check_stores(f);
        close_fixture(f);
    }
    assert_int_equal(deaths, N);
}

/* Shows that any client can complete the move of a name if the client that began it is
 * gone. The first home has given the name away, but no home owns it yet. */
static void a_name_between_two_homes_is_adopted(void **state)
{
    (void)state;
    fixture *f = open_fixture("home.handover.after:kill:1", "");
    pl_move_report report = {0};
    pl_client *hasty = NULL;
    const char *homes[HOMES] = {f->homes[0].address, f->homes[1].address};
    pl_client_options options = {.homes = homes, .n_homes = HOMES, .patience_ms = 300};
    assert_int_equal(pl_client_create(&options, &hasty), PL_OK);
    assert_int_equal(pl_move_name(hasty, MODULE, 0, 1, &report), PL_ERR_TIMEOUT);
    pl_client_destroy(&hasty);
    assert_int_equal(revive(f), PL_OK);
    assert_false(names_of(f, 0).module);
    assert_false(names_of(f, 1).module);
    assert_int_equal(pl_client_settle_places(f->client), PL_OK);
    assert_true(names_of(f, 1).module);
    check_all(f);
    close_fixture(f);
}

static void weights_move_what_they_should_and_clients_hear_of_them(void **state)
{
    (void)state;
    fixture *f = open_fixture("", "");
    pl_places fresh, table, next;
    pl_move_report report = {0};
    pl_hash blob;
    assert_int_equal(pl_client_put_object(f->client, AUDIT, "z", 1, &blob), PL_OK);
    assert_int_equal(pl_client_begin_places(f->client, HOMES), PL_OK);
    assert_int_equal(pl_places_parse("0 0 5", &fresh), PL_OK);
    assert_int_equal(pl_move_to(f->client, &fresh, NULL, NULL, &report), PL_OK);
    assert_int_equal(fresh.epoch, 2);
    check_owner(f, 1);
    /* An object of an audit does not move: it stays with the row of the audit. */
    assert_true(names_of(f, 0).audit);
    assert_false(names_of(f, 1).audit);
    assert_int_equal(pl_client_get_places(f->client, &table, &next), PL_OK);
    assert_memory_equal(&table, &fresh, sizeof table);
    assert_memory_equal(&next, &fresh, sizeof next);
    check_all(f);
    /* New names are placed by the new table, and a client may ask any home. */
    assert_int_equal(pl_client_put_object(f->client, "router/new", "x", 1, &blob),
                     PL_OK);
    pl_client_destroy(&f->client);
    connect_client(f); /* the new client asks the first home */
    assert_int_equal(pl_client_put_object(f->client, "router/newer", "y", 1, &blob),
                     PL_OK);
    assert_int_equal(pl_client_get_object(f->client, "router/new", &blob), PL_OK);
    check_stores(f);
    pl_store *first = NULL;
    pl_object object;
    assert_int_equal(pl_store_open(f->homes[0].target, PL_STORE_READ, &first), PL_OK);
    assert_int_equal(pl_store_get_object(first, "router/newer", &object),
                     PL_ERR_NOT_FOUND);
    pl_store_close(&first);
    close_fixture(f);
}

/* Shows that while the homes are held (pl_client_hold_all) writes wait, but reads do
 * not, and that a reader of the store sees the commit that the home has named. */
static void homes_stand_still_for_a_moment(void **state)
{
    (void)state;
    enum { HOLD_MS = 800, LONG_MS = 60000 };
    fixture *f = open_fixture("", "");
    uint64_t held[HOMES], later[HOMES];
    pl_hash blob;
    pl_store *reader = NULL;
    int64_t begun = pl_now_ms();
    assert_int_equal(pl_client_hold_all(f->client, HOLD_MS, held), PL_OK);
    assert_int_equal(pl_client_get_object(f->client, OBJECT, &blob), PL_OK);
    assert_int_equal(pl_store_open(f->homes[0].target, PL_STORE_READ, &reader), PL_OK);
    assert_int_equal(pl_store_sequence(reader), held[0]);
    assert_int_equal(pl_client_put_object(f->client, "router/new", "x", 1, &blob),
                     PL_OK);
    assert_true(pl_now_ms() - begun >= HOLD_MS);
    assert_int_equal(pl_store_refresh(reader), PL_OK);
    assert_true(pl_store_sequence(reader) > held[0]);
    pl_store_close(&reader);
    /* A second call with 0 ms ends the hold. */
    begun = pl_now_ms();
    assert_int_equal(pl_client_hold_all(f->client, LONG_MS, held), PL_OK);
    assert_int_equal(pl_client_hold_all(f->client, 0, later), PL_OK);
    assert_memory_equal(held, later, sizeof held);
    assert_int_equal(pl_client_put_object(f->client, "router/newer", "y", 1, &blob),
                     PL_OK);
    assert_true(pl_now_ms() - begun < LONG_MS);
    check_stores(f);
    close_fixture(f);
}

int main(int argc, char **argv)
{
    if (argc == 7)
        return run_child(argv, (pl_home_options){.keep_updates = true});
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_moved_is_in_its_next_home_alone_and_whole),
        cmocka_unit_test(a_home_that_was_moved_from_knows_it_after_kill_9),
        cmocka_unit_test(nothing_is_given_away_that_the_next_home_does_not_have),
        cmocka_unit_test(an_owner_takes_no_rows_and_no_ownership_from_outside),
        cmocka_unit_test(a_home_that_has_every_row_already_still_becomes_the_owner),
        cmocka_unit_test(nobody_outside_writes_whose_a_name_is),
        cmocka_unit_test(a_death_at_any_point_leaves_one_owner_with_everything),
        cmocka_unit_test(a_name_between_two_homes_is_adopted),
        cmocka_unit_test(weights_move_what_they_should_and_clients_hear_of_them),
        cmocka_unit_test(homes_stand_still_for_a_moment),
    };
    return cmocka_run_group_tests(tests, make_stores, drop_stores);
}
