/* Private to workers: when a fleet of unequal workers will have finished some tasks.
 * Pure functions, which the hub (hub_pace.c) and tests use. */
#pragma once
#include "base/base.h"

/* A worker that takes one task after the other. Both times are in seconds. */
typedef struct fleet_member {
    double free_s; /* time until the worker can begin another task; 0: it is idle */
    double task_s; /* time that the worker needs for a task, above 0 */
} fleet_member;

/* Returns the smallest time by which the members can have finished n_tasks tasks, if
 * every task goes to the member that finishes it first (list scheduling). It is the
 * time t with sum over members of floor((t - free_s) / task_s) >= n_tasks, and so a
 * member that needs longer than t for its next task gets none. INFINITY if there is no
 * member; 0 for no task. */
double fleet_horizon(const fleet_member *members, int n, int64_t n_tasks);

/* Notes that the members have taken the tasks which fleet_horizon has divided among
 * them: each member's free_s becomes the time when its last task is done. */
void fleet_assign(fleet_member *members, int n, double horizon_s);

/* Returns the median of n values, the lower one of two; 0 if n is 0. Changes their
 * order. */
double fleet_median(double *values, int n);
