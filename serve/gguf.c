/* Encodes the head of a GGUF file: its keys and the descriptions of its tensors
 * (gguf.h). The caller writes the data of the tensors. */
#include "serve/gguf.h"
#include "serve/weights.h"

enum { VERSION = 3 };

/* ggml's numbers for the types of tensors. */
static const uint32_t tensor_types[PL_WEIGHT_COUNT] = {0, 1, 30, 8};

static void add_le_value(pl_buf *out, uint64_t value, size_t n_bytes)
{
    uint8_t bytes[8];
    pl_le_put(bytes, value, n_bytes);
    pl_buf_append(out, bytes, n_bytes);
}

static void add_text(pl_buf *out, const char *text, size_t len)
{
    add_le_value(out, len, 8);
    pl_buf_append(out, text, len);
}

/* ---- keys ---- */
static void put_key(gguf_head *h, const char *key, gguf_kind kind)
{
    add_text(&h->keys, key, strlen(key));
    add_le_value(&h->keys, kind, 4);
    h->n_keys++;
}

void gguf_put_u32(gguf_head *h, const char *key, uint32_t value)
{
    put_key(h, key, GGUF_U32);
    add_le_value(&h->keys, value, 4);
}

void gguf_put_f32(gguf_head *h, const char *key, double value)
{
    put_key(h, key, GGUF_F32);
    gguf_add_f32(h, (float)value);
}

void gguf_put_bool(gguf_head *h, const char *key, bool value)
{
    put_key(h, key, GGUF_BOOL);
    add_le_value(&h->keys, value, 1);
}

void gguf_put_text(gguf_head *h, const char *key, const char *value)
{
    put_key(h, key, GGUF_TEXT);
    gguf_add_text(h, value, strlen(value));
}

void gguf_put_list(gguf_head *h, const char *key, gguf_kind kind, uint64_t n)
{
    put_key(h, key, GGUF_LIST);
    add_le_value(&h->keys, kind, 4);
    add_le_value(&h->keys, n, 8);
}

void gguf_add_text(gguf_head *h, const char *text, size_t len)
{
    add_text(&h->keys, text, len);
}

void gguf_add_f32(gguf_head *h, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    add_le_value(&h->keys, bits, 4);
}

void gguf_add_i32(gguf_head *h, int32_t value)
{
    add_le_value(&h->keys, (uint32_t)value, 4);
}

/* ---- tensors ---- */
static uint64_t padded(uint64_t bytes)
{
    return (bytes + GGUF_ALIGNMENT - 1) / GGUF_ALIGNMENT * GGUF_ALIGNMENT;
}

void gguf_add_tensor(gguf_head *h, const char *name, const pl_tensor *tensor,
                     pl_weight_type type)
{
    bool vector = weight_is_vector(tensor);
    add_text(&h->tensors, name, strlen(name));
    add_le_value(&h->tensors, vector ? 1 : 2, 4);
    add_le_value(&h->tensors, (uint64_t)tensor->cols, 8);
    if (!vector)
        add_le_value(&h->tensors, (uint64_t)tensor->rows, 8);
    add_le_value(&h->tensors, tensor_types[type], 4);
    add_le_value(&h->tensors, h->data_bytes, 8);
    h->data_bytes += padded(weight_bytes(type, tensor));
    h->n_tensors++;
}

void gguf_head_encode(const gguf_head *h, pl_buf *out)
{
    static const uint8_t zeros[GGUF_ALIGNMENT];
    pl_buf_append(out, "GGUF", 4);
    add_le_value(out, VERSION, 4);
    add_le_value(out, h->n_tensors, 8);
    add_le_value(out, h->n_keys, 8);
    pl_buf_append(out, h->keys.data, h->keys.len);
    pl_buf_append(out, h->tensors.data, h->tensors.len);
    pl_buf_append(out, zeros, (size_t)(padded(out->len) - out->len));
}

void gguf_head_destroy(gguf_head *h)
{
    pl_buf_destroy(&h->keys);
    pl_buf_destroy(&h->tensors);
    *h = (gguf_head){.n_keys = 0};
}
