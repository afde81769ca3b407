/* Calls each operation with operands as large as in a training step. */
#include "measure/probe_internal.h"
#include <math.h>
#include <stdio.h>

enum { QKV, O, GATE_UP, DOWN, HEAD, N_WEIGHTS };
enum { STREAM_ROUNDS = 4, STREAM_CALLS = 8, STREAM_CACHES = 4, DRAWN = 1 << 16 };
enum { STREAM_BYTES = 64 << 20, STREAM_BYTES_GPU = 256 << 20 };

typedef void (*operation)(probe_ops *x);

struct probe_ops {
    pl_backend *be;
    pl_probe_options options;
    int N, heads, kv_heads, D, width, ffn, vocab, qkv_width;
    pl_act *a, *b, *c, *d; /* each has at least N rows of the widest activations */
    /* each has as many floats as the head's matrix, as all matrices of a block, or as
     * `stream`, whichever is largest; m also has room for the logits */
    float *w, *dw, *m, *v;
    float *rstd, *loss, *lse; /* [N], [N], [N, heads] */
    void *tokens;             /* [N] */
    pl_weight *weight[N_WEIGHTS];
    int rows[N_WEIGHTS], cols[N_WEIGHTS];
    struct {
        operation call;
        int weight;
    } what[PL_PROBE_ROWS]; /* [n_rows] one entry per row of the report */
    int which;             /* index of the weight of the current product */
    /* floats that each pass over memory reads per array */
    size_t stream;
};

static int n_rows(const probe_ops *x)
{
    return x->which == HEAD
               ? (int)pl_model_head_rows(x->be, (size_t)x->N, (size_t)x->vocab)
               : x->N;
}

static void product_forward(probe_ops *x)
{
    const int O_ = x->rows[x->which], I = x->cols[x->which];
    if (x->which == HEAD)
        x->be->ops->logits(x->be, x->m, x->a, x->weight[HEAD], n_rows(x), O_, I);
    else
        x->be->ops->matmul_forward(x->be, x->c, x->a, x->weight[x->which], x->N, O_, I);
}
static void dx(probe_ops *x)
{
    x->be->ops->matmul_dx(x->be, x->c, x->a, x->weight[x->which], n_rows(x),
                          x->rows[x->which], x->cols[x->which], false);
}
static void dw(probe_ops *x)
{
    x->be->ops->matmul_dw(x->be, x->dw, x->a, x->b, n_rows(x), x->rows[x->which],
                          x->cols[x->which], false);
}
static void classifier(probe_ops *x)
{
    x->be->ops->classifier(x->be, x->loss, x->c, x->dw, x->a, x->weight[HEAD],
                           x->tokens, x->rstd, x->N, x->vocab, x->width, false);
}
static void attention_forward(probe_ops *x)
{
    x->be->ops->attention_forward(x->be, x->c, x->lse, x->a, NULL, x->options.batch,
                                  x->options.shape->context, x->heads, x->kv_heads,
                                  x->D);
}
static void attention_backward(probe_ops *x)
{
    x->be->ops->attention_backward(x->be, x->d, x->b, x->a, x->c, x->lse, NULL,
                                   x->options.batch, x->options.shape->context,
                                   x->heads, x->kv_heads, x->D, 10000.0);
}
static void rope(probe_ops *x)
{
    x->be->ops->rope(x->be, x->b, NULL, x->options.batch, x->options.shape->context,
                     x->heads, x->kv_heads, x->D, 10000.0, 0, 1);
}
static void norm_forward(probe_ops *x)
{
    x->be->ops->rmsnorm_forward(x->be, x->c, x->rstd, x->b, x->a, x->w, x->N, x->width,
                                1e-5f);
}
static void norm_backward(probe_ops *x)
{
    x->be->ops->rmsnorm_backward(x->be, x->d, x->dw, x->b, x->a, x->w, x->rstd, x->N,
                                 x->width, true);
}
static void swiglu_forward(probe_ops *x)
{
    x->be->ops->swiglu_forward(x->be, x->c, x->a, x->N, x->ffn);
}
static void swiglu_backward(probe_ops *x)
{
    x->be->ops->swiglu_backward(x->be, x->c, x->b, x->a, x->N, x->ffn);
}
static void embed_forward(probe_ops *x)
{
    x->be->ops->embed_forward(x->be, x->c, x->tokens, x->w, x->N, x->width);
}
static void embed_backward(probe_ops *x)
{
    x->be->ops->embed_backward(x->be, x->dw, x->b, x->tokens, x->N, x->width);
}
static size_t block_params(const probe_ops *x)
{
    size_t n = 0;
    for (int i = QKV; i <= DOWN; i++)
        n += (size_t)x->rows[i] * (size_t)x->cols[i];
    return n;
}
static void optimize(probe_ops *x, size_t n)
{
    const pl_adamw adam = {1e-4f, 0.9f, 0.95f, 1e-8f, 0.1f, 10};
    x->be->ops->adamw(x->be, x->w, x->m, x->v, x->dw, n, 1.0f, &adam, NULL);
}
static void adamw(probe_ops *x)
{
    optimize(x, block_params(x));
}
static void sum_squares(probe_ops *x)
{
    /* `loss`, memory of the backend, gets the sum; its values do not matter */
    void *out = x->loss;
    x->be->ops->sum_squares(x->be, out, x->dw, block_params(x));
}

