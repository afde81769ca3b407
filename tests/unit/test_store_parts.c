/* folder: store; label: unit
 *
 * Tests a store in parts, one part per home. Each part has its own writer, and a reader
 * sees all parts as one store. */
#include "store/store_internal.h"
#include "tests/support/store_child.h"

enum { PARTS = 3 };

static void write_part(const char *folder, int part, const char *module, uint64_t seed)
{
    char path[PL_PATH_MAX], object[PL_MODULE_NAME_MAX];
    pl_path_state state = {.phase = part};
    OWNED(pl_store_close)
    pl_store *store = open_store(pl_store_part(folder, part, path), PL_STORE_CREATE);
    commit_version(store, module, 0, seed, 3000);
    commit_version(store, module, 1, seed + 50, 3000);
    pl_txn *txn = begin(store);
    snprintf(state.name, sizeof state.name, "mix/p%d.r0", PARTS - part);
    assert_ok(pl_txn_put_path(txn, &state));
    put_object(txn, "arm/mix", "the arm", 7);
    snprintf(object, sizeof object, "shard/mix/p%d", part);
    put_object(txn, object, object, strlen(object));
    pl_contribution update = {.worker = "w", .phase = 1};
    assert_ok(pl_txn_put_pending(txn, module, &update));
    assert_ok(pl_txn_put_ref(txn, part == 1 ? "finished" : "sys/hub-epoch", "7"));
    assert_ok(pl_txn_commit(&txn));
}

static pl_store *open_parts(const char *folder)
{
    static const char *const modules[PARTS] = {"mix/L2.E0", "mix/embed.E0",
                                               "mix/L1.E1"};
    assert_ok(pl_store_make_parts(folder, PARTS));
    for (int i = 0; i < PARTS; i++)
        write_part(folder, i, modules[i], 100 * (uint64_t)(i + 1));
    return open_store(folder, PL_STORE_READ);
}

typedef struct names {
    char all[512];
} names;

static void add_name(names *n, const char *name)
{
    size_t len = strlen(n->all);
    snprintf(n->all + len, sizeof n->all - len, "%s ", name);
}

static pl_status on_head(void *context, const pl_version *v)
{
    assert_int_equal(v->number, 1);
    add_name(context, v->module);
    return PL_OK;
}

static pl_status on_path(void *context, const pl_path_state *p)
{
    add_name(context, p->name);
    return PL_OK;
}

static pl_status on_object(void *context, const pl_object *o)
{
    add_name(context, o->name);
    return PL_OK;
}

static pl_status on_ref(void *context, const char *name, const char *target)
{
    assert_string_equal(target, "7");
    add_name(context, name);
    return PL_OK;
}

static pl_status on_pending(void *context, const char *module, const pl_contribution *c)
{
    assert_string_equal(c->worker, "w");
    add_name(context, module);
    return PL_OK;
}

STORE_TEST(lists_are_in_order_and_name_everything_once)
{
    names heads = {""}, paths = {""}, objects = {""}, refs = {""}, pending = {""};
    OWNED(pl_store_close) pl_store *store = open_parts(*state);
    assert_ok(pl_store_each_head(store, "", on_head, &heads));
    assert_string_equal(heads.all, "mix/L1.E1 mix/L2.E0 mix/embed.E0 ");
    assert_ok(pl_store_each_path(store, "mix/", on_path, &paths));
    assert_string_equal(paths.all, "mix/p1.r0 mix/p2.r0 mix/p3.r0 ");
    assert_ok(pl_store_each_object(store, "", on_object, &objects));
    assert_string_equal(objects.all, "arm/mix shard/mix/p0 shard/mix/p1 shard/mix/p2 ");
    assert_ok(pl_store_each_ref(store, "", on_ref, &refs));
    assert_string_equal(refs.all, "finished sys/hub-epoch ");
    assert_ok(pl_store_each_pending(store, "", on_pending, &pending));
    assert_string_equal(pending.all, heads.all);
}

STORE_TEST(things_are_found_in_whatever_part_they_are)
{
    OWNED(pl_version_clear) pl_version v;
    pl_path_state path;
    pl_object object;
    OWNED(pl_buf_destroy) pl_buf target = {0};
    uint64_t bytes = 0;
    uint8_t byte;
    OWNED(pl_store_close) pl_store *store = open_parts(*state);
    assert_ok(pl_store_head(store, "mix/L1.E1", &v));
    assert_ok(pl_store_blob_bytes(store, &v.params, &bytes));
    assert_int_equal(bytes, 3000);
    assert_true(pl_store_has_blob(store, &v.params));
    assert_ok(pl_store_read_blob(store, &v.params, 2999, 1, &byte));
    assert_ok(pl_store_get_path(store, "mix/p1.r0", &path));
    assert_int_equal(path.phase, PARTS - 1);
    assert_ok(pl_store_get_object(store, "shard/mix/p2", &object));
    assert_ok(pl_store_get_ref(store, "finished", &target));
}

