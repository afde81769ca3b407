/* Writes the hub's status as metrics. The table `families` has one row per metric. A
 * metric has one sample per object of a kind (arm, path, worker, ...) in the status:
 * the number under `key`, labelled by the name of the object. */
#include "workers/metrics.h"
#include "store/store.h"

#include <math.h>

/* in the order of the object of the status that has them */
typedef enum of { JOB, ARM, PATH, LEASE, WORKER, DOING, HOME, RESULT, MODULE } of;

typedef struct family {
    of of;
    const char *name, *key, *help;
} family;

static const family families[] = {
    {JOB, "up_seconds", "uptime_seconds", "Time since the hub began"},
    {JOB, "homes_ready", "homes_ready", "Whether all homes answer the hub"},
    {JOB, "leases_granted_total", "leases_granted", "Leases given to workers"},
    {JOB, "leases_expired_total", "leases_expired",
     "Leases that were not renewed in time"},
    {JOB, "tasks_failed_total", "tasks_failed",
     "Tasks that a worker gave back as failed"},
    {JOB, "backups_granted_total", "backups_granted",
     "Backups: second leases of tasks that a slow worker has"},
    {JOB, "backups_won_total", "backups_won",
     "Backups that delivered before the slow worker"},
    {JOB, "audits_open", "audits_open", "Tasks that wait for their audit"},
    {JOB, "audits_agreed_total", "audits_agreed",
     "Audits in which an own worker made the same bytes"},
    {JOB, "audits_differed_total", "audits_differed",
     "Audits that dropped the results of their tasks"},
    {JOB, "audits_unchecked_total", "audits_unchecked",
     "Drawn tasks that no own worker could repeat, for lack of their kind of device"},
    {JOB, "workers_fenced", "workers_fenced",
     "Workers that are shut out because of wrong results"},
    {JOB, "hub_messages_dropped_total", "messages_dropped",
     "Messages to the hub that could not be decoded"},
    {JOB, "hub_messages_refused_total", "messages_refused",
     "Messages to the hub that the sender's key did not allow"},
    {ARM, "arm_tasks", "tasks", "Number of tasks of an arm"},
    {ARM, "arm_tasks_done", "tasks_done", "Tasks of an arm that are done"},
    {ARM, "held_out_bpb", "held_out_bits_per_byte",
     "Bits per byte of an arm on held-out text"},
    {ARM, "held_out_phase", "held_out_phase",
     "Phases that every path of the arm had finished when its text was scored"},
    {PATH, "path_phase", "phase", "Phases that a path has finished"},
    {PATH, "tokens_total", "tokens", "Tokens that a path was trained on"},
    {PATH, "train_loss", "loss", "Mean loss of a path, nats per token"},
    {PATH, "path_held_out_bpb", "held_out_bits_per_byte",
     "Bits per byte of a path on held-out text"},
    {PATH, "path_step", "step", "Inner steps that a path has done in its phase"},
    {PATH, "path_inner_seconds_total", "seconds", "Time of a path's inner steps"},
    {LEASE, "lease_age_seconds", "age_seconds", "Time since a lease was granted"},
    {LEASE, "lease_renewed_seconds", "renewed_seconds_ago",
     "Time since a lease was last renewed"},
    {WORKER, "worker_up", "", "Whether a worker has sent a message recently"},
    {WORKER, "worker_tokens_per_second", "tokens_per_second",
     "Rate of a worker's inner steps"},
    {WORKER, "worker_memory_bytes", "memory_bytes",
     "Largest memory of a worker's process so far"},
    {WORKER, "worker_up_bytes_per_second", "bytes_up_per_second",
     "Rate that a worker's transfers to homes reached"},
    {WORKER, "worker_down_bytes_per_second", "bytes_down_per_second",
     "Rate that a worker's transfers from homes reached"},
    {WORKER, "worker_round_trip_seconds", "round_trip_seconds",
     "Shortest round trip between a worker and a home"},
    {WORKER, "worker_up_bytes_total", "bytes_up",
     "Bytes that a worker has sent to homes"},
    {WORKER, "worker_down_bytes_total", "bytes_down",
     "Bytes that a worker has got from homes"},
    {WORKER, "worker_repeated_bytes_percent", "bytes_repeated_percent",
     "Percent of a worker's bytes that were moved more than once"},
    {WORKER, "worker_reconnects_total", "reconnects",
     "Connections to homes that a worker has made again"},
    {DOING, "worker_doing", "doing",
     "What a worker does, as a label: fetching, training, sending, waiting or stalled"},
    {WORKER, "worker_tokens_total", "tokens", "Tokens of a worker's finished tasks"},
    {WORKER, "worker_tasks_total", "tasks", "Tasks that a worker finished"},
    {WORKER, "worker_inner_seconds_total", "inner_seconds",
     "Time that a worker spent in inner steps"},
    {WORKER, "worker_overhead_seconds_total", "overhead_seconds",
     "Time in which a worker's trainer waited for fetching, loading and saving"},
    {WORKER, "worker_idle_seconds_total", "idle_seconds",
     "Time in which a worker had no task"},
    {HOME, "home_up", "up", "Whether a home answers the hub"},
    {HOME, "store_bytes", "store_bytes", "Disk space that a home's store takes"},
    {HOME, "store_quota_bytes", "quota_bytes",
     "Limit for the bytes that a home stores; 0: no limit"},
    {HOME, "store_quota_used_bytes", "quota_used_bytes",
     "Bytes of a home that count against its limit; 0 without a limit"},
    {HOME, "disk_free_bytes", "disk_free_bytes", "Free disk space for a home's store"},
    {HOME, "staging_bytes", "staging_bytes",
     "Bytes of uploads in a home's memory that no record names yet"},
    {HOME, "updates_pending", "pending",
     "Updates at a home that wait until their round is complete"},
    {HOME, "versions_committed_total", "versions_committed",
     "Versions that a home has made"},
    {HOME, "home_merge_seconds_total", "merge_seconds",
     "Time that a home spent on making versions from updates and committing them"},
    {HOME, "versions_by_quorum_total", "versions_by_quorum",
     "Versions that were made without some contributors (outer.quorum)"},
    {HOME, "home_received_bytes_total", "bytes_received",
     "Bytes of messages to a home"},
    {HOME, "home_sent_bytes_total", "bytes_sent", "Bytes of messages from a home"},
    {HOME, "home_messages_refused_total", "messages_refused",
     "Messages to a home that the sender's key did not allow"},
    {RESULT, "updates_total", "",
     "Updates and path states that a home received, by its answer"},
    {MODULE, "module_version", "version", "Newest version of a module"},
    {MODULE, "outer_grad_norm", "norm",
     "L2 norm of the update that made the newest version"},
};

