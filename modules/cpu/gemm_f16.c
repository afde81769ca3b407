/* Multiplies f32 matrices in fp16, for processors that have fp16 arithmetic
 * (AVX512-FP16) and no AMX. An instruction computes twice as many products as in f32.
 *
 * Scaling. Each row of `a`, and each panel of 64 columns of `b`, is multiplied by a
 * power of two, so that its largest element lies in [8, 16); this is exact. Then it is
 * rounded to fp16. CHUNK products at a time are summed in fp16. Such a sum is at most
 * 128 * 16 * 16, so it cannot overflow. These sums are added in f32.
 *
 * Errors. For normally distributed numbers the error of an element of c is 1.8e-3 of
 * its usual size; most of it comes from the sums of chunks. If the factors were rounded
 * to bf16 instead, the error would be 2.4e-3. An element that is 2^18 times smaller
 * than the largest of its row of `a`, or of its panel of `b`, loses digits. An element
 * that is 2^29 times smaller becomes zero, even if an element of c depends on nothing
 * else. If the product of the largest elements exceeds 2^134, c is infinite. A factor
 * that is not finite makes c NaN or infinite.
 *
 * A row of c depends only on the same row of `a` and on `b`, not on the other rows or
 * on the number of threads. */
#include "modules/cpu/gemm.h"
#include "modules/cpu/team.h"
#include "modules/cpu/simd.h"

#if defined(__AVX512FP16__)
/* A tile of c: MR rows and two vectors of halves. */
enum { MR = 12, HALVES = 32, NR = 2 * HALVES, CHUNK = 128 };
/* Limits of the parts that are packed at once. Of `b`, at most DEEP rows, COLUMNS
 * columns and B_BYTES bytes are packed, so that they fit into the second-level cache.
 * Of `a`, the rows of one tile are packed, or of GROUP tiles if `a` is read by columns,
 * so that whole cache lines are read. */
enum { DEEP = 1024, B_BYTES = 768 << 10, COLUMNS = 1024, GROUP = 4 };
enum { PANELS = COLUMNS / NR, GROUP_ROWS = GROUP * MR, EDGE = 3 * 64 };

typedef struct gemm_f16 {
    gemm head;
    int n_threads;
    cpu_block packed;
} gemm_f16;

typedef struct part { /* the part of a call that is packed at once */
    const gemm_call *call;
    const float *a, *b;
    float *c;
    int n0, cols, k0, depth;
    bool add;
    char *packed_b;
    float unscale[PANELS]; /* for each panel of b, the inverse of its scale */
    /* own_bytes bytes per thread: its packed rows of a, or a panel of b in f32 */
    char *own;
    size_t own_bytes;
} part;

/* Packed rows of `a` in fp16. A word holds the same half twice, so that one instruction
 * can broadcast it to all lanes. */
typedef struct rows_of_a {
    char *words;
    int m0, rows;
    /* number of bytes between rows, between steps k, and between tiles of MR rows */
    size_t row, step, tile;
    float unscale[GROUP_ROWS];
} rows_of_a;

/* ---- scales ---- */
/* Chooses the power of two that brings `largest` to [8, 16), and its inverse. Both are
 * 1 if `largest` is zero or not finite. The scale is limited to 2^126, so that it and
 * its inverse are normal numbers. */
static void choose_scale(float largest, float *scale, float *unscale)
{
    int exponent = 0;
    *scale = *unscale = 1;
    if (!(largest > 0) || !isfinite(largest))
        return;
    (void)frexpf(largest, &exponent);
    exponent = 4 - exponent > 126 ? 126 : 4 - exponent;
    *scale = ldexpf(1, exponent);
    *unscale = ldexpf(1, -exponent);
}

ALWAYS_INLINE vfloat v_abs(vfloat x)
{
    return (vfloat)((vuint)x & 0x7fffffff);
}

static float largest_of_row(const float *x, int n)
{
    vfloat most[4] = {{0}};
    int i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int j = 0; j < 4; j++)
            most[j] = v_max(most[j], v_abs(v_load(x + i + j * LANES)));
    for (; i < n; i += LANES)
        most[0] = v_max(most[0], v_abs(v_load_n(x + i, v_left(i, n))));
    return v_largest(v_max(v_max(most[0], most[1]), v_max(most[2], most[3])));
}

