/* What a fuzz target is: one function for libFuzzer's loop and, where that is missing,
 * for the one of fuzz_driver.c.
 *
 * The first byte of an input chooses what the rest is tried as: by itself, or with its
 * checksums made right first, as by somebody who forges them; else no changed input
 * would come past them. A target must never crash, hang, or read outside; what it is
 * given may be refused. */
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
