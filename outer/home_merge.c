/* The outer step of modules whose contributors are all in. */
#include "outer/codec.h"
#include "outer/home_parts.h"
#include "outer/step.h"

#include <math.h>

typedef struct merge {
    home *h;
    home_arm *arm;
    home_module *module;
    pl_contribution *contributions; /* in (path, replica) order */
    int n;
    double total_weight;
    float *params, *momentum, *mean;
    void *update;
    size_t update_cap;
    pl_version version;
} merge;

static pl_status collect(void *context, const char *module, const pl_contribution *c)
{
    merge *g = context;
    if (strcmp(module, g->module->name) != 0 || c->phase != (int64_t)g->module->version)
        return PL_OK;
    if (g->n == g->module->n_contributors)
        return pl_fail(PL_ERR_INTERNAL, "%s has more than %d contributions", module,
                       g->n);
    g->contributions[g->n++] = *c;
    g->total_weight += c->weight;
    return PL_OK;
}

static pl_status read_floats(home *h, const pl_hash *blob, size_t n, float *out)
{
    uint64_t bytes = 0;
    PL_RETURN_IF(pl_store_blob_bytes(h->store, blob, &bytes));
    if (bytes != (uint64_t)n * sizeof *out)
        return pl_fail(PL_ERR_DAMAGED, "a blob has %llu bytes instead of %zu",
                       (unsigned long long)bytes, n * sizeof *out);
    return pl_store_read_blob(h->store, blob, 0, (size_t)bytes, out);
}

static pl_status load(merge *g)
{
    pl_version head;
    size_t n = g->module->n_params;
    memset(&head, 0, sizeof head);
    pl_status status = pl_store_head(g->h->store, g->module->name, &head);
    if (status == PL_OK)
        status = read_floats(g->h, &head.params, n, g->params);
    if (status == PL_OK && !pl_hash_none(&head.momentum))
        status = read_floats(g->h, &head.momentum, n, g->momentum);
    pl_version_clear(&head);
    return status;
}

/* mean += alpha_i * update_i, in the order of the list. */
static pl_status add_updates(merge *g)
{
    for (int i = 0; i < g->n; i++) {
        const pl_contribution *c = &g->contributions[i];
        double alpha = g->arm->arm.outer.weighted && g->total_weight > 0
                           ? c->weight / g->total_weight
                           : 1.0 / g->n;
        double norm = 0;
        if (c->update_bytes > g->update_cap)
            return pl_fail(PL_ERR_DAMAGED,
                           "an update of %s is longer than any codec makes it",
                           g->module->name);
        PL_RETURN_IF(pl_store_read_blob(g->h->store, &c->update, 0,
                                        (size_t)c->update_bytes, g->update));
        PL_RETURN_IF(pl_codec_add(g->update, c->update_bytes, g->module->n_params,
                                  (float)alpha, g->mean, &norm));
    }
    return PL_OK;
}

static void describe(merge *g)
{
    const pl_outer *outer = &g->arm->arm.outer;
    int index =
        pl_topology_find_module(g->arm->topology, strchr(g->module->name, '/') + 1);
    pl_class class = pl_arm_class(g->arm->topology, index);
    pl_version *v = &g->version;
    pl_copy_text(v->module, sizeof v->module, g->module->name);
    v->number = g->module->version + 1;
    v->parent = g->module->params;
    v->config = g->arm->arm.config;
    v->lr = outer->lr[class];
    v->outer_momentum = outer->momentum[class];
    pl_copy_text(v->method, sizeof v->method,
                 v->outer_momentum > 0 ? "nesterov" : "sgd");
    v->n_params = g->module->n_params;
    v->wall_ms = pl_wall_ms();
    v->n_contributions = g->n;
    v->contributions = g->contributions;
}

