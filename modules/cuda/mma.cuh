/* Tensor cores and asynchronous copies. Each PTX instruction has one function, which
 * the emulation implements, too (tests/gpu/emulation/machine.cc). Tiles of bf16 lie in
 * shared memory. Their rows are `stride` acts apart, a multiple of 32 plus 8, so that
 * the eight rows that an instruction reads are in different banks.
 *
 * With g = lane/4 and p = lane%4, a lane holds these elements of a product C (its
 * fragment):
 *
 *   c[0..1] = C[g][2p..]      c[2..3] = C[g+8][2p..] */
#pragma once
#include "modules/cuda/acts.cuh"

/* Adds A B to C, for A [16,16] and B [16,8]. */
__device__ inline void mma_16x8x16(float c[4], const unsigned a[4], const unsigned b[2])
{
#ifdef __CUDACC__
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    emulated_mma_16816_bf16(c, a, b);
#endif
}

/* Loads four 8x8 matrices; lane l passes the address of row l%8 of matrix l/8. */
__device__ inline void ldmatrix(unsigned out[4], const act *row)
{
#ifdef __CUDACC__
    const unsigned at = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(at));
#else
    emulated_ldmatrix_x4(out, row, false);
#endif
}

__device__ inline void ldmatrix_transposed(unsigned out[4], const act *row)
{
#ifdef __CUDACC__
    const unsigned at = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(at));
#else
    emulated_ldmatrix_x4(out, row, true);
#endif
}

/* ---- fragments of a tile ---- */

/* Loads A from a tile [row][k], from row `row` and column `k` on. */
__device__ inline void load_a(unsigned a[4], const act *tile, int stride, int row,
                              int k)
{
    const int lane = (int)threadIdx.x % WARP_SIZE;
    ldmatrix(a, tile + (row + lane % 16) * stride + k + lane / 16 * 8);
}

/* Loads two neighbouring operands B from a tile [n][k]: their columns begin at n and at
 * n+8. */
__device__ inline void load_b(unsigned b[4], const act *tile, int stride, int n, int k)
{
    const int lane = (int)threadIdx.x % WARP_SIZE;
    ldmatrix(b, tile + (n + lane % 8 + lane / 16 * 8) * stride + k + lane / 8 % 2 * 8);
}

/* Loads the same two operands B from a tile [k][n]. */
__device__ inline void load_b_transposed(unsigned b[4], const act *tile, int stride,
                                         int k, int n)
{
    const int lane = (int)threadIdx.x % WARP_SIZE;
    ldmatrix_transposed(b, tile + (k + lane % 16) * stride + n + lane / 16 * 8);
}

/* Joins the fragments of two neighbouring products C into a fragment A [16,16], so that
 * the result of one product becomes an operand of the next. */
__device__ inline void pack_a(unsigned a[4], const float left[4], const float right[4])
{
    a[0] = pack_acts(left[0], left[1]);
    a[1] = pack_acts(left[2], left[3]);
    a[2] = pack_acts(right[0], right[1]);
    a[3] = pack_acts(right[2], right[3]);
}

/* Returns 2^x, computed only by the special function unit, with an error of 2 ulp.
 * Results below 2^-126 are 0, which does not matter for softmax weights; exp2f needs
 * three more instructions for such results. */
__device__ inline float exp2_fast(float x)
{
#ifdef __CUDACC__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}

/* ---- asynchronous copies ---- */

/* Copies the first `valid` of 16 bytes from global to shared memory; the rest becomes
 * 0. */
__device__ inline void copy_async(act *shared, const act *global, int valid)
{
#ifdef __CUDACC__
    const unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to),
                 "l"(global), "r"(valid)
                 : "memory");
#else
    emulated_cp_async(shared, global, valid);
#endif
}

/* Makes one group of all copies since the last commit. */
__device__ inline void copy_commit()
{
#ifdef __CUDACC__
    asm volatile("cp.async.commit_group;\n" ::: "memory");
#else
    emulated_cp_async_commit();
#endif
}

