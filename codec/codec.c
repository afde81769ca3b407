/* Implements codec.h: encodes an update as a message, and adds a message to a sum.
 *
 * An update is encoded stretch by stretch, and each stretch tile by tile. A tile of the
 * update and of the residual is read once, and stays in the L1 cache while it is
 * quantised. The part of the values that is not sent becomes the new residual. Messages
 * are decoded tile by tile, too. The decoder passes values to a sink, which adds them,
 * sums their squares, and refuses values that are not finite. */
#include "codec/codec_internal.h"

#include <math.h>

/* ---- values to encode ---- */
CODEC_WIDE static void mix_tile(const float *restrict update,
                                const float *restrict residual, float weight,
                                float beta, float *restrict out)
{
    for (int i = 0; i < TILE; i++)
        out[i] = weight * update[i] + beta * residual[i];
}

CODEC_WIDE static void weigh_tile(const float *restrict update, float weight,
                                  float *restrict out)
{
    for (int i = 0; i < TILE; i++)
        out[i] = weight * update[i];
}

size_t job_tile_length(const codec_job *job, uint64_t at)
{
    uint64_t left = job->stretch.count - at;
    return left < TILE ? (size_t)left : TILE;
}

const float *job_tile(const codec_job *job, uint64_t at, float tile[TILE])
{
    size_t n = job_tile_length(job, at);
    if (n < TILE) {
        /* the last tile is padded with zeros, which every codec encodes as zeros */
        float update[TILE] = {0}, residual[TILE] = {0};
        memcpy(update, job->update + at, n * sizeof *update);
        if (job->residual) {
            memcpy(residual, job->residual + at, n * sizeof *residual);
            mix_tile(update, residual, job->weight, job->beta, tile);
        } else
            weigh_tile(update, job->weight, tile);
        return tile;
    }
    if (job->residual)
        mix_tile(job->update + at, job->residual + at, job->weight, job->beta, tile);
    else if (job->weight != 1.0f)
        weigh_tile(job->update + at, job->weight, tile);
    else
        return job->update + at;
    return tile;
}

void job_keep(const codec_job *job, uint64_t at, const float left[TILE])
{
    if (job->residual)
        memcpy(job->residual + at, left, job_tile_length(job, at) * sizeof *left);
}

pl_status job_check_finite(const codec_job *job, uint64_t at, uint32_t top)
{
    if (top >= 0x7f800000u)
        return pl_fail(PL_ERR_NUMERIC,
                       "the update has a value that is not finite near index %llu",
                       (unsigned long long)(job->stretch.first + at));
    return PL_OK;
}

void job_sections(codec_job *job, bool exact, uint8_t *at[SECTIONS_MAX])
{
    pl_buf *to = &job->scratch;
    size_t total = 0;
    uint64_t raw[SECTIONS_MAX];
    const int n = codec_raw_bytes(&job->stretch, 1, raw);
    raw[1] += exact ? 0 : job->stretch.count / 255;
    for (int i = 0; i < n; i++)
        total += (size_t)raw[i];
    job->in_place = exact && !job->options->entropy;
    if (job->in_place)
        to = job->writer->out;
    else
        pl_buf_clear(to);
    pl_buf_reserve(to, total);
    job->stretch.n_sections = n;
    for (int i = 0; i < n; i++) {
        at[i] = to->data + to->len;
        job->stretch.sections[i] = (codec_section){.data = at[i], .raw_bytes = raw[i]};
        to->len += (size_t)raw[i];
    }
}

/* ---- encoding ---- */
/* The encoder and the decoder of each codec number that occurs in messages. LIST16 has
 * no encoder here: sketch_encode makes a list if the sketch cannot be decoded. */
typedef struct codec_way {
    pl_status (*encode)(codec_job *job);
    pl_status (*decode)(const codec_task *task);
} codec_way;

