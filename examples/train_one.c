/* train_one: from text to a trained language model in one program.
 *
 * This is a tutorial on the library's public headers. In one process on one machine, it
 * does the same steps as one worker of a job, and the steps before and after them:
 *
 *   1. prepare   text -> documents -> tokenizer -> two files of tokens
 *   2. train     windows of tokens -> loss -> gradients -> AdamW, some hundred times
 *   3. evaluate  mean loss on documents that training never saw
 *   4. save      parameters -> a folder that transformers and vLLM load, too
 *   5. generate  load the folder again, and let the model continue a prompt
 *
 *   build/release/examples/train_one --out FOLDER [--text PATH] [--prompt TEXT]
 *                                    [--vocab N] [--steps N] [--threads N]
 *
 * PATH is a text file, a folder of text files, or JSON lines; without it the program
 * reads text that the machine has below /usr. With the defaults it takes about a minute
 * on two cores. The same text and options give the same model, byte for byte.
 *
 * A job adds many paths that share modules, a router that decides on which documents a
 * path trains, outer steps that merge the updates of the paths, and a store that keeps
 * every version. docs/TUTORIAL.md shows a job.
 *
 * How errors work here. Every function that can fail returns a pl_status. The function
 * that finds the problem writes one sentence about it; every function above it only
 * returns the status. PL_CHECK(call) returns from the function if the call failed;
 * PL_TRY(call) jumps to the label `done`, which cleans up. main prints the sentence. */
#include "base/base.h"
#include "corpus/corpus.h"
#include "modules/modules.h"
#include "serve/serve.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    const char *text;   /* file or folder to train on; "": the machine's own text */
    const char *out;    /* folder for everything that this program writes */
    const char *prompt; /* text that the model continues */
    int vocab;          /* number of pieces of the tokenizer */
    int steps;          /* number of optimizer steps */
    int threads;
} options;

static const options default_options = {
    .text = "", .out = "", .prompt = "The", .vocab = 2048, .steps = 300, .threads = 2};

/* A step trains on BATCH sequences of CONTEXT tokens: 1024 tokens. */
enum { BATCH = 8, CONTEXT = 128, SEED = 1 };

/* ---- 1. prepare ---- */

typedef struct data {
    pl_tokenizer *tokenizer;
    pl_tokens *train, *valid; /* token files, memory-mapped */
    pl_buf model;             /* the bytes of the tokenizer's file */
} data;

static void print_line(void *context, const char *line)
{
    (void)context;
    printf("%s\n", line);
}

/* Reads the text, removes duplicates, holds out 4 % of the documents for evaluation,
 * trains a tokenizer, and writes tokenizer.model, train.tok and valid.tok. Files that
 * an earlier call made with the same options are verified and used again. */
static pl_status prepare(const options *o, data *d)
{
    char folder[PL_PATH_MAX], path[PL_PATH_MAX];
    pl_prepare_result result;
    const pl_prepare_options prepare_options = {.corpus = o->text,
                                                .valid = "",
                                                .valid_share = 0.04,
                                                .tokenizer = "",
                                                .vocab = o->vocab,
                                                .reading = {.cut_bytes = 4096},
                                                .n_paths = 1,
                                                .n_threads = o->threads,
                                                .max_bytes = 4 << 20,
                                                .seed = SEED,
                                                .min_document_tokens = 2,
                                                .progress = print_line};
    pl_join(folder, o->out, "data");
    PL_CHECK(pl_make_folders(folder));
    PL_CHECK(pl_prepare(&prepare_options, folder, &result));

    pl_join(path, folder, "tokenizer.model");
    PL_CHECK(pl_read_file(path, &d->model));
    PL_CHECK(pl_tokenizer_load_bytes(d->model.data, d->model.len, &d->tokenizer));
    /* `true` verifies the checksum of the whole file. */
    PL_CHECK(pl_tokens_open(pl_join(path, folder, "train.tok"), true, &d->train));
    return pl_tokens_open(pl_join(path, folder, "valid.tok"), true, &d->valid);
}

static void close_data(data *d)
{
    pl_tokens_close(&d->valid);
    pl_tokens_close(&d->train);
    pl_tokenizer_destroy(&d->tokenizer);
    pl_buf_destroy(&d->model);
}

