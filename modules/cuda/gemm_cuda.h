/* Matrix products by cuBLASLt, in row-major terms.
 *
 * cuBLASLt is asked once per shape which algorithm to use, and the plans for some
 * hundreds of shapes are kept. Algorithms that add in place by atomics are excluded, so
 * equal shapes give equal bytes. */
#ifndef PL_MODULES_CUDA_GEMM_CUDA_H
#define PL_MODULES_CUDA_GEMM_CUDA_H
#include "modules/backend.h"
#include <cuda_runtime.h>

typedef struct cuda_gemm cuda_gemm;

typedef enum gemm_kind {
    GEMM_NT, /* c[m,n] = a[m,k] b[n,k]^T : forward */
    GEMM_NN, /* c[m,n] = a[m,k] b[k,n]   : dx */
    GEMM_TN  /* c[m,n] = a[k,m]^T b[k,n] : dw */
} gemm_kind;

/* a and b are bf16. c has `type` and is overwritten or, with `accumulate`, added to.
 * With `scales` (one number on the device for b, one for a) both operands are e4m3 and
 * the product is multiplied by the two numbers. This works only for GEMM_NT with a bf16
 * result, with N and K multiples of 16. */
typedef struct gemm_call {
    gemm_kind kind;
    int M, N, K;
    pl_type type;
    bool accumulate;
    void *c;
    const void *a, *b;
    const float *scales[2];
    int a_stride, c_stride; /* number of elements between rows; 0: no gaps */
} gemm_call;

/* Opens cuBLASLt, and clears its workspace on the stream. */
PL_MUST_CHECK pl_status gemm_cuda_open(cudaStream_t stream, cuda_gemm **out);
void gemm_cuda_close(cuda_gemm **gemm);
/* Runs a product asynchronously. The first call with a shape allocates memory.
 * ERR_DEVICE if cuBLAS refuses. */
PL_MUST_CHECK pl_status gemm_cuda_run(cuda_gemm *gemm, const gemm_call *call,
                                      cudaStream_t stream);
/* "cublas 13.0.2" */
void gemm_cuda_describe(const cuda_gemm *gemm, char *text, size_t bytes);

#endif
