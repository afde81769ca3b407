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
 * for all other codecs the home applies alpha when it adds. Every stretch of a
 * homomorphic message has integers on shared scales; parts for which the options say
 * f32 are integers of 22 bits there.
 *
 * Error feedback: an encoder with a residual e encodes a = w u + beta e, and the new
 * residual is e' = a - sent. Commit e' when the home has the update. If the home
 * refuses it, either restore the old e, or add the decoded message to e'.
 *
 * The role of a module's tensor (part) determines its codec; neighbours with the same
 * codec are sent as one stretch. docs/PROTOCOL.md 3.4 defines the bytes. A decoder
 * trusts none of them: lengths, counts, exponents and checksums are compared before a
 * value is touched.
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

typedef enum pl_codec { /* the numbers of the protocol */
                        PL_CODEC_F32 = 1,
                        PL_CODEC_BF16,
                        PL_CODEC_I8,
                        PL_CODEC_I4,
                        PL_CODEC_TOPK,
                        PL_CODEC_SKETCH16,
                        PL_CODEC_I8_SHARED,
                        PL_CODEC_COUNT /* this number and the next one occur only in
                                          messages */
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
    PL_SELECT_EXACT, /* the k largest of every 4096, ties to the lower index */
    PL_SELECT_TAGC,  /* the first of 25 fixed thresholds that drops enough */
    PL_SELECT_COUNT
} pl_selector;

typedef struct pl_codec_options {
    uint8_t codec[PL_ROLE_COUNT]; /* the pl_codec of each role */
    uint8_t selector;             /* for sketch16; topk is always exact */
    uint8_t value_bits;           /* for topk: 8 or 2 (default 2) */
    bool entropy;                 /* compress by zstd if that saves 3 % or more */
    /* Number of values of every 4096 that topk and sketch16 keep; 1..4096 (default 64).
     * An upper bound for TAGC's selector. */
    int32_t k;
    int32_t small; /* tensors with fewer elements have the role SMALL (default 4096) */
    /* factor of the residual at each encoding, 0..1 (default 1; topk 0.95) */
    double beta;
    double cells; /* for sketch16: cells per kept value, 1.05..16 (default 1.30) */
} pl_codec_options;

/* Values that all contributors of a round and module share. */
typedef struct pl_codec_round {
    uint64_t seed;      /* of sketches */
    int scale_exponent; /* E of pl_codec_exponent; used by homomorphic codecs */
    int n_contributors; /* W: the most messages in one sum, 1..65535 */
    float weight;       /* alpha of this worker; used by homomorphic codecs */
} pl_codec_round;

/* A tensor of a module: floats [first, first+count) of its region. */
typedef struct pl_codec_part {
    size_t first, count;
    int role; /* pl_role */
} pl_codec_part;

/* ---- options ---- */
/* The options of a codec's name: that codec for all roles except SMALL, which has f32.
 * "tagc": sketch16 for MLP, embedding and head, with TAGC's selector and 819 of 4096
 * values (80 % zeros), and i8-shared for attention. topk and sketch16 keep 64 of 4096.
 * The message of ERR_CONFIG names the known codecs. */
PL_MUST_CHECK pl_status pl_codec_options_default(const char *name,
                                                 pl_codec_options *out);
/* ERR_CONFIG: a number is out of its range, or a homomorphic codec (sketch16,
 * i8-shared) is combined with a codec other than f32. */
PL_MUST_CHECK pl_status pl_codec_options_check(const pl_codec_options *options);
bool pl_codec_is_homomorphic(const pl_codec_options *options);
/* Whether the codec loses anything, so that a residual makes sense. */
bool pl_codec_is_lossy(const pl_codec_options *options);
/* Whether it loses so much that a residual pays off (codec.feedback auto). */
bool pl_codec_drops_much(const pl_codec_options *options);
const char *pl_codec_name(pl_codec codec);

/* The tensors of a module in order, without gaps from 0 on. Returns their number;
 * `parts` may be NULL. */
int pl_codec_parts(const pl_topology *topology, int module, pl_codec_part *parts);

/* The exponent E for which 127 * 2^E is 4 to 8 times the root mean square of an update
 * with this L2 norm, which is that of the module's previous version. With norm 0 (there
 * is no version yet) the root mean square is assumed to be 2^-10. Larger values are
 * clipped, and the rest goes into the residual. */
int pl_codec_exponent(double norm, size_t n);

/* The most bytes that a message, or a sum of W messages, can have; a longer one need
 * not be read. The options must have been checked. */
uint64_t pl_codec_bound(const pl_codec_options *options, const pl_codec_part *parts,
                        int n_parts, int n_contributors);

