/* folder: modules; label: unit */
/* Compares matrix products in fp16, of every kind and with odd sizes, with sums in
 * double. If a row is scaled by a power of two, its result must be scaled exactly. A
 * row must keep all its bits if other rows or the number of threads change. A factor
 * that is not finite must show in the result. */
#include "modules/cpu/cpu.h"
#include "modules/cpu/gemm.h"
#include "modules/modules.h"
#include <math.h>

#include "tests/support/suite.h"

/* Skips the test if this machine cannot multiply in fp16. */
static void need_f16(void)
{
    const pl_backend_options options = {
        .name = "cpu", .n_threads = 1, .precision = "f16"};
    pl_backend *be;
    const pl_status status = cpu_backend_create(&options, "auto", &be);
    assert_true(status == PL_OK || status == PL_ERR_UNSUPPORTED);
    if (status == PL_OK)
        assert_non_null(strstr(be->device, "cpu f16 "));
    cpu_backend_destroy(&be);
    if (status != PL_OK)
        skip();
}

static uint64_t stream;

static float *floats(size_t n)
{
    float *x = pl_alloc(n * sizeof *x);
    stream++;
    for (size_t i = 0; i < n; i++)
        x[i] = pl_random_normal(7, stream, i);
    return x;
}

typedef struct matrices {
    gemm_call call;
    float *a, *b, *c;
} matrices;

static matrices make(gemm_kind kind, int M, int N, int K, bool add)
{
    matrices m = {.call = {kind, M, N, K, PL_F32, add}};
    m.a = floats((size_t)M * (size_t)K);
    m.b = floats((size_t)N * (size_t)K);
    m.c = floats((size_t)M * (size_t)N);
    return m;
}

static void clear(matrices *m)
{
    pl_free(m->a);
    pl_free(m->b);
    pl_free(m->c);
}

static float *a_at(const matrices *m, int row, int k)
{
    return m->call.kind == GEMM_TN ? &m->a[(size_t)k * (size_t)m->call.M + (size_t)row]
                                   : &m->a[(size_t)row * (size_t)m->call.K + (size_t)k];
}
static float *b_at(const matrices *m, int k, int col)
{
    return m->call.kind == GEMM_NT ? &m->b[(size_t)col * (size_t)m->call.K + (size_t)k]
                                   : &m->b[(size_t)k * (size_t)m->call.N + (size_t)col];
}

/* Returns the matrix c, computed with this number of threads; the caller frees it. */
static float *product(const matrices *m, int n_threads)
{
    const size_t n = (size_t)m->call.M * (size_t)m->call.N;
    gemm *g;
    float *c = pl_alloc(n * sizeof *c);
    memcpy(c, m->c, n * sizeof *c);
    assert_ok(gemm_f16_open(n_threads, &g));
    assert_ok(g->run(g, &m->call, c, m->a, m->b));
    g->close(&g);
    return c;
}

static void check_sums(const matrices *m)
{
    const gemm_call *call = &m->call;
    OWNED(free_memory) float *c = product(m, 2);
    double difference = 0, square = 1e-30;
    for (int i = 0; i < call->M; i++)
        for (int j = 0; j < call->N; j++) {
            const size_t at = (size_t)i * (size_t)call->N + (size_t)j;
            double sum = 0;
            for (int k = 0; k < call->K; k++)
                sum += (double)*a_at(m, i, k) * *b_at(m, k, j);
            square += sum * sum;
            const double off = c[at] - (sum + (call->add ? m->c[at] : 0.0));
            difference += off * off;
            assert_true(fabs(off) < 0.02 * sqrt(call->K));
        }
    if (!(difference < 4.5e-6 * square))
        fail_msg("kind %d, %d x %d x %d: the error is %g", (int)call->kind, call->M,
                 call->N, call->K, difference / square);
}

PL_TEST(sums_are_those_of_double)
{
    static const int sizes[][3] = {{1, 1, 1},      {5, 3, 2},      {12, 64, 128},
                                   {13, 65, 129},  {47, 130, 17},  {96, 100, 64},
                                   {49, 63, 1100}, {70, 1100, 33}, {130, 40, 2050}};
    need_f16();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int kind = GEMM_NT; kind <= GEMM_TN; kind++)
            for (int add = 0; add < 2; add++) {
                OWNED(clear)
                matrices m =
                    make(kind, sizes[i][0], sizes[i][1], sizes[i][2], add == 1);
                check_sums(&m);
            }
}

/* Products of small whole numbers must be exact: fp16 can hold the factors, and the
 * sums are below 2^11, so nothing is rounded. */
PL_TEST(small_whole_numbers_are_exact)
{
    need_f16();
    for (int kind = GEMM_NT; kind <= GEMM_TN; kind++) {
        OWNED(clear) matrices m = make(kind, 50, 70, 300, false);
        for (int i = 0; i < 50 * 300; i++)
            m.a[i] = (float)((int)(pl_random_u32(3, 1, (uint64_t)i) % 9) - 4);
        for (int i = 0; i < 70 * 300; i++)
            m.b[i] = (float)((int)(pl_random_u32(3, 2, (uint64_t)i) % 9) - 4);
        OWNED(free_memory) float *c = product(&m, 1);
        for (int i = 0; i < 50; i++)
            for (int j = 0; j < 70; j++) {
                float sum = 0;
                for (int k = 0; k < 300; k++)
                    sum += *a_at(&m, i, k) * *b_at(&m, k, j);
                assert_true(c[i * 70 + j] == sum);
            }
    }
}

