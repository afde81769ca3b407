/* folder: modules; label: unit
 * Tests when the cpu backend computes on one thread although it has several: while the
 * caller mostly waits. The bits of a product must not depend on this. */
#include "modules/cpu/cpu.h"
#include "modules/cpu/gemm.h"
#include "modules/cpu/team.h"
#include "modules/modules.h"

#include "tests/support/suite.h"

enum { THREADS = 3, WAIT_MS = 40, TRIES = 1500 };

/* Waits as a caller does whose other threads do not run. */
static void wait_within_operations(void)
{
    for (int i = 0; i < TRIES && cpu_threads(THREADS) != 1; i++)
        pl_sleep_ms(WAIT_MS);
    assert_int_equal(cpu_threads(THREADS), 1);
}

/* Between operations the caller may wait for as long as it likes. */
static void wait_for_all_threads(void)
{
    for (int i = 0; i < TRIES && cpu_threads(THREADS) != THREADS; i++) {
        cpu_threads_rest();
        pl_sleep_ms(WAIT_MS);
    }
    assert_int_equal(cpu_threads(THREADS), THREADS);
}

PL_TEST(a_caller_that_mostly_waits_computes_alone_for_a_while)
{
    wait_within_operations();
    wait_for_all_threads();
    wait_within_operations();
}

PL_TEST(waiting_between_operations_does_not_count)
{
    int n_alone = 10;
    for (int k = 0; k < 30 && n_alone > 5; k++) { /* a busy machine may count, too */
        wait_for_all_threads();
        n_alone = 0;
        for (int i = 0; i < 10; i++) {
            cpu_threads_rest();
            pl_sleep_ms(WAIT_MS);
            n_alone += cpu_threads(THREADS) == 1;
        }
    }
    assert_in_range(n_alone, 0, 5);
}

PL_TEST(a_backend_of_one_thread_is_never_measured)
{
    for (int i = 0; i < 3; i++) {
        assert_int_equal(cpu_threads(1), 1);
        pl_sleep_ms(WAIT_MS);
    }
}

/* Computes a product with M rows, which three threads cannot share evenly. */
static void multiply(gemm *g, pl_type type, gemm_kind kind, void *c)
{
    enum { M = 70, N = 96, K = 64 };
    static float a[M * K], b[N * K];
    const gemm_call call = {kind, M, N, K, PL_F32, false};
    static uint16_t a_half[M * K], b_half[N * K];
    for (int i = 0; i < M * K; i++)
        a_half[i] = pl_bf16_from_float(a[i] = pl_random_normal(1, 2, (uint64_t)i));
    for (int i = 0; i < N * K; i++)
        b_half[i] = pl_bf16_from_float(b[i] = pl_random_normal(1, 3, (uint64_t)i));
    const bool half = type == PL_BF16;
    assert_ok(
        g->run(g, &call, c, half ? (void *)a_half : a, half ? (void *)b_half : b));
}

PL_TEST(products_have_the_same_bits_alone_and_together)
{
    static float together[70 * 96], alone[70 * 96];
    static const pl_type types[] = {PL_F32, PL_BF16};
    int n = 0;
    for (int t = 0; t < 2; t++) {
        gemm *g;
        if (gemm_open(types[t], THREADS, &g) != PL_OK)
            continue;
        for (int kind = GEMM_NT; kind <= GEMM_TN; kind++) {
            wait_for_all_threads();
            multiply(g, types[t], (gemm_kind)kind, together);
            wait_within_operations();
            multiply(g, types[t], (gemm_kind)kind, alone);
            assert_memory_equal(together, alone, sizeof alone);
            n++;
        }
        g->close(&g);
    }
    if (n == 0)
        skip();
}
