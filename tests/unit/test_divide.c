/* folder: home; label: integration
 *
 * Tests the copy of a store for another number of homes. Every name must be, with all
 * its records, in the one home where clients look for it. Also tests that homes can be
 * made to write nothing, so that all of them are read as they are at one moment. */
#include "tests/support/home_fixture.h"
#include "tests/support/store_fixture.h"

enum { MODULES = 6, WAITING = 1, VERSIONS = 4, MOST = 5, FLOATS = 3000 };
static const char MEETING[] = "meet/mix/L1.E0/2/1", AUDIT[] = "audit/mix/p00.r0/3",
                  FENCED[] = "fenced/mallory", EPOCH[] = "sys/hub-epoch";
static const char *const modules[MODULES] = {
    "mix/embed.E0", "mix/L1.E0", "mix/L1.E1", "mix/L2.E0", "mix/L2.E1", "mix/head.E0"};
static const char *const objects[] = {"shard/mix/p00", "shard/mix/p11", "router/mix",
                                      "curve/mix/p00"};
enum { OBJECTS = sizeof objects / sizeof *objects, STATES = 5 };

/* ---- a job with n homes ---- */
static char *home_folder(const char *folder, int home, int n, char out[PL_PATH_MAX])
{
    return n > 1 ? pl_store_part(folder, home, out) : strcpy(out, folder);
}

/* Makes a version from an update that is kept. Version 1 has lost its parameters to
 * garbage collection. */
static void put_version(pl_txn *txn, int m, int number, pl_hash *parent)
{
    const uint64_t seed = (uint64_t)(100 * m + number);
    pl_contribution c = {.phase = number - 1, .path = 1, .work.loss = 1};
    pl_version v = {.number = (uint64_t)number, .n_params = FLOATS};
    pl_copy_text(v.module, sizeof v.module, modules[m]);
    pl_copy_text(v.method, sizeof v.method, "init");
    v.params = put_bytes(txn, seed, FLOATS * sizeof(float));
    if (number > 0) {
        v.parent = *parent;
        v.momentum = put_bytes(txn, 1000 + seed, FLOATS * sizeof(float));
        c.update = put_bytes(txn, 2000 + seed, 100);
        assert_ok(pl_txn_put_pending(txn, modules[m], &c));
        v.contributions = &c;
        v.n_contributions = 1;
    }
    assert_ok(
        pl_txn_put_version(txn, &v, (pl_keep){.updates = true, .momentum = true}));
    *parent = v.params;
}

static void put_module(pl_store *store, int m)
{
    pl_contribution waits = {.phase = VERSIONS - 1, .path = 1, .work.loss = 1};
    pl_hash parent;
    for (int number = 0; number < VERSIONS; number++) {
        pl_txn *txn = begin(store);
        put_version(txn, m, number, &parent);
        assert_ok(pl_txn_commit(&txn));
    }
    pl_txn *txn = begin(store);
    assert_ok(pl_txn_drop_data(txn, modules[m], 1));
    if (m == WAITING) { /* a round is open */
        waits.update = put_bytes(txn, 3000, 100);
        assert_ok(pl_txn_put_pending(txn, modules[m], &waits));
        assert_ok(pl_txn_put_ref(txn, MEETING, "split"));
    }
    assert_ok(pl_txn_commit(&txn));
}

static void put_seeded(pl_txn *txn, const char *name, uint64_t seed)
{
    const pl_hash blob = put_bytes(txn, seed, 700);
    assert_ok(pl_txn_put_object(txn, name, &blob));
}

/* What every home has, with different values in each. */
static void put_own(pl_store *store, int home)
{
    char epoch[16];
    OWNED(pl_arm_clear) pl_arm arm;
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    pl_txn *txn = begin(store);
    define_grid(&arm, "f32");
    pl_arm_encode(&arm, &bytes);
    put_object(txn, "arm/mix", bytes.data, bytes.len);
    snprintf(epoch, sizeof epoch, "%d", home == 1 ? 9 : 5);
    assert_ok(pl_txn_put_ref(txn, EPOCH, epoch));
    assert_ok(pl_txn_put_ref(txn, "sys/rolled-back", "17"));
    assert_ok(pl_txn_put_ref(txn, FENCED, "- two said no"));
    assert_ok(pl_txn_commit(&txn));
}

