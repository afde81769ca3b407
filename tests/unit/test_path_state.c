/* folder: workers; label: unit */
/* Tests the blob in which a worker sends the state of a path. */
#include "workers/path_state.h"

#include <math.h>

#include "tests/support/suite.h"

enum { N = 1000 };

static pl_arm arm_of(pl_method method, pl_state_kind kind)
{
    pl_arm arm = {0};
    arm.outer.method = pl_method_defaults(method);
    arm.outer.state = kind;
    assert_ok(pl_codec_options_default("f32", &arm.outer.codec));
    return arm;
}

static float *random_state(const pl_arm *arm)
{
    size_t n = (size_t)pl_path_layout_of(arm).n_vectors * N;
    float *state = pl_alloc(n * sizeof *state);
    for (size_t i = 0; i < n; i++)
        state[i] = (float)((double)(i * 2654435761u % 100003) / 100003.0 - 0.5);
    return state;
}

/* Packs and unpacks a state; the caller frees it. */
static float *travel(const pl_arm *arm, const float *state)
{
    size_t n = (size_t)pl_path_layout_of(arm).n_vectors * N;
    uint64_t bytes = pl_path_state_bytes(arm, N);
    OWNED(free_memory) uint8_t *blob = pl_alloc(bytes ? (size_t)bytes : 1);
    float *out = pl_alloc(n * sizeof *out);
    state_pack(arm, state, N, blob);
    state_unpack(arm, blob, N, out);
    return out;
}

PL_TEST(exact_state_arrives_as_it_was)
{
    for (int method = 0; method < PL_METHOD_COUNT; method++) {
        if (!pl_method_name((pl_method)method))
            continue; /* the number of a method that was removed */
        pl_arm arm = arm_of((pl_method)method, PL_STATE_F32);
        size_t n = (size_t)pl_path_layout_of(&arm).n_vectors * N;
        OWNED(free_memory)
        float *state = random_state(&arm), *got = travel(&arm, state);
        assert_int_equal(pl_path_state_bytes(&arm, N), n * sizeof *state);
        assert_memory_equal(got, state, n * sizeof *state);
    }
}

static void same_in_memory_and_in_the_blob(const pl_arm *arm, float *state)
{
    size_t n = (size_t)pl_path_layout_of(arm).n_vectors * N;
    state_round(arm, state, N);
    OWNED(free_memory) float *got = travel(arm, state);
    assert_memory_equal(got, state, n * sizeof *state);
    state_round(arm, got, N);
    assert_memory_equal(got, state, n * sizeof *state);
}

PL_TEST(rounded_state_is_the_same_in_memory_and_in_the_blob)
{
    for (int method = 0; method < PL_METHOD_COUNT; method++) {
        if (!pl_method_name((pl_method)method))
            continue; /* the number of a method that was removed */
        pl_arm arm = arm_of((pl_method)method, PL_STATE_BF16);
        size_t n = (size_t)pl_path_layout_of(&arm).n_vectors * N;
        OWNED(free_memory)
        float *state = random_state(&arm), *before = random_state(&arm);
        same_in_memory_and_in_the_blob(&arm, state);
        assert_memory_equal(state + 2 * N, before + 2 * N, (n - 2 * N) * sizeof *state);
        for (size_t i = 0; i < 2 * N; i++)
            assert_true(state[i] == pl_bf16_to_float(pl_bf16_from_float(before[i])));
        assert_int_equal(pl_path_state_bytes(&arm, N),
                         n * sizeof *state - 4 * N); /* 2N moments, 2 bytes less each */
    }
}

/* Shows that a residual in 8 bits is close to the exact residual. The blocks have
 * numbers of very different sizes, and the last block is short. The error must be at
 * most 1/127 of the largest number of the block. Blocks with only tiny numbers become
 * zero. */
PL_TEST(a_residual_in_8_bits_is_close)
{
    pl_arm arm = arm_of(PL_METHOD_STREAMING, PL_STATE_F32);
    assert_ok(pl_codec_options_default("i4", &arm.outer.codec));
    arm.outer.feedback = true;
    arm.outer.residual = PL_STATE_I8;
    arm.outer.own = PL_STATE_BF16;
    pl_path_layout l = pl_path_layout_of(&arm);
    size_t n = (size_t)l.n_vectors * N;
    OWNED(free_memory) float *state = random_state(&arm), *before = random_state(&arm);
    float *residual = before + (size_t)l.residual * N;
    for (size_t i = 0; i < N; i++)
        residual[i] *= powf(10.0f, (float)(i / PL_STATE_I8_BLOCK) * 14.0f - 38.0f);
    residual[999] = 127.4f, residual[998] = 127.6f;
    memcpy(state, before, n * sizeof *state);
    same_in_memory_and_in_the_blob(&arm, state);
    assert_int_equal(pl_path_state_bytes(&arm, N),
                     2 * 4 * N + N + 2 * ((N + 255) / 256) + 2 * N);
    assert_memory_equal(state, before, 2 * N * sizeof *state);
    for (size_t b = 0; b < N; b += PL_STATE_I8_BLOCK) {
        size_t end = b + PL_STATE_I8_BLOCK < N ? b + PL_STATE_I8_BLOCK : N;
        float most = 0, *got = state + (size_t)l.residual * N;
        for (size_t i = b; i < end; i++)
            most = fmaxf(most, fabsf(residual[i]));
        for (size_t i = b; i < end; i++)
            assert_true(most < 1e-35f ? got[i] == 0
                                      : fabsf(got[i] - residual[i]) <= most / 127.0f);
    }
    for (size_t i = 0; i < N; i++)
        assert_true(
            state[(size_t)l.params * N + i] ==
            pl_bf16_to_float(pl_bf16_from_float(before[(size_t)l.params * N + i])));
}

