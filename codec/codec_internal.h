/* Private to the codecs: the types for stretches and tiles, and the writer and reader
 * of messages.
 *
 * A stretch is a series of adjacent tensors with the same codec. In a message a stretch
 * has a record (32 bytes) and up to three sections, which contain scales, codes,
 * indices, a bitmap or cells. Encoders write uncompressed sections. The writer of the
 * message compresses them and adds checksums.
 *
 * A tile has 4096 values; values beyond the end of the stretch are zero. So loops over
 * a tile have a constant length and the compiler vectorises them, and a tile fits into
 * the L1 cache. */
#pragma once
#include "codec/codec.h"

/* Compiles a function once for each vector length; the version for this processor is
 * chosen when the program starts. All versions give the same bits: products and sums
 * are not contracted to fused operations, and sums are made in a fixed number of lanes.
 * With sanitizers only one version is compiled, because the version is chosen before
 * the sanitizer starts. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                 \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&                 \
    defined(__OPTIMIZE__)
#define CODEC_WIDE                                                                     \
    __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define CODEC_WIDE
#endif

/* What CODEC_WIDE functions call is inlined, to be compiled for the same vectors. */
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
    /* with more contributors the codes of a sketch would be too coarse: with this
     * number of contributors a code is between -7 and 7 */
    SKETCH_W_MAX = 4096
};

/* Codec numbers that occur only in messages. */
enum { WIRE_I22_SHARED = PL_CODEC_COUNT, WIRE_LIST16, WIRE_COUNT };
/* variant of f32 and bf16: the bytes with the exponents have their own section */
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
    uint32_t cells;     /* sketch16: number of cells in each third of a full segment */
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
/* Returns the tensors of a module, *n of them; free them with pl_free. */
pl_codec_part *codec_parts_of(const pl_topology *topology, int module, int *n);
int codec_of_part(const pl_codec_options *o, const pl_codec_part *part);
/* Returns the number of values to keep of `len` values: k of every 4096, rounded up. */
size_t codec_budget(const pl_codec_options *o, size_t len);
/* Returns the number of cells in a third of a full segment. It is enough for the union
 * of the elements that W contributors select independently. */
uint32_t codec_cells(const pl_codec_options *o, int n_contributors);
bool codec_wire_homomorphic(int codec);
/* codec_limit returns the largest magnitude of a contributor's code.
 * codec_stretch_exponent returns the exponent of a stretch's scale. */
int32_t codec_limit(int codec, int n_contributors);
int codec_stretch_exponent(int codec, const pl_codec_round *round);
uint32_t codec_segment_cells(uint32_t cells, size_t len);
uint64_t codec_sketch_cells(uint32_t cells, uint64_t count);
/* Returns the number of bytes per code in a sum of this many messages. */
size_t codec_shared_width(int codec, uint32_t contributors);
/* Writes the raw size of each section of a stretch (for the indices of topk only a
 * lower bound), and returns the number of sections. */
int codec_raw_bytes(const codec_stretch *s, uint32_t contributors,
                    uint64_t raw[SECTIONS_MAX]);

/* ---- codec_message.c ---- */
/* To write a message, call codec_writer_begin, which reserves the header and the table;
 * then codec_writer_stretch for each stretch; then codec_writer_end. */
typedef struct codec_writer {
    pl_buf *out;
    size_t start, table_at, table_end;
    codec_header header;
} codec_writer;
void codec_writer_begin(codec_writer *w, const codec_header *header, pl_buf *out);
/* sections[i].data: the uncompressed bytes; `in_place`: at the end of `out`. */
pl_status codec_writer_stretch(codec_writer *w, const codec_stretch *s, bool in_place);
void codec_writer_end(codec_writer *w);

/* To read a message, call codec_reader_open, which checks the header and the table
 * completely; then codec_reader_next for each stretch. */
typedef struct codec_reader {
    const uint8_t *data, *table, *body;
    codec_header header;
    uint64_t next; /* index of the next element */
} codec_reader;
pl_status codec_reader_open(codec_reader *r, const void *data, uint64_t bytes,
                            size_t n);
bool codec_reader_next(codec_reader *r, codec_stretch *s);
/* Checks a section's checksum; decompresses it to the end of `scratch` if needed. */
pl_status codec_section_open(const codec_section *section, pl_buf *scratch,
                             const uint8_t **raw);

