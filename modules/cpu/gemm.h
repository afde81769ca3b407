/* Matrix products by a library or by our own code. All implementations have the same
 * interface.
 *
 *   NT: c[m,n] = sum_k a[m,k] b[n,k]     forward:  out = x w^T
 *   NN: c[m,n] = sum_k a[m,k] b[k,n]     dx = dout w
 *   TN: c[m,n] = sum_k a[k,m] b[k,n]     dw = dout^T x
 *
 * All matrices are dense and row-major. `a` and `b` have the type given at open, `c`
 * has that type or fp32. Products are accumulated in fp32. With `add` the products are
 * added to `c`, otherwise they overwrite it. */
#pragma once
#include "modules/backend.h"

typedef enum gemm_kind { GEMM_NT, GEMM_NN, GEMM_TN } gemm_kind;

typedef struct gemm_call {
    gemm_kind kind;
    int M, N, K;
    pl_type c_type;
    bool add;
} gemm_call;

typedef struct gemm gemm;
struct gemm {
    char text[48]; /* for example "onednn 2.6.3" */
    pl_status (*run)(gemm *g, const gemm_call *call, void *c, const void *a,
                     const void *b);
    void (*close)(gemm **g);
};

/* Whether this build can multiply in bf16, and in f16. The machine may still lack the
 * instructions. */
bool gemm_has_bf16(void);
bool gemm_has_f16(void);

/* Opens the library for this type: oneDNN for bf16; OpenBLAS for f32, or oneDNN if the
 * build has no OpenBLAS. The library is loaded by the first call. ERR_UNSUPPORTED: the
 * build has no library for this type, the library is not installed, or the machine
 * cannot run it. */
pl_status gemm_open(pl_type type, int n_threads, gemm **out);

/* A block of memory that grows when needed and never shrinks. When it grows, its
 * contents are lost. After ERR_NOMEM the block is freed. */
typedef struct cpu_block {
    void *data;
    size_t bytes;
} cpu_block;
pl_status cpu_block_grow(cpu_block *block, size_t bytes, const char *what);

/* These functions open oneDNN (gemm_dnnl.c) and OpenBLAS (gemm_blas.c). No other file
 * calls the two libraries. */
pl_status gemm_dnnl_open(pl_type type, int n_threads, gemm **out);
pl_status gemm_blas_open(int n_threads, gemm **out);

/* Products of bf16 matrices for a processor without bf16 instructions, or a build
 * without a library for bf16. The library for f32 computes these products in f32.
 * ERR_UNSUPPORTED if the build has no library for f32. */
pl_status gemm_wide_open(int n_threads, gemm **out);

/* Multiplies f32 matrices in fp16 by our own tiles. The processor must have
 * AVX512-FP16, which the caller has checked. ERR_UNSUPPORTED if the compiler did not
 * support these instructions. */
pl_status gemm_f16_open(int n_threads, gemm **out);
