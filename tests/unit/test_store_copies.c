/* folder: store; label: integration
 *
 * Tests copies of a store in parts (one part per home). Whenever the copying process is
 * killed, and whatever number of parts there was before, either all parts have the new
 * state or none has it. */
#include "store/store_internal.h"
#include "tests/support/kill_states.h"
#include <sys/stat.h>

enum { BEGUN = 2, PARTS = 3, BYTES = 3000, OLD = 1, NEW = 3, PASSAGES_MAX = 60 };

static const char *const modules[PARTS] = {"mix/L1.E0", "mix/L1.E1", "mix/L2.E0"};

typedef struct places {
    char source[PL_PATH_MAX], target[PL_PATH_MAX], kept[PL_PATH_MAX];
    char states[PL_PATH_MAX]; /* what killed copies leave of the target */
} places;

static places places_in(const char *folder)
{
    places p;
    pl_join(p.source, folder, "source");
    pl_join(p.target, folder, "target");
    pl_join(p.kept, folder, "kept");
    pl_join(p.states, folder, "states");
    return p;
}

/* Commits versions up to `last` in the first n parts. */
static void train_to(const char *folder, int n, uint64_t last)
{
    for (int i = 0; i < n; i++) {
        char path[PL_PATH_MAX];
        pl_version head;
        OWNED(pl_store_close)
        pl_store *store = open_store(pl_store_part(folder, i, path), PL_STORE_CREATE);
        uint64_t next = 0;
        if (pl_store_head(store, modules[i], &head) == PL_OK) {
            next = head.number + 1;
            pl_version_clear(&head);
        }
        for (; next <= last; next++)
            commit_version(store, modules[i], next, 10 * (uint64_t)i + next, BYTES);
    }
}

/* Returns the number of the newest version, which must be the same in all parts. */
static uint64_t look(const char *folder, int n)
{
    uint64_t newest = 0;
    OWNED(pl_store_close) pl_store *store = open_store(folder, PL_STORE_READ);
    assert_int_equal(pl_store_n_parts(store), n);
    for (int i = 0; i < n; i++) {
        OWNED(pl_version_clear) pl_version head;
        assert_ok(pl_store_head(store, modules[i], &head));
        if (i == 0)
            newest = head.number;
        assert_int_equal(head.number, newest);
        assert_true(blob_holds(store, &head.params, 10 * (uint64_t)i + newest, BYTES));
    }
    assert_whole(store);
    return newest;
}

static pl_status copy(const char *source, const char *target, bool force)
{
    OWNED(pl_store_close) pl_store *from = NULL;
    pl_mirror_report report;
    PL_CHECK(pl_store_open(source, PL_STORE_READ, &from));
    return pl_store_mirror(from, target, force, &report);
}

/* The stores with which the tests begin are made once, in the folders `both` and `ways`
 * of this folder. Each test gets a copy. */
static void *first_stores;

static places copy_first_stores(const char *name, const char *folder)
{
    char from[PL_PATH_MAX];
    places p = places_in(folder), first = places_in(pl_join(from, first_stores, name));
    copy_folder(first.source, p.source, NULL);
    copy_folder(first.kept, p.kept, NULL);
    return p;
}

/* The source had two parts in the old state, and was copied to `kept`. After this the
 * source got a third part and more versions, up to NEW. */
static places take_both(const char *folder)
{
    return copy_first_stores("both", folder);
}

static void make_both(void)
{
    static const char list[] = "pathloom parts 1\n3\n";
    char folder[PL_PATH_MAX], path[PL_PATH_MAX];
    places p = places_in(pl_join(folder, first_stores, "both"));
    assert_ok(pl_store_make_parts(p.source, BEGUN));
    train_to(p.source, BEGUN, OLD);
    assert_ok(copy(p.source, p.kept, false));
    assert_ok(pl_replace_file(pl_join(path, p.source, "PARTS"), list, strlen(list)));
    train_to(p.source, PARTS, NEW);
}

static void take_kept(const places *p)
{
    assert_ok(pl_remove_tree(p->target));
    copy_folder(p->kept, p->target, NULL);
}

static int force_until(const places *p, const char *point, int passage)
{
    return die_at(point, passage, "force", p->source, p->target);
}

static const char *const points[] = {"kv.commit.before",  "kv.commit.after",
                                     "mark.write.before", "mark.flush.after",
                                     "fs.write.before",   "fs.rename.after",
                                     "fs.folder.after",   "store.copy.before",
                                     "store.copy.after",  NULL};

