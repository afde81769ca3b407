/* The functions of cuBLASLt. The program does not link the library but loads it when a
 * cuda backend is opened: the library has half a gigabyte, and a program that links it
 * starts 0.2 s later on every machine. */
#pragma once
#include "base/base.h"
#include <cublasLt.h>

/* X(name): blas.name is the address of the function `name` of cublasLt. */
#define BLAS_FUNCTIONS(X)                                                              \
    X(cublasLtGetVersion)                                                              \
    X(cublasLtGetStatusString)                                                         \
    X(cublasLtCreate)                                                                  \
    X(cublasLtDestroy)                                                                 \
    X(cublasLtMatmulDescCreate)                                                        \
    X(cublasLtMatmulDescDestroy)                                                       \
    X(cublasLtMatmulDescSetAttribute)                                                  \
    X(cublasLtMatrixLayoutCreate)                                                      \
    X(cublasLtMatrixLayoutDestroy)                                                     \
    X(cublasLtMatrixLayoutSetAttribute)                                                \
    X(cublasLtMatmulPreferenceCreate)                                                  \
    X(cublasLtMatmulPreferenceDestroy)                                                 \
    X(cublasLtMatmulPreferenceSetAttribute)                                            \
    X(cublasLtMatmulAlgoGetHeuristic)                                                  \
    X(cublasLtMatmulAlgoConfigGetAttribute)                                            \
    X(cublasLtMatmul)

typedef struct blas {
#define BLAS_MEMBER(name) decltype(&::name) name;
    BLAS_FUNCTIONS(BLAS_MEMBER)
#undef BLAS_MEMBER
} blas;

/* ERR_UNSUPPORTED: the text says that the library or one of its functions is missing.
 * The library stays loaded until the process ends. */
pl_status blas_load(blas *out);
