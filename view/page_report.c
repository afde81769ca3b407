/* Writes a report of a run as one HTML file without scripts (page.h): results, curves,
 * grids of paths and phases, versions, configuration, and the origin of the data. The
 * report needs no server, so a user can keep or send it. */
#include "view/run_history.h"
#include "view/html.h"
#include "view/page_internal.h"

#include <math.h>

enum { GRID_CELLS_MAX = 8192, ROWS_SHOWN = 200, VERSIONS_SHOWN = 600 };

static const char style[] =
    ":root{--paper:#fbfaf6;--ink:#1d1c1a;--soft:#5d5952;--line:#dedad0;--p0:#0a6cae;"
    "--p1:#c4500a;--p2:#0b7d5b;--p3:#ac4f86;--p4:#94690a;--p5:#2a86bd;--p6:#6652a8;"
    "--p7:#6b7176}\n"
    "@media (prefers-color-scheme:dark){:root{--paper:#15161a;--ink:#ebe8e1;"
    "--soft:#a9a59b;--line:#31343b;--p0:#5aaee6;--p1:#f08a4b;--p2:#3dbf95;--p3:#e092c0;"
    "--p4:#e0b040;--p5:#8fd0f5;--p6:#a997ea;--p7:#a3a9ae}}\n"
    "html{font:15px/1.5 ui-sans-serif,system-ui,sans-serif;color:var(--ink);"
    "background:var(--paper)}\n"
    "body{margin:0 auto;max-width:60rem;padding:1.5rem;"
    "font-variant-numeric:tabular-nums}\n"
    "h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2.4rem}\n"
    ".sub{color:var(--soft);font-size:.86rem}.scroll{overflow-x:auto}\n"
    "table{border-collapse:collapse;font-size:.86rem;width:100%}\n"
    "th{text-align:left;font-weight:400;color:var(--soft)}\n"
    "td,th{padding:.2rem .8rem .2rem 0;border-top:1px solid var(--line);"
    "vertical-align:top}\n"
    ".n{text-align:right}.n,.w{white-space:nowrap}\n"
    "code,pre{font-family:ui-monospace,monospace;font-size:.8rem;"
    "overflow-wrap:anywhere}\n"
    "pre{white-space:pre-wrap}\n"
    "svg{display:block;width:100%;min-width:36rem}svg "
    "text{font-size:12px;fill:var(--soft)}\n"
    ".axis{stroke:var(--line)}.line{fill:none;stroke-width:2}\n"
    ".weak{stroke-width:1.25;stroke-dasharray:4 3}\n";

/* ---- tables ---- */
/* Begins a table. The names of the columns are separated by '|'; a '#' at the beginning
 * of a name marks a column of numbers. */
static void begin_table(pl_buf *out, const char *columns)
{
    pl_buf_printf(out, "<div class=\"scroll\"><table>\n<thead><tr>");
    for (const char *at = columns; *at;) {
        const size_t n = strcspn(at, "|");
        const bool number = *at == '#';
        pl_buf_printf(out, "<th scope=\"col\"%s>%.*s</th>",
                      number ? " class=\"n\"" : "", (int)n - number, at + number);
        at += n + (at[n] == '|');
    }
    pl_buf_printf(out, "</tr></thead>\n<tbody>\n");
}

static void cell_text(pl_buf *out, const char *text)
{
    pl_buf_printf(out, "<td>");
    html_text(out, text);
    pl_buf_printf(out, "</td>");
}

static void cell_real(pl_buf *out, double value, int places)
{
    if (isfinite(value))
        pl_buf_printf(out, "<td class=\"n\">%.*f</td>", places, value);
    else
        pl_buf_printf(out, "<td class=\"n\">–</td>");
}

static void cell_count(pl_buf *out, double value)
{
    char text[16];
    pl_buf_printf(out, "<td class=\"n\">%s</td>", pl_human_count(value, text));
}

