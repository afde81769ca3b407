/* Computes the history of a run from its store and its logs (run_history.h). */
#include "view/run_history.h"
#include "view/page_log.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { LOG_BYTES = 64 << 20, READ_AT_ONCE = 2000 };

void history_clear(history *h)
{
    pl_free(h->rows);
    *h = (history){.n = 0};
}

/* ---- audits ---- */
typedef struct audit_count {
    const phase_history *h;
    history *out;
    const size_t *first; /* [n_arms + 1] index of each arm's first row, then out->n */
} audit_count;

static pl_status count_audit(void *context, const char *name, const char *target)
{
    const audit_count *c = context;
    pl_audit *audit = pl_alloc(sizeof *audit);
    (void)name;
    for (int a = 0; pl_audit_read(target, audit) == PL_OK && a < c->h->n_arms; a++) {
        const char *arm = c->h->arms[a].arm.name;
        const uint64_t slot = (uint64_t)audit->phase / (uint64_t)c->h->stride;
        if (!pl_starts_with(audit->path, arm) || audit->path[strlen(arm)] != '/' ||
            audit->phase < 0 || slot >= c->first[a + 1] - c->first[a])
            continue;
        history_row *r = &c->out->rows[c->first[a] + slot];
        r->n_audits++;
        r->n_odd +=
            audit->verdict == PL_VERDICT_ODD || audit->verdict == PL_VERDICT_UNDECIDED;
    }
    pl_free(audit);
    return PL_OK;
}

/* ---- logs ---- */
typedef struct log_count {
    history *out;
    phase_history names;             /* only its list of workers is used */
    int64_t hub_ms;                  /* time of the hub's last start; 0: not seen */
    int64_t pids[PHASE_WORKERS_MAX]; /* [worker] its last process; 0: not known */
} log_count;

/* Adds a restart or expired leases to the row of the event. When the hub restarts, all
 * workers join again with the same process ids; a restarted worker has a new one. */
static void count_event(void *context, const page_event *e)
{
    log_count *c = context;
    char value[PL_TEXT_MAX];
    int64_t n = 0;
    /* Returns the row to which an event at this time belongs: the first row that ended
     * at this time or later. Returns NULL if there is no such row; then the phase of
     * the event is not finished. */
    size_t low = 0, high = c->out->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (c->out->rows[middle].at_ms < e->wall_ms)
            low = middle + 1;
        else
            high = middle;
    }
    history_row *r = low < c->out->n ? &c->out->rows[low] : NULL;
    bool restarted = strcmp(e->event, "home.restarted") == 0;
    if (strcmp(e->event, "worker.joined") == 0) {
        const int known = c->names.n_workers;
        const int w = phase_history_worker(
            &c->names, page_event_value(e, "worker", value, sizeof value));
        int64_t pid = 0;
        if (pl_parse_int(page_event_value(e, "process", value, sizeof value), &pid) !=
            PL_OK)
            pid = 0;
        restarted = w >= 0 && w < known && (pid == 0 || pid != c->pids[w]);
        if (w >= 0)
            c->pids[w] = pid;
    }
    if (strcmp(e->event, "hub.ready") == 0) {
        restarted = c->hub_ms > 0;
        c->hub_ms = e->wall_ms;
    }
    if (r && restarted)
        r->n_restarts++;
    if (r && strcmp(e->event, "lease.expired") == 0 &&
        pl_parse_int(page_event_value(e, "count", value, sizeof value), &n) == PL_OK &&
        n > 0 && n < 1 << 20)
        r->n_expired += n;
}

/* ---- all rows of a run ---- */
static int compare_row_times(const void *a, const void *b)
{
    const history_row *x = a, *y = b;
    if (x->at_ms != y->at_ms)
        return x->at_ms < y->at_ms ? -1 : 1;
    const int arms = strcmp(x->arm, y->arm);
    return arms ? arms : (x->phase > y->phase) - (x->phase < y->phase);
}

