/* The outer step of one module. step.h has the equations of all methods, step_method.h
 * their coefficients; step_kernel.c has the loops over a block.
 *
 * Memory bandwidth limits the speed of the step, so the step reads each vector once,
 * block by block. The only exception is the gap penalty of co2 (PL_GAP_NORM): it
 * divides D by a number that depends on |D|, so D is read once more before the step.
 *
 * The result has the same bits on every machine, because blocks have a fixed length,
 * no kernel contracts products and sums, and the sums of squares are added in a fixed
 * order: block by block within a span, then span by span. pl_l2_norm uses the same
 * order, so its result equals the norms that a step reports. */
#include "outer/step_kernel.h"

#include <math.h>

enum { STEP_SPAN = 256 * STEP_BLOCK };

static size_t smaller_size(size_t a, size_t b)
{
    return a < b ? a : b;
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

pl_status pl_outer_apply(const pl_outer_step *step, pl_outer_state *state,
                         const float *mean, size_t n, pl_outer_report *report)
{
    const step_kernels *kernels = step_kernels_of(pl_isa_newest());
    const bool measures_step = pl_outer_depends_on_gap(step);
    step_sums total = {0};
    double gap = 1;
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
    const double rescale = step->rescale ? sqrt((double)step->n_contributors) : 1;
    if (measures_step) /* the caller has set state->displacement */
        gap = 1 + state->displacement / (rescale * pl_l2_norm(mean, n) + 1e-12);
    const bool delayed = step->method == PL_METHOD_DELAYED_NESTEROV;
    const bool last = delayed && state->arrivals + 1 == step->buffer;
    const double c = step->spread, N = step->buffer;
    const step_kind kind = delayed ? (last ? STEP_LAST_ARRIVAL : STEP_ARRIVAL)
                           : step->momentum == 0              ? STEP_PLAIN
                           : step->rule == PL_RULE_HEAVY_BALL ? STEP_HEAVY_BALL
                                                              : STEP_NESTEROV;
    const step_coefficients coefficients = {
        .kind = kind,
        .eta = (float)step->lr,
        .mu = (float)step->momentum,
        .scale = (float)(rescale / gap),
        .clip = step->clip > 0 ? (float)step->clip : INFINITY,
        .parts = (float)step->buffer,
        .pull = (float)((last ? 1 - c * N + c : c) * step->momentum)};
    for (size_t span = 0; span < n; span += STEP_SPAN) {
        float piece[STEP_BLOCK] __attribute__((aligned(64)));
        const size_t end = smaller_size(span + STEP_SPAN, n);
        step_sums sums = {0};
        for (size_t first = span; first < end; first += STEP_BLOCK) {
            const step_block block = {.params = state->params + first,
                                      .momentum = step_from(state->momentum, first),
                                      .carry = step_from(state->carry, first),
                                      .mean = piece,
                                      .count = smaller_size(STEP_BLOCK, end - first)};
            /* the kernel replaces D by the step */
            memcpy(piece, mean + first, block.count * sizeof *piece);
            kernels->step(&coefficients, &block, measures_step, &sums);
        }
        total.mean += sums.mean;
        total.params += sums.params;
        total.step += sums.step;
    }
    if (measures_step)
        state->displacement = sqrt(total.step);
    if (delayed)
        state->arrivals = (state->arrivals + 1) % step->buffer;
    if (report)
        *report = (pl_outer_report){sqrt(total.mean), sqrt(total.params), gap};
    return PL_OK;
}

/* Computes the L2 norm with a step's blocks and spans, to equal the step's. */
double pl_l2_norm(const float *values, size_t n)
{
    const step_kernels *kernels = step_kernels_of(pl_isa_newest());
    double total = 0;
    for (size_t span = 0; span < n; span += STEP_SPAN) {
        double sum = 0;
        size_t end = smaller_size(span + STEP_SPAN, n);
        for (size_t first = span; first < end; first += STEP_BLOCK)
            sum +=
                kernels->squares(values + first, smaller_size(STEP_BLOCK, n - first));
        total += sum;
    }
    return sqrt(total);
}

double pl_l2_distance(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)a[i] - (b ? (double)b[i] : 0);
        sum += d * d;
    }
    return sqrt(sum);
}
