/* Chooses the codec of each tensor, and computes sizes of messages and scales from the
 * options.
 *
 * Only + - * / and sqrt on doubles are used here, because the sender and the home must
 * compute the same numbers on different machines. */
#include "codec/codec_internal.h"

#include <math.h>

/* codec numbers that are used only in messages have no name */
static const char *const codec_names[PL_CODEC_COUNT] = {
    [PL_CODEC_F32] = "f32",
    [PL_CODEC_BF16] = "bf16",
    [PL_CODEC_I8] = "i8",
    [PL_CODEC_I4] = "i4",
    [PL_CODEC_TOPK] = "topk",
    [PL_CODEC_SKETCH16] = "sketch16",
    [PL_CODEC_I8_SHARED] = "i8-shared"};

static bool is_codec(int codec)
{
    return codec >= 0 && codec < PL_CODEC_COUNT && codec_names[codec];
}

const char *pl_codec_name(pl_codec codec)
{
    return is_codec((int)codec) ? codec_names[codec] : "?";
}

pl_status pl_codec_options_default(const char *name, pl_codec_options *out)
{
    int codec = PL_CODEC_F32;
    memset(out, 0, sizeof *out);
    *out = (pl_codec_options){.value_bits = 2,
                              .entropy = true,
                              .k = 64,
                              .small = TILE,
                              .beta = 1.0,
                              .cells = 1.30};
    bool tagc = strcmp(name, "tagc") == 0;
    while (!tagc && codec < PL_CODEC_COUNT &&
           !(is_codec(codec) && strcmp(name, codec_names[codec]) == 0))
        codec++;
    if (codec == PL_CODEC_COUNT) {
        const char *known[PL_CODEC_COUNT] = {"tagc"};
        int n = 1;
        for (int i = 0; i < PL_CODEC_COUNT; i++)
            if (is_codec(i))
                known[n++] = codec_names[i];
        const char *near = pl_nearest(name, known, (size_t)n);
        return pl_fail(PL_ERR_CONFIG,
                       "unknown codec `%s`%s%s%s; known are f32, bf16, i8, i4, topk, "
                       "sketch16, i8-shared and tagc",
                       name, near ? " (did you mean `" : "", near ? near : "",
                       near ? "`?)" : "");
    }
    memset(out->codec, codec, sizeof out->codec);
    out->codec[PL_ROLE_SMALL] = PL_CODEC_F32;
    if (codec == PL_CODEC_TOPK)
        out->beta = 0.95; /* the factor that SparseLoCo uses */
    if (tagc) {
        /* TAGC (arXiv:2504.05638) compresses only the matrices with the most elements
         * (the matrices of the MLP, and the tied embedding); attention and norms are
         * sent densely. TAGC's published setting makes 80 % of the values zero, so a
         * fifth of 4096 values is kept. */
        const uint8_t sketch = PL_CODEC_SKETCH16, dense = PL_CODEC_I8_SHARED;
        out->codec[PL_ROLE_ATTENTION_IN] = out->codec[PL_ROLE_ATTENTION_OUT] = dense;
        out->codec[PL_ROLE_MLP] = out->codec[PL_ROLE_EMBED] = out->codec[PL_ROLE_HEAD] =
            sketch;
        out->selector = PL_SELECT_TAGC;
        out->k = TILE / 5;
    }
    return PL_OK;
}

bool codec_wire_homomorphic(int codec)
{
    return codec == PL_CODEC_SKETCH16 || codec == PL_CODEC_I8_SHARED ||
           codec == WIRE_I22_SHARED || codec == WIRE_LIST16;
}

bool pl_codec_is_homomorphic(const pl_codec_options *options)
{
    for (int role = 0; role < PL_ROLE_COUNT; role++)
        if (codec_wire_homomorphic(options->codec[role]))
            return true;
    return false;
}

/* Returns whether the options contain a lossy codec. In homomorphic messages even
 * tensors with f32 are rounded, but their options always contain a lossy codec, too. */
