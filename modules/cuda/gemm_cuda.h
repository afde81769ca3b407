/* Products of row-major matrices by cuBLASLt.
 *
 * For each shape cuBLASLt is asked once which algorithm to use. The answers (plans) for
 * some hundreds of shapes are kept. Algorithms with atomic additions are excluded, so
 * the same product always has the same bytes. */
#pragma once
#include "modules/backend.h"
#include <cuda_runtime.h>

typedef struct cuda_gemm cuda_gemm;

typedef enum gemm_kind {
    GEMM_NT, /* c[m,n] = a[m,k] b[n,k]^T : forward */
    GEMM_NN, /* c[m,n] = a[m,k] b[k,n]   : dx */
    GEMM_TN  /* c[m,n] = a[k,m]^T b[k,n] : dw */
} gemm_kind;

/* a and b are bf16. c has the type `type`. The product overwrites c or, with
 * `accumulate`, is added to it. */
typedef struct gemm_call {
    gemm_kind kind;
    int M, N, K;
    pl_type type;
    bool accumulate;
    void *c;
    const void *a, *b;
    int a_stride = 0, c_stride = 0; /* number of elements between rows; 0: no gaps */
    int n = 1; /* number of products, whose matrices follow each other without gaps */
} gemm_call;

/* Opens cuBLASLt, and clears its workspace on the stream. */
pl_status gemm_cuda_open(cudaStream_t stream, cuda_gemm **out);
void gemm_cuda_close(cuda_gemm **gemm);
/* Runs a product asynchronously. The first call with a shape allocates memory.
 * ERR_DEVICE if cuBLASLt refuses the product. */
pl_status gemm_cuda_run(cuda_gemm *gemm, const gemm_call *call, cudaStream_t stream);
/* Writes the name and version of the library, and a hash of the algorithms that it
 * chooses here, for example "cublas 13.0.2 4f1c". */
pl_status gemm_cuda_describe(const cuda_gemm *gemm, char *text, size_t bytes);
