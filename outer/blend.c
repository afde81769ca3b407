/* Computes the parameters of one module from those of several modules (blend.h). */
#include "outer/blend.h"

#include <math.h>

static const struct {
    const char *name;
    bool needs_base;
} blends[PL_BLEND_COUNT] = {[PL_BLEND_LINEAR] = {"linear", false},
                            [PL_BLEND_SLERP] = {"slerp", false},
                            [PL_BLEND_TIES] = {"ties", true},
                            [PL_BLEND_TASK] = {"task", true}};

const char *pl_blend_name(pl_blend_method method)
{
    return blends[method].name;
}

pl_status pl_blend_parse(const char *text, pl_blend_method *out)
{
    for (int m = 0; m < PL_BLEND_COUNT; m++)
        if (strcmp(text, blends[m].name) == 0) {
            *out = (pl_blend_method)m;
            return PL_OK;
        }
    return pl_fail(PL_ERR_USAGE,
                   "there is no merge method `%.32s`; the methods are "
                   "linear, slerp, ties and task",
                   text);
}

bool pl_blend_needs_base(pl_blend_method method)
{
    return method < PL_BLEND_COUNT && blends[method].needs_base;
}

bool pl_blend_uses_density(pl_blend_method method)
{
    return method == PL_BLEND_TIES;
}

/* A merged module with values this many times those of its sources is refused. */
#define FAR 1000.0

static double sum_blend_weights(const pl_blend *b)
{
    double sum = 0;
    for (int s = 0; s < b->n_sources; s++)
        sum += b->weights[s];
    return sum;
}

pl_status pl_blend_check(const pl_blend *b)
{
    const bool slerp = b->method == PL_BLEND_SLERP, task = b->method == PL_BLEND_TASK;
    if (b->n_sources < 1 || b->n_sources > PL_BLEND_SOURCES_MAX ||
        (slerp && b->n_sources != 2))
        return pl_fail(PL_ERR_USAGE, "the merge method %s needs %s, not %d",
                       pl_blend_name(b->method),
                       slerp ? "two sources" : "1 to 8 sources", b->n_sources);
    for (int s = 0; s < b->n_sources; s++)
        if (!isfinite(b->weights[s]) || (b->weights[s] < 0 && !task))
            return pl_fail(PL_ERR_USAGE,
                           "the weight %g is not possible: with the method %s, weights "
                           "must be finite%s",
                           b->weights[s], pl_blend_name(b->method),
                           task ? " (a weight below 0 subtracts its source)"
                                : " and 0 or more");
    if (!isfinite(sum_blend_weights(b)))
        return pl_fail(PL_ERR_USAGE,
                       "the sum of the weights is not finite; use smaller weights");
    if (!task && sum_blend_weights(b) <= 0)
        return pl_fail(PL_ERR_USAGE,
                       "all weights are 0; at least one weight must be above 0");
    if (!isfinite(b->scale) || !(b->density > 0) || b->density > 1)
        return pl_fail(
            PL_ERR_USAGE,
            "the scale is %g and the density is %g: the scale must be finite, "
            "and the density above 0 and at most 1",
            b->scale, b->density);
    return PL_OK;
}

/* ---- sums ---- */
/* out = from + sum_s factors[s] * (x_s - from); NULL: sum_s factors[s] * x_s */
static void add_sources(const pl_blend *b, const float *const *sources,
                        const double *factors, const float *from, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        bool any = false;
        for (int s = 0; s < b->n_sources; s++) {
            if (factors[s] == 0)
                continue;
            double x = sources[s][i];
            double term = factors[s] * (from ? x - (double)from[i] : x);
            sum = any ? sum + term : term; /* a first term of -0 stays -0 */
            any = true;
        }
        out[i] = (float)(from ? (double)from[i] + sum : sum);
    }
}

/* ---- ties ---- */
/* Returns the bit pattern of |v|. Bit patterns have the same order as the
 * magnitudes. */
static uint32_t bits_of_size(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits & 0x7fffffffu;
}

/* A half is the high or the low 16 bits of a bit pattern. `counts` has for each value
 * of a half the number of differences with that half. Finds the largest half such that
 * at least `want` differences have this half or a larger one. *above gets the number of
 * differences with a larger half. */
static uint32_t find_half(const uint64_t *counts, uint64_t want, uint64_t *above)
{
    uint32_t half = UINT16_MAX;
    *above = 0;
    while (half > 0 && *above + counts[half] < want)
        *above += counts[half--];
    return half;
}

