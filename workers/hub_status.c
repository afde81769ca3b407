/* Writes the hub's status as one JSON object, which `pathloom status`, the launcher and
 * tests read. */
#include "workers/hub_internal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Describes a lease: its worker, the seconds since its grant (without those in which a
 * home or this hub was away) and since its last renewal, and the failures of its task.
 */
static pl_json *lease_json(const hub *h, const plan_lease *lease, int64_t now_ms)
{
    pl_json *o = pl_json_object();
    pl_json_set_text(o, "worker",
                     lease->worker >= 0 && lease->worker < h->n_workers
                         ? h->workers[lease->worker].name
                         : "");
    pl_json_set_real(o, "age_seconds", 1e-3 * (double)(now_ms - lease->granted_ms));
    pl_json_set_real(o, "renewed_seconds_ago",
                     1e-3 * (double)(now_ms - lease->renewed_ms));
    pl_json_set_int(o, "failures", lease->failures);
    return o;
}

static pl_json *path_json(const hub *h, const plan_arm *arm, int index, int64_t now_ms)
{
    const plan_path *path = &arm->paths[index];
    const int replicas = pl_topology_n_replicas(arm->topology);
    pl_held_sum held = {0};
    pl_json *o = pl_json_object();
    pl_json_set_text(o, "path", strchr(path->name, '/') + 1);
    pl_json_set_int(o, "phase", path->phase);
    pl_json_set_int(o, "tokens", (int64_t)path->work.n_tokens);
    pl_json_set_real(o, "loss",
                     path->lease.active && path->lease.step > 0 ? path->lease.loss
                                                                : path->work.loss);
    for (int i = 0; i < PL_WORK_N_MEASURES; i++)
        if (pl_work_measures[i].views == PL_WORK_OF_PATHS)
            pl_json_set_real(o, pl_work_measures[i].name,
                             pl_work_value(&path->work, &pl_work_measures[i]));
    pl_json_set_real(o, "seconds", path->work.seconds);
    pl_json_set_int(o, "step", path->lease.active ? path->lease.step : 0);
    pl_json_set_bool(o, "leased", path->lease.active);
    if (path->lease.active)
        pl_json_set(o, "lease", lease_json(h, &path->lease, now_ms));
    if (path->backup.active)
        pl_json_set(o, "backup", lease_json(h, &path->backup, now_ms));
    /* how well the path predicts the held-out text that it scores */
    if (index % replicas == 0)
        pl_held_add(&held, &arm->arm, index / replicas, path->work.held);
    const double bits = pl_held_bits(&held);
    if (bits > 0) {
        pl_json_set_real(o, "held_out_bits_per_byte", bits);
        pl_json_set_int(o, "held_out_phase", path->held_phase);
    }
    return o;
}

/* The paths of an arm that computed features are left out when the arm is finished: a
 * large corpus has many of them, and nobody needs them any more. */
static pl_json *arm_json(const hub *h, int index, int64_t now_ms)
{
    const plan_arm *arm = &h->tasks.arms[index];
    pl_json *o = pl_json_object(), *paths = pl_json_array();
    int64_t done = 0;
    const bool lists = arm->arm.feature_windows == 0 || !plan_arm_finished(arm);
    for (int i = 0; i < arm->n_tasks; i++) {
        done += plan_n_confirmed(&arm->paths[i]);
        if (lists)
            pl_json_push(paths, path_json(h, arm, i, now_ms));
    }
    pl_json_set_text(o, "arm", arm->arm.name);
    pl_json_set_int(o, "phases", arm->arm.inner.phases);
    pl_json_set_int(o, "tau", arm->arm.inner.tau);
    pl_json_set_int(o, "frozen", arm->arm.n_frozen);
    pl_json_set_int(o, "tasks_done", done);
    pl_json_set_int(o, "tasks", (int64_t)arm->n_tasks * arm->arm.inner.phases);
    pl_json_set_bool(o, "finished", plan_arm_finished(arm));
    /* How well the arm predicts held-out text, and the phase of the oldest of the
     * paths' scores. Nothing until every path with held-out text has a score. */
    const int replicas = pl_topology_n_replicas(arm->topology);
    pl_held_sum sum = {0};
    int64_t phase = -1;
    for (int i = 0; i < arm->n_tasks; i += replicas) {
        const plan_path *path = &arm->paths[i];
        pl_held_add(&sum, &arm->arm, i / replicas, path->work.held);
        if (path->work.held > 0 && (phase < 0 || path->held_phase < phase))
            phase = path->held_phase;
    }
    const double bits = pl_held_bits(&sum);
    if (bits > 0) {
        pl_json_set_real(o, "held_out_bits_per_byte", bits);
        pl_json_set_int(o, "held_out_phase", phase);
    }
    pl_json_set(o, "paths", paths);
    return o;
}

