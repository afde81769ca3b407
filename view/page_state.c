/* Writes the answer to /state.json: the state of a run (page.h). The JSON text stays
 * small (less than 200 kB with 4,096 workers and 256 paths), because rows are lists
 * without keys, and long names appear only once. */
#include "view/page_internal.h"

#include <math.h>

static const char *const worker_states[] = {"busy", "idle", "away", "barred", "fenced"};
enum { N_WORKER_STATES = sizeof worker_states / sizeof *worker_states };
/* what a worker does that is not away; the first is used for all others */
static const char *const doings[] = {"",        "training", "fetching",
                                     "sending", "waiting",  "stalled"};
enum { N_DOINGS = sizeof doings / sizeof *doings, LINKS_SHOWN = 256 };

static pl_json *tenths(double value)
{
    return value >= 10 || value < 0.05 ? pl_json_make_int((int64_t)fmin(value, 1e15))
                                       : pl_json_make_real(round(10 * value) / 10);
}

/* Reads a whole number from the hub's status. The status came over the network, so the
 * number may have any value; returns 0 if its magnitude is 1e15 or more. */
static int64_t whole(const pl_json *o, const char *key)
{
    const double value = pl_json_get_real(o, key);
    return fabs(value) < 1e15 ? (int64_t)value : 0;
}

/* ---- arms ---- */
/* A row [name, phase, step, loss, tokens, worker]; loss 0: it has not begun. */
static pl_json *path_row(const char *name, int64_t phase, int64_t step, double loss,
                         int64_t tokens, const char *worker)
{
    return pl_json_list(pl_json_make_text(name), pl_json_make_int(phase),
                        pl_json_make_int(step),
                        pl_json_make_real(round(1e4 * loss) / 1e4),
                        pl_json_make_int(tokens), pl_json_make_text(worker));
}

static pl_json *arm_object(const char *name, int64_t phases, int64_t tau, int64_t done,
                           int64_t tasks)
{
    pl_json *o = pl_json_object();
    pl_json_set_text(o, "arm", name);
    pl_json_set_int(o, "chapter", pl_arm_chapter(name));
    pl_json_set_int(o, "phases", phases);
    pl_json_set_int(o, "tau", tau);
    pl_json_set_int(o, "tasks_done", done);
    pl_json_set_int(o, "tasks", tasks);
    return o;
}

static pl_json *live_arm(const pl_json *arm)
{
    const pl_json *paths = pl_json_get(arm, "paths");
    pl_json *rows = pl_json_array(),
            *o = arm_object(pl_json_get_text(arm, "arm"), whole(arm, "phases"),
                            whole(arm, "tau"), whole(arm, "tasks_done"),
                            whole(arm, "tasks"));
    for (size_t i = 0; i < pl_json_count(paths); i++) {
        const pl_json *p = pl_json_at(paths, i);
        pl_json_push(rows,
                     path_row(pl_json_get_text(p, "path"), whole(p, "phase"),
                              whole(p, "step"), pl_json_get_real(p, "loss"),
                              whole(p, "tokens"),
                              pl_json_get_text(pl_json_get(p, "lease"), "worker")));
    }
    pl_json_set(o, "paths", rows);
    return o;
}

static pl_json *stored_arm(const page *p, const phase_arm *a)
{
    pl_json *rows = pl_json_array();
    int64_t done = 0;
    for (int i = 0; i < a->n_series; i++) {
        char name[2 * PL_NAME_MAX];
        pl_path_state s = {.phase = 0};
        snprintf(name, sizeof name, "%s/%s", a->arm.name, a->series[i].name);
        if (pl_store_get_path(p->store, name, &s) != PL_OK)
            s = (pl_path_state){.phase = 0};
        done += s.phase;
        pl_json_push(rows, path_row(a->series[i].name, s.phase, 0, s.work.loss,
                                    (int64_t)fmin((double)s.work.n_tokens, 1e15), ""));
    }
    pl_json *o = arm_object(a->arm.name, a->arm.inner.phases, a->arm.inner.tau, done,
                            a->n_series * a->arm.inner.phases);
    pl_json_set(o, "paths", rows);
    return o;
}

