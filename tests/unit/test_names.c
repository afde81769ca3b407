/* folder: history; label: unit */
#include "history/history.h"
#include "tests/support/store_fixture.h"

/* Tests what a name in a command means, in a store with modules of three arms. Two tags
 * have the same names as an arm and as a module. */

enum { BYTES = 64 };

static void put_tag(pl_store *store, const char *name)
{
    pl_snapshot_item item = {.module = "mix/embed.E0", .number = 1};
    pl_snapshot tag = {.items = &item, .n_items = 1, .phase = 1};
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    char object[PL_MODULE_NAME_MAX];
    pl_txn *txn = begin(store);
    pl_copy_text(tag.name, sizeof tag.name, name);
    snprintf(object, sizeof object, "tag/%s", name);
    pl_snapshot_encode(&tag, &bytes);
    put_object(txn, object, bytes.data, bytes.len);
    assert_ok(pl_txn_commit(&txn));
}

static pl_store *make(const char *folder)
{
    static const char *const modules[] = {"base/L1.E0", "base/L9.E0", "mix/L1.E0",
                                          "mix/embed.E0", "other/L9.E0"};
    pl_store *store = open_store(folder, PL_STORE_CREATE);
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        for (uint64_t n = 0; n < 3; n++)
            commit_version(store, modules[i], n, 10 * i + n, BYTES);
    put_tag(store, "mix");
    put_tag(store, "embed");
    put_tag(store, "good");
    return store;
}

static pl_name_kind kind_of(pl_store *store, const char *word)
{
    pl_name_kind kind;
    assert_ok(pl_names_kind(store, word, &kind));
    return kind;
}

PL_TEST_WITH(arms_and_modules_have_names, make_folder, drop_folder)
{
    OWNED(pl_store_close) pl_store *store = make(*state);
    assert_int_equal(kind_of(store, "mix"), PL_NAME_ARM);
    assert_int_equal(kind_of(store, "base"), PL_NAME_ARM);
    assert_int_equal(kind_of(store, "embed"), PL_NAME_MODULE);
    assert_int_equal(kind_of(store, "L1"), PL_NAME_MODULE);
    /* Two arms have a module of this name. */
    assert_int_equal(kind_of(store, "L9"), PL_NAME_MODULE);
    assert_int_equal(kind_of(store, "good"), PL_NAME_NONE);
    assert_int_equal(kind_of(store, "mi"), PL_NAME_NONE);
    assert_int_equal(kind_of(store, ""), PL_NAME_NONE);
}

static void expect_set(pl_store *store, const char *word, size_t n, uint64_t number)
{
    pl_module_set set;
    assert_ok(pl_names_set(store, word, &set));
    assert_int_equal(set.n, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(set.at[i].number, number);
    pl_free(set.at);
}

PL_TEST_WITH(an_arm_or_a_module_is_meant_before_a_tag, make_folder, drop_folder)
{
    OWNED(pl_store_close) pl_store *store = make(*state);
    expect_set(store, "good", 1, 1);
    expect_set(store, "mix", 2, 2);
    expect_set(store, "embed", 1, 2);
    expect_set(store, "embed@embed", 1, 1);
    expect_set(store, "mix@1", 2, 1);
}
