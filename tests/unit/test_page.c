/* folder: view; label: unit */
/* Tests the data that the status page has about a run. History and state must stay
 * small, and files that other processes wrote must not break the page. */
#include "view/page_internal.h"
#include "tests/support/corpus_support.h"

/* Makes the page of a run with the topology `levels`, and with a history that has the
 * arm `mix` but no phases. */
static page *begin_page(const char *levels)
{
    char pair[64];
    const char *sets[] = {pair, "model.width=48"};
    page *p = pl_alloc(sizeof *p);
    pl_topology_spec spec;
    pl_shape shape;
    snprintf(pair, sizeof pair, "topology.levels=%s", levels);
    assert_ok(config_build(NULL, sets, 2, &p->r.cfg));
    assert_ok(config_shape(&p->r.cfg, &shape));
    assert_ok(config_spec(&p->r.cfg, &spec));
    assert_ok(pl_topology_create(&shape, &spec, &p->r.topology));
    phase_history_begin(&p->history);
    pl_arm arm = {.name = "mix"};
    pl_topology *own = NULL;
    assert_ok(pl_topology_create(&shape, &spec, &own));
    phase_history_add_arm(&p->history, &arm, own);
    return p;
}

static void add_phase(phase_history *h, const char *module, int64_t path, int64_t phase,
                      uint64_t token, double loss)
{
    pl_contribution c = {.worker = "worker-1",
                         .path = path,
                         .phase = phase,
                         .work.n_tokens = 100,
                         .work.loss = loss,
                         .work.seconds = 2,
                         .token = token};
    pl_version v = {.number = 1,
                    .method = "nesterov",
                    .wall_ms = 1000000 + phase % 1000 * 1000,
                    .n_contributions = 1,
                    .contributions = &c};
    pl_copy_text(v.module, sizeof v.module, module);
    phase_history_add(h, &v);
}

static void end_page(page **owner)
{
    OWNED(free_memory) page *p = *owner;
    phase_history_clear(&p->history);
    pl_topology_destroy(&p->r.topology);
    pl_json_destroy(&p->hub);
}

PL_TEST(a_phase_counts_once_whatever_modules_name_it)
{
    OWNED(end_page) page *p = begin_page("2x2");
    phase_history *h = &p->history;
    int arm, path;
    add_phase(h, "mix/L1.E0", 1, 0, 7, 5.0);
    add_phase(h, "mix/L2.E1", 1, 0, 7, 5.0);
    add_phase(h, "mix/embed.E0", 1, 1, 9, 4.0);
    phase_series *s = phase_history_find(h, "mix/p01.r0", &arm, &path);
    assert_non_null(s);
    assert_int_equal(path, 1);
    assert_int_equal(s->n_cells, 2);
    assert_true(s->cells[0].work.loss == 5.0 && s->cells[0].work.n_tokens == 100);
    assert_int_equal(s->cells[0].from_ms, 1000000 - 2000);
    /* After a rollback, the phase is trained again under a later lease. Its result
     * replaces the first one. */
    add_phase(h, "mix/L1.E0", 1, 0, 12, 4.5);
    assert_true(s->cells[0].work.loss == 4.5 && s->cells[0].n == 1);
    assert_int_equal(h->serial, 3);
}

PL_TEST(contributions_out_of_range_are_ignored)
{
    OWNED(end_page) page *p = begin_page("2x2");
    phase_history *h = &p->history;
    add_phase(h, "mix/L1.E0", 4, 0, 7, 5.0);
    add_phase(h, "mix/L1.E0", -1, 0, 7, 5.0);
    add_phase(h, "mix/L1.E0", 0, -1, 7, 5.0);
    add_phase(h, "mix/L1.E0", 0, INT64_MAX, 7, 5.0);
    add_phase(h, "other/L1.E0", 0, 0, 7, 5.0);
    add_phase(h, "nothing", 0, 0, 7, 5.0);
    assert_int_equal(h->serial, 0);
    assert_int_equal(h->n_cells, 0);
}

