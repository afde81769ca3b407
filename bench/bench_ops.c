/* bench_ops: time of each operation of a backend within a training step, and of the
 * step itself, for one shape.
 *
 *   bench_ops batch=8 context=128 width=128 blocks=4 vocab=2048 precision=auto
 *
 * Other keys: heads, kv_heads, ffn, threads, backend, repeats, steps. Each row gives
 * the best of `repeats` calls, GF/s where the operation is a product, and what its
 * calls of one step take together. The last lines compare the step with its products
 * alone.
 */
#include "modules/modules.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct bench {
    int batch, context, width, blocks, vocab, heads, kv_heads, ffn, threads, repeats,
        steps;
    const char *precision, *backend, *clock;
    pl_backend *be;
    int N, D, qkv_width;
    /* Activations of [N, widest], and parameters of [vocab or widest, widest]. */
    pl_act *a, *b, *c, *d;
    float *w, *dw, *m, *v, *rstd, *loss, *lse;
    int32_t *tokens;      /* [N], host: of the whole step */
    void *device_tokens;  /* the same, for the operations */
    pl_weight *weight[5]; /* qkv, o, gate_up, down, head */
    int rows[5], cols[5];
    int which; /* the weight that the product at hand uses */
    double product_seconds, product_flops;
} bench;

enum { QKV, O, GATE_UP, DOWN, HEAD };

static bool set_number(bench *x, const char *key, int value)
{
    const struct {
        const char *key;
        int *to;
    } keys[] = {
        {"batch", &x->batch},       {"context", &x->context}, {"width", &x->width},
        {"blocks", &x->blocks},     {"vocab", &x->vocab},     {"heads", &x->heads},
        {"kv_heads", &x->kv_heads}, {"ffn", &x->ffn},         {"threads", &x->threads},
        {"repeats", &x->repeats},   {"steps", &x->steps}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i].key) == 0) {
            *keys[i].to = value;
            return true;
        }
    return false;
}

static bool parse(bench *x, char *argument)
{
    char *value = strchr(argument, '=');
    if (value == NULL)
        return false;
    *value++ = '\0';
    if (strcmp(argument, "precision") == 0)
        x->precision = value;
    else if (strcmp(argument, "backend") == 0)
        x->backend = value;
    else if (strcmp(argument, "clock") == 0)
        x->clock = value;
    else
        return atoi(value) > 0 && set_number(x, argument, atoi(value));
    return true;
}

