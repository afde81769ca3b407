/* Merges the logs of a run's processes by time (observe.h).
 *
 * Each file is a stream of lines in the order in which they were written. The next
 * event is always taken from the stream whose next event is earliest. Clocks of
 * different machines differ. The logs show by how much: when a worker joins, it writes
 * `worker.ready` and the hub writes `worker.joined` at the same moment. */
#include "view/observe.h"
#include "job/job.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SKEW_MS = 2000, SKEWS_MAX = 64, READ_BYTES = 64 << 10 };

/* A log file. The file is not mapped into memory, because a rotation may shorten the
 * file, and reading a mapping beyond the new end would kill the process. */
typedef struct stream {
    char name[128];
    int file;
    off_t at;      /* position in the file after the bytes in the window */
    pl_buf window; /* the lines up to `used` have been taken */
    size_t used;
    bool is_long; /* the current line is longer than the window, so it is no event */
    /* the next event; its `serial` is its time, or the latest time before it in the
     * file if that is later; streams are sorted by `serial` */
    page_event next;
    int64_t back_ms;  /* largest step back in the stream's times */
    uint64_t n_other; /* number of lines that are not events */
} stream;

/* The newest times of the events worker.ready and worker.joined of one worker. */
typedef struct meeting {
    char worker[PAGE_ROLE_MAX];
    int64_t ready_ms, joined_ms;
    int64_t apart_ms; /* ready_ms - joined_ms where it was closest to 0 */
} meeting;

typedef struct observation {
    stream **streams; /* sorted by the time of the next event */
    size_t n;
    meeting *meetings;
    size_t n_meetings;
} observation;

/* ---- streams ---- */
/* Takes the next complete line, without its line end; returns NULL at the end of the
 * file. A last line without a line end is not complete: the process that writes the
 * file was killed, or is still writing the line. */
static const char *next_line(stream *s, size_t *len)
{
    for (;;) {
        const size_t left = s->window.len - s->used;
        const char *line = (const char *)s->window.data + s->used,
                   *end = left > 0 ? memchr(line, '\n', left) : NULL;
        if (end) {
            *len = (size_t)(end - line);
            s->used += *len + 1;
            return line;
        }
        /* Moves the unread rest of the window to its beginning, and appends more of the
         * file. Drops the rest if its line is too long. */
        s->is_long = s->is_long || left >= READ_BYTES;
        s->window.len = s->is_long ? 0 : left;
        pl_buf_reserve(&s->window, READ_BYTES);
        memmove(s->window.data, s->window.data + s->used, s->window.len);
        s->used = 0;
        const ssize_t n =
            pread(s->file, s->window.data + s->window.len, READ_BYTES, s->at);
        if (n <= 0)
            break;
        s->window.len += (size_t)n;
        s->at += n;
    }
    s->n_other += s->window.len > 0 || s->is_long;
    return NULL;
}

static bool next_event(stream *s)
{
    const int64_t before = (int64_t)s->next.serial;
    const char *line;
    size_t len;
    while ((line = next_line(s, &len))) {
        const bool is_whole = !s->is_long;
        s->is_long = false;
        if (is_whole && page_log_parse(line, len, &s->next)) {
            const int64_t back = before - s->next.wall_ms;
            s->back_ms = back > s->back_ms ? back : s->back_ms;
            s->next.serial = (uint64_t)(back > 0 ? before : s->next.wall_ms);
            return true;
        }
        s->n_other += len > 0 || !is_whole;
    }
    return false;
}

