/* folder: outer; label: unit
 *
 * Tests the methods that blend several modules into one. Every method is compared with
 * plain loops in double precision. With the weights 1 and 0, the methods linear and
 * slerp must return the bytes of the first source. */
#include "outer/outer.h"

#include <math.h>
#include <stdlib.h>

#include "tests/support/suite.h"

enum { N = 1000, SOURCES = 3 };

static float values[SOURCES][N], base[N], out[N];
static const float *const sources[SOURCES] = {values[0], values[1], values[2]};

static int fill_values(void **state)
{
    (void)state;
    uint32_t seed = 7;
    for (int s = -1; s < SOURCES; s++)
        for (int i = 0; i < N; i++) {
            seed = seed * 1664525u + 1013904223u;
            float v = (float)(seed >> 8) / (1 << 24) - 0.5f;
            if (s < 0)
                base[i] = v;
            else
                values[s][i] = base[i] + v * v * v;
        }
    values[0][3] = -0.0f;
    return 0;
}

static pl_blend blend_of(pl_blend_method method, int n)
{
    pl_blend b = {.method = method, .scale = 1, .density = 1, .n_sources = n};
    for (int s = 0; s < n; s++)
        b.weights[s] = 1 + 0.5 * s;
    return b;
}

PL_TEST(linear_is_the_weighted_mean)
{
    pl_blend b = blend_of(PL_BLEND_LINEAR, SOURCES);
    assert_ok(pl_blend_run(&b, sources, NULL, N, out));
    for (int i = 0; i < N; i++) {
        double sum = 0;
        for (int s = 0; s < SOURCES; s++)
            sum += b.weights[s] / 4.5 * (double)values[s][i];
        assert_true(out[i] == (float)sum);
    }
}

PL_TEST(weights_1_and_0_give_the_bytes_of_the_first)
{
    for (int m = PL_BLEND_LINEAR; m <= PL_BLEND_SLERP; m++) {
        pl_blend b = blend_of((pl_blend_method)m, 2);
        b.weights[0] = 1;
        b.weights[1] = 0;
        assert_ok(pl_blend_run(&b, sources, NULL, N, out));
        assert_memory_equal(out, values[0], sizeof out);
    }
}

PL_TEST(slerp_goes_along_the_arc)
{
    double xx = 0, yy = 0, xy = 0, norm = 0;
    pl_blend b = blend_of(PL_BLEND_SLERP, 2);
    b.weights[0] = 3;
    b.weights[1] = 1;
    assert_ok(pl_blend_run(&b, sources, NULL, N, out));
    for (int i = 0; i < N; i++) {
        xx += (double)values[0][i] * (double)values[0][i];
        yy += (double)values[1][i] * (double)values[1][i];
        xy += (double)values[0][i] * (double)values[1][i];
        norm += (double)out[i] * (double)out[i];
    }
    double angle = acos(xy / sqrt(xx * yy));
    for (int i = 0; i < N; i++) {
        double x = values[0][i], y = values[1][i];
        double want = (sin(0.75 * angle) * x + sin(0.25 * angle) * y) / sin(angle);
        assert_true(fabs((double)out[i] - want) < 1e-6);
    }
    /* The result is about as long as its sources; their linear mean is shorter. */
    assert_true(sqrt(norm) > fmin(sqrt(xx), sqrt(yy)) * 0.999);
    const float *const same[2] = {values[0], values[0]};
    assert_ok(pl_blend_run(&b, same, NULL, N, out));
    for (int i = 0; i < N; i++)
        assert_true(fabs((double)out[i] - (double)values[0][i]) < 1e-7);
}

PL_TEST(task_adds_weighted_differences_to_the_base)
{
    pl_blend b = blend_of(PL_BLEND_TASK, 2);
    b.weights[1] = -0.5;
    b.scale = 0.7;
    assert_ok(pl_blend_run(&b, sources, base, N, out));
    for (int i = 0; i < N; i++) {
        double sum = 0.7 * ((double)values[0][i] - (double)base[i]) +
                     0.7 * -0.5 * ((double)values[1][i] - (double)base[i]);
        assert_true(fabs((double)out[i] - ((double)base[i] + sum)) < 1e-7);
    }
}