bool hub_is_away(const hub *h, const hub_worker *w, int64_t now_ms)
{
    return w->left || now_ms - w->seen_ms > 2 * h->options->ttl_ms + 3000;
}

static bool is_revoked(const hub_worker *w)
{
    bool own;
    return !pl_pubkey_none(&w->key) && pl_gate_role(&w->key, &own) == PL_AS_NONE;
}

static pl_json *worker_json(const hub *h, const hub_worker *w, int64_t now_ms)
{
    char reason[HUB_WITHHELD_TEXT_MAX];
    pl_json *o = pl_json_object();
    const hub_link *l = &w->link;
    const uint64_t moved = l->up + l->down;
    const bool revoked = is_revoked(w), away = revoked || hub_is_away(h, w, now_ms);
    pl_json_set_text(o, "worker", w->name);
    pl_json_set_text(o, "device", w->device);
    pl_json_set_int(o, "pid", (int64_t)(w->pid & UINT32_MAX));
    pl_json_set_text(o, "state",
                     w->fenced[0]               ? "fenced"
                     : hub_is_barred(w, now_ms) ? "barred"
                     : away                     ? "away"
                     : w->has_lease             ? "busy"
                                                : "idle");
    if (!away)
        pl_json_set_text(o, "doing", hub_doing(w, now_ms));
    if (!away && hub_reason(h, w, now_ms, reason)[0])
        pl_json_set_text(o, "reason", reason);
    if (away)
        pl_json_set_text(o, "gone", revoked ? "revoked" : w->left ? "left" : "silent");
    pl_json_set_bool(o, "draining", w->drains);
    if (hub_is_barred(w, now_ms)) {
        pl_json_set_real(o, "barred_seconds",
                         1e-3 * (double)(w->barred_until_ms - now_ms));
        pl_json_set_text(o, "failure", w->failure);
    }
    pl_json_set_text(o, "task", !w->task[0] && w->has_lease ? w->at->name : w->task);
    pl_json_set_int(o, "phase", w->phase);
    pl_json_set_int(o, "step", w->step);
    pl_json_set_real(o, "tokens_per_second", w->rate);
    pl_json_set_real(o, "inner_seconds", w->inner_s);
    pl_json_set_real(o, "overhead_seconds", w->overhead_s);
    pl_json_set_real(o, "waited_seconds", w->waited_s);
    pl_json_set_real(o, "idle_seconds", w->idle_s);
    pl_json_set_int(o, "memory_bytes", (int64_t)w->memory_bytes);
    pl_json_set_real(o, "bytes_up_per_second", l->up_rate);
    pl_json_set_real(o, "bytes_down_per_second", l->down_rate);
    pl_json_set_real(o, "round_trip_seconds", 1e-3 * (double)l->rtt_ms);
    pl_json_set_int(o, "bytes_up", (int64_t)l->up);
    pl_json_set_int(o, "bytes_down", (int64_t)l->down);
    pl_json_set_real(o, "bytes_repeated_percent",
                     moved > 0 ? 100 * (double)l->repeated / (double)moved : 0);
    pl_json_set_int(o, "reconnects", (int64_t)l->reconnects);
    pl_json_set_int(o, "tasks", (int64_t)w->n_tasks);
    pl_json_set_int(o, "tokens", (int64_t)w->n_tokens);
    pl_json_set_real(o, "seen_seconds_ago", 1e-3 * (double)(now_ms - w->seen_ms));
    return o;
}