/* ---- workers ---- */
static int index_in(const char *const *list, int n, const char *text, int other)
{
    for (int i = 0; i < n; i++)
        if (strcmp(list[i], text) == 0)
            return i;
    return other;
}

/* Each row is [name, state, tokens/s, arm, path, tasks, seconds since the hub heard of
 * the worker, device, how often it joined, what it does, and only in the first
 * LINKS_SHOWN rows: bytes/s up, bytes/s down, round trip in ms, percent of its bytes
 * that were moved again, reconnects, why it waits or is stalled]. State, device and
 * what it does are indices in lists. */
static pl_json *workers_object(const page *p)
{
    const pl_json *workers = pl_json_get(p->hub, "workers"),
                  *arms = pl_json_get(p->hub, "arms");
    const phase_history *h = &p->history;
    pl_json *o = pl_json_object(), *states = pl_json_array(),
            *devices = pl_json_array(), *rows = pl_json_array(),
            *does = pl_json_array();
    for (int i = 0; i < N_WORKER_STATES; i++)
        pl_json_push(states, pl_json_make_text(worker_states[i]));
    for (int i = 0; i < N_DOINGS; i++)
        pl_json_push(does, pl_json_make_text(doings[i]));
    for (int i = 0; i < (int)pl_json_count(workers); i++) {
        const pl_json *w = pl_json_at(workers, (size_t)i);
        const char *name = pl_json_get_text(w, "worker");
        const int state = index_in(worker_states, N_WORKER_STATES,
                                   pl_json_get_text(w, "state"), N_WORKER_STATES - 1);
        /* the worker's number in the history, which is often the same as here */
        int known = i < h->n_workers && strcmp(h->workers[i], name) == 0 ? i : 0;
        while (known < h->n_workers && strcmp(h->workers[known], name) != 0)
            known++;
        const char *device = pl_json_get_text(w, "device");
        size_t d = 0;
        while (d < pl_json_count(devices) &&
               strcmp(pl_json_text(pl_json_at(devices, d), NULL), device) != 0)
            d++;
        if (d == pl_json_count(devices))
            pl_json_push(devices, pl_json_make_text(device));
        /* the positions of the task's arm and path in the hub's lists; -1: no task */
        const char *task = pl_json_get_text(w, "task"), *slash = strchr(task, '/');
        int arm = -1, path = -1;
        for (size_t a = 0; slash && a < pl_json_count(arms); a++) {
            const char *own = pl_json_get_text(pl_json_at(arms, a), "arm");
            if (strlen(own) == (size_t)(slash - task) &&
                memcmp(own, task, (size_t)(slash - task)) == 0)
                arm = (int)a;
        }
        const pl_json *paths =
            arm >= 0 ? pl_json_get(pl_json_at(arms, (size_t)arm), "paths") : NULL;
        for (size_t k = 0; k < pl_json_count(paths) && path < 0; k++)
            if (strcmp(pl_json_get_text(pl_json_at(paths, k), "path"), slash + 1) == 0)
                path = (int)k;
        pl_json *row = pl_json_list(
            pl_json_make_text(name), pl_json_make_int(state),
            pl_json_make_int(whole(w, "tokens_per_second")), pl_json_make_int(arm),
            pl_json_make_int(path), pl_json_make_int(whole(w, "tasks")),
            tenths(pl_json_get_real(w, "seen_seconds_ago")),
            pl_json_make_int((int64_t)d),
            pl_json_make_int(known < h->n_workers ? p->joined[known] : 0),
            pl_json_make_int(
                index_in(doings, N_DOINGS, pl_json_get_text(w, "doing"), 0)));
        if (i < LINKS_SHOWN) {
            pl_json_push(row, pl_json_make_int(whole(w, "bytes_up_per_second")));
            pl_json_push(row, pl_json_make_int(whole(w, "bytes_down_per_second")));
            pl_json_push(
                row, pl_json_make_int(
                         (int64_t)(1e3 * pl_json_get_real(w, "round_trip_seconds"))));
            pl_json_push(row, pl_json_make_int(whole(w, "bytes_repeated_percent")));
            pl_json_push(row, pl_json_make_int(whole(w, "reconnects")));
            pl_json_push(row, pl_json_make_text(pl_json_get_text(w, "reason")));
        }
        pl_json_push(rows, row);
    }
    pl_json_set(o, "states", states);
    pl_json_set(o, "devices", devices);
    pl_json_set(o, "doings", does);
    pl_json_set(o, "rows", rows);
    pl_json_set_int(o, "left_out", whole(p->hub, "workers_left_out"));
    return o;
}