static void put_path(pl_txn *txn, const char *name)
{
    pl_path_state path = {.phase = 3, .work = {.n_samples = 12, .loss = 2}};
    pl_copy_text(path.name, sizeof path.name, name);
    path.moments = put_bytes(txn, 4000, 2 * FLOATS);
    assert_ok(pl_txn_put_path(txn, &path));
}

static const char *state_name(int phase)
{
    static char name[96];
    pl_kept_state_name("mix/p00.r0", phase, name);
    return name;
}

static void make_job(const char *folder, int n)
{
    char path[PL_PATH_MAX];
    if (n > 1)
        assert_ok(pl_store_make_parts(folder, n));
    for (int home = 0; home < n; home++) {
        OWNED(pl_store_close)
        pl_store *store =
            open_store(home_folder(folder, home, n, path), PL_STORE_CREATE);
        put_own(store, home);
        for (int m = 0; m < MODULES; m++)
            if (pl_home_of(modules[m], n) == home)
                put_module(store, m);
        pl_txn *txn = begin(store);
        for (int i = 0; i < OBJECTS; i++)
            if (pl_home_of(objects[i], n) == home)
                put_seeded(txn, objects[i], 5000 + (uint64_t)i);
        if (pl_home_of("mix/p00.r0", n) == home) {
            put_path(txn, "mix/p00.r0");
            put_seeded(txn, AUDIT, 6000);
            for (int phase = 1; phase <= STATES; phase++)
                put_seeded(txn, state_name(phase), 7000 + (uint64_t)phase);
            assert_ok(pl_txn_put_ref(txn, AUDIT, "an open audit"));
        }
        if (pl_home_of("finished", n) == home)
            assert_ok(pl_txn_put_ref(txn, "finished", "2x2"));
        assert_ok(pl_txn_commit(&txn));
    }
}

/* ---- checks ---- */
static pl_status count_pending(void *context, const char *module,
                               const pl_contribution *c)
{
    (void)module;
    assert_int_equal(c->phase, VERSIONS - 1);
    ++*(int *)context;
    return PL_OK;
}

static void check_module(pl_store *store, int m)
{
    int n_pending = 0;
    OWNED(pl_version_clear) pl_version v;
    for (uint64_t number = 0; number < VERSIONS; number++) {
        const uint64_t seed = (uint64_t)(100 * m) + number;
        assert_ok(pl_store_get_version(store, modules[m], number, &v));
        assert_int_equal(v.params_gone, number == 1);
        if (number != 1)
            assert_true(blob_holds(store, &v.params, seed, FLOATS * sizeof(float)));
        if (number > 1) {
            assert_true(
                blob_holds(store, &v.momentum, 1000 + seed, FLOATS * sizeof(float)));
            assert_true(v.has_updates);
            assert_true(
                blob_holds(store, &v.contributions[0].update, 2000 + seed, 100));
        }
        pl_version_clear(&v);
    }
    assert_ok(pl_store_head(store, modules[m], &v));
    assert_int_equal(v.number, VERSIONS - 1);
    assert_ok(pl_store_each_pending(store, modules[m], count_pending, &n_pending));
    assert_int_equal(n_pending, m == WAITING);
}

static void check_home(pl_store *store, int home, int n)
{
    pl_path_state path;
    pl_object object;
    for (int m = 0; m < MODULES; m++)
        if (pl_home_of(modules[m], n) == home)
            check_module(store, m);
        else
            assert_false(pl_store_has_name(store, modules[m]));
    for (int i = 0; i < OBJECTS; i++) {
        const bool here = pl_home_of(objects[i], n) == home;
        assert_int_equal(pl_store_has_name(store, objects[i]), here);
        if (!here)
            continue;
        assert_ok(pl_store_get_object(store, objects[i], &object));
        assert_true(blob_holds(store, &object.blob, 5000 + (uint64_t)i, 700));
    }
    const bool has_path = pl_home_of("mix/p00.r0", n) == home;
    const bool has_meeting = pl_home_of("mix/L1.E0", n) == home;
    assert_int_equal(pl_store_get_path(store, "mix/p00.r0", &path) == PL_OK, has_path);
    assert_int_equal(pl_store_has_name(store, AUDIT), has_path);
    assert_ref(store, AUDIT, has_path ? "an open audit" : NULL);
    for (int phase = 1; phase <= STATES; phase++)
        assert_int_equal(pl_store_has_name(store, state_name(phase)), has_path);
    assert_ref(store, MEETING, has_meeting ? "split" : NULL);
    assert_ref(store, "finished", pl_home_of("finished", n) == home ? "2x2" : NULL);
    assert_true(pl_store_has_name(store, "arm/mix"));
    assert_ref(store, FENCED, "- two said no");
    assert_ref(store, "sys/rolled-back", NULL);
    assert_ok(pl_store_check_placement(store));
    assert_whole(store);
}

