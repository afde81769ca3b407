/* Which instruction set of the processor the kernels of this process use.
 *
 * Kernels choose themselves by pl_isa_newest when they are first used. PATHLOOM_CPU in
 * the environment names an older instruction set than the machine's: with this a
 * machine trains the bytes of an older one, or tests the kernels of older ones. It
 * holds for the kernels of this program and for OpenBLAS and oneDNN (modules/cpu). It
 * does not hold for functions that give the same bytes with every instruction set and
 * that the loader or a library chooses (codec/codec_internal.h, XXH3, zstd, the C
 * library). */
#pragma once
#include "base/status.h"
PL_C_BEGIN

/* Oldest first; each one contains those before it. */
typedef enum pl_isa {
    PL_ISA_PORTABLE,
    PL_ISA_AVX2,   /* and FMA */
    PL_ISA_AVX512, /* F, BW, VL and DQ */
    PL_ISA_AVX512_VNNI,
    PL_ISA_AVX512_BF16, /* and AMX and AVX512-FP16 if the machine has them */
    PL_ISA_COUNT
} pl_isa;

/* Before a function: compiles it for PL_ISA_AVX2, but without FMA. Changes nothing if
 * the processor is not x86-64; there pl_isa_newest returns PL_ISA_PORTABLE. */
#if defined(__x86_64__)
#define PL_AVX2 __attribute__((target("avx2")))
#else
#define PL_AVX2
#endif

extern const char *const pl_isa_names[PL_ISA_COUNT];

/* Returns the newest instruction set that this machine has. */
pl_isa pl_isa_machine(void);

/* Returns the newest instruction set that kernels may use: that of the machine, or the
 * one that PATHLOOM_CPU names, whichever is older. Later changes of the environment
 * have no effect. */
pl_isa pl_isa_newest(void);

/* ERR_USAGE if PATHLOOM_CPU has a value that is not the name of an instruction set. */
pl_status pl_isa_check(void);

PL_C_END
