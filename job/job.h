/* The door of job: the stages of `pathloom train`, and the functions by which other
 * verbs use its run folder.
 *
 * Read in this order: config (the keys), dial (keys from a time), run (the folder),
 * run_plan (memory and disk), run_processes (hub, homes, workers), stages (data, base
 * model, routing, arms), progress, evaluate, report, artifacts (the parts of a run that
 * answer prompts), store_homes (a store that homes may hold), run_homes (homes are
 * added and removed), page (what a browser shows of a run).
 */
#ifndef PL_JOB_JOB_H
#define PL_JOB_JOB_H
#include "job/config.h"
#include "job/dial.h"
#include "job/evaluate.h"
#include "job/page.h"
#include "job/routing.h"
#include "job/run.h"
#endif
