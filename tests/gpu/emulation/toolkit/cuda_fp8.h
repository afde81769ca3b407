/* The part of fp8 in NVIDIA's header of this name that our kernels use: e4m3 (OFP8). It
 * has a bias of 7 and no infinity, and 0x7f is NaN. Values are rounded to the nearest,
 * ties to even, and values above 448 become 448. */
#pragma once
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

/* Works only for e4m3 and __NV_SATFINITE. */
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
        /* The smallest normal number is 2^-6; below it, steps are 2^-9. */
        exponent = -5;
    const unsigned steps = (unsigned)nearbyintf(ldexpf(size, 4 - exponent));
    /* A normal number has steps 8 to 16. A carry moves into the bits of the
     * exponent. */
    return (__nv_fp8_storage_t)(sign | (((unsigned)(exponent + 5) << 3) + steps));
}
