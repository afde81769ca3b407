/* Chooses the versions whose data are garbage, in all parts of a store (garbage.h). */
#include "home/garbage.h"
#include "home/roots.h"

#include <string.h>

typedef struct policy {
    pl_roots *roots;
    pl_store *store;
    int64_t keep, grace_ms, now_ms;
    char module[PL_MODULE_NAME_MAX]; /* the module that `head` belongs to */
    uint64_t head;
} policy;

/* The number of the module's newest version. Versions are visited module by module, so
 * the last answer is kept. */
static uint64_t head_of(policy *p, const char *module)
{
    pl_version head;
    if (strcmp(p->module, module) == 0)
        return p->head;
    pl_copy_text(p->module, sizeof p->module, module);
    /* UINT64_MAX: the newest version cannot be read, so all versions are kept */
    p->head = UINT64_MAX;
    if (pl_store_head(p->store, module, &head) == PL_OK) {
        p->head = head.number;
        pl_version_clear(&head);
    }
    return p->head;
}

/* Whether the data of a version are kept. Those of version 0 are always kept, because
 * comparisons with the beginning need them. */
static bool stays(void *context, const pl_version *v)
{
    policy *p = context;
    uint64_t head = head_of(p, v->module);
    return v->number == 0 || head == UINT64_MAX ||
           head - v->number < (uint64_t)p->keep ||
           p->now_ms - v->wall_ms < p->grace_ms || pl_roots_reason(p->roots, v);
}

static pl_status collect_part(policy *p, const char *folder, bool run,
                              pl_gc_report *sum)
{
    pl_store *part = NULL;
    pl_gc_report one;
    PL_CHECK(pl_store_open(folder, run ? PL_STORE_WRITE : PL_STORE_READ, &part));
    pl_status status = pl_store_collect(part, stays, p, run, &one);
    pl_store_close(&part);
    PL_CHECK(status);
    sum->n_versions += one.n_versions;
    sum->n_kept += one.n_kept;
    sum->n_gone += one.n_gone;
    sum->n_blobs += one.n_blobs;
    sum->n_chunks += one.n_chunks;
    sum->bytes += one.bytes;
    sum->n_garbage += one.n_garbage;
    sum->garbage_bytes += one.garbage_bytes;
    return PL_OK;
}

/* Collects each part of a store. p->roots covers all parts, because tasks of a path in
 * one part begin with versions in other parts. */
static pl_status collect_parts(const char *folder, int n_parts, policy *p, bool run,
                               pl_gc_report *sum)
{
    char part[PL_PATH_MAX];
    memset(sum, 0, sizeof *sum);
    if (run)
        PL_CHECK(pl_store_clear_copy(folder));
    for (int i = 0; i < n_parts; i++)
        PL_CHECK(collect_part(p, pl_store_part(folder, i, part), run, sum));
    return PL_OK;
}

pl_status pl_garbage_collect(const pl_garbage *g, bool run, pl_gc_report *out)
{
    policy p = {.store = g->store,
                .keep = g->keep,
                .grace_ms = g->grace_ms,
                .now_ms = pl_wall_ms()};
    int n_parts = 0;
    PL_CHECK(pl_store_parts(g->folder, &n_parts));
    PL_CHECK(pl_roots_create(p.store, &p.roots));
    pl_status status = n_parts > 0 ? collect_parts(g->folder, n_parts, &p, run, out)
                                   : pl_store_collect(p.store, stays, &p, run, out);
    pl_roots_destroy(&p.roots);
    return status;
}
