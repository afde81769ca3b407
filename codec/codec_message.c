/* Writes and reads the parts of a message: header, table and sections.
 *
 * The checksum in the header covers the header and the table. Each section has a
 * separate checksum over its bytes as they are sent. The table contains all lengths, so
 * a reader knows them before it reads a section. */
#include "codec/codec_internal.h"

static const char magic[4] = {'P', 'L', 'U', '2'};
enum { FLAG_HOMOMORPHIC = 1, FLAG_ENTROPY = 2, EXPONENT_MAX = 110 };

/* ---- writing ---- */
void codec_writer_begin(codec_writer *w, const codec_header *header, pl_buf *out)
{
    *w = (codec_writer){.out = out, .start = out->len, .header = *header};
    w->table_at = out->len + HEADER_BYTES;
    w->table_end = w->table_at + header->table_bytes;
    size_t bytes = HEADER_BYTES + header->table_bytes;
    pl_buf_reserve(out, bytes);
    memset(out->data + out->len, 0, bytes);
    out->len += bytes;
}

pl_status codec_writer_stretch(codec_writer *w, const codec_stretch *s, bool in_place)
{
    pl_buf *out = w->out;
    const size_t end = out->len;
    /* the last 8 of the record's 32 bytes stay zero (codec_writer_begin) */
    uint8_t *at = out->data + w->table_at;
    pl_le_put(at, (uint64_t)s->codec, 1);
    pl_le_put(at + 1, (uint64_t)s->variant, 1);
    pl_le_put(at + 2, (uint64_t)s->exponent, 2);
    pl_le_put(at + 4, s->cells, 4);
    pl_le_put(at + 8, s->count, 8);
    pl_le_put(at + 16, s->kept, 8);
    w->table_at += RECORD_BYTES;
    if (in_place)
        for (int i = 0; i < s->n_sections; i++)
            out->len -= (size_t)s->sections[i].raw_bytes;
    for (int i = 0; i < s->n_sections; i++) {
        const codec_section *section = &s->sections[i];
        const size_t before = out->len, raw = (size_t)section->raw_bytes;
        /* Mantissas look random and do not get shorter, and fewer than 64 bytes are not
         * worth a frame. Other sections are compressed if that saves 3 % or more. */
        const bool mantissas = s->variant == VARIANT_PLANES && i == 1;
        bool zipped = !in_place && w->header.entropy && !mantissas && raw >= 64;
        if (zipped) {
            PL_CHECK(pl_zip_huffman(section->data, raw, out));
            zipped = out->len - before <= raw - raw / 32;
            if (!zipped)
                out->len = before;
        }
        if (in_place)
            out->len += raw;
        else if (!zipped)
            pl_buf_append(out, section->data, raw);
        const uint64_t wire = out->len - before;
        at = out->data + w->table_at;
        pl_le_put(at, section->raw_bytes, 8);
        pl_le_put(at + 8, wire, 8);
        pl_le_put(at + 16, pl_checksum(out->data + before, (size_t)wire), 8);
        w->table_at += SECTION_BYTES;
    }
    if (in_place && out->len != end)
        return pl_fail(
            PL_ERR_INTERNAL,
            "the sizes of sections that were written in place are wrong by %td bytes",
            (ptrdiff_t)(out->len - end));
    return PL_OK;
}

static uint64_t header_checksum(const uint8_t *header, uint32_t table_bytes)
{
    static const uint8_t zero[8];
    const pl_piece pieces[] = {
        {header, 56}, {zero, 8}, {header + HEADER_BYTES, table_bytes}};
    return pl_checksum_pieces(pieces, 3);
}

