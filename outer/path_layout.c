/* Computes which vectors a path's state has (path_layout.h). */
#include "outer/method.h"

#include <math.h>

pl_path_layout pl_path_layout_of(const pl_arm *arm)
{
    pl_path_layout l = {2, -1, -1, -1, -1, -1};
    const outer_method *of = outer_method_of(arm->outer.method.method);
    if (pl_arm_scores(arm)) {
        l.n_vectors = 0;
        return l;
    }
    if (arm->outer.feedback && pl_codec_is_lossy(&arm->outer.codec))
        l.residual = l.n_vectors++;
    if (of->lay_out)
        of->lay_out(arm, &l);
    return l;
}

pl_state_kind pl_path_kind(const pl_arm *arm, int v)
{
    pl_path_layout l = pl_path_layout_of(arm);
    if (v < 2)
        return arm->outer.state;
    if (v == l.residual)
        return arm->outer.residual;
    /* Under noloco, mates have already received vectors that were computed from the
     * vectors of this path. So the vectors of this path must not be rounded later. */
    if (v == l.params && l.last < 0)
        return arm->outer.own;
    return PL_STATE_F32;
}

size_t pl_path_vector_floats(const pl_arm *arm, int v, size_t n_params)
{
    const size_t hidden = arm->inner.muon ? pl_shape_hidden_params(&arm->shape) : 0;
    return v == 1 && hidden <= n_params ? n_params - hidden : n_params;
}

size_t pl_path_moments_floats(const pl_arm *arm, size_t n_params)
{
    return n_params + pl_path_vector_floats(arm, 1, n_params);
}

uint64_t pl_path_vector_bytes(const pl_arm *arm, int v, size_t n_params)
{
    uint64_t n = pl_path_vector_floats(arm, v, n_params);
    uint64_t blocks = (n + PL_STATE_I8_BLOCK - 1) / PL_STATE_I8_BLOCK;
    switch (pl_path_kind(arm, v)) {
    case PL_STATE_BF16:
        return n * sizeof(uint16_t);
    case PL_STATE_I8:
        return n + blocks * sizeof(int16_t);
    case PL_STATE_F24:
        return 3 * n;
    case PL_STATE_LOCAL:
        return 0;
    case PL_STATE_F32:
    case PL_STATE_COUNT:
    default:
        return n * sizeof(float);
    }
}

void pl_path_read(pl_state_kind kind, const uint8_t *at, size_t size, size_t first,
                  size_t n, float *out)
{
    if (!at || kind == PL_STATE_LOCAL) {
        memset(out, 0, n * sizeof *out);
    } else if (kind == PL_STATE_F32) {
        memcpy(out, at + first * sizeof *out, n * sizeof *out);
    } else if (kind == PL_STATE_I8) {
        const size_t block = PL_STATE_I8_BLOCK;
        for (size_t i = first; i < first + n; i = (i / block + 1) * block) {
            const size_t b = i / block * block;
            const size_t len = size - b < block ? size - b : block;
            const size_t end = first + n - b < len ? first + n - b : len;
            /* a block is its values, then an exponent; the last one may be shorter */
            const uint8_t *codes = at + b / block * (block + sizeof(int16_t));
            int16_t e;
            memcpy(&e, codes + len, sizeof e);
            const float unit = e == INT16_MIN ? 0.0f : ldexpf(1.0f, e);
            for (size_t k = i - b; k < end; k++)
                out[b + k - first] = (float)(int8_t)codes[k] * unit;
        }
    } else {
        /* f24 and bf16 are the upper bytes of an f32 */
        const size_t width = kind == PL_STATE_F24 ? 3 : 2;
        for (size_t i = 0; i < n; i++) {
            uint8_t bytes[sizeof *out] = {0};
            memcpy(bytes + sizeof *out - width, at + width * (first + i), width);
            memcpy(&out[i], bytes, sizeof *out);
        }
    }
}

uint64_t pl_path_state_bytes(const pl_arm *arm, size_t n_params)
{
    uint64_t bytes = pl_arm_scores_bytes(arm);
    for (int v = 0; v < pl_path_layout_of(arm).n_vectors; v++)
        bytes += pl_path_vector_bytes(arm, v, n_params);
    return bytes;
}

void pl_phase_bytes(const pl_arm *arm, const pl_topology *t, double *up, double *down)
{
    const pl_outer *outer = &arm->outer;
    const int every = outer->state_every > 1 ? outer->state_every : 1;
    const bool whole = outer->down.codec[PL_ROLE_MLP] <= PL_CODEC_F32;
    *up = (double)pl_path_state_bytes(arm, pl_topology_path_params(t)) / every;
    *down = 0;
    for (int slot = 0; slot < pl_topology_n_slots(t); slot++) {
        const int module = pl_topology_module_of_path(t, slot, 0);
        const double params = (double)pl_topology_slot(t, slot)->n_params;
        *up += (double)pl_codec_module_bound(&outer->codec, t, module, 1);
        *down += whole ? params * sizeof(float)
                       : (double)pl_codec_module_bound(&outer->down, t, module, 1);
    }
}
