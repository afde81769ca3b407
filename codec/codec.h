/* Codecs: how an update travels.
 *
 *   f32        4 bytes a parameter, exact
 *   bf16       2 bytes, rounded to nearest even
 *   i8         blocks of 256: a scale (f32) and 256 codes of 8 bits
 *   i4         blocks of 64: a scale (bf16) and 64 codes of 4 bits
 *   topk       the k largest of each 4096, as gaps and codes of 8 or 2 bits
 *   i8-shared  8 bits on a scale that all contributors share; homomorphic
 *   sketch16   the largest few, summed into cells of 16 bits (exact; TAGC redone as in
 *              lossless homomorphic compression); homomorphic
 *
 * Homomorphic: messages of a round are added without decoding, in any order or tree,
 * and the sum decodes to the sum of the decoded messages, bit for bit. The worker has
 * then multiplied by its weight alpha, so that the sum is the weighted mean; of all
 * other messages the home applies alpha when it adds. Every stretch of a homomorphic
 * message is integers on shared scales; what options call f32 are 22-bit ones there.
 *
 * Error feedback: an encoder with a residual e sends a = w u + beta e and leaves
 * e' = a - sent. Commit e' when the home has the update. If it refuses it, either put
 * back the e that was there, or add what the message decodes to.
 *
 * A module's tensors (parts) choose their codec by role; neighbours with the same codec
 * travel as one stretch. Bytes: docs/PROTOCOL.md 3.4. A decoder trusts none of them:
 * lengths, counts, exponents and checksums are compared before a value is touched.
 *
 * All functions are pure: no state, any thread, equal input gives equal bytes on every
 * machine.
 *
 * Read in this order: codec_internal (private nouns), codec_policy (options, roles),
 * codec (the door), codec_message (header, table, sections), codec_quant,
 * codec_select, codec_topk, codec_shared, codec_sketch, codec_combine, codec_round.
 */
#ifndef PL_CODEC_CODEC_H
#define PL_CODEC_CODEC_H
#include "modules/modules.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef enum pl_codec { /* numbers of the protocol */
                        PL_CODEC_F32 = 1,
                        PL_CODEC_BF16,
                        PL_CODEC_I8,
                        PL_CODEC_I4,
                        PL_CODEC_TOPK,
                        PL_CODEC_SKETCH16,
                        PL_CODEC_I8_SHARED,
                        PL_CODEC_COUNT /* this and the next only stand in messages */
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
    uint8_t codec[PL_ROLE_COUNT]; /* pl_codec of each role */
    uint8_t selector;             /* of sketch16; topk is always exact */
    uint8_t value_bits;           /* of topk: 8 or 2 (2) */
    bool entropy;                 /* zstd where it saves 3 % or more */
    int32_t k;     /* of every 4096, for topk and sketch16; 1..4096 (64). An upper
                      bound for TAGC's selector */
    int32_t small; /* elements; smaller tensors have the role SMALL (4096) */
    double beta;   /* decay of the residual, 0..1 (1; topk 0.95) */
    double cells;  /* of sketch16, cells a key: 1.05..16 (1.30) */
} pl_codec_options;

/* What all contributors of a round and module share. */
typedef struct pl_codec_round {
    uint64_t seed;      /* of sketches */
    int scale_exponent; /* E of pl_codec_exponent; used by homomorphic codecs */
    int n_contributors; /* W, most messages in one sum, 1..65535 */
    float weight;       /* alpha of this worker; used by homomorphic codecs */
} pl_codec_round;

/* A tensor of a module: floats [first, first+count) of its region. */
typedef struct pl_codec_part {
    size_t first, count;
    int role; /* pl_role */
} pl_codec_part;

/* ---- options ---- */
/* A codec's name: that codec for all roles but SMALL, which is f32. "tagc": sketch16
 * for MLP, embedding and head, with TAGC's selector and 819 of 4096 values (80 %
 * zeros), attention in i8-shared. Others keep 64 of 4096 (topk, sketch16). ERR_CONFIG
 * names the known ones. */
PL_MUST_CHECK pl_status pl_codec_options_default(const char *name,
                                                 pl_codec_options *out);
/* ERR_CONFIG: a number out of its range, or homomorphic codecs (sketch16, i8-shared)
 * beside others than f32. */
PL_MUST_CHECK pl_status pl_codec_options_check(const pl_codec_options *options);
bool pl_codec_is_homomorphic(const pl_codec_options *options);
/* Whether anything is lost, that is, whether a residual is worth keeping. */
bool pl_codec_is_lossy(const pl_codec_options *options);
/* Whether so much is lost that a residual pays (codec.feedback auto). */
bool pl_codec_drops_much(const pl_codec_options *options);
const char *pl_codec_name(pl_codec codec);

/* The tensors of a module in order, back to back from 0 on. Returns the count; `parts`
 * may be NULL. */
int pl_codec_parts(const pl_topology *topology, int module, pl_codec_part *parts);

/* E, so that 127 * 2^E is 4 to 8 times the root mean square of an update of this L2
 * norm: that of the module's previous version. norm 0 (no version yet): 2^-10 is
 * taken for the root mean square. What lies outside is clipped into the residual. */