STORE_TEST(missing_things_are_named_as_in_any_store)
{
    pl_version v;
    pl_path_state path;
    pl_hash none = {{9}};
    uint64_t bytes;
    OWNED(pl_store_close) pl_store *store = open_parts(*state);
    assert_fails(pl_store_head(store, "mix/L9.E0", &v), PL_ERR_NOT_FOUND, "mix/L9.E0");
    assert_fails(pl_store_get_version(store, "mix/L2.E0", 5, &v), PL_ERR_NOT_FOUND,
                 "versions 0 to 1, not 5");
    assert_int_equal(pl_store_get_path(store, "mix/p9.r0", &path), PL_ERR_NOT_FOUND);
    assert_int_equal(pl_store_blob_bytes(store, &none, &bytes), PL_ERR_NOT_FOUND);
    assert_false(pl_store_has_blob(store, &none));
}

STORE_TEST(counts_add_up_and_all_parts_are_audited)
{
    pl_store_stats stats;
    pl_audit_report report;
    OWNED(pl_store_close) pl_store *store = open_parts(*state);
    assert_ok(pl_store_count(store, &stats));
    assert_int_equal(stats.n_modules, PARTS);
    assert_int_equal(stats.n_versions, 2 * PARTS);
    assert_ok(pl_store_audit(store, true, NULL, NULL, &report));
    assert_int_equal(report.n_versions, 2 * PARTS);
    assert_int_equal(report.n_problems, 0);
}

STORE_TEST(refresh_shows_what_any_part_got)
{
    char path[PL_PATH_MAX];
    OWNED(pl_version_clear) pl_version v;
    OWNED(pl_store_close) pl_store *store = open_parts(*state);
    uint64_t before = pl_store_sequence(store);
    OWNED(pl_store_close)
    pl_store *writer = open_store(pl_store_part(*state, 2, path), PL_STORE_WRITE);
    commit_version(writer, "mix/L1.E1", 2, 999, 3000);
    assert_int_equal(pl_store_get_version(store, "mix/L1.E1", 2, &v), PL_ERR_NOT_FOUND);
    assert_ok(pl_store_refresh(store));
    assert_ok(pl_store_get_version(store, "mix/L1.E1", 2, &v));
    assert_int_equal(pl_store_sequence(store), before + 1);
}

STORE_TEST(writing_needs_a_part_and_numbers_stay)
{
    OWNED(pl_store_close) pl_store *store = open_parts(*state);
    pl_store *writer = NULL;
    int n = 0;
    assert_ok(pl_store_parts(*state, &n));
    assert_int_equal(n, PARTS);
    assert_fails(pl_store_open(*state, PL_STORE_WRITE, &writer), PL_ERR_UNSUPPORTED,
                 "3 homes");
    assert_int_equal(pl_store_make_parts(*state, PARTS + 1), PL_ERR_EXISTS);
    assert_ok(pl_store_make_parts(*state, PARTS));
}

static void note(void *context, const char *sentence)
{
    pl_copy_text(context, 256, sentence);
}

STORE_TEST(a_module_in_two_parts_is_named)
{
    char path[PL_PATH_MAX], said[256] = "";
    pl_audit_report report;
    OWNED(pl_store_close) pl_store *store = open_parts(*state);
    pl_store_close(&store);
    pl_store *writer = open_store(pl_store_part(*state, 0, path), PL_STORE_WRITE);
    commit_version(writer, "mix/L1.E1", 0, 77, 3000);
    pl_store_close(&writer);
    store = open_store(*state, PL_STORE_READ);
    assert_ok(pl_store_audit(store, true, note, said, &report));
    assert_int_equal(report.n_problems, 1);
    assert_string_equal(said, "module mix/L1.E1 is in home-1 and in home-3");
}

/* A user has restored the whole backup into the folder of a home that was lost. */
STORE_TEST(a_part_that_has_parts_itself_is_told)
{
    char part[PL_PATH_MAX], path[PL_PATH_MAX];
    pl_store *store = open_parts(*state);
    pl_store_close(&store);
    pl_store_part(*state, 1, part);
    assert_ok(
        pl_replace_file(pl_join(path, part, "PARTS"), "pathloom parts 1\n2\n", 19));
    assert_fails(pl_store_open(*state, PL_STORE_READ, &store), PL_ERR_DAMAGED,
                 "home-2 must be the store of one home");
    assert_null(store);
}

