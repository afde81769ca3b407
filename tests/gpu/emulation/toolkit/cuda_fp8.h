/* fp8 as NVIDIA's header of this name has it, as far as it is used: e4m3 (OFP8: a bias
 * of 7, no infinity, 0x7f is no number), to the nearest, ties to even, and values past
 * 448 become 448. */
#ifndef PL_TESTS_EMULATION_TOOLKIT_CUDA_FP8_H
#define PL_TESTS_EMULATION_TOOLKIT_CUDA_FP8_H
#include "tests/gpu/emulation/toolkit/device_functions.h"
#include <math.h>

typedef unsigned char __nv_fp8_storage_t;
typedef enum { __NV_NOSAT, __NV_SATFINITE } __nv_saturation_t;
typedef enum { __NV_E4M3, __NV_E5M2 } __nv_fp8_interpretation_t;

static inline float emulated_e4m3_to_float(unsigned char x)
{
    const int exponent = x >> 3 & 15, mantissa = x & 7;
    float value = exponent > 0 ? ldexpf((float)(8 + mantissa), exponent - 10)
                               : ldexpf((float)mantissa, -9);
    if (exponent == 15 && mantissa == 7)
        value = NAN;
    return x & 128 ? -value : value;
}

/* Only for e4m3 and __NV_SATFINITE. */
static inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t,
                                                       __nv_fp8_interpretation_t)
{
    const unsigned sign = signbit(x) ? 128u : 0u;
    const float size = fabsf(x);
    int exponent;
    if (isnan(x))
        return 0x7f;
    if (size >= 448.0f)
        return (__nv_fp8_storage_t)(sign | 0x7eu);
    (void)frexpf(size, &exponent); /* size is in [2^(exponent-1), 2^exponent) */
    if (exponent < -5 || size == 0.0f)
        exponent = -5; /* the smallest normal is 2^-6: below, steps of 2^-9 */
    const unsigned steps = (unsigned)nearbyintf(ldexpf(size, 4 - exponent));
    /* steps of 8..16 at a normal exponent: a carry moves into the exponent's bits */
    return (__nv_fp8_storage_t)(sign | (((unsigned)(exponent + 5) << 3) + steps));
}

#endif
