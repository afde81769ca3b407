/* The door of job: what `pathloom train` does, and what others ask of its run folder.
 *
 * Read in this order: config (the keys), run (the folder), run_plan (memory and disk),
 * run_processes (hub, homes, workers), stages (data, base model, routing, arms),
 * progress, evaluate, report, artifacts (what a finished run answers with).
 */
#ifndef PL_JOB_JOB_H
#define PL_JOB_JOB_H
#include "job/config.h"
#include "job/evaluate.h"
#include "job/routing.h"
#include "job/run.h"
#endif