/* ---- results ---- */
static void write_results(const page *p, pl_buf *out)
{
    const pl_json *arms = pl_json_get(p->report, "arms");
    pl_buf_printf(out, "<h2>Results</h2>\n");
    if (pl_json_count(arms) == 0) {
        pl_buf_printf(out, "<p>The run is not evaluated yet. To evaluate it: "
                           "<code>pathloom eval --run RUN</code></p>\n");
        return;
    }
    begin_table(out, "Model|#Bits per byte|#Perplexity|#Mixture lower by %|#±|#Tokens|"
                     "#Training seconds|Finished");
    for (size_t i = 0; i < pl_json_count(arms); i++) {
        const pl_json *a = pl_json_at(arms, i);
        const bool rival = strcmp(pl_json_get_text(a, "arm"), "mix") != 0;
        char time[16];
        pl_buf_printf(out, "<tr>");
        cell_text(out, pl_json_get_text(a, "title"));
        cell_real(out, pl_json_get_real(a, "bits_per_byte"), 4);
        cell_real(out, pl_json_get_real(a, "ppl"), 3);
        cell_real(out, rival ? pl_json_get_real(a, "answer_percent_below") : NAN, 2);
        cell_real(out, rival ? pl_json_get_real(a, "answer_percent_error") : NAN, 2);
        cell_count(out, pl_json_get_real(a, "tokens_total"));
        pl_buf_printf(out, "<td class=\"n\">%s</td>",
                      pl_human_seconds(pl_json_get_real(a, "train_seconds"), time));
        cell_text(out, pl_json_get_bool(a, "finished") ? "yes" : "no");
        pl_buf_printf(out, "</tr>\n");
    }
    pl_buf_printf(out, "</tbody></table></div>\n");
    pl_buf_printf(out,
                  "<p class=\"sub\">Scored on %.0f held-out documents. Fewer bits per "
                  "byte are better.</p>\n",
                  pl_json_get_real(p->report, "eval_documents"));
}

/* ---- curves ---- */
static bool has_curve(const phase_arm *a)
{
    return a->arm.n_scored == 0 && a->arm.inner.phases > 0;
}

/* Appends the arm's values to a line of `all` phases; `before` were trained earlier. */
static void add_points(const history *rows, const char *arm, int64_t before,
                       int64_t all, bool held, html_line *l)
{
    for (size_t i = 0; i < rows->n; i++) {
        const history_row *r = &rows->rows[i];
        if (strcmp(r->arm, arm) != 0 || (held && !(r->bits > 0)))
            continue;
        l->xy[2 * l->n] = 100.0 *
                          (double)(before + r->phase + (held ? 0 : r->n_phases)) /
                          (double)all;
        l->xy[2 * l->n++ + 1] = held ? r->bits : r->loss;
    }
}

/* Draws one line per arm; the chapters of the mixture are one line, which steps back
 * where a chapter repeats phases of the chapter before. With `held`: the held-out bits
 * per byte at the beginning of each phase, if any phase was scored. Otherwise: the
 * training loss of each phase, at the end of the phase. With streaming, a row's phase
 * is a round of all fragments, so that a run has train.phases of them. */
static void write_curve(const page *p, const history *rows, bool held, pl_buf *out)
{
    bool has_values = !held;
    config_chapter chapters[CONFIG_CHAPTERS_MAX];
    int n_chapters = 0;
    for (size_t i = 0; i < rows->n; i++)
        has_values = has_values || rows->rows[i].bits > 0;
    if (!has_values || config_chapters(&p->r.cfg, chapters, &n_chapters) != PL_OK)
        return;
    pl_buf_printf(
        out,
        held ? "<h2>Held-out text</h2>\n<p class=\"sub\">Bits per byte of a sample of "
               "the held-out text; lower is better.</p>\n"
             : "<h2>Training loss</h2>\n<p class=\"sub\">Nats per token, mean over all "
               "paths of an arm. Dashed lines are arms outside the mixture.</p>\n");
    html_line *lines = pl_alloc((PHASE_ARMS_MAX + 1) * sizeof *lines), *mix = lines;
    size_t n = 1;
    *mix =
        (html_line){.name = "mix", .xy = pl_alloc(2 * (rows->n + 1) * sizeof *mix->xy)};
    for (int c = 0; c < n_chapters; c++)
        for (int a = 0; a < p->history.n_arms; a++) {
            const phase_arm *arm = &p->history.arms[a];
            if (has_curve(arm) && pl_arm_chapter(arm->arm.name) == c)
                add_points(rows, arm->arm.name, chapters[c].from,
                           chapters[n_chapters - 1].end, held, mix);
        }
    for (int a = 0; a < p->history.n_arms; a++) {
        const phase_arm *arm = &p->history.arms[a];
        html_line *l = &lines[n];
        if (!has_curve(arm) || pl_arm_chapter(arm->arm.name) >= 0)
            continue;
        *l = (html_line){.colour = (int)n++,
                         .weak = true,
                         .xy = pl_alloc(2 * (rows->n + 1) * sizeof *l->xy)};
        pl_copy_text(l->name, sizeof l->name, arm->arm.name);
        add_points(rows, l->name, 0, arm->arm.inner.phases, held, l);
    }
    html_chart(out,
               held ? "Bits per byte of the held-out text while each arm trains"
                    : "Mean training loss of each arm in nats per token",
               lines, n);
    for (size_t i = 0; i < n; i++)
        pl_free(lines[i].xy);
    pl_free(lines);
}

