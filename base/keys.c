/* Makes, saves and loads key pairs and the list of keys that may connect (keys.h). */
#include "base/keys.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/output.h"
#include "base/hash.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(PL_PUBKEY_BYTES == crypto_box_PUBLICKEYBYTES, "Curve25519");
_Static_assert(PL_PUBKEY_BYTES == crypto_box_SECRETKEYBYTES, "Curve25519");
_Static_assert(PL_PUBKEY_BYTES == crypto_box_SEEDBYTES,
               "a hash must have the size of a seed");

enum {
    ENTRIES_MAX = 1 << 16,
    LINE_MAX_BYTES = 256,
    LOCK_WAIT_MS = 5000,
    KEY_FILE_MAX = 256
};
static const char file_mark[] = "pathloom-key 1";
static const char list_head[] = "# Keys that may connect";

static void init_key_library(void)
{
    if (sodium_init() < 0)
        abort();
}

/* ---- keys as text ---- */
static void to_text(const uint8_t *bytes, size_t n, char *text, size_t size)
{
    sodium_bin2base64(text, size, bytes, n, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

static bool from_text(const char *text, uint8_t *bytes, size_t n)
{
    size_t got = 0;
    const char *end = NULL;
    return sodium_base642bin(bytes, n, text, strlen(text), NULL, &got, &end,
                             sodium_base64_VARIANT_URLSAFE_NO_PADDING) == 0 &&
           got == n && *end == '\0';
}

char *pl_pubkey_format(const pl_pubkey *key, char text[PL_PUBKEY_TEXT])
{
    to_text(key->bytes, PL_PUBKEY_BYTES, text, PL_PUBKEY_TEXT);
    return text;
}

pl_status pl_pubkey_parse(const char *text, pl_pubkey *out)
{
    memset(out, 0, sizeof *out);
    if (from_text(text, out->bytes, PL_PUBKEY_BYTES) &&
        !sodium_is_zero(out->bytes, PL_PUBKEY_BYTES))
        return PL_OK;
    return pl_fail(PL_ERR_DATA,
                   "`%.64s` is not a key; a key has %d letters, digits, - or _", text,
                   PL_PUBKEY_TEXT - 1);
}

/* X25519 with a point of low order gives zero for all scalars; libsodium reports it. */
pl_status pl_pubkey_check(const pl_pubkey *key)
{
    static const uint8_t scalar[crypto_scalarmult_SCALARBYTES] = {1};
    uint8_t shared[crypto_scalarmult_BYTES];
    init_key_library();
    if (crypto_scalarmult(shared, scalar, key->bytes) == 0)
        return PL_OK;
    return pl_fail(PL_ERR_DATA,
                   "these %d bytes are not the public half of a key (they are zero, or "
                   "a point of low order); make a key with `pathloom key new FILE`",
                   PL_PUBKEY_BYTES);
}

bool pl_pubkey_equal(const pl_pubkey *a, const pl_pubkey *b)
{
    return memcmp(a->bytes, b->bytes, PL_PUBKEY_BYTES) == 0;
}

bool pl_pubkey_none(const pl_pubkey *key)
{
    static const pl_pubkey none;
    return pl_pubkey_equal(key, &none);
}

/* ---- key pairs ---- */
/* Makes a pair whose public text does not begin with a dash: keys are given on command
 * lines, where a dash begins an option. */
void pl_keypair_create(pl_keypair *out)
{
    char text[PL_PUBKEY_TEXT];
    init_key_library();
    do {
        crypto_box_keypair(out->open.bytes, out->secret);
        pl_pubkey_format(&out->open, text);
    } while (text[0] == '-');
}

void pl_keypair_of(const uint8_t secret[PL_PUBKEY_BYTES], pl_keypair *out)
{
    init_key_library();
    memcpy(out->secret, secret, PL_PUBKEY_BYTES);
    crypto_scalarmult_base(out->open.bytes, out->secret);
}

void pl_keypair_wipe(pl_keypair *pair)
{
    sodium_memzero(pair, sizeof *pair);
}

void pl_invite_create(char text[PL_INVITE_TEXT])
{
    uint8_t secret[PL_INVITE_BYTES];
    init_key_library();
    randombytes_buf(secret, sizeof secret);
    to_text(secret, sizeof secret, text, PL_INVITE_TEXT);
    sodium_memzero(secret, sizeof secret);
}

pl_status pl_invite_keypair(const char *text, pl_keypair *out)
{
    uint8_t secret[PL_INVITE_BYTES];
    pl_hash seed;
    init_key_library();
    if (!from_text(text, secret, sizeof secret))
        return pl_fail(PL_ERR_USAGE, "the secret of the token is incomplete or has "
                                     "wrong characters; copy the whole token");
    pl_hash_of("invitation", secret, sizeof secret, &seed);
    crypto_box_seed_keypair(out->open.bytes, out->secret, seed.bytes);
    sodium_memzero(secret, sizeof secret);
    sodium_memzero(&seed, sizeof seed);
    return PL_OK;
}

/* After a crash the file is complete or missing. No file is replaced. */
pl_status pl_keypair_save(const char *path, const pl_keypair *pair)
{
    char text[KEY_FILE_MAX], open_text[PL_PUBKEY_TEXT], secret_text[PL_PUBKEY_TEXT];
    pl_pubkey_format(&pair->open, open_text);
    to_text(pair->secret, PL_PUBKEY_BYTES, secret_text, sizeof secret_text);
    snprintf(text, KEY_FILE_MAX, "%s\npublic %s\nsecret %s\n", file_mark, open_text,
             secret_text);
    pl_status status = pl_create_secret(path, text, strlen(text));
    sodium_memzero(secret_text, sizeof secret_text);
    sodium_memzero(text, sizeof text);
    return status;
}

static bool parse_pair(const char *text, pl_keypair *out)
{
    char open_text[64], secret_text[64];
    pl_pubkey derived;
    int used = 0;
    bool read = sscanf(text, "pathloom-key 1 public %63s secret %63s%n", open_text,
                       secret_text, &used) == 2 &&
                strspn(text + used, "\n") == strlen(text + used) &&
                from_text(open_text, out->open.bytes, PL_PUBKEY_BYTES) &&
                from_text(secret_text, out->secret, PL_PUBKEY_BYTES);
    sodium_memzero(secret_text, sizeof secret_text);
    return read && crypto_scalarmult_base(derived.bytes, out->secret) == 0 &&
           pl_pubkey_equal(&derived, &out->open);
}

pl_status pl_keypair_load(const char *path, pl_keypair *out)
{
    char text[512] = "";
    struct stat info;
    pl_status status = PL_OK;
    init_key_library();
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return pl_fail(pl_status_of_errno(errno, PL_ERR_NOPERM),
                       "cannot open the key file %s: %s", path, strerror(errno));
    /* checks the open file, so that exactly the checked file is read */
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        PL_TRY(pl_fail(PL_ERR_NOPERM,
                       "%s cannot be a key file, because it is not a regular file",
                       path));
    /* A Secret of Kubernetes belongs to root; other users read it through its group. */
    const bool is_lent = info.st_uid == 0 && geteuid() != 0;
    if (info.st_mode & (is_lent ? S_IWGRP | S_IXGRP | S_IRWXO : S_IRWXG | S_IRWXO))
        PL_TRY(pl_fail(PL_ERR_NOPERM,
                       "the key file %s has mode %04o, so other users can access it; "
                       "run `chmod %s %s`, or set this mode where the file comes from",
                       path, (unsigned)(info.st_mode & 07777), is_lent ? "440" : "600",
                       path));
    if (info.st_uid != geteuid() && info.st_uid != 0)
        PL_TRY(pl_fail(
            PL_ERR_NOPERM,
            "the key file %s belongs to user %u, but this process runs as user %u",
            path, (unsigned)info.st_uid, (unsigned)geteuid()));
    if (read(fd, text, sizeof text - 1) < 0 || !parse_pair(text, out))
        status = pl_fail(PL_ERR_DAMAGED,
                         "%s is not a key file, or is incomplete; make a new key with "
                         "`pathloom key new`",
                         path);
done:
    close(fd);
    sodium_memzero(text, sizeof text);
    if (status != PL_OK)
        pl_keypair_wipe(out);
    return status;
}

/* ---- roles ---- */
static const char *const role_names[PL_AS_COUNT] = {
    "none",  "local",  "admin",     "hub",    "home",
    "relay", "worker", "inspector", "invite", "revoked"};

const char *pl_key_role_name(pl_key_role role)
{
    return (unsigned)role < PL_AS_COUNT ? role_names[role] : "none";
}

pl_status pl_key_role_parse(const char *text, pl_key_role *out)
{
    for (int r = PL_AS_ADMIN; r < PL_AS_INVITE; r++)
        if (strcmp(text, role_names[r]) == 0) {
            *out = (pl_key_role)r;
            return PL_OK;
        }
    return pl_fail(
        PL_ERR_USAGE,
        "unknown role `%.32s`; known are worker, relay, inspector, home, hub and admin",
        text);
}

pl_status pl_key_name_check(const char *name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:@-";
    size_t len = strlen(name);
    if (len > 0 && len < PL_KEY_NAME_MAX && strspn(name, allowed) == len)
        return PL_OK;
    return pl_fail(
        PL_ERR_USAGE,
        "`%.64s` is not a name: use 1 to %d letters, digits or ._:@-, no blanks", name,
        PL_KEY_NAME_MAX - 1);
}

/* ---- the list of keys ---- */
void pl_key_list_clear(pl_key_list *list)
{
    pl_free(list->entries);
    pl_buf_destroy(&list->kept);
    *list = (pl_key_list){0};
}

/* Finds the index of the key, or the index at which it would be inserted. */
static bool find_key_place(const pl_key_list *list, const pl_pubkey *key, size_t *at)
{
    size_t low = 0, high = list->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (memcmp(list->entries[middle].key.bytes, key->bytes, PL_PUBKEY_BYTES) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *at = low;
    return low < list->n && pl_pubkey_equal(&list->entries[low].key, key);
}

const pl_key_entry *pl_key_list_find(const pl_key_list *list, const pl_pubkey *key,
                                     int64_t now_s)
{
    size_t at;
    if (!find_key_place(list, key, &at))
        return NULL;
    const pl_key_entry *e = &list->entries[at];
    bool over = now_s != 0 && e->expires_s != 0 && now_s > e->expires_s;
    return over || (now_s != 0 && e->role == PL_AS_REVOKED) ? NULL : e;
}

static void insert_entry(pl_key_list *list, const pl_key_entry *entry)
{
    size_t at;
    if (!find_key_place(list, &entry->key, &at)) {
        list->entries = pl_grow(list->entries, (list->n + 1) * sizeof *list->entries);
        memmove(list->entries + at + 1, list->entries + at,
                (list->n - at) * sizeof *list->entries);
        list->n++;
    }
    list->entries[at] = *entry;
}

pl_status pl_key_list_put(pl_key_list *list, const pl_key_entry *entry)
{
    PL_CHECK(pl_pubkey_check(&entry->key));
    PL_CHECK(pl_key_name_check(entry->name));
    if (list->n >= ENTRIES_MAX && !pl_key_list_find(list, &entry->key, 0))
        return pl_fail(PL_ERR_CONFIG,
                       "the list of keys is full (%d keys); delete lines of keys that "
                       "were revoked or have expired",
                       ENTRIES_MAX);
    insert_entry(list, entry);
    return PL_OK;
}

bool pl_key_list_drop(pl_key_list *list, const pl_pubkey *key)
{
    size_t at;
    if (!find_key_place(list, key, &at))
        return false;
    list->n--;
    memmove(list->entries + at, list->entries + at + 1,
            (list->n - at) * sizeof *list->entries);
    return true;
}

bool pl_key_list_revoke(pl_key_list *list, const pl_pubkey *key)
{
    size_t at;
    if (!find_key_place(list, key, &at))
        return false;
    pl_key_entry *e = &list->entries[at];
    if (e->role == PL_AS_INVITE)
        return pl_key_list_drop(list, key);
    e->role = PL_AS_REVOKED;
    e->expires_s = 0;
    return true;
}

bool pl_key_name_is_jobs(const char *name)
{
    if (!pl_starts_with(name, PL_WORKER_OWN))
        return pl_starts_with(name, PL_KEY_OWN);
    const char *number = name + strlen(PL_WORKER_OWN);
    return number[0] && number[strspn(number, "0123456789")] == '\0';
}

pl_status pl_key_list_check_name(const pl_key_list *list, const char *name,
                                 const pl_pubkey *key)
{
    pl_pubkey as_key;
    if (pl_key_name_is_jobs(name))
        return pl_fail(
            PL_ERR_NOPERM,
            "the name `%s` is reserved: names that begin with %s belong to the job's "
            "own keys, and %sN to its own workers; choose another with --name",
            name, PL_KEY_OWN, PL_WORKER_OWN);
    if (from_text(name, as_key.bytes, PL_PUBKEY_BYTES))
        return pl_fail(
            PL_ERR_NOPERM,
            "the name `%s` looks like a key; choose another name with --name", name);
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->entries[i].name, name) == 0 &&
            !pl_pubkey_equal(&list->entries[i].key, key))
            return pl_fail(PL_ERR_EXISTS,
                           "the name %s is in the list with another key (role %s); "
                           "choose a different name with --name",
                           name, pl_key_role_name(list->entries[i].role));
    return PL_OK;
}

/* Parses one line. A line with a NUL byte is refused, because the text after the NUL
 * would be lost when the list is written again. */
static bool read_key_line(const char *line, size_t len, pl_key_entry *out)
{
    static const char invite[] = "invite/";
    char copy[LINE_MAX_BYTES + 1];
    if (len > LINE_MAX_BYTES || memchr(line, 0, len))
        return false;
    memcpy(copy, line, len);
    copy[len] = '\0';
    /* An entry has exactly five words. */
    char role[32], key[64], name[PL_KEY_NAME_MAX];
    long long expires = 0;
    int used = 0;
    *out = (pl_key_entry){0};
    if (sscanf(copy, " %31s %63s %lld %d %63s %n", role, key, &expires, &out->uses,
               name, &used) != 5 ||
        copy[used] != '\0' || expires < 0 || out->uses < 0)
        return false;
    out->expires_s = expires;
    pl_copy_text(out->name, sizeof out->name, name);
    const bool is_invite = pl_starts_with(role, invite);
    const char *role_name = is_invite ? role + strlen(invite) : role;
    pl_key_role named = PL_AS_REVOKED;
    if (strcmp(role, role_names[PL_AS_REVOKED]) != 0 &&
        pl_key_role_parse(role_name, &named) != PL_OK)
        return false;
    out->role = is_invite ? PL_AS_INVITE : named;
    out->grants = is_invite ? named : PL_AS_NONE;
    return pl_pubkey_parse(key, &out->key) == PL_OK && pl_key_name_check(name) == PL_OK;
}

pl_status pl_key_list_load(const char *path, pl_key_list *out)
{
    pl_buf text = {0};
    pl_status status = PL_OK;
    *out = (pl_key_list){0};
    init_key_library();
    if (!pl_path_exists(path))
        return PL_OK;
    PL_TRY(pl_read_file(path, &text));
    int number = 0;
    const char *line = pl_buf_text(&text), *end = line + text.len;
    for (const char *next; line < end; line = next) {
        pl_key_entry entry;
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        size_t len = (size_t)((stop ? stop : end) - line);
        next = line + len + 1;
        number++;
        if (strspn(line, " \t\r") == len) /* a blank line */
            continue;
        if (pl_starts_with(line, list_head)) {
            long long changed = 0;
            if (sscanf(line + strlen(list_head), ", changed %lld:", &changed) == 1 &&
                changed > out->changed_s)
                out->changed_s = changed;
            continue;
        }
        if (out->n == ENTRIES_MAX)
            PL_TRY(pl_fail(PL_ERR_CONFIG,
                           "%s has more than %d keys; delete lines of keys that were "
                           "revoked or have expired",
                           path, ENTRIES_MAX));
        if (line[0] != '#' && read_key_line(line, len, &entry)) {
            insert_entry(out, &entry);
            continue;
        }
        if (line[0] != '#' && out->n_bad++ == 0)
            snprintf(out->complaint, sizeof out->complaint,
                     "%s line %d is not `ROLE KEY EXPIRES USES NAME` and is skipped, "
                     "so it gives no key access; correct the line or delete it",
                     path, number);
        /* comments and bad lines are kept and written back unchanged; so the author of
         * a bad line can find the mistake */
        pl_buf_append(&out->kept, line, len);
        pl_buf_append(&out->kept, "\n", 1);
    }
done:
    pl_buf_destroy(&text);
    if (status != PL_OK)
        pl_key_list_clear(out);
    return status;
}

static size_t write_list_head(pl_buf *out, int64_t changed_s)
{
    pl_buf_printf(out, "%s, changed %lld: ROLE KEY EXPIRES USES NAME\n", list_head,
                  (long long)changed_s);
    return out->len;
}

pl_status pl_key_list_edit(const char *path, pl_key_change change, void *context)
{
    pl_key_list list = {0};
    pl_buf text = {0}, old = {0}, fresh = {0};
    char folder[PL_PATH_MAX];
    int lock = -1;
    const int64_t start = pl_now_ms();
    pl_path_above(folder, path);
    pl_status status = pl_lock_folder(folder, &lock);
    while (status == PL_ERR_BUSY && pl_now_ms() - start <= LOCK_WAIT_MS) {
        pl_sleep_ms(5);
        status = pl_lock_folder(folder, &lock);
    }
    PL_TRY(status);
    PL_TRY(pl_key_list_load(path, &list));
    PL_TRY(change(&list, context));
    const int64_t now_s = pl_wall_ms() / 1000;
    const size_t head = write_list_head(&text, list.changed_s);
    for (size_t i = 0; i < list.n; i++) {
        const pl_key_entry *e = &list.entries[i];
        char key[PL_PUBKEY_TEXT];
        pl_pubkey_format(&e->key, key);
        bool is_invite = e->role == PL_AS_INVITE;
        pl_buf_printf(&text, "%s%s %s %lld %d %s\n", is_invite ? "invite/" : "",
                      pl_key_role_name(is_invite ? e->grants : e->role), key,
                      (long long)e->expires_s, e->uses, e->name);
    }
    pl_buf_append(&text, list.kept.data, list.kept.len);
    /* If the file already has these bytes, it is not written, so that no process reads
     * it again without need. */
    bool same = pl_path_exists(path) && pl_read_file(path, &old) == PL_OK &&
                old.len == text.len && memcmp(old.data, text.data, text.len) == 0;
    write_list_head(&fresh, now_s > list.changed_s ? now_s : list.changed_s + 1);
    pl_buf_append(&fresh, text.data + head, text.len - head);
    PL_TRY(same ? PL_OK : pl_write_output(path, fresh.data, fresh.len));
done:
    pl_buf_destroy(&fresh);
    pl_buf_destroy(&text);
    pl_buf_destroy(&old);
    pl_key_list_clear(&list);
    pl_unlock_folder(&lock);
    return status;
}
