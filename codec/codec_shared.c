/* Implements the dense codecs whose scale all contributors share (i8-shared, and 22
 * bits for small tensors). So sums of codes are exact.
 *
 *   q = clamp(round(a 2^-e), +-limit)      sum of W messages: value = (sum of q) 2^e
 *
 * A sum of codes is less than 2^23 in magnitude, and 2^e is a power of two. So decoded
 * values and their sums are exact in fp32, and the order of additions does not matter.
 * The part of a value that the clamp cuts off stays in the residual. */
#include "codec/codec_internal.h"

CODEC_WIDE uint32_t shared_tile(const float a[restrict TILE], int exponent,
                                int32_t limit, int32_t q[restrict TILE],
                                float left[restrict TILE])
{
    const float inverse = codec_power(-exponent), step = codec_power(exponent),
                bound = (float)limit;
    int32_t top = 0;
    for (int i = 0; i < TILE; i++) {
        int32_t bits = (int32_t)(codec_float_bits(a[i]) & 0x7fffffffu);
        top = bits > top ? bits : top;
        float x = a[i] * inverse;
        x = x > bound ? bound : x;
        x = x < -bound ? -bound : x;
        q[i] = codec_round(x);
        left[i] = a[i] - step * (float)q[i];
    }
    return (uint32_t)top;
}

CODEC_WIDE static void narrow_tile(const int32_t *restrict q, int8_t *restrict out)
{
    for (int i = 0; i < TILE; i++)
        out[i] = (int8_t)q[i];
}

/* A message of one worker has 8 bits per code, or 32 for small tensors. */
pl_status shared_encode(codec_job *job)
{
    codec_stretch *s = &job->stretch;
    float tile[TILE], left[TILE];
    int32_t q[TILE];
    int8_t codes[TILE];
    uint8_t *at[SECTIONS_MAX];
    int32_t limit = codec_limit(s->codec, job->round->n_contributors);
    s->exponent = codec_stretch_exponent(s->codec, job->round);
    job_sections(job, true, at);
    for (uint64_t i = 0; i < s->count; i += TILE) {
        size_t n = job_tile_length(job, i);
        uint32_t top = shared_tile(job_tile(job, i, tile), s->exponent, limit, q, left);
        PL_CHECK(job_check_finite(job, i, top));
        if (s->codec == PL_CODEC_I8_SHARED) {
            narrow_tile(q, codes);
            memcpy(at[0] + i, codes, n);
        } else
            memcpy(at[0] + 4 * i, q, 4 * n);
        job_keep(job, i, left);
    }
    return PL_OK;
}

/* ---- decoding ---- */
/* Reads codes of a section. They are copied before they are widened, because a section
 * may begin at an unaligned address. */
void shared_load(const uint8_t *raw, size_t width, uint64_t at, size_t n,
                 int32_t q[TILE])
{
    int8_t bytes[TILE] = {0};
    int16_t halves[TILE] = {0};
    if (width == 4) {
        memcpy(q, raw + 4 * at, 4 * n);
        memset(q + n, 0, (TILE - n) * sizeof *q);
    } else if (width == 2) {
        memcpy(halves, raw + 2 * at, 2 * n);
        for (int i = 0; i < TILE; i++)
            q[i] = halves[i];
    } else {
        memcpy(bytes, raw + at, n);
        for (int i = 0; i < TILE; i++)
            q[i] = bytes[i];
    }
}

/* Computes out = q * step. Returns whether all codes are within the limit. */
CODEC_WIDE static bool scale_tile(const int32_t *restrict q, float step, int32_t limit,
                                  float *restrict out)
{
    int32_t outside = 0;
    for (int i = 0; i < TILE; i++) {
        outside |= (q[i] > limit) | (q[i] < -limit);
        out[i] = step * (float)q[i];
    }
    return !outside;
}

pl_status shared_decode(const codec_task *task)
{
    const codec_stretch *s = task->stretch;
    float tile[TILE], step = codec_power(s->exponent);
    const codec_header *h = task->header;
    const int32_t limit =
        codec_limit(s->codec, h->n_contributors) * (int32_t)h->contributors;
    int32_t q[TILE];
    size_t width = codec_shared_width(s->codec, h->contributors);
    for (uint64_t i = 0; i < s->count; i += TILE) {
        size_t n = s->count - i < TILE ? (size_t)(s->count - i) : TILE;
        shared_load(task->raw[0], width, i, n, q);
        if (!scale_tile(q, step, limit, tile)) {
            return pl_fail(PL_ERR_DATA,
                           "a code of the update near index %llu exceeds %d, the most "
                           "that %u contributors can give",
                           (unsigned long long)(s->first + i), limit, h->contributors);
        }
        PL_CHECK(sink_tile(task->sink, s->first + i, tile, n));
    }
    return PL_OK;
}
