/* Converts between bfloat16 and float. A float is rounded to the nearest bfloat16 (ties
 * to even); NaN becomes a quiet NaN. */
#pragma once
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>
PL_C_BEGIN
static inline float pl_bf16_to_float(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static inline uint16_t pl_bf16_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((bits >> 16) | 0x40u);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
PL_C_END
