#include "workers/path_state.h"

static size_t own_bytes(const pl_arm *arm, size_t n_params)
{
    return (size_t)(pl_path_layout_of(arm).n_vectors - 2) * n_params * sizeof(float);
}

void state_round(const pl_arm *arm, float *state, size_t n_params)
{
    for (size_t i = 0; arm->outer.state == PL_STATE_BF16 && i < 2 * n_params; i++)
        state[i] = pl_bf16_to_float(pl_bf16_from_float(state[i]));
}

/* The path's own vectors lie behind the moments, whatever those take. */
static size_t own_offset(const pl_arm *arm, size_t n_params)
{
    return (size_t)pl_path_state_bytes(arm, n_params) - own_bytes(arm, n_params);
}

void state_pack(const pl_arm *arm, const float *state, size_t n_params, uint8_t *out)
{
    size_t n = 2 * n_params;
    if (arm->outer.state == PL_STATE_F32)
        memcpy(out, state, n * sizeof *state);
    for (size_t i = 0; arm->outer.state == PL_STATE_BF16 && i < n; i++) {
        uint16_t half = pl_bf16_from_float(state[i]);
        memcpy(out + i * sizeof half, &half, sizeof half);
    }
    memcpy(out + own_offset(arm, n_params), state + n, own_bytes(arm, n_params));
}

void state_unpack(const pl_arm *arm, const uint8_t *blob, size_t n_params, float *state)
{
    size_t n = 2 * n_params;
    memset(state, 0, n * sizeof *state + own_bytes(arm, n_params));
    if (!blob)
        return;
    if (arm->outer.state == PL_STATE_F32)
        memcpy(state, blob, n * sizeof *state);
    for (size_t i = 0; arm->outer.state == PL_STATE_BF16 && i < n; i++) {
        uint16_t half;
        memcpy(&half, blob + i * sizeof half, sizeof half);
        state[i] = pl_bf16_to_float(half);
    }
    if (own_bytes(arm, n_params) > 0)
        memcpy(state + n, blob + own_offset(arm, n_params), own_bytes(arm, n_params));
}
