/* Private to the page: when which module got which version and by whose updates, of all
 * arms, in bounded memory.
 *
 * A module has one node per version. When all nodes together pass a limit, the stride
 * doubles and neighbouring versions become one node: 10,000 versions keep their shape.
 * Exact records are read from the store for one version at a time. */
#ifndef PL_JOB_PAGE_LINEAGE_H
#define PL_JOB_PAGE_LINEAGE_H
#include "store/store.h"

enum { PAGE_NODES_MAX = 4096, PAGE_STRANDS = 8 };

typedef struct page_node {
    uint64_t last;                /* the newest version in it */
    int64_t from_ms, wall_ms;     /* its first update was begun; committed */
    double loss, tokens;          /* mean over contributors; sum */
    int n, n_contributions;       /* versions (0: none yet); sum */
    int n_paths;                  /* in `paths`, each once */
    uint16_t paths[PAGE_STRANDS]; /* of contributors; further ones are left out */
    bool rolled_back;             /* a rollback made one of its versions */
} page_node;

typedef struct page_line {
    char module[PL_MODULE_NAME_MAX];
    uint64_t n_params, n_versions;
    page_node *nodes;
    size_t n_nodes;
} page_line;

typedef struct page_lineage {
    page_line *lines;
    size_t n_lines, newest; /* newest: the line that was added to last */
    size_t n_nodes;
    uint64_t stride; /* 0 stands for 1 */
} page_lineage;

void page_lineage_add(page_lineage *g, const pl_version *version);
const page_line *page_lineage_find(const page_lineage *g, const char *module);
/* A list of nodes: [newest version, versions, committed, ms from the first lease to
 * then, loss, contributors, 1 after a rollback, paths]. */
pl_json *page_lineage_nodes(const page_line *line);
void page_lineage_clear(page_lineage *g);

#endif
