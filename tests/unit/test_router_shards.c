/* folder: router; label: unit */
#include "tests/support/router_support.h"

enum { N = 240, DIM = 6, EXPERTS = 3, PATHS = EXPERTS * EXPERTS };

static pl_router *product_router(const float *points)
{
    pl_router_options options = plain_options(PATHS);
    options.kind = PL_ROUTER_PRODUCT;
    options.n_levels = 2;
    options.experts[0] = options.experts[1] = EXPERTS;
    return fit(points, N, DIM, &options);
}

/* Computes the mean of the points of each label. The centroids of a finished k-means
 * are at these means. */
static void means_of(const float *points, int first, const int *label, double *means)
{
    double counts[EXPERTS] = {0};
    memset(means, 0, EXPERTS * (DIM / 2) * sizeof *means);
    for (int i = 0; i < N; ++i) {
        counts[label[i]] += 1.0;
        for (int d = 0; d < DIM / 2; ++d)
            means[label[i] * (DIM / 2) + d] += (double)points[i * DIM + first + d];
    }
    for (int k = 0; k < EXPERTS * (DIM / 2); ++k)
        means[k] /= counts[k / (DIM / 2)];
}

static double distance(const float *x, const double *mean)
{
    double sum = 0.0;
    for (int d = 0; d < DIM / 2; ++d)
        sum += ((double)x[d] - mean[d]) * ((double)x[d] - mean[d]);
    return sum;
}

PL_TEST(product_paths_rank_by_summed_distances)
{
    OWNED(free_memory) float *points = make_clouds(N, DIM, 4, 1.0f);
    OWNED(pl_router_destroy) pl_router *router = product_router(points);
    int label[2][N];
    double means[2][EXPERTS * (DIM / 2)];
    for (int i = 0; i < N; ++i) {
        int path = path_of(router, points + i * DIM);
        label[0][i] = path / EXPERTS;
        label[1][i] = path % EXPERTS;
    }
    means_of(points, 0, label[0], means[0]);
    means_of(points, DIM / 2, label[1], means[1]);
    for (int i = 0; i < N; ++i) {
        int paths[PATHS];
        bool seen[PATHS] = {false};
        double last = -1.0;
        rank_paths(router, points + i * DIM, PATHS, paths);
        for (int rank = 0; rank < PATHS; ++rank) {
            double cost = distance(points + i * DIM,
                                   means[0] + paths[rank] / EXPERTS * (DIM / 2)) +
                          distance(points + i * DIM + DIM / 2,
                                   means[1] + paths[rank] % EXPERTS * (DIM / 2));
            assert_true(cost > last - 1e-5);
            assert_false(seen[paths[rank]]);
            seen[paths[rank]] = true;
            last = cost;
        }
    }
}

PL_TEST(a_shorter_ranking_is_the_start_of_the_longer)
{
    OWNED(free_memory) float *points = make_clouds(N, DIM, 4, 1.0f);
    OWNED(pl_router_destroy) pl_router *router = product_router(points);
    for (int i = 0; i < N; ++i) {
        int all[PATHS], some[4];
        rank_paths(router, points + i * DIM, PATHS, all);
        rank_paths(router, points + i * DIM, 4, some);
        assert_memory_equal(all, some, sizeof some);
    }
}

static bool contains(const pl_shards *shards, int path, uint32_t doc)
{
    for (size_t i = shards->first[path]; i < shards->first[path + 1]; ++i)
        if (shards->docs[i] == doc)
            return true;
    return false;
}

PL_TEST(with_overlap_a_document_stands_in_its_nearest_shards)
{
    OWNED(free_memory) float *points = make_clouds(N, DIM, 4, 1.0f);
    OWNED(pl_router_destroy) pl_router *router = product_router(points);
    for (int overlap = 1; overlap <= 3; ++overlap) {
        pl_shards shards;
        assert_ok(pl_shards_make(router, points, N, overlap, &shards));
        assert_int_equal(shards.n_paths, PATHS);
        for (uint32_t i = 0; i < N; ++i) {
            int ranked[PATHS];
            rank_paths(router, points + i * DIM, PATHS, ranked);
            assert_int_equal(shards.path_of[i], ranked[0]);
            for (int rank = 0; rank < PATHS && shards.n_repaired == 0; ++rank)
                assert_int_equal(contains(&shards, ranked[rank], i), rank < overlap);
        }
        for (int path = 0; path < PATHS; ++path)
            for (size_t i = shards.first[path] + 1; i < shards.first[path + 1]; ++i)
                assert_true(shards.docs[i - 1] < shards.docs[i]);
        if (shards.n_repaired == 0)
            assert_int_equal(shards.first[PATHS], N * overlap);
        pl_shards_clear(&shards);
        assert_null(shards.docs);
    }
}

/* Shows that paths without documents get their nearest documents. Columns 0-2 and
 * columns 3-5 have the same clusters, so without repair only 3 of the 9 paths get
 * documents. */
PL_TEST(empty_paths_get_their_nearest_documents)
{
    enum { MANY = 720, REPAIR = MANY / (8 * PATHS) };
    OWNED(free_memory) float *points = malloc(MANY * DIM * sizeof *points);
    for (uint32_t i = 0; i < MANY; ++i)
        for (uint32_t d = 0; d < DIM; ++d)
            points[i * DIM + d] =
                20.0f * (float)(i % 3 == d % 3) + pl_random_normal(2, 2, i * DIM + d);
    pl_router_options options = plain_options(PATHS);
    options.kind = PL_ROUTER_PRODUCT;
    options.n_levels = 2;
    options.experts[0] = options.experts[1] = EXPERTS;
    options.restarts = 8;
    OWNED(pl_router_destroy) pl_router *router = fit(points, MANY, DIM, &options);
    OWNED(pl_shards_clear) pl_shards shards;
    assert_ok(pl_shards_make(router, points, MANY, 1, &shards));
    assert_int_equal(shards.n_repaired, PATHS - 3);
    int n_short = 0;
    for (int path = 0; path < PATHS; ++path) {
        size_t n = shards.first[path + 1] - shards.first[path];
        assert_true(n >= REPAIR);
        n_short += n == REPAIR;
        for (size_t i = shards.first[path] + 1; i < shards.first[path + 1]; ++i)
            assert_true(shards.docs[i - 1] < shards.docs[i]);
    }
    assert_int_equal(n_short, PATHS - 3);
}

PL_TEST(overlap_out_of_range_is_refused)
{
    OWNED(free_memory) float *points = make_clouds(N, DIM, 4, 1.0f);
    OWNED(pl_router_destroy) pl_router *router = product_router(points);
    pl_shards shards;
    assert_int_equal(pl_shards_make(router, points, N, 0, &shards), PL_ERR_CONFIG);
    assert_fails(pl_shards_make(router, points, N, PATHS + 1, &shards), PL_ERR_CONFIG,
                 "10 shards of 9 paths");
    assert_int_equal(pl_shards_make(router, points, 0, 1, &shards), PL_ERR_DATA);
}