/* Returns the bit pattern of the k-th largest |x_i - base_i|, with k = density * n
 * rounded up. `counts` is scratch memory for 2^16 numbers. */
static uint32_t find_threshold(const float *x, const float *base, size_t n,
                               double density, uint64_t *counts)
{
    const size_t bytes = (UINT16_MAX + 1) * sizeof *counts;
    uint64_t want = (uint64_t)ceil(density * (double)n), above = 0, more = 0;
    memset(counts, 0, bytes);
    for (size_t i = 0; i < n; i++)
        counts[bits_of_size(x[i] - base[i]) >> 16]++;
    const uint32_t high = find_half(counts, want, &above);
    memset(counts, 0, bytes);
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = bits_of_size(x[i] - base[i]);
        if (bits >> 16 == high)
            counts[bits & UINT16_MAX]++;
    }
    return high << 16 | find_half(counts, want - above, &more);
}

/* Returns the mean that the method ties uses for value i: the mean over the differences
 * that are kept and have the elected sign. */
static double elect_value(const pl_blend *b, const float *const *sources,
                          const float *base, const uint32_t *thresholds, size_t i)
{
    double kept[PL_BLEND_SOURCES_MAX], sum = 0, mean = 0, weight = 0;
    for (int s = 0; s < b->n_sources; s++) {
        const float d = sources[s][i] - base[i];
        kept[s] = bits_of_size(d) >= thresholds[s] ? (double)d : 0;
        sum += b->weights[s] * kept[s];
    }
    for (int s = 0; s < b->n_sources; s++)
        if (kept[s] * sum > 0) {
            mean += b->weights[s] * kept[s];
            weight += b->weights[s];
        }
    return weight > 0 ? mean / weight : 0;
}

static double find_largest(const float *values, size_t n)
{
    double largest = 0;
    for (size_t i = 0; i < n; i++)
        largest =
            isfinite(values[i]) ? fmax(largest, fabs((double)values[i])) : INFINITY;
    return largest;
}

pl_status pl_blend_run(const pl_blend *b, const float *const *sources,
                       const float *base, size_t n, float *out)
{
    double factors[PL_BLEND_SOURCES_MAX];
    const double sum = sum_blend_weights(b);
    PL_CHECK(pl_blend_check(b));
    for (int s = 0; s < b->n_sources; s++)
        factors[s] =
            b->method == PL_BLEND_TASK ? b->scale * b->weights[s] : b->weights[s] / sum;
    if (b->method == PL_BLEND_SLERP) {
        /* If the vectors are parallel or one of them is zero, there is no arc between
         * them, and the factors are those of the linear method. */
        const float *x = sources[0], *y = sources[1];
        const double t = b->weights[1] / sum;
        double xx = 0, yy = 0, xy = 0;
        for (size_t i = 0; i < n; i++) {
            xx += (double)x[i] * (double)x[i];
            yy += (double)y[i] * (double)y[i];
            xy += (double)x[i] * (double)y[i];
        }
        double cosine = xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : 1;
        double angle = acos(fmin(1, fmax(-1, cosine))), sine = sin(angle);
        bool arc = sine > 1e-6 && t > 0 && t < 1;
        factors[0] = arc ? sin((1 - t) * angle) / sine : 1 - t;
        factors[1] = arc ? sin(t * angle) / sine : t;
    }
    if (b->method == PL_BLEND_TIES) {
        uint32_t thresholds[PL_BLEND_SOURCES_MAX];
        uint64_t *counts = pl_alloc((UINT16_MAX + 1) * sizeof *counts);
        for (int s = 0; s < b->n_sources; s++)
            thresholds[s] = find_threshold(sources[s], base, n, b->density, counts);
        pl_free(counts);
        for (size_t i = 0; i < n; i++)
            out[i] = (float)((double)base[i] +
                             b->scale * elect_value(b, sources, base, thresholds, i));
    } else
        add_sources(b, sources, factors, pl_blend_needs_base(b->method) ? base : NULL,
                    n, out);
    double before = base ? find_largest(base, n) : 0;
    for (int s = 0; s < b->n_sources; s++)
        before = fmax(before, find_largest(sources[s], n));
    const double after = find_largest(out, n);
    if (isfinite(after) && after <= FAR * before)
        return PL_OK;
    return pl_fail(
        PL_ERR_NUMERIC,
        "the largest value of the merged module is %g, but that of its sources "
        "is %g: a model with it cannot work; use smaller weights or a smaller "
        "scale",
        after, before);
}
