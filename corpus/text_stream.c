/* Decompresses files with libarchive; no other file uses this library. The library is
 * told that the format is "raw" (one stream of bytes), and recognises the compression
 * by magic numbers.
 *
 * opened here, not by the library: errno tells why */
#include "corpus/text_stream.h"
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK_BYTES = 1 << 16 };

#define ARCHIVE_FUNCTIONS(X)                                                           \
    X(archive_read_new)                                                                \
    X(archive_read_free)                                                               \
    X(archive_read_support_filter_gzip)                                                \
    X(archive_read_support_filter_zstd)                                                \
    X(archive_read_support_filter_xz)                                                  \
    X(archive_read_support_filter_bzip2)                                               \
    X(archive_read_support_format_raw)                                                 \
    X(archive_read_support_format_empty)                                               \
    X(archive_read_open_fd)                                                            \
    X(archive_read_next_header)                                                        \
    X(archive_read_data)                                                               \
    X(archive_filter_code)                                                             \
    X(archive_errno)                                                                   \
    X(archive_error_string)

static struct {
    ARCHIVE_FUNCTIONS(PL_LIBRARY_MEMBER)
} library;

struct text_stream {
    struct archive *archive;
    int fd;
    bool at_end;
    const char *path; /* borrowed */
};

typedef struct compression {
    const char *suffix;
    int filter;
} compression;
static const compression compressions[] = {{".gz", ARCHIVE_FILTER_GZIP},
                                           {".zst", ARCHIVE_FILTER_ZSTD},
                                           {".xz", ARCHIVE_FILTER_XZ},
                                           {".bz2", ARCHIVE_FILTER_BZIP2}};

static const compression *compression_of(const char *path)
{
    for (size_t i = 0; i < sizeof compressions / sizeof *compressions; i++)
        if (pl_ends_with(path, compressions[i].suffix))
            return &compressions[i];
    return NULL;
}

size_t text_stream_stem(const char *path)
{
    const compression *found = compression_of(path);
    return strlen(path) - (found ? strlen(found->suffix) : 0);
}

/* Reports a failed read: the disk failed (EIO), or the compressed stream is broken. */
static pl_status stream_failed(const text_stream *stream)
{
    const char *reason = library.archive_error_string(stream->archive);
    if (library.archive_errno(stream->archive) == EIO)
        return pl_fail(PL_ERR_IO, "reading '%s' failed: %s", stream->path, reason);
    return pl_fail(PL_ERR_DATA,
                   "the compressed file '%s' is truncated or broken (%s): make or "
                   "download it again",
                   stream->path, reason ? reason : "it ends too early");
}

pl_status text_stream_open(const char *path, text_stream **out)
{
    text_stream *stream = pl_alloc(sizeof *stream);
    pl_status status = PL_OK;
    bool is_stdin = strcmp(path, "-") == 0;
    *out = NULL;
    stream->path = path;
    stream->fd = -1;
    if (!is_stdin && pl_refuse_special(path) != PL_OK)
        PL_TRY(pl_fail(
            PL_ERR_DATA,
            "%s, or send the text to standard input and give - as the file's name",
            pl_last_error()));
    stream->fd = is_stdin ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    if (stream->fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        PL_TRY(pl_fail(PL_ERR_NOT_FOUND, "the file '%s' does not exist: check the name",
                       path));
    if (stream->fd < 0 && (errno == EACCES || errno == EPERM))
        PL_TRY(pl_fail(
            PL_ERR_NOPERM,
            "the file '%s' may not be read by this user: check its permissions", path));
    if (stream->fd < 0)
        PL_TRY(pl_file_failed("open", path));
    /* Only filters whose libraries are part of this process are allowed, because
     * archive_read_support_filter_all would start other programs for rarer formats. */
    static const char *const names[] = {ARCHIVE_FUNCTIONS(PL_LIBRARY_NAME)};
    PL_TRY(pl_library_load("libarchive.so.13", "libarchive13", names, &library,
                           sizeof library));
    struct archive *archive = library.archive_read_new();
    if (!archive)
        PL_TRY(pl_fail(PL_ERR_NOMEM, "no memory to read '%s'", stream->path));
    stream->archive = archive;
    struct archive_entry *entry;
    library.archive_read_support_filter_gzip(archive);
    library.archive_read_support_filter_zstd(archive);
    library.archive_read_support_filter_xz(archive);
    library.archive_read_support_filter_bzip2(archive);
    library.archive_read_support_format_raw(archive);
    library.archive_read_support_format_empty(archive);
    if (library.archive_read_open_fd(archive, stream->fd, BLOCK_BYTES) != ARCHIVE_OK)
        PL_TRY(stream_failed(stream));
    int result = library.archive_read_next_header(archive, &entry);
    stream->at_end = result == ARCHIVE_EOF;
    PL_TRY(result == ARCHIVE_OK || result == ARCHIVE_EOF ? PL_OK
                                                         : stream_failed(stream));
    /* The library does not recognise a compressed file that was truncated to a few
     * bytes; without this check such a file would count as text. */
    const compression *named = compression_of(stream->path);
    if (named && library.archive_filter_code(stream->archive, 0) != named->filter)
        PL_TRY(pl_fail(PL_ERR_DATA,
                       "'%s' does not begin like a %s file, although its name has this "
                       "suffix: the file is incomplete or has the wrong name",
                       stream->path, named->suffix));
    *out = stream;
    stream = NULL;
done:
    text_stream_close(&stream);
    return status;
}

void text_stream_close(text_stream **stream)
{
    if (!*stream)
        return;
    if ((*stream)->archive)
        library.archive_read_free((*stream)->archive);
    if ((*stream)->fd >= 0)
        close((*stream)->fd);
    pl_free(*stream);
    *stream = NULL;
}

pl_status text_stream_read(text_stream *stream, size_t max, pl_buf *out, bool *end)
{
    *end = stream->at_end;
    if (*end)
        return PL_OK;
    /* grows only below half of `max`: a small file needs one allocation */
    if (out->cap - out->len < max / 2)
        pl_buf_reserve(out, max);
    size_t room = out->cap - out->len;
    la_ssize_t n = library.archive_read_data(stream->archive, out->data + out->len,
                                             room < max ? room : max);
    if (n < 0)
        return stream_failed(stream);
    out->len += (size_t)n;
    *end = stream->at_end = n == 0;
    return PL_OK;
}
