/* folder: workers; label: unit
 * Tests what the launcher says of a process that cannot begin, and how it ends one. */
#include "workers/workers.h"
#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/scratch.h"

static void start(const char *program, const char *logs, const char *expected)
{
    static const char *const argv[] = {"program", NULL};
    OWNED(pl_launcher_destroy) pl_launcher *l;
    assert_ok(pl_launcher_create(program, logs, &l));
    assert_int_equal(pl_launcher_start(l, "home", argv, NULL), PL_ERR_OS);
    if (!strstr(pl_last_error(), expected))
        fail_msg("`%s` lacks `%s`", pl_last_error(), expected);
}

PL_TEST(a_program_that_cannot_be_executed_is_named_with_the_reason)
{
    start("/nowhere/program", scratch,
          "cannot start process home: it cannot execute the program "
          "(/nowhere/program): No such file or directory");
    start(scratch, scratch, "it cannot execute the program");
}

PL_TEST(a_log_that_cannot_be_opened_is_named_with_the_reason)
{
    char logs[PL_PATH_MAX], log[PL_PATH_MAX];
    pl_join(logs, scratch, "logs");
    assert_ok(pl_make_folders(pl_join(log, logs, "home.log")));
    start("/bin/sh", logs, "home.log): Is a directory");
}

PL_TEST(a_launcher_without_files_says_so)
{
    static const char *const argv[] = {"program", NULL};
    OWNED(pl_launcher_destroy) pl_launcher *l;
    struct rlimit files;
    assert_ok(pl_launcher_create("/bin/true", scratch, &l));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    const int next = dup(STDERR_FILENO);
    close(next);
    const struct rlimit none = {(rlim_t)next, files.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const pl_status status = pl_launcher_start(l, "home", argv, NULL);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    assert_fails(status, PL_ERR_FILES, "ulimit -n");
}

/* A home that still merges rounds does not end at once. */
PL_TEST(a_process_that_is_asked_to_end_is_not_killed)
{
    char ready[PL_PATH_MAX], address[PL_ADDRESS_MAX];
    const char *const argv[] = {"sh", "-c",
                                "trap '' TERM; echo x > \"$0\"; exec sleep 600",
                                pl_join(ready, scratch, "ready"), NULL};
    OWNED(pl_launcher_destroy) pl_launcher *l;
    assert_ok(pl_launcher_create("/bin/sh", scratch, &l));
    assert_ok(pl_launcher_start(l, "home", argv, ready));
    while (!pl_launcher_address(l, "home", address, sizeof address))
        pl_sleep_ms(10);
    assert_int_equal(pl_launcher_end(l, "home", 1), 1);
    assert_int_equal(pl_launcher_end(l, "home", 1), 1);
    assert_int_equal(pl_launcher_stop(l, "home", 1), 1);
    assert_int_equal(pl_launcher_stop(l, "home", 1), 0);
}

PL_SUITE(make_scratch, remove_scratch)
