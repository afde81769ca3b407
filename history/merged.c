/* Makes versions from others, and makes them again from their records (merged.h). */
#include "history/merged.h"
#include <stdio.h>
#include <string.h>

static const char prefix[] = "merge ";
static const char base_mark[] = "base";

static const char arm_end[] = ".merged";

pl_status pl_merged_name(const char *tag, const char *place,
                         char out[PL_MODULE_NAME_MAX])
{
    int used = snprintf(out, PL_MODULE_NAME_MAX, "%s%s/%s", tag, arm_end, place);
    if (used > 0 && used < PL_MODULE_NAME_MAX)
        return PL_OK;
    return pl_fail(PL_ERR_USAGE,
                   "the tag `%.40s...` is too long for the name of a merged module",
                   tag);
}

bool pl_merged_tag(const char *module, char out[PL_MODULE_NAME_MAX])
{
    pl_arm_of_module(module, out, PL_MODULE_NAME_MAX);
    if (!pl_ends_with(out, arm_end))
        return false;
    out[strlen(out) - strlen(arm_end)] = '\0';
    return true;
}

bool pl_module_is_merged(const char *module)
{
    char tag[PL_MODULE_NAME_MAX];
    return pl_merged_tag(module, tag);
}

bool pl_version_is_merged(const pl_version *v)
{
    return pl_starts_with(v->method, prefix);
}

bool pl_version_has_sums(const pl_version *v)
{
    for (int i = 1; i < v->n_contributions; i++)
        for (int k = 0; k < i; k++)
            if (pl_hash_equal(&v->contributions[i].update, &v->contributions[k].update))
                return true;
    return false;
}

pl_blend_method pl_version_blend(const pl_version *v)
{
    pl_blend_method method;
    return pl_version_is_merged(v) &&
                   pl_blend_parse(v->method + strlen(prefix), &method) == PL_OK
               ? method
               : PL_BLEND_COUNT;
}

bool pl_contribution_is_base(const pl_contribution *c)
{
    return strcmp(c->codec, base_mark) == 0;
}

/* ---- reading the sources ---- */
typedef struct ingredients {
    /* the parameters of each source, then those of the base */
    float *values[PL_BLEND_SOURCES_MAX + 1];
    pl_hash hashes[PL_BLEND_SOURCES_MAX + 1];
    size_t n;
} ingredients;

static void free_ingredients(ingredients *g)
{
    for (int i = 0; i <= PL_BLEND_SOURCES_MAX; i++)
        pl_free(g->values[i]);
}

pl_status pl_version_params(pl_store *store, const pl_version *v, const char *what,
                            size_t *n, float **out)
{
    uint64_t bytes = 0;
    if (v->params_gone)
        return pl_fail(PL_ERR_NOT_FOUND,
                       "garbage collection removed the parameters of %s@%llu; only the "
                       "version's record is left",
                       v->module, (unsigned long long)v->number);
    PL_CHECK(pl_store_blob_bytes(store, &v->params, &bytes));
    *n = (size_t)(bytes / sizeof **out);
    PL_CHECK(pl_try_alloc((size_t)bytes + 1, what, (void **)out));
    return pl_store_read_blob(store, &v->params, 0, *n * sizeof **out, *out);
}

static pl_status blend_all(pl_store *store, const pl_recipe *r, ingredients *g,
                           float **params)
{
    const float *sources[PL_BLEND_SOURCES_MAX];
    const int n_sources = r->blend.n_sources;
    const bool has_base = pl_blend_needs_base(r->blend.method);
    for (int i = 0; i < n_sources + has_base; i++) {
        const pl_module_at *s = i < n_sources ? &r->sources[i] : &r->base;
        pl_version v;
        size_t n = 0;
        PL_CHECK(pl_store_get_version(store, s->module, s->number, &v));
        g->hashes[i] = v.params;
        pl_status status = pl_version_params(store, &v, "a source", &n, &g->values[i]);
        pl_version_clear(&v);
        PL_CHECK(status);
        if (i > 0 && n != g->n)
            return pl_fail(
                PL_ERR_USAGE,
                "%s@%llu has %zu parameters and %s@%llu has %zu: only modules of the "
                "same shape can be merged",
                r->sources[0].module, (unsigned long long)r->sources[0].number, g->n,
                s->module, (unsigned long long)s->number, n);
        g->n = n;
        if (i < n_sources)
            sources[i] = g->values[i];
    }
    PL_CHECK(
        pl_try_alloc(g->n * sizeof(float) + 1, "a merged module", (void **)params));
    return pl_blend_run(&r->blend, sources, has_base ? g->values[n_sources] : NULL,
                        g->n, *params);
}

