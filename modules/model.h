/* The model: one path on one backend, for training or for inference.
 *
 * A model for training has four blocks of memory: parameters, gradients, moments and
 * activations. A model for inference has only activations, and its parameters are in
 * modules (module.h). The sizes are planned when the model is created
 * (pl_model_plan_bytes). A step with the shape of an earlier step allocates nothing.
 * One thread owns a model. */
#pragma once
#include "modules/backend.h"
#include "modules/module.h"
#include "modules/topology.h"
PL_C_BEGIN

typedef struct pl_model pl_model;

typedef struct pl_model_options {
    int batch;     /* B, largest number of sequences per call */
    int context;   /* T, length of the longest sequence; <= shape.context */
    bool training; /* whether the model trains, and so has gradients and moments */
    /* whether training keeps only the input of each block and computes the rest again
     * in the backward pass. The results have the same bytes. A step needs about 1.3
     * times the arithmetic; the activations of a block need a tenth of the memory or
     * less. */
    bool recompute;
    /* whether Muon updates the matrices of blocks (ops.h); AdamW updates the rest */
    bool muon;
    /* Muon divides each matrix into parts with this number of rows and updates each
     * part as a separate matrix. 0: matrices are not divided */
    int muon_rows;
} pl_model_options;

typedef struct pl_model_plan {
    /* numbers of bytes on the device; params_bytes includes the copies of matrices that
     * products read (compute copies, ops.h) */
    uint64_t params_bytes, grads_bytes, moments_bytes, acts_bytes;
    /* working memory of Muon for the largest matrix (not counted: on cpu each further
     * thread that steps a matrix needs as much); on a GPU also the working memory of
     * the other operations and of cuBLAS, the rotary table, and the optimizer's list of
     * pieces */
    uint64_t scratch_bytes;
} pl_model_plan;
void pl_model_plan_bytes(const pl_topology *topology, const pl_model_options *options,
                         pl_type act, pl_model_plan *out);
/* Computes the GPU memory that the model needs, also on a machine without a GPU. The
 * caches of a decoder and the process's CUDA context are not included. */
void pl_model_plan_gpu(const pl_topology *topology, const pl_model_options *options,
                       pl_model_plan *out);
uint64_t pl_model_plan_sum(const pl_model_plan *plan);
/* Plans a model on this backend. */
void pl_model_plan_on(const pl_backend *be, const pl_topology *topology,
                      const pl_model_options *options, pl_model_plan *out);

/* Borrows backend and topology until destroy. If an allocation fails, the error text
 * lists the sizes of the plan. */
pl_status pl_model_create(pl_backend *backend, const pl_topology *topology,
                          const pl_model_options *options, pl_model **out);
void pl_model_destroy(pl_model **model);

/* A row of a batch may hold several texts, one after the other: `token |
 * PL_TEXT_BEGINS` is the first token of a text within a row. Attention does not look
 * before a text's first token, and positions count from it, so a text has the same loss
 * as if it were alone in a row. The first token of a row needs no mark. In a batch
 * without targets, a mark is ERR_DATA. */
enum { PL_TEXT_BEGINS = 1 << 30 };

/* Load and save the parameters as one fp32 block of pl_topology_path_params floats in
 * the host's memory. In a model for inference, pl_model_load makes modules from the
 * parameters and allocates the memory of these modules. Such a model cannot be saved
 * (ERR_ARG). In a model for training, pl_model_load forgets steps that were begun and
 * not ended. */
pl_status pl_model_load(pl_model *model, const float *params);
pl_status pl_model_save(pl_model *model, float *params);
/* Lets a model for inference read the modules of `path` instead of parameters that were
 * loaded. The path must have the model's backend and shape. It is borrowed until the
 * next call of this function or of pl_model_load. A model into which no parameters are
 * loaded needs the memory of its plan minus params_bytes. */
