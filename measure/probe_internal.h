/* Private to the probe: what its files share. They are probe (rounds and sums),
 * probe_ops (the operations and their operands) and probe_train (the step). */
#pragma once
#include "measure/probe.h"

/* ---- the operations ---- */

typedef struct probe_ops probe_ops;
/* Allocates the operands, and writes the rows of `report` without their times. */
pl_status probe_ops_create(pl_backend *be, const pl_probe_options *options,
                           pl_probe_report *report, probe_ops **out);
void probe_ops_destroy(probe_ops **ops);
void probe_ops_call(probe_ops *ops, int row);
/* Measures the bytes per second of an operation that only reads, and of an operation
 * that reads and writes. Their arrays are far larger than any cache. *rate gets the
 * larger number. */
pl_status probe_ops_memory(probe_ops *ops, double *rate);

/* ---- the step ---- */

typedef struct probe_train probe_train;
pl_status probe_train_create(pl_backend *be, const pl_probe_options *options,
                             probe_train **out);
void probe_train_destroy(probe_train **train);
pl_status probe_train_step(probe_train *train);
uint64_t probe_train_params(const probe_train *train);

/* Returns the seconds of this thread's processor time (cpu_clock), or monotonic. */
double probe_now(const pl_probe_options *options);
