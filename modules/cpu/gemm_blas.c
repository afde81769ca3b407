/* f32 products by OpenBLAS.
 *
 * OpenBLAS is set to one thread. This file divides the rows of c among the OpenMP
 * threads that also execute all other operations. So there is only one thread pool, and
 * the sums of a row do not depend on the thread that computes it. */
#include "modules/cpu/gemm.h"
#include "modules/cpu/team.h"
#include <cblas.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Functions by which OpenBLAS drops and chooses its kernels. A library that has kernels
 * for only one kind of processor lacks them. */
extern void gotoblas_dynamic_quit(void);
extern void gotoblas_dynamic_init(void);

#define BLAS_FUNCTIONS(X)                                                              \
    X(cblas_sgemm)                                                                     \
    X(openblas_get_config)                                                             \
    X(openblas_get_corename)                                                           \
    X(openblas_set_num_threads)
#define CORE_FUNCTIONS(X) X(gotoblas_dynamic_quit) X(gotoblas_dynamic_init)

static struct {
    BLAS_FUNCTIONS(PL_LIBRARY_MEMBER)
} blas;
static struct {
    CORE_FUNCTIONS(PL_LIBRARY_MEMBER)
} core;

static pl_status load_blas(const char *const *names, void *functions, size_t bytes)
{
    return pl_library_load("libopenblas.so.0", "libopenblas0", names, functions, bytes);
}

typedef struct gemm_blas {
    gemm head;
    int n_threads;
} gemm_blas;

/* Divides the rows into n shares, which `team` threads compute. */
static void blas_shares(int n, int team, const gemm_call *call, float *c,
                        const float *a, const float *b)
{
    const int M = call->M, N = call->N, K = call->K, share = (M + n - 1) / n;
    const bool ta = call->kind == GEMM_TN, tb = call->kind == GEMM_NT;
#pragma omp parallel for schedule(static) num_threads(team)
    for (int i = 0; i < n; i++) {
        const int m0 = i * share, rows = M - m0 < share ? M - m0 : share;
        if (rows <= 0)
            continue;
        const float *first = ta ? a + m0 : a + (size_t)m0 * (size_t)K;
        blas.cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans,
                         tb ? CblasTrans : CblasNoTrans, rows, N, K, 1.0f, first,
                         ta ? M : K, b, tb ? K : N, call->add ? 1.0f : 0.0f,
                         c + (size_t)m0 * (size_t)N, N);
    }
}

static pl_status blas_run(gemm *g, const gemm_call *call, void *c, const void *a,
                          const void *b)
{
    const int n = ((const gemm_blas *)g)->n_threads;
    blas_shares(n, cpu_threads(n), call, c, a, b);
    return PL_OK;
}

/* OpenBLAS treats a processor that is newer than the library as the oldest one that it
 * knows: 0.3.21 runs SSE3 kernels on Emerald Rapids, at a quarter of the speed.
 * OpenBLAS chooses its kernels when it is loaded. This function sets the name of a
 * better core and makes OpenBLAS choose again. */
static void choose_core(void)
{
    static const char key[] = "OPENBLAS_CORETYPE";
    static const char *const names[] = {CORE_FUNCTIONS(PL_LIBRARY_NAME)};
    /* core types that every OpenBLAS with kernels for several types has */
    static const char *const cores[PL_ISA_COUNT] = {"Nehalem", "Haswell", "SkylakeX",
                                                    "SkylakeX", "SkylakeX"};
    static const char old[] = "Prescott Core2 Penryn Dunnington Nehalem Barcelona";
    const pl_isa newest = pl_isa_newest();
    const char *now = blas.openblas_get_corename();
    /* A newer core type than PATHLOOM_CPU permits is replaced, and on a machine with
     * AVX2 an old one. */
    const bool outdated = newest < pl_isa_machine() ||
                          (newest > PL_ISA_PORTABLE && pl_lists_word(old, ' ', now));
    if (!outdated || load_blas(names, &core, sizeof core) != PL_OK)
        return;
    setenv(key, cores[newest], 1);
    core.gotoblas_dynamic_quit();
    core.gotoblas_dynamic_init();
    unsetenv(key);
}

/* How many threads have multiplied at the same time: OpenBLAS keeps their buffers. */
static _Atomic int n_buffers;

static void blas_close(gemm **g)
{
    pl_free(*g);
    *g = NULL;
}

/* For each thread that multiplies at the same time, OpenBLAS maps a buffer of 128 MiB
 * of address space (0.3.21). If the system refuses this, OpenBLAS tries again for ever.
 * So this function asks for the same space first. At its end each thread multiplies
 * once, so that OpenBLAS maps its buffers now. */
pl_status gemm_blas_open(int n_threads, gemm **out)
{
    enum { BUFFER_MIB = 129 };
    static const char *const names[] = {BLAS_FUNCTIONS(PL_LIBRARY_NAME)};
    static bool is_chosen;
    PL_CHECK(load_blas(names, &blas, sizeof blas));
    const int n_new = n_threads - atomic_load(&n_buffers);
    if (n_new > 0) {
        const size_t bytes = (size_t)n_new * BUFFER_MIB << 20;
        void *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (room == MAP_FAILED)
            return pl_fail(PL_ERR_NOMEM,
                           "OpenBLAS needs %d MiB of address space per thread, and the "
                           "system refused it for %d; raise the limit (ulimit -v), or "
                           "use fewer threads",
                           BUFFER_MIB, n_new);
        munmap(room, bytes);
    }
    pl_once(&is_chosen, choose_core);
    gemm_blas *g = pl_alloc(sizeof *g);
    char name[16] = "openblas", version[16] = "?";
    blas.openblas_set_num_threads(1);
    sscanf(blas.openblas_get_config(), "%15s %15s", name, version);
    snprintf(g->head.text, sizeof g->head.text, "openblas %s %.16s", version,
             blas.openblas_get_corename());
    g->head.run = blas_run;
    g->head.close = blas_close;
    g->n_threads = n_threads;
    const gemm_call call = {GEMM_NT, n_threads, 1, 1, PL_F32, false};
    float *a = pl_alloc(2 * (size_t)n_threads * sizeof *a);
    blas_shares(n_threads, n_threads, &call, a + n_threads, a, a);
    pl_free(a);
    if (n_threads > atomic_load(&n_buffers))
        atomic_store(&n_buffers, n_threads);
    *out = &g->head;
    return PL_OK;
}
