/* folder: base; label: unit */
#include "base/base.h"
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "tests/support/suite.h"

enum { PASSAGES = 5, ALIVE = 40 };

/* Returns how many times a process stopped before it ended. */
static int count_stops(const char *spec)
{
    int how = 0, n = 0;
    const pid_t child = start_self(spec, "test_failpoint", "home", NULL);
    for (;; n++) {
        assert_int_equal(waitpid(child, &how, WUNTRACED), child);
        if (!WIFSTOPPED(how))
            break;
        kill(child, SIGCONT);
    }
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == ALIVE);
    return n;
}

/* Runs a process that passes three fail points five times each, and returns its wait
 * status. If no fail point ends the process, its exit code is 40 (ALIVE) plus the
 * number of times that a fail point returned an error. If `role` is a path, the process
 * makes a key file there instead. */
static int live_with(const char *spec, const char *once, const char *role)
{
    int how = 0;
    if (once)
        setenv("PATHLOOM_FAILPOINT_ONCE", once, 1);
    const pid_t child = start_self(spec, "test_failpoint", role, NULL);
    unsetenv("PATHLOOM_FAILPOINT_ONCE");
    assert_int_equal(waitpid(child, &how, WUNTRACED), child);
    if (WIFSTOPPED(how)) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    return how;
}

static int pass_points(void)
{
    static const char *const names[] = {"a.before", "a.after", "b.before"};
    int failed = 0;
    for (int i = 0; i < PASSAGES; i++)
        for (int n = 0; n < 3; n++)
            failed += pl_failpoint(names[n]) != PL_OK;
    return ALIVE + failed;
}

static void assert_lives(int how, int failed)
{
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), ALIVE + failed);
}

PL_TEST(a_point_acts_at_its_nth_passage_as_it_was_told)
{
    int how = live_with("a.after:kill:5", NULL, "home");
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    how = live_with("a.after:exit", NULL, "home");
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 71);
    how = live_with("b.before:stop:2", NULL, "home");
    assert_true(WIFSTOPPED(how) && WSTOPSIG(how) == SIGSTOP);
    assert_lives(live_with("b.before:error:3", NULL, "home"), 1);
}

PL_TEST(a_stop_with_0_stops_at_every_passage)
{
    assert_int_equal(count_stops("b.before:stop:0"), PASSAGES);
    assert_int_equal(count_stops("b.before:stop:0,a.after:stop:2"), PASSAGES + 1);
}

PL_TEST(a_point_that_sleeps_does_at_every_passage)
{
    int64_t start = pl_now_ms();
    assert_lives(live_with("a.after:sleep:40,b.before:error:3", NULL, "home"), 1);
    assert_true(pl_now_ms() - start >= 5 * 40);
}

PL_TEST(points_that_are_not_reached_do_nothing)
{
    assert_lives(live_with("a.after:kill:6", NULL, "home"), 0);
    assert_lives(live_with("a.aft:kill", NULL, "home"), 0);
    assert_lives(live_with("a.after.more:kill", NULL, "home"), 0);
    assert_lives(live_with("", NULL, "home"), 0);
}

PL_TEST(several_points_act_each_by_itself)
{
    assert_lives(
        live_with("a.before:error:1,b.before:error:5,a.before:error:2", NULL, "home"),
        3);
}

PL_TEST(a_point_with_a_role_acts_in_that_role_only)
{
    assert_lives(live_with("a.after@hub:kill", NULL, "home"), 0);
    assert_true(WIFSIGNALED(live_with("a.after@hub:kill", NULL, "hub")));
}

PL_TEST(with_a_folder_only_the_first_process_acts)
{
    char folder[] = "/tmp/pathloom-failpoint-XXXXXX", path[PL_PATH_MAX];
    assert_non_null(mkdtemp(folder));
    assert_lives(live_with("a.after@hub:error", folder, "hub"), 1);
    assert_lives(live_with("a.after@hub:error", folder, "hub"), 0);
    assert_true(pl_path_exists(pl_join(path, folder, "a.after@hub")));
    assert_ok(pl_remove_tree(folder));
}

PL_TEST(a_key_that_is_killed_while_it_is_written_is_made_anew)
{
    static const char *const points[] = {"fs.write.before:kill", "fs.fsync.after:kill"};
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        char folder[] = "/tmp/pathloom-failpoint-XXXXXX", path[PL_PATH_MAX];
        pl_keypair pair;
        assert_non_null(mkdtemp(folder));
        pl_join(path, folder, "key");
        assert_true(WIFSIGNALED(live_with(points[i], NULL, path)));
        assert_int_equal(pl_keypair_load(path, &pair), PL_ERR_NOT_FOUND);
        assert_lives(live_with("none:kill", NULL, path), 0);
        assert_ok(pl_keypair_load(path, &pair));
        assert_ok(pl_remove_tree(folder));
    }
}

PL_TEST(a_variable_that_cannot_be_read_fails_everything)
{
    static const char *const bad[] = {"a.after",     "a.after:",       ":kill",
                                      "a.after:kil", "a.after:kill:0", "x:kill,a.after",
                                      "a:kill:-1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_lives(live_with(bad[i], NULL, "home"), 3 * PASSAGES);
}

PL_CHILD(argc, argv)
{
    pl_keypair pair;
    if (!strchr(argv[1], '/'))
        return pass_points();
    pl_keypair_create(&pair);
    return ALIVE + (pl_keypair_save(argv[1], &pair) != PL_OK);
}
