/* Reads, maps and locks files and folders on POSIX systems. output.c writes files. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/failpoint.h"
#include "base/output.h"
#include "base/text.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { READ_STEP = 1 << 16, TREE_DEPTH_MAX = 64, LOCK_TRIES = 10 };

const char *pl_file_remedy(int cause, const char *path, uint64_t needed,
                           char out[PL_REMEDY_MAX])
{
    static const struct {
        int cause;
        const char *remedy;
    } rows[] = {
        {EFBIG, "; raise the limit on a file's size (ulimit -f)"},
        {EDQUOT, "; the disk quota of this user is used up: delete files, or have the "
                 "quota raised (quota)"},
        {ENOSPC, "; free some disk space"},
        {ENFILE, "; the machine has too many open files: end other programs, or raise "
                 "fs.file-max"}};
    struct rlimit files;
    struct statvfs info;
    char folder[PL_PATH_MAX];
    out[0] = '\0';
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (cause == rows[i].cause)
            pl_copy_text(out, PL_REMEDY_MAX, rows[i].remedy);
    /* The path may not exist yet. 0 inodes: the file system has no fixed number. */
    const bool lacks_inodes = cause == ENOSPC &&
                              (statvfs(path, &info) == 0 ||
                               statvfs(pl_path_above(folder, path), &info) == 0) &&
                              info.f_files > 0 && info.f_favail == 0;
    if (lacks_inodes)
        pl_copy_text(out, PL_REMEDY_MAX,
                     "; the file system has no inodes left, although it may have free "
                     "space: delete files (df -i counts them)");
    if (cause == EMFILE && getrlimit(RLIMIT_NOFILE, &files) == 0 && needed > 0)
        snprintf(out, PL_REMEDY_MAX,
                 "; this process may open %llu files and needs about %llu: raise the "
                 "limit (ulimit -n)",
                 (unsigned long long)files.rlim_cur, (unsigned long long)needed);
    else if (cause == EMFILE)
        snprintf(out, PL_REMEDY_MAX,
                 "; this process may open %llu files: raise the limit (ulimit -n 1024)",
                 (unsigned long long)files.rlim_cur);
    return out;
}

pl_status pl_status_of_errno(int cause, pl_status otherwise)
{
    switch (cause) {
    case ENOENT:
    case ENOTDIR:
        return PL_ERR_NOT_FOUND;
    case EACCES:
    case EPERM:
    case EROFS:
        return PL_ERR_NOPERM;
    case ENOSPC:
    case EDQUOT:
        return PL_ERR_NOSPACE;
    case EMFILE:
    case ENFILE:
        return PL_ERR_FILES;
    default:
        return otherwise;
    }
}

pl_status pl_file_failed(const char *verb, const char *path)
{
    const int cause = errno;
    char text[128], remedy[PL_REMEDY_MAX];
    return pl_fail(pl_status_of_errno(cause, PL_ERR_IO), "cannot %s %s: %s%s", verb,
                   path, strerror_r(cause, text, sizeof text),
                   pl_file_remedy(cause, path, 0, remedy));
}

bool pl_path_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

bool pl_path_is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

pl_status pl_refuse_special(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0 || S_ISREG(info.st_mode) || S_ISDIR(info.st_mode))
        return PL_OK;
    return pl_fail(PL_ERR_DATA, "'%s' is %s and not a file; give a regular file", path,
                   S_ISFIFO(info.st_mode)   ? "a pipe"
                   : S_ISSOCK(info.st_mode) ? "a socket"
                                            : "a device");
}

static pl_status path_too_long(const char *path)
{
    return pl_fail(PL_ERR_ARG, "the path %.64s... is longer than %d bytes", path,
                   PL_PATH_MAX - 1);
}

pl_status pl_sync_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return pl_file_failed("open the folder", folder);
    pl_status status =
        fsync(fd) == 0 ? PL_OK : pl_file_failed("flush the folder", folder);
    close(fd);
    return status == PL_OK ? pl_failpoint("fs.folder.after") : status;
}

pl_status pl_sync_parent(const char *path)
{
    char folder[PL_PATH_MAX];
    return pl_sync_folder(pl_path_above(folder, path));
}

static pl_status exchange(const char *a, const char *b)
{
    if (renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) == 0)
        return PL_OK;
    return pl_fail(PL_ERR_IO,
                   "the folders %s and %s cannot be exchanged (%s); some file systems, "
                   "such as NFS, cannot do this: use a local one",
                   a, b, strerror(errno));
}

pl_status pl_exchange_folders(const char *a, const char *b)
{
    PL_CHECK(pl_failpoint("fs.exchange.before"));
    PL_CHECK(exchange(a, b));
    PL_CHECK(pl_failpoint("fs.exchange.after"));
    PL_CHECK(pl_sync_parent(a));
    return pl_sync_parent(b);
}

/* Another process may make the same folder at the same time. The call succeeds if the
 * folder exists afterwards, no matter who made it. */
static pl_status make_folder(const char *path)
{
    if (mkdir(path, 0777) == 0)
        return pl_sync_parent(path);
    int cause = errno; /* the next call may overwrite errno */
    if (pl_path_is_folder(path))
        return PL_OK;
    errno = cause;
    return pl_file_failed("make the folder", path);
}

