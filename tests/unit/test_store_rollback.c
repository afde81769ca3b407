/* folder: store; label: integration
 *
 * Kills a rollback over several parts between any two of its writes. After this the
 * store must have the whole rollback, or nothing of it. */
#include "store/store.h"
#include "tests/support/kill_states.h"

enum { PARTS = 3, BYTES = 3000, PHASE = 4 };

static const char *const modules[PARTS] = {"mix/L1.E0", "mix/L1.E1", "mix/L2.E0"};
static const char *const paths[PARTS] = {"mix/p0.r0", "mix/p1.r0", "mix/p2.r0"};

static void make_part(const char *folder, int part)
{
    char path[PL_PATH_MAX];
    pl_path_state state = {.phase = 2, .work.n_samples = 20};
    pl_contribution c = {.phase = 2, .path = part};
    OWNED(pl_store_close)
    pl_store *store = open_store(pl_store_part(folder, part, path), PL_STORE_CREATE);
    for (uint64_t n = 0; n < 3; n++)
        commit_version(store, modules[part], n, 10 * (uint64_t)part + n, BYTES);
    pl_txn *txn = begin(store);
    pl_copy_text(state.name, sizeof state.name, paths[part]);
    state.moments = put_bytes(txn, 77, BYTES);
    state.repeats = 1; /* the newest state was not uploaded */
    pl_hash_of("blob", "made", 4, &state.made);
    c.update = put_bytes(txn, 88, BYTES);
    if (part > 0) /* one path has not finished any phase */
        assert_ok(pl_txn_put_path(txn, &state));
    assert_ok(pl_txn_put_pending(txn, modules[part], &c));
    assert_ok(pl_txn_commit(&txn));
}

static void make_parts(const char *folder)
{
    assert_ok(pl_remove_tree(folder));
    assert_ok(pl_store_make_parts(folder, PARTS));
    for (int i = 0; i < PARTS; i++)
        make_part(folder, i);
}

/* Rolls all modules back to version 0. All paths then continue after phase PHASE. */
static pl_status roll_back(const char *folder)
{
    OWNED(pl_writers_close) pl_writers *writers = NULL;
    pl_rollback_module m[PARTS];
    pl_rollback_path p[PARTS];
    pl_rollback plan = {"mix --to 0", PHASE, m, p, PARTS, PARTS};
    memset(m, 0, sizeof m);
    memset(p, 0, sizeof p);
    for (int i = 0; i < PARTS; i++) {
        pl_copy_text(m[i].name, sizeof m[i].name, modules[i]);
        m[i].head = 2;
        m[i].last = PHASE;
        pl_copy_text(p[i].name, sizeof p[i].name, paths[i]);
        p[i].samples = 40;
        m[i].part = p[i].part = i;
    }
    PL_CHECK(pl_writers_open(folder, &writers));
    return pl_writers_roll_back(writers, &plan);
}

static int roll_back_until(const char *folder, const char *point, int passage)
{
    return die_at(point, passage, "roll-back", folder, NULL);
}

static pl_status count_pending(void *context, const char *module,
                               const pl_contribution *c)
{
    (void)module, (void)c;
    ++*(int *)context;
    return PL_OK;
}

/* Returns 1 if part `i` of the store has the rollback, and 0 if it does not. */
static int look_at(pl_store *store, int i)
{
    OWNED(pl_version_clear) pl_version head;
    pl_path_state state = {.phase = 0};
    int n_pending = 0;
    uint64_t source = 9;
    assert_ok(pl_store_head(store, modules[i], &head));
    int went = head.number == PHASE;
    assert_int_equal(head.number, went ? PHASE : 2);
    assert_true(
        blob_holds(store, &head.params, 10 * (uint64_t)i + (went ? 0 : 2), BYTES));
    assert_string_equal(head.method, went ? "rollback to 0" : "test");
    assert_int_equal(pl_version_source(&head, &source), went);
    assert_int_equal(source, 0);
    pl_status status = pl_store_get_path(store, paths[i], &state);
    assert_int_equal(status, i == 0 && !went ? PL_ERR_NOT_FOUND : PL_OK);
    assert_int_equal(state.phase, went ? PHASE : i > 0 ? 2 : 0);
    assert_int_equal(state.work.n_samples, went ? 40 : i > 0 ? 20 : 0);
    if (i > 0)
        assert_true(blob_holds(store, &state.moments, 77, BYTES));
    assert_int_equal(state.repeats, i > 0 && !went);
    assert_ok(pl_store_each_pending(store, modules[i], count_pending, &n_pending));
    assert_int_equal(n_pending, !went);
    return went;
}

/* Checks that all parts have the rollback or none has it. */
static int look(pl_store *store)
{
    int went = look_at(store, 0);
    for (int i = 1; i < PARTS; i++)
        assert_int_equal(look_at(store, i), went);
    return went;
}

/* Opens the parts as their homes do, beginning with the first or the last one. */
static void open_as_homes(const char *folder, bool last_first)
{
    char path[PL_PATH_MAX];
    for (int i = 0; i < PARTS; i++) {
        int part = last_first ? PARTS - 1 - i : i;
        OWNED(pl_store_close)
        pl_store *store = open_store(pl_store_part(folder, part, path), PL_STORE_WRITE);
    }
}

static void assert_sound(const char *folder, int expected)
{
    OWNED(pl_store_close) pl_store *store = open_store(folder, PL_STORE_READ);
    assert_int_equal(look(store), expected);
    assert_whole(store);
}