pl_status history_make(const phase_history *h, pl_store *store, const char *logs,
                       history *out)
{
    size_t first[PHASE_ARMS_MAX + 1] = {0};
    audit_count audits = {.h = h, .out = out, .first = first};
    /* The cells do not show whether the run has ended: a path whose last update came
     * too late for a quorum has no cell in the last phase. */
    bool ended;
    (void)run_has_ended(store, &ended);
    *out = (history){.n = 0};
    /* Adds the rows of each arm: one row per slot of the phase history (a slot stands
     * for h->stride phases), in order. count_audit relies on this order: the row of
     * slot i is the arm's first row plus i. */
    for (int k = 0; k < h->n_arms; k++) {
        const phase_arm *a = &h->arms[k];
        const bool shown = a->arm.n_scored == 0;
        for (size_t slot = 0; shown && phase_history_is_final(h, a, slot, ended);
             slot++) {
            const pl_held_sum held = phase_history_held(a, slot);
            history_row r = {.phase = (int64_t)slot * h->stride,
                             .n_paths = a->n_series,
                             .bits = pl_held_bits(&held),
                             .n_versions = slot < a->n_merged ? a->merged[slot] : 0};
            pl_work all = {0};
            pl_copy_text(r.arm, sizeof r.arm, a->arm.name);
            for (int i = 0; i < a->n_series; i++) {
                const phase_cell *c = phase_series_at(&a->series[i], slot);
                if (c->n == 0)
                    continue;
                if (r.n_done == 0 || c->from_ms < r.from_ms)
                    r.from_ms = c->from_ms;
                r.at_ms = c->at_ms > r.at_ms ? c->at_ms : r.at_ms;
                r.n_phases = c->n > r.n_phases ? c->n : r.n_phases;
                pl_work_join(&all, r.n_done++, &c->work, 1);
            }
            r.tokens = (double)all.n_tokens;
            r.loss = all.loss;
            out->rows = pl_grow_items(out->rows, out->n, out->n + 1, sizeof *out->rows);
            out->rows[out->n++] = r;
        }
        first[k + 1] = out->n;
    }
    PL_CHECK(pl_store_each_ref(store, PL_AUDIT_REFS, count_audit, &audits));
    size_t kept = 0; /* drops phases without a merged update */
    for (size_t i = 0; i < out->n; i++)
        if (out->rows[i].n_done > 0)
            out->rows[kept++] = out->rows[i];
    out->n = kept;
    if (kept > 1)
        qsort(out->rows, kept, sizeof *out->rows, compare_row_times);
    page_log log = {.tail_bytes = LOG_BYTES};
    log_count *count = pl_alloc(sizeof *count);
    count->out = out;
    phase_history_begin(&count->names);
    for (bool more = true; more;)
        page_log_read(&log, logs, count_event, count, &more);
    page_log_clear(&log);
    phase_history_clear(&count->names);
    pl_free(count);
    return PL_OK;
}

/* ---- output ---- */
typedef enum column_kind { TEXT, WHOLE, REAL, NUMBER_OR_NONE } column_kind;

#define COLUMNS(X)                                                                     \
    X("time", TEXT, 0)                                                                 \
    X("arm", TEXT, 0)                                                                  \
    X("phase", WHOLE, r->phase)                                                        \
    X("phases", WHOLE, r->n_phases)                                                    \
    X("paths_done", WHOLE, r->n_done)                                                  \
    X("paths", WHOLE, r->n_paths)                                                      \
    X("loss", REAL, r->loss)                                                           \
    X("bits_per_byte", NUMBER_OR_NONE, r->bits)                                        \
    X("tokens", WHOLE, r->tokens)                                                      \
    X("seconds", REAL, seconds_of(r))                                                  \
    X("tokens_per_second", WHOLE, history_rate(r))                                     \
    X("versions", WHOLE, r->n_versions)                                                \
    X("audits", WHOLE, r->n_audits)                                                    \
    X("audits_differed", WHOLE, r->n_odd)                                              \
    X("leases_expired", WHOLE, r->n_expired)                                           \
    X("restarts", WHOLE, r->n_restarts)

static double seconds_of(const history_row *r)
{
    return 1e-3 * (double)(r->at_ms - r->from_ms);
}

double history_rate(const history_row *r)
{
    return r->at_ms > r->from_ms ? r->tokens / seconds_of(r) : 0;
}