static int compare_streams(const void *a, const void *b)
{
    const stream *x = *(stream *const *)a, *y = *(stream *const *)b;
    if (x->next.serial != y->next.serial)
        return x->next.serial < y->next.serial ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void add_file(observation *o, int file, const char *name)
{
    stream *s = pl_alloc(sizeof *s);
    s->file = file;
    o->streams = pl_grow(o->streams, (o->n + 1) * sizeof(stream *));
    o->streams[o->n++] = s;
    pl_copy_text(s->name, sizeof s->name, name);
}

/* Copies the log of a hub on another machine into a file without a name. */
static pl_status add_hub_log(observation *o, const observe_wish *wish)
{
    const run_request where = {.hub = wish->hub, .key = wish->key};
    pl_run r = {.lock = -1};
    pl_buf lines = {0};
    uint64_t offset = 0;
    bool more = true, anew = false;
    pl_status status = PL_OK;
    const int file = memfd_create("hub.log", MFD_CLOEXEC);
    PL_TRY(file >= 0 ? PL_OK : pl_fail(PL_ERR_IO, "no memory for the log of the hub"));
    PL_TRY(run_watch(&r, &where));
    while (more) {
        pl_buf_clear(&lines);
        PL_TRY(run_hub_log(&r, &offset, &lines, &more, &anew));
        if (write(file, lines.data, lines.len) != (ssize_t)lines.len)
            PL_TRY(pl_fail(PL_ERR_IO, "no memory for the log of the hub"));
    }
    add_file(o, file, "hub.log");
done:
    if (status != PL_OK && file >= 0)
        close(file);
    pl_buf_destroy(&lines);
    run_close(&r);
    return status;
}

static pl_status add_stream(observation *o, const char *path)
{
    const char *slash = strrchr(path, '/');
    PL_CHECK(pl_refuse_special(path));
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info;
    if (file < 0)
        return pl_fail(PL_ERR_IO, "cannot open %s: %s", path, strerror(errno));
    if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(file);
        return pl_fail(PL_ERR_IO, "%s is not a regular file; give a log file", path);
    }
    add_file(o, file, slash ? slash + 1 : path);
    return PL_OK;
}

static void close_stream(stream *s)
{
    close(s->file);
    pl_buf_destroy(&s->window);
    pl_free(s);
}

/* ---- filters ---- */
/* Whether the value of one of the keys is `asked`, or a task that `asked` means. It may
 * leave out the arm and the replica of a task, such as "mix/p01.r0". */
static bool names_any(const page_event *e, const char *const *keys, const char *asked)
{
    const size_t len = strlen(asked);
    char value[PAGE_ROLE_MAX];
    for (; *keys; keys++) {
        page_event_value(e, *keys, value, sizeof value);
        const char *slash = strchr(value, '/');
        const char *bare = slash && !strchr(asked, '/') ? slash + 1 : value;
        if (value[0] && strncmp(bare, asked, len) == 0 &&
            (!bare[len] || pl_starts_with(bare + len, ".r")))
            return true;
    }
    return false;
}

/* ---- clocks ---- */
/* Notes the time if the event is worker.ready or worker.joined. When the hub restarts,
 * the worker joins again without worker.ready. Then the two times may be far apart even
 * if the clocks agree, so only the smallest distance counts. */
static void note_meeting(observation *o, const page_event *e)
{
    char worker[PAGE_ROLE_MAX];
    const bool ready = strcmp(e->event, "worker.ready") == 0;
    if (!ready && strcmp(e->event, "worker.joined") != 0)
        return;
    const char *name =
        ready ? e->role : page_event_value(e, "worker", worker, sizeof worker);
    size_t i = 0;
    while (i < o->n_meetings && strcmp(o->meetings[i].worker, name) != 0)
        i++;
    if (i == o->n_meetings) {
        o->meetings = pl_grow(o->meetings, (i + 1) * sizeof *o->meetings);
        o->meetings[i] = (meeting){.apart_ms = INT64_MAX};
        pl_copy_text(o->meetings[i].worker, sizeof o->meetings[i].worker, name);
        o->n_meetings++;
    }
    meeting *m = &o->meetings[i];
    *(ready ? &m->ready_ms : &m->joined_ms) = e->wall_ms;
    if (m->ready_ms > 0 && m->joined_ms > 0) {
        const int64_t apart = m->ready_ms - m->joined_ms;
        m->apart_ms = llabs(apart) < llabs(m->apart_ms) ? apart : m->apart_ms;
    }
}

/* ---- merging the streams ---- */
static void end_stream(stream *s, const observe_out *out)
{
    char sentence[512], span[16];
    if (s->back_ms > 0) {
        snprintf(sentence, sizeof sentence,
                 "the times in %s go back by up to %s; the lines of this file are "
                 "shown in the order of the file",
                 s->name, pl_human_seconds((double)s->back_ms / 1000, span));
        out->remark(out->context, sentence);
    }
    if (s->n_other > 0) {
        snprintf(sentence, sizeof sentence,
                 "%llu lines of %s are not events and were left out (they are "
                 "incomplete, or another program wrote them)",
                 (unsigned long long)s->n_other, s->name);
        out->remark(out->context, sentence);
    }
    close_stream(s);
}

