/* Adds homomorphic messages without decoding them.
 *
 *   dense    codes are added; more contributors may need more bytes per code
 *   sketch   cells are added modulo 2^16, and bitmaps are joined by OR
 *   list     codes are added; a sketch that is added to a list is decoded first
 *
 * Codes and cells are integers, so the sum does not depend on the order. */
#include "codec/codec_sketch.h"

typedef struct operand {
    codec_reader reader;
    codec_stretch stretch;
    const uint8_t *raw[SECTIONS_MAX];
    pl_buf scratch[SECTIONS_MAX];
    pl_buf codes; /* codes of a sketch or list, in the order of the bits */
} operand;

typedef struct combination {
    operand a, b;
    codec_header header; /* header of the sum */
    codec_writer writer;
    pl_buf first, second; /* raw sections of the sum's stretch */
} combination;

static void operand_free(operand *o)
{
    for (int i = 0; i < SECTIONS_MAX; i++)
        pl_buf_destroy(&o->scratch[i]);
    pl_buf_destroy(&o->codes);
}

/* Returns `bytes` zeroed bytes in `buf`. The same buffer is used for each stretch, so
 * that few allocations are needed per message. */
static uint8_t *room(pl_buf *buf, uint64_t bytes)
{
    pl_buf_clear(buf);
    pl_buf_reserve(buf, (size_t)bytes);
    memset(buf->data, 0, (size_t)bytes);
    buf->len = (size_t)bytes;
    return buf->data;
}

static bool is_sparse(const codec_stretch *s)
{
    return s->codec == PL_CODEC_SKETCH16 || s->codec == WIRE_LIST16;
}

CODEC_WIDE static bool add_codes(const int32_t *restrict a, const int32_t *restrict b,
                                 int32_t limit, int32_t *restrict sum)
{
    int32_t outside = 0;
    for (int i = 0; i < TILE; i++) {
        /* The addition is unsigned because codes from a hostile sender may overflow,
         * which is not allowed for signed numbers. Such a sum is refused because a code
         * is outside the limit. */
        int32_t both = (int32_t)((uint32_t)a[i] + (uint32_t)b[i]);
        outside |= (a[i] > limit) | (a[i] < -limit) | (b[i] > limit) | (b[i] < -limit) |
                   (both > limit) | (both < -limit);
        sum[i] = both;
    }
    return !outside;
}

/* Adds dense codes. Operands and sum may have different bytes per code. */
static pl_status combine_dense(combination *c, codec_stretch *s)
{
    int32_t a[TILE], b[TILE], sum[TILE];
    int codec = s->codec;
    size_t width = codec_shared_width(codec, c->header.contributors);
    size_t a_width = codec_shared_width(codec, c->a.reader.header.contributors);
    size_t b_width = codec_shared_width(codec, c->b.reader.header.contributors);
    int32_t limit =
        codec_limit(codec, c->header.n_contributors) * (int32_t)c->header.contributors;
    uint8_t *out = room(&c->first, s->count * width);
    for (uint64_t i = 0; i < s->count; i += TILE) {
        size_t n = s->count - i < TILE ? (size_t)(s->count - i) : TILE;
        shared_load(c->a.raw[0], a_width, i, n, a);
        shared_load(c->b.raw[0], b_width, i, n, b);
        if (!add_codes(a, b, limit, sum))
            return pl_fail(PL_ERR_DATA,
                           "a code of an update near index %llu is larger than its "
                           "contributors can produce",
                           (unsigned long long)(s->first + i));
        if (width == 4)
            memcpy(out + 4 * i, sum, 4 * n);
        else {
            int16_t halves[TILE];
            for (size_t j = 0; j < n; j++)
                halves[j] = (int16_t)sum[j];
            memcpy(out + 2 * i, halves, 2 * n);
        }
    }
    s->sections[0] = (codec_section){.data = out, .raw_bytes = c->first.len};
    return PL_OK;
}

/* Joins two bitmaps by OR. An element keeps its bit even if its codes add up to 0. */
static uint8_t *join_bitmaps(combination *c, const codec_stretch *s)
{
    size_t bytes = (size_t)((s->count + 7) / 8);
    uint8_t *out = room(&c->first, bytes);
    for (size_t i = 0; i < bytes; i++)
        out[i] = c->a.raw[0][i] | c->b.raw[0][i];
    return out;
}

