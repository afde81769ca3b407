/* folder: base; label: unit */
#include "base/base.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static char folder[] = "/tmp/pl-fs-XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[PL_PATH_MAX];
    return pl_join(path, folder, name);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return pl_remove_tree(folder) == PL_OK ? 0 : -1;
}

static void folders_are_made_with_their_parents_and_twice(void **state)
{
    (void)state;
    const char *deep = in_folder("a/b/c/");
    assert_int_equal(pl_make_folders(deep), PL_OK);
    assert_int_equal(pl_make_folders(deep), PL_OK);
    assert_true(pl_path_is_folder(deep));
    assert_int_equal(pl_replace_file(in_folder("a/file"), "x", 1), PL_OK);
    assert_false(pl_path_is_folder(in_folder("a/file")));
    assert_int_not_equal(pl_make_folders(in_folder("a/file/b")), PL_OK);
}

static void a_replaced_file_reads_back(void **state)
{
    (void)state;
    pl_buf back = {0};
    for (size_t len = 0; len < 300000; len = len * 7 + 1) {
        uint8_t *data = pl_alloc(len);
        for (size_t i = 0; i < len; i++)
            data[i] = (uint8_t)(i * 31 + len);
        assert_int_equal(pl_replace_file(in_folder("file"), data, len), PL_OK);
        assert_int_equal(pl_read_file(in_folder("file"), &back), PL_OK);
        assert_int_equal(back.len, len);
        assert_memory_equal(back.data, data, len);
        pl_free(data);
    }
    char temporary[64];
    snprintf(temporary, sizeof temporary, "file.tmp-%ld", (long)getpid());
    assert_false(pl_path_exists(in_folder(temporary)));
    pl_buf_destroy(&back);
}

static void a_failed_replacement_leaves_the_old_content(void **state)
{
    (void)state;
    pl_buf back = {0};
    assert_int_equal(pl_replace_file(in_folder("kept"), "old", 3), PL_OK);
    char temporary[64];
    snprintf(temporary, sizeof temporary, "kept.tmp-%ld", (long)getpid());
    assert_int_equal(mkdir(in_folder(temporary), 0700), 0);
    assert_int_not_equal(pl_replace_file(in_folder("kept"), "new", 3), PL_OK);
    assert_int_equal(pl_read_file(in_folder("kept"), &back), PL_OK);
    assert_string_equal(pl_buf_text(&back), "old");
    pl_buf_destroy(&back);
}

/* A launcher ends the job for codes of sysexits.h, but starts a process with 75 again.
 */
static void too_few_files_are_no_reason_to_give_up(void **state)
{
    (void)state;
    pl_buf back = {0};
    struct rlimit whole, none;
    assert_int_equal(pl_replace_file(in_folder("few"), "x", 1), PL_OK);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &whole), 0);
    none = whole;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const pl_status status = pl_read_file(in_folder("few"), &back);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &whole), 0);
    assert_int_equal(status, PL_ERR_FILES);
    assert_int_equal(pl_status_exit_code(status), 75);
    assert_non_null(strstr(pl_last_error(), "ulimit -n"));
    pl_buf_destroy(&back);
}

static void an_absent_file_is_named(void **state)
{
    (void)state;
    pl_buf back = {0};
    pl_mapping mapping;
    assert_int_equal(pl_read_file(in_folder("absent"), &back), PL_ERR_NOT_FOUND);
    assert_non_null(strstr(pl_last_error(), "absent"));
    assert_int_equal(pl_map_file(in_folder("absent"), &mapping), PL_ERR_NOT_FOUND);
    assert_int_equal(pl_replace_file(in_folder("absent/x"), "", 0), PL_ERR_NOT_FOUND);
    pl_buf_destroy(&back);
}

/* pl_read_file refuses pipes and devices: reading a pipe could wait for ever, and a
 * device may have no end. */
static void what_is_no_file_is_not_read(void **state)
{
    (void)state;
    pl_buf back = {0};
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
    assert_int_equal(pl_read_file(in_folder("pipe"), &back), PL_ERR_DATA);
    assert_non_null(strstr(pl_last_error(), "a pipe and not a file"));
    assert_int_equal(symlink("/dev/zero", in_folder("zeros")), 0);
    assert_int_equal(pl_read_file(in_folder("zeros"), &back), PL_ERR_DATA);
    pl_buf_destroy(&back);
}

static void a_mapping_shows_the_file_and_an_empty_one_is_empty(void **state)
{
    (void)state;
    pl_mapping mapping;
    assert_int_equal(pl_replace_file(in_folder("mapped"), "content", 7), PL_OK);
    assert_int_equal(pl_map_file(in_folder("mapped"), &mapping), PL_OK);
    assert_int_equal(mapping.len, 7);
    assert_memory_equal(mapping.data, "content", 7);
    pl_unmap_file(&mapping);
    assert_null(mapping.data);
    assert_int_equal(pl_replace_file(in_folder("mapped"), "", 0), PL_OK);
    assert_int_equal(pl_map_file(in_folder("mapped"), &mapping), PL_OK);
    assert_int_equal(mapping.len, 0);
    pl_unmap_file(&mapping);
    assert_int_not_equal(pl_map_file(folder, &mapping), PL_OK);
}

static void a_tree_is_removed_without_following_links(void **state)
{
    (void)state;
    assert_int_equal(pl_make_folders(in_folder("tree/x/y")), PL_OK);
    assert_int_equal(pl_replace_file(in_folder("tree/x/y/file"), "1", 1), PL_OK);
    assert_int_equal(pl_make_folders(in_folder("outside")), PL_OK);
    assert_int_equal(pl_replace_file(in_folder("outside/file"), "1", 1), PL_OK);
    assert_int_equal(symlink("../../outside", in_folder("tree/x/link")), 0);
    assert_int_equal(pl_remove_tree(in_folder("tree")), PL_OK);
    assert_false(pl_path_exists(in_folder("tree")));
    assert_true(pl_path_exists(in_folder("outside/file")));
    assert_int_equal(pl_remove_tree(in_folder("tree")), PL_OK);
}

