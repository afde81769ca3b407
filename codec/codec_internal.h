/* Private to the codecs: stretches, tiles, the message's writer and reader.
 *
 * A stretch is a run of neighbouring tensors with one codec. In a message a stretch is
 * a record (32 bytes) and up to three sections: scales, codes, indices, a bitmap or
 * cells. Encoders fill raw sections; the writer checksums and compresses them.
 *
 * A tile has 4096 values, which are zero beyond the stretch's end. So loops over tiles
 * have constant lengths, which the compiler vectorises, and a tile fits into the first
 * cache. */
#ifndef PL_CODEC_CODEC_INTERNAL_H
#define PL_CODEC_CODEC_INTERNAL_H
#include "codec/codec.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Compiles a function once per vector length. All versions give the same bits: products
 * and sums are not contracted, and sums run in lanes that the source names. Sanitizers
 * start only after the version is chosen, so with them there is only one version. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                 \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&                 \
    defined(__OPTIMIZE__)
#define CODEC_WIDE                                                                     \
    __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define CODEC_WIDE
#endif

/* A CODEC_WIDE function must inline the functions that it calls, so that they use its
 * vectors. */
#if defined(__GNUC__)
#define CODEC_INLINE static inline __attribute__((always_inline))
#else
#define CODEC_INLINE static inline
#endif

enum {
    TILE = 4096,
    HEADER_BYTES = 64,
    RECORD_BYTES = 32,
    SECTION_BYTES = 24,
    SECTIONS_MAX = 3,
    SEGMENT = 1 << 20, /* number of elements of one sketch */
    I8_BLOCK = 256,
    I4_BLOCK = 64,
    SKETCH_W_MAX =
        4096 /* with more contributors a sketch's values would have fewer than 3 bits */
};

/* Codec numbers that occur only in messages. */
enum { WIRE_I22_SHARED = PL_CODEC_COUNT, WIRE_LIST16, WIRE_COUNT };
/* variant of f32 and bf16: exponents are stored in a plane of their own */
enum { VARIANT_PLANES = 1 };

typedef struct codec_section {
    const uint8_t *data;
    /* If both sizes are equal, the section is stored unchanged; if wire_bytes is
     * smaller, it is one zstd frame. */
    uint64_t raw_bytes, wire_bytes;
    uint64_t checksum; /* checksum of the bytes on the wire */
} codec_section;

typedef struct codec_stretch {
    int codec, variant; /* variant: VARIANT_PLANES, or topk's bits per value */
    int exponent;       /* homomorphic stretches: value = code * 2^exponent */
    uint32_t cells;     /* sketch16: cells in each third of a full segment */
    uint64_t first, count;
    uint64_t kept; /* topk and list16: number of values sent */
    int n_sections;
    codec_section sections[SECTIONS_MAX];
} codec_stretch;

typedef struct codec_header {
    bool homomorphic, entropy;
    uint64_t count, seed, body_bytes;
    uint32_t n_stretches, contributors, table_bytes;
    int exponent, n_contributors;
} codec_header;

/* ---- codec_policy.c ---- */
int codec_of_part(const pl_codec_options *o, const pl_codec_part *part);
/* Returns how many of `len` elements are kept: k of every 4096, rounded up. */
size_t codec_budget(const pl_codec_options *o, size_t len);
/* Returns the number of cells in a third of a full segment, enough for the union of W
 * independent selections. */
uint32_t codec_cells(const pl_codec_options *o, int n_contributors);
bool codec_wire_homomorphic(int codec);
/* codec_limit returns the largest code of one contributor, codec_stretch_exponent the
 * exponent of a stretch. */
int32_t codec_limit(int codec, int n_contributors);
int codec_stretch_exponent(int codec, const pl_codec_round *round);
/* The number of cells in a third of a segment with `len` elements. */
uint32_t codec_segment_cells(uint32_t cells, size_t len);
/* The number of cells of all segments together. */
uint64_t codec_sketch_cells(uint32_t cells, uint64_t count);
/* Bytes per code in a sum of this many messages. */
size_t codec_shared_width(int codec, uint32_t contributors);
/* Writes the raw size of each section of a stretch (for topk's indices only a lower
 * bound), and returns the number of sections. */
