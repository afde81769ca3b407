/* A library that is loaded before the C library (LD_PRELOAD). It makes calls on files
 * fail, and makes the wall clock jump. Environment variables choose the faults:
 *
 *   INTERPOSE=CALL:K:ERROR   the K-th CALL (write pwrite fsync fdatasync rename open)
 *                            of a process fails with ERROR (ENOSPC EIO EINTR EROFS),
 *                            or writes half of its bytes (short)
 *   INTERPOSE_PATH=WORD      counts only calls on files whose path contains WORD
 *   INTERPOSE_ROLE=VERB      only processes that were started as `pathloom VERB`
 *   INTERPOSE_ONCE=FILE      the fault happens once in all processes; the process in
 *                            which it happens creates FILE
 *   INTERPOSE_WHILE=FILE     every CALL fails while FILE exists; K does not matter
 *   INTERPOSE_CLOCK=SECONDS  the wall clock is SECONDS late, then right, then SECONDS
 *                            early, each for half a second, again and again
 *
 * An `open` for reading only is not counted. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static bool is_ours(void)
{
    char words[256] = "";
    const char *role = getenv("INTERPOSE_ROLE");
    if (!role)
        return true;
    long fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY, 0);
    if (fd < 0)
        return false;
    long len = syscall(SYS_read, fd, words, sizeof words - 2);
    syscall(SYS_close, fd);
    return len > 0 && strcmp(words + strlen(words) + 1, role) == 0;
}

static bool path_counts(int fd, const char *path)
{
    char link[64], target[PATH_MAX] = "";
    const char *word = getenv("INTERPOSE_PATH");
    if (!word)
        return true;
    if (path)
        return strstr(path, word) != NULL;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return readlink(link, target, sizeof target - 1) > 0 && strstr(target, word);
}

static bool exists(const char *path)
{
    return syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
}

static bool is_first(void)
{
    const char *path = getenv("INTERPOSE_ONCE");
    if (!path)
        return true;
    long fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (fd >= 0)
        syscall(SYS_close, fd);
    return fd >= 0;
}

enum { FINE = 0, SHORT = -1 };

static int error_named(const char *name)
{
    if (strcmp(name, "ENOSPC") == 0)
        return ENOSPC;
    if (strcmp(name, "EIO") == 0)
        return EIO;
    if (strcmp(name, "EINTR") == 0)
        return EINTR;
    return strcmp(name, "EROFS") == 0 ? EROFS : SHORT;
}

/* Decides what happens to this call: FINE, SHORT, or an errno. */
static int verdict(const char *call, int fd, const char *path)
{
    static _Atomic int role = -1, count;
    char wanted[16] = "", error[16] = "";
    int k = 1;
    const char *spec = getenv("INTERPOSE"), *during = getenv("INTERPOSE_WHILE");
    if (!spec)
        return FINE;
    if (role < 0)
        role = is_ours();
    if (!role || sscanf(spec, "%15[a-z]:%d:%15[A-Za-z]", wanted, &k, error) != 3 ||
        strcmp(wanted, call) != 0 || !path_counts(fd, path))
        return FINE;
    bool now =
        during ? exists(during) : atomic_fetch_add(&count, 1) + 1 == k && is_first();
    return now ? error_named(error) : FINE;
}

static long failed(int error)
{
    errno = error;
    return -1;
}

ssize_t write(int fd, const void *data, size_t len)
{
    int v = verdict("write", fd, NULL);
    return v > 0 ? failed(v)
                 : syscall(SYS_write, fd, data, v == SHORT ? (len + 1) / 2 : len);
}

static ssize_t write_at(int fd, const void *data, size_t len, off_t at)
{
    int v = verdict("pwrite", fd, NULL);
    return v > 0
               ? failed(v)
               : syscall(SYS_pwrite64, fd, data, v == SHORT ? (len + 1) / 2 : len, at);
}

int fsync(int fd)
{
    int v = verdict("fsync", fd, NULL);
    return (int)(v > 0 ? failed(v) : syscall(SYS_fsync, fd));
}

int fdatasync(int fd)
{
    int v = verdict("fdatasync", fd, NULL);
    return (int)(v > 0 ? failed(v) : syscall(SYS_fdatasync, fd));
}

int rename(const char *from, const char *to)
{
    int v = verdict("rename", -1, to);
    return (int)(v > 0 ? failed(v) : syscall(SYS_rename, from, to));
}

static int open_path(const char *path, int flags, mode_t mode)
{
    int v = flags & (O_WRONLY | O_RDWR) ? verdict("open", -1, path) : FINE;
    return (int)(v > 0 ? failed(v) : syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

#include "tests/fault/interposed.h"

/* ---- the wall clock ---- */
static time_t jump(void)
{
    struct timespec steady;
    const char *seconds = getenv("INTERPOSE_CLOCK");
    if (!seconds)
        return 0;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &steady);
    long half = steady.tv_sec * 2 + (steady.tv_nsec >= 500000000);
    return (time_t)(half % 3 - 1) * atol(seconds);
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    long got = syscall(SYS_clock_gettime, clock, out);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
        out->tv_sec += jump();
    return (int)got;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now;
    (void)zone; /* not used */
    int got = clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return got;
}

time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}
