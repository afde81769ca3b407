/* Compression of small data by zstd. Each zstd frame contains the size of its data. */
#pragma once
#include "base/buf.h"
PL_C_BEGIN
/* Appends one zstd frame. `level` is 1 to 19. */
pl_status pl_zip(const void *data, size_t len, int level, pl_buf *out);
/* Like pl_zip, for data in which sequences of bytes do not repeat, such as codes of
 * numbers. The function gives frequent bytes short codes and hardly searches for
 * repetitions. On such data it is 2 to 3 times as fast as pl_zip with level 1, and its
 * output is shorter. */
pl_status pl_zip_huffman(const void *data, size_t len, pl_buf *out);
/* Appends exactly `expected` bytes, else ERR_DAMAGED. A frame that declares a different
 * size is also ERR_DAMAGED, so a damaged size cannot cause a large allocation. */
pl_status pl_unzip(const void *data, size_t len, size_t expected, pl_buf *out);
/* pl_planes_split splits n elements of `width` bytes into `width` planes: plane i has
 * byte i of each element. pl_planes_join joins them again. */
void pl_planes_split(const uint8_t *in, size_t n, size_t width, uint8_t *out);
void pl_planes_join(const uint8_t *in, size_t n, size_t width, uint8_t *out);
PL_C_END
