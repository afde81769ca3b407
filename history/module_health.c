/* Visits the versions of a module from 0 on. From their parameters and records,
 * computes how well the outer steps worked (module_health.h). */
#include "history/module_health.h"
#include "history/merged.h"
#include <math.h>

/* If a rollback or `store merge` made a version, there was no outer step, and the
 * momentum after it is not known. So the walk begins again at that version. */
pl_status pl_module_health(pl_store *store, const char *module, uint64_t last,
                           pl_health **out)
{
    const double none = (double)NAN;
    char name[PL_MODULE_NAME_MAX];
    pl_arm arm = {0};
    pl_topology *topology = NULL;
    pl_health_walk *walk = NULL;
    pl_version v = {0};
    float *params = NULL;
    double *norms = NULL, *weights = NULL;
    bool walking = false; /* whether the walk has the previous version */
    pl_status status = PL_OK;
    *out = NULL;
    PL_TRY(pl_store_get_version(store, module, last, &v));
    /* A store may lack the arm's definition, for example if only modules were pushed to
     * it. Then the contributors' weights are not known. */
    pl_arm_of_module(module, name, sizeof name);
    status = pl_read_arm(store, name, &arm, &topology);
    if (status != PL_OK && status != PL_ERR_NOT_FOUND && status != PL_ERR_PROTO)
        goto done;
    /* whether versions are made from the mean of the contributors' updates */
    const bool averages = status == PL_OK && pl_versions_suffice(&arm.outer) &&
                          !pl_codec_is_homomorphic(&arm.outer.codec) &&
                          !arm.outer.present;
    const bool weighted = arm.outer.weighted || arm.outer.quorum > 0;
    const size_t n_params = (size_t)v.n_params;
    PL_TRY(pl_try_alloc(n_params * sizeof *params, "a version", (void **)&params));
    PL_TRY(pl_health_walk_create(n_params, &walk));
    for (uint64_t number = 0; number <= last; number++) {
        const bool walked = walking;
        uint64_t bytes = 0;
        pl_version_clear(&v);
        PL_TRY(pl_store_get_version(store, module, number, &v));
        *out = pl_grow(*out, (size_t)(number + 1) * sizeof **out);
        pl_health *health = &(*out)[number];
        *health = (pl_health){none, none, none, none, none};
        walking = !v.params_gone;
        if (v.params_gone)
            continue;
        PL_TRY(pl_store_blob_bytes(store, &v.params, &bytes));
        if (bytes != (uint64_t)n_params * sizeof *params)
            PL_TRY(pl_fail(PL_ERR_DAMAGED, "%s@%llu has %llu bytes instead of %zu",
                           v.module, (unsigned long long)v.number,
                           (unsigned long long)bytes, n_params * sizeof *params));
        PL_TRY(pl_store_read_blob(store, &v.params, 0, (size_t)bytes, params));
        const size_t n = (size_t)v.n_contributions;
        if (!walked || n == 0 || pl_version_is_merged(&v)) {
            pl_health_begin(walk, params, v.number == 0);
            continue;
        }
        norms = pl_grow(norms, (n + 1) * sizeof *norms);
        weights = pl_grow(weights, (n + 1) * sizeof *weights);
        for (size_t i = 0; i < n; i++) {
            norms[i] = v.contributions[i].norm;
            weights[i] = weighted ? v.contributions[i].weight : 1;
        }
        const pl_health_step step = {.method = v.method,
                                     .lr = v.lr,
                                     .momentum = v.outer_momentum,
                                     .mean_norm = v.update_norm,
                                     .norms = norms,
                                     .weights = weights,
                                     .n = averages ? v.n_contributions : 0};
        pl_health_next(walk, params, &step, health);
    }
done:
    pl_version_clear(&v);
    pl_health_walk_destroy(&walk);
    pl_free_all(params, norms, weights);
    pl_topology_destroy(&topology);
    pl_arm_clear(&arm);
    return status;
}
