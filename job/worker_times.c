/* Prints and saves how the workers spent their time (worker_times.h). */
#include "job/worker_times.h"
#include "job/worker_news.h"

worker_times worker_times_now(pl_run *r)
{
    worker_times s = {.at = pl_now()};
    /* a failure is ignored, because the result is only shown */
    if (run_hub_status(r, 10000, &s.status) != PL_OK)
        s.status = NULL;
    return s;
}

static const pl_json *workers_of(const worker_times *s)
{
    return pl_json_get(s->status, "workers");
}

/* Returns by how much the workers' totals of `key`, added up, grew between the two
 * times. */
static double sum(const worker_times *before, const worker_times *after,
                  const char *key)
{
    double total[2] = {0, 0};
    const worker_times *const at[2] = {before, after};
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < pl_json_count(workers_of(at[k])); i++)
            total[k] += pl_json_get_real(pl_json_at(workers_of(at[k]), i), key);
    return total[1] - total[0];
}

static double since(const pl_json *was, const pl_json *now, const char *key)
{
    return pl_json_get_real(now, key) - pl_json_get_real(was, key);
}

pl_status worker_times_report(pl_run *r, const worker_times *before)
{
    worker_times after = worker_times_now(r);
    const double seconds = after.at - before->at;
    char rate[16];
    double all = 0;
    pl_json *o = pl_json_object(), *workers = pl_json_array();
    for (size_t i = 0; i < pl_json_count(workers_of(&after)); i++) {
        const pl_json *w = pl_json_at(workers_of(&after), i);
        const char *name = pl_json_get_text(w, "worker");
        const pl_json *was = NULL; /* NULL: it joined later; its totals began at 0 */
        for (size_t k = 0; !was && k < pl_json_count(workers_of(before)); k++) {
            const pl_json *old = pl_json_at(workers_of(before), k);
            was = strcmp(pl_json_get_text(old, "worker"), name) == 0 ? old : NULL;
        }
        const double inner = since(was, w, "inner_seconds"),
                     exposed = since(was, w, "overhead_seconds"),
                     waited = since(was, w, "waited_seconds");
        /* A worker that has joined or left in between counts with the time that its own
         * reports account for. */
        if (was && worker_news_is_here(w))
            all += seconds;
        else
            all += inner + exposed + since(was, w, "idle_seconds");
        pl_json *one = pl_json_object();
        pl_json_set_text(one, "worker", name);
        pl_json_set_int(one, "tasks", (int64_t)since(was, w, "tasks"));
        pl_json_set_int(one, "tokens", (int64_t)since(was, w, "tokens"));
        pl_json_set_real(one, "inner_seconds", inner);
        pl_json_set_real(one, "load_seconds", exposed - waited);
        pl_json_set_real(one, "waited_seconds", waited);
        pl_json_set_real(one, "idle_seconds", seconds - inner - exposed);
        pl_json_push(workers, one);
    }
    pl_json_set_real(o, "seconds", seconds);
    pl_json_set(o, "workers", workers);
    /* "Without a task" is the rest: a worker has no task while it waits for updates of
     * other workers or, at the end, for the last task. */
    const double inner_s = sum(before, &after, "inner_seconds"),
                 exposed_s = sum(before, &after, "overhead_seconds"),
                 waited_s = sum(before, &after, "waited_seconds");
    if (inner_s > 0 && all >= inner_s + exposed_s)
        say("workers  %.1f %% of their time in inner steps at %s tokens/s each, "
            "%.1f %%\n         loading and saving, %.1f %% waiting for data, "
            "%.1f %% without a task",
            100 * inner_s / all,
            pl_human_count(sum(before, &after, "tokens") / inner_s, rate),
            100 * (exposed_s - waited_s) / all, 100 * waited_s / all,
            100 * (all - inner_s - exposed_s) / all);
    /* If nothing was trained since the start, RUN/workers.json stays that of the
     * previous start. */
    const bool trained = before->status && sum(before, &after, "tasks") > 0;
    pl_json_destroy(&after.status);
    if (trained)
        return run_write_json(r, "workers.json", o, 2, "\n");
    pl_json_destroy(&o);
    return PL_OK;
}
