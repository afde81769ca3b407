/* Implements the codecs f32, bf16, i8 and i4.
 *
 *   i8, i4:  s = max|a| / L over a block,  code = round(a / s),  L = 127 or 7
 *
 * The scale of i4 is a bf16 that is rounded up, so that no code exceeds L. A block
 * whose scale would be subnormal is encoded as zeros. */
#include "codec/codec_internal.h"

#include <float.h>

/* ---- f32 ---- */
/* Splits floats into planes: the first bytes of all floats, then the second bytes, and
 * so on. The sign moves to the lowest bit, so the top byte is the exponent. */
CODEC_WIDE static void f32_split(const float *restrict a, uint8_t *restrict top,
                                 uint8_t *restrict high, uint8_t *restrict middle,
                                 uint8_t *restrict low)
{
    for (int i = 0; i < TILE; i++) {
        uint32_t bits = codec_float_bits(a[i]);
        bits = bits << 1 | bits >> 31;
        top[i] = (uint8_t)(bits >> 24);
        high[i] = (uint8_t)(bits >> 16);
        middle[i] = (uint8_t)(bits >> 8);
        low[i] = (uint8_t)bits;
    }
}

/* Reverses f32_split exactly, even for NaN. */
CODEC_WIDE static void f32_join(const uint8_t *restrict top,
                                const uint8_t *restrict high,
                                const uint8_t *restrict middle,
                                const uint8_t *restrict low, float *restrict out)
{
    for (int i = 0; i < TILE; i++) {
        uint32_t bits = (uint32_t)top[i] << 24 | (uint32_t)high[i] << 16 |
                        (uint32_t)middle[i] << 8 | low[i];
        out[i] = codec_bits_float(bits >> 1 | bits << 31);
    }
}

pl_status f32_encode(codec_job *job)
{
    float tile[TILE];
    uint8_t *at[SECTIONS_MAX], planes[4][TILE];
    const uint64_t count = job->stretch.count;
    job->stretch.variant = job->options->entropy ? VARIANT_PLANES : 0;
    job_sections(job, true, at);
    const bool splits = job->stretch.variant == VARIANT_PLANES;
    if (!splits && !job->residual)
        memcpy(at[0], job->update, (size_t)count * sizeof(float));
    else
        for (uint64_t i = 0; i < count; i += TILE) {
            const size_t length = job_tile_length(job, i);
            const float *values = job_tile(job, i, tile);
            if (!splits) {
                memcpy(at[0] + 4 * i, values, length * sizeof *values);
                continue;
            }
            f32_split(values, planes[0], planes[1], planes[2], planes[3]);
            memcpy(at[0] + i, planes[0], length);
            for (size_t p = 1; p < 4; p++)
                memcpy(at[1] + (p - 1) * count + i, planes[p], length);
        }
    /* f32 sends everything, so the residual becomes zero */
    if (job->residual)
        memset(job->residual, 0, (size_t)job->stretch.count * sizeof(float));
    return PL_OK;
}

pl_status f32_decode(const codec_task *task)
{
    float tile[TILE] = {0};
    uint8_t planes[4][TILE];
    const codec_stretch *s = task->stretch;
    for (uint64_t i = task_begin(task); i < task_end(task); i += TILE) {
        size_t n = s->count - i < TILE ? (size_t)(s->count - i) : TILE;
        if (s->variant == VARIANT_PLANES) {
            memcpy(planes[0], task->raw[0] + i, n);
            for (size_t p = 1; p < 4; p++)
                memcpy(planes[p], task->raw[1] + (p - 1) * s->count + i, n);
            f32_join(planes[0], planes[1], planes[2], planes[3], tile);
        } else
            /* copied, because a section may begin at an unaligned address */
            memcpy(tile, task->raw[0] + 4 * i, n * sizeof *tile);
        PL_CHECK(sink_tile(task->sink, s->first + i, tile, n));
    }
    return PL_OK;
}

/* ---- bf16 ---- */
CODEC_WIDE static void bf16_tile(const float *restrict a, uint16_t *restrict out,
                                 float *restrict left)
{
    for (int i = 0; i < TILE; i++) {
        out[i] = pl_bf16_from_float(a[i]);
        left[i] = a[i] - pl_bf16_to_float(out[i]);
    }
}

/* Splits bf16 values as f32_split splits floats: the top byte has the 8 bits of the
 * exponent, and the other byte has the 7 bits of the mantissa and the sign. */
CODEC_WIDE static void bf16_split(const uint16_t *restrict halves,
                                  uint8_t *restrict top, uint8_t *restrict low)
{
    for (int i = 0; i < TILE; i++) {
        uint32_t bits = (uint32_t)halves[i] << 1 | (uint32_t)halves[i] >> 15;
        top[i] = (uint8_t)(bits >> 8);
        low[i] = (uint8_t)bits;
    }
}

