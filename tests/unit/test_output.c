/* folder: base; label: unit */
/* Tests that writing an output destroys nothing that is at its path (base/output.h). */
#include "base/base.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/scratch.h"

static void put_output(const char *path, const char *text)
{
    assert_ok(pl_write_output(path, text, strlen(text)));
}

static void expect_file(const char *path, const char *text)
{
    OWNED(pl_buf_destroy) pl_buf found = {0};
    assert_ok(pl_read_file(path, &found));
    assert_string_equal(pl_buf_text(&found), text);
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
    snprintf(command, sizeof command, "ls -A %s | wc -l", scratch);
    FILE *pipe = popen(command, "r");
    int n = -1;
    assert_non_null(pipe);
    assert_int_equal(fscanf(pipe, "%d", &n), 1);
    pclose(pipe);
    assert_int_equal(n, n_expected);
}

#define FOLDER_TEST(name) PL_TEST_WITH(name, make_scratch, remove_scratch)

FOLDER_TEST(a_missing_file_is_made_and_an_old_one_is_replaced_whole)
{
    pl_output *o = NULL;
    put_output(in_scratch("file"), "first");
    assert_ok(pl_output_open(in_scratch("file"), &o));
    assert_ok(pl_output_write(o, "sec", 3));
    expect_file(in_scratch("file"), "first"); /* not before the end */
    assert_ok(pl_output_write(o, "ond", 3));
    assert_ok(pl_output_align(o, 8));
    assert_ok(pl_output_end(o));
    pl_output_close(&o);
    expect_file(in_scratch("file"), "second");
    nothing_is_left_beside(1);
}

FOLDER_TEST(an_output_that_does_not_end_changes_nothing)
{
    pl_output *o = NULL;
    put_output(in_scratch("file"), "old");
    assert_ok(pl_output_open(in_scratch("file"), &o));
    assert_ok(pl_output_write(o, "new", 3));
    pl_output_close(&o);
    expect_file(in_scratch("file"), "old");
    nothing_is_left_beside(1);
}

FOLDER_TEST(links_are_followed_to_files_old_and_new)
{
    assert_int_equal(mkdir(in_scratch("deep"), 0700), 0);
    assert_int_equal(symlink("deep/real", in_scratch("link")), 0);
    assert_int_equal(symlink("link", in_scratch("second")), 0);
    put_output(in_scratch("second"), "made through two links");
    expect_file(in_scratch("deep/real"), "made through two links");
    put_output(in_scratch("link"), "again");
    expect_file(in_scratch("deep/real"), "again");
    assert_int_equal(kind_of(in_scratch("link")), S_IFLNK);
    assert_int_equal(kind_of(in_scratch("second")), S_IFLNK);
    assert_int_equal(kind_of(in_scratch("deep/real")), S_IFREG);
}

FOLDER_TEST(a_circle_of_links_is_refused)
{
    assert_int_equal(symlink("b", in_scratch("a")), 0);
    assert_int_equal(symlink("a", in_scratch("b")), 0);
    assert_fails(pl_write_output(in_scratch("a"), "x", 1), PL_ERR_USAGE, "links");
    nothing_is_left_beside(2);
}

