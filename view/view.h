/* The public header of view: shows runs to people. This folder reads runs and changes
 * nothing.
 *
 * Its headers: page (the data that a browser shows of a run, and the report of a run as
 * one file), history (a row per finished phase), observe (the merged logs of all
 * processes). They use: page_log (reads event logs), page_heat (compares versions),
 * html (draws without scripts). */
#pragma once
#include "view/run_history.h"
#include "view/observe.h"
#include "view/page.h"