/* Checks the copy of a job. */
static void check_job(const char *folder, int n)
{
    char path[PL_PATH_MAX];
    for (int home = 0; home < n; home++) {
        OWNED(pl_store_close)
        pl_store *store = open_store(home_folder(folder, home, n, path), PL_STORE_READ);
        check_home(store, home, n);
        assert_ref(store, EPOCH, "9");
    }
}

/* ---- tests of the copy ---- */
STORE_TEST(every_name_goes_to_the_home_of_its_hash)
{
    static const int numbers[] = {2, MOST, 1, 3};
    char was[PL_PATH_MAX], is[PL_PATH_MAX], name[16];
    pl_divide_report report;
    pl_join(was, *state, "was");
    make_job(was, 3);
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%d", i);
        pl_join(is, *state, name);
        assert_ok(pl_store_divide(was, is, numbers[i], &report));
        assert_int_equal(report.n_names, MODULES + OBJECTS + STATES + 2 + numbers[i]);
        check_job(is, numbers[i]);
        pl_copy_text(was, sizeof was, is);
    }
}

/* Version 3 says that it is a rollback, but this release has no record of it. The copy
 * must not make it true. (tests/job/check.sh has a rollback by an older release.) */
STORE_TEST(a_rollback_that_nobody_made_gets_no_record_in_the_copy)
{
    char was[PL_PATH_MAX], is[PL_PATH_MAX];
    pl_divide_report report;
    pl_rollback_proof proof;
    pl_version v;
    pl_join(was, *state, "was");
    pl_store *store = open_store(was, PL_STORE_CREATE);
    for (uint64_t i = 0; i < 3; i++)
        commit_version(store, "mix/L1.E0", i, i, 3000);
    assert_ok(pl_store_head(store, "mix/L1.E0", &v));
    v.number = 3;
    v.parent = v.params;
    v.n_contributions = 0;
    pl_copy_text(v.method, sizeof v.method, "rollback to 1");
    pl_txn *txn = begin(store);
    assert_ok(pl_txn_put_version(txn, &v, (pl_keep){.momentum = true}));
    assert_ok(pl_txn_commit(&txn));
    pl_version_clear(&v);
    pl_store_close(&store);
    for (int n = 2; n >= 1; n--) {
        pl_join(is, *state, n == 2 ? "two" : "one");
        assert_ok(pl_store_divide(was, is, n, &report));
        store = open_store(is, PL_STORE_READ);
        assert_ok(pl_store_get_version(store, "mix/L1.E0", 3, &v));
        assert_ok(pl_store_find_rollback(store, &v, &proof));
        assert_int_equal(proof, PL_ROLLBACK_UNKNOWN);
        pl_version_clear(&v);
        pl_store_close(&store);
        pl_copy_text(was, sizeof was, is);
    }
    assert_int_equal(report.n_names, 1);
}

/* An earlier release moved names between homes, and left notes. Of two copies of a
 * name, the newest note says which one is valid. */