/* ---- codec.c ---- */
/* The encoding of one stretch: of a = weight * update + beta * residual. */
typedef struct codec_job {
    const pl_codec_options *options;
    const pl_codec_round *round; /* NULL unless the codec is homomorphic */
    const float *update;         /* the stretch's part of the update */
    float *residual; /* the stretch's part of the residual; NULL: no error feedback */
    float weight, beta;
    codec_stretch stretch;
    codec_writer *writer;
    pl_buf scratch; /* memory for uncompressed sections that are not written in place */
    bool in_place;
} codec_job;

/* Returns a pointer to the values to encode from `at` to `at` + TILE - 1. They are
 * written to `tile` if they must be computed; else the pointer is into the update. */
const float *job_tile(const codec_job *job, uint64_t at, float tile[TILE]);
/* Stores in the residual, for each value from `at` on, the part that was not sent. */
void job_keep(const codec_job *job, uint64_t at, const float left[TILE]);
size_t job_tile_length(const codec_job *job, uint64_t at);
/* Returns ERR_NUMERIC if a value of the tile at `at` is not finite. `top` is the bit
 * pattern of the tile's largest |value|. */
pl_status job_check_finite(const codec_job *job, uint64_t at, uint32_t top);
/* Reserves memory for the uncompressed sections of the stretch. at[i] gets the address
 * of section i. `exact` says that the sizes are final; if not, the second section gets
 * room for the longest indices of topk. */
void job_sections(codec_job *job, bool exact, uint8_t *at[SECTIONS_MAX]);

/* A sink gets decoded values, and ignores those outside of [begin, end). */
typedef struct codec_sink {
    float *sum; /* the vector to add to, for the complete update; or NULL */
    float weight;
    uint64_t begin, end; /* the range of elements of the update */
    double squares;      /* sum of the squares of the values so far */
} codec_sink;
pl_status sink_tile(codec_sink *sink, uint64_t first, const float tile[TILE], size_t n);
pl_status sink_value(codec_sink *sink, uint64_t index, float value);

typedef struct codec_task {
    const codec_header *header;
    const codec_stretch *stretch;
    const uint8_t *raw[SECTIONS_MAX];
    codec_sink *sink;
} codec_task;

/* task_begin returns the start of the stretch's first tile that has values for the
 * sink; task_end returns the position after the last value for the sink. Both count
 * from the start of the stretch. */
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

/* A checked message with decompressed sections, which threads may decode together. */
typedef struct codec_opened {
    pl_codec_message message; /* borrowed */
    size_t n;
    /* whether decoding a part takes less time than decoding the complete message */
    bool splits;
    pl_buf raw; /* decompressed sections, one after the other; the owner frees it */
} codec_opened;
/* `out` is all zeros, or was opened before: its memory is used again. */
pl_status codec_open(const pl_codec_message *m, size_t n, codec_opened *out);
/* Decodes a message into the sink, which adds homomorphic values with weight 1. */
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

/* (codec_shared.c) With e = `exponent`, computes q = round(a 2^-e), clamped to
 * -limit..limit, and left = a - q 2^e. Returns the bit pattern of the largest |a|. */
uint32_t shared_tile(const float a[TILE], int exponent, int32_t limit, int32_t q[TILE],
                     float left[TILE]);
/* Reads n codes of `width` bytes, from number `at` on; the rest of q: zeros. */
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
/* Rounds to nearest even by an addition: a float between 2^23 and 2^24 has no fraction
 * bits, so if x is added to 1.5 * 2^23, the rounded x is in the low bits of the sum.
 * |x| is at most 2^22. */
CODEC_INLINE int32_t codec_round(float x)
{
    return (int32_t)codec_float_bits(x + 12582912.0f) - 0x4b400000;
}
/* Returns the bit pattern of the largest |value|. Without the sign bit, bit patterns of
 * floats have the same order as the floats. */
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
/* Says which values are kept. A value is kept if the bit pattern of its magnitude is
 * greater than `above`. Among the values with a bit pattern equal to `above`, the first
 * `ties` are kept. */
typedef struct codec_choice {
    uint32_t above;
    size_t ties;
} codec_choice;
/* Chooses one threshold for the complete stretch (PL_SELECT_TAGC). */
pl_status select_stretch(const codec_job *job, codec_choice *out);
/* Chooses the k largest values of a tile. */
codec_choice select_tile(const float a[TILE], size_t k);
/* Writes the indices of the kept values of a tile, in rising order, and returns their
 * number. Zeros are never kept. The number of kept values that equal choice->above is
 * subtracted from choice->ties. */
size_t select_indices(const float a[TILE], size_t n, codec_choice *choice,
                      uint16_t out[TILE]);
/* returns the bit pattern of the largest |value| */
uint32_t select_top(const float a[TILE]);