static void folders_exchange_their_contents_in_one_step(void **state)
{
    char a[PL_PATH_MAX], b[PL_PATH_MAX];
    (void)state;
    pl_copy_text(a, sizeof a, in_folder("old"));
    pl_copy_text(b, sizeof b, in_folder("new/er"));
    assert_int_equal(pl_make_folders(a), PL_OK);
    assert_int_equal(pl_make_folders(b), PL_OK);
    assert_int_equal(pl_replace_file(in_folder("old/file"), "1", 1), PL_OK);
    assert_int_equal(pl_exchange_folders(b, a), PL_OK);
    assert_false(pl_path_exists(in_folder("old/file")));
    assert_true(pl_path_exists(in_folder("new/er/file")));
    assert_int_equal(pl_remove_tree(a), PL_OK);
    assert_int_equal(pl_exchange_folders(b, a), PL_ERR_IO);
    assert_true(pl_path_exists(in_folder("new/er/file")));
}

static void a_locked_folder_is_busy_until_its_holder_ends(void **state)
{
    (void)state;
    int fd, other;
    assert_int_equal(pl_lock_folder(folder, &fd), PL_OK);
    assert_int_equal(pl_lock_folder(folder, &other), PL_ERR_BUSY);
    assert_int_equal(other, -1);
    pl_unlock_folder(&fd);
    assert_int_equal(fd, -1);
    pid_t child = fork();
    if (child == 0)
        _exit(pl_lock_folder(folder, &other) == PL_OK ? 0 : 1);
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    assert_int_equal(pl_lock_folder(folder, &fd), PL_OK);
    pl_unlock_folder(&fd);
}

static void a_writable_folder_is_told_from_an_absent_one(void **state)
{
    (void)state;
    assert_int_equal(pl_check_writable(folder), PL_OK);
    assert_int_equal(pl_check_writable(in_folder("nowhere")), PL_ERR_NOT_FOUND);
    assert_true(pl_disk_free_bytes(folder) > 0);
    assert_true(pl_disk_free_bytes(in_folder("nowhere")) == 0);
}

static void joined_paths_that_do_not_fit_are_empty(void **state)
{
    (void)state;
    char out[PL_PATH_MAX], name[PL_PATH_MAX];
    assert_string_equal(pl_join(out, "a", "b"), "a/b");
    assert_string_equal(pl_join(out, "a/", "b"), "a/b");
    assert_string_equal(pl_join(out, "", "b"), "b");
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    assert_string_equal(pl_join(out, "", name), name);
    assert_string_equal(pl_join(out, "a", name), "");
}

static void folder_above_a_path_is_known_by_its_text(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"a", "."},      {"a/", "."},       {"/a", "/"},   {"/", "/"},
        {"a/b", "a"},    {"/a/b/", "/a"},   {"a//", "."},  {".", "./.."},
        {"..", "../.."}, {"a/.", "a/./.."}, {"../a", ".."}};
    char out[PL_PATH_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(pl_path_above(out, cases[i][0]), cases[i][1]);
}

static void a_place_in_a_folder_is_known_through_links(void **state)
{
    (void)state;
    char store[PL_PATH_MAX], link[PL_PATH_MAX], path[PL_PATH_MAX];
    pl_join(store, folder, "within/store");
    pl_join(link, folder, "within/link");
    assert_int_equal(pl_make_folders(pl_join(path, store, "db/x")), PL_OK);
    assert_int_equal(pl_make_folders(in_folder("within/store-2")), PL_OK);
    assert_int_equal(symlink(store, link), 0);
    assert_true(pl_path_within(store, store));
    assert_true(pl_path_within(store, link));
    assert_true(pl_path_within(link, store));
    assert_true(pl_path_within(pl_join(path, store, "db/../db/x/."), store));
    assert_true(pl_path_within(pl_join(path, link, "none/yet"), store));
    assert_true(pl_path_within(pl_join(path, link, "none"), folder));
    assert_true(pl_path_within("none", "."));
    assert_true(pl_path_within("/none", "/"));
    assert_false(pl_path_within(in_folder("within/store-2"), store));
    assert_false(pl_path_within(in_folder("within"), store));
    assert_false(pl_path_within(store, in_folder("within/none")));
    assert_true(pl_path_within(pl_join(path, store, "none/../none"), store));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_are_made_with_their_parents_and_twice),
        cmocka_unit_test(a_replaced_file_reads_back),
        cmocka_unit_test(a_failed_replacement_leaves_the_old_content),
        cmocka_unit_test(too_few_files_are_no_reason_to_give_up),
        cmocka_unit_test(an_absent_file_is_named),
        cmocka_unit_test(what_is_no_file_is_not_read),
        cmocka_unit_test(a_mapping_shows_the_file_and_an_empty_one_is_empty),
        cmocka_unit_test(a_tree_is_removed_without_following_links),
        cmocka_unit_test(folders_exchange_their_contents_in_one_step),
        cmocka_unit_test(a_locked_folder_is_busy_until_its_holder_ends),
        cmocka_unit_test(a_writable_folder_is_told_from_an_absent_one),
        cmocka_unit_test(joined_paths_that_do_not_fit_are_empty),
        cmocka_unit_test(folder_above_a_path_is_known_by_its_text),
        cmocka_unit_test(a_place_in_a_folder_is_known_through_links),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