/* Makes the states in which a copy over the target can be killed, and returns their
 * number. `how` is "copy" or "force". */
static int make_states(const places *p, const char *how)
{
    return make_kill_states(points, how, p->source, p->target, p->target, p->states);
}

STORE_TEST(an_older_copy_stays_or_is_replaced)
{
    places p = take_both(*state);
    int n_parts = 0;
    int n_old = 0, n_decided = 0;
    take_kept(&p);
    const int n_states = make_states(&p, "copy");
    for (int n = 1; n <= n_states; n++) {
        take_kill_state(p.states, n, p.target);
        pl_status status = pl_store_parts(p.target, &n_parts);
        /* The killed process had decided the copy, so the next one completes it. */
        if (status == PL_ERR_BUSY) {
            assert_said("was interrupted");
            assert_ok(pl_store_end_copy(p.target));
            assert_int_equal(look(p.target, PARTS), NEW);
            n_decided++;
        } else if (status == PL_OK && n_parts == BEGUN) {
            assert_int_equal(look(p.target, BEGUN), OLD);
            n_old++;
        } else {
            assert_int_equal(look(p.target, PARTS), NEW);
        }
        if (n % 5 == 0) { /* a copy that is repeated must never be refused */
            assert_ok(copy(p.source, p.target, false));
            assert_int_equal(look(p.target, PARTS), NEW);
        }
    }
    print_message("%d states: old %d times, copy had to be completed %d times\n",
                  n_states, n_old, n_decided);
    assert_true(n_old > 10 && n_decided > 10);
}

/* ---- a copy over a store with a different history ---- */
/* Commits versions `first` to `last` with different bytes than the source has. There
 * are twice as many bytes, so that the chunks also differ in size and number. */
static void go_another_way(const char *folder, const char *module, uint64_t first,
                           uint64_t last)
{
    OWNED(pl_store_close) pl_store *store = open_store(folder, PL_STORE_WRITE);
    for (uint64_t next = first; next <= last; next++)
        commit_version(store, module, next, 500 + next, 2 * BYTES);
}

static bool has(const char *folder, const char *module, uint64_t number, uint64_t seed,
                size_t bytes)
{
    OWNED(pl_version_clear) pl_version head;
    OWNED(pl_store_close) pl_store *store = open_store(folder, PL_STORE_READ);
    assert_ok(pl_store_head(store, module, &head));
    return head.number == number && blob_holds(store, &head.params, seed, bytes);
}

/* The two stores without parts have the same versions up to OLD. */
static places take_ways(const char *folder)
{
    return copy_first_stores("ways", folder);
}

static void make_ways(void)
{
    char folder[PL_PATH_MAX];
    places p = places_in(pl_join(folder, first_stores, "ways"));
    OWNED(pl_store_close) pl_store *store = open_store(p.source, PL_STORE_CREATE);
    for (uint64_t next = 0; next <= OLD; next++)
        commit_version(store, modules[0], next, next, BYTES);
    pl_store_close(&store);
    assert_ok(copy(p.source, p.kept, false));
    go_another_way(p.kept, modules[0], OLD + 1, NEW + 2);
    store = open_store(p.source, PL_STORE_WRITE);
    for (uint64_t next = OLD + 1; next <= NEW; next++)
        commit_version(store, modules[0], next, next, BYTES);
}

static int make_first_stores(void **state)
{
    (void)state;
    if (make_folder(&first_stores) != 0)
        return -1;
    make_both();
    make_ways();
    return 0;
}

static int drop_first_stores(void **state)
{
    (void)state;
    return drop_folder(&first_stores);
}

/* Counts the states that killed copies leave: all; those in which the target was old;
 * those in which the copy was decided, so that the test completed it. */
typedef struct tally {
    int n_states, n_old, n_decided;
} tally;

/* After a kill the store must be old, or must be new, or must refuse to open until the
 * copy is complete. */
static void look_after_death(const places *p, tally *t, bool (*is_old)(const char *),
                             bool (*is_new)(const char *))
{
    pl_store *store = NULL;
    pl_status status = pl_store_open(p->target, PL_STORE_READ, &store);
    pl_store_close(&store);
    t->n_states++;
    if (status == PL_ERR_BUSY) {
        assert_said("was interrupted");
        assert_ok(pl_store_end_copy(p->target));
        t->n_decided++;
        assert_true(is_new(p->target));
    } else {
        assert_ok(status);
        t->n_old += is_old(p->target);
        assert_true(is_old(p->target) || is_new(p->target));
    }
    OWNED(pl_store_close) pl_store *whole = open_store(p->target, PL_STORE_READ);
    assert_whole(whole);
}