pl_status pl_merged_make(pl_store *store, const char *module, const pl_recipe *r,
                         pl_version *made, float **params)
{
    ingredients g = {0};
    const int n_sources = r->blend.n_sources;
    const bool has_base = pl_blend_needs_base(r->blend.method);
    pl_status status = PL_OK;
    memset(made, 0, sizeof *made);
    *params = NULL;
    PL_TRY(pl_blend_check(&r->blend));
    PL_TRY(blend_all(store, r, &g, params));
    pl_copy_text(made->module, sizeof made->module, module);
    snprintf(made->method, sizeof made->method, "%s%s", prefix,
             pl_blend_name(r->blend.method));
    made->lr = r->blend.scale;
    made->outer_momentum = r->blend.density;
    made->n_params = g.n;
    made->params_norm = pl_l2_distance(*params, NULL, g.n);
    pl_blob_hash(*params, g.n * sizeof(float), &made->params);
    made->contributions =
        pl_alloc((size_t)(n_sources + has_base + 1) * sizeof *made->contributions);
    const float *base = has_base ? g.values[n_sources] : NULL;
    for (; made->n_contributions < n_sources + has_base; made->n_contributions++) {
        const int i = made->n_contributions;
        pl_contribution *c = &made->contributions[i];
        const bool is_base = i == n_sources;
        const pl_module_at *s = is_base ? &r->base : &r->sources[i];
        memset(c, 0, sizeof *c);
        int used = snprintf(c->worker, sizeof c->worker, "%s@%llu", s->module,
                            (unsigned long long)s->number);
        if (used < 0 || (size_t)used >= sizeof c->worker)
            PL_TRY(pl_fail(PL_ERR_USAGE,
                           "the module name %s is too long for the record of a merge",
                           s->module));
        c->phase = (int64_t)s->number;
        c->update = g.hashes[i];
        c->update_bytes = g.n * sizeof(float);
        c->weight = is_base ? 0 : r->blend.weights[i];
        c->norm = is_base ? 0 : pl_l2_distance(g.values[i], base, g.n);
        pl_copy_text(c->codec, sizeof c->codec, is_base ? base_mark : "f32");
    }
done:
    free_ingredients(&g);
    return status;
}

pl_status pl_merged_keep(pl_store *store, pl_version *made, const float *params)
{
    pl_version head;
    pl_txn *txn = NULL;
    pl_hash blob;
    bool same = false;
    pl_status status = pl_store_head(store, made->module, &head);
    if (status != PL_OK && status != PL_ERR_NOT_FOUND)
        return status;
    if (status == PL_OK) {
        same = strcmp(head.method, made->method) == 0 && head.lr == made->lr &&
               head.outer_momentum == made->outer_momentum &&
               head.n_contributions == made->n_contributions &&
               pl_hash_equal(&head.params, &made->params);
        for (int i = 0; same && i < head.n_contributions; i++)
            same = strcmp(head.contributions[i].worker,
                          made->contributions[i].worker) == 0 &&
                   head.contributions[i].weight == made->contributions[i].weight &&
                   pl_hash_equal(&head.contributions[i].update,
                                 &made->contributions[i].update);
        made->number = same ? head.number : head.number + 1;
        made->parent = head.params;
        pl_version_clear(&head);
    }
    if (same)
        return PL_OK;
    made->wall_ms = pl_wall_ms();
    PL_TRY(pl_txn_begin(store, &txn));
    PL_TRY(pl_txn_put_blob(txn, params, made->n_params * sizeof *params, &blob));
    PL_TRY(pl_txn_put_version(txn, made, (pl_keep){.momentum = true}));
    PL_TRY(pl_txn_commit(&txn));
done:
    pl_txn_abort(&txn);
    return status;
}

pl_status pl_merged_source_of(const pl_contribution *c, pl_module_at *out)
{
    const char *at = strrchr(c->worker, '@');
    if (!at || c->phase < 0)
        return pl_fail(PL_ERR_DAMAGED,
                       "`%s` in the record of a merged version does not name a version",
                       c->worker);
    snprintf(out->module, sizeof out->module, "%.*s", (int)(at - c->worker), c->worker);
    out->number = (uint64_t)c->phase;
    return PL_OK;
}

pl_status pl_merged_again(pl_store *store, const pl_version *made, pl_hash *out)
{
    pl_recipe r = {0};
    ingredients g = {0};
    float *params = NULL;
    pl_status status = PL_OK;
    *out = (pl_hash){{0}};
    PL_TRY(pl_blend_parse(made->method + strlen(prefix), &r.blend.method));
    r.blend.scale = made->lr;
    r.blend.density = made->outer_momentum;
    r.blend.n_sources = made->n_contributions - pl_blend_needs_base(r.blend.method);
    if (r.blend.n_sources < 1 || r.blend.n_sources > PL_BLEND_SOURCES_MAX)
        PL_TRY(pl_fail(
            PL_ERR_DAMAGED, "the record of %s@%llu is damaged: it names %d sources",
            made->module, (unsigned long long)made->number, made->n_contributions));
    for (int i = 0; i < made->n_contributions; i++) {
        const bool base = i == r.blend.n_sources;
        PL_TRY(pl_merged_source_of(&made->contributions[i],
                                   base ? &r.base : &r.sources[i]));
        if (!base)
            r.blend.weights[i] = made->contributions[i].weight;
    }
    PL_TRY(blend_all(store, &r, &g, &params));
    for (int i = 0; i < made->n_contributions; i++)
        if (!pl_hash_equal(&g.hashes[i], &made->contributions[i].update))
            PL_TRY(pl_fail(
                PL_ERR_NOT_FOUND,
                "%s in this store is not the version from which %s@%llu was made",
                made->contributions[i].worker, made->module,
                (unsigned long long)made->number));
    pl_blob_hash(params, g.n * sizeof *params, out);
done:
    free_ingredients(&g);
    pl_free(params);
    return status;
}