/* ---- the model's shape ---- */

/* A topology describes how paths are made of modules. The simplest topology is one
 * level with one expert: a single path, which shares nothing. With n_levels = 2 and
 * experts = {2, 2} the same code would describe four paths; each half of a path is
 * shared with another path. */
static const pl_topology_spec one_path = {.n_levels = 1, .experts = {1}, .replicas = 1};

/* A shape describes how large a path is. This shape is a Llama decoder with four blocks
 * and about a million parameters. */
static pl_status describe_model(const data *d, pl_topology **topology)
{
    const pl_shape shape = {.vocab = pl_tokenizer_vocab(d->tokenizer),
                            .width = 128,
                            .n_heads = 4,
                            .n_kv_heads = 4,
                            .head_size = 32,
                            .ffn = 344,
                            .n_blocks = 4,
                            .context = CONTEXT,
                            .tied = true, /* the output matrix is the embedding */
                            .rope_theta = 10000.0,
                            .norm_eps = 1e-5};
    return pl_topology_create(&shape, &one_path, topology);
}

/* The parameters of a path are one block of floats, slot after slot (embedding, blocks,
 * head). Initial values depend only on the seed and the tensor's name. */
static pl_status initial_parameters(const pl_topology *topology, float **params)
{
    size_t n = pl_topology_path_params(topology);
    PL_CHECK(pl_try_alloc(n * sizeof(float), "the parameters", (void **)params));
    for (int s = 0; s < pl_topology_n_slots(topology); s++)
        pl_topology_init(topology, s, SEED,
                         *params + pl_topology_slot(topology, s)->offset);
    return PL_OK;
}

/* ---- 2. train, 3. evaluate ---- */

/* For each token the target is the token that follows. A target of -1 means padding
 * after a document's end, and is ignored. */
typedef struct batch {
    int32_t tokens[BATCH * CONTEXT], targets[BATCH * CONTEXT];
    float losses[BATCH * CONTEXT]; /* for evaluation */
} batch;

/* Opens a sampler, which cuts documents into windows and shuffles the windows. A
 * sampler has no state: window i depends only on the seed, the stream and i. So if a
 * job loses a worker, another worker can do the same steps again. */
static pl_status open_sampler(const pl_tokens *tokens, pl_sampler **sampler)
{
    const pl_sampler_options sampler_options = {
        .context = CONTEXT, .seed = SEED, .stream = 0, .n_replicas = 1};
    return pl_sampler_create(tokens, &sampler_options, sampler);
}

/* Computes the mean loss in nats per token over all held-out windows. Does not change
 * the model. */
static pl_status evaluate(pl_model *model, const data *d, double *loss)
{
    pl_status status;
    pl_sampler *sampler = NULL;
    batch b;
    double sum = 0;
    int64_t n_counted = 0;
    PL_TRY(open_sampler(d->valid, &sampler));
    uint64_t n_windows = pl_sampler_rows(sampler);
    for (uint64_t first = 0; first < n_windows; first += BATCH) {
        int B = n_windows - first < BATCH ? (int)(n_windows - first) : BATCH;
        n_counted += pl_sampler_fill(sampler, first, B, b.tokens, b.targets);
        PL_TRY(pl_model_losses(model, b.tokens, b.targets, B, CONTEXT, b.losses));
        for (int i = 0; i < B * CONTEXT; i++)
            sum += (double)b.losses[i]; /* 0 where the target is ignored */
    }
    *loss = sum / (double)n_counted;
done:
    pl_sampler_destroy(&sampler);
    return status;
}

/* The usual training loop. pl_model_train_step computes the forward pass, the backward
 * pass, gradient clipping and AdamW, and allocates no memory. */