static bool whole_is_old(const char *folder)
{
    return has(folder, modules[0], NEW + 2, 500 + NEW + 2, 2 * BYTES);
}

static bool whole_is_new(const char *folder)
{
    return has(folder, modules[0], NEW, NEW, BYTES);
}

/* A writer can open what a kill left, and then the new folder of a copy that was killed
 * before its decision is gone. */
STORE_TEST(another_way_stays_or_is_replaced)
{
    places p = take_ways(*state);
    tally t = {0};
    char fresh[PL_PATH_MAX];
    int n_fresh = 0;
    take_kept(&p);
    assert_int_equal(copy(p.source, p.target, false), PL_ERR_EXISTS);
    assert_true(whole_is_old(p.target));
    const int n_states = make_states(&p, "force");
    for (int n = 1; n <= n_states; n++) {
        take_kill_state(p.states, n, p.target);
        look_after_death(&p, &t, whole_is_old, whole_is_new);
        n_fresh += pl_path_exists(pl_join(fresh, p.target, "new"));
        const bool was_old = whole_is_old(p.target);
        if (n % 5 == 0) {
            assert_ok(copy(p.source, p.target, true));
            assert_true(whole_is_new(p.target));
        }
        pl_store *store = open_store(p.target, PL_STORE_WRITE);
        assert_true(pl_store_epoch(store) > 2); /* higher than before */
        pl_store_close(&store);
        assert_false(pl_path_exists(fresh));
        assert_true(n % 5 == 0 || whole_is_old(p.target) == was_old);
    }
    print_message("%d states: old %d times, copy had to be completed %d times\n",
                  t.n_states, t.n_old, t.n_decided);
    assert_true(t.n_old > 9 && t.n_decided > 5 && n_fresh > 0);
}

static bool parts_are_old(const char *folder)
{
    return has(folder, modules[1], NEW + 2, 500 + NEW + 2, 2 * BYTES) &&
           has(folder, modules[0], OLD, OLD, BYTES);
}

static bool parts_are_new(const char *folder)
{
    return has(folder, modules[1], NEW, 10 + NEW, BYTES) && look(folder, PARTS) == NEW;
}

/* All parts must be replaced together, also if only one of two has a different history
 * and so only this part is copied completely. */
STORE_TEST(a_part_that_went_another_way_is_replaced_with_all)
{
    places p = take_both(*state);
    char part[PL_PATH_MAX];
    tally t = {0};
    go_another_way(pl_store_part(p.kept, 1, part), modules[1], OLD + 1, NEW + 2);
    take_kept(&p);
    const int n_states = make_states(&p, "force");
    for (int n = 1; n <= n_states; n++) {
        take_kill_state(p.states, n, p.target);
        look_after_death(&p, &t, parts_are_old, parts_are_new);
    }
    print_message("%d states: old %d times, copy had to be completed %d times\n",
                  t.n_states, t.n_old, t.n_decided);
    assert_true(t.n_old > 10 && t.n_decided > 10);
}

/* If the target has a later state of the same history as the source, one commit changes
 * the target in place, without a complete copy. Chunks of the source that no record
 * names must not replace chunks of the target. Chunks that an interrupted copy has put
 * there go when the target is opened for writing. The source may have been opened more
 * often than the target. */
STORE_TEST(a_later_state_goes_back_in_place)
{
    places p = take_ways(*state);
    char path[PL_PATH_MAX];
    tally t = {0};
    uint64_t begun;
    pl_store *store = open_store(p.source, PL_STORE_WRITE);
    pl_store_close(&store);
    assert_ok(pl_remove_tree(p.kept));
    assert_ok(copy(p.source, p.kept, false));
    go_another_way(p.kept, modules[0], NEW + 1, NEW + 2);
    for (int i = 0; i < 4; i++) {
        store = open_store(p.source, PL_STORE_WRITE);
        pl_store_close(&store);
    }
    take_kept(&p);
    const int n_states = make_states(&p, "force");
    for (int n = 1; n <= n_states; n++) {
        take_kill_state(p.states, n, p.target);
        look_after_death(&p, &t, whole_is_old, whole_is_new);
        assert_false(pl_path_exists(pl_join(path, p.target, "new")));
        store = open_store(p.target, PL_STORE_WRITE);
        pl_store_close(&store);
        OWNED(pl_store_close) pl_store *whole = open_store(p.target, PL_STORE_READ);
        /* without this row an audit also looks for bytes that no record names */
        assert_ok(number_read(store_source(whole), STORE_MIRROR_ROW, &begun));
        assert_int_equal(begun, 0);
        assert_whole(whole);
    }
    print_message("%d states: old %d times\n", t.n_states, t.n_old);
    assert_true(t.n_old > 3 && t.n_decided == 0);
}

