/* Finds the versions from which a version was made (lineage.h). */
#include "history/lineage.h"
#include <string.h>

static void add_source(pl_lineage *l, const char *module, uint64_t number)
{
    if (l->n == PL_LINEAGE_SOURCES)
        return;
    pl_copy_text(l->sources[l->n].module, PL_MODULE_NAME_MAX, module);
    l->sources[l->n++].number = number;
}

/* Adds the newest version of `module` that has these parameters. If no version has
 * them, adds the newest version: the new arm may have cut the level, so that its module
 * began with only a part of this module. */
static pl_status add_equal(pl_store *store, const char *module, const pl_hash *params,
                           pl_lineage *l)
{
    pl_version v;
    pl_status status = pl_store_head(store, module, &v);
    uint64_t head = 0;
    if (status == PL_ERR_NOT_FOUND)
        return PL_OK;
    for (bool first = true;; first = false) {
        PL_CHECK(status);
        const uint64_t number = v.number;
        head = first ? number : head;
        const bool same = pl_hash_equal(&v.params, params);
        pl_version_clear(&v);
        if (same || number == 0) {
            add_source(l, module, same ? number : head);
            return PL_OK;
        }
        status = pl_store_get_version(store, module, number - 1, &v);
    }
}

typedef struct base_search {
    const pl_hash *params;
    pl_lineage *out;
} base_search;

static pl_status compare_base(void *context, const pl_version *head)
{
    const base_search *s = context;
    if (s->out->n == 0 && pl_hash_equal(&head->params, s->params))
        add_source(s->out, head->module, head->number);
    return PL_OK;
}

pl_status pl_lineage_of(pl_store *store, const pl_version *v, pl_lineage *out)
{
    uint64_t source;
    pl_module_at one;
    char before[PL_MODULE_NAME_MAX], arm[PL_ARM_NAME_MAX];
    memset(out, 0, sizeof *out);
    if (pl_version_is_merged(v)) {
        out->kind = PL_LINEAGE_MERGE;
        for (int i = 0; i < v->n_contributions; i++)
            if (pl_merged_source_of(&v->contributions[i], &one) == PL_OK)
                add_source(out, one.module, one.number);
        return PL_OK;
    }
    if (pl_version_source(v, &source)) {
        out->kind = PL_LINEAGE_BACK;
        add_source(out, v->module, source);
        return PL_OK;
    }
    if (v->number > 0) {
        out->kind = PL_LINEAGE_ROUND;
        add_source(out, v->module, v->number - 1);
        return PL_OK;
    }
    pl_arm_of_module(v->module, arm, sizeof arm);
    if (strcmp(arm, "base") == 0)
        return PL_OK;
    PL_CHECK(pl_module_before(store, v->module, before));
    if (before[0])
        PL_CHECK(add_equal(store, before, &v->params, out));
    base_search search = {&v->params, out};
    if (out->n == 0)
        PL_CHECK(pl_store_each_head(store, "base/", compare_base, &search));
    out->kind = out->n > 0 ? PL_LINEAGE_BEGIN : PL_LINEAGE_FIRST;
    return PL_OK;
}