static const codec_way ways[WIRE_COUNT] = {
    [PL_CODEC_F32] = {f32_encode, f32_decode},
    [PL_CODEC_BF16] = {bf16_encode, bf16_decode},
    [PL_CODEC_I8] = {i8_encode, i8_decode},
    [PL_CODEC_I4] = {i4_encode, i4_decode},
    [PL_CODEC_TOPK] = {topk_encode, topk_decode},
    [PL_CODEC_SKETCH16] = {sketch_encode, sketch_decode},
    [PL_CODEC_I8_SHARED] = {shared_encode, shared_decode},
    [WIRE_I22_SHARED] = {shared_encode, shared_decode},
    [WIRE_LIST16] = {NULL, sketch_decode},
};

/* Makes a stretch of part *i and the parts after it that have the same codec, and moves
 * *i past them. Returns false if no part is left. */
static bool next_stretch(const pl_codec_options *o, const pl_codec_part *parts,
                         int n_parts, int *i, codec_stretch *s)
{
    memset(s, 0, sizeof *s);
    for (; *i < n_parts; ++*i) {
        const pl_codec_part *part = &parts[*i];
        int codec = codec_of_part(o, part);
        if (s->count > 0 && part->count > 0 && codec != s->codec)
            return true;
        if (s->count == 0) {
            s->codec = codec;
            s->first = part->first;
        }
        s->count += part->count;
    }
    return s->count > 0;
}

pl_status pl_codec_encode_module(const pl_codec_options *options,
                                 const pl_codec_part *parts, int n_parts,
                                 const pl_codec_round *round, const float *update,
                                 float *residual, pl_buf *out)
{
    pl_status status = PL_OK;
    codec_writer writer;
    size_t n = 0, before = out->len;
    codec_job job = {.options = options, .round = round, .writer = &writer};
    PL_CHECK(pl_codec_options_check(options));
    /* the roles are checked, too, because a caller may make parts without a topology */
    for (int i = 0; i < n_parts; i++) {
        if (parts[i].first != n || parts[i].role < 0 || parts[i].role >= PL_ROLE_COUNT)
            return pl_fail(PL_ERR_ARG,
                           "part %d starts at %zu with role %d; parts must follow each "
                           "other without gaps, so it must start at %zu",
                           i, parts[i].first, parts[i].role, n);
        n += parts[i].count;
    }
    if (pl_codec_is_homomorphic(options)) {
        /* with more contributors a code of a sketch would have too few bits */
        int most = UINT16_MAX;
        for (int role = 0; role < PL_ROLE_COUNT; role++)
            if (options->codec[role] == PL_CODEC_SKETCH16)
                most = SKETCH_W_MAX;
        if (!round || round->n_contributors < 1 || round->n_contributors > most)
            return pl_fail(PL_ERR_ARG,
                           "a homomorphic codec works only in rounds of 1 to %d "
                           "contributors; use a different codec",
                           most);
        if (round->scale_exponent < -96 || round->scale_exponent > 64 ||
            !isfinite(round->weight))
            return pl_fail(
                PL_ERR_ARG,
                "a round has the scale 2^%d and weight %g; the scale must be 2^-96 to "
                "2^64 (see pl_codec_exponent), and the weight finite",
                round->scale_exponent, (double)round->weight);
    }
    /* The header has the size of the table, which must be known before the first
     * section is written, because the sections follow the table. */
    codec_header header = {.count = n, .contributors = 1, .entropy = options->entropy};
    header.homomorphic = pl_codec_is_homomorphic(options);
    if (header.homomorphic) {
        header.seed = round->seed;
        header.exponent = round->scale_exponent;
        header.n_contributors = round->n_contributors;
    }
    for (int i = 0; next_stretch(options, parts, n_parts, &i, &job.stretch);
         header.n_stretches++) {
        /* only the codec and its planes determine the number of sections */
        uint64_t raw[SECTIONS_MAX];
        const bool exact = job.stretch.codec <= PL_CODEC_BF16;
        job.stretch.variant = options->entropy && exact ? VARIANT_PLANES : 0;
        const int n_sections = codec_raw_bytes(&job.stretch, 1, raw);
        header.table_bytes += RECORD_BYTES + SECTION_BYTES * (uint32_t)n_sections;
    }
    job.weight = header.homomorphic ? round->weight : 1.0f;
    job.beta = (float)options->beta;
    codec_writer_begin(&writer, &header, out);
    for (int i = 0; next_stretch(options, parts, n_parts, &i, &job.stretch);) {
        uint64_t first = job.stretch.first;
        job.update = update + first;
        job.residual = residual ? residual + first : NULL;
        job.in_place = false;
        PL_TRY(ways[job.stretch.codec].encode(&job));
        PL_TRY(codec_writer_stretch(job.writer, &job.stretch, job.in_place));
    }
    codec_writer_end(&writer);
done:
    pl_buf_destroy(&job.scratch);
    if (status != PL_OK)
        out->len = before;
    return status;
}