/* ---- the list ---- */
static pl_probe_row *add_operation(probe_ops *x, pl_probe_report *report,
                                   const char *name, operation call, int calls)
{
    const int i = report->n_rows++;
    pl_probe_row *row = &report->rows[i];
    *row = (pl_probe_row){.calls = calls};
    (void)pl_copy_text(row->name, sizeof row->name, name);
    x->what[i].call = call;
    return row;
}

static void add_product(probe_ops *x, pl_probe_report *report, const char *name,
                        operation call, int weight, double elements)
{
    const int last = report->n_rows, blocks = x->options.shape->n_blocks;
    x->which = weight;
    const int N = n_rows(x), parts = (x->N + N - 1) / N;
    pl_probe_row *row =
        add_operation(x, report, name, call, weight == HEAD ? parts : blocks);
    row->product = true;
    row->flops = 2.0 * N * x->rows[weight] * x->cols[weight];
    row->bytes = elements;
    x->what[last].weight = weight;
}

/* Adds the products, then the other operations. A product moves e bytes (the size of an
 * activation) per activation and per weight, 4 bytes per gradient of a weight, and 4
 * bytes per logit. */
static void list_operations(probe_ops *x, pl_probe_report *report)
{
    static const char *const names[] = {"qkv", "o", "gate_up", "down", "head"};
    const pl_shape *s = x->options.shape;
    const double e = (double)pl_type_bytes(x->be->act), N = x->N, C = x->width;
    for (int i = QKV; i <= HEAD; i++) {
        x->which = i;
        const double out = (double)n_rows(x) * x->rows[i];
        const double in = (double)n_rows(x) * x->cols[i];
        const double w = (double)x->rows[i] * x->cols[i];
        char name[32];
        snprintf(name, sizeof name, "%s forward", names[i]);
        add_product(x, report, name, product_forward, i,
                    (in + w) * e + out * (i == HEAD ? 4.0 : e));
        snprintf(name, sizeof name, "%s dx", names[i]);
        add_product(x, report, name, dx, i, (in + out + w) * e);
        snprintf(name, sizeof name, "%s dw", names[i]);
        add_product(x, report, name, dw, i, (in + out) * e + w * 4.0);
    }
    const double F = x->ffn, V = x->vocab, W = x->qkv_width,
                 P = (double)block_params(x);
    const double heads = (double)x->heads * x->D;
    /* only the causal half counts; each multiply-add is 2 FLOPs */
    const double scores = N * s->context * heads;
    const int blocks = s->n_blocks, norms = 2 * blocks + 1;
    pl_probe_row *row = add_operation(x, report, "classifier", classifier, 1);
    row->flops = 6.0 * N * V * C;
    row->bytes = 2.0 * N * C * e + V * C * (e + 4.0);
    row = add_operation(x, report, "attention forward", attention_forward, blocks);
    row->flops = 2.0 * scores;
    row->bytes = N * (W + heads) * e;
    row = add_operation(x, report, "attention backward", attention_backward, blocks);
    row->flops = 5.0 * scores;
    row->bytes = N * 2.0 * (W + heads) * e;
    add_operation(x, report, "rope", rope, blocks)->bytes =
        N * 2.0 * (x->heads + x->kv_heads) * x->D * e;
    add_operation(x, report, "rmsnorm forward", norm_forward, norms)->bytes =
        4.0 * N * C * e;
    add_operation(x, report, "rmsnorm backward", norm_backward, norms)->bytes =
        4.0 * N * C * e;
    add_operation(x, report, "swiglu forward", swiglu_forward, blocks)->bytes =
        3.0 * N * F * e;
    add_operation(x, report, "swiglu backward", swiglu_backward, blocks)->bytes =
        5.0 * N * F * e;
    add_operation(x, report, "embed forward", embed_forward, 1)->bytes =
        N * C * (4.0 + e);
    add_operation(x, report, "embed backward", embed_backward, 1)->bytes =
        N * C * (8.0 + e);
    add_operation(x, report, "sum_squares", sum_squares, blocks)->bytes = 4.0 * P;
    add_operation(x, report, "adamw", adamw, blocks)->bytes = 32.0 * P;
}

