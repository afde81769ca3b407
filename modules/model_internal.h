/* Private to the model: the structs that its files share. The files are model (memory),
 * model_params, module, model_plan (layout), model_forward, model_backward, model_step
 * (training), model_score (losses and features), decoder and decoder_rows.
 *
 * The residual stream. The output buffer of each sublayer (attention or feed-forward)
 * becomes the stream after that sublayer: the next norm adds the earlier stream to it
 * in place. So block b keeps
 *
 *   in   [N,C]  the stream at its first norm (the buffer `out` of block b-1)
 *   mid  [N,C]  in + attention
 *   out  [N,C]  the feed-forward layer's output; in + attention + ffn as soon as
 *               the next norm has run
 *
 * In training each of these is a separate buffer, which the backward pass reads again.
 * With `recompute` all blocks share the buffers other than `in` and `out`. In inference
 * all blocks share one set of buffers, in which `in` and `out` are the same buffer. */
#pragma once
#include "modules/model.h"
#include "modules/module.h"
PL_C_BEGIN

/* N = B*T rows; C = width; F = ffn; H query heads and G kv heads, each of D = head_size
 * elements; W = (H+2G)*D */
typedef struct block_acts {
    pl_act *in, *mid, *out;       /* [N,C] */
    pl_act *attn_norm, *ffn_norm; /* [N,C] */
    float *attn_rstd, *ffn_rstd;  /* [N] */
    /* NULL unless the model trains and has QK norm. qk [N,(H+G)*D]: q and k before QK
     * norm; qk_rstd [N,H+G] */
    pl_act *qk;
    float *qk_rstd;
    pl_act *qkv;     /* [N,W] after rope */
    pl_act *attn;    /* [N,H*D] */
    float *lse;      /* [B,H,T] */
    pl_act *gate_up; /* [N,2F] */
    pl_act *ffn;     /* [N,F] */
} block_acts;

/* The sums of a step that the host reads: of the squares of all gradients, and of the
 * losses of all tokens. */
enum { SUM_SQUARES, SUM_LOSSES, N_SUMS };

typedef struct model_acts {
    /* the inputs of a pass, at the beginning of the block, so that one upload brings
     * them all */
    pl_step_numbers *numbers; /* [1] */
    int32_t *tokens;          /* [N] */
    int32_t *texts;           /* [N] for each token, where its text begins */
    int32_t *targets;         /* [N] */
    block_acts *blocks; /* this array is in host memory, not in the activation block */
    pl_act *embed;      /* [N,C] the residual stream at the entry of block 0 */
    pl_act *norm;       /* [N,C], after the final norm */
    float *rstd, *loss; /* [N] */
    float *means;       /* [B,C] features */
    /* the other fields are NULL unless the model trains */
    double *sums; /* [N_SUMS] */
    /* gradients of the buffers above; all blocks share them */
    pl_act *d_stream, *d_norm; /* [N,C] */
    pl_act *d_qkv, *d_attn, *d_gate_up, *d_ffn;
} model_acts;

/* The four matrices of a block. */
enum { WEIGHT_QKV, WEIGHT_O, WEIGHT_GATE_UP, WEIGHT_DOWN, WEIGHTS_PER_BLOCK };

/* Offsets into the block with all parameters of a path; gradients have the same
 * offsets. */
typedef struct block_params {
    size_t attn_norm, ffn_norm, head_norm, matrices[WEIGHTS_PER_BLOCK];
} block_params;
typedef struct param_places {
    block_params *blocks;
    size_t embed, norm, classifier; /* tied: classifier = embed */
} param_places;

/* The addresses of the parameters of a block, and of a path, for operations. */
typedef struct block_weights {
    const pl_module *of; /* the module that has the block; NULL in training */
    const float *attn_norm, *ffn_norm, *head_norm;
    pl_weight *matrices[WEIGHTS_PER_BLOCK];
} block_weights;
struct pl_path {
    uint64_t number; /* no other path of the process has this number */
    const float *embed, *norm;
    pl_weight *classifier;
    block_weights *blocks; /* [n_blocks] */
};

/* Rows of the activations, and the path whose parameters compute them. */
typedef struct model_rows {
    const pl_path *path;
    int first, n;
} model_rows;

enum { ROUTINE_FIRST, ROUTINE_NEXT, ROUTINE_LAST, N_ROUTINES };
enum { STEPS_BEGUN = PL_POSTS }; /* most steps that were begun and not ended */

struct pl_model {
    pl_backend *be;
    const pl_ops *ops;
    const pl_topology *topology;
    const pl_shape *shape;
    pl_model_options options;
    size_t n_params; /* parameters of the path */
    size_t n_second; /* number of parameters with a second moment */
    /* NULL unless the model trains. params and grads have n_params floats; moments has
     * n_params first moments (m) and, from place pl_second_moments(n_params) on,
     * n_second second moments (v) */
    float *params, *grads, *moments;
    void *act_block;
    model_acts acts; /* pointers into act_block */
    param_places at;
    /* the path that operations read: in training it points into `params`; in inference
     * to own_modules [n_slots], or to modules that the caller owns; NULL: no parameters
     * are loaded */
    const pl_path *path;
    pl_path *own; /* the path that this model has made itself, or NULL */
    pl_module **own_modules;
    pl_weight **weights; /* [n_weights] all matrices; NULL unless the model trains */
    int n_weights;
    pl_update_run *runs;
    int n_runs;
    bool *frozen;           /* [n_slots] slots that keep their parameters */
    pl_update_run *trained; /* the runs without frozen slots */
    int n_trained;          /* if 0, no slot is frozen, and all runs are updated */
    pl_update *update;      /* the optimizer; NULL unless the model trains */
    /* passes of a training step, which the backend may record: the last one includes
     * the update */
    pl_routine *routines[N_ROUTINES];
    /* whether `grads` has gradients of an earlier pass. If not, those of weights have
     * no meaning, and all others are zero. */
    bool has_gradients;
    /* numbers of steps that were begun and ended; the counted targets of those begun */
    uint64_t n_begun, n_ended;
    int64_t begun_tokens[STEPS_BEGUN];
    /* the inputs of a pass in host memory, laid out like the beginning of act_block */
    uint8_t *host_inputs;
    bool has_texts; /* whether a row of a batch has had several texts */
};

