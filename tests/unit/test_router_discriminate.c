/* folder: router; label: unit */
/* Tests the linear router, which is fitted to scores. */
#include "router/discriminate.h"
#include "tests/support/router_support.h"

enum { N = 600, DIM = 6, PATHS = 4 };

/* Makes documents whose largest column does not influence the scores. The signs of two
 * small columns decide which path has the best score. */
static float *make_quiet(double *scores)
{
    float *points = pl_alloc((size_t)N * DIM * sizeof *points);
    for (uint64_t i = 0; i < N; ++i) {
        float *x = points + i * DIM;
        for (uint64_t d = 0; d < DIM; ++d)
            x[d] = pl_random_normal(3, 1, i * DIM + d);
        x[0] *= 20.0f;
        int best = (x[1] > 0.0f) + 2 * (x[2] > 0.0f);
        for (uint64_t p = 0; p < PATHS; ++p)
            scores[i * PATHS + p] = (p == (uint64_t)best ? -50.0 : -60.0) +
                                    (double)pl_random_normal(3, 2, i * PATHS + p);
    }
    return points;
}

static pl_router_options linear_options(const double *scores)
{
    pl_router_options options = plain_options(PATHS);
    options.kind = PL_ROUTER_LINEAR;
    options.scores = scores;
    options.standardize = true;
    options.decay = 1e-3;
    options.iterations = 300;
    return options;
}

static int best_of(const double *scores, size_t i)
{
    int best = 0;
    for (int p = 1; p < PATHS; ++p)
        if (scores[i * PATHS + (size_t)p] > scores[i * PATHS + (size_t)best])
            best = p;
    return best;
}

static int hits(const pl_router *router, const float *points, const double *scores)
{
    int n = 0;
    for (size_t i = 0; i < N; ++i)
        n += path_of(router, points + i * DIM) == best_of(scores, i);
    return n;
}

PL_TEST(it_learns_what_clusters_do_not_show)
{
    double scores[N * PATHS];
    OWNED(free_memory) float *points = make_quiet(scores);
    pl_router_options options = linear_options(scores), plain = plain_options(PATHS);
    plain.standardize = true;
    OWNED(pl_router_destroy) pl_router *linear = fit(points, N, DIM, &options);
    OWNED(pl_router_destroy) pl_router *kmeans = fit(points, N, DIM, &plain);
    assert_true(hits(linear, points, scores) > N * 95 / 100);
    pl_judgement judged;
    OWNED(free_memory) int *path = malloc(N * sizeof *path);
    OWNED(free_memory) uint32_t *label = malloc(N * sizeof *label);
    for (size_t i = 0; i < N; ++i) {
        path[i] = path_of(kmeans, points + i * DIM);
        label[i] = (uint32_t)best_of(scores, i);
    }
    pl_judge(path, PATHS, label, PATHS, N, &judged);
    assert_true(judged.purity < 0.7);
}

/* Computes the objective of discriminate_fit with plain loops. */
static double objective(const discriminate_job *job, const float *rows)
{
    double sum = 0.0, squares = 0.0;
    int columns = job->dim + 1;
    for (size_t i = 0; i < job->n; ++i) {
        double z[PATHS], total = 0.0;
        for (int c = 0; c < job->k; ++c) {
            z[c] = (double)rows[c * columns + job->dim];
            for (int d = 0; d < job->dim; ++d)
                z[c] += (double)rows[c * columns + d] *
                        (double)job->points[i * (size_t)job->dim + (size_t)d];
            total += exp(z[c]);
        }
        sum -= z[best_of(job->scores, i)] - log(total);
    }
    for (int c = 0; c < job->k; ++c)
        for (int d = 0; d < job->dim; ++d)
            squares += (double)rows[c * columns + d] * (double)rows[c * columns + d];
    return sum / (double)job->n + 0.5 * job->decay * squares;
}

/* Shows that a fit ends at the minimum of the objective. The objective is convex and
 * smooth, so a point is the minimum if no step along a coordinate makes it smaller. */
PL_TEST(it_ends_at_the_minimum)
{
    enum { COLUMNS = DIM + 1 };
    OWNED(free_memory)
    double *scores = malloc(sizeof(double) * N * PATHS),
           *residuals = malloc(sizeof(double) * N * PATHS);
    float *points = make_quiet(scores), rows[PATHS * COLUMNS];
    discriminate_job job = {.points = points,
                            .n = N,
                            .dim = DIM,
                            .k = PATHS,
                            .scores = scores,
                            .decay = 0.01,
                            .iterations = 2000,
                            .n_threads = 2};
    double loss = 0.0;
    assert_ok(discriminate_fit(&job, residuals, rows, &loss));
    double least = objective(&job, rows);
    assert_true(loss > 0.0 && loss < log(PATHS));
    assert_true(least >= loss);
    for (int i = 0; i < PATHS * COLUMNS; ++i)
        for (int sign = -1; sign <= 1; sign += 2) {
            float kept = rows[i];
            rows[i] += (float)sign * 0.01f;
            assert_true(objective(&job, rows) >= least - 1e-9);
            rows[i] = kept;
        }
    free(points);
}