PL_TEST(history_is_bounded_and_keeps_sums)
{
    enum { PHASES = 100000 };
    OWNED(end_page) page *p = begin_page("2x2");
    phase_history *h = &p->history;
    int arm, path;
    for (int64_t phase = 0; phase < PHASES; phase++)
        for (int64_t k = 0; k < 4; k++)
            add_phase(h, "mix/L1.E0", k, phase, (uint64_t)(4 * phase + k + 1),
                      (double)(phase + 1));
    assert_true(h->n_cells <= PHASE_CELLS_MAX);
    assert_int_equal(h->stride, 16);
    const phase_series *s = phase_history_find(h, "mix/p10.r0", &arm, &path);
    double tokens = 0, before = 0;
    int phases = 0;
    for (size_t i = 0; i < s->n_cells; i++) {
        assert_true(s->cells[i].work.loss > before);
        before = s->cells[i].work.loss;
        tokens += (double)s->cells[i].work.n_tokens;
        phases += s->cells[i].n;
    }
    assert_int_equal(phases, PHASES);
    assert_true(tokens == 100.0 * PHASES);
    add_phase(h, "mix/L1.E0", 0, INT64_C(1) << 39, UINT64_MAX, 1.0);
    assert_true(h->n_cells <= PHASE_CELLS_MAX);
}

PL_TEST(only_what_is_new_is_sent_again)
{
    OWNED(end_page) page *p = begin_page("2x2");
    phase_history *h = &p->history;
    add_phase(h, "mix/L1.E0", 0, 0, 1, 5.0);
    add_phase(h, "mix/L1.E0", 1, 0, 2, 4.0);
    OWNED(pl_json_destroy) pl_json *all = pl_json_object(), *last = pl_json_object();
    phase_history_json(h, 0, all);
    phase_history_json(h, 1, last);
    assert_int_equal(pl_json_count(pl_json_get(all, "cells")), 2);
    const pl_json *cells = pl_json_get(last, "cells");
    double path = 0, loss = 0;
    assert_int_equal(pl_json_count(cells), 1);
    assert_true(pl_json_number(pl_json_at(pl_json_at(cells, 0), 0), &path));
    assert_true(pl_json_number(pl_json_at(pl_json_at(cells, 0), 3), &loss));
    assert_true(path == 1 && loss == 4.0);
    assert_int_equal(pl_json_count(pl_json_get(all, "held_bytes")),
                     pl_json_count(pl_json_get(all, "paths")));
}

/* ---- logs ---- */
PL_TEST(events_are_read_in_both_forms)
{
    static const char text[] = "2026-11-25T07:53:26.977Z warn hub lease.expired "
                               "count=1 worker=\"a b\" task=mix/p00.r0";
    static const char json[] =
        "{\"time\":\"2026-11-25T07:53:26.977Z\",\"level\":\"warn\",\"role\":\"hub\","
        "\"event\":\"lease.expired\",\"count\":1,\"worker\":\"a b\","
        "\"task\":\"mix/p00.r0\"}";
    page_event a, b;
    char value[64];
    assert_true(page_log_parse(text, strlen(text), &a));
    assert_true(page_log_parse(json, strlen(json), &b));
    assert_int_equal(a.wall_ms, INT64_C(1795593206977));
    assert_int_equal(b.wall_ms, a.wall_ms);
    assert_string_equal(a.event, "lease.expired");
    assert_string_equal(b.text, a.text);
    assert_string_equal(page_event_value(&a, "worker", value, sizeof value), "a b");
    assert_string_equal(page_event_value(&b, "task", value, sizeof value),
                        "mix/p00.r0");
    assert_string_equal(page_event_value(&b, "ask", value, sizeof value), "");
    for (size_t n = 0; n < strlen(json); n++)
        assert_false(page_log_parse(json, n, &a));
    for (size_t n = 0; n < strlen("2026-11-25T07:53:26.977Z warn hub "); n++)
        assert_false(page_log_parse(text, n, &a));
}

static void count_event(void *context, const page_event *e)
{
    int *n = context;
    *n += e->wall_ms > 0;
}

