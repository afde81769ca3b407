/* folder: base; label: unit */
#include "base/base.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/scratch.h"

PL_TEST(folders_are_made_with_their_parents_and_twice)
{
    const char *deep = in_scratch("a/b/c/");
    assert_ok(pl_make_folders(deep));
    assert_ok(pl_make_folders(deep));
    assert_true(pl_path_is_folder(deep));
    assert_ok(pl_replace_file(in_scratch("a/file"), "x", 1));
    assert_false(pl_path_is_folder(in_scratch("a/file")));
    assert_int_not_equal(pl_make_folders(in_scratch("a/file/b")), PL_OK);
    assert_int_equal(pl_make_folders(""), PL_ERR_USAGE);
}

PL_TEST(a_replaced_file_reads_back)
{
    OWNED(pl_buf_destroy) pl_buf back = {0};
    for (size_t len = 0; len < 300000; len = len * 7 + 1) {
        OWNED(free_memory) uint8_t *data = pl_alloc(len);
        for (size_t i = 0; i < len; i++)
            data[i] = (uint8_t)(i * 31 + len);
        assert_ok(pl_replace_file(in_scratch("file"), data, len));
        assert_ok(pl_read_file(in_scratch("file"), &back));
        assert_int_equal(back.len, len);
        assert_memory_equal(back.data, data, len);
    }
    char temporary[64];
    snprintf(temporary, sizeof temporary, "file.tmp-%ld", (long)getpid());
    assert_false(pl_path_exists(in_scratch(temporary)));
}

PL_TEST(a_failed_replacement_leaves_the_old_content)
{
    OWNED(pl_buf_destroy) pl_buf back = {0};
    assert_ok(pl_replace_file(in_scratch("kept"), "old", 3));
    char temporary[64];
    snprintf(temporary, sizeof temporary, "kept.tmp-%ld", (long)getpid());
    assert_int_equal(mkdir(in_scratch(temporary), 0700), 0);
    assert_int_not_equal(pl_replace_file(in_scratch("kept"), "new", 3), PL_OK);
    assert_ok(pl_read_file(in_scratch("kept"), &back));
    assert_string_equal(pl_buf_text(&back), "old");
}

/* A launcher ends the job for codes of sysexits.h, but starts a process with 75 again.
 */
PL_TEST(too_few_files_are_no_reason_to_give_up)
{
    OWNED(pl_buf_destroy) pl_buf back = {0};
    struct rlimit whole, none;
    assert_ok(pl_replace_file(in_scratch("few"), "x", 1));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &whole), 0);
    none = whole;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const pl_status status = pl_read_file(in_scratch("few"), &back);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &whole), 0);
    assert_int_equal(status, PL_ERR_FILES);
    assert_int_equal(pl_status_exit_code(status), 75);
    assert_said("ulimit -n");
}

PL_TEST(an_absent_file_is_named)
{
    OWNED(pl_buf_destroy) pl_buf back = {0};
    pl_mapping mapping;
    assert_fails(pl_read_file(in_scratch("absent"), &back), PL_ERR_NOT_FOUND, "absent");
    assert_int_equal(pl_map_file(in_scratch("absent"), &mapping), PL_ERR_NOT_FOUND);
    assert_int_equal(pl_replace_file(in_scratch("absent/x"), "", 0), PL_ERR_NOT_FOUND);
}

/* pl_read_file refuses pipes and devices: reading a pipe could wait for ever, and a
 * device may have no end. */
PL_TEST(what_is_no_file_is_not_read)
{
    OWNED(pl_buf_destroy) pl_buf back = {0};
    assert_int_equal(mkfifo(in_scratch("pipe"), 0600), 0);
    assert_fails(pl_read_file(in_scratch("pipe"), &back), PL_ERR_DATA,
                 "a pipe and not a file");
    assert_int_equal(symlink("/dev/zero", in_scratch("zeros")), 0);
    assert_int_equal(pl_read_file(in_scratch("zeros"), &back), PL_ERR_DATA);
}

PL_TEST(a_mapping_shows_the_file_and_an_empty_one_is_empty)
{
    pl_mapping mapping;
    assert_ok(pl_replace_file(in_scratch("mapped"), "content", 7));
    assert_ok(pl_map_file(in_scratch("mapped"), &mapping));
    assert_int_equal(mapping.len, 7);
    assert_memory_equal(mapping.data, "content", 7);
    pl_unmap_file(&mapping);
    assert_null(mapping.data);
    assert_ok(pl_replace_file(in_scratch("mapped"), "", 0));
    assert_ok(pl_map_file(in_scratch("mapped"), &mapping));
    assert_int_equal(mapping.len, 0);
    pl_unmap_file(&mapping);
    assert_int_not_equal(pl_map_file(scratch, &mapping), PL_OK);
}