/* Writes the header last, with lengths that are known only now. */
void codec_writer_end(codec_writer *w)
{
    const codec_header *h = &w->header;
    uint8_t *at = w->out->data + w->start;
    uint32_t flags = (h->homomorphic ? (uint32_t)FLAG_HOMOMORPHIC : 0) |
                     (h->entropy ? (uint32_t)FLAG_ENTROPY : 0);
    memcpy(at, magic, sizeof magic);
    pl_le_put(at + 4, flags, 4);
    pl_le_put(at + 8, h->count, 8);
    pl_le_put(at + 16, h->n_stretches, 4);
    pl_le_put(at + 20, h->contributors, 4);
    pl_le_put(at + 24, h->seed, 8);
    pl_le_put(at + 32, (uint64_t)h->exponent, 2);
    pl_le_put(at + 34, (uint64_t)h->n_contributors, 2);
    pl_le_put(at + 36, h->table_bytes, 4);
    pl_le_put(at + 40, w->out->len - w->table_end, 8);
    pl_le_put(at + 56, header_checksum(at, h->table_bytes), 8);
}

/* ---- reading the header ---- */
/* More values than any module has. The products with their bytes stay below 2^64. */
static const uint64_t values_max = (uint64_t)1 << 40;

static pl_status read_header(codec_reader *r, const uint8_t *data, uint64_t bytes,
                             size_t n)
{
    codec_header *h = &r->header;
    if (bytes < HEADER_BYTES || memcmp(data, magic, 4) != 0)
        return pl_fail(PL_ERR_DATA, "the update has no PLU2 header");
    uint64_t flags = pl_le_get(data + 4, 4);
    h->homomorphic = flags & FLAG_HOMOMORPHIC;
    h->entropy = flags & FLAG_ENTROPY;
    h->count = pl_le_get(data + 8, 8);
    h->n_stretches = (uint32_t)pl_le_get(data + 16, 4);
    h->contributors = (uint32_t)pl_le_get(data + 20, 4);
    h->seed = pl_le_get(data + 24, 8);
    h->exponent = (int16_t)pl_le_get(data + 32, 2);
    h->n_contributors = (int)pl_le_get(data + 34, 2);
    h->table_bytes = (uint32_t)pl_le_get(data + 36, 4);
    h->body_bytes = pl_le_get(data + 40, 8);
    /* lengths are checked first: they determine what the checksum covers */
    uint64_t behind = bytes - HEADER_BYTES;
    if (h->count != n || n > values_max)
        return pl_fail(PL_ERR_DATA,
                       "the update has %llu values, but the module has %zu",
                       (unsigned long long)h->count, n);
    if (h->table_bytes > behind || h->body_bytes != behind - h->table_bytes)
        return pl_fail(
            PL_ERR_DATA,
            "the update has %llu bytes instead of %llu (its table has %u bytes)",
            (unsigned long long)bytes,
            (unsigned long long)h->body_bytes + HEADER_BYTES + h->table_bytes,
            h->table_bytes);
    if (pl_le_get(data + 56, 8) != header_checksum(data, h->table_bytes))
        return pl_fail(PL_ERR_DATA,
                       "the update's header is damaged: its checksum does not match");
    if (flags > (FLAG_HOMOMORPHIC | FLAG_ENTROPY) || pl_le_get(data + 48, 8) != 0)
        return pl_fail(
            PL_ERR_DATA,
            "the update's header has unknown flags, or reserved bytes that are not 0");
    /* W and the number of contributors determine limits and bytes of codes */
    bool sums = h->homomorphic && h->n_contributors >= 1 && h->contributors >= 1 &&
                h->contributors <= (uint32_t)h->n_contributors &&
                h->exponent >= -EXPONENT_MAX && h->exponent <= EXPONENT_MAX;
    bool plain = !h->homomorphic && h->n_contributors == 0 && h->contributors == 1 &&
                 h->exponent == 0 && h->seed == 0;
    if (!sums && !plain)
        return pl_fail(PL_ERR_DATA,
                       "the update's header has impossible numbers: it says that the "
                       "update is a sum of %u of %d messages, with the scale 2^%d",
                       h->contributors, h->n_contributors, h->exponent);
    return PL_OK;
}

/* ---- reading the table ---- */
/* Returns whether a record is valid. Fields that a codec does not use must be zero, so
 * that a message has exactly one valid form. */
