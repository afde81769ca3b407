/* Encodes parameters for export: the format of values, and the order of rows.
 *
 * In our models (and in transformers) a rotary pair consists of the rows i and i + D/2
 * of a head of size D; in GGUF's llama it consists of the rows 2i and 2i + 1. So in
 * GGUF, row 2i + j of each head of q and k is our row i + j D/2, for i < D/2 and j < 2.
 * Attention scores do not change, because q and k are permuted in the same way, and a
 * score is a sum over the head. GGUF's qwen3, which is used for models with QK norm,
 * has the same pairs as our models, so their rows keep their order. */
#pragma once
#include "serve/exchange.h"

enum { Q8_0_VALUES = 32, Q8_0_BYTES = 34 };

bool weight_is_vector(const pl_tensor *tensor); /* true for the weights of a norm */
/* Returns the size of the encoded tensor in bytes. */
uint64_t weight_bytes(pl_weight_type type, const pl_tensor *tensor);

/* Appends n values; for q8_0 n must be a multiple of 32. ERR_NUMERIC if a value is not
 * finite, or too large for f16; the message names `what`, the tensor. */
pl_status weight_encode(pl_weight_type type, const char *what, const float *values,
                        size_t n, pl_buf *out);

/* Writes all rows of a tensor. If head_size > 0, the rows of q and k are written in the
 * order of GGUF's llama. */
pl_status weight_write(const pl_export *e, const pl_tensor *tensor, pl_weight_type type,
                       int head_size, pl_output *out);
