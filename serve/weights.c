/* Encodes parameters as f32, f16, bf16 or q8_0, and writes a tensor row by row, in
 * GGUF's order of rows if it differs from ours (weights.h). */
#include "serve/weights.h"
#include "serve/half.h"
#include <math.h>

enum { PIECE_BYTES = 1 << 20 };

static const char *const type_names[PL_WEIGHT_COUNT] = {"f32", "f16", "bf16", "q8_0"};

const char *pl_weight_type_name(pl_weight_type type)
{
    return type_names[type];
}

pl_status pl_weight_type_parse(const char *text, pl_weight_type *out)
{
    for (int t = 0; t < PL_WEIGHT_COUNT; t++)
        if (strcmp(text, type_names[t]) == 0) {
            *out = (pl_weight_type)t;
            return PL_OK;
        }
    return pl_fail(PL_ERR_USAGE, "unknown type `%.32s`; known are f32, f16, bf16, q8_0",
                   text);
}

bool weight_is_vector(const pl_tensor *tensor)
{
    return tensor->rows == 1 && !tensor->decay;
}

uint64_t weight_bytes(pl_weight_type type, const pl_tensor *tensor)
{
    uint64_t n = (uint64_t)tensor->rows * (uint64_t)tensor->cols;
    if (type == PL_WEIGHT_Q8_0)
        return n / Q8_0_VALUES * Q8_0_BYTES;
    return n * (type == PL_WEIGHT_F32 ? 4 : 2);
}

/* ---- values ---- */
static uint8_t *put_u16(uint8_t *to, uint16_t value)
{
    to[0] = (uint8_t)value;
    to[1] = (uint8_t)(value >> 8);
    return to + 2;
}

/* Writes a block of 32 values: first the scale, which is the largest magnitude / 127,
 * then each value divided by the scale and rounded. */
static uint8_t *put_q8_block(uint8_t *to, const float *values)
{
    float largest = 0;
    for (int i = 0; i < Q8_0_VALUES; i++)
        largest = fmaxf(largest, fabsf(values[i]));
    float scale = largest / 127, inverse = scale > 0 ? 1 / scale : 0;
    to = put_u16(to, half_from_float(scale));
    for (int i = 0; i < Q8_0_VALUES; i++)
        *to++ = (uint8_t)(int8_t)roundf(values[i] * inverse);
    return to;
}

pl_status weight_encode(pl_weight_type type, const char *what, const float *values,
                        size_t n, pl_buf *out)
{
    pl_buf_reserve(out, n * sizeof(float));
    uint8_t *to = out->data + out->len;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(values[i]))
            return pl_fail(PL_ERR_NUMERIC,
                           "%s has the value %g, which is not finite; export an "
                           "earlier version",
                           what, (double)values[i]);
        if (type == PL_WEIGHT_F16 && fabsf(values[i]) >= 65520)
            return pl_fail(PL_ERR_NUMERIC,
                           "%s has the value %g, which f16 cannot hold; give --type "
                           "bf16 or f32",
                           what, (double)values[i]);
    }
    if (type == PL_WEIGHT_F32) { /* little-endian, like all supported machines */
        memcpy(to, values, n * sizeof *values);
        to += n * sizeof *values;
    }
    for (size_t i = 0; type == PL_WEIGHT_F16 && i < n; i++)
        to = put_u16(to, half_from_float(values[i]));
    for (size_t i = 0; type == PL_WEIGHT_BF16 && i < n; i++)
        to = put_u16(to, pl_bf16_from_float(values[i]));
    for (size_t i = 0; type == PL_WEIGHT_Q8_0 && i < n; i += Q8_0_VALUES)
        to = put_q8_block(to, values + i);
    out->len = (size_t)(to - out->data);
    return PL_OK;
}

/* ---- rows ---- */
pl_status weight_write(const pl_export *e, const pl_tensor *tensor, pl_weight_type type,
                       int head_size, pl_output *out)
{
    pl_buf piece = {0};
    pl_status status = PL_OK;
    size_t cols = (size_t)tensor->cols;
    /* a llama in GGUF has the rows of each head in a different order */
    const bool moves = head_size > 0 && (pl_ends_with(tensor->name, ".q_proj.weight") ||
                                         pl_ends_with(tensor->name, ".k_proj.weight"));
    for (int r = 0; r < tensor->rows; r++) {
        const int at = moves ? r % head_size : 0;
        const int from = moves ? r - at + at / 2 + at % 2 * (head_size / 2) : r;
        PL_TRY(weight_encode(type, tensor->name,
                             e->params + tensor->offset + (size_t)from * cols, cols,
                             &piece));
        if (piece.len < PIECE_BYTES && r + 1 < tensor->rows)
            continue;
        PL_TRY(pl_output_write(out, piece.data, piece.len));
        pl_buf_clear(&piece);
    }
done:
    pl_buf_destroy(&piece);
    return status;
}