static bool record_is_possible(const codec_header *h, const codec_stretch *s)
{
    bool planes = s->variant == 0 || s->variant == VARIANT_PLANES;
    if (codec_wire_homomorphic(s->codec) != h->homomorphic || s->count == 0)
        return false;
    if (s->codec != PL_CODEC_SKETCH16 && s->cells != 0)
        return false;
    if (s->codec != PL_CODEC_TOPK && s->codec != WIRE_LIST16 && s->kept != 0)
        return false;
    switch (s->codec) {
    case PL_CODEC_F32:
    case PL_CODEC_BF16:
        return planes && s->exponent == 0;
    case PL_CODEC_I8:
    case PL_CODEC_I4:
        return s->variant == 0 && s->exponent == 0;
    case PL_CODEC_TOPK:
        return (s->variant == 8 || s->variant == 2) && s->exponent == 0;
    default:
        return s->variant == 0 && s->exponent >= -EXPONENT_MAX &&
               s->exponent <= EXPONENT_MAX;
    }
}

/* Reads the next stretch, and moves the reader past its record, entries and sections.
 * No number in the record may exceed the module's size, which the reader knows. */
static pl_status read_stretch(codec_reader *r, codec_stretch *s, const uint8_t *end)
{
    const codec_header *h = &r->header;
    const uint8_t *body_end = r->data + HEADER_BYTES + h->table_bytes + h->body_bytes;
    uint64_t raw[SECTIONS_MAX];
    memset(s, 0, sizeof *s);
    if (end - r->table < RECORD_BYTES)
        return pl_fail(PL_ERR_DATA, "the update's table ends inside a record");
    s->codec = r->table[0];
    s->variant = r->table[1];
    s->exponent = (int16_t)pl_le_get(r->table + 2, 2);
    s->cells = (uint32_t)pl_le_get(r->table + 4, 4);
    s->first = r->next;
    s->count = pl_le_get(r->table + 8, 8);
    s->kept = pl_le_get(r->table + 16, 8);
    if (s->codec < PL_CODEC_F32 || s->codec >= WIRE_COUNT)
        return pl_fail(PL_ERR_DATA, "the update uses unknown codec number %d",
                       s->codec);
    if (!record_is_possible(h, s) || pl_le_get(r->table + 24, 8) != 0)
        return pl_fail(PL_ERR_DATA,
                       "the update's record for the values from index %llu on has "
                       "impossible fields",
                       (unsigned long long)r->next);
    if (s->count > h->count - r->next || s->kept > s->count || s->cells > SEGMENT ||
        (s->codec == PL_CODEC_SKETCH16 && s->cells == 0))
        return pl_fail(
            PL_ERR_DATA,
            "the update's record for the values from index %llu on claims %llu values, "
            "%llu kept values and %u cells, impossible in a module of %llu values",
            (unsigned long long)r->next, (unsigned long long)s->count,
            (unsigned long long)s->kept, s->cells, (unsigned long long)h->count);
    r->table += RECORD_BYTES;
    s->n_sections = codec_raw_bytes(s, h->contributors, raw);
    if (end - r->table < s->n_sections * SECTION_BYTES)
        return pl_fail(PL_ERR_DATA,
                       "the update's table ends inside the entries of a record");
    for (int i = 0; i < s->n_sections; i++) {
        codec_section *section = &s->sections[i];
        section->raw_bytes = pl_le_get(r->table, 8);
        section->wire_bytes = pl_le_get(r->table + 8, 8);
        section->checksum = pl_le_get(r->table + 16, 8);
        /* The record determines the uncompressed length, except for topk's indices: a
         * gap takes a byte per kept value, and one per 255 skipped values. */
        const bool gaps = s->codec == PL_CODEC_TOPK && i == 1;
        const uint64_t most = raw[i] + (gaps ? s->count / 255 : 0);
        if (section->raw_bytes < raw[i] || section->raw_bytes > most ||
            section->wire_bytes > section->raw_bytes ||
            section->wire_bytes > (uint64_t)(body_end - r->body))
            return pl_fail(
                PL_ERR_DATA,
                "section %d of the update for the values from index %llu on has "
                "%llu bytes (%llu on the wire) instead of %llu",
                i, (unsigned long long)s->first, (unsigned long long)section->raw_bytes,
                (unsigned long long)section->wire_bytes, (unsigned long long)raw[i]);
        section->data = r->body;
        r->body += section->wire_bytes;
        r->table += SECTION_BYTES;
    }
    r->next += s->count;
    return PL_OK;
}

