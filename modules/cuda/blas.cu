/* Finds the functions of cuBLASLt. In a build with the emulation they are part of the
 * program; otherwise they are looked up in NVIDIA's library when it is loaded. */
#include "modules/cuda/blas.h"
#ifdef __CUDACC__
#include <dlfcn.h>

/* cuBLAS has the same major number as the toolkit. */
#define TEXT_(x)  #x
#define TEXT(x)   TEXT_(x)
#define BLAS_NAME "libcublasLt.so." TEXT(CUBLAS_VER_MAJOR)

static pl_status look_up(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
    if (found)
        return PL_OK;
    return pl_fail(PL_ERR_UNSUPPORTED,
                   "%s has no function %s; install the cuBLAS of the CUDA toolkit with "
                   "which this program was built",
                   BLAS_NAME, name);
}

pl_status blas_load(blas *out)
{
    /* The system's folders come first, then the toolkit that compiled this file. */
    void *library = dlopen(BLAS_NAME, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        library = dlopen(PL_CUDA_LIBRARIES "/" BLAS_NAME, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return pl_fail(PL_ERR_UNSUPPORTED,
                       "cuBLAS is missing (%s); install it or choose backend cpu",
                       dlerror());
#define BLAS_LOOK_UP(name) PL_CHECK(look_up(library, #name, &out->name));
    BLAS_FUNCTIONS(BLAS_LOOK_UP)
#undef BLAS_LOOK_UP
    return PL_OK;
}
#undef BLAS_NAME
#undef TEXT
#undef TEXT_
#else
pl_status blas_load(blas *out)
{
#define BLAS_TAKE(name) out->name = ::name;
    BLAS_FUNCTIONS(BLAS_TAKE)
#undef BLAS_TAKE
    return PL_OK;
}
#endif
