/* Codecs: how an update is encoded.
 *
 *   f32        4 bytes per parameter, exact
 *   bf16       2 bytes, rounded to nearest even
 *   i8         blocks of 256: a scale (f32) and 256 codes of 8 bits
 *   i4         blocks of 64: a scale (bf16) and 64 codes of 4 bits
 *   topk       the k largest of each 4096, as gaps and codes of 8 or 2 bits
 *   i8-shared  8 bits on a scale that all contributors share; homomorphic
 *   sketch16   the largest few, summed into cells of 16 bits (exact: TAGC, redone as
 *              lossless homomorphic compression); homomorphic
 *
 * Homomorphic: messages of a round can be added without decoding, in any order or tree,
 * and the sum decodes to the sum of the decoded messages, bit for bit. The worker
 * multiplies such an update by its weight alpha, so that the sum is the weighted mean;
 * for all other codecs the home applies alpha when it adds. In a homomorphic message
 * every stretch has integers on shared scales; parts for which the options say f32
 * become integers of 22 bits.
 *
 * Error feedback: an encoder with a residual e encodes a = w u + beta e, and the new
 * residual is e' = a - sent. Commit e' when the home has the update. If the home
 * refuses it, either restore the old e, or add the decoded message to e'.
 *
 * The role of a module's tensor (part) determines its codec; neighbours with the same
 * codec are sent as one stretch. docs/PROTOCOL.md 3.4 defines the bytes. A decoder
 * trusts no byte: lengths, counts, exponents and checksums are checked before a value
 * is touched.
 *
 * All functions are pure: they have no state, any thread may call them, and equal input
 * gives equal bytes on every machine.
 *
 * Read in this order: codec_internal (private types), codec_policy (options, roles),
 * codec (the door), codec_message (header, table, sections), codec_quant, codec_select,
 * codec_topk, codec_shared, codec_sketch, codec_combine, codec_round. */
#ifndef PL_CODEC_CODEC_H
#define PL_CODEC_CODEC_H
#include "modules/modules.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef enum pl_codec { /* these numbers are part of the protocol */
                        PL_CODEC_F32 = 1,
                        PL_CODEC_BF16,
                        PL_CODEC_I8,
                        PL_CODEC_I4,
                        PL_CODEC_TOPK,
                        PL_CODEC_SKETCH16,
                        PL_CODEC_I8_SHARED,
                        /* PL_CODEC_COUNT and the number after it are used only inside
                         * messages */
                        PL_CODEC_COUNT
} pl_codec;

typedef enum pl_role {
    PL_ROLE_SMALL, /* norms, biases, and tensors below options.small */
    PL_ROLE_ATTENTION_IN,
    PL_ROLE_ATTENTION_OUT,
    PL_ROLE_MLP,
    PL_ROLE_EMBED,
    PL_ROLE_HEAD,
    PL_ROLE_COUNT
} pl_role;

typedef enum pl_selector {
    PL_SELECT_EXACT, /* the k largest of every 4096; of equal ones, the lower index */
    PL_SELECT_TAGC,  /* values above one of 25 fixed thresholds */
    PL_SELECT_COUNT
} pl_selector;

typedef struct pl_codec_options {
    uint8_t codec[PL_ROLE_COUNT]; /* the pl_codec of each role */
    uint8_t selector;   /* how sketch16 selects values; topk always selects exactly */
    uint8_t value_bits; /* for topk: bits per value, 8 or 2 (default 2) */
    bool entropy;       /* compress sections by zstd if that saves 3 % or more */
    /* How many of every 4096 values topk and sketch16 keep: 1..4096 (default 64).
     * TAGC's selector keeps at most as many. */
    int32_t k;
    int32_t small; /* tensors with fewer elements have the role SMALL (default 4096) */
    /* factor of the residual at each encoding, 0..1 (default 1; topk 0.95) */
    double beta;
    double cells; /* for sketch16: cells per kept value, 1.05..16 (default 1.30) */
} pl_codec_options;

