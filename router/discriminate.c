/* Fits rows W [k, dim + 1] so that softmax(W [z, 1]) predicts which class scores a
 * point best: the discriminative router of DiPaCo (section 2.4.2), where the classes
 * are paths and the scores are their log likelihoods of documents.
 *
 *   f(W) = mean over points of -sum_c target[c] log softmax(W [z, 1])[c]
 *          + decay/2 |W without its last column|^2
 *
 * Here z is a point, and [z, 1] is the point with a 1 appended. f is convex, so the
 * start does not matter, and W begins as zero. The method is accelerated gradient
 * descent (Nesterov 1983) with steps of gradient / L. L should be the largest curvature
 * of f. An upper bound of the curvature is half of the mean of |[z, 1]|^2, plus decay.
 * But this bound is much too large, because points do not all lie in one direction. So
 * L begins at the bound divided by GUESS. Whenever f rises, L doubles, up to the bound,
 * and the momentum restarts at zero (O'Donoghue and Candes 2015).
 *
 * The result has the same bytes for any number of threads: each thread computes whole
 * points or whole rows, and every sum is added in the order of the points, in
 * double. */
#include "router/discriminate.h"
#include <math.h>

enum { POINTS_A_ITEM = 256, GUESS = 16 };

typedef struct descent {
    const discriminate_job *job;
    size_t columns;    /* dim + 1 */
    double *residuals; /* [n, k] softmax - target, computed at `at` */
    double *losses;    /* [n] cross-entropy of each point, computed at `at` */
    double *at;        /* [k, dim + 1] the rows at which the gradient is computed */
    double *gradient;  /* [k, dim + 1] */
    double *rows;      /* [k, dim + 1] the rows after the last step */
    double *before;    /* [k, dim + 1] the rows before the last step */
} descent;

static pl_status residuals_of_points(void *context, size_t item, int thread)
{
    const descent *w = context;
    const discriminate_job *job = w->job;
    const int k = job->k, dim = job->dim;
    size_t first = item * POINTS_A_ITEM;
    (void)thread;
    for (size_t i = first; i < job->n && i < first + POINTS_A_ITEM; ++i) {
        const float *point = job->points + i * (size_t)dim;
        const double *scores = job->scores + i * (size_t)k;
        double *r = w->residuals + i * (size_t)k, most = -INFINITY, sum = 0.0;
        int best = 0;
        for (int c = 0; c < k; ++c) {
            const double *row = w->at + (size_t)c * w->columns;
            r[c] = row[dim];
            for (int d = 0; d < dim; ++d)
                r[c] += row[d] * (double)point[d];
            most = fmax(most, r[c]);
            best = scores[c] > scores[best] ? c : best;
        }
        for (int c = 0; c < k; ++c)
            sum += exp(r[c] - most);
        /* The term of the largest r[c] is exp(0) = 1, so the sum is at least 1 even
         * without fmax. fmax only shows this to cppcheck, which takes the sum for 0. */
        double log_sum = most + log(fmax(sum, 1.0)), loss = 0.0;
        for (int c = 0; c < k; ++c) {
            const double target = (double)(c == best); /* 1 for the best class */
            loss -= target * (r[c] - log_sum);
            r[c] = exp(r[c] - log_sum) - target;
        }
        w->losses[i] = loss;
    }
    return PL_OK;
}

static pl_status gradient_of_row(void *context, size_t c, int thread)
{
    const descent *w = context;
    const discriminate_job *job = w->job;
    size_t dim = (size_t)job->dim, k = (size_t)job->k;
    double *g = w->gradient + c * w->columns;
    const double *row = w->at + c * w->columns;
    (void)thread;
    memset(g, 0, w->columns * sizeof *g);
    for (size_t i = 0; i < job->n; ++i) {
        const float *point = job->points + i * dim;
        double r = w->residuals[i * k + c];
        for (size_t d = 0; d < dim; ++d)
            g[d] += r * (double)point[d];
        g[dim] += r;
    }
    for (size_t d = 0; d <= dim; ++d)
        g[d] = g[d] / (double)job->n + (d < dim ? job->decay * row[d] : 0.0);
    return PL_OK;
}

/* Computes f at `at`, but not the gradient. *loss gets f without the decay term. */
static pl_status measure_descent(descent *w, double *f, double *loss)
{
    const discriminate_job *job = w->job;
    size_t n_items = (job->n + POINTS_A_ITEM - 1) / POINTS_A_ITEM;
    double squares = 0.0;
    PL_CHECK(pl_parallel(job->n_threads, n_items, residuals_of_points, w));
    *loss = 0.0;
    for (size_t i = 0; i < job->n; ++i)
        *loss += w->losses[i];
    *loss /= (double)job->n;
    for (size_t c = 0; c < (size_t)job->k; ++c)
        for (size_t d = 0; d < (size_t)job->dim; ++d) {
            double value = w->at[c * w->columns + d];
            squares += value * value;
        }
    *f = *loss + 0.5 * job->decay * squares;
    return PL_OK;
}

pl_status discriminate_fit(const discriminate_job *job, double *residuals, float *rows,
                           double *loss)
{
    descent w = {.job = job, .columns = (size_t)job->dim + 1, .residuals = residuals};
    const size_t n = (size_t)job->k * w.columns, bytes = n * sizeof(double);
    double squares = 0.0, f = 0.0, last = INFINITY;
    int momentum = 0;
    pl_status status;
    PL_TRY(pl_try_alloc((4 * n + job->n) * sizeof(double), "fitting a linear router",
                        (void **)&w.at));
    w.gradient = w.at + n;
    w.rows = w.gradient + n;
    w.before = w.rows + n;
    w.losses = w.before + n;
    for (size_t i = 0; i < job->n * (size_t)job->dim; ++i)
        squares += (double)job->points[i] * (double)job->points[i];
    /* the upper bound of the curvature */
    const double most = 0.5 * (squares / (double)job->n + 1.0) + job->decay;
    double steep = most / GUESS;
    for (int step = 0; step < job->iterations; ++step) {
        double along = (double)momentum / (momentum + 3);
        for (size_t i = 0; i < n; ++i)
            w.at[i] = w.rows[i] + along * (w.rows[i] - w.before[i]);
        PL_TRY(measure_descent(&w, &f, loss));
        if (f > last) {
            steep = fmin(2.0 * steep, most);
            /* f has risen: repeats the step without momentum, from the rows after the
             * last step */
            if (momentum > 0) {
                momentum = 0;
                last = INFINITY;
                memcpy(w.before, w.rows, bytes);
                continue;
            }
        }
        last = f;
        PL_TRY(pl_parallel(job->n_threads, (size_t)job->k, gradient_of_row, &w));
        memcpy(w.before, w.rows, bytes);
        for (size_t i = 0; i < n; ++i)
            w.rows[i] = w.at[i] - w.gradient[i] / steep;
        momentum++;
    }
    memcpy(w.at, w.rows, bytes);
    PL_TRY(measure_descent(&w, &f, loss));
    for (size_t i = 0; i < n; ++i)
        rows[i] = (float)w.rows[i];
done:
    pl_free(w.at);
    return status;
}