void probe_ops_call(probe_ops *x, int row)
{
    x->which = x->what[row].weight;
    x->what[row].call(x);
}

/* ---- memory ---- */
static pl_status device_floats(probe_ops *x, size_t n, float scale, uint64_t seed,
                               float **out)
{
    float *host = NULL;
    PL_CHECK(x->be->ops->alloc(x->be, n * sizeof(float), "probe values", (void **)out));
    if (scale == 0.0f)
        return PL_OK;
    PL_CHECK(pl_try_alloc(n * sizeof(float), "probe values", (void **)&host));
    /* the first DRAWN values are random, and the others repeat them */
    for (size_t i = 0; i < n; i++)
        host[i] = i < DRAWN ? scale * pl_random_normal(seed, 0, i) : host[i - DRAWN];
    x->be->ops->upload(x->be, *out, host, n * sizeof(float));
    const pl_status status = x->be->ops->sync(x->be);
    pl_free(host);
    return status;
}

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

pl_status probe_ops_create(pl_backend *be, const pl_probe_options *options,
                           pl_probe_report *report, probe_ops **out)
{
    pl_status status = PL_OK;
    probe_ops *x = pl_alloc(sizeof *x);
    x->be = be;
    x->options = *options;
    const pl_shape *s = x->options.shape;
    x->N = x->options.batch * s->context;
    x->heads = s->n_heads;
    x->kv_heads = s->n_kv_heads;
    x->D = s->head_size;
    x->width = s->width;
    x->ffn = s->ffn;
    x->vocab = s->vocab;
    x->qkv_width = (x->heads + 2 * x->kv_heads) * x->D;
    const int rows[] = {x->qkv_width, x->width, 2 * x->ffn, x->width, x->vocab};
    const int cols[] = {x->width, x->heads * x->D, x->width, x->ffn, x->width};
    memcpy(x->rows, rows, sizeof rows);
    memcpy(x->cols, cols, sizeof cols);
    const size_t usual = be->memory_bytes > 0 ? STREAM_BYTES_GPU : STREAM_BYTES;
    const size_t asked = options->stream_bytes > 0 ? options->stream_bytes : usual;
    x->stream = most(asked, STREAM_CACHES * be->cache_bytes) / sizeof(float);
    const size_t N = (size_t)x->N, V = (size_t)x->vocab;
    /* the logits; x->a and x->m must have room for them, too */
    const size_t logits = pl_model_head_rows(be, N, V) * V;
    const size_t widest =
        most(most(2 * (size_t)x->ffn, (size_t)x->qkv_width), (size_t)x->width);
    const size_t params = most(most(V * (size_t)x->width, block_params(x)), x->stream);
    pl_act **const all[] = {&x->a, &x->b, &x->c, &x->d};
    for (size_t i = 0; i < 4; i++) {
        const size_t acts = most(N * widest, i == 0 ? logits : 0);
        float *values;
        PL_TRY(be->ops->alloc(be, acts * pl_type_bytes(be->act), "probe acts",
                              (void **)all[i]));
        PL_TRY(device_floats(x, acts, 1.0f, i, &values));
        be->ops->act_from_float(be, *all[i], values, acts);
        status = be->ops->sync(be);
        be->ops->release(be, values);
        PL_TRY(status);
    }
    float **const floats[] = {&x->w, &x->dw, &x->m, &x->v};
    for (size_t i = 0; i < 4; i++)
        PL_TRY(device_floats(x, most(params, i == 2 ? logits : 0), i < 2 ? 0.05f : 0.0f,
                             10 + i, floats[i]));
    /* `rstd` is also the `scale` of the classifier */
    PL_TRY(device_floats(x, N, 1.0f, 14, &x->rstd));
    PL_TRY(device_floats(x, N, 0, 0, &x->loss));
    PL_TRY(device_floats(x, N * (size_t)x->heads, 0, 0, &x->lse));
    const size_t bytes = (size_t)x->N * sizeof(int32_t);
    int32_t *tokens = pl_alloc(bytes);
    for (int n = 0; n < x->N; n++)
        tokens[n] = (int32_t)(pl_random_u32(1, 2, (uint64_t)n) % (uint32_t)x->vocab);
    status = be->ops->alloc(be, bytes, "tokens", &x->tokens);
    if (status == PL_OK) {
        be->ops->upload(be, x->tokens, tokens, bytes);
        status = be->ops->sync(be);
    }
    pl_free(tokens);
    PL_TRY(status);
    for (int i = QKV; i <= HEAD; i++)
        PL_TRY(be->ops->weight_create(be, x->w, x->rows[i], x->cols[i], &x->weight[i]));
    /* else the compute copies would be zeros, which a GPU multiplies faster */
    be->ops->weights_refresh(be, x->weight, N_WEIGHTS);
    PL_TRY(be->ops->sync(be));
    list_operations(x, report);
done:
    if (status != PL_OK)
        probe_ops_destroy(&x);
    *out = x;
    return status;
}