/* Values that all contributors of a round and module share. */
typedef struct pl_codec_round {
    uint64_t seed;      /* of sketches */
    int scale_exponent; /* E from pl_codec_exponent; only homomorphic codecs use it */
    int n_contributors; /* W, the most messages that one sum can have: 1..65535 */
    float weight;       /* alpha of this worker; only homomorphic codecs use it */
} pl_codec_round;

/* A tensor of a module: floats [first, first+count) of its region. */
typedef struct pl_codec_part {
    size_t first, count;
    int role; /* pl_role */
} pl_codec_part;

/* ---- options ---- */
/* Sets the options for the name of a codec: that codec for all roles but SMALL, which
 * gets f32. "tagc": sketch16 for MLP, embedding and head, with TAGC's selector and 819
 * of 4096 values (80 % zeros), and i8-shared for attention. topk and sketch16 keep 64
 * of 4096. The message of ERR_CONFIG names the known codecs. */
PL_MUST_CHECK pl_status pl_codec_options_default(const char *name,
                                                 pl_codec_options *out);
/* ERR_CONFIG: a number is out of its range, or a homomorphic codec (sketch16,
 * i8-shared) is combined with a codec other than f32. */
PL_MUST_CHECK pl_status pl_codec_options_check(const pl_codec_options *options);
bool pl_codec_is_homomorphic(const pl_codec_options *options);
/* Whether the codec is lossy, so that a residual makes sense. */
bool pl_codec_is_lossy(const pl_codec_options *options);
/* Whether the codec loses so much that codec.feedback auto uses a residual. */
bool pl_codec_drops_much(const pl_codec_options *options);
const char *pl_codec_name(pl_codec codec);

/* Writes the tensors of a module in order; they follow each other without gaps from 0
 * on. Returns their number; `parts` may be NULL. */
int pl_codec_parts(const pl_topology *topology, int module, pl_codec_part *parts);

/* Returns the exponent E for which 127 * 2^E is 4 to 8 times the root mean square of an
 * update with this L2 norm. Pass the update norm of the module's previous version. With
 * norm 0 (there is no version yet) the root mean square is assumed to be 2^-10. Larger
 * values are clipped, and the rest goes into the residual. */
int pl_codec_exponent(double norm, size_t n);

/* Returns the most bytes that a message, or a sum of W messages, can have. A longer
 * message can be refused unread. The options must have been checked. */
uint64_t pl_codec_bound(const pl_codec_options *options, const pl_codec_part *parts,
                        int n_parts, int n_contributors);

/* ---- encoding ---- */
/* Appends the message of one module's update to `out`.
 *
 *   update    [n], n = the sum of the parts' counts, which lie back to back from 0 on
 *   residual  [n] the old one in, the new one out; NULL: no error feedback
 *   round     may be NULL unless the options are homomorphic
 *
 * The encoder checks that its sketch can be decoded. If the sketch cannot be decoded,
 * the update is sent as a list, which can be added like a sketch. ERR_CONFIG: options;
 * ERR_ARG: parts or round; ERR_NUMERIC: a lossy codec met a value that is not finite
 * (f32 and bf16 carry it, and the decoder refuses it). After an error `residual` is
 * partly written. */
PL_MUST_CHECK pl_status pl_codec_encode_module(const pl_codec_options *options,
                                               const pl_codec_part *parts, int n_parts,
                                               const pl_codec_round *round,
                                               const float *update, float *residual,
                                               pl_buf *out);

/* ---- decoding ---- */
typedef struct pl_codec_message {
    const void *data;
    uint64_t bytes;
} pl_codec_message;

typedef struct pl_codec_info {
    bool homomorphic;
    int contributors;   /* number of messages in this sum; 1 if it is not a sum */
    int n_contributors; /* W; 0 unless homomorphic */
    uint64_t seed;      /* 0 unless homomorphic */
    int scale_exponent; /* 0 unless homomorphic */
} pl_codec_info;
/* Reads only the header and the table of a message. ERR_DATA. */
PL_MUST_CHECK pl_status pl_codec_inspect(const void *data, uint64_t bytes, size_t n,
                                         pl_codec_info *out);