static double now(const bench *x)
{
    struct timespec t;
    if (strcmp(x->clock, "cpu") != 0)
        return pl_now();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- one operation a function, as the model calls it ---- */

static void forward(bench *x)
{
    x->be->ops->matmul_forward(x->be, x->c, x->a, x->weight[x->which], x->N,
                               x->rows[x->which], x->cols[x->which]);
}
static void dx(bench *x)
{
    x->be->ops->matmul_dx(x->be, x->c, x->a, x->weight[x->which], x->N,
                          x->rows[x->which], x->cols[x->which], false);
}
static void dw(bench *x)
{
    x->be->ops->matmul_dw(x->be, x->dw, x->a, x->b, x->N, x->rows[x->which],
                          x->cols[x->which]);
}
static void classifier(bench *x)
{
    x->be->ops->classifier(x->be, x->loss, x->c, x->dw, x->a, x->weight[HEAD],
                           x->device_tokens, x->rstd, x->N, x->vocab, x->width);
}
static void attention_forward(bench *x)
{
    x->be->ops->attention_forward(x->be, x->c, x->lse, x->a, x->batch, x->context,
                                  x->heads, x->kv_heads, x->D);
}
static void attention_backward(bench *x)
{
    x->be->ops->attention_backward(x->be, x->d, x->b, x->a, x->c, x->lse, x->batch,
                                   x->context, x->heads, x->kv_heads, x->D);
}
static void rope(bench *x)
{
    x->be->ops->rope(x->be, x->b, x->batch, x->context, x->heads, x->kv_heads, x->D,
                     10000.0, 0, 1);
}
static void norm_forward(bench *x)
{
    x->be->ops->rmsnorm_forward(x->be, x->c, x->rstd, x->b, x->a, x->w, x->N, x->width,
                                1e-5f);
}
static void norm_backward(bench *x)
{
    x->be->ops->rmsnorm_backward(x->be, x->d, x->dw, x->b, x->a, x->w, x->rstd, x->N,
                                 x->width);
}
static void swiglu_forward(bench *x)
{
    x->be->ops->swiglu_forward(x->be, x->c, x->a, x->N, x->ffn);
}
static void swiglu_backward(bench *x)
{
    x->be->ops->swiglu_backward(x->be, x->c, x->b, x->a, x->N, x->ffn);
}
static void embed_forward(bench *x)
{
    x->be->ops->embed_forward(x->be, x->c, x->device_tokens, x->w, x->N, x->width);
}
static void embed_backward(bench *x)
{
    x->be->ops->embed_backward(x->be, x->dw, x->b, x->device_tokens, x->N, x->width);
}
static size_t block_params(const bench *x)
{
    size_t n = 0;
    for (int i = QKV; i <= DOWN; i++)
        n += (size_t)x->rows[i] * (size_t)x->cols[i];
    return n;
}
static void adamw(bench *x)
{
    const pl_adamw adam = {1e-4f, 0.9f, 0.95f, 1e-8f, 0.1f, 10};
    x->be->ops->adamw(x->be, x->w, x->m, x->v, x->dw, block_params(x), 1.0f, &adam);
}
static void sum_squares(bench *x)
{
    void *out = x->loss; /* memory of the backend, whatever it holds */
    x->be->ops->sum_squares(x->be, out, x->dw, block_params(x));
}
static void refresh(bench *x)
{
    x->be->ops->weights_refresh(x->be, x->weight, HEAD);
}

/* Best time of a call, and a line; returns seconds. */
static double row(bench *x, const char *name, void (*call)(bench *), double flops,
                  int calls)
{
    double best = 1e30;
    for (int i = 0; i <= x->repeats; i++) { /* the first call warms up */
        const double start = now(x);
        call(x);
        if (x->be->ops->sync(x->be) != PL_OK)
            printf("%s: %s\n", name, pl_last_error());
        const double seconds = now(x) - start;
        best = i > 0 && seconds < best ? seconds : best;
    }
    printf("%-20s %9.1f us  x%-3d %8.2f ms", name, best * 1e6, calls,
           best * 1e3 * calls);
    if (flops > 0)
        printf("  %7.1f GF/s", flops / best * 1e-9);
    printf("\n");
    return best * calls;
}

static double products(bench *x)
{
    static const char *const names[] = {"qkv", "o", "gate_up", "down"};
    double seconds = 0;
    for (int i = QKV; i <= DOWN; i++) {
        const double flops = 2.0 * x->N * x->rows[i] * x->cols[i];
        char name[32];
        x->which = i;
        snprintf(name, sizeof name, "%s forward", names[i]);
        seconds += row(x, name, forward, flops, x->blocks);
        snprintf(name, sizeof name, "%s dx", names[i]);
        seconds += row(x, name, dx, flops, x->blocks);
        snprintf(name, sizeof name, "%s dw", names[i]);
        seconds += row(x, name, dw, flops, x->blocks);
        x->product_flops += 3 * flops * x->blocks;
    }
    x->product_seconds = seconds;
    return seconds;
}

static double others(bench *x)
{
    const double head = 6.0 * x->N * x->vocab * x->width;
    const double scores = (double)x->N * x->context * x->heads * x->D; /* half of 2 */
    double seconds = row(x, "classifier", classifier, head, 1);
    seconds += row(x, "attention forward", attention_forward, 2 * scores, x->blocks);
    seconds += row(x, "attention backward", attention_backward, 5 * scores, x->blocks);
    seconds += row(x, "rope", rope, 0, 2 * x->blocks);
    seconds += row(x, "rmsnorm forward", norm_forward, 0, 2 * x->blocks + 1);
    seconds += row(x, "rmsnorm backward", norm_backward, 0, 2 * x->blocks + 1);
    seconds += row(x, "swiglu forward", swiglu_forward, 0, x->blocks);
    seconds += row(x, "swiglu backward", swiglu_backward, 0, x->blocks);
    seconds += row(x, "embed forward", embed_forward, 0, 1);
    seconds += row(x, "embed backward", embed_backward, 0, 1);
    seconds += row(x, "sum_squares", sum_squares, 0, x->blocks);
    seconds += row(x, "adamw", adamw, 0, x->blocks);
    seconds += row(x, "weights_refresh", refresh, 0, x->blocks);
    x->product_flops += head;
    return seconds;
}

/* ---- memory ---- */

static pl_status device_floats(bench *x, size_t n, float scale, uint64_t seed,
                               float **out)
{
    pl_status status = PL_OK;
    void *host = NULL, *device = NULL;
    PL_TRY(pl_try_alloc(n * sizeof(float), "bench values", &host));
    PL_TRY(x->be->ops->alloc(x->be, n * sizeof(float), "bench values", &device));
    for (size_t i = 0; i < n; i++)
        ((float *)host)[i] = scale * pl_random_normal(seed, 0, i);
    x->be->ops->upload(x->be, device, host, n * sizeof(float));
    *out = device;
done:
    pl_free_aligned(host);
    return status;
}

static pl_status device_acts(bench *x, size_t n, uint64_t seed, pl_act **out)
{
    void *acts;
    float *values;
    PL_RETURN_IF(x->be->ops->alloc(x->be, n * sizeof(float), "bench acts", &acts));
    PL_RETURN_IF(device_floats(x, n, 1.0f, seed, &values));
    *out = acts;
    x->be->ops->act_from_float(x->be, *out, values, n);
    x->be->ops->release(x->be, values);
    return PL_OK;
}

static void plan(bench *x)
{
    x->N = x->batch * x->context;
    x->heads = x->heads > 0 ? x->heads : x->width / 32;
    x->kv_heads = x->kv_heads > 0 ? x->kv_heads : x->heads;
    x->ffn = x->ffn > 0 ? x->ffn : (x->width * 8 / 3 + 31) / 32 * 32;
    x->D = x->width / x->heads;
    x->qkv_width = (x->heads + 2 * x->kv_heads) * x->D;
    const int rows[] = {x->qkv_width, x->width, 2 * x->ffn, x->width, x->vocab};
    const int cols[] = {x->width, x->heads * x->D, x->width, x->ffn, x->width};
    memcpy(x->rows, rows, sizeof rows);
    memcpy(x->cols, cols, sizeof cols);
}

static pl_status prepare(bench *x)
{
    const size_t widest =
        (size_t)(2 * x->ffn > x->qkv_width ? 2 * x->ffn : x->qkv_width);
    const size_t acts = (size_t)x->N * widest;
    size_t params = (size_t)x->vocab * (size_t)x->width;
    params = params > block_params(x) ? params : block_params(x);
    pl_act **const all[] = {&x->a, &x->b, &x->c, &x->d};
    for (size_t i = 0; i < 4; i++)
        PL_RETURN_IF(device_acts(x, acts, i, all[i]));
    float **const floats[] = {&x->w, &x->dw, &x->m, &x->v};
    for (size_t i = 0; i < 4; i++)
        PL_RETURN_IF(device_floats(x, params, i < 2 ? 0.05f : 0.0f, 10 + i, floats[i]));
    PL_RETURN_IF(device_floats(x, (size_t)x->N, 0, 0, &x->rstd));
    PL_RETURN_IF(device_floats(x, (size_t)x->N, 0, 0, &x->loss));
    PL_RETURN_IF(device_floats(x, (size_t)x->N * (size_t)x->heads, 0, 0, &x->lse));
    void *tokens = pl_alloc((size_t)x->N * sizeof(int32_t));
    x->tokens = tokens;
    for (int n = 0; n < x->N; n++)
        x->tokens[n] = (int32_t)(pl_random_u32(1, 2, (uint64_t)n) % (uint32_t)x->vocab);
    const size_t bytes = (size_t)x->N * sizeof(int32_t);
    PL_RETURN_IF(x->be->ops->alloc(x->be, bytes, "tokens", &x->device_tokens));
    x->be->ops->upload(x->be, x->device_tokens, x->tokens, bytes);
    for (int i = QKV; i <= HEAD; i++)
        PL_RETURN_IF(x->be->ops->weight_create(x->be, x->w, x->rows[i], x->cols[i],
                                               &x->weight[i]));
    return PL_OK;
}

/* ---- the whole step ---- */

static pl_status steps(bench *x, pl_model *model, double *best)
{
    *best = 1e30;
    for (int step = 1; step <= x->steps; step++) {
        const pl_adamw adam = {1e-4f, 0.9f, 0.95f, 1e-8f, 0.1f, step};
        pl_step_result result;
        const double start = now(x);
        PL_RETURN_IF(pl_model_train_step(model, x->tokens, x->tokens, x->batch,
                                         x->context, &adam, 1.0f, &result));
        const double seconds = now(x) - start;
        *best = step > 1 && seconds < *best ? seconds : *best;
    }
    return PL_OK;
}

static pl_status whole_step(bench *x, double *seconds)
{
    pl_status status = PL_OK;
    const pl_shape shape = {x->vocab,  x->width,   x->heads, x->kv_heads, x->D, x->ffn,
                            x->blocks, x->context, true,     10000.0,     1e-5};
    const pl_topology_spec spec = {.n_levels = 1, .experts = {1}, .replicas = 1};
    const pl_model_options options = {
        .batch = x->batch, .context = x->context, .training = true};
    pl_topology *topology = NULL;
    pl_model *model = NULL;
    void *params = NULL;
    PL_TRY(pl_topology_create(&shape, &spec, &topology));
    PL_TRY(pl_model_create(x->be, topology, &options, &model));
    PL_TRY(pl_try_alloc(pl_topology_path_params(topology) * sizeof(float), "parameters",
                        &params));
    for (int s = 0; s < pl_topology_n_slots(topology); s++)
        pl_topology_init(topology, s, 1,
                         (float *)params + pl_topology_slot(topology, s)->offset);
    PL_TRY(pl_model_load(model, params));
    PL_TRY(steps(x, model, seconds));
done:
    pl_free_aligned(params);
    pl_model_destroy(&model);
    pl_topology_destroy(&topology);
    return status;
}

static void release(bench *x)
{
    void *const all[] = {x->a, x->b, x->c,    x->d,    x->w,   x->dw,
                         x->m, x->v, x->rstd, x->loss, x->lse, x->device_tokens};
    for (int i = QKV; i <= HEAD; i++)
        x->be->ops->weight_destroy(x->be, &x->weight[i]);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        x->be->ops->release(x->be, all[i]);
    pl_free(x->tokens);
    pl_backend_close(&x->be);
}

static pl_status run(bench *x)
{
    double step = 0;
    const pl_backend_options options = {
        .name = x->backend, .n_threads = x->threads, .precision = x->precision};
    PL_RETURN_IF(pl_backend_open(&options, &x->be));
    printf("%s, %d threads; batch %d x %d, width %d, heads %d/%d x %d, ffn %d, blocks "
           "%d, vocab %d\n",
           x->be->device, x->threads, x->batch, x->context, x->width, x->heads,
           x->kv_heads, x->D, x->ffn, x->blocks, x->vocab);
    PL_RETURN_IF(prepare(x));
    const double gemm = products(x), gemm_rate = x->product_flops / gemm;
    const double sum = gemm + others(x);
    PL_RETURN_IF(whole_step(x, &step));
    printf("products %.2f ms at %.1f GF/s, all operations %.2f ms\n", gemm * 1e3,
           gemm_rate * 1e-9, sum * 1e3);
    printf(
        "step %.2f ms = %.0f tokens/s, %.1f GF/s of products, %.0f%% of their rate\n",
        step * 1e3, x->N / step, x->product_flops / step * 1e-9,
        100.0 * x->product_flops / step / gemm_rate);
    if (x->be->remark[0])
        printf("%s\n", x->be->remark);
    release(x);
    return PL_OK;
}

int main(int argc, char **argv)
{
    bench x = {.batch = 8,
               .context = 128,
               .width = 128,
               .blocks = 4,
               .vocab = 2048,
               .threads = 1,
               .repeats = 10,
               .steps = 10,
               .precision = "auto",
               .backend = "cpu",
               .clock = "wall"};
    for (int i = 1; i < argc; i++)
        if (!parse(&x, argv[i])) {
            fprintf(stderr,
                    "bench_ops: cannot use \"%s\"; see the head of bench_ops.c\n",
                    argv[i]);
            return 64;
        }
    plan(&x);
    if (run(&x) != PL_OK) {
        fprintf(stderr, "bench_ops: %s\n", pl_last_error());
        return 70;
    }
    return 0;
}
