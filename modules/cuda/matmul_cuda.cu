/* Products with weights: cuBLASLt's (gemm_cuda.h) on the compute copies. */
#include "modules/cuda/ops_cuda.cuh"

static void multiply(pl_backend *be, const gemm_call *call)
{
    cuda_state *self = cuda_self(be);
    cuda_note_failure(self, gemm_cuda_run(self->gemm, call, self->stream));
}

void cuda_matmul_forward(pl_backend *be, pl_act *out, const pl_act *x,
                         const pl_weight *w, int N, int O, int I)
{
    const gemm_call call = {GEMM_NT, N, O, I, PL_BF16, false, out, x, w->copy};
    multiply(be, &call);
}

void cuda_matmul_dx(pl_backend *be, pl_act *dx, const pl_act *dout, const pl_weight *w,
                    int N, int O, int I, bool accumulate)
{
    const gemm_call call = {GEMM_NN, N, I, O, PL_BF16, accumulate, dx, dout, w->copy};
    multiply(be, &call);
}

void cuda_matmul_dw(pl_backend *be, float *dw, const pl_act *dout, const pl_act *x,
                    int N, int O, int I)
{
    const gemm_call call = {GEMM_TN, O, I, N, PL_F32, true, dw, dout, x};
    multiply(be, &call);
}

void cuda_logits(pl_backend *be, float *out, const pl_act *x, const pl_weight *w, int N,
                 int V, int C)
{
    const gemm_call call = {GEMM_NT, N, V, C, PL_F32, false, out, x, w->copy};
    multiply(be, &call);
}