pl_status pl_try_exchange(const char *folder)
{
    char a[PL_PATH_MAX], b[PL_PATH_MAX];
    PL_CHECK(make_folder(pl_join(a, folder, "exchange-1")));
    PL_CHECK(make_folder(pl_join(b, folder, "exchange-2")));
    PL_CHECK(exchange(a, b));
    PL_CHECK(pl_remove_tree(a));
    return pl_remove_tree(b);
}

pl_status pl_make_folders(const char *path)
{
    char part[PL_PATH_MAX];
    if (!path[0])
        return pl_fail(PL_ERR_USAGE, "the path of a folder is empty");
    if (!pl_copy_text(part, sizeof part, path))
        return path_too_long(path);
    for (char *c = part; *c; c++) {
        if (*c != '/' || c == part)
            continue;
        *c = 0;
        PL_CHECK(make_folder(part));
        *c = '/';
    }
    return make_folder(part);
}

/* Works on open folders and follows no link, so nothing outside the tree is deleted. */
static pl_status remove_under(int parent, const char *name, const char *path, int depth)
{
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
        return PL_OK;
    if (errno != EISDIR && errno != EPERM)
        return pl_file_failed("delete a file under", path);
    if (depth > TREE_DEPTH_MAX)
        return pl_fail(PL_ERR_IO,
                       "%s has folders nested deeper than %d levels; delete it by hand",
                       path, TREE_DEPTH_MAX);
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return pl_file_failed("open a folder under", path);
    DIR *folder = fdopendir(fd);
    if (!folder) {
        close(fd);
        return pl_file_failed("read the folder", path);
    }
    pl_status status = PL_OK;
    struct dirent *entry;
    while (status == PL_OK && (entry = readdir(folder)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = remove_under(dirfd(folder), entry->d_name, path, depth + 1);
    closedir(folder);
    PL_CHECK(status);
    if (unlinkat(parent, name, AT_REMOVEDIR) != 0 && errno != ENOENT)
        return pl_file_failed("delete a folder under", path);
    return PL_OK;
}

pl_status pl_remove_tree(const char *path)
{
    return remove_under(AT_FDCWD, path, path, 0);
}

pl_status pl_read_file(const char *path, pl_buf *out)
{
    pl_buf_clear(out);
    /* reading a pipe could wait for ever, and a device may never end */
    PL_CHECK(pl_refuse_special(path));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return pl_file_failed("open", path);
    pl_status status = PL_OK;
    /* Reads to the end of the file, not just the size that stat gives: files under
     * /proc have size 0, and a file may grow. */
    for (ssize_t got = 1; status == PL_OK && got != 0;) {
        pl_buf_reserve(out, READ_STEP);
        got = read(fd, out->data + out->len, out->cap - out->len);
        if (got > 0)
            out->len += (size_t)got;
        else if (got < 0 && errno != EINTR)
            status = pl_file_failed("read", path);
    }
    close(fd);
    return status;
}

pl_status pl_map_file(const char *path, pl_mapping *out)
{
    *out = (pl_mapping){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return pl_file_failed("open", path);
    pl_status status = PL_OK;
    struct stat info;
    void *data = NULL;
    if (fstat(fd, &info) != 0)
        PL_TRY(pl_file_failed("examine", path));
    if (!S_ISREG(info.st_mode))
        PL_TRY(pl_fail(PL_ERR_IO, "%s is not a regular file", path));
    if (info.st_size > 0) /* mmap refuses length 0, but an empty file is not an error */
        data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED)
        PL_TRY(pl_file_failed("map", path));
    *out = (pl_mapping){data, (size_t)info.st_size};
done:
    close(fd); /* the mapping keeps the file open */
    return status;
}

/* All disk blocks are allocated here, where a full disk can be reported. Later a failed
 * write to the mapping would end the process. */
pl_status pl_map_scratch(const char *folder, size_t bytes, void **out)
{
    char path[PL_PATH_MAX];
    *out = NULL;
    int fd = mkostemp(pl_join(path, folder, ".scratch-XXXXXX"), O_CLOEXEC);
    if (fd < 0)
        return pl_file_failed("make a file in", folder);
    unlink(path);
    errno = posix_fallocate(fd, 0, (off_t)bytes);
    void *memory = errno ? MAP_FAILED
                         : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    pl_status status = PL_OK;
    if (memory == MAP_FAILED)
        status = pl_file_failed("reserve disk space in", folder);
    else
        *out = memory;
    close(fd); /* the mapping keeps the file open */
    return status;
}

void pl_unmap_scratch(void *memory, size_t bytes)
{
    if (memory)
        munmap(memory, bytes);
}

void pl_rest_file(const pl_mapping *mapping)
{
    if (mapping->data)
        madvise((void *)(uintptr_t)mapping->data, mapping->len, MADV_DONTNEED);
}

void pl_unmap_file(pl_mapping *mapping)
{
    if (mapping->data)
        munmap((void *)(uintptr_t)mapping->data, mapping->len);
    *mapping = (pl_mapping){0};
}

/* The kernel releases the lock when the process's descriptor is closed, also after kill
 * -9: a process that has ended never leaves a folder locked. */
pl_status pl_lock_folder(const char *path, int *fd)
{
    *fd = -1;
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return pl_file_failed("open the folder", path);
    bool locked = flock(folder, LOCK_EX | LOCK_NB) == 0;
    /* pl_folder_is_locked, which readers call, holds the lock for an instant */
    for (int i = 0; i < LOCK_TRIES && !locked && errno == EWOULDBLOCK; i++) {
        pl_sleep_ms(i);
        locked = flock(folder, LOCK_EX | LOCK_NB) == 0;
    }
    if (locked) {
        *fd = folder;
        return PL_OK;
    }
    const pl_status status =
        errno == EWOULDBLOCK
            ? pl_fail(PL_ERR_BUSY,
                      "%s is in use by another process; stop that process first", path)
            : pl_file_failed("lock", path);
    close(folder);
    return status;
}

bool pl_folder_is_locked(const char *path)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool locked = folder >= 0 && flock(folder, LOCK_SH | LOCK_NB) != 0;
    if (folder >= 0)
        close(folder);
    return locked;
}

void pl_unlock_folder(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Adds up the files of a folder. A file that is deleted meanwhile is not counted. */
uint64_t pl_folder_bytes(const char *path)
{
    uint64_t bytes = 0;
    DIR *entries = opendir(path);
    for (struct dirent *e; entries && (e = readdir(entries));) {
        struct stat info;
        if (fstatat(dirfd(entries), e->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(info.st_mode))
            bytes += (uint64_t)info.st_blocks * 512;
    }
    if (entries)
        closedir(entries);
    return bytes;
}

uint64_t pl_disk_free_bytes(const char *path)
{
    struct statvfs info;
    return statvfs(path, &info) == 0 ? (uint64_t)info.f_bavail * info.f_frsize : 0;
}

/* Writes a file and reads it back: permission bits say nothing about a disk that is
 * full, mounted read-only or failing. */
pl_status pl_check_writable(const char *folder)
{
    static const char probe[] = "pathloom writes here";
    char name[48], path[PL_PATH_MAX];
    snprintf(name, sizeof name, ".write-check-%ld", (long)getpid());
    if (!*pl_join(path, folder, name))
        return path_too_long(folder);
    pl_buf back = {0};
    pl_status status = pl_replace_file(path, probe, sizeof probe);
    if (status != PL_OK)
        status = pl_fail_in(status,
                            "cannot write into the folder %s; give another folder, or "
                            "change its permissions",
                            folder);
    if (status == PL_OK)
        status = pl_read_file(path, &back);
    if (status == PL_OK &&
        (back.len != sizeof probe || memcmp(back.data, probe, back.len) != 0))
        status = pl_fail(PL_ERR_DAMAGED,
                         "the disk of %s does not return the bytes that were written; "
                         "replace the disk",
                         folder);
    unlink(path);
    pl_buf_destroy(&back);
    return status;
}

char *pl_join(char out[PL_PATH_MAX], const char *folder, const char *name)
{
    const char *slash = *folder == 0 || pl_ends_with(folder, "/") ? "" : "/";
    int used = snprintf(out, PL_PATH_MAX, "%s%s%s", folder, slash, name);
    if (used < 0 || used >= PL_PATH_MAX)
        out[0] = 0;
    return out;
}

char *pl_path_above(char out[PL_PATH_MAX], const char *path)
{
    pl_copy_text(out, PL_PATH_MAX, path);
    size_t len = strlen(out);
    while (len > 1 && out[len - 1] == '/')
        out[--len] = 0;
    char *slash = strrchr(out, '/');
    const char *last = slash ? slash + 1 : out;
    if (strcmp(last, ".") == 0 || strcmp(last, "..") == 0)
        return pl_join(out, path, "..");
    if (!slash)
        pl_copy_text(out, PL_PATH_MAX, ".");
    else
        slash[slash == out] = 0;
    return out;
}

bool pl_path_within(const char *path, const char *folder)
{
    struct stat wanted, here;
    if (stat(folder, &wanted) != 0)
        return false;
    /* resolves the links of the path, or of the nearest folder above it that exists */
    char above[PL_PATH_MAX];
    bool has_more = pl_copy_text(above, sizeof above, path);
    char *place = realpath(path, NULL);
    while (!place && errno == ENOENT && has_more) {
        char *slash = strrchr(above, '/');
        has_more = slash && slash != above;
        if (has_more)
            *slash = 0;
        else
            pl_copy_text(above, sizeof above, slash ? "/" : ".");
        place = realpath(above, NULL);
    }
    bool found = false;
    for (bool more = place; more && !found;) {
        found = stat(place, &here) == 0 && here.st_dev == wanted.st_dev &&
                here.st_ino == wanted.st_ino;
        char *slash = strrchr(place, '/');
        more = slash && slash[1];
        if (more)
            slash[slash == place] = 0;
    }
    free(place); /* the resolved path, allocated by realpath */
    return found;
}
