/* Trains one model on a text: prepares the text, does optimizer steps, measures the
 * loss on held-out documents and saves the model (pathloom.h).
 *
 * This is what one worker of a job does, without everything that makes a job of it. A
 * job adds many paths that share modules, a router that decides on which documents a
 * path trains, outer steps that merge the updates of the paths, and a store that keeps
 * every version. So this file is also the shortest way into the engine:
 *
 *   1. prepare   text -> documents -> tokenizer -> two files of tokens
 *   2. train     windows of tokens -> loss -> gradients -> AdamW
 *   3. evaluate  mean loss on documents that training never saw
 *   4. save      parameters -> a folder that transformers and vLLM load, too */
#include "corpus/corpus.h"
#include "lib/lib_internal.h"
#include "modules/modules.h"
#include "serve/serve.h"

#include <math.h>

/* For each token the target is the token that follows. A target of -1 means padding
 * after a document's end, and is ignored. */
struct pathloom_trainer {
    pathloom_train_options options; /* without its pointers */
    pl_prepare_result prepared;
    pl_buf tokenizer_model;   /* the bytes of the tokenizer's file */
    pl_tokens *train, *valid; /* token files, memory-mapped */
    pl_sampler *train_windows, *valid_windows;
    pl_topology *topology;
    pl_backend *backend;
    pl_model *model;
    float *params;             /* initial parameters, later those that are saved */
    int32_t *tokens, *targets; /* [batch, context] */
    float *losses;             /* [batch, context], for evaluation */
    int steps_done;
};

void pathloom_train_defaults(pathloom_train_options *options)
{
    *options = (pathloom_train_options){.text = "",
                                        .vocab = 2048,
                                        .width = 128,
                                        .n_heads = 4,
                                        .n_blocks = 4,
                                        .ffn = 344,
                                        .context = 128,
                                        .batch = 8,
                                        .steps = 300,
                                        .lr = 2e-3,
                                        .weight_decay = 0.1,
                                        .valid_share = 0.04,
                                        .max_bytes = 4 << 20,
                                        .seed = 1,
                                        .n_threads = 2,
                                        .backend = "cpu",
                                        .precision = "auto"};
}

static pl_status check_options(const pathloom_train_options *o)
{
    const struct {
        const char *name;
        int value, most;
    } numbers[] = {{"vocab", o->vocab, 1 << 20},     {"width", o->width, 1 << 16},
                   {"n_heads", o->n_heads, 1 << 12}, {"n_blocks", o->n_blocks, 256},
                   {"ffn", o->ffn, 1 << 18},         {"context", o->context, 1 << 17},
                   {"batch", o->batch, 1 << 12},     {"steps", o->steps, 1 << 30},
                   {"n_threads", o->n_threads, 4096}};
    PL_CHECK(lib_given(o->text, "text"));
    PL_CHECK(lib_given(o->folder, "folder"));
    PL_CHECK(lib_given(o->backend, "backend"));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].value < 1 || numbers[i].value > numbers[i].most)
            return pl_fail(PL_ERR_USAGE, "%s is %d; give a number from 1 to %d",
                           numbers[i].name, numbers[i].value, numbers[i].most);
    if (o->width % o->n_heads != 0)
        return pl_fail(PL_ERR_USAGE,
                       "width %d cannot be divided among %d heads; make width a "
                       "multiple of n_heads",
                       o->width, o->n_heads);
    if (!isfinite(o->lr) || o->lr <= 0 || !isfinite(o->weight_decay))
        return pl_fail(PL_ERR_USAGE,
                       "lr is %g and weight_decay is %g; give a rate "
                       "above 0 and a finite decay",
                       o->lr, o->weight_decay);
    return PL_OK;
}

/* ---- 1. prepare ---- */
typedef struct hearer {
    pathloom_name_fn fn;
    void *context;
    volatile sig_atomic_t stop;
} hearer;

static void pass_line(void *context, const char *line)
{
    hearer *h = context;
    if (h->fn && h->fn(h->context, line) != 0)
        h->stop = 1;
}

/* Opens a sampler, which cuts documents into windows and shuffles the windows. A
 * sampler has no state: window i depends only on the seed, the stream and i. So if a
 * job loses a worker, another worker can do the same steps again. */
static pl_status open_windows(const pathloom_trainer *t, const pl_tokens *tokens,
                              pl_sampler **out)
{
    const pl_sampler_options how = {.context = t->options.context,
                                    .seed = t->options.seed,
                                    .stream = 0,
                                    .n_replicas = 1};
    return pl_sampler_create(tokens, &how, out);
}

