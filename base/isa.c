/* Finds the instruction set of the processor, and obeys PATHLOOM_CPU. */
#include "base/isa.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const char variable[] = "PATHLOOM_CPU";
const char *const pl_isa_names[PL_ISA_COUNT] = {"portable", "avx2", "avx512",
                                                "avx512_vnni", "avx512_bf16"};

pl_isa pl_isa_machine(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return PL_ISA_PORTABLE;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq"))
        return PL_ISA_AVX2;
    if (!__builtin_cpu_supports("avx512vnni"))
        return PL_ISA_AVX512;
    return __builtin_cpu_supports("avx512bf16") ? PL_ISA_AVX512_BF16
                                                : PL_ISA_AVX512_VNNI;
#else
    return PL_ISA_PORTABLE;
#endif
}

/* Returns the instruction set that PATHLOOM_CPU names, or PL_ISA_COUNT. */
static pl_isa named_isa(void)
{
    const char *name = getenv(variable);
    int i = 0;
    while (i < PL_ISA_COUNT && (!name || strcmp(name, pl_isa_names[i]) != 0))
        i++;
    return (pl_isa)i;
}

/* Kept, because the environment may change later (modules/cpu/gemm_blas.c). */
pl_isa pl_isa_newest(void)
{
    static _Atomic int known; /* 0: not yet known; else the result + 1 */
    int newest = atomic_load(&known) - 1;
    if (newest < 0) {
        const pl_isa machine = pl_isa_machine(), named = named_isa();
        newest = (int)(named < machine ? named : machine);
        atomic_store(&known, newest + 1);
    }
    return (pl_isa)newest;
}

pl_status pl_isa_check(void)
{
    const char *name = getenv(variable);
    if (!name || name[0] == '\0' || named_isa() < PL_ISA_COUNT)
        return PL_OK;
    return pl_fail(PL_ERR_USAGE,
                   "%s in the environment is `%.64s`, which is not an instruction set; "
                   "set it to portable, avx2, avx512, avx512_vnni or avx512_bf16, or "
                   "remove it",
                   variable, name);
}
