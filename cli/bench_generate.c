/* pathloom bench generate: how fast a path reads a prompt and writes tokens.
 *
 * A token by itself needs every weight once, so its limit is the rate at which weights
 * come from memory. That rate is measured in the same run, by threads that only read:
 * once a round, between what is judged by it. Figures are the best of the rounds,
 * because other work on a machine only ever adds time. Weights that fit into a cache
 * may pass the limit, and are marked. */
#include "cli/bench.h"
#include "cli/run.h"

#include <getopt.h>
#include <math.h>

enum {
    READ_BYTES = 256 << 20, /* much more than caches hold */
    READ_ITEM = 1 << 20,
    BATCHES_MAX = 3,
    STEPS = 24,    /* of decoding in a round; their mean counts */
    PROMPT = 192,  /* tokens, or half of the context */
    TOKEN_STEP = 7 /* the tokens fed are no text: only their number counts */
};
static const int batches[BATCHES_MAX] = {1, 4, 16};

typedef struct size_row {
    const char *name;
    int vocab, width, heads, ffn, blocks, context, rounds;
} size_row;
static const size_row sizes[] = {{"2m", 4096, 128, 4, 352, 8, 256, 12},
                                 {"13m", 8192, 384, 6, 1024, 6, 256, 8},
                                 {"124m", 50304, 768, 12, 2048, 12, 256, 4}};
static const char *const size_names[] = {"2m", "13m", "124m"};
enum { N_SIZES = sizeof sizes / sizeof *sizes };
static const char *const precisions[] = {"f32", "bf16", "int8"};

typedef struct request {
    bool json;
    const char *model, *precision, *backend;
    const char *sets[64];
    int n_sets, threads;
} request;

/* One model in one precision. */
typedef struct bench {
    const request *q;
    const char *name, *precision;
    pl_shape shape;
    int rounds, n_slots;
    pl_topology *topology;
    pl_backend *backend;
    pl_model *model;
    pl_decoder *decoder;
    float *params, *logits;
    int32_t *prompt;
    int n_prompt;
    uint64_t *memory; /* READ_BYTES */
    /* what was measured, in seconds */
    double prefill, step[BATCHES_MAX], reading;
} bench;

/* ---- options ---- */

enum { OPT_JSON = 256, OPT_MODEL, OPT_SET, OPT_PRECISION, OPT_BACKEND, OPT_THREADS };
static const struct option longs[] = {
    {"json", no_argument, NULL, OPT_JSON},
    {"model", required_argument, NULL, OPT_MODEL},
    {"set", required_argument, NULL, OPT_SET},
    {"precision", required_argument, NULL, OPT_PRECISION},
    {"backend", required_argument, NULL, OPT_BACKEND},
    {"threads", required_argument, NULL, OPT_THREADS},
    {NULL, 0, NULL, 0}};

static pl_status take_threads(request *q)
{
    int64_t n = 0;
    if (pl_parse_int(optarg, &n) != PL_OK || n < 1 || n > 1024)
        return pl_fail(PL_ERR_USAGE, "--threads is 1 to 1024, not `%s`", optarg);
    q->threads = (int)n;
    return PL_OK;
}

static pl_status take_set(request *q)
{
    if ((size_t)q->n_sets == sizeof q->sets / sizeof *q->sets)
        return pl_fail(PL_ERR_USAGE, "more than %d times --set", q->n_sets);
    q->sets[q->n_sets++] = optarg;
    return PL_OK;
}

static pl_status take(int option, request *q, char **argv)
{
    if (option == OPT_JSON)
        q->json = true;
    else if (option == OPT_MODEL)
        q->model = optarg;
    else if (option == OPT_PRECISION)
        q->precision = optarg;
    else if (option == OPT_BACKEND)
        q->backend = optarg;
    else if (option == OPT_THREADS)
        return take_threads(q);
    else if (option == OPT_SET)
        return take_set(q);
    else
        return cli_bad_option(option, argv, longs);
    return PL_OK;
}