/* Splits messages that lie one after the other: out[i] is the i-th of n. Reads and
 * checks only the lengths in the headers. ERR_DATA: there are not exactly n. */
PL_MUST_CHECK pl_status pl_codec_split(const void *data, uint64_t bytes, int n,
                                       pl_codec_message *out);

/* For a relay, which does not know the module: reads from the first bytes of a message
 * whether it claims to be homomorphic, and how many parameters it claims. Nothing is
 * checked. */
bool pl_codec_claims_homomorphic(const void *start, size_t bytes, uint64_t *n);

/* Adds a message: sum[i] += weight * update[i]. *norm gets the L2 norm of the decoded
 * update, without the weight. The weight is not used for a homomorphic message, which
 * contains it. If sum is NULL, the message is only checked, completely. ERR_DATA: the
 * bytes violate docs/PROTOCOL.md 3.4, and the message says how. ERR_NUMERIC: a value is
 * not finite. ERR_PEEL: a combined sketch cannot be decoded (decode its messages one by
 * one, as pl_codec_add_all does). After an error sum is partly written, so check
 * first. */
PL_MUST_CHECK pl_status pl_codec_add(const void *data, uint64_t bytes, size_t n,
                                     float weight, float *sum, double *norm);

/* A batch of consecutive messages of a round. */
typedef struct pl_codec_run {
    const pl_codec_message *messages;
    const float *weights; /* the messages' weights; NULL: each is 1 */
    int n;
} pl_codec_run;

/* Gives the messages of a round in batches (runs), so that they need not all be in
 * memory. */
typedef struct pl_codec_source {
    /* Lends the next messages until the next call; n is 0 after the last one. With
     * `anew` the source starts again from the first message. */
    pl_status (*next)(void *context, bool anew, pl_codec_run *out);
    void *context;
} pl_codec_source;

/* Gives messages one by one; data is NULL after the last one. A new reader of source S
 * is {.source = S}. */
typedef struct pl_codec_walk {
    pl_codec_source source;
    pl_codec_run run;
    int at;
    bool begun;
} pl_codec_walk;
PL_MUST_CHECK pl_status pl_codec_next(pl_codec_walk *walk, pl_codec_message *out,
                                      float *weight);

/* A source whose messages are a list in memory; the list is borrowed. */
typedef struct pl_codec_list {
    const pl_codec_message *messages;
    const float *weights; /* or NULL */
    int n, at;            /* at: index of the next message */
} pl_codec_list;
pl_codec_source pl_codec_source_of(pl_codec_list *list);

/* Adds the sum of homomorphic messages to `sum`; *norm gets the L2 norm of that sum.
 * The messages are combined first and decoded once. If that sum cannot be decoded, each
 * message is decoded by itself. The result has the same bits in both cases, and for any
 * order. Errors as for pl_codec_add and pl_codec_combine, and ERR_NOMEM. ERR_PEEL then
 * means that a single message cannot be decoded. */
PL_MUST_CHECK pl_status pl_codec_add_all(const pl_codec_source *messages, size_t n,
                                         float *sum, double *norm);
/* Adds all messages in their order: sum[i] += weight * update[i]. The bits do not
 * depend on the number of threads, pl_codec_add_threads (the number of processors, at
 * most 4). */
int pl_codec_add_threads(void);
PL_MUST_CHECK pl_status pl_codec_add_each(const pl_codec_source *messages, size_t n,
                                          float *sum);

/* Appends the message that is the sum of a and b. ERR_UNSUPPORTED: a or b is not
 * homomorphic. ERR_DATA: they are damaged, belong to different rounds or layouts, or
 * have more than W contributors. ERR_PEEL: the sum needs the elements of a sketch,
 * which cannot be decoded; forward both messages unchanged. */
PL_MUST_CHECK pl_status pl_codec_combine(const void *a, uint64_t a_bytes, const void *b,
                                         uint64_t b_bytes, pl_buf *out);

#ifdef __cplusplus
}
#endif
#endif
