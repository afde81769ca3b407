/* When a fleet of unequal workers will have finished some tasks (fleet.h). */
#include "workers/fleet.h"

#include <math.h>

/* The times are measured, so a task that ends this fraction of a time too late still
 * counts: without it, rounding errors would decide between equal workers. */
static const double slack = 1e-5;

static double n_done(const fleet_member *m, double until_s)
{
    const double n = floor((until_s - m->free_s) / m->task_s + slack);
    return n > 0 ? n : 0;
}

double fleet_horizon(const fleet_member *members, int n, int64_t n_tasks)
{
    const double exact_s = 1e-6;
    double low = 0, high = INFINITY;
    if (n_tasks < 1)
        return 0;
    for (int i = 0; i < n; i++) {
        const double alone = members[i].free_s + members[i].task_s * (double)n_tasks;
        high = alone < high ? alone : high;
    }
    /* one task goes to the member that is done with it first */
    while (n_tasks > 1 && isfinite(high) && high - low > exact_s * (1 + high)) {
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

/* Quickselect (Hoare): moves the values so that the one with rank k is at k. */
double fleet_median(double *values, int n)
{
    const int k = (n - 1) / 2;
    for (int first = 0, last = n - 1; first < last;) {
        const double pivot = values[first + (last - first) / 2];
        int i = first, j = last;
        while (i <= j) {
            while (values[i] < pivot)
                i++;
            while (values[j] > pivot)
                j--;
            if (i > j)
                break;
            const double moved = values[i];
            values[i++] = values[j];
            values[j--] = moved;
        }
        if (k <= j)
            last = j;
        else if (k >= i)
            first = i;
        else
            break;
    }
    return n > 0 ? values[k] : 0;
}
