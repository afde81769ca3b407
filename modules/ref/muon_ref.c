/* Muon: momentum, then the nearest semi-orthogonal matrix by Newton-Schulz (ops.h).
 *
 * The matrix x [S,L] is X or its transpose, whichever has fewer rows: S = min(O,I). So
 * x x^T replaces the X^T X of the equation, all inner loops run along rows, and the S x
 * S products are as small as possible. */
#include "modules/ref/ref.h"
#include <math.h>

typedef struct newton_schulz {
    float *x, *y;      /* [S,L]: the current matrix, and the next one */
    float *gram, *mix; /* [S,S] */
    int S, L;
} newton_schulz;

/* Computes x = a x + (b G + c G G) x with G = x x^T. */
static void iterate(newton_schulz *s)
{
    const float q[3] = PL_MUON_QUINTIC;
    const size_t S = (size_t)s->S, L = (size_t)s->L;
    for (size_t i = 0; i < S; i++)
        for (size_t j = 0; j < S; j++)
            s->gram[i * S + j] = ref_dot(s->x + i * L, s->x + j * L, s->L);
    for (size_t i = 0; i < S; i++)
        for (size_t j = 0; j < S; j++) /* G is symmetric */
            s->mix[i * S + j] = q[1] * s->gram[i * S + j] +
                                q[2] * ref_dot(s->gram + i * S, s->gram + j * S, s->S);
    for (size_t i = 0; i < S; i++) {
        for (size_t l = 0; l < L; l++)
            s->y[i * L + l] = q[0] * s->x[i * L + l];
        for (size_t j = 0; j < S; j++)
            ref_axpy(s->y + i * L, s->mix[i * S + j], s->x + j * L, s->L);
    }
    float *done = s->x;
    s->x = s->y;
    s->y = done;
}

/* Returns where x has element i of a matrix [O,I]. */
static size_t wide_index(size_t i, int O, int I)
{
    return O <= I ? i : i % (size_t)I * (size_t)O + i / (size_t)I;
}

void ref_muon(pl_backend *be, float *p, float *m, float *g, float *work, int n, int O,
              int I, float grad_scale, const pl_adamw *adam)
{
    const size_t size = (size_t)O * (size_t)I, S = (size_t)(O < I ? O : I);
    const float mu = PL_MUON_MOMENTUM;
    const float scale = PL_MUON_SCALE * sqrtf((float)(O < I ? I : O));
    for (int k = 0; k < n; k++, p += size, m += size, g += size) {
        newton_schulz s = {.x = work,
                           .y = work + size,
                           .gram = work + 2 * size,
                           .mix = work + 2 * size + S * S,
                           .S = (int)S,
                           .L = O < I ? I : O};
        double squares;
        for (size_t i = 0; i < size; i++) {
            float gradient = g[i] * grad_scale;
            m[i] = mu * m[i] + (1.0f - mu) * gradient;
            g[i] = mu * m[i] + (1.0f - mu) * gradient;
        }
        /* x = u / (|u| + tiny), transposed if u [O,I] is tall */
        ref_sum_squares(be, &squares, g, size);
        const float inverse = (float)(1.0 / (sqrt(squares) + (double)PL_MUON_TINY));
        for (size_t i = 0; i < size; i++)
            s.x[wide_index(i, O, I)] = g[i] * inverse;
        for (int i = 0; i < PL_MUON_ITERATIONS; i++)
            iterate(&s);
        for (size_t i = 0; i < size; i++) {
            float step = scale * s.x[wide_index(i, O, I)];
            p[i] -= adam->lr * (step + adam->weight_decay * p[i]);
            g[i] = 0.0f;
        }
    }
}
