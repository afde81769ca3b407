/* folder: router; label: unit */
#include "tests/support/router_support.h"

/* Computes the weight of every path under a router. Also computes its number of
 * documents, unless n_docs is NULL. */
static void weigh_paths(const pl_router *router, const float *points, size_t n,
                        const double *weights, double *load, int *n_docs)
{
    int n_paths = router->n_paths;
    memset(load, 0, (size_t)n_paths * sizeof *load);
    if (n_docs)
        memset(n_docs, 0, (size_t)n_paths * sizeof *n_docs);
    for (size_t i = 0; i < n; ++i) {
        int path = path_of(router, points + i * (size_t)router->lens.dim);
        load[path] += weights ? weights[i] : 1.0;
        if (n_docs)
            ++n_docs[path];
    }
}

static double largest_of(const double *values, int n)
{
    double largest = values[0];
    for (int i = 1; i < n; ++i)
        largest = fmax(largest, values[i]);
    return largest;
}

/* Makes the weights of documents that have 1 to 200 tokens. Documents in the first of k
 * clouds are 16 times as long. *sum becomes the sum of the weights. */
static double *make_weights(size_t n, int k, double *sum)
{
    double *weights = malloc(n * sizeof *weights);
    *sum = 0.0;
    for (size_t i = 0; i < n; ++i) {
        weights[i] = 1.0 + pl_random_u32(6, 1, i) % 200;
        if (i % (size_t)k == 0)
            weights[i] *= 16.0;
        *sum += weights[i];
    }
    return weights;
}

PL_TEST(balance_keeps_every_path_below_its_limit)
{
    enum { N = 900, DIM = 4 };
    OWNED(free_memory)
    float *points = make_clouds(N, DIM, 3, 0.0f); /* one dense cloud ... */
    for (uint32_t i = 0; i < N / 30; ++i)
        points[i * DIM] += 40.0f; /* ... and some points far away */
    const double balances[] = {0.05, 0.25, 1.0};
    for (int b = 0; b < 3; ++b)
        for (int product = 0; product < 2; ++product) {
            pl_router_options options = plain_options(6);
            options.kind = product ? PL_ROUTER_PRODUCT : PL_ROUTER_KMEANS;
            options.n_levels = 2;
            options.experts[0] = 3;
            options.experts[1] = 2;
            options.balance = balances[b];
            OWNED(pl_router_destroy) pl_router *router = fit(points, N, DIM, &options);
            OWNED(pl_shards_clear) pl_shards shards;
            assert_ok(pl_shards_make(router, points, N, 1, &shards));
            for (int path = 0; path < 6; ++path)
                assert_true((double)(shards.first[path + 1] - shards.first[path]) <=
                            (1.0 + balances[b]) * N / 6.0);
        }
}

/* Shows that equal documents fill only one path. Half of the documents are equal. They
 * stay in one path, which gets few other documents. The other documents are balanced as
 * if the equal ones were one shard of mean size. */
PL_TEST(documents_that_are_alike_fill_one_path_and_no_more)
{
    enum { N = 800, DIM = 6, PATHS = 16, MEAN = N / PATHS, LIMIT = MEAN * 13 / 10 };
    OWNED(free_memory) float *points = make_clouds(N, DIM, 5, 2.0f);
    for (size_t i = 0; i < N; i += 2)
        memcpy(points + i * DIM, points, DIM * sizeof *points);
    pl_router_options options = plain_options(PATHS);
    options.balance = 0.3;
    OWNED(pl_router_destroy) pl_router *router = fit(points, N, DIM, &options);
    OWNED(pl_shards_clear) pl_shards shards;
    pl_alike alike;
    int n_over = 0;
    assert_ok(pl_shards_make(router, points, N, 1, &shards));
    assert_ok(pl_router_heaviest_alike(points, N, DIM, NULL, &alike));
    assert_int_equal(alike.n_docs, N / 2);
    assert_true(alike.weight == N / 2);
    for (int path = 0; path < PATHS; ++path) {
        size_t size = shards.first[path + 1] - shards.first[path];
        n_over += size > LIMIT;
        assert_true(size <= LIMIT || (size >= N / 2 && size <= N / 2 + LIMIT - MEAN));
    }
    assert_int_equal(n_over, 1);
}

