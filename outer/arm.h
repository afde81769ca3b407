/* An arm: one training of one topology inside a run.
 *
 * A run has several arms in one store: the base model, the mixture, and the baselines
 * with which the mixture is compared. The definition of an arm is an immutable object
 * ("arm/NAME"). Hub, homes and workers derive all their work on the arm from it. So the
 * result of a task depends only on (arm, path, replica, phase) and on the module
 * versions with which the task begins. */
#pragma once
#include "codec/codec.h"
#include "outer/step_method.h"
#include "store/store.h"

enum {
    PL_ARM_NAME_MAX = 24,
    /* limit for paths * replicas, so that a definition fits into one message */
    PL_TASKS_MAX = 16384
};

/* Classes of modules, by how many paths share them. Each class may have a different
 * outer learning rate and momentum. */
typedef enum pl_class {
    PL_CLASS_EMBED, /* an embedding that several paths share */
    PL_CLASS_HEAD,  /* a final norm and output matrix that several paths share */
    /* blocks that all paths share, or that only the replicas of one path share */
    PL_CLASS_COMMON,
    PL_CLASS_LEVEL, /* blocks of a level with more than one module */
    /* modules with a single contributor, that is, of one path without replicas */
    PL_CLASS_PRIVATE,
    PL_CLASS_COUNT
} pl_class;

/* The form in which a vector of a path's state is sent between phases. Every worker
 * rounds the vector to this form at the end of each phase. */
typedef enum pl_state_kind {
    PL_STATE_F32,  /* exact */
    PL_STATE_BF16, /* rounded to 2 bytes */
    /* not sent: the vector stays in the memory of the worker. If another worker gets
     * the path, that worker starts with a vector of zeros. So the result depends on
     * which worker trained which phase. */
    PL_STATE_LOCAL,
    /* rounded to 8 bits, with a power of two as the common scale of 256 values */
    PL_STATE_I8,
    PL_STATE_F24, /* rounded to 3 bytes: fp32 without the last 8 bits */
    PL_STATE_COUNT
} pl_state_kind;

enum { PL_TASK_THREADS_MAX = 256 };
typedef struct pl_inner {
    int batch; /* B, sequences per step */
    /* number of sequences per forward and backward pass; a step adds the gradients of
     * its passes; 0: the whole batch is one pass */
    int micro_batch;
    int context; /* T, targets per sequence */
    int tau;     /* inner steps per phase */
    /* number of phases of the arm; each path makes tau * phases inner steps */
    int phases;
    /* the peak learning rate, and the final rate as a fraction of the peak */
    double lr, lr_floor;
    int warmup; /* number of steps of the warm-up */
    pl_schedule_kind schedule;
    /* wsd: the rate falls during this number of steps at the end of the arm */
    int decay;
    /* Number of steps that were done before the arm began; with wsd this includes the
     * steps of the base model. The learning rate schedule and AdamW's bias correction
     * count steps from this number on. */
    int first_step;
    /* AdamW's coefficients; clip: largest norm of a step's gradient, 0: no limit */
    double beta1, beta2, eps, weight_decay, clip;
    /* number of targets at the start of each document that are left out of the loss */
    int skip_prefix;
    bool pack; /* whether several short windows are packed into one row of the batch */
    /* whether Muon updates the matrices of blocks, and AdamW all other parameters */
    bool muon;
    /* Muon takes this many rows as a separate matrix; 0: all rows */
    int muon_rows;
    /* threads with which a worker computes a task; 0: its own number */
    int threads;
} pl_inner;

