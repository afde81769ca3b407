/* folder: view; label: unit */
/* Tests the history of a run. It must have one row per finished phase of each arm, in
 * the order of time, and must count audits and restarts of processes in the right row.
 * Also tests parts of reports: text must not become markup. */
#include "view/run_history.h"
#include "view/html.h"
#include "view/page_heat.h"
#include "job/job.h"
#include "tests/support/corpus_support.h"
#include "tests/support/store_fixture.h"

#include <math.h>

typedef struct bench {
    phase_history h;
    pl_store *store;
    char logs[PL_PATH_MAX];
    history rows;
} bench;

static void add_arm(phase_history *h, const char *name, const char *levels)
{
    char pair[64];
    const char *sets[] = {pair, "model.width=48"};
    config c;
    pl_shape shape;
    pl_topology_spec spec;
    pl_arm arm = {.n_shards = 0};
    pl_topology *t = NULL;
    snprintf(pair, sizeof pair, "topology.levels=%s", levels);
    assert_ok(config_build(NULL, sets, 2, &c));
    assert_ok(config_shape(&c, &shape));
    assert_ok(config_spec(&c, &spec));
    assert_ok(pl_topology_create(&shape, &spec, &t));
    pl_copy_text(arm.name, sizeof arm.name, name);
    phase_history_add_arm(h, &arm, t);
}

static void begin_bench(bench *b, const char *name)
{
    char folder[PL_PATH_MAX];
    memset(b, 0, sizeof *b);
    pl_copy_text(folder, sizeof folder, in_scratch(name));
    assert_ok(pl_make_folders(folder));
    pl_join(b->logs, folder, "log");
    assert_ok(pl_make_folders(b->logs));
    char store[PL_PATH_MAX];
    b->store = open_store(pl_join(store, folder, "store"), PL_STORE_CREATE);
    phase_history_begin(&b->h);
    add_arm(&b->h, "mix", "2x2");
    add_arm(&b->h, "dense", "1");
}

static void end_bench(bench *b)
{
    history_clear(&b->rows);
    phase_history_clear(&b->h);
    pl_store_close(&b->store);
}

/* Adds a version of a module, which was committed at `ms` and has the update of one
 * path in one phase. */
static void add_update(bench *b, const char *module, int64_t path, int64_t phase,
                       int64_t ms, double loss)
{
    static uint64_t token;
    pl_contribution c = {.worker = "worker-1",
                         .path = path,
                         .phase = phase,
                         .work.n_tokens = 1000,
                         .work.loss = loss,
                         .work.seconds = 2,
                         .token = ++token};
    pl_version v = {.number = (uint64_t)phase + 1,
                    .method = "nesterov",
                    .wall_ms = ms,
                    .n_contributions = 1,
                    .contributions = &c};
    pl_copy_text(v.module, sizeof v.module, module);
    phase_history_add(&b->h, &v);
}

static void put_audit(bench *b, const char *path, int64_t phase, pl_verdict verdict)
{
    OWNED(pl_buf_destroy) pl_buf text = {0};
    char name[PL_TEXT_MAX];
    OWNED(free_memory) pl_audit *audit = pl_alloc(sizeof *audit);
    pl_copy_text(audit->path, sizeof audit->path, path);
    audit->phase = phase;
    audit->verdict = verdict;
    audit->n = 2;
    pl_copy_text(audit->results[0].worker, PL_TEXT_MAX, "worker-1");
    pl_copy_text(audit->results[1].worker, PL_TEXT_MAX, "worker-2");
    pl_audit_name(audit, name);
    pl_audit_write(audit, &text);
    commit_ref(b->store, name, pl_buf_text(&text));
}

static const history_row *row_of(const bench *b, const char *arm, int64_t phase)
{
    for (size_t i = 0; i < b->rows.n; i++)
        if (strcmp(b->rows.rows[i].arm, arm) == 0 && b->rows.rows[i].phase == phase)
            return &b->rows.rows[i];
    fail_msg("there is no row of %s phase %d", arm, (int)phase);
    return NULL;
}

/* The last of the four paths of `mix` finishes phase 0 at second 10, and phase 1 at
 * second 20. Path 3 does not finish phase 2. The path of `dense` finishes phase 0 at
 * second 15. */
static void train_a_little(bench *b)
{
    for (int64_t phase = 0; phase < 3; phase++)
        for (int64_t path = 0; path < 4 - (phase == 2); path++)
            add_update(b, path < 2 ? "mix/L1.E0" : "mix/L1.E1", path, phase,
                       10000 * (phase + 1) - 100 * (3 - path),
                       5 - (double)phase + 0.1 * (double)path);
    add_update(b, "dense/L1.E0", 0, 0, 15000, 4.5);
}

