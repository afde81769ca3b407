/* Codecs: how an update travels.
 *
 *   f32   4 bytes a parameter, exact
 *   bf16  2 bytes a parameter, rounded to nearest even
 *
 * An encoded update is a header of 16 bytes ("PLU1", codec u16, zero u16, count
 * u64), little-endian, then the values. A decoder checks the length before it
 * touches a value, and refuses what is not finite.
 */
#ifndef PL_OUTER_CODEC_H
#define PL_OUTER_CODEC_H
#include "base/base.h"
#ifdef __cplusplus
extern "C" {
#endif

/* ERR_CONFIG names the known codecs. */
PL_MUST_CHECK pl_status pl_codec_check(const char *codec);
uint64_t pl_codec_bytes(const char *codec,
                        size_t n); /* encoded size, header included */

/* out has pl_codec_bytes bytes. */
PL_MUST_CHECK pl_status pl_codec_encode(const char *codec, const float *update,
                                        size_t n, uint8_t *out);
/* sum[i] += weight * update[i]; *norm gets the L2 norm of the decoded update.
 * sum may be NULL (validation only). ERR_DATA: wrong header or length, named;
 * ERR_NUMERIC: the first element that is not finite, named (sum is then partly
 * written: validate first). */
PL_MUST_CHECK pl_status pl_codec_add(const void *data, uint64_t bytes, size_t n,
                                     float weight, float *sum, double *norm);
#ifdef __cplusplus
}
#endif
#endif