static pl_status apply(merge *g)
{
    pl_outer_report report;
    pl_outer_state state = {.params = g->params, .momentum = g->momentum};
    pl_outer_step step = {.lr = g->version.lr,
                          .momentum = g->version.outer_momentum,
                          .rescale = g->arm->arm.outer.rescale,
                          .n_contributors = g->n};
    PL_RETURN_IF(pl_outer_apply(&step, &state, g->mean, g->module->n_params, &report));
    g->version.update_norm = report.mean_norm;
    g->version.params_norm = report.params_norm;
    return PL_OK;
}

static pl_status commit(merge *g)
{
    home *h = g->h;
    size_t bytes = g->module->n_params * sizeof(float);
    pl_keep keep = {h->options->keep_updates, h->options->keep_momentum};
    PL_RETURN_IF(home_write(h));
    PL_RETURN_IF(pl_txn_put_blob(h->txn, g->params, bytes, &g->version.params));
    if (g->version.outer_momentum > 0)
        PL_RETURN_IF(pl_txn_put_blob(h->txn, g->momentum, bytes, &g->version.momentum));
    PL_RETURN_IF(pl_txn_put_version(h->txn, &g->version, keep));
    g->module->version = g->version.number;
    g->module->params = g->version.params;
    g->module->n_pending = 0;
    int n_flags = pl_topology_n_paths(g->arm->topology) *
                  pl_topology_n_replicas(g->arm->topology);
    memset(g->module->pending, 0, (size_t)n_flags * sizeof *g->module->pending);
    return PL_OK;
}

static pl_status prepare(merge *g)
{
    size_t bytes = g->module->n_params * sizeof(float);
    g->contributions =
        pl_alloc((size_t)g->module->n_contributors * sizeof *g->contributions);
    g->update_cap = (size_t)pl_codec_bytes("f32", g->module->n_params);
    PL_RETURN_IF(pl_try_alloc(bytes, "an outer step", (void **)&g->params));
    PL_RETURN_IF(pl_try_alloc(bytes, "an outer step", (void **)&g->momentum));
    PL_RETURN_IF(pl_try_alloc(bytes, "an outer step", (void **)&g->mean));
    return pl_try_alloc(g->update_cap, "an update", &g->update);
}

static void release(merge *g)
{
    pl_free(g->contributions);
    pl_free_aligned(g->params);
    pl_free_aligned(g->momentum);
    pl_free_aligned(g->mean);
    pl_free_aligned(g->update);
}

static pl_status merge_module(home *h, home_arm *arm, home_module *module)
{
    pl_status status = PL_OK;
    merge g = {.h = h, .arm = arm, .module = module};
    PL_TRY(prepare(&g));
    PL_TRY(pl_store_each_pending(h->store, module->name, collect, &g));
    if (g.n != module->n_contributors)
        PL_TRY(pl_fail(PL_ERR_INTERNAL, "%s has %d of %d contributions", module->name,
                       g.n, module->n_contributors));
    PL_TRY(load(&g));
    PL_TRY(add_updates(&g));
    describe(&g);
    PL_TRY(apply(&g));
    if (!isfinite(g.version.params_norm))
        PL_TRY(pl_fail(PL_ERR_NUMERIC,
                       "version %llu of %s would not be finite; lower outer.lr or "
                       "outer.momentum",
                       (unsigned long long)g.version.number, module->name));
    PL_TRY(commit(&g));
    pl_log(PL_LOG_DEBUG, "version.committed", "module=%s version=%llu contributions=%d",
           module->name, (unsigned long long)module->version, g.n);
    home_tell_version(h, module);
done:
    release(&g);
    return status;
}

pl_status home_merge_ready(home *h)
{
    for (int a = 0; a < h->n_arms; a++) {
        home_arm *arm = &h->arms[a];
        for (int m = 0; m < pl_topology_n_modules(arm->topology); m++) {
            home_module *module = &arm->modules[m];
            if (module->exists && module->n_pending == module->n_contributors) {
                PL_RETURN_IF(merge_module(h, arm, module));
                PL_RETURN_IF(home_end_group(h)); /* one module, one commit */
            }
        }
    }
    return PL_OK;
}