PL_TEST(a_row_per_finished_phase_in_the_order_of_time)
{
    OWNED(end_bench) bench b;
    begin_bench(&b, "phases");
    train_a_little(&b);
    assert_ok(history_make(&b.h, b.store, b.logs, &b.rows));
    assert_int_equal(b.rows.n, 3); /* phase 2 has no row, because it is not finished */
    assert_string_equal(b.rows.rows[1].arm, "dense");
    const history_row *r = row_of(&b, "mix", 1);
    assert_ptr_equal(r, &b.rows.rows[2]);
    assert_int_equal(r->n_done, 4);
    assert_int_equal(r->n_paths, 4);
    assert_int_equal(r->n_phases, 1);
    assert_int_equal(r->from_ms, 20000 - 300 - 2000);
    assert_int_equal(r->at_ms, 20000);
    assert_int_equal(r->n_versions, 4);
    assert_true(r->tokens == 4000 && fabs(r->loss - 4.15) < 1e-9 && r->bits == 0);
    assert_true(fabs(history_rate(r) - 4000 / 2.3) < 1e-6);
}

/* A finished run must have a row for its last phase, even if the phase lacks the update
 * of a path. (With a quorum, an update can come too late.) */
PL_TEST(the_last_phase_of_a_finished_run_has_a_row)
{
    OWNED(end_bench) bench b;
    begin_bench(&b, "finished");
    train_a_little(&b);
    commit_ref(b.store, "finished", "2x2");
    assert_ok(history_make(&b.h, b.store, b.logs, &b.rows));
    assert_int_equal(b.rows.n, 4);
    assert_int_equal(row_of(&b, "mix", 2)->n_done, 3);
    assert_int_equal(row_of(&b, "mix", 2)->n_paths, 4);
}

PL_TEST(audits_are_counted_in_their_phase)
{
    OWNED(end_bench) bench b;
    begin_bench(&b, "audits");
    train_a_little(&b);
    put_audit(&b, "mix/p00.r0", 0, PL_VERDICT_AGREED);
    put_audit(&b, "mix/p01.r0", 1, PL_VERDICT_ODD);
    put_audit(&b, "mix/p10.r0", 1, PL_VERDICT_UNCHECKED);
    /* This phase was not trained yet. */
    put_audit(&b, "mix/p10.r0", 7, PL_VERDICT_AGREED);
    put_audit(&b, "mixture/p10.r0", 0, PL_VERDICT_ODD); /* of an unknown arm */
    assert_ok(history_make(&b.h, b.store, b.logs, &b.rows));
    assert_int_equal(row_of(&b, "mix", 0)->n_audits, 1);
    assert_int_equal(row_of(&b, "mix", 0)->n_odd, 0);
    assert_int_equal(row_of(&b, "mix", 1)->n_audits, 2);
    assert_int_equal(row_of(&b, "mix", 1)->n_odd, 1);
    assert_int_equal(row_of(&b, "dense", 0)->n_audits, 0);
}

/* Restarts and expired leases in the hub's log are counted once, in the first row that
 * ends after them. The first time that a worker joins is not a restart. */
PL_TEST(ends_of_processes_are_counted_once)
{
    OWNED(end_bench) bench b;
    begin_bench(&b, "events");
    train_a_little(&b);
    char path[PL_PATH_MAX];
    static const char text[] =
        "1970-01-01T00:00:01.000Z info hub hub.ready address=x\n"
        "1970-01-01T00:00:02.000Z info hub worker.joined worker=worker-1\n"
        "1970-01-01T00:00:03.000Z info hub worker.joined worker=worker-2\n"
        "1970-01-01T00:00:11.000Z info hub worker.joined worker=worker-2\n"
        "1970-01-01T00:00:12.000Z warn hub lease.expired count=2\n"
        "1970-01-01T00:00:13.000Z warn hub lease.expired count=-7\n"
        "1970-01-01T00:00:16.000Z info hub hub.ready address=x\n"
        "1970-01-01T00:00:17.000Z warn hub home.restarted epoch=2\n"
        "1970-01-01T00:00:59.000Z warn hub lease.expired count=1\n";
    assert_ok(pl_replace_file(pl_join(path, b.logs, "hub.log"), text, strlen(text)));
    assert_ok(history_make(&b.h, b.store, b.logs, &b.rows));
    assert_int_equal(row_of(&b, "mix", 0)->n_restarts, 0);
    assert_int_equal(row_of(&b, "dense", 0)->n_restarts, 1);
    assert_int_equal(row_of(&b, "dense", 0)->n_expired, 2);
    assert_int_equal(row_of(&b, "mix", 1)->n_restarts, 2);
    assert_int_equal(row_of(&b, "mix", 1)->n_expired, 0);
}

/* When the hub restarts, all workers join again. Only w-2 is then a new process,
 * because its process id has changed. */
