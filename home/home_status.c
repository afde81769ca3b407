/* Writes the home's status as one JSON object for the hub. The hub shows the status to
 * users. */
#include "home/home_internal.h"

enum { DISK_MS = 5000 };

/* Measures the store's size on disk. The measurement visits every file of the store, so
 * it is made at most once per DISK_MS. */
static void look_at_disk(home *h, int64_t now_ms)
{
    char database[PL_PATH_MAX];
    home_counts *c = &h->counts;
    if (c->disk_ms != 0 && now_ms - c->disk_ms < DISK_MS)
        return;
    c->disk_ms = now_ms;
    c->store_bytes = pl_folder_bytes(h->options->store) +
                     pl_folder_bytes(pl_join(database, h->options->store, "db"));
    c->free_bytes = pl_disk_free_bytes(h->options->store);
}

static pl_json *submissions_json(const home_counts *c)
{
    static const char *const names[HOME_RESULTS] = {
        "accepted", "duplicate", "unknown_blob", "fenced",
        "rejected", "dropped",   "other"};
    pl_json *o = pl_json_object();
    for (int i = 0; i < HOME_RESULTS; i++)
        pl_json_set_int(o, names[i], (int64_t)c->results[i]);
    return o;
}

static int64_t count_pending(const home *h)
{
    int64_t n = 0;
    for (int a = 0; a < h->n_arms; a++)
        for (int m = 0; m < pl_topology_n_modules(h->arms[a].topology); m++) {
            const home_module *module = &h->arms[a].modules[m];
            for (int w = 0; w < module->of->window; w++)
                n += module->n_pending[w];
        }
    return n;
}

static pl_json *modules_json(const home *h)
{
    pl_json *list = pl_json_array();
    for (int a = 0; a < h->n_arms; a++)
        for (int m = 0; m < pl_topology_n_modules(h->arms[a].topology); m++) {
            const home_module *module = &h->arms[a].modules[m];
            if (!module->exists)
                continue;
            pl_json *o = pl_json_object();
            pl_json_set_text(o, "module", module->name);
            pl_json_set_int(o, "version", (int64_t)module->version);
            pl_json_set_real(o, "norm", module->norm);
            pl_json_push(list, o);
        }
    return list;
}

/* If the home has more modules than this, the status omits the list of modules, because
 * the list might not fit into one message. */
enum { MODULES_SHOWN = 4096 };

void home_status_json(home *h, pl_buf *out)
{
    int64_t now = pl_now_ms();
    int n = 0;
    look_at_disk(h, now);
    pl_json *o = pl_json_object();
    pl_json_set_int(o, "uptime_seconds", (now - h->counts.started_ms) / 1000);
    pl_json_set_int(o, "epoch", (int64_t)h->epoch);
    pl_json_set(o, "submissions", submissions_json(&h->counts));
    pl_json_set_int(o, "pending", count_pending(h));
    pl_json_set_int(o, "versions_committed", (int64_t)h->counts.n_versions);
    pl_json_set_real(o, "merge_seconds", h->counts.merge_s);
    pl_json_set_int(o, "versions_by_quorum", (int64_t)h->counts.n_by_quorum);
    pl_json_set_text(o, "last_rejection", h->counts.rejection);
    pl_json_set_int(o, "staging_bytes", (int64_t)h->uploads.bytes);
    pl_json_set_int(o, "staging_limit_bytes", (int64_t)h->uploads.limit);
    pl_json_set_int(o, "store_bytes", (int64_t)h->counts.store_bytes);
    pl_json_set_int(o, "quota_bytes", (int64_t)h->options->quota_bytes);
    pl_json_set_int(o, "quota_used_bytes", (int64_t)pl_store_stored_bytes(h->store));
    pl_json_set_int(o, "versions_thinned", (int64_t)h->counts.n_thinned);
    pl_json_set_int(o, "disk_free_bytes", (int64_t)h->counts.free_bytes);
    pl_json_set_int(o, "bytes_received", (int64_t)pl_wire_bytes_received(h->socket));
    pl_json_set_int(o, "bytes_sent", (int64_t)pl_wire_bytes_sent(h->socket));
    pl_json_set_int(o, "messages_dropped", (int64_t)pl_wire_dropped(h->socket));
    pl_json_set_int(o, "messages_refused", (int64_t)pl_wire_refused(h->socket));
    for (int a = 0; a < h->n_arms; a++)
        n += pl_topology_n_modules(h->arms[a].topology);
    if (n <= MODULES_SHOWN)
        pl_json_set(o, "modules", modules_json(h));
    pl_json_write(o, 0, out);
    pl_json_destroy(&o);
}
