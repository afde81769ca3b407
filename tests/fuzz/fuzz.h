/* A fuzz target is one function, which libFuzzer's loop or the loop of fuzz_driver.c
 * calls.
 *
 * The first byte of an input chooses how the rest is used: unchanged, or with its
 * checksums corrected first, like a forger does, because most changed inputs would fail
 * at the checksum. A target must never crash, hang, or read outside its input; it may
 * refuse the input. */
#ifndef PL_TESTS_FUZZ_H
#define PL_TESTS_FUZZ_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Gives inputs to begin with, made by the real encoders. */
void fuzz_seeds(void (*give)(const void *data, size_t len));

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

#endif