CODEC_WIDE static void bf16_join(const uint8_t *restrict top,
                                 const uint8_t *restrict low, uint16_t *restrict halves)
{
    for (int i = 0; i < TILE; i++) {
        uint32_t bits = (uint32_t)top[i] << 8 | low[i];
        halves[i] = (uint16_t)(bits >> 1 | bits << 15);
    }
}

CODEC_WIDE static void bf16_widen(const uint16_t *restrict halves, float *restrict out)
{
    for (int i = 0; i < TILE; i++)
        out[i] = pl_bf16_to_float(halves[i]);
}

pl_status bf16_encode(codec_job *job)
{
    float tile[TILE], left[TILE];
    uint16_t halves[TILE];
    uint8_t *at[SECTIONS_MAX], top[TILE], low[TILE];
    job->stretch.variant = job->options->entropy ? VARIANT_PLANES : 0;
    job_sections(job, true, at);
    for (uint64_t i = 0; i < job->stretch.count; i += TILE) {
        size_t n = job_tile_length(job, i);
        bf16_tile(job_tile(job, i, tile), halves, left);
        if (job->stretch.variant == VARIANT_PLANES) {
            bf16_split(halves, top, low);
            memcpy(at[0] + i, top, n);
            memcpy(at[1] + i, low, n);
        } else
            memcpy(at[0] + 2 * i, halves, 2 * n);
        job_keep(job, i, left);
    }
    return PL_OK;
}

pl_status bf16_decode(const codec_task *task)
{
    float tile[TILE];
    uint16_t halves[TILE] = {0};
    uint8_t top[TILE] = {0}, low[TILE] = {0};
    const codec_stretch *s = task->stretch;
    for (uint64_t i = task_begin(task); i < task_end(task); i += TILE) {
        size_t n = s->count - i < TILE ? (size_t)(s->count - i) : TILE;
        if (s->variant == VARIANT_PLANES) {
            memcpy(top, task->raw[0] + i, n);
            memcpy(low, task->raw[1] + i, n);
            bf16_join(top, low, halves);
        } else
            memcpy(halves, task->raw[0] + 2 * i, 2 * n);
        bf16_widen(halves, tile);
        PL_CHECK(sink_tile(task->sink, s->first + i, tile, n));
    }
    return PL_OK;
}

/* ---- i8 ---- */
CODEC_WIDE static uint32_t i8_tile(const float *restrict a, int8_t *restrict codes,
                                   float *restrict scales, float *restrict left)
{
    uint32_t all = 0;
    for (int b = 0; b < TILE / I8_BLOCK; b++, a += I8_BLOCK, left += I8_BLOCK) {
        uint32_t top = codec_largest_bits(a, I8_BLOCK);
        float scale = codec_bits_float(top) / 127.0f;
        scale = scale < FLT_MIN ? 0.0f : scale;
        float inverse = scale > 0 ? 1.0f / scale : 0.0f;
        for (int i = 0; i < I8_BLOCK; i++) {
            int32_t q = codec_round(a[i] * inverse);
            codes[b * I8_BLOCK + i] = (int8_t)q;
            left[i] = a[i] - scale * (float)q;
        }
        scales[b] = scale;
        all = top > all ? top : all;
    }
    return all;
}

CODEC_WIDE static void i8_widen(const int8_t *restrict codes,
                                const float *restrict scales, float *restrict out)
{
    for (int b = 0; b < TILE / I8_BLOCK; b++)
        for (int i = 0; i < I8_BLOCK; i++)
            out[b * I8_BLOCK + i] = scales[b] * (float)codes[b * I8_BLOCK + i];
}

/* The residual is computed from the code and not from the exact quotient, so that the
 * residual and the decoded value add up to the original value. */
pl_status i8_encode(codec_job *job)
{
    float tile[TILE], left[TILE], scales[TILE / I8_BLOCK];
    int8_t codes[TILE];
    uint8_t *at[SECTIONS_MAX];
    job_sections(job, true, at);
    for (uint64_t i = 0; i < job->stretch.count; i += TILE) {
        size_t n = job_tile_length(job, i), blocks = (n + I8_BLOCK - 1) / I8_BLOCK;
        uint32_t top = i8_tile(job_tile(job, i, tile), codes, scales, left);
        PL_CHECK(job_check_finite(job, i, top));
        memcpy(at[0] + i / I8_BLOCK * sizeof *scales, scales, blocks * sizeof *scales);
        memcpy(at[1] + i, codes, n);
        job_keep(job, i, left);
    }
    return PL_OK;
}