static const uint8_t *table_end(const codec_reader *r)
{
    return r->data + HEADER_BYTES + r->header.table_bytes;
}

pl_status codec_reader_open(codec_reader *r, const void *data, uint64_t bytes, size_t n)
{
    codec_stretch s;
    memset(r, 0, sizeof *r);
    r->data = data;
    PL_CHECK(read_header(r, data, bytes, n));
    r->table = r->data + HEADER_BYTES;
    r->body = table_end(r);
    const codec_reader start = *r;
    for (uint32_t i = 0; i < r->header.n_stretches; i++)
        PL_CHECK(read_stretch(r, &s, table_end(r)));
    if (r->next != r->header.count || r->table != table_end(r) ||
        r->body != table_end(r) + r->header.body_bytes)
        return pl_fail(PL_ERR_DATA,
                       "the update's table or body has a wrong length: the table "
                       "describes %llu of %llu values",
                       (unsigned long long)r->next,
                       (unsigned long long)r->header.count);
    *r = start;
    return PL_OK;
}

bool codec_reader_next(codec_reader *r, codec_stretch *s)
{
    return r->next < r->header.count && read_stretch(r, s, table_end(r)) == PL_OK;
}

pl_status codec_section_open(const codec_section *section, pl_buf *scratch,
                             const uint8_t **raw)
{
    size_t wire = (size_t)section->wire_bytes, before = 0;
    if (pl_checksum(section->data, wire) != section->checksum)
        return pl_fail(
            PL_ERR_DATA,
            "%zu bytes of the update are damaged: their checksum does not match", wire);
    *raw = section->data;
    if (section->wire_bytes == section->raw_bytes)
        return PL_OK;
    before = scratch->len;
    /* raw_bytes is not larger than the record allows: this was checked */
    if (pl_unzip(section->data, wire, (size_t)section->raw_bytes, scratch) != PL_OK)
        return pl_fail_in(PL_ERR_DATA, "an update");
    *raw = scratch->data + before;
    return PL_OK;
}

pl_status pl_codec_inspect(const void *data, uint64_t bytes, size_t n,
                           pl_codec_info *out)
{
    codec_reader r;
    memset(out, 0, sizeof *out);
    PL_CHECK(codec_reader_open(&r, data, bytes, n));
    out->homomorphic = r.header.homomorphic;
    out->contributors = (int)r.header.contributors;
    out->n_contributors = r.header.n_contributors;
    out->seed = r.header.seed;
    out->scale_exponent = r.header.exponent;
    return PL_OK;
}

pl_status pl_codec_split(const void *data, uint64_t bytes, int n, pl_codec_message *out)
{
    const uint8_t *at = data;
    for (int i = 0; i < n; i++) {
        if (bytes < HEADER_BYTES || memcmp(at, magic, 4) != 0)
            return pl_fail(PL_ERR_DATA, "the update has %d messages instead of %d", i,
                           n);
        uint64_t behind = bytes - HEADER_BYTES, table = pl_le_get(at + 36, 4),
                 body = pl_le_get(at + 40, 8);
        if (table > behind || body > behind - table)
            return pl_fail(PL_ERR_DATA, "message %d of an update is cut off", i + 1);
        out[i] = (pl_codec_message){at, HEADER_BYTES + table + body};
        at += out[i].bytes;
        bytes -= out[i].bytes;
    }
    if (bytes == 0)
        return PL_OK;
    return pl_fail(PL_ERR_DATA, "the update has %llu extra bytes after its %d messages",
                   (unsigned long long)bytes, n);
}

bool pl_codec_claims_homomorphic(const void *start, size_t bytes, uint64_t *n)
{
    const uint8_t *data = start;
    *n = 0;
    if (bytes < HEADER_BYTES || memcmp(data, magic, 4) != 0)
        return false;
    *n = pl_le_get(data + 8, 8);
    return pl_le_get(data + 4, 4) & FLAG_HOMOMORPHIC;
}