static int by_size_down(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return x > y ? -1 : x < y;
}

/* Returns the smallest absolute difference from `base` that the method `ties` keeps,
 * found by sorting all differences. */
static float sorted_threshold(const float *x, double density)
{
    float sizes[N];
    for (int i = 0; i < N; i++)
        sizes[i] = fabsf(x[i] - base[i]);
    qsort(sizes, N, sizeof *sizes, by_size_down);
    return sizes[(int)ceil(density * N) - 1];
}

PL_TEST(ties_trims_elects_and_takes_the_mean)
{
    static const double densities[] = {0.0001, 0.2, 0.37, 1};
    for (int k = 0; k < 4; k++) {
        float least[SOURCES];
        int n_elected = 0;
        pl_blend b = blend_of(PL_BLEND_TIES, SOURCES);
        b.density = densities[k];
        b.scale = 0.8;
        assert_ok(pl_blend_run(&b, sources, base, N, out));
        for (int s = 0; s < SOURCES; s++)
            least[s] = sorted_threshold(values[s], b.density);
        for (int i = 0; i < N; i++) {
            double sum = 0, mean = 0, weight = 0;
            for (int s = 0; s < SOURCES; s++) {
                float d = values[s][i] - base[i];
                if (fabsf(d) >= least[s])
                    sum += b.weights[s] * (double)d;
            }
            for (int s = 0; s < SOURCES; s++) {
                float d = values[s][i] - base[i];
                if (fabsf(d) >= least[s] && (double)d * sum > 0) {
                    mean += b.weights[s] * (double)d;
                    weight += b.weights[s];
                }
            }
            n_elected += weight > 0;
            double want = (double)base[i] + (weight > 0 ? 0.8 * (mean / weight) : 0);
            assert_true(out[i] == (float)want);
        }
        assert_true(n_elected >= (int)ceil(b.density * N));
        assert_true(b.density == 1 || n_elected <= SOURCES * (int)ceil(b.density * N));
    }
}

PL_TEST(numbers_that_make_no_sense_are_refused)
{
    pl_blend b = blend_of(PL_BLEND_SLERP, 3);
    assert_int_equal(pl_blend_check(&b), PL_ERR_USAGE);
    b = blend_of(PL_BLEND_LINEAR, 2);
    b.weights[1] = -1;
    assert_int_equal(pl_blend_check(&b), PL_ERR_USAGE);
    b.weights[0] = b.weights[1] = 0;
    assert_int_equal(pl_blend_check(&b), PL_ERR_USAGE);
    /* each weight is finite, but their sum is not */
    b.weights[0] = b.weights[1] = 1e308;
    assert_int_equal(pl_blend_check(&b), PL_ERR_USAGE);
    b = blend_of(PL_BLEND_TIES, 2);
    b.density = 0;
    assert_int_equal(pl_blend_check(&b), PL_ERR_USAGE);
    b = blend_of(PL_BLEND_TASK, 2);
    b.scale = 1e300;
    b.weights[0] = 1e300;
    assert_int_equal(pl_blend_run(&b, sources, base, N, out), PL_ERR_NUMERIC);
    b.scale = 1;
    b.weights[0] = 1e9; /* finite, but far beyond the sources */
    assert_int_equal(pl_blend_run(&b, sources, base, N, out), PL_ERR_NUMERIC);
    assert_int_equal(pl_blend_parse("mean", &b.method), PL_ERR_USAGE);
}

PL_TEST(a_modules_name_has_its_arm)
{
    char arm[PL_ARM_NAME_MAX];
    assert_string_equal(pl_arm_of_module("mix~2/L1.E0", arm, sizeof arm), "L1.E0");
    assert_string_equal(arm, "mix~2");
    assert_string_equal(pl_arm_of_module("L1.E0", arm, sizeof arm), "L1.E0");
    assert_string_equal(arm, "");
    assert_string_equal(
        pl_arm_of_module("a-name-that-no-arm-can-have/L1", arm, sizeof arm),
        "a-name-that-no-arm-can-have/L1");
    assert_string_equal(arm, "");
}

PL_SUITE(fill_values, NULL)
