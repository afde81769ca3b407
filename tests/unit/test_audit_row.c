/* folder: home; label: unit
 *
 * Tests audits without workers: which tasks are drawn for an audit, how the record
 * (row) of an audit is written and read, and which worker's result is the odd one. */
#include "codec/codec.h"
#include "outer/outer.h"
#include "home/home_internal.h"
#include "tests/support/tiny_arm.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static pl_arm arm_of(const char *name, uint64_t seed)
{
    pl_arm arm;
    memset(&arm, 0, sizeof arm);
    pl_copy_text(arm.name, sizeof arm.name, name);
    arm.seed = seed;
    return arm;
}

static int n_drawn(const pl_arm *arm, double share)
{
    int n = 0;
    for (int path = 0; path < 40; path++)
        for (int64_t phase = 0; phase < 100; phase++)
            n += pl_audit_draws(arm, path, path % 3, phase, share);
    return n;
}

static void share_of_tasks_is_drawn(void **state)
{
    (void)state;
    pl_arm arm = arm_of("mix", 7);
    assert_int_equal(n_drawn(&arm, 0), 0);
    assert_int_equal(n_drawn(&arm, 1), 4000);
    assert_in_range(n_drawn(&arm, 0.1), 330, 470);
}

static void draw_depends_on_seed_and_task_alone(void **state)
{
    (void)state;
    pl_arm arm = arm_of("mix", 7), again = arm_of("mix", 7), other = arm_of("mix", 8);
    int n_same = 0;
    for (int64_t phase = 0; phase < 200; phase++) {
        bool drawn = pl_audit_draws(&arm, 3, 1, phase, 0.5);
        assert_int_equal(drawn, pl_audit_draws(&again, 3, 1, phase, 0.5));
        if (drawn) /* a task drawn at 0.5 is also drawn at 0.7 */
            assert_true(pl_audit_draws(&arm, 3, 1, phase, 0.7));
        n_same += drawn == pl_audit_draws(&other, 3, 1, phase, 0.5);
    }
    assert_in_range(n_same, 60, 140);
}

static void methods_that_depend_on_the_hour_are_left_out(void **state)
{
    (void)state;
    static const pl_method out[] = {PL_METHOD_NOLOCO, PL_METHOD_DELAYED_NESTEROV};
    pl_arm arm = arm_of("mix", 7);
    for (size_t i = 0; i < sizeof out / sizeof *out; i++) {
        arm.outer.method.method = out[i];
        assert_int_equal(n_drawn(&arm, 1), 0);
    }
    arm.outer.method.method = PL_METHOD_CO2;
    assert_int_equal(n_drawn(&arm, 1), 4000);
    arm.outer.state = PL_STATE_LOCAL;
    assert_int_equal(n_drawn(&arm, 1), 0);
}

static pl_audit_result result_of(const char *worker, char what)
{
    pl_audit_result r;
    memset(&r, 0, sizeof r);
    pl_copy_text(r.worker, sizeof r.worker, worker);
    pl_copy_text(r.device, sizeof r.device, "cpu \"bf16\"");
    pl_hash_of("audit", &what, 1, &r.digest);
    return r;
}

/* Makes an audit and adds the results of workers a, b and c in turn. Each letter of
 * `results` is one result; equal letters mean equal bytes. */
static pl_audit judged(const char *results)
{
    pl_audit a;
    memset(&a, 0, sizeof a);
    pl_copy_text(a.path, sizeof a.path, "mix/p01.r0");
    a.phase = 4;
    a.results[0] = result_of("a", results[0]);
    a.n = 1;
    for (int i = 1; results[i]; i++) {
        pl_audit_result r = result_of(i == 1 ? "b" : "c", results[i]);
        for (int k = 0; k < i && k < PL_AUDIT_RESULTS - 1; k++)
            r.apart[k] = results[i] == results[k] ? 0 : -1;
        pl_audit_judge(&a, &r, 0);
    }
    return a;
}

/* Makes an audit with the results of workers a, b and c, which differ in their bytes,
 * and judges it with tolerance 0.5. ab, ac and bc are the distances between two
 * results, as in pl_audit_result.apart: below 0 for devices of the same kind. */
static pl_audit judged_across(double ab, double ac, double bc)
{
    pl_audit a = judged("x");
    pl_audit_result b = result_of("b", 'y'), c = result_of("c", 'z');
    b.apart[0] = ab;
    c.apart[0] = ac;
    c.apart[1] = bc;
    pl_audit_judge(&a, &b, 0.5);
    pl_audit_judge(&a, &c, 0.5);
    return a;
}

