/* When a fleet of unequal workers will have finished some tasks (fleet.h). */
#include "workers/fleet.h"

#include <math.h>
#include <stdlib.h>

/* The times are measured, so a task that ends this fraction of a time too late still
 * counts: without it, rounding errors would decide between equal workers. */
static const double slack = 1e-9;

static double n_done(const fleet_member *m, double until_s)
{
    const double n = floor((until_s - m->free_s) / m->task_s + slack);
    return n > 0 ? n : 0;
}

double fleet_horizon(const fleet_member *members, int n, int64_t n_tasks)
{
    enum { HALVINGS = 60 };
    double low = 0, high = INFINITY;
    if (n_tasks < 1)
        return 0;
    for (int i = 0; i < n; i++) {
        const double alone = members[i].free_s + members[i].task_s * (double)n_tasks;
        high = alone < high ? alone : high;
    }
    for (int i = 0; i < HALVINGS && isfinite(high); i++) {
        const double middle = 0.5 * (low + high);
        double done = 0;
        for (int k = 0; k < n && done < (double)n_tasks; k++)
            done += n_done(&members[k], middle);
        if (done >= (double)n_tasks)
            high = middle;
        else
            low = middle;
    }
    return high;
}

void fleet_assign(fleet_member *members, int n, double horizon_s)
{
    for (int i = 0; i < n; i++)
        members[i].free_s += members[i].task_s * n_done(&members[i], horizon_s);
}

static int compare_times(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double fleet_median(double *values, int n)
{
    if (n > 0)
        qsort(values, (size_t)n, sizeof *values, compare_times);
    return n > 0 ? values[(n - 1) / 2] : 0;
}