STORE_TEST(closing_keeps_the_sentence_of_an_earlier_error)
{
    pl_store *store = open_parts(*state);
    char *folder = store->stores[0]->own.path;
    assert_ok(pl_remove_tree(folder));
    pl_copy_text(folder, PL_PATH_MAX, "/proc/self/task"); /* which nobody can remove */
    assert_int_not_equal(pl_remove_tree(folder), PL_OK);
    (void)pl_fail(PL_ERR_BUSY, "what the verb will tell");
    pl_store_close(&store);
    assert_said("what the verb will tell");
}

STORE_TEST(a_damaged_list_of_parts_is_told)
{
    char path[PL_PATH_MAX];
    pl_store *store = NULL;
    assert_ok(pl_store_make_parts(*state, 2));
    pl_join(path, *state, "PARTS");
    static const char *const bad[] = {"",
                                      "pathloom parts 1\n",
                                      "pathloom parts 1\n0\n",
                                      "pathloom parts 1\n99\n",
                                      "pathloom parts 2\n2\n",
                                      "pathloom parts 1\n3 2 1\n",
                                      "pathloom parts 1\n2"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_ok(pl_replace_file(path, bad[i], strlen(bad[i])));
        assert_fails(pl_store_open(*state, PL_STORE_READ, &store), PL_ERR_DAMAGED,
                     "PARTS");
    }
}

/* A store with more parts than its file PARTS counts must be refused. Otherwise the
 * last part would be ignored. */
STORE_TEST(a_list_of_too_few_parts_is_told)
{
    pl_store *store = open_parts(*state);
    char path[PL_PATH_MAX];
    static const char two[] = "pathloom parts 1\n2\n";
    pl_store_close(&store);
    assert_ok(pl_replace_file(pl_join(path, *state, "PARTS"), two, strlen(two)));
    assert_fails(pl_store_open(*state, PL_STORE_READ, &store), PL_ERR_DAMAGED,
                 "counts 2 parts");
}

STORE_TEST(a_list_of_an_earlier_release_has_a_second_number)
{
    char path[PL_PATH_MAX];
    int n = 0;
    static const char two[] = "pathloom parts 1\n3 2\n";
    OWNED(pl_store_close) pl_store *store = open_parts(*state);
    pl_store_close(&store);
    assert_ok(pl_replace_file(pl_join(path, *state, "PARTS"), two, strlen(two)));
    assert_ok(pl_store_parts(*state, &n));
    assert_int_equal(n, 3);
    store = open_store(*state, PL_STORE_READ);
}

/* An earlier release left a note about each name that it moved, and a table of the
 * homes' shares. Without the notes, such a name is in the wrong home. */
STORE_TEST(names_that_an_earlier_release_moved_are_refused)
{
    static const char *const refs[] = {"at/mix/L1.E1", "sys/places", "sys/places-next"};
    for (int i = 0; i < 3; i++) {
        char path[PL_PATH_MAX];
        pl_store *store = open_parts(*state);
        pl_store_close(&store);
        pl_store *part = open_store(pl_store_part(*state, i, path), PL_STORE_WRITE);
        commit_ref(part, refs[i], "1 1");
        assert_int_equal(pl_store_check_placement(part), PL_ERR_UNSUPPORTED);
        pl_store_close(&part);
        assert_fails(pl_store_open(*state, PL_STORE_READ, &store), PL_ERR_UNSUPPORTED,
                     refs[i]);
        assert_non_null(strstr(pl_last_error(), "pathloom homes set"));
        assert_ok(pl_remove_tree(*state));
    }
}

/* `homes set` exchanges the folder for a copy with another number of parts. */
STORE_TEST(a_reader_of_another_number_of_parts_is_told_to_open_again)
{
    static const int numbers[] = {2, PARTS + 1, 1};
    for (int i = 0; i < 3; i++) {
        char copy[PL_PATH_MAX], home[PL_PATH_MAX];
        const int n = numbers[i];
        pl_store *reader = open_parts(*state);
        snprintf(copy, sizeof copy, "%s.copy", (const char *)*state);
        if (n > 1)
            assert_ok(pl_store_make_parts(copy, n));
        for (int part = 0; part < n; part++) {
            OWNED(pl_store_close)
            pl_store *writer =
                open_store(pl_store_home(copy, part, n, home), PL_STORE_CREATE);
        }
        assert_ok(pl_exchange_folders(copy, *state));
        assert_fails(pl_store_refresh(reader), PL_ERR_BUSY, "open it again");
        pl_store_close(&reader);
        pl_store *reverse = open_store(*state, PL_STORE_READ);
        assert_ok(pl_exchange_folders(copy, *state));
        assert_fails(pl_store_refresh(reverse), PL_ERR_BUSY, "open it again");
        pl_store_close(&reverse);
        assert_ok(pl_remove_tree(copy));
        assert_ok(pl_remove_tree(*state));
    }
}
