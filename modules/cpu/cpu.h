/* The production backend for machines without a GPU. A library multiplies large
 * matrices; our own vector kernels compute everything else. */
#pragma once
#include "modules/backend.h"
PL_C_BEGIN

/* The precision "auto" means:
 *
 * - bf16 if this machine multiplies bf16 faster than f32: with AMX, or on AMD with
 *   avx512_bf16 (Intel's avx512_bf16 without AMX is slower than f32);
 * - else f16 if the machine has AVX512-FP16: activations are f32, and products are
 *   computed in fp16;
 * - else f32.
 *
 * `isa` is the instruction set of the kernels: "auto" (the newest), or, in tests, a
 * name of base/isa.h that is not newer than pl_isa_newest().
 *
 * Only one thread at a time may use a backend. ERR_CONFIG: the precision is unknown, or
 * n_threads < 1. ERR_UNSUPPORTED: the text names the instructions or the library that
 * is missing.
 *
 * While other programs use the processors, a backend of several threads computes on one
 * (team.h), and the other threads sleep. A short GOMP_SPINCOUNT (the program sets it)
 * lets waiting threads sleep soon; if they sleep at once, a token takes five times as
 * long. To train two paths on two cores, start two processes of one thread each.
 *
 * OpenBLAS is loaded by the first backend that needs it, and obeys OPENBLAS_CORETYPE
 * and OPENBLAS_NUM_THREADS then. A program should unset the first and set the second to
 * 1 before (pathloom does): a core type may name an older machine, and a thread that
 * OpenBLAS starts spins for 0.1 s. If OpenBLAS does not know the processor, the backend
 * makes it load better kernels (gemm_blas.c). The device text names the kernels.
 * PATHLOOM_CPU (base/isa.h) limits the instruction set of all kernels, also of those of
 * OpenBLAS and oneDNN. */
pl_status cpu_backend_create(const pl_backend_options *options, const char *isa,
                             pl_backend **out);
void cpu_backend_destroy(pl_backend **backend);

PL_C_END