/* ---- the job ---- */
void page_work(const pl_json *hub, double *done, double *total)
{
    const pl_json *arms = pl_json_get(hub, "arms");
    *done = *total = 0;
    for (size_t i = 0; i < pl_json_count(arms); i++) {
        const pl_json *a = pl_json_at(arms, i), *paths = pl_json_get(a, "paths");
        const double tau = pl_json_get_real(a, "tau");
        *done += pl_json_get_real(a, "tasks_done") * tau;
        *total += pl_json_get_real(a, "tasks") * tau;
        for (size_t k = 0; k < pl_json_count(paths); k++)
            *done += pl_json_get_real(pl_json_at(paths, k), "step");
    }
}

static pl_json *progress_object(const page *p)
{
    pl_json *o = pl_json_object();
    const pl_json *workers = pl_json_get(p->hub, "workers");
    double done, total, eta = NAN, tokens_per_s = 0;
    for (size_t i = 0; i < pl_json_count(workers); i++)
        if (strcmp(pl_json_get_text(pl_json_at(workers, i), "state"), "busy") == 0)
            tokens_per_s +=
                pl_json_get_real(pl_json_at(workers, i), "tokens_per_second");
    page_work(p->hub, &done, &total);
    if (p->n_samples > 1) {
        const page_sample *first = &p->samples[0],
                          *last = &p->samples[p->n_samples - 1];
        const double rate =
            (last->done - first->done) / (1e-3 * (double)(last->ms - first->ms));
        if (rate > 0)
            eta = (total - done) / rate;
    }
    pl_json_set_real(o, "done", done);
    pl_json_set_real(o, "total", total);
    pl_json_set_int(o, "tokens_per_second", (int64_t)fmin(tokens_per_s, 1e15));
    pl_json_set_real(o, "eta_seconds", round(eta));
    return o;
}

static pl_json *counts_object(const pl_json *hub)
{
    static const char *const keys[] = {
        "uptime_seconds",   "leases_granted", "leases_expired", "tasks_failed",
        "backups_granted",  "backups_won",    "audits_agreed",  "audits_differed",
        "audits_unchecked", "audits_open",    "epoch",          "messages_dropped",
        "messages_refused"};
    const pl_json *fenced = pl_json_get(hub, "fenced");
    pl_json *o = pl_json_object(), *reasons = pl_json_array();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        pl_json_set_int(o, keys[i], whole(hub, keys[i]));
    for (size_t i = 0; i < pl_json_count(fenced) && i < 32; i++)
        pl_json_push(reasons, pl_json_make_text(
                                  pl_json_get_text(pl_json_at(fenced, i), "reason")));
    pl_json_set(o, "fenced", reasons);
    pl_json_set_text(o, "failure", pl_json_get_text(hub, "failure"));
    pl_json_set_text(o, "address", pl_json_get_text(hub, "address"));
    pl_json_set_bool(o, "encrypted", pl_json_get_bool(hub, "encrypted"));
    return o;
}

static pl_json *homes_list(const pl_json *hub)
{
    static const char *const keys[] = {"store_bytes",        "disk_free_bytes",
                                       "quota_bytes",        "quota_used_bytes",
                                       "versions_committed", "pending"};
    const pl_json *homes = pl_json_get(hub, "homes");
    pl_json *list = pl_json_array();
    for (size_t i = 0; i < pl_json_count(homes); i++) {
        const pl_json *h = pl_json_at(homes, i),
                      *results = pl_json_get(h, "submissions");
        pl_json *o = pl_json_object();
        pl_json_set_text(o, "address", pl_json_get_text(h, "address"));
        pl_json_set_bool(o, "up", pl_json_get_bool(h, "up"));
        pl_json_set(o, "heard_seconds_ago",
                    tenths(pl_json_get_real(h, "heard_seconds_ago")));
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            pl_json_set_int(o, keys[k], whole(h, keys[k]));
        pl_json_set_int(o, "rejected", whole(results, "rejected"));
        pl_json_set_int(o, "fenced", whole(results, "fenced"));
        pl_json_set_text(o, "last_rejection", pl_json_get_text(h, "last_rejection"));
        pl_json_push(list, o);
    }
    return list;
}

