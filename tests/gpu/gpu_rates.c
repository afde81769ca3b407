/* folder: measure. gpu_rates: measures each operation of the cuda backend within a
 * training step, and the step itself, for one shape. tests/gpu.sh uses it where only
 * the folder modules is built; elsewhere `pathloom bench ops` shows the same figures.
 *
 *   gpu_rates batch=8 context=128 width=128 blocks=4 vocab=2048 precision=auto
 *
 * Other keys: heads, head (size of a head), ffn, repeats, mode; muon_rows: the step is
 * that of Muon with matrices of this many rows; preset=dense-150m takes the shape of a
 * preset instead; stream is the size in MiB of each of the four vectors
 * with which the rate of memory is measured. Each row gives the best of `repeats`
 * samples of an operation, the time of all calls of the operation in a step, GB/s,
 * GF/s, and a share: the rate of the operation divided by the nearer of two limits. The
 * limits are the rate of the best product and the rate of memory ("the best stream").
 * The last lines compare the step with its products alone.
 *
 *   gpu_rates mode=decode context=1024 precision=int8 ...
 *
 * reads a prompt of half the context instead. Then it decodes with 1, 8 and 32
 * sequences of that length at once (or as many as fit into memory), and prints the time
 * of the best step, tokens/s, and the bytes of weights that are read per second. */
#include "measure/probe.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench {
    int batch, context, width, blocks, vocab, heads, head, ffn, repeats, stream,
        muon_rows;
    const char *precision, *mode, *preset;
} bench;

static bool set_number(bench *x, const char *key, int value)
{
    const struct {
        const char *key;
        int *to;
    } keys[] = {{"batch", &x->batch},        {"context", &x->context},
                {"width", &x->width},        {"blocks", &x->blocks},
                {"vocab", &x->vocab},        {"heads", &x->heads},
                {"head", &x->head},          {"ffn", &x->ffn},
                {"repeats", &x->repeats},    {"stream", &x->stream},
                {"muon_rows", &x->muon_rows}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i].key) == 0) {
            *keys[i].to = value;
            return true;
        }
    return false;
}

static bool parse_bench_argument(bench *x, char *argument)
{
    char *value = strchr(argument, '=');
    if (value == NULL)
        return false;
    *value++ = '\0';
    const struct {
        const char *key;
        const char **to;
    } keys[] = {
        {"precision", &x->precision}, {"mode", &x->mode}, {"preset", &x->preset}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(argument, keys[i].key) == 0) {
            *keys[i].to = value;
            return true;
        }
    return atoi(value) > 0 && set_number(x, argument, atoi(value));
}

static pl_shape shape_of(const bench *x)
{
    const int heads = x->heads > 0 ? x->heads : x->width / 32;
    return (pl_shape){.vocab = x->vocab,
                      .width = x->width,
                      .n_heads = heads,
                      .n_kv_heads = heads,
                      .head_size = x->head > 0 ? x->head : x->width / heads,
                      .ffn = x->ffn > 0 ? x->ffn : (x->width * 8 / 3 + 31) / 32 * 32,
                      .n_blocks = x->blocks,
                      .context = x->context,
                      .tied = true,
                      .rope_theta = 10000.0,
                      .norm_eps = 1e-5};
}

/* ---- decoding ---- */
enum { STEPS = 16 };

typedef struct decoding {
    pl_backend *be;
    pl_topology *topology;
    pl_model *model;
    pl_decoder *decoder;
    int32_t *tokens; /* the prompt; a step takes the first tokens of the same array */
    float *params, *logits;
    int n_slots, n_prompt;
} decoding;