PL_TEST(weights_limit_tokens_and_not_documents)
{
    enum { N = 1200, DIM = 8, CLOUDS = 6, PATHS = 6 };
    double sum, load[PATHS];
    int n_docs[PATHS], most = 0;
    OWNED(free_memory) float *points = make_clouds(N, DIM, CLOUDS, 2.0f);
    OWNED(free_memory) double *weights = make_weights(N, CLOUDS, &sum);
    const double limit = 1.2 * sum / PATHS;
    pl_router_options options = plain_options(PATHS);
    options.balance = 0.2;
    OWNED(pl_router_destroy) pl_router *router = fit(points, N, DIM, &options);
    weigh_paths(router, points, N, weights, load, NULL);
    assert_true(largest_of(load, PATHS) > 2.0 * limit);
    pl_router_destroy(&router);
    options.weights = weights;
    router = fit(points, N, DIM, &options);
    weigh_paths(router, points, N, weights, load, n_docs);
    assert_true(largest_of(load, PATHS) <= limit * (1.0 + 1e-9));
    for (int path = 0; path < PATHS; ++path)
        most = n_docs[path] > most ? n_docs[path] : most;
    assert_true(most > 1.2 * N / PATHS);
}

PL_TEST(a_document_beyond_the_limit_counts_as_a_mean_shard)
{
    enum { N = 800, DIM = 6, PATHS = 8, HEAVY = 5 };
    double sum = 0.0, load[PATHS];
    OWNED(free_memory) float *points = make_clouds(N, DIM, 4, 2.0f);
    double weights[N];
    for (int i = 0; i < N; ++i)
        sum += weights[i] = i == HEAVY ? (N - 1) * 3.0 / (PATHS - 3) : 1.0;
    pl_router_options options = plain_options(PATHS);
    options.balance = 0.3;
    options.weights = weights;
    OWNED(pl_router_destroy) pl_router *router = fit(points, N, DIM, &options);
    pl_alike alike;
    weigh_paths(router, points, N, weights, load, NULL);
    int own = path_of(router, points + HEAVY * DIM);
    for (int path = 0; path < PATHS; ++path) {
        double rest = load[path] - (path == own ? weights[HEAVY] : 0.0);
        double most = (path == own ? 0.3 : 1.3) * sum / PATHS;
        if (!(rest <= most * (1.0 + 1e-9)))
            fail_msg("the other documents of path %d weigh %g, the limit is %g", path,
                     rest, most);
    }
    assert_ok(pl_router_heaviest_alike(points, N, DIM, weights, &alike));
    assert_int_equal(alike.n_docs, 1);
    assert_true(alike.weight == weights[HEAVY]);
}

/* Shows that a fit ends near a limit that cannot be reached. Nine documents on four
 * paths cannot stay below 1.01 times the mean, because one path must have at least
 * three. No path may have more than three. */
PL_TEST(a_limit_out_of_reach_is_approached)
{
    enum { N = 9, DIM = 3, PATHS = 4 };
    double load[PATHS];
    OWNED(free_memory) float *points = make_clouds(N, DIM, 1, 0.0f);
    pl_router_options options = plain_options(PATHS);
    options.balance = 0.01;
    OWNED(pl_router_destroy) pl_router *router = fit(points, N, DIM, &options);
    weigh_paths(router, points, N, NULL, load, NULL);
    assert_true(largest_of(load, PATHS) == 3.0);
}

static void encode_fit(const float *points, size_t n, int dim,
                       const pl_router_options *options, pl_buf *out)
{
    OWNED(pl_router_destroy) pl_router *router = fit(points, n, dim, options);
    router_bytes(router, out);
}

/* Fits a router. Its bytes must be `wanted`. */
static void assert_fit(const float *points, size_t n, int dim,
                       const pl_router_options *options, const pl_buf *wanted)
{
    OWNED(pl_buf_destroy) pl_buf bytes = {0};
    encode_fit(points, n, dim, options, &bytes);
    assert_same_bytes(bytes, *wanted);
}