/* ---- packing a ---- */
ALWAYS_INLINE __m256i to_halves(vfloat x)
{
    return (__m256i)_mm512_cvtxps_ph((__m512)x);
}

/* Converts floats to halves, and stores each half twice in a word. */
ALWAYS_INLINE vfloat to_words(vfloat x)
{
    const __m512i half = _mm512_cvtepu16_epi32(to_halves(x));
    return (vfloat)_mm512_or_epi32(half, _mm512_slli_epi32(half, 16));
}

/* Packs MR rows of `a`, in which the values of a sum are already adjacent. */
static void pack_rows(const part *p, rows_of_a *to)
{
    const size_t K = (size_t)p->call->K;
    for (int r = 0; r < MR; r++) {
        char *out = to->words + (size_t)r * to->row;
        to->unscale[r] = 1;
        if (r >= to->rows) {
            memset(out, 0, (size_t)p->depth * WORD);
            continue;
        }
        const float *x = p->a + (size_t)(to->m0 + r) * K + (size_t)p->k0;
        float scale;
        choose_scale(largest_of_row(x, p->depth), &scale, &to->unscale[r]);
        for (int k = 0; k < p->depth; k += LANES) {
            const int left = v_left(k, p->depth);
            put_some_words(out + (size_t)k * WORD,
                           to_words(v_load_n(x + k, left) * scale), left);
        }
    }
}

/* Loads MR columns of a row x of n columns, from column `first` on; after the end,
 * zeros. */
ALWAYS_INLINE vfloat load_columns(const float *x, int first, int n)
{
    const int left = n - first < 0 ? 0 : n - first < MR ? n - first : MR;
    return v_load_n(x + first, left);
}

/* Multiplies each float by the scale of its row and replaces it by a word that holds
 * the rounded half twice. The function works on whole vectors: the order of the MR rows
 * repeats after TURN vectors. The last vector may extend beyond the tile. */
static void round_columns(char *words, int depth, const float *scale)
{
    enum { TURN = 3 };
    vfloat each[TURN];
    float turn[TURN * LANES];
    for (int i = 0; i < TURN * LANES; i++)
        turn[i] = scale[i % MR];
    for (int i = 0; i < TURN; i++)
        each[i] = v_load(turn + i * LANES);
    char *end = words + (size_t)depth * MR * WORD;
    for (; words < end; words += TURN * LANES * WORD)
        for (int i = 0; i < TURN; i++) {
            char *at = words + i * LANES * WORD;
            const vfloat halves = to_words(load_words(at) * each[i]);
            memcpy(at, &halves, sizeof halves);
        }
}

/* Packs GROUP_ROWS columns of `a`; they are rows of the product. The columns
 * are first copied in one pass over `a`, and then rounded in place. A vector that is
 * stored for one k may extend into the place of the next k, which is written later. */
static void pack_columns(const part *p, rows_of_a *to)
{
    const size_t M = (size_t)p->call->M;
    const float *x = p->a + (size_t)p->k0 * M + (size_t)to->m0;
    vfloat most[GROUP] = {{0}};
    for (int k = 0; k < p->depth; k++, x += M)
        for (int i = 0; i < GROUP; i++) {
            const vfloat columns = load_columns(x, i * MR, to->rows);
            most[i] = v_max(most[i], v_abs(columns));
            memcpy(to->words + (size_t)i * to->tile + (size_t)k * to->step, &columns,
                   sizeof columns);
        }
    for (int i = 0; i < GROUP; i++) {
        float scale[MR + 4]; /* 4 elements more, so that a whole vector can be loaded */
        v_store(scale, most[i]);
        for (int r = 0; r < MR; r++)
            choose_scale(scale[r], &scale[r], &to->unscale[i * MR + r]);
        round_columns(to->words + (size_t)i * to->tile, p->depth, scale);
    }
}

/* ---- packing b ---- */
static char *panel_of(const part *p, int n)
{
    return p->packed_b + (size_t)n * (size_t)p->depth * 2;
}

