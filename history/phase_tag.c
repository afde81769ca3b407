/* Finds the versions that a tag names (phase_tag.h). */
#include "history/phase_tag.h"
#include <string.h>

uint64_t pl_version_after(const pl_arm *arm, const pl_topology *t, int module,
                          int64_t phase)
{
    const pl_contract c = pl_contract_of(arm, t, module);
    return pl_rounds_after(&c, phase);
}

typedef struct arm_view {
    pl_arm arm;
    pl_topology *topology;
    uint64_t *heads; /* [n] number of each module's newest version */
    int n;
} arm_view;

static void close_arm_view(arm_view *v)
{
    pl_free(v->heads);
    pl_topology_destroy(&v->topology);
    pl_arm_clear(&v->arm);
}

static pl_status open_arm_view(pl_store *store, const char *name, arm_view *out)
{
    memset(out, 0, sizeof *out);
    pl_status status = pl_read_arm(store, name, &out->arm, &out->topology);
    if (status == PL_ERR_NOT_FOUND)
        return pl_fail(
            status,
            "there is no arm %s; `pathloom store ls --objects arm/` lists all arms",
            name);
    PL_CHECK(status);
    out->n = pl_topology_n_modules(out->topology);
    out->heads = pl_alloc((size_t)out->n * sizeof *out->heads);
    for (int m = 0; m < out->n; m++) {
        pl_version head;
        char module[PL_MODULE_NAME_MAX];
        pl_arm_module_name(&out->arm, out->topology, m, module);
        PL_CHECK(pl_store_head(store, module, &head));
        out->heads[m] = head.number;
        pl_version_clear(&head);
    }
    return PL_OK;
}

static bool has_phase(const arm_view *v, int64_t phase)
{
    for (int m = 0; m < v->n; m++)
        if (pl_version_after(&v->arm, v->topology, m, phase) > v->heads[m])
            return false;
    return true;
}

/* Returns the number of phases whose updates all modules have merged. */
static int64_t newest_phase(const arm_view *v)
{
    int64_t phase = v->arm.inner.phases;
    while (phase > 0 && !has_phase(v, phase))
        phase--;
    return phase;
}

/* Sets *out to true if a rollback went back past a version that a module has after
 * `phase` phases: it made one of the versions after it from an older one, with other
 * parameters. If no version follows, the version need not exist yet: its home may still
 * merge it. Only rollbacks during the phases before `until` count. */
static pl_status phase_left(pl_store *store, const arm_view *v, int64_t phase,
                            int64_t until, bool *out)
{
    char module[PL_MODULE_NAME_MAX];
    pl_version old, later;
    uint64_t source;
    for (int m = 0; m < v->n && !*out; m++) {
        const uint64_t number = pl_version_after(&v->arm, v->topology, m, phase);
        const uint64_t last = pl_version_after(&v->arm, v->topology, m, until);
        const uint64_t head = v->heads[m] < last ? v->heads[m] : last;
        if (head <= number)
            continue;
        pl_arm_module_name(&v->arm, v->topology, m, module);
        PL_CHECK(pl_store_get_version(store, module, number, &old));
        pl_status status = PL_OK;
        for (uint64_t n = head; status == PL_OK && n > number && !*out; n--) {
            status = pl_store_get_version(store, module, n, &later);
            *out = status == PL_OK && pl_version_source(&later, &source) &&
                   source < number && !pl_hash_equal(&later.params, &old.params);
            pl_version_clear(&later);
        }
        pl_version_clear(&old);
        PL_CHECK(status);
    }
    return PL_OK;
}

/* Finds the phase that `at` means (pl_tag_phase). *out becomes -1 for the newest
 * versions. With delayed-nesterov only the newest versions can be tagged, because
 * rounds do not correspond to phases. */
static pl_status choose_tag_phase(pl_store *store, const arm_view *v, const char *at,
                                  int64_t *out)
{
    const bool phases = pl_versions_have_phases(&v->arm.outer);
    *out = -1;
    if (at ? strcmp(at, "head") == 0 : !phases)
        return PL_OK;
    if (!at) {
        /* a rollback may have replaced a version of the newest phase */
        const int64_t newest = newest_phase(v);
        bool left = false;
        PL_CHECK(phase_left(store, v, newest, INT64_MAX, &left));
        *out = left ? -1 : newest;
        return PL_OK;
    }
    if (!phases)
        return pl_fail(
            PL_ERR_USAGE,
            "arm %s trains with delayed-nesterov, whose versions do not belong to "
            "phases; only its newest versions (head) can be tagged",
            v->arm.name);
    if (pl_parse_int(at, out) != PL_OK || *out < 0)
        return pl_fail(PL_ERR_USAGE, "`%s` is not a phase; give a number, or head", at);
    if (!has_phase(v, *out) || *out > v->arm.inner.phases)
        return pl_fail(PL_ERR_NOT_FOUND,
                       "phase %lld of arm %s is not complete yet; the newest complete "
                       "phase is %lld",
                       (long long)*out, v->arm.name, (long long)newest_phase(v));
    return PL_OK;
}

pl_status pl_tag_phase(pl_store *store, const char *arm, const char *at, int64_t *out)
{
    arm_view v;
    pl_status status = open_arm_view(store, arm, &v);
    if (status == PL_OK)
        status = choose_tag_phase(store, &v, at, out);
    close_arm_view(&v);
    return status;
}

pl_status pl_arm_start(pl_store *store, const pl_arm *arm, const char *before,
                       int64_t *out)
{
    arm_view v;
    bool left = false;
    pl_status status = open_arm_view(store, before, &v);
    if (status == PL_OK) {
        *out = pl_arm_continues(&v.arm, arm);
        status = phase_left(store, &v, *out, v.arm.inner.phases, &left);
        *out = left ? v.arm.inner.phases : *out;
    }
    close_arm_view(&v);
    return status;
}

uint64_t pl_arm_beginning(const pl_arm *arm, int module, int64_t start,
                          const pl_arm *before, const pl_topology *from, int ancestor)
{
    const bool frozen = pl_arm_is_frozen(arm, module);
    return pl_version_after(before, from, ancestor,
                            frozen ? before->inner.phases : start);
}

pl_status pl_tag_fill(pl_store *store, pl_snapshot *tag)
{
    arm_view v;
    pl_status status = PL_OK;
    PL_TRY(open_arm_view(store, tag->arm, &v));
    tag->sequence = pl_store_sequence(store);
    tag->wall_ms = pl_wall_ms();
    tag->items = pl_alloc((size_t)v.n * sizeof *tag->items);
    for (int m = 0; m < v.n; m++) {
        pl_version version;
        pl_snapshot_item *item = &tag->items[tag->n_items++];
        pl_arm_module_name(&v.arm, v.topology, m, item->module);
        item->number = tag->phase < 0
                           ? v.heads[m]
                           : pl_version_after(&v.arm, v.topology, m, tag->phase);
        PL_TRY(pl_store_get_version(store, item->module, item->number, &version));
        item->params = version.params;
        const bool gone = version.params_gone;
        pl_version_clear(&version);
        if (gone)
            PL_TRY(pl_fail(PL_ERR_NOT_FOUND,
                           "garbage collection removed the parameters of %s@%llu",
                           item->module, (unsigned long long)item->number));
    }
done:
    close_arm_view(&v);
    return status;
}
