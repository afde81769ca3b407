/* topology.split and topology.graft: make the topology of a chapter from the topology
 * of the previous chapter.
 *
 *   4:4x4           each module becomes several, which begin as copies (topology.split)
 *   4:drop:L2.E1    all paths through a module end; the next modules of its level get
 *                   lower numbers
 *   4:drop:p01      one path ends, and so do modules that only this path used
 *   4:copy:L1.E0    level 1 has one more module, which begins as a copy
 *   4:cut:L1:2      the first two blocks of level 1 become a separate level
 *
 * A + separates the names of several modules or paths. Two lists describe every change:
 * the module from which each new module descends (pl_descent), and the combinations of
 * modules that are not paths. */
#include "config/settings.h"
#include <string.h>

typedef struct grafting {
    const char *text; /* "drop:L2.E1" */
    const pl_topology *from;
    const pl_topology_spec *was; /* the spec of `from` */
    config_chapter *chapter;     /* the chapter that begins */
    bool *gone;                  /* [paths of from] true for paths that end */
} grafting;

static pl_status refuse(const grafting *g, const char *why, const char *name)
{
    return pl_fail(PL_ERR_CONFIG, "topology.graft `%s`: %s %s", g->text, name, why);
}

/* ---- lists of parents ---- */
static pl_status add_parent(grafting *g, int parent)
{
    pl_descent *d = &g->chapter->descent;
    if (d->n_parents == PL_DESCENT_MAX)
        return pl_fail(
            PL_ERR_CONFIG,
            "topology.graft `%s` would make more than %d modules in all levels "
            "together; use fewer modules (only topology.split can make more)",
            g->text, (int)PL_DESCENT_MAX);
    d->parent[d->n_parents++] = parent;
    return PL_OK;
}

static pl_status add_level(grafting *g, int level, const bool *ends)
{
    config_chapter *c = g->chapter;
    const int at = c->spec.n_levels++;
    c->descent.level[at] = level + 1;
    c->spec.experts[at] = 0;
    for (int e = 0; e < g->was->experts[level]; e++) {
        if (ends && ends[e])
            continue;
        c->spec.experts[at]++;
        PL_CHECK(add_parent(g, e));
    }
    return PL_OK;
}

/* A cell is a combination of experts, one per level. Returns the number of the cell of
 * the previous topology from which `cell` of chapter c descends; -1 if there is none,
 * because two experts of `cell` descend from different experts of one level. */
static int cell_before(const pl_topology_spec *was, const config_chapter *c, int cell)
{
    const pl_descent *d = &c->descent;
    int expert[PL_LEVELS_MAX], at = 0, first = d->n_parents;
    memset(expert, -1, sizeof expert);
    for (int l = c->spec.n_levels - 1; l >= 0; l--) {
        const int k = c->spec.experts[l];
        const int level = d->n_parents > 0 ? d->level[l] - 1 : l;
        first -= k;
        const int e = d->n_parents > 0 ? d->parent[first + cell % k]
                                       : cell % k / (k / was->experts[l]);
        if (expert[level] >= 0 && expert[level] != e)
            return -1;
        expert[level] = e;
        cell /= k;
    }
    for (int l = 0; l < was->n_levels; l++)
        at = at * was->experts[l] + expert[l];
    return at;
}

/* Removes each combination of modules that does not descend from a path, or that
 * descends from a path that ends (`gone`; NULL: no path ends). */
static pl_status leave_out(const pl_topology *from, const bool *gone, config_chapter *c)
{
    const pl_topology_spec *was = pl_topology_get_spec(from);
    const int n_before = pl_topology_spec_n_cells(was);
    const int n = pl_topology_spec_n_cells(&c->spec);
    bool *ends = pl_alloc((size_t)n_before);
    pl_status status = PL_OK;
    for (int cell = 0, path = 0; cell < n_before; cell++) {
        const bool absent = cell < PL_ABSENT_MAX && was->absent[cell];
        ends[cell] = absent || (gone && gone[path]);
        path += !absent;
    }
    memset(c->spec.absent, 0, sizeof c->spec.absent);
    for (int cell = 0; status == PL_OK && cell < n; cell++) {
        const int before = cell_before(was, c, cell);
        if (before >= 0 && !ends[before])
            continue;
        if (n > PL_ABSENT_MAX)
            status = pl_fail(PL_ERR_CONFIG,
                             "the new topology would have %d combinations of modules, "
                             "but if some combinations are not paths, it may have at "
                             "most %d; use fewer modules",
                             n, (int)PL_ABSENT_MAX);
        else
            c->spec.absent[cell] = true;
    }
    pl_free(ends);
    return status;
}

