/* An arm: one training of one topology inside a run.
 *
 * A run holds several arms in one store: the base model, the mixture, and the baselines
 * it is compared with. An arm's definition is an immutable object ("arm/NAME") from
 * which hub, homes and workers derive everything they do. So a task is a pure function
 * of (arm, path, replica, phase) and of the module versions that it names. */
#ifndef PL_OUTER_ARM_H
#define PL_OUTER_ARM_H
#include "codec/codec.h"
#include "outer/step_method.h"
#include "store/store.h"
#ifdef __cplusplus
extern "C" {
#endif

enum {
    PL_ARM_NAME_MAX = 24,
    /* limit for paths times replicas, so that a definition fits into one message */
    PL_TASKS_MAX = 16384
};

/* Classes of modules, by how many paths share them. Settings of the outer step may
 * differ per class. */
typedef enum pl_class {
    PL_CLASS_EMBED,  /* an embedding that several paths share */
    PL_CLASS_HEAD,   /* a final norm and output matrix that several paths share */
    PL_CLASS_COMMON, /* blocks that all paths share, or all replicas of one path */
    PL_CLASS_LEVEL,  /* blocks of a level with more than one module */
    /* modules with a single contributor: of one path without replicas */
    PL_CLASS_PRIVATE,
    PL_CLASS_COUNT
} pl_class;

/* The form in which a vector of a path's state is sent between phases. Every worker
 * rounds the vector to this form at the end of each phase. */
typedef enum pl_state_kind {
    PL_STATE_F32,  /* exact */
    PL_STATE_BF16, /* rounded to 2 bytes */
    /* not sent at all: the vector stays with the worker. A path that changes workers
     * starts with a fresh one, so the result depends on which worker trained what. */
    PL_STATE_LOCAL,
    /* rounded to 8 bits, with one power of two as the scale of 256 values */
    PL_STATE_I8,
    PL_STATE_F24, /* rounded to 3 bytes: fp32 without the last 8 bits */
    PL_STATE_COUNT
} pl_state_kind;

typedef struct pl_inner {
    int batch; /* B, sequences per step */
    /* sequences in one pass; gradients of the passes are added; 0: the whole batch in
     * one pass */
    int micro_batch;
    int context; /* T, targets per sequence */
    int tau;     /* inner steps per phase */
    int phases; /* number of phases of the arm; a path makes tau * phases inner steps */
    /* the peak learning rate, and the last rate as a share of the peak */
    double lr, lr_floor;
    int warmup; /* number of steps of the warm-up */
    pl_schedule_kind schedule;
    int decay; /* wsd: number of last steps of the arm in which the rate falls */
    /* Steps that were done before the arm began; under wsd they include those of the
     * base model. The arm's schedule and AdamW's bias correction count on from them. */
    int first_step;
    double beta1, beta2, eps, weight_decay, clip;
    /* number of targets at a document's start that are left out of the loss */
    int skip_prefix;
    bool pack;     /* whether several short windows share a row of the batch */
    bool muon;     /* Muon steps the matrices of blocks, AdamW everything else */
    int muon_rows; /* number of rows that Muon steps as a separate matrix; 0: all */
} pl_inner;

typedef struct pl_outer {
    double lr[PL_CLASS_COUNT];       /* eta */
    double momentum[PL_CLASS_COUNT]; /* mu */
    /* whether the weight of a contributor follows its shard's size; else all weigh the
     * same */
    bool weighted;
    bool rescale; /* whether the mean is multiplied by sqrt(number of contributors) */
    bool present; /* the mean of a value is taken over the contributors that send it */
    /* settings for shared modules; lr and momentum come from the arrays above */
    pl_method_settings method;
    pl_outer_schedule schedule; /* how lr changes over the rounds of a module */
    /* noloco: whether gamma is method.consensus; else gamma equals beta (lr) */
    bool own_consensus;
    /* noloco: how long the first mate of a pair waits for the second (0: for ever).
     * With a quorum: how long a round waits for the missing updates (0: not at all). */
    int deadline_ms;
    /* The share of a module's contributors that a round needs. Once that many updates
     * are in, the round waits deadline_ms and is then merged without the others. 0: all
     * are needed, so nothing depends on when updates arrive. */
    double quorum;
    /* The weight of a late update in the round that is open when it arrives, to the
     * power of the delay in rounds; 0: the update is dropped. */
    double late_weight;
    /* delayed-nesterov: how many phases a path may be ahead of the slowest path */
    int staleness;
    bool dynamic; /* delayed-nesterov: slower workers do fewer steps of a phase */
    pl_codec_options codec; /* the codec of updates */
    char codec_name[16];    /* name of the codec in the configuration */
    /* the codec of versions (outer/change.h); f32 or 0: versions are sent whole */
    pl_codec_options down;
    /* form in which AdamW's moments are sent: f32, bf16 or local */
    pl_state_kind state;
    /* form in which residuals of lossy codecs are sent: f32, bf16 or i8 */
    pl_state_kind residual;
    /* form in which paths' own parameters are sent (streaming): f32, f24 or bf16 */
    pl_state_kind own;
    /* error feedback: what a lossy codec leaves out is added to the next update */
    bool feedback;
} pl_outer;

typedef struct pl_arm {
    char name[PL_ARM_NAME_MAX];
    pl_shape shape;
    pl_topology_spec spec;
    pl_inner inner;
    pl_outer outer;
    uint64_t seed;
    pl_hash config; /* hash of the run's canonical configuration */
    /* The optimizer's m and v (the first two vectors of a path's state, in f32) with
     * which every path begins: the hash of the blob of the object PL_MOMENTS_OBJECT.
     * With the zero hash m and v begin at zero. */
    pl_hash moments;
    /* For an arm that continues another one: the name of that arm, and the hash of the
     * blob of the object "states/NAME". The blob has for each path and replica the hash
     * of the state (outer/rounds.h) with which it begins, or the zero hash if it begins
     * with zeros. "" and the zero hash: the arm continues none. */
    char before[PL_ARM_NAME_MAX];
    pl_hash states;
    /* How modules and paths descend from those of the previous chapter, if the topology
     * has changed. After a split there is no list of parents, and `experts` is recorded
     * only together with `before`. */
    pl_descent descent;
    /* Number of documents of each shard that its path scores instead of training: the
     * arm's only phase makes no versions, and the path's state after it is the score of
     * each document (f64, nats). The first inner.skip_prefix targets do not count. 0:
     * the arm trains. */
    int64_t n_scored;
    /* [n_frozen] modules that keep version 0, in rising order: paths train through them
     * and send no updates of them; owned */
    int n_frozen, *frozen;
    /* Held-out text of the paths, for curves (outer/held.h): a path scores it before
     * every held_every-th phase, without its first held_prefix tokens per document. 0:
     * none; then both lists are NULL. */
    int held_every, held_prefix;
    /* [n_shards] hashes of the blobs of token files (zero: the path has none), and the
     * bytes of text that are scored; owned */
    pl_hash *held;
    uint64_t *held_bytes;
    int n_shards;    /* number of paths, because each path has a shard */
    pl_hash *shards; /* [n_shards] hashes of the blobs of token files; owned */
    double *weights; /* [n_shards] number of targets in each shard; owned */
} pl_arm;

/* The object that holds the moments at the end of the base model. An arm's definition
 * names the hash of the object's blob. */
#define PL_MOMENTS_OBJECT "moments/base"

/* The mixture is trained in chapters, each an arm of its own: "mix", then "mix~1",
 * "mix~2" and so on. Returns the number of the chapter, 0 for "mix"; -1 for any other
 * arm. */
int pl_arm_chapter(const char *name);
/* For "mix/L1.E0" writes "mix" to `out` and returns "L1.E0". A name without an arm, or
 * whose arm does not fit into `out`, gives "" and is returned whole. */
const char *pl_arm_of_module(const char *module, char *out, size_t size);
void pl_chapter_name(int chapter, char out[PL_ARM_NAME_MAX]);
/* Writes the name of the arm in which the paths score documents before this chapter:
 * "score~1" and so on. */
void pl_scoring_name(int chapter, char out[PL_ARM_NAME_MAX]);
enum { PL_CHAPTERS_MAX = 1000 };

/* Returns the number of sequences in one pass: micro_batch, or batch if micro_batch is
 * 0. */
int pl_arm_pass(const pl_inner *inner);
/* Returns the schedule of the learning rate over the steps of the arm's paths. */
pl_schedule pl_arm_schedule(const pl_inner *inner);

void pl_arm_clear(pl_arm *arm);
void pl_arm_encode(const pl_arm *arm, pl_buf *out);
/* Decodes and checks a definition. After success the topology of the arm can be
 * created. ERR_PROTO. */
PL_MUST_CHECK pl_status pl_arm_decode(const void *data, size_t len, pl_arm *out);
/* Reads the arm of this name from a store; clear it also after a failure.
 * ERR_NOT_FOUND. */
PL_MUST_CHECK pl_status pl_read_arm(pl_store *store, const char *name, pl_arm *arm,
                                    pl_topology **topology);
/* Writes the name of the mixture's newest chapter, which is the one that serves: "mix"
 * if the mixture has only one chapter, or none yet. */
void pl_newest_chapter(pl_store *store, char out[PL_ARM_NAME_MAX]);

/* Writes the module of the previous chapter, whose last version is version 0 of this
 * module; "" if there is none. Both names are full names: "mix/L1.E0". */
PL_MUST_CHECK pl_status pl_module_before(pl_store *store, const char *module,
                                         char out[PL_MODULE_NAME_MAX]);

/* Writes the name of the next chapter, if it has no module that descends from this one:
 * the module ended there. "" if a module of that chapter descends from it, or if there
 * is no such chapter. */
PL_MUST_CHECK pl_status pl_module_end(pl_store *store, const char *module,
                                      char out[PL_ARM_NAME_MAX]);

/* ERR_CONFIG: the quorum is not a share, or does not work with the codec. */
PL_MUST_CHECK pl_status pl_quorum_check(const pl_outer *outer);
/* Checks outer.mean=present. The message of ERR_CONFIG names the setting with which it
 * cannot be used. */
PL_MUST_CHECK pl_status pl_mean_check(const pl_outer *outer);

bool pl_arm_is_frozen(const pl_arm *arm, int module);
pl_class pl_arm_class(const pl_topology *topology, int module);
int pl_arm_contributors(const pl_topology *topology, int module);
/* How this module is merged: by the arm's method, with lr and momentum of the module's
 * class. A module with a single contributor is merged as under diloco whatever the
 * method, because it has no other contributors to wait for. */
pl_method_settings pl_arm_method(const pl_arm *arm, const pl_topology *topology,
                                 int module);
/* Returns alpha, the weight of a path's update in the mean of its module. */
double pl_arm_share(const pl_arm *arm, const pl_topology *topology, int module,
                    int path);
/* Write "ARM/L1.E0" and "ARM/p01.r0". */
void pl_arm_module_name(const pl_arm *arm, const pl_topology *t, int module,
                        char out[96]);
void pl_arm_path_name(const pl_arm *arm, const pl_topology *t, int path, int replica,
                      char out[96]);
/* pl_arm_before_name writes the name that this path and replica had in the previous arm
 * (several paths may come from one that was split). pl_arm_states_name writes the name
 * of the object with the states that a successor's paths begin with. */
void pl_arm_before_name(const pl_arm *arm, const pl_topology *t, int path, int replica,
                        char out[96]);
void pl_arm_states_name(const pl_arm *arm, char out[96]);
/* The object with the state of a path after `phase` phases, if
 * store.keep_states keeps it: "state/mix/p01.r0/3". */
void pl_kept_state_name(const char *path, int64_t phase, char out[96]);
/* The number of the sampler's stream of a path: every path draws samples in its own
 * order. */
uint64_t pl_arm_stream(const pl_arm *arm, int path);

#ifdef __cplusplus
}
#endif
#endif
