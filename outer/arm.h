/* An arm: one training of one topology inside a run.
 *
 * A run holds several arms in one store: the base model, the mixture, and the
 * baselines it is compared with. An arm's definition is an immutable object
 * ("arm/NAME") from which hub, homes and workers derive everything they do, so
 * that a task is a pure function of (arm, path, replica, phase) and of the module
 * versions it names.
 */
#ifndef PL_OUTER_ARM_H
#define PL_OUTER_ARM_H
#include "codec/codec.h"
#include "outer/step_method.h"
#ifdef __cplusplus
extern "C" {
#endif

enum {
    PL_ARM_NAME_MAX = 24,
    PL_TASKS_MAX = 16384 /* paths times replicas: what one definition message holds */
};

/* Classes of modules, by who shares them, for settings of the outer step. */
typedef enum pl_class {
    PL_CLASS_EMBED,   /* the embedding, when shared */
    PL_CLASS_HEAD,    /* the final norm and output matrix, when shared */
    PL_CLASS_COMMON,  /* blocks that all paths share, or all replicas of one path */
    PL_CLASS_LEVEL,   /* blocks of a level with K>1 */
    PL_CLASS_PRIVATE, /* a single contributor: one path without replicas */
    PL_CLASS_COUNT
} pl_class;

/* A vector that a path keeps between its phases. What rounds is done at the end of each
 * phase, by every worker alike. */
typedef enum pl_state_kind {
    PL_STATE_F32,   /* travels as it is */
    PL_STATE_BF16,  /* rounded to 2 bytes */
    PL_STATE_LOCAL, /* stays with the worker; fresh ones when the path changes hands:
                       what comes out then depends on who trained what */
    PL_STATE_I8,    /* rounded to 8 bits on a power of two for each 256 */
    PL_STATE_F24,   /* rounded to 3 bytes: fp32 without the last 8 bits */
    PL_STATE_COUNT
} pl_state_kind;

typedef struct pl_inner {
    int batch;           /* B, sequences a step */
    int micro_batch;     /* of them in one pass, gradients add up; 0: all */
    int context;         /* T, targets a sequence */
    int tau;             /* inner steps a phase */
    int phases;          /* of the arm: tau * phases inner steps a path */
    double lr, lr_floor; /* peak, and the schedule's end as a share of it */
    int warmup;          /* steps */
    pl_schedule_kind schedule;
    int decay; /* wsd: the last steps of the arm, over which the rate falls */
    /* Steps that were done before the arm began and that its schedule and AdamW's bias
     * correction count on from: the base model's, under wsd. */
    int first_step;
    double beta1, beta2, eps, weight_decay, clip;
    int skip_prefix; /* first targets of a document left out of the loss */
} pl_inner;

typedef struct pl_outer {
    double lr[PL_CLASS_COUNT];       /* eta */
    double momentum[PL_CLASS_COUNT]; /* mu */
    bool weighted;                   /* alpha by shard size; else uniform */
    bool rescale;                    /* multiply the mean by sqrt(contributors) */
    bool present;               /* the mean of a value is over those that send it */
    pl_method_settings method;  /* of shared modules; lr and momentum are above */
    pl_outer_schedule schedule; /* of lr, over the rounds of a module */
    bool own_consensus; /* noloco: method.consensus is gamma, else lr is (beta) */
    int deadline_ms;    /* noloco: what a pair waits for its second, else what a
                           quorum waits for the rest; 0: for ever, not at all */
    /* Share of a module's contributors that a round needs: deadline_ms after they are
     * there it is merged without the others. 0: all, and then nothing depends on when
     * updates come. */
    double quorum;
    /* What a late update weighs in the round that is open then, for each round that it
     * is late; 0: it is dropped. */
    double late_weight;
    int staleness;          /* delayed-nesterov: phases a path may be ahead of others */
    bool dynamic;           /* and slower workers do fewer steps of a phase */
    pl_codec_options codec; /* of updates */
    char codec_name[16];    /* as it was asked for */
    pl_codec_options down;  /* of versions (outer/change.h); f32 or 0: they go whole */
    pl_state_kind state;    /* of AdamW's moments: f32, bf16 or local */
    pl_state_kind residual; /* of what codecs left out: f32, bf16 or i8 */
    pl_state_kind own;      /* of streaming's own parameters: f32, f24 or bf16 */
    bool feedback;          /* what a lossy codec drops is added to the next update */
} pl_outer;

typedef struct pl_arm {
    char name[PL_ARM_NAME_MAX];
    pl_shape shape;
    pl_topology_spec spec;
    pl_inner inner;
    pl_outer outer;
    uint64_t seed;
    pl_hash config;  /* of the run's canonical configuration */
    pl_hash moments; /* AdamW's m and v [2, path] that every path begins with: the blob
                        of object PL_MOMENTS_OBJECT; none: zeros */
    int n_shards;    /* = paths: data of each */
    pl_hash *shards; /* blobs of token files; owned */
    double *weights; /* targets in each shard; owned */
} pl_arm;

/* The object with the moments that the base model ended with. An arm names its blob. */
#define PL_MOMENTS_OBJECT "moments/base"

/* Sequences in one pass: micro_batch, or the whole batch if that is 0. */
int pl_arm_pass(const pl_inner *inner);
/* The learning rate's schedule over the steps of the arm's paths. */
pl_schedule pl_arm_schedule(const pl_inner *inner);

void pl_arm_clear(pl_arm *arm);
void pl_arm_encode(const pl_arm *arm, pl_buf *out);
/* Trusts nothing: the topology of what comes out can be created. ERR_PROTO. */
PL_MUST_CHECK pl_status pl_arm_decode(const void *data, size_t len, pl_arm *out);

/* ERR_CONFIG: a quorum that does not go with the codec, or is no share. */
PL_MUST_CHECK pl_status pl_quorum_check(const pl_outer *outer);
/* ERR_CONFIG: `present` beside what it does not go with, named. */
PL_MUST_CHECK pl_status pl_mean_check(const pl_outer *outer);

pl_class pl_arm_class(const pl_topology *topology, int module);
int pl_arm_contributors(const pl_topology *topology, int module);
/* How this module is merged: the arm's method, with its class's lr and momentum. A
 * module with a single contributor has nobody to wait for and nothing to agree on: it
 * is diloco under any method. */
pl_method_settings pl_arm_method(const pl_arm *arm, const pl_topology *topology,
                                 int module);
/* Share of a path's update in the mean of its module: alpha. */
double pl_arm_share(const pl_arm *arm, const pl_topology *topology, int module,
                    int path);
/* "ARM/L1.E0" and "ARM/p01.r0". */
void pl_arm_module_name(const pl_arm *arm, const pl_topology *t, int module,
                        char out[96]);
void pl_arm_path_name(const pl_arm *arm, const pl_topology *t, int path, int replica,
                      char out[96]);
/* The sampler's stream of a path: every path draws in its own order. */
uint64_t pl_arm_stream(const pl_arm *arm, int path);

#ifdef __cplusplus
}
#endif
#endif
