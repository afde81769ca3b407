/* folder: router; label: unit */
#include "tests/support/router_support.h"

PL_TEST(separable_clouds_are_recovered)
{
    OWNED(free_memory) float *points = make_clouds(400, 16, 6, 6.0f);
    pl_router_options options = plain_options(6);
    options.restarts = 8;
    pl_router *router = fit(points, 400, 16, &options);
    assert_true(purity_of(router, points, 400, 6) == 1.0);
    assert_true(router->inertia < 17.0); /* the noise has variance 1 per column */
    pl_router_destroy(&router);
    assert_null(router);
}

PL_TEST(bytes_do_not_depend_on_threads)
{
    OWNED(free_memory) float *points = make_clouds(3000, 70, 5, 0.3f);
    for (int kind = 0; kind < 5; ++kind) {
        pl_buf bytes[3] = {{0}};
        for (int threads = 1; threads <= 3; ++threads) {
            pl_router_options options = plain_options(6);
            options.restarts = 2;
            options.n_threads = threads;
            options.balance = kind == 1 ? 0.2 : 0.0;
            options.standardize = kind >= 2;
            options.components = kind >= 3 ? 9 : 0;
            options.sharpen = kind == 4 ? 2 : 0;
            options.unit = kind >= 3;
            options.kind = kind >= 2 ? PL_ROUTER_PRODUCT : PL_ROUTER_KMEANS;
            options.n_levels = 2;
            options.experts[0] = 3;
            options.experts[1] = 2;
            OWNED(pl_router_destroy)
            pl_router *router = fit(points, 3000, 70, &options);
            router_bytes(router, &bytes[threads - 1]);
        }
        for (int other = 1; other < 3; ++other) {
            assert_same_bytes(bytes[0], bytes[other]);
        }
        for (int i = 0; i < 3; ++i)
            pl_buf_destroy(&bytes[i]);
    }
}

PL_TEST(another_seed_starts_elsewhere)
{
    OWNED(free_memory) float *points = make_clouds(500, 8, 3, 0.2f);
    pl_buf bytes[2] = {{0}};
    for (int i = 0; i < 2; ++i) {
        pl_router_options options = plain_options(7);
        options.restarts = 1;
        options.seed = (uint64_t)i;
        OWNED(pl_router_destroy) pl_router *router = fit(points, 500, 8, &options);
        router_bytes(router, &bytes[i]);
    }
    assert_memory_not_equal(bytes[0].data, bytes[1].data, bytes[0].len);
    pl_buf_destroy(&bytes[0]);
    pl_buf_destroy(&bytes[1]);
}

PL_TEST(two_clusters_on_a_line_are_the_best_cut)
{
    const float points[] = {0.0f, 0.5f, 0.7f, 4.0f, 4.1f, 4.5f, 5.0f, 5.2f};
    double best = INFINITY;
    for (int cut = 1; cut < 8; ++cut) {
        double total = 0.0;
        for (int side = 0; side < 2; ++side) {
            int first = side ? cut : 0, last = side ? 8 : cut;
            double mean = 0.0;
            for (int i = first; i < last; ++i)
                mean += (double)points[i] / (last - first);
            for (int i = first; i < last; ++i)
                total += ((double)points[i] - mean) * ((double)points[i] - mean);
        }
        best = fmin(best, total);
    }
    pl_router_options options = plain_options(2);
    OWNED(pl_router_destroy) pl_router *router = fit(points, 8, 1, &options);
    assert_true(fabs(router->inertia - best / 8.0) < 1e-6);
    assert_int_equal(path_of(router, &points[2]), path_of(router, &points[0]));
    assert_int_not_equal(path_of(router, &points[3]), path_of(router, &points[2]));
}

/* Shows that every path gets points, whatever the seed is: an empty cluster takes the
 * farthest point. One point is far from all others. */
PL_TEST(every_path_is_used_when_points_differ)
{
    float points[64];
    for (int i = 0; i < 64; ++i)
        points[i] = i == 63 ? 1e4f : (float)(i / 8) + 1e-3f * (float)i;
    for (uint64_t seed = 0; seed < 20; ++seed) {
        pl_router_options options = plain_options(8);
        options.restarts = 1;
        options.seed = seed;
        OWNED(pl_router_destroy) pl_router *router = fit(points, 64, 1, &options);
        int used[8] = {0}, n_used = 0;
        for (int i = 0; i < 64; ++i)
            n_used += used[path_of(router, &points[i])]++ == 0;
        assert_int_equal(n_used, 8);
    }
}

PL_TEST(identical_points_do_not_hang_or_fail)
{
    float points[40] = {0};
    pl_router_options options = plain_options(5);
    options.balance = 0.1;
    options.standardize = true;
    options.components = 2;
    options.sharpen = 2;
    options.unit = true;
    OWNED(pl_router_destroy) pl_router *router = fit(points, 10, 4, &options);
    assert_true(router->inertia == 0.0);
}

