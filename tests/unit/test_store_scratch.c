/* folder: store; label: unit
 *
 * Tests the folders that readers keep under TMPDIR. A reader must remove its own
 * folder, and the folders of readers that were killed. It must not remove a folder that
 * is in use, is young, or belongs to a different program. */
#include "tests/support/store_fixture.h"
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

static const char prefix[] = "pathloom-read-";

static int n_scratch(const char *folder)
{
    int n = 0;
    const struct dirent *entry;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    while ((entry = readdir(dir)))
        n += strncmp(entry->d_name, prefix, sizeof prefix - 1) == 0;
    closedir(dir);
    return n;
}

static void all_become_old(const char *folder)
{
    const struct timespec then[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    char path[PL_PATH_MAX];
    const struct dirent *entry;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    while ((entry = readdir(dir)))
        if (strncmp(entry->d_name, prefix, sizeof prefix - 1) == 0)
            assert_int_equal(utimensat(AT_FDCWD, pl_join(path, folder, entry->d_name),
                                       then, AT_SYMLINK_NOFOLLOW),
                             0);
    closedir(dir);
}

static void kill_a_reader(const char *folder)
{
    assert_int_equal(run_self(NULL, "test_store_scratch", folder, NULL), 128 + SIGKILL);
}

static int set_up(void **state)
{
    char *folder;
    assert_int_equal(make_folder(state), 0);
    folder = *state;
    setenv("TMPDIR", folder, 1);
    char path[PL_PATH_MAX];
    OWNED(pl_store_close)
    pl_store *store = open_store(pl_join(path, folder, "store"), PL_STORE_CREATE);
    return 0;
}

static int tear_down(void **state)
{
    unsetenv("TMPDIR");
    return drop_folder(state);
}

#define FIXTURE_TEST(name) PL_TEST_WITH(name, set_up, tear_down)

FIXTURE_TEST(what_a_killed_reader_left_goes_with_the_next)
{
    char path[PL_PATH_MAX];
    pl_join(path, *state, "store");
    for (int i = 0; i < 3; i++)
        kill_a_reader(path);
    assert_int_equal(n_scratch(*state), 3);
    pl_store *store = open_store(path, PL_STORE_READ);
    assert_int_equal(n_scratch(*state), 4);
    pl_store_close(&store);
    assert_int_equal(n_scratch(*state), 3);
    all_become_old(*state);
    store = open_store(path, PL_STORE_READ);
    assert_int_equal(n_scratch(*state), 1);
    pl_store_close(&store);
    assert_int_equal(n_scratch(*state), 0);
}

FIXTURE_TEST(what_a_living_reader_has_stays)
{
    char path[PL_PATH_MAX];
    pl_join(path, *state, "store");
    pl_store *first = open_store(path, PL_STORE_READ);
    all_become_old(*state);
    pl_store *second = open_store(path, PL_STORE_READ);
    assert_int_equal(n_scratch(*state), 2);
    assert_ok(pl_store_refresh(first));
    pl_store_close(&first);
    pl_store_close(&second);
    assert_int_equal(n_scratch(*state), 0);
}

FIXTURE_TEST(what_is_not_a_readers_stays)
{
    char path[PL_PATH_MAX], other[PL_PATH_MAX], link[PL_PATH_MAX], file[PL_PATH_MAX];
    pl_join(other, *state, "precious");
    assert_ok(pl_make_folders(other));
    assert_ok(pl_replace_file(pl_join(file, other, "file"), "x", 1));
    assert_int_equal(symlink(other, pl_join(link, *state, "pathloom-read-abcdef")), 0);
    assert_ok(pl_replace_file(pl_join(path, *state, "pathloom-read-ghijkl"), "x", 1));
    all_become_old(*state);
    pl_store *store = open_store(pl_join(path, *state, "store"), PL_STORE_READ);
    pl_store_close(&store);
    assert_true(pl_path_exists(file));
    assert_int_equal(n_scratch(*state), 2);
}

PL_CHILD(argc, argv)
{
    pl_store *store;
    if (pl_store_open(argv[1], PL_STORE_READ, &store) != PL_OK)
        return 1;
    return raise(SIGKILL);
}