pl_status pl_model_use(pl_model *model, const pl_path *path);
/* Freezes slots of a training model: their parameters and moments keep their values,
 * and their gradients count neither in the norm nor in clipping. `frozen` has one value
 * per slot; NULL: no slot is frozen. At least one slot must train. After a failure the
 * model can only be destroyed. */
pl_status pl_model_freeze(pl_model *model, const bool *frozen);
/* The optimizer's moments. m has one value for each parameter of the path. v has one
 * value for each parameter that AdamW updates, without gaps: with Muon these are
 * pl_shape_hidden_params fewer. If a pointer is NULL, zeros are loaded. */
pl_status pl_model_load_moments(pl_model *model, const float *m, const float *v);
pl_status pl_model_save_moments(pl_model *model, float *m, float *v);
pl_status pl_model_save_grads(pl_model *model, float *grads);

/* One optimizer step on tokens [B,T] and targets [B,T]. A target below 0 does not
 * count; the loss is the mean over the others. ERR_DATA if a token (without its mark
 * PL_TEXT_BEGINS) or a target is not in the vocabulary. If `clip` > 0, gradients are
 * scaled so that their global norm is at most `clip`. If B exceeds the model's batch,
 * the B sequences are divided among several forward and backward passes, whose
 * gradients are added; the sum is rounded differently from the gradient of a single
 * pass. ERR_NUMERIC if loss or norm is not finite; the parameters are then
 * unchanged. */
typedef struct pl_step_result {
    double loss;      /* nats per token */
    double grad_norm; /* before clipping */
    int64_t n_tokens; /* number of counted targets */
} pl_step_result;
pl_status pl_model_train_step(pl_model *model, const int32_t *tokens,
                              const int32_t *targets, int B, int T,
                              const pl_adamw *adam, float clip, pl_step_result *out);
/* The two halves of pl_model_train_step. The second waits for the results of the oldest
 * step that was begun. A second step may begin before the first ends, so that a GPU
 * need not wait for the host. ERR_ARG if a third one begins, or if no step has begun.
 * Only one model of a backend may have begun steps at a time, because the backend keeps
 * their results. */
pl_status pl_model_step_begin(pl_model *model, const int32_t *tokens,
                              const int32_t *targets, int B, int T,
                              const pl_adamw *adam, float clip);
pl_status pl_model_step_end(pl_model *model, pl_step_result *out);
/* Runs the forward and the backward pass without the optimizer. Gradients are added to
 * those of earlier calls. */
pl_status pl_model_gradients(pl_model *model, const int32_t *tokens,
                             const int32_t *targets, int B, int T, pl_step_result *out);
void pl_model_zero_gradients(pl_model *model);

/* Runs only the forward pass and writes loss[b,t] in nats (0 where target < 0). */
pl_status pl_model_losses(pl_model *model, const int32_t *tokens,
                          const int32_t *targets, int B, int T, float *losses);
/* Computes routing features [B,C] in fp32: for each sequence, the mean of the last
 * block's hidden state (before the final norm) over the first lengths[b] positions. */
pl_status pl_model_features(pl_model *model, const int32_t *tokens,
                            const int32_t *lengths, int B, int T, float *features);

/* Decoding with a KV cache. A decoder has slots (not the slots of a topology); each
 * holds one sequence, or none.
 *
 * On `ref`, and on `cpu` for even widths, the logits of a sequence depend neither on
 * the other sequences of the step nor on the slots: a sequence gets the same bytes if
 * it is decoded alone. On `cuda` the order in which the library sums may depend on the
 * number of rows, so only steps with the same rows give the same bytes. */
enum { PL_DECODER_SLOTS_MAX = 256 };
typedef struct pl_decoder pl_decoder;
/* n_slots is 1 to PL_DECODER_SLOTS_MAX, and at most the model's context. */
pl_status pl_decoder_create(pl_model *model, int n_slots, pl_decoder **out);
void pl_decoder_destroy(pl_decoder **decoder);
/* Chooses the path that computes the tokens added to the slot from now on; NULL: the
 * model's path. The path is borrowed until a different one is chosen for the slot.
 * Sequences of different paths may be in one step; if several paths have the same
 * module, the step multiplies the rows of all these sequences by it at once. */