STORE_TEST(a_rollback_goes_back_in_all_parts)
{
    OWNED(pl_store_close) pl_store *store = NULL;
    make_parts(*state);
    assert_ok(roll_back(*state));
    assert_sound(*state, 1);
    store = open_store(*state, PL_STORE_READ);
    assert_int_equal(pl_store_part_of(store, paths[0]), 0);
    assert_int_equal(pl_store_part_of(store, modules[2]), 2);
    assert_int_equal(pl_store_part_of(store, "mix/L9.E9"), -1);
}

static bool is_recorded(const char *folder, uint64_t number, const char *method)
{
    OWNED(pl_version_clear) pl_version v;
    pl_rollback_proof proof;
    pl_store *store = open_store(folder, PL_STORE_READ);
    assert_ok(pl_store_get_version(store, modules[2], 2, &v));
    v.number = number;
    pl_copy_text(v.method, sizeof v.method, method);
    assert_ok(pl_store_find_rollback(store, &v, &proof));
    pl_store_close(&store);
    return proof == PL_ROLLBACK_RECORDED;
}

STORE_TEST(the_record_of_a_rollback_names_its_versions_and_no_others)
{
    make_parts(*state);
    assert_false(is_recorded(*state, 3, "rollback to 0"));
    assert_ok(roll_back(*state));
    assert_true(is_recorded(*state, 3, "rollback to 0"));
    assert_true(is_recorded(*state, PHASE, "rollback to 0"));
    assert_false(is_recorded(*state, 2, "rollback to 0"));
    assert_false(is_recorded(*state, PHASE + 1, "rollback to 0"));
    assert_false(is_recorded(*state, 3, "rollback to 1"));
    assert_false(is_recorded(*state, 3, "nesterov"));
}

STORE_TEST(whoever_dies_leaves_nothing_or_all)
{
    static const char *const points[] = {"kv.commit.before",  "kv.commit.after",
                                         "mark.write.before", "mark.write.after",
                                         "mark.flush.after",  NULL};
    char folder[PL_PATH_MAX], states[PL_PATH_MAX];
    int n_went = 0, n_half = 0;
    pl_join(folder, *state, "store");
    pl_join(states, *state, "states");
    make_parts(folder);
    const int n_states =
        make_kill_states(points, "roll-back", folder, NULL, folder, states);
    for (int n = 1; n <= n_states; n++) {
        pl_store *store = NULL;
        take_kill_state(states, n, folder);
        /* A reader sees the state before or after the rollback, or gets an error. It
         * waits some seconds before this error, so the test opens a reader only
         * sometimes. */
        bool looks = n % 3 == 0;
        pl_status seen =
            looks ? pl_store_open(folder, PL_STORE_READ, &store) : PL_ERR_BUSY;
        int saw = seen == PL_OK ? look(store) : 1;
        if (seen != PL_OK && looks) {
            assert_fails(seen, PL_ERR_BUSY, "was interrupted");
            n_half++;
        }
        pl_store_close(&store);
        open_as_homes(folder, n % 4 < 2);
        store = open_store(folder, PL_STORE_READ);
        int went = look(store);
        pl_store_close(&store);
        if (looks)
            assert_int_equal(went, saw);
        assert_sound(folder, went);
        n_went += went;
    }
    print_message("%d states: rollback complete in %d, error for a reader in %d\n",
                  n_states, n_went, n_half);
    assert_true(n_states > 18);
    assert_true(n_went > 5 && n_went < n_states - 10);
    assert_true(n_half > 0);
}

/* Parts 2 and 3 have prepared a rollback, but the process is killed before part 1
 * decides it (store/rollback.c). What they prepared must be dropped. Later a different
 * rollback is decided and must succeed. */
STORE_TEST(a_share_without_a_decision_is_dropped)
{
    pl_writers *writers = NULL;
    make_parts(*state);
    /* The first three commits open the parts, and the next two prepare the rollback. */
    assert_int_equal(roll_back_until(*state, "kv.commit.after", PARTS + 2), SIGKILL);
    assert_sound(*state, 0); /* readers do not have to wait */
    assert_ok(pl_writers_open(*state, &writers));
    assert_null(pl_writers_resumed(writers));
    pl_writers_close(&writers);
    assert_ok(roll_back(*state));
    assert_sound(*state, 1);
}

STORE_TEST(the_next_writer_of_all_ends_it)
{
    OWNED(pl_writers_close) pl_writers *writers = NULL;
    make_parts(*state);
    assert_int_equal(roll_back_until(*state, "kv.commit.after", PARTS + 3), SIGKILL);
    assert_ok(pl_writers_open(*state, &writers));
    assert_string_equal(pl_writers_resumed(writers), "mix --to 0");
    assert_int_equal(look(pl_writers_view(writers)), 1);
    pl_writers_close(&writers);
    assert_ok(pl_writers_open(*state, &writers));
    assert_null(pl_writers_resumed(writers));
}

STORE_TEST(what_one_part_cannot_do_none_does)
{
    char path[PL_PATH_MAX];
    pl_store *part = NULL;
    make_parts(*state);
    part = open_store(pl_store_part(*state, 2, path), PL_STORE_WRITE);
    pl_txn *txn = begin(part);
    assert_ok(pl_txn_drop_data(txn, modules[2], 0));
    assert_ok(pl_txn_commit(&txn));
    pl_store_close(&part);
    assert_fails(roll_back(*state), PL_ERR_NOT_FOUND, "mix/L2.E0@0 were collected");
    assert_sound(*state, 0);
}

PL_CHILD(argc, argv)
{
    return roll_back(argv[1]) == PL_OK ? 0 : 1;
}
