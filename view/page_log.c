/* Reads the event logs of a run's processes (page_log.h). */
#include "view/page_log.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { READ_BYTES = 256 << 10, TAIL_BYTES = 2 << 20 };

/* ---- lines ---- */
static bool parse_log_time(const char *text, int64_t *ms)
{
    struct tm at = {0};
    int milli = 0, used = 0;
    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ%n", &at.tm_year, &at.tm_mon,
               &at.tm_mday, &at.tm_hour, &at.tm_min, &at.tm_sec, &milli, &used) != 7 ||
        used != 24)
        return false;
    at.tm_year -= 1900;
    at.tm_mon--;
    *ms = (int64_t)timegm(&at) * 1000 + milli;
    return true;
}

/* Copies the word up to the next blank; returns the text after it, or NULL. */
static const char *take_word(const char *from, char *out, size_t size)
{
    size_t n = strcspn(from, " ");
    if (n == 0 || n >= size)
        return NULL;
    memcpy(out, from, n);
    out[n] = '\0';
    return from[n] ? from + n + 1 : from + n;
}

static bool parse_json_line(const char *line, size_t len, page_event *out)
{
    static const char *const heads[] = {"time", "level", "role", "event"};
    pl_json *o = NULL;
    pl_buf text = {0};
    if (pl_json_parse(line, len, &o) != PL_OK)
        return false;
    bool is =
        parse_log_time(pl_json_get_text(o, "time"), &out->wall_ms) &&
        pl_copy_text(out->level, sizeof out->level, pl_json_get_text(o, "level")) &&
        pl_copy_text(out->role, sizeof out->role, pl_json_get_text(o, "role")) &&
        pl_copy_text(out->event, sizeof out->event, pl_json_get_text(o, "event"));
    int skip = 0;
    for (const char *key = NULL; is && (key = pl_json_next_key(o, key));) {
        if (skip < 4 && strcmp(key, heads[skip]) == 0) {
            skip++;
            continue;
        }
        const pl_json *value = pl_json_get(o, key);
        pl_buf_printf(&text, "%s%s=", text.len > 0 ? " " : "", key);
        if (pl_json_text(value, NULL))
            pl_buf_printf(&text,
                          strchr(pl_json_text(value, NULL), ' ') ? "\"%s\"" : "%s",
                          pl_json_text(value, NULL));
        else
            pl_json_write(value, 0, &text);
    }
    pl_copy_text(out->text, sizeof out->text, pl_buf_text(&text));
    pl_buf_destroy(&text);
    pl_json_destroy(&o);
    return is;
}

bool page_log_parse(const char *line, size_t len, page_event *out)
{
    char text[8192];
    memset(out, 0, sizeof *out);
    if (len == 0 || len >= sizeof text || memchr(line, '\0', len))
        return false;
    memcpy(text, line, len);
    text[len] = '\0';
    if (text[0] == '{')
        return parse_json_line(text, len, out);
    if (!parse_log_time(text, &out->wall_ms) || text[24] != ' ')
        return false;
    const char *at = take_word(text + 25, out->level, sizeof out->level);
    at = at ? take_word(at, out->role, sizeof out->role) : NULL;
    at = at ? take_word(at, out->event, sizeof out->event) : NULL;
    if (at)
        pl_copy_text(out->text, sizeof out->text, at);
    return at != NULL;
}

const char *page_event_value(const page_event *e, const char *key, char *out,
                             size_t size)
{
    const size_t n = strlen(key);
    out[0] = '\0';
    for (const char *at = e->text; (at = strstr(at, key)); at += n) {
        if ((at != e->text && at[-1] != ' ') || at[n] != '=')
            continue;
        const char *value = at + n + 1;
        const bool quoted = *value == '"';
        value += quoted;
        size_t len = strcspn(value, quoted ? "\"" : " ");
        len = len < size ? len : size - 1;
        memcpy(out, value, len);
        out[len] = '\0';
        return out;
    }
    return out;
}

