/* Products of small tiles, whose sums stay in registers. Attention, dw and Muon use
 * them.
 *
 * Everything is counted in words of 4 bytes: one float, or two bf16 values that are
 * neighbours along the summed axis. So fp32 and bf16 share one kernel, and only the
 * multiplication of two words differs (v_dot). `a` is read word by word, with any
 * distance between its rows and between its columns; `b` is read in rows of up to NR
 * words. */
#pragma once
#include "modules/cpu/simd.h"

/* A tile has MR rows and two vectors of columns. */
enum { MR = LANES == 16 ? 8 : 4, NR = 2 * LANES };

/* For each of the K steps k, adds the product of word a(m,k) and vector v of row k of b
 * to sum[m][v]. n_vecs, the number of vectors of b, is 1 or 2. a_row, a_step and b_step
 * are in bytes. */
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

/* Rounds two values that are neighbours along k to bf16, and makes a word of them:
 * `even` is the low half, `odd` the high half. */
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