PL_TEST(logs_are_followed_and_bounded)
{
    static const char line[] = "2026-11-25T07:53:26.977Z info hub worker.left n=1\n";
    OWNED(page_log_clear) page_log log = {.files = NULL};
    char folder[PL_PATH_MAX];
    OWNED(pl_buf_destroy) pl_buf text = {0};
    int n = 0;
    bool more;
    pl_copy_text(folder, sizeof folder, in_scratch("log"));
    assert_ok(pl_make_folders(folder));
    pl_buf_append(&text, line, strlen(line));
    pl_buf_append(&text, "\xff\x00\n{}\n\n", 7);
    pl_buf_append(&text, line, 30);
    write_bytes("log/hub.log", text.data, text.len);
    page_log_read(&log, folder, count_event, &n, &more);
    assert_int_equal(n, 1);
    pl_buf_append(&text, line + 30, strlen(line) - 30);
    for (int i = 0; i < 3 * PAGE_EVENTS_MAX; i++)
        pl_buf_append(&text, line, strlen(line));
    write_bytes("log/hub.log", text.data, text.len);
    do
        page_log_read(&log, folder, count_event, &n, &more);
    while (more);
    assert_int_equal(n, 2 + 3 * PAGE_EVENTS_MAX);
    OWNED(pl_json_destroy) pl_json *list = pl_json_array(), *newest = pl_json_array();
    page_log_json(&log, 0, list);
    page_log_json(&log, log.serial - 1, newest);
    assert_int_equal(pl_json_count(list), PAGE_EVENTS_MAX);
    assert_int_equal(pl_json_count(newest), 1);
}

/* ---- the state ---- */
/* Makes the status of a hub with 256 paths and 4,096 workers, which are all busy. */
static pl_json *large_status(void)
{
    OWNED(pl_buf_destroy) pl_buf text = {0};
    pl_json *out = NULL;
    pl_buf_printf(&text, "{\"arms\":[{\"arm\":\"mix\",\"phases\":50,\"tau\":100,"
                         "\"tasks_done\":3100,\"tasks\":12800,\"paths\":[");
    for (int i = 0; i < 256; i++)
        pl_buf_printf(&text,
                      "%s{\"path\":\"p%02x%02x.r0\",\"phase\":12,\"tokens\":5123456,"
                      "\"loss\":3.1234%d,\"step\":57,\"lease\":{\"worker\":"
                      "\"worker-%d\"}}",
                      i ? "," : "", i / 16, i % 16, i, i);
    pl_buf_printf(&text, "]}],\"workers\":[");
    for (int i = 0; i < 4096; i++)
        pl_buf_printf(&text,
                      "%s{\"worker\":\"worker-%d\",\"device\":\"cuda bf16 H100\","
                      "\"state\":\"busy\",\"task\":\"mix/p%02x%02x.r0\","
                      "\"tokens_per_second\":%d.25,\"tasks\":%d,"
                      "\"seen_seconds_ago\":0.%d}",
                      i ? "," : "", i, i / 16 % 16, i % 16, 100000 + i, i % 50, i % 9);
    pl_buf_printf(&text, "],\"homes\":[{\"address\":\"tcp://10.0.0.1:7000\","
                         "\"up\":true,\"store_bytes\":1e400}]}");
    assert_int_not_equal(pl_json_parse(pl_buf_text(&text), text.len, &out), PL_OK);
    text.len -= strlen("1e400}]}");
    pl_buf_printf(&text, "1e300}]}");
    assert_ok(pl_json_parse(pl_buf_text(&text), text.len, &out));
    return out;
}

PL_TEST(a_large_state_is_small_and_fast)
{
    OWNED(end_page) page *p = begin_page("16x16");
    OWNED(pl_buf_destroy) pl_buf text = {0};
    OWNED(pl_json_destroy) pl_json *o = NULL;
    p->hub = large_status();
    for (int i = 0; i < 4096; i++) {
        char name[32];
        snprintf(name, sizeof name, "worker-%d", i);
        assert_int_equal(phase_history_worker(&p->history, name), i);
    }
    page_state_json(p, &text);
    assert_true(text.len < 200000);
    assert_ok(pl_json_parse((const char *)text.data, text.len, &o));
    const pl_json *rows = pl_json_get(pl_json_get(o, "workers"), "rows");
    assert_int_equal(pl_json_count(rows), 4096);
    int64_t path = 0;
    assert_true(pl_json_int(pl_json_at(pl_json_at(rows, 300), 4), &path));
    assert_int_equal(path, 300 % 256);
    assert_string_equal(pl_json_get_text(o, "life"), "training");
}

