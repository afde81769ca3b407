/* What the hub shows: one JSON object for `status`, the launcher and tests. */
#include "workers/hub_parts.h"

static pl_json *path_json(const plan_path *path)
{
    pl_json *o = pl_json_object();
    pl_json_set_text(o, "path", strchr(path->name, '/') + 1);
    pl_json_set_int(o, "phase", path->phase);
    pl_json_set_int(o, "tokens", (int64_t)path->n_tokens);
    pl_json_set_real(o, "loss",
                     path->lease.active && path->lease.step > 0 ? path->lease.loss
                                                                : path->loss);
    pl_json_set_real(o, "seconds", path->seconds);
    pl_json_set_int(o, "step", path->lease.active ? path->lease.step : 0);
    pl_json_set_bool(o, "leased", path->lease.active);
    return o;
}

static pl_json *arm_json(const plan_arm *arm)
{
    pl_json *o = pl_json_object(), *paths = pl_json_array();
    int64_t done = 0;
    for (int i = 0; i < arm->n_tasks; i++) {
        done += arm->paths[i].phase;
        pl_json_push(paths, path_json(&arm->paths[i]));
    }
    pl_json_set_text(o, "arm", arm->arm.name);
    pl_json_set_int(o, "phases", arm->arm.inner.phases);
    pl_json_set_int(o, "tau", arm->arm.inner.tau);
    pl_json_set_int(o, "tasks_done", done);
    pl_json_set_int(o, "tasks", (int64_t)arm->n_tasks * arm->arm.inner.phases);
    pl_json_set_bool(o, "finished", plan_arm_finished(arm));
    pl_json_set(o, "paths", paths);
    return o;
}

static pl_json *worker_json(const hub *h, const hub_worker *w, int64_t now_ms)
{
    pl_json *o = pl_json_object();
    bool away = now_ms - w->seen_ms > 2 * h->options->ttl_ms + 3000;
    pl_json_set_text(o, "worker", w->name);
    pl_json_set_text(o, "device", w->device);
    pl_json_set_int(o, "pid", (int64_t)w->pid);
    pl_json_set_text(o, "state", away ? "away" : w->task[0] ? "busy" : "idle");
    pl_json_set_text(o, "task", w->task);
    pl_json_set_int(o, "phase", w->phase);
    pl_json_set_int(o, "step", w->step);
    pl_json_set_real(o, "tokens_per_second", w->rate);
    pl_json_set_real(o, "inner_seconds", w->inner_s);
    pl_json_set_real(o, "overhead_seconds", w->overhead_s);
    pl_json_set_real(o, "waited_seconds", w->waited_s);
    pl_json_set_real(o, "idle_seconds", w->idle_s);
    pl_json_set_int(o, "tasks", (int64_t)w->n_tasks);
    pl_json_set_int(o, "tokens", (int64_t)w->n_tokens);
    return o;
}

void hub_status_json(hub *h, pl_buf *out)
{
    int64_t now = pl_now_ms();
    pl_json *o = pl_json_object(), *arms = pl_json_array(), *workers = pl_json_array();
    for (int a = 0; a < h->tasks.n_arms; a++)
        pl_json_push(arms, arm_json(&h->tasks.arms[a]));
    for (int i = 0; i < h->n_workers; i++)
        pl_json_push(workers, worker_json(h, &h->workers[i], now));
    pl_json_set_bool(o, "homes_ready", hub_homes_ready(h));
    pl_json_set_int(o, "leases_granted", (int64_t)h->tasks.n_granted);
    pl_json_set_int(o, "leases_expired", (int64_t)h->tasks.n_expired);
    pl_json_set_int(o, "tasks_failed", (int64_t)h->tasks.n_failed);
    pl_json_set_text(o, "failure", h->failure);
    pl_json_set_int(o, "failure_status", h->failure_status);
    pl_json_set(o, "arms", arms);
    pl_json_set(o, "workers", workers);
    pl_json_write(o, 0, out);
    pl_json_destroy(&o);
}