/* ---- the grid ---- */
static void write_grid(const page *p, const phase_arm *a, pl_buf *out)
{
    size_t n_slots = 0, join = 1;
    const size_t n_rows = (size_t)a->n_series;
    if (!has_curve(a))
        return;
    pl_buf_printf(out, "<h2>Paths and phases of ");
    html_text(out, a->arm.name);
    pl_buf_printf(out, "</h2>\n");
    for (size_t r = 0; r < n_rows; r++)
        n_slots = a->series[r].n_cells > n_slots ? a->series[r].n_cells : n_slots;
    while (n_rows * ((n_slots + join - 1) / join) > GRID_CELLS_MAX && join < n_slots)
        join++;
    const size_t n_columns = (n_slots + join - 1) / join;
    if (n_columns == 0)
        return;
    double *values = pl_alloc(n_rows * n_columns * sizeof *values);
    char(*names)[PL_NAME_MAX] = pl_alloc(n_rows * sizeof *names);
    for (size_t r = 0; r < n_rows; r++) {
        pl_copy_text(names[r], sizeof names[r], a->series[r].name);
        for (size_t c = 0; c < n_columns; c++) {
            pl_work all = {0};
            int n = 0;
            for (size_t k = c * join; k < (c + 1) * join; k++) {
                const phase_cell *cell = phase_series_at(&a->series[r], k);
                pl_work_join(&all, n, &cell->work, cell->n);
                n += cell->n;
            }
            values[r * n_columns + c] = all.n_tokens > 0 ? all.loss : NAN;
        }
    }
    const html_grid grid = {.label = "Training loss of each path in each phase",
                            .names = (const char(*)[PL_NAME_MAX])names,
                            .values = values,
                            .n_rows = n_rows,
                            .n_columns = n_columns};
    double range[2];
    html_draw_grid(out, &grid, range);
    if (isfinite(range[0]))
        pl_buf_printf(
            out,
            "<p class=\"sub\">Training loss from %.3f (dark) to %.3f (pale) nats "
            "per token. Each row is a path; each column is %lld phase%s.</p>\n",
            range[0], range[1], (long long)join * p->history.stride,
            (int64_t)join * p->history.stride == 1 ? "" : "s");
    pl_free_all(values, names);
}

/* ---- versions ---- */
typedef struct version_table {
    pl_buf *out;
    size_t n;
} version_table;

static pl_status write_version_row(void *context, const pl_version *v)
{
    version_table *t = context;
    char hash[PL_HASH_TEXT];
    if (t->n++ >= VERSIONS_SHOWN)
        return PL_OK;
    pl_hash_format(&v->params, hash);
    pl_buf_printf(t->out, "<tr>");
    cell_text(t->out, v->module);
    pl_buf_printf(t->out, "<td class=\"n\">%llu</td>", (unsigned long long)v->number);
    cell_text(t->out, v->method);
    cell_count(t->out, (double)v->n_params);
    pl_buf_printf(t->out, "<td class=\"w\"><code>%.12s</code></td>", hash);
    char text[PL_TIME_TEXT] = "";
    pl_format_time(v->wall_ms / 1000, false, text);
    pl_buf_printf(t->out, "<td class=\"w\">%s</td>", text);
    pl_buf_printf(t->out, "</tr>\n");
    return PL_OK;
}

/* ---- configuration and provenance ---- */
/* Appends a file of the run, if the file exists and is not too large. */
static void write_file(const page *p, const char *name, pl_buf *out)
{
    enum { FILE_MAX = 256 << 10 };
    char path[PL_PATH_MAX];
    pl_buf text = {0};
    if (pl_path_exists(run_file(&p->r, name, path)) &&
        pl_read_file(path, &text) == PL_OK && text.len <= FILE_MAX) {
        pl_buf_printf(out, "<h3>%s</h3>\n<pre>", name);
        html_text(out, pl_buf_text(&text));
        pl_buf_printf(out, "</pre>\n");
    }
    pl_buf_destroy(&text);
}