/* ---- the whole state ---- */
static pl_json *held_out_list(const pl_json *report)
{
    static const char *const texts[] = {"arm", "row", "title"};
    static const char *const reals[] = {"bits_per_byte",        "ppl",
                                        "answer_percent_below", "answer_percent_error",
                                        "tokens_total",         "train_seconds"};
    const pl_json *arms = pl_json_get(report, "arms");
    pl_json *list = pl_json_array();
    for (size_t i = 0; i < pl_json_count(arms); i++) {
        const pl_json *from = pl_json_at(arms, i);
        pl_json *o = pl_json_object();
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
            pl_json_set_text(o, texts[k], pl_json_get_text(from, texts[k]));
        for (size_t k = 0; k < sizeof reals / sizeof *reals; k++)
            pl_json_set_real(o, reals[k], pl_json_get_real(from, reals[k]));
        pl_json_set_bool(o, "finished", pl_json_get_bool(from, "finished"));
        pl_json_push(list, o);
    }
    return list;
}

void page_state_json(const page *p, pl_buf *out)
{
    const char *where = p->hub_at ? p->hub_at : p->r.dir, *slash = strrchr(where, '/');
    const pl_topology *t = p->r.topology; /* NULL for a job on another machine */
    const pl_json *live = pl_json_get(p->hub, "arms");
    const char *life = p->hub        ? "training"
                       : p->silent   ? "silent"
                       : p->finished ? "finished"
                       : !p->store   ? "preparing"
                                     : "stopped";
    pl_json *o = pl_json_object(), *run = pl_json_object(), *arms = pl_json_array();
    pl_json_set_text(run, "folder", where);
    pl_json_set_text(run, "name", slash && slash[1] ? slash + 1 : where);
    pl_json_set_text(run, "topology", p->r.cfg.levels);
    pl_json_set_int(run, "paths", t ? pl_topology_n_paths(t) : 0);
    pl_json_set_int(run, "params_per_path",
                    t ? (int64_t)pl_topology_path_params(t) : 0);
    pl_json_set_int(run, "params_total", t ? (int64_t)pl_topology_total_params(t) : 0);
    pl_json_set_int(run, "versions", (int64_t)p->history.n_versions);
    for (size_t i = 0; i < pl_json_count(live); i++)
        pl_json_push(arms, live_arm(pl_json_at(live, i)));
    for (int i = 0; !p->hub && p->store && i < p->history.n_arms; i++)
        pl_json_push(arms, stored_arm(p, &p->history.arms[i]));
    pl_json_set_int(o, "number", (int64_t)p->number);
    pl_json_set_int(o, "wall_ms", pl_wall_ms());
    pl_json_set_text(o, "version", PL_VERSION);
    pl_json_set_text(o, "life", life);
    pl_json_set_text(o, "trouble", p->trouble);
    pl_json_set_bool(o, "reading", p->reading);
    pl_json_set_int(o, "epoch", (int64_t)p->history.epoch);
    pl_json_set_int(o, "serial", (int64_t)p->history.serial);
    pl_json_set_int(o, "events", (int64_t)(p->log.serial + p->n_leases));
    pl_json_set(o, "run", run);
    pl_json_set(o, "arms", arms);
    pl_json_set(o, "held_out", held_out_list(p->report));
    pl_json_set_text(o, "answers_by", pl_json_get_text(p->report, "answers_by"));
    pl_json_set_int(o, "held_out_documents", whole(p->report, "eval_documents"));
    if (p->hub) {
        pl_json_set(o, "progress", progress_object(p));
        pl_json_set(o, "job", counts_object(p->hub));
        pl_json_set(o, "workers", workers_object(p));
        pl_json_set(o, "homes", homes_list(p->hub));
    }
    pl_json_write(o, 0, out);
    pl_json_destroy(&o);
}