/* Returns the operand's code of an element (0: none), and moves *at to the next one. */
static int32_t take_code(const operand *o, uint64_t index, size_t *at)
{
    int16_t code;
    if (!(o->raw[0][index / 8] >> index % 8 & 1))
        return 0;
    memcpy(&code, o->codes.data + *at, 2);
    *at += 2;
    return code;
}

/* ---- messages ---- */
static pl_status open_sections(operand *o)
{
    const codec_stretch *s = &o->stretch;
    for (int i = 0; i < s->n_sections; i++) {
        pl_buf_clear(&o->scratch[i]);
        PL_CHECK(codec_section_open(&s->sections[i], &o->scratch[i], &o->raw[i]));
    }
    return PL_OK;
}

static pl_status combine_stretch(combination *c)
{
    const codec_stretch *a = &c->a.stretch, *b = &c->b.stretch;
    codec_stretch s = *a;
    /* one of them may be a list where the other is a sketch */
    bool same = a->codec == b->codec && a->cells == b->cells;
    bool mixed = is_sparse(a) && is_sparse(b) && a->codec != b->codec;
    if (a->count != b->count || a->exponent != b->exponent || !(same || mixed))
        return pl_fail(PL_ERR_DATA,
                       "two updates differ in the tensors from index %llu on: codecs "
                       "%d and %d, %llu and %llu values",
                       (unsigned long long)a->first, a->codec, b->codec,
                       (unsigned long long)a->count, (unsigned long long)b->count);
    PL_CHECK(open_sections(&c->a));
    PL_CHECK(open_sections(&c->b));
    if (!is_sparse(&s))
        PL_CHECK(combine_dense(c, &s));
    else if (a->codec == PL_CODEC_SKETCH16 && b->codec == PL_CODEC_SKETCH16) {
        const size_t n = (size_t)codec_sketch_cells(s.cells, s.count);
        const uint8_t *restrict a_cells = c->a.raw[1];
        const uint8_t *restrict b_cells = c->b.raw[1];
        uint8_t *restrict sum = room(&c->second, 2 * n);
        const uint8_t *bitmap = join_bitmaps(c, &s);
        s.sections[0] = (codec_section){.data = bitmap, .raw_bytes = c->first.len};
        s.sections[1] = (codec_section){.data = sum, .raw_bytes = c->second.len};
        for (size_t i = 0; i < n; i++) {
            uint16_t x, y;
            memcpy(&x, a_cells + 2 * i, 2);
            memcpy(&y, b_cells + 2 * i, 2);
            x = (uint16_t)(x + y);
            memcpy(sum + 2 * i, &x, 2);
        }
    } else {
        /* Two lists, or a list and a sketch. A sketch is decoded and fully checked,
         * because its codes are needed. The codes of both are within the limits for
         * their contributors, so the sums are within the limit for all contributors. */
        operand *both[2] = {&c->a, &c->b};
        size_t at_a = 0, at_b = 0;
        uint64_t index;
        bit_walk walk;
        for (int i = 0; i < 2; i++) {
            operand *o = both[i];
            pl_buf_clear(&o->codes);
            PL_CHECK(sparse_codes(&o->reader.header, &o->stretch, o->raw[0], o->raw[1],
                                  &o->codes));
        }
        pl_buf_clear(&c->second);
        const uint8_t *bitmap = join_bitmaps(c, &s);
        bit_walk_begin(&walk, bitmap, 0, s.count);
        while (bit_walk_next(&walk, &index)) {
            int16_t sum = (int16_t)(take_code(&c->a, index, &at_a) +
                                    take_code(&c->b, index, &at_b));
            pl_buf_append(&c->second, &sum, sizeof sum);
        }
        s.codec = WIRE_LIST16;
        s.cells = 0;
        s.kept = c->second.len / 2;
        s.sections[0] = (codec_section){.data = bitmap, .raw_bytes = c->first.len};
        s.sections[1] =
            (codec_section){.data = c->second.data, .raw_bytes = c->second.len};
    }
    return codec_writer_stretch(&c->writer, &s, false);
}