STORE_TEST(notes_of_an_earlier_release_say_which_copy_is_valid)
{
    char was[PL_PATH_MAX], is[PL_PATH_MAX], part[PL_PATH_MAX];
    static const char *const notes[3] = {"2 3", "here 2", "here 3"};
    pl_divide_report report;
    OWNED(pl_version_clear) pl_version v;
    pl_join(was, *state, "was");
    pl_join(is, *state, "is");
    assert_ok(pl_store_make_parts(was, 3));
    for (int i = 0; i < 3; i++) {
        OWNED(pl_store_close)
        pl_store *store = open_store(pl_store_part(was, i, part), PL_STORE_CREATE);
        if (i > 0)
            commit_version(store, "mix/L1.E0", 0, (uint64_t)i, 3000);
        pl_txn *txn = begin(store);
        put_seeded(txn, "arm/mix", 1);
        assert_ok(pl_txn_put_ref(txn, "at/mix/L1.E0", notes[i]));
        assert_ok(pl_txn_put_ref(txn, "sys/places", "0 2 1 1 5"));
        assert_ok(pl_txn_commit(&txn));
    }
    assert_ok(pl_store_divide(was, is, 2, &report));
    OWNED(pl_store_close) pl_store *store = open_store(is, PL_STORE_READ);
    assert_int_equal(pl_store_part_of(store, "mix/L1.E0"), pl_home_of("mix/L1.E0", 2));
    assert_ok(pl_store_head(store, "mix/L1.E0", &v));
    assert_true(blob_holds(store, &v.params, 2, 3000));
}

/* The name would be in no home of the copy, and the old store is deleted. */
STORE_TEST(a_note_that_names_a_home_without_the_name_is_refused)
{
    static const char *const notes[] = {"1 7", "2 7", "-1 7"};
    char was[PL_PATH_MAX], is[PL_PATH_MAX], part[PL_PATH_MAX], number[8];
    const int home = pl_home_of("mix/L1.E0", 2);
    pl_divide_report report;
    make_job(pl_join(was, *state, "was"), 2);
    for (int i = 0; i < 3; i++) {
        pl_store *store = open_store(pl_store_part(was, home, part), PL_STORE_WRITE);
        commit_ref(store, "at/mix/L1.E0", i == 0 && home == 1 ? "0 7" : notes[i]);
        pl_store_close(&store);
        snprintf(number, sizeof number, "%d", i);
        assert_fails(pl_store_divide(was, pl_join(is, *state, number), 3, &report),
                     PL_ERR_DAMAGED, "at/mix/L1.E0");
    }
}

STORE_TEST(a_missing_home_is_not_left_out)
{
    char was[PL_PATH_MAX], is[PL_PATH_MAX], part[PL_PATH_MAX];
    pl_divide_report report;
    pl_join(was, *state, "was");
    make_job(was, 2);
    assert_ok(pl_remove_tree(pl_store_part(was, 1, part)));
    assert_int_equal(pl_store_divide(was, pl_join(is, *state, "is"), 1, &report),
                     PL_ERR_NOT_FOUND);
}

/* ---- tests with running homes ---- */
typedef struct running {
    char dir[64];
    child homes[MOST];
    int n;
    pl_client *client;
} running;

/* Starts the homes of a job that was divided into n. */
static void open_running(running *r, int n)
{
    char name[] = "/tmp/pl-divide-XXXXXX", was[PL_PATH_MAX], is[PL_PATH_MAX];
    const char *addresses[MOST];
    pl_divide_report report;
    *r = (running){.n = n};
    assert_non_null(mkdtemp(name));
    pl_copy_text(r->dir, sizeof r->dir, name);
    make_job(pl_join(was, r->dir, "was"), 2);
    assert_ok(pl_store_divide(was, pl_join(is, r->dir, "is"), n, &report));
    for (int i = 0; i < n; i++) {
        char file[32], part[PL_PATH_MAX];
        snprintf(file, sizeof file, "ready-%d", i + 1);
        name_child(&r->homes[i], r->dir, "home", file);
        pl_copy_text(r->homes[i].target, PL_PATH_MAX, pl_store_part(is, i, part));
        pl_store *store = open_store(part, PL_STORE_WRITE);
        pl_txn *txn = begin(store);
        if (pl_home_of("mix/p00.r0", n) == i)
            assert_ok(pl_txn_drop_ref(txn, AUDIT)); /* the test's audit is none */
        assert_ok(pl_txn_commit(&txn));
        pl_store_close(&store);
        start_child(&r->homes[i]);
        addresses[i] = r->homes[i].address;
    }
    pl_client_options options = {
        .homes = addresses, .n_homes = n, .patience_ms = PATIENCE_MS};
    assert_ok(pl_client_create(&options, &r->client));
}