/* ---- paths and modules that end ---- */
static pl_status find_in_level(const grafting *g, const char *name, int *module)
{
    *module = pl_topology_find_module(g->from, name);
    if (*module < 0)
        return refuse(g,
                      "is neither a module nor a path of the mixture before this "
                      "change; modules are named like L1.E0, paths like p01",
                      name);
    const int slot = pl_topology_module_slot(g->from, *module);
    if (slot < 1 || slot > g->was->n_levels)
        return refuse(g, "is not a module of a level, such as L1.E0", name);
    return PL_OK;
}

static pl_status end_combinations(const grafting *g)
{
    const pl_status status = leave_out(g->from, g->gone, g->chapter);
    return status == PL_OK ? status
                           : pl_fail_in(status, "topology.graft `%s`", g->text);
}

static pl_status drop_named(grafting *g, char *names)
{
    g->chapter->splits = true;
    for (char *name; (name = strtok_r(names, "+", &names));) {
        const int path = pl_topology_find_path(g->from, name);
        int m;
        if (path >= 0) {
            g->gone[path] = true;
            continue;
        }
        PL_CHECK(find_in_level(g, name, &m));
        for (int i = 0; i < pl_topology_module_n_paths(g->from, m); i++)
            g->gone[pl_topology_module_path(g->from, m, i)] = true;
    }
    /* Keeps those modules of the levels that belong to a path which does not end. */
    for (int l = 0; l < g->was->n_levels; l++) {
        bool ends[PL_DESCENT_MAX] = {false};
        int n_left = 0;
        if (g->was->experts[l] > PL_DESCENT_MAX)
            return add_level(g, l, NULL); /* fails: the level has too many modules */
        for (int e = 0; e < g->was->experts[l]; e++) {
            const int m = pl_topology_module(g->from, l + 1, e);
            ends[e] = true;
            for (int i = 0; ends[e] && i < pl_topology_module_n_paths(g->from, m); i++)
                ends[e] = g->gone[pl_topology_module_path(g->from, m, i)];
            n_left += !ends[e];
        }
        if (n_left == 0)
            return refuse(g, "would end the last path; leave at least one", "this");
        PL_CHECK(add_level(g, l, ends));
    }
    return end_combinations(g);
}

/* ---- modules and levels that are added ---- */
static pl_status copy(grafting *g, char *names)
{
    int copies[PL_LEVELS_MAX][CONFIG_LIST_MAX], n[PL_LEVELS_MAX] = {0};
    g->chapter->splits = true;
    for (char *name; (name = strtok_r(names, "+", &names));) {
        int m;
        PL_CHECK(find_in_level(g, name, &m));
        const int level = pl_topology_module_slot(g->from, m) - 1;
        if (n[level] == CONFIG_LIST_MAX)
            return refuse(g,
                          "cannot be copied, too: this change already makes too many "
                          "copies in the level; name fewer modules",
                          name);
        copies[level][n[level]++] = m - pl_topology_module(g->from, level + 1, 0);
    }
    for (int l = 0; l < g->was->n_levels; l++) {
        PL_CHECK(add_level(g, l, NULL));
        for (int i = 0; i < n[l]; i++)
            PL_CHECK(add_parent(g, copies[l][i]));
        g->chapter->spec.experts[l] += n[l];
    }
    return end_combinations(g);
}

/* Replaces a level by two. A combination of new modules is a path only if the two parts
 * of the cut level come from the same module. So each path stays the same function. */
