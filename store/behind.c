#include "store/behind.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PIECE_BYTES = 2 << 20,
    PIECES_MAX = 4,
    PAGE_BYTES = 4096 /* what direct writes start at and have multiples of */
};

typedef struct piece {
    uint8_t *data; /* [PIECE_BYTES], at a page's beginning */
    size_t len;    /* less than PIECE_BYTES in the last alone */
} piece;

struct behind {
    int fd;
    bool ended;
    bool is_direct;   /* the thread's, */
    uint64_t at;      /* and so is where the next piece goes */
    atomic_int error; /* errno of the first failure */
    pl_thread *thread;
    pl_queue *full, *empty; /* of pieces */
    piece *filling;
    piece pieces[PIECES_MAX];
    piece end; /* tells the thread that there is no more */
};

static void free_pieces(behind *file)
{
    for (int i = 0; i < PIECES_MAX; i++) {
        pl_free_aligned(file->pieces[i].data);
        file->pieces[i].data = NULL;
    }
}

/* ---- the thread ---- */
/* Refused where the file system cannot: then all goes through the page cache. */
static void set_direct(behind *file, bool direct)
{
    if (direct == file->is_direct)
        return;
    int flags = fcntl(file->fd, F_GETFL);
    int wanted = direct ? flags | O_DIRECT : flags & ~O_DIRECT;
    if (flags >= 0 && fcntl(file->fd, F_SETFL, wanted) == 0)
        file->is_direct = direct;
}

/* A direct write that was refused or went half way is finished without. */
static int write_out(behind *file, const piece *p, size_t len)
{
    size_t done = 0;
    if (pl_failpoint("kv.piece.before") != PL_OK)
        return EIO;
    while (done < len) {
        ssize_t n =
            pwrite(file->fd, p->data + done, len - done, (off_t)(file->at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno != EINVAL || !file->is_direct))
            return errno;
        done += n > 0 ? (size_t)n : 0;
        if (done < len)
            set_direct(file, false);
    }
    if (!file->is_direct) /* on its way; the flush comes later */
        (void)sync_file_range(file->fd, (off_t)file->at, (off_t)len,
                              SYNC_FILE_RANGE_WRITE);
    file->at += len;
    return 0;
}

/* The last one is filled up to a page, and the file cut to its length. */
static int write_last(behind *file, piece *p)
{
    uint64_t end = file->at + p->len;
    size_t len = (p->len + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    if (pl_failpoint("kv.last.before") != PL_OK)
        return EIO;
    if (!file->is_direct)
        return write_out(file, p, p->len);
    memset(p->data + p->len, 0, len - p->len);
    int error = write_out(file, p, len);
    if (error == 0 && ftruncate(file->fd, (off_t)end) != 0)
        error = errno;
    return error;
}

/* Whoever takes the file in looks at its first and its last row: they are on their way
 * back while the file is flushed. Advice. */
static void fetch_ends(const behind *file)
{
    const off_t part = PIECE_BYTES / 2 + PAGE_BYTES, end = (off_t)file->at;
    (void)posix_fadvise(file->fd, 0, part, POSIX_FADV_WILLNEED);
    (void)posix_fadvise(file->fd, end > part ? end - part : 0, part,
                        POSIX_FADV_WILLNEED);
}

static int flush(int fd)
{
    if (pl_failpoint("kv.flush.before") != PL_OK)
        return EIO;
    while (fdatasync(fd) != 0)
        if (errno != EINTR)
            return errno;
    return 0;
}

static void run(void *context)
{
    behind *file = context;
    int error = 0;
    set_direct(file, true);
    for (;;) {
        piece *p = pl_queue_pop(file->full, -1);
        if (p == &file->end)
            break;
        if (atomic_load(&file->error) == 0)
            error = p->len < PIECE_BYTES ? write_last(file, p)
                                         : write_out(file, p, PIECE_BYTES);
        if (error)
            atomic_store(&file->error, error);
        pl_queue_push(file->empty, p);
    }
    if (file->is_direct && atomic_load(&file->error) == 0)
        fetch_ends(file);
    if (atomic_load(&file->error) == 0 && (error = flush(file->fd)) != 0)
        atomic_store(&file->error, error);
    free_pieces(file); /* a commit may have many files that wait for its end */
}

/* ---- whoever makes the bytes ---- */
static int make_pieces(behind *file)
{
    for (int i = 0; i < PIECES_MAX; i++) {
        file->pieces[i].data = aligned_alloc(PAGE_BYTES, PIECE_BYTES);
        if (!file->pieces[i].data)
            return ENOMEM;
        pl_queue_push(file->empty, &file->pieces[i]);
    }
    return 0;
}

static int make(behind *file, const char *path)
{
    file->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file->fd < 0)
        return errno;
    if (pl_queue_create(&file->full) != PL_OK || pl_queue_create(&file->empty) != PL_OK)
        return EMFILE;
    int error = make_pieces(file);
    if (error == 0 && pl_thread_start("write", run, file, &file->thread) != PL_OK)
        error = EAGAIN;
    return error;
}

int behind_open(const char *path, behind **out)
{
    *out = pl_alloc(sizeof **out);
    int error = make(*out, path);
    if (error)
        behind_close(out);
    return error;
}

int behind_append(behind *file, const void *data, size_t len)
{
    const uint8_t *from = data;
    while (len > 0) {
        if (!file->filling) {
            file->filling = pl_queue_pop(file->empty, -1);
            file->filling->len = 0;
        }
        piece *p = file->filling;
        size_t n = PIECE_BYTES - p->len < len ? PIECE_BYTES - p->len : len;
        memcpy(p->data + p->len, from, n);
        p->len += n;
        from += n;
        len -= n;
        if (p->len == PIECE_BYTES) {
            pl_queue_push(file->full, p);
            file->filling = NULL;
        }
    }
    return atomic_load(&file->error);
}

void behind_end(behind *file)
{
    if (file->ended)
        return;
    file->ended = true;
    if (file->filling)
        pl_queue_push(file->full, file->filling);
    file->filling = NULL;
    pl_queue_push(file->full, &file->end);
}

int behind_wait(behind *file)
{
    pl_thread_join(&file->thread);
    return atomic_load(&file->error);
}

void behind_cancel(behind *file)
{
    if (file->thread)
        atomic_store(&file->error, ECANCELED);
}

void behind_close(behind **handle)
{
    behind *file = *handle;
    *handle = NULL;
    if (!file)
        return;
    behind_cancel(file);
    if (file->thread) {
        behind_end(file);
        behind_wait(file);
    }
    free_pieces(file);
    pl_queue_destroy(&file->full);
    pl_queue_destroy(&file->empty);
    if (file->fd >= 0)
        close(file->fd);
    pl_free(file);
}