pl_status i8_decode(const codec_task *task)
{
    float tile[TILE], scales[TILE / I8_BLOCK] = {0};
    int8_t codes[TILE] = {0};
    const codec_stretch *s = task->stretch;
    for (uint64_t i = task_begin(task); i < task_end(task); i += TILE) {
        size_t n = s->count - i < TILE ? (size_t)(s->count - i) : TILE;
        size_t blocks = (n + I8_BLOCK - 1) / I8_BLOCK;
        memcpy(scales, task->raw[0] + i / I8_BLOCK * sizeof *scales,
               blocks * sizeof *scales);
        memcpy(codes, task->raw[1] + i, n);
        i8_widen(codes, scales, tile);
        PL_CHECK(sink_tile(task->sink, s->first + i, tile, n));
    }
    return PL_OK;
}

/* ---- i4: 32 codes take 16 bytes; byte j has the codes j and j + 16 ---- */
CODEC_INLINE void i4_block(const float *restrict a, float scale,
                           uint8_t *restrict codes, float *restrict left)
{
    float inverse = scale > 0 ? 1.0f / scale : 0.0f;
    int8_t q[I4_BLOCK];
    for (int i = 0; i < I4_BLOCK; i++) {
        int32_t code = codec_round(a[i] * inverse);
        q[i] = (int8_t)code;
        left[i] = a[i] - scale * (float)code;
    }
    for (int half = 0; half < 2; half++)
        for (int j = 0; j < 16; j++)
            codes[half * 16 + j] =
                (uint8_t)((q[half * 32 + j] & 15) | (q[half * 32 + 16 + j] & 15) << 4);
}

/* Adding 0xffff before the shift rounds a positive float up to bf16. A bf16 with bits
 * below 0x80 is subnormal. */
CODEC_WIDE static uint32_t i4_tile(const float *restrict a, uint8_t *restrict codes,
                                   uint16_t *restrict scales, float *restrict left)
{
    uint32_t all = 0;
    for (int b = 0; b < TILE / I4_BLOCK; b++) {
        uint32_t top = codec_largest_bits(a + b * I4_BLOCK, I4_BLOCK);
        uint32_t bits = codec_float_bits(codec_bits_float(top) / 7.0f);
        scales[b] = (uint16_t)((bits + 0xffffu) >> 16);
        scales[b] = scales[b] < 0x80 ? 0 : scales[b];
        i4_block(a + b * I4_BLOCK, pl_bf16_to_float(scales[b]),
                 codes + b * I4_BLOCK / 2, left + b * I4_BLOCK);
        all = top > all ? top : all;
    }
    return all;
}

/* (x ^ 8) - 8 extends the sign of four bits. */
CODEC_WIDE static void i4_widen(const uint8_t *restrict codes,
                                const uint16_t *restrict scales, float *restrict out)
{
    for (int g = 0; g < TILE / 32; g++) {
        float scale = pl_bf16_to_float(scales[g / 2]);
        for (int j = 0; j < 16; j++) {
            int32_t pair = codes[g * 16 + j];
            out[g * 32 + j] = scale * (float)(((pair & 15) ^ 8) - 8);
            out[g * 32 + 16 + j] = scale * (float)(((pair >> 4) ^ 8) - 8);
        }
    }
}

pl_status i4_encode(codec_job *job)
{
    float tile[TILE], left[TILE];
    uint16_t scales[TILE / I4_BLOCK];
    uint8_t *at[SECTIONS_MAX], codes[TILE / 2];
    job_sections(job, true, at);
    for (uint64_t i = 0; i < job->stretch.count; i += TILE) {
        size_t n = job_tile_length(job, i), blocks = (n + I4_BLOCK - 1) / I4_BLOCK;
        uint32_t top = i4_tile(job_tile(job, i, tile), codes, scales, left);
        PL_CHECK(job_check_finite(job, i, top));
        memcpy(at[0] + i / I4_BLOCK * 2, scales, blocks * 2);
        memcpy(at[1] + i / 2, codes, (n + 31) / 32 * 16);
        job_keep(job, i, left);
    }
    return PL_OK;
}

pl_status i4_decode(const codec_task *task)
{
    float tile[TILE];
    uint16_t scales[TILE / I4_BLOCK] = {0};
    uint8_t codes[TILE / 2] = {0};
    const codec_stretch *s = task->stretch;
    for (uint64_t i = task_begin(task); i < task_end(task); i += TILE) {
        size_t n = s->count - i < TILE ? (size_t)(s->count - i) : TILE;
        memcpy(scales, task->raw[0] + i / I4_BLOCK * 2,
               (n + I4_BLOCK - 1) / I4_BLOCK * 2);
        memcpy(codes, task->raw[1] + i / 2, (n + 31) / 32 * 16);
        i4_widen(codes, scales, tile);
        PL_CHECK(sink_tile(task->sink, s->first + i, tile, n));
    }
    return PL_OK;
}
