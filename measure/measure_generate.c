/* pathloom bench generate: measures how fast a path reads a prompt and writes tokens.
 *
 * To write one token, every weight is read once. So the limit of the speed is the rate
 * at which weights can be read from memory. The same command measures that rate,
 * several times per round, with threads that only read. The best round counts, because
 * other work on a machine can only add time. If a cache holds a large part of the
 * weights, they do not come from memory, and no share of the limit is printed. On a GPU
 * the limit is the rate of the GPU's memory. */
#include "measure/engine_internal.h"

#include <math.h>

enum {
    /* The measurement of memory reads at least READ_BYTES bytes, and on a processor at
     * least CACHES times the size of the last-level cache. */
    READ_BYTES = 256 << 20,
    CACHES = 4,
    READ_ITEM = 1 << 20,
    BATCHES_MAX = 3,
    STEPS = 24,   /* number of decoding steps per round, of which the mean is taken */
    PROMPT = 192, /* length of the prompt in tokens, at most half of the context */
    /* distance between a prompt's tokens, of which only the number matters */
    TOKEN_STEP = 7
};
static const int batches[BATCHES_MAX] = {1, 4, 16};

static const char *const precisions[] = {"f32", "bf16", "int8"};

typedef struct bench {
    const measure_options *q;
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
    uint64_t *memory; /* read_bytes(b) bytes, which are read to measure memory */
    void *device;     /* READ_BYTES of a GPU's memory; NULL without a GPU */
    /* results, in seconds */
    double prefill, step[BATCHES_MAX], reading;
} bench;

static pl_status open_precision(bench *b)
{
    const pl_backend_options backend = {
        .name = b->q->backend, .n_threads = b->q->threads, .precision = b->precision};
    const pl_model_options model = {.batch = 1, .context = b->shape.context};
    PL_CHECK(pl_backend_open(&backend, &b->backend));
    PL_CHECK(pl_model_create(b->backend, b->topology, &model, &b->model));
    PL_CHECK(pl_model_load(b->model, b->params));
    if (b->backend->memory_bytes > 0)
        PL_CHECK(b->backend->ops->alloc(b->backend, READ_BYTES + sizeof(double),
                                        "memory to read", &b->device));
    return pl_decoder_create(b->model, b->n_slots, &b->decoder);
}

/* Returns the bytes that are read for one token: all matrices, of which the classifier
 * is one (a tied embedding is the classifier). The single row of an untied embedding
 * does not count. */
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
/* Returns the size of the last-level cache; 0 if it is not known. sysconf is not used,
 * because in a virtual machine sysconf gives the sum of all caches of the host. */
static size_t last_cache_bytes(void)
{
    long kib = 0;
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "r");
    if (!file)
        return 0;
    const bool known = fscanf(file, "%ldK", &kib) == 1 && kib > 0;
    fclose(file);
    return known ? (size_t)kib << 10 : 0;
}

static size_t read_bytes(const bench *b)
{
    const size_t caches = CACHES * last_cache_bytes() / READ_ITEM * READ_ITEM;
    return b->device || caches < READ_BYTES ? READ_BYTES : caches;
}

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

/* Measures prefill, reading of memory, and decoding, in rounds. Round 0 is only a
 * warm-up: its results are dropped when round 1 begins. A GPU reads its memory several
 * times before the processor waits for the GPU, so that the wait is a small part of the
 * time. */
static pl_status measure_decoding(bench *b)
{
    enum { TIMES = 8, FLOATS = READ_BYTES / sizeof(float) };
    float *memory = b->device;
    for (int round = 0; round <= b->rounds; round++) {
        if (round < 2)
            b->prefill = b->reading = b->step[0] = b->step[1] = b->step[2] = INFINITY;
        const double start = pl_now();
        pl_decoder_clear(b->decoder, 0);
        PL_CHECK(pl_decoder_prefill(b->decoder, 0, b->prompt, b->n_prompt, b->logits));
        b->prefill = fmin(b->prefill, pl_now() - start);
        for (int i = 0; i < BATCHES_MAX; i++) {
            if (!memory) {
                const double begun = pl_now();
                PL_CHECK(pl_parallel(b->q->threads, read_bytes(b) / READ_ITEM,
                                     read_item, b));
                b->reading = fmin(b->reading, pl_now() - begun);
            } else {
                PL_CHECK(b->backend->ops->sync(b->backend));
                const double begun = pl_now();
                void *sum = memory + FLOATS;
                for (int k = 0; k < TIMES; k++)
                    b->backend->ops->sum_squares(b->backend, sum, memory, FLOATS);
                PL_CHECK(b->backend->ops->sync(b->backend));
                b->reading = fmin(b->reading, (pl_now() - begun) / TIMES);
            }
            /* steps of batches[i] sequences, which begin with two tokens */
            const int n = batches[i];
            int32_t slots[BATCHES_MAX * 16], tokens[BATCHES_MAX * 16];
            for (int s = 0; s < n; s++) {
                slots[s] = s;
                tokens[s] = s % b->shape.vocab;
                pl_decoder_clear(b->decoder, s);
                PL_CHECK(pl_decoder_prefill(b->decoder, s, b->prompt, 2, b->logits));
            }
            const double begun = pl_now();
            for (int k = 0; k < STEPS; k++)
                PL_CHECK(pl_decoder_step(b->decoder, slots, tokens, n, b->logits));
            b->step[i] = fmin(b->step[i], (pl_now() - begun) / STEPS);
        }
    }
    return PL_OK;
}

