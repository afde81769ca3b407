/* The operations of the cpu backend; modules/ops.h has their equations. Functions whose
 * names are in OP() exist once per instruction set. */
#pragma once
#include "modules/cpu/state.h"

/* Operations of backend_cpu.c and matmul_cpu.c. These two files are compiled only once:
 * their products call the library that the backend has opened (gemm.h). */
#define CPU_DECLARE(op) pl_op_##op cpu_##op;
PL_OPS_OF_WEIGHTS(CPU_DECLARE)
CPU_DECLARE(matmul_forward)
CPU_DECLARE(matmul_dw)
CPU_DECLARE(logits)
#undef CPU_DECLARE

#ifdef CPU_ISA
#define CPU_DECLARE(op) pl_op_##op OP(op);
PL_OPS_OF_CASTS(CPU_DECLARE)
PL_OPS_OF_MODELS(CPU_DECLARE)
#undef CPU_DECLARE
/* dw_cpu.c: matmul_dw in bf16 by our own tiles. Sums of `part` rows are added to dw one
 * after the other; `part` is even. */
void OP(sum_dw)(pl_backend *be, float *dw, const pl_act *dout, const pl_act *x, int N,
                int O, int I, int part, bool accumulate);
/* adamw_cpu.c: returns the sum of the squares of g [n], by one thread */
double OP(chunk_squares)(const float *g, size_t n);
/* Computes attention_decode in blocks of queries (attention_cpu.c). The N rows are the
 * positions of one sequence from `first` on; the sequence's cache begins at element
 * `at` of `keys` and of `values`. Returns false, without computing, if the rows must be
 * computed one by one. */
bool OP(attention_after)(pl_backend *be, pl_act *out, const pl_act *qkv,
                         const pl_act *keys, const pl_act *values, size_t at, int first,
                         int N, int H, int G, int D);
#endif
