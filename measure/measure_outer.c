/* pathloom bench outer: compares each method's outer step with the speed of memory.
 *
 * A step does little arithmetic on much memory, so its limit is the rate at which
 * memory is read and written. This rate depends on the mix of reads and writes.
 * Therefore each row is compared with a pass that reads and writes as many bytes as the
 * step, but computes almost nothing. Each of a few rounds measures every row once. The
 * best round of each row counts, because other work on a machine can only add time. */
#include "measure/measure.h"
#include <math.h>

enum { N = 1 << 24, VECTORS = 6, ROUNDS = 6, PIECE = 512 };

typedef struct row {
    const char *name;
    pl_method method;
    int n_reads, n_rewrites; /* vectors that are only read, and that are changed */
    double seconds, memory_seconds; /* results */
} row;

/* ---- reads and writes without arithmetic ---- */
static volatile float sink; /* of the sums, so that the compiler keeps the reads */

static void touch(float *const *vectors, int n_reads, int n_rewrites)
{
    float sum[PIECE] = {0};
    for (size_t i = 0; i < N; i += PIECE) {
        for (int w = 0; w < n_rewrites; w++)
            for (size_t k = 0; k < PIECE; k++)
                vectors[w][i + k] += 1e-6f;
        for (int r = 0; r < n_reads; r++)
            for (size_t k = 0; k < PIECE; k++)
                sum[k] += vectors[VECTORS - 1 - r][i + k];
    }
    sink = sum[n_reads];
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
    return 4.0 * (reads_twice(r) ? 2 * r->n_reads : r->n_reads) + 8.0 * r->n_rewrites;
}

/* The rows; only those of noloco read several vectors. co2 reads the mean update twice:
 * before it changes any element it needs the norm, by which it computes the staleness
 * penalty (outer/step.h). */
static row rows[] = {
    {"diloco", PL_METHOD_DILOCO, 1, 2, 0, 0},
    {"fedavg", PL_METHOD_FEDAVG, 1, 1, 0, 0},
    {"heavy-ball", PL_METHOD_HEAVY_BALL, 1, 2, 0, 0},
    {"co2", PL_METHOD_CO2, 1, 2, 0, 0},
    {"streaming", PL_METHOD_STREAMING, 1, 2, 0, 0},
    {"delayed-nesterov", PL_METHOD_DELAYED_NESTEROV, 1, 3, 0, 0},
    {"noloco, one vector", PL_METHOD_NOLOCO, 2, 2, 0, 0},
    {"noloco, two vectors", PL_METHOD_NOLOCO, 4, 2, 0, 0},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

pl_status measure_outer(bool json)
{
    pl_status status = PL_OK;
    float *vectors[VECTORS] = {NULL};
    for (int v = 0; v < VECTORS; v++)
        PL_TRY(pl_try_alloc(N * sizeof(float), "a vector", (void **)&vectors[v]));
    for (int v = 0; v < VECTORS; v++)
        for (size_t i = 0; i < N; i++)
            vectors[v][i] = (float)(i % 251) * 1e-3f;
    for (size_t i = 0; i < N_ROWS; i++)
        rows[i].seconds = rows[i].memory_seconds = 1e9;
    for (size_t i = 0; i < ROUNDS * N_ROWS; i++) {
        row *r = &rows[i % N_ROWS];
        double start = pl_now();
        if (reads_twice(r))
            touch(vectors, r->n_reads, 0);
        touch(vectors, r->n_reads, r->n_rewrites);
        double middle = pl_now();
        /* vectors[0] are the parameters and vectors[1] the momentum. delayed-nesterov
         * also keeps vectors[2]; in all other rows the rest is only read. Of
         * delayed-nesterov's steps the one with a momentum step is measured, because it
         * changes all three. */
        const pl_outer_step step = step_of(r);
        pl_outer_state state = {vectors[0], vectors[1], vectors[2], 0, 0};
        const pl_gossip_step meeting = {0.5, 1e-3, r->n_reads == 2 ? 1e-3 : 2e-3,
                                        PL_RULE_HEAVY_BALL};
        const pl_gossip_view own = {vectors[5], vectors[4]},
                             mate = {vectors[3], vectors[2]};
        if (step.buffer > 0)
            state.arrivals = step.buffer - 1;
        if (r->n_reads == 1)
            PL_TRY(pl_outer_apply(&step, &state, vectors[5], N, NULL));
        else if (r->n_reads == 2)
            PL_TRY(pl_gossip_apply_one(&meeting, vectors[0], vectors[1], vectors[5],
                                       vectors[4], N));
        else
            PL_TRY(pl_gossip_apply_views(&meeting, vectors[0], vectors[1], &own, &mate,
                                         N));
        r->memory_seconds = fmin(r->memory_seconds, middle - start);
        r->seconds = fmin(r->seconds, pl_now() - middle);
    }
    if (json) {
        pl_json *o = pl_json_object(), *list = pl_json_array();
        pl_json_set_int(o, "params", N);
        for (size_t i = 0; i < N_ROWS; i++) {
            const row *r = &rows[i];
            pl_json *entry = pl_json_object();
            pl_json_set_text(entry, "method", r->name);
            pl_json_set_real(entry, "params_per_s", N / r->seconds);
            pl_json_set_real(entry, "bytes_per_param", step_row_bytes(r));
            pl_json_set_real(entry, "memory_params_per_s", N / r->memory_seconds);
            pl_json_set_real(entry, "share_of_memory", r->memory_seconds / r->seconds);
            pl_json_push(list, entry);
        }
        pl_json_set(o, "methods", list);
        say_json(o);
    } else {
        say("outer step on one thread; memory: the same reads and writes alone");
        say("  %-20s %10s %8s %8s %10s", "method", "Gparam/s", "B/param", "GB/s",
            "of memory");
        for (size_t i = 0; i < N_ROWS; i++) {
            const row *r = &rows[i];
            double rate = N / r->seconds * 1e-9;
            say("  %-20s %10.2f %8.0f %8.1f %8.0f %%", r->name, rate, step_row_bytes(r),
                rate * step_row_bytes(r), 100 * r->memory_seconds / r->seconds);
        }
    }
done:
    for (int v = 0; v < VECTORS; v++)
        pl_free(vectors[v]);
    return status;
}