/* Shows that the blob of a state has the format of docs/PROTOCOL.md 3.3. */
PL_TEST(bytes_are_the_protocols)
{
    pl_arm arm = arm_of(PL_METHOD_STREAMING, PL_STATE_LOCAL);
    assert_ok(pl_codec_options_default("i4", &arm.outer.codec));
    arm.outer.feedback = true;
    arm.outer.residual = PL_STATE_I8;
    arm.outer.own = PL_STATE_F24;
    const float state[] = {0,
                           0,
                           0,
                           0,
                           0,
                           0, /* moments, which are not sent */
                           127.4f,
                           -2.5f * 2,
                           1,
                           1.0f + 0x1p-16f,
                           -1.0f - 0x3p-16f,
                           0.5f};
    /* 127.4 is above 127, so the residual's unit is 2, with the exponent 1. In this
     * unit the numbers are 63.7, -2.5 and 0.5; halves are rounded to even. */
    const uint8_t expected[] = {64,   0xfe, 0,    1,    0, 0, 0x80,
                                0x3f, 2,    0x80, 0xbf, 0, 0, 0x3f};
    uint8_t blob[sizeof expected];
    assert_int_equal(pl_path_state_bytes(&arm, 3), sizeof expected);
    state_pack(&arm, state, 3, blob);
    assert_memory_equal(blob, expected, sizeof expected);
}

PL_TEST(any_part_of_a_vector_is_read_as_in_the_whole)
{
    pl_arm arm = arm_of(PL_METHOD_STREAMING, PL_STATE_BF16);
    assert_ok(pl_codec_options_default("i4", &arm.outer.codec));
    arm.outer.feedback = true;
    arm.outer.residual = PL_STATE_I8;
    arm.outer.own = PL_STATE_F24;
    float *state = random_state(&arm), *got = travel(&arm, state), part[N];
    uint8_t *blob = pl_alloc((size_t)pl_path_state_bytes(&arm, N)), *at = blob;
    state_pack(&arm, state, N, blob);
    for (int v = 0; v < pl_path_layout_of(&arm).n_vectors; v++) {
        for (size_t first = 0; first < N; first += 101)
            for (size_t n = 1; first + n <= N; n += 83) {
                pl_path_read(pl_path_kind(&arm, v), at, N, first, n, part);
                assert_memory_equal(part, got + (size_t)v * N + first, n * 4);
            }
        at += pl_path_vector_bytes(&arm, v, N);
    }
    pl_free(state);
    pl_free(got);
    pl_free(blob);
}

PL_TEST(what_mates_have_seen_stays)
{
    pl_arm arm = arm_of(PL_METHOD_NOLOCO, PL_STATE_F32);
    arm.outer.own = PL_STATE_BF16;
    size_t n = (size_t)pl_path_layout_of(&arm).n_vectors * N;
    OWNED(free_memory) float *state = random_state(&arm), *got = travel(&arm, state);
    assert_memory_equal(got, state, n * sizeof *state);
}

PL_TEST(local_moments_do_not_travel)
{
    pl_arm plain = arm_of(PL_METHOD_DILOCO, PL_STATE_LOCAL);
    assert_int_equal(pl_path_state_bytes(&plain, N), 0);
    pl_arm arm = arm_of(PL_METHOD_NOLOCO, PL_STATE_LOCAL);
    size_t own = (size_t)(pl_path_layout_of(&arm).n_vectors - 2) * N;
    OWNED(free_memory) float *state = random_state(&arm), *got = travel(&arm, state);
    assert_int_equal(pl_path_state_bytes(&arm, N), own * sizeof *state);
    assert_memory_equal(got + 2 * N, state + 2 * N, own * sizeof *state);
    for (size_t i = 0; i < 2 * N; i++)
        assert_true(got[i] == 0);
}

PL_TEST(no_blob_is_the_state_at_the_start)
{
    for (int method = 0; method < PL_METHOD_COUNT; method++) {
        if (!pl_method_name((pl_method)method))
            continue; /* the number of a method that was removed */
        pl_arm arm = arm_of((pl_method)method, PL_STATE_F32);
        size_t n = (size_t)pl_path_layout_of(&arm).n_vectors * N;
        OWNED(free_memory) float *state = random_state(&arm);
        state_unpack(&arm, NULL, N, state);
        for (size_t i = 0; i < n; i++)
            assert_true(state[i] == 0);
    }
}
