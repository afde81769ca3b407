/* Runs rounds of operations and steps, and computes their rates (probe.h). */
#include "measure/probe_internal.h"
#include <math.h>

enum { REPEATS_MAX = 64 };
static const double SAMPLE_SECONDS = 2e-3;

double probe_now(const pl_probe_options *options)
{
    return options->cpu_clock ? pl_thread_s() : pl_now();
}

/* Measures the seconds of one call. It may be called many times, because a gradient
 * grows by the same amount at each call, and AdamW clears it once per round. */
static pl_status time_row(pl_backend *be, const pl_probe_options *options,
                          probe_ops *ops, int row, int repeats, double *seconds)
{
    const double start = probe_now(options);
    for (int i = 0; i < repeats; i++)
        probe_ops_call(ops, row);
    PL_CHECK(be->ops->sync(be));
    *seconds = (probe_now(options) - start) / repeats;
    return PL_OK;
}

static pl_status time_step(const pl_probe_options *options, probe_train *train,
                           double *seconds)
{
    const double start = probe_now(options);
    PL_CHECK(probe_train_step(train));
    *seconds = fmin(*seconds, probe_now(options) - start);
    return PL_OK;
}

double pl_probe_share(const pl_probe_report *report, const pl_probe_row *row)
{
    return fmax(row->flops / row->seconds / report->matrix_rate,
                row->bytes / row->seconds / report->memory_rate);
}

pl_status pl_probe(pl_backend *be, const pl_probe_options *options,
                   pl_probe_report *out)
{
    pl_status status = PL_OK;
    probe_ops *ops = NULL;
    probe_train *train = NULL;
    *out = (pl_probe_report){.tokens = options->batch * options->shape->context};
    PL_TRY(probe_train_create(be, options, &train));
    PL_TRY(probe_ops_create(be, options, out, &ops));
    out->n_params = probe_train_params(train);
    /* Launching work on a GPU and waiting for it take as long as a short operation. So
     * a short operation is repeated until a sample lasts long enough. The first call,
     * which loads kernels and chooses algorithms, is not measured. */
    for (int i = 0; i < out->n_rows; i++) {
        double seconds = INFINITY;
        for (int k = 0; k < 2 && be->memory_bytes > 0; k++)
            PL_TRY(time_row(be, options, ops, i, 1, &seconds));
        const double wanted = ceil(SAMPLE_SECONDS / fmax(seconds, 1e-9));
        out->rows[i].repeats = (int)fmax(1.0, fmin(wanted, REPEATS_MAX));
    }
    for (int round = 0; round <= options->rounds; round++) {
        if (round < 2) { /* the first round only warms up */
            out->step_seconds = INFINITY;
            for (int i = 0; i < out->n_rows; i++)
                out->rows[i].seconds = INFINITY;
        }
        for (int i = 0; i < out->n_rows; i++) {
            pl_probe_row *row = &out->rows[i];
            double seconds;
            PL_TRY(time_row(be, options, ops, i, row->repeats, &seconds));
            row->seconds = fmin(row->seconds, seconds);
        }
        PL_TRY(time_step(options, train, &out->step_seconds));
    }
    PL_TRY(probe_ops_memory(ops, &out->memory_rate));
    /* The FLOPs of a step are those of products and of attention. The row of the
     * classifier is not added, because its three products have rows of their own. */
    for (int i = 0; i < out->n_rows; i++) {
        const pl_probe_row *row = &out->rows[i];
        const double flops = row->flops * row->calls;
        const bool attention = pl_starts_with(row->name, "attention");
        out->flops += row->product || attention ? flops : 0.0;
        if (!row->product)
            continue;
        out->product_flops += flops;
        out->product_seconds += row->seconds * row->calls;
        out->matrix_rate = fmax(out->matrix_rate, row->flops / row->seconds);
    }
done:
    probe_ops_destroy(&ops);
    probe_train_destroy(&train);
    return status;
}

pl_status pl_probe_step(pl_backend *be, const pl_probe_options *options,
                        double *seconds)
{
    pl_status status = PL_OK;
    probe_train *train = NULL;
    PL_TRY(probe_train_create(be, options, &train));
    for (int round = 0; round <= options->rounds; round++) {
        if (round < 2)
            *seconds = INFINITY;
        PL_TRY(time_step(options, train, seconds));
    }
    /* an idle GPU's clock may be low: the first half of the time warms up */
    const int parts = be->memory_bytes > 0 ? 2 : 1;
    for (int part = 0; options->seconds > 0 && part < parts; part++) {
        /* unlike the best step, the mean includes other work on the machine */
        const double start = probe_now(options);
        int n = 0;
        do {
            PL_TRY(probe_train_step(train));
            *seconds = (probe_now(options) - start) / ++n;
        } while (*seconds * n < options->seconds / parts);
    }
done:
    probe_train_destroy(&train);
    return status;
}
