/* Checks that the numbers of a shape fit together. The limits are far beyond any model,
 * and low enough that no row width overflows an int. */
#include "modules/shape.h"
#include <math.h>

enum { EXTENT_MAX = 1 << 24, BLOCKS_MAX = 256, HEADS_MAX = 1 << 12 };

static pl_status check_extent(const char *name, int value, int max)
{
    if (value < 1 || value > max)
        return pl_fail(PL_ERR_CONFIG, "model %s is %d; it must be between 1 and %d",
                       name, value, max);
    return PL_OK;
}

size_t pl_shape_hidden_params(const pl_shape *s)
{
    const size_t C = (size_t)s->width, D = (size_t)s->head_size;
    const size_t queries = (size_t)s->n_heads * D, keys = (size_t)s->n_kv_heads * D;
    return (size_t)s->n_blocks *
           (C * (queries + 2 * keys) + queries * C + 3 * C * (size_t)s->ffn);
}

pl_status pl_shape_check(const pl_shape *shape)
{
    PL_CHECK(check_extent("vocab", shape->vocab, EXTENT_MAX));
    PL_CHECK(check_extent("width", shape->width, EXTENT_MAX));
    PL_CHECK(check_extent("n_heads", shape->n_heads, HEADS_MAX));
    PL_CHECK(check_extent("n_kv_heads", shape->n_kv_heads, HEADS_MAX));
    PL_CHECK(check_extent("head_size", shape->head_size, EXTENT_MAX));
    PL_CHECK(check_extent("ffn", shape->ffn, EXTENT_MAX / 2));
    PL_CHECK(check_extent("n_blocks", shape->n_blocks, BLOCKS_MAX));
    PL_CHECK(check_extent("context", shape->context, EXTENT_MAX));
    if (shape->n_kv_heads > shape->n_heads || shape->n_heads % shape->n_kv_heads != 0)
        return pl_fail(PL_ERR_CONFIG,
                       "n_heads %d is not a multiple of n_kv_heads %d; choose "
                       "n_kv_heads among its divisors",
                       shape->n_heads, shape->n_kv_heads);
    if (shape->head_size % 2 != 0)
        return pl_fail(
            PL_ERR_CONFIG,
            "head_size %d is odd; rotary embedding pairs its elements, so choose %d",
            shape->head_size, shape->head_size + 1);
    /* Row widths are ints in every operation. */
    int64_t heads = (int64_t)shape->n_heads + 2 * (int64_t)shape->n_kv_heads;
    if (heads * shape->head_size > EXTENT_MAX)
        return pl_fail(PL_ERR_CONFIG,
                       "n_heads %d with head_size %d make rows of q, k and v wider "
                       "than %d; reduce one of them",
                       shape->n_heads, shape->head_size, EXTENT_MAX);
    if (!(shape->rope_theta > 0.0) || !isfinite(shape->rope_theta))
        return pl_fail(PL_ERR_CONFIG,
                       "rope_theta is %g; it must be positive, for example 10000",
                       shape->rope_theta);
    if (!(shape->norm_eps > 0.0) || !isfinite(shape->norm_eps))
        return pl_fail(PL_ERR_CONFIG,
                       "norm_eps is %g; it must be positive, for example 1e-5",
                       shape->norm_eps);
    return PL_OK;
}

bool pl_shape_equal(const pl_shape *a, const pl_shape *b)
{
    return a->vocab == b->vocab && a->width == b->width && a->n_heads == b->n_heads &&
           a->n_kv_heads == b->n_kv_heads && a->head_size == b->head_size &&
           a->ffn == b->ffn && a->n_blocks == b->n_blocks && a->context == b->context &&
           a->tied == b->tied && a->qk_norm == b->qk_norm &&
           !(a->rope_theta < b->rope_theta) && !(a->rope_theta > b->rope_theta) &&
           !(a->norm_eps < b->norm_eps) && !(a->norm_eps > b->norm_eps);
}