typedef struct pl_outer {
    double lr[PL_CLASS_COUNT];       /* outer learning rate of each class */
    double momentum[PL_CLASS_COUNT]; /* outer momentum of each class */
    /* whether a contributor's weight is proportional to the size of its shard; if
     * false, all contributors have the same weight */
    bool weighted;
    bool rescale; /* whether the mean is multiplied by sqrt(number of contributors) */
    /* whether a value's mean is only over the contributors that send it */
    bool present;
    /* settings for shared modules; lr and momentum come from the arrays above */
    pl_method_settings method;
    pl_outer_schedule schedule; /* how lr changes over the rounds of a module */
    /* noloco: whether the weight of the consensus term (gamma in outer/gossip.h) is
     * method.consensus; if false, it equals the outer learning rate */
    bool own_consensus;
    /* noloco: how long the first mate of a pair waits for the second mate (0: without
     * limit). With a quorum: how long a round waits for the missing updates after the
     * quorum is reached (0: not at all). */
    int deadline_ms;
    /* The fraction of a module's contributors that a round needs. When this many
     * updates have arrived, the round waits for deadline_ms and is then merged without
     * the missing updates, which are dropped when they come. 0: all contributors are
     * needed, so the result does not depend on arrival times. */
    double quorum;
    double late_weight; /* 0; with a quorum it has a place in the arm's bytes */
    /* delayed-nesterov: how many phases a path may be ahead of the slowest path */
    int staleness;
    /* delayed-nesterov: whether slower workers do fewer inner steps per phase */
    bool dynamic;
    pl_codec_options codec; /* the codec of updates */
    char codec_name[16];    /* name of the codec in the configuration */
    /* the codec of versions (outer/change.h); f32, 0: parameters are sent */
    pl_codec_options down;
    /* form in which AdamW's moments are sent: f32, bf16 or local */
    pl_state_kind state;
    /* form in which residuals of lossy codecs are sent: f32, bf16 or i8 */
    pl_state_kind residual;
    /* form in which the paths' own parameters are sent (streaming): f32, f24 or bf16 */
    pl_state_kind own;
    /* How often a path's state is uploaded: after every state_every-th phase and after
     * the last one. 0 or 1: after every phase. The other states stay with the worker
     * that made them; another worker repeats the phases since the last upload. */
    int state_every;
    /* error feedback: whether the part that a lossy codec does not send is added to the
     * next update */
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
    /* Hash of the blob of the object PL_MOMENTS_OBJECT. The blob has the optimizer's
     * moments with which every path begins (the first two vectors of a path's state, in
     * f32). With the zero hash, moments begin at zero. */
    pl_hash moments;
    /* For an arm that continues another arm: the name of that arm, and the hash of the
     * blob of the object "states/NAME". For each path and replica the blob has the hash
     * of the state (outer/path_layout.h) with which the path begins, or the zero hash
     * if the path begins with zeros. "" and the zero hash: this arm does not continue
     * another arm. */
    char before[PL_ARM_NAME_MAX];
    pl_hash states;
    /* The parents of modules and paths in the previous chapter, if the topology has
     * changed. After a split the list of parents is empty; then descent.experts is set
     * only if `before` is set. */
    pl_descent descent;
    /* If above 0, the paths of this arm do not train but score documents: each path
     * scores this number of documents of its shard. Such an arm has one phase and makes
     * no versions. After the phase, the state of a path is the list of its documents'
     * scores (f64, nats). The first inner.skip_prefix targets of a document do not
     * count. 0: the arm trains. */
    int64_t n_scored;
    /* If above 0, the paths of an arm with n_scored > 0 compute the routing features of
     * their documents instead of scores (router/router.h): the feature of a document is
     * a mean over at most this many windows of inner.context tokens. The state of a
     * path is then the list of features (f32 [n_scored, shape.width]). */
    int feature_windows;
    /* [n_frozen] numbers of the frozen modules, in rising order; owned */
    int n_frozen, *frozen;
    /* Held-out text of the paths, for loss curves (outer/held.h). A path scores its
     * held-out text before every held_every-th phase, without the first held_prefix
     * tokens of each document. held_every 0: there is no held-out text, and `held` and
     * `held_bytes` are NULL. */
    int held_every, held_prefix;
    /* [n_shards] for each path: hash of the blob of its held-out token file (zero: the
     * path has no held-out text), and number of bytes of text that it scores; owned */
    pl_hash *held;
    uint64_t *held_bytes;
    int n_shards;    /* number of paths, because each path has a shard */
    pl_hash *shards; /* [n_shards] hashes of the blobs of token files; owned */
    double *weights; /* [n_shards] number of targets in each shard; owned */
} pl_arm;