/* Waits until all but the newest LEFT groups of this thread have arrived. */
template <int LEFT> __device__ inline void copy_wait()
{
#ifdef __CUDACC__
    asm volatile("cp.async.wait_group %0;\n" ::"n"(LEFT) : "memory");
#else
    emulated_cp_async_wait(LEFT);
#endif
}

/* ---- products of a group of four warps ----
 *
 * On devices of compute capability 9.0 four warps (a group) multiply [64,16] by [16,N]
 * with one instruction, which reads shared memory itself and runs while the warps go
 * on. Warp w of a group has the rows 16 w .. 16 w + 15 of A and of C, as fragments like
 * those above; c[i] is the fragment of columns 8 i .. 8 i + 7.
 *
 * Tiles consist of panels of 64 columns. A row of a panel has 128 bytes, and its eight
 * chunks of 16 bytes are stored in the order chunk ^ row % 8 (the 128-byte swizzle), so
 * that reading a column uses no bank twice. A panel begins at a multiple of 1024
 * bytes. */

/* Whether the device for which the compiler compiles now has these instructions. */
#if !defined(__CUDACC__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define GROUP_PRODUCTS true
#else
#define GROUP_PRODUCTS false
#endif

enum { PANEL_COLUMNS = 64, PANEL_ROW_BYTES = 128 };

/* Returns the number with which an instruction finds the operand that begins at `from`.
 * `panel` is the number of bytes from one panel to the next; it matters only for
 * operands whose columns are the columns of the product. group_operand(..) + n /
 * OPERAND_UNIT is the operand that begins n bytes later. */
enum { OPERAND_UNIT = 16 };
__device__ inline uint64_t group_operand(const act *from, int panel)
{
#ifdef __CUDACC__
    const unsigned at = (unsigned)__cvta_generic_to_shared(from);
#else
    const unsigned at = (unsigned)emulated_shared_address(from);
#endif
    constexpr uint64_t eight_rows = 8 * PANEL_ROW_BYTES / OPERAND_UNIT, swizzled = 1;
    return (uint64_t)(at / OPERAND_UNIT | (unsigned)(panel / OPERAND_UNIT) << 16) |
           eight_rows << 32 | swizzled << 62;
}

#define GROUP_C(how, i) how(c[i][0]), how(c[i][1]), how(c[i][2]), how(c[i][3])
#define GROUP_C4(how, i)                                                               \
    GROUP_C(how, i), GROUP_C(how, i + 1), GROUP_C(how, i + 2), GROUP_C(how, i + 3)
#define GROUP_C8(how, i) GROUP_C4(how, i), GROUP_C4(how, i + 4)
#define GROUP_LIST_16                                                                  \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define GROUP_LIST_32                                                                  \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "      \
    "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define GROUP_LIST_64                                                                  \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "      \
    "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "      \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, "      \
    "%47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "      \
    "%62, %63"
#define GROUP_MULTIPLY(N, LIST, OPERANDS, ADD, FORM)                                   \
    "{\n.reg .pred p;\nsetp.ne.b32 p, " ADD ", 0;\n"                                   \
    "wgmma.mma_async.sync.aligned.m64n" N "k16.f32.bf16.bf16 {" LIST "}, " OPERANDS    \
    ", p, 1, 1, " FORM ";\n}\n"

/* Starts c = A B or, with ADD, c += A B, for A [64,16] and B [16,8 N] in shared memory.
 * The rows of the tile of A are rows of A; the rows of the tile of B are columns of
 * B. */
