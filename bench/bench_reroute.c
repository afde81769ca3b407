/* Measures the cost of choosing the path again in serving. The same request is answered
 * in three ways, in turn: by one path, with the rule "history W" (all paths read the
 * text), and with the rule "gate W" (the router's models read the text).
 *
 *   bench_reroute FOLDER MODEL PRECISION W ROUNDS THREADS
 *
 * MODEL is 2m, 13m or 124m, as in `pathloom bench`. Four paths of 2x2 modules with
 * random weights share embedding and output. FOLDER gets a small tokenizer. A request
 * has a prompt of 32 tokens. Its answer has four pieces of W tokens and two more
 * tokens, so that the path is chosen four times. The first round only warms up. The
 * program prints the milliseconds per token of every answer, without the time for the
 * prompt, and the medians over the rounds. "processors" is the processor time of all
 * threads; "moves" is the number of times that the path changed. */
#include "bench/need.h"
#include "router/router.h"
#include "serve/serve.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PATHS = 4, PROMPT = 32, PIECES = 4, VOCAB = 300, WAYS = 3, ROUNDS_MAX = 99 };
static const char *const ways[WAYS] = {"once", "history", "gate"};

static const struct {
    const char *name;
    int vocab, width, heads, ffn, blocks;
} models[] = {{"2m", 4096, 128, 4, 352, 8},
              {"13m", 8192, 384, 6, 1024, 6},
              {"124m", 50304, 768, 12, 2048, 12}};

typedef struct bench {
    pl_shape shape;
    pl_topology *topology;
    pl_backend *backend;
    pl_module **modules;
    pl_path *paths[PATHS];
    pl_model *model;
    pl_batch *batch;
    pl_tokenizer *tokenizer;
    pl_prefix_lm *gate;
    int every;
    int32_t prompt[PROMPT];
} bench;

/* One answer. Times are per token, without the first step, which reads the prompt. */
typedef struct answer {
    pl_generate_result result;
    int n_moves;
    double ms, processor_ms;
} answer;

/* ---- texts ---- */
static void make_text(uint64_t seed, size_t len, pl_buf *out)
{
    static const char *const parts[] = {"pa", "th", "lo", "om", "ring", "er",
                                        "st", "an", "be", "cu", "di",   "fo"};
    for (uint64_t i = 0; out->len < len; i++) {
        const uint32_t draw = pl_random_u32(seed, 1, i);
        for (uint32_t part = 0; part < 1 + draw % 3; part++)
            pl_buf_printf(out, "%s", parts[(draw >> (4 + 5 * part)) % 12]);
        pl_buf_printf(out, " ");
    }
    pl_buf_text(out);
}

static void open_tokenizer(bench *b, const char *folder)
{
    pl_buf text = {0};
    char path[PL_PATH_MAX];
    make_text(1, 100000, &text);
    snprintf(path, sizeof path, "%s/bench_reroute.model", folder);
    const char *texts[] = {pl_buf_text(&text)};
    need(pl_tokenizer_train(texts, &text.len, 1, VOCAB, 1, path));
    need(pl_tokenizer_load(path, &b->tokenizer));
    pl_buf_destroy(&text);
}

/* Makes a gate with one model per path; each model is made from a different text. */
static void open_gate(bench *b, const char *folder)
{
    int path_of[PATHS];
    char name[PL_PATH_MAX];
    pl_buf file = {0}, sources = {0};
    pl_tokens *tokens;
    snprintf(name, sizeof name, "%s/bench_reroute.jsonl", folder);
    FILE *lines = fopen(name, "w");
    if (!lines)
        need(pl_fail(PL_ERR_IO, "cannot write %s", name));
    for (int path = 0; path < PATHS; path++) {
        pl_buf text = {0};
        path_of[path] = path;
        make_text((uint64_t)path + 2, 2000, &text);
        fprintf(lines, "{\"text\": \"%s\"}\n", pl_buf_text(&text));
        pl_buf_destroy(&text);
    }
    fclose(lines);
    need(pl_documents_encode(name, b->tokenizer, &file, &sources));
    need(pl_tokens_view(file.data, file.len, name, &tokens));
    const pl_prefix_lm_job job = {
        .tokens = tokens, .length = 2000, .n_paths = PATHS, .n_threads = 1};
    need(pl_prefix_lm_count(&job, path_of, &b->gate));
    pl_tokens_close(&tokens);
    pl_buf_destroy(&file);
    pl_buf_destroy(&sources);
}

