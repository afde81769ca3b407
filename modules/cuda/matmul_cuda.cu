/* Products with weights. If the activations have only a few rows, our own kernels
 * (matvec_cuda.cu, rows_cuda.cu) multiply them; otherwise cuBLASLt does (gemm_cuda.h).
 */
#include "modules/cuda/ops_cuda.cuh"

void cuda_multiply(pl_backend *be, const gemm_call *call)
{
    cuda_state *self = cuda_self(be);
    cuda_note_failure(self, gemm_cuda_run(self->gemm, call, self->stream));
}

/* Computes `out` (or `wide` if `out` is NULL) if one of our own kernels can multiply
 * this number of rows; else returns false. */
static bool multiply_few(pl_backend *be, pl_act *out, float *wide, const pl_act *x,
                         const pl_weight *w, int N)
{
    if (N <= CUDA_MATVEC_ROWS)
        cuda_matvec(be, out, wide, x, w, N);
    else if (w->bytes && N <= CUDA_ROWS_MAX && acts_width(w->I) == ACTS_WIDE)
        cuda_rows(be, out, wide, x, w, N);
    else
        return false;
    return true;
}

static void multiply_forward(pl_backend *be, void *out, pl_type type, const pl_act *x,
                             const pl_weight *w, int N)
{
    gemm_call call = {GEMM_NT, N, w->O, w->I, type, false, out, x, w->copy};
    if (w->bytes)
        call.b = cuda_bytes_decode(be, w);
    if (call.b)
        cuda_multiply(be, &call);
}

void cuda_matmul_forward(pl_backend *be, pl_act *out, const pl_act *x,
                         const pl_weight *w, int N, int, int)
{
    if (!multiply_few(be, out, NULL, x, w, N))
        multiply_forward(be, out, PL_BF16, x, w, N);
}

void cuda_matmul_dx(pl_backend *be, pl_act *dx, const pl_act *dout, const pl_weight *w,
                    int N, int O, int I, bool accumulate)
{
    const gemm_call call = {GEMM_NN, N, I, O, PL_BF16, accumulate, dx, dout, w->copy};
    cuda_multiply(be, &call);
}

void cuda_matmul_dw(pl_backend *be, float *dw, const pl_act *dout, const pl_act *x,
                    int N, int O, int I, bool accumulate)
{
    const gemm_call call = {GEMM_TN, O, I, N, PL_F32, accumulate, dw, dout, x};
    cuda_multiply(be, &call);
}

void cuda_logits(pl_backend *be, float *out, const pl_act *x, const pl_weight *w, int N,
                 int, int)
{
    if (!multiply_few(be, NULL, out, x, w, N))
        multiply_forward(be, out, PL_F32, x, w, N);
}

/* ---- the copies ---- */

/* Allocates the copy. With int8 it is one block: the bytes, then the scales from the
 * next multiple of 256 bytes on. */
static pl_status place_copy(pl_backend *be, pl_weight *w)
{
    const size_t bytes = (size_t)w->O * cuda_bytes_stride(w->I);
    const size_t all = be->decode_only
                           ? cuda_lines(bytes) + (size_t)w->O * sizeof(float)
                           : w->n * sizeof(act);
    void *memory = NULL;
    PL_CHECK(be->ops->alloc(be, all, "a compute copy of a matrix", &memory));
    if (be->decode_only) {
        w->bytes = static_cast<int8_t *>(memory);
        w->scales = reinterpret_cast<float *>(w->bytes + cuda_lines(bytes));
    } else {
        w->copy = static_cast<act *>(memory);
    }
    return PL_OK;
}

pl_status cuda_weight_create(pl_backend *be, const float *master, int O, int I,
                             pl_weight **out)
{
    pl_weight *w = static_cast<pl_weight *>(pl_alloc(sizeof *w));
    w->master = master;
    w->n = (size_t)O * (size_t)I;
    w->O = O;
    w->I = I;
    const pl_status status = place_copy(be, w);
    if (status != PL_OK)
        pl_free(w);
    *out = status == PL_OK ? w : NULL;
    return status;
}

void cuda_weight_destroy(pl_backend *be, pl_weight **weight)
{
    pl_weight *w = *weight;
    if (!w)
        return;
    be->ops->release(be, w->bytes ? static_cast<void *>(w->bytes) : w->copy);
    pl_free(w);
    *weight = NULL;
}

void cuda_weights_refresh(pl_backend *be, pl_weight *const *weights, int n)
{
    for (int i = 0; i < n; i++) {
        pl_weight *w = weights[i];
        if (w->bytes)
            cuda_bytes_encode(be, w);
        else
            cuda_act_from_float(be, reinterpret_cast<pl_act *>(w->copy), w->master,
                                w->n);
    }
}