template <int N, bool ADD>
__device__ inline void group_multiply_rows(float (*c)[4], uint64_t a, uint64_t b)
{
    static_assert(N == 4 || N == 8 || N == 16, "sizes of a step");
#ifdef __CUDACC__
    if constexpr (N == 4 && ADD)
        asm volatile(GROUP_MULTIPLY("32", GROUP_LIST_16, "%16, %17", "1", "0, 0")
                     : GROUP_C4("+f", 0)
                     : "l"(a), "l"(b));
    else if constexpr (N == 4)
        asm volatile(GROUP_MULTIPLY("32", GROUP_LIST_16, "%16, %17", "0", "0, 0")
                     : GROUP_C4("=f", 0)
                     : "l"(a), "l"(b));
    else if constexpr (N == 8 && ADD)
        asm volatile(GROUP_MULTIPLY("64", GROUP_LIST_32, "%32, %33", "1", "0, 0")
                     : GROUP_C8("+f", 0)
                     : "l"(a), "l"(b));
    else if constexpr (N == 8)
        asm volatile(GROUP_MULTIPLY("64", GROUP_LIST_32, "%32, %33", "0", "0, 0")
                     : GROUP_C8("=f", 0)
                     : "l"(a), "l"(b));
    else if constexpr (ADD)
        asm volatile(GROUP_MULTIPLY("128", GROUP_LIST_64, "%64, %65", "1", "0, 0")
                     : GROUP_C8("+f", 0), GROUP_C8("+f", 8)
                     : "l"(a), "l"(b));
    else
        asm volatile(GROUP_MULTIPLY("128", GROUP_LIST_64, "%64, %65", "0", "0, 0")
                     : GROUP_C8("=f", 0), GROUP_C8("=f", 8)
                     : "l"(a), "l"(b));
#else
    emulated_group_multiply(c, N, NULL, a, b, false, ADD);
#endif
}

/* Starts c += A B for A [64,16] in registers, and B [16,8 N] whose columns are the
 * columns of a tile. */
template <int N>
__device__ inline void group_multiply_weights(float (*c)[4], const unsigned a[4],
                                              uint64_t b)
{
    static_assert(N == 4 || N == 8 || N == 16, "queries of a step; sizes of a head");
#ifdef __CUDACC__
    if constexpr (N == 4)
        asm volatile(
            GROUP_MULTIPLY("32", GROUP_LIST_16, "{%16, %17, %18, %19}, %20", "1", "1")
            : GROUP_C4("+f", 0)
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
    else if constexpr (N == 8)
        asm volatile(
            GROUP_MULTIPLY("64", GROUP_LIST_32, "{%32, %33, %34, %35}, %36", "1", "1")
            : GROUP_C8("+f", 0)
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
    else
        asm volatile(
            GROUP_MULTIPLY("128", GROUP_LIST_64, "{%64, %65, %66, %67}, %68", "1", "1")
            : GROUP_C8("+f", 0), GROUP_C8("+f", 8)
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#else
    emulated_group_multiply(c, N, a, 0, b, true, true);
#endif
}

/* Must be called after the last use of the registers that the products read or write,
 * and before the products are started. */
__device__ inline void group_begin()
{
#ifdef __CUDACC__
    asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
#endif
}

/* Makes one group of all products since the last commit. A later call can wait for the
 * group. */
__device__ inline void group_commit()
{
#ifdef __CUDACC__
    asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
#else
    emulated_group_commit();
#endif
}

/* Waits until all but the newest LEFT groups of products are complete. */
template <int LEFT> __device__ inline void group_wait()
{
#ifdef __CUDACC__
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(LEFT) : "memory");
#else
    emulated_group_wait(LEFT);
#endif
}

/* Keeps the compiler from using the results before the wait that precedes this call. */
template <int N> __device__ inline void group_use(float (&c)[N][4])
{
#ifdef __CUDACC__
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : GROUP_C("+f", i)::"memory");
#else
    (void)c;
#endif
}

/* Makes what this thread has written to shared memory visible to products of a group.
 * Must be called before the barrier after which warps start these products. */
__device__ inline void group_publish()
{
#ifdef __CUDACC__
    asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
#endif
}
