/* Computes how much device memory the cuda backend needs besides the blocks of a model.
 * The files that allocate this memory use these numbers. So does the plan
 * (modules/model_plan.c), which is also made on machines without CUDA. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum {
    /* workspace of cuBLASLt, as NVIDIA advises for Hopper */
    CUDA_WORKSPACE_BYTES = 32 << 20,
    CUDA_SUM_BLOCKS = 512, /* number of blocks that compute a sum of squares */
    CUDA_NORM_CHUNK = 16,  /* rows per partial sum of the gradient of a norm's gains */
    CUDA_PIECE = 8192,     /* most parameters that one block of the optimizer updates */
    CUDA_PIECE_BYTES = 32, /* bytes that describe a piece to the device */
    /* limits of the logits and gradients that are in memory at once
     * (cuda_chunk_rows) */
    CUDA_CHUNK_BYTES = 256 << 20,
    CUDA_CHUNK_BYTES_MAX = 1 << 30,
    CUDA_CHUNKS = 4,
    CUDA_CHUNK_TILE = 128, /* rows of logits come in multiples of this */
    /* logits that are computed before their gradients: about as many as a second-level
     * cache holds, but at least CUDA_LOGIT_TILES times CUDA_CHUNK_TILE rows */
    CUDA_LOGIT_BYTES = 32 << 20,
    CUDA_LOGIT_TILES = 2,
    CUDA_POSITIONS_MIN = 256 /* least length of the rotary table */
};

/* Rounds up to a multiple of 256 bytes. Each part of a block of memory starts at such a
 * multiple. */
static inline size_t cuda_lines(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Returns the number of elements between rows of logits, and of their gradients. Rows
 * begin at multiples of 16 bytes for every size of the vocabulary: for other rows
 * cuBLASLt has only slow kernels. */
static inline size_t cuda_logit_stride(size_t V)
{
    return (V + 7) / 8 * 8;
}

/* Returns how many rows of gradients of logits the classifier has in memory at once: as
 * many as CUDA_CHUNK_BYTES hold together with their logits. Each chunk reads and writes
 * the gradient of the last matrix again, which takes 0.08 ms on an H100 for 32000 x
 * 896. So with gradients, a chunk is at least a quarter of the batch (1 / CUDA_CHUNKS),
 * but has at most CUDA_CHUNK_BYTES_MAX bytes. For 16384 rows and a vocabulary of 32000
 * there are 4 chunks instead of 13. Batches of up to 5120 rows, as on small devices,
 * keep the small chunk. */
static inline size_t cuda_chunk_rows(size_t N, size_t V, bool gradients)
{
    /* a logit has 4 bytes (fp32), and its gradient has 2 (bf16) */
    const size_t row = cuda_logit_stride(V) * (gradients ? 6 : 4);
    const size_t tile = row * CUDA_CHUNK_TILE, share = CUDA_CHUNK_TILE * CUDA_CHUNKS;
    const size_t most = CUDA_CHUNK_BYTES_MAX / tile;
    size_t tiles = gradients ? (N + share - 1) / share : 0;
    if (tiles < CUDA_CHUNK_BYTES / tile)
        tiles = CUDA_CHUNK_BYTES / tile;
    if (tiles > most)
        tiles = most;
    if (tiles < 1)
        tiles = 1;
    return tiles * CUDA_CHUNK_TILE < N ? tiles * CUDA_CHUNK_TILE : N;
}

/* Returns how many of a chunk's rows have logits at the same time. */
static inline size_t cuda_logit_rows(size_t chunk, size_t V)
{
    const size_t tile = cuda_logit_stride(V) * 4 * CUDA_CHUNK_TILE;
    size_t tiles = CUDA_LOGIT_BYTES / tile;
    if (tiles < CUDA_LOGIT_TILES)
        tiles = CUDA_LOGIT_TILES;
    return tiles * CUDA_CHUNK_TILE < chunk ? tiles * CUDA_CHUNK_TILE : chunk;
}

static inline size_t cuda_classifier_bytes(size_t N, size_t V, bool gradients)
{
    const size_t chunk = cuda_chunk_rows(N, V, gradients);
    const size_t logits = cuda_logit_rows(chunk, V) * cuda_logit_stride(V) * 4;
    return cuda_lines(logits) + (gradients ? chunk * cuda_logit_stride(V) * 2 : 0);
}

static inline size_t cuda_norm_bytes(size_t N, size_t C)
{
    return (N + CUDA_NORM_CHUNK - 1) / CUDA_NORM_CHUNK * C * 4;
}

/* Returns into how many ranges the backward pass of attention divides the keys of a kv
 * head. One block computes a range: fewer than 200 blocks would not fill a GPU. But
 * each range has its own sums of dq, so it gets at least 256 keys. */
static inline size_t cuda_attention_ranges(size_t B, size_t T, size_t G)
{
    const size_t ranges = (200 + B * G - 1) / (B * G), most = (T + 255) / 256;
    return ranges < most ? ranges : most;
}

/* Returns the bytes of its scratch memory: delta, and for each range the sums of dq,
 * for whole steps of queries and padded heads. */
static inline size_t cuda_attention_bytes(size_t B, size_t T, size_t H, size_t G,
                                          size_t D)
{
    const size_t padded = D > 64 ? 128 : D > 32 ? 64 : 32, steps = (T + 63) / 64;
    return cuda_lines(B * T * H * 4) +
           cuda_attention_ranges(B, T, G) * B * H * steps * 64 * padded * 4;
}

/* Decoding: positions per stretch, and most rows of a launch. */
enum { CUDA_DECODE_KEYS = 64, CUDA_DECODE_ROWS = 64 };
/* Returns the number of stretches of `rows` rows for all heads, and the bytes of
 * scratch memory for their results: the largest score, the sum and D values of each. */
static inline size_t cuda_decode_parts(size_t rows, size_t H, size_t S)
{
    const size_t most = CUDA_DECODE_ROWS;
    return (rows < most ? rows : most) * H *
           ((S + CUDA_DECODE_KEYS - 1) / CUDA_DECODE_KEYS);
}
static inline size_t cuda_decode_bytes(size_t n_parts, size_t D)
{
    return 2 * cuda_lines(n_parts * 4) + n_parts * D * 4;
}

/* Returns the length of the rotary table for n positions. The length doubles when the
 * table grows, because a decoder needs one position more with every token. */
static inline int cuda_table_positions(int n)
{
    int room = CUDA_POSITIONS_MIN;
    while (room < n)
        room *= 2;
    return room;
}
