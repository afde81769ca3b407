/* Reads the data of a run and answers the questions of its page (page.h). */
#include "view/page_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    /* most versions that a tick reads, so that questions do not wait long */
    READ_AT_ONCE = 500,
    ASK_MS = 1500,       /* the hub must answer within this time */
    ASK_AGAIN_MS = 2000, /* pause after the hub did not answer */
    SAMPLE_MS = 1000     /* shortest time between two samples of the progress */
};

pl_status page_open(const char *dir, const char *hub, const char *key, page **out)
{
    char logs[PL_PATH_MAX];
    const char *base = getenv("TMPDIR");
    pl_status status = PL_OK;
    *out = NULL;
    page *p = pl_alloc(sizeof *p);
    phase_history_begin(&p->history);
    p->hub_at = hub;
    p->key = key;
    if (!hub) {
        PL_TRY(run_look(dir, &p->r));
    } else { /* makes a folder for the copy of the log of a hub on another machine */
        p->r.lock = -1;
        snprintf(p->r.dir, sizeof p->r.dir, "%.400s/pathloom-page.XXXXXX",
                 base && base[0] ? base : "/tmp");
        if (!mkdtemp(p->r.dir)) {
            status = pl_fail(PL_ERR_IO, "cannot make the folder %s: %s", p->r.dir,
                             strerror(errno));
            p->r.dir[0] = '\0';
            goto done;
        }
        PL_TRY(pl_make_folders(run_file(&p->r, "log", logs)));
    }
    run_file(&p->r, "store", p->folder);
    p->leases = pl_alloc(PAGE_LEASES_MAX * sizeof *p->leases);
    *out = p;
done:
    if (status != PL_OK)
        page_close(&p);
    return status;
}

void page_close(page **out)
{
    page *p = *out;
    if (!p)
        return;
    phase_history_clear(&p->history);
    page_log_clear(&p->log);
    page_route_close(&p->route);
    pl_store_close(&p->store);
    pl_json_destroy(&p->hub);
    pl_json_destroy(&p->report);
    if (p->hub_at && p->r.dir[0] && pl_remove_tree(p->r.dir) != PL_OK)
        p->r.dir[0] = '\0'; /* the folder stays; nothing depends on it */
    run_close(&p->r);
    pl_free_all(p->leases, p);
    *out = NULL;
}

uint64_t page_number(const page *p)
{
    return p->number;
}

/* ---- the store ---- */
/* Reads what is new in the store; opens it again if it has more parts. */
static pl_status follow_store(page *p)
{
    if (!pl_path_exists(p->folder))
        return PL_OK;
    /* `anew`: the job has ended; only a new reader surely sees its last commits */
    if (p->anew) {
        pl_store_close(&p->store);
        p->anew = false;
        p->sequence = 0;
    }
    PL_CHECK(run_see_all_parts(p->folder, &p->store));
    PL_CHECK(pl_store_refresh(p->store));
    const uint64_t sequence = pl_store_sequence(p->store);
    if (sequence != p->sequence) {
        PL_CHECK(phase_history_look(&p->history, p->store));
        (void)run_has_ended(p->store, &p->finished);
        p->sequence = sequence;
        p->number++;
    }
    return phase_history_read(&p->history, p->store, READ_AT_ONCE, &p->reading);
}

/* ---- logs ---- */
static void add_log_event(void *context, const page_event *e)
{
    page *p = context;
    char worker[PL_TEXT_MAX], phase[32];
    int64_t number = 0;
    page_event_value(e, "worker", worker, sizeof worker);
    if (strcmp(e->event, "worker.joined") == 0) {
        const int known = phase_history_worker(&p->history, worker);
        if (known >= 0)
            p->joined[known]++;
    }
    if (strcmp(e->event, "lease.granted") != 0 ||
        pl_parse_int(page_event_value(e, "phase", phase, sizeof phase), &number) !=
            PL_OK)
        return;
    page_lease *l = &p->leases[p->n_leases % PAGE_LEASES_MAX];
    l->wall_ms = e->wall_ms;
    l->phase = number;
    l->worker = phase_history_worker(&p->history, worker);
    p->n_leases++;
    page_event_value(e, "task", l->task, sizeof l->task);
}

/* ---- the hub ---- */
/* Asks the hub for its status. If the run has a hub's address but no hub answers, the
 * job may have been killed, because then the address stays in the run. (Taking the
 * run's lock would tell, but block the next `train`.) */
static void ask_for_status(page *p)
{
    const int64_t now = pl_now_ms();
    const run_request where = {.run = p->r.dir, .hub = p->hub_at, .key = p->key};
    pl_json *status = NULL;
    if (p->silent && now - p->asked_ms < ASK_AGAIN_MS)
        return;
    p->asked_ms = now;
    const bool was = p->hub != NULL || p->silent;
    pl_status result = p->r.hub ? PL_OK : run_watch(&p->r, &where);
    p->silent = result == PL_OK;
    if (result == PL_OK)
        result = run_hub_status(&p->r, ASK_MS, &status);
    if (result != PL_OK)
        pl_wire_close(&p->r.hub); /* the hub of the next job has a different address */
    p->silent = p->silent && result != PL_OK;
    pl_json_destroy(&p->hub);
    p->hub = status;
    if (!p->hub) {
        p->n_samples = 0;
    } else if (p->n_samples == 0 ||
               now - p->samples[p->n_samples - 1].ms >= SAMPLE_MS) {
        double done, total;
        page_work(p->hub, &done, &total);
        if (p->n_samples == PAGE_SAMPLES)
            memmove(p->samples, p->samples + 1,
                    (size_t)--p->n_samples * sizeof *p->samples);
        p->samples[p->n_samples++] = (page_sample){now, done};
    }
    p->anew = p->anew || (was && !p->hub && !p->silent);
    if (p->hub || was)
        p->number++;
}