/* The object with the optimizer's moments at the end of the base model's training. An
 * arm's definition contains the hash of the object's blob. */
#define PL_MOMENTS_OBJECT "moments/base"

/* The mixture is trained in chapters. Each chapter is a separate arm: "mix", then
 * "mix~1", "mix~2" and so on. Returns the number of an arm's chapter (0 for "mix"), or
 * -1 if the arm is not a chapter. */
int pl_arm_chapter(const char *name);
/* Splits a module's name. For "mix/L1.E0" writes "mix" to `out` and returns "L1.E0". If
 * the name contains no arm, or if the arm does not fit into `out`, writes "" to `out`
 * and returns the complete name. */
const char *pl_arm_of_module(const char *module, char *out, size_t size);
char *pl_chapter_name(int chapter, char out[PL_ARM_NAME_MAX]);
/* Writes the arm in which paths score documents before this chapter: "score~1". */
char *pl_scoring_name(int chapter, char out[PL_ARM_NAME_MAX]);
/* Writes the name of the arm in which workers compute the routing features for this
 * chapter: "features~0" and so on. */
char *pl_features_name(int chapter, char out[PL_ARM_NAME_MAX]);
enum { PL_CHAPTERS_MAX = 1000 };

/* Returns the size of the list of scores or features that a path of an arm with
 * n_scored > 0 makes; 0 for an arm that trains. */
uint64_t pl_arm_scores_bytes(const pl_arm *arm);
/* Returns the number of samples per phase of a path. The samples of phase p begin at p
 * times this number, even if some samples of earlier phases were left out. */
uint64_t pl_phase_samples(const pl_arm *arm);
/* Returns after how many phases the learning rate begins to fall, which is in the next
 * phase; the number of all phases if it never falls. A longer run continues there. */
int64_t pl_arm_full_phases(const pl_arm *arm);
/* Returns after how many phases of the previous chapter `before` the arm continues it:
 * fewer than all if the arm lengthens a run (train.more). */
int64_t pl_arm_continues(const pl_arm *before, const pl_arm *arm);
/* Whether homes keep a path's state after `phase` phases for a longer run, which is not
 * possible if paths keep parameters of their own. */
bool pl_phase_stays(const pl_arm *arm, int64_t phase);
/* Whether a path's state after `phase` phases must be uploaded: after the last phase,
 * if it stays, and as state_every says. */
bool pl_phase_uploads(const pl_arm *arm, int64_t phase);
/* Whether the arm's tasks score documents instead of training (n_scored). */
bool pl_arm_scores(const pl_arm *arm);
/* Returns the sequences in one pass: micro_batch, or batch if that is 0. */
int pl_arm_pass(const pl_inner *inner);
/* Returns the schedule of the learning rate over the steps of the arm's paths. */
pl_schedule pl_arm_schedule(const pl_inner *inner);

void pl_arm_clear(pl_arm *arm);
void pl_arm_encode(const pl_arm *arm, pl_buf *out);
/* Decodes and checks a definition. After success the topology of the arm can be
 * created. ERR_PROTO if the definition is wrong. */
pl_status pl_arm_decode(const void *data, size_t len, pl_arm *out);
/* Reads the arm with this name from a store. Clear `arm` afterwards, even after a
 * failure. ERR_NOT_FOUND if the store has no such arm. */
pl_status pl_read_arm(pl_store *store, const char *name, pl_arm *arm,
                      pl_topology **topology);
/* Writes the name of the mixture's newest chapter, which is used for serving. It is
 * "mix" if the mixture has only one chapter, or none yet. */
char *pl_newest_chapter(pl_store *store, char out[PL_ARM_NAME_MAX]);

/* Writes the name of the module's parent in the previous chapter; "" if there is none.
 * A version of the parent, usually the last, is version 0 of this module. Both names
 * include the arm: "mix/L1.E0". */
pl_status pl_module_before(pl_store *store, const char *module,
                           char out[PL_MODULE_NAME_MAX]);

/* If the next chapter has no module that descends from `module`, writes the name of
 * that chapter. Writes "" if a module of the next chapter descends from `module`, or if
 * there is no next chapter. */
