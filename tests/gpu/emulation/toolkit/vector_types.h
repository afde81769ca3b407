/* The small vectors of CUDA, as in NVIDIA's header of this name. */
#pragma once

/* If an argument of a call is a struct, the compiler inserts no check for the memory
 * from which the struct is read. So functions with such arguments must be inlined. */
#define EMULATED_INLINE inline __attribute__((always_inline))

#define EMULATED_VECTORS(type, name, align2, align4)                                   \
    struct __attribute__((aligned(align2))) name##2                                    \
    {                                                                                  \
        type x, y;                                                                     \
    };                                                                                 \
    struct name##3                                                                     \
    {                                                                                  \
        type x, y, z;                                                                  \
    };                                                                                 \
    struct __attribute__((aligned(align4))) name##4                                    \
    {                                                                                  \
        type x, y, z, w;                                                               \
    };                                                                                 \
    static EMULATED_INLINE name##2 make_##name##2(type x, type y)                      \
    {                                                                                  \
        return name##2 {x, y};                                                         \
    }                                                                                  \
    static EMULATED_INLINE name##3 make_##name##3(type x, type y, type z)              \
    {                                                                                  \
        return name##3 {x, y, z};                                                      \
    }                                                                                  \
    static EMULATED_INLINE name##4 make_##name##4(type x, type y, type z, type w)      \
    {                                                                                  \
        return name##4 {x, y, z, w};                                                   \
    }

EMULATED_VECTORS(float, float, 8, 16)
EMULATED_VECTORS(double, double, 16, 16)
EMULATED_VECTORS(int, int, 8, 16)
EMULATED_VECTORS(unsigned, uint, 8, 16)
EMULATED_VECTORS(short, short, 4, 8)
EMULATED_VECTORS(unsigned short, ushort, 4, 8)
EMULATED_VECTORS(signed char, char, 2, 4)
EMULATED_VECTORS(unsigned char, uchar, 2, 4)
#undef EMULATED_VECTORS

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1)
        : x(x_), y(y_), z(z_)
    {
    }
};
