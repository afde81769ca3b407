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

void server_write_models(pl_server *s, pl_buf *out)
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
    pl_json_set_int(modules, "in_memory", pl_atomic_get(&n->modules));
    pl_json_set_int(modules, "bytes", pl_atomic_get(&n->module_bytes));
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

/* X(name, counter, help); the names of numbers that only grow end in _total */
#define METRICS(X)                                                                     \
    X("requests_answered_total", answered, "Requests answered.")                       \
    X("requests_refused_total", refused,                                               \
      "Requests refused because too many waited or were in progress.")                 \
    X("requests_failed_total", failed, "Requests that ended with an error.")           \
    X("requests_left_total", left, "Requests whose client went away.")                 \
    X("prompt_tokens_total", prompt_tokens, "Tokens of prompts.")                      \
    X("known_tokens_total", known_tokens,                                              \
      "Tokens of prompts that were not computed again, because an earlier request "    \
      "had computed them.")                                                            \
    X("chosen_tokens_total", chosen_tokens, "Tokens of answers.")                      \
    X("routing_tokens_total", routing_tokens,                                          \
      "Tokens that paths read only to choose the path again (route_every).")           \
    X("steps_total", steps,                                                            \
      "Decoding steps; a step serves all active requests of one model shape.")         \
    X("requests_waiting", waiting, "Requests that wait for a slot.")                   \
    X("requests_active", active, "Requests being answered.")                           \
    X("paths_loaded", loaded, "Paths in memory.")                                      \
    X("modules_loaded", modules, "Modules in memory.")                                 \
    X("module_bytes", module_bytes, "Bytes of the modules in memory.")                 \
    X("modules_read_total", modules_read, "Modules read from the store.")

static void write_metric(pl_buf *out, const char *name, int64_t value, const char *help)
{
    pl_buf_printf(out,
                  "# HELP pathloom_serve_%s %s\n# TYPE pathloom_serve_%s %s\n"
                  "pathloom_serve_%s %lld\n",
                  name, help, name, pl_ends_with(name, "_total") ? "counter" : "gauge",
                  name, (long long)value);
}

void server_write_metrics(pl_server *s, pl_buf *out)
{
    server_counters *n = server_counts(s);
#define X(name, counter, help)                                                         \
    write_metric(out, name, pl_atomic_get(&n->counter), help);
    METRICS(X)
#undef X
}
