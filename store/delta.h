/* The coding of chunks of floats. The functions are pure: equal input gives equal bytes
 * on every machine.
 *
 * Without bases the four bytes of all floats are separated and compressed by zstd. With
 * two bases, a float is coded as its distance from the middle of both (PROTOCOL
 * 4.10). */
#ifndef PL_STORE_DELTA_H
#define PL_STORE_DELTA_H
#include "base/base.h"

/* Appends the coded bytes. `a` and `b` are NULL or have as many bytes as data. */
PL_MUST_CHECK pl_status delta_encode(const uint8_t *data, const uint8_t *a,
                                     const uint8_t *b, size_t len, pl_buf *out);
/* Decodes and appends exactly `len` bytes. ERR_DAMAGED if that is impossible. */
PL_MUST_CHECK pl_status delta_decode(const uint8_t *coded, size_t coded_len,
                                     const uint8_t *a, const uint8_t *b, size_t len,
                                     pl_buf *out);

#endif
