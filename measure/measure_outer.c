/* pathloom bench outer: compares each method's outer step with the speed of memory.
 *
 * A step does little arithmetic on much memory, so its limit is the rate at which
 * memory is read and written. This rate depends on the mix of reads and writes.
 * Therefore each row is compared with a pass that reads and writes as many bytes as the
 * step, but computes almost nothing. Each of a few rounds measures every row once. The
 * best round of each row counts, because other work on a machine can only add time. */
#include "measure/measure.h"
#include <math.h>

enum {
    N = 1 << 24,
    UPDATES = 8,
    /* distance in values between two updates in memory; not a multiple of a page, so
     * that the updates begin at different offsets in their pages */
    STRIDE = N + 3008,
    ROUNDS = 6,
    CHUNK = 1 << 16,
    PIECE = 256
};

typedef struct bench {
    /* [N] each. x: parameters; m: momentum; carry, own: vectors that some methods need
     * in addition. For noloco `carry` is the vector of the mate, and `own` is the
     * vector of the holder. */
    float *x, *m, *carry, *own;
    uint16_t *updates; /* bf16 [UPDATES][STRIDE] */
    pl_update_view views[UPDATES];
    /* sums of the values that were read, so that the compiler keeps the reads */
    uint16_t sink[N / CHUNK];
    int n_threads;
} bench;

typedef struct row {
    const char *name;
    pl_method method;
    pl_status (*step)(bench *b, const struct row *r);
    int n_updates;
    /* n_reads: number of arrays of N 2-byte values that the step reads; n_rewrites:
     * number of arrays of N 4-byte values that the step reads and writes */
    int n_reads, n_rewrites;
    double seconds, memory_seconds; /* results */
} row;

/* ---- reads and writes without arithmetic ---- */
typedef struct mix {
    bench *b;
    int n_reads, n_rewrites;
} mix;

static void xor_update_piece(uint16_t *restrict sum, const uint16_t *values)
{
    for (size_t i = 0; i < PIECE; i++)
        sum[i] = (uint16_t)(sum[i] ^ values[i]);
}

static void rewrite_piece(float *values)
{
    for (size_t i = 0; i < PIECE; i++)
        values[i] += 1e-6f;
}

static pl_status touch(void *context, size_t item, int thread)
{
    const mix *m = context;
    float *const vectors[] = {m->b->x, m->b->m, m->b->carry};
    uint16_t sum[PIECE] = {0};
    (void)thread;
    for (size_t i = item * CHUNK; i < (item + 1) * CHUNK; i += PIECE) {
        for (int r = 0; r < m->n_reads; r++)
            xor_update_piece(sum, m->b->updates + (size_t)r * STRIDE + i);
        for (int w = 0; w < m->n_rewrites; w++)
            rewrite_piece(vectors[w] + i);
    }
    m->b->sink[item] = sum[item % PIECE];
    return PL_OK;
}

static pl_outer_step step_of(const row *r)
{
    const pl_method_settings settings = pl_method_defaults(r->method);
    return pl_method_step(&settings, 1e-3, false, 8);
}

static bool reads_twice(const row *r)
{
    const pl_outer_step step = step_of(r);
    return pl_outer_depends_on_gap(&step);
}

static double step_row_bytes(const row *r)
{
    const int n_reads = reads_twice(r) ? 2 * r->n_reads : r->n_reads;
    return 2.0 * n_reads + 8.0 * r->n_rewrites;
}

/* ---- the steps ---- */
static pl_status step_home(bench *b, const row *r)
{
    const pl_outer_step step = step_of(r);
    pl_outer_state state = {.params = b->x, .momentum = b->m, .carry = b->carry};
    pl_update_list list = {b->views, r->n_updates};
    pl_outer_report report;
    return pl_outer_merge(&step, &state, N, pl_update_list_mean, &list, b->n_threads,
                          &report);
}

static pl_status step_pair(bench *b, const row *r)
{
    pl_gossip_step step = {0.5, 1e-3, r->n_updates == 1 ? 1e-3 : 2e-3,
                           PL_RULE_HEAVY_BALL};
    const float *third = (const float *)(const void *)b->updates;
    if (r->n_updates == 1)
        return pl_gossip_apply_one(&step, b->x, b->m, b->own, b->carry, N,
                                   b->n_threads);
    return pl_gossip_apply_two(&step, b->x, b->m, b->own, b->carry, third, N,
                               b->n_threads);
}

/* The rows. An array of floats that is only read counts as two arrays in n_reads. For
 * co2, n_reads counts the updates once, but the step reads them twice: before it
 * changes any element it needs the norm of the mean update, by which it computes the
 * staleness penalty (outer/step.h). */