/* ---- modules ---- */
static void add_module_version(phase_history *h, const char *module, uint64_t number,
                               int64_t path)
{
    pl_contribution c[2] = {
        {.path = path, .work.n_tokens = 100, .work.loss = 4, .work.seconds = 2},
        {.path = path + 1, .work.n_tokens = 300, .work.loss = 2}};
    pl_version v = {.number = number,
                    .method = "nesterov",
                    .n_params = 7,
                    .wall_ms = 1795593206977 + (int64_t)(number % 100000) * 60000,
                    .n_contributions = number > 0 ? 2 : 0,
                    .contributions = c};
    pl_copy_text(v.module, sizeof v.module, module);
    module_lineage_add(&h->lineage, &v);
}

static pl_json *ask_for_lineage(page *p, pl_buf *text)
{
    pl_json *o = NULL;
    const pl_page_question q = {.url = "/modules.json"};
    pl_buf_clear(text);
    assert_ok(page_answer(p, &q, text));
    assert_ok(pl_json_parse((const char *)text->data, text->len, &o));
    return o;
}

PL_TEST(a_long_lineage_is_small_and_fast)
{
    enum { VERSIONS = 10000, MODULES = 32 };
    OWNED(end_page) page *p = begin_page("16x16");
    OWNED(pl_buf_destroy) pl_buf text = {0};
    for (uint64_t n = 0; n < VERSIONS / MODULES; n++)
        for (int m = 0; m < MODULES; m++) {
            char name[32];
            snprintf(name, sizeof name, "mix/L%d.E%d", 1 + m / 16, m % 16);
            add_module_version(&p->history, name, n, 16 * (m % 16));
        }
    OWNED(pl_json_destroy) pl_json *o = ask_for_lineage(p, &text);
    assert_true(text.len < 300000);
    assert_true(p->history.lineage.n_nodes <= LINEAGE_NODES_MAX);
    const pl_json *list = pl_json_get(o, "modules");
    assert_int_equal(pl_json_count(list), MODULES);
    for (size_t m = 0; m < MODULES; m++) {
        const pl_json *nodes = pl_json_get(pl_json_at(list, m), "nodes");
        int64_t versions = 0, updates = 0, value = 0;
        for (size_t i = 0; i < pl_json_count(nodes); i++) {
            const pl_json *node = pl_json_at(nodes, i);
            assert_true(pl_json_int(pl_json_at(node, 1), &value));
            versions += value;
            assert_true(pl_json_int(pl_json_at(node, 5), &value));
            updates += value;
            assert_int_equal(pl_json_count(pl_json_at(node, 7)), 2);
        }
        assert_int_equal(versions, VERSIONS / MODULES);
        assert_int_equal(updates, 2 * (VERSIONS / MODULES - 1));
    }
}

PL_TEST(a_lineage_keeps_what_a_version_says)
{
    OWNED(phase_history_clear) phase_history h = {.n_arms = 0};
    add_module_version(&h, "mix/L1.E0", 0, 0);
    add_module_version(&h, "mix/L1.E0", 1, 4);
    add_module_version(&h, "mix/L2.E0", 1, -1); /* a damaged record */
    add_module_version(&h, "mix/L2.E0", UINT64_C(1) << 50, 4);
    add_module_version(&h, "mix/L2.E0", (UINT64_C(1) << 39), 70000);
    const lineage_line *line = module_lineage_find(&h.lineage, "mix/L1.E0");
    assert_non_null(line);
    assert_int_equal(line->n_params, 7);
    assert_true(h.lineage.n_nodes <= LINEAGE_NODES_MAX);
    const lineage_node *node = &line->nodes[line->n_nodes - 1];
    assert_int_equal(node->last, 1);
    assert_int_equal(node->n, 2);
    assert_int_equal(node->n_paths, 2);
    assert_int_equal(node->paths[0], 4);
    assert_int_equal(node->paths[1], 5);
    assert_true(node->loss == 2.5 && node->tokens == 400);
    assert_null(module_lineage_find(&h.lineage, "mix/L9.E0"));
}

