/* folder: job; label: unit
 *
 * Tests that a restore of an older backup forgives no fenced worker, and that the hub's
 * epoch does not fall. */
#include "job/run.h"
#include "tests/support/store_fixture.h"

static const char LIAR[] = "fenced/liar", OWN[] = "fenced/worker-1",
                  EPOCH[] = "sys/hub-epoch";

typedef struct places {
    char dir[64], store[PL_PATH_MAX], backup[PL_PATH_MAX], keys[PL_PATH_MAX];
    char target[PL_FENCED_TEXT_MAX];
    pl_pubkey liar;
} places;

static void put_refs(const char *folder, const char *const refs[][2], int n)
{
    pl_store *store = NULL;
    assert_ok(pl_store_open(folder, PL_STORE_CREATE, &store));
    pl_txn *txn = begin(store);
    for (int i = 0; i < n; i++)
        assert_ok(pl_txn_put_ref(txn, refs[i][0], refs[i][1]));
    assert_ok(pl_txn_commit(&txn));
    pl_store_close(&store);
}

static void mirror(const char *from, const char *to)
{
    pl_store *store = NULL;
    pl_mirror_report report;
    assert_ok(pl_store_open(from, PL_STORE_READ, &store));
    assert_ok(pl_store_mirror(store, to, true, &report));
    pl_store_close(&store);
}

static uint64_t assert_refs(const places *p)
{
    pl_store *store = NULL;
    pl_buf text = {0};
    assert_ok(pl_store_open(p->store, PL_STORE_READ, &store));
    assert_ok(pl_store_get_ref(store, LIAR, &text));
    assert_string_equal(pl_buf_text(&text), p->target);
    assert_ok(pl_store_get_ref(store, OWN, &text));
    assert_string_equal(pl_buf_text(&text), "- its memory is bad");
    assert_ok(pl_store_get_ref(store, EPOCH, &text));
    assert_string_equal(pl_buf_text(&text), "9");
    const uint64_t sequence = pl_store_sequence(store);
    pl_buf_destroy(&text);
    pl_store_close(&store);
    return sequence;
}

/* A run whose backup is from before the liar was found. */
static int setup(void **state)
{
    places *p = pl_alloc(sizeof *p);
    pl_keypair pair;
    char key[PL_PUBKEY_TEXT];
    pl_copy_text(p->dir, sizeof p->dir, "/tmp/pl-kept-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    pl_join(p->store, p->dir, "store");
    pl_join(p->backup, p->dir, "backup");
    pl_join(p->keys, p->dir, "keys/allow");
    pl_keypair_create(&pair);
    p->liar = pair.open;
    pl_pubkey_format(&p->liar, key);
    snprintf(p->target, sizeof p->target, "%s it lied", key);
    const char *const early[][2] = {{OWN, "- its memory is bad"}, {EPOCH, "4"}};
    const char *const late[][2] = {{LIAR, p->target}, {EPOCH, "9"}};
    put_refs(p->store, early, 2);
    mirror(p->store, p->backup);
    put_refs(p->store, late, 2);
    char folder[PL_PATH_MAX];
    assert_ok(pl_make_folders(pl_join(folder, p->dir, "keys")));
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    places *p = *state;
    assert_ok(pl_remove_tree(p->dir));
    pl_free(p);
    return 0;
}

static pl_status allow_liar(pl_key_list *list, void *context)
{
    const places *p = context;
    pl_key_entry entry = {.key = p->liar, .role = PL_AS_WORKER, .name = "liar"};
    return pl_key_list_put(list, &entry);
}

static void assert_revoked(const places *p)
{
    pl_key_list list;
    assert_ok(pl_key_list_load(p->keys, &list));
    assert_int_equal(list.n, 1);
    assert_int_equal(list.entries[0].role, PL_AS_REVOKED);
    pl_key_list_clear(&list);
}

static void older_backup_forgives_no_liar(void **state)
{
    places *p = *state;
    run_kept kept = {.dir = p->dir};
    assert_ok(pl_key_list_edit(p->keys, allow_liar, p));
    assert_ok(run_keep(p->store, &kept));
    assert_revoked(p);
    mirror(p->backup, p->store);
    assert_ok(pl_key_list_edit(p->keys, allow_liar, p)); /* as in the backup */
    assert_ok(run_put_back(p->store, &kept));
    assert_revoked(p);
    const uint64_t sequence = assert_refs(p);
    /* what is there already is not written again */
    assert_ok(run_put_back(p->store, &kept));
    assert_int_equal(assert_refs(p), sequence);
    pl_free(kept.fences);
}

static void new_folder_keeps_nothing(void **state)
{
    places *p = *state;
    run_kept kept = {.dir = p->dir};
    char none[PL_PATH_MAX];
    assert_ok(run_keep(pl_join(none, p->dir, "none"), &kept));
    assert_int_equal(kept.n, 0);
    assert_int_equal(kept.hub_epoch, 0);
    assert_ok(run_put_back(none, &kept));
    pl_free(kept.fences);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(older_backup_forgives_no_liar),
        TEST(new_folder_keeps_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