static size_t write_status(hub *h, int n_workers, pl_buf *out)
{
    int64_t now = pl_now_ms();
    pl_json *o = pl_json_object(), *arms = pl_json_array(), *workers = pl_json_array(),
            *homes = pl_json_array();
    for (int a = 0; a < h->tasks.n_arms; a++)
        pl_json_push(arms, arm_json(h, a, now));
    /* Connected workers come first. A worker that is away and never got a task is
     * always omitted, because otherwise a person with many keys could fill the list. */
    int n_shown = 0, n_here = 0, n_busy = 0;
    for (int i = 0; i < h->n_workers; i++) {
        const hub_worker *w = &h->workers[i];
        const bool here = !w->fenced[0] && !hub_is_away(h, w, now) && !is_revoked(w);
        n_here += here;
        n_busy += here && w->has_lease && !hub_is_barred(w, now);
    }
    for (int is_away = 0; is_away < 2; is_away++)
        for (int i = 0; i < h->n_workers; i++) {
            const hub_worker *w = &h->workers[i];
            if (hub_is_away(h, w, now) != (is_away == 1) || (is_away && !w->had_task))
                continue;
            if (n_shown < n_workers)
                pl_json_push(workers, worker_json(h, w, now));
            n_shown++;
        }
    const int n_listed = (int)pl_json_count(workers);
    pl_address at;
    for (int i = 0; i < h->n_homes; i++) { /* the homes' newest statuses */
        const hub_home *home = &h->homes[i];
        pl_json *one = NULL;
        if (home->status.len == 0 || pl_json_parse((const char *)home->status.data,
                                                   home->status.len, &one) != PL_OK)
            one = pl_json_object();
        if (pl_address_parse(h->homes_at[i], &at) == PL_OK)
            pl_json_set_text(one, "address", at.endpoint);
        pl_json_set_bool(one, "up", home->welcome);
        pl_json_set_real(one, "heard_seconds_ago",
                         1e-3 * (double)(now - home->heard_ms));
        pl_json_push(homes, one);
    }
    pl_json_set_text(o, "version", PL_VERSION);
    if (pl_address_parse(h->address, &at) == PL_OK)
        pl_json_set_text(o, "address", at.endpoint);
    pl_json_set_bool(o, "encrypted", pl_gate_is_open());
    pl_json_set_int(o, "epoch", (int64_t)h->tasks.epoch);
    pl_json_set_int(o, "uptime_seconds", (now - h->started_ms) / 1000);
    pl_json_set_int(o, "ttl_ms", h->options->ttl_ms);
    const pl_wire_counts *wire = pl_wire_counted(h->socket);
    pl_json_set_int(o, "messages_dropped", (int64_t)wire->dropped);
    pl_json_set_int(o, "messages_refused", (int64_t)wire->refused);
    pl_json_set_bool(o, "homes_ready", hub_homes_ready(h));
    pl_json_set_int(o, "leases_granted", (int64_t)h->tasks.n_granted);
    pl_json_set_int(o, "leases_expired", (int64_t)h->tasks.n_expired);
    pl_json_set_int(o, "tasks_failed", (int64_t)h->tasks.n_failed);
    pl_json_set_int(o, "backups_granted", (int64_t)h->tasks.n_backups);
    pl_json_set_int(o, "backups_won", (int64_t)h->tasks.n_backups_won);
    hub_audit_json(h, o);
    pl_json_set_text(o, "failure", h->failure);
    pl_json_set_int(o, "failure_status", h->failure_status);
    pl_json_set(o, "homes", homes);
    pl_json_set(o, "arms", arms);
    pl_json_set(o, "workers", workers);
    pl_json_set_int(o, "workers_here", n_here);
    pl_json_set_int(o, "workers_busy", n_busy);
    pl_json_set_int(o, "workers_left_out", h->n_workers - n_listed);
    pl_json_set_bool(o, "workers_cut", n_shown > n_listed);
    pl_buf_clear(out);
    pl_json_write(o, 0, out);
    pl_json_destroy(&o);
    return out->len;
}

void hub_status_json(hub *h, pl_buf *out)
{
    enum { WORKERS_SHOWN = 1024 };
    int n = h->n_workers < WORKERS_SHOWN ? h->n_workers : WORKERS_SHOWN;
    hub_look_at_fleet(h, pl_now_ms());
    while (write_status(h, n, out) > PL_WIRE_DATA_MAX && n > 0)
        n /= 2;
}

/* If the file is shorter than the offset of the question, a new one was begun, and the
 * answer starts at its first line. */
pl_status hub_log_lines(pl_message *m, pl_message *a)
{
    enum { LINES_BYTES = 256 << 10 };
    pl_msg_log q;
    struct stat info;
    PL_CHECK(PL_HEAR(m, log, &q));
    /* stderr was opened for writing only */
    const int file = open("/proc/self/fd/2", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
        if (file >= 0)
            close(file);
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "the hub does not write its log to a file, so it cannot show "
                       "it; see the log where the hub was started");
    }
    const uint64_t total = (uint64_t)info.st_size;
    const uint64_t offset = q.offset > total ? 0 : q.offset;
    pl_buf_reserve(&a->data, LINES_BYTES);
    const ssize_t got = pread(file, a->data.data, LINES_BYTES, (off_t)offset);
    close(file);
    const uint8_t *end = got > 0 ? memrchr(a->data.data, '\n', (size_t)got) : NULL;
    a->data.len = end ? (size_t)(end - a->data.data) + 1 : 0;
    PL_SAY(a, LOG_IS, log_is, .total = total, .offset = offset);
    return PL_OK;
}