pl_status observe_logs(const observe_wish *wish, const observe_out *out)
{
    observation o = {.n = 0};
    pl_status status = PL_OK;
    if (wish->run) {
        char folder[PL_PATH_MAX], path[PL_PATH_MAX];
        DIR *d = opendir(pl_join(folder, wish->run, "log"));
        if (!d)
            PL_TRY(pl_fail(PL_ERR_NOT_FOUND,
                           "the folder of logs %s cannot be read; give the folder of a "
                           "run with --run",
                           folder));
        for (const struct dirent *entry; status == PL_OK && (entry = readdir(d));) {
            /* the name of a log is "hub.log", "hub.log.1" or "hub.log-20261125", but
             * not "hub.log.gz" */
            const char *name = entry->d_name, *end = strstr(name, ".log");
            end = end && name[0] != '.' ? end + strlen(".log") : NULL;
            const bool is_log =
                end && (!*end || ((*end == '.' || *end == '-') && end[1] &&
                                  strspn(end + 1, "0123456789-") == strlen(end + 1)));
            if (is_log && pl_join(path, folder, name)[0])
                status = add_stream(&o, path);
        }
        closedir(d);
        PL_TRY(status);
    }
    if (wish->hub)
        PL_TRY(add_hub_log(&o, wish));
    for (int i = 0; i < wish->n_logs; i++)
        PL_TRY(add_stream(&o, wish->logs[i]));
    if (o.n == 0)
        PL_TRY(pl_fail(PL_ERR_NOT_FOUND, "there are no logs in %s/log yet", wish->run));
    size_t n = 0;
    for (size_t i = 0; i < o.n; i++)
        if (next_event(o.streams[i]))
            o.streams[n++] = o.streams[i];
        else
            end_stream(o.streams[i], out);
    o.n = n;
    qsort(o.streams, o.n, sizeof(stream *), compare_streams);
    while (o.n > 0) {
        stream *s = o.streams[0];
        note_meeting(&o, &s->next);
        static const char *const paths[] = {"task", "path", NULL},
                                 *const modules[] = {"module", NULL},
                                 *const workers[] = {"worker",  "slow", "first",
                                                     "stopped", "mate", "name",
                                                     NULL};
        if (((!wish->event || pl_starts_with(s->next.event, wish->event)) &&
             (!wish->path || names_any(&s->next, paths, wish->path)) &&
             (!wish->module || names_any(&s->next, modules, wish->module)) &&
             (!wish->worker || strcmp(s->next.role, wish->worker) == 0 ||
              names_any(&s->next, workers, wish->worker))))
            out->event(out->context, &s->next, s->name);
        if (!next_event(s)) {
            end_stream(s, out);
            memmove(o.streams, o.streams + 1, --o.n * sizeof(stream *));
            continue;
        }
        /* moves the stream to its place in the order */
        for (size_t i = 1; i < o.n && compare_streams(&s, &o.streams[i]) > 0; i++) {
            o.streams[i - 1] = o.streams[i];
            o.streams[i] = s;
        }
    }
    char sentence[512], span[16];
    for (size_t i = 0; i < o.n_meetings && i < SKEWS_MAX; i++) {
        const meeting *m = &o.meetings[i];
        if (m->apart_ms == INT64_MAX || llabs(m->apart_ms) <= SKEW_MS)
            continue;
        snprintf(sentence, sizeof sentence,
                 "the clock of %s is about %s %s the hub's clock, so the events of "
                 "this worker are shown too %s",
                 m->worker, pl_human_seconds((double)llabs(m->apart_ms) / 1000, span),
                 m->apart_ms > 0 ? "ahead of" : "behind",
                 m->apart_ms > 0 ? "late" : "early");
        out->remark(out->context, sentence);
    }
done:
    for (size_t i = 0; i < o.n; i++)
        close_stream(o.streams[i]);
    pl_free_all(o.streams, o.meetings);
    return status;
}
