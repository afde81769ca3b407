/* Products of tiles whose sums stay in registers. Attention, dw and Muon use them.
 *
 * Everything is counted in words of 4 bytes: one float, or two bf16 values that are
 * neighbours along the summed axis. So fp32 and bf16 share one kernel, and only the
 * multiplication of two words differs (v_dot). `a` is read word by word at any two
 * strides, `b` in rows of up to NR words. */
#ifndef PL_MODULES_CPU_PRODUCT_H
#define PL_MODULES_CPU_PRODUCT_H
#include "modules/cpu/simd.h"

/* A tile has MR rows and two vectors of columns. */
enum { MR = LANES == 16 ? 8 : 4, NR = 2 * LANES };

/* Computes sum[m][v] += a(m,k) . b(k, lanes v) over K words; n_vecs is 1 or 2. */
ALWAYS_INLINE void tile_sums(vfloat sum[MR][2], const char *a, size_t a_row,
                             size_t a_step, const char *b, size_t b_step, int K,
                             const int n_vecs, const pl_type type)
{
    for (int k = 0; k < K; k++, a += a_step, b += b_step) {
        const vfloat b0 = load_words(b);
        const vfloat b1 = n_vecs > 1 ? load_words(b + LANES * WORD) : b0;
        for (int m = 0; m < MR; m++) {
            const vfloat x = load_word(a + (size_t)m * a_row);
            sum[m][0] = v_dot(sum[m][0], x, b0, type);
            if (n_vecs > 1)
                sum[m][1] = v_dot(sum[m][1], x, b1, type);
        }
    }
}
ALWAYS_INLINE void tile_clear(vfloat sum[MR][2])
{
    for (int m = 0; m < MR; m++)
        sum[m][0] = sum[m][1] = (vfloat){0};
}

/* Makes a word of two neighbours along k: `even` in the low half, `odd` in the high
 * half. */
ALWAYS_INLINE vfloat pair_words(vfloat even, vfloat odd)
{
    const vuint low = (vuint)v_from_half(v_to_half(even)) >> 16;
    return (vfloat)(low | (vuint)v_from_half(v_to_half(odd)));
}

/* Joins two floats that already are bf16 values into a word, without rounding. */
ALWAYS_INLINE vfloat pair_halves(vfloat even, vfloat odd)
{
    return (vfloat)((vuint)even >> 16 | (vuint)odd);
}

#endif