pl_status pl_codec_combine(const void *a, uint64_t a_bytes, const void *b,
                           uint64_t b_bytes, size_t n, pl_buf *out)
{
    pl_status status = PL_OK;
    size_t before = out->len;
    combination c = {0};
    PL_TRY(codec_reader_open(&c.a.reader, a, a_bytes, n));
    PL_TRY(codec_reader_open(&c.b.reader, b, b_bytes, n));
    const codec_header *one = &c.a.reader.header, *other = &c.b.reader.header;
    if (!one->homomorphic || !other->homomorphic)
        PL_TRY(pl_fail(
            PL_ERR_UNSUPPORTED,
            "only messages of sketch16 and i8-shared can be added without decoding"));
    if (one->seed != other->seed || one->exponent != other->exponent ||
        one->n_contributors != other->n_contributors ||
        one->n_stretches != other->n_stretches)
        PL_TRY(pl_fail(
            PL_ERR_DATA,
            "two updates differ in round or layout, so they cannot be added: seeds "
            "%llx and %llx, scales 2^%d and 2^%d, %d and %d contributors",
            (unsigned long long)one->seed, (unsigned long long)other->seed,
            one->exponent, other->exponent, one->n_contributors,
            other->n_contributors));
    if ((uint64_t)one->contributors + other->contributors >
        (uint64_t)one->n_contributors)
        PL_TRY(pl_fail(PL_ERR_DATA,
                       "the sum of two updates would have %u + %u contributors, more "
                       "than the round's %d",
                       one->contributors, other->contributors, one->n_contributors));
    c.header = c.a.reader.header;
    c.header.contributors += c.b.reader.header.contributors;
    c.header.entropy |= c.b.reader.header.entropy;
    codec_writer_begin(&c.writer, &c.header, out);
    while (codec_reader_next(&c.a.reader, &c.a.stretch) &&
           codec_reader_next(&c.b.reader, &c.b.stretch))
        PL_TRY(combine_stretch(&c));
    codec_writer_end(&c.writer);
done:
    operand_free(&c.a);
    operand_free(&c.b);
    pl_buf_destroy(&c.first);
    pl_buf_destroy(&c.second);
    if (status != PL_OK)
        out->len = before;
    return status;
}

/* ---- all messages of a round ---- */
/* Adds all messages in two buffers in turn. Refuses other messages than homomorphic
 * ones: they would be added without weight. */
static pl_status combine_all(const pl_codec_source *messages, size_t n, pl_buf sums[2],
                             pl_codec_message *out)
{
    pl_codec_walk walk = {.source = *messages};
    for (int i = 0;; i++) {
        pl_codec_message m;
        pl_codec_info info;
        pl_buf *sum = &sums[i % 2];
        float unused;
        PL_CHECK(pl_codec_next(&walk, &m, &unused));
        if (!m.data && i == 0)
            return pl_fail(PL_ERR_ARG, "there are no messages to add");
        if (!m.data)
            return PL_OK;
        PL_CHECK(pl_codec_inspect(m.data, m.bytes, n, &info));
        if (!info.homomorphic)
            return pl_fail(PL_ERR_UNSUPPORTED,
                           "message %d is not homomorphic; add it with its weight", i);
        pl_buf_clear(sum);
        if (i == 0)
            pl_buf_append(sum, m.data, (size_t)m.bytes);
        else
            PL_CHECK(pl_codec_combine(out->data, out->bytes, m.data, m.bytes, n, sum));
        *out = (pl_codec_message){sum->data, sum->len};
    }
}

pl_status pl_codec_add_all(const pl_codec_source *messages, size_t n, float *sum)
{
    float *total = NULL;
    pl_buf sums[2] = {{0}};
    pl_codec_message all = {NULL, 0};
    double norm;
    PL_CHECK(
        pl_try_alloc((n ? n : 1) * sizeof *total, "a sum of updates", (void **)&total));
    pl_status status = combine_all(messages, n, sums, &all);
    if (status == PL_OK)
        status = pl_codec_add(all.data, all.bytes, n, 1.0f, total, &norm);
    pl_buf_destroy(&sums[0]);
    pl_buf_destroy(&sums[1]);
    /* the store of an older home may have messages of different layouts */
    if (status == PL_ERR_PEEL || status == PL_ERR_DATA) {
        memset(total, 0, n * sizeof *total);
        status = pl_codec_add_each(messages, n, total);
    }
    PL_TRY(status);
    codec_sink sink = {.sum = sum, .weight = 1.0f, .end = n};
    for (size_t i = 0; i < n; i += TILE)
        PL_TRY(sink_tile(&sink, i, total + i, n - i < TILE ? n - i : TILE));
done:
    pl_free(total);
    return status;
}
