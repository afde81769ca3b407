/* Counter-based random numbers: Philox4x32-10 (Salmon et al. 2011).
 *
 * A value is a pure function of (seed, stream, index). It has the same bits on every
 * machine, and values can be computed in any order. `stream` identifies the use, for
 * example pl_stream("init", path, tensor). */
#pragma once
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>
PL_C_BEGIN

/* The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a 64-bit bijection. */
static inline uint64_t pl_mix64(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Combines a name and two numbers into a stream id (FNV-1a and a 64-bit mixer). */
uint64_t pl_stream(const char *use, uint64_t a, uint64_t b);

void pl_philox(uint64_t seed, uint64_t stream, uint64_t block, uint32_t out[4]);
uint32_t pl_random_u32(uint64_t seed, uint64_t stream, uint64_t index);
double pl_random_uniform(uint64_t seed, uint64_t stream,
                         uint64_t index); /* [0,1), 53 bits */
float pl_random_normal(uint64_t seed, uint64_t stream, uint64_t index); /* Box-Muller */
/* Writes to out[i] what pl_random_normal returns for the index i, for i in 0..n-1. Each
 * computation gives two values, so half as many are needed. */
void pl_random_normals(uint64_t seed, uint64_t stream, size_t n, float *out);

/* Element i of a keyed permutation of 0..n-1 (cycle-walking Feistel network), O(1). */
uint64_t pl_permute(uint64_t seed, uint64_t stream, uint64_t n, uint64_t i);

/* Returns an unpredictable number from the operating system; never 0. */
uint64_t pl_random_fresh(void);

PL_C_END
