/* folder: job; label: unit
 *
 * Tests that a restore of an older backup forgives no fenced worker, and that the hub's
 * epoch does not fall. */
#include "job/run.h"
#include "tests/support/store_fixture.h"

static const char LIAR[] = "fenced/liar", OWN[] = "fenced/worker-1",
                  EPOCH[] = "sys/hub-epoch",
                  DROPPED[] = "dropped/mix/p00.r0/2/38654705700",
                  DRAW[] = "draw/0123456789abcdef";

typedef struct places {
    char dir[64], store[PL_PATH_MAX], backup[PL_PATH_MAX], keys[PL_PATH_MAX];
    char target[PL_FENCED_TEXT_MAX];
    pl_pubkey liar;
} places;

static void put_refs(const char *folder, const char *const refs[][2], int n)
{
    OWNED(pl_store_close) pl_store *store = open_store(folder, PL_STORE_CREATE);
    pl_txn *txn = begin(store);
    for (int i = 0; i < n; i++)
        assert_ok(pl_txn_put_ref(txn, refs[i][0], refs[i][1]));
    assert_ok(pl_txn_commit(&txn));
}

static void mirror(const char *from, const char *to)
{
    pl_mirror_report report;
    OWNED(pl_store_close) pl_store *store = open_store(from, PL_STORE_READ);
    assert_ok(pl_store_mirror(store, to, true, &report));
}

/* The store has what it had before the restore. Returns its newest commit. */
static uint64_t assert_kept(const places *p, const char *folder)
{
    OWNED(pl_store_close) pl_store *store = open_store(folder, PL_STORE_READ);
    assert_ref(store, LIAR, p->target);
    assert_ref(store, OWN, "- its memory is bad");
    assert_ref(store, EPOCH, "9");
    assert_ref(store, DROPPED, "-");
    return pl_store_sequence(store);
}

static void keep(const places *p, const char *folder, const char *backup,
                 run_kept *kept)
{
    *kept = (run_kept){.dir = p->dir};
    OWNED(pl_store_close) pl_store *from = open_store(backup, PL_STORE_READ);
    assert_ok(run_keep(folder, from, kept));
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
    const char *const early[][2] = {
        {OWN, "- its memory is bad"}, {EPOCH, "4"}, {DRAW, "-"}};
    const char *const late[][2] = {{LIAR, p->target}, {EPOCH, "9"}, {DROPPED, "-"}};
    put_refs(p->store, early, 3);
    mirror(p->store, p->backup);
    put_refs(p->store, late, 3);
    char folder[PL_PATH_MAX];
    assert_ok(pl_make_folders(pl_join(folder, p->dir, "keys")));
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    OWNED(free_memory) places *p = *state;
    assert_ok(pl_remove_tree(p->dir));
    return 0;
}

static pl_status allow_liar(pl_key_list *list, void *context)
{
    const places *p = context;
    pl_key_entry entry = {.key = p->liar, .role = PL_AS_WORKER, .name = "liar"};
    return pl_key_list_put(list, &entry);
}

static int role_of_liar(const places *p)
{
    OWNED(pl_key_list_clear) pl_key_list list;
    assert_ok(pl_key_list_load(p->keys, &list));
    assert_int_equal(list.n, 1);
    return (int)list.entries[0].role;
}

static void assert_revoked(const places *p)
{
    assert_int_equal(role_of_liar(p), PL_AS_REVOKED);
}

#define FIXTURE_TEST(name) PL_TEST_ON(name, places *p, setup, teardown)

FIXTURE_TEST(older_backup_forgives_no_liar)
{
    run_kept kept;
    assert_ok(pl_key_list_edit(p->keys, allow_liar, p));
    keep(p, p->store, p->backup, &kept);
    assert_revoked(p);
    mirror(p->backup, p->store);
    assert_ok(pl_key_list_edit(p->keys, allow_liar, p)); /* as in the backup */
    assert_ok(run_put_back(p->store, &kept));
    assert_revoked(p);
    const uint64_t sequence = assert_kept(p, p->store);
    /* what is there already is not written again */
    assert_ok(run_put_back(p->store, &kept));
    assert_int_equal(assert_kept(p, p->store), sequence);
    pl_free(kept.refs);
}

