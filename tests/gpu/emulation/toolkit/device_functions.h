/* The functions that kernels use: qualifiers, the thread's place in the grid, and
 * built-in functions. A function at which threads wait for each other takes the file
 * and the line of its caller, which identify this place. */
#pragma once
#include "tests/gpu/emulation/toolkit/vector_types.h"
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __forceinline__  inline __attribute__((always_inline))
#define __noinline__     __attribute__((noinline))
/* One block runs at a time. So the block's static shared memory is static memory of the
 * thread of the host, which memory.cc recognises by its address. */
#define __shared__ static thread_local

/* ---- the thread's place in the grid ---- */

uint3 emulated_thread_index(void) __attribute__((const));
uint3 emulated_block_index(void) __attribute__((const));
dim3 emulated_block_extent(void) __attribute__((const));
dim3 emulated_grid_extent(void) __attribute__((const));
#define threadIdx emulated_thread_index()
#define blockIdx  emulated_block_index()
#define blockDim  emulated_block_extent()
#define gridDim   emulated_grid_extent()
enum { warpSize = 32 };

/* Dynamic shared memory of the block; see dynamic_shared() in modules/cuda/device.h */
void *emulated_dynamic_shared(void) __attribute__((const));

/* griddepcontrol.wait: before it, a thread of a kernel that was launched early may not
 * touch device memory. */
void emulated_wait_for_earlier(void);
/* cp.async.bulk.prefetch.L2: checks the address and the size. */
void emulated_prefetch(const void *from, size_t bytes);

/* ---- functions at which the threads of a block meet ---- */

#define EMULATED_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

enum emulated_vote { EMULATED_COUNT, EMULATED_AND, EMULATED_OR };
int emulated_barrier(emulated_vote vote, int predicate, const char *file, int line);

static inline void __syncthreads(EMULATED_SITE)
{
    (void)emulated_barrier(EMULATED_COUNT, 0, file, line);
}
static inline int __syncthreads_count(int predicate, EMULATED_SITE)
{
    return emulated_barrier(EMULATED_COUNT, predicate, file, line);
}
static inline int __syncthreads_and(int predicate, EMULATED_SITE)
{
    return emulated_barrier(EMULATED_AND, predicate, file, line);
}
static inline int __syncthreads_or(int predicate, EMULATED_SITE)
{
    return emulated_barrier(EMULATED_OR, predicate, file, line);
}

/* ---- operations of a warp, in which all lanes take part; `mask` must name all ---- */

enum emulated_shuffle { EMULATED_IDX, EMULATED_XOR, EMULATED_UP, EMULATED_DOWN };
enum emulated_reduction {
    EMULATED_BALLOT,
    EMULATED_SUM,
    EMULATED_MIN,
    EMULATED_MAX,
    EMULATED_BIT_AND,
    EMULATED_BIT_OR,
    EMULATED_BIT_XOR
};
void emulated_meet_warp(unsigned mask, const char *file, int line);
/* Sets `value`, which has at most 16 bytes, to the value of the lane that `how`
 * chooses. */
void emulated_shuffle_value(void *value, size_t bytes, emulated_shuffle how, int lane,
                            int width, unsigned mask, const char *file, int line);
int64_t emulated_reduce(int64_t value, emulated_reduction how, unsigned mask,
                        const char *file, int line);

static inline void __syncwarp(unsigned mask = 0xffffffffu, EMULATED_SITE)
{
    emulated_meet_warp(mask, file, line);
}

#define EMULATED_SHUFFLE(name, how, argument)                                          \
    template <class T>                                                                 \
    static inline T name(unsigned mask, T value, argument, int width = 32,             \
                         EMULATED_SITE)                                                \
    {                                                                                  \
        emulated_shuffle_value(&value, sizeof value, how, (int)lane, width, mask,      \
                               file, line);                                            \
        return value;                                                                  \
    }
EMULATED_SHUFFLE(__shfl_sync, EMULATED_IDX, int lane)
EMULATED_SHUFFLE(__shfl_xor_sync, EMULATED_XOR, int lane)
EMULATED_SHUFFLE(__shfl_up_sync, EMULATED_UP, unsigned lane)
EMULATED_SHUFFLE(__shfl_down_sync, EMULATED_DOWN, unsigned lane)
#undef EMULATED_SHUFFLE