static pl_status open_decoding(decoding *d, pl_backend *be, const pl_shape *shape)
{
    const pl_topology_spec spec = {.n_levels = 1, .experts = {1}, .replicas = 1};
    const pl_model_options extents = {.batch = 1, .context = shape->context};
    d->be = be;
    d->n_slots = shape->context < 32 ? shape->context : 32;
    d->n_prompt = shape->context / 2;
    if (d->n_prompt < 1 || shape->context - d->n_prompt < STEPS)
        return pl_fail(PL_ERR_ARG,
                       "a context of %d is too short: half of it is the prompt, and %d "
                       "tokens must fit after the prompt",
                       shape->context, STEPS);
    PL_CHECK(pl_topology_create(shape, &spec, &d->topology));
    PL_CHECK(pl_model_create(be, d->topology, &extents, &d->model));
    const size_t bytes = pl_topology_path_params(d->topology) * sizeof(float);
    PL_CHECK(pl_try_alloc(bytes, "parameters", (void **)&d->params));
    PL_CHECK(pl_probe_params(d->topology, d->params));
    PL_CHECK(pl_model_load(d->model, d->params));
    const int n = d->n_prompt > d->n_slots ? d->n_prompt : d->n_slots;
    d->tokens = pl_alloc((size_t)n * sizeof *d->tokens);
    d->logits = pl_alloc((size_t)d->n_slots * (size_t)shape->vocab * sizeof *d->logits);
    for (int i = 0; i < n; i++)
        d->tokens[i] =
            (int32_t)(pl_random_u32(1, 2, (uint64_t)i) % (uint32_t)shape->vocab);
    return pl_decoder_create(d->model, d->n_slots, &d->decoder);
}

/* Measures how many seconds it takes to read the prompt into `slot`. */
static pl_status time_prompt(decoding *d, int slot, double *seconds)
{
    const double start = pl_now();
    pl_decoder_clear(d->decoder, slot);
    PL_CHECK(pl_decoder_prefill(d->decoder, slot, d->tokens, d->n_prompt, d->logits));
    *seconds = pl_now() - start;
    return PL_OK;
}

/* Makes STEPS steps of n sequences; *best gets the seconds of the fastest step. */
static pl_status time_decode_steps(decoding *d, int n, double *best)
{
    int32_t slots[PL_DECODER_SLOTS_MAX];
    double seconds;
    *best = 0.0;
    for (int i = 0; i < n; i++) {
        slots[i] = i;
        PL_CHECK(time_prompt(d, i, &seconds));
    }
    for (int step = 0; step < STEPS; step++) {
        const double start = pl_now();
        PL_CHECK(pl_decoder_step(d->decoder, slots, d->tokens, n, d->logits));
        seconds = pl_now() - start;
        *best = step == 0 || seconds < *best ? seconds : *best;
    }
    return PL_OK;
}

/* Returns the bytes of all matrices that are used for a token. A tied embedding counts
 * once, as the classifier. */
static double matrix_bytes(const decoding *d)
{
    const pl_shape *s = pl_topology_shape(d->topology);
    const double C = s->width, D = s->head_size, q = s->n_heads * D;
    const double block = (q + 2.0 * s->n_kv_heads * D) * C + q * C + 3.0 * s->ffn * C;
    const double one = d->be->decode_only ? 1.0 : (double)pl_type_bytes(d->be->act);
    return one * (s->n_blocks * block + (double)s->vocab * C);
}

static pl_status print_decoding(decoding *d, int repeats)
{
    double best = 0.0, seconds;
    for (int i = 0; i <= repeats; i++) { /* the first round only warms up */
        PL_CHECK(time_prompt(d, 0, &seconds));
        best = i < 2 || seconds < best ? seconds : best;
    }
    printf("prompt of %d %9.2f ms %9.0f tokens/s\n", d->n_prompt, best * 1e3,
           d->n_prompt / best);
    for (int n = 1; n <= d->n_slots && n <= 32; n *= n < 8 ? 8 : 4) {
        PL_CHECK(time_decode_steps(d, n, &best));
        printf("step of %-4d %9.3f ms %9.0f tokens/s, %7.1f GB/s of weights\n", n,
               best * 1e3, n / best, matrix_bytes(d) / best * 1e-9);
    }
    return PL_OK;
}

static pl_status run_decoding(pl_backend *be, const pl_shape *shape, int repeats)
{
    decoding d = {0};
    pl_status status = open_decoding(&d, be, shape);
    if (status == PL_OK)
        status = print_decoding(&d, repeats);
    pl_decoder_destroy(&d.decoder);
    pl_model_destroy(&d.model);
    pl_topology_destroy(&d.topology);
    pl_free(d.tokens);
    pl_free(d.logits);
    pl_free(d.params);
    return status;
}