PL_TEST(a_hub_that_restarts_is_one_restart)
{
    OWNED(end_bench) bench b;
    begin_bench(&b, "rejoin");
    train_a_little(&b);
    char path[PL_PATH_MAX];
    static const char text[] = "1970-01-01T00:00:01.000Z info hub hub.ready address=x\n"
                               "1970-01-01T00:00:02.000Z info hub worker.joined "
                               "worker=w-1 device=\"a\" process=7\n"
                               "1970-01-01T00:00:03.000Z info hub worker.joined "
                               "worker=w-2 device=\"a\" process=8\n"
                               "1970-01-01T00:00:16.000Z info hub hub.ready address=x\n"
                               "1970-01-01T00:00:17.000Z info hub worker.joined "
                               "worker=w-1 device=\"a\" process=7\n"
                               "1970-01-01T00:00:18.000Z info hub worker.joined "
                               "worker=w-2 device=\"a\" process=9\n";
    assert_ok(pl_replace_file(pl_join(path, b.logs, "hub.log"), text, strlen(text)));
    assert_ok(history_make(&b.h, b.store, b.logs, &b.rows));
    assert_int_equal(row_of(&b, "mix", 0)->n_restarts, 0);
    assert_int_equal(row_of(&b, "mix", 1)->n_restarts, 2); /* the hub and w-2 */
}

/* The store of another user may have arms with any names. In CSV, such a name must not
 * become a formula, a second column or a control sequence. */
PL_TEST(a_name_is_no_formula_and_no_second_column)
{
    OWNED(end_bench) bench b;
    OWNED(pl_buf_destroy) pl_buf csv = {0};
    begin_bench(&b, "formula");
    add_arm(&b.h, "=1+\"x\",\x1b[2J", "1");
    add_arm(&b.h, "a-b", "1");
    add_update(&b, "=1+\"x\",\x1b[2J/L1.E0", 0, 0, 1000, 4);
    add_update(&b, "a-b/L1.E0", 0, 0, 2000, 4);
    assert_ok(history_make(&b.h, b.store, b.logs, &b.rows));
    history_write(&b.rows, false, &csv);
    const char *text = pl_buf_text(&csv);
    assert_non_null(strstr(text, "Z,\"'=1+\"\"x\"\","));
    assert_non_null(strstr(text, "Z,a-b,0,"));
    assert_null(strchr(text, '\x1b'));
}

PL_TEST(a_long_history_is_thinned_and_loses_nothing)
{
    enum { PHASES = 40000 };
    OWNED(end_bench) bench b;
    double tokens = 0;
    int64_t phases = 0, versions = 0, before = -1;
    begin_bench(&b, "long");
    for (int64_t phase = 0; phase < PHASES; phase++)
        add_update(&b, "dense/L1.E0", 0, phase, 1000 * phase, 4);
    assert_ok(history_make(&b.h, b.store, b.logs, &b.rows));
    assert_true(b.rows.n <= PHASE_CELLS_MAX && b.rows.n >= PHASES / 4);
    for (size_t i = 0; i < b.rows.n; i++) {
        const history_row *r = &b.rows.rows[i];
        assert_true(r->phase > before);
        before = r->phase;
        phases += r->n_phases;
        tokens += r->tokens;
        versions += r->n_versions;
    }
    assert_int_equal(phases, PHASES);
    assert_int_equal(versions, PHASES);
    assert_true(tokens == 1000.0 * PHASES);
}

static size_t count_text(const char *text, const char *word)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, word)); at++)
        n++;
    return n;
}

PL_TEST(all_forms_have_the_same_columns)
{
    OWNED(end_bench) bench b;
    OWNED(pl_buf_destroy) pl_buf csv = {0}, json = {0};
    begin_bench(&b, "forms");
    train_a_little(&b);
    assert_ok(history_make(&b.h, b.store, b.logs, &b.rows));
    history_write(&b.rows, false, &csv);
    history_write(&b.rows, true, &json);
    const char *text = pl_buf_text(&csv);
    assert_true(pl_starts_with(text, "time,arm,phase,phases,paths_done,paths,loss,"));
    assert_int_equal(count_text(text, "\n"), 4);
    const size_t commas = count_text(text, ",");
    assert_int_equal(commas, 4 * 15);
    assert_non_null(
        strstr(text, "\n1970-01-01T00:00:20Z,mix,1,1,4,4,4.1500,,4000,2.3000,1739,4,"));
    size_t at = 0, rows = 0;
    for (; at < json.len; rows++) {
        OWNED(pl_json_destroy) pl_json *o = NULL;
        const size_t n = strcspn((const char *)json.data + at, "\n");
        assert_ok(pl_json_parse((const char *)json.data + at, n, &o));
        assert_true(pl_json_get_real(o, "loss") > 0);
        assert_false(pl_json_number(pl_json_get(o, "bits_per_byte"), &(double){0}));
        at += n + 1;
    }
    assert_int_equal(rows, 3);
}

