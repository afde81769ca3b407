/* Collects, for all versions of all modules, the time of the version and the paths
 * whose updates made it. The memory is bounded.
 *
 * A module has one node per `stride` versions; the stride is 1 at first. When the nodes
 * of all modules exceed a limit, the stride doubles: neighbouring nodes are joined, so
 * a picture of even 10,000 versions keeps its shape. The exact record of a single
 * version is read from the store when it is needed. */
#pragma once
#include "store/store.h"

enum { LINEAGE_NODES_MAX = 4096, LINEAGE_STRANDS = 8 };

typedef struct lineage_node {
    uint64_t last; /* the newest version in the node */
    /* from_ms: when its first update began; wall_ms: when its newest version came */
    int64_t from_ms, wall_ms;
    double loss, tokens; /* loss: mean over the tokens; tokens: sum */
    int n, n_contributions;
    int n_paths; /* number of paths in `paths`, each listed once */
    /* paths that contributed; if there are more than LINEAGE_STRANDS, only the first */
    uint16_t paths[LINEAGE_STRANDS];
    bool rolled_back; /* a rollback made one of the node's versions */
} lineage_node;

typedef struct lineage_line {
    char module[PL_MODULE_NAME_MAX];
    uint64_t n_params, n_versions;
    lineage_node *nodes;
    size_t n_nodes;
} lineage_line;

typedef struct module_lineage {
    lineage_line *lines;
    size_t n_lines, newest; /* newest: the line to which a version was added last */
    size_t n_nodes;
    uint64_t stride; /* versions per node; 0 stands for 1 */
} module_lineage;

void module_lineage_add(module_lineage *g, const pl_version *version);
const lineage_line *module_lineage_find(const module_lineage *g, const char *module);
/* Makes a list of nodes. Each node is a list: [newest version, number of versions, time
 * of its newest commit, ms from its first lease to that commit, loss, number of
 * contributions, 1 if a rollback made one of the versions and otherwise 0, paths]. */
pl_json *module_lineage_nodes(const lineage_line *line);
void module_lineage_clear(module_lineage *g);
