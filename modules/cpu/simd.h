/* Vectors of floats. They have 16, 8 or 4 lanes, depending on the instruction set for
 * which the including file is compiled.
 *
 * The vector types of GCC and clang have arithmetic. This file adds, for each
 * instruction set, what they lack: min, max, square root, rounding to bf16, and the
 * bf16 dot product. Memory is accessed through memcpy, so that no alignment is assumed
 * and no type is punned. */
#pragma once
#include "modules/backend.h"
#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX2__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
typedef float vfloat __attribute__((vector_size(4 * LANES)));
typedef uint32_t vuint __attribute__((vector_size(4 * LANES)));
typedef int32_t vint __attribute__((vector_size(4 * LANES)));
typedef uint16_t vhalf __attribute__((vector_size(2 * LANES)));

/* Kernels take the type as a parameter. When the compiler inlines a kernel, it makes a
 * version for each constant type. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE vfloat v_set(float x)
{
    return x - (vfloat){0}; /* exact for every x; compilers make it a broadcast */
}

/* Returns the number of lanes from i to n, at most LANES. */
ALWAYS_INLINE int v_left(int i, int n)
{
    return n - i < LANES ? n - i : LANES;
}

/* Returns a vector in which each lane has its own index. */
ALWAYS_INLINE vint v_number(void)
{
    static const int32_t number[16] = {0, 1, 2,  3,  4,  5,  6,  7,
                                       8, 9, 10, 11, 12, 13, 14, 15};
    vint lane;
    memcpy(&lane, number, sizeof lane);
    return lane;
}
/* Returns the mask of the lanes whose index is below n. */
ALWAYS_INLINE vint v_below(int n)
{
    return v_number() < n;
}
ALWAYS_INLINE vfloat v_keep(vfloat x, vint mask)
{
    return (vfloat)((vint)x & mask);
}
ALWAYS_INLINE vfloat v_select(vint mask, vfloat yes, vfloat no)
{
    return (vfloat)(((vint)yes & mask) | ((vint)no & ~mask));
}

/* For v_max and v_min: the result is NaN if x is NaN, so the bound must be the first
 * argument. */
ALWAYS_INLINE vfloat v_max(vfloat bound, vfloat x)
{
#if defined(__AVX512F__)
    return (vfloat)_mm512_max_ps((__m512)bound, (__m512)x);
#elif defined(__AVX2__)
    return (vfloat)_mm256_max_ps((__m256)bound, (__m256)x);
#else
    return v_select(bound > x, bound, x);
#endif
}
ALWAYS_INLINE vfloat v_min(vfloat bound, vfloat x)
{
#if defined(__AVX512F__)
    return (vfloat)_mm512_min_ps((__m512)bound, (__m512)x);
#elif defined(__AVX2__)
    return (vfloat)_mm256_min_ps((__m256)bound, (__m256)x);
#else
    return v_select(bound < x, bound, x);
#endif
}
ALWAYS_INLINE vfloat v_sqrt(vfloat x)
{
#if defined(__AVX512F__)
    return (vfloat)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX2__)
    return (vfloat)_mm256_sqrt_ps((__m256)x);
#else
    for (int i = 0; i < LANES; i++)
        x[i] = sqrtf(x[i]);
    return x;
#endif
}

/* Sums the lanes by adding halves, always in the same order. */
#if defined(__AVX512F__)
ALWAYS_INLINE float v_sum(vfloat x)
{
    return _mm512_reduce_add_ps((__m512)x);
}
ALWAYS_INLINE float v_largest(vfloat x)
{
    return _mm512_reduce_max_ps((__m512)x);
}
#else
ALWAYS_INLINE float v_sum(vfloat x)
{
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            x[i] += x[i + half];
    return x[0];
}
ALWAYS_INLINE float v_largest(vfloat x)
{
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            x[i] = x[i] > x[i + half] ? x[i] : x[i + half];
    return x[0];
}
#endif

