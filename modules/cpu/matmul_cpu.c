/* Linear layers: makes the compute copies of weights, and computes the three products
 * of a layer (out, dx, dw). */
#include "modules/cpu/ops_cpu.h"
#include <math.h>

/* Returns the number of bytes between rows of an int8 copy. */
static size_t weight_stride(int I)
{
    return ((size_t)I + CPU_BYTE_GROUP - 1) / CPU_BYTE_GROUP * CPU_BYTE_GROUP;
}

/* Allocates only the copy that this backend multiplies by. */
pl_status cpu_weight_create(pl_backend *be, const float *master, int O, int I,
                            pl_weight **out)
{
    pl_status status = PL_OK;
    const size_t n = (size_t)O * (size_t)I;
    *out = NULL;
    pl_weight *w = pl_alloc(sizeof *w);
    *w = (pl_weight){.master = master, .O = O, .I = I};
    if (be->decode_only) {
        const size_t bytes = cpu_lines((size_t)O * weight_stride(I));
        void *block = NULL;
        PL_TRY(pl_try_alloc(bytes + (size_t)O * sizeof(float),
                            "the int8 copy of a weight", &block));
        w->bytes = block;
        w->scales = (float *)(void *)(w->bytes + bytes);
    } else if (be->act == PL_BF16) {
        PL_TRY(pl_try_alloc(n * pl_type_bytes(be->act), "the bf16 copy of a weight",
                            &w->copy));
    }
    *out = w;
    return PL_OK;
done:
    pl_free(w);
    return status;
}

void cpu_weight_destroy(pl_backend *be, pl_weight **weight)
{
    (void)be;
    if (*weight == NULL)
        return;
    pl_free_all((*weight)->copy, (*weight)->bytes, *weight);
    *weight = NULL;
}

void cpu_weights_refresh(pl_backend *be, pl_weight *const *weights, int n)
{
    for (int i = 0; i < n; i++) {
        const pl_weight *w = weights[i];
        if (w->bytes == NULL) {
            if (w->copy != NULL)
                be->ops->act_from_float(be, w->copy, w->master,
                                        (size_t)w->O * (size_t)w->I);
            continue;
        }
        /* In int8 each row is divided by a scale, 1/127 of its largest absolute value,
         * and rounded; 128 is added to the result. The padding of rows is later
         * multiplied by zeros, so it is not written. */
        for (size_t o = 0; o < (size_t)w->O; o++) {
            const float *row = w->master + o * (size_t)w->I;
            uint8_t *to = w->bytes + o * weight_stride(w->I);
            float most = 0;
            for (int k = 0; k < w->I; k++)
                most = fabsf(row[k]) > most ? fabsf(row[k]) : most;
            const float inverse = most > 0 ? 127.0f / most : 0;
            w->scales[o] = most / 127.0f;
            for (int k = 0; k < w->I; k++)
                to[k] = (uint8_t)(lrintf(row[k] * inverse) + 128);
        }
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
                   int N, int O, int I, bool accumulate)
{
    const gemm_call call = {GEMM_TN, O, I, N, PL_F32, accumulate};
    cpu_gemm(cpu_self(be), &call, dw, dout, x);
}

void cpu_logits(pl_backend *be, float *out, const pl_act *x, const pl_weight *w, int N,
                int V, int C)
{
    const gemm_call call = {GEMM_NT, N, V, C, PL_F32, false};
    cpu_gemm(cpu_self(be), &call, out, x, cpu_weight_data(w));
}
