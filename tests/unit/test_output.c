/* folder: base; label: unit */
/* Tests that writing an output destroys nothing that is at its path (base/output.h). */
#include "base/base.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static char folder[] = "/tmp/pl-output-XXXXXX";

static const char *at(const char *name)
{
    static char paths[4][PL_PATH_MAX];
    static int next;
    next = (next + 1) % 4;
    return pl_join(paths[next], folder, name);
}

static int make_folder(void **state)
{
    (void)state;
    pl_copy_text(folder, sizeof folder, "/tmp/pl-output-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int drop_folder(void **state)
{
    (void)state;
    return pl_remove_tree(folder) == PL_OK ? 0 : -1;
}

static void put_output(const char *path, const char *text)
{
    assert_int_equal(pl_write_output(path, text, strlen(text)), PL_OK);
}

static void expect_file(const char *path, const char *text)
{
    pl_buf found = {0};
    assert_int_equal(pl_read_file(path, &found), PL_OK);
    assert_string_equal(pl_buf_text(&found), text);
    pl_buf_destroy(&found);
}

static mode_t kind_of(const char *path)
{
    struct stat info;
    assert_int_equal(lstat(path, &info), 0);
    return info.st_mode & S_IFMT;
}

static void nothing_is_left_beside(int n_expected)
{
    char command[128];
    snprintf(command, sizeof command, "ls -A %s | wc -l", folder);
    FILE *pipe = popen(command, "r");
    int n = -1;
    assert_non_null(pipe);
    assert_int_equal(fscanf(pipe, "%d", &n), 1);
    pclose(pipe);
    assert_int_equal(n, n_expected);
}

static void a_missing_file_is_made_and_an_old_one_is_replaced_whole(void **state)
{
    (void)state;
    pl_output *o = NULL;
    put_output(at("file"), "first");
    assert_int_equal(pl_output_open(at("file"), &o), PL_OK);
    assert_int_equal(pl_output_write(o, "sec", 3), PL_OK);
    expect_file(at("file"), "first"); /* not before the end */
    assert_int_equal(pl_output_write(o, "ond", 3), PL_OK);
    assert_int_equal(pl_output_align(o, 8), PL_OK);
    assert_int_equal(pl_output_end(o), PL_OK);
    pl_output_close(&o);
    expect_file(at("file"), "second");
    nothing_is_left_beside(1);
}

static void an_output_that_does_not_end_changes_nothing(void **state)
{
    (void)state;
    pl_output *o = NULL;
    put_output(at("file"), "old");
    assert_int_equal(pl_output_open(at("file"), &o), PL_OK);
    assert_int_equal(pl_output_write(o, "new", 3), PL_OK);
    pl_output_close(&o);
    expect_file(at("file"), "old");
    nothing_is_left_beside(1);
}

static void links_are_followed_to_files_old_and_new(void **state)
{
    (void)state;
    assert_int_equal(mkdir(at("deep"), 0700), 0);
    assert_int_equal(symlink("deep/real", at("link")), 0);
    assert_int_equal(symlink("link", at("second")), 0);
    put_output(at("second"), "made through two links");
    expect_file(at("deep/real"), "made through two links");
    put_output(at("link"), "again");
    expect_file(at("deep/real"), "again");
    assert_int_equal(kind_of(at("link")), S_IFLNK);
    assert_int_equal(kind_of(at("second")), S_IFLNK);
    assert_int_equal(kind_of(at("deep/real")), S_IFREG);
}

static void a_circle_of_links_is_refused(void **state)
{
    (void)state;
    assert_int_equal(symlink("b", at("a")), 0);
    assert_int_equal(symlink("a", at("b")), 0);
    assert_int_equal(pl_write_output(at("a"), "x", 1), PL_ERR_USAGE);
    assert_non_null(strstr(pl_last_error(), "links"));
    nothing_is_left_beside(2);
}

static void a_pipe_gets_the_bytes_and_stays_a_pipe(void **state)
{
    (void)state;
    char got[16] = "";
    assert_int_equal(mkfifo(at("pipe"), 0600), 0);
    assert_int_equal(symlink("pipe", at("link")), 0);
    int reader = open(at("pipe"), O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    put_output(at("pipe"), "one");
    put_output(at("link"), "two");
    assert_int_equal(read(reader, got, sizeof got), 6);
    assert_memory_equal(got, "onetwo", 6);
    close(reader);
    assert_int_equal(kind_of(at("pipe")), S_IFIFO);
    assert_int_equal(kind_of(at("link")), S_IFLNK);
}

/* A service of systemd may have a socket as its output. A socket cannot be opened. The
 * name `stdout` is what /dev/stdout is, where a system has it. */
static void a_socket_that_is_the_output_of_the_process_is_written(void **state)
{
    (void)state;
    char got[16] = "";
    int ends[2], own = dup(STDOUT_FILENO);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(symlink("/proc/self/fd/1", at("stdout")), 0);
    assert_int_equal(symlink("stdout", at("link")), 0);
    fflush(stdout);
    dup2(ends[0], STDOUT_FILENO);
    const pl_status first = pl_write_output(at("stdout"), "one", 3),
                    second = pl_write_output(at("link"), "two", 3);
    dup2(own, STDOUT_FILENO);
    assert_int_equal(first, PL_OK);
    assert_int_equal(second, PL_OK);
    assert_int_equal(recv(ends[1], got, sizeof got, MSG_DONTWAIT), 6);
    assert_memory_equal(got, "onetwo", 6);
    close(own);
    close(ends[0]);
    close(ends[1]);
}

static void a_device_is_written_and_stays_a_device(void **state)
{
    (void)state;
    assert_int_equal(symlink("/dev/null", at("null")), 0);
    assert_int_equal(symlink("/dev/full", at("full")), 0);
    put_output(at("null"), "x");
    assert_int_equal(pl_write_output(at("full"), "x", 1), PL_ERR_NOSPACE);
    assert_int_equal(kind_of(at("null")), S_IFLNK);
    assert_int_equal(kind_of("/dev/null"), S_IFCHR);
    assert_int_equal(kind_of("/dev/full"), S_IFCHR);
    nothing_is_left_beside(2);
}

/* `pathloom page --report /dev/stdout >> log`, and bash's >(gzip > x) */
static void a_descriptor_of_the_process_keeps_what_it_has_written(void **state)
{
    (void)state;
    char path[64];
    int fd = open(at("log"), O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "before ", 7), 7);
    snprintf(path, sizeof path, "/dev/fd/%d", fd);
    put_output(path, "one ");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    assert_int_equal(symlink(path, at("link")), 0);
    put_output(at("link"), "two");
    assert_int_equal(write(fd, " after", 6), 6);
    close(fd);
    expect_file(at("log"), "before one two after");
    assert_int_equal(pl_write_output(path, "x", 1), PL_ERR_IO); /* closed by now */
}

static void permissions_of_an_old_file_are_kept(void **state)
{
    (void)state;
    struct stat info;
    put_output(at("file"), "secret");
    assert_int_equal(chmod(at("file"), 0600), 0);
    put_output(at("file"), "secret too");
    assert_int_equal(stat(at("file"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
}

/* Another user may know the name of the temporary file. */
static void a_link_at_the_temporary_name_is_not_followed(void **state)
{
    (void)state;
    char temporary[64];
    put_output(at("victim"), "old");
    snprintf(temporary, sizeof temporary, "file.tmp-%ld", (long)getpid());
    assert_int_equal(symlink("victim", at(temporary)), 0);
    put_output(at("file"), "new");
    expect_file(at("victim"), "old");
    expect_file(at("file"), "new");
    assert_int_equal(kind_of(at("file")), S_IFREG);
}

/* In a run folder that somebody else made, a link could lead to any file of the user.
 */
static void the_programs_own_files_do_not_follow_links(void **state)
{
    (void)state;
    put_output(at("victim"), "old");
    assert_int_equal(symlink("victim", at("own")), 0);
    assert_int_equal(pl_replace_file(at("own"), "new", 3), PL_OK);
    expect_file(at("victim"), "old");
    expect_file(at("own"), "new");
}

static void a_folder_an_empty_path_and_a_missing_folder_are_refused(void **state)
{
    (void)state;
    assert_int_equal(mkdir(at("dir"), 0700), 0);
    assert_int_not_equal(pl_write_output(at("dir"), "x", 1), PL_OK);
    assert_int_equal(pl_write_output("", "x", 1), PL_ERR_USAGE);
    assert_int_equal(pl_write_output(at("no/file"), "x", 1), PL_ERR_NOT_FOUND);
    assert_int_equal(kind_of(at("dir")), S_IFDIR);
    nothing_is_left_beside(1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_folder, drop_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_missing_file_is_made_and_an_old_one_is_replaced_whole),
        CASE(an_output_that_does_not_end_changes_nothing),
        CASE(links_are_followed_to_files_old_and_new),
        CASE(a_circle_of_links_is_refused),
        CASE(a_pipe_gets_the_bytes_and_stays_a_pipe),
        CASE(a_socket_that_is_the_output_of_the_process_is_written),
        CASE(a_device_is_written_and_stays_a_device),
        CASE(a_descriptor_of_the_process_keeps_what_it_has_written),
        CASE(permissions_of_an_old_file_are_kept),
        CASE(a_link_at_the_temporary_name_is_not_followed),
        CASE(the_programs_own_files_do_not_follow_links),
        CASE(a_folder_an_empty_path_and_a_missing_folder_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