PL_TEST(its_bytes_do_not_depend_on_threads)
{
    double scores[N * PATHS];
    OWNED(free_memory) float *points = make_quiet(scores);
    pl_buf bytes[2] = {{0}, {0}};
    for (int t = 0; t < 2; ++t) {
        pl_router_options options = linear_options(scores);
        options.n_threads = t ? 3 : 1;
        options.balance = 0.1;
        OWNED(pl_router_destroy) pl_router *router = fit(points, N, DIM, &options);
        router_bytes(router, &bytes[t]);
    }
    assert_same_bytes(bytes[0], bytes[1]);
    pl_buf_destroy(&bytes[0]);
    pl_buf_destroy(&bytes[1]);
}

PL_TEST(prices_balance_it)
{
    double scores[N * PATHS];
    OWNED(free_memory) float *points = make_quiet(scores);
    for (size_t i = 0; i < N; ++i)
        if (i % 10 != 0)
            scores[i * PATHS + 3] = 0.0;
    pl_router_options options = linear_options(scores);
    OWNED(pl_router_destroy) pl_router *free_router = fit(points, N, DIM, &options);
    options.balance = 0.2;
    OWNED(pl_router_destroy) pl_router *router = fit(points, N, DIM, &options);
    int load[2][PATHS] = {{0}, {0}};
    for (size_t i = 0; i < N; ++i) {
        ++load[0][path_of(free_router, points + i * DIM)];
        ++load[1][path_of(router, points + i * DIM)];
    }
    assert_true(load[0][3] > N / 2);
    for (int p = 0; p < PATHS; ++p)
        assert_true(load[1][p] <= N * 12 / 10 / PATHS);
}

PL_TEST(prices_may_be_those_of_other_documents)
{
    double scores[N * PATHS], weights[N], load[PATHS] = {0}, total = 0;
    OWNED(free_memory) float *points = make_quiet(scores);
    for (size_t i = 0; i < N; ++i) {
        if (i % 10 != 0)
            scores[i * PATHS + 3] = 0.0;
        weights[i] = 1.0 + (double)(i % 7);
        total += weights[i];
    }
    pl_router_options options = linear_options(scores);
    OWNED(pl_router_destroy) pl_router *router = fit(points, N / 4, DIM, &options);
    options.balance = 0.2;
    options.weights = weights;
    assert_ok(pl_router_price(router, points, N, &options));
    for (size_t i = 0; i < N; ++i)
        load[path_of(router, points + i * DIM)] += weights[i];
    for (int p = 0; p < PATHS; ++p)
        assert_true(load[p] <= total * 1.2 / PATHS * (1 + 1e-9));
    options.balance = 0;
    assert_ok(pl_router_price(router, points, N, &options));
    double most = 0;
    for (size_t i = 0; i < N; ++i)
        most += path_of(router, points + i * DIM) == 3 ? weights[i] : 0;
    assert_true(most > total / 2);
}

PL_TEST(prices_of_a_sample_are_those_of_its_documents)
{
    double scores[N * PATHS], some_weights[N], weights[N];
    OWNED(free_memory)
    float *points = make_quiet(scores), *some = malloc((size_t)N * DIM * sizeof *some);
    assert_non_null(some);
    for (size_t i = 0; i < N; ++i)
        weights[i] = 1.0 + (double)(i % 11);
    pl_router_options options = linear_options(scores);
    OWNED(pl_router_destroy) pl_router *bounded = fit(points, N, DIM, &options);
    OWNED(pl_router_destroy) pl_router *gathered = fit(points, N, DIM, &options);
    options.balance = 0.01;
    options.memory = 40000;
    options.weights = weights;
    const size_t stride = pl_router_stride(&options, N, DIM), n = N / stride;
    assert_true(stride > 1);
    for (size_t i = 0; i < n; ++i) {
        memcpy(some + i * DIM, points + i * stride * DIM, DIM * sizeof *some);
        some_weights[i] = weights[i * stride];
    }
    assert_ok(pl_router_price(bounded, points, N, &options));
    options.memory = 0;
    options.weights = some_weights;
    assert_ok(pl_router_price(gathered, some, n, &options));
    for (size_t i = 0; i < N; ++i)
        assert_int_equal(path_of(bounded, points + i * DIM),
                         path_of(gathered, points + i * DIM));
    options.weights = weights;
    assert_ok(pl_router_price(gathered, points, N, &options));
    size_t n_other = 0;
    for (size_t i = 0; i < N; ++i)
        n_other +=
            path_of(bounded, points + i * DIM) != path_of(gathered, points + i * DIM);
    assert_true(n_other > 0);
}

PL_TEST(a_sample_takes_its_scores_along)
{
    double scores[N * PATHS];
    OWNED(free_memory) float *points = make_quiet(scores);
    pl_router_options options = linear_options(scores);
    options.memory = 40000;
    assert_true(pl_router_stride(&options, N, DIM) > 1);
    OWNED(pl_router_destroy) pl_router *router = fit(points, N, DIM, &options);
    assert_true(hits(router, points, scores) > N * 90 / 100);
}

PL_TEST(what_cannot_be_fitted_is_refused)
{
    double scores[N * PATHS];
    OWNED(free_memory) float *points = make_quiet(scores);
    pl_router *router = NULL;
    pl_router_options options = linear_options(scores);
    options.decay = -1.0;
    assert_fails(pl_router_fit(points, N, DIM, &options, &router), PL_ERR_CONFIG,
                 "decay (-1)");
    options = linear_options(scores);
    scores[5 * PATHS + 2] = NAN;
    assert_fails(pl_router_fit(points, N, DIM, &options, &router), PL_ERR_NUMERIC,
                 "path 2 predicts document 5 with the log likelihood nan");
    assert_null(router);
}
