/* pathloom bench step and bench ops: measure a training step and its operations.
 *
 * Each result is printed beside a limit that is measured by the same command. The limit
 * of a step is the time of its matrix products alone. The limit of an operation is the
 * speed of the fastest matrix product (FLOP/s) or of the fastest pass over memory
 * (bytes/s). --processes N measures the whole machine: N processes train, each bound
 * to its own processors. If N is above 1, they are compared with one process that has
 * as many threads as all of them together. */
#include "measure/engine_internal.h"

#include <math.h>

/* ---- which models ---- */
/* Chooses the models to measure: the model of --model or --set, otherwise all models
 * that a CPU can train. For operations the default is a single model, because a table
 * of operations is long. `own` gets a model that the user defined. */
static pl_status choose(const measure_options *o, measured_model *own,
                        const measured_model **first, int *n)
{
    *first = own;
    *n = 1;
    if (o->model && o->n_settings > 0)
        return pl_fail(
            PL_ERR_USAGE,
            "--model and --set both choose the model; give only one of them");
    if (o->n_settings > 0) {
        /* makes a model of one path, without levels or router, from the settings */
        static const char *const fixed[] = {"topology.levels=1",
                                            "topology.private=", "router.prefix=1"};
        enum { N_FIXED = sizeof fixed / sizeof *fixed };
        config *c = pl_alloc(sizeof *c);
        const char **sets = pl_alloc((size_t)(o->n_settings + N_FIXED) * sizeof *sets);
        memcpy(sets, fixed, sizeof fixed);
        *own = (measured_model){.name = "own", .rounds = 4};
        memcpy(sets + N_FIXED, o->settings, (size_t)o->n_settings * sizeof *sets);
        pl_status status = config_build(NULL, sets, o->n_settings + N_FIXED, c);
        if (status == PL_OK)
            status = config_shape(c, &own->shape);
        own->batch = (int)c->batch;
        pl_free_all(sets, c);
        return status;
    }
    if (o->model)
        return measure_model_by_name(o->model, own);
    if (o->ops)
        return measure_model_by_name("13m", own);
    *first = measure_models(n);
    return PL_OK;
}

static pl_json *model_json(const measured_model *m)
{
    pl_json *o = pl_json_object();
    pl_json_set_text(o, "model", m->name);
    pl_json_set_int(o, "width", m->shape.width);
    pl_json_set_int(o, "blocks", m->shape.n_blocks);
    pl_json_set_int(o, "vocab", m->shape.vocab);
    pl_json_set_int(o, "context", m->shape.context);
    pl_json_set_int(o, "batch", m->batch);
    return o;
}

