/* Collects the versions of all modules in bounded memory (module_lineage.h). */
#include "history/module_lineage.h"
#include <math.h>
#include <string.h>

static lineage_line *take_line(module_lineage *g, const char *module)
{
    for (size_t i = 0; i < g->n_lines; i++) {
        /* versions come module by module, so the search begins at the last one */
        const size_t at = (g->newest + i) % g->n_lines;
        if (strcmp(g->lines[at].module, module) == 0) {
            g->newest = at;
            return &g->lines[at];
        }
    }
    g->lines = pl_grow(g->lines, (g->n_lines + 1) * sizeof *g->lines);
    g->newest = g->n_lines++;
    lineage_line *line = &g->lines[g->newest];
    memset(line, 0, sizeof *line);
    pl_copy_text(line->module, sizeof line->module, module);
    return line;
}

const lineage_line *module_lineage_find(const module_lineage *g, const char *module)
{
    for (size_t i = 0; i < g->n_lines; i++)
        if (strcmp(g->lines[i].module, module) == 0)
            return &g->lines[i];
    return NULL;
}

static void note_strand(lineage_node *node, int64_t path)
{
    if (path < 0 || path > UINT16_MAX)
        return; /* the record is damaged: no topology has that many paths */
    for (int i = 0; i < node->n_paths; i++)
        if (node->paths[i] == path)
            return;
    if (node->n_paths < LINEAGE_STRANDS)
        node->paths[node->n_paths++] = (uint16_t)path;
}

static void join_nodes(lineage_node *into, const lineage_node *later)
{
    if (later->n == 0)
        return;
    if (into->n == 0) {
        *into = *later;
        return;
    }
    const double tokens = into->tokens + later->tokens;
    if (later->tokens > 0)
        into->loss = (into->loss * into->tokens + later->loss * later->tokens) / tokens;
    into->tokens = tokens;
    into->last = later->last;
    into->wall_ms = later->wall_ms;
    into->n += later->n;
    into->n_contributions += later->n_contributions;
    into->rolled_back = into->rolled_back || later->rolled_back;
    for (int i = 0; i < later->n_paths; i++)
        note_strand(into, later->paths[i]);
}

static void halve_lines(module_lineage *g)
{
    g->stride *= 2;
    g->n_nodes = 0;
    for (size_t i = 0; i < g->n_lines; i++) {
        lineage_line *line = &g->lines[i];
        const size_t n = (line->n_nodes + 1) / 2;
        for (size_t k = 0; k < n; k++) {
            lineage_node both = line->nodes[2 * k];
            if (2 * k + 1 < line->n_nodes)
                join_nodes(&both, &line->nodes[2 * k + 1]);
            line->nodes[k] = both;
        }
        line->n_nodes = n;
        g->n_nodes += n;
    }
}

/* Finds or adds the node of a version. Returns NULL if there are more modules than
 * nodes, or if the version's number is out of range. */
static lineage_node *make_node(module_lineage *g, lineage_line *line, uint64_t number)
{
    const uint64_t most = UINT64_C(1) << 40;
    if (g->stride == 0)
        g->stride = 1;
    while (number < most && g->stride <= most) {
        const size_t slot = (size_t)(number / g->stride);
        if (slot < line->n_nodes)
            return &line->nodes[slot];
        const size_t more = slot + 1 - line->n_nodes;
        if (more <= LINEAGE_NODES_MAX && g->n_nodes + more <= LINEAGE_NODES_MAX) {
            line->nodes = pl_grow_items(line->nodes, line->n_nodes, slot + 1,
                                        sizeof *line->nodes);
            memset(line->nodes + line->n_nodes, 0, more * sizeof *line->nodes);
            line->n_nodes = slot + 1;
            g->n_nodes += more;
            return &line->nodes[slot];
        }
        halve_lines(g);
    }
    return NULL;
}

void module_lineage_add(module_lineage *g, const pl_version *v)
{
    uint64_t source;
    lineage_line *line = take_line(g, v->module);
    lineage_node *node = make_node(g, line, v->number);
    lineage_node one = {.last = v->number,
                        .from_ms = v->wall_ms,
                        .wall_ms = v->wall_ms,
                        .n = 1,
                        .rolled_back = pl_version_source(v, &source)};
    for (int i = 0; i < v->n_contributions && !one.rolled_back; i++) {
        const pl_contribution *c = &v->contributions[i];
        const double seconds =
            c->work.seconds >= 0 && c->work.seconds < 1e9 ? c->work.seconds : 0;
        const double tokens = fmin((double)c->work.n_tokens, 1e15);
        const int64_t from = v->wall_ms - (int64_t)(1e3 * seconds);
        one.from_ms = from < one.from_ms ? from : one.from_ms;
        one.loss += isfinite(c->work.loss) ? c->work.loss * tokens : 0;
        one.tokens += isfinite(c->work.loss) ? tokens : 0;
        one.n_contributions++;
        note_strand(&one, c->path);
    }
    one.loss = one.tokens > 0 ? one.loss / one.tokens : 0;
    if (node)
        join_nodes(node, &one);
    line->n_params = v->n_params;
    if (v->number + 1 > line->n_versions)
        line->n_versions = v->number + 1;
}

pl_json *module_lineage_nodes(const lineage_line *line)
{
    pl_json *list = pl_json_array();
    for (size_t i = 0; i < line->n_nodes; i++) {
        const lineage_node *node = &line->nodes[i];
        if (node->n == 0)
            continue;
        pl_json *row = pl_json_array(), *paths = pl_json_array();
        pl_json_push(row, pl_json_make_int((int64_t)node->last));
        pl_json_push(row, pl_json_make_int(node->n));
        pl_json_push(row, pl_json_make_int(node->wall_ms));
        pl_json_push(row, pl_json_make_int(node->wall_ms - node->from_ms));
        pl_json_push(row, pl_json_make_real(round(1e4 * node->loss) / 1e4));
        pl_json_push(row, pl_json_make_int(node->n_contributions));
        pl_json_push(row, pl_json_make_int(node->rolled_back));
        for (int k = 0; k < node->n_paths; k++)
            pl_json_push(paths, pl_json_make_int(node->paths[k]));
        pl_json_push(row, paths);
        pl_json_push(list, row);
    }
    return list;
}

void module_lineage_clear(module_lineage *g)
{
    for (size_t i = 0; i < g->n_lines; i++)
        pl_free(g->lines[i].nodes);
    pl_free(g->lines);
    memset(g, 0, sizeof *g);
}
