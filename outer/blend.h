/* Blends: one module's parameters made from those of several, after training.
 *
 *   linear   sum_i w_i x_i / sum_i w_i
 *   slerp    of two, on the arc between them: t = w_2 / (w_1 + w_2), o the angle
 * between x_1 and x_2, (sin((1-t) o) x_1 + sin(t o) x_2) / sin o (Shoemake 1985);
 *            linear where the arc has no direction
 *   ties     base + scale * mean, each d_i = x_i - base without all but its largest
 *            values (share `density` of them); value by value the sign of sum_i w_i d_i
 *            is elected, and the mean is over those d_i that have it (TIES-Merging,
 *            Yadav et al. 2023, arXiv:2306.01708)
 *   task     base + scale * sum_i w_i (x_i - base) (task arithmetic, Ilharco et al.
 *            2022, arXiv:2212.04089); a negative weight takes away
 *
 * Sums are in double, in the order of the sources; the result is rounded once. A source
 * of weight 0 is left out, so weights 1 and 0 give the bytes of the first source. ties
 * trims each module by itself, not the model as a whole. */
#ifndef PL_OUTER_BLEND_H
#define PL_OUTER_BLEND_H
#include "base/base.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef enum pl_blend_method {
    PL_BLEND_LINEAR,
    PL_BLEND_SLERP,
    PL_BLEND_TIES,
    PL_BLEND_TASK,
    PL_BLEND_COUNT
} pl_blend_method;
const char *pl_blend_name(pl_blend_method method); /* for example "linear" */
PL_MUST_CHECK pl_status pl_blend_parse(const char *text, pl_blend_method *out);
bool pl_blend_needs_base(pl_blend_method method);
bool pl_blend_uses_density(pl_blend_method method);

enum { PL_BLEND_SOURCES_MAX = 8 };
typedef struct pl_blend {
    pl_blend_method method;
    double scale;   /* the factor of ties and task, which need a base */
    double density; /* the density of ties: above 0, at most 1 */
    int n_sources;
    double weights[PL_BLEND_SOURCES_MAX];
} pl_blend;
/* ERR_USAGE: the method cannot be used with these numbers. */
PL_MUST_CHECK pl_status pl_blend_check(const pl_blend *blend);

/* Writes out [n]. sources [n_sources] have n values each; base [n] may be NULL if the
 * method does not need it. ERR_NUMERIC: a value of the result is not finite. */
PL_MUST_CHECK pl_status pl_blend_run(const pl_blend *blend, const float *const *sources,
                                     const float *base, size_t n, float *out);

#ifdef __cplusplus
}
#endif
#endif
