/* Codecs: ways to encode an update as a message.
 *
 *   f32        4 bytes per parameter, exact
 *   bf16       2 bytes, rounded to nearest even
 *   i8         blocks of 256: a scale (f32) and 256 codes of 8 bits
 *   i4         blocks of 64: a scale (bf16) and 64 codes of 4 bits
 *   topk       the k largest of each 4096 values: index gaps, and codes of 8 or 2 bits
 *   i8-shared  8 bits, with a scale that all contributors share; homomorphic
 *   sketch16   the largest values, summed into cells of 16 bits (the idea of TAGC, but
 *              the codes of the kept values are summed exactly); homomorphic
 *
 * A codec is homomorphic if the messages of a round can be added without decoding them,
 * in any order or tree, and the sum decodes to exactly the sum of the decoded messages,
 * bit for bit. With a homomorphic codec the worker multiplies its update by the weight
 * alpha, so that the sum is the weighted mean. With any other codec the home multiplies
 * by alpha when it adds. All values of a homomorphic message are integers, with scales
 * that the contributors share. Tensors for which the options say f32 are sent as
 * integers of 22 bits in such a message.
 *
 * Error feedback: for an update u with weight w (alpha if the codec is homomorphic,
 * else 1) and a residual e, the encoder encodes a = w u + beta e. The new residual e'
 * is a minus the values that were sent. Keep e' if the home accepts the update. If the
 * home refuses the update, either restore the old e, or add the decoded message to e'.
 *
 * A tensor of a module is called a part. The role of a part determines its codec.
 * Adjacent parts with the same codec are sent together as one stretch. docs/PROTOCOL.md
 * 3.4 defines the bytes. A decoder does not trust a message: it checks lengths, counts,
 * exponents and checksums before it uses a value.
 *
 * All functions are pure: they keep no state, any thread may call them, and equal input
 * gives equal bytes on every machine.
 *
 * Read the files in this order: codec_internal (private types), codec_policy (options,
 * roles), codec (the public functions), codec_message (header, table, sections),
 * codec_quant, codec_select, codec_topk, codec_shared, codec_sketch, codec_combine,
 * codec_round. */
#pragma once
#include "modules/modules.h"

typedef enum pl_codec { /* these numbers are part of the protocol */
                        PL_CODEC_F32 = 1,
                        PL_CODEC_BF16,
                        PL_CODEC_I8,
                        PL_CODEC_I4,
                        PL_CODEC_TOPK,
                        PL_CODEC_SKETCH16,
                        PL_CODEC_I8_SHARED,
                        /* messages also use this number and the next one, for codecs
                         * that cannot be configured (codec_internal.h) */
                        PL_CODEC_COUNT
} pl_codec;

typedef enum pl_role {
    /* norms, biases, and tensors with fewer elements than options.small */
    PL_ROLE_SMALL,
    PL_ROLE_ATTENTION_IN,
    PL_ROLE_ATTENTION_OUT,
    PL_ROLE_MLP,
    PL_ROLE_EMBED,
    PL_ROLE_HEAD,
    PL_ROLE_COUNT
} pl_role;

typedef enum pl_selector {
    /* the k largest magnitudes of every 4096; of equal values, the lower index */
    PL_SELECT_EXACT,
    PL_SELECT_TAGC, /* the values whose magnitude is above one of 25 fixed thresholds */
    PL_SELECT_COUNT
} pl_selector;

typedef struct pl_codec_options {
    uint8_t codec[PL_ROLE_COUNT]; /* the pl_codec of each role */
    uint8_t selector;   /* how sketch16 selects values; topk always selects exactly */
    uint8_t value_bits; /* for topk: bits per value, 8 or 2 (default 2) */
    /* whether to compress a section with zstd if that saves 3 % or more */
    bool entropy;
    /* How many of every 4096 values topk and sketch16 keep: 1..4096 (default 64). With
     * PL_SELECT_TAGC at most this many are kept on average. */
    int32_t k;
    int32_t small; /* tensors with fewer elements have the role SMALL (default 4096) */
    /* factor of the residual at each encoding, 0..1 (default 1; for topk 0.95) */
    double beta;
    double cells; /* for sketch16: cells per kept value, 1.05..16 (default 1.30) */
} pl_codec_options;

/* Values for a module in a round, the same for all contributors, except `weight`. */
typedef struct pl_codec_round {
    uint64_t seed;      /* seed of the sketches' hash function */
    int scale_exponent; /* E from pl_codec_exponent; only homomorphic codecs use it */
    int n_contributors; /* W, the most messages that one sum can have: 1..65535 */
    float weight;       /* alpha of this worker; only homomorphic codecs use it */
} pl_codec_round;