/* ---- files ---- */
/* Reads whole lines only; a later call reads a line that is still being written. */
static void read_log_file(page_log *log, page_log_file *f, const char *path,
                          page_event_fn fn, void *context, bool *more)
{
    /* Events about tasks and requests, and debug events, are too frequent to be kept in
     * the page's list. (The phase history shows the tasks.) */
    static const char *const common[] = {"lease.granted", "task.done", "task.returned",
                                         "serve.request", "said"};
    struct stat info;
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (file < 0)
        return;
    if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(file);
        return;
    }
    const uint64_t size = (uint64_t)info.st_size;
    if (size < f->read)
        f->read = 0; /* the file is shorter than before, so a new one was started */
    const uint64_t tail = log->tail_bytes > 0 ? log->tail_bytes : TAIL_BYTES;
    if (f->read == 0 && size > tail)
        f->read = size - tail;
    const uint64_t left = size - f->read;
    const size_t n = left < READ_BYTES ? (size_t)left : READ_BYTES;
    char *data = pl_alloc(n + 1);
    const ssize_t got = n > 0 ? pread(file, data, n, (off_t)f->read) : 0;
    close(file);
    const char *last = got > 0 ? memrchr(data, '\n', (size_t)got) : NULL;
    for (const char *line = data, *end; last && line <= last; line = end + 1) {
        page_event e;
        end = memchr(line, '\n', (size_t)(last - line) + 1);
        if (!page_log_parse(line, (size_t)(end - line), &e))
            continue;
        fn(context, &e);
        bool is_rare = strcmp(e.level, "debug") != 0;
        for (size_t i = 0; i < sizeof common / sizeof *common; i++)
            is_rare = is_rare && strcmp(e.event, common[i]) != 0;
        if (!is_rare)
            continue;
        if (!log->events)
            log->events = pl_alloc(PAGE_EVENTS_MAX * sizeof *log->events);
        e.serial = ++log->serial;
        log->events[e.serial % PAGE_EVENTS_MAX] = e;
    }
    /* skips a line that is longer than one read, because it is not an event */
    const size_t whole = last ? (size_t)(last - data) + 1 : 0;
    f->read += whole == 0 && n == READ_BYTES ? n : whole;
    *more = *more || (whole > 0 && left > n);
    pl_free(data);
}

void page_log_read(page_log *log, const char *folder, page_event_fn fn, void *context,
                   bool *more)
{
    char path[PL_PATH_MAX];
    DIR *d = opendir(folder);
    *more = false;
    if (!d)
        return;
    for (const struct dirent *entry; (entry = readdir(d));) {
        const char *name = entry->d_name;
        size_t i = 0;
        if (!pl_ends_with(name, ".log"))
            continue;
        while (i < log->n_files && strcmp(log->files[i].name, name) != 0)
            i++;
        if (i == log->n_files) {
            if (i == PAGE_LOGS_MAX)
                continue;
            log->files = pl_grow(log->files, (i + 1) * sizeof *log->files);
            log->files[i] = (page_log_file){.read = 0};
            if (!pl_copy_text(log->files[i].name, sizeof log->files[i].name, name))
                continue;
            log->n_files++;
        }
        if (pl_join(path, folder, name)[0])
            read_log_file(log, &log->files[i], path, fn, context, more);
    }
    closedir(d);
}

void page_log_json(const page_log *log, uint64_t since, pl_json *list)
{
    char text[PAGE_SHOWN_BYTES];
    uint64_t first = log->serial > PAGE_EVENTS_MAX ? log->serial - PAGE_EVENTS_MAX : 0;
    for (uint64_t i = (since > first ? since : first) + 1; i <= log->serial; i++) {
        const page_event *e = &log->events[i % PAGE_EVENTS_MAX];
        pl_copy_text(text, sizeof text, e->text);
        pl_json_push(
            list, pl_json_list(pl_json_make_int(e->wall_ms),
                               pl_json_make_text(e->level), pl_json_make_text(e->role),
                               pl_json_make_text(e->event), pl_json_make_text(text)));
    }
}

void page_log_clear(page_log *log)
{
    pl_free_all(log->files, log->events);
    memset(log, 0, sizeof *log);
}