static pl_status cut_level(grafting *g, char *name)
{
    pl_topology_spec *spec = &g->chapter->spec;
    char *colon = strchr(name, ':');
    int64_t level = 0, first = 0;
    if (colon)
        *colon++ = '\0';
    if (name[0] != 'L' || pl_parse_int(name + 1, &level) != PL_OK || level < 1 ||
        level > g->was->n_levels)
        return refuse(g, "is not a level, such as L1", name);
    const int at = (int)level - 1, n_blocks = g->was->blocks[at];
    first = n_blocks / 2;
    if ((colon && pl_parse_int(colon, &first) != PL_OK) || first < 1 ||
        first >= n_blocks || g->was->n_levels == PL_LEVELS_MAX)
        return pl_fail(PL_ERR_CONFIG,
                       "topology.graft `%s`: give a level of at least 2 blocks and the "
                       "number of blocks in its first part, such as cut:L1:1; L%d has "
                       "%d blocks, and a topology can have at most %d levels",
                       g->text, at + 1, n_blocks, (int)PL_LEVELS_MAX);
    for (int l = 0; l < g->was->n_levels; l++) {
        spec->blocks[spec->n_levels] = l == at ? (int)first : g->was->blocks[l];
        PL_CHECK(add_level(g, l, NULL));
        if (l != at)
            continue;
        spec->blocks[spec->n_levels] = n_blocks - (int)first;
        PL_CHECK(add_level(g, l, NULL));
    }
    spec->embed_choice += spec->embed_choice > at + 1;
    spec->head_choice += spec->head_choice > at + 1;
    return end_combinations(g);
}

pl_status config_graft(const pl_shape *shape, const char *text, config_chapter *chapter)
{
    static const struct {
        const char *word;
        pl_status (*change)(grafting *, char *);
    } changes[] = {{"drop:", drop_named}, {"copy:", copy}, {"cut:", cut_level}};
    char names[PL_KEY_TEXT_MAX];
    pl_topology *from = NULL;
    PL_CHECK(pl_topology_create(shape, &chapter->spec, &from));
    grafting g = {.text = text,
                  .from = from,
                  .was = pl_topology_get_spec(from),
                  .chapter = chapter,
                  .gone = pl_alloc((size_t)pl_topology_n_paths(from))};
    pl_status (*change)(grafting *, char *) = NULL;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const size_t n = strlen(changes[i].word);
        if (strncmp(text, changes[i].word, n) != 0 ||
            text[n + strspn(text + n, "+")] == '\0') /* no name follows */
            continue;
        pl_copy_text(names, sizeof names, text + n);
        change = changes[i].change;
    }
    chapter->spec = *g.was;
    chapter->spec.n_levels = 0;
    memcpy(chapter->descent.experts, g.was->experts, sizeof chapter->descent.experts);
    pl_status status =
        change ? change(&g, names)
               : pl_fail(PL_ERR_CONFIG,
                         "topology.graft `%s`: use drop:L2.E1, drop:p01, copy:L1.E0 "
                         "or cut:L1",
                         text);
    pl_free(g.gone);
    pl_topology_destroy(&from);
    if (status != PL_OK)
        return status;
    /* Checks here whether the model can have these levels. Later chapters have the same
     * levels, so a later check would report an error for the wrong chapter. */
    status = pl_topology_create(shape, &chapter->spec, &from);
    pl_topology_destroy(&from);
    return status == PL_OK ? status : pl_fail_in(status, "topology.graft `%s`", text);
}

pl_status config_split(const pl_shape *shape, const char *levels,
                       config_chapter *chapter)
{
    pl_topology *from = NULL;
    pl_topology_spec *spec = &chapter->spec;
    const pl_topology_spec was = *spec;
    pl_status status = pl_topology_parse_levels(levels, spec);
    bool more = false, whole = status == PL_OK && spec->n_levels == was.n_levels;
    for (int l = 0; whole && l < spec->n_levels; l++) {
        whole = spec->experts[l] % was.experts[l] == 0;
        more = more || spec->experts[l] > was.experts[l];
    }
    if (status != PL_OK)
        return pl_fail_in(status, "topology.split");
    if (!whole || !more)
        return pl_fail(PL_ERR_CONFIG,
                       "topology.split cannot make %s: keep the number of levels, "
                       "multiply the modules of each level by 1 or more, and of "
                       "at least one level by 2 or more",
                       levels);
    chapter->splits = true;
    PL_CHECK(pl_topology_create(shape, &was, &from));
    status = leave_out(from, NULL, chapter);
    pl_topology_destroy(&from);
    return status == PL_OK ? status : pl_fail_in(status, "topology.split");
}