/* A tensor of a module: the values [first, first+count) of the module. */
typedef struct pl_codec_part {
    size_t first, count;
    int role; /* pl_role */
} pl_codec_part;

/* ---- options ---- */
/* Sets the default options for the codec `name`. All roles get this codec, except
 * SMALL, which gets f32. The name "tagc" means sketch16 with PL_SELECT_TAGC for MLP,
 * embedding and head, and i8-shared for attention. With tagc a sketch keeps 819 of 4096
 * values; with topk and sketch16, 64 of 4096 are kept. ERR_CONFIG names the codecs. */
pl_status pl_codec_options_default(const char *name, pl_codec_options *out);
/* ERR_CONFIG: a number is out of its range, or a homomorphic codec (sketch16,
 * i8-shared) is combined with a codec other than f32. */
pl_status pl_codec_options_check(const pl_codec_options *options);
bool pl_codec_is_homomorphic(const pl_codec_options *options);
/* Returns whether the codec is lossy, so that error feedback is useful. */
bool pl_codec_is_lossy(const pl_codec_options *options);
/* Whether the codec loses so much that runs use error feedback with it. */
bool pl_codec_drops_much(const pl_codec_options *options);
const char *pl_codec_name(pl_codec codec);

/* Writes the tensors of a module to `parts`, which may be NULL, and returns their
 * number. The tensors follow each other without gaps, and the first one begins at 0. */
int pl_codec_parts(const pl_topology *topology, int module, pl_codec_part *parts);

/* Returns the exponent E for which 127 * 2^E is 4 to 8 times the root mean square of an
 * update with this L2 norm and n values. Pass the update norm of the module's previous
 * version. With norm 0 (there is no version yet) the root mean square is assumed to be
 * 2^-10. Values whose magnitude is above the range of their codec (127 * 2^E with
 * i8-shared, 2^9 * 2^E or more with sketch16) are clipped. The part that is cut off
 * goes into the residual. */
int pl_codec_exponent(double norm, size_t n);

/* Returns the largest size in bytes of a message, or of a sum of W messages (W is
 * n_contributors). A longer message can be refused without reading it. The options must
 * have been checked. */
uint64_t pl_codec_bound(const pl_codec_options *options, const pl_codec_part *parts,
                        int n_parts, int n_contributors);
uint64_t pl_codec_module_bound(const pl_codec_options *options,
                               const pl_topology *topology, int module,
                               int n_contributors);

/* ---- encoding ---- */
/* Appends the message of one module's update to `out`.
 *
 *   update    [n], where n is the sum of the parts' counts; the first part begins at 0,
 *             and the parts follow each other without gaps
 *   residual  [n] before the call the old residual, after it the new one; NULL: no
 *             error feedback
 *   round     may be NULL unless the options are homomorphic
 *
 * The encoder checks that its sketch can be decoded. If not, the update is sent as a
 * list, which can be added to others like a sketch.
 *
 * ERR_CONFIG: the options are wrong. ERR_ARG: `parts` or `round` is wrong. ERR_NUMERIC:
 * a value is not finite and the codec is lossy; f32 and bf16 send such a value, and the
 * decoder refuses it. After an error `residual` may be partly changed. */
pl_status pl_codec_encode_module(const pl_codec_options *options,
                                 const pl_codec_part *parts, int n_parts,
                                 const pl_codec_round *round, const float *update,
                                 float *residual, pl_buf *out);
/* The same for the tensors of a module. */
pl_status pl_codec_encode_update(const pl_codec_options *options,
                                 const pl_topology *topology, int module,
                                 const pl_codec_round *round, const float *update,
                                 float *residual, pl_buf *out);

/* ---- decoding ---- */
typedef struct pl_codec_message {
    const void *data;
    uint64_t bytes;
} pl_codec_message;

typedef struct pl_codec_info {
    bool homomorphic;
    /* number of messages that were added to make this one; 1 if it is not a sum */
    int contributors;
    int n_contributors; /* W; 0 unless homomorphic */
    uint64_t seed;      /* 0 unless homomorphic */
    int scale_exponent; /* 0 unless homomorphic */
} pl_codec_info;
/* Reads only the header and the table of a message. ERR_DATA if they are wrong. */
pl_status pl_codec_inspect(const void *data, uint64_t bytes, size_t n,
                           pl_codec_info *out);