int pl_codec_exponent(double norm, size_t n);

/* Most bytes of a message, also of one that sums W others: what is longer needs not be
 * read. The options must be checked. */
uint64_t pl_codec_bound(const pl_codec_options *options, const pl_codec_part *parts,
                        int n_parts, int n_contributors);

/* ---- encoding ---- */
/* Appends the message of one module's update to `out`.
 *
 *   update    [n], n = the sum of the parts' counts, which lie back to back from 0 on
 *   residual  [n] e in, e' out; NULL encodes without error feedback (loses what is
 * lost) round     may be NULL unless the options are homomorphic
 *
 * A sketch is checked to come apart by itself; one that does not is sent as a list,
 * which adds like a sketch. ERR_CONFIG: options; ERR_ARG: parts or round; ERR_NUMERIC:
 * a lossy codec met a value that is not finite (f32 and bf16 carry it, and the decoder
 * refuses it). After an error `residual` is partly written. */
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
    int contributors;   /* messages in this sum; 1 unless combined */
    int n_contributors; /* W; 0 unless homomorphic */
    uint64_t seed;      /* 0 unless homomorphic */
    int scale_exponent; /* 0 unless homomorphic */
} pl_codec_info;
/* Header and table only. ERR_DATA. */
PL_MUST_CHECK pl_status pl_codec_inspect(const void *data, uint64_t bytes, size_t n,
                                         pl_codec_info *out);

/* Messages that lie one behind the other: out[i] is the i-th of n. By their headers'
 * lengths alone; what is in them is theirs to check. ERR_DATA: there are not exactly n.
 */
PL_MUST_CHECK pl_status pl_codec_split(const void *data, uint64_t bytes, int n,
                                       pl_codec_message *out);

/* What the first bytes of a message claim, for who knows no module (a relay): whether
 * it is homomorphic, and of how many parameters. Nothing is checked. */
bool pl_codec_claims_homomorphic(const void *start, size_t bytes, uint64_t *n);

/* sum[i] += weight * update[i]; *norm gets the L2 norm of the decoded update (weight
 * left out). Of a homomorphic message the weight is not used: it is in the message.
 * sum may be NULL (validation only, which is complete). ERR_DATA: not what 3.4 says,
 * named; ERR_NUMERIC: a value that is not finite; ERR_PEEL: a combined sketch that
 * cannot be decoded (decode its messages one by one, as pl_codec_add_all does). After
 * an error sum is partly written: validate first. */
PL_MUST_CHECK pl_status pl_codec_add(const void *data, uint64_t bytes, size_t n,
                                     float weight, float *sum, double *norm);

/* Messages that follow one another. */
typedef struct pl_codec_run {
    const pl_codec_message *messages;
    const float *weights; /* or NULL: 1 each */
    int n;
} pl_codec_run;

/* The messages of a round in runs: a reader need not have all of them in memory. */
typedef struct pl_codec_source {
    /* Lends the next ones until the next call; n 0 behind the last one. With `anew` the
     * first ones. */
    pl_status (*next)(void *context, bool anew, pl_codec_run *out);
    void *context;
} pl_codec_source;

/* One by one; data NULL behind the last one. {.source = S} is at the first one. */
typedef struct pl_codec_walk {
    pl_codec_source source;
    pl_codec_run run;
    int at;
    bool begun;
} pl_codec_walk;
PL_MUST_CHECK pl_status pl_codec_next(pl_codec_walk *walk, pl_codec_message *out,
                                      float *weight);

/* Those of a list in memory, borrowed. */
typedef struct pl_codec_list {
    const pl_codec_message *messages;
    const float *weights; /* or NULL */
    int n, at;            /* at: that come next */
} pl_codec_list;
pl_codec_source pl_codec_source_of(pl_codec_list *list);

/* sum[i] += the sum of homomorphic messages, *norm its L2 norm. They are combined first
 * and decoded once; if that sum does not come apart, each is decoded by itself: the
 * same result, bit for bit, as for any order of them. Errors as of add and combine, and
 * ERR_NOMEM; ERR_PEEL then means that a message by itself does not come apart. */
PL_MUST_CHECK pl_status pl_codec_add_all(const pl_codec_source *messages, size_t n,
                                         float *sum, double *norm);
/* sum[i] += weight * update[i] of each message, in their order, by several threads: the
 * same bits whatever their number, which pl_codec_add_threads tells: the machine's, at
 * most 4. */
int pl_codec_add_threads(void);
PL_MUST_CHECK pl_status pl_codec_add_each(const pl_codec_source *messages, size_t n,
                                          float *sum);

/* Appends the message that stands for a and b together. ERR_UNSUPPORTED: not
 * homomorphic; ERR_DATA: damaged, of different rounds or layouts, or more than W
 * contributors; ERR_PEEL: one sketch had to be decoded and does not come apart: forward
 * both as they are. */
PL_MUST_CHECK pl_status pl_codec_combine(const void *a, uint64_t a_bytes, const void *b,
                                         uint64_t b_bytes, pl_buf *out);

#ifdef __cplusplus
}
#endif
#endif