pl_status pl_codec_encode_update(const pl_codec_options *options,
                                 const pl_topology *topology, int module,
                                 const pl_codec_round *round, const float *update,
                                 float *residual, pl_buf *out)
{
    int n;
    pl_codec_part *parts = codec_parts_of(topology, module, &n);
    pl_status status =
        pl_codec_encode_module(options, parts, n, round, update, residual, out);
    pl_free(parts);
    return status;
}

pl_status pl_codec_check_layout(const pl_codec_options *options,
                                const pl_topology *topology, int module,
                                const pl_codec_round *round, int n_summed,
                                const pl_codec_message *message)
{
    int n;
    pl_codec_part *parts = codec_parts_of(topology, module, &n);
    codec_reader reader;
    codec_stretch made, is;
    pl_status status = PL_OK;
    const size_t count = parts[n - 1].first + parts[n - 1].count;
    PL_TRY(codec_reader_open(&reader, message->data, message->bytes, count));
    const codec_header *h = &reader.header;
    bool good = h->homomorphic == pl_codec_is_homomorphic(options) &&
                h->contributors == (uint32_t)n_summed;
    if (good && h->homomorphic)
        good = h->seed == round->seed && h->exponent == round->scale_exponent &&
               h->n_contributors == round->n_contributors;
    for (int i = 0; good && next_stretch(options, parts, n, &i, &made);) {
        /* a sketch that cannot be decoded is sent as a list */
        const bool sketch = made.codec == PL_CODEC_SKETCH16;
        good = codec_reader_next(&reader, &is) && is.first == made.first &&
               is.count == made.count &&
               (is.codec == made.codec || (sketch && is.codec == WIRE_LIST16));
        if (good && codec_wire_homomorphic(made.codec))
            good = is.exponent == codec_stretch_exponent(made.codec, round) &&
                   (!sketch || is.codec == WIRE_LIST16 ||
                    is.cells == codec_cells(options, round->n_contributors));
    }
    if (!good || codec_reader_next(&reader, &is))
        status = pl_fail(PL_ERR_DATA,
                         "the update was encoded with another codec, or for another "
                         "round, another scale or another number of contributors, or "
                         "is not the sum of %d updates",
                         n_summed);
done:
    pl_free(parts);
    return status;
}

/* ---- decoded values ---- */
enum { LANES = 16 };

/* Computes sum += weight * tile, and returns the sum of the squares of the tile. They
 * are added in a fixed number of lanes, so the processor's vectors do not matter. */
CODEC_WIDE static double add_tile(const float *restrict tile, float weight,
                                  float *restrict sum)
{
    double lanes[LANES] = {0};
    for (int i = 0; i < TILE; i += LANES)
        for (int j = 0; j < LANES; j++)
            lanes[j] += (double)tile[i + j] * (double)tile[i + j];
    for (int i = 0; i < TILE; i++)
        sum[i] += weight * tile[i];
    double total = 0;
    for (int j = 0; j < LANES; j++)
        total += lanes[j];
    return total;
}

static pl_status sink_squares(codec_sink *sink, uint64_t first, double squares)
{
    if (!isfinite(squares))
        return pl_fail(PL_ERR_NUMERIC,
                       "the update has a value that is not finite near index %llu",
                       (unsigned long long)first);
    sink->squares += squares;
    return PL_OK;
}