/* Checks that a message, or a sum of messages, has the layout that
 * pl_codec_encode_update gives it: one stretch for each run of tensors with one codec,
 * and, if it is homomorphic, the seed, scales, W and cells of the round. Only such
 * messages can be added without decoding, and many short stretches would take long.
 * n_summed: the number of messages of which this one is the sum. ERR_DATA: the message
 * is wrong, or has a different layout. */
pl_status pl_codec_check_layout(const pl_codec_options *options,
                                const pl_topology *topology, int module,
                                const pl_codec_round *round, int n_summed,
                                const pl_codec_message *message);

/* Splits n messages that follow each other in `data`; out[i] gets the i-th. Only the
 * lengths in headers are checked. ERR_DATA if there are not exactly n messages. */
pl_status pl_codec_split(const void *data, uint64_t bytes, int n,
                         pl_codec_message *out);

/* Reads from the first bytes of a message whether it claims to be homomorphic, and how
 * many parameters it claims to have. Only the four bytes that mark a message are
 * checked. A relay uses this function, because it does not know the module. */
bool pl_codec_claims_homomorphic(const void *start, size_t bytes, uint64_t *n);

/* Adds a message: sum[i] += weight * update[i]. *norm gets the L2 norm of the decoded
 * update, without the weight. A homomorphic message was multiplied by its weight when
 * it was encoded, so `weight` is not used for it. If `sum` is NULL, the complete
 * message is checked but not added.
 *
 * ERR_DATA: the bytes violate docs/PROTOCOL.md 3.4; the text says how. ERR_NUMERIC: a
 * value is not finite. ERR_PEEL: a sum of sketches cannot be decoded; decode its
 * messages one by one, as pl_codec_add_all does. After an error `sum` may be partly
 * changed; to avoid this, check the message first. */
pl_status pl_codec_add(const void *data, uint64_t bytes, size_t n, float weight,
                       float *sum, double *norm);

/* A batch of consecutive messages of a round. */
typedef struct pl_codec_run {
    const pl_codec_message *messages;
    const float *weights; /* the messages' weights; NULL: each is 1 */
    int n;
} pl_codec_run;

/* A source gives a round's messages in batches (runs), to save memory. */
typedef struct pl_codec_source {
    /* Gets the next messages. They are valid until the next call. n is 0 after the last
     * message. With `anew` the source starts again from the first message. */
    pl_status (*next)(void *context, bool anew, pl_codec_run *out);
    void *context;
} pl_codec_source;

/* A walk gives the messages of a source one by one; `data` is NULL after the last
 * message. Initialise a walk of the source S with {.source = S}. */
typedef struct pl_codec_walk {
    pl_codec_source source;
    pl_codec_run run;
    int at;
    bool begun;
} pl_codec_walk;
pl_status pl_codec_next(pl_codec_walk *walk, pl_codec_message *out, float *weight);

/* A source whose messages are a list in memory; the list is borrowed. */
typedef struct pl_codec_list {
    const pl_codec_message *messages;
    const float *weights; /* or NULL */
    int n, at;            /* at: index of the next message */
} pl_codec_list;
pl_codec_source pl_codec_source_of(pl_codec_list *list);

/* Adds all messages, which must be homomorphic, to `sum`. The messages are combined
 * first, and the result is decoded once. If this result cannot be decoded, each message
 * is decoded by itself. `sum` gets the same bits in both cases, and for any order of
 * the messages. The errors are those of pl_codec_add and pl_codec_combine, and
 * ERR_NOMEM. ERR_PEEL means here that a single message cannot be decoded. */
pl_status pl_codec_add_all(const pl_codec_source *messages, size_t n, float *sum);
/* pl_codec_add_each adds all messages in their order: sum[i] += weight * update[i]. It
 * uses pl_codec_add_threads threads (one per processor, at most 4). The result has the
 * same bits for any number of threads. */
int pl_codec_add_threads(void);
pl_status pl_codec_add_each(const pl_codec_source *messages, size_t n, float *sum);

/* Appends the message that is the sum of the messages a and b, of n values each; takes
 * up to 4 bytes of memory per value. ERR_UNSUPPORTED: a or b is not homomorphic.
 * ERR_DATA: a message is damaged, the messages belong to different rounds or layouts,
 * or they have more than W contributors together. ERR_PEEL: a sketch must be decoded to
 * make the sum (because the other message has a list), and that is not possible;
 * forward both messages unchanged. */
pl_status pl_codec_combine(const void *a, uint64_t a_bytes, const void *b,
                           uint64_t b_bytes, size_t n, pl_buf *out);
