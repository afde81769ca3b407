/* Private to view: the event logs of a run's processes, RUN/log/NAME.log.
 *
 * Every line is an event with a time. A page_log keeps the newest rare events. Leases
 * and other events about tasks are frequent, so they are not kept. Other processes
 * wrote the lines, with names that came over the network, so a line with an unexpected
 * form is skipped. */
#pragma once
#include "base/base.h"

enum {
    PAGE_EVENTS_MAX = 2000,
    PAGE_LOGS_MAX = 4200,
    PAGE_EVENT_BYTES = 1280,
    PAGE_SHOWN_BYTES = 240, /* limit for the text of an event that the page shows */
    PAGE_ROLE_MAX = 96
};

typedef struct page_event {
    int64_t wall_ms;
    uint64_t serial; /* number of the event in its page_log */
    /* role: the process that wrote the event; event: the event's name */
    char level[8], role[PAGE_ROLE_MAX], event[40];
    char text[PAGE_EVENT_BYTES]; /* key=value pairs */
} page_event;

typedef struct page_log_file {
    char name[96];
    uint64_t read; /* position up to which the file was read */
} page_log_file;

typedef struct page_log {
    page_log_file *files;
    size_t n_files;
    /* [PAGE_EVENTS_MAX] a ring of the newest rare events; NULL: no event yet */
    page_event *events;
    uint64_t serial; /* number of the newest event */
    /* the first read of a file begins this many bytes before its end; 0: 2 MiB */
    uint64_t tail_bytes;
} page_log;

/* Parses a line without its end, as text or JSON. False: it is not an event. */
bool page_log_parse(const char *line, size_t len, page_event *out);
/* Returns the value of a key in an event's text; "" without the key. */
const char *page_event_value(const page_event *e, const char *key, char *out,
                             size_t size);
/* Reads what was added to the logs in `folder`, at most 256 KiB per file, and calls fn
 * for every event. The first call skips the beginning of long files. *more becomes true
 * if there is more to read. */
typedef void (*page_event_fn)(void *context, const page_event *event);
void page_log_read(page_log *log, const char *folder, page_event_fn fn, void *context,
                   bool *more);
/* Appends the events after `since`, oldest first: [ms, level, role, event, text]. */
void page_log_json(const page_log *log, uint64_t since, pl_json *list);
void page_log_clear(page_log *log);