int codec_raw_bytes(const codec_stretch *s, uint32_t contributors,
                    uint64_t raw[SECTIONS_MAX]);

/* ---- codec_message.c ---- */
/* Writing: codec_writer_begin reserves header and table, then codec_writer_stretch is
 * called once per stretch, then codec_writer_end. */
typedef struct codec_writer {
    pl_buf *out;
    size_t start, table_at, table_end;
    codec_header header;
} codec_writer;
void codec_writer_begin(codec_writer *w, const codec_header *header, pl_buf *out);
/* `sections[i].data` has the raw bytes; with `in_place` they are at the end of `out`
 * already. */
pl_status codec_writer_stretch(codec_writer *w, const codec_stretch *s, bool in_place);
void codec_writer_end(codec_writer *w);
/* returns the bytes of a stretch's record and section entries */
uint32_t codec_table_bytes(int codec, int variant);

/* Reading: codec_reader_open checks header and table completely; codec_reader_next goes
 * through the stretches. */
typedef struct codec_reader {
    const uint8_t *data, *table, *body;
    codec_header header;
    uint64_t next; /* index of the next element */
} codec_reader;
pl_status codec_reader_open(codec_reader *r, const void *data, uint64_t bytes,
                            size_t n);
bool codec_reader_next(codec_reader *r, codec_stretch *s);
/* Checks a section's checksum and, if it is compressed, decompresses it to the end of
 * `scratch`. */
pl_status codec_section_open(const codec_section *section, pl_buf *scratch,
                             const uint8_t **raw);

/* ---- codec.c ---- */
/* Encoding one stretch. Values come as a = weight * update + beta * residual. */
typedef struct codec_job {
    const pl_codec_options *options;
    const pl_codec_round *round; /* NULL unless the codec is homomorphic */
    const float *update;         /* the stretch's part of the update */
    float *residual; /* the stretch's part of the residual; NULL: no error feedback */
    float weight, beta;
    codec_stretch stretch;
    codec_writer *writer;
    pl_buf scratch; /* memory for raw sections that are not written in place */
    bool in_place;
} codec_job;

/* Returns values [at, at+TILE) of the stretch: in `tile` if they had to be computed,
 * else where they are in the update. */
const float *job_tile(const codec_job *job, uint64_t at, float tile[TILE]);
/* Stores in the residual, for each value from `at` on, the part that was not sent. */
void job_keep(const codec_job *job, uint64_t at, const float left[TILE]);
size_t job_tile_length(const codec_job *job, uint64_t at);
/* ERR_NUMERIC if a value is not finite; `top` is the largest |value| as bits. */
pl_status job_check_finite(const codec_job *job, uint64_t at, uint32_t top);
/* Reserves room for raw sections; `exact`: their sizes will not change. at[i] gets the
 * address of section i. */
void job_sections(codec_job *job, const uint64_t raw[SECTIONS_MAX], int n, bool exact,
                  uint8_t *at[SECTIONS_MAX]);

/* Receives decoded values; values outside of [begin, end) are ignored. */
typedef struct codec_sink {
    float *sum; /* sum of the whole update, or NULL */
    float weight;
    uint64_t begin, end; /* the range of elements of the update */
    double squares;
} codec_sink;
pl_status sink_tile(codec_sink *sink, uint64_t first, const float tile[TILE], size_t n);
pl_status sink_value(codec_sink *sink, uint64_t index, float value);

/* The arguments of a decoder. */
typedef struct codec_task {
    const codec_header *header;
    const codec_stretch *stretch;
    const uint8_t *raw[SECTIONS_MAX];
    codec_sink *sink;
} codec_task;

