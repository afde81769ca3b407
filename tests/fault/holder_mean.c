/* folder: outer; label: tool
 *
 *   holder_mean STORE ARM
 *
 * Checks whether noloco's paths and the home agree after a finished arm. The mean of
 * the parameters with which the holders of a module began their last phase must be the
 * second last version of the module. So the check finds a pair whose mates took
 * different steps. It prints the number of modules, the largest difference, and the
 * number of contributions whose pair was split. */
#include "outer/outer.h"

#include <math.h>
#include <stdio.h>

typedef struct look {
    pl_store *store;
    pl_arm arm;
    pl_topology *topology;
    int n_modules, n_split;
    double worst;
} look;

/* Adds to `sum` the parameters with which (path, replica) began its last phase. */
static pl_status add_holder(look *l, int slot, int path, int replica, double *sum)
{
    char name[96];
    pl_path_state state;
    float *values = NULL;
    pl_status status = PL_OK;
    pl_path_layout layout = pl_path_layout_of(&l->arm);
    size_t all = pl_topology_path_params(l->topology);
    const pl_slot *place = pl_topology_slot(l->topology, slot);
    uint64_t at = place->offset * sizeof *values;
    for (int v = 0; v < layout.params; v++)
        at += pl_path_vector_bytes(&l->arm, v, all);
    pl_arm_path_name(&l->arm, l->topology, path, replica, name);
    PL_TRY(pl_store_get_path(l->store, name, &state));
    PL_TRY(
        pl_try_alloc(place->n_params * sizeof *values, "a holder", (void **)&values));
    PL_TRY(pl_store_read_blob(l->store, &state.moments, at,
                              place->n_params * sizeof *values, values));
    for (size_t i = 0; i < place->n_params; i++)
        sum[i] += (double)values[i];
done:
    pl_free(values);
    return status;
}

static pl_status compare(look *l, const char *name, size_t n, int holders,
                         const double *sum)
{
    pl_version v;
    float *values = NULL;
    pl_status status = PL_OK;
    memset(&v, 0, sizeof v);
    PL_TRY(pl_store_get_version(l->store, name, (uint64_t)l->arm.inner.phases - 1, &v));
    PL_TRY(pl_try_alloc(n * sizeof *values, "a version", (void **)&values));
    PL_TRY(pl_store_read_blob(l->store, &v.params, 0, n * sizeof *values, values));
    for (size_t i = 0; i < n; i++)
        l->worst = fmax(l->worst, fabs(sum[i] / holders - (double)values[i]));
done:
    pl_version_clear(&v);
    pl_free(values);
    return status;
}

static pl_status count_split(void *context, const pl_version *v)
{
    look *l = context;
    for (int i = 0; i < v->n_contributions; i++)
        l->n_split += v->contributions[i].split;
    return PL_OK;
}

static pl_status look_at(look *l, int module)
{
    char name[96];
    int slot = pl_topology_module_slot(l->topology, module);
    int replicas = pl_topology_n_replicas(l->topology);
    size_t n = pl_topology_slot(l->topology, slot)->n_params;
    double *sum = pl_alloc(n * sizeof *sum);
    pl_status status = PL_OK;
    for (int p = 0; p < pl_topology_n_paths(l->topology); p++)
        for (int r = 0; r < replicas && pl_topology_path_has(l->topology, p, module);
             r++)
            PL_TRY(add_holder(l, slot, p, r, sum));
    pl_arm_module_name(&l->arm, l->topology, module, name);
    PL_TRY(compare(l, name, n, pl_arm_contributors(l->topology, module), sum));
    PL_TRY(pl_store_each_version(l->store, name, count_split, l));
    l->n_modules++;
done:
    pl_free(sum);
    return status;
}

int main(int argc, char **argv)
{
    look l = {0};
    pl_status status = PL_OK;
    if (argc != 3) {
        fprintf(stderr, "usage: holder_mean STORE ARM\n");
        return 64;
    }
    PL_TRY(pl_store_open(argv[1], PL_STORE_READ, &l.store));
    PL_TRY(pl_read_arm(l.store, argv[2], &l.arm, &l.topology));
    for (int m = 0; m < pl_topology_n_modules(l.topology); m++)
        if (pl_arm_method(&l.arm, l.topology, m).method == PL_METHOD_NOLOCO)
            PL_TRY(look_at(&l, m));
    printf("%d modules, difference %.3g, %d split\n", l.n_modules, l.worst, l.n_split);
done:
    if (status != PL_OK)
        fprintf(stderr, "holder_mean: %s\n", pl_last_error());
    pl_topology_destroy(&l.topology);
    pl_arm_clear(&l.arm);
    pl_store_close(&l.store);
    return status != PL_OK || l.n_modules == 0 || l.worst > 1e-5;
}