bool page_tick(page *p, bool watched)
{
    char path[PL_PATH_MAX];
    bool more = false, anew = false;
    struct stat info;
    const uint64_t events = p->log.serial + p->n_leases;
    pl_status status = follow_store(p);
    if (status != PL_OK) {
        pl_copy_text(p->trouble, sizeof p->trouble, pl_last_error());
        pl_store_close(&p->store);
        p->sequence = 0;
        p->number++;
    } else {
        p->trouble[0] = '\0';
    }
    /* appends what is new in the hub's log to the copy, for a job on another machine */
    pl_buf lines = {0};
    if (watched && p->hub_at && p->hub &&
        run_hub_log(&p->r, &p->log_read, &lines, &more, &anew) == PL_OK) {
        const int file = open(
            run_file(&p->r, "log/hub.log", path),
            O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (anew ? O_TRUNC : 0), 0600);
        const ssize_t put = file >= 0 ? write(file, lines.data, lines.len) : -1;
        if (put != (ssize_t)lines.len)
            pl_copy_text(p->trouble, sizeof p->trouble,
                         "the log of the hub cannot be copied to the temporary folder");
        if (file >= 0)
            close(file);
    }
    pl_buf_destroy(&lines);
    page_log_read(&p->log, run_file(&p->r, "log", path), add_log_event, p, &more);
    if (watched)
        ask_for_status(p);
    if (stat(run_file(&p->r, "report.json", path), &info) != 0) {
        p->number += p->report != NULL;
        p->report_ms = 0;
        pl_json_destroy(&p->report);
    } else {
        const int64_t ms =
            (int64_t)info.st_mtim.tv_sec * 1000 + info.st_mtim.tv_nsec / 1000000;
        if (ms != p->report_ms) {
            pl_json_destroy(&p->report);
            if (pl_json_load(path, &p->report) == PL_OK)
                p->report_ms = ms;
            p->number++;
        }
    }
    if (events != p->log.serial + p->n_leases)
        p->number++;
    return more || (status == PL_OK && p->reading);
}

/* ---- questions ---- */
uint64_t page_asked_number(const pl_page_question *q, const char *name, uint64_t other)
{
    int64_t n;
    const char *text = pl_page_ask(q, name);
    return *text && pl_parse_int(text, &n) == PL_OK && n >= 0 ? (uint64_t)n : other;
}

static void answer_history(page *p, const pl_page_question *q, pl_buf *out)
{
    const bool goes_on = page_asked_number(q, "epoch", 0) == p->history.epoch;
    const uint64_t cells = goes_on ? page_asked_number(q, "since", 0) : 0,
                   events = goes_on ? page_asked_number(q, "events", 0) : 0,
                   leases = goes_on ? page_asked_number(q, "leases", 0) : 0;
    pl_json *o = pl_json_object(), *list = pl_json_array();
    phase_history_json(&p->history, cells, o);
    page_log_json(&p->log, events, list);
    pl_json_set_bool(o, "whole", !goes_on);
    pl_json_set(o, "events", list);
    pl_json_set_int(o, "events_serial", (int64_t)p->log.serial);
    /* [time, path, phase, worker] per lease of a known path, numbered over all arms. */
    list = pl_json_array();
    const uint64_t first =
        p->n_leases > PAGE_LEASES_MAX ? p->n_leases - PAGE_LEASES_MAX : 0;
    for (uint64_t i = leases > first ? leases : first; i < p->n_leases; i++) {
        const page_lease *l = &p->leases[i % PAGE_LEASES_MAX];
        int arm, path, before = 0;
        if (!phase_history_find(&p->history, l->task, &arm, &path))
            continue;
        for (int a = 0; a < arm; a++)
            before += p->history.arms[a].n_series;
        pl_json_push(list, pl_json_list(pl_json_make_int(l->wall_ms),
                                        pl_json_make_int(before + path),
                                        pl_json_make_int(l->phase),
                                        pl_json_make_int(l->worker)));
    }
    pl_json_set(o, "leases", list);
    pl_json_set_int(o, "leases_serial", (int64_t)p->n_leases);
    pl_json_write(o, 0, out);
    pl_json_destroy(&o);
}

pl_status page_answer(page *p, const pl_page_question *q, pl_buf *out)
{
    if (strcmp(q->url, "/state.json") == 0)
        page_state_json(p, out);
    else if (strcmp(q->url, "/history") == 0)
        answer_history(p, q, out);
    else if (p->hub_at)
        return pl_fail(PL_ERR_NOT_FOUND,
                       "modules, documents and the history of versions are in the "
                       "run's folder; open its page on the machine of the job");
    else if (strcmp(q->url, "/modules.json") == 0)
        return page_modules_json(p, q, out);
    else if (strcmp(q->url, "/router.json") == 0 || strcmp(q->url, "/route.json") == 0)
        return page_router_json(p, q, out);
    else
        return pl_fail(PL_ERR_NOT_FOUND, "the page has no answer for %s", q->url);
    return PL_OK;
}