/* Returns the place in host memory of an input, of which `acts` has the address on the
 * device. */
static inline void *model_host_input(const pl_model *m, const void *input)
{
    return m->host_inputs + ((const uint8_t *)input - (const uint8_t *)m->act_block);
}

/* Number of rows and columns of one of a block's matrices. */
typedef struct matrix_size {
    int O, I;
} matrix_size;
static inline matrix_size model_weight_size(const pl_shape *s, int which)
{
    const int queries = s->n_heads * s->head_size;
    const matrix_size of[WEIGHTS_PER_BLOCK] = {
        [WEIGHT_QKV] = {queries + 2 * s->n_kv_heads * s->head_size, s->width},
        [WEIGHT_O] = {s->width, queries},
        [WEIGHT_GATE_UP] = {2 * s->ffn, s->width},
        [WEIGHT_DOWN] = {s->width, s->ffn},
    };
    return of[which];
}
/* Rounds a size (in bytes or in floats) up to the next multiple at which a buffer may
 * begin. */
static inline size_t model_whole_lines(size_t n)
{
    return (n + 63) / 64 * 64;
}
/* Whether the backend multiplies by converted copies of the fp32 matrices (masters)
 * instead of the masters themselves. */
static inline bool model_has_copies(const pl_backend *be)
{
    return be->act == PL_BF16 || be->decode_only;
}

/* Returns the address of element `n` of a buffer of activations. */
static inline pl_act *model_act_at(const pl_model *m, pl_act *acts, size_t n)
{
    return (pl_act *)((uint8_t *)acts + n * pl_type_bytes(m->be->act));
}

/* Fills the fields at, runs, n_params and n_second. */
void model_place_params(pl_model *m);
/* Writes where the tensors of a path begin; the caller frees out->blocks. */
void model_place_tensors(const pl_topology *t, param_places *out);
/* Returns the size in bytes of the copy of a matrix that the backend multiplies by; 0
 * if it multiplies by the fp32 master itself. */
uint64_t model_copy_bytes(const pl_backend *be, matrix_size size);
/* Allocates n floats of the backend's memory; `what` names them in an error. */
pl_status model_alloc_floats(pl_backend *be, size_t n, const char *what, float **out);
/* Makes a path with a new number and an empty table of blocks. */
pl_path *model_new_path(int n_blocks);
/* Creates the weights of a training model, and the path that points to them. */
pl_status model_create_weights(pl_model *m);
/* Destroys the path and the modules that a model for inference has made. */
void model_drop_own_path(pl_model *m);
/* Returns `status`, and appends the memory plan to its error sentence. */
pl_status model_fail_with_plan(const pl_model *m, pl_status status);
/* Returns how many rows of a block's matrix Muon updates as one matrix. */
int model_muon_rows(const pl_model_options *options, const pl_tensor *tensor);
/* Creates the optimizer's step for all runs that are not frozen. */
pl_status model_create_update(pl_model *m);
/* Destroys what the backend has recorded of training steps. */
void model_drop_routines(pl_model *m);
/* Sets the gradients of frozen slots to zero. */
void model_drop_frozen(pl_model *m);
/* Returns an upper limit for the number of runs of the optimizer. */
size_t model_most_runs(const pl_topology *topology, const pl_model_options *options);

/* Places every buffer of `acts` from `base` on, and returns their size in bytes. If
 * `base` is NULL, only counts the bytes; acts->blocks may then be NULL. */
size_t model_layout(const pl_shape *shape, const pl_model_options *options, pl_type act,
                    void *base, model_acts *acts);

/* Checks B and T against the plan (ERR_ARG), and every token and target (ERR_DATA);
 * `targets` may be NULL. Then uploads the tokens, the targets, and for each token where
 * its text begins. */
pl_status model_take_batch(pl_model *m, const int32_t *tokens, const int32_t *targets,
                           int B, int T);

/* Computes the losses of the first N rows, after the final norm, by their targets. */
pl_status model_read_losses(pl_model *m, const pl_path *path, int N, float *losses);
/* Runs the forward pass over the uploaded tokens, including the final norm. */
void model_forward(pl_model *m, int B, int T);
/* Parts of the forward pass that the decoder uses, too. The decoder has its own code
 * for attention. */
void model_forward_embed(pl_model *m, model_rows rows);
void model_forward_qkv(pl_model *m, int block, model_rows rows);
void model_forward_rest(pl_model *m, int block, model_rows rows);
void model_forward_norm(pl_model *m, model_rows rows);
/* Recomputes the values between `in` and `out` of a block after another block's values
 * have overwritten them. */
void model_forward_again(pl_model *m, int block, int B, int T);

/* Runs the classifier with gradients, then the backward pass through all blocks; d loss
 * / d logit is scaled by the step's loss_scale. With `accumulate`, the gradients of
 * weights are added to those of an earlier pass; those of other parameters always
 * are. */
void model_backward(pl_model *m, int B, int T, bool accumulate);

PL_C_END