FOLDER_TEST(a_pipe_gets_the_bytes_and_stays_a_pipe)
{
    char got[16] = "";
    assert_int_equal(mkfifo(in_scratch("pipe"), 0600), 0);
    assert_int_equal(symlink("pipe", in_scratch("link")), 0);
    int reader = open(in_scratch("pipe"), O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    put_output(in_scratch("pipe"), "one");
    put_output(in_scratch("link"), "two");
    assert_int_equal(read(reader, got, sizeof got), 6);
    assert_memory_equal(got, "onetwo", 6);
    close(reader);
    assert_int_equal(kind_of(in_scratch("pipe")), S_IFIFO);
    assert_int_equal(kind_of(in_scratch("link")), S_IFLNK);
}

/* A service of systemd may have a socket as its output. A socket cannot be opened. The
 * name `stdout` is what /dev/stdout is, where a system has it. */
FOLDER_TEST(a_socket_that_is_the_output_of_the_process_is_written)
{
    char got[16] = "";
    int ends[2], own = dup(STDOUT_FILENO);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(symlink("/proc/self/fd/1", in_scratch("stdout")), 0);
    assert_int_equal(symlink("stdout", in_scratch("link")), 0);
    fflush(stdout);
    dup2(ends[0], STDOUT_FILENO);
    const pl_status first = pl_write_output(in_scratch("stdout"), "one", 3),
                    second = pl_write_output(in_scratch("link"), "two", 3);
    dup2(own, STDOUT_FILENO);
    assert_ok(first);
    assert_ok(second);
    assert_int_equal(recv(ends[1], got, sizeof got, MSG_DONTWAIT), 6);
    assert_memory_equal(got, "onetwo", 6);
    close(own);
    close(ends[0]);
    close(ends[1]);
}

FOLDER_TEST(a_device_is_written_and_stays_a_device)
{
    assert_int_equal(symlink("/dev/null", in_scratch("null")), 0);
    assert_int_equal(symlink("/dev/full", in_scratch("full")), 0);
    put_output(in_scratch("null"), "x");
    assert_int_equal(pl_write_output(in_scratch("full"), "x", 1), PL_ERR_NOSPACE);
    assert_int_equal(kind_of(in_scratch("null")), S_IFLNK);
    assert_int_equal(kind_of("/dev/null"), S_IFCHR);
    assert_int_equal(kind_of("/dev/full"), S_IFCHR);
    nothing_is_left_beside(2);
}

/* `pathloom page --report /dev/stdout >> log`, and bash's >(gzip > x) */
FOLDER_TEST(a_descriptor_of_the_process_keeps_what_it_has_written)
{
    char path[64];
    int fd = open(in_scratch("log"), O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "before ", 7), 7);
    snprintf(path, sizeof path, "/dev/fd/%d", fd);
    put_output(path, "one ");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    assert_int_equal(symlink(path, in_scratch("link")), 0);
    put_output(in_scratch("link"), "two");
    assert_int_equal(write(fd, " after", 6), 6);
    close(fd);
    expect_file(in_scratch("log"), "before one two after");
    assert_int_equal(pl_write_output(path, "x", 1), PL_ERR_IO); /* closed by now */
}

FOLDER_TEST(permissions_of_an_old_file_are_kept)
{
    struct stat info;
    put_output(in_scratch("file"), "secret");
    assert_int_equal(chmod(in_scratch("file"), 0600), 0);
    put_output(in_scratch("file"), "secret too");
    assert_int_equal(stat(in_scratch("file"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
}

/* Another user may know the name of the temporary file. */
FOLDER_TEST(a_link_at_the_temporary_name_is_not_followed)
{
    char temporary[64];
    put_output(in_scratch("victim"), "old");
    snprintf(temporary, sizeof temporary, "file.tmp-%ld", (long)getpid());
    assert_int_equal(symlink("victim", in_scratch(temporary)), 0);
    put_output(in_scratch("file"), "new");
    expect_file(in_scratch("victim"), "old");
    expect_file(in_scratch("file"), "new");
    assert_int_equal(kind_of(in_scratch("file")), S_IFREG);
}

/* In a run folder that somebody else made, a link could lead to any file of the user.
 */
FOLDER_TEST(the_programs_own_files_do_not_follow_links)
{
    put_output(in_scratch("victim"), "old");
    assert_int_equal(symlink("victim", in_scratch("own")), 0);
    assert_ok(pl_replace_file(in_scratch("own"), "new", 3));
    expect_file(in_scratch("victim"), "old");
    expect_file(in_scratch("own"), "new");
}

FOLDER_TEST(a_folder_an_empty_path_and_a_missing_folder_are_refused)
{
    assert_int_equal(mkdir(in_scratch("dir"), 0700), 0);
    assert_int_not_equal(pl_write_output(in_scratch("dir"), "x", 1), PL_OK);
    assert_int_equal(pl_write_output("", "x", 1), PL_ERR_USAGE);
    assert_int_equal(pl_write_output(in_scratch("no/file"), "x", 1), PL_ERR_NOT_FOUND);
    assert_int_equal(kind_of(in_scratch("dir")), S_IFDIR);
    nothing_is_left_beside(1);
}
