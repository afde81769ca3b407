/* The shape of one path: a Llama-style decoder (RMSNorm, RoPE, SwiGLU, optional
 * grouped-query attention, tied or untied head). */
#pragma once
#include "base/base.h"
PL_C_BEGIN

typedef struct pl_shape {
    int vocab;      /* V, number of rows of the embedding */
    int width;      /* C, number of elements of a token's hidden state */
    int n_heads;    /* H query heads */
    int n_kv_heads; /* G, number of kv heads; a divisor of n_heads */
    int head_size;  /* even; H * head_size may differ from width */
    int ffn;        /* F, the inner width of SwiGLU */
    int n_blocks;   /* blocks of the whole path */
    int context;    /* T, longest sequence */
    bool tied;      /* head uses the embedding matrix */
    double rope_theta;
    double norm_eps;
    /* RMSNorm of every query and key head, with gains, before rope (as in Qwen3) */
    bool qk_norm;
} pl_shape;

/* ERR_CONFIG: the text has the number that is out of range, or the numbers that do not
 * fit together, and says what to change. */
pl_status pl_shape_check(const pl_shape *shape);

/* Whether all numbers of the shapes are equal, so that one model can compute paths of
 * both shapes. */
bool pl_shape_equal(const pl_shape *a, const pl_shape *b);

/* Returns the number of parameters in the matrices of all blocks. These are the
 * matrices that Muon updates. */
size_t pl_shape_hidden_params(const pl_shape *shape);

PL_C_END
