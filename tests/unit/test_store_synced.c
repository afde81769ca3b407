/* folder: store; label: unit; alone */
#include "tests/support/store_fixture.h"
#include <sys/syscall.h>

/* Tests which files are flushed, and in which order. This program has its own fsync and
 * fdatasync, which RocksDB calls, too. Killing a process would not show that a flush is
 * missing, because the system keeps data that the process has written. Only a power cut
 * would show it. */

enum { FLUSHES_MAX = 64 };
static char flushed[FLUSHES_MAX][PL_PATH_MAX];
static int n_flushed;

static int note(int fd, long call)
{
    char link[64], path[PL_PATH_MAX] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (n_flushed < FLUSHES_MAX && readlink(link, path, sizeof path - 1) > 0)
        pl_copy_text(flushed[n_flushed++], PL_PATH_MAX, path);
    return (int)syscall(call, fd);
}

int fsync(int fd)
{
    return note(fd, SYS_fsync);
}

int fdatasync(int fd)
{
    return note(fd, SYS_fdatasync);
}

static int place_of(const char *ending)
{
    for (int i = 0; i < n_flushed; i++)
        if (pl_ends_with(flushed[i], ending))
            return i;
    return -1;
}

STORE_TEST(a_commit_flushes_its_log_and_then_its_mark)
{
    OWNED(pl_store_close) pl_store *store = open_store(*state, PL_STORE_CREATE);
    for (uint64_t n = 0; n < 3; n++) {
        n_flushed = 0;
        commit_version(store, "a/x", n, n, 1000);
        assert_true(place_of(".log") >= 0);
        assert_true(place_of("/HWM") > place_of(".log"));
        assert_int_equal(place_of("/HWM"), n_flushed - 1);
    }
}

STORE_TEST(a_new_epoch_is_flushed_before_anything_is_written_under_it)
{
    OWNED(pl_store_close) pl_store *store = open_store(*state, PL_STORE_CREATE);
    pl_store_close(&store);
    n_flushed = 0;
    store = open_store(*state, PL_STORE_WRITE);
    assert_true(place_of(".log") >= 0);
    assert_true(place_of("/HWM") > place_of(".log"));
}

STORE_TEST(a_replaced_file_is_flushed_and_then_its_folder)
{
    char path[PL_PATH_MAX];
    pl_join(path, *state, "file");
    n_flushed = 0;
    assert_ok(pl_replace_file(path, "x", 1));
    assert_int_equal(n_flushed, 2);
    assert_non_null(strstr(flushed[0], "/file.tmp-"));
    assert_true(pl_ends_with(*state, strrchr(flushed[1], '/')));
}