PL_TEST(standardizing_makes_a_small_column_count)
{
    float points[2 * 200];
    for (uint32_t i = 0; i < 200; ++i) { /* the clusters differ only in column 1 */
        points[2 * i] = 1000.0f * pl_random_normal(1, 1, i);
        points[2 * i + 1] = (i % 2 ? 1.0f : -1.0f) + 0.05f * pl_random_normal(1, 2, i);
    }
    pl_router_options options = plain_options(2);
    OWNED(pl_router_destroy) pl_router *router = fit(points, 200, 2, &options);
    assert_true(purity_of(router, points, 200, 2) < 0.7);
    pl_router_destroy(&router);
    options.standardize = true;
    router = fit(points, 200, 2, &options);
    assert_true(purity_of(router, points, 200, 2) == 1.0);
}

PL_TEST(two_components_find_the_plane_of_the_clouds)
{
    enum { N = 300, DIM = 12 };
    OWNED(free_memory) float *points = malloc(N * DIM * sizeof *points);
    for (uint32_t i = 0; i < N; ++i) {
        float x = (i % 3 == 0 ? 8.0f : i % 3 == 1 ? -8.0f : 0.0f);
        float y = (i % 3 == 2 ? 9.0f : -4.5f);
        for (uint32_t d = 0; d < DIM; ++d)
            points[i * DIM + d] = x * pl_random_normal(5, 1, d) +
                                  y * pl_random_normal(5, 2, d) +
                                  0.3f * pl_random_normal(5, 3, i * DIM + d);
    }
    pl_router_options options = plain_options(3);
    options.components = 2;
    OWNED(pl_router_destroy) pl_router *router = fit(points, N, DIM, &options);
    assert_true(purity_of(router, points, N, 3) == 1.0);
    assert_true(router->inertia < 0.02); /* the whitened points have the variance 2 */
}

/* Shows that sharpening finds the directions that separate clusters. The five clusters
 * differ in 10 of 40 columns; the other columns are noise. After standardizing, all
 * columns vary equally, so whitening alone finds these directions less well. Sharpening
 * finds them because within a cluster the points vary little in the 10 columns. */
PL_TEST(sharpening_finds_what_tells_clusters_apart)
{
    enum { N = 1200, DIM = 40, K = 5 };
    OWNED(free_memory) float *points = malloc(N * DIM * sizeof *points);
    for (uint32_t i = 0; i < N; ++i)
        for (uint32_t d = 0; d < DIM; ++d) {
            float side = pl_random_u32(4, 1, (i % K) * DIM + d) & 1 ? 1.0f : -1.0f;
            float noise = pl_random_normal(4, 2, i * DIM + d);
            points[i * DIM + d] = d < 10 ? side + 0.45f * noise : noise;
        }
    pl_router_options options = plain_options(K);
    options.standardize = true;
    options.components = 10;
    options.unit = true;
    OWNED(pl_router_destroy) pl_router *router = fit(points, N, DIM, &options);
    double plain = purity_of(router, points, N, K);
    pl_router_destroy(&router);
    options.sharpen = 3;
    router = fit(points, N, DIM, &options);
    double sharp = purity_of(router, points, N, K);
    if (!(sharp > 0.97 && sharp > plain))
        fail_msg("purity %f without sharpening, %f with it", plain, sharp);
}

PL_TEST(impossible_requests_name_their_numbers)
{
    float points[12] = {0};
    pl_router *router = NULL;
    pl_router_options options = plain_options(4);
    assert_fails(pl_router_fit(points, 3, 4, &options, &router), PL_ERR_DATA,
                 "fewer documents than paths: 4 paths but only 3 documents");
    assert_null(router);

    options = plain_options(6);
    options.kind = PL_ROUTER_PRODUCT;
    options.n_levels = 2;
    options.experts[0] = options.experts[1] = 2;
    assert_fails(pl_router_fit(points, 12, 1, &options, &router), PL_ERR_CONFIG,
                 "multiply to 6");

    options = plain_options(2);
    points[5] = NAN;
    assert_fails(pl_router_fit(points, 3, 4, &options, &router), PL_ERR_NUMERIC,
                 "element 1 of the feature of document 1");
}

PL_TEST(the_path_of_least_cost_is_taken)
{
    OWNED(free_memory) float *points = make_clouds(120, 8, 4, 1.0f);
    pl_router_options options = plain_options(4);
    options.balance = 0.05;
    OWNED(pl_router_destroy) pl_router *router = fit(points, 120, 8, &options);
    assert_int_equal(router->n_paths, 4);
    OWNED(free_memory)
    double *scratch = malloc(router_scratch_doubles(router) * sizeof *scratch);
    for (size_t i = 0; i < 120; ++i) {
        const double *costs = router_weigh(router, points + i * 8, scratch);
        int paths[4];
        rank_paths(router, points + i * 8, 4, paths);
        for (int rank = 1; rank < 4; ++rank)
            assert_true(costs[paths[rank - 1]] <= costs[paths[rank]]);
    }
}
