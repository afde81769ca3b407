/* Answers /router.json with the picture of the router that the job wrote when it routed
 * the run, and /route.json?text=... with the path that would answer a text (page.h).
 *
 * To route a text, the page may have to read the parameters of all paths, and one
 * thread answers all questions. So the length of a text and the number of bytes that
 * the page reads for it are limited. After each text the page refuses further texts for
 * as long as the routing of that text took. */
#include "view/page_internal.h"

#include <math.h>

enum {
    MAP_BYTES_MAX = 8 << 20, /* with 16,384 paths a picture has about 3 MiB */
    KEEP_BYTES = 256 << 20,  /* parameters of paths that stay in memory between texts */
    LEAST_PAUSE_MS = 50
};
/* most bytes of all paths' parameters with which the page routes by likelihood */
static const uint64_t read_bytes_max = UINT64_C(2) << 30;

/* ---- a text ---- */
void page_route_close(page_route *route)
{
    text_router_close(&route->router);
    pl_mixture_close(&route->mix);
    memset(&route->mix, 0, sizeof route->mix);
    route->note[0] = '\0';
}

static pl_status open_route(page *p)
{
    static const mixture_wish newest = {.at = NULL};
    page_route *route = &p->route;
    text_router_wish wish = {.keep_bytes = KEEP_BYTES};
    if (route->router && route->sequence == p->sequence)
        return PL_OK;
    page_route_close(route);
    PL_CHECK(mixture_open(p->r.dir, &newest, &route->mix));
    pl_answer_settings *settings = &route->mix.settings;
    /* computes on the processor, because workers may need all memory of the GPU */
    if (strcmp(settings->backend, "ref") != 0 &&
        strcmp(settings->backend, "cpu") != 0) {
        pl_copy_text(settings->backend, sizeof settings->backend, "cpu");
        if (strcmp(settings->precision, "f32") != 0)
            pl_copy_text(settings->precision, sizeof settings->precision, "auto");
    }
    const int n_paths = pl_topology_n_paths(route->mix.topology);
    const uint64_t bytes = (uint64_t)n_paths * sizeof(float) *
                           pl_topology_path_params(route->mix.topology);
    if (bytes > read_bytes_max &&
        pl_answers_by_likelihood(settings->rule, settings->prefix, n_paths)) {
        wish.rule = "router";
        snprintf(route->note, sizeof route->note,
                 "this run answers by likelihood, but its %d paths have %.0f GB, more "
                 "than the 2 GB that this page reads for a text, so the router chooses "
                 "here; `pathloom route` answers by likelihood",
                 n_paths, 1e-9 * (double)bytes);
    }
    PL_CHECK(text_router_open(&route->mix, &wish, &route->router));
    route->sequence = p->sequence;
    return PL_OK;
}

static pl_json *number_or_null(double value)
{
    return pl_json_make_real(isfinite(value) ? round(1e4 * value) / 1e4 : NAN);
}

static pl_status route_text(page *p, const char *text, size_t len, pl_buf *out)
{
    pl_buf tokens = {0};
    text_route route;
    pl_status status = PL_OK;
    PL_TRY(open_route(p));
    PL_TRY(pl_prompt_encode(p->route.mix.tokenizer, text, len, &tokens));
    PL_TRY(text_router_ask(p->route.router, pl_prompt_tokens(&tokens),
                           pl_prompt_count(&tokens), &route));
    const pl_topology *t = p->route.mix.topology;
    pl_json *o = pl_json_object(), *rows = pl_json_array();
    char name[PL_NAME_MAX];
    pl_topology_path_name(t, route.path, name);
    pl_json_set_text(o, "path", name);
    pl_topology_path_name(t, route.router_path, name);
    pl_json_set_text(o, "router_path", name);
    pl_json_set_bool(o, "by_likelihood", route.by_likelihood);
    pl_json_set_text(o, "why", route.why);
    pl_json_set_text(o, "note", p->route.note);
    pl_json_set_int(o, "tokens", route.n_tokens);
    pl_json_set_int(o, "tokens_seen", route.n_seen);
    pl_json_set(o, "margin_nats", number_or_null(route.nats ? route.margin_nats : NAN));
    pl_json_set(o, "router_margin", number_or_null(route.router_margin));
    for (int path = 0; path < route.n_paths; path++) {
        pl_topology_path_name(t, path, name);
        pl_json_push(rows,
                     pl_json_list(pl_json_make_text(name),
                                  number_or_null(route.nats ? route.nats[path] : NAN),
                                  number_or_null(text_route_posterior(&route, path)),
                                  number_or_null(route.costs[path])));
    }
    pl_json_set(o, "paths", rows);
    pl_json_write(o, 0, out);
    pl_json_destroy(&o);
done:
    pl_buf_destroy(&tokens);
    if (status != PL_OK)
        page_route_close(&p->route);
    return status;
}

pl_status page_router_json(page *p, const pl_page_question *q, pl_buf *out)
{
    if (strcmp(q->url, "/router.json") == 0) {
        char path[PL_PATH_MAX];
        pl_json *o = NULL;
        run_file(&p->r, "router_map.json", path);
        if (!pl_path_exists(path))
            return pl_fail(
                PL_ERR_NOT_FOUND,
                p->store
                    ? "the run has no picture of its router: its documents are not "
                      "dealt to paths yet, or an earlier release of Pathloom dealt them"
                    : "the documents of this run are not dealt to paths yet");
        PL_CHECK(pl_read_file(path, out));
        if (out->len <= MAP_BYTES_MAX &&
            pl_json_parse((const char *)out->data, out->len, &o) == PL_OK &&
            pl_json_is_object(o)) {
            pl_json_destroy(&o);
            return PL_OK;
        }
        pl_json_destroy(&o);
        return pl_fail(PL_ERR_DAMAGED,
                       "%s (%zu bytes) is damaged or too large; the run writes this "
                       "file again when it deals documents for its next chapter",
                       path, out->len);
    }
    const char *text = pl_page_ask(q, "text");
    const size_t len = strlen(text);
    const int64_t begun = pl_now_ms();
    if (len == 0)
        return pl_fail(PL_ERR_USAGE, "the text is empty; give a text to route");
    for (size_t at = 0, n; at < len; at += n) {
        n = pl_utf8_length(text + at, len - at);
        if (n == 0)
            return pl_fail(PL_ERR_USAGE, "byte %zu of the text is not UTF-8", at);
    }
    if (begun < p->route.free_ms)
        return pl_fail(PL_ERR_BUSY,
                       "another text was routed a moment ago; ask again in %lld ms",
                       (long long)(p->route.free_ms - begun));
    pl_status status = route_text(p, text, len, out);
    const int64_t ended = pl_now_ms(), took = ended - begun;
    p->route.free_ms = ended + (took > LEAST_PAUSE_MS ? took : LEAST_PAUSE_MS);
    return status;
}
