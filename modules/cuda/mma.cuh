/* Tensor cores and asynchronous copies. Each PTX instruction has one function, which
 * the emulation implements, too (tests/gpu/emulation/machine.cc). Tiles of bf16 lie in
 * shared memory. Their rows are `stride` acts apart, a multiple of 32 plus 8, so that
 * the eight rows that an instruction reads are in different banks.
 *
 * With g = lane/4 and p = lane%4, a lane holds these elements of a product C (its
 * fragment):
 *
 *   c[0..1] = C[g][2p..]      c[2..3] = C[g+8][2p..] */
#ifndef PL_MODULES_CUDA_MMA_CUH
#define PL_MODULES_CUDA_MMA_CUH
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

/* Loads two neighbouring B of a tile [n][k], at columns from n on and from n+8 on. */
__device__ inline void load_b(unsigned b[4], const act *tile, int stride, int n, int k)
{
    const int lane = (int)threadIdx.x % WARP_SIZE;
    ldmatrix(b, tile + (n + lane % 8 + lane / 16 * 8) * stride + k + lane / 8 % 2 * 8);
}

/* Loads the same two B from a tile [k][n]. */
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

#endif