void probe_ops_destroy(probe_ops **ops)
{
    probe_ops *x = *ops;
    if (!x)
        return;
    void *const all[] = {x->a, x->b, x->c,    x->d,    x->w,   x->dw,
                         x->m, x->v, x->rstd, x->loss, x->lse, x->tokens};
    for (int i = QKV; i <= HEAD; i++)
        x->be->ops->weight_destroy(x->be, &x->weight[i]);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        x->be->ops->release(x->be, all[i]);
    pl_free(x);
    *ops = NULL;
}

static void read_memory_stream(probe_ops *x)
{
    x->be->ops->sum_squares(x->be, (void *)x->loss, x->dw, x->stream);
}

static void update_stream(probe_ops *x)
{
    optimize(x, x->stream);
}

/* Measures the seconds of a call; on a GPU the mean of several, and a wait. */
static pl_status time_stream(probe_ops *x, operation call, double *seconds)
{
    const int calls = x->be->memory_bytes > 0 ? STREAM_CALLS : 1;
    const double start = probe_now(&x->options);
    for (int i = 0; i < calls; i++)
        call(x);
    PL_CHECK(x->be->ops->sync(x->be));
    *seconds = (probe_now(&x->options) - start) / calls;
    return PL_OK;
}

/* The sum of squares reads one array; AdamW reads and writes four. */
pl_status probe_ops_memory(probe_ops *x, double *rate)
{
    const double n = (double)x->stream;
    *rate = 0.0;
    for (int i = 0; i <= STREAM_ROUNDS; i++) {
        double reading, updating;
        PL_CHECK(time_stream(x, read_memory_stream, &reading));
        PL_CHECK(time_stream(x, update_stream, &updating));
        if (i > 0) /* the first round is not counted: it only touches the memory */
            *rate = fmax(*rate, fmax(4.0 * n / reading, 32.0 * n / updating));
    }
    return PL_OK;
}
