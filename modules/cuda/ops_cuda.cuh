/* The cuda backend's state and operations. The equations stand in modules/ops.h; each
 * file here is one of them, opposite to the one of the same stem in ref/ and cpu/. */
#ifndef PL_MODULES_CUDA_OPS_CUDA_CUH
#define PL_MODULES_CUDA_OPS_CUDA_CUH
#include "modules/backend.h"
#include "modules/cuda/acts.cuh"

struct cuda_state {
    pl_backend backend;
    cudaStream_t stream; /* of all operations */
};

static inline cuda_state *cuda_self(pl_backend *be)
{
    return static_cast<cuda_state *>(be->self);
}
static inline cudaStream_t cuda_stream(pl_backend *be)
{
    return cuda_self(be)->stream;
}
static inline act *cuda_acts(pl_act *acts)
{
    return reinterpret_cast<act *>(acts);
}
static inline const act *cuda_acts(const pl_act *acts)
{
    return reinterpret_cast<const act *>(acts);
}

void cuda_rmsnorm_forward(pl_backend *be, pl_act *out, float *rstd, pl_act *x,
                          const pl_act *residual, const float *w, int N, int C,
                          float eps);

#endif
