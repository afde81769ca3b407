/* Compresses and decompresses chunks of floats. The functions are pure: equal input
 * gives equal bytes on every machine.
 *
 * Without bases, the first bytes of all floats are put together, then the second bytes,
 * and so on, and zstd compresses them. With two bases, each float is stored as its
 * distance from the middle of the two floats at the same position in the bases
 * (PROTOCOL 4.10). */
#pragma once
#include "base/base.h"

/* Appends the coded bytes. `a` and `b` are the two bases, with `len` bytes each; both
 * are NULL if the data are coded without bases. */
pl_status delta_encode(const uint8_t *data, const uint8_t *a, const uint8_t *b,
                       size_t len, pl_buf *out);
/* Decodes the chunk and appends exactly `len` bytes to `out`. ERR_DAMAGED if the coded
 * bytes do not give exactly `len` bytes. */
pl_status delta_decode(const uint8_t *coded, size_t coded_len, const uint8_t *a,
                       const uint8_t *b, size_t len, pl_buf *out);
