/* Visits the versions of a module from 0 on. From their parameters and records,
 * computes how well the outer steps worked (module_health.h). */
#include "history/module_health.h"
#include "history/merged.h"
#include <math.h>

typedef struct health_reader {
    pl_store *store;
    pl_arm arm;
    pl_topology *topology;
    /* whether versions are made from the mean of the contributors' updates */
    bool averages;
    pl_health_walk *walk;
    size_t n;
    float *params;
    bool walking; /* whether the walk has the previous version */
    double *norms, *weights;
} health_reader;

/* Continues the walk with version v; versions come in rising order. If a rollback or
 * `store merge` made v, there was no outer step, and the momentum after v is not known.
 * So the walk begins again at v. */
static pl_status follow_version(health_reader *r, const pl_version *v, pl_health *out)
{
    const double none = (double)NAN;
    const size_t n = (size_t)v->n_contributions;
    const bool weighted = r->arm.outer.weighted || r->arm.outer.quorum > 0;
    uint64_t bytes = 0;
    *out = (pl_health){none, none, none, none, none};
    const bool walking = r->walking;
    r->walking = false;
    if (v->params_gone)
        return PL_OK;
    PL_CHECK(pl_store_blob_bytes(r->store, &v->params, &bytes));
    if (bytes != (uint64_t)r->n * sizeof *r->params)
        return pl_fail(PL_ERR_DAMAGED, "%s@%llu has %llu bytes instead of %zu",
                       v->module, (unsigned long long)v->number,
                       (unsigned long long)bytes, r->n * sizeof *r->params);
    PL_CHECK(pl_store_read_blob(r->store, &v->params, 0, (size_t)bytes, r->params));
    r->walking = true;
    if (!walking || n == 0 || pl_version_is_merged(v)) {
        pl_health_begin(r->walk, r->params, v->number == 0);
        return PL_OK;
    }
    r->norms = pl_grow(r->norms, (n + 1) * sizeof *r->norms);
    r->weights = pl_grow(r->weights, (n + 1) * sizeof *r->weights);
    for (size_t i = 0; i < n; i++) {
        r->norms[i] = v->contributions[i].norm;
        r->weights[i] = weighted ? v->contributions[i].weight : 1;
    }
    const pl_health_step step = {.method = v->method,
                                 .lr = v->lr,
                                 .momentum = v->outer_momentum,
                                 .mean_norm = v->update_norm,
                                 .norms = r->norms,
                                 .weights = r->weights,
                                 .n = r->averages ? v->n_contributions : 0};
    pl_health_next(r->walk, r->params, &step, out);
    return PL_OK;
}

pl_status pl_module_health(pl_store *store, const char *module, uint64_t last,
                           pl_health **out)
{
    health_reader r = {.store = store};
    char arm[PL_MODULE_NAME_MAX];
    pl_version v = {0};
    pl_status status = PL_OK;
    *out = NULL;
    PL_TRY(pl_store_get_version(store, module, last, &v));
    /* A store may lack the arm's definition, for example if only modules were pushed to
     * it. Then the contributors' weights are not known. */
    pl_arm_of_module(module, arm, sizeof arm);
    status = pl_read_arm(store, arm, &r.arm, &r.topology);
    if (status != PL_OK && status != PL_ERR_NOT_FOUND && status != PL_ERR_PROTO)
        goto done;
    r.averages = status == PL_OK && pl_versions_suffice(&r.arm.outer) &&
                 !pl_codec_is_homomorphic(&r.arm.outer.codec) && !r.arm.outer.present;
    r.n = (size_t)v.n_params;
    PL_TRY(pl_try_alloc(r.n * sizeof *r.params, "a version", (void **)&r.params));
    PL_TRY(pl_health_walk_create(r.n, &r.walk));
    for (uint64_t number = 0; number <= last; number++) {
        pl_version_clear(&v);
        PL_TRY(pl_store_get_version(store, module, number, &v));
        *out = pl_grow(*out, (size_t)(number + 1) * sizeof **out);
        PL_TRY(follow_version(&r, &v, &(*out)[number]));
    }
done:
    pl_version_clear(&v);
    pl_health_walk_destroy(&r.walk);
    pl_free_all(r.params, r.norms, r.weights);
    pl_topology_destroy(&r.topology);
    pl_arm_clear(&r.arm);
    return status;
}
