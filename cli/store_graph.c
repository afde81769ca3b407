/* pathloom store log --graph: draws from which versions a version was made, the newest
 * first. Each line of descent has a lane (a column of the drawing). */
#include "cli/store_print.h"

/* LANES_MAX: largest number of lanes that are drawn. A version that needs another lane
 * is named, but its sources are not followed. */
enum { LANES_MAX = 32, SHOWN = 8, ROWS_MAX = 1 << 20 };

typedef struct lane {
    bool live;
    pl_version v; /* the version that is drawn next in this lane */
    pl_lineage from;
} lane;

typedef struct graph {
    store_call *call;
    lane lanes[LANES_MAX];
    int n, n_rows;
} graph;

static pl_status enter_lane(graph *g, int at, const pl_module_at *source)
{
    lane *l = &g->lanes[at];
    pl_version_clear(&l->v);
    PL_CHECK(
        pl_store_get_version(g->call->store, source->module, source->number, &l->v));
    l->live = true;
    g->n = at >= g->n ? at + 1 : g->n;
    return pl_lineage_of(g->call->store, &l->v, &l->from);
}

/* Returns the lane whose version was committed last. If a commit has several versions
 * of one module, the version with the highest number is drawn first. */
static int choose_lane(const graph *g)
{
    int best = -1;
    for (int i = 0; i < g->n; i++) {
        const pl_version *v = &g->lanes[i].v, *b = &g->lanes[best < 0 ? 0 : best].v;
        if (g->lanes[i].live &&
            (best < 0 || v->wall_ms > b->wall_ms ||
             (v->wall_ms == b->wall_ms && strcmp(v->module, b->module) == 0 &&
              v->number > b->number)))
            best = i;
    }
    return best;
}

static void print_node(const graph *g, int at)
{
    const lane *l = &g->lanes[at];
    char name[PL_NAME_MAX];
    row r = row_begin(g->call->json);
    for (int i = 0; i < g->n; i++)
        row_say(&r, "%s ", i == at ? "*" : g->lanes[i].live ? "|" : " ");
    row_text(&r, "module", l->v.module, "%s");
    row_count(&r, "version", l->v.number, "@%s");
    row_hash(&r, "hash", &l->v.params, "  %s");
    row_text(&r, "method", l->v.method, "  %s");
    row_int(&r, "lane", at, NULL);
    if (l->from.kind == PL_LINEAGE_ROUND) {
        row_int(&r, "contributors", l->v.n_contributions, "  %s updates:");
        for (int i = 0; i < l->v.n_contributions && i < SHOWN; i++)
            row_say(&r, "%s %s %s", i > 0 ? "," : "", l->v.contributions[i].worker,
                    path_text(g->call, l->v.module, l->v.contributions[i].path, name));
        row_flag(&r, NULL, l->v.n_contributions > SHOWN, ", ...");
    } else if (l->from.kind == PL_LINEAGE_BEGIN || l->from.kind == PL_LINEAGE_MERGE) {
        row_say(&r, " of");
        for (int i = 0; i < l->from.n; i++)
            row_say(&r, "%s %s@%llu", i > 0 ? "," : "", l->from.sources[i].module,
                    (unsigned long long)l->from.sources[i].number);
    }
    row_list(&r, "sources");
    for (int i = 0; g->call->json && i < l->from.n; i++) {
        row item = row_item(&r);
        row_text(&item, "module", l->from.sources[i].module, NULL);
        row_count(&item, "version", l->from.sources[i].number, NULL);
        row_finish(&item);
    }
    row_finish(&r);
}

/* Draws a line from lane `at` to each lane in `ends`; these lanes are to the right.
 * Each line ends with `end`. If lane `at` has ended, the line bends to the right. */
static void print_branch(const graph *g, int at, const bool *ends, char end)
{
    row r = row_begin(false);
    int last = at, n = 0;
    for (int i = 0; i < g->n; i++) {
        last = i > at && ends[i] ? i : last;
        n = g->lanes[i].live ? i + 1 : n;
    }
    for (int i = 0; i < (n > last ? n : last + 1) && last > at; i++) {
        const bool between = i > at && i <= last;
        if (i > 0)
            row_say(&r, "%c", between ? '-' : ' ');
        row_say(&r, "%c",
                between && ends[i] ? end
                : g->lanes[i].live ? '|'
                : i == at          ? '`'
                : between          ? '-'
                                   : ' ');
    }
    if (g->call->json)
        pl_buf_clear(&r.text);
    row_finish(&r);
}

static int find_lane(const graph *g, int except, const pl_module_at *source)
{
    for (int i = 0; i < g->n; i++)
        if (i != except && g->lanes[i].live && g->lanes[i].v.number == source->number &&
            strcmp(g->lanes[i].v.module, source->module) == 0)
            return i;
    return -1;
}

pl_status store_graph(store_call *call, const char *module, uint64_t number)
{
    graph *g = pl_alloc(sizeof *g);
    pl_module_at start = {.number = number};
    pl_status status = PL_OK;
    pl_copy_text(start.module, sizeof start.module, module);
    g->call = call;
    PL_TRY(enter_lane(g, 0, &start));
    for (int at; (at = choose_lane(g)) >= 0;) {
        /* Damaged records of merges may name each other in a circle. */
        if (++g->n_rows > ROWS_MAX)
            PL_TRY(pl_fail(PL_ERR_DAMAGED, "the descent of %s@%llu does not end",
                           start.module, (unsigned long long)start.number));
        print_node(g, at);
        /* Replaces the lane's version by the first of its sources, and opens a lane for
         * each further source. A source that another lane already waits for gets no new
         * lane. */
        const pl_lineage from = g->lanes[at].from;
        bool opened[LANES_MAX] = {false}, joined[LANES_MAX] = {false};
        g->lanes[at].live = false;
        for (int i = 0; i < from.n; i++) {
            int to = at;
            while (to < LANES_MAX && g->lanes[to].live)
                to++;
            if (to == LANES_MAX || find_lane(g, at, &from.sources[i]) >= 0)
                continue;
            PL_TRY(enter_lane(g, to, &from.sources[i]));
            opened[to] = true;
        }
        print_branch(g, at, opened, '.');
        const int other = from.n > 0 ? find_lane(g, at, &from.sources[0]) : -1;
        if (other < 0 || g->lanes[at].live)
            continue;
        joined[other > at ? other : at] = true;
        print_branch(g, other < at ? other : at, joined, other < at ? '\'' : '|');
    }
done:
    for (int i = 0; i < g->n; i++)
        pl_version_clear(&g->lanes[i].v);
    pl_free(g);
    return status;
}
