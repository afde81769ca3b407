/* bench_ops: time of each operation of a backend within a training step, and of the
 * step itself, for one shape. `pathloom bench ops` is the same for people; this one
 * needs only modules, as on a GPU machine (tests/gpu.sh).
 *
 *   bench_ops batch=8 context=128 width=128 blocks=4 vocab=2048 precision=auto
 *
 * Other keys: heads, kv_heads, ffn, threads, backend, repeats, clock. Each row gives
 * the best of `repeats` calls, GF/s where the operation is a product, and what its
 * calls of one step take together. The last lines compare the step with its products
 * alone.
 */
#include "modules/modules.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench {
    int batch, context, width, blocks, vocab, heads, kv_heads, ffn, threads, repeats;
    const char *precision, *backend, *clock;
} bench;

static bool set_number(bench *x, const char *key, int value)
{
    const struct {
        const char *key;
        int *to;
    } keys[] = {{"batch", &x->batch},       {"context", &x->context},
                {"width", &x->width},       {"blocks", &x->blocks},
                {"vocab", &x->vocab},       {"heads", &x->heads},
                {"kv_heads", &x->kv_heads}, {"ffn", &x->ffn},
                {"threads", &x->threads},   {"repeats", &x->repeats}};
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

static pl_shape shape_of(const bench *x)
{
    const int heads = x->heads > 0 ? x->heads : x->width / 32;
    return (pl_shape){.vocab = x->vocab,
                      .width = x->width,
                      .n_heads = heads,
                      .n_kv_heads = x->kv_heads > 0 ? x->kv_heads : heads,
                      .head_size = x->width / heads,
                      .ffn = x->ffn > 0 ? x->ffn : (x->width * 8 / 3 + 31) / 32 * 32,
                      .n_blocks = x->blocks,
                      .context = x->context,
                      .tied = true,
                      .rope_theta = 10000.0,
                      .norm_eps = 1e-5};
}

static void print_rows(const pl_probe_report *r)
{
    for (int i = 0; i < r->n_rows; i++) {
        const pl_probe_row *row = &r->rows[i];
        printf("%-20s %9.1f us  x%-3d %8.2f ms", row->name, row->seconds * 1e6,
               row->calls, row->seconds * row->calls * 1e3);
        if (row->flops > 0)
            printf("  %7.1f GF/s", row->flops / row->seconds * 1e-9);
        printf("\n");
    }
}

static void print_sums(const pl_probe_report *r)
{
    const double step = r->step_seconds;
    printf("products %.2f ms at %.1f GF/s\n", r->product_seconds * 1e3,
           r->product_flops / r->product_seconds * 1e-9);
    printf(
        "step %.2f ms = %.0f tokens/s, %.1f GF/s of products, %.0f%% of their rate\n",
        step * 1e3, r->tokens / step, r->product_flops / step * 1e-9,
        100.0 * r->product_seconds / step);
}

static pl_status run(const bench *x)
{
    const pl_backend_options options = {
        .name = x->backend, .n_threads = x->threads, .precision = x->precision};
    const pl_shape shape = shape_of(x);
    const pl_probe_options probe = {.shape = &shape,
                                    .batch = x->batch,
                                    .rounds = x->repeats,
                                    .cpu_clock = strcmp(x->clock, "cpu") == 0};
    pl_probe_report report;
    pl_backend *be;
    PL_RETURN_IF(pl_shape_check(&shape));
    PL_RETURN_IF(pl_backend_open(&options, &be));
    printf("%s, %d threads; batch %d x %d, width %d, heads %d/%d x %d, ffn %d, blocks "
           "%d, vocab %d\n",
           be->device, x->threads, x->batch, x->context, x->width, shape.n_heads,
           shape.n_kv_heads, shape.head_size, shape.ffn, x->blocks, x->vocab);
    const pl_status status = pl_probe(be, &probe, &report);
    if (status == PL_OK) {
        print_rows(&report);
        print_sums(&report);
        if (be->remark[0])
            printf("%s\n", be->remark);
    }
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
               .threads = 1,
               .repeats = 10,
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
    if (run(&x) != PL_OK) {
        fprintf(stderr, "bench_ops: %s\n", pl_last_error());
        return 70;
    }
    return 0;
}