int pathloom_trainer_open(const pathloom_train_options *o, pathloom_trainer **out,
                          pathloom_error *error)
{
    char path[PL_PATH_MAX];
    pathloom_trainer *t = pl_alloc(sizeof *t);
    pl_status status;
    *out = NULL;
    PL_TRY(lib_begin());
    PL_TRY(check_options(o));
    t->options = *o;
    /* Reads the text, removes duplicates, holds out some documents, trains a tokenizer,
     * and writes tokenizer.model, train.tok and valid.tok. Files that an earlier call
     * made with the same options are verified and used again. */
    hearer h = {o->progress, o->progress_context, 0};
    const pl_prepare_options how = {.corpus = o->text,
                                    .valid = "",
                                    .valid_share = o->valid_share,
                                    .tokenizer = "",
                                    .vocab = o->vocab,
                                    .reading = {.cut_bytes = 4096},
                                    .n_paths = 1,
                                    .n_threads = o->n_threads,
                                    .max_bytes = o->max_bytes,
                                    .seed = o->seed,
                                    .min_document_tokens = 2,
                                    .progress = pass_line,
                                    .progress_context = &h,
                                    .stop = &h.stop};
    PL_TRY(pl_make_folders(o->folder));
    PL_TRY(pl_prepare(&how, o->folder, &t->prepared));
    PL_TRY(lib_heard(h.stop));
    PL_TRY(
        pl_read_file(pl_join(path, o->folder, "tokenizer.model"), &t->tokenizer_model));
    /* `true` verifies the checksum of the whole file. */
    PL_TRY(pl_tokens_open(pl_join(path, o->folder, "train.tok"), true, &t->train));
    PL_TRY(pl_tokens_open(pl_join(path, o->folder, "valid.tok"), true, &t->valid));
    PL_TRY(open_windows(t, t->train, &t->train_windows));
    PL_TRY(open_windows(t, t->valid, &t->valid_windows));
    /* Describes the model, a Llama decoder, and makes its initial parameters, which
     * depend only on the seed and the tensors' names. A topology describes how paths
     * are made of modules; this one is a single path, which shares nothing. */
    const pl_topology_spec one_path = {.n_levels = 1, .experts = {1}, .replicas = 1};
    const pl_shape shape = {.vocab = t->prepared.vocab,
                            .width = o->width,
                            .n_heads = o->n_heads,
                            .n_kv_heads = o->n_heads,
                            .head_size = o->width / o->n_heads,
                            .ffn = o->ffn,
                            .n_blocks = o->n_blocks,
                            .context = o->context,
                            .tied = true, /* the output matrix is the embedding */
                            .rope_theta = 10000.0,
                            .norm_eps = 1e-5};
    PL_TRY(pl_topology_create(&shape, &one_path, &t->topology));
    PL_TRY(pl_try_alloc(pl_topology_path_params(t->topology) * sizeof(float),
                        "the parameters", (void **)&t->params));
    for (int s = 0; s < pl_topology_n_slots(t->topology); s++)
        pl_topology_init(t->topology, s, o->seed,
                         t->params + pl_topology_slot(t->topology, s)->offset);
    /* Makes the model for training, which allocates all its memory here: for
     * parameters, gradients, the two moments of AdamW, and the activations of one
     * batch. The backend does the arithmetic. "cpu" and "cuda" are fast; "ref" is slow
     * and is the specification of the other two. */
    const pl_backend_options backend = {
        .name = o->backend, .n_threads = o->n_threads, .precision = o->precision};
    const pl_model_options size = {
        .batch = o->batch, .context = o->context, .training = true};
    const size_t n = (size_t)o->batch * (size_t)o->context;
    PL_TRY(pl_backend_open(&backend, &t->backend));
    PL_TRY(pl_model_create(t->backend, t->topology, &size, &t->model));
    PL_TRY(pl_try_alloc(n * sizeof(int32_t), "a batch", (void **)&t->tokens));
    PL_TRY(pl_try_alloc(n * sizeof(int32_t), "a batch", (void **)&t->targets));
    PL_TRY(pl_try_alloc(n * sizeof(float), "a batch", (void **)&t->losses));
    PL_TRY(pl_model_load(t->model, t->params));
    *out = t;
    t = NULL;
done:
    pathloom_trainer_close(&t);
    return lib_end(status, error);
}