static pl_status parse(int argc, char **argv, request *q)
{
    int option;
    *q = (request){.backend = "cpu", .threads = pl_cpu_count()};
    optind = 1;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":", longs, NULL)) != -1)
        PL_RETURN_IF(take(option, q, argv));
    if (optind < argc)
        return pl_fail(PL_ERR_USAGE, "unexpected word `%s`", argv[optind]);
    if (q->model && q->n_sets > 0)
        return pl_fail(PL_ERR_USAGE, "--model and --set both name a model; give one");
    for (int i = 0; i < N_SIZES; i++)
        if (!q->model || strcmp(q->model, size_names[i]) == 0)
            return PL_OK;
    const char *near = pl_nearest(q->model, size_names, N_SIZES);
    return pl_fail(PL_ERR_USAGE, "bench has no model `%s`; did you mean `%s`?",
                   q->model, near ? near : size_names[0]);
}

/* ---- a model ---- */

static pl_status make_params(bench *b)
{
    const pl_topology_spec spec = {.n_levels = 1, .experts = {1}, .replicas = 1};
    void *memory = NULL;
    PL_RETURN_IF(pl_topology_create(&b->shape, &spec, &b->topology));
    PL_RETURN_IF(pl_try_alloc(pl_topology_path_params(b->topology) * sizeof(float),
                              "a path", &memory));
    b->params = memory;
    for (int s = 0; s < pl_topology_n_slots(b->topology); s++)
        pl_topology_init(b->topology, s, 1,
                         b->params + pl_topology_slot(b->topology, s)->offset);
    return PL_OK;
}

static pl_status make_tokens(bench *b)
{
    void *logits = NULL;
    b->n_prompt = b->shape.context / 2 < PROMPT ? b->shape.context / 2 : PROMPT;
    b->prompt = pl_alloc((size_t)b->n_prompt * sizeof *b->prompt);
    for (int i = 0; i < b->n_prompt; i++)
        b->prompt[i] = (int32_t)((int64_t)i * TOKEN_STEP % b->shape.vocab);
    b->n_slots = batches[BATCHES_MAX - 1];
    PL_RETURN_IF(
        pl_try_alloc((size_t)b->n_slots * (size_t)b->shape.vocab * sizeof(float),
                     "logits", &logits));
    b->logits = logits;
    return PL_OK;
}

static pl_status open_precision(bench *b)
{
    const pl_backend_options backend = {
        .name = b->q->backend, .n_threads = b->q->threads, .precision = b->precision};
    const pl_model_options model = {.batch = 1, .context = b->shape.context};
    PL_RETURN_IF(pl_backend_open(&backend, &b->backend));
    PL_RETURN_IF(pl_model_create(b->backend, b->topology, &model, &b->model));
    PL_RETURN_IF(pl_model_load(b->model, b->params));
    return pl_decoder_create_slots(b->model, b->n_slots, &b->decoder);
}

static void close_precision(bench *b)
{
    pl_decoder_destroy(&b->decoder);
    pl_model_destroy(&b->model);
    pl_backend_close(&b->backend);
}

/* Bytes that one token reads: all matrices but the embedding, of which it reads a row
 * (tied, it is read as the classifier). */
static double weight_bytes(const bench *b)
{
    const pl_shape *s = &b->shape;
    const double D = s->head_size, C = s->width;
    const double qkv = (s->n_heads + 2.0 * s->n_kv_heads) * D, q = s->n_heads * D;
    const double rows = s->n_blocks * (qkv + C + 2.0 * s->ffn + C) + (double)s->vocab;
    const double n = s->n_blocks * (qkv * C + q * C + 3.0 * s->ffn * C) + s->vocab * C;
    return b->backend->decode_only ? n + rows * (double)sizeof(float)
                                   : n * (double)pl_type_bytes(b->backend->act);
}

/* ---- measuring ---- */

static pl_status read_item(void *context, size_t item, int thread)
{
    const bench *b = context;
    const size_t n = READ_ITEM / sizeof *b->memory;
    const uint64_t *at = b->memory + item * n;
    uint64_t sum[8] = {0};
    (void)thread;
    for (size_t i = 0; i < n; i += 8)
        for (size_t k = 0; k < 8; k++)
            sum[k] ^= at[i + k];
    volatile uint64_t used =
        sum[0] ^ sum[1] ^ sum[2] ^ sum[3] ^ sum[4] ^ sum[5] ^ sum[6] ^ sum[7];
    (void)used;
    return PL_OK;
}

