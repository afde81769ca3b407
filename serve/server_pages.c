/* What the server tells about itself: its models, and counters for Prometheus. */
#include "serve/server_paths.h"

static void add_model(pl_json *list, const char *name)
{
    pl_json *entry = pl_json_object();
    pl_json_set_text(entry, "id", name);
    pl_json_set_text(entry, "object", "model");
    pl_json_set_text(entry, "owned_by", "pathloom");
    pl_json_push(list, entry);
}

void server_write_models(const pl_server *s, pl_buf *out)
{
    const pl_topology *t = server_paths_topology(server_paths_of(s));
    char name[PL_NAME_MAX];
    pl_json *o = pl_json_object(), *list = pl_json_array();
    add_model(list, "auto");
    for (int i = 0; i < pl_topology_n_paths(t); i++) {
        pl_topology_path_name(t, i, name);
        add_model(list, name);
    }
    pl_json_set_text(o, "object", "list");
    pl_json_set(o, "data", list);
    pl_json_write(o, 0, out);
    pl_json_destroy(&o);
}

static void write_metric(pl_buf *out, const char *name, const char *type,
                         const char *help, int64_t value)
{
    pl_buf_printf(out,
                  "# HELP pathloom_serve_%s %s\n# TYPE pathloom_serve_%s %s\n"
                  "pathloom_serve_%s %lld\n",
                  name, help, name, type, name, (long long)value);
}

void server_write_metrics(pl_server *s, pl_buf *out)
{
    server_counters *n = server_counts(s);
    write_metric(out, "requests_answered_total", "counter", "Requests answered.",
                 __atomic_load_n(&n->answered, __ATOMIC_SEQ_CST));
    write_metric(out, "requests_refused_total", "counter",
                 "Requests refused because too many waited.",
                 __atomic_load_n(&n->refused, __ATOMIC_SEQ_CST));
    write_metric(out, "requests_failed_total", "counter", "Requests that failed.",
                 __atomic_load_n(&n->failed, __ATOMIC_SEQ_CST));
    write_metric(out, "requests_left_total", "counter",
                 "Requests whose client went away.",
                 __atomic_load_n(&n->left, __ATOMIC_SEQ_CST));
    write_metric(out, "prompt_tokens_total", "counter", "Tokens read from prompts.",
                 __atomic_load_n(&n->prompt_tokens, __ATOMIC_SEQ_CST));
    write_metric(out, "chosen_tokens_total", "counter", "Tokens chosen.",
                 __atomic_load_n(&n->chosen_tokens, __ATOMIC_SEQ_CST));
    write_metric(out, "steps_total", "counter",
                 "Steps of all paths, of reading and of decoding.",
                 __atomic_load_n(&n->steps, __ATOMIC_SEQ_CST));
    write_metric(out, "requests_waiting", "gauge", "Requests that wait for a place.",
                 __atomic_load_n(&n->waiting, __ATOMIC_SEQ_CST));
    write_metric(out, "requests_active", "gauge", "Requests being answered.",
                 __atomic_load_n(&n->active, __ATOMIC_SEQ_CST));
    write_metric(out, "paths_loaded", "gauge", "Paths in memory.",
                 __atomic_load_n(&n->loaded, __ATOMIC_SEQ_CST));
}