static inline unsigned __ballot_sync(unsigned mask, int predicate, EMULATED_SITE)
{
    return (unsigned)emulated_reduce(predicate != 0, EMULATED_BALLOT, mask, file, line);
}
static inline int __any_sync(unsigned mask, int predicate, EMULATED_SITE)
{
    return emulated_reduce(predicate != 0, EMULATED_BALLOT, mask, file, line) != 0;
}
static inline int __all_sync(unsigned mask, int predicate, EMULATED_SITE)
{
    return emulated_reduce(predicate == 0, EMULATED_BALLOT, mask, file, line) == 0;
}

#define EMULATED_REDUCTION(name, how, type)                                            \
    static inline type name(unsigned mask, type value, EMULATED_SITE)                  \
    {                                                                                  \
        return (type)emulated_reduce((int64_t)value, how, mask, file, line);           \
    }
EMULATED_REDUCTION(__reduce_add_sync, EMULATED_SUM, unsigned)
EMULATED_REDUCTION(__reduce_add_sync, EMULATED_SUM, int)
EMULATED_REDUCTION(__reduce_min_sync, EMULATED_MIN, unsigned)
EMULATED_REDUCTION(__reduce_min_sync, EMULATED_MIN, int)
EMULATED_REDUCTION(__reduce_max_sync, EMULATED_MAX, unsigned)
EMULATED_REDUCTION(__reduce_max_sync, EMULATED_MAX, int)
EMULATED_REDUCTION(__reduce_and_sync, EMULATED_BIT_AND, unsigned)
EMULATED_REDUCTION(__reduce_or_sync, EMULATED_BIT_OR, unsigned)
EMULATED_REDUCTION(__reduce_xor_sync, EMULATED_BIT_XOR, unsigned)
#undef EMULATED_REDUCTION

/* ---- tensor cores and asynchronous copies, as modules/cuda/mma.cuh wraps them ---- */

/* mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32, in place in c */
void emulated_mma_16816_bf16(float c[4], const uint32_t a[4], const uint32_t b[2],
                             EMULATED_SITE);
/* ldmatrix.sync.aligned.m8n8.x4[.trans].shared.b16 */
void emulated_ldmatrix_x4(uint32_t out[4], const void *row, bool transposed,
                          EMULATED_SITE);
/* cp.async.cg.shared.global with 16 bytes: copies the first `valid` bytes, and sets the
 * others to zero. Then cp.async.commit_group and cp.async.wait_group. */
void emulated_cp_async(void *shared, const void *global, int valid);
void emulated_cp_async_commit(void);
void emulated_cp_async_wait(int groups_left);
/* The address of shared memory as a device's instructions see it. */
uint64_t emulated_shared_address(const void *address);
/* wgmma.mma_async.m64n(8 n)k16.f32.bf16.bf16: c = A B or, if `add` is set, c += A B. A
 * is in registers, or in shared memory if a is NULL. If `transposed` is set, the rows
 * of the tile of B are the rows of B. Then wgmma.commit_group and wgmma.wait_group. */
void emulated_group_multiply(float (*c)[4], int n, const uint32_t *a, uint64_t a_tile,
                             uint64_t b_tile, bool transposed, bool add, EMULATED_SITE);
void emulated_group_commit(void);
void emulated_group_wait(int sets_left);

/* ---- atomics ---- */

#define EMULATED_ATOMICS(type)                                                         \
    type atomicAdd(type *address, type value);                                         \
    type atomicExch(type *address, type value);
EMULATED_ATOMICS(int)
EMULATED_ATOMICS(unsigned)
EMULATED_ATOMICS(unsigned long long)
EMULATED_ATOMICS(float)
#undef EMULATED_ATOMICS
#define EMULATED_ATOMICS(type)                                                         \
    type atomicMin(type *address, type value);                                         \
    type atomicMax(type *address, type value);                                         \
    type atomicAnd(type *address, type value);                                         \
    type atomicOr(type *address, type value);                                          \
    type atomicXor(type *address, type value);                                         \
    type atomicCAS(type *address, type compare, type value);
EMULATED_ATOMICS(int)
EMULATED_ATOMICS(unsigned)
EMULATED_ATOMICS(unsigned long long)
#undef EMULATED_ATOMICS
double atomicAdd(double *address, double value);
/* Does nothing: threads run one at a time, so all accesses are ordered. */
static inline void __threadfence(void)
{
}
static inline void __threadfence_block(void)
{
}
void __trap(void) __attribute__((noreturn));