PL_TEST(a_tree_is_removed_without_following_links)
{
    assert_ok(pl_make_folders(in_scratch("tree/x/y")));
    assert_ok(pl_replace_file(in_scratch("tree/x/y/file"), "1", 1));
    assert_ok(pl_make_folders(in_scratch("outside")));
    assert_ok(pl_replace_file(in_scratch("outside/file"), "1", 1));
    assert_int_equal(symlink("../../outside", in_scratch("tree/x/link")), 0);
    assert_ok(pl_remove_tree(in_scratch("tree")));
    assert_false(pl_path_exists(in_scratch("tree")));
    assert_true(pl_path_exists(in_scratch("outside/file")));
    assert_ok(pl_remove_tree(in_scratch("tree")));
}

PL_TEST(folders_exchange_their_contents_in_one_step)
{
    char a[PL_PATH_MAX], b[PL_PATH_MAX];
    pl_copy_text(a, sizeof a, in_scratch("old"));
    pl_copy_text(b, sizeof b, in_scratch("new/er"));
    assert_ok(pl_make_folders(a));
    assert_ok(pl_make_folders(b));
    assert_ok(pl_replace_file(in_scratch("old/file"), "1", 1));
    assert_ok(pl_exchange_folders(b, a));
    assert_false(pl_path_exists(in_scratch("old/file")));
    assert_true(pl_path_exists(in_scratch("new/er/file")));
    assert_ok(pl_remove_tree(a));
    assert_int_equal(pl_exchange_folders(b, a), PL_ERR_IO);
    assert_true(pl_path_exists(in_scratch("new/er/file")));
}

PL_TEST(a_locked_folder_is_busy_until_its_holder_ends)
{
    int fd, other;
    assert_ok(pl_lock_folder(scratch, &fd));
    assert_int_equal(pl_lock_folder(scratch, &other), PL_ERR_BUSY);
    assert_int_equal(other, -1);
    pl_unlock_folder(&fd);
    assert_int_equal(fd, -1);
    pid_t child = fork();
    if (child == 0)
        _exit(pl_lock_folder(scratch, &other) == PL_OK ? 0 : 1);
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    assert_ok(pl_lock_folder(scratch, &fd));
    pl_unlock_folder(&fd);
}

PL_TEST(a_writable_folder_is_told_from_an_absent_one)
{
    assert_ok(pl_check_writable(scratch));
    assert_int_equal(pl_check_writable(in_scratch("nowhere")), PL_ERR_NOT_FOUND);
    assert_true(pl_disk_free_bytes(scratch) > 0);
    assert_true(pl_disk_free_bytes(in_scratch("nowhere")) == 0);
}

PL_TEST(joined_paths_that_do_not_fit_are_empty)
{
    char out[PL_PATH_MAX], name[PL_PATH_MAX];
    assert_string_equal(pl_join(out, "a", "b"), "a/b");
    assert_string_equal(pl_join(out, "a/", "b"), "a/b");
    assert_string_equal(pl_join(out, "", "b"), "b");
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    assert_string_equal(pl_join(out, "", name), name);
    assert_string_equal(pl_join(out, "a", name), "");
}

PL_TEST(folder_above_a_path_is_known_by_its_text)
{
    static const char *const cases[][2] = {
        {"a", "."},      {"a/", "."},       {"/a", "/"},   {"/", "/"},
        {"a/b", "a"},    {"/a/b/", "/a"},   {"a//", "."},  {".", "./.."},
        {"..", "../.."}, {"a/.", "a/./.."}, {"../a", ".."}};
    char out[PL_PATH_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(pl_path_above(out, cases[i][0]), cases[i][1]);
}

PL_TEST(a_place_in_a_folder_is_known_through_links)
{
    char store[PL_PATH_MAX], link[PL_PATH_MAX], path[PL_PATH_MAX];
    pl_join(store, scratch, "within/store");
    pl_join(link, scratch, "within/link");
    assert_ok(pl_make_folders(pl_join(path, store, "db/x")));
    assert_ok(pl_make_folders(in_scratch("within/store-2")));
    assert_int_equal(symlink(store, link), 0);
    assert_true(pl_path_within(store, store));
    assert_true(pl_path_within(store, link));
    assert_true(pl_path_within(link, store));
    assert_true(pl_path_within(pl_join(path, store, "db/../db/x/."), store));
    assert_true(pl_path_within(pl_join(path, link, "none/yet"), store));
    assert_true(pl_path_within(pl_join(path, link, "none"), scratch));
    assert_true(pl_path_within("none", "."));
    assert_true(pl_path_within("/none", "/"));
    assert_false(pl_path_within(in_scratch("within/store-2"), store));
    assert_false(pl_path_within(in_scratch("within"), store));
    assert_false(pl_path_within(store, in_scratch("within/none")));
    assert_true(pl_path_within(pl_join(path, store, "none/../none"), store));
}

PL_SUITE(make_scratch, remove_scratch)
