/* Writes the home's status as a JSON object for the hub, which shows it to users. */
#include "home/home_internal.h"

/* If the home has more modules than this, the status omits the list of modules, because
 * the list might not fit into one message. */
enum { MODULES_SHOWN = 4096 };

void home_status_json(home *h, pl_buf *out)
{
    static const char *const results[HOME_RESULTS] = {
        "accepted", "duplicate", "unknown_blob", "fenced",
        "rejected", "dropped",   "other"};
    enum { DISK_MS = 5000 };
    const int64_t now = pl_now_ms();
    const pl_wire_counts *wire = pl_wire_counted(h->socket);
    home_counts *c = &h->counts;
    /* the size on disk visits every file, so it is measured once per DISK_MS */
    if (c->disk_ms == 0 || now - c->disk_ms >= DISK_MS) {
        char database[PL_PATH_MAX];
        c->disk_ms = now;
        c->store_bytes = pl_folder_bytes(h->options->store) +
                         pl_folder_bytes(pl_join(database, h->options->store, "db"));
        c->free_bytes = pl_disk_free_bytes(h->options->store);
    }
    pl_json *submissions = pl_json_object(), *modules = pl_json_array();
    for (int i = 0; i < HOME_RESULTS; i++)
        pl_json_set_int(submissions, results[i], (int64_t)c->results[i]);
    int64_t n_pending = 0;
    int n_modules = 0;
    for (int a = 0; a < h->n_arms; a++)
        n_modules += pl_topology_n_modules(h->arms[a].topology);
    for (int a = 0; a < h->n_arms; a++)
        for (int i = 0; i < pl_topology_n_modules(h->arms[a].topology); i++) {
            const home_module *m = &h->arms[a].modules[i];
            for (int w = 0; w < m->of->window; w++)
                n_pending += m->n_pending[w];
            if (!m->exists || n_modules > MODULES_SHOWN)
                continue;
            pl_json *one = pl_json_object();
            pl_json_set_text(one, "module", m->name);
            pl_json_set_int(one, "version", (int64_t)m->version);
            pl_json_set_real(one, "norm", m->norm);
            pl_json_push(modules, one);
        }
    pl_json *o = pl_json_object();
    pl_json_set_int(o, "uptime_seconds", (now - c->started_ms) / 1000);
    pl_json_set_int(o, "epoch", (int64_t)h->epoch);
    pl_json_set(o, "submissions", submissions);
    pl_json_set_int(o, "pending", n_pending);
    pl_json_set_int(o, "versions_committed", (int64_t)c->n_versions);
    pl_json_set_real(o, "merge_seconds", c->merge_s);
    pl_json_set_int(o, "versions_by_quorum", (int64_t)c->n_by_quorum);
    pl_json_set_text(o, "last_rejection", c->rejection);
    pl_json_set_int(o, "staging_bytes", (int64_t)h->uploads.bytes);
    pl_json_set_int(o, "staging_limit_bytes", (int64_t)h->uploads.limit);
    pl_json_set_int(o, "store_bytes", (int64_t)c->store_bytes);
    pl_json_set_int(o, "quota_bytes", (int64_t)h->options->quota_bytes);
    pl_json_set_int(o, "quota_used_bytes", (int64_t)pl_store_stored_bytes(h->store));
    pl_json_set_int(o, "versions_thinned", (int64_t)c->n_thinned);
    pl_json_set_int(o, "disk_free_bytes", (int64_t)c->free_bytes);
    pl_json_set_int(o, "bytes_received", (int64_t)wire->bytes_received);
    pl_json_set_int(o, "bytes_sent", (int64_t)wire->bytes_sent);
    pl_json_set_int(o, "messages_dropped", (int64_t)wire->dropped);
    pl_json_set_int(o, "messages_refused", (int64_t)wire->refused);
    if (n_modules <= MODULES_SHOWN)
        pl_json_set(o, "modules", modules);
    else
        pl_json_destroy(&modules);
    pl_json_write(o, 0, out);
    pl_json_destroy(&o);
}
