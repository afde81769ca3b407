/* The optimizer: the sum of squares of the gradient, and AdamW (arXiv:1711.05101).
 * AdamW makes one pass over parameters, gradients and both moments, which also writes
 * the compute copies of weights, or clears the gradients of other parameters. */
#include "modules/cpu/ops_cpu.h"
#include "modules/cpu/simd.h"

/* CHUNK, of the squares, is part of the order of a sum; PART, of AdamW, is not. */
enum { CHUNK = 1 << 14, PART = 1 << 12, RUN = 1 << 10, STREAMS = 4 };

/* Each RUN of squares is summed in single precision, and the runs in double. */
double OP(chunk_squares)(const float *g, size_t n)
{
    double all = 0;
    for (size_t first = 0; first < n; first += RUN) {
        const size_t end = n - first < RUN ? n : first + RUN;
        vfloat sum[STREAMS] = {{0}};
        size_t i = first;
        for (; i + STREAMS * LANES <= end; i += STREAMS * LANES)
            for (int s = 0; s < STREAMS; s++) {
                const vfloat x = v_load(g + i + (size_t)(s * LANES));
                sum[s] += x * x;
            }
        for (; i < end; i += LANES) {
            const vfloat x = v_load_n(g + i, end - i < LANES ? (int)(end - i) : LANES);
            sum[0] += x * x;
        }
        all += (double)v_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
    }
    return all;
}

void OP(sum_squares)(pl_backend *be, double *out, const float *g, size_t n)
{
    const size_t n_chunks = (n + CHUNK - 1) / CHUNK;
    double *parts = cpu_scratch(cpu_self(be), (n_chunks + 1) * sizeof *parts);
    *out = 0;
    if (parts == NULL)
        return;
#pragma omp parallel for schedule(static) num_threads(cpu_threads(be->n_threads))
    for (size_t c = 0; c < n_chunks; c++) {
        const size_t left = n - c * CHUNK;
        parts[c] = OP(chunk_squares)(g + c * CHUNK, left < CHUNK ? left : CHUNK);
    }
    for (size_t c = 0; c < n_chunks; c++)
        *out += parts[c];
}

/* The constants of AdamW's equation, computed once per call. */
typedef struct rates {
    float lr, beta1, beta2, eps, decay, grad_scale;
    float m_scale, v_scale; /* 1/(1-beta1^t), 1/(1-beta2^t) for step t */
} rates;

/* Parameters that are updated, and where their compute copy begins in `copy`, bf16. */
typedef struct stretch {
    float *p, *m, *v, *g;
    pl_act *copy; /* NULL: there is none */
    size_t copy_at;
    bool clears; /* whether gradients become zero */
} stretch;

ALWAYS_INLINE void step_lanes(const stretch *s, size_t i, int n, const rates *r,
                              const bool copies, const bool clears)
{
    float *p = s->p + i, *m = s->m + i, *v = s->v + i, *g = s->g + i;
    const vfloat grad = v_load_n(g, n) * r->grad_scale;
    const vfloat old = v_load_n(p, n);
    const vfloat mean = v_load_n(m, n) * r->beta1 + grad * (1.0f - r->beta1);
    const vfloat square = v_load_n(v, n) * r->beta2 + grad * grad * (1.0f - r->beta2);
    const vfloat step = mean * r->m_scale / (v_sqrt(square * r->v_scale) + r->eps);
    const vfloat next = old - (step + old * r->decay) * r->lr;
    v_store_n(m, mean, n);
    v_store_n(v, square, n);
    v_store_n(p, next, n);
    if (copies)
        v_store_act(s->copy, s->copy_at + i, next, n, PL_BF16);
    if (clears)
        v_store_n(g, (vfloat){0}, n);
}

ALWAYS_INLINE void step_some(const stretch *s, size_t first, size_t end, const rates *r,
                             const bool copies, const bool clears)
{
    size_t i = first;
    for (; i + LANES <= end; i += LANES)
        step_lanes(s, i, LANES, r, copies, clears);
    if (i < end)
        step_lanes(s, i, (int)(end - i), r, copies, clears);
}

static void step_part(const stretch *s, size_t first, size_t end, const rates *r)
{
    if (s->copy != NULL)
        step_some(s, first, end, r, true, false);
    else if (s->clears)
        step_some(s, first, end, r, false, true);
    else
        step_some(s, first, end, r, false, false);
}

void OP(adamw)(pl_backend *be, float *p, float *m, float *v, float *g, size_t n,
               float grad_scale, const pl_adamw *adam, const pl_weight *w)
{
    const size_t n_parts = (n + PART - 1) / PART;
    const stretch s = {.p = p,
                       .m = m,
                       .v = v,
                       .g = g,
                       .copy = w != NULL ? w->copy : NULL,
                       .copy_at = w != NULL ? (size_t)(p - w->master) : 0,
                       .clears = w == NULL};
    const double t = (double)adam->step;
    const rates r = {.lr = adam->lr,
                     .beta1 = adam->beta1,
                     .beta2 = adam->beta2,
                     .eps = adam->eps,
                     .decay = adam->weight_decay,
                     .grad_scale = grad_scale,
                     .m_scale = (float)(1.0 / (1.0 - pow((double)adam->beta1, t))),
                     .v_scale = (float)(1.0 / (1.0 - pow((double)adam->beta2, t)))};
#pragma omp parallel for schedule(static) num_threads(cpu_threads(be->n_threads))
    for (size_t c = 0; c < n_parts; c++)
        step_part(&s, c * PART, c + 1 < n_parts ? (c + 1) * PART : n, &r);
}