static void close_running(running *r)
{
    pl_client_destroy(&r->client);
    for (int i = 0; i < r->n; i++)
        kill_child(&r->homes[i], SIGTERM);
    assert_ok(pl_remove_tree(r->dir));
}

PL_TEST(a_client_finds_every_name_of_the_new_homes)
{
    OWNED(close_running) running r;
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    pl_hash blob;
    pl_version_facts v;
    pl_path_state path;
    open_running(&r, 3);
    for (int m = 0; m < MODULES; m++) {
        assert_ok(pl_client_get_version(r.client, modules[m], PL_NEWEST, &v));
        assert_int_equal(v.number, VERSIONS - 1);
        assert_ok(pl_client_get_blob(r.client, modules[m], &v.params, &bytes));
        assert_ok(
            pl_client_get_update(r.client, modules[m], VERSIONS - 2, 1, 0, &blob));
    }
    assert_ok(pl_client_get_path(r.client, "mix/p00.r0", &path));
    for (int i = 0; i < OBJECTS; i++)
        assert_ok(pl_client_get_object(r.client, objects[i], &blob));
    /* such a ref would be the note of an earlier release, with which no home starts */
    assert_int_equal(pl_client_put_ref(r.client, "at/mix/L1.E0", "1 1"), PL_ERR_NOPERM);
}

/* The home of a tag does not know whether the homes of its modules have freed the data
 * of a version. */
PL_TEST(tag_of_versions_that_another_home_has_freed_is_removed)
{
    OWNED(close_running) running r;
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    pl_hash blob, empty;
    char name[PL_NAME_MAX];
    int t = 0;
    open_running(&r, 2);
    const int home = pl_home_of(modules[0], 2);
    do
        snprintf(name, sizeof name, "tag/t%d", t++);
    while (pl_home_of(name, 2) == home);
    for (uint64_t number = 0; number < VERSIONS; number++) {
        pl_snapshot_item item = {.number = number};
        pl_copy_text(item.module, sizeof item.module, modules[0]);
        const pl_snapshot tag = {.arm = "mix", .n_items = 1, .items = &item};
        pl_buf_clear(&bytes);
        pl_snapshot_encode(&tag, &bytes);
        assert_int_equal(
            pl_client_put_object(r.client, name, bytes.data, bytes.len, &blob),
            number == 1 ? PL_ERR_NOT_FOUND : PL_OK);
        assert_ok(pl_client_get_object(r.client, name, &empty));
        pl_blob_hash("", 0, &blob);
        assert_int_equal(pl_hash_equal(&empty, &blob), number == 1);
    }
}

/* While the homes are held (pl_client_hold_all), writes wait but reads do not, and a
 * reader of the store sees the commit that the home has named. */
PL_TEST(homes_stand_still_for_a_moment)
{
    enum { HOLD_MS = 800, LONG_MS = 60000 };
    OWNED(close_running) running r;
    uint64_t held[MOST] = {0}, later[MOST] = {0};
    pl_hash blob;
    open_running(&r, 2);
    const int home = pl_home_of("router/new", 2);
    int64_t begun = pl_now_ms();
    assert_ok(pl_client_hold_all(r.client, HOLD_MS, held));
    assert_ok(pl_client_get_object(r.client, objects[0], &blob));
    pl_store *reader = open_store(r.homes[home].target, PL_STORE_READ);
    assert_int_equal(pl_store_sequence(reader), held[home]);
    assert_ok(pl_client_put_object(r.client, "router/new", "x", 1, &blob));
    assert_true(pl_now_ms() - begun >= HOLD_MS);
    assert_ok(pl_store_refresh(reader));
    assert_true(pl_store_sequence(reader) > held[home]);
    pl_store_close(&reader);
    /* A second call with 0 ms ends the hold. */
    begun = pl_now_ms();
    assert_ok(pl_client_hold_all(r.client, LONG_MS, held));
    assert_ok(pl_client_hold_all(r.client, 0, later));
    assert_memory_equal(held, later, sizeof held);
    assert_ok(pl_client_put_object(r.client, "router/newer", "y", 1, &blob));
    assert_true(pl_now_ms() - begun < LONG_MS);
}

PL_CHILD(argc, argv)
{
    return run_child(argv, (pl_home_options){.keep_updates = true});
}