/* ---- one process ---- */
static pl_status measure_process(const measure_options *o, const measured_model *first,
                                 int n, pl_json *list)
{
    pl_status status = PL_OK;
    pl_backend *be = NULL;
    pl_probe_report report;
    const pl_backend_options backend = {
        .name = o->backend, .n_threads = o->threads, .precision = o->precision};
    PL_CHECK(pl_backend_open(&backend, &be));
    if (!list)
        say("%s, %d thread%s", be->device, o->threads, o->threads == 1 ? "" : "s");
    if (!list && !o->ops)
        say("  %-7s %8s %11s %10s %10s %8s %10s %9s", "model", "params", "batch",
            "tokens/s", "s/step", "GFLOP/s", "products", "of step");
    for (const measured_model *m = first; m < first + n; m++) {
        const pl_probe_options probe = measure_probe_options(o, m);
        PL_TRY(pl_probe(be, &probe, &report));
        if (list) {
            pl_json *entry = model_json(m);
            pl_json_set_int(entry, "params", (int64_t)report.n_params);
            pl_json_set_real(entry, "tokens_per_s",
                             report.tokens / report.step_seconds);
            pl_json_set_real(entry, "step_seconds", report.step_seconds);
            pl_json_set_real(entry, "flops_per_s", report.flops / report.step_seconds);
            pl_json_set_real(entry, "products_flops_per_s",
                             report.product_flops / report.product_seconds);
            pl_json_set_real(entry, "share_of_products",
                             report.product_seconds / report.step_seconds);
            pl_json_set_real(entry, "matrix_flops_per_s", report.matrix_rate);
            pl_json_set_real(entry, "memory_bytes_per_s", report.memory_rate);
            if (o->ops) {
                pl_json *ops = pl_json_array();
                for (int i = 0; i < report.n_rows; i++) {
                    const pl_probe_row *row = &report.rows[i];
                    pl_json *op = pl_json_object();
                    pl_json_set_text(op, "operation", row->name);
                    pl_json_set_real(op, "seconds", row->seconds);
                    pl_json_set_int(op, "calls", row->calls);
                    pl_json_set_real(op, "bytes_per_s", row->bytes / row->seconds);
                    pl_json_set_real(op, "flops_per_s", row->flops / row->seconds);
                    pl_json_set_real(op, "share_of_limit",
                                     pl_probe_share(&report, row));
                    pl_json_push(ops, op);
                }
                pl_json_set(entry, "operations", ops);
            }
            pl_json_push(list, entry);
        } else if (o->ops) {
            say("%s: %.1fM parameters, batch %d x %d; best product %.1f GFLOP/s, best "
                "stream %.1f GB/s",
                m->name, 1e-6 * (double)report.n_params, m->batch, m->shape.context,
                report.matrix_rate * 1e-9, report.memory_rate * 1e-9);
            say("  %-20s %10s %5s %9s %8s %8s %10s %8s", "operation", "us", "calls",
                "ms/step", "GB/s", "TFLOP/s", "of limit", "of step");
            for (int i = 0; i < report.n_rows; i++) {
                const pl_probe_row *row = &report.rows[i];
                say("  %-20s %10.1f %5d %9.2f %8.1f %8.4f %8.0f %% %6.1f %%", row->name,
                    row->seconds * 1e6, row->calls, row->seconds * row->calls * 1e3,
                    row->bytes / row->seconds * 1e-9, row->flops / row->seconds * 1e-12,
                    100.0 * pl_probe_share(&report, row),
                    100.0 * row->seconds * row->calls / report.step_seconds);
            }
            say("  (the rows `head` are parts of the row `classifier`)");
            say("  step %.2f ms, %.0f tokens/s, %.0f %% of the speed that a step would "
                "have if it did only its matrix products",
                report.step_seconds * 1e3, report.tokens / report.step_seconds,
                100.0 * report.product_seconds / report.step_seconds);
        } else {
            const double product_rate = report.product_flops / report.product_seconds;
            say("  %-7s %7.1fM %4d x %-4d %10.0f %10.4f %8.1f %10.1f %7.0f %%", m->name,
                1e-6 * (double)report.n_params, m->batch, m->shape.context,
                report.tokens / report.step_seconds, report.step_seconds,
                report.flops / report.step_seconds * 1e-9, product_rate * 1e-9,
                100.0 * report.product_seconds / report.step_seconds);
        }
    }
done:
    pl_backend_close(&be);
    return status;
}

/* Measures the crews of each model in turn, each twice. The better result counts. */
static pl_status measure_machine(const measure_options *o, const measured_model *first,
                                 int n, pl_json *list)
{
    for (const measured_model *m = first; m < first + n; m++) {
        measure_crew crews[2] = {{o->processes, o->threads, 0.0},
                                 {1, o->processes * o->threads, 0.0}};
        const int n_crews = o->processes > 1 ? 2 : 1;
        for (int i = 0; i < 2 * n_crews; i++) {
            measure_crew *crew = &crews[i % n_crews], again = *crew;
            PL_CHECK(measure_crew_run(o, m, &again));
            crew->tokens_per_s = fmax(crew->tokens_per_s, again.tokens_per_s);
        }
        for (int i = 0; i < n_crews; i++) {
            const measure_crew *crew = &crews[i];
            if (list) {
                pl_json *entry = model_json(m);
                pl_json_set_int(entry, "processes", crew->processes);
                pl_json_set_int(entry, "threads", crew->threads);
                pl_json_set_real(entry, "tokens_per_s", crew->tokens_per_s);
                pl_json_push(list, entry);
            } else {
                say("  %-7s %d process%s of %d thread%s %10.0f tokens/s", m->name,
                    crew->processes, crew->processes == 1 ? "  " : "es", crew->threads,
                    crew->threads == 1 ? " " : "s", crew->tokens_per_s);
            }
        }
        if (!list && n_crews == 2)
            say("  %-7s processes give %.2f times what threads give", m->name,
                crews[0].tokens_per_s / crews[1].tokens_per_s);
    }
    return PL_OK;
}

pl_status measure_engine(const measure_options *o)
{
    measured_model own;
    const measured_model *first;
    int n;
    PL_CHECK(choose(o, &own, &first, &n));
    pl_json *list = o->json ? pl_json_array() : NULL;
    const bool crews = o->processes > 0;
    return measure_say_list(o, crews ? "crews" : "models", list,
                            crews ? measure_machine(o, first, n, list)
                                  : measure_process(o, first, n, list));
}
