/* Linear layers: makes the compute copies of weights, and computes the three products
 * of a layer (out, dx, dw). */
#include "modules/cpu/ops_cpu.h"

/* Allocates for a weight only the copy that this backend multiplies by. */
static pl_status alloc_weight_copy(const pl_backend *be, pl_weight *w)
{
    const size_t bf16 = (size_t)w->O * (size_t)w->I * pl_type_bytes(be->act);
    const size_t bytes = cpu_lines((size_t)w->O * cpu_weight_stride(w));
    void *block = NULL;
    if (!be->decode_only)
        return be->act == PL_BF16
                   ? pl_try_alloc(bf16, "the bf16 copy of a weight", &w->copy)
                   : PL_OK;
    PL_CHECK(pl_try_alloc(bytes + (size_t)w->O * sizeof(float),
                          "the int8 copy of a weight", &block));
    w->bytes = block;
    w->scales = (float *)(void *)(w->bytes + bytes);
    return PL_OK;
}

pl_status cpu_weight_create(pl_backend *be, const float *master, int O, int I,
                            pl_weight **out)
{
    *out = NULL;
    pl_weight *weight = pl_alloc(sizeof *weight);
    *weight = (pl_weight){.master = master, .O = O, .I = I};
    pl_status status = alloc_weight_copy(be, weight);
    if (status != PL_OK) {
        pl_free(weight);
        return status;
    }
    *out = weight;
    return PL_OK;
}

void cpu_weight_destroy(pl_backend *be, pl_weight **weight)
{
    (void)be;
    if (*weight == NULL)
        return;
    pl_free_aligned((*weight)->copy);
    pl_free_aligned((*weight)->bytes);
    pl_free(*weight);
    *weight = NULL;
}

void cpu_weights_refresh(pl_backend *be, pl_weight *const *weights, int n)
{
    for (int i = 0; i < n; i++) {
        const pl_weight *w = weights[i];
        if (w->bytes != NULL)
            cpu_weight_encode(w);
        else if (w->copy != NULL)
            be->ops->act_from_float(be, w->copy, w->master,
                                    (size_t)w->O * (size_t)w->I);
    }
}

void cpu_matmul_forward(pl_backend *be, pl_act *out, const pl_act *x,
                        const pl_weight *w, int N, int O, int I)
{
    const gemm_call call = {GEMM_NT, N, O, I, be->act, false};
    cpu_gemm(cpu_self(be), &call, out, x, cpu_weight_data(w));
}

void cpu_matmul_dx(pl_backend *be, pl_act *dx, const pl_act *dout, const pl_weight *w,
                   int N, int O, int I, bool accumulate)
{
    const gemm_call call = {GEMM_NN, N, I, O, be->act, accumulate};
    cpu_gemm(cpu_self(be), &call, dx, dout, cpu_weight_data(w));
}

void cpu_matmul_dw(pl_backend *be, float *dw, const pl_act *dout, const pl_act *x,
                   int N, int O, int I)
{
    const gemm_call call = {GEMM_TN, O, I, N, PL_F32, true};
    cpu_gemm(cpu_self(be), &call, dw, dout, x);
}

void cpu_logits(pl_backend *be, float *out, const pl_act *x, const pl_weight *w, int N,
                int V, int C)
{
    const gemm_call call = {GEMM_NT, N, V, C, PL_F32, false};
    cpu_gemm(cpu_self(be), &call, out, x, cpu_weight_data(w));
}
