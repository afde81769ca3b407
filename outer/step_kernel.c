/* The loops of the outer step, written once as inlined functions and compiled once
 * per instruction set by the macro KERNELS (step_kernel.h). The order of every sum
 * is fixed here, because all machines must get the same bits. */
#include "outer/step_kernel.h"

#define INLINE static inline __attribute__((always_inline))

enum { HALF = 4, LANES = 2 * HALF };
typedef double half_sums __attribute__((vector_size(HALF * sizeof(double))));

INLINE void add_squares(half_sums *sums, const float *values)
{
    half_sums wide = {values[0], values[1], values[2], values[3]};
    *sums += wide * wide;
}

/* Sums of squares in lanes: lane l sums the squares of the values l, l + LANES, ..., in
 * the same order on all machines. The lanes are in two vectors, so that an addition
 * need not wait for the previous one. */
typedef struct lane_sums {
    half_sums low, high;
} lane_sums;

INLINE void sum_lanes(lane_sums *sums, const float *values, size_t whole)
{
    for (size_t i = 0; i < whole; i += LANES) {
        add_squares(&sums->low, values + i);
        add_squares(&sums->high, values + i + HALF);
    }
}

INLINE double sum_of_lanes(const lane_sums *sums)
{
    double total = 0;
    for (int l = 0; l < HALF; l++)
        total += sums->low[l] + sums->high[l];
    return total;
}

INLINE double squares_of(const float *values, size_t count)
{
    lane_sums sums = {{0}, {0}};
    size_t whole = count - count % LANES;
    sum_lanes(&sums, values, whole);
    double total = sum_of_lanes(&sums);
    for (size_t i = whole; i < count; i++)
        total += (double)values[i] * (double)values[i];
    return total;
}

INLINE float clipped(float value, float limit)
{
    float below = value > limit ? limit : value;
    return below < -limit ? -limit : below;
}

INLINE void plain(const step_coefficients *c, float *restrict x, float *restrict d,
                  size_t count)
{
    const float eta = c->eta, scale = c->scale, clip = c->clip;
    for (size_t i = 0; i < count; i++) {
        d[i] = eta * clipped(scale * d[i], clip);
        x[i] -= d[i];
    }
}

INLINE void nesterov(const step_coefficients *c, float *restrict x, float *restrict m,
                     float *restrict d, size_t count)
{
    const float eta = c->eta, mu = c->mu, scale = c->scale, clip = c->clip;
    for (size_t i = 0; i < count; i++) {
        float g = scale * d[i];
        m[i] = clipped(mu * m[i] + g, clip);
        d[i] = eta * (g + mu * m[i]);
        x[i] -= d[i];
    }
}

INLINE void heavy_ball(const step_coefficients *c, float *restrict x, float *restrict m,
                       float *restrict d, size_t count)
{
    const float eta = c->eta, mu = c->mu, scale = c->scale, clip = c->clip;
    for (size_t i = 0; i < count; i++) {
        m[i] = clipped(mu * m[i] + scale * d[i], clip);
        d[i] = eta * m[i];
        x[i] -= d[i];
    }
}

/* delayed-nesterov, an arrival without a momentum step (step.h): S += g;
 * x -= eta (c mu m + g/N) */
INLINE void arrival(const step_coefficients *c, float *restrict x,
                    const float *restrict m, float *restrict s, float *restrict d,
                    size_t count)
{
    const float eta = c->eta, scale = c->scale, parts = c->parts, pull = c->pull;
    for (size_t i = 0; i < count; i++) {
        float g = scale * d[i];
        s[i] += g;
        d[i] = eta * (g / parts + pull * m[i]);
        x[i] -= d[i];
    }
}

/* delayed-nesterov, every N-th arrival (momentum step): m = mu m + (S + g)/N, S = 0;
 * x -= eta ((1 - cN + c) mu m + g/N) */
INLINE void last_arrival(const step_coefficients *c, float *restrict x,
                         float *restrict m, float *restrict s, float *restrict d,
                         size_t count)
{
    const float eta = c->eta, mu = c->mu, scale = c->scale, parts = c->parts,
                pull = c->pull;
    for (size_t i = 0; i < count; i++) {
        float g = scale * d[i];
        m[i] = mu * m[i] + (s[i] + g) / parts;
        s[i] = 0;
        d[i] = eta * (g / parts + pull * m[i]);
        x[i] -= d[i];
    }
}

INLINE void step_of(const step_coefficients *c, const step_block *b, size_t count)
{
    switch (c->kind) {
    case STEP_PLAIN:
        plain(c, b->params, b->mean, count);
        break;
    case STEP_NESTEROV:
        nesterov(c, b->params, b->momentum, b->mean, count);
        break;
    case STEP_HEAVY_BALL:
        heavy_ball(c, b->params, b->momentum, b->mean, count);
        break;
    case STEP_ARRIVAL:
        arrival(c, b->params, b->momentum, b->carry, b->mean, count);
        break;
    case STEP_LAST_ARRIVAL:
        last_arrival(c, b->params, b->momentum, b->carry, b->mean, count);
        break;
    }
}

/* Takes the step for a complete block, RUN values at a time. An addition to a sum must
 * wait for the previous addition to the same sum. Because sums and steps alternate, the
 * processor can compute the step during this wait. */
INLINE void step_block_summed(const step_coefficients *c, const step_block *b,
                              bool measures_step, step_sums *out)
{
    enum { RUN = 64 };
    lane_sums mean = {{0}, {0}}, params = mean, step = mean;
    for (size_t at = 0; at < STEP_BLOCK; at += RUN) {
        const step_block run = {b->params + at, step_from(b->momentum, at),
                                step_from(b->carry, at), b->mean + at, RUN};
        sum_lanes(&mean, run.mean, RUN);
        step_of(c, &run, RUN);
        sum_lanes(&params, run.params, RUN);
        if (measures_step)
            sum_lanes(&step, run.mean, RUN);
    }
    out->mean += sum_of_lanes(&mean);
    out->params += sum_of_lanes(&params);
    out->step += measures_step ? sum_of_lanes(&step) : 0;
}

/* Takes the step for a shorter block (the last one), in three or four passes. The
 * result has the same bits as with step_block_summed. */
INLINE void step_rest_summed(const step_coefficients *c, const step_block *b,
                             bool measures_step, step_sums *out)
{
    out->mean += squares_of(b->mean, b->count);
    step_of(c, b, b->count);
    out->params += squares_of(b->params, b->count);
    out->step += measures_step ? squares_of(b->mean, b->count) : 0;
}

/* The functions for one instruction set. A whole block has a constant length, so the
 * compiler needs no remainder loop and vectorises the loops above. */
#define KERNELS(isa, attribute)                                                        \
    attribute static void step_##isa(const step_coefficients *c, const step_block *b,  \
                                     bool measures_step, step_sums *sums)              \
    {                                                                                  \
        if (b->count != STEP_BLOCK)                                                    \
            step_rest_summed(c, b, measures_step, sums);                               \
        else                                                                           \
            step_block_summed(c, b, measures_step, sums);                              \
    }                                                                                  \
    attribute static double squares_##isa(const float *values, size_t count)           \
    {                                                                                  \
        return squares_of(values, count);                                              \
    }                                                                                  \
    static const step_kernels kernels_##isa = {step_##isa, squares_##isa};

KERNELS(portable, )
KERNELS(avx2, PL_AVX2)

const step_kernels *step_kernels_of(pl_isa isa)
{
    return isa >= PL_ISA_AVX2 ? &kernels_avx2 : &kernels_portable;
}
