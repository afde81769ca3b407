/* folder: workers; label: unit
 * Tests what the launcher says of a process that cannot begin, when it starts one
 * again, and how it ends one. */
#include "workers/workers.h"
#include <signal.h>
#include <stdlib.h>
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

/* Starts a child that runs a script of sh; $0 is the file to which it writes its pid.
 */
static pid_t run(pl_launcher *l, const char *name, const char *script)
{
    char pids[PL_PATH_MAX], address[PL_ADDRESS_MAX];
    const char *const argv[] = {"sh", "-c", script, pl_join(pids, scratch, name), NULL};
    assert_ok(pl_launcher_start(l, name, argv, pids));
    while (!pl_launcher_address(l, name, address, sizeof address) || !address[0])
        pl_sleep_ms(10);
    return (pid_t)atoi(address);
}

static void tend_until(pl_launcher *l, int restarts)
{
    while (pl_launcher_restarts(l) < restarts) {
        assert_ok(pl_launcher_tend(l));
        pl_sleep_ms(10);
    }
}

PL_TEST(a_worker_that_was_killed_once_and_lives_since_can_do_the_work_of_others)
{
    OWNED(pl_launcher_destroy) pl_launcher *l;
    assert_ok(pl_launcher_create("/bin/sh", scratch, &l));
    kill(run(l, "worker-1", "echo $$ > $0; exec sleep 600"), SIGKILL);
    tend_until(l, 1);
    pl_sleep_ms(10100);
    const pid_t second =
        run(l, "worker-2",
            "echo $$ > $0; echo 'x status=ERR_NOPERM error=\"no\"'; exit 77");
    for (int i = 0; i < 6000 && kill(second, 0) == 0; i++) {
        assert_ok(pl_launcher_tend(l));
        pl_sleep_ms(10);
    }
    assert_int_not_equal(kill(second, 0), 0);
}

PL_TEST(a_restart_that_fails_is_tried_again)
{
    OWNED(pl_launcher_destroy) pl_launcher *l;
    struct rlimit files;
    assert_ok(pl_launcher_create("/bin/sh", scratch, &l));
    const pid_t home = run(l, "home", "echo $$ > $0; exec sleep 600");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    const struct rlimit none = {3, files.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    kill(home, SIGKILL);
    while (pl_launcher_restarts(l) == 0 && pl_launcher_tend(l) == PL_OK)
        pl_sleep_ms(10);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    tend_until(l, 2);
}

/* Workers that finish their tasks deliver them to homes. */
PL_TEST(what_dies_while_others_end_is_started_again)
{
    OWNED(pl_launcher_destroy) pl_launcher *l;
    char script[2 * PL_PATH_MAX];
    assert_ok(pl_launcher_create("/bin/sh", scratch, &l));
    const pid_t home = run(l, "home", "echo $$ > $0; exec sleep 600");
    snprintf(
        script, sizeof script,
        "trap '' TERM; echo $$ > $0; while grep -qx %d %s/home; do sleep 0.05; done",
        (int)home, scratch);
    run(l, "worker-1", script);
    kill(home, SIGKILL);
    assert_int_equal(pl_launcher_end(l, "worker", 600 * 1000), 0);
}

PL_SUITE(make_scratch, remove_scratch)