typedef struct label {
    const char *name, *value;
} label;

static void put_sample(pl_buf *out, const family *f, const label *labels, int n,
                       double value)
{
    char text[32];
    if (!isfinite(value))
        return;
    pl_buf_printf(out, "pathloom_%s", f->name);
    for (int i = 0; i < n; i++) {
        pl_buf_printf(out, "%s%s=\"", i == 0 ? "{" : ",", labels[i].name);
        for (const char *c = labels[i].value; *c; c++) {
            if (*c == '\\' || *c == '"')
                pl_buf_append(out, "\\", 1);
            pl_buf_append(out, *c == '\n' ? " " : c, 1);
        }
        pl_buf_append(out, "\"", 1);
    }
    pl_buf_printf(out, "%s %s\n", n > 0 ? "}" : "", pl_format_real(value, text));
}

static bool number_of(const pl_json *o, const char *key, double *out)
{
    bool flag = false;
    const pl_json *v = pl_json_get(o, key);
    if (pl_json_bool(v, &flag)) {
        *out = flag;
        return true;
    }
    return pl_json_number(v, out);
}

static void sample(pl_buf *out, const family *f, const pl_json *o, const label *labels,
                   int n)
{
    double value = 0;
    if (number_of(o, f->key, &value))
        put_sample(out, f, labels, n, value);
}

