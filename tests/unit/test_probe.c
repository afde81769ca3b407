/* folder: measure; label: unit */
/* Tests the numbers of `pathloom bench step` and `pathloom bench ops`: floating-point
 * operations, bytes, times and rates. */
#include "measure/probe.h"
#include "tests/support/pairs.h"
#include "tests/support/shape.h"

enum { V = 300, C = 32, F = 48, L = 2, T = 16, B = 2, N = B * T };

static const pl_shape probe_shape =
    SHAPE(V, C, 2, 1, 16, F, L, T, .tied = true, .rope_theta = 10000.0);

static bool probe(const char *backend, pl_probe_report *out)
{
    OWNED(pl_backend_close) pl_backend *be = open_side(backend, "auto", 1);
    const pl_probe_options probe_options = {
        .shape = &probe_shape, .batch = B, .rounds = 2, .stream_bytes = 1 << 18};
    if (!be)
        return false;
    assert_ok(pl_probe(be, &probe_options, out));
    return true;
}

PL_TEST(products_count_six_flops_a_matrix_element_and_token)
{
    static pl_probe_report report;
    const double block = (2 + 2) * 16 * C + C * 2 * 16 + 3 * F * C;
    const double attention = (2 + 5) * (double)N * T * 2 * 16 * L;
    assert_true(probe("cpu", &report));
    assert_int_equal(report.tokens, N);
    assert_true(report.product_flops == 6.0 * N * (L * block + V * C));
    assert_true(report.flops == report.product_flops + attention);
    assert_true((double)report.n_params > L * block + V * C);
}

PL_TEST(every_operation_has_a_time_and_bytes)
{
    static pl_probe_report report;
    double sum = 0.0;
    assert_true(probe("ref", &report));
    for (int i = 0; i < report.n_rows; i++) {
        const pl_probe_row *row = &report.rows[i];
        assert_true(row->seconds > 0.0 && isfinite(row->seconds));
        assert_true(row->bytes > 0.0 && row->calls > 0);
        assert_true(!row->product || row->flops / row->seconds <= report.matrix_rate);
        assert_true(row->repeats == 1);
        assert_true(pl_probe_share(&report, row) > 0.0);
        sum += row->product ? row->seconds * row->calls : 0.0;
    }
    assert_true(report.n_rows == 27);
    assert_true(fabs(sum - report.product_seconds) <= 1e-9 * sum);
    assert_true(report.step_seconds > 0.0 && isfinite(report.step_seconds));
    assert_true(report.memory_rate > 0.0 && isfinite(report.memory_rate));
}

PL_TEST(short_operations_of_a_gpu_share_a_wait)
{
    static pl_probe_report report;
    int most = 0;
    if (!probe("cuda", &report)) {
        print_message("cuda: not on this machine\n");
        return;
    }
    for (int i = 0; i < report.n_rows; i++) {
        const pl_probe_row *row = &report.rows[i];
        assert_true(row->repeats >= 1 && row->repeats <= 64);
        assert_true(row->seconds > 0.0 && isfinite(row->seconds));
        most = row->repeats > most ? row->repeats : most;
    }
    assert_true(most > 1);
    assert_true(report.memory_rate > 0.0 && isfinite(report.memory_rate));
}

PL_TEST(the_mean_time_of_a_step_is_above_zero)
{
    static const char *const names[] = {"ref", "cuda"};
    const pl_probe_options options = {
        .shape = &probe_shape, .batch = B, .rounds = 1, .seconds = 1e-3};
    for (int i = 0; i < 2; i++) {
        OWNED(pl_backend_close) pl_backend *be = open_side(names[i], "auto", 1);
        double seconds = 0;
        if (!be) {
            assert_int_equal(i, 1);
            print_message("cuda: not on this machine\n");
            return;
        }
        assert_ok(pl_probe_step(be, &options, &seconds));
        assert_true(seconds > 0.0 && isfinite(seconds));
    }
}

PL_TEST(a_shape_that_cannot_be_is_refused)
{
    OWNED(pl_backend_close) pl_backend *be = open_side("ref", "auto", 1);
    double seconds;
    pl_shape shape = probe_shape;
    const pl_probe_options probe_options = {.shape = &shape, .batch = B, .rounds = 1};
    shape.n_kv_heads = 3;
    assert_int_not_equal(pl_probe_step(be, &probe_options, &seconds), PL_OK);
    assert_true(strlen(pl_last_error()) > 0);
}
