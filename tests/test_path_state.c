/* folder: workers; label: unit */
/* The blob that a path's state travels as. */
#include "workers/path_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { N = 1000 };

static pl_arm arm_of(pl_method method, pl_state_kind kind)
{
    pl_arm arm;
    memset(&arm, 0, sizeof arm);
    arm.outer.method = pl_method_defaults(method);
    arm.outer.state = kind;
    assert_int_equal(pl_codec_options_default("f32", &arm.outer.codec), PL_OK);
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

/* Packed and unpacked; the caller frees it. */
static float *travel(const pl_arm *arm, const float *state)
{
    size_t n = (size_t)pl_path_layout_of(arm).n_vectors * N;
    uint64_t bytes = pl_path_state_bytes(arm, N);
    uint8_t *blob = pl_alloc(bytes ? (size_t)bytes : 1);
    float *out = pl_alloc(n * sizeof *out);
    state_pack(arm, state, N, blob);
    state_unpack(arm, blob, N, out);
    pl_free(blob);
    return out;
}

static void exact_state_arrives_as_it_was(void **unused)
{
    (void)unused;
    for (int method = 0; method < PL_METHOD_COUNT; method++) {
        pl_arm arm = arm_of((pl_method)method, PL_STATE_F32);
        size_t n = (size_t)pl_path_layout_of(&arm).n_vectors * N;
        float *state = random_state(&arm), *got = travel(&arm, state);
        assert_int_equal(pl_path_state_bytes(&arm, N), n * sizeof *state);
        assert_memory_equal(got, state, n * sizeof *state);
        pl_free(state);
        pl_free(got);
    }
}

/* Whoever goes on from memory and whoever goes on from the blob have equal bytes. */
static void rounded_state_is_the_same_in_memory_and_in_the_blob(void **unused)
{
    (void)unused;
    for (int method = 0; method < PL_METHOD_COUNT; method++) {
        pl_arm arm = arm_of((pl_method)method, PL_STATE_BF16);
        size_t n = (size_t)pl_path_layout_of(&arm).n_vectors * N;
        float *state = random_state(&arm), *before = random_state(&arm);
        state_round(&arm, state, N);
        float *got = travel(&arm, state);
        assert_memory_equal(got, state, n * sizeof *state);
        assert_memory_equal(state + 2 * N, before + 2 * N, (n - 2 * N) * sizeof *state);
        for (size_t i = 0; i < 2 * N; i++)
            assert_true(state[i] == pl_bf16_to_float(pl_bf16_from_float(before[i])));
        assert_int_equal(pl_path_state_bytes(&arm, N),
                         n * sizeof *state - 4 * N); /* two bytes less, of 2N */
        pl_free(state);
        pl_free(before);
        pl_free(got);
    }
}

static void local_moments_do_not_travel(void **unused)
{
    (void)unused;
    pl_arm plain = arm_of(PL_METHOD_DILOCO, PL_STATE_LOCAL);
    assert_int_equal(pl_path_state_bytes(&plain, N), 0);
    pl_arm arm = arm_of(PL_METHOD_EAGER, PL_STATE_LOCAL);
    size_t own = (size_t)(pl_path_layout_of(&arm).n_vectors - 2) * N;
    float *state = random_state(&arm), *got = travel(&arm, state);
    assert_int_equal(pl_path_state_bytes(&arm, N), own * sizeof *state);
    assert_memory_equal(got + 2 * N, state + 2 * N, own * sizeof *state);
    for (size_t i = 0; i < 2 * N; i++)
        assert_true(got[i] == 0);
    pl_free(state);
    pl_free(got);
}

static void no_blob_is_the_state_at_the_start(void **unused)
{
    (void)unused;
    for (int method = 0; method < PL_METHOD_COUNT; method++) {
        pl_arm arm = arm_of((pl_method)method, PL_STATE_F32);
        size_t n = (size_t)pl_path_layout_of(&arm).n_vectors * N;
        float *state = random_state(&arm);
        state_unpack(&arm, NULL, N, state);
        for (size_t i = 0; i < n; i++)
            assert_true(state[i] == 0);
        pl_free(state);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_state_arrives_as_it_was),
        cmocka_unit_test(rounded_state_is_the_same_in_memory_and_in_the_blob),
        cmocka_unit_test(local_moments_do_not_travel),
        cmocka_unit_test(no_blob_is_the_state_at_the_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