bool pl_codec_is_lossy(const pl_codec_options *options)
{
    for (int role = 0; role < PL_ROLE_COUNT; role++)
        if (options->codec[role] != PL_CODEC_F32)
            return true;
    return false;
}

bool pl_codec_drops_much(const pl_codec_options *o)
{
    for (int role = 0; role < PL_ROLE_COUNT; role++)
        if (o->codec[role] == PL_CODEC_I4 || o->codec[role] == PL_CODEC_TOPK)
            return true;
    return pl_codec_is_homomorphic(o);
}

pl_status pl_codec_options_check(const pl_codec_options *o)
{
    /* a message can be added without decoding only if all its tensors can */
    bool homomorphic = pl_codec_is_homomorphic(o);
    for (int role = 0; role < PL_ROLE_COUNT; role++) {
        int codec = o->codec[role];
        if (!is_codec(codec))
            return pl_fail(PL_ERR_CONFIG, "role %d has unknown codec number %d", role,
                           codec);
        if (homomorphic && codec != PL_CODEC_F32 && !codec_wire_homomorphic(codec))
            return pl_fail(
                PL_ERR_CONFIG,
                "codec %s cannot be combined with sketch16 or i8-shared, whose "
                "messages are added without decoding; use i8-shared or f32",
                codec_names[codec]);
    }
    if (o->selector >= PL_SELECT_COUNT)
        return pl_fail(PL_ERR_CONFIG, "unknown selector number %d", o->selector);
    if (o->value_bits != 8 && o->value_bits != 2)
        return pl_fail(PL_ERR_CONFIG,
                       "codec.value_bits of topk must be 8 or 2 bits, not %d",
                       o->value_bits);
    if (o->k < 1 || o->k > TILE)
        return pl_fail(PL_ERR_CONFIG,
                       "codec.k is %d, but 1 to 4096 of every 4096 values can be kept",
                       o->k);
    if (o->small < 0)
        return pl_fail(PL_ERR_CONFIG,
                       "the size of small tensors is %d elements; choose 0 or more",
                       o->small);
    if (!(o->beta >= 0 && o->beta <= 1))
        return pl_fail(PL_ERR_CONFIG,
                       "codec.beta, the factor of the residual, is %g; choose 0 to 1",
                       o->beta);
    if (!(o->cells >= 1.05 && o->cells <= 16))
        return pl_fail(PL_ERR_CONFIG,
                       "codec.cells is %g cells per kept value; choose 1.05 to 16",
                       o->cells);
    return PL_OK;
}

/* ---- roles ---- */
/* Derives the role from the end of the tensor's name, as in Llama models. */
static int role_of(const pl_slot *slot, const pl_tensor *tensor)
{
    static const struct {
        const char *end;
        int role;
    } rows[] = {{"q_proj.weight", PL_ROLE_ATTENTION_IN},
                {"k_proj.weight", PL_ROLE_ATTENTION_IN},
                {"v_proj.weight", PL_ROLE_ATTENTION_IN},
                {"o_proj.weight", PL_ROLE_ATTENTION_OUT}};
    if (tensor->rows == 1)
        return PL_ROLE_SMALL;
    if (slot->kind != PL_SLOT_BLOCKS)
        return slot->kind == PL_SLOT_EMBED ? PL_ROLE_EMBED : PL_ROLE_HEAD;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (pl_ends_with(tensor->name, rows[i].end))
            return rows[i].role;
    return PL_ROLE_MLP;
}

int pl_codec_parts(const pl_topology *topology, int module, pl_codec_part *parts)
{
    const pl_slot *slot =
        pl_topology_slot(topology, pl_topology_module_slot(topology, module));
    for (int i = 0; parts && i < slot->n_tensors; i++) {
        const pl_tensor *t = pl_topology_tensor(topology, slot->first_tensor + i);
        parts[i].first = t->offset - slot->offset;
        parts[i].count = (size_t)t->rows * (size_t)t->cols;
        parts[i].role = role_of(slot, t);
    }
    return slot->n_tensors;
}

