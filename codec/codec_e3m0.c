/* e3m0: 4-bit floats of a sign and three bits of exponent, the format of Streaming
 * DiLoCo's outer gradients (arXiv:2501.18512).
 *
 *   value = sign * m * s,   m one of 0, 1/4, 1/2, 1, 2, 4, 8, 16,   s = 2^k
 *
 * Of a block of 64 the largest |a| becomes 16 s: s is the power of two with 16 s
 * nearest to it (half-way: the lower one). Every other value goes to the nearest of the
 * fifteen, half-way to the even code. A value and what it becomes lie within a factor
 * of two, or it becomes zero: so their difference is exact, and what is sent and what
 * stays in the residual add up to what was there, to the last bit.
 *
 * The scale on the wire is a byte, the exponent field of s / 4 as a float; 0: a block
 * of zeros, which one is whose largest |a| is 1.5 * 2^-120 or less. Then the smallest
 * step and half of it are normal floats, and the codes come from exponents' bits
 * alone. */
#include "codec/codec_internal.h"

enum { EXPONENT = 23, HALF_BELOW = 0x3fffff, CODE_MOST = 7, NO_CODES = 255 };

/* The exponent field of the smallest magnitude of a block, or 0. */
CODEC_INLINE uint32_t lowest_field(uint32_t top)
{
    uint32_t field = (top + HALF_BELOW) >> EXPONENT;
    field = field > 254 ? 254 : field;
    return field < 8 ? 0 : field - 6;
}

/* `above`: |a| as bits less those of s / 8. Its exponent field is the lower neighbour's
 * code; adding half of the field's last place rounds to a power of two. Between 0 and
 * s / 4 lies none that counts: all of that is s / 4. */
CODEC_INLINE int32_t nearest_code(uint32_t above)
{
    uint32_t odd = above >> EXPONENT & 1;
    int32_t code = (int32_t)((above + HALF_BELOW + odd) >> EXPONENT);
    code = code > 1 ? code : 1;
    return code < CODE_MOST ? code : CODE_MOST;
}

/* Zero has no sign. */
CODEC_INLINE void e3m0_block(const float *restrict a, uint32_t low,
                             uint8_t *restrict codes, float *restrict left)
{
    uint32_t middle = ((low ? low : NO_CODES) - 1) << EXPONENT;
    uint8_t q[E3M0_BLOCK];
    for (int i = 0; i < E3M0_BLOCK; i++) {
        uint32_t bits = codec_float_bits(a[i]), sign = bits & 0x80000000u;
        uint32_t above = (bits & 0x7fffffffu) - middle;
        uint32_t some = (int32_t)above > 0 ? 0xffffffffu : 0;
        uint32_t code = (uint32_t)nearest_code(above);
        uint32_t value = (middle + (code << EXPONENT)) | sign;
        q[i] = (uint8_t)((code | sign >> 28) & some);
        left[i] = a[i] - codec_bits_float(value & some);
    }
    for (int half = 0; half < 2; half++)
        for (int j = 0; j < 16; j++)
            codes[half * 16 + j] =
                (uint8_t)(q[half * 32 + j] | q[half * 32 + 16 + j] << 4);
}

CODEC_WIDE static uint32_t e3m0_tile(const float *restrict a, uint8_t *restrict codes,
                                     uint8_t *restrict scales, float *restrict left)
{
    uint32_t all = 0;
    for (int b = 0; b < TILE / E3M0_BLOCK; b++) {
        uint32_t top = codec_largest_bits(a + b * E3M0_BLOCK, E3M0_BLOCK);
        uint32_t low = lowest_field(top);
        scales[b] = (uint8_t)low;
        e3m0_block(a + b * E3M0_BLOCK, low, codes + b * E3M0_BLOCK / 2,
                   left + b * E3M0_BLOCK);
        all = top > all ? top : all;
    }
    return all;
}

/* 2^(code - 1), or 0, with the sign of bit 3: a float with the code as its exponent is
 * 2^126 times smaller, and 0 is 0. A scale that no encoder sends gives zeros or what is
 * not finite, which the sink refuses. */
CODEC_INLINE float unit_value(uint32_t code)
{
    uint32_t bits = (code & 7) << EXPONENT | (code & 8) << 28;
    return codec_bits_float(bits) * 0x1p126f;
}

CODEC_WIDE static void e3m0_widen(const uint8_t *restrict codes,
                                  const uint8_t *restrict scales, float *restrict out)
{
    for (int g = 0; g < TILE / 32; g++) {
        float scale = codec_bits_float((uint32_t)scales[g / 2] << EXPONENT);
        for (int j = 0; j < 16; j++) {
            uint32_t pair = codes[g * 16 + j];
            out[g * 32 + j] = scale * unit_value(pair & 15);
            out[g * 32 + 16 + j] = scale * unit_value(pair >> 4);
        }
    }
}

pl_status e3m0_encode(codec_job *job)
{
    float tile[TILE], left[TILE];
    uint8_t *at[SECTIONS_MAX], codes[TILE / 2], scales[TILE / E3M0_BLOCK];
    uint64_t raw[SECTIONS_MAX];
    int n_sections = codec_raw_bytes(&job->stretch, 1, raw);
    job_sections(job, raw, n_sections, true, at);
    for (uint64_t i = 0; i < job->stretch.count; i += TILE) {
        size_t n = job_tile_length(job, i);
        uint32_t top = e3m0_tile(job_tile(job, i, tile), codes, scales, left);
        PL_RETURN_IF(job_check_finite(job, i, top));
        memcpy(at[0] + i / E3M0_BLOCK, scales, (n + E3M0_BLOCK - 1) / E3M0_BLOCK);
        memcpy(at[1] + i / 2, codes, (n + 31) / 32 * 16);
        job_keep(job, i, left);
    }
    return PL_OK;
}

pl_status e3m0_decode(const codec_task *task)
{
    float tile[TILE];
    uint8_t codes[TILE / 2] = {0}, scales[TILE / E3M0_BLOCK] = {0};
    const codec_stretch *s = task->stretch;
    for (uint64_t i = 0; i < s->count; i += TILE) {
        size_t n = s->count - i < TILE ? (size_t)(s->count - i) : TILE;
        memcpy(scales, task->raw[0] + i / E3M0_BLOCK,
               (n + E3M0_BLOCK - 1) / E3M0_BLOCK);
        memcpy(codes, task->raw[1] + i / 2, (n + 31) / 32 * 16);
        e3m0_widen(codes, scales, tile);
        PL_RETURN_IF(sink_tile(task->sink, s->first + i, tile, n));
    }
    return PL_OK;
}
