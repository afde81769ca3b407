/* Stores and finds the keys of clients (server_access.h). */
#include "serve/server_access.h"
#include "serve/server.h"
#include <fcntl.h>
#include <stdio.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_BYTES = 64 };

typedef struct access_key {
    char name[NAME_BYTES];
    pl_hash hash;
} access_key;

struct server_access {
    pl_buf keys;           /* access_key records */
    server_access *before; /* the list that this one replaced; may be NULL */
};

static bool is_key_name(const char *name, size_t len)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    for (size_t i = 0; i < len; i++)
        if (name[i] == '\0' || !strchr(letters, name[i]))
            return false;
    return len > 0 && len < NAME_BYTES;
}

pl_status server_access_parse(const char *text, size_t len, const char *name,
                              server_access **out)
{
    server_access *a = pl_alloc(sizeof *a);
    pl_status status = PL_OK;
    for (int number = 1; len > 0; number++) {
        const char *line = text, *newline = memchr(line, '\n', len);
        const size_t step = newline ? (size_t)(newline - line) + 1 : len;
        size_t end = newline ? step - 1 : step;
        while (end > 0 && (line[end - 1] == ' ' || line[end - 1] == '\r'))
            end--;
        text += step;
        len -= step;
        if (end == 0 || line[0] == '#')
            continue;
        char hash[PL_HASH_TEXT] = "";
        access_key key = {.name = ""};
        const char *blank = memchr(line, ' ', end);
        const size_t name_len = blank ? (size_t)(blank - line) : end;
        size_t at = name_len;
        while (at < end && line[at] == ' ')
            at++;
        if (end - at == PL_HASH_TEXT - 1)
            memcpy(hash, line + at, PL_HASH_TEXT - 1);
        if (!is_key_name(line, name_len) || pl_hash_parse(hash, &key.hash) != PL_OK)
            PL_TRY(pl_fail(PL_ERR_CONFIG,
                           "line %d of %s is not a name (letters, digits, . _ -) and "
                           "64 hexadecimal digits; make the digits with: printf %%s "
                           "KEY | b2sum -l 256",
                           number, name));
        memcpy(key.name, line, name_len);
        pl_buf_append(&a->keys, &key, sizeof key);
    }
done:
    *out = a;
    if (status != PL_OK)
        server_access_destroy(out);
    return status;
}

/* Without a key every client is refused. That is a mistake when the server starts, and
 * a way to shut all out while it runs (`may_be_empty`). */
static pl_status load(const char *path, bool may_be_empty, server_access **out)
{
    struct stat info;
    pl_buf text = {0};
    *out = NULL;
    PL_CHECK(pl_read_file(path, &text));
    pl_status status = PL_OK;
    if (stat(path, &info) == 0 && (info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        status =
            pl_fail(PL_ERR_CONFIG,
                    "users other than its owner may write to %s; run: chmod go-w %s",
                    path, path);
    if (status == PL_OK)
        status = server_access_parse(pl_buf_text(&text), text.len, path, out);
    if (status == PL_OK && (*out)->keys.len == 0 && !may_be_empty) {
        server_access_destroy(out);
        status =
            pl_fail(PL_ERR_CONFIG,
                    "%s has no key, so every client would be refused; add a key", path);
    }
    pl_buf_destroy(&text);
    return status;
}

pl_status server_access_load(const char *path, server_access **out)
{
    return load(path, false, out);
}

pl_status server_access_reload(const char *path, server_access **access)
{
    server_access *fresh = NULL;
    PL_CHECK(load(path, true, &fresh));
    fresh->before = *access;
    pl_atomic_set(access, fresh);
    return PL_OK;
}

void server_access_destroy(server_access **access)
{
    server_access *a = *access;
    *access = NULL;
    while (a) {
        server_access *before = a->before;
        pl_buf_destroy(&a->keys);
        pl_free(a);
        a = before;
    }
}

/* The line is appended under a lock, so that of several processes each keeps the
 * others' lines. The file keeps its mode and its place behind a link. */
pl_status pl_server_add_key(const char *path, const char *name,
                            char key[PL_API_KEY_TEXT])
{
    char hash[PL_HASH_TEXT], line[NAME_BYTES + PL_HASH_TEXT + 2], last = '\n';
    pl_hash digest;
    struct stat info;
    if (!is_key_name(name, strlen(name)))
        return pl_fail(PL_ERR_USAGE,
                       "the name `%.80s` must have 1 to %d letters, digits, . _ -",
                       name, NAME_BYTES - 1);
    for (int i = 0; i < 3; i++)
        snprintf(key + 16 * i, 17, "%016llx", (unsigned long long)pl_random_fresh());
    pl_hash_of("", key, strlen(key), &digest);
    pl_hash_format(&digest, hash);
    pl_status status = pl_path_exists(path) ? PL_OK : pl_create_secret(path, "", 0);
    if (status != PL_OK && status != PL_ERR_EXISTS)
        return status;
    const int fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC);
    if (fd < 0)
        return pl_file_failed("open", path);
    const bool good = flock(fd, LOCK_EX) == 0 && fstat(fd, &info) == 0 &&
                      (info.st_size == 0 || pread(fd, &last, 1, info.st_size - 1) == 1);
    const int len =
        snprintf(line, sizeof line, "%s%s %s\n", last == '\n' ? "" : "\n", name, hash);
    status = good && write(fd, line, (size_t)len) == len && fsync(fd) == 0
                 ? PL_OK
                 : pl_file_failed("write", path);
    close(fd);
    return status;
}

/* Compares the key with all known keys, even after a match, so that the time of the
 * call does not show whether, or where, there was a match. */
const char *server_access_find(const server_access *a, const char *header)
{
    static const char scheme[] = "Bearer ";
    const access_key *keys = (const access_key *)(const void *)a->keys.data;
    const char *found = NULL;
    pl_hash hash;
    if (!header || strncasecmp(header, scheme, strlen(scheme)) != 0)
        return NULL;
    header += strlen(scheme);
    /* The empty first argument gives a plain BLAKE2b hash, the same as b2sum gives. Our
     * other hashes include their purpose. */
    pl_hash_of("", header, strlen(header), &hash);
    for (size_t i = 0; i < a->keys.len / sizeof *keys; i++)
        if (pl_hash_is_mac(&keys[i].hash, hash.bytes))
            found = keys[i].name;
    return found;
}
