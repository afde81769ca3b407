/* folder: base; label: unit */
/* Tests keys in files and in lists. A key that was written must be read back. A key
 * file that other users can access must be refused. The error about a list must name
 * the wrong line. */
#include "base/base.h"
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/key_edits.h"
#include "tests/support/scratch.h"

/* The file of the test. */
static const char *the_file(void)
{
    return in_scratch("x");
}

#define FIXTURE_TEST(name) PL_TEST_WITH(name, make_scratch, remove_scratch)

FIXTURE_TEST(a_pair_is_read_back_as_it_was_saved)
{
    pl_keypair made, got;
    struct stat info;
    pl_keypair_create(&made);
    assert_ok(pl_keypair_save(the_file(), &made));
    assert_int_equal(stat(the_file(), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_ok(pl_keypair_load(the_file(), &got));
    assert_memory_equal(&made, &got, sizeof made);
    assert_int_equal(pl_keypair_save(the_file(), &made), PL_ERR_EXISTS);
    assert_int_equal(pl_keypair_load("/tmp/pl-no-such-key", &got), PL_ERR_NOT_FOUND);
}

FIXTURE_TEST(a_key_is_there_when_its_folder_is_flushed)
{
    assert_int_equal(run_self("fs.folder.after:error", "test_keys", the_file(), NULL),
                     0);
}

/* A key's text must not begin with a dash, so that no command takes it for an option.
 * If keys were random texts, one key in 64 would begin with a dash. */
FIXTURE_TEST(no_key_looks_like_an_option)
{
    pl_keypair made;
    char text[PL_PUBKEY_TEXT];
    for (int i = 0; i < 1000; i++) {
        pl_keypair_create(&made);
        pl_pubkey_format(&made.open, text);
        assert_int_not_equal(text[0], '-');
    }
}

FIXTURE_TEST(a_key_file_that_others_may_read_is_refused_with_the_remedy)
{
    pl_keypair made, got;
    static const mode_t modes[] = {0640, 0604, 0660, 0610, 0601};
    pl_keypair_create(&made);
    assert_ok(pl_keypair_save(the_file(), &made));
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        assert_int_equal(chmod(the_file(), modes[i]), 0);
        assert_fails(pl_keypair_load(the_file(), &got), PL_ERR_NOPERM, "chmod 600");
    }
    assert_int_equal(chmod(the_file(), 0400), 0);
    assert_ok(pl_keypair_load(the_file(), &got));
}

/* Returns the status with which an ordinary user in this group loads the key. */
static pl_status load_as_user(const char *file, gid_t group)
{
    pl_keypair got;
    int how = 0;
    const pid_t child = fork();
    if (child == 0) {
        if (setgroups(0, NULL) != 0 || setegid(group) != 0 || seteuid(10001) != 0)
            _exit(PL_STATUS_COUNT);
        _exit((int)pl_keypair_load(file, &got));
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    return (pl_status)WEXITSTATUS(how);
}

FIXTURE_TEST(a_key_file_of_root_may_be_readable_for_its_group)
{
    pl_keypair made;
    static const mode_t refused[] = {0460, 0450, 0444, 0441};
    if (geteuid() != 0) {
        print_message("a file of root: not on this machine\n");
        skip();
    }
    pl_keypair_create(&made);
    assert_ok(pl_keypair_save(the_file(), &made));
    if (chown(the_file(), 0, 10001) != 0) {
        print_message("a file of another group: not on this machine\n");
        skip();
    }
    assert_int_equal(chmod(scratch, 0711), 0);
    assert_int_equal(chmod(the_file(), 0440), 0);
    assert_ok(load_as_user(the_file(), 10001));
    assert_int_equal(load_as_user(the_file(), 10002), PL_ERR_NOPERM);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(chmod(the_file(), refused[i]), 0);
        assert_int_equal(load_as_user(the_file(), 10001), PL_ERR_NOPERM);
    }
    assert_int_equal(chmod(the_file(), 0440), 0);
    assert_int_equal(chown(the_file(), 10002, 10001), 0); /* another user's file */
    assert_int_equal(load_as_user(the_file(), 10001), PL_ERR_NOPERM);
}

FIXTURE_TEST(a_cut_or_changed_key_file_is_damaged)
{
    pl_keypair made, got;
    OWNED(pl_buf_destroy) pl_buf whole = {0};
    pl_keypair_create(&made);
    assert_ok(pl_keypair_save(the_file(), &made));
    assert_ok(pl_read_file(the_file(), &whole));
    assert_int_equal(chmod(the_file(), 0600), 0);
    /* A file that is cut is damaged; only the last newline may be missing. */
    for (size_t n = 0; n + 1 < whole.len; n++) {
        write_bytes("x", whole.data, n);
        assert_int_equal(pl_keypair_load(the_file(), &got), PL_ERR_DAMAGED);
    }
    uint8_t *at = whole.data + strlen("pathloom-key 1\npublic ");
    *at = *at == 'A' ? 'B' : 'A'; /* the public half no longer fits the secret half */
    write_bytes("x", whole.data, whole.len);
    assert_int_equal(pl_keypair_load(the_file(), &got), PL_ERR_DAMAGED);
}

PL_TEST(a_key_has_one_spelling)
{
    pl_keypair pair;
    pl_pubkey got;
    char text[PL_PUBKEY_TEXT], longer[PL_PUBKEY_TEXT + 1];
    pl_keypair_create(&pair);
    pl_pubkey_format(&pair.open, text);
    assert_int_equal(strlen(text), PL_PUBKEY_TEXT - 1);
    assert_ok(pl_pubkey_parse(text, &got));
    assert_true(pl_pubkey_equal(&got, &pair.open));
    snprintf(longer, sizeof longer, "%sA", text);
    assert_int_equal(pl_pubkey_parse(longer, &got), PL_ERR_DATA);
    text[10] = '+';
    assert_int_equal(pl_pubkey_parse(text, &got), PL_ERR_DATA);
    text[10] = '\0';
    assert_int_equal(pl_pubkey_parse(text, &got), PL_ERR_DATA);
    memset(text, 'A', PL_PUBKEY_TEXT - 1);
    text[PL_PUBKEY_TEXT - 1] = '\0';
    assert_int_equal(pl_pubkey_parse(text, &got), PL_ERR_DATA); /* all bytes are zero */
}

PL_TEST(an_invitation_is_the_same_pair_on_both_sides)
{
    char secret[PL_INVITE_TEXT], other[PL_INVITE_TEXT];
    pl_keypair here, there;
    pl_invite_create(secret);
    pl_invite_create(other);
    assert_string_not_equal(secret, other);
    assert_ok(pl_invite_keypair(secret, &here));
    assert_ok(pl_invite_keypair(secret, &there));
    assert_memory_equal(&here, &there, sizeof here);
    assert_ok(pl_invite_keypair(other, &there));
    assert_false(pl_pubkey_equal(&here.open, &there.open));
    secret[5] = '\0';
    assert_int_equal(pl_invite_keypair(secret, &there), PL_ERR_USAGE);
}

/* ---- lists ---- */
static pl_key_entry an_entry(pl_key_role role, const char *name)
{
    pl_keypair pair;
    pl_key_entry e = {.role = role};
    pl_keypair_create(&pair);
    e.key = pair.open;
    pl_copy_text(e.name, sizeof e.name, name);
    return e;
}

FIXTURE_TEST(a_list_keeps_what_is_put_and_forgets_what_is_dropped)
{
    OWNED(pl_key_list_clear) pl_key_list list;
    pl_key_entry e[20];
    assert_ok(pl_key_list_load(the_file(), &list));
    assert_int_equal(list.n, 0);
    for (int i = 0; i < 20; i++) {
        e[i] = an_entry(i % 2 ? PL_AS_WORKER : PL_AS_INSPECTOR, "some-name");
        e[i].expires_s = i;
        assert_ok(pl_key_list_edit(the_file(), put_entry, &e[i]));
    }
    e[3].role = PL_AS_INVITE;
    e[3].grants = PL_AS_RELAY;
    e[3].uses = 7;
    assert_ok(pl_key_list_edit(the_file(), put_entry, &e[3]));
    assert_ok(pl_key_list_edit(the_file(), drop_key, &e[4].key));
    assert_int_equal(pl_key_list_edit(the_file(), drop_key, &e[4].key),
                     PL_ERR_NOT_FOUND);
    assert_ok(pl_key_list_load(the_file(), &list));
    assert_int_equal(list.n, 19);
    for (int i = 0; i < 20; i++) {
        const pl_key_entry *got = pl_key_list_find(&list, &e[i].key, 0);
        if (i == 4)
            assert_null(got);
        else
            assert_true(got->role == e[i].role && got->expires_s == i &&
                        got->grants == e[i].grants && got->uses == e[i].uses);
    }
}

static int64_t changed_s(const char *file)
{
    OWNED(pl_key_list_clear) pl_key_list list;
    assert_ok(pl_key_list_load(file, &list));
    const int64_t changed = list.changed_s;
    assert_int_equal(list.kept.len, 0);
    return changed;
}

FIXTURE_TEST(each_change_of_a_list_has_a_higher_number)
{
    pl_key_entry changed = an_entry(PL_AS_WORKER, "w");
    const int64_t now_s = pl_wall_ms() / 1000;
    assert_ok(pl_key_list_edit(the_file(), put_entry, &changed));
    const int64_t first = changed_s(the_file());
    assert_true(first >= now_s);
    for (int i = 1; i <= 3; i++) {
        changed.expires_s = i;
        assert_ok(pl_key_list_edit(the_file(), put_entry, &changed));
        assert_true(changed_s(the_file()) >= first + i);
        const int64_t same = changed_s(the_file());
        assert_ok(pl_key_list_edit(the_file(), put_entry, &changed));
        assert_int_equal(changed_s(the_file()), same);
    }
}

FIXTURE_TEST(a_revoked_key_stays_on_record_and_is_nobody)
{
    OWNED(pl_key_list_clear) pl_key_list list = {0}, got;
    pl_key_entry e = an_entry(PL_AS_WORKER, "w"), open = an_entry(PL_AS_INVITE, "i");
    open.grants = PL_AS_WORKER;
    e.expires_s = 1000;
    assert_false(pl_key_list_revoke(&list, &e.key));
    assert_ok(pl_key_list_edit(the_file(), put_entry, &e));
    assert_ok(pl_key_list_edit(the_file(), put_entry, &open));
    assert_ok(pl_key_list_edit(the_file(), revoke_key, &e.key));
    assert_ok(pl_key_list_edit(the_file(), revoke_key, &open.key));
    assert_ok(pl_key_list_load(the_file(), &got));
    /* An invitation that is revoked is removed from the list. */
    assert_int_equal(got.n, 1);
    assert_int_equal(got.entries[0].role, PL_AS_REVOKED);
    assert_string_equal(got.entries[0].name, "w");
    assert_null(pl_key_list_find(&got, &e.key, 1)); /* this key is revoked */
    assert_non_null(pl_key_list_find(&got, &e.key, 0));
    pl_key_role role;
    assert_int_equal(pl_key_role_parse("revoked", &role), PL_ERR_USAGE);
}

PL_TEST(a_name_stands_for_one_key)
{
    OWNED(pl_key_list_clear) pl_key_list list = {0};
    pl_key_entry e = an_entry(PL_AS_WORKER, "w"), other = an_entry(PL_AS_WORKER, "x");
    char text[PL_PUBKEY_TEXT];
    pl_pubkey_format(&e.key, text);
    assert_ok(pl_key_list_put(&list, &e));
    assert_ok(pl_key_list_check_name(&list, "w", &e.key));
    assert_fails(pl_key_list_check_name(&list, "w", &other.key), PL_ERR_EXISTS,
                 "--name");
    assert_ok(pl_key_list_check_name(&list, "v", &other.key));
    assert_ok(pl_key_list_check_name(&list, "own", &other.key));
    assert_int_equal(pl_key_list_check_name(&list, "own-x", &other.key), PL_ERR_NOPERM);
    assert_int_equal(pl_key_list_check_name(&list, "worker-7", &other.key),
                     PL_ERR_NOPERM);
    assert_ok(pl_key_list_check_name(&list, "worker-", &other.key));
    assert_int_equal(pl_key_list_check_name(&list, text, &other.key), PL_ERR_NOPERM);
}

PL_TEST(an_expired_key_is_not_found)
{
    OWNED(pl_key_list_clear) pl_key_list list = {0};
    pl_key_entry e = an_entry(PL_AS_WORKER, "w");
    e.expires_s = 1000;
    assert_ok(pl_key_list_put(&list, &e));
    assert_non_null(pl_key_list_find(&list, &e.key, 1000));
    assert_null(pl_key_list_find(&list, &e.key, 1001));
    assert_non_null(pl_key_list_find(&list, &e.key, 0));
}

/* Each list has a wrong line between two correct lines, which still count. If the list
 * is written again, the wrong line must stay as it is. */
FIXTURE_TEST(a_wrong_line_is_named_skipped_and_kept)
{
    static const char good[] = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAI",
                      next[] = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAM";
    static const char long_line[] =
        "worker AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE 0 0 "
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
    static const struct {
        const char *text;
        size_t len;
    } bad[] = {
#define LINE(text) {text, sizeof text - 1}
        LINE("worker"),
        LINE("boss AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE 0 0 x"),
        LINE("worker AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE 0 0"),
        LINE("worker AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE -1 0 x"),
        LINE("worker AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE 0 0 x y"),
        LINE("worker AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA 0 0 zero"),
        LINE("invite/invite AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE 0 1 x"),
        LINE("local AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE 0 1 x"),
        LINE("worker \0 \xff\x1b[2J"),
        {long_line, sizeof long_line - 1},
#undef LINE
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        OWNED(pl_buf_destroy) pl_buf text = {0}, after = {0};
        OWNED(pl_key_list_clear) pl_key_list list;
        pl_key_entry e = an_entry(PL_AS_WORKER, "late");
        pl_buf_printf(&text, "# mine\n\nworker %s 0 0 good\n", good);
        pl_buf_append(&text, bad[i].text, bad[i].len);
        pl_buf_printf(&text, "\nworker %s 0 0 next\n", next);
        write_bytes("x", text.data, text.len);
        assert_ok(pl_key_list_load(the_file(), &list));
        assert_int_equal(list.n, 2);
        assert_int_equal(list.n_bad, 1);
        assert_non_null(strstr(list.complaint, the_file()));
        assert_non_null(strstr(list.complaint, "line 4"));
        assert_non_null(strstr(list.complaint, "correct the line or delete it"));
        assert_ok(pl_key_list_edit(the_file(), revoke_key, &list.entries[0].key));
        assert_ok(pl_key_list_edit(the_file(), put_entry, &e));
        pl_key_list_clear(&list);
        assert_ok(pl_read_file(the_file(), &after));
        assert_non_null(memmem(after.data, after.len, "# mine\n", 7));
        assert_non_null(memmem(after.data, after.len, bad[i].text, bad[i].len));
        assert_ok(pl_key_list_load(the_file(), &list));
        assert_int_equal(list.n, 3);
        assert_int_equal(list.n_bad, 1);
    }
}

/* A key must be refused if its public half is zero or another point of low order: all
 * partners would get the same secret (RFC 7748, section 7). The points here are those
 * of order 1, 2, 4 and 8 of the curve. */
FIXTURE_TEST(a_key_of_low_order_is_refused_where_it_enters)
{
    static const pl_pubkey low[] = {
        {{0}},
        {{1}},
        {{0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3,
          0xfa, 0xf1, 0x9f, 0xc4, 0x6a, 0xda, 0x09, 0x8d, 0xeb, 0x9c, 0x32,
          0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49, 0xb8, 0x00}},
        {{0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1,
          0x55, 0x9c, 0x83, 0xef, 0x5b, 0x04, 0x44, 0x5c, 0xc4, 0x58, 0x1c,
          0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd, 0xd0, 0x9f, 0x11, 0x57}},
    };
    pl_key_entry e = an_entry(PL_AS_WORKER, "evil");
    assert_ok(pl_pubkey_check(&e.key));
    for (size_t i = 0; i < sizeof low / sizeof *low + 3; i++) {
        if (i < sizeof low / sizeof *low) {
            e.key = low[i];
        } else { /* the numbers p - 1, p and p + 1 */
            memset(e.key.bytes, 0xff, sizeof e.key.bytes);
            e.key.bytes[0] = (uint8_t)(0xec + (i - sizeof low / sizeof *low));
            e.key.bytes[31] = 0x7f;
        }
        assert_int_equal(pl_pubkey_check(&e.key), PL_ERR_DATA);
        assert_int_equal(pl_key_list_edit(the_file(), put_entry, &e), PL_ERR_DATA);
    }
    assert_false(pl_path_exists(the_file()));
}

/* ---- addresses ---- */
PL_TEST(addresses_say_whether_others_can_reach_them)
{
    static const struct {
        const char *text;
        bool local, anywhere;
        int port;
    } rows[] = {{"tcp://127.0.0.1:*", true, false, 0},
                {"tcp://127.8.7.6:80", true, false, 80},
                {"tcp://[::1]:65535", true, false, 65535},
                {"tcp://0.0.0.0:7000", false, true, 7000},
                {"tcp://*:7000", false, true, 7000},
                {"tcp://[::]:7000", false, true, 7000},
                {"tcp://[fd00::12]:7000", false, false, 7000},
                {"tcp://hub.example.org:7000", false, false, 7000},
                {"tcp://localhost:7000", false, false, 7000},
                {"ipc:///run/x", true, false, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_address a;
        assert_ok(pl_address_parse(rows[i].text, &a));
        assert_int_equal(a.is_local, rows[i].local);
        assert_int_equal(a.is_anywhere, rows[i].anywhere);
        assert_int_equal(a.port, rows[i].port);
        assert_false(a.has_key);
    }
}

PL_TEST(an_address_of_all_interfaces_is_told_with_a_host_and_the_key)
{
    pl_keypair pair;
    pl_address a, back;
    char text[PL_ADDRESS_MAX];
    pl_keypair_create(&pair);
    assert_ok(pl_address_parse("tcp://*:7000", &a));
    pl_address_format(&a, "10.1.2.3", &pair.open, text);
    assert_true(pl_starts_with(text, "tcp://10.1.2.3:7000#"));
    assert_ok(pl_address_parse(text, &back));
    assert_true(back.has_key && pl_pubkey_equal(&back.key, &pair.open));
    assert_string_equal(back.endpoint, "tcp://10.1.2.3:7000");
    assert_ok(pl_address_parse("tcp://10.9.9.9:1", &a));
    pl_address_format(&a, "10.1.2.3", NULL, text);
    assert_string_equal(text, "tcp://10.9.9.9:1");
}

PL_CHILD(argc, argv)
{
    /* no folder can be flushed in this process */
    pl_keypair made;
    pl_keypair_create(&made);
    const pl_status saved = pl_keypair_save(argv[1], &made);
    return saved == PL_ERR_IO && !pl_path_exists(argv[1]) ? 0 : 1;
}
