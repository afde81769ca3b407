/* Sockets in the file system (ipc://PATH): chooses places that no other user of the
 * machine can reach, and makes the checks that ZeroMQ leaves to its callers.
 *
 * A user who may enter all folders above a socket, and may write to the socket, can
 * connect. ZeroMQ makes sockets with the process's umask. Therefore the folder is
 * accessible to its owner only.
 *
 * Before it binds, ZeroMQ removes any file with the socket's name: even a file that was
 * named by mistake, or the socket of a running process, which would then silently lose
 * its clients. So this file first checks that the name is free, or that it is a socket
 * on which no process listens. */
#include "base/fs.h"
#include "base/text.h"
#include "base/wire_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static const char scheme[] = "ipc://", private_mark[] = "/pathloom-";

/* Returns the path of an endpoint; NULL if the endpoint is not in the file system. A
 * name that begins with '@' is abstract: it is not a file. */
static const char *path_of(const char *endpoint)
{
    if (!pl_starts_with(endpoint, scheme) || endpoint[strlen(scheme)] == '@')
        return NULL;
    return endpoint + strlen(scheme);
}

static bool fits_socket_path(const char *path)
{
    return strlen(path) < sizeof((struct sockaddr_un *)NULL)->sun_path;
}

/* Makes a socket and either binds it at the path and removes the file again, or
 * connects it to the path. Returns the errno, or 0 on success. */
static int try_socket(const char *path, bool binds)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    pl_copy_text(at.sun_path, sizeof at.sun_path, path);
    const struct sockaddr *any = (const void *)&at;
    int failed = binds ? bind(fd, any, sizeof at) : connect(fd, any, sizeof at);
    int cause = failed ? errno : 0;
    if (binds && !failed)
        unlink(path);
    close(fd);
    return cause;
}

/* If try_socket returns 0 or EAGAIN, a process listens at the path. (EAGAIN means that
 * its queue of connections is full.) EACCES: the socket is another user's. */
pl_status wire_ipc_check(const char *endpoint)
{
    struct stat info;
    const char *path = path_of(endpoint);
    if (!path)
        return PL_OK;
    if (!fits_socket_path(path))
        return pl_fail(PL_ERR_CONFIG,
                       "%s has %zu bytes after ipc://, but the system allows only %zu; "
                       "choose a shorter path",
                       endpoint, strlen(path),
                       sizeof((struct sockaddr_un *)NULL)->sun_path - 1);
    if (lstat(path, &info) != 0)
        return PL_OK;
    if (!S_ISSOCK(info.st_mode))
        return pl_fail(PL_ERR_EXISTS,
                       "%s exists and is not a socket; it was left unchanged: "
                       "choose another path",
                       path);
    int cause = try_socket(path, false);
    if (cause == 0 || cause == EAGAIN || cause == EACCES)
        return pl_fail(
            PL_ERR_BUSY,
            "%s is in use by another process; stop it or choose another path",
            endpoint);
    return PL_OK;
}

pl_status wire_ipc_check_folder(const char *endpoint)
{
    char folder[PL_PATH_MAX];
    const char *path = path_of(endpoint);
    if (!path)
        return PL_ERR_NOT_FOUND;
    pl_path_above(folder, path);
    return access(folder, W_OK | X_OK) == 0 ? PL_OK : wire_cannot_listen(endpoint);
}

pl_status wire_ipc_private(char endpoint[PL_ADDRESS_MAX])
{
    enum { FOLDER_MAX = 80 };
    char folder[PL_PATH_MAX];
    const char *user = getenv("XDG_RUNTIME_DIR");
    bool usable =
        user && user[0] == '/' && pl_path_is_folder(user) && strlen(user) < FOLDER_MAX;
    snprintf(folder, sizeof folder, "%s%sXXXXXX", usable ? user : "/tmp", private_mark);
    if (!mkdtemp(folder)) /* mode 0700 */
        return pl_fail(PL_ERR_OS, "cannot make a folder %s for a socket: %s", folder,
                       strerror(errno));
    snprintf(endpoint, PL_ADDRESS_MAX, "%s%.100s/socket", scheme, folder);
    return PL_OK;
}

/* Removes the file of a socket. If wire_ipc_private made the folder of this file, and
 * the file was the last one in it, removes the folder, too. */
void wire_ipc_remove(const char *endpoint)
{
    char folder[PL_PATH_MAX];
    const char *path = path_of(endpoint);
    if (!path)
        return;
    unlink(path);
    pl_path_above(folder, path);
    const char *name = strrchr(folder, '/');
    if (name && pl_starts_with(name, private_mark))
        rmdir(folder);
}

/* Lustre and similar file systems cannot hold sockets. To know, make a socket. */
void pl_address_in_folder(const char *folder, const char *name,
                          char out[PL_ADDRESS_MAX])
{
    char whole[PL_PATH_MAX], path[PL_PATH_MAX], probe[PL_PATH_MAX];
    pl_copy_text(out, PL_ADDRESS_MAX, PL_ADDRESS_PRIVATE);
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return;
    if (chmod(folder, 0700) != 0 || !realpath(folder, whole))
        return;
    snprintf(path, sizeof path, "%.*s/%.64s.sock", PL_PATH_MAX - 128, whole, name);
    snprintf(probe, sizeof probe, "%.*s/.%d", PL_PATH_MAX - 128, whole, (int)getpid());
    if (fits_socket_path(path) && fits_socket_path(probe) &&
        try_socket(probe, true) == 0)
        snprintf(out, PL_ADDRESS_MAX, "%s%.200s", scheme, path);
}

void pl_address_beside(const char *address, const char *name, char out[PL_ADDRESS_MAX])
{
    char folder[PL_PATH_MAX];
    pl_address at;
    pl_copy_text(out, PL_ADDRESS_MAX, PL_ADDRESS_PRIVATE);
    if (pl_address_parse(address, &at) != PL_OK || !path_of(at.endpoint) ||
        pl_key_name_check(name) != PL_OK)
        return;
    pl_path_above(folder, path_of(at.endpoint));
    if (access(folder, W_OK) == 0)
        pl_address_in_folder(folder, name, out);
}
