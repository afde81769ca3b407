/* The initial value of a pl_shape: tokens of the vocabulary, width, heads, heads of
 * keys and values, elements of a head, values of the feed-forward layer, blocks,
 * context. Then come tied and rope_theta, and other fields with their names. */
#pragma once
#define SHAPE(V, C, H, G, D, F, B, T, ...)                                             \
    {                                                                                  \
        .vocab = V, .width = C, .n_heads = H, .n_kv_heads = G, .head_size = D,         \
        .ffn = F, .n_blocks = B, .context = T, .norm_eps = 1e-5, __VA_ARGS__           \
    }