/* ---- the router ---- */
static pl_status ask_route(page *p, const char *text, pl_buf *out)
{
    pl_page_question q = {.url = "/route.json", .n_arguments = 1};
    OWNED(free_memory) char *copy = pl_alloc(strlen(text) + 1);
    memcpy(copy, text, strlen(text) + 1);
    pl_copy_text(q.arguments[0].name, sizeof q.arguments[0].name, "text");
    q.arguments[0].value = copy;
    pl_buf_clear(out);
    return page_answer(p, &q, out);
}

PL_TEST(texts_that_cannot_be_routed_are_refused)
{
    OWNED(end_page) page *p = begin_page("2x2");
    OWNED(pl_buf_destroy) pl_buf out = {0};
    pl_copy_text(p->r.dir, sizeof p->r.dir, in_scratch("nothing"));
    assert_fails(ask_route(p, "", &out), PL_ERR_USAGE, "empty");
    assert_fails(ask_route(p, "ab\xff", &out), PL_ERR_USAGE,
                 "byte 2 of the text is not UTF-8");
    assert_int_equal(ask_route(p, "cut off \xe2\x82", &out), PL_ERR_USAGE);
    p->route.free_ms = INT64_MAX;
    assert_int_equal(ask_route(p, "a text", &out), PL_ERR_BUSY);
    /* An invalid text is refused immediately, even during the pause after the previous
     * text. */
    assert_int_equal(ask_route(p, "\xff", &out), PL_ERR_USAGE);
    p->route.free_ms = 0;
    /* The text is valid, but the folder of the run does not exist. */
    const int64_t begun = pl_now_ms();
    assert_int_equal(ask_route(p, "a text", &out), PL_ERR_NOT_FOUND);
    assert_true(p->route.free_ms > begun);
    page_route_close(&p->route);
}

PL_TEST(only_a_whole_picture_of_the_router_is_sent)
{
    OWNED(end_page) page *p = begin_page("2x2");
    const pl_page_question q = {.url = "/router.json"};
    OWNED(pl_buf_destroy) pl_buf out = {0};
    pl_copy_text(p->r.dir, sizeof p->r.dir, in_scratch("pictured"));
    assert_ok(pl_make_folders(p->r.dir));
    assert_int_equal(page_answer(p, &q, &out), PL_ERR_NOT_FOUND);
    write_text("pictured/router_map.json", "{\"x\":[1,2");
    assert_int_equal(page_answer(p, &q, &out), PL_ERR_DAMAGED);
    write_text("pictured/router_map.json", "[1]");
    pl_buf_clear(&out);
    assert_int_equal(page_answer(p, &q, &out), PL_ERR_DAMAGED);
    write_text("pictured/router_map.json", "{\"x\":[1]}");
    pl_buf_clear(&out);
    assert_ok(page_answer(p, &q, &out));
    assert_int_equal(out.len, strlen("{\"x\":[1]}"));
    /* A run with 16,384 paths and 16 domains has this many numbers. */
    enum { NUMBERS = 16 * 16384 };
    OWNED(pl_buf_destroy) pl_buf large = {0};
    pl_buf_printf(&large, "{\"shard_tokens\":[0");
    for (int i = 0; i < NUMBERS; i++)
        pl_buf_printf(&large, ",1234567890");
    pl_buf_printf(&large, "]}");
    write_text("pictured/router_map.json", pl_buf_text(&large));
    pl_buf_clear(&out);
    assert_ok(page_answer(p, &q, &out));
    assert_int_equal(out.len, large.len);
}

PL_SUITE(make_scratch, remove_scratch)
