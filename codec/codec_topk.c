/* Implements the codec topk, which sends the k largest of each 4096 values as gaps and
 * codes.
 *
 * The index of a kept value is sent as a gap: the number of values that are skipped
 * since the previous kept value. A gap takes one or more bytes; a byte of 255 means
 * that another byte follows. Each block of 4096 values has its own scale or scales, as
 * bf16:
 *
 *   8 bits   s = max|a| / 127, rounded up; code = round(a / s)
 *   2 bits   the sign, and one of two magnitudes. If m is the mean of the kept
 *            magnitudes, the first is the mean of those up to m, and the second is the
 *            mean of those above m. */
#include "codec/codec_internal.h"
#include <math.h>

typedef struct topk_out {
    uint8_t *scales, *gaps, *codes;
    size_t n_gaps, n_kept;
    uint64_t passed; /* number of values skipped since the last kept one */
} topk_out;

/* ---- 8 bits ---- */
static void put_bytes(topk_out *o, const float *a, const uint16_t *kept, size_t n_kept,
                      float *left)
{
    float top = 0;
    for (size_t i = 0; i < n_kept; i++)
        top = fabsf(a[kept[i]]) > top ? fabsf(a[kept[i]]) : top;
    uint16_t half = (uint16_t)((codec_float_bits(top / 127.0f) + 0xffffu) >> 16);
    half = half < 0x80 ? 0 : half; /* a subnormal scale is replaced by 0 */
    float scale = pl_bf16_to_float(half), inverse = half ? 1.0f / scale : 0.0f;
    for (size_t i = 0; i < n_kept; i++) {
        int8_t code = (int8_t)codec_round(a[kept[i]] * inverse);
        left[kept[i]] = a[kept[i]] - scale * (float)code;
        o->codes[o->n_kept++] = (uint8_t)code;
    }
    memcpy(o->scales, &half, 2);
    o->scales += 2;
}

/* ---- 2 bits ---- */
static void put_pairs(topk_out *o, const float *a, const uint16_t *kept, size_t n_kept,
                      float *left)
{
    uint16_t halves[2];
    double sum = 0;
    for (size_t i = 0; i < n_kept; i++)
        sum += (double)fabsf(a[kept[i]]);
    double bound = n_kept ? sum / (double)n_kept : 0;
    /* the mean of the magnitudes up to `bound`, and of those above it; 0 if there are
     * none */
    double sums[2] = {0, 0};
    size_t counts[2] = {0, 0};
    for (size_t i = 0; i < n_kept; i++) {
        float m = fabsf(a[kept[i]]);
        int class = (double)m > bound;
        sums[class] += (double)m;
        counts[class]++;
    }
    for (int c = 0; c < 2; c++)
        halves[c] =
            counts[c] ? pl_bf16_from_float((float)(sums[c] / (double)counts[c])) : 0;
    for (size_t i = 0; i < n_kept; i++) {
        float x = a[kept[i]], m = fabsf(x);
        uint32_t class = (double)m > bound, sign = codec_float_bits(x) >> 31;
        float sent = pl_bf16_to_float(halves[class]);
        left[kept[i]] = x - (sign ? -sent : sent);
        if (o->n_kept % 4 == 0)
            o->codes[o->n_kept / 4] = 0;
        o->codes[o->n_kept / 4] |= (uint8_t)((sign << 1 | class) << o->n_kept % 4 * 2);
        o->n_kept++;
    }
    memcpy(o->scales, halves, 4);
    o->scales += 4;
}

/* ---- encoding ---- */
pl_status topk_encode(codec_job *job)
{
    codec_stretch *s = &job->stretch;
    uint64_t raw[SECTIONS_MAX];
    uint8_t *at[SECTIONS_MAX];
    float tile[TILE], left[TILE];
    uint16_t kept[TILE];
    topk_out o = {0};
    s->variant = job->options->value_bits;
    /* an upper bound until all tiles are encoded */
    s->kept = codec_budget(job->options, (size_t)s->count);
    job_sections(job, false, at);
    o.scales = at[0];
    o.gaps = at[1];
    o.codes = at[2];
    for (uint64_t first = 0; first < s->count; first += TILE) {
        const size_t length = job_tile_length(job, first);
        const float *a = job_tile(job, first, tile);
        PL_CHECK(job_check_finite(job, first, select_top(a)));
        codec_choice choice = select_tile(a, codec_budget(job->options, length));
        const size_t n_kept = select_indices(a, length, &choice, kept);
        memcpy(left, a, sizeof left);
        size_t next = 0;
        for (size_t i = 0; i < n_kept; i++) {
            uint64_t gap = o.passed + kept[i] - next;
            for (; gap >= 255; gap -= 255)
                o.gaps[o.n_gaps++] = 255;
            o.gaps[o.n_gaps++] = (uint8_t)gap;
            o.passed = 0;
            next = kept[i] + 1u;
        }
        o.passed += length - next;
        if (s->variant == 2)
            put_pairs(&o, a, kept, n_kept, left);
        else
            put_bytes(&o, a, kept, n_kept, left);
        job_keep(job, first, left);
    }
    s->kept = o.n_kept;
    codec_raw_bytes(s, 1, raw);
    raw[1] = o.n_gaps;
    for (int i = 0; i < s->n_sections; i++)
        s->sections[i].raw_bytes = raw[i];
    return PL_OK;
}

/* ---- decoding ---- */
/* Decodes a stretch; adding kept values takes a fiftieth of a dense update's time. */
pl_status topk_decode(const codec_task *task)
{
    const codec_stretch *s = task->stretch;
    const uint8_t *scales = task->raw[0], *gaps = task->raw[1], *codes = task->raw[2];
    size_t n_gaps = (size_t)s->sections[1].raw_bytes, at = 0;
    uint64_t next = 0;
    for (uint64_t i = 0; i < s->kept; i++) {
        /* after a byte of 255 the gap continues in the next byte */
        uint64_t gap = 0;
        bool ended = false;
        while (!ended && at < n_gaps) {
            ended = gaps[at] < 255;
            gap += gaps[at++];
        }
        if (!ended || gap >= s->count - next)
            return pl_fail(PL_ERR_DATA,
                           "kept value %llu of %llu has an index outside of the "
                           "tensors that begin at index %llu",
                           (unsigned long long)i, (unsigned long long)s->kept,
                           (unsigned long long)s->first);
        const uint64_t index = next + gap, block = index / TILE;
        float value;
        uint16_t half;
        if (s->variant == 8) {
            memcpy(&half, scales + block * 2, 2);
            value = pl_bf16_to_float(half) * (float)(int8_t)codes[i];
        } else {
            const uint32_t code = (uint32_t)codes[i / 4] >> i % 4 * 2 & 3;
            memcpy(&half, scales + block * 4 + (code & 1) * 2, 2);
            value = pl_bf16_to_float(half);
            value = code & 2 ? -value : value;
        }
        PL_CHECK(sink_value(task->sink, s->first + index, value));
        next = index + 1;
    }
    if (at != n_gaps)
        return pl_fail(
            PL_ERR_DATA,
            "the update's values from index %llu on have %zu bytes of indices too many",
            (unsigned long long)s->first, n_gaps - at);
    return PL_OK;
}
