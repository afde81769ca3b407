/* The reference backend: it specifies every operation by plain loops.
 *
 * It has one thread, fp32 storage and no intrinsics. Sums on which accuracy depends
 * (norms, softmax denominators) are in double. A pl_act is a float here and a pl_weight
 * is the fp32 master itself, so nothing is cast, packed or refreshed.
 *
 * The equations are in modules/ops.h; each file here computes one operation. */
#pragma once
#include "modules/backend.h"
PL_C_BEGIN

pl_status ref_backend_create(const pl_backend_options *options, pl_backend **out);
void ref_backend_destroy(pl_backend **backend);

static inline float *ref_floats(pl_act *acts)
{
    return (float *)acts;
}
static inline const float *ref_view(const pl_act *acts)
{
    return (const float *)acts;
}
/* Returns the master matrix of a weight. */
const float *ref_master(const pl_weight *weight);

/* Returns sum_i a[i] b[i]. The sum is computed in sixteen interleaved parts, so that
 * compilers can vectorise the loop, and rounding errors grow only with n/16. */
float ref_dot(const float *a, const float *b, int n);
/* y[i] += a x[i]; x and y do not overlap. */
void ref_axpy(float *y, float a, const float *x, int n);

#define REF_DECLARE(op) pl_op_##op ref_##op;
PL_OPS_OF_MODELS(REF_DECLARE)
REF_DECLARE(matmul_dx)
#undef REF_DECLARE
/* Returns where in row b the text of token t begins. */
static inline int ref_text_begin(const int32_t *texts, int b, int T, int t)
{
    return texts ? texts[(size_t)b * (size_t)T + (size_t)t] : 0;
}

PL_C_END
