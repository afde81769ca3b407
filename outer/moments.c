/* Checks the state of a path for moments that AdamW could have left (moments.h). */
#include "outer/moments.h"
#include "outer/rounds.h"

#include <float.h>
#include <math.h>

enum { BLOCK = 1024 };

/* What rounding may add to m^2: relative, for moments that travel as bf16, and
 * absolute, for squares of gradients that are too small for v. */
static const float slack = 1.5f, tiny = 1e-30f;
static const float largest = 1e30f; /* mean square of gradients */

static float bound_of(const pl_inner *inner)
{
    double b1 = inner->beta1, b2 = inner->beta2;
    if (b1 * b1 >= b2)
        return FLT_MAX;
    return slack * (float)((1 - b1) * (1 - b1) / ((1 - b2) * (1 - b1 * b1 / b2)));
}

double pl_moments_longest_step(const pl_inner *inner)
{
    float bound = bound_of(inner);
    return bound < FLT_MAX ? sqrt((double)bound) : (double)INFINITY;
}

/* Values first to first + n of vector v, which travels as f32 or bf16. */
static void read_values(const pl_arm *arm, const uint8_t *at, size_t first, size_t n,
                        int v, float *out)
{
    if (pl_path_kind(arm, v) == PL_STATE_F32) {
        memcpy(out, at + first * sizeof *out, n * sizeof *out);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, at + (first + i) * sizeof half, sizeof half);
        out[i] = pl_bf16_to_float(half);
    }
}

/* Comparisons with NaN are false. */
static bool can_exist(const float *m, const float *v, size_t n, float bound)
{
    /* Decays that bound nothing allow a first moment also where v is 0. */
    const float above = bound < FLT_MAX ? tiny : FLT_MAX;
    int bad = 0;
    for (size_t i = 0; i < n; i++) {
        int good = (v[i] >= 0) & (v[i] <= largest) &
                   (m[i] * m[i] <= bound * v[i] + above) & (fabsf(m[i]) <= FLT_MAX);
        bad |= !good;
    }
    return !bad;
}

static bool is_finite(const float *x, size_t n)
{
    int bad = 0;
    for (size_t i = 0; i < n; i++)
        bad |= !(fabsf(x[i]) <= FLT_MAX);
    return !bad;
}

static pl_status check_moments(const pl_arm *arm, size_t n_params, const uint8_t *state)
{
    const uint8_t *second = state + pl_path_vector_bytes(arm, 0, n_params);
    float m[BLOCK], v[BLOCK], bound = bound_of(&arm->inner);
    for (size_t first = 0; first < n_params; first += BLOCK) {
        size_t n = n_params - first < BLOCK ? n_params - first : BLOCK;
        read_values(arm, state, first, n, 0, m);
        read_values(arm, second, first, n, 1, v);
        if (!can_exist(m, v, n, bound))
            return pl_fail(
                PL_ERR_DATA,
                "the state has moments that no training leaves, at parameter "
                "%zu or the %d after it",
                first, BLOCK - 1);
    }
    return PL_OK;
}

static pl_status check_finite(const uint8_t *at, size_t n_params, int vector)
{
    float x[BLOCK];
    for (size_t first = 0; first < n_params; first += BLOCK) {
        size_t n = n_params - first < BLOCK ? n_params - first : BLOCK;
        memcpy(x, at + first * sizeof *x, n * sizeof *x);
        if (!is_finite(x, n))
            return pl_fail(PL_ERR_DATA,
                           "vector %d of the state is not finite, at parameter %zu or "
                           "the %d after it",
                           vector, first, BLOCK - 1);
    }
    return PL_OK;
}

pl_status pl_moments_check(const pl_arm *arm, size_t n_params, const void *state)
{
    const uint8_t *at = state;
    if (arm->n_scored > 0) /* the state is scores, which no task begins with */
        return PL_OK;
    if (arm->inner.muon)
        return PL_OK; /* its first moments have no second ones to be compared with */
    if (arm->outer.state != PL_STATE_LOCAL)
        PL_CHECK(check_moments(arm, n_params, at));
    for (int v = 0; v < pl_path_layout_of(arm).n_vectors; v++) {
        if (v >= 2 && pl_path_kind(arm, v) == PL_STATE_F32)
            PL_CHECK(check_finite(at, n_params, v));
        at += pl_path_vector_bytes(arm, v, n_params);
    }
    return PL_OK;
}
