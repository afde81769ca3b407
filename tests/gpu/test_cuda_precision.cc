/* folder: modules; label: unit */
/* Tests the emulated cuda backend: the emulation's e4m3 numbers, and decoding with and
 * without CUDA graphs. */
#include "tests/gpu/emulation/toolkit/cuda_fp8.h"
#include "tests/gpu/emulation/emulation.h"

#include "tests/gpu/cuda_model.h" /* it includes cmocka, which must come last */

/* ---- fp8 ---- */

PL_TEST(every_e4m3_is_what_it_is_made_of)
{
    float before = -1.0f;
    assert_true(isnan(emulated_e4m3_to_float(0x7f)));
    assert_int_equal(__nv_cvt_float_to_fp8(NAN, __NV_SATFINITE, __NV_E4M3), 0x7f);
    assert_int_equal(__nv_cvt_float_to_fp8(1e9f, __NV_SATFINITE, __NV_E4M3), 0x7e);
    assert_true(emulated_e4m3_to_float(0x7e) == 448.0f);
    assert_true(emulated_e4m3_to_float(1) == 0.001953125f); /* 2^-9 */
    for (unsigned bits = 0; bits < 0x7f; bits++) {
        const float value = emulated_e4m3_to_float((unsigned char)bits);
        assert_true(value > before);
        assert_int_equal(__nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3), bits);
        assert_int_equal(__nv_cvt_float_to_fp8(-value, __NV_SATFINITE, __NV_E4M3),
                         bits | 128);
        if (bits > 0) { /* a number half way between two others becomes the even one */
            const unsigned even = bits % 2 == 0 ? bits : bits - 1;
            assert_int_equal(
                __nv_cvt_float_to_fp8((before + value) / 2, __NV_SATFINITE, __NV_E4M3),
                even);
        }
        before = value;
    }
}

/* ---- steps of decoding ---- */

PL_TEST(steps_are_graphs_and_give_the_bytes_of_their_operations)
{
    for (const char *precision : {"bf16", "int8"}) {
        std::string with, without;
        const std::vector<float> graph = read_steps("cuda", precision, &with);
        emulation_refuse_captures(true);
        const std::vector<float> plain = read_steps("cuda", precision, &without);
        emulation_refuse_captures(false);
        expect_equal(graph, plain);
        assert_string_equal(with.c_str(), "");
        assert_non_null(strstr(without.c_str(), "without a CUDA graph"));
    }
}
