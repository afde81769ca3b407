/* Checks whether training could have left the moments in a path's state (moments.h). */
#include "outer/moments.h"
#include "outer/path_layout.h"

#include <float.h>
#include <math.h>

enum { BLOCK = 1024 };

/* The bound of m^2 is multiplied by `slack`, because moments may be rounded to bf16.
 * `tiny` is added to the bound, because the squares of tiny gradients may become 0 in
 * v. */
static const float slack = 1.5f, tiny = 1e-30f;
static const float largest = 1e30f; /* upper limit for the mean square of gradients */

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

/* Reads values first to first + n of vector v, which is stored as f32, f24 or bf16. */
static void read_values(const pl_arm *arm, const uint8_t *at, size_t first, size_t n,
                        int v, float *out)
{
    const pl_state_kind kind = pl_path_kind(arm, v);
    if (kind == PL_STATE_F32) {
        memcpy(out, at + first * sizeof *out, n * sizeof *out);
        return;
    }
    for (size_t i = 0; i < n && kind == PL_STATE_F24; i++) {
        uint8_t bytes[sizeof *out] = {0};
        memcpy(bytes + 1, at + 3 * (first + i), 3);
        memcpy(&out[i], bytes, sizeof *out);
    }
    for (size_t i = 0; i < n && kind == PL_STATE_BF16; i++) {
        uint16_t half;
        memcpy(&half, at + (first + i) * sizeof half, sizeof half);
        out[i] = pl_bf16_to_float(half);
    }
}

static bool is_finite(const float *x, size_t n)
{
    int bad = 0;
    for (size_t i = 0; i < n; i++)
        bad |= !(fabsf(x[i]) <= FLT_MAX);
    return !bad;
}

static pl_status refuse_moments(size_t first)
{
    return pl_fail(PL_ERR_DATA,
                   "the path's state has moments that no training can produce, at "
                   "parameter %zu or one of the next %d",
                   first, BLOCK - 1);
}

/* The moments in a packed state. */
typedef struct packed_moments {
    const pl_arm *arm;
    const uint8_t *m, *v;
} packed_moments;

/* Checks AdamW's moments of `count` parameters: whether training could leave them.
 * Their first moments begin at index `at` of m, and their second moments at index
 * `second` of v. NaN is refused, because comparisons with NaN are false. */
static pl_status check_adamw(const packed_moments *state, size_t at, size_t second,
                             size_t count)
{
    float m[BLOCK], v[BLOCK];
    const float bound = bound_of(&state->arm->inner);
    /* If the decays give no bound, a first moment is allowed even if v is 0. */
    const float above = bound < FLT_MAX ? tiny : FLT_MAX;
    for (size_t first = 0; first < count; first += BLOCK) {
        size_t n = count - first < BLOCK ? count - first : BLOCK;
        read_values(state->arm, state->m, at + first, n, 0, m);
        read_values(state->arm, state->v, second + first, n, 1, v);
        int bad = 0;
        for (size_t i = 0; i < n; i++) {
            int good = (v[i] >= 0) & (v[i] <= largest) &
                       (m[i] * m[i] <= bound * v[i] + above) & (fabsf(m[i]) <= FLT_MAX);
            bad |= !good;
        }
        if (bad)
            return refuse_moments(at + first);
    }
    return PL_OK;
}

/* Checks each tensor as moments of Muon or of AdamW, depending on which one updates the
 * tensor (modules/model_params.c). */
static pl_status check_muon(const packed_moments *state, const pl_topology *t)
{
    const double clip = state->arm->inner.clip;
    double squares = 0;
    size_t second = 0;
    for (int i = 0; i < pl_topology_n_tensors(t); i++) {
        const pl_tensor *tensor = pl_topology_tensor(t, i);
        const size_t count = (size_t)tensor->rows * (size_t)tensor->cols;
        if (tensor->block < 0 || !tensor->decay) {
            PL_CHECK(check_adamw(state, tensor->offset, second, count));
            second += count;
            continue;
        }
        for (size_t first = 0; first < count; first += BLOCK) {
            float m[BLOCK];
            size_t n = count - first < BLOCK ? count - first : BLOCK;
            read_values(state->arm, state->m, tensor->offset + first, n, 0, m);
            if (!is_finite(m, n))
                return refuse_moments(tensor->offset + first);
            for (size_t k = 0; k < n; k++)
                squares += (double)m[k] * (double)m[k];
        }
    }
    const double largest_norm = clip > 0 ? clip : sqrt((double)largest);
    if (squares > (double)slack * largest_norm * largest_norm)
        return pl_fail(PL_ERR_DATA,
                       "the momentum of Muon in the state has norm %.4g, but gradients "
                       "of this arm allow at most %.4g",
                       sqrt(squares), largest_norm);
    return PL_OK;
}

static pl_status check_finite(const pl_arm *arm, const uint8_t *at, size_t n_params,
                              int vector)
{
    /* with this exponent the largest magnitude of i8, 128 x 2^120, is finite */
    enum { LARGEST_EXPONENT = 120 };
    const bool is_i8 = pl_path_kind(arm, vector) == PL_STATE_I8;
    const size_t block = is_i8 ? PL_STATE_I8_BLOCK : BLOCK;
    bool good = true;
    for (size_t first = 0; first < n_params && good; first += block) {
        const size_t n = n_params - first < block ? n_params - first : block;
        float x[BLOCK];
        int16_t exponent;
        if (is_i8) {
            memcpy(&exponent, at + n, sizeof exponent);
            at += n + sizeof exponent;
            good = exponent <= LARGEST_EXPONENT;
        } else {
            read_values(arm, at, first, n, vector, x);
            good = is_finite(x, n);
        }
    }
    return good
               ? PL_OK
               : pl_fail(PL_ERR_DATA,
                         "vector %d of the path's state has a value that is not finite",
                         vector);
}

pl_status pl_moments_check(const pl_arm *arm, const pl_topology *t, size_t n_params,
                           const void *state)
{
    const uint8_t *at = state;
    /* the state of an arm that scores has only scores, and no task begins with it */
    if (arm->n_scored > 0)
        return PL_OK;
    const packed_moments moments = {arm, at,
                                    at + pl_path_vector_bytes(arm, 0, n_params)};
    if (arm->outer.state != PL_STATE_LOCAL)
        PL_CHECK(arm->inner.muon ? check_muon(&moments, t)
                                 : check_adamw(&moments, 0, 0, n_params));
    for (int v = 0; v < pl_path_layout_of(arm).n_vectors; v++) {
        if (v >= 2 && pl_path_kind(arm, v) != PL_STATE_LOCAL)
            PL_CHECK(check_finite(arm, at, n_params, v));
        at += pl_path_vector_bytes(arm, v, n_params);
    }
    return PL_OK;
}