static row rows[] = {
    {"diloco", PL_METHOD_DILOCO, step_home, 1, 1, 2, 0, 0},
    {"diloco", PL_METHOD_DILOCO, step_home, 8, 8, 2, 0, 0},
    {"fedavg", PL_METHOD_FEDAVG, step_home, 1, 1, 1, 0, 0},
    {"fedavg", PL_METHOD_FEDAVG, step_home, 8, 8, 1, 0, 0},
    {"heavy-ball", PL_METHOD_HEAVY_BALL, step_home, 1, 1, 2, 0, 0},
    {"heavy-ball", PL_METHOD_HEAVY_BALL, step_home, 8, 8, 2, 0, 0},
    {"co2", PL_METHOD_CO2, step_home, 1, 1, 2, 0, 0},
    {"co2", PL_METHOD_CO2, step_home, 8, 8, 2, 0, 0},
    {"streaming", PL_METHOD_STREAMING, step_home, 1, 1, 2, 0, 0},
    {"streaming", PL_METHOD_STREAMING, step_home, 8, 8, 2, 0, 0},
    {"delayed-nesterov", PL_METHOD_DELAYED_NESTEROV, step_home, 1, 1, 3, 0, 0},
    {"noloco, one vector", PL_METHOD_NOLOCO, step_pair, 1, 4, 2, 0, 0},
    {"noloco, two vectors", PL_METHOD_NOLOCO, step_pair, 2, 6, 2, 0, 0},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

pl_status measure_outer(bool json)
{
    pl_status status = PL_OK;
    bench *b = pl_alloc(sizeof *b);
    size_t bytes = N * sizeof(float);
    b->n_threads = pl_cpu_count();
    PL_TRY(pl_try_alloc(bytes, "a module", (void **)&b->x));
    PL_TRY(pl_try_alloc(bytes, "a momentum", (void **)&b->m));
    PL_TRY(pl_try_alloc(bytes, "a mate's vector", (void **)&b->carry));
    PL_TRY(pl_try_alloc(bytes, "a holder's own vector", (void **)&b->own));
    PL_TRY(pl_try_alloc((size_t)UPDATES * STRIDE * sizeof(uint16_t), "updates",
                        (void **)&b->updates));
    for (size_t i = 0; i < (size_t)UPDATES * STRIDE; i++) /* 1 <= |value| < 2 */
        b->updates[i] = (uint16_t)(0x3f80u + i % 127 + (i % 2) * 0x8000u);
    for (size_t i = 0; i < N; i++)
        b->x[i] = b->m[i] = b->carry[i] = b->own[i] = (float)(i % 251);
    for (int u = 0; u < UPDATES; u++)
        b->views[u] =
            (pl_update_view){b->updates + (size_t)u * STRIDE, true, 1.0f / UPDATES};
    for (size_t i = 0; i < N_ROWS; i++)
        rows[i].seconds = rows[i].memory_seconds = 1e9;
    for (size_t i = 0; i < ROUNDS * N_ROWS; i++) {
        row *r = &rows[i % N_ROWS];
        double start = pl_now();
        mix reads = {b, r->n_reads, 0}, all = {b, r->n_reads, r->n_rewrites};
        if (reads_twice(r))
            PL_TRY(pl_parallel(b->n_threads, N / CHUNK, touch, &reads));
        PL_TRY(pl_parallel(b->n_threads, N / CHUNK, touch, &all));
        double middle = pl_now();
        PL_TRY(r->step(b, r));
        r->memory_seconds = fmin(r->memory_seconds, middle - start);
        r->seconds = fmin(r->seconds, pl_now() - middle);
    }
    if (json) {
        pl_json *o = pl_json_object(), *list = pl_json_array();
        pl_json_set_int(o, "threads", b->n_threads);
        pl_json_set_int(o, "params", N);
        for (size_t i = 0; i < N_ROWS; i++) {
            const row *r = &rows[i];
            pl_json *entry = pl_json_object();
            pl_json_set_text(entry, "method", r->name);
            pl_json_set_int(entry, "updates", r->n_updates);
            pl_json_set_real(entry, "params_per_s", N / r->seconds);
            pl_json_set_real(entry, "bytes_per_param", step_row_bytes(r));
            pl_json_set_real(entry, "memory_params_per_s", N / r->memory_seconds);
            pl_json_set_real(entry, "share_of_memory", r->memory_seconds / r->seconds);
            pl_json_push(list, entry);
        }
        pl_json_set(o, "methods", list);
        say_json(o);
    } else {
        say("outer step on %d threads; memory: the same reads and writes alone",
            b->n_threads);
        say("  %-20s %8s %10s %8s %8s %10s", "method", "updates", "Gparam/s", "B/param",
            "GB/s", "of memory");
        for (size_t i = 0; i < N_ROWS; i++) {
            const row *r = &rows[i];
            double rate = N / r->seconds * 1e-9;
            say("  %-20s %8d %10.2f %8.0f %8.1f %8.0f %%", r->name, r->n_updates, rate,
                step_row_bytes(r), rate * step_row_bytes(r),
                100 * r->memory_seconds / r->seconds);
        }
    }
done:
    pl_free_aligned(b->x);
    pl_free_aligned(b->m);
    pl_free_aligned(b->carry);
    pl_free_aligned(b->own);
    pl_free_aligned(b->updates);
    pl_free(b);
    return status;
}
