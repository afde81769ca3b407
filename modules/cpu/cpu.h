/* The production backend without a GPU: matrix products by a library, everything else
 * by own vector kernels. */
#ifndef PL_MODULES_CPU_CPU_H
#define PL_MODULES_CPU_CPU_H
#include "modules/backend.h"
#ifdef __cplusplus
extern "C" {
#endif

/* precision "auto" is bf16 where this machine multiplies bf16 faster than f32 (AMX, or
 * AMD with avx512_bf16; Intel's avx512_bf16 without AMX is slower than f32), else f16
 * (f32 activations, multiplied in fp16) where it has AVX512-FP16, f32 elsewhere. One
 * thread uses a backend at a time. ERR_CONFIG for an unknown precision or n_threads <
 * 1; ERR_UNSUPPORTED names the instructions or library that are missing.
 *
 * Use more than one thread only on a machine that is otherwise idle, and with a short
 * GOMP_SPINCOUNT (the program sets it). Threads that spin for long took three times as
 * long on 2 busy cores as one thread did; threads that sleep at once need five times as
 * long per token. To train two paths on two cores, start two processes of one thread
 * each.
 *
 * OpenBLAS obeys OPENBLAS_CORETYPE when it is loaded, so a process that inherits the
 * variable may run kernels of an older machine. If OpenBLAS does not know the
 * processor, the first backend chooses the kernels. The device text names the kernels.
 */
PL_MUST_CHECK pl_status cpu_backend_create(const pl_backend_options *options,
                                           pl_backend **out);
void cpu_backend_destroy(pl_backend **backend);

/* Creates the same backend with the kernels of a given instruction set: "auto" (the
 * best), "portable", "avx2", "avx512", "avx512_vnni" (int8 products), "avx512_bf16".
 * Tests and measurements use this function. */
PL_MUST_CHECK pl_status cpu_backend_create_isa(const pl_backend_options *options,
                                               const char *isa, pl_backend **out);

#ifdef __cplusplus
}
#endif
#endif
