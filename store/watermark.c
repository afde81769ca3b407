/* Reads and writes the file of the mark (watermark.h). The file has two slots, which
 * are written alternately; each slot has a checksum. */
#include "store/watermark.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum {
    SLOT_BYTES = 4096,
    SLOTS = 2,
    AT_SEQUENCE = 8,
    AT_EPOCH = 16,
    AT_LOG = 24,
    AT_CHECKSUM = 56
};
static const char NAME[] = "HWM";
static const uint8_t MAGIC[8] = {'P', 'L', 'H', 'W', 'M', '\r', '\n', 0x1a};

static void slot_encode(const watermark *mark, uint8_t out[SLOT_BYTES])
{
    memset(out, 0, SLOT_BYTES);
    memcpy(out, MAGIC, sizeof MAGIC);
    pl_le_put(out + AT_SEQUENCE, mark->sequence, 8);
    pl_le_put(out + AT_EPOCH, mark->epoch, 8);
    memcpy(out + AT_LOG, mark->log.bytes, sizeof mark->log.bytes);
    pl_le_put(out + AT_CHECKSUM, pl_checksum(out, AT_CHECKSUM), 8);
}

/* Reads the newest valid mark and the number of its slot. While a writer overwrites one
 * slot, that slot may be invalid, and the mark in the other slot is used. */
static pl_status read_newest(const char *path, watermark *out, int *slot)
{
    pl_buf bytes = {0};
    *slot = -1;
    pl_status status = pl_read_file(path, &bytes);
    if (status == PL_OK && bytes.len == SLOTS * SLOT_BYTES)
        for (int s = 0; s < SLOTS; s++) {
            const uint8_t *in = bytes.data + s * SLOT_BYTES;
            if (memcmp(in, MAGIC, sizeof MAGIC) != 0 ||
                pl_le_get(in + AT_CHECKSUM, 8) != pl_checksum(in, AT_CHECKSUM))
                continue;
            watermark mark = {.sequence = pl_le_get(in + AT_SEQUENCE, 8),
                              .epoch = pl_le_get(in + AT_EPOCH, 8)};
            memcpy(mark.log.bytes, in + AT_LOG, sizeof mark.log.bytes);
            if (*slot < 0 || mark.epoch > out->epoch ||
                (mark.epoch == out->epoch && mark.sequence > out->sequence)) {
                *out = mark;
                *slot = s;
            }
        }
    if (status == PL_OK && *slot < 0)
        status = pl_fail(PL_ERR_DAMAGED,
                         "%s (%zu bytes) has no valid mark, so commits may have been "
                         "lost without notice; restore the store from a copy, or "
                         "delete this file to accept the commits that are left",
                         path, bytes.len);
    pl_buf_destroy(&bytes);
    return status;
}

pl_status watermark_load(const char *folder, watermark *out, bool *found)
{
    char path[PL_PATH_MAX];
    int slot;
    *out = (watermark){0};
    *found = pl_path_exists(pl_join(path, folder, NAME));
    return *found ? read_newest(path, out, &slot) : PL_OK;
}

pl_status watermark_make(const char *folder, const watermark *first)
{
    char path[PL_PATH_MAX];
    uint8_t slots[SLOTS * SLOT_BYTES] = {0};
    slot_encode(first, slots);
    return pl_replace_file(pl_join(path, folder, NAME), slots, sizeof slots);
}

pl_status watermark_open(const char *folder, const watermark *first,
                         watermark_file *out)
{
    watermark mark;
    out->fd = -1;
    if (!pl_path_exists(pl_join(out->path, folder, NAME)))
        PL_CHECK(watermark_make(folder, first));
    PL_CHECK(read_newest(out->path, &mark, &out->slot));
    out->fd = open(out->path, O_WRONLY | O_CLOEXEC);
    return out->fd < 0 ? pl_file_failed("write", out->path) : PL_OK;
}

/* Writes the mark. The file has its full size from the start, so fdatasync is enough:
 * only the data must be flushed, not the metadata. */
pl_status watermark_set(watermark_file *file, const watermark *mark)
{
    uint8_t bytes[SLOT_BYTES];
    int slot = 1 - file->slot;
    slot_encode(mark, bytes);
    PL_CHECK(pl_failpoint("mark.write.before"));
    ssize_t put = pwrite(file->fd, bytes, sizeof bytes, (off_t)slot * SLOT_BYTES);
    PL_CHECK(pl_failpoint("mark.write.after"));
    if (put != SLOT_BYTES || fdatasync(file->fd) != 0)
        return pl_fail(put < 0 && errno == ENOSPC ? PL_ERR_NOSPACE : PL_ERR_IO,
                       "cannot write the mark of commit %llu to %s: %s",
                       (unsigned long long)mark->sequence, file->path,
                       put < 0 || put == SLOT_BYTES ? strerror(errno)
                                                    : "only a part was written");
    file->slot = slot;
    return pl_failpoint("mark.flush.after");
}

void watermark_close(watermark_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}
