/* Writes information about the server: the models, the default values of requests, and
 * counters for Prometheus. */
#include "serve/server_paths.h"

static pl_json *make_model(const pl_server *s, const char *name)
{
    pl_json *o = pl_json_object();
    pl_json_set_text(o, "id", name);
    pl_json_set_text(o, "object", "model");
    pl_json_set_int(o, "created", server_options(s)->created);
    pl_json_set_text(o, "owned_by", "pathloom");
    pl_json_set_int(o, "max_model_len", server_options(s)->mix->arm.shape.context);
    return o;
}

void server_write_models(const pl_server *s, pl_buf *out)
{
    const server_models *models = server_paths_models(server_paths_of(s));
    char name[PL_NAME_MAX];
    pl_json *o = pl_json_object(), *list = pl_json_array();
    pl_json_push(list, make_model(s, "auto"));
    for (int i = 0; i < server_models_count(models); i++) {
        server_models_name(models, i, name);
        if (server_models_is_open(models, i))
            pl_json_push(list, make_model(s, name));
    }
    pl_json_set_text(o, "object", "list");
    pl_json_set(o, "data", list);
    pl_json_write(o, 0, out);
    pl_json_destroy(&o);
}

pl_status server_write_model(const pl_server *s, const char *name, pl_buf *out)
{
    int number = 0;
    if (!server_models_is_auto(name))
        PL_CHECK(
            server_models_find(server_paths_models(server_paths_of(s)), name, &number));
    pl_json *o = make_model(s, name);
    pl_json_write(o, 0, out);
    pl_json_destroy(&o);
    return PL_OK;
}

void server_write_props(pl_server *s, pl_buf *out)
{
    const pl_server_options *options = server_options(s);
    const server_counters *n = server_counts(s);
    pl_completion c;
    pl_json *o = pl_json_object(), *settings = pl_json_object();
    pl_json *params = pl_json_object(), *modules = pl_json_object();
    pl_completion_defaults(&c);
    pl_json_set_int(params, "n_predict", c.options.max_tokens);
    pl_json_set_int(params, "max_tokens", c.options.max_tokens);
    pl_json_set_int(params, "seed", (int64_t)c.options.choice.seed);
    pl_json_set_real(params, "temperature", c.options.choice.temperature);
    pl_json_set_int(params, "top_k", c.options.choice.top_k);
    pl_json_set_real(params, "top_p", c.options.choice.top_p);
    pl_json_set_real(params, "min_p", c.options.choice.min_p);
    pl_json_set_real(params, "presence_penalty", c.options.presence_penalty);
    pl_json_set_real(params, "frequency_penalty", c.options.frequency_penalty);
    pl_json_set(params, "stop", pl_json_array());
    pl_json_set_bool(params, "stream", c.stream);
    pl_json_set_int(modules, "all", pl_topology_n_modules(options->mix->topology));
    pl_json_set_int(modules, "in_memory",
                    __atomic_load_n(&n->modules, __ATOMIC_SEQ_CST));
    pl_json_set_int(modules, "bytes",
                    __atomic_load_n(&n->module_bytes, __ATOMIC_SEQ_CST));
    pl_json_set_int(settings, "n_ctx", server_options(s)->mix->arm.shape.context);
    pl_json_set(settings, "params", params);
    pl_json_set(o, "default_generation_settings", settings);
    pl_json_set_int(o, "total_slots", options->slots);
    pl_json_set(o, "modules", modules);
    pl_json_set_text(o, "model_path", options->mix->dir);
    pl_json_set_text(o, "chat_template",
                     options->chat ? pl_chat_name(options->chat) : "");
    pl_json_set_text(o, "bos_token", "<s>");
    pl_json_set_text(o, "eos_token", "</s>");
    pl_json_set_text(o, "build_info", "pathloom " PL_VERSION);
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
                 "Requests refused because too many waited or were in progress.",
                 __atomic_load_n(&n->refused, __ATOMIC_SEQ_CST));
    write_metric(out, "requests_failed_total", "counter",
                 "Requests that ended with an error.",
                 __atomic_load_n(&n->failed, __ATOMIC_SEQ_CST));
    write_metric(out, "requests_left_total", "counter",
                 "Requests whose client went away.",
                 __atomic_load_n(&n->left, __ATOMIC_SEQ_CST));
    write_metric(out, "prompt_tokens_total", "counter", "Tokens of prompts.",
                 __atomic_load_n(&n->prompt_tokens, __ATOMIC_SEQ_CST));
    write_metric(out, "known_tokens_total", "counter",
                 "Tokens of prompts that were not computed again, because an earlier "
                 "request had computed them.",
                 __atomic_load_n(&n->known_tokens, __ATOMIC_SEQ_CST));
    write_metric(out, "chosen_tokens_total", "counter", "Tokens of answers.",
                 __atomic_load_n(&n->chosen_tokens, __ATOMIC_SEQ_CST));
    write_metric(out, "routing_tokens_total", "counter",
                 "Tokens that paths read only to choose the path again (route_every).",
                 __atomic_load_n(&n->routing_tokens, __ATOMIC_SEQ_CST));
    write_metric(
        out, "steps_total", "counter",
        "Decoding steps; a step serves all active requests of one model shape.",
        __atomic_load_n(&n->steps, __ATOMIC_SEQ_CST));
    write_metric(out, "requests_waiting", "gauge", "Requests that wait for a slot.",
                 __atomic_load_n(&n->waiting, __ATOMIC_SEQ_CST));
    write_metric(out, "requests_active", "gauge", "Requests being answered.",
                 __atomic_load_n(&n->active, __ATOMIC_SEQ_CST));
    write_metric(out, "paths_loaded", "gauge", "Paths in memory.",
                 __atomic_load_n(&n->loaded, __ATOMIC_SEQ_CST));
    write_metric(out, "modules_loaded", "gauge", "Modules in memory.",
                 __atomic_load_n(&n->modules, __ATOMIC_SEQ_CST));
    write_metric(out, "module_bytes", "gauge", "Bytes of the modules in memory.",
                 __atomic_load_n(&n->module_bytes, __ATOMIC_SEQ_CST));
    write_metric(out, "modules_read_total", "counter", "Modules read from the store.",
                 __atomic_load_n(&n->modules_read, __ATOMIC_SEQ_CST));
}