/* ---- printing ---- */
static pl_status run_model(const measure_options *q, const measured_model *m,
                           pl_json *list)
{
    pl_status status = PL_OK;
    const pl_topology_spec spec = {.n_levels = 1, .experts = {1}, .replicas = 1};
    bench b = {.q = q, .name = m->name, .shape = m->shape, .rounds = m->decode_rounds};
    PL_TRY(pl_try_alloc(read_bytes(&b), "memory to read", (void **)&b.memory));
    memset(b.memory, 1, read_bytes(&b));
    PL_TRY(pl_topology_create(&b.shape, &spec, &b.topology));
    PL_TRY(pl_try_alloc(pl_topology_path_params(b.topology) * sizeof(float),
                        "a path's parameters", (void **)&b.params));
    PL_TRY(pl_probe_params(b.topology, b.params));
    b.n_prompt = b.shape.context / 2 < PROMPT ? b.shape.context / 2 : PROMPT;
    b.prompt = pl_alloc((size_t)b.n_prompt * sizeof *b.prompt);
    for (int i = 0; i < b.n_prompt; i++)
        b.prompt[i] = (int32_t)((int64_t)i * TOKEN_STEP % b.shape.vocab);
    b.n_slots = batches[BATCHES_MAX - 1];
    PL_TRY(pl_try_alloc((size_t)b.n_slots * (size_t)b.shape.vocab * sizeof(float),
                        "logits", (void **)&b.logits));
    for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++) {
        b.precision = precisions[i];
        if (q->precision && strcmp(q->precision, b.precision) != 0)
            continue;
        status = open_precision(&b);
        if (status == PL_OK)
            status = measure_decoding(&b);
        if (status == PL_OK) {
            /* decoding reads memory if the weights are too large for a cache */
            const double weights = weight_bytes(&b), read = (double)read_bytes(&b);
            const double share = weights / b.step[0] * b.reading / read;
            const bool is_from_memory =
                b.device || weights >= CACHES * (double)last_cache_bytes();
            if (list) {
                pl_json *o = pl_json_object(), *batched = pl_json_array();
                pl_json_set_text(o, "model", b.name);
                pl_json_set_text(o, "precision", b.precision);
                pl_json_set_text(o, "device", b.backend->device);
                pl_json_set_int(o, "params",
                                (int64_t)pl_topology_path_params(b.topology));
                pl_json_set_real(o, "weight_bytes", weights);
                pl_json_set_int(o, "prompt_tokens", b.n_prompt);
                pl_json_set_real(o, "prefill_tokens_per_s", b.n_prompt / b.prefill);
                pl_json_set_real(o, "decode_tokens_per_s", 1 / b.step[0]);
                pl_json_set_real(o, "memory_bytes_per_s", read / b.reading);
                pl_json_set_int(o, "last_cache_bytes", (int64_t)last_cache_bytes());
                if (is_from_memory)
                    pl_json_set_real(o, "share_of_memory", share);
                for (int k = 0; k < BATCHES_MAX; k++) {
                    pl_json *entry = pl_json_object();
                    pl_json_set_int(entry, "requests", batches[k]);
                    pl_json_set_real(entry, "tokens_per_s", batches[k] / b.step[k]);
                    pl_json_push(batched, entry);
                }
                pl_json_set(o, "batched", batched);
                pl_json_push(list, o);
            } else {
                char shown[16] = "*  ";
                if (is_from_memory)
                    snprintf(shown, sizeof shown, "%.0f %%", 100 * share);
                say("  %-5s %-5s %7.1fM %8.1f MB %9.0f %9.1f %9s  %9.1f %9.1f", b.name,
                    b.precision, 1e-6 * (double)pl_topology_path_params(b.topology),
                    1e-6 * weights, b.n_prompt / b.prefill, 1 / b.step[0], shown,
                    batches[1] / b.step[1], batches[2] / b.step[2]);
            }
        }
        pl_decoder_destroy(&b.decoder);
        pl_model_destroy(&b.model);
        if (b.device)
            b.backend->ops->release(b.backend, b.device);
        b.device = NULL;
        pl_backend_close(&b.backend);
        if (status == PL_ERR_UNSUPPORTED && !q->precision)
            status = PL_OK; /* this backend does not support the precision */
        PL_TRY(status);
    }
done:
    pl_free_all(b.memory, b.params, b.logits, b.prompt);
    pl_topology_destroy(&b.topology);
    return status;
}

pl_status measure_generate(const measure_options *o)
{
    if (o->model && o->n_settings > 0)
        return pl_fail(
            PL_ERR_USAGE,
            "--model and --set both choose the model; give only one of them");
    int n = 1;
    measured_model own = {.name = "own", .decode_rounds = 4};
    const measured_model *m = &own;
    if (o->model)
        PL_CHECK(measure_model_by_name(o->model, &own));
    else if (o->n_settings == 0)
        m = measure_models(&n);
    pl_json *list = o->json ? pl_json_array() : NULL;
    if (!list)
        say("generation on %s, %d thread%s: tokens/s\n"
            "  %-5s %-5s %8s %11s %9s %9s %9s  %9s %9s",
            o->backend, o->threads, o->threads == 1 ? "" : "s", "model", "", "params",
            "weights", "prefill", "decode", "of memory", "4 at once", "16");
    pl_status status = PL_OK;
    if (o->n_settings > 0) {
        config *c = pl_alloc(sizeof *c);
        status = config_build(NULL, o->settings, o->n_settings, c);
        if (status == PL_OK)
            status = config_shape(c, &own.shape);
        pl_free(c);
    }
    for (int i = 0; i < n && status == PL_OK; i++)
        status = run_model(o, &m[i], list);
    if (!list && status == PL_OK)
        say("  (of memory: bytes of weights that decoding reads per second, as a "
            "share of the rate at which memory can be read; *: not given, because "
            "the last-level cache can hold more than 1/%d of the weights)",
            CACHES);
    return measure_say_list(o, "models", list, status);
}