/* ---- pieces of a report ---- */
PL_TEST(text_of_a_report_is_no_markup)
{
    OWNED(pl_buf_destroy) pl_buf out = {0};
    html_text(&out, "<img src=x onerror=\"a\">'&\xff\xe2\x80\xae\x1b[1mé\n");
    assert_string_equal(pl_buf_text(&out),
                        "&#60;img src=x onerror=&#34;a&#34;&#62;&#39;&#38;\xef\xbf\xbd"
                        "[1mé\n");
    pl_buf_clear(&out);
    html_text(&out, "a\xef\xbf\xbf\xef\xbf\xbe\xef\xbf\xbd"); /* XML has no U+FFFF */
    assert_string_equal(pl_buf_text(&out), "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

/* A worker reports the loss, which may have any value. Values that are not finite must
 * leave a gap in the chart. On the axis of the line `large`, steps are smaller than the
 * distance between two floating-point numbers of this size. */
PL_TEST(a_chart_of_a_path_that_diverges_has_a_gap)
{
    OWNED(pl_buf_destroy) pl_buf out = {0};
    double gap[] = {0, 3, 25, NAN, 50, 2, 75, INFINITY, 100, NAN}, none[] = {0, NAN},
           large[] = {0, 17592186044416.0, 100, 17592186044416.0};
    const html_line lines[] = {{.name = "gap", .xy = gap, .n = 5},
                               {.name = "none", .xy = none, .n = 1},
                               {.name = "large", .xy = large, .n = 2}};
    html_chart(&out, "none", &lines[1], 1);
    assert_int_equal(out.len, 0);
    html_chart(&out, "gap", lines, 2);
    const char *text = pl_buf_text(&out);
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
    assert_int_equal(count_text(text, "<path class=\"s0 line\""), 1);
    assert_int_equal(count_text(strstr(text, "<path class=\"s0 line\""), "M"), 2);
    assert_non_null(strstr(text, ">gap 2.000</text>"));
    pl_buf_clear(&out);
    html_chart(&out, "large", &lines[2], 1);
    assert_in_range(count_text(pl_buf_text(&out), "class=\"axis\""), 1, 20);
}

PL_TEST(pictures_of_odd_numbers_are_finite)
{
    OWNED(pl_buf_destroy) pl_buf out = {0};
    double flat[] = {0, 3, 50, 3, 100, 3}, one[] = {100, 2};
    const char names[2][PL_NAME_MAX] = {"p00", "<b>"};
    const double values[] = {NAN, 2, 2, NAN};
    const html_line lines[] = {{.name = "a<b", .xy = flat, .n = 3},
                               {.name = "none"},
                               {.name = "one", .colour = 9, .xy = one, .n = 1}};
    html_chart(&out, "nothing", &lines[1], 1);
    assert_int_equal(out.len, 0);
    html_chart(&out, "flat", lines, 1);
    html_chart(&out, "all", lines, 3);
    const html_grid grid = {
        .label = "grid", .names = names, .values = values, .n_rows = 2, .n_columns = 2};
    double range[2];
    html_draw_grid(&out, &grid, range);
    assert_true(range[0] == 2 && range[1] == 2);
    const char *text = pl_buf_text(&out);
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
    assert_null(strstr(text, "<b"));
    assert_int_equal(count_text(text, "<rect"), 2);
    assert_int_equal(count_text(text, "<svg"), 3);
    assert_int_equal(count_text(text, "</svg>"), 3);
}

/* Adds a version of a module that belongs to no arm. Its record claims n_params
 * parameters, but the version has four. */
static void put_version(bench *b, uint64_t number, float value, uint64_t n_params,
                        pl_hash *parent)
{
    const float values[4] = {value, value, value, value};
    pl_txn *txn = begin(b->store);
    pl_version v = {.module = "other/L1.E0",
                    .number = number,
                    .parent = *parent,
                    .n_params = n_params};
    assert_ok(pl_txn_put_blob(txn, values, sizeof values, &v.params));
    *parent = v.params;
    assert_ok(pl_txn_put_version(txn, &v, (pl_keep){.updates = false}));
    assert_ok(pl_txn_commit(&txn));
}

PL_TEST(a_heat_map_of_too_many_values_is_refused)
{
    OWNED(end_bench) bench b;
    pl_json *heat = NULL;
    pl_hash parent = {{0}};
    begin_bench(&b, "changes");
    for (uint64_t number = 0; number < 4; number++)
        put_version(&b, number, (float)number, (uint64_t)1 << 30, &parent);
    assert_int_equal(page_heat_json(b.store, "other/L1.E0", 1, 3, &heat),
                     PL_ERR_UNSUPPORTED);
}

PL_SUITE(make_scratch, remove_scratch)
