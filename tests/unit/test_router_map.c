/* folder: router; label: unit */
/* Tests the picture of a router, in which the position of a document is the first two
 * principal components of its features. */
#include "tests/support/corpus_support.h"
#include "router/router.h"
#include <math.h>

enum { N = 300, DIM = 5 };

/* Makes documents with two strong directions, an offset, different scales, and a column
 * that never varies. */
static void fill_features(float *x)
{
    const uint64_t stream = pl_stream("test-map", 0, 0);
    for (size_t i = 0; i < N; i++) {
        const double a = 3 * (double)pl_random_normal(1, stream, 3 * i),
                     b = 2 * (double)pl_random_normal(1, stream, 3 * i + 1),
                     noise = 0.3 * (double)pl_random_normal(1, stream, 3 * i + 2);
        const double row[DIM] = {a + noise, 50 + 10 * (a - b), -b + noise, 7, a + b};
        for (int d = 0; d < DIM; d++)
            x[i * DIM + (size_t)d] = (float)row[d];
    }
}

/* Computes z [N, DIM]: the standardised columns, with plain loops. */
static void standardise_plainly(const float *x, double *z)
{
    for (int d = 0; d < DIM; d++) {
        double mean = 0, square = 0;
        for (size_t i = 0; i < N; i++)
            mean += (double)x[i * DIM + (size_t)d] / N;
        for (size_t i = 0; i < N; i++)
            square += pow((double)x[i * DIM + (size_t)d] - mean, 2) / N;
        for (size_t i = 0; i < N; i++)
            z[i * DIM + (size_t)d] =
                square > 1e-9 ? ((double)x[i * DIM + (size_t)d] - mean) / sqrt(square)
                              : 0;
    }
}

/* Finds the direction of greatest variance by power iteration. Removes it from the
 * covariance, and returns its variance. */
static double take_direction(double covariance[DIM][DIM], double out[DIM])
{
    double value = 0;
    for (int d = 0; d < DIM; d++)
        out[d] = 1 + d;
    for (int step = 0; step < 5000; step++) {
        double next[DIM] = {0};
        value = 0;
        for (int i = 0; i < DIM; i++)
            for (int k = 0; k < DIM; k++)
                next[i] += covariance[i][k] * out[k];
        for (int i = 0; i < DIM; i++)
            value += next[i] * next[i];
        value = sqrt(value);
        for (int i = 0; i < DIM; i++)
            out[i] = next[i] / value;
    }
    for (int i = 0; i < DIM; i++)
        for (int k = 0; k < DIM; k++)
            covariance[i][k] -= value * out[i] * out[k];
    return value;
}

PL_TEST(a_map_is_the_first_two_principal_components)
{
    float x[N * DIM], xy[2 * N], again[2 * N];
    double z[N * DIM], covariance[DIM][DIM] = {{0}}, shares[2], same[2];
    fill_features(x);
    standardise_plainly(x, z);
    for (size_t i = 0; i < N; i++)
        for (int a = 0; a < DIM; a++)
            for (int b = 0; b < DIM; b++)
                covariance[a][b] += z[i * DIM + (size_t)a] * z[i * DIM + (size_t)b] / N;
    assert_ok(pl_router_map(x, N, DIM, 1, xy, shares));
    for (int axis = 0; axis < 2; axis++) {
        double direction[DIM], sign = 0;
        const double variance = take_direction(covariance, direction);
        assert_float_equal((float)shares[axis], (float)(variance / (DIM - 1)), 1e-5f);
        for (size_t i = 0; i < N; i++) {
            double want = 0;
            for (int d = 0; d < DIM; d++)
                want += direction[d] * z[i * DIM + (size_t)d] / sqrt(variance);
            const double got = (double)xy[2 * i + (size_t)axis];
            if (sign == 0)
                sign = got * want < 0 ? -1 : 1;
            assert_float_equal((float)got, (float)(sign * want), 1e-3f);
        }
    }
    assert_true(shares[0] > shares[1] && shares[0] + shares[1] > 0.9);
    assert_ok(pl_router_map(x, N, DIM, 3, again, same));
    assert_memory_equal(xy, again, sizeof xy);
}

PL_TEST(the_order_of_documents_does_not_turn_the_picture)
{
    float x[N * DIM], turned[N * DIM], xy[2 * N], back[2 * N];
    double shares[2];
    fill_features(x);
    for (size_t i = 0; i < N; i++)
        memcpy(turned + (N - 1 - i) * DIM, x + i * DIM, DIM * sizeof *x);
    assert_ok(pl_router_map(x, N, DIM, 1, xy, shares));
    assert_ok(pl_router_map(turned, N, DIM, 1, back, shares));
    for (size_t i = 0; i < N; i++)
        for (size_t axis = 0; axis < 2; axis++)
            assert_float_equal(xy[2 * i + axis], back[2 * (N - 1 - i) + axis], 1e-3);
}

PL_TEST(odd_features_give_a_finite_picture)
{
    float same[4 * DIM], one[3] = {1, 2, 4}, xy[8];
    double shares[2];
    for (int i = 0; i < 4 * DIM; i++)
        same[i] = 3;
    assert_ok(pl_router_map(same, 4, DIM, 1, xy, shares)); /* all points are equal */
    for (int i = 0; i < 8; i++)
        assert_true(xy[i] == 0);
    assert_true(shares[0] == 0 && shares[1] == 0);
    assert_ok(pl_router_map(one, 3, 1, 1, xy, shares)); /* there is only one column */
    assert_float_equal(shares[0], 1, 1e-6);
    assert_true(xy[0] < xy[2] && xy[2] < xy[4] && xy[1] == 0 && shares[1] == 0);
    /* There is only one document. */
    assert_ok(pl_router_map(same, 1, DIM, 1, xy, shares));
    assert_true(xy[0] == 0 && xy[1] == 0);
}
