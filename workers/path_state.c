/* Packs the vectors of a path's state into the blob that is sent, and unpacks them.
 * Each value has 32 bits (f32), 24 bits, 16 bits (bf16) or 8 bits (path_state.h). */
#include "workers/path_state.h"

#include <float.h>
#include <math.h>

/* Returns the exponent e of a block: each value is stored as an 8-bit code c, which
 * means c * 2^e. If e is INT16_MIN, all values are zero. Rounding again changes
 * nothing: the largest |c| of a block is between 64 and 127, so the rounded values give
 * the same e. */
static int exponent_of(const float *values, size_t n)
{
    float most = 0;
    int e;
    for (size_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(values[i]));
    if (!(most >= FLT_MIN * 256) || most > FLT_MAX)
        /* The values are tiny or not finite, so the block is stored as zeros. The
         * encoder of the update refuses values that are not finite. */
        return INT16_MIN;
    frexpf(most, &e); /* most = f 2^e, 0.5 <= f < 1 */
    return most > ldexpf(127.0f, e - 7) ? e - 6 : e - 7;
}

static void put_byte_block(const float *values, size_t n, uint8_t *out)
{
    int16_t e = (int16_t)exponent_of(values, n);
    float per = e == INT16_MIN ? 0.0f : ldexpf(1.0f, -e);
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)(int8_t)(e == INT16_MIN ? 0 : lrintf(values[i] * per));
    memcpy(out + n, &e, sizeof e);
}

/* Rounds a float to 24 bits, to nearest even. NaN stays NaN. */
static uint32_t bits24(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (!isfinite(value))
        return isnan(value) ? bits >> 8 | 0x8000 : bits >> 8;
    return (bits + 0x7f + (bits >> 8 & 1)) >> 8;
}

static size_t block_len(size_t left)
{
    return left < PL_STATE_I8_BLOCK ? left : PL_STATE_I8_BLOCK;
}

void state_round(const pl_arm *arm, float *state, size_t n_params)
{
    uint8_t block[PL_STATE_I8_BLOCK + sizeof(int16_t)];
    for (int v = 0; v < pl_path_layout_of(arm).n_vectors; v++) {
        const pl_state_kind kind = pl_path_kind(arm, v);
        const size_t n = pl_path_vector_floats(arm, v, n_params);
        float *values = state + (size_t)v * n_params;
        for (size_t i = 0; kind == PL_STATE_BF16 && i < n; i++)
            values[i] = pl_bf16_to_float(pl_bf16_from_float(values[i]));
        for (size_t i = 0; kind == PL_STATE_F24 && i < n; i++)
            memcpy(&values[i], &(uint32_t){bits24(values[i]) << 8}, sizeof *values);
        for (size_t i = 0; kind == PL_STATE_I8 && i < n; i += PL_STATE_I8_BLOCK) {
            put_byte_block(values + i, block_len(n - i), block);
            pl_path_read(kind, block, block_len(n - i), 0, block_len(n - i),
                         values + i);
        }
    }
}

void state_pack(const pl_arm *arm, const float *state, size_t n_params, uint8_t *out)
{
    for (int v = 0; v < pl_path_layout_of(arm).n_vectors; v++) {
        const pl_state_kind kind = pl_path_kind(arm, v);
        const size_t n = pl_path_vector_floats(arm, v, n_params);
        const float *values = state + (size_t)v * n_params;
        uint8_t *to = out;
        if (kind == PL_STATE_F32)
            memcpy(to, values, n * sizeof *values);
        for (size_t i = 0; kind == PL_STATE_BF16 && i < n; i++) {
            uint16_t half = pl_bf16_from_float(values[i]);
            memcpy(to + i * sizeof half, &half, sizeof half);
        }
        for (size_t i = 0; kind == PL_STATE_F24 && i < n; i++) {
            const uint32_t bits = bits24(values[i]);
            for (size_t b = 0; b < 3; b++)
                to[3 * i + b] = (uint8_t)(bits >> 8 * b);
        }
        for (size_t i = 0; kind == PL_STATE_I8 && i < n; i += PL_STATE_I8_BLOCK) {
            put_byte_block(values + i, block_len(n - i), to);
            to += block_len(n - i) + sizeof(int16_t);
        }
        out += pl_path_vector_bytes(arm, v, n_params);
    }
}

void state_unpack(const pl_arm *arm, const uint8_t *blob, size_t n_params, float *state)
{
    int n_vectors = pl_path_layout_of(arm).n_vectors;
    memset(state, 0, (size_t)n_vectors * n_params * sizeof *state);
    for (int v = 0; blob && v < n_vectors; v++) {
        const pl_state_kind kind = pl_path_kind(arm, v);
        const size_t n = pl_path_vector_floats(arm, v, n_params);
        float *values = state + (size_t)v * n_params;
        pl_path_read(kind, blob, n, 0, n, values);
        blob += pl_path_vector_bytes(arm, v, n_params);
    }
}