/* If rows of a and the matrix b are scaled by powers of two, the results must be scaled
 * exactly. Their magnitude may be far outside the range of fp16, because gradients are
 * small. */
PL_TEST(powers_of_two_come_through_exactly)
{
    enum { M = 40, N = 90, K = 200 };
    need_f16();
    for (int kind = GEMM_NT; kind <= GEMM_TN; kind++) {
        OWNED(clear) matrices m = make(kind, M, N, K, false);
        OWNED(free_memory) float *plain = product(&m, 1);
        for (int i = 0; i < M; i++)
            for (int k = 0; k < K; k++)
                *a_at(&m, i, k) = ldexpf(*a_at(&m, i, k), 3 * i - 60);
        for (int i = 0; i < N * K; i++)
            m.b[i] = ldexpf(m.b[i], -30);
        OWNED(free_memory) float *scaled = product(&m, 1);
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++)
                assert_true(scaled[i * N + j] == ldexpf(plain[i * N + j], 3 * i - 90));
    }
}

static matrices first_row(const matrices *m)
{
    const gemm_call *call = &m->call;
    matrices one = make(call->kind, 1, call->N, call->K, call->add);
    for (int k = 0; k < call->K; k++)
        *a_at(&one, 0, k) = *a_at(m, 0, k);
    memcpy(one.b, m->b, (size_t)call->N * (size_t)call->K * sizeof *one.b);
    memcpy(one.c, m->c, (size_t)call->N * sizeof *one.c);
    return one;
}

PL_TEST(a_row_depends_on_no_other)
{
    static const int depths[] = {100, 300, 1400};
    enum { M = 61, N = 70 };
    need_f16();
    for (int i = 0; i < 18; i++) {
        const int K = depths[i / 6];
        OWNED(clear) matrices m = make((gemm_kind)(i % 3), M, N, K, i / 3 % 2 == 1);
        OWNED(free_memory) float *before = product(&m, 1);
        for (int row = 1; row < M; row++)
            for (int k = 0; k < K; k++)
                *a_at(&m, row, k) *= 1000;
        OWNED(clear) matrices one = first_row(&m);
        OWNED(free_memory) float *after = product(&m, 1), *alone = product(&one, 1);
        assert_memory_equal(before, after, N * sizeof *after);
        assert_memory_equal(before, alone, N * sizeof *after);
    }
}

PL_TEST(threads_change_nothing)
{
    need_f16();
    for (int kind = GEMM_NT; kind <= GEMM_TN; kind++) {
        OWNED(clear) matrices m = make(kind, 150, 1300, 1100, true);
        OWNED(free_memory) float *one = product(&m, 1), *three = product(&m, 3);
        assert_memory_equal(one, three, 150 * 1300 * sizeof *one);
    }
}

static bool is_number(float x)
{
    return fabsf(x) < INFINITY;
}

PL_TEST(what_is_not_finite_shows)
{
    enum { M = 30, N = 70, K = 40 };
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    need_f16();
    for (int kind = GEMM_NT; kind <= GEMM_TN; kind++)
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            OWNED(clear) matrices m = make(kind, M, N, K, false);
            *a_at(&m, 17, 5) = bad[i];
            *b_at(&m, 9, 66) = bad[i];
            OWNED(free_memory) float *c = product(&m, 1);
            for (int j = 0; j < N; j++)
                assert_false(is_number(c[17 * N + j]));
            for (int row = 0; row < M; row++) {
                assert_false(is_number(c[row * N + 66]));
                assert_true(row == 17 || is_number(c[row * N]));
            }
        }
}

/* Values of a (1e38) and of b (1e-10) are both outside the range of fp16. Their
 * products must still be correct. */
PL_TEST(large_times_small_is_fine)
{
    enum { M = 13, N = 65, K = 128 };
    need_f16();
    for (int kind = GEMM_NT; kind <= GEMM_TN; kind++) {
        OWNED(clear) matrices m = make(kind, M, N, K, false);
        for (int i = 0; i < M * K; i++)
            m.a[i] = 1e38f;
        for (int i = 0; i < N * K; i++)
            m.b[i] = 1e-10f;
        OWNED(free_memory) float *c = product(&m, 1);
        for (int i = 0; i < M * N; i++)
            assert_true(fabsf(c[i] / 1.28e30f - 1) < 0.02f);
    }
}

PL_TEST(nothing_and_the_smallest_are_fine)
{
    enum { M = 14, N = 66, K = 20 };
    need_f16();
    for (int kind = GEMM_NT; kind <= GEMM_TN; kind++) {
        OWNED(clear) matrices m = make(kind, M, N, K, false);
        memset(m.a, 0, (size_t)M * K * sizeof *m.a);
        *a_at(&m, 3, 3) = 1e-45f;
        *b_at(&m, 3, 5) = 3e38f;
        OWNED(free_memory) float *c = product(&m, 1);
        for (int i = 0; i < M * N; i++)
            assert_true(i / N == 3 ? fabsf(c[i]) < 1e-6f : c[i] == 0);
    }
}