/* ---- encoding ---- */
/* Appends the message of one module's update to `out`.
 *
 *   update    [n], n = the sum of the parts' counts, which lie back to back from 0 on
 *   residual  [n] the old one in, the new one out; NULL: no error feedback
 *   round     may be NULL unless the options are homomorphic
 *
 * The encoder checks that its sketch can be decoded. If it cannot, the update is sent
 * as a list, which can be added like a sketch. ERR_CONFIG: options; ERR_ARG: parts or
 * round; ERR_NUMERIC: a lossy codec met a value that is not finite (f32 and bf16 carry
 * it, and the decoder refuses it). After an error `residual` is partly written. */
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
    int contributors;   /* number of messages in this sum; 1 unless combined */
    int n_contributors; /* W; 0 unless homomorphic */
    uint64_t seed;      /* 0 unless homomorphic */
    int scale_exponent; /* 0 unless homomorphic */
} pl_codec_info;
/* Reads header and table only. ERR_DATA. */
PL_MUST_CHECK pl_status pl_codec_inspect(const void *data, uint64_t bytes, size_t n,
                                         pl_codec_info *out);

/* Splits messages that lie one after the other: out[i] is the i-th of n. It uses only
 * the lengths in their headers and checks nothing else. ERR_DATA: there are not exactly
 * n. */
PL_MUST_CHECK pl_status pl_codec_split(const void *data, uint64_t bytes, int n,
                                       pl_codec_message *out);

/* What the first bytes of a message claim, for a relay that does not know the module:
 * whether it is homomorphic, and how many parameters it has. Nothing is checked. */
bool pl_codec_claims_homomorphic(const void *start, size_t bytes, uint64_t *n);

/* sum[i] += weight * update[i]. *norm gets the L2 norm of the decoded update, without
 * the weight. The weight is not used for a homomorphic message, which contains it. If
 * sum is NULL, the message is only checked, completely. ERR_DATA: the bytes violate
 * docs/PROTOCOL.md 3.4, and the message says how. ERR_NUMERIC: a value is not finite.
 * ERR_PEEL: a combined sketch cannot be decoded (decode its messages one by one, as
 * pl_codec_add_all does). After an error sum is partly written, so check first. */
PL_MUST_CHECK pl_status pl_codec_add(const void *data, uint64_t bytes, size_t n,
                                     float weight, float *sum, double *norm);

/* Consecutive messages of a round. */
typedef struct pl_codec_run {
    const pl_codec_message *messages;
    const float *weights; /* weights; NULL: 1 each */
    int n;
} pl_codec_run;

/* The messages of a round in runs, so that a reader need not have all of them in
 * memory. */
typedef struct pl_codec_source {
    /* Lends the next messages until the next call; n is 0 after the last one. With
     * `anew` it starts again from the first. */
    pl_status (*next)(void *context, bool anew, pl_codec_run *out);
    void *context;
} pl_codec_source;

/* Gives messages one by one; data is NULL after the last one. It begins as {.source =
 * S}, before the first message. */
typedef struct pl_codec_walk {
    pl_codec_source source;
    pl_codec_run run;
    int at;
    bool begun;
} pl_codec_walk;
PL_MUST_CHECK pl_status pl_codec_next(pl_codec_walk *walk, pl_codec_message *out,
                                      float *weight);

/* A source over a list in memory, which is borrowed. */
typedef struct pl_codec_list {
    const pl_codec_message *messages;
    const float *weights; /* or NULL */
    int n, at;            /* at: index of the next message */
} pl_codec_list;
pl_codec_source pl_codec_source_of(pl_codec_list *list);

/* sum[i] += the sum of homomorphic messages; *norm is its L2 norm. The messages are
 * combined first and decoded once. If that sum cannot be decoded, each message is
 * decoded by itself. The result has the same bits in both cases, and for any order.
 * Errors as for pl_codec_add and pl_codec_combine, and ERR_NOMEM. ERR_PEEL then means
 * that a single message cannot be decoded. */
PL_MUST_CHECK pl_status pl_codec_add_all(const pl_codec_source *messages, size_t n,
                                         float *sum, double *norm);
/* sum[i] += weight * update[i] for each message, in their order, by several threads.
 * The bits do not depend on the number of threads, which is pl_codec_add_threads: the
 * number of processors, at most 4. */
int pl_codec_add_threads(void);
PL_MUST_CHECK pl_status pl_codec_add_each(const pl_codec_source *messages, size_t n,
                                          float *sum);

/* Appends the message that is the sum of a and b. ERR_UNSUPPORTED: a or b is not
 * homomorphic. ERR_DATA: they are damaged, of different rounds or layouts, or have more
 * than W contributors. ERR_PEEL: one sketch had to be decoded and cannot be; forward
 * both messages as they are. */
PL_MUST_CHECK pl_status pl_codec_combine(const void *a, uint64_t a_bytes, const void *b,
                                         uint64_t b_bytes, pl_buf *out);

#ifdef __cplusplus
}
#endif
#endif
