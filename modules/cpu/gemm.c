/* Chooses the library that multiplies matrices: OpenBLAS for f32, oneDNN for bf16. */
#include "modules/cpu/gemm.h"

bool gemm_has_bf16(void)
{
#ifdef PL_HAVE_DNNL
    return true;
#else
    return false;
#endif
}

pl_status cpu_block_grow(cpu_block *block, size_t bytes, const char *what)
{
    if (bytes <= block->bytes)
        return PL_OK;
    pl_free(block->data);
    *block = (cpu_block){NULL, 0};
    PL_CHECK(pl_try_alloc(bytes, what, &block->data));
    block->bytes = bytes;
    return PL_OK;
}

/* f32 uses OpenBLAS if the build has it: oneDNN 2.6 loses up to half of its speed in
 * f32 if operands are transposed and K is long. bf16 uses oneDNN, because OpenBLAS does
 * not support bf16. */
pl_status gemm_open(pl_type type, int n_threads, gemm **out)
{
    *out = NULL;
#ifdef PL_HAVE_OPENBLAS
    if (type == PL_F32)
        return gemm_blas_open(n_threads, out);
#endif
#ifdef PL_HAVE_DNNL
    return gemm_dnnl_open(type, n_threads, out);
#else
    (void)n_threads;
    return pl_fail(
        PL_ERR_UNSUPPORTED,
        "this build cannot multiply %s matrices: build with OpenBLAS or oneDNN",
        type == PL_F32 ? "f32" : "bf16");
#endif
}
