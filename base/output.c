/* Writes files durably, and never destroys what a user named as an output (output.h).
 *
 * After the rename the folder is synced, because it contains the new name. An error of
 * close counts as a failure: network file systems report a full disk only then. */
#include "base/output.h"
#include "base/failpoint.h"
#include "base/fs.h"
#include "base/text.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINKS_MAX = 40, HELD_MAX = 1 << 16, WRITE_STEP = 1 << 30 };

struct pl_output {
    char path[PL_PATH_MAX]; /* as it was named */
    /* temporary: renamed to `target` at the end; "": the output is written directly */
    char target[PL_PATH_MAX], temporary[PL_PATH_MAX];
    bool is_new; /* the target must not exist */
    int fd;
    pl_buf held; /* small pieces are written together */
    uint64_t bytes;
};

/* the three kinds of output: a user's, the program's own, and a new secret */
typedef enum output_kind { NAMED, OWN, SECRET } output_kind;

static bool is_special(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

/* Follows the links from `at` to a path that is not a link. Stops at a descriptor of
 * the process, a pipe or device, whose link need not have a path ("pipe:[123]"). *fd
 * gets the number of the descriptor that a path such as /dev/fd/63 names, or -1:
 * opening such a path would lose the descriptor's position in its file. */
static pl_status follow_links(pl_output *o, int *fd)
{
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    char link[PL_PATH_MAX], folder[PL_PATH_MAX];
    *fd = -1;
    for (int i = 0; i < LINKS_MAX; i++) {
        int64_t number;
        for (int k = 0; k < 2; k++)
            if (pl_starts_with(o->target, folders[k]) &&
                pl_parse_int(o->target + strlen(folders[k]), &number) == PL_OK &&
                number >= 0 && number <= INT32_MAX)
                *fd = (int)number;
        if (*fd >= 0 || is_special(o->target))
            return PL_OK;
        ssize_t len = readlink(o->target, link, sizeof link);
        if (len < 0)
            return PL_OK;
        if ((size_t)len == sizeof link)
            break;
        link[len] = '\0';
        if (link[0] == '/')
            pl_copy_text(o->target, sizeof o->target, link);
        else if (!*pl_join(o->target, pl_path_above(folder, o->target), link))
            break;
    }
    return pl_fail(PL_ERR_USAGE,
                   "%s leads through more than %d links, or to a path that is too "
                   "long; name the file itself",
                   o->path, LINKS_MAX);
}

/* Duplicates a descriptor. Earlier text must come first if it is that of stdout. */
static int duplicate(int fd)
{
    fflush(stdout);
    return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

/* Opens a pipe or a device. A path such as /dev/stdout may lead to a pipe or socket
 * that the process has open: a socket cannot be opened again, and a pipe of another
 * user may not be. */
static int open_special(const char *path)
{
    struct stat wanted, open_one;
    if (stat(path, &wanted) != 0)
        return -1;
    const bool is_shared = S_ISFIFO(wanted.st_mode) || S_ISSOCK(wanted.st_mode);
    for (int fd = STDOUT_FILENO; is_shared && fd <= STDERR_FILENO; fd++)
        if (fstat(fd, &open_one) == 0 && open_one.st_dev == wanted.st_dev &&
            open_one.st_ino == wanted.st_ino)
            return duplicate(fd);
    return open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
}

/* The file must be new, because another user may have put a link at its name. A file
 * that a killed process has left is removed. The new file gets the owner and the
 * permissions of a user's old one. */
static int open_temporary(pl_output *o, output_kind kind)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    int used = snprintf(o->temporary, PL_PATH_MAX, "%s.tmp-%ld", o->target,
                        (long)getpid()); /* two processes may write the same file */
    if (used < 0 || used >= PL_PATH_MAX) {
        errno = ENAMETOOLONG;
        o->temporary[0] = '\0';
        return -1;
    }
    const mode_t fresh = kind == SECRET ? 0600 : 0666;
    int fd = open(o->temporary, flags, fresh);
    if (fd < 0 && errno == EEXIST && unlink(o->temporary) == 0)
        fd = open(o->temporary, flags, fresh);
    if (fd < 0)
        o->temporary[0] = '\0';
    struct stat was, is;
    if (fd < 0 || kind != NAMED || stat(o->target, &was) != 0 ||
        !S_ISREG(was.st_mode) || fstat(fd, &is) != 0)
        return fd;
    mode_t mode = was.st_mode & 0777;
    /* a user who is not root cannot give files away, which is not an error */
    if ((was.st_uid != is.st_uid || was.st_gid != is.st_gid) &&
        fchown(fd, was.st_uid, was.st_gid) != 0)
        mode &= ~(mode_t)070; /* the file's group is a different one */
    if (fchmod(fd, mode) == 0)
        return fd;
    close(fd);
    return -1;
}

static pl_status open_output(const char *path, output_kind kind, pl_output **out)
{
    pl_output *o = pl_alloc(sizeof *o);
    pl_status status = PL_OK;
    int named_fd = -1;
    o->is_new = kind == SECRET;
    o->fd = -1;
    if (!pl_copy_text(o->path, sizeof o->path, path) || !path[0])
        PL_TRY(pl_fail(PL_ERR_USAGE,
                       "the path of an output is empty, or longer than %d bytes: %.64s",
                       PL_PATH_MAX - 1, path));
    pl_copy_text(o->target, sizeof o->target, path);
    if (kind == NAMED)
        PL_TRY(follow_links(o, &named_fd));
    if (named_fd >= 0)
        o->fd = duplicate(named_fd);
    else if (kind == NAMED && is_special(o->target))
        o->fd = open_special(o->target);
    else
        o->fd = open_temporary(o, kind);
    if (o->fd < 0)
        status = pl_file_failed("create", path);
done:
    if (status != PL_OK)
        pl_output_close(&o);
    *out = o;
    return status;
}

pl_status pl_output_open(const char *path, pl_output **out)
{
    return open_output(path, NAMED, out);
}

static pl_status write_all(pl_output *o, const uint8_t *data, size_t len)
{
    PL_CHECK(pl_failpoint("fs.write.before"));
    while (len > 0) {
        ssize_t put = write(o->fd, data, len < WRITE_STEP ? len : WRITE_STEP);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return pl_file_failed("write", o->path);
        data += put;
        len -= (size_t)put;
    }
    return pl_failpoint("fs.write.after");
}

static pl_status write_held(pl_output *o)
{
    pl_status status = write_all(o, o->held.data, o->held.len);
    pl_buf_clear(&o->held);
    return status;
}

pl_status pl_output_write(pl_output *o, const void *data, size_t len)
{
    o->bytes += len;
    if (len > HELD_MAX - o->held.len && o->held.len > 0)
        PL_CHECK(write_held(o));
    if (len > HELD_MAX)
        return write_all(o, data, len);
    pl_buf_append(&o->held, data, len);
    return PL_OK;
}

pl_status pl_output_align(pl_output *o, uint64_t multiple)
{
    static const uint8_t zeros[64];
    uint64_t rest = (multiple - o->bytes % multiple) % multiple;
    return pl_output_write(o, zeros, (size_t)rest);
}

pl_status pl_output_end(pl_output *o)
{
    struct stat info;
    PL_CHECK(write_held(o));
    /* a pipe or a device cannot be synced */
    if (fstat(o->fd, &info) != 0 || (S_ISREG(info.st_mode) && fsync(o->fd) != 0))
        return pl_file_failed("flush", o->path);
    PL_CHECK(pl_failpoint("fs.fsync.after"));
    int closed = close(o->fd);
    o->fd = -1;
    if (closed != 0)
        return pl_file_failed("close", o->path);
    if (!o->temporary[0])
        return PL_OK;
    if (o->is_new) {
        if (link(o->temporary, o->target) != 0)
            return errno == EEXIST
                       ? pl_fail(PL_ERR_EXISTS,
                                 "%s exists already, and is never replaced", o->path)
                       : pl_file_failed("create", o->path);
        unlink(o->temporary);
        o->temporary[0] = '\0';
    } else {
        if (rename(o->temporary, o->target) != 0)
            return pl_file_failed("replace", o->path);
        o->temporary[0] = '\0';
        PL_CHECK(pl_failpoint("fs.rename.after"));
    }
    const pl_status status = pl_sync_parent(o->target);
    /* without a sync of the folder, a power cut could remove the new file later */
    if (status != PL_OK && o->is_new)
        unlink(o->target);
    return status;
}

void pl_output_close(pl_output **output)
{
    pl_output *o = *output;
    if (!o)
        return;
    if (o->fd >= 0)
        close(o->fd);
    if (o->is_new && o->held.data)
        explicit_bzero(o->held.data, o->held.cap);
    pl_buf_destroy(&o->held);
    if (o->temporary[0])
        unlink(o->temporary);
    pl_free(o);
    *output = NULL;
}

static pl_status write_whole(const char *path, output_kind kind, const void *data,
                             size_t len)
{
    pl_output *o = NULL;
    pl_status status = open_output(path, kind, &o);
    if (status == PL_OK)
        status = pl_output_write(o, data, len);
    if (status == PL_OK)
        status = pl_output_end(o);
    pl_output_close(&o);
    return status;
}

pl_status pl_write_output(const char *path, const void *data, size_t len)
{
    return write_whole(path, NAMED, data, len);
}

pl_status pl_replace_file(const char *path, const void *data, size_t len)
{
    return write_whole(path, OWN, data, len);
}

pl_status pl_create_secret(const char *path, const void *data, size_t len)
{
    return write_whole(path, SECRET, data, len);
}
