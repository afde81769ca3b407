/* Converts activations to and from fp32. The embedding is also here, because it
 * converts rows of an fp32 matrix to activations. */
#include "modules/cpu/ops_cpu.h"
#include "modules/cpu/simd.h"

enum { CHUNK = 1 << 14 }; /* number of elements that a thread takes at once */

ALWAYS_INLINE void widen(float *out, const pl_act *in, size_t first, int n,
                         const pl_type type)
{
    for (int i = 0; i < n; i += LANES) {
        const int left = v_left(i, n);
        const size_t at = first + (size_t)i;
        v_store_n(out + at, v_load_act(in, at, left, type), left);
    }
}

ALWAYS_INLINE void narrow(pl_act *out, size_t first, const float *in, int n,
                          const pl_type type)
{
    for (int i = 0; i < n; i += LANES) {
        const int left = v_left(i, n);
        v_store_act(out, first + (size_t)i, v_load_n(in + i, left), left, type);
    }
}

static int chunk_size(size_t chunk, size_t n)
{
    const size_t left = n - chunk * CHUNK;
    return left < CHUNK ? (int)left : CHUNK;
}

void OP(act_to_float)(pl_backend *be, float *out, const pl_act *in, size_t n)
{
    const size_t n_chunks = (n + CHUNK - 1) / CHUNK;
#pragma omp parallel for schedule(static) num_threads(cpu_threads(be->n_threads))
    for (size_t c = 0; c < n_chunks; c++) {
        if (be->act == PL_BF16)
            widen(out, in, c * CHUNK, chunk_size(c, n), PL_BF16);
        else
            widen(out, in, c * CHUNK, chunk_size(c, n), PL_F32);
    }
}

static void narrow_any(pl_act *out, size_t first, const float *in, int n, pl_type type)
{
    if (type == PL_BF16)
        narrow(out, first, in, n, PL_BF16);
    else
        narrow(out, first, in, n, PL_F32);
}

void OP(act_from_float)(pl_backend *be, pl_act *out, const float *in, size_t n)
{
    const size_t n_chunks = (n + CHUNK - 1) / CHUNK;
#pragma omp parallel for schedule(static) num_threads(cpu_threads(be->n_threads))
    for (size_t c = 0; c < n_chunks; c++)
        narrow_any(out, c * CHUNK, in + c * CHUNK, chunk_size(c, n), be->act);
}

void OP(embed_forward)(pl_backend *be, pl_act *out, const int32_t *tokens,
                       const float *w, int N, int C)
{
#pragma omp parallel for schedule(static)                                              \
    num_threads(cpu_team(be, 2 * (size_t)N * (size_t)C * sizeof *w))
    for (int n = 0; n < N; n++)
        narrow_any(out, (size_t)n * (size_t)C, w + (size_t)tokens[n] * (size_t)C, C,
                   be->act);
}

/* Adds columns c0 .. c1-1 of every row. Each thread adds some columns of all rows. So
 * rows with the same token are added in the order of n, whatever the number of
 * threads. */
ALWAYS_INLINE void add_columns(float *dw, const pl_act *dout, const int32_t *tokens,
                               int N, int C, int c0, int c1, const pl_type type)
{
    for (int n = 0; n < N; n++) {
        float *row = dw + (size_t)tokens[n] * (size_t)C;
        const size_t from = (size_t)n * (size_t)C;
        for (int c = c0; c < c1; c += LANES) {
            const int left = v_left(c, c1);
            const vfloat grad = v_load_act(dout, from + (size_t)c, left, type);
            v_store_n(row + c, v_load_n(row + c, left) + grad, left);
        }
    }
}

void OP(embed_backward)(pl_backend *be, float *dw, const pl_act *dout,
                        const int32_t *tokens, int N, int C)
{
    const int n_threads = be->n_threads;
#pragma omp parallel for schedule(static) num_threads(cpu_threads(n_threads))
    for (int i = 0; i < n_threads; i++) {
        const int c0 = C * i / n_threads, c1 = C * (i + 1) / n_threads;
        if (be->act == PL_BF16)
            add_columns(dw, dout, tokens, N, C, c0, c1, PL_BF16);
        else
            add_columns(dw, dout, tokens, N, C, c0, c1, PL_F32);
    }
}
