/* A fuzz target is one function. The loop of libFuzzer or the loop of fuzz_driver.c
 * calls it.
 *
 * If the input has checksums, its first byte chooses how a target uses the rest: as it
 * is, or after correcting the checksums, as an attacker would do. Without this
 * correction most changed inputs would fail at the checksum. A target must never crash,
 * hang, or read outside its input. It may refuse the input. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Calls `give` with each seed, an input with which fuzzing begins. Most seeds are made
 * by the real encoders. */
void fuzz_seeds(void (*give)(const void *data, size_t len));
/* Gives a seed whose first byte is `mode`. */
static inline void fuzz_give(void (*give)(const void *, size_t), uint8_t mode,
                             const void *data, size_t len)
{
    uint8_t *seed = (uint8_t *)malloc(len + 1);
    seed[0] = mode;
    if (len > 0)
        memcpy(seed + 1, data, len);
    give(seed, len + 1);
    free(seed);
}
/* Optional. fuzz_driver.c calls it after the last input, libFuzzer does not. */
void fuzz_end(void);

static inline uint32_t fuzz_u32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static inline uint64_t fuzz_u64(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}
