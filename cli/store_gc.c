/* pathloom store gc: frees the data of old versions; without --run it only counts them.
 */
#include "cli/store_call.h"
#include "cli/store_print.h"

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

static void print_report(const store_call *call, const policy *p, const pl_gc_report *g,
                         bool run)
{
    char bytes[16];
    row r = row_begin(call->json);
    row_flag(&r, "done", run, NULL);
    row_say(&r, "%s", run ? "freed" : "would free");
    row_count(&r, "versions", g->n_versions, " the data of %s versions");
    row_count(&r, NULL, g->n_chunks, ": %s chunks");
    row_bytes(&r, NULL, g->bytes, ", %s");
    row_count(&r, "kept", g->n_kept, "; %s versions stay");
    row_count(&r, "collected_before", g->n_gone, ", %s were freed before");
    row_count(&r, "blobs", g->n_blobs, NULL);
    row_count(&r, "chunks", g->n_chunks, NULL);
    row_bytes(&r, "bytes", g->bytes, NULL);
    row_count(&r, "garbage", g->n_garbage, NULL);
    row_bytes(&r, "garbage_bytes", g->garbage_bytes, NULL);
    if (g->n_garbage > 0)
        row_say(&r, "\n%s %llu unused objects of the storage engine, %s",
                run ? "dropped" : "would drop", (unsigned long long)g->n_garbage,
                pl_human_bytes((double)g->garbage_bytes, bytes));
    if (!run && g->n_versions + g->n_garbage > 0)
        row_say(&r, "\nnothing was changed; give --delete to free the data");
    if (g->n_versions == 0)
        row_say(&r,
                "\nversions stay if they are younger than --grace (%lld s), among the "
                "newest --keep (%lld) of their module, tagged, or needed by a path",
                (long long)p->grace_ms / 1000, (long long)p->keep);
    row_finish(&r);
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

static pl_status collect_store(store_call *call, policy *p, bool run)
{
    pl_gc_report report;
    int n_parts = 0;
    PL_CHECK(pl_store_parts(call->folder, &n_parts));
    PL_CHECK(pl_roots_create(p->store, &p->roots));
    pl_status status = n_parts > 0
                           ? collect_parts(call->folder, n_parts, p, run, &report)
                           : pl_store_collect(p->store, stays, p, run, &report);
    pl_roots_destroy(&p->roots);
    if (status == PL_OK)
        print_report(call, p, &report, run);
    return status;
}

/* Refuses a single part of a store: it does not show which of its versions paths in
 * other parts need. */
pl_status store_refuse_part(const char *folder)
{
    char above[PL_PATH_MAX];
    int n = 0;
    PL_CHECK(pl_store_parts(pl_path_above(above, folder), &n));
    if (n == 0)
        return PL_OK;
    return pl_fail(PL_ERR_USAGE,
                   "%s is one of %d parts of a store, and this verb needs all of them; "
                   "give the folder above it",
                   folder, n);
}

pl_status store_gc(store_call *call)
{
    int64_t grace = 0;
    int n_parts = 0;
    bool run = call->values[STORE_OPT_DELETE];
    policy p = {.store = call->store, .now_ms = pl_wall_ms()};
    PL_CHECK(store_option_int(call, STORE_OPT_KEEP, 3, 1, &p.keep));
    PL_CHECK(store_option_int(call, STORE_OPT_GRACE, 3600, 0, &grace));
    p.grace_ms = grace * 1000;
    PL_CHECK(pl_store_parts(call->folder, &n_parts));
    PL_CHECK(store_refuse_part(call->folder));
    if (!run || n_parts > 0)
        return collect_store(call, &p, run);
    pl_store_close(&call->store);
    PL_CHECK(store_open_to_write(call, &call->store));
    p.store = call->store;
    return collect_store(call, &p, true);
}