void pl_decoder_use(pl_decoder *decoder, int slot, const pl_path *path);
void pl_decoder_clear(pl_decoder *decoder, int slot);
int pl_decoder_length(const pl_decoder *decoder, int slot);
/* Adds n tokens to the sequence in `slot`. Writes the logits [V] after the last token,
 * unless `logits` is NULL. ERR_DATA if the context is full or a token is unknown; then
 * the sequence is unchanged. */
pl_status pl_decoder_prefill(pl_decoder *decoder, int slot, const int32_t *tokens,
                             int n, float *logits);
/* Like pl_decoder_prefill, but passes the logits after each of the n tokens to `take`.
 * Each call of `take` gets the logits after tokens first .. first + count - 1 in
 * `logits` [slots,V], memory that the caller provides. If `take` fails, the sequence is
 * unchanged and the error of `take` is returned. */
typedef pl_status (*pl_logits_fn)(void *context, int first, int count,
                                  const float *logits);
pl_status pl_decoder_prefill_all(pl_decoder *decoder, int slot, const int32_t *tokens,
                                 int n, float *logits, pl_logits_fn take,
                                 void *context);
/* Like pl_decoder_prefill, but writes losses [n] instead of logits: losses[i] is -log p
 * of targets[i], the token that follows tokens[i]. This is much faster than computing
 * the losses from all logits. */
pl_status pl_decoder_prefill_losses(pl_decoder *decoder, int slot,
                                    const int32_t *tokens, const int32_t *targets,
                                    int n, float *losses);
/* Returns how many of the next n tokens pl_decoder_prefill reads at once. A caller may
 * pass this many tokens per call and do other work between the calls; the logits have
 * the same bytes. */
int pl_decoder_piece(const pl_decoder *decoder, int slot, int n);
/* For a prompt of which the first n tokens are known, returns for how many of these
 * tokens the bytes in the caches do not depend on the tokens that follow. Other prompts
 * with the same first tokens can share these bytes. These are the tokens in whole
 * pieces. On a GPU the result is 0, because a whole prompt is one piece. */
int pl_decoder_shared(const pl_decoder *decoder, int n);
/* Lets the sequence in `slot` consist of the first n tokens of slot `from`, and copies
 * their keys and values; both may be the same slot. The caches of a slot keep their
 * contents until new tokens overwrite them, so `from` may be a slot that was
 * cleared. */
pl_status pl_decoder_share(pl_decoder *decoder, int slot, int from, int n);
/* Adds one token to each of n sequences in different slots; writes logits [n,V]. Errors
 * are those of pl_decoder_prefill. */
pl_status pl_decoder_step(pl_decoder *decoder, const int32_t *slots,
                          const int32_t *tokens, int n, float *logits);

/* The inner learning rate over a path's steps, counted from 0 (modules/schedule.c). */
typedef enum pl_schedule_kind {
    PL_SCHEDULE_COSINE, /* warm-up, then a cosine down to the end */
    PL_SCHEDULE_WSD,    /* warm-up, constant (stable), then a linear decay */
    PL_SCHEDULE_COUNT
} pl_schedule_kind;
typedef struct pl_schedule {
    pl_schedule_kind kind;
    int64_t warmup; /* number of steps of the linear rise */
    int64_t total;  /* number of steps after which the rate is at its floor */
    /* wsd: number of steps at the end of `total` in which the rate falls; 0: the rate
     * never falls */
    int64_t decay;
    double peak;
    double floor; /* lowest rate, as a share of the peak */
} pl_schedule;
double pl_learning_rate(const pl_schedule *schedule, int64_t step);

/* Returns the number of rows of logits that the backend's classifier has in memory at
 * once in a training step with N tokens and a vocabulary of V (model_plan.c). */
size_t pl_model_head_rows(const pl_backend *be, size_t N, size_t V);

PL_C_END