pl_status sink_tile(codec_sink *sink, uint64_t first, const float tile[TILE], size_t n)
{
    uint64_t begin = first > sink->begin ? first : sink->begin;
    uint64_t end = first + n < sink->end ? first + n : sink->end;
    if (begin >= end)
        return PL_OK;
    size_t some = (size_t)(end - begin);
    float *sum = sink->sum ? sink->sum + begin : NULL;
    tile += begin - first;
    if (sum && some == TILE)
        return sink_squares(sink, begin, add_tile(tile, sink->weight, sum));
    /* A short tile is padded with zeros, which change neither sum. */
    float values[TILE] = {0}, sums[TILE] = {0};
    memcpy(values, tile, some * sizeof *values);
    if (sum)
        memcpy(sums, sum, some * sizeof *sum);
    double squares = add_tile(values, sink->weight, sums);
    if (sum)
        memcpy(sum, sums, some * sizeof *sum);
    return sink_squares(sink, begin, squares);
}

/* Adds one value, for codecs that send few: other values of `sum` are not touched. */
pl_status sink_value(codec_sink *sink, uint64_t index, float value)
{
    if (index < sink->begin || index >= sink->end)
        return PL_OK;
    PL_CHECK(sink_squares(sink, index, (double)value * (double)value));
    if (sink->sum)
        sink->sum[index] += sink->weight * value;
    return PL_OK;
}

pl_status codec_open(const pl_codec_message *m, size_t n, codec_opened *out)
{
    codec_reader reader, ahead;
    codec_stretch s;
    const uint8_t *unused;
    size_t unzipped_bytes = 0;
    pl_buf_clear(&out->raw);
    out->message = *m;
    out->n = n;
    out->splits = true;
    PL_CHECK(codec_reader_open(&reader, m->data, m->bytes, n));
    ahead = reader;
    while (codec_reader_next(&ahead, &s))
        for (int i = 0; i < s.n_sections; i++)
            if (s.sections[i].wire_bytes != s.sections[i].raw_bytes)
                unzipped_bytes += (size_t)s.sections[i].raw_bytes;
    pl_buf_reserve(&out->raw, unzipped_bytes);
    while (codec_reader_next(&reader, &s)) {
        out->splits &= s.codec <= PL_CODEC_I4;
        for (int i = 0; i < s.n_sections; i++)
            PL_CHECK(codec_section_open(&s.sections[i], &out->raw, &unused));
    }
    return PL_OK;
}

/* A homomorphic message was multiplied by its weight before it was encoded. */
pl_status codec_decode(const codec_opened *m, codec_sink *sink)
{
    codec_reader reader;
    codec_stretch s;
    const uint8_t *unzipped = m->raw.data;
    PL_CHECK(codec_reader_open(&reader, m->message.data, m->message.bytes, m->n));
    if (reader.header.homomorphic)
        sink->weight = 1.0f;
    while (codec_reader_next(&reader, &s)) {
        codec_task task = {.header = &reader.header, .stretch = &s, .sink = sink};
        for (int i = 0; i < s.n_sections; i++) {
            const codec_section *section = &s.sections[i];
            bool zipped = section->wire_bytes != section->raw_bytes;
            task.raw[i] = zipped ? unzipped : section->data;
            if (zipped)
                unzipped += section->raw_bytes;
        }
        PL_CHECK(ways[s.codec].decode(&task));
    }
    return PL_OK;
}

pl_status pl_codec_add(const void *data, uint64_t bytes, size_t n, float weight,
                       float *sum, double *norm)
{
    const pl_codec_message message = {data, bytes};
    codec_sink sink = {.sum = sum, .weight = weight, .end = n};
    codec_opened m = {.n = n};
    *norm = 0;
    pl_status status = codec_open(&message, n, &m);
    if (status == PL_OK)
        status = codec_decode(&m, &sink);
    if (status == PL_OK)
        *norm = sqrt(sink.squares);
    pl_buf_destroy(&m.raw);
    return status;
}