PL_TEST(a_fit_in_bounded_memory_sees_every_kth_document)
{
    enum { N = 1000, DIM = 6, PATHS = 4, STRIDE = 3, FEW = N / STRIDE };
    double sum, few_weights[FEW];
    float few[FEW * DIM];
    OWNED(free_memory) float *points = make_clouds(N, DIM, PATHS, 3.0f);
    OWNED(free_memory) double *weights = make_weights(N, PATHS, &sum);
    for (size_t i = 0; i < FEW; ++i) {
        memcpy(few + i * DIM, points + i * STRIDE * DIM, DIM * sizeof *few);
        few_weights[i] = weights[i * STRIDE];
    }
    pl_router_options options = plain_options(PATHS);
    options.balance = 0.2;
    options.weights = weights;
    pl_buf bytes[4] = {{0}};
    const uint64_t bounds[] = {0, 1 << 20, 42000};
    for (int i = 0; i < 4; ++i) {
        options.memory = i < 3 ? bounds[i] : 0;
        options.weights = i < 3 ? weights : few_weights;
        assert_int_equal(pl_router_stride(&options, N, DIM), i == 2 ? STRIDE : 1);
        OWNED(pl_router_destroy)
        pl_router *router = fit(i < 3 ? points : few, i < 3 ? N : FEW, DIM, &options);
        router_bytes(router, &bytes[i]);
    }
    for (int i = 1; i < 4; i += 2)
        assert_same_bytes(bytes[i], bytes[i - 1]);
    assert_memory_not_equal(bytes[0].data, bytes[2].data, bytes[0].len);
    options.memory = 1; /* even this fit has at least one document per path */
    assert_true(N / pl_router_stride(&options, N, DIM) >= PATHS);
    for (int i = 0; i < 4; ++i)
        pl_buf_destroy(&bytes[i]);
}

/* Shows that equal weights give the same router as no weights, because only the
 * proportions of weights matter. The factor 512 scales all sums without rounding. */
PL_TEST(weights_of_one_are_no_weights)
{
    enum { N = 600, DIM = 5, PATHS = 7 };
    OWNED(free_memory) float *points = make_clouds(N, DIM, 3, 0.5f);
    double weights[N];
    OWNED(pl_buf_destroy) pl_buf none = {0}, plain = {0};
    pl_router_options options = plain_options(PATHS);
    encode_fit(points, N, DIM, &options, &plain);
    options.balance = 0.1;
    encode_fit(points, N, DIM, &options, &none);
    /* The limit changes the router, so it matters here. */
    assert_memory_not_equal(none.data, plain.data, none.len);
    const double each[] = {1.0, 512.0};
    for (int k = 0; k < 2; ++k) {
        for (int i = 0; i < N; ++i)
            weights[i] = each[k];
        options.weights = weights;
        assert_fit(points, N, DIM, &options, &none);
    }
}

/* Shows that the bytes of a router with weights do not depend on the number of threads.
 * The documents of a path are divided between threads if there are more than a
 * thousand. */
PL_TEST(weighted_bytes_do_not_depend_on_threads)
{
    enum { N = 6000, DIM = 4, PATHS = 4 };
    double sum;
    OWNED(free_memory) float *points = make_clouds(N, DIM, 3, 0.3f);
    OWNED(free_memory) double *weights = make_weights(N, 3, &sum);
    OWNED(pl_buf_destroy) pl_buf one = {0};
    pl_router_options options = plain_options(PATHS);
    options.restarts = 1;
    options.balance = 0.05;
    options.weights = weights;
    encode_fit(points, N, DIM, &options, &one);
    for (int threads = 2; threads <= 4; ++threads) {
        options.n_threads = threads;
        assert_fit(points, N, DIM, &options, &one);
    }
}

PL_TEST(weights_that_mean_nothing_are_refused)
{
    OWNED(free_memory) float *points = make_clouds(8, 2, 2, 3.0f);
    double weights[8] = {1, 1, 1, -1, 1, 1, 1, 1};
    pl_router *router = NULL;
    pl_router_options options = plain_options(2);
    options.balance = 0.3;
    options.weights = weights;
    assert_fails(pl_router_fit(points, 8, 2, &options, &router), PL_ERR_CONFIG,
                 "document 3 has the weight -1");
    assert_null(router);
    weights[3] = NAN;
    assert_int_equal(pl_router_fit(points, 8, 2, &options, &router), PL_ERR_CONFIG);
    memset(weights, 0, sizeof weights);
    assert_fails(pl_router_fit(points, 8, 2, &options, &router), PL_ERR_CONFIG,
                 "all 8 documents have weight 0");
}