static pl_status train(pl_model *model, const options *o, const data *d)
{
    pl_status status;
    pl_sampler *sampler = NULL;
    const pl_schedule schedule = {.kind = PL_SCHEDULE_COSINE,
                                  .warmup = o->steps / 10,
                                  .total = o->steps,
                                  .peak = 2e-3,
                                  .floor = 0.1};
    double start = pl_now();
    int64_t n_tokens = 0;
    batch b;
    PL_TRY(open_sampler(d->train, &sampler));
    for (int step = 0; step < o->steps; step++) {
        const pl_adamw adam = {.lr = (float)pl_learning_rate(&schedule, step),
                               .beta1 = 0.9f,
                               .beta2 = 0.95f,
                               .eps = 1e-8f,
                               .weight_decay = 0.1f,
                               .step = step + 1};
        pl_step_result result;
        pl_sampler_fill(sampler, (uint64_t)step * BATCH, BATCH, b.tokens, b.targets);
        PL_TRY(pl_model_train_step(model, b.tokens, b.targets, BATCH, CONTEXT, &adam,
                                   1.0f, &result));
        n_tokens += result.n_tokens;
        if (step == 0 || (step + 1) % 50 == 0 || step + 1 == o->steps)
            printf("train  step %4d  loss %.4f  lr %.2e  %.0f tokens/s\n", step + 1,
                   result.loss, (double)adam.lr, (double)n_tokens / (pl_now() - start));
    }
done:
    pl_sampler_destroy(&sampler);
    return status;
}

/* Replaces the initial parameters in `params` by the trained ones. */
static pl_status train_and_evaluate(const options *o, const data *d,
                                    const pl_topology *topology, pl_backend *backend,
                                    float *params)
{
    pl_status status;
    pl_model *model = NULL;
    double before, after;
    /* A model for training allocates all its memory here: for parameters, gradients,
     * the two moments of AdamW, and the activations of one batch. */
    const pl_model_options size = {
        .batch = BATCH, .context = CONTEXT, .training = true};
    PL_TRY(pl_model_create(backend, topology, &size, &model));
    PL_TRY(pl_model_load(model, params));
    PL_TRY(evaluate(model, d, &before));
    PL_TRY(train(model, o, d));
    PL_TRY(evaluate(model, d, &after));
    printf("valid  loss %.4f before training, %.4f after: perplexity %.1f\n", before,
           after, exp(after));
    PL_TRY(pl_model_save(model, params));
done:
    pl_model_destroy(&model);
    return status;
}

/* ---- 4. save ---- */

/* Writes model.safetensors, config.json and the tokenizer. Each file appears complete
 * or not at all, even if the machine loses power meanwhile. */
static pl_status save(const options *o, const data *d, const pl_topology *topology,
                      const float *params)
{
    char folder[PL_PATH_MAX];
    const pl_export export = {.name = "train_one",
                              .topology = topology,
                              .params = params,
                              .tokenizer_model = d->model.data,
                              .tokenizer_bytes = d->model.len,
                              .type = PL_WEIGHT_F32};
    pl_join(folder, o->out, "model");
    PL_CHECK(pl_export_folder(&export, folder));
    printf("save   %zu parameters in %s\n", pl_topology_path_params(topology), folder);
    return PL_OK;
}

/* ---- 5. generate ---- */

/* Prints a piece of text; pl_generate calls this function as soon as a piece is final.
 * A piece always has whole UTF-8 characters. The model may write characters that would
 * control the terminal, so such characters are made printable. */
static pl_status print_piece(void *context, const char *text, size_t len)
{
    pl_buf printable = {0};
    (void)context;
    pl_buf_printable(&printable, text, len, true);
    fwrite(printable.data, 1, printable.len, stdout);
    fflush(stdout);
    pl_buf_destroy(&printable);
    return PL_OK;
}

/* Lets the decoder continue a prompt, which begins with BOS as every document does. */
static pl_status continue_prompt(const char *text, const data *d, pl_decoder *decoder)
{
    pl_status status;
    pl_buf prompt = {0};
    pl_generate_result result;
    const pl_generator generator = {.decoder = decoder,
                                    .tokenizer = d->tokenizer,
                                    .vocab = pl_tokenizer_vocab(d->tokenizer),
                                    .context = CONTEXT};
    pl_generate_options how = {.max_tokens = 60, .choice = pl_choice_defaults()};
    pl_buf_append(&prompt, &(int32_t){PL_TOKEN_BOS}, sizeof(int32_t));
    PL_TRY(pl_tokenizer_encode(d->tokenizer, text, strlen(text), &prompt));
    printf("text   %s", text);
    PL_TRY(pl_generate(&generator, (const int32_t *)(const void *)prompt.data,
                       (int)(prompt.len / sizeof(int32_t)), &how, print_piece, NULL,
                       &result));
    printf("\ndone   %d tokens in %.3f s\n", result.n_tokens, result.decode_seconds);
done:
    pl_buf_destroy(&prompt);
    return status;
}

