/* bfloat16, as in NVIDIA's header of this name: the upper half of a float. */
#pragma once
#include "base/base.h"
#include "tests/gpu/emulation/toolkit/device_functions.h"

/* This type is trivial, because shared memory requires it. Only the functions below
 * make values. */
struct __nv_bfloat16 {
    uint16_t bits;
};
struct __attribute__((aligned(4))) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

static EMULATED_INLINE float __bfloat162float(__nv_bfloat16 x)
{
    return pl_bf16_to_float(x.bits);
}
static EMULATED_INLINE __nv_bfloat16 __float2bfloat16_rn(float x)
{
    return __nv_bfloat16{pl_bf16_from_float(x)};
}
static EMULATED_INLINE __nv_bfloat16 __float2bfloat16(float x)
{
    return __float2bfloat16_rn(x);
}
static EMULATED_INLINE __nv_bfloat162 __floats2bfloat162_rn(float x, float y)
{
    return __nv_bfloat162{__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}
static EMULATED_INLINE float2 __bfloat1622float2(__nv_bfloat162 x)
{
    return float2{__bfloat162float(x.x), __bfloat162float(x.y)};
}
static EMULATED_INLINE unsigned short __bfloat16_as_ushort(__nv_bfloat16 x)
{
    return x.bits;
}
static EMULATED_INLINE __nv_bfloat16 __ushort_as_bfloat16(unsigned short x)
{
    return __nv_bfloat16{x};
}