/* Transposes LANES rows of LANES words. With AVX-512, for each power of two `step`,
 * rows that are `step` apart exchange half of their lanes. */
#if defined(__AVX512F__)
ALWAYS_INLINE void exchange_lanes(vfloat row[LANES], const int step)
{
    const vint lane = v_number(), upper = (lane & step) != 0;
    const vint low = lane + (upper & (LANES - step));
    const vint high = lane + (upper & LANES) + (~upper & step);
    for (int pair = 0; pair < LANES / 2; pair++) {
        const int i = pair / step * 2 * step + pair % step;
        const __m512 a = (__m512)row[i], b = (__m512)row[i + step];
        row[i] = (vfloat)_mm512_permutex2var_ps(a, (__m512i)low, b);
        row[i + step] = (vfloat)_mm512_permutex2var_ps(a, (__m512i)high, b);
    }
}
ALWAYS_INLINE void v_transpose(vfloat row[LANES])
{
    exchange_lanes(row, 8);
    exchange_lanes(row, 4);
    exchange_lanes(row, 2);
    exchange_lanes(row, 1);
}
#else
ALWAYS_INLINE void v_transpose(vfloat row[LANES])
{
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < i; j++) {
            const float word = row[i][j];
            row[i][j] = row[j][i];
            row[j][i] = word;
        }
}
#endif

/* Returns a vector whose lane i is the sum of row i. The rows are overwritten. */
ALWAYS_INLINE vfloat v_sum_rows(vfloat row[LANES])
{
    v_transpose(row);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            row[i] += row[i + half];
    return row[0];
}

ALWAYS_INLINE vfloat v_load(const float *p)
{
    vfloat x;
    memcpy(&x, p, sizeof x);
    return x;
}
ALWAYS_INLINE void v_store(float *p, vfloat x)
{
    memcpy(p, &x, sizeof x);
}

/* Loads or stores the first n of LANES words, or halves, at any address. Lanes beyond n
 * are loaded as zero and not stored. These functions use masks if the instruction set
 * has them. Without masks a partial vector is copied through the stack; such stores
 * made a loop over rows take twice as long. */
#if defined(__AVX512BW__) && defined(__AVX512VL__)
ALWAYS_INLINE vfloat some_words(const char *p, int n)
{
    return (vfloat)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1u), p);
}
ALWAYS_INLINE void put_some_words(char *p, vfloat x, int n)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1u), (__m512)x);
}
ALWAYS_INLINE vhalf some_halves(const char *p, int n)
{
    return (vhalf)_mm256_maskz_loadu_epi16((__mmask16)((1u << n) - 1u), p);
}
ALWAYS_INLINE void put_some_halves(char *p, vhalf x, int n)
{
    _mm256_mask_storeu_epi16(p, (__mmask16)((1u << n) - 1u), (__m256i)x);
}
#else
#if defined(__AVX2__)
ALWAYS_INLINE vfloat some_words(const char *p, int n)
{
    return (vfloat)_mm256_maskload_epi32((const int *)(const void *)p,
                                         (__m256i)v_below(n));
}
ALWAYS_INLINE void put_some_words(char *p, vfloat x, int n)
{
    _mm256_maskstore_epi32((int *)(void *)p, (__m256i)v_below(n), (__m256i)x);
}
#else
ALWAYS_INLINE vfloat some_words(const char *p, int n)
{
    vfloat x = {0};
    memcpy(&x, p, (size_t)n * 4);
    return x;
}
ALWAYS_INLINE void put_some_words(char *p, vfloat x, int n)
{
    memcpy(p, &x, (size_t)n * 4);
}
#endif
ALWAYS_INLINE vhalf some_halves(const char *p, int n)
{
    vhalf x = {0};
    memcpy(&x, p, (size_t)n * 2);
    return x;
}
ALWAYS_INLINE void put_some_halves(char *p, vhalf x, int n)
{
    memcpy(p, &x, (size_t)n * 2);
}
#endif

/* Loads or stores the first n lanes of floats. Lanes beyond n are loaded as zero and
 * not stored. */
