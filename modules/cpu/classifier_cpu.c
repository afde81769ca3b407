/* The last linear layer together with cross-entropy, for ROWS rows at a time. It
 * computes the logits in scratch memory in fp32, then their gradient in the type of
 * activations, then the two products of the backward pass. The logits of these rows and
 * the weights stay in the last-level cache.
 *
 * dw is larger than the caches, so our own tiles compute it for MORE rows at once: then
 * it is written once and not once for every ROWS rows. Its sums are still those of ROWS
 * rows each. */
#include "modules/cpu/ops_cpu.h"
#include "modules/cpu/simd.h"

enum { ROWS = 256, MORE = 4 * ROWS };

ALWAYS_INLINE void row_scale(pl_act *out, size_t at, const float *row, float scale,
                             int V, const pl_type type)
{
    for (int v = 0; v < V; v += LANES) {
        const int left = v_left(v, V);
        v_store_act(out, at + (size_t)v, v_load_n(row + v, left) * scale, left, type);
    }
}

/* Writes the loss of row n. If `dlogits` is given, writes scale * softmax to it, minus
 * `scale` at the target. Each value, including that of the target, is rounded only
 * once. */
static void softmax_row(float *loss, pl_act *dlogits, float *logits, int n,
                        int32_t target, float scale, int V, pl_type type)
{
    const size_t at = (size_t)n * (size_t)V;
    float *row = logits + at;
    *loss = 0;
    if (target < 0) {
        if (dlogits != NULL)
            memset(act_at(dlogits, at, type), 0, (size_t)V * pl_type_bytes(type));
        return;
    }
    vfloat most = v_set(-INFINITY), sums = {0};
    int v = 0;
    for (; v + LANES <= V; v += LANES)
        most = v_max(most, v_load(row + v));
    float largest = v_largest(most);
    for (; v < V; v++)
        largest = row[v] > largest ? row[v] : largest;
    const float shift = largest * LOG2_E, score = row[target];
    /* replaces each x in the row by 2^(x log2e - shift) */
    for (v = 0; v < V; v += LANES) {
        const int left = v_left(v, V);
        vfloat e = v_exp2(v_load_n(row + v, left) * LOG2_E - shift);
        if (left < LANES)
            e = v_keep(e, v_below(left));
        sums += e;
        v_store_n(row + v, e, left);
    }
    const float sum = v_sum(sums);
    *loss = logf(sum) + (shift * LN_2 - score);
    if (dlogits == NULL)
        return;
    row[target] -= sum;
    if (type == PL_BF16)
        row_scale(dlogits, at, row, scale / sum, V, PL_BF16);
    else
        row_scale(dlogits, at, row, scale / sum, V, PL_F32);
}

void OP(classifier)(pl_backend *be, float *loss, pl_act *dx, float *dw, const pl_act *x,
                    const pl_weight *w, const int32_t *targets, const float *scale,
                    int N, int V, int C, bool accumulate)
{
    cpu_state *self = cpu_self(be);
    const int most = self->own_dw ? MORE : ROWS, keep = N < most ? N : most;
    const size_t logits_bytes = (size_t)ROWS * (size_t)V * sizeof(float);
    const size_t row_bytes = (size_t)V * pl_type_bytes(be->act);
    char *scratch =
        cpu_scratch(self, logits_bytes + (dx != NULL ? (size_t)keep * row_bytes : 0));
    if (scratch == NULL)
        return;
    float *logits = (float *)(void *)scratch;
    for (int n0 = 0; n0 < N; n0 += ROWS) {
        const int rows = N - n0 < ROWS ? N - n0 : ROWS, kept = n0 % keep;
        const size_t at = (size_t)n0 * (size_t)C;
        pl_act *dlogits =
            dx != NULL
                ? (pl_act *)(void *)(scratch + logits_bytes + (size_t)kept * row_bytes)
                : NULL;
        cpu_logits(be, logits, act_in(x, at, be->act), w, rows, V, C);
#pragma omp parallel for schedule(static) num_threads(cpu_threads(be->n_threads))
        for (int n = 0; n < rows; n++)
            softmax_row(loss + n0 + n, dlogits, logits, n, targets[n0 + n],
                        dx != NULL ? *scale : 0.0f, V, be->act);
        if (dx == NULL)
            continue;
        cpu_matmul_dx(be, act_at(dx, at, be->act), dlogits, w, rows, V, C, false);
        if (kept + rows < keep && n0 + rows < N)
            continue;
        const int first = n0 - kept;
        const pl_act *in = act_in(x, (size_t)first * (size_t)C, be->act);
        const pl_act *all = (const pl_act *)(const void *)(scratch + logits_bytes);
        if (self->own_dw)
            OP(sum_dw)
        (be, dw, all, in, kept + rows, V, C, ROWS, accumulate || first > 0);
        else cpu_matmul_dw(be, dw, all, in, kept + rows, V, C, accumulate || first > 0);
    }
}
