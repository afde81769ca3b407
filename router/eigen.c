/* Computes eigenvectors by the cyclic Jacobi method (Golub & Van Loan 2013, section
 * 8.5). The method is slow for large matrices, but accurate and short, and gives the
 * same bits every time. */
#include "router/eigen.h"
#include <math.h>

enum { SWEEPS_MAX = 30 };

/* Rotates two vectors: x = c x - s y, y = s x + c y. Each vector has n elements, and
 * `stride` is the distance between adjacent elements in memory. */
static void turn_vectors(double *x, double *y, size_t n, size_t stride, double c,
                         double s)
{
    for (size_t k = 0; k < n * stride; k += stride) {
        double old = x[k];
        x[k] = c * old - s * y[k];
        y[k] = s * old + c * y[k];
    }
}

static void swap_vectors(double *x, double *y, size_t n)
{
    for (size_t k = 0; k < n; ++k) {
        double old = x[k];
        x[k] = y[k];
        y[k] = old;
    }
}

void eigen_symmetric(double *a, size_t n, double *values, double *vectors)
{
    double scale = 0.0;
    size_t n_rotations = 1;
    memset(vectors, 0, n * n * sizeof *vectors);
    for (size_t i = 0; i < n; ++i) {
        vectors[i * n + i] = 1.0;
        scale = fmax(scale, fabs(a[i * n + i]));
    }
    for (int sweep = 0; sweep < SWEEPS_MAX && n_rotations > 0; ++sweep) {
        n_rotations = 0;
        for (size_t i = 0; i < n; ++i)
            for (size_t j = i + 1; j < n; ++j)
                if (fabs(a[i * n + j]) > 1e-14 * scale) {
                    /* rotates axes i and j so that a[i,j] becomes zero */
                    double theta = (a[j * n + j] - a[i * n + i]) / (2.0 * a[i * n + j]);
                    double t = (theta >= 0.0 ? 1.0 : -1.0) /
                               (fabs(theta) + sqrt(theta * theta + 1.0));
                    double c = 1.0 / sqrt(t * t + 1.0), s = t * c;
                    turn_vectors(a + i, a + j, n, n, c, s);
                    turn_vectors(a + i * n, a + j * n, n, 1, c, s);
                    turn_vectors(vectors + i * n, vectors + j * n, n, 1, c, s);
                    ++n_rotations;
                }
    }
    for (size_t i = 0; i < n; ++i)
        values[i] = a[i * n + i];
    for (size_t i = 0; i < n; ++i) {
        size_t greatest = i;
        for (size_t j = i + 1; j < n; ++j)
            if (values[j] > values[greatest])
                greatest = j;
        if (greatest == i)
            continue;
        swap_vectors(values + i, values + greatest, 1);
        swap_vectors(vectors + i * n, vectors + greatest * n, n);
    }
}