/* ---- training, or decoding ---- */
static pl_status run_training(pl_backend *be, const pl_shape *shape, const bench *x)
{
    const pl_probe_options probe = {.shape = shape,
                                    .batch = x->batch,
                                    .rounds = x->repeats,
                                    .muon = x->muon_rows > 0,
                                    .muon_rows = x->muon_rows,
                                    .stream_bytes = (size_t)x->stream << 20};
    pl_probe_report report;
    PL_CHECK(pl_probe(be, &probe, &report));
    for (int i = 0; i < report.n_rows; i++) {
        const pl_probe_row *row = &report.rows[i];
        printf("%-20s %9.1f us  x%-3d %8.2f ms", row->name, row->seconds * 1e6,
               row->calls, row->seconds * row->calls * 1e3);
        printf(" %8.1f GB/s", row->bytes / row->seconds * 1e-9);
        if (row->flops > 0)
            printf(" %8.1f GF/s", row->flops / row->seconds * 1e-9);
        printf(" %3.0f%% of its limit\n", 100.0 * pl_probe_share(&report, row));
    }
    printf("limits: the best product %.1f GF/s, the best stream %.1f GB/s\n",
           report.matrix_rate * 1e-9, report.memory_rate * 1e-9);
    const double step = report.step_seconds;
    printf("products %.2f ms at %.1f GF/s\n", report.product_seconds * 1e3,
           report.product_flops / report.product_seconds * 1e-9);
    printf(
        "step %.2f ms = %.0f tokens/s, %.1f GF/s of products, %.0f%% of their rate\n",
        step * 1e3, report.tokens / step, report.product_flops / step * 1e-9,
        100.0 * report.product_seconds / step);
    printf("with attention %.1f GF/s, %.0f%% of the best product's %.1f GF/s\n",
           report.flops / step * 1e-9, 100.0 * report.flops / step / report.matrix_rate,
           report.matrix_rate * 1e-9);
    return PL_OK;
}

static pl_status run_ops_bench(const bench *x)
{
    const pl_backend_options options = {
        .name = "cuda", .n_threads = 1, .precision = x->precision};
    pl_shape shape = shape_of(x);
    pl_topology_spec spec;
    pl_backend *be;
    if (x->preset)
        PL_CHECK(pl_preset(x->preset, &shape, &spec));
    PL_CHECK(pl_shape_check(&shape));
    PL_CHECK(pl_backend_open(&options, &be));
    printf("%s; batch %d x %d, width %d, heads %d/%d x %d, ffn %d, blocks "
           "%d, vocab %d\n",
           be->device, x->batch, shape.context, shape.width, shape.n_heads,
           shape.n_kv_heads, shape.head_size, shape.ffn, shape.n_blocks, shape.vocab);
    fflush(stdout);
    const pl_status status = strcmp(x->mode, "decode") == 0
                                 ? run_decoding(be, &shape, x->repeats)
                                 : run_training(be, &shape, x);
    if (status == PL_OK && be->remark[0])
        printf("%s\n", be->remark);
    pl_backend_close(&be);
    return status;
}

int main(int argc, char **argv)
{
    bench x = {.batch = 8,
               .context = 128,
               .width = 128,
               .blocks = 4,
               .vocab = 2048,
               .repeats = 10,
               .precision = "auto",
               .mode = "train"};
    for (int i = 1; i < argc; i++)
        if (!parse_bench_argument(&x, argv[i])) {
            fprintf(stderr,
                    "gpu_rates: \"%s\" has no known key or no value (numbers are 1 or "
                    "more); the beginning of gpu_rates.c lists the keys\n",
                    argv[i]);
            return 64;
        }
    if (run_ops_bench(&x) != PL_OK) {
        fprintf(stderr, "gpu_rates: %s\n", pl_last_error());
        return 70;
    }
    return 0;
}
