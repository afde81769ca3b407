/* out = x w^T with weights of one byte.
 *
 *   w[o,i] ~ scale[o] (u[o,i] - 128)              u is one byte, one scale per row
 *   x[n,i] ~ step[n,g] q[n,i],  g = i / GROUP     q is one byte, one step per group
 *
 *   out[n,o] = scale[o] sum_g step[n,g] sum_{i in g} q[n,i] (u[o,i] - 128)
 *
 * The inner sum is over whole numbers, so it is exact. AVX-512 VNNI multiplies an
 * unsigned by a signed byte and adds four products per lane. Therefore a weight is
 * stored as u, with 128 added, and the inner sum begins with the correction -128 sum q,
 * which is the same for all rows of w. Without VNNI, bytes are converted to 16 bits,
 * whose products are added two per lane; this is exact, too.
 *
 * As in matvec_cpu.c, the result for a row of x does not depend on the other rows. */
#include "modules/cpu/ops_cpu.h"
#include "modules/cpu/simd.h"

enum {
    GROUP = CPU_BYTE_GROUP,
    ROWS = 4,
    TILE = LANES == 16 ? 4 : 1,
    BEGINS = LANES < 16 ? 8 : 16,
    BLOCK = 32 /* number of rows of x that are converted to bytes at once */
};

/* One group of a row of x, converted to bytes. */
typedef struct group {
    /* start values of the sums in the lanes; only the first BEGINS are used, and they
     * add up to -128 sum q */
    int32_t begin[16];
    int8_t q[GROUP];
    float step;
    int32_t pad[15]; /* fills the struct up to whole cache lines */
} group;

typedef struct bytes_job {
    const pl_weight *w;
    const group *x; /* [N, n_groups] */
    int N, n_groups;
    pl_type out_type;
    pl_act *out;
    size_t first; /* the row of `out` that belongs to row 0 of x */
} bytes_job;

/* ---- x as bytes ---- */

/* Rounds to the nearest whole number: adding 1.5 * 2^23 leaves that number in the low
 * bits. */
ALWAYS_INLINE int nearest(float x)
{
    const float shifted = x + 12582912.0f;
    int32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    return bits - 0x4b400000;
}

/* Converts a row of x, which is padded with zeros, to bytes. If a value of a group is
 * NaN, the group's step becomes NaN, so that the outputs become NaN, too. */
static void encode_act_row(pl_backend *be, group *to, const pl_act *x, size_t at, int I)
{
    for (int i = 0; i < I; i += GROUP, to++) {
        float values[GROUP] = {0};
        vfloat most = {0}, odd = {0};
        for (int k = 0; k < GROUP && i + k < I; k += LANES) {
            const int left = v_left(i + k, I);
            v_store_n(values + k, v_load_act(x, at + (size_t)(i + k), left, be->act),
                      left);
        }
        for (int k = 0; k < GROUP; k += LANES) {
            const vfloat v = v_load(values + k);
            most = v_max(v_max(v, -v), most);
            odd += v * 0.0f;
        }
        const float largest = v_largest(most), none = v_sum(odd);
        const float inverse = largest > 0 && none == 0 ? 127.0f / largest : 0;
        to->step = largest / 127.0f + none;
        memset(to->begin, 0, sizeof to->begin);
        for (int k = 0; k < GROUP; k++)
            to->q[k] = (int8_t)(none == 0 ? nearest(values[k] * inverse) : 0);
        for (int k = 0; k < GROUP; k++)
            to->begin[k / 4 % BEGINS] -= 128 * to->q[k];
    }
}

/* ---- products ---- */

/* load_group loads a group of a row of w. add_group(sum, g, u) adds step * (q . (u -
 * 128)) to `sum`, spread over the lanes in any way. */
