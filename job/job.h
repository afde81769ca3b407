/* The public header of job: the stages of `pathloom train`, and the functions by which
 * other commands use a run folder.
 *
 * Read in this order: run (the run folder), run_plan (memory and disk), run_processes
 * (hub, homes, workers), process and process_roles (how one of these processes runs),
 * stages (data, base model, routing, arms), chapters, progress,
 * evaluate, report, worker_times (how workers spent their time), artifacts (the files
 * and objects with which a run answers prompts), text_route (which path answers a
 * text), store_homes (access to a store that running homes have locked), run_homes
 * (another number of homes), check (the invariants of a stopped run), forget and
 * forgotten (documents that are removed from a run), bisect (from which phase on a text
 * is predicted worse), card (the model card of an exported path). */
#pragma once
#include "job/bisect.h"
#include "job/card.h"
#include "job/check.h"
#include "job/curves.h"
#include "job/evaluate.h"
#include "job/forget.h"
#include "job/process.h"
#include "job/routing.h"
#include "job/run.h"
#include "job/text_route.h"
#include "job/worker_times.h"