/* ---- arithmetic ---- */

template <class T> static inline T __ldg(const T *address)
{
    return *address;
}
template <class To, class From> static inline To emulated_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "the bits of a value of another size");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
#define EMULATED_FUNCTION(type, name, arguments, value)                                \
    static inline type name arguments                                                  \
    {                                                                                  \
        return value;                                                                  \
    }
EMULATED_FUNCTION(unsigned, __float_as_uint, (float x), emulated_bits<unsigned>(x))
EMULATED_FUNCTION(int, __float_as_int, (float x), emulated_bits<int>(x))
EMULATED_FUNCTION(float, __uint_as_float, (unsigned x), emulated_bits<float>(x))
EMULATED_FUNCTION(float, __int_as_float, (int x), emulated_bits<float>(x))
EMULATED_FUNCTION(long long, __double_as_longlong, (double x),
                  emulated_bits<long long>(x))
EMULATED_FUNCTION(double, __longlong_as_double, (long long x), emulated_bits<double>(x))
EMULATED_FUNCTION(float, rsqrtf, (float x), 1.0f / sqrtf(x))
EMULATED_FUNCTION(double, rsqrt, (double x), 1.0 / sqrt(x))
/* glibc already has functions of these names */
#define __expf expf
#define __logf logf
EMULATED_FUNCTION(float, __fdividef, (float x, float y), x / y)
/* Each result is rounded once. Because of -ffp-contract=off, operations are never
 * contracted. */
EMULATED_FUNCTION(float, __fmul_rn, (float x, float y), (x * y))
EMULATED_FUNCTION(float, __fadd_rn, (float x, float y), x + y)
EMULATED_FUNCTION(float, __fsub_rn, (float x, float y), x - y)
EMULATED_FUNCTION(float, __fdiv_rn, (float x, float y), x / y)
EMULATED_FUNCTION(float, __fsqrt_rn, (float x), sqrtf(x))
EMULATED_FUNCTION(float, __fmaf_rn, (float x, float y, float z), fmaf(x, y, z))
EMULATED_FUNCTION(int, __float2int_rn, (float x), (int)nearbyintf(x))
EMULATED_FUNCTION(int, __float2int_rz, (float x), (int)x)
EMULATED_FUNCTION(float, __int2float_rn, (int x), (float)x)
EMULATED_FUNCTION(int, __popc, (unsigned x), __builtin_popcount(x))
EMULATED_FUNCTION(int, __popcll, (unsigned long long x), __builtin_popcountll(x))
EMULATED_FUNCTION(int, __clz, (int x), x == 0 ? 32 : __builtin_clz((unsigned)x))
EMULATED_FUNCTION(int, __clzll, (long long x),
                  x == 0 ? 64 : __builtin_clzll((unsigned long long)x))
EMULATED_FUNCTION(int, __ffs, (int x), __builtin_ffs(x))
EMULATED_FUNCTION(unsigned, __umulhi, (unsigned x, unsigned y),
                  (unsigned)(((uint64_t)x * y) >> 32))
#undef EMULATED_FUNCTION
static inline unsigned __brev(unsigned x)
{
    unsigned y = 0;
    for (int i = 0; i < 32; i++)
        y |= (x >> i & 1u) << (31 - i);
    return y;
}
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector)
{
    const uint64_t both = (uint64_t)y << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned which = selector >> (4 * i) & 7u;
        unsigned byte = (unsigned)(both >> (8 * which)) & 0xffu;
        if (selector >> (4 * i) & 8u)
            byte = byte & 0x80u ? 0xffu : 0u;
        result |= byte << (8 * i);
    }
    return result;
}

#define EMULATED_MIN_MAX(type)                                                         \
    static inline type min(type x, type y)                                             \
    {                                                                                  \
        return x < y ? x : y;                                                          \
    }                                                                                  \
    static inline type max(type x, type y)                                             \
    {                                                                                  \
        return x > y ? x : y;                                                          \
    }
EMULATED_MIN_MAX(int)
EMULATED_MIN_MAX(unsigned)
EMULATED_MIN_MAX(long)
EMULATED_MIN_MAX(unsigned long)
EMULATED_MIN_MAX(long long)
EMULATED_MIN_MAX(unsigned long long)
EMULATED_MIN_MAX(float)
EMULATED_MIN_MAX(double)
#undef EMULATED_MIN_MAX
