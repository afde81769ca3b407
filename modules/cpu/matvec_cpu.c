/* out = x w^T for the few rows of decoding, where the time is that of reading w once:
 * a product library packs w first, which takes longer than the product. */
#include "modules/cpu/ops_cpu.h"
#include "modules/cpu/simd.h"

enum { FEW = 2, ROWS = 4 }; /* rows of x; rows of w read together */

/* y[r] = x . row r of w, over K words. */
ALWAYS_INLINE void dot_rows(float y[ROWS], const char *x, const char *w, int K,
                            const pl_type type)
{
    const size_t stride = (size_t)K * WORD;
    vfloat sum[ROWS] = {{0}};
    for (int k = 0; k < K; k += LANES) {
        const int left = v_left(k, K);
        const vfloat words = load_words_n(x + k * WORD, left);
        for (int r = 0; r < ROWS; r++)
            sum[r] = v_dot(
                sum[r], words,
                load_words_n(w + (size_t)r * stride + (size_t)k * WORD, left), type);
    }
    for (int r = 0; r < ROWS; r++)
        y[r] = v_sum(sum[r]);
}

/* Elements o0 .. o0+ROWS of out, as many as there are. */
static void few_outputs(float y[ROWS], const char *x, const char *w, int o0, int O,
                        int K, pl_type type)
{
    const int last = O - ROWS,
              first = o0 < last ? o0 : last; /* the last ones overlap */
    const char *rows = w + (size_t)first * (size_t)K * WORD;
    float all[ROWS];
    if (type == PL_BF16)
        dot_rows(all, x, rows, K, PL_BF16);
    else
        dot_rows(all, x, rows, K, PL_F32);
    for (int r = 0; r < ROWS && o0 + r < O; r++)
        y[r] = all[o0 - first + r];
}

static bool is_few(int N, int O, int I, pl_type type)
{
    return N <= FEW && O >= ROWS && I % word_size(type) == 0;
}

/* out has the type `out_type`. */
static void multiply_few(pl_backend *be, pl_act *out, pl_type out_type, const pl_act *x,
                         const pl_weight *w, int N, int O, int I)
{
    const pl_type type = be->act;
    const char *weights = cpu_weight_data(w), *row = (const char *)x;
    const int K = words_of(I, type), n_groups = (O + ROWS - 1) / ROWS;
    for (int n = 0; n < N; n++, row += (size_t)K * WORD) {
#pragma omp parallel for schedule(static) num_threads(be->n_threads)
        for (int i = 0; i < n_groups; i++) {
            const int o = i * ROWS, left = O - o < ROWS ? O - o : ROWS;
            const size_t at = (size_t)n * (size_t)O + (size_t)o;
            float y[ROWS];
            few_outputs(y, row, weights, o, O, K, type);
            for (int r = 0; r < left; r++)
                v_store_act(out, at + (size_t)r, v_set(y[r]), 1, out_type);
        }
    }
}

void OP(matmul_forward)(pl_backend *be, pl_act *out, const pl_act *x,
                        const pl_weight *w, int N, int O, int I)
{
    if (is_few(N, O, I, be->act))
        multiply_few(be, out, be->act, x, w, N, O, I);
    else
        cpu_matmul_forward(be, out, x, w, N, O, I);
}

void OP(logits)(pl_backend *be, float *out, const pl_act *x, const pl_weight *w, int N,
                int V, int C)
{
    if (is_few(N, V, C, be->act))
        multiply_few(be, (pl_act *)(void *)out, PL_F32, x, w, N, V, C);
    else
        cpu_logits(be, out, x, w, N, V, C);
}
