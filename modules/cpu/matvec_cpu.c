/* out = x w^T for a small number of rows of x. Reading w once takes most of the time of
 * such a product. A library would first pack w, which takes longer than the product.
 *
 * Each element of out is a sum over K. The order of the sum depends neither on the
 * number of rows nor on the row's place: a sequence gets the same bytes if it is
 * decoded alone or in a batch. TILE rows of x and ROWS rows of w are multiplied at a
 * time, so that each loaded vector is used several times. The sum for one row of x and
 * one row of w is a vector, whose lanes must be added at the end. This is done for
 * LANES rows of w at a time, by a transpose (v_sum_rows).
 *
 * Rows are short, and hardware prefetching ends at the end of a page. Therefore the
 * next ROWS rows of w are prefetched while the current ones are read. */
#include "modules/cpu/ops_cpu.h"
#include "modules/cpu/simd.h"

enum { FEW = 64, ROWS = 4, TILE = LANES == 16 ? 4 : 2 };

typedef struct matvec {
    const char *x, *w; /* [rows, K] words */
    int N, O, K;
    pl_type type, out_type;
    pl_act *out;
} matvec;

/* Adds the products of words k .. k+left-1 of n_x rows of x and ROWS rows of w to their
 * sums. */
ALWAYS_INLINE void add_words(vfloat sum[TILE][ROWS], const char *x,
                             const char *const w[], size_t stride, int k, int left,
                             const int n_x, const pl_type type)
{
    vfloat words[ROWS];
    for (int r = 0; r < ROWS; r++) {
        const char *at = w[r] + (size_t)k * WORD;
        words[r] = load_words_n(at, left);
        __builtin_prefetch(at + ROWS * stride);
    }
    for (int n = 0; n < n_x; n++) {
        const vfloat row =
            load_words_n(x + (size_t)n * stride + (size_t)k * WORD, left);
        for (int r = 0; r < ROWS; r++)
            sum[n][r] = v_dot(sum[n][r], row, words[r], type);
    }
}

/* Computes sums[n][at + r] = x[n] . w[r]; the lanes of each sum are not added yet. */
ALWAYS_INLINE void dot_tile(vfloat sums[TILE][LANES], int at, const char *x,
                            const char *const w[], int K, const int n_x,
                            const pl_type type)
{
    const size_t stride = (size_t)K * WORD;
    vfloat sum[TILE][ROWS] = {{{0}}};
    int k = 0;
    for (; k + LANES <= K; k += LANES)
        add_words(sum, x, w, stride, k, LANES, n_x, type);
    if (k < K)
        add_words(sum, x, w, stride, k, K - k, n_x, type);
    for (int n = 0; n < n_x; n++)
        for (int r = 0; r < ROWS; r++)
            sums[n][at + r] = sum[n][r];
}

/* Computes columns o0 .. o0+LANES-1 (fewer at the end) of n_x rows of `out`, from row n
 * on. Where w has no more rows, its last row is read again and the result is not
 * stored. */
ALWAYS_INLINE void outputs(const matvec *job, int n, int o0, const int n_x,
                           const pl_type type)
{
    const size_t stride = (size_t)job->K * WORD;
    vfloat sums[TILE][LANES];
    for (int r0 = 0; r0 < LANES; r0 += ROWS) {
        const char *w[ROWS];
        for (int r = 0; r < ROWS; r++) {
            const int o = o0 + r0 + r;
            w[r] = job->w + (size_t)(o < job->O ? o : job->O - 1) * stride;
        }
        dot_tile(sums, r0, job->x + (size_t)n * stride, w, job->K, n_x, type);
    }
    for (int i = 0; i < n_x; i++)
        v_store_act(job->out, (size_t)(n + i) * (size_t)job->O + (size_t)o0,
                    v_sum_rows(sums[i]), v_left(o0, job->O), job->out_type);
}

ALWAYS_INLINE void outputs_of_all_rows(const matvec *job, int o0, const pl_type type)
{
    int n = 0;
    for (; n + TILE <= job->N; n += TILE)
        outputs(job, n, o0, TILE, type);
    for (; n < job->N; n++)
        outputs(job, n, o0, 1, type);
}

/* Multiplies if x has at most FEW rows and its rows are whole words; otherwise returns
 * false, and a library must multiply. `out` has the type `out_type`. */
static bool do_few(pl_backend *be, pl_act *out, pl_type out_type, const pl_act *x,
                   const pl_weight *w, int N, int O, int I)
{
    if (N > FEW || I % word_size(be->act) != 0)
        return false;
    const matvec job = {
        (const char *)x, cpu_weight_data(w), N,  O, words_of(I, be->act),
        be->act,         out_type,           out};
    const int n_groups = (O + LANES - 1) / LANES;
#pragma omp parallel for schedule(static)                                              \
    num_threads(cpu_team(be, (size_t)O *(size_t)job.K *WORD *(size_t)N))
    for (int i = 0; i < n_groups; i++) {
        if (job.type == PL_BF16)
            outputs_of_all_rows(&job, i * LANES, PL_BF16);
        else
            outputs_of_all_rows(&job, i * LANES, PL_F32);
    }
    return true;
}

void OP(matmul_forward)(pl_backend *be, pl_act *out, const pl_act *x,
                        const pl_weight *w, int N, int O, int I)
{
    if (w->bytes != NULL)
        cpu_self(be)->multiply_bytes(be, out, be->act, x, w, N);
    else if (!do_few(be, out, be->act, x, w, N, O, I))
        cpu_matmul_forward(be, out, x, w, N, O, I);
}

void OP(logits)(pl_backend *be, float *out, const pl_act *x, const pl_weight *w, int N,
                int V, int C)
{
    pl_act *floats = (pl_act *)(void *)out;
    if (w->bytes != NULL)
        cpu_self(be)->multiply_bytes(be, floats, PL_F32, x, w, N);
    else if (!do_few(be, floats, PL_F32, x, w, N, V, C))
        cpu_logits(be, out, x, w, N, V, C);
}