/* Returns the start of the first tile of the stretch with values for the sink; task_end
 * returns the end of the last one. */
static inline uint64_t task_begin(const codec_task *task)
{
    uint64_t first = task->stretch->first, begin = task->sink->begin;
    return begin > first ? (begin - first) / TILE * TILE : 0;
}
static inline uint64_t task_end(const codec_task *task)
{
    const codec_stretch *s = task->stretch;
    uint64_t end = task->sink->end > s->first ? task->sink->end - s->first : 0;
    return end < s->count ? end : s->count;
}

/* A checked message with decompressed sections. Several threads may decode parts of it
 * at once. */
typedef struct codec_opened {
    pl_codec_message message; /* borrowed */
    size_t n;
    bool splits; /* whether a part is decoded in less time than the whole message */
    pl_buf raw;  /* decompressed sections, one after the other */
} codec_opened;
/* `out` must be all zeros, or one that was opened before, whose memory is used
 * again. */
pl_status codec_open(const pl_codec_message *m, size_t n, codec_opened *out);
void codec_opened_destroy(codec_opened *m);
/* Decodes a message into the sink. The values of a homomorphic message are added with
 * weight 1. */
pl_status codec_decode(const codec_opened *m, codec_sink *sink);

/* ---- codecs ---- */
pl_status f32_encode(codec_job *job);
pl_status bf16_encode(codec_job *job);
pl_status i8_encode(codec_job *job);
pl_status i4_encode(codec_job *job);
pl_status topk_encode(codec_job *job);
pl_status shared_encode(codec_job *job);
pl_status sketch_encode(codec_job *job);
pl_status f32_decode(const codec_task *task);
pl_status bf16_decode(const codec_task *task);
pl_status i8_decode(const codec_task *task);
pl_status i4_decode(const codec_task *task);
pl_status topk_decode(const codec_task *task);
pl_status shared_decode(const codec_task *task);
pl_status sketch_decode(const codec_task *task);

/* codec_shared.c: q = clamp(round(a 2^-e)); left = a - q 2^e. Returns the largest |a|
 * as bits. */
uint32_t shared_tile(const float a[TILE], int exponent, int32_t limit, int32_t q[TILE],
                     float left[TILE]);
/* Reads codes [at, at+n) of a section with `width` bytes per code; fills the rest of q
 * with zeros. */
void shared_load(const uint8_t *raw, size_t width, uint64_t at, size_t n,
                 int32_t q[TILE]);
float codec_power(int exponent); /* returns 2^exponent for -126..127 */
static inline uint32_t codec_float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline float codec_bits_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
/* Returns the largest |value| as bits: without the sign bit, floats and their bits have
 * the same order. */
CODEC_INLINE uint32_t codec_largest_bits(const float *x, int n)
{
    int32_t top = 0;
    for (int i = 0; i < n; i++) {
        int32_t bits = (int32_t)(codec_float_bits(x[i]) & 0x7fffffffu);
        top = bits > top ? bits : top;
    }
    return (uint32_t)top;
}

/* ---- codec_select.c ---- */
/* A value is kept if its |value|, as bits, is above `above`; of those equal to `above`,
 * the first `ties` are kept. */
typedef struct codec_choice {
    uint32_t above;
    size_t ties;
} codec_choice;
/* Chooses one threshold for the whole stretch (PL_SELECT_TAGC). */
pl_status select_stretch(const codec_job *job, codec_choice *out);
/* Chooses the k largest values of a tile. */
codec_choice select_tile(const float a[TILE], size_t k);
/* Writes the indices of the values of a tile that are kept, in rising order; zeros are
 * never kept. Subtracts the ties that it keeps from choice->ties. */
size_t select_indices(const float a[TILE], size_t n, codec_choice *choice,
                      uint16_t out[TILE]);
uint32_t select_top(const float a[TILE]); /* the largest |value| as bits */

#ifdef __cplusplus
}
#endif
#endif