STORE_TEST(a_reader_sees_what_took_its_place)
{
    places p = take_ways(*state);
    OWNED(pl_version_clear) pl_version head;
    OWNED(pl_store_close) pl_store *reader = open_store(p.kept, PL_STORE_READ);
    assert_ok(copy(p.source, p.kept, true));
    assert_ok(pl_store_refresh(reader));
    assert_ok(pl_store_head(reader, modules[0], &head));
    assert_int_equal(head.number, NEW);
    assert_true(blob_holds(reader, &head.params, NEW, BYTES));
}

STORE_TEST(a_first_copy_is_whole_or_not_there)
{
    places p = take_both(*state);
    pl_store *store = NULL;
    int n_none = 0;
    const int n_states = make_states(&p, "copy");
    for (int n = 1; n <= n_states; n++) {
        take_kill_state(p.states, n, p.target);
        assert_ok(pl_store_end_copy(p.target));
        pl_status status = pl_store_open(p.target, PL_STORE_READ, &store);
        pl_store_close(&store);
        n_none += status == PL_ERR_NOT_FOUND;
        if (status == PL_OK)
            assert_int_equal(look(p.target, PARTS), NEW);
        else
            assert_int_equal(status, PL_ERR_NOT_FOUND);
        if (n % 5 > 0) /* a copy of everything takes long */
            continue;
        assert_ok(copy(p.source, p.target, false));
        assert_int_equal(look(p.target, PARTS), NEW);
    }
    print_message("%d states: no store %d times\n", n_states, n_none);
    assert_true(n_none > 5);
}

STORE_TEST(a_part_more_is_not_dropped_without_a_word)
{
    places p = take_both(*state);
    int n_parts = 0;
    assert_fails(copy(p.kept, p.source, false), PL_ERR_EXISTS,
                 "has 3 parts, but the store to copy has 2");
    assert_int_equal(look(p.source, PARTS), NEW);
    assert_ok(copy(p.kept, p.source, true));
    assert_int_equal(look(p.source, BEGUN), OLD);
    assert_ok(pl_store_parts(p.source, &n_parts));
    assert_int_equal(n_parts, BEGUN);
}

/* A copy into an open store must be refused. So must a copy between a store in parts
 * and a store in one piece. */
STORE_TEST(other_targets_are_refused)
{
    places p = take_both(*state);
    char part[PL_PATH_MAX];
    pl_store *writer = open_store(pl_store_part(p.kept, 1, part), PL_STORE_WRITE);
    assert_int_equal(copy(p.source, p.kept, false), PL_ERR_BUSY);
    pl_store_close(&writer);
    assert_int_equal(look(p.kept, BEGUN), OLD);
    writer = open_store(p.target, PL_STORE_CREATE);
    pl_store_close(&writer);
    assert_fails(copy(p.source, p.target, true), PL_ERR_EXISTS, "a store in one piece");
    assert_int_equal(copy(p.target, p.kept, true), PL_ERR_EXISTS);
    assert_int_equal(look(p.kept, BEGUN), OLD);
}

/* ---- parts on other disks ---- */
/* Makes a folder on a different file system (/dev/shm). If that fails, makes a folder
 * beside the stores. */
static void make_other_disk(char other[PL_PATH_MAX], const char *folder)
{
    const char *memory = "/dev/shm/pl-copies-XXXXXX";
    pl_copy_text(other, PL_PATH_MAX, memory);
    if (!mkdtemp(other))
        assert_ok(pl_make_folders(pl_join(other, folder, "other")));
}

static void move(const char *from, const char *to)
{
    char command[3 * PL_PATH_MAX];
    snprintf(command, sizeof command, "mv %s %s", from, to);
    assert_int_equal(system(command), 0);
}

static bool is_link(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
}

/* Moves a folder, and leaves a link with its name. */
static void move_away(const char *path, const char *other)
{
    char moved[PL_PATH_MAX];
    const char *name = strrchr(path, '/') + 1;
    assert_ok(pl_remove_tree(pl_join(moved, other, name)));
    move(path, moved);
    assert_int_equal(symlink(moved, path), 0);
}

