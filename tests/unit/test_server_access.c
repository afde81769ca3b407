/* folder: serve; label: unit */
/* Tests the keys of clients: to whom a key belongs, and which key files are refused. */
#include "serve/server.h"
#include "serve/server_access.h"
#include "tests/support/corpus_support.h"
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void hash_text(const char *key, char text[PL_HASH_TEXT])
{
    pl_hash hash;
    pl_hash_of("", key, strlen(key), &hash);
    pl_hash_format(&hash, text);
}

static server_access *known(void)
{
    char a[PL_HASH_TEXT], b[PL_HASH_TEXT];
    OWNED(pl_buf_destroy) pl_buf text = {0};
    server_access *access = NULL;
    hash_text("first-key", a);
    hash_text("second key", b);
    pl_buf_printf(&text, "# who may ask\n\nalice %s\r\nbob-2   %s  \n", a, b);
    assert_ok(server_access_parse(pl_buf_text(&text), text.len, "keys", &access));
    return access;
}

/* The hash of a key must be the one that `b2sum -l 256` prints, here for the key "abc".
 * (RFC 7693 has only the hash of 512 bits.) */
PL_TEST(a_hash_is_that_of_b2sum)
{
    char text[PL_HASH_TEXT];
    hash_text("abc", text);
    assert_string_equal(
        text, "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
}

PL_TEST(a_key_is_known_by_its_hash)
{
    server_access *access = known();
    assert_string_equal(server_access_find(access, "Bearer first-key"), "alice");
    assert_string_equal(server_access_find(access, "bearer second key"), "bob-2");
    static const char *const strangers[] = {NULL,
                                            "",
                                            "Bearer",
                                            "Bearer ",
                                            "first-key",
                                            "Basic first-key",
                                            "Bearer first-ke",
                                            "Bearer first-key ",
                                            "Bearer  first-key"};
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++)
        assert_null(server_access_find(access, strangers[i]));
    server_access_destroy(&access);
    assert_null(access);
}