static void between_kinds_small_distances_are_the_same(void **state)
{
    (void)state;
    static const struct {
        double ab, ac, bc;
        pl_verdict verdict;
        int odd, n;
    } rows[] = {
        {0.1, 0, 0, PL_VERDICT_AGREED, 0, 2},
        {0.5, 0, 0, PL_VERDICT_AGREED, 0, 2},
        {2.0, 0.1, 2.0, PL_VERDICT_SETTLED, 1, 3},
        {2.0, 2.0, 0.1, PL_VERDICT_SETTLED, 0, 3},
        {2.0, 2.0, 2.0, PL_VERDICT_UNDECIDED, 0, 3},
        {0.6, 0.3, 0.3, PL_VERDICT_UNDECIDED, 0, 3}, /* c is near both a and b */
        {2.0, -1, 0.1, PL_VERDICT_SETTLED, 0, 3},
        {-1, 0.1, 0.1, PL_VERDICT_UNDECIDED, 0, 3},
        {-1, 0, 2.0, PL_VERDICT_SETTLED, 1, 3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_audit a = judged_across(rows[i].ab, rows[i].ac, rows[i].bc);
        assert_int_equal(a.verdict, rows[i].verdict);
        assert_int_equal(a.odd, rows[i].odd);
        assert_int_equal(a.n, rows[i].n);
    }
}

/* ---- likeness ---- */
enum { N = 5000 };

static void fill(float *x, uint64_t stream, float scale)
{
    for (size_t i = 0; i < N; i++)
        x[i] = scale * pl_random_normal(5, stream, i);
}

static double distance_of(uint64_t seed, const float *x, const float *y)
{
    pl_likeness a, b;
    pl_likeness_of(seed, 0, x, N, &a);
    pl_likeness_of(seed, 0, y, N, &b);
    return pl_likeness_distance(&a, &b);
}

/* The distance of two vectors is computed from their sketches. With every seed it must
 * be right within 1e-3 if one vector is a multiple of the other. It must be large for
 * unrelated vectors and small for similar ones. */
static void likeness_tells_angles_and_factors(void **state)
{
    (void)state;
    static const struct {
        double factor, distance;
    } rows[] = {{1, 0},      {0.5, 0.5}, {2, 0.5},        {0.8, 0.2},
                {1.25, 0.2}, {0, 1},     {1e6, 1 - 1e-6}, {-1, 2}};
    float *x = pl_alloc(N * sizeof *x), *y = pl_alloc(N * sizeof *y);
    fill(x, 1, 1e-3f);
    for (uint64_t seed = 1; seed < 40; seed++) {
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            for (size_t i = 0; i < N; i++)
                y[i] = (float)rows[r].factor * x[i];
            assert_true(fabs(distance_of(seed, x, y) - rows[r].distance) < 1e-3);
        }
        fill(y, 2, 1e-3f); /* unrelated vectors */
        assert_true(distance_of(seed, x, y) > 0.6);
        fill(y, 2, 0.5e-3f); /* a cosine of 0.89, as between two kinds of devices */
        for (size_t i = 0; i < N; i++)
            y[i] = 0.9f * (x[i] + y[i]);
        assert_true(distance_of(seed, x, y) < 0.25);
        fill(y, 1, 1e-3f);
        y[17] += 1; /* one value that bad memory changed */
        assert_true(distance_of(seed, x, y) > 0.6);
    }
    pl_free(x);
    pl_free(y);
}

static void likeness_is_of_seed_and_part(void **state)
{
    (void)state;
    float *x = pl_alloc(N * sizeof *x);
    pl_likeness a, b;
    fill(x, 1, 1);
    pl_likeness_of(3, 1, x, N, &a);
    pl_likeness_of(3, 1, x, N, &b);
    assert_memory_equal(&a, &b, sizeof a);
    pl_likeness_of(3, 2, x, N, &b);
    assert_memory_not_equal(&a, &b, sizeof a);
    pl_likeness_of(4, 1, x, N, &b);
    assert_memory_not_equal(&a, &b, sizeof a);
    b.cells[3] = NAN;
    assert_true(pl_likeness_distance(&a, &b) > 1e300);
    memset(&a, 0, sizeof a);
    assert_true(pl_likeness_distance(&a, &a) == 0);
    pl_free(x);
}