void pathloom_trainer_close(pathloom_trainer **trainer)
{
    pathloom_trainer *t = *trainer;
    if (!t)
        return;
    pl_free_all(t->losses, t->targets, t->tokens);
    pl_model_destroy(&t->model);
    pl_backend_close(&t->backend);
    pl_free(t->params);
    pl_topology_destroy(&t->topology);
    pl_sampler_destroy(&t->valid_windows);
    pl_sampler_destroy(&t->train_windows);
    pl_tokens_close(&t->valid);
    pl_tokens_close(&t->train);
    pl_buf_destroy(&t->tokenizer_model);
    pl_free(t);
    *trainer = NULL;
}

void pathloom_trainer_describe(const pathloom_trainer *t, pathloom_trainer_info *info)
{
    *info = (pathloom_trainer_info){.n_params = pl_topology_path_params(t->topology),
                                    .device = t->backend->device,
                                    .train_documents = t->prepared.train_documents,
                                    .train_tokens = t->prepared.train_tokens,
                                    .valid_documents = t->prepared.valid_documents,
                                    .valid_tokens = t->prepared.valid_tokens,
                                    .steps_done = t->steps_done,
                                    .steps = t->options.steps};
}

/* ---- 2. train ---- */
/* pl_model_train_step computes the forward pass, the backward pass, gradient clipping
 * and AdamW, and allocates no memory. */
int pathloom_trainer_step(pathloom_trainer *t, pathloom_step *step,
                          pathloom_error *error)
{
    const pathloom_train_options *o = &t->options;
    const pl_schedule schedule = {.kind = PL_SCHEDULE_COSINE,
                                  .warmup = o->steps / 10,
                                  .total = o->steps,
                                  .peak = o->lr,
                                  .floor = 0.1};
    const pl_adamw adam = {.lr = (float)pl_learning_rate(&schedule, t->steps_done),
                           .beta1 = 0.9f,
                           .beta2 = 0.95f,
                           .eps = 1e-8f,
                           .weight_decay = (float)o->weight_decay,
                           .step = t->steps_done + 1};
    pl_step_result result = {0};
    pl_status status = PL_OK;
    if (step)
        memset(step, 0, sizeof *step);
    if (t->steps_done == o->steps)
        PL_TRY(pl_fail(PL_ERR_ARG, "all %d steps are done; open a trainer with more",
                       o->steps));
    const int64_t counted =
        pl_sampler_fill(t->train_windows, (uint64_t)t->steps_done * (uint64_t)o->batch,
                        o->batch, t->tokens, t->targets);
    /* A batch of blank documents has no target; then the step does nothing. */
    if (counted > 0)
        PL_TRY(pl_model_train_step(t->model, t->tokens, t->targets, o->batch,
                                   o->context, &adam, 1.0f, &result));
    t->steps_done++;
    if (step)
        *step = (pathloom_step){.step = t->steps_done,
                                .loss = result.loss,
                                .grad_norm = result.grad_norm,
                                .lr = (double)adam.lr,
                                .n_tokens = (uint64_t)result.n_tokens};
done:
    return lib_end(status, error);
}

/* ---- 3. evaluate ---- */
int pathloom_trainer_evaluate(pathloom_trainer *t, double *loss, pathloom_error *error)
{
    const uint64_t n_windows = pl_sampler_rows(t->valid_windows);
    const uint64_t batch = (uint64_t)t->options.batch;
    const int T = t->options.context;
    double sum = 0;
    int64_t n_counted = 0;
    pl_status status = PL_OK;
    *loss = NAN;
    for (uint64_t first = 0; first < n_windows; first += batch) {
        const int B = (int)(n_windows - first < batch ? n_windows - first : batch);
        n_counted += pl_sampler_fill(t->valid_windows, first, B, t->tokens, t->targets);
        PL_TRY(pl_model_losses(t->model, t->tokens, t->targets, B, T, t->losses));
        for (int i = 0; i < B * T; i++)
            sum += (double)t->losses[i]; /* 0 where the target is ignored */
    }
    *loss = sum / (double)n_counted;
done:
    return lib_end(status, error);
}

/* ---- 4. save ---- */
int pathloom_trainer_save(pathloom_trainer *t, const char *folder, const char *name,
                          pathloom_error *error)
{
    const pl_export export = {.name = name,
                              .topology = t->topology,
                              .params = t->params,
                              .tokenizer_model = t->tokenizer_model.data,
                              .tokenizer_bytes = t->tokenizer_model.len,
                              .type = PL_WEIGHT_F32};
    pl_status status;
    PL_TRY(lib_given(folder, "folder"));
    PL_TRY(lib_given(name, "name"));
    PL_TRY(pl_model_save(t->model, t->params));
    PL_TRY(pl_export_folder(&export, folder));
done:
    return lib_end(status, error);
}
