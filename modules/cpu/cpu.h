/* The production backend without a GPU: library GEMM, own vector kernels. */
#ifndef PL_MODULES_CPU_CPU_H
#define PL_MODULES_CPU_CPU_H
#include "modules/backend.h"
#ifdef __cplusplus
extern "C" {
#endif

/* precision "auto" is bf16 where this machine multiplies bf16 faster than f32 (AMX,
 * or AMD with avx512_bf16; Intel's avx512_bf16 without AMX is slower than f32), f32
 * elsewhere. One thread uses a backend at a time. ERR_CONFIG for an unknown
 * precision or n_threads < 1; ERR_UNSUPPORTED names what is missing.
 *
 * More than one thread is for a machine that is otherwise idle: the teams of OpenMP
 * spin at every operation, and a step on 2 threads of 2 busy cores took three times as
 * long as on 1. Two paths on two cores are two processes of one thread.
 *
 * OpenBLAS obeys OPENBLAS_CORETYPE at its first use: a process that inherits it
 * may run kernels of an older machine. The device text shows the core it chose. */
PL_MUST_CHECK pl_status cpu_backend_create(const pl_backend_options *options,
                                           pl_backend **out);
void cpu_backend_destroy(pl_backend **backend);

/* The same with kernels of a given instruction set: "auto" (the best), "portable",
 * "avx2", "avx512", "avx512_bf16". For tests and measurements. */
PL_MUST_CHECK pl_status cpu_backend_create_isa(const pl_backend_options *options,
                                               const char *isa, pl_backend **out);

#ifdef __cplusplus
}
#endif
#endif
