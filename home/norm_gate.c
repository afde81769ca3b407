/* Remembers the norms of a module's newest contributions and computes their median
 * (norm_gate.h). home_gate.c compares the norm of a new update with the median. */
#include "home/norm_gate.h"

#include <stdlib.h>
#include <string.h>

void norm_gate_note(norm_gate *gate, double norm)
{
    gate->norms[gate->n_noted++ % NORM_GATE_MEMORY] = norm;
}

static int compare_norms(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double norm_gate_usual(const norm_gate *gate)
{
    double sorted[NORM_GATE_MEMORY];
    size_t n = gate->n_noted < NORM_GATE_MEMORY ? gate->n_noted : NORM_GATE_MEMORY;
    if (n < NORM_GATE_LEAST)
        return 0;
    memcpy(sorted, gate->norms, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare_norms);
    return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}
