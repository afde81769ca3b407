/* Blends: the parameters of one module are computed, after training, from those of
 * several modules x_i with weights w_i.
 *
 *   linear   sum_i w_i x_i / sum_i w_i
 *   slerp    a point on the arc between two sources: with t = w_2 / (w_1 + w_2) and
 *            the angle o between x_1 and x_2, it is (sin((1-t) o) x_1 + sin(t o) x_2)
 *            / sin o (Shoemake 1985); like linear if the vectors are parallel
 *   ties     base + scale * mean. In each difference d_i = x_i - base only the largest
 *            values are kept (the fraction `density`). For each value the sign of
 *            sum_i w_i d_i is elected, and the mean is taken over the d_i with this
 *            sign (TIES-Merging, Yadav et al. 2023, arXiv:2306.01708)
 *   task     base + scale * sum_i w_i (x_i - base) (task arithmetic, Ilharco et al.
 *            2022, arXiv:2212.04089); a source with a negative weight is subtracted
 *
 * Sums are computed in double, in the order of the sources. The result is rounded once,
 * to fp32. A source with weight 0 is left out, so the weights 1 and 0 give exactly the
 * bytes of the first source. ties selects the largest values per module, not over the
 * complete model. */
#pragma once
#include "base/base.h"

typedef enum pl_blend_method {
    PL_BLEND_LINEAR,
    PL_BLEND_SLERP,
    PL_BLEND_TIES,
    PL_BLEND_TASK,
    PL_BLEND_COUNT
} pl_blend_method;
const char *pl_blend_name(pl_blend_method method); /* for example "linear" */
pl_status pl_blend_parse(const char *text, pl_blend_method *out);
bool pl_blend_needs_base(pl_blend_method method);
bool pl_blend_uses_density(pl_blend_method method);

enum { PL_BLEND_SOURCES_MAX = 8 };
typedef struct pl_blend {
    pl_blend_method method;
    double scale;   /* of ties and task: factor of the difference from the base */
    double density; /* of ties: fraction of values to keep, above 0, at most 1 */
    int n_sources;
    double weights[PL_BLEND_SOURCES_MAX];
} pl_blend;
/* ERR_USAGE: the method cannot be used with these numbers. */
pl_status pl_blend_check(const pl_blend *blend);

/* Computes the blend and writes it to out [n]. Each of the n_sources sources has n
 * values. base [n] may be NULL if the method needs no base. ERR_NUMERIC: a value of the
 * result is not finite, or above 1000 times the largest value of base and sources. */
pl_status pl_blend_run(const pl_blend *blend, const float *const *sources,
                       const float *base, size_t n, float *out);
