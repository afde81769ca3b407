/* Writes a file under a temporary name and renames it when it is complete (sink.h). */
#include "serve/sink.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct sink {
    char path[PL_PATH_MAX], temporary[PL_PATH_MAX];
    FILE *file;
    uint64_t bytes;
};

static pl_status sink_failed(const sink *s, const char *verb)
{
    char text[128];
    pl_status status = errno == ENOSPC || errno == EDQUOT ? PL_ERR_NOSPACE : PL_ERR_IO;
    return pl_fail(status, "cannot %s %s: %s; give another --out, or free disk space",
                   verb, s->path, strerror_r(errno, text, sizeof text));
}

static pl_status begin_sink_file(sink *s, const char *path)
{
    int used =
        snprintf(s->temporary, sizeof s->temporary, "%s.tmp-%ld", path, (long)getpid());
    if (!pl_copy_text(s->path, sizeof s->path, path) || used < 0 || used >= PL_PATH_MAX)
        return pl_fail(PL_ERR_ARG, "the path %.64s... is longer than %d bytes", path,
                       PL_PATH_MAX - 1);
    s->file = fopen(s->temporary, "wb");
    return s->file ? PL_OK : sink_failed(s, "create");
}

pl_status sink_open(const char *path, sink **out)
{
    sink *s = pl_alloc(sizeof *s);
    pl_status status = begin_sink_file(s, path);
    if (status != PL_OK)
        sink_close(&s);
    *out = s;
    return status;
}

pl_status sink_write(sink *s, const void *data, size_t len)
{
    if (len > 0 && fwrite(data, 1, len, s->file) != len)
        return sink_failed(s, "write");
    s->bytes += len;
    return PL_OK;
}

pl_status sink_align(sink *s, uint64_t multiple)
{
    static const uint8_t zeros[64];
    uint64_t rest = (multiple - s->bytes % multiple) % multiple;
    return sink_write(s, zeros, (size_t)rest);
}

pl_status sink_end(sink *s)
{
    if (fflush(s->file) != 0 || fsync(fileno(s->file)) != 0)
        return sink_failed(s, "flush");
    int closed = fclose(s->file);
    s->file = NULL;
    if (closed != 0 || rename(s->temporary, s->path) != 0) {
        pl_status status = sink_failed(s, "finish");
        unlink(s->temporary);
        return status;
    }
    return PL_OK;
}

void sink_close(sink **s)
{
    if (!*s)
        return;
    if ((*s)->file) {
        fclose((*s)->file);
        unlink((*s)->temporary);
    }
    pl_free(*s);
    *s = NULL;
}