/* Packs NR columns of b [K,N]. `copy` has room for these columns in f32. */
static void pack_across(part *p, int first, float *copy)
{
    const size_t N = (size_t)p->call->N;
    const int cols = p->cols - first < NR ? p->cols - first : NR;
    const float *x = p->b + (size_t)p->k0 * N + (size_t)(p->n0 + first);
    const size_t count = (size_t)p->depth * NR;
    char *out = panel_of(p, first);
    vfloat most[NR / LANES] = {{0}};
    float scale;
    for (size_t i = 0; i < count; i += NR, x += N)
        for (int v = 0; v < NR / LANES; v++) {
            const int n = v * LANES, left = cols - n < 0 ? 0 : v_left(n, cols);
            const vfloat lanes = v_load_n(x + n, left);
            most[v] = v_max(most[v], v_abs(lanes));
            v_store(copy + i + n, lanes);
        }
    choose_scale(v_largest(v_max(v_max(most[0], most[1]), v_max(most[2], most[3]))),
                 &scale, &p->unscale[first / NR]);
    for (size_t i = 0; i < count; i += LANES) {
        const __m256i halves = to_halves(v_load(copy + i) * scale);
        memcpy(out + i * 2, &halves, sizeof halves);
    }
}

/* Packs `left` columns of LANES rows, from x on, as `left` rows: they are scaled,
 * transposed and rounded. Only n of the LANES rows exist; the others count as zeros. */
ALWAYS_INLINE void turn_rows(char *out, const float *x, size_t stride, int n, int left,
                             float scale)
{
    vfloat row[LANES];
    for (int i = 0; i < LANES; i++)
        row[i] = i < n ? v_load_n(x + (size_t)i * stride, left) * scale : (vfloat){0};
    v_transpose(row);
    for (int i = 0; i < left; i++) {
        const __m256i halves = to_halves(row[i]);
        memcpy(out + (size_t)i * NR * 2, &halves, sizeof halves);
    }
}

/* Packs NR rows of b [N,K]; they are columns of the product. */
static void pack_turned(part *p, int first)
{
    const size_t K = (size_t)p->call->K;
    const int rows = p->cols - first < NR ? p->cols - first : NR;
    const float *x = p->b + (size_t)(p->n0 + first) * K + (size_t)p->k0;
    char *out = panel_of(p, first);
    float scale, most = 0;
    for (int r = 0; r < rows; r++) {
        const float row = largest_of_row(x + (size_t)r * K, p->depth);
        most = row > most ? row : most;
    }
    choose_scale(most, &scale, &p->unscale[first / NR]);
    for (int n = 0; n < NR; n += LANES)
        for (int k = 0; k < p->depth; k += LANES)
            turn_rows(out + ((size_t)k * NR + (size_t)n) * 2,
                      x + (size_t)n * K + (size_t)k, K, rows - n, v_left(k, p->depth),
                      scale);
}

/* ---- products ---- */
typedef struct tile {
    __m512h sum[MR][2];
} tile;

ALWAYS_INLINE void sum_chunk(tile *t, const char *a, size_t a_row, size_t a_step,
                             const char *b, int n)
{
    for (int m = 0; m < MR; m++)
        t->sum[m][0] = t->sum[m][1] = _mm512_setzero_ph();
    for (int k = 0; k < n; k++, a += a_step, b += NR * 2) {
        const __m512h b0 = _mm512_loadu_ph(b), b1 = _mm512_loadu_ph(b + HALVES * 2);
        for (int m = 0; m < MR; m++) {
            int32_t word;
            memcpy(&word, a + (size_t)m * a_row, sizeof word);
            const __m512h x = _mm512_castsi512_ph(_mm512_set1_epi32(word));
            t->sum[m][0] = _mm512_fmadd_ph(x, b0, t->sum[m][0]);
            t->sum[m][1] = _mm512_fmadd_ph(x, b1, t->sum[m][1]);
        }
    }
}

ALWAYS_INLINE vfloat widen_low(__m512h x)
{
    const __m256i lanes = _mm512_castsi512_si256(_mm512_castph_si512(x));
    return (vfloat)_mm512_cvtxph_ps(_mm256_castsi256_ph(lanes));
}
ALWAYS_INLINE vfloat widen_high(__m512h x)
{
    const __m256i lanes = _mm512_extracti64x4_epi64(_mm512_castph_si512(x), 1);
    return (vfloat)_mm512_cvtxph_ps(_mm256_castsi256_ph(lanes));
}