/* ---- the model ---- */
static void find_shape(const char *name, pl_shape *out)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (strcmp(models[i].name, name) == 0)
            *out = (pl_shape){.vocab = models[i].vocab,
                              .width = models[i].width,
                              .n_heads = models[i].heads,
                              .n_kv_heads = models[i].heads,
                              .head_size = models[i].width / models[i].heads,
                              .ffn = models[i].ffn,
                              .n_blocks = models[i].blocks,
                              .tied = true,
                              .rope_theta = 10000.0,
                              .norm_eps = 1e-5};
    if (out->vocab == 0)
        need(pl_fail(PL_ERR_USAGE, "there is no model `%s`; give 2m, 13m or 124m",
                     name));
}

static void open_paths(bench *b)
{
    const pl_topology *t = b->topology;
    const int n_slots = pl_topology_n_slots(t);
    b->modules = pl_alloc((size_t)pl_topology_n_modules(t) * sizeof(pl_module *));
    for (int m = 0; m < pl_topology_n_modules(t); m++) {
        const int slot = pl_topology_module_slot(t, m);
        void *params;
        need(pl_try_alloc(pl_topology_slot(t, slot)->n_params * sizeof(float),
                          "a module", &params));
        pl_topology_init(t, slot, (uint64_t)m + 1, params);
        need(pl_module_create(b->backend, t, slot, params, &b->modules[m]));
        pl_free_aligned(params);
    }
    pl_module **of = pl_alloc((size_t)n_slots * sizeof(pl_module *));
    for (int path = 0; path < PATHS; path++) {
        for (int slot = 0; slot < n_slots; slot++)
            of[slot] = b->modules[pl_topology_module_of_path(t, slot, path)];
        need(pl_path_create(t, of, &b->paths[path]));
    }
    pl_free(of);
}

static void open_model(bench *b, const char *precision, int threads)
{
    const pl_backend_options backend = {
        .name = "cpu", .n_threads = threads, .precision = precision};
    const pl_topology_spec spec = {.n_levels = 2,
                                   .experts = {2, 2},
                                   .embed_choice = PL_CHOICE_COMMON,
                                   .head_choice = PL_CHOICE_COMMON,
                                   .replicas = 1};
    b->shape.context = PROMPT + PIECES * b->every + 8;
    const pl_model_options size = {.batch = 1, .context = b->shape.context};
    need(pl_topology_create(&b->shape, &spec, &b->topology));
    need(pl_backend_open(&backend, &b->backend));
    open_paths(b);
    need(pl_model_create(b->backend, b->topology, &size, &b->model));
    need(pl_batch_create(b->model, b->tokenizer, b->shape.vocab, b->shape.context,
                         PATHS, &b->batch));
}

static void close_all(bench *b)
{
    pl_batch_destroy(&b->batch);
    pl_model_destroy(&b->model);
    for (int path = 0; path < PATHS; path++)
        pl_path_destroy(&b->paths[path]);
    for (int m = 0; m < pl_topology_n_modules(b->topology); m++)
        pl_module_destroy(&b->modules[m]);
    pl_free(b->modules);
    pl_backend_close(&b->backend);
    pl_topology_destroy(&b->topology);
    pl_prefix_lm_destroy(&b->gate);
    pl_tokenizer_destroy(&b->tokenizer);
}

/* ---- requests ---- */
static pl_status drop_text(void *context, const char *text, size_t len)
{
    (void)context, (void)text, (void)len;
    return PL_OK;
}

static void count_move(void *context, int from, int path)
{
    (void)path;
    ((answer *)context)->n_moves += from > PROMPT;
}

static void end_text(void *context, pl_status status, const pl_generate_result *result)
{
    need(status);
    ((answer *)context)->result = *result;
}

