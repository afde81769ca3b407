/* Multiplies bf16 matrices in f32, for a machine without bf16 instructions or a build
 * without a library for bf16. The matrices are converted to f32, which is exact. The
 * library for f32 multiplies them. A result in bf16 is rounded once.
 *
 * `a` is converted as a whole. The columns of c, and the part of b that they need, are
 * taken in blocks, so that the converted values stay in a cache. */
#include "modules/cpu/gemm.h"
#include "modules/cpu/team.h"
#include <stdio.h>

/* BLOCK: number of floats of a block of b, if that gives at least COLUMNS columns. With
 * fewer columns than COLUMNS, a call of the library costs too much. */
enum { BLOCK = 1 << 20, COLUMNS = 256 };

typedef struct gemm_wide {
    gemm head;
    gemm *f32;
    int n_threads;
    cpu_block a, b, c;
} gemm_wide;

typedef struct matrix { /* a bf16 matrix whose rows are `stride` elements apart */
    const uint16_t *at;
    size_t stride;
    int rows, cols;
} matrix;

static void widen(const gemm_wide *g, float *out, const matrix *in)
{
#pragma omp parallel for schedule(static) num_threads(cpu_threads(g->n_threads))
    for (int r = 0; r < in->rows; r++) {
        float *to = out + (size_t)r * (size_t)in->cols;
        const uint16_t *from = in->at + (size_t)r * in->stride;
        for (int i = 0; i < in->cols; i++)
            to[i] = pl_bf16_to_float(from[i]);
    }
}

/* Stores or adds the sums in g->c [M,cols] as columns n0 .. n0+cols-1 of c. */
static void put_columns(const gemm_wide *g, const gemm_call *call, void *c, int n0,
                        int cols)
{
    const float *sums = g->c.data;
#pragma omp parallel for schedule(static) num_threads(cpu_threads(g->n_threads))
    for (int r = 0; r < call->M; r++) {
        const float *from = sums + (size_t)r * (size_t)cols;
        const size_t at = (size_t)r * (size_t)call->N + (size_t)n0;
        float *wide = (float *)c + at;
        uint16_t *half = (uint16_t *)c + at;
        if (call->c_type == PL_F32 && call->add)
            for (int i = 0; i < cols; i++)
                wide[i] += from[i];
        else if (call->c_type == PL_F32)
            memcpy(wide, from, (size_t)cols * sizeof *from);
        else if (call->add)
            for (int i = 0; i < cols; i++)
                half[i] = pl_bf16_from_float(pl_bf16_to_float(half[i]) + from[i]);
        else
            for (int i = 0; i < cols; i++)
                half[i] = pl_bf16_from_float(from[i]);
    }
}

static pl_status wide_run(gemm *head, const gemm_call *call, void *c, const void *a,
                          const void *b)
{
    gemm_wide *g = (gemm_wide *)head;
    const size_t M = (size_t)call->M, K = (size_t)call->K;
    const int deep = BLOCK / (call->K > 0 ? call->K : 1);
    const int block = deep > COLUMNS ? deep : COLUMNS;
    const int most = block < call->N ? block : call->N;
    const bool straight = call->c_type == PL_F32 && most == call->N;
    const bool down = call->kind == GEMM_TN;
    const matrix whole = {a, down ? M : K, down ? call->K : call->M,
                          down ? call->M : call->K};
    PL_CHECK(cpu_block_grow(&g->a, M * K * sizeof(float), "a matrix in f32"));
    PL_CHECK(
        cpu_block_grow(&g->b, (size_t)most * K * sizeof(float), "a matrix in f32"));
    PL_CHECK(cpu_block_grow(&g->c, straight ? 0 : M * (size_t)most * sizeof(float),
                            "a product in f32"));
    widen(g, g->a.data, &whole);
    for (int n0 = 0; n0 < call->N; n0 += most) {
        const int cols = call->N - n0 < most ? call->N - n0 : most;
        /* the part of b that these columns of c need */
        const matrix part =
            call->kind == GEMM_NT
                ? (matrix){(const uint16_t *)b + (size_t)n0 * K, K, cols, call->K}
                : (matrix){(const uint16_t *)b + n0, (size_t)call->N, call->K, cols};
        const gemm_call inner = {call->kind, call->M, cols,
                                 call->K,    PL_F32,  straight && call->add};
        widen(g, g->b.data, &part);
        PL_CHECK(g->f32->run(g->f32, &inner, straight ? c : g->c.data, g->a.data,
                             g->b.data));
        if (!straight)
            put_columns(g, call, c, n0, cols);
    }
    return PL_OK;
}

static void wide_close(gemm **head)
{
    gemm_wide *g = (gemm_wide *)*head;
    g->f32->close(&g->f32);
    pl_free_all(g->a.data, g->b.data, g->c.data, g);
    *head = NULL;
}

pl_status gemm_wide_open(int n_threads, gemm **out)
{
    gemm *f32;
    *out = NULL;
    PL_CHECK(gemm_open(PL_F32, n_threads, &f32));
    gemm_wide *g = pl_alloc(sizeof *g);
    (void)snprintf(g->head.text, sizeof g->head.text, "widened %.36s", f32->text);
    g->head.run = wide_run;
    g->head.close = wide_close;
    g->f32 = f32;
    g->n_threads = n_threads;
    *out = &g->head;
    return PL_OK;
}