STORE_TEST(a_part_on_another_disk_is_replaced_where_it_lies)
{
    static const char *const at[] = {"store.copy.before", "store.copy.after",
                                     "fs.rename.after"};
    places p = take_both(*state);
    char other[PL_PATH_MAX], part[PL_PATH_MAX], there[PL_PATH_MAX];
    tally t = {0};
    make_other_disk(other, *state);
    go_another_way(pl_store_part(p.kept, 1, part), modules[1], OLD + 1, NEW + 2);
    for (int k = 0; k < 3; k++)
        for (int passage = 1; passage < PASSAGES_MAX; passage += 2) {
            take_kept(&p);
            move_away(pl_store_part(p.target, 1, part), other);
            int how = force_until(&p, at[k], passage);
            if (how)
                look_after_death(&p, &t, parts_are_old, parts_are_new);
            else
                assert_true(parts_are_new(p.target));
            assert_true(is_link(part));
            assert_true(pl_path_exists(pl_join(there, other, "home-2/FORMAT")));
            if (!how)
                break;
        }
    assert_true(t.n_old > 1 && t.n_decided > 5);
    assert_ok(pl_remove_tree(other));
}

STORE_TEST(what_cannot_be_replaced_where_it_lies_stays)
{
    places p = take_both(*state), one;
    char other[PL_PATH_MAX], path[PL_PATH_MAX], ways[PL_PATH_MAX];
    char away[PL_PATH_MAX], there[PL_PATH_MAX];
    make_other_disk(other, *state);
    assert_ok(pl_make_folders(pl_join(ways, *state, "ways")));
    one = take_ways(ways);
    move_away(pl_join(path, one.kept, "db"), other);
    assert_fails(copy(one.source, one.kept, true), PL_ERR_UNSUPPORTED,
                 "is a link or a mount point");
    assert_true(is_link(path) && whole_is_old(one.kept));
    /* The third part is on the other disk. The copy would have to remove it. */
    move_away(pl_store_part(p.source, 2, path), other);
    assert_int_equal(copy(p.kept, p.source, true), PL_ERR_UNSUPPORTED);
    assert_true(is_link(path));
    assert_int_equal(look(p.source, PARTS), NEW);
    /* The disk of the second part is missing. */
    move_away(pl_store_part(p.kept, 1, path), other);
    pl_join(away, other, "away");
    pl_join(there, other, "home-2");
    move(there, away);
    assert_fails(copy(p.source, p.kept, true), PL_ERR_NOT_FOUND,
                 "a link to a path that does not exist");
    move(away, there);
    assert_int_equal(look(p.kept, BEGUN), OLD);
    assert_ok(pl_remove_tree(other));
}

/* ---- readers during a copy ---- */
static void assert_waits(pl_store *reader)
{
    assert_fails(pl_store_refresh(reader), PL_ERR_BUSY, "was interrupted");
}

STORE_TEST(a_reader_waits_while_a_copy_takes_the_place)
{
    places p = take_ways(*state);
    int n = 0;
    for (int passage = 1; passage < PASSAGES_MAX; passage++, n++) {
        take_kept(&p);
        OWNED(pl_store_close) pl_store *reader = open_store(p.target, PL_STORE_READ);
        if (!force_until(&p, "store.copy.before", passage)) {
            pl_store_close(&reader);
            break;
        }
        assert_waits(reader);
        assert_ok(pl_store_end_copy(p.target));
        assert_ok(pl_store_refresh(reader));
        assert_int_equal(pl_store_sequence(reader), NEW + 1);
    }
    assert_true(n > 4);
}

STORE_TEST(a_reader_of_parts_waits_as_well)
{
    places p = take_both(*state);
    char part[PL_PATH_MAX];
    pl_store *store = NULL;
    go_another_way(pl_store_part(p.kept, 1, part), modules[1], OLD + 1, NEW + 2);
    take_kept(&p);
    pl_store *all = open_store(p.target, PL_STORE_READ);
    pl_store *one = open_store(pl_store_part(p.target, 1, part), PL_STORE_READ);
    assert_true(force_until(&p, "store.copy.before", 8) != 0);
    assert_waits(all);
    assert_waits(one);
    assert_int_equal(pl_store_open(part, PL_STORE_READ, &store), PL_ERR_BUSY);
    assert_int_equal(pl_store_open(part, PL_STORE_WRITE, &store), PL_ERR_BUSY);
    assert_ok(pl_store_end_copy(p.target));
    assert_fails(
        pl_store_refresh(all), PL_ERR_BUSY,
        "open it again"); /* the copy has a part that the reader does not see */
    assert_ok(pl_store_refresh(one));
    pl_store_close(&all);
    pl_store_close(&one);
    assert_int_equal(look(p.target, PARTS), NEW);
}