pl_status page_report(const char *dir, pl_buf *out)
{
    page *p = NULL;
    history rows = {.n = 0};
    char logs[PL_PATH_MAX];
    pl_status status = page_open(dir, NULL, NULL, &p);
    PL_TRY(status);
    while (page_tick(p, false))
        ;
    if (p->trouble[0])
        PL_TRY(pl_fail(PL_ERR_BUSY, "the store cannot be read now: %s", p->trouble));
    if (!p->store)
        PL_TRY(pl_fail(PL_ERR_NOT_FOUND,
                       "the run in %s has no store yet; `pathloom train` makes it",
                       p->r.dir));
    PL_TRY(history_make(&p->history, p->store, run_file(&p->r, "log", logs), &rows));
    const char *slash = strrchr(p->r.dir, '/');
    const char *name = slash && slash[1] ? slash + 1 : p->r.dir;
    pl_buf_printf(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta "
                       "charset=\"utf-8\">\n<meta name=\"viewport\" "
                       "content=\"width=device-width, initial-scale=1\">\n<title>");
    html_text(out, name);
    pl_buf_printf(out, "</title>\n<style>\n%s", style);
    for (int i = 0; i < 8; i++)
        pl_buf_printf(
            out, ".line.s%d{stroke:var(--p%d)}.name.s%d,.dot.s%d{fill:var(--p%d)}\n", i,
            i, i, i, i);
    pl_buf_printf(out, "</style>\n</head>\n<body>\n<h1>");
    html_text(out, name);
    pl_buf_printf(out, "</h1>\n");
    char each[16], all[16], tokens[16], time[16];
    double n_tokens = 0, from = INFINITY, to = -INFINITY;
    for (size_t i = 0; i < rows.n; i++) {
        n_tokens += rows.rows[i].tokens;
        from = fmin(from, (double)rows.rows[i].from_ms);
        to = fmax(to, (double)rows.rows[i].at_ms);
    }
    pl_buf_printf(out,
                  "<p>A %s mixture: %d paths of %s parameters each, %s parameters in "
                  "all. The finished phases trained on %s tokens, in %s from the first "
                  "lease to the last commit. The modules have %llu versions. %s.</p>\n",
                  p->r.cfg.levels, pl_topology_n_paths(p->r.topology),
                  pl_human_count((double)pl_topology_path_params(p->r.topology), each),
                  pl_human_count((double)pl_topology_total_params(p->r.topology), all),
                  pl_human_count(n_tokens, tokens),
                  pl_human_seconds(to > from ? 1e-3 * (to - from) : 0, time),
                  (unsigned long long)p->history.n_versions,
                  p->finished ? "The run is finished" : "The run is not finished");
    pl_buf_printf(out, "<p class=\"sub\">Written by Pathloom " PL_VERSION ".</p>\n");
    write_results(p, out);
    write_curve(p, &rows, false, out);
    write_curve(p, &rows, true, out);
    for (int a = 0; a < p->history.n_arms; a++)
        if (pl_arm_chapter(p->history.arms[a].arm.name) >= 0)
            write_grid(p, &p->history.arms[a], out);
    version_table t = {.out = out};
    pl_buf_printf(out, "<h2>Versions</h2>\n<p class=\"sub\">The newest version of each "
                       "module.</p>\n");
    begin_table(out, "Module|#Version|Made by|#Parameters|Hash|Committed");
    PL_TRY(pl_store_each_head(p->store, "", write_version_row, &t));
    pl_buf_printf(out, "</tbody></table></div>\n");
    if (t.n > VERSIONS_SHOWN)
        pl_buf_printf(out,
                      "<p class=\"sub\">%zu more modules are not listed here. All "
                      "modules: <code>pathloom store ls --run RUN</code></p>\n",
                      t.n - VERSIONS_SHOWN);
    const phase_history *h = &p->history;
    char hash[PL_HASH_TEXT];
    pl_hash_format(&p->r.hash, hash);
    pl_buf_printf(out,
                  "<h2>Origin</h2>\n<p>The hash of the configuration is "
                  "<code>%s</code>. The report shows commit %llu of the store. The "
                  "file data.json below has the hashes of corpus and tokenizer.</p>\n",
                  hash, (unsigned long long)p->sequence);
    pl_buf_printf(out, "<p>%d workers contributed updates%s", h->n_workers,
                  h->n_workers > 0 ? ": " : ".");
    for (int i = 0; i < h->n_workers && i < ROWS_SHOWN; i++) {
        pl_buf_printf(out, i > 0 ? ", " : "");
        html_text(out, h->workers[i]);
    }
    pl_buf_printf(out, h->n_workers > ROWS_SHOWN ? ", and more.</p>\n" : "</p>\n");
    write_file(p, "data/data.json", out);
    pl_buf_printf(out, "<h2>Configuration</h2>\n");
    write_file(p, "run.yaml", out);
    pl_buf_printf(out, "</body>\n</html>\n");
done:
    history_clear(&rows);
    page_close(&p);
    return status;
}
