/* A library that is loaded before the C library (LD_PRELOAD). It writes every change of
 * the files under POWER_ROOT (an absolute path) into the file POWER_TRACE, which must
 * be outside of POWER_ROOT.
 *
 * A lock is held from the beginning of a call until its entry is written, so that the
 * entries have the order of the calls. Writes through streams (FILE) are not recorded.
 * RocksDB writes only its file LOG in this way. */
#include "tests/fault/power_trace.h"
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FD_MAX = 65536 };

static atomic_flag lock = ATOMIC_FLAG_INIT;
static _Atomic bool ours[FD_MAX]; /* the file is under the root */
static int trace = -1;

/* This is not a mutex, because sanitizers replace the functions of mutexes. A sanitizer
 * makes its folder, and so calls this library, before its replacements work. */
static void take_lock(void)
{
    while (atomic_flag_test_and_set(&lock))
        sched_yield();
}

/* Returns the part of the path after the root, or NULL if the path is not under the
 * root. */
static const char *under_root(const char *path)
{
    const char *root = getenv("POWER_ROOT");
    size_t len = root ? strlen(root) : 0;
    if (len == 0 || strncmp(path, root, len) != 0)
        return NULL;
    if (path[len] == 0)
        return path + len;
    return path[len] == '/' ? path + len + 1 : NULL;
}

static bool is_ours(int fd)
{
    return fd >= 0 && fd < FD_MAX && ours[fd];
}

/* Writes an entry. If this fails, the process ends, because a trace with gaps proves
 * nothing. */
static void note(power_kind kind, int fd, uint64_t offset, const void *text, size_t len)
{
    power_entry entry = {(uint32_t)kind, fd, offset, len};
    struct iovec parts[2] = {{&entry, sizeof entry}, {NULL, len}};
    memcpy(&parts[1].iov_base, &text, sizeof text);
    if (trace < 0)
        trace = (int)syscall(SYS_openat, AT_FDCWD, getenv("POWER_TRACE"),
                             O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (syscall(SYS_writev, trace, parts, 2) != (long)(sizeof entry + len))
        abort();
}

static void note_path(power_kind kind, int fd, const char *path)
{
    const char *shown = under_root(path);
    if (shown)
        note(kind, fd, 0, shown, strlen(shown));
}

ssize_t write(int fd, const void *data, size_t len)
{
    if (!is_ours(fd))
        return syscall(SYS_write, fd, data, len);
    take_lock();
    ssize_t put = syscall(SYS_write, fd, data, len);
    if (put > 0) {
        long end = syscall(SYS_lseek, fd, 0, SEEK_CUR);
        note(POWER_WRITE, fd, (uint64_t)(end - put), data, (size_t)put);
    }
    atomic_flag_clear(&lock);
    return put;
}

static ssize_t write_at(int fd, const void *data, size_t len, off_t at)
{
    if (!is_ours(fd))
        return syscall(SYS_pwrite64, fd, data, len, at);
    take_lock();
    ssize_t put = syscall(SYS_pwrite64, fd, data, len, at);
    if (put > 0)
        note(POWER_WRITE, fd, (uint64_t)at, data, (size_t)put);
    atomic_flag_clear(&lock);
    return put;
}

static int set_length(int fd, off_t length)
{
    take_lock();
    int got = (int)syscall(SYS_ftruncate, fd, length);
    if (got == 0 && is_ours(fd))
        note(POWER_CUT_SHORT, fd, (uint64_t)length, "", 0);
    atomic_flag_clear(&lock);
    return got;
}

int ftruncate(int fd, off_t length)
{
    return set_length(fd, length);
}

int ftruncate64(int fd, off64_t length)
{
    return set_length(fd, length);
}

/* A flush is recorded only after it has returned. */
static int flush(long call, int fd)
{
    take_lock();
    int got = (int)syscall(call, fd);
    if (got == 0 && is_ours(fd))
        note(POWER_SYNC, fd, 0, "", 0);
    atomic_flag_clear(&lock);
    return got;
}

int fsync(int fd)
{
    return flush(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return flush(SYS_fdatasync, fd);
}

static int two_paths(long call, power_kind kind, const char *from, const char *to)
{
    char both[2 * PATH_MAX];
    take_lock();
    int got = (int)syscall(call, from, to);
    if (got == 0 && under_root(from) && under_root(to)) {
        size_t len = strlen(under_root(from)) + 1;
        snprintf(both, sizeof both, "%s%c%s", under_root(from), 0, under_root(to));
        note(kind, -1, 0, both, len + strlen(under_root(to)));
    }
    atomic_flag_clear(&lock);
    return got;
}

int rename(const char *from, const char *to)
{
    return two_paths(SYS_rename, POWER_RENAME, from, to);
}

int link(const char *from, const char *to)
{
    return two_paths(SYS_link, POWER_LINK, from, to);
}

static int remove_path(long call, const char *path)
{
    take_lock();
    int got = (int)syscall(call, path);
    if (got == 0)
        note_path(POWER_REMOVE, -1, path);
    atomic_flag_clear(&lock);
    return got;
}

int unlink(const char *path)
{
    return remove_path(SYS_unlink, path);
}

int rmdir(const char *path)
{
    return remove_path(SYS_rmdir, path);
}

int mkdir(const char *path, mode_t mode)
{
    take_lock();
    int got = (int)syscall(SYS_mkdir, path, mode);
    if (got == 0)
        note_path(POWER_FOLDER, -1, path);
    atomic_flag_clear(&lock);
    return got;
}

static int open_path(const char *path, int flags, mode_t mode)
{
    take_lock();
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    if (fd >= 0 && fd < FD_MAX) {
        ours[fd] = under_root(path) != NULL;
        note_path(POWER_OPEN, fd, path);
        if (ours[fd] && (flags & O_TRUNC))
            note(POWER_CUT_SHORT, fd, 0, "", 0);
    }
    atomic_flag_clear(&lock);
    return fd;
}

#include "tests/fault/interposed.h"

int close(int fd)
{
    if (fd >= 0 && fd < FD_MAX)
        ours[fd] = false;
    return (int)syscall(SYS_close, fd);
}