STORE_TEST(a_reader_of_more_parts_says_that_there_are_fewer)
{
    places p = take_both(*state);
    OWNED(pl_store_close) pl_store *reader = open_store(p.source, PL_STORE_READ);
    assert_ok(copy(p.kept, p.source, true));
    assert_fails(pl_store_refresh(reader), PL_ERR_BUSY, "open it again");
}

/* A reader must notice that the folder `db` was replaced, although the system may give
 * the inode number of a removed folder to a new one. */
STORE_TEST(a_reader_is_not_taken_in_by_a_number)
{
    places p = take_ways(*state);
    char path[PL_PATH_MAX], second[PL_PATH_MAX];
    struct stat first, now;
    take_kept(&p);
    assert_ok(copy(p.target, pl_join(second, *state, "second"), false));
    OWNED(pl_store_close) pl_store *reader = open_store(p.target, PL_STORE_READ);
    assert_int_equal(stat(pl_join(path, p.target, "db"), &first), 0);
    for (int i = 0; i < 7; i++) {
        assert_ok(copy(i % 2 ? second : p.source, p.target, true));
        assert_int_equal(stat(path, &now), 0);
        /* the reader has the folder open, so no new folder gets its number */
        assert_true(now.st_ino != first.st_ino);
    }
    assert_ok(pl_store_refresh(reader));
    assert_int_equal(pl_store_sequence(reader), NEW + 1);
}

STORE_TEST(an_opening_in_the_middle_of_a_copy_sees_one_state)
{
    enum { COPIES = 3, SLEEP_MS = 15 };
    places p = take_ways(*state);
    char spec[64];
    int n_busy = 0, n_seen = 0;
    snprintf(spec, sizeof spec, "store.copy.before:sleep:%d", SLEEP_MS);
    for (int i = 0; i < COPIES; i++) {
        int how = 0;
        take_kept(&p);
        const pid_t child = start_self(spec, "force", p.source, p.target);
        while (waitpid(child, &how, WNOHANG) == 0) {
            pl_store *reader = NULL;
            pl_status status = pl_store_open(p.target, PL_STORE_READ, &reader);
            n_busy += status == PL_ERR_BUSY;
            n_seen += status == PL_OK;
            if (status != PL_ERR_BUSY)
                assert_ok(status);
            pl_store_close(&reader);
            pl_sleep_ms(1);
        }
        assert_int_equal(how, 0);
    }
    print_message("the store opened %d times and was busy %d times\n", n_seen, n_busy);
    assert_true(whole_is_new(p.target));
}

/* ---- files that remain of a copy that was killed before its decision ---- */
STORE_TEST(parts_that_a_killed_copy_made_go)
{
    places p = take_both(*state);
    char fresh[PL_PATH_MAX], part[PL_PATH_MAX], inner[PL_PATH_MAX], away[PL_PATH_MAX];
    go_another_way(pl_store_part(p.kept, 1, part), modules[1], OLD + 1, NEW + 2);
    take_kept(&p);
    pl_join(fresh, p.target, "new-3");
    for (int passage = 1; !pl_path_exists(fresh); passage++)
        assert_true(force_until(&p, "kv.commit.before", passage) != 0);
    pl_join(inner, pl_store_part(p.target, 1, part), "new");
    assert_true(pl_path_exists(inner));
    assert_int_equal(rename(part, pl_join(away, p.target, "away")), 0);
    assert_ok(pl_store_clear_copy(p.target));
    assert_true(pl_path_exists(fresh));
    assert_int_equal(rename(away, part), 0);
    assert_ok(pl_store_clear_copy(p.target));
    assert_false(pl_path_exists(fresh));
    pl_store *store = open_store(part, PL_STORE_WRITE);
    pl_store_close(&store);
    assert_false(pl_path_exists(inner));
    assert_true(parts_are_old(p.target));
}

PL_CHILD(argc, argv)
{
    return copy(argv[1], argv[2], strcmp(argv[0], "force") == 0) == PL_OK ? 0 : 1;
}

PL_SUITE(make_first_stores, drop_first_stores)
