/* Activations (acts) are bf16 in memory and fp32 in registers. An instruction loads or
 * stores V acts at once. V = 8 uses the widest load (16 bytes) and needs rows whose
 * width is a multiple of 8; for other rows V is 1. */
#pragma once
#include "modules/cuda/device.h"

typedef __nv_bfloat16 act;

enum { ACTS_WIDE = 8 };

/* Returns how many acts can be accessed at once in rows of C acts. */
static inline int acts_width(int C)
{
    return C % ACTS_WIDE == 0 ? ACTS_WIDE : 1;
}

/* Returns how many of n consecutive acts at a and b, at any addresses, can be accessed
 * at once. */
static inline int acts_width_of(size_t n, const void *a, const void *b)
{
    const uintptr_t at =
        reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b);
    return n % ACTS_WIDE == 0 && at % 16 == 0 ? ACTS_WIDE : 1;
}

/* Converts two bf16 to floats: a bf16 is the upper half of a float. */
__device__ inline void unpack_acts(float *out, unsigned pair)
{
    out[0] = __uint_as_float(pair << 16);
    out[1] = __uint_as_float(pair & 0xffff0000u);
}

__device__ inline unsigned pack_acts(float low, float high)
{
#ifdef __CUDACC__ /* one instruction, which the compiler does not find by itself */
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
#else
    return (unsigned)__bfloat16_as_ushort(__float2bfloat16_rn(low)) |
           (unsigned)__bfloat16_as_ushort(__float2bfloat16_rn(high)) << 16;
#endif
}

/* The type of the value that one load of V elements of type T returns; to_floats
 * converts such a value. */
template <int V, class T> struct raw_of {
    typedef T type;
};
template <> struct raw_of<ACTS_WIDE, act> {
    typedef uint4 type;
};

__device__ inline void to_floats(float *out, act raw)
{
    out[0] = __bfloat162float(raw);
}
__device__ inline void to_floats(float *out, uint4 raw)
{
    unpack_acts(out, raw.x);
    unpack_acts(out + 2, raw.y);
    unpack_acts(out + 4, raw.z);
    unpack_acts(out + 6, raw.w);
}

template <int V, class T>
__device__ inline typename raw_of<V, T>::type load_raw(const T *from)
{
    return *reinterpret_cast<const typename raw_of<V, T>::type *>(from);
}

template <int V> __device__ inline void load_acts(float out[V], const act *from)
{
    to_floats(out, load_raw<V>(from));
}

template <int V> __device__ inline void store_acts(act *to, const float in[V])
{
    if constexpr (V == 1) {
        *to = __float2bfloat16_rn(in[0]);
    } else {
        *reinterpret_cast<uint4 *>(to) =
            make_uint4(pack_acts(in[0], in[1]), pack_acts(in[2], in[3]),
                       pack_acts(in[4], in[5]), pack_acts(in[6], in[7]));
    }
}

/* Loads fp32 values from rows that are aligned to 16 bytes. */
template <int V> __device__ inline void load_floats(float out[V], const float *from)
{
    if constexpr (V == 1) {
        out[0] = *from;
    } else {
        const float4 low = reinterpret_cast<const float4 *>(from)[0];
        const float4 high = reinterpret_cast<const float4 *>(from)[1];
        out[0] = low.x, out[1] = low.y, out[2] = low.z, out[3] = low.w;
        out[4] = high.x, out[5] = high.y, out[6] = high.z, out[7] = high.w;
    }
}

template <int V> __device__ inline void store_floats(float *to, const float in[V])
{
    if constexpr (V == 1) {
        *to = in[0];
    } else {
        reinterpret_cast<float4 *>(to)[0] = make_float4(in[0], in[1], in[2], in[3]);
        reinterpret_cast<float4 *>(to)[1] = make_float4(in[4], in[5], in[6], in[7]);
    }
}
