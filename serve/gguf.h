/* Writes GGUF version 3: keys and tensor descriptions, then the tensors.
 *
 *   "GGUF" | version u32 | n_tensors u64 | n_keys u64
 *   key*     name | type u32 | value
 *   tensor*  name | n_dims u32 | dims u64*, row length first | type u32 | offset u64
 *   zeros up to a multiple of 32 bytes | data of each tensor, padded in the same way
 *
 * A text is stored as its length (u64), then its bytes. All numbers are
 * little-endian. */
#pragma once
#include "serve/exchange.h"

enum { GGUF_ALIGNMENT = 32 };

/* Kinds of values, with the numbers that the format gives them. */
typedef enum gguf_kind {
    GGUF_U32 = 4,
    GGUF_I32 = 5,
    GGUF_F32 = 6,
    GGUF_BOOL = 7,
    GGUF_TEXT = 8,
    GGUF_LIST = 9
} gguf_kind;

typedef struct gguf_head {
    pl_buf keys, tensors; /* the encoded keys and tensor descriptions so far */
    /* data_bytes: bytes of the data of these tensors, with padding */
    uint64_t n_keys, n_tensors, data_bytes;
} gguf_head; /* starts as zeros; call gguf_head_destroy at the end */

void gguf_put_u32(gguf_head *h, const char *key, uint32_t value);
void gguf_put_f32(gguf_head *h, const char *key, double value);
void gguf_put_bool(gguf_head *h, const char *key, bool value);
void gguf_put_text(gguf_head *h, const char *key, const char *value);
/* Begins a list of `n` values of this kind. The caller then adds the n values with
 * gguf_add_text, gguf_add_f32 or gguf_add_i32. */
void gguf_put_list(gguf_head *h, const char *key, gguf_kind kind, uint64_t n);
void gguf_add_text(gguf_head *h, const char *text, size_t len);
void gguf_add_f32(gguf_head *h, float value);
void gguf_add_i32(gguf_head *h, int32_t value);

/* Describes a tensor. Call it for each tensor, in the order in which their data will
 * follow. */
void gguf_add_tensor(gguf_head *h, const char *name, const pl_tensor *tensor,
                     pl_weight_type type);

/* Appends everything that precedes the tensors' data, padded to a multiple of
 * GGUF_ALIGNMENT bytes. */
void gguf_head_encode(const gguf_head *h, pl_buf *out);
void gguf_head_destroy(gguf_head *h);
