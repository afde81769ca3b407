/* Replaces pwrite and open of the C library, under both of their names. A library that
 * is loaded before it includes this header once, after its functions write_at and
 * open_path. */
#pragma once
#include <fcntl.h>
#include <stdarg.h>
#include <sys/types.h>

ssize_t pwrite(int fd, const void *data, size_t len, off_t at)
{
    return write_at(fd, data, len, at);
}

ssize_t pwrite64(int fd, const void *data, size_t len, off64_t at)
{
    return write_at(fd, data, len, at);
}

static mode_t mode_of(int flags, va_list arguments)
{
    return flags & (O_CREAT | O_TMPFILE) ? (mode_t)va_arg(arguments, int) : 0;
}

int open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return open_path(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return open_path(path, flags, mode);
}
