/* The door of job: the stages of `pathloom train`, and the functions by which other
 * verbs use its run folder.
 *
 * Read in this order: config (the keys), given (what a command line gives), dial (keys
 * from a time), run (the folder), run_plan (memory and disk), run_processes (hub,
 * homes, workers), process and process_roles (one of these processes), stages (data,
 * base model, routing, arms), chapters, progress, evaluate, report, worker_times (how
 * workers spent their time), artifacts (the files and objects with which a run answers
 * prompts), text_route (which path answers a text), store_homes (access to a store that
 * running homes have locked), run_homes (adding and removing homes), phase_history (the
 * training of every path in every phase) and module_lineage (which versions a module
 * got), both from the records of versions, check (the invariants of a stopped run),
 * forget and forgotten (documents that are taken out of a run), bisect (since when a
 * text is worse predicted), card (the model card of an exported path). */
#ifndef PL_JOB_JOB_H
#define PL_JOB_JOB_H
#include "job/bisect.h"
#include "job/card.h"
#include "job/check.h"
#include "job/config.h"
#include "job/curves.h"
#include "job/dial.h"
#include "job/evaluate.h"
#include "job/forget.h"
#include "job/given.h"
#include "job/module_lineage.h"
#include "job/phase_history.h"
#include "job/process.h"
#include "job/routing.h"
#include "job/run.h"
#include "job/text_route.h"
#include "job/worker_times.h"
#endif