static void ask(const bench *b, int way, int round, answer *out)
{
    static const int numbers[PATHS] = {0, 1, 2, 3};
    const pl_path *paths[PATHS] = {b->paths[0], b->paths[1], b->paths[2], b->paths[3]};
    const pl_logit_bias no_end = {PL_TOKEN_EOS, -100};
    const pl_batch_routes routes = {.paths = paths,
                                    .n_paths = PATHS,
                                    .rule = {.prefix = PROMPT,
                                             .every = b->every,
                                             .gate = way == 2 ? b->gate : NULL,
                                             .numbers = numbers},
                                    .moved = count_move};
    const pl_generate_options options = {
        .max_tokens = PIECES * b->every + 2,
        .choice = {.temperature = 1, .top_p = 1, .seed = (uint64_t)round},
        .bias = &no_end,
        .n_bias = 1};
    const pl_batch_request q = {.prompt = b->prompt,
                                .n_prompt = PROMPT,
                                .path = way == 0 ? b->paths[0] : NULL,
                                .routes = way == 0 ? NULL : &routes,
                                .options = &options,
                                .emit = drop_text,
                                .done = end_text,
                                .context = out};
    memset(out, 0, sizeof *out);
    need(pl_batch_join(b->batch, &q));
    need(pl_batch_step(b->batch));
    const double start = pl_now(), processor = processor_seconds();
    while (pl_batch_active(b->batch) > 0)
        need(pl_batch_step(b->batch));
    const double n = out->result.n_tokens - 2; /* two are from the first step */
    out->ms = 1e3 * (pl_now() - start) / n;
    out->processor_ms = 1e3 * (processor_seconds() - processor) / n;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double middle_of(const double *values, int n)
{
    double sorted[ROUNDS_MAX];
    memcpy(sorted, values, (size_t)n * sizeof *values);
    qsort(sorted, (size_t)n, sizeof *sorted, compare_doubles);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

typedef struct medians {
    double ms[WAYS][ROUNDS_MAX], processor_ms[WAYS][ROUNDS_MAX];
} medians;

static void print_medians(medians *m, int rounds)
{
    for (int way = WAYS - 1; way >= 0; way--) {
        double ratio[ROUNDS_MAX], processor[ROUNDS_MAX];
        for (int i = 0; i < rounds; i++) {
            ratio[i] = m->ms[way][i] / m->ms[0][i];
            processor[i] = m->processor_ms[way][i] / m->processor_ms[0][i];
        }
        printf("%-8s %.2f ms/token (%+.1f %%), processors %.2f ms/token (%+.1f %%)\n",
               ways[way], middle_of(m->ms[way], rounds),
               100 * (middle_of(ratio, rounds) - 1),
               middle_of(m->processor_ms[way], rounds),
               100 * (middle_of(processor, rounds) - 1));
    }
}

/* Measures the three ways, in an order that changes from round to round. */
static void measure(const bench *b, int rounds)
{
    medians m;
    for (int round = 0; round <= rounds; round++) {
        const int at = round > 0 ? round - 1 : 0; /* round 1 replaces the warm-up */
        for (int i = 0; i < WAYS; i++) {
            const int way = (i + round) % WAYS;
            answer a;
            ask(b, way, round, &a);
            m.ms[way][at] = a.ms;
            m.processor_ms[way][at] = a.processor_ms;
            printf("%d %-8s prompt %.1f ms, then %.2f ms/token, processors %.2f; %d "
                   "tokens, %d changes of path, %lld tokens read to choose, %.1f ms\n",
                   round, ways[way], 1e3 * a.result.prompt_seconds, a.ms,
                   a.processor_ms, a.result.n_tokens, a.n_moves,
                   (long long)a.result.n_routing, 1e3 * a.result.routing_seconds);
            fflush(stdout);
        }
    }
    print_medians(&m, rounds);
}

int main(int argc, char **argv)
{
    bench b = {0};
    if (argc != 7) {
        fprintf(stderr,
                "usage: bench_reroute FOLDER MODEL PRECISION W ROUNDS THREADS\n");
        return 64;
    }
    const int rounds = atoi(argv[5]), threads = atoi(argv[6]);
    b.every = atoi(argv[4]);
    if (b.every < 1 || rounds < 1 || rounds > ROUNDS_MAX || threads < 1) {
        fprintf(stderr,
                "bench_reroute: W, ROUNDS (at most %d) and THREADS must be whole "
                "numbers of 1 or more\n",
                ROUNDS_MAX);
        return 64;
    }
    find_shape(argv[2], &b.shape);
    open_tokenizer(&b, argv[1]);
    open_gate(&b, argv[1]);
    open_model(&b, argv[3], threads);
    b.prompt[0] = PL_TOKEN_BOS;
    for (int i = 1; i < PROMPT; i++)
        b.prompt[i] = 3 + i * 37 % 250;
    printf("%s %s, %d threads, %s; W %d, 4 paths of 2x2 modules\n", argv[2], argv[3],
           threads, b.backend->device, b.every);
    measure(&b, rounds);
    close_all(&b);
    return 0;
}
