/* Measures the gain of packing: trains a small model three times on the same data. The
 * first training has no packing. The second has packing and the same number of useful
 * tokens (counted targets) as the first. The third has packing and the same number of
 * steps as the first, so it takes the same time.
 *
 *   bench_pack DATA CONTEXT BATCH MTOKENS SEED
 *
 * DATA is the data folder of a run (train.tok, valid.tok). For each training the
 * program prints the share of a row that is useful, the number of steps, the useful
 * tokens per second of processor time, and the loss of the held-out documents. The
 * windows of these documents are the same in all three. */
#include "bench/need.h"
#include "corpus/corpus.h"
#include "modules/modules.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct bench {
    pl_tokens *train, *valid;
    pl_backend *backend;
    int context, batch;
    double tokens; /* number of useful tokens to train on */
    uint64_t seed;
    int32_t *in, *out; /* [batch, context] tokens and targets of a batch */
    float *losses;
} bench;

static pl_sampler *open_sampler(const bench *b, const pl_tokens *tokens, bool pack)
{
    pl_sampler *sampler;
    const pl_sampler_options options = {
        .context = b->context, .seed = b->seed, .n_replicas = 1, .pack = pack};
    need(pl_sampler_create(tokens, &options, &sampler));
    return sampler;
}

static double measure_loss(const bench *b, pl_model *model)
{
    pl_sampler *sampler = open_sampler(b, b->valid, false);
    uint64_t n_rows = pl_sampler_rows(sampler);
    int64_t counted = 0;
    double sum = 0;
    for (uint64_t first = 0; first < n_rows; first += (uint64_t)b->batch) {
        int B = n_rows - first < (uint64_t)b->batch ? (int)(n_rows - first) : b->batch;
        counted += pl_sampler_fill(sampler, first, B, b->in, b->out);
        need(pl_model_losses(model, b->in, b->out, B, b->context, b->losses));
        for (int i = 0; i < B * b->context; i++)
            sum += (double)b->losses[i];
    }
    pl_sampler_destroy(&sampler);
    return sum / (double)counted;
}

static pl_topology *describe_model(const bench *b)
{
    pl_topology *topology;
    const pl_topology_spec one_path = {.n_levels = 1, .experts = {1}, .replicas = 1};
    const pl_shape shape = {.vocab = pl_tokens_vocab(b->train),
                            .width = 128,
                            .n_heads = 4,
                            .n_kv_heads = 4,
                            .head_size = 32,
                            .ffn = 344,
                            .n_blocks = 4,
                            .context = b->context,
                            .tied = true,
                            .rope_theta = 10000.0,
                            .norm_eps = 1e-5};
    need(pl_topology_create(&shape, &one_path, &topology));
    return topology;
}

static pl_model *make_bench_model(const bench *b, const pl_topology *topology)
{
    pl_model *model;
    void *memory;
    const pl_model_options options = {
        .batch = b->batch, .context = b->context, .training = true};
    need(pl_try_alloc(pl_topology_path_params(topology) * sizeof(float), "parameters",
                      &memory));
    float *params = memory;
    for (int s = 0; s < pl_topology_n_slots(topology); s++)
        pl_topology_init(topology, s, b->seed,
                         params + pl_topology_slot(topology, s)->offset);
    need(pl_model_create(b->backend, topology, &options, &model));
    need(pl_model_load(model, params));
    pl_free_aligned(params);
    return model;
}

/* Returns the number of steps that train on b->tokens useful tokens. */
static int64_t count_steps(const bench *b, bool pack, uint64_t n_targets)
{
    pl_sampler *sampler = open_sampler(b, b->train, pack);
    double useful = (double)n_targets / (double)pl_sampler_rows(sampler);
    pl_sampler_destroy(&sampler);
    return (int64_t)(b->tokens / (useful * b->batch) + 0.5);
}

static void train_model(const bench *b, bool pack, int64_t steps)
{
    pl_topology *topology = describe_model(b);
    pl_model *model = make_bench_model(b, topology);
    pl_sampler *sampler = open_sampler(b, b->train, pack);
    int64_t counted = 0;
    const pl_schedule schedule = {.kind = PL_SCHEDULE_COSINE,
                                  .warmup = steps / 10,
                                  .total = steps,
                                  .peak = 2e-3,
                                  .floor = 0.1};
    double start = processor_seconds();
    for (int64_t step = 0; step < steps; step++) {
        pl_step_result result;
        const pl_adamw adam = {(float)pl_learning_rate(&schedule, step),
                               0.9f,
                               0.95f,
                               1e-8f,
                               0.1f,
                               step + 1};
        pl_sampler_fill(sampler, (uint64_t)(step * b->batch), b->batch, b->in, b->out);
        need(pl_model_train_step(model, b->in, b->out, b->batch, b->context, &adam,
                                 1.0f, &result));
        counted += result.n_tokens;
    }
    double seconds = processor_seconds() - start;
    printf("context %d batch %d seed %llu pack %d: useful %.3f, %lld steps, %.2fM "
           "tokens, %.0f tokens/s, loss %.4f\n",
           b->context, b->batch, (unsigned long long)b->seed, pack,
           (double)counted / ((double)(steps * b->batch) * b->context),
           (long long)steps, (double)counted / 1e6, (double)counted / seconds,
           measure_loss(b, model));
    fflush(stdout);
    pl_sampler_destroy(&sampler);
    pl_model_destroy(&model);
    pl_topology_destroy(&topology);
}

int main(int argc, char **argv)
{
    bench b = {0};
    char path[PL_PATH_MAX];
    uint64_t n_targets = 0;
    const pl_backend_options options = {
        .name = "cpu", .n_threads = 1, .precision = "auto"};
    if (argc != 6) {
        fprintf(stderr, "usage: bench_pack DATA CONTEXT BATCH MTOKENS SEED\n");
        return 2;
    }
    b.context = atoi(argv[2]);
    b.batch = atoi(argv[3]);
    b.tokens = atof(argv[4]) * 1e6;
    b.seed = strtoull(argv[5], NULL, 10);
    size_t n = (size_t)b.context * (size_t)b.batch;
    b.in = pl_alloc(n * sizeof *b.in);
    b.out = pl_alloc(n * sizeof *b.out);
    b.losses = pl_alloc(n * sizeof *b.losses);
    need(pl_tokens_open(pl_join(path, argv[1], "train.tok"), true, &b.train));
    need(pl_tokens_open(pl_join(path, argv[1], "valid.tok"), true, &b.valid));
    need(pl_backend_open(&options, &b.backend));
    for (uint32_t d = 0; d < pl_tokens_n_docs(b.train); d++)
        n_targets += pl_tokens_doc(b.train, d)->n_tokens - 1;
    int64_t steps = count_steps(&b, false, n_targets);
    train_model(&b, false, steps);
    train_model(&b, true, count_steps(&b, true, n_targets));
    train_model(&b, true, steps);
    pl_backend_close(&b.backend);
    pl_tokens_close(&b.valid);
    pl_tokens_close(&b.train);
    pl_free(b.in), pl_free(b.out), pl_free(b.losses);
    return 0;
}
