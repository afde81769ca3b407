/* folder: workers
 *
 * Trains again the tasks of the newest version of mix/L1.E0 in a run, first correctly
 * and then with faults. Usage: retrain_check STORE THREADS. The result must equal the
 * worker's update if nothing is changed, and must differ with a fault. On another kind
 * of machine, or if data is missing, there must be no verdict. Also checks that the
 * paths began with the moments with which the base model ended. */
#include "codec/codec.h"
#include "outer/outer.h"
#include "workers/workers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char MODULE[] = "mix/L1.E0";

typedef struct bench {
    pl_store *store;
    pl_arm arm;
    pl_topology *topology;
    pl_version v;
    pl_backend_options backend;
    int failures;
} bench;

static pl_status open_bench(bench *b, const char *folder)
{
    pl_status status = PL_OK;
    PL_TRY(pl_store_open(folder, PL_STORE_READ, &b->store));
    PL_TRY(pl_read_arm(b->store, "mix", &b->arm, &b->topology));
    PL_TRY(pl_store_head(b->store, MODULE, &b->v));
done:
    return status;
}

static void demand(bench *b, bool truth, const char *what)
{
    printf("%s: %s\n", truth ? "ok" : "FAILED", what);
    b->failures += !truth;
}

/* ---- the moments with which the paths of the arm began ---- */
/* Computes the mean of the moments with which the base model's replicas ended. */
static pl_status mean_moments(bench *b, const pl_arm *base, const pl_topology *t,
                              size_t n, float *mean)
{
    int replicas = pl_topology_n_replicas(t);
    float *own = calloc(n, sizeof *own);
    pl_status status = own ? PL_OK : PL_ERR_NOMEM;
    for (int replica = 0; status == PL_OK && replica < replicas; replica++) {
        pl_path_state state;
        char name[96];
        pl_arm_path_name(base, t, 0, replica, name);
        PL_TRY(pl_store_get_path(b->store, name, &state));
        PL_TRY(pl_store_read_blob(b->store, &state.moments, 0, n * sizeof *own, own));
        for (size_t i = 0; i < n; i++)
            mean[i] += own[i] / (float)replicas;
    }
done:
    free(own);
    return status;
}

static void check_moments(bench *b)
{
    pl_arm base;
    pl_topology *t = NULL;
    size_t n = pl_path_moments_floats(&b->arm, pl_topology_path_params(b->topology)),
           off = 0, zero = 0;
    float *mean = calloc(n, sizeof *mean), *named = calloc(n, sizeof *named);
    memset(&base, 0, sizeof base);
    pl_status status = mean && named ? PL_OK : PL_ERR_NOMEM;
    PL_TRY(status);
    PL_TRY(pl_read_arm(b->store, "base", &base, &t));
    PL_TRY(mean_moments(b, &base, t, n, mean));
    PL_TRY(pl_store_read_blob(b->store, &b->arm.moments, 0, n * sizeof *named, named));
    for (size_t i = 0; i < n; i++) {
        off += mean[i] != named[i];
        zero += named[i] == 0;
    }
    demand(b, off == 0, "paths begin with the base model's moments");
    demand(b, zero < n / 2, "at least half of these moments are not zero");
    demand(b, b->arm.inner.first_step == base.inner.tau * base.inner.phases,
           "paths continue the base model's count of steps");
done:
    if (status != PL_OK)
        demand(b, false, pl_last_error());
    free(mean);
    free(named);
    pl_topology_destroy(&t);
    pl_arm_clear(&base);
}

static pl_status retrain(bench *b, const pl_contribution *c, pl_hash *update)
{
    return pl_task_retrain(b->store, &b->arm, b->topology, MODULE, c, &b->backend,
                           update);
}

static bool gives(bench *b, const pl_contribution *c, const pl_hash *wanted)
{
    pl_hash got;
    pl_status status = retrain(b, c, &got);
    if (status != PL_OK)
        printf("%s\n", pl_last_error());
    return status == PL_OK && pl_hash_equal(&got, wanted);
}

static void check(bench *b)
{
    pl_contribution one = b->v.contributions[0], two = b->v.contributions[1];
    pl_contribution claimed = one;
    pl_hash none;
    uint64_t seed = b->arm.seed;
    double lr = b->arm.inner.lr;
    demand(b, gives(b, &one, &one.update), "the first task gives its update again");
    demand(b, gives(b, &two, &two.update), "the second task gives its update again");
    claimed.path = two.path;
    claimed.replica = two.replica;
    demand(b, gives(b, &claimed, &two.update),
           "a contribution that names another path is "
           "compared with that path");
    b->arm.seed = seed + 1;
    demand(b, !gives(b, &one, &one.update),
           "different samples give a different update");
    b->arm.seed = seed;
    b->arm.inner.lr = lr * 1.0001;
    demand(b, !gives(b, &one, &one.update),
           "a different learning rate gives a different update");
    b->arm.inner.lr = lr;
    claimed = one;
    claimed.phase--;
    demand(b, !gives(b, &claimed, &one.update),
           "the previous phase gives a different update");
    b->backend.name = "ref";
    demand(b,
           retrain(b, &one, &none) == PL_ERR_NOT_FOUND &&
               strstr(pl_last_error(), "rounds differently"),
           "another device gives no verdict");
}

int main(int argc, char **argv)
{
    bench b = {.backend = {.name = "auto", .precision = "auto"}};
    if (argc != 3)
        return 64;
    b.backend.n_threads = atoi(argv[2]);
    pl_status status = open_bench(&b, argv[1]);
    if (status == PL_OK && b.v.n_contributions >= 2) {
        check_moments(&b);
        check(&b);
    } else
        demand(&b, false, status == PL_OK ? "two contributions" : pl_last_error());
    pl_version_clear(&b.v);
    pl_topology_destroy(&b.topology);
    pl_arm_clear(&b.arm);
    pl_store_close(&b.store);
    return b.failures > 0;
}