pl_status pl_module_end(pl_store *store, const char *module, char out[PL_ARM_NAME_MAX]);

/* Returns whether versions alone determine how a path continues: each version is made
 * from the updates of one round, and paths keep no parameters of their own. */
bool pl_versions_suffice(const pl_outer *outer);
/* Returns whether versions belong to phases. If false (delayed-nesterov), each update
 * makes a version when it arrives. */
bool pl_versions_have_phases(const pl_outer *outer);
/* Returns whether a phase can be done again later with the same result, from data that
 * the homes keep. This is not so for methods whose phases do not begin with a fixed
 * version (noloco, delayed-nesterov), and for arms whose moments never leave a
 * worker. */
bool pl_phase_repeats(const pl_outer *outer);
bool pl_steps_vary(const pl_outer *outer);
/* Returns the number of inner steps of a slower worker (dynamic local steps, Async
 * DiLoCo, arXiv:2401.09135). It is max(1, floor(inner_steps * speed / top_speed)), so
 * that all workers need about the same time. It is inner_steps if a speed is not
 * positive or `speed` is at least top_speed. */
int pl_local_steps(int inner_steps, double speed, double top_speed);
/* Returns whether error feedback is on unless the configuration says otherwise. */
bool pl_feedback_helps(const pl_outer *outer);
/* Sets coefficients that the method does not use to their defaults, so that equal
 * trainings have equal definitions, and sets own_consensus. */
void pl_outer_fit(pl_outer *outer);

/* Checks a definition. After success, its topology can be created. */
pl_status pl_arm_check(const pl_arm *arm);
/* Checks what noloco's mates need of each other: they exchange all parameters, and what
 * they have seen must not be rounded later. */
pl_status pl_mates_check(const pl_outer *outer);
/* Checks that the method can use outer.quorum and outer.deadline_s. (The baseline
 * diloco ignores a deadline of the mixture's, so definitions are not checked.) */
pl_status pl_wait_check(const pl_outer *outer);
/* Checks outer.quorum. ERR_CONFIG: it is not 0 to 1, or the codec forbids it. */
pl_status pl_quorum_check(const pl_outer *outer);
/* Checks state_every. ERR_CONFIG: states could not be made again. */
pl_status pl_state_every_check(const pl_outer *outer);
/* Checks outer.mean=present. ERR_CONFIG names the setting that must change. */
pl_status pl_mean_check(const pl_outer *outer);

bool pl_arm_is_frozen(const pl_arm *arm, int module);
pl_class pl_arm_class(const pl_topology *topology, int module);
int pl_arm_contributors(const pl_topology *topology, int module);
/* Returns the settings with which a module is merged: the arm's method, with lr and
 * momentum of the module's class. A module with a single contributor is merged as in
 * diloco under every method, because its round waits for no other contributor. */
pl_method_settings pl_arm_method(const pl_arm *arm, const pl_topology *topology,
                                 int module);
/* These two functions write "ARM/L1.E0" and "ARM/p01.r0". */
char *pl_arm_module_name(const pl_arm *arm, const pl_topology *t, int module,
                         char out[96]);
char *pl_arm_path_name(const pl_arm *arm, const pl_topology *t, int path, int replica,
                       char out[96]);
/* pl_arm_before_name writes the name that this path and replica had in the previous
 * arm. (If several paths descend from the same path, they have the same name there.)
 * pl_arm_states_name writes the name of the object with the states with which the paths
 * of a continuing arm begin. */
char *pl_arm_before_name(const pl_arm *arm, const pl_topology *t, int path, int replica,
                         char out[96]);
char *pl_arm_states_name(const pl_arm *arm, char out[96]);
/* Writes the name of the object with the state of a path after `phase` phases:
 * "state/mix/p01.r0/3", which is at the home of its path. It exists with
 * store.keep_states, and for the phase of pl_phase_stays. */
#define PL_KEPT_STATES "state/"
char *pl_kept_state_name(const char *path, int64_t phase, char out[96]);
/* Returns the number of the random stream with which the sampler draws the samples of a
 * path. Each path has a different stream. */
uint64_t pl_arm_stream(const pl_arm *arm, int path);