PL_TEST(wrong_lines_are_named)
{
    char hash[PL_HASH_TEXT];
    hash_text("key", hash);
    static const struct {
        const char *before, *after, *says;
    } wrong[] = {{"", "\n", "line 1 of keys"}, /* without a name */
                 {"alice ", "0\n", "line 1"},  /* one digit too many */
                 /* A name with a forbidden character. */
                 {"# x\nal/ice ", "\n", "line 2"},
                 {"alice\t", "\n", "line 1"}, /* a tab instead of a blank */
                 {"alice x", "\n", "line 1"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        OWNED(pl_buf_destroy) pl_buf text = {0};
        server_access *access = NULL;
        pl_buf_printf(&text, "%s%s%s", wrong[i].before, hash, wrong[i].after);
        assert_fails(server_access_parse(pl_buf_text(&text), text.len, "keys", &access),
                     PL_ERR_CONFIG, wrong[i].says);
        assert_null(access);
    }
}

/* A server that runs may shut out everybody; one that starts without a key is mistaken.
 */
PL_TEST(the_last_key_can_be_taken_away)
{
    char hash[PL_HASH_TEXT], text[128];
    server_access *access = NULL;
    hash_text("key", hash);
    write_text("keys", "# nobody\n");
    assert_fails(server_access_load(in_scratch("keys"), &access), PL_ERR_CONFIG,
                 "no key");
    assert_null(access);
    snprintf(text, sizeof text, "alice %s\n", hash);
    write_text("keys", text);
    assert_ok(server_access_load(in_scratch("keys"), &access));
    assert_string_equal(server_access_find(access, "Bearer key"), "alice");
    write_text("keys", "");
    assert_ok(server_access_reload(in_scratch("keys"), &access));
    assert_null(server_access_find(access, "Bearer key"));
    server_access_destroy(&access);
}

PL_TEST(a_file_that_others_may_write_is_refused)
{
    char hash[PL_HASH_TEXT], text[128];
    server_access *access = NULL;
    hash_text("key", hash);
    snprintf(text, sizeof text, "alice %s\n", hash);
    write_text("keys", text);
    assert_int_equal(chmod(in_scratch("keys"), 0600), 0);
    assert_ok(server_access_load(in_scratch("keys"), &access));
    assert_string_equal(server_access_find(access, "Bearer key"), "alice");
    server_access_destroy(&access);
    assert_int_equal(chmod(in_scratch("keys"), 0620), 0);
    assert_fails(server_access_load(in_scratch("keys"), &access), PL_ERR_CONFIG,
                 "chmod go-w");
    assert_int_not_equal(server_access_load(in_scratch("nothing"), &access), PL_OK);
}

PL_TEST(a_key_that_was_made_is_known_after_the_list_is_read_again)
{
    char path[PL_PATH_MAX], keys[2][PL_API_KEY_TEXT], header[80];
    OWNED(server_access_destroy) server_access *access = NULL;
    pl_join(path, scratch, "made");
    assert_int_equal(pl_server_add_key(path, "al/ice", keys[0]), PL_ERR_USAGE);
    assert_false(pl_path_exists(path));
    assert_ok(pl_server_add_key(path, "alice", keys[0]));
    assert_ok(server_access_load(path, &access));
    assert_ok(pl_server_add_key(path, "bob", keys[1]));
    assert_string_not_equal(keys[0], keys[1]);
    snprintf(header, sizeof header, "Bearer %s", keys[1]);
    assert_null(server_access_find(access, header));
    assert_ok(server_access_reload(path, &access));
    assert_string_equal(server_access_find(access, header), "bob");
    /* a list that cannot be read changes nothing */
    write_text("made", "nonsense\n");
    assert_int_equal(server_access_reload(path, &access), PL_ERR_CONFIG);
    snprintf(header, sizeof header, "Bearer %s", keys[0]);
    assert_string_equal(server_access_find(access, header), "alice");
}

PL_TEST(keys_that_are_made_at_once_are_all_kept)
{
    enum { MAKERS = 8, EACH = 20 };
    char path[PL_PATH_MAX], key[PL_API_KEY_TEXT];
    OWNED(pl_buf_destroy) pl_buf text = {0};
    int n_lines = 0;
    pl_join(path, scratch, "at-once");
    for (int i = 0; i < MAKERS; i++) {
        const pid_t maker = fork();
        assert_true(maker >= 0);
        if (maker > 0)
            continue;
        for (int k = 0; k < EACH; k++)
            if (pl_server_add_key(path, "alice", key) != PL_OK)
                _exit(1);
        _exit(0);
    }
    for (int i = 0; i < MAKERS; i++) {
        int code = 0;
        assert_true(wait(&code) > 0);
        assert_int_equal(code, 0);
    }
    assert_ok(pl_read_file(path, &text));
    for (size_t i = 0; i < text.len; i++)
        n_lines += text.data[i] == '\n';
    assert_int_equal(n_lines, MAKERS * EACH);
}

PL_TEST(a_new_key_leaves_link_and_mode_of_the_file)
{
    char file[PL_PATH_MAX], path[PL_PATH_MAX], key[PL_API_KEY_TEXT];
    struct stat info;
    OWNED(server_access_destroy) server_access *access = NULL;
    pl_join(file, scratch, "behind");
    pl_join(path, scratch, "link");
    assert_int_equal(symlink("behind", path), 0);
    const mode_t mask = umask(002);
    for (int i = 0; i < 2; i++) { /* makes the file, then adds to it */
        assert_ok(pl_server_add_key(i == 0 ? file : path, "alice", key));
        assert_int_equal(lstat(file, &info), 0);
        assert_int_equal(info.st_mode & 0777, 0600);
        assert_int_equal(lstat(path, &info), 0);
        assert_true(S_ISLNK(info.st_mode));
    }
    umask(mask);
    write_text("behind", "# without an end of line");
    assert_ok(pl_server_add_key(path, "bob", key));
    assert_ok(server_access_load(path, &access));
}

PL_SUITE(make_scratch, remove_scratch)