pl_codec_part *codec_parts_of(const pl_topology *topology, int module, int *n)
{
    *n = pl_codec_parts(topology, module, NULL);
    pl_codec_part *parts = pl_alloc((size_t)*n * sizeof *parts);
    (void)pl_codec_parts(topology, module, parts);
    return parts;
}

/* In homomorphic messages f32 is sent as integers of 22 bits. */
int codec_of_part(const pl_codec_options *o, const pl_codec_part *part)
{
    bool small = part->count < (size_t)o->small;
    int codec = o->codec[small ? PL_ROLE_SMALL : part->role];
    if (codec == PL_CODEC_F32 && pl_codec_is_homomorphic(o))
        return WIRE_I22_SHARED;
    return codec;
}

/* ---- scales of homomorphic codecs ---- */
/* Chooses E so that 127 * 2^E is 4 to 8 times the root mean square. */
int pl_codec_exponent(double norm, size_t n)
{
    int exponent = 0;
    double rms = n && norm > 0 && isfinite(norm) ? norm / sqrt((double)n) : 0x1p-10;
    (void)frexp(rms, &exponent); /* rms < 2^exponent <= 2 rms */
    exponent -= 5;
    return exponent < -96 ? -96 : exponent > 64 ? 64 : exponent;
}

/* Returns the limit of a contributor's code. The codes of W contributors add up to less
 * than 2^15 in a sketch, to less than 2^22 for small tensors, and to less than 2^23
 * with i8-shared. fp32 represents such sums exactly. */
int32_t codec_limit(int codec, int n_contributors)
{
    if (codec == PL_CODEC_I8_SHARED)
        return 127;
    return (codec == WIRE_I22_SHARED ? 0x3fffff : 0x7fff) / n_contributors;
}

/* Returns the exponent of a stretch. It is chosen so that the range of a contributor's
 * values is 2^7 times 2^E for 8 bits, at least 2^9 times 2^E for sketches, which have
 * the largest values, and at least 2^10 times 2^E for small tensors, whose values may
 * have a different magnitude than the other values of the module. */
int codec_stretch_exponent(int codec, const pl_codec_round *round)
{
    if (codec == PL_CODEC_I8_SHARED)
        return round->scale_exponent;
    int reach = codec == WIRE_I22_SHARED ? 10 : 9;
    int32_t limit = codec_limit(codec, round->n_contributors);
    int log = 0; /* of the limit, to base 2, rounded down */
    while (limit >>= 1)
        log++;
    return round->scale_exponent + reach - log;
}

float codec_power(int exponent)
{
    return codec_bits_float((uint32_t)(exponent + 127) << 23);
}

/* ---- sizes ---- */
size_t codec_budget(const pl_codec_options *o, size_t len)
{
    size_t whole = len / TILE, rest = len % TILE, k = (size_t)o->k;
    return whole * k + (rest * k + TILE - 1) / TILE;
}

/* If W contributors independently select elements with density d, the union of the
 * selected elements has the density u = 1 - (1-d)^W. */
uint32_t codec_cells(const pl_codec_options *o, int n_contributors)
{
    double outside = 1, density = (double)o->k / TILE;
    for (int i = 0; i < n_contributors; i++)
        outside *= 1 - density;
    double cells = ceil(o->cells * (1 - outside) * SEGMENT / 3);
    return cells < SEGMENT ? (uint32_t)cells : SEGMENT;
}

/* In proportion to the length of the segment, rounded up, so at least one. */
uint32_t codec_segment_cells(uint32_t cells, size_t len)
{
    return (uint32_t)(((uint64_t)cells * len + SEGMENT - 1) / SEGMENT);
}

uint64_t codec_sketch_cells(uint32_t cells, uint64_t count)
{
    uint64_t rest = count % SEGMENT;
    return count / SEGMENT * 3 * cells + 3 * codec_segment_cells(cells, (size_t)rest);
}