static const struct column {
    const char *name;
    column_kind kind;
} columns[] = {
#define X(name, kind, value) {name, kind},
    COLUMNS(X)
#undef X
};
enum { N_COLUMNS = sizeof columns / sizeof *columns };

/* Appends a cell of the CSV. A spreadsheet would treat a text that
 * begins with = + - or @ as a formula, and another person may have chosen the names in
 * the store. So such a text gets a ' before it. */
static void write_cell(int column, const char *text, pl_buf *out)
{
    const bool computes =
        columns[column].kind == TEXT && *text && strchr("=+-@", *text);
    pl_buf_printf(out, column > 0 ? "," : "");
    if (!computes && !strpbrk(text, ",\"")) {
        pl_buf_printf(out, "%s", text);
        return;
    }
    pl_buf_printf(out, computes ? "\"'" : "\"");
    for (; *text; text++)
        pl_buf_printf(out, *text == '"' ? "\"%c" : "%c", *text);
    pl_buf_printf(out, "\"");
}

void history_write(const history *h, bool json, pl_buf *out)
{
    for (int i = 0; i < N_COLUMNS && !json; i++)
        write_cell(i, columns[i].name, out);
    pl_buf_printf(out, json ? "" : "\n");
    for (size_t k = 0; k < h->n; k++) {
        const history_row *r = &h->rows[k];
        const double numbers[N_COLUMNS] = {
#define X(name, kind, value) (double)(value),
            COLUMNS(X)
#undef X
        };
        char when[PL_TIME_TEXT] = "";
        pl_buf arm = {0};
        pl_json *o = json ? pl_json_object() : NULL;
        pl_format_time(r->at_ms / 1000, true, when);
        pl_buf_printable(&arm, r->arm, strlen(r->arm), false);
        for (int i = 0; i < N_COLUMNS; i++) {
            const column_kind kind = columns[i].kind;
            const bool is_none = kind == NUMBER_OR_NONE && !(numbers[i] > 0);
            char text[32] = "";
            if (kind == TEXT)
                pl_copy_text(text, sizeof text, i == 0 ? when : pl_buf_text(&arm));
            else if (!is_none)
                snprintf(text, sizeof text, "%.*f", kind == WHOLE ? 0 : 4, numbers[i]);
            if (!o)
                write_cell(i, text, out);
            else if (kind == TEXT)
                pl_json_set_text(o, columns[i].name, text);
            else if (kind == WHOLE)
                pl_json_set_int(o, columns[i].name, (int64_t)numbers[i]);
            else
                pl_json_set_real(o, columns[i].name,
                                 is_none ? NAN : round(1e4 * numbers[i]) / 1e4);
        }
        if (o)
            pl_json_write(o, 0, out);
        pl_buf_printf(out, "\n");
        pl_json_destroy(&o);
        pl_buf_destroy(&arm);
    }
}

pl_status history_read(pl_store *store, const char *logs, history *out)
{
    phase_history *h = pl_alloc(sizeof *h);
    bool more = true;
    pl_status status;
    memset(out, 0, sizeof *out);
    phase_history_begin(h);
    PL_TRY(phase_history_look(h, store));
    while (more)
        PL_TRY(phase_history_read(h, store, READ_AT_ONCE, &more));
    PL_TRY(history_make(h, store, logs, out));
done:
    phase_history_clear(h);
    pl_free(h);
    return status;
}

pl_status history_of_run(const char *dir, bool json, pl_buf *out)
{
    char folder[PL_PATH_MAX], logs[PL_PATH_MAX];
    pl_run r;
    pl_store *store = NULL;
    history rows = {.n = 0};
    pl_status status = run_look(dir, &r);
    PL_TRY(status);
    if (!pl_path_exists(run_file(&r, "store", folder)))
        PL_TRY(pl_fail(PL_ERR_NOT_FOUND,
                       "the run in %s has no store yet; `pathloom train` makes it",
                       r.dir));
    PL_TRY(run_see_all_parts(folder, &store));
    PL_TRY(history_read(store, run_file(&r, "log", logs), &rows));
    history_write(&rows, json, out);
done:
    history_clear(&rows);
    pl_store_close(&store);
    run_close(&r);
    return status;
}