static pl_status time_reading(bench *b)
{
    const double start = pl_now();
    PL_RETURN_IF(pl_parallel(b->q->threads, READ_BYTES / READ_ITEM, read_item, b));
    b->reading = fmin(b->reading, pl_now() - start);
    return PL_OK;
}

static pl_status time_prefill(bench *b)
{
    const double start = pl_now();
    pl_decoder_clear(b->decoder, 0);
    PL_RETURN_IF(pl_decoder_prefill(b->decoder, 0, b->prompt, b->n_prompt, b->logits));
    b->prefill = fmin(b->prefill, pl_now() - start);
    return PL_OK;
}

/* The best step, of n sequences that begin with a short prompt each. */
static pl_status time_steps(bench *b, int which)
{
    const int n = batches[which];
    int32_t slots[BATCHES_MAX * 16], tokens[BATCHES_MAX * 16];
    for (int i = 0; i < n; i++) {
        slots[i] = i;
        tokens[i] = i % b->shape.vocab;
        pl_decoder_clear(b->decoder, i);
        PL_RETURN_IF(pl_decoder_prefill(b->decoder, i, b->prompt, 2, b->logits));
    }
    const double start = pl_now();
    for (int k = 0; k < STEPS; k++)
        PL_RETURN_IF(pl_decoder_step(b->decoder, slots, tokens, n, b->logits));
    b->step[which] = fmin(b->step[which], (pl_now() - start) / STEPS);
    return PL_OK;
}

/* The first round warms up. */
static pl_status measure(bench *b)
{
    for (int round = 0; round <= b->rounds; round++) {
        if (round < 2)
            b->prefill = b->reading = b->step[0] = b->step[1] = b->step[2] = INFINITY;
        PL_RETURN_IF(time_prefill(b));
        for (int i = 0; i < BATCHES_MAX; i++) {
            PL_RETURN_IF(time_reading(b));
            PL_RETURN_IF(time_steps(b, i));
        }
    }
    return PL_OK;
}

/* ---- telling ---- */

/* sysconf answers with the sum of all caches of a virtual machine's host. */
static bool fits_cache(const bench *b)
{
    long kib = 0;
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "r");
    if (!file)
        return false;
    const bool known = fscanf(file, "%ldK", &kib) == 1;
    fclose(file);
    return known && weight_bytes(b) < 1024.0 * (double)kib;
}

static double share_of_memory(const bench *b)
{
    return weight_bytes(b) / b->step[0] * b->reading / READ_BYTES;
}

static void tell(const bench *b)
{
    say("  %-5s %-5s %7.1fM %8.1f MB %9.0f %9.1f %7.0f %%%s %9.1f %9.1f", b->name,
        b->precision, 1e-6 * (double)pl_topology_path_params(b->topology),
        1e-6 * weight_bytes(b), b->n_prompt / b->prefill, 1 / b->step[0],
        100 * share_of_memory(b), fits_cache(b) ? "*" : " ", batches[1] / b->step[1],
        batches[2] / b->step[2]);
}

static pl_json *tell_json(const bench *b)
{
    pl_json *o = pl_json_object(), *list = pl_json_array();
    pl_json_set_text(o, "model", b->name);
    pl_json_set_text(o, "precision", b->precision);
    pl_json_set_text(o, "device", b->backend->device);
    pl_json_set_int(o, "params", (int64_t)pl_topology_path_params(b->topology));
    pl_json_set_real(o, "weight_bytes", weight_bytes(b));
    pl_json_set_int(o, "prompt_tokens", b->n_prompt);
    pl_json_set_real(o, "prefill_tokens_per_s", b->n_prompt / b->prefill);
    pl_json_set_real(o, "decode_tokens_per_s", 1 / b->step[0]);
    pl_json_set_real(o, "memory_bytes_per_s", READ_BYTES / b->reading);
    pl_json_set_real(o, "share_of_memory", share_of_memory(b));
    pl_json_set_bool(o, "fits_cache", fits_cache(b));
    for (int i = 0; i < BATCHES_MAX; i++) {
        pl_json *entry = pl_json_object();
        pl_json_set_int(entry, "requests", batches[i]);
        pl_json_set_real(entry, "tokens_per_s", batches[i] / b->step[i]);
        pl_json_push(list, entry);
    }
    pl_json_set(o, "batched", list);
    return o;
}

