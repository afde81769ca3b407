/* Whole numbers as little-endian bytes on any machine. `width`: 1 to 8 bytes. */
#pragma once
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>
PL_C_BEGIN
static inline void pl_le_put(uint8_t *out, uint64_t value, size_t width)
{
    for (size_t i = 0; i < width; i++)
        out[i] = (uint8_t)(value >> (8 * i));
}
static inline uint64_t pl_le_get(const uint8_t *in, size_t width)
{
    uint64_t value = 0;
    for (size_t i = width; i-- > 0;)
        value = value << 8 | in[i];
    return value;
}
PL_C_END
