/* The outer step of one module, in one pass over memory. step.h has the equations of
 * all methods, step_method.h their coefficients; step_kernel.c has the loops over a
 * block.
 *
 * Memory bandwidth limits the speed of the step. So pl_outer_merge takes D (the mean of
 * the updates) block by block, and uses each block while it is in the cache:
 *
 *   module   |---------- span ----------|---------- span ----------|-- span --|
 *   span     |block|block|block| ...      256 blocks; what one thread takes at a time
 *   block    512 values: fill() writes D, then kernels->step() changes params, momentum
 *            and carry, and adds to the three sums of squares of the span
 *
 * The gap penalty of co2 (PL_GAP_NORM) divides D by a number Lambda that depends on
 * |D|. Only in this case two passes are made:
 *
 *   pass 1: only measures D over all spans -> |D| -> Lambda
 *   pass 2: takes the step, with coefficients that contain Lambda
 *
 * Then fill() is called twice per block and must give the same bytes both times.
 *
 * Invariants
 *   - The result has the same bits for every number of threads, because one
 *     thread sums a span in the order of its blocks and the sums of spans are added in
 *     their order (sum_spans), and on every machine, because blocks have a fixed length
 *     and no kernel contracts products and sums.
 *   - pl_l2_norm uses the same blocks and spans, so it equals the norm that a step
 *     reports.
 *   - After an error the vectors may be partly changed. The caller discards the
 *     vectors.
 *
 * Ownership. The state's vectors belong to the caller and are changed in place. The
 * array of sums is the only memory that a step allocates. */
#include "outer/step_kernel.h"

#include <math.h>

/* A thread takes a span of values at a time; each span has its own sums. */
enum { STEP_SPAN = 256 * PL_OUTER_BLOCK };

typedef struct pass {
    const step_kernels *kernels;
    pl_outer_state *state;
    pl_mean_fn fill;
    void *context;
    size_t n;
    step_coefficients coefficients;
    /* takes_step: else only |D|^2 of each span is added up, and no vector changes */
    bool takes_step, measures_step;
    step_sums *sums;
} pass;

static size_t smaller_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static pl_status run_span(void *context, size_t item, int thread)
{
    const pass *p = context;
    float mean[PL_OUTER_BLOCK] __attribute__((aligned(64)));
    step_sums sums = {0};
    size_t end = smaller_size((item + 1) * STEP_SPAN, p->n);
    (void)thread;
    for (size_t first = item * STEP_SPAN; first < end; first += PL_OUTER_BLOCK) {
        step_block block = {.params = p->state->params + first,
                            .momentum = step_from(p->state->momentum, first),
                            .carry = step_from(p->state->carry, first),
                            .mean = mean,
                            .count = smaller_size(PL_OUTER_BLOCK, p->n - first)};
        PL_CHECK(p->fill(p->context, first, block.count, mean));
        if (p->takes_step)
            p->kernels->step(&p->coefficients, &block, p->measures_step, &sums);
        else
            sums.mean += p->kernels->squares(mean, block.count);
    }
    p->sums[item] = sums;
    return PL_OK;
}

static step_sums sum_spans(const step_sums *sums, size_t n_spans)
{
    step_sums total = {0};
    for (size_t i = 0; i < n_spans; i++) {
        total.mean += sums[i].mean;
        total.params += sums[i].params;
        total.step += sums[i].step;
    }
    return total;
}

bool pl_outer_keeps_momentum(const pl_outer_step *step)
{
    return step->momentum != 0 || step->method == PL_METHOD_DELAYED_NESTEROV;
}

bool pl_outer_keeps_carry(const pl_outer_step *step)
{
    return step->method == PL_METHOD_DELAYED_NESTEROV;
}

bool pl_outer_depends_on_gap(const pl_outer_step *step)
{
    return step->gap == PL_GAP_NORM && step->delay > 0;
}

static step_coefficients coefficients_of(const pl_outer_step *step,
                                         const pl_outer_state *state, double gap)
{
    bool delayed = step->method == PL_METHOD_DELAYED_NESTEROV;
    bool last = delayed && state->arrivals + 1 == step->buffer;
    double rescale = step->rescale ? sqrt((double)step->n_contributors) : 1;
    double c = step->spread, N = step->buffer;
    const step_kind kind = delayed ? (last ? STEP_LAST_ARRIVAL : STEP_ARRIVAL)
                           : step->momentum == 0              ? STEP_PLAIN
                           : step->rule == PL_RULE_HEAVY_BALL ? STEP_HEAVY_BALL
                                                              : STEP_NESTEROV;
    return (step_coefficients){
        .kind = kind,
        .eta = (float)step->lr,
        .mu = (float)step->momentum,
        .scale = (float)(rescale / gap),
        .clip = step->clip > 0 ? (float)step->clip : INFINITY,
        .parts = (float)step->buffer,
        .pull = (float)((last ? 1 - c * N + c : c) * step->momentum)};
}