static pl_status run_precisions(bench *b, pl_json *list)
{
    for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++) {
        b->precision = precisions[i];
        if (b->q->precision && strcmp(b->q->precision, b->precision) != 0)
            continue;
        pl_status status = open_precision(b);
        if (status == PL_OK)
            status = measure(b);
        if (status == PL_OK && list)
            pl_json_push(list, tell_json(b));
        else if (status == PL_OK)
            tell(b);
        close_precision(b);
        if (status == PL_ERR_UNSUPPORTED && !b->q->precision)
            continue; /* this backend has it not */
        PL_RETURN_IF(status);
    }
    return PL_OK;
}

static pl_status run_model(const request *q, const char *name, const pl_shape *shape,
                           int rounds, pl_json *list)
{
    pl_status status = PL_OK;
    void *memory = NULL;
    bench b = {.q = q, .name = name, .shape = *shape, .rounds = rounds};
    PL_TRY(pl_try_alloc(READ_BYTES, "memory to read", &memory));
    b.memory = memory;
    memset(b.memory, 1, READ_BYTES);
    PL_TRY(make_params(&b));
    PL_TRY(make_tokens(&b));
    PL_TRY(run_precisions(&b, list));
done:
    pl_free_aligned(memory);
    pl_free_aligned(b.params);
    pl_free_aligned(b.logits);
    pl_free(b.prompt);
    pl_topology_destroy(&b.topology);
    return status;
}

static pl_status run_own(const request *q, pl_json *list)
{
    pl_shape shape;
    config *c = pl_alloc(sizeof *c);
    pl_status status = config_build(NULL, q->sets, q->n_sets, c);
    if (status == PL_OK)
        status = config_shape(c, &shape);
    pl_free(c);
    return status == PL_OK ? run_model(q, "own", &shape, 4, list) : status;
}

static pl_status run_sizes(const request *q, pl_json *list)
{
    for (int i = 0; i < N_SIZES; i++) {
        const size_row *s = &sizes[i];
        const pl_shape shape = {.vocab = s->vocab,
                                .width = s->width,
                                .n_heads = s->heads,
                                .n_kv_heads = s->heads,
                                .head_size = s->width / s->heads,
                                .ffn = s->ffn,
                                .n_blocks = s->blocks,
                                .context = s->context,
                                .tied = true,
                                .rope_theta = 10000.0,
                                .norm_eps = 1e-5};
        if (!q->model || strcmp(q->model, s->name) == 0)
            PL_RETURN_IF(run_model(q, s->name, &shape, s->rounds, list));
    }
    return PL_OK;
}

static pl_status run_all(const request *q)
{
    pl_json *out = q->json ? pl_json_object() : NULL;
    pl_json *list = out ? pl_json_array() : NULL;
    if (!out)
        say("generation on %s, %d thread%s: tokens/s\n"
            "  %-5s %-5s %8s %11s %9s %9s %9s  %9s %9s",
            q->backend, q->threads, q->threads == 1 ? "" : "s", "model", "", "params",
            "weights", "prefill", "decode", "of memory", "4 at once", "16");
    pl_status status = q->n_sets > 0 ? run_own(q, list) : run_sizes(q, list);
    if (!out) {
        if (status == PL_OK)
            say("  (of memory: weight bytes a second by the rate at which they can be "
                "read; *: these lie in a cache)");
        return status;
    }
    pl_json_set_text(out, "backend", q->backend);
    pl_json_set_int(out, "threads", q->threads);
    pl_json_set(out, "models", list);
    if (status == PL_OK)
        say_json(out);
    else
        pl_json_destroy(&out);
    return status;
}

pl_status bench_generate(int argc, char **argv)
{
    request q;
    PL_RETURN_IF(parse(argc, argv, &q));
    return run_all(&q);
}