/* Reads the folder that save() wrote. A model for inference keeps no gradients and no
 * moments; a decoder keeps the keys and values of the tokens that it has seen. */
static pl_status generate(const options *o, const data *d, pl_backend *backend)
{
    pl_status status;
    char folder[PL_PATH_MAX];
    pl_import *import = NULL;
    pl_topology *topology = NULL;
    pl_model *model = NULL;
    pl_decoder *decoder = NULL;
    float *params = NULL;
    const pl_model_options model_options = {.batch = 1, .context = CONTEXT};

    PL_TRY(pl_import_open(pl_join(folder, o->out, "model"), &import));
    PL_TRY(pl_topology_create(pl_import_shape(import), &one_path, &topology));
    PL_TRY(initial_parameters(topology, &params));
    PL_TRY(pl_import_load(import, topology, params)); /* overwrites all parameters */
    PL_TRY(pl_model_create(backend, topology, &model_options, &model));
    PL_TRY(pl_model_load(model, params));
    PL_TRY(pl_decoder_create(model, &decoder));
    PL_TRY(continue_prompt(o->prompt, d, decoder));
done:
    pl_decoder_destroy(&decoder);
    pl_model_destroy(&model);
    pl_free_aligned(params);
    pl_topology_destroy(&topology);
    pl_import_close(&import);
    return status;
}

/* ---- the program ---- */

static pl_status train_one(const options *o)
{
    pl_status status;
    data d = {0};
    pl_topology *topology = NULL;
    pl_backend *backend = NULL;
    float *params = NULL;
    /* The backend does the arithmetic. "cpu" and "cuda" are fast; "ref" is slow and is
     * the specification of the other two. The precision "auto" means the fastest
     * precision. */
    const pl_backend_options backend_options = {
        .name = "cpu", .n_threads = o->threads, .precision = "auto"};

    PL_TRY(prepare(o, &d));
    PL_TRY(describe_model(&d, &topology));
    PL_TRY(initial_parameters(topology, &params));
    PL_TRY(pl_backend_open(&backend_options, &backend));
    printf("model  %zu parameters on %s\n", pl_topology_path_params(topology),
           backend->device);
    PL_TRY(train_and_evaluate(o, &d, topology, backend, params));
    PL_TRY(save(o, &d, topology, params));
    PL_TRY(generate(o, &d, backend));
done:
    pl_backend_close(&backend);
    pl_free_aligned(params);
    pl_topology_destroy(&topology);
    close_data(&d);
    return status;
}

static pl_status parse_options(int argc, char **argv, options *o)
{
    *o = default_options;
    for (int i = 1; i < argc; i += 2) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        int number = atoi(value);
        if (strcmp(name, "--text") == 0)
            o->text = value;
        else if (strcmp(name, "--out") == 0)
            o->out = value;
        else if (strcmp(name, "--prompt") == 0)
            o->prompt = value;
        else if (strcmp(name, "--vocab") == 0 && number > 0)
            o->vocab = number;
        else if (strcmp(name, "--steps") == 0 && number > 0)
            o->steps = number;
        else if (strcmp(name, "--threads") == 0 && number > 0)
            o->threads = number;
        else
            return pl_fail(PL_ERR_USAGE,
                           "train_one has no option %s, or cannot use its value `%s` "
                           "(a number must be 1 or more)",
                           name, value);
    }
    if (o->out[0] == '\0')
        return pl_fail(PL_ERR_USAGE,
                       "--out is missing: give --out FOLDER for the model's files");
    return PL_OK;
}

int main(int argc, char **argv)
{
    options o;
    pl_status status = parse_options(argc, argv, &o);
    if (status == PL_OK)
        status = train_one(&o);
    if (status != PL_OK)
        fprintf(stderr, "train_one: %s\n", pl_last_error());
    return pl_status_exit_code(status);
}