pl_status pl_outer_merge(const pl_outer_step *step, pl_outer_state *state, size_t n,
                         pl_mean_fn fill, void *context, int n_threads,
                         pl_outer_report *report)
{
    pl_status status = PL_OK;
    size_t n_spans = (n + STEP_SPAN - 1) / STEP_SPAN;
    step_sums *sums = NULL;
    double gap = 1;
    memset(report, 0, sizeof *report);
    if (step->method == PL_METHOD_NOLOCO || step->n_contributors < 1)
        return pl_fail(PL_ERR_ARG,
                       "a home cannot take a step of %s with %d contributors",
                       pl_method_name(step->method), step->n_contributors);
    if ((pl_outer_keeps_momentum(step) && state->momentum == NULL) ||
        (pl_outer_keeps_carry(step) && state->carry == NULL))
        return pl_fail(PL_ERR_ARG,
                       "a step of %s needs a vector of state (momentum or carry) that "
                       "the caller did not give",
                       pl_method_name(step->method));
    if (step->method == PL_METHOD_DELAYED_NESTEROV &&
        (state->arrivals < 0 || state->arrivals >= step->buffer))
        return pl_fail(PL_ERR_ARG,
                       "the state counts %d arrivals since the last momentum step, but "
                       "the buffer is %d",
                       state->arrivals, step->buffer);
    PL_CHECK(pl_try_alloc((n_spans + 1) * sizeof *sums, "sums of an outer step",
                          (void **)&sums));
    pass p = {.kernels = step_kernels_best(),
              .state = state,
              .fill = fill,
              .context = context,
              .n = n,
              .measures_step = pl_outer_depends_on_gap(step),
              .sums = sums};
    if (p.measures_step) {
        /* Lambda: state->displacement was set before this step */
        PL_TRY(pl_parallel(n_threads, n_spans, run_span, &p));
        const double rescale = step->rescale ? sqrt((double)step->n_contributors) : 1;
        const double norm = rescale * sqrt(sum_spans(p.sums, n_spans).mean);
        gap = 1 + state->displacement / (norm + 1e-12);
    }
    p.coefficients = coefficients_of(step, state, gap);
    p.takes_step = true;
    PL_TRY(pl_parallel(n_threads, n_spans, run_span, &p));
    step_sums total = sum_spans(p.sums, n_spans);
    if (p.measures_step)
        state->displacement = sqrt(total.step);
    if (step->method == PL_METHOD_DELAYED_NESTEROV)
        state->arrivals = (state->arrivals + 1) % step->buffer;
    *report = (pl_outer_report){sqrt(total.mean), sqrt(total.params), gap};
done:
    pl_free_aligned(sums);
    return status;
}

static pl_status copy_mean(void *context, size_t first, size_t count, float *mean)
{
    const float *const *whole = context;
    memcpy(mean, *whole + first, count * sizeof *mean);
    return PL_OK;
}

pl_status pl_outer_apply(const pl_outer_step *step, pl_outer_state *state,
                         const float *mean, size_t n, pl_outer_report *report)
{
    pl_outer_report unwanted;
    return pl_outer_merge(step, state, n, copy_mean, &mean, 1,
                          report ? report : &unwanted);
}

pl_status pl_update_list_mean(void *list, size_t first, size_t count, float *mean)
{
    const pl_update_list *updates = list;
    const step_kernels *kernels = step_kernels_best();
    if (updates->n_views < 1)
        return pl_fail(PL_ERR_ARG, "a mean needs at least one update");
    for (size_t done = 0; done < count; done += STEP_PIECE) {
        const size_t n = smaller_size(STEP_PIECE, count - done);
        for (int u = 0; u < updates->n_views;) {
            /* four updates in bf16 are added at once */
            const pl_update_view *view = &updates->views[u];
            bool four = updates->n_views - u >= 4;
            step_quad quad;
            for (int i = 0; four && i < 4; i++) {
                four = view[i].is_bf16;
                quad.values[i] = (const uint8_t *)view[i].values + 2 * (first + done);
                quad.weights[i] = view[i].weight;
            }
            const size_t at = (view->is_bf16 ? 2 : 4) * (first + done);
            if (four)
                kernels->add_four(mean + done, &quad, u == 0, n);
            else
                kernels->add(mean + done, (const uint8_t *)view->values + at,
                             view->is_bf16, view->weight, u == 0, n);
            u += four ? 4 : 1;
        }
    }
    return PL_OK;
}

/* Computes the L2 norm with a step's blocks and spans, to equal the step's. */
double pl_l2_norm(const float *values, size_t n)
{
    const step_kernels *kernels = step_kernels_best();
    double total = 0;
    for (size_t span = 0; span < n; span += STEP_SPAN) {
        double sum = 0;
        size_t end = smaller_size(span + STEP_SPAN, n);
        for (size_t first = span; first < end; first += PL_OUTER_BLOCK)
            sum += kernels->squares(values + first,
                                    smaller_size(PL_OUTER_BLOCK, n - first));
        total += sum;
    }
    return sqrt(total);
}