/* It is killed after the store was replaced; the next call finds only the old state. */
FIXTURE_TEST(a_restore_that_is_killed_forgives_no_liar)
{
    run_kept kept;
    for (int way = 0; way < 2; way++) {
        keep(p, p->store, p->backup, &kept);
        pl_free(kept.refs);
        mirror(p->backup, p->store);
        if (way == 0) { /* the restore is given again */
            keep(p, p->store, p->backup, &kept);
            mirror(p->backup, p->store);
            assert_ok(run_put_back(p->store, &kept));
            pl_free(kept.refs);
        } else /* `train` is given */
            assert_ok(run_put_back_left(p->dir, p->store));
        const uint64_t sequence = assert_kept(p, p->store);
        assert_ok(run_put_back_left(p->dir, p->store));
        assert_int_equal(assert_kept(p, p->store), sequence);
    }
}

FIXTURE_TEST(new_folder_keeps_nothing)
{
    run_kept kept;
    char none[PL_PATH_MAX];
    keep(p, pl_join(none, p->dir, "none"), p->backup, &kept);
    assert_int_equal(kept.n, 0);
    assert_int_equal(kept.hub_epoch, 0);
    assert_ok(run_put_back(none, &kept));
    pl_free(kept.refs);
}

/* `worker-1` and `p00.r0` are other workers and paths there, and its list of keys is
 * its own. */
FIXTURE_TEST(backup_of_another_job_gets_no_fence)
{
    run_kept kept;
    char other[PL_PATH_MAX];
    static const char *const refs[][2] = {{EPOCH, "1"}, {"draw/0000000000000000", "-"}};
    put_refs(pl_join(other, p->dir, "other"), refs, 2);
    assert_ok(pl_key_list_edit(p->keys, allow_liar, p));
    keep(p, p->store, other, &kept);
    assert_int_equal(role_of_liar(p), PL_AS_WORKER);
    mirror(other, p->store);
    assert_ok(run_put_back(p->store, &kept));
    OWNED(pl_store_close) pl_store *store = open_store(p->store, PL_STORE_READ);
    assert_ref(store, OWN, NULL);
    assert_ref(store, LIAR, NULL);
    assert_ref(store, DROPPED, NULL);
    assert_ref(store, EPOCH, "9"); /* tokens are never used twice */
    pl_free(kept.refs);
}

/* `forget` and `homes set` make a new store with the old refs. */
FIXTURE_TEST(store_that_was_made_anew_is_of_the_same_job)
{
    run_kept kept;
    const char *const refs[][2] = {{LIAR, p->target},
                                   {OWN, "- its memory is bad"},
                                   {EPOCH, "9"},
                                   {DROPPED, "-"},
                                   {DRAW, "-"}};
    assert_ok(pl_remove_tree(p->store));
    put_refs(p->store, refs, 5);
    keep(p, p->store, p->backup, &kept);
    mirror(p->backup, p->store);
    assert_ok(run_put_back(p->store, &kept));
    (void)assert_kept(p, p->store);
    pl_free(kept.refs);
}

/* The disk of one home is lost, and only this home is restored. */
FIXTURE_TEST(other_homes_tell_what_a_lost_home_knew)
{
    run_kept kept;
    char homes[PL_PATH_MAX], one[PL_PATH_MAX], two[PL_PATH_MAX], slash[PL_PATH_MAX];
    pl_join(homes, p->dir, "homes");
    assert_ok(pl_store_make_parts(homes, 2));
    mirror(p->store, pl_store_part(homes, 1, two));
    keep(p, homes, p->backup, &kept); /* all homes will be restored */
    assert_int_equal(kept.n, 3);
    pl_free(kept.refs);
    pl_store_part(homes, 0, one);
    pl_join(slash, one, "");
    keep(p, slash, p->backup, &kept);
    mirror(p->backup, one);
    assert_ok(run_put_back(one, &kept));
    (void)assert_kept(p, one);
    pl_free(kept.refs);
}

/* One home cannot be read, and another one is lost: what they knew is not known. */
FIXTURE_TEST(lost_home_hides_no_home_that_cannot_be_read)
{
    run_kept kept = {.dir = p->dir};
    char homes[PL_PATH_MAX], one[PL_PATH_MAX], format[PL_PATH_MAX];
    pl_join(homes, p->dir, "homes");
    assert_ok(pl_store_make_parts(homes, 2));
    mirror(p->store, pl_store_part(homes, 0, one));
    assert_ok(pl_replace_file(pl_join(format, one, "FORMAT"), "?", 1));
    OWNED(pl_store_close) pl_store *from = open_store(p->backup, PL_STORE_READ);
    const pl_status status = run_keep(homes, from, &kept);
    assert_true(status != PL_OK && status != PL_ERR_NOT_FOUND);
    assert_said(one);
    pl_free(kept.refs);
}