ALWAYS_INLINE void add_chunk(const tile *t, float *c, size_t stride, const float *scale,
                             float b_unscale, const bool add)
{
#pragma GCC unroll 12
    for (int m = 0; m < MR; m++, c += stride) {
        const vfloat unscale = v_set(scale[m] * b_unscale);
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) {
            float *to = c + v * HALVES;
            vfloat low = widen_low(t->sum[m][v]) * unscale;
            vfloat high = widen_high(t->sum[m][v]) * unscale;
            if (add) {
                low += v_load(to);
                high += v_load(to + LANES);
            }
            v_store(to, low);
            v_store(to + LANES, high);
        }
    }
}

/* Multiplies MR packed rows of `a` by a panel of `b`. Stores the result in c [MR, NR]
 * or, with `add`, adds it to c. */
ALWAYS_INLINE void multiply_panel(const part *p, float *c, size_t stride, const char *a,
                                  size_t a_row, size_t a_step, const float *unscale,
                                  int n, bool add)
{
    const char *b = panel_of(p, n);
    const float b_unscale = p->unscale[n / NR];
    tile t;
    for (int m = 0; m < MR; m++)
        for (int i = 0; i < NR; i += LANES)
            __builtin_prefetch(c + (size_t)m * stride + i, 1);
    for (int k = 0; k < p->depth; k += CHUNK, add = true) {
        const int left = p->depth - k < CHUNK ? p->depth - k : CHUNK;
        sum_chunk(&t, a + (size_t)k * a_step, a_row, a_step, b + (size_t)k * NR * 2,
                  left);
        if (add)
            add_chunk(&t, c, stride, unscale, b_unscale, true);
        else
            add_chunk(&t, c, stride, unscale, b_unscale, false);
    }
}

/* Multiplies the tile of packed rows that begins at row m with the panel of b at column
 * n. Strides are passed as constants where possible, so that the compiler knows
 * them. */
static void multiply_tile(const part *p, float *c, size_t stride, const rows_of_a *a,
                          int m, int n, bool add)
{
    if (p->call->kind == GEMM_TN)
        multiply_panel(p, c, stride, a->words + (size_t)(m / MR) * a->tile, WORD,
                       MR * WORD, a->unscale + m, n, add);
    else
        multiply_panel(p, c, stride, a->words, a->row, WORD, a->unscale, n, add);
}

/* Computes a whole tile of which only a part lies in c, and stores that part. */
static void multiply_edge(const part *p, float *c, size_t stride, const rows_of_a *a,
                          int m, int n)
{
    float edge[MR * NR] = {0};
    const int rows = a->rows - m < MR ? a->rows - m : MR;
    const int cols = p->cols - n < NR ? p->cols - n : NR;
    for (int r = 0; p->add && r < rows; r++)
        memcpy(edge + r * NR, c + (size_t)r * stride, (size_t)cols * sizeof *c);
    multiply_tile(p, edge, NR, a, m, n, p->add);
    for (int r = 0; r < rows; r++)
        memcpy(c + (size_t)r * stride, edge + r * NR, (size_t)cols * sizeof *c);
}

/* ---- a call ---- */
static int least_of_two(int a, int b)
{
    return a < b ? a : b;
}

/* Returns the number of bytes between packed rows of `a`: an odd number of cache lines,
 * so that the rows fall into different sets of the first-level cache. */
static size_t packed_row_bytes(int depth)
{
    const size_t lines = ((size_t)depth * WORD + 63) / 64;
    return (lines | 1) * 64;
}

static void multiply_group(const part *p, char *words, int m0, int rows)
{
    const size_t N = (size_t)p->call->N;
    rows_of_a a = {.words = words, .m0 = m0, .rows = rows};
    a.row = packed_row_bytes(p->depth);
    a.step = MR * WORD;
    a.tile = MR * packed_row_bytes(p->depth) + EDGE;
    if (p->call->kind == GEMM_TN)
        pack_columns(p, &a);
    else
        pack_rows(p, &a);
    for (int m = 0; m < rows; m += MR)
        for (int n = 0; n < p->cols; n += NR) {
            float *c = p->c + (size_t)(m0 + m) * N + (size_t)(p->n0 + n);
            if (rows - m < MR || p->cols - n < NR)
                multiply_edge(p, c, N, &a, m, n);
            else
                multiply_tile(p, c, N, &a, m, n, p->add);
        }
}