static void likeness_is_of_what_travels(void **state)
{
    (void)state;
    pl_arm arm = arm_of("mix", 7);
    pl_topology *topology = NULL;
    pl_codec_options codec;
    pl_likeness plain, coded, moments[PL_AUDIT_MOMENTS];
    pl_buf bytes = {0};
    arm.shape = tiny_shape(2);
    arm.spec = (pl_topology_spec){.n_levels = 2, .experts = {2, 2}, .replicas = 1};
    assert_int_equal(pl_topology_create(&arm.shape, &arm.spec, &topology), PL_OK);
    int module = 1, slot = pl_topology_module_slot(topology, module);
    size_t n = pl_topology_slot(topology, slot)->n_params,
           all = pl_topology_path_params(topology);
    float *update = pl_alloc(2 * all * sizeof *update);
    pl_codec_part *parts = pl_alloc(64 * sizeof *parts);
    int n_parts = pl_codec_parts(topology, module, parts);
    for (size_t i = 0; i < 2 * all; i++)
        update[i] = pl_random_normal(5, 9, i);
    pl_likeness_of(3, (uint64_t)slot, update, n, &plain);
    assert_int_equal(pl_codec_options_default("bf16", &codec), PL_OK);
    assert_int_equal(
        pl_codec_encode_module(&codec, parts, n_parts, NULL, update, NULL, &bytes),
        PL_OK);
    assert_int_equal(
        pl_audit_update(topology, module, 3, bytes.data, bytes.len, &coded), PL_OK);
    assert_true(pl_likeness_distance(&plain, &coded) < 0.01);
    assert_int_not_equal(
        pl_audit_update(topology, module, 3, bytes.data, bytes.len - 1, &coded), PL_OK);
    arm.outer.state = PL_STATE_F32;
    assert_int_equal(
        pl_audit_moments(&arm, topology, 3, update, 2 * all * sizeof *update, moments),
        PL_OK);
    pl_likeness_of(3, (uint64_t)pl_topology_n_slots(topology) + 1, update + all, all,
                   &plain);
    assert_memory_equal(&plain, &moments[1], sizeof plain);
    assert_int_equal(pl_audit_moments(&arm, topology, 3, update, 12, moments),
                     PL_ERR_DATA);
    pl_free(update);
    pl_free(parts);
    pl_buf_destroy(&bytes);
    pl_topology_destroy(&topology);
}

static void verdict_follows_from_the_results(void **state)
{
    (void)state;
    static const struct {
        const char *results;
        pl_verdict verdict;
        int odd;
    } rows[] = {
        {"x", PL_VERDICT_OPEN, 0},      {"xx", PL_VERDICT_AGREED, 0},
        {"xy", PL_VERDICT_OPEN, 0},     {"xyx", PL_VERDICT_SETTLED, 1},
        {"xyy", PL_VERDICT_SETTLED, 0}, {"xyz", PL_VERDICT_UNDECIDED, 0},
        {"xxy", PL_VERDICT_AGREED, 0},  {"xyxx", PL_VERDICT_SETTLED, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_audit a = judged(rows[i].results);
        assert_int_equal(a.verdict, rows[i].verdict);
        assert_int_equal(a.odd, rows[i].odd);
    }
}

static void row_says_all_of_it(void **state)
{
    (void)state;
    static const char *const results[] = {"x", "xx", "xy", "xyy", "xyz"};
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        pl_audit a = judged(results[i]), b;
        pl_buf text = {0};
        pl_copy_text(a.reason, sizeof a.reason, "because \\ \"so\"");
        pl_hash_of("blob", "s", 1, &a.after);
        a.seed = UINT64_MAX - i;
        a.repeats = (int64_t)i;
        if (a.verdict == PL_VERDICT_OPEN)
            for (int c = 0; c < PL_LIKENESS_CELLS; c++)
                a.moments[1].cells[c] = (float)c / 3;
        else
            a.tolerance = 0.1;
        pl_audit_write(&a, &text);
        assert_true(text.len < PL_AUDIT_TEXT_MAX);
        assert_int_equal(pl_audit_read(pl_buf_text(&text), &b), PL_OK);
        assert_memory_equal(&a, &b, sizeof a);
        pl_buf_destroy(&text);
    }
}

static void longest_row_fits(void **state)
{
    (void)state;
    pl_audit a = judged("xyz"), b;
    pl_buf text = {0};
    a.verdict = PL_VERDICT_OPEN; /* only the row of an open audit has sketches */
    a.seed = UINT64_MAX;
    a.results[2].apart[0] = a.results[2].apart[1] = 0.1234567890123456789;
    a.tolerance = 0.1234567890123456789;
    memset(a.path, 'p', sizeof a.path - 1);
    memset(a.reason, '"', sizeof a.reason - 1);
    for (int i = 0; i < PL_AUDIT_RESULTS; i++) {
        memset(a.results[i].worker, '\\', sizeof a.results[i].worker - 1);
        memset(a.results[i].device, '"', sizeof a.results[i].device - 1);
    }
    pl_hash_of("blob", "s", 1, &a.before);
    pl_audit_write(&a, &text);
    assert_true(text.len < PL_AUDIT_TEXT_MAX);
    assert_int_equal(pl_audit_read(pl_buf_text(&text), &b), PL_OK);
    pl_buf_destroy(&text);
}