ALWAYS_INLINE vfloat v_load_n(const float *p, int n)
{
    return n == LANES ? v_load(p) : some_words((const char *)p, n);
}
ALWAYS_INLINE void v_store_n(float *p, vfloat x, int n)
{
    if (n == LANES)
        v_store(p, x);
    else
        put_some_words((char *)p, x, n);
}

/* ---- bf16: the upper half of a float, rounded to nearest even ---- */

ALWAYS_INLINE vfloat v_from_half(vhalf h)
{
#if defined(__AVX512F__)
    return (vfloat)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)h), 16);
#elif defined(__AVX2__)
    return (vfloat)_mm256_slli_epi32(_mm256_cvtepu16_epi32((__m128i)h), 16);
#else
    return (vfloat)(__builtin_convertvector(h, vuint) << 16);
#endif
}
ALWAYS_INLINE vhalf v_to_half(vfloat x)
{
#if defined(__AVX512BF16__)
    return (vhalf)_mm512_cvtneps_pbh((__m512)x);
#else
    const vuint bits = (vuint)x;
    const vuint rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const vuint quiet = (bits >> 16) | 0x40u;
    const vuint nan = (vuint)(x != x);
    return __builtin_convertvector((rounded & ~nan) | (quiet & nan), vhalf);
#endif
}

/* Loads activations [i .. i+n) as floats. */
ALWAYS_INLINE vfloat v_load_act(const pl_act *acts, size_t i, int n, pl_type type)
{
    const char *p = (const char *)acts + i * pl_type_bytes(type);
    if (type == PL_F32)
        return v_load_n((const float *)(const void *)p, n);
    vhalf h;
    if (n == LANES)
        memcpy(&h, p, sizeof h);
    else
        h = some_halves(p, n);
    return v_from_half(h);
}
ALWAYS_INLINE void v_store_act(pl_act *acts, size_t i, vfloat x, int n, pl_type type)
{
    char *p = (char *)acts + i * pl_type_bytes(type);
    if (type == PL_F32) {
        v_store_n((float *)(void *)p, x, n);
        return;
    }
    const vhalf h = v_to_half(x);
    if (n == LANES)
        memcpy(p, &h, sizeof h);
    else
        put_some_halves(p, h, n);
}

/* ---- words: 4 bytes, one float or two bf16 neighbours ---- */

enum { WORD = 4 };

/* Return the number of elements per word, and of words for n elements (n is even in
 * bf16). */
ALWAYS_INLINE int word_size(pl_type type)
{
    return type == PL_F32 ? 1 : 2;
}
ALWAYS_INLINE int words_of(int n, pl_type type)
{
    return n / word_size(type);
}

ALWAYS_INLINE vfloat load_word(const char *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return (vfloat)((vuint){0} + word);
}
ALWAYS_INLINE vfloat load_words(const char *p)
{
    vfloat words;
    memcpy(&words, p, sizeof words);
    return words;
}

ALWAYS_INLINE vfloat load_words_n(const char *p, int n)
{
    return n == LANES ? load_words(p) : some_words(p, n);
}

/* Returns acc + a * b for each word; in bf16 a word has two products, and both are
 * added. */
ALWAYS_INLINE vfloat v_dot(vfloat acc, vfloat a, vfloat b, pl_type type)
{
    if (type == PL_F32)
        return acc + a * b;
#if defined(__AVX512BF16__)
    return (vfloat)_mm512_dpbf16_ps((__m512)acc, (__m512bh)a, (__m512bh)b);
#else
    const vuint high = (vuint){0} + 0xffff0000u;
    acc += (vfloat)((vuint)a << 16) * (vfloat)((vuint)b << 16);
    return acc + (vfloat)((vuint)a & high) * (vfloat)((vuint)b & high);
#endif
}