#if defined(__AVX512BW__)
typedef __m512i packed;
ALWAYS_INLINE packed load_group(const uint8_t *u)
{
    return _mm512_loadu_si512(u);
}
#if defined(__AVX512VNNI__)
ALWAYS_INLINE __m512i whole_products(const group *g, packed u)
{
    return _mm512_dpbusd_epi32(_mm512_loadu_si512(g->begin), u,
                               _mm512_loadu_si512(g->q));
}
#else
ALWAYS_INLINE __m512i whole_products(const group *g, packed u)
{
    const __m512i q = _mm512_loadu_si512(g->q);
    const __m512i low =
        _mm512_madd_epi16(_mm512_cvtepu8_epi16(_mm512_castsi512_si256(u)),
                          _mm512_cvtepi8_epi16(_mm512_castsi512_si256(q)));
    const __m512i high =
        _mm512_madd_epi16(_mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(u, 1)),
                          _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64(q, 1)));
    return _mm512_add_epi32(_mm512_loadu_si512(g->begin), _mm512_add_epi32(low, high));
}
#endif
ALWAYS_INLINE vfloat add_group(vfloat sum, const group *g, packed u)
{
    return sum + (vfloat)_mm512_cvtepi32_ps(whole_products(g, u)) * g->step;
}
#else
typedef const uint8_t *packed;
ALWAYS_INLINE packed load_group(const uint8_t *u)
{
    return u;
}
#if defined(__AVX2__)
ALWAYS_INLINE __m256i products_of_16(const int8_t *q, const uint8_t *u)
{
    return _mm256_madd_epi16(
        _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)u)),
        _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)q)));
}
ALWAYS_INLINE vfloat add_group(vfloat sum, const group *g, packed u)
{
    __m256i whole = _mm256_loadu_si256((const __m256i *)(const void *)g->begin);
    for (int i = 0; i < GROUP; i += 16)
        whole = _mm256_add_epi32(whole, products_of_16(g->q + i, u + i));
    return sum + (vfloat)_mm256_cvtepi32_ps(whole) * g->step;
}
#else
/* Adds the sum of a group to the first lane. */
ALWAYS_INLINE vfloat add_group(vfloat sum, const group *g, packed u)
{
    int32_t whole = 0;
    for (int i = 0; i < GROUP; i++)
        whole += g->q[i] * (u[i] - 128);
    sum[0] += (float)whole * g->step;
    return sum;
}
#endif
#endif

ALWAYS_INLINE void dot_tile(vfloat sums[TILE][LANES], int at, const group *x,
                            const uint8_t *const w[], int n_groups, const int n_x)
{
    vfloat sum[TILE][ROWS] = {{{0}}};
    for (int g = 0; g < n_groups; g++) {
        packed u[ROWS];
        for (int r = 0; r < ROWS; r++) {
            const uint8_t *row = w[r] + (size_t)g * GROUP;
            u[r] = load_group(row);
            /* prefetches rows that are needed next (matvec_cpu.c says why) */
            __builtin_prefetch(row + (size_t)n_groups * ROWS * GROUP);
        }
        for (int n = 0; n < n_x; n++)
            for (int r = 0; r < ROWS; r++)
                sum[n][r] =
                    add_group(sum[n][r], x + (size_t)n * (size_t)n_groups + g, u[r]);
    }
    for (int n = 0; n < n_x; n++)
        for (int r = 0; r < ROWS; r++)
            sums[n][at + r] = sum[n][r];
}

ALWAYS_INLINE void outputs(const bytes_job *job, int n, int o0, const int n_x)
{
    const pl_weight *weight = job->w;
    const size_t stride = (size_t)job->n_groups * GROUP;
    const int left = v_left(o0, weight->O);
    const vfloat scale = v_load_n(weight->scales + o0, left);
    vfloat sums[TILE][LANES];
    for (int r0 = 0; r0 < LANES; r0 += ROWS) {
        const uint8_t *w[ROWS];
        for (int r = 0; r < ROWS; r++) {
            const int o = o0 + r0 + r;
            w[r] = weight->bytes + (size_t)(o < weight->O ? o : weight->O - 1) * stride;
        }
        dot_tile(sums, r0, job->x + (size_t)n * (size_t)job->n_groups, w, job->n_groups,
                 n_x);
    }
    for (int i = 0; i < n_x; i++)
        v_store_act(job->out,
                    (job->first + (size_t)(n + i)) * (size_t)weight->O + (size_t)o0,
                    v_sum_rows(sums[i]) * scale, left, job->out_type);
}

void OP(multiply_bytes)(pl_backend *be, pl_act *out, pl_type out_type, const pl_act *x,
                        const pl_weight *w, int N)
{
    const int n_groups = (w->I + GROUP - 1) / GROUP;
    const int n_vectors = (w->O + LANES - 1) / LANES;
    group *encoded =
        cpu_scratch(cpu_self(be), (size_t)BLOCK * (size_t)n_groups * sizeof *encoded);
    if (encoded == NULL)
        return;
    for (int n0 = 0; n0 < N; n0 += BLOCK) {
        const int rows = N - n0 < BLOCK ? N - n0 : BLOCK;
        for (int i = 0; i < rows; i++)
            encode_act_row(be, encoded + (size_t)i * (size_t)n_groups, x,
                           (size_t)(n0 + i) * (size_t)w->I, w->I);
        const bytes_job job = {w, encoded, rows, n_groups, out_type, out, (size_t)n0};
#pragma omp parallel for schedule(static)                                              \
    num_threads(cpu_team(be, (size_t)w->O *(size_t)w->I *(size_t)rows))
        for (int i = 0; i < n_vectors; i++) {
            int n = 0;
            for (; n + TILE <= rows; n += TILE)
                outputs(&job, n, i * LANES, TILE);
            for (; n < rows; n++)
                outputs(&job, n, i * LANES, 1);
        }
    }
}
