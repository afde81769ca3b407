/* Converts between IEEE half precision and float. Rounds to nearest even; NaN becomes a
 * quiet NaN. */
#pragma once
#include <stdint.h>
#include <string.h>

static inline float half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = half >> 10 & 31u,
             fraction = half & 0x3ffu, bits;
    float value;
    if (exponent == 0) { /* zero and subnormals: fraction * 2^-24, exact in a float */
        value = (float)fraction * 0x1p-24f;
        memcpy(&bits, &value, sizeof bits);
        bits |= sign;
    } else if (exponent == 31) {
        bits = sign | 0x7f800000u | fraction << 13;
    } else {
        bits = sign | (exponent + 112u) << 23 | fraction << 13;
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Values of 65520 and more become infinity. */
static inline uint16_t half_from_float(float value)
{
    uint32_t bits, size;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000u;
    size = bits & 0x7fffffffu;
    if (size > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (size >> 13 & 0x3ffu));
    if (size >= 0x47800000u)
        return (uint16_t)(sign | 0x7c00u);
    if (size < 0x38800000u) { /* below 2^-14: + 1/2 rounds to a multiple of 2^-24 */
        float shifted;
        memcpy(&shifted, &size, sizeof shifted);
        shifted += 0.5f;
        memcpy(&size, &shifted, sizeof size);
        return (uint16_t)(sign | (size - 0x3f000000u));
    }
    size += 0xfffu + (size >> 13 & 1u);
    return (uint16_t)(sign | (size - 0x38000000u) >> 13);
}