static void other_texts_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "[]",
        "{}",
        "{\"path\":\"a\",\"phase\":0,\"verdict\":\"open\",\"results\":[]}",
        "{\"path\":\"a\",\"phase\":-1,\"verdict\":\"open\",\"results\":[{\"worker\":"
        "\"w\",\"device\":\"\"}]}",
        "{\"path\":\"a\",\"phase\":0,\"verdict\":\"fine\",\"results\":[{\"worker\":"
        "\"w\",\"device\":\"\"}]}",
        "{\"path\":\"a\",\"phase\":0,\"verdict\":\"settled\",\"odd\":\"q\",\"results\":"
        "[{\"worker\":\"w\",\"device\":\"\"}]}",
        "{\"path\":\"a\",\"phase\":0,\"verdict\":\"open\",\"seed\":\"12\",\"results\":"
        "[{\"worker\":\"w\",\"device\":\"\"}]}",
        "{\"path\":\"a\",\"phase\":0,\"verdict\":\"open\",\"seed\":"
        "\"0000000000000001\","
        "\"moments\":\"00\",\"results\":[{\"worker\":\"w\",\"device\":\"\"}]}",
        "{\"path\":\"a\",\"phase\":0,\"verdict\":\"open\",\"after\":\"zz\",\"results\":"
        "[{\"worker\":\"w\",\"device\":\"\"}]}",
        "{\"path\":\"a\",\"phase\":2,\"verdict\":\"open\",\"repeats\":3,\"results\":"
        "[{\"worker\":\"w\",\"device\":\"\"}]}",
        "{\"path\":\"a\",\"phase\":2,\"verdict\":\"open\",\"repeats\":-1,\"results\":"
        "[{\"worker\":\"w\",\"device\":\"\"}]}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        pl_audit a;
        assert_int_not_equal(pl_audit_read(texts[i], &a), PL_OK);
    }
}

/* All features have a large part in common. An audit must see nevertheless that
 * features belong to other documents, or are the same for all documents; a difference
 * that comes from rounding must stay small. */
static void wrong_features_are_unlike_the_right_ones(void **state)
{
    enum { DOCS = 40, WIDTH = 16, WRONG = 3 };
    static float right[DOCS * WIDTH], other[WRONG][DOCS * WIDTH];
    const pl_shape shape = {.vocab = 32,
                            .width = WIDTH,
                            .n_heads = 2,
                            .n_kv_heads = 2,
                            .head_size = 8,
                            .ffn = 16,
                            .n_blocks = 1,
                            .context = 8,
                            .tied = true,
                            .rope_theta = 100.0,
                            .norm_eps = 1e-5};
    pl_topology_spec spec = {.replicas = 1};
    pl_topology *t = NULL;
    pl_likeness of[PL_AUDIT_MOMENTS], its[PL_AUDIT_MOMENTS];
    pl_arm arm = arm_of("features~0", 1);
    (void)state;
    arm.shape = shape;
    arm.n_scored = DOCS;
    arm.feature_windows = 1;
    assert_int_equal(pl_topology_parse_levels("1", &spec), PL_OK);
    assert_int_equal(pl_topology_create(&shape, &spec, &t), PL_OK);
    for (int i = 0; i < DOCS * WIDTH; i++) {
        const double part = sin(1.0 + i * (i % 7 + 1.0));
        right[i] = 10.0f + (float)part;
        other[0][i] = right[i] + 0.01f * (float)sin(i * 3.0);  /* rounding */
        other[1][i] = 10.0f;                                   /* the same for all */
        other[2][(i + 5 * WIDTH) % (DOCS * WIDTH)] = right[i]; /* other documents */
    }
    assert_int_equal(pl_audit_moments(&arm, t, 7, right, sizeof right, of), PL_OK);
    for (int k = 0; k < WRONG; k++) {
        assert_int_equal(pl_audit_moments(&arm, t, 7, other[k], sizeof other[k], its),
                         PL_OK);
        const double d = pl_likeness_distance(&of[0], &its[0]);
        assert_true(k == 0 ? d < 0.1 : d > 0.6);
    }
    assert_int_equal(pl_audit_moments(&arm, t, 7, right, sizeof right - 4, of),
                     PL_ERR_DATA);
    pl_topology_destroy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(share_of_tasks_is_drawn),
        cmocka_unit_test(draw_depends_on_seed_and_task_alone),
        cmocka_unit_test(methods_that_depend_on_the_hour_are_left_out),
        cmocka_unit_test(verdict_follows_from_the_results),
        cmocka_unit_test(between_kinds_small_distances_are_the_same),
        cmocka_unit_test(likeness_tells_angles_and_factors),
        cmocka_unit_test(likeness_is_of_seed_and_part),
        cmocka_unit_test(likeness_is_of_what_travels),
        cmocka_unit_test(wrong_features_are_unlike_the_right_ones),
        cmocka_unit_test(row_says_all_of_it),
        cmocka_unit_test(longest_row_fits),
        cmocka_unit_test(other_texts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
