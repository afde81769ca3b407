/* Shared by the tests of import and export: a small path with every kind of tensor,
 * random parameters for it, and a tokenizer. */
#pragma once
#include "tests/support/corpus_support.h"
#include "serve/serve.h"

enum { PIECES = 400, VOCAB = 416 };

/* A shape in which each key-value head serves two heads, the four heads have more
 * values together than `width`, and the output matrix is not tied to the embedding. */
static const pl_shape wide_shape = {.vocab = VOCAB,
                                    .width = 32,
                                    .n_heads = 4,
                                    .n_kv_heads = 2,
                                    .head_size = 12,
                                    .ffn = 40,
                                    .n_blocks = 4,
                                    .context = 24,
                                    .tied = false,
                                    .rope_theta = 12345.5,
                                    .norm_eps = 3e-6};

extern pl_buf tokenizer_model;

/* Makes the topology of a 2x2 mixture in which block 1 is path-specific. So the tensors
 * of a path are not in the order of the blocks. */
pl_topology *make_topology(const pl_shape *shape);

float *make_params(const pl_topology *t, uint64_t key);

pl_export make_export(const pl_topology *t, const float *params);

int open_exchange(void **state);

int close_exchange(void **state);
