/* folder: router; label: unit */
#include "router/arrange.h"

#include <math.h>

#include "tests/support/suite.h"

PL_TEST(alike_clusters_share_the_first_module)
{
    static const int orders[6][4] = {{0, 1, 2, 3}, {0, 2, 1, 3}, {0, 3, 2, 1},
                                     {3, 1, 0, 2}, {2, 0, 3, 1}, {1, 3, 0, 2}};
    static const int experts[] = {2, 2};
    static const float points[4][2] = {{0, 0}, {0, 1}, {9, 0}, {9, 1}};
    for (int o = 0; o < 6; o++) {
        float c[4][2];
        for (int p = 0; p < 4; p++)
            memcpy(c[p], points[orders[o][p]], sizeof c[p]);
        assert_ok(arrange_grid(&c[0][0], 4, 2, 2, experts, 1));
        bool first = c[0][0] == c[1][0] && c[2][0] == c[3][0];
        bool second = c[0][0] == c[2][0] && c[1][0] == c[3][0];
        assert_true(first || second);
        double seen = 0;
        for (int p = 0; p < 4; p++)
            seen += c[p][0] * 10 + c[p][1];
        assert_true(seen == 182); /* these are the same four centroids */
    }
}

PL_TEST(grid_of_points_is_found_again)
{
    static const int experts[] = {4, 4};
    float c[16][2];
    for (int p = 0; p < 16; p++) {
        int k = (int)pl_permute(5, 1, 16, (uint64_t)p);
        c[p][0] = (float)(k / 4);
        c[p][1] = (float)(k % 4);
    }
    assert_ok(arrange_grid(&c[0][0], 16, 2, 2, experts, 3));
    double scatter = 0;
    for (int level = 0; level < 2; level++)
        for (int e = 0; e < 4; e++) {
            double mean[2] = {0, 0};
            for (int i = 0; i < 4; i++)
                for (int d = 0; d < 2; d++)
                    mean[d] += (double)c[level ? 4 * i + e : 4 * e + i][d] / 4;
            for (int i = 0; i < 4; i++)
                for (int d = 0; d < 2; d++)
                    scatter +=
                        pow((double)c[level ? 4 * i + e : 4 * e + i][d] - mean[d], 2);
        }
    assert_true(scatter <=
                /* 4 rows and 4 columns of 4 points; each of these 8 lines has a scatter
                 * of 5. */
                40.0 + 1e-9);
}

PL_TEST(same_seed_gives_the_same_order)
{
    static const int experts[] = {4, 8};
    float a[32][3], b[32][3];
    for (int i = 0; i < 96; i++)
        (&a[0][0])[i] = pl_random_normal(1, 2, (uint64_t)i);
    memcpy(b, a, sizeof a);
    assert_ok(arrange_grid(&a[0][0], 32, 3, 2, experts, 7));
    assert_ok(arrange_grid(&b[0][0], 32, 3, 2, experts, 7));
    assert_memory_equal(a, b, sizeof a);
}