static void multiply_block(part *p, int n_threads)
{
    const int M = p->call->M, group = p->call->kind == GEMM_TN ? GROUP_ROWS : MR;
    const int n_panels = (p->cols + NR - 1) / NR, n_groups = (M + group - 1) / group;
#pragma omp parallel num_threads(cpu_threads(n_threads))
    {
#pragma omp for schedule(static)
        for (int t = 0; t < n_threads; t++) {
            char *own = p->own + (size_t)t * p->own_bytes;
            for (int i = t; i < n_panels; i += n_threads)
                if (p->call->kind == GEMM_NT)
                    pack_turned(p, i * NR);
                else
                    pack_across(p, i * NR, (float *)(void *)own);
        }
#pragma omp for schedule(static)
        for (int t = 0; t < n_threads; t++) {
            char *own = p->own + (size_t)t * p->own_bytes;
            const int share = (n_groups + n_threads - 1) / n_threads;
            for (int i = t * share; i < least_of_two((t + 1) * share, n_groups); i++)
                multiply_group(p, own, i * group, least_of_two(M - i * group, group));
        }
    }
}

static pl_status f16_run(gemm *head, const gemm_call *call, void *c, const void *a,
                         const void *b)
{
    gemm_f16 *g = (gemm_f16 *)head;
    part p = {.call = call, .a = a, .b = b, .c = c, .add = call->add};
    if (call->M < 1 || call->N < 1 || call->K < 1)
        return pl_fail(PL_ERR_ARG, "a product of %d x %d x %d has an extent below 1",
                       call->M, call->N, call->K);
    /* A block has a multiple of NR columns. All blocks are about equally wide. */
    const int N = call->N, depth = least_of_two(call->K, DEEP);
    const int most = least_of_two(COLUMNS, B_BYTES / (depth * 2) / NR * NR);
    const int n_blocks = (N + most - 1) / most;
    const int block = ((N + n_blocks - 1) / n_blocks + NR - 1) / NR * NR;
    const size_t b_bytes = (size_t)block * (size_t)depth * 2;
    p.own_bytes = GROUP * (MR * packed_row_bytes(depth) + EDGE);
    if (p.own_bytes < NR * (size_t)depth * WORD)
        p.own_bytes = NR * (size_t)depth * WORD;
    PL_CHECK(cpu_block_grow(&g->packed, b_bytes + (size_t)g->n_threads * p.own_bytes,
                            "packed matrices"));
    p.packed_b = g->packed.data;
    p.own = p.packed_b + b_bytes;
    for (p.k0 = 0; p.k0 < call->K; p.k0 += DEEP, p.add = true) {
        p.depth = least_of_two(call->K - p.k0, DEEP);
        for (p.n0 = 0; p.n0 < N; p.n0 += block) {
            p.cols = least_of_two(N - p.n0, block);
            multiply_block(&p, g->n_threads);
        }
    }
    return PL_OK;
}

static void f16_close(gemm **head)
{
    gemm_f16 *g = (gemm_f16 *)*head;
    pl_free_all(g->packed.data, g);
    *head = NULL;
}

bool gemm_has_f16(void)
{
    return true;
}

pl_status gemm_f16_open(int n_threads, gemm **out)
{
    gemm_f16 *g = pl_alloc(sizeof *g);
    pl_copy_text(g->head.text, sizeof g->head.text, "own tiles");
    g->head.run = f16_run;
    g->head.close = f16_close;
    g->n_threads = n_threads;
    *out = &g->head;
    return PL_OK;
}
#else
bool gemm_has_f16(void)
{
    return false;
}

pl_status gemm_f16_open(int n_threads, gemm **out)
{
    (void)n_threads;
    *out = NULL;
    return pl_fail(PL_ERR_UNSUPPORTED,
                   "this build cannot multiply in f16: build with GCC 12 or clang 14 "
                   "on x86-64, or use precision f32");
}
#endif