size_t codec_shared_width(int codec, uint32_t contributors)
{
    if (codec == WIRE_I22_SHARED)
        return 4;
    return contributors == 1 ? 1 : contributors * 127u <= 0x7fff ? 2 : 4;
}

static uint64_t blocks_of(uint64_t count, uint64_t block)
{
    return count / block + (count % block != 0);
}

int codec_raw_bytes(const codec_stretch *s, uint32_t contributors,
                    uint64_t raw[SECTIONS_MAX])
{
    /* With planes, only the section of top bytes gets shorter by compression. */
    const bool planes = s->variant == VARIANT_PLANES;
    const uint64_t width = s->codec == PL_CODEC_F32 ? 4 : 2;
    memset(raw, 0, SECTIONS_MAX * sizeof *raw);
    switch (s->codec) {
    case PL_CODEC_F32:
    case PL_CODEC_BF16:
        raw[0] = s->count * (planes ? 1 : width);
        raw[1] = planes ? s->count * (width - 1) : 0;
        return planes ? 2 : 1;
    case PL_CODEC_I8:
        raw[0] = 4 * blocks_of(s->count, I8_BLOCK);
        raw[1] = s->count;
        return 2;
    case PL_CODEC_I4:
        raw[0] = 2 * blocks_of(s->count, I4_BLOCK);
        raw[1] = 16 * blocks_of(s->count, 32);
        return 2;
    case PL_CODEC_TOPK:
        raw[0] = (s->variant == 2 ? 4 : 2) * blocks_of(s->count, TILE);
        raw[1] = s->kept;
        raw[2] = s->variant == 2 ? blocks_of(s->kept, 4) : s->kept;
        return 3;
    case PL_CODEC_SKETCH16:
        raw[0] = blocks_of(s->count, 8);
        raw[1] = 2 * codec_sketch_cells(s->cells, s->count);
        return 2;
    case WIRE_LIST16:
        raw[0] = blocks_of(s->count, 8);
        raw[1] = 2 * s->kept;
        return 2;
    default:
        raw[0] = s->count * codec_shared_width(s->codec, contributors);
        return 1;
    }
}

/* Sections are compressed only if that makes them shorter: this is an upper bound. */
uint64_t pl_codec_bound(const pl_codec_options *options, const pl_codec_part *parts,
                        int n_parts, int n_contributors)
{
    uint64_t total = HEADER_BYTES;
    for (int i = 0; i < n_parts;) {
        int codec = codec_of_part(options, &parts[i]);
        uint64_t count = 0, raw[SECTIONS_MAX], bytes = 0;
        for (; i < n_parts && codec_of_part(options, &parts[i]) == codec; i++)
            count += parts[i].count;
        codec_stretch s = {
            .codec = codec, .variant = options->value_bits, .count = count};
        s.kept = codec_budget(options, (size_t)count);
        if (codec == PL_CODEC_SKETCH16)
            s.cells = codec_cells(options, n_contributors);
        int n = codec_raw_bytes(&s, (uint32_t)n_contributors, raw);
        for (int j = 0; j < n; j++)
            bytes += raw[j];
        if (codec == PL_CODEC_TOPK)
            bytes += count / 255;
        if (codec == PL_CODEC_SKETCH16) {
            /* a sketch that cannot be decoded is sent as a list, which may be longer */
            uint64_t most = s.kept * (uint64_t)n_contributors;
            uint64_t list = raw[0] + 2 * (most < count ? most : count);
            bytes = list > bytes ? list : bytes;
        }
        total += RECORD_BYTES + SECTIONS_MAX * SECTION_BYTES + bytes;
    }
    return total;
}

uint64_t pl_codec_module_bound(const pl_codec_options *options,
                               const pl_topology *topology, int module,
                               int n_contributors)
{
    int n;
    pl_codec_part *parts = codec_parts_of(topology, module, &n);
    uint64_t bytes = pl_codec_bound(options, parts, n, n_contributors);
    pl_free(parts);
    return bytes;
}