/* Returns e^x, with a relative error below 2e-7 for -87 <= x <= 88. An x beyond these
 * limits gives about the value at the limit (e^-1000 is 1e-38, not 0). NaN gives NaN.
 *
 *   x = n ln2 + r, |r| <= ln2/2;  e^x = 2^n (1 + r + r^2 p(r))
 *
 * p is Cephes' polynomial (expf.c, Moshier). Adding 1.5 * 2^23 rounds to the nearest
 * whole number and leaves it in the low bits. */
ALWAYS_INLINE vfloat v_exp(vfloat x)
{
    x = v_min(v_set(88.3f), v_max(v_set(-87.3f), x));
    const vfloat shifted = x * 1.44269504088896341f + 12582912.0f;
    const vfloat n = shifted - 12582912.0f;
    const vfloat r = x - n * 0.693359375f - n * -2.12194440e-4f;
    vfloat p = v_set(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    return p * (vfloat)(((vuint)shifted << 23) + 0x3f800000u);
}

/* Factors that convert between exponentials to base e and base 2. */
#define LOG2_E 1.44269504088896341f
#define LN_2   0.693147180559945309f

/* Returns 2^x, with a relative error below 3e-7 for -126 <= x <= 127. Without AVX-512,
 * an x beyond these limits gives the value at the limit, as in v_exp. The function is
 * faster than v_exp, because it does not split ln2 into two parts. Use it if the
 * argument's own error is larger than the error that this split avoids.
 *
 *   x = n + f;  2^x = 2^n q(f),  q of degree 5, q(0) = 1, with the least relative error
 *
 * On machines with instructions that split x into n and f, 0 <= f < 1; on others |f| <=
 * 1/2. */
ALWAYS_INLINE vfloat v_exp2(vfloat x)
{
#if defined(__AVX512DQ__)
    const vfloat f = (vfloat)_mm512_reduce_ps((__m512)x, _MM_FROUND_FLOOR);
    vfloat q = v_set(1.867130884e-3f);
    q = q * f + 9.017028593e-3f;
    q = q * f + 5.579991435e-2f;
    q = q * f + 2.401644498e-1f;
    q = q * f + 6.931513118e-1f;
    q = q * f + 1.0f;
    return (vfloat)_mm512_scalef_ps((__m512)q, (__m512)x);
#else
    x = v_min(v_set(127.0f), v_max(v_set(-126.0f), x));
    const vfloat shifted = x + 12582912.0f;
    const vfloat f = x - (shifted - 12582912.0f);
    vfloat q = v_set(1.326472739e-3f);
    q = q * f + 9.671512917e-3f;
    q = q * f + 5.550733745e-2f;
    q = q * f + 2.402224208e-1f;
    q = q * f + 6.931469776e-1f;
    q = q * f + 1.0f;
    return q * (vfloat)(((vuint)shifted << 23) + 0x3f800000u);
#endif
}

/* Returns ln x for normal x > 0. The error is below 1e-7, or below 1e-7 of the result
 * if that is more. NaN gives NaN. With x = 2^n m and sqrt(1/2) <= m < sqrt(2), ln m is
 * Cephes' polynomial (logf.c, Moshier). */
ALWAYS_INLINE vfloat v_log(vfloat x)
{
    const vint exponent = ((vint)x - 0x3f3504f3) >> 23;
    const vfloat n = __builtin_convertvector(exponent, vfloat);
    const vfloat f = (vfloat)((vint)x - (exponent << 23)) - 1.0f, f2 = f * f;
    vfloat p = v_set(7.0376836292e-2f);
    p = p * f - 1.1514610310e-1f;
    p = p * f + 1.1676998740e-1f;
    p = p * f - 1.2420140846e-1f;
    p = p * f + 1.4249322787e-1f;
    p = p * f - 1.6668057665e-1f;
    p = p * f + 2.0000714765e-1f;
    p = p * f - 2.4999993993e-1f;
    p = p * f + 3.3333331174e-1f;
    p = p * f * f2 + n * -2.12194440e-4f - f2 * 0.5f;
    return v_select(x != x, x, f + p + n * 0.693359375f);
}