static void of_arms(pl_buf *out, const family *f, const pl_json *status)
{
    const pl_json *arms = pl_json_get(status, "arms");
    for (size_t i = 0; i < pl_json_count(arms); i++) {
        const pl_json *arm = pl_json_at(arms, i);
        label labels[3] = {{"arm", pl_json_get_text(arm, "arm")}};
        if (f->of == ARM) {
            sample(out, f, arm, labels, 1);
            continue;
        }
        const pl_json *paths = pl_json_get(arm, "paths");
        for (size_t k = 0; k < pl_json_count(paths); k++) {
            const pl_json *path = pl_json_at(paths, k),
                          *lease = pl_json_get(path, "lease");
            labels[1] = (label){"path", pl_json_get_text(path, "path")};
            labels[2] = (label){"worker", pl_json_get_text(lease, "worker")};
            if (f->of == PATH)
                sample(out, f, path, labels, 2);
            else if (lease)
                sample(out, f, lease, labels, 3);
        }
    }
}

static void of_workers(pl_buf *out, const family *f, const pl_json *status)
{
    const pl_json *workers = pl_json_get(status, "workers");
    for (size_t i = 0; i < pl_json_count(workers); i++) {
        const pl_json *w = pl_json_at(workers, i);
        label labels[] = {{"worker", pl_json_get_text(w, "worker")},
                          {"doing", pl_json_get_text(w, "doing")}};
        if (f->of == DOING && labels[1].value[0])
            put_sample(out, f, labels, 2, 1);
        else if (f->of == DOING)
            continue;
        else if (f->key[0])
            sample(out, f, w, labels, 1);
        else
            put_sample(out, f, labels, 1,
                       strcmp(pl_json_get_text(w, "state"), "away") != 0);
    }
}

static void of_homes(pl_buf *out, const family *f, const pl_json *status)
{
    const pl_json *homes = pl_json_get(status, "homes");
    for (size_t i = 0; i < pl_json_count(homes); i++) {
        const pl_json *home = pl_json_at(homes, i);
        label labels[2] = {{"home", pl_json_get_text(home, "address")}};
        const pl_json *results = pl_json_get(home, "submissions"),
                      *modules = pl_json_get(home, "modules");
        if (f->of == HOME)
            sample(out, f, home, labels, 1);
        for (const char *key = f->of == RESULT ? pl_json_next_key(results, NULL) : NULL;
             key; key = pl_json_next_key(results, key)) {
            double value = 0;
            labels[1] = (label){"result", key};
            if (number_of(results, key, &value))
                put_sample(out, f, labels, 2, value);
        }
        for (size_t k = 0; f->of == MODULE && k < pl_json_count(modules); k++) {
            const pl_json *m = pl_json_at(modules, k);
            const label module = {"module", pl_json_get_text(m, "module")};
            sample(out, f, m, &module, 1);
        }
    }
}

/* By convention the name of a counter, and no other, ends with "_total". */
static void put_head(pl_buf *out, const family *f)
{
    pl_buf_printf(out, "# HELP pathloom_%s %s.\n# TYPE pathloom_%s %s\n", f->name,
                  f->help, f->name,
                  pl_ends_with(f->name, "_total") ? "counter" : "gauge");
}

static void put_family(pl_buf *out, const family *f, const pl_json *status)
{
    put_head(out, f);
    if (f->of == JOB)
        sample(out, f, status, NULL, 0);
    else if (f->of <= LEASE)
        of_arms(out, f, status);
    else if (f->of <= DOING)
        of_workers(out, f, status);
    else
        of_homes(out, f, status);
}

void pl_metrics_write(const pl_json *status, pl_buf *out)
{
    static const family build = {JOB, "build_info", "",
                                 "The version of the hub, as a label"};
    label version = {"version", pl_json_get_text(status, "version")};
    put_head(out, &build);
    put_sample(out, &build, &version, 1, 1);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        put_family(out, &families[i], status);
    for (int i = 0; i < PL_WORK_N_MEASURES; i++) {
        const pl_work_measure *m = &pl_work_measures[i];
        const family measure = {PATH, m->name, m->name, m->help};
        if (m->views == PL_WORK_OF_PATHS)
            put_family(out, &measure, status);
    }
}
